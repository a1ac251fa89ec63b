/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tcp driver, shared by its files: packets and remote memory over one connection
 * for each path, without a library, one system call for a packet and no copies of
 * its own.
 *
 *   tcp.c     the operations: open, close, progress, arm
 *   paths.c   paths: connecting and ending
 *   encrypt.c encryption, by the kernel or by OpenSSL
 *   out.c     sending along a path
 *   in.c      receiving along a path
 *   rma.c     get, put, registrations
 */
#ifndef TW_TCP_H
#define TW_TCP_H

#include <sys/epoll.h>

#include "base/cursor.h"
#include "base/list.h"
#include "providers/net/driver.h"

#define TW_TCP_MAGIC 0x74777463u
#define TW_TCP_MAGIC_SESSION 0x74777473u /* instead, of a side that can encrypt by OpenSSL only */
/*
 * Bytes that a key encrypts, then its path ends. RFC 8446, 5.5, allows 2^38.5 in full records. The
 * shortest records, of a head, take up to twice as many blocks of the cipher as they have of data.
 */
#define TW_TCP_KEY_BYTES ((int64_t)1 << 37)
#define TW_TCP_PACKET ((uint32_t)TW_DRIVER_PACKET)
#define TW_TCP_CHUNK (1024u << 10) /* of a transfer: packets may go in between */
#define TW_TCP_OUT (80u << 10)	   /* bytes queued while the system takes no more */
#define TW_TCP_HELD 64		   /* packets that leave together */
#define TW_TCP_IN (128u << 10)
#define TW_TCP_BOARDS 8
#define TW_TCP_CALLERS 64 /* without a complete hello */
#define TW_TCP_IOV 16
#define TW_TCP_SERVED                                                                              \
	1024 /* reads of the other side at once: many times what the session layer starts */

/* The address of a path's end. */
struct tw_tcp_address {
	uint32_t magic;
	uint8_t to[28]; /* a sockaddr_in or sockaddr_in6 */
} TW_WIRE;
_Static_assert(sizeof(struct tw_tcp_address) == 32, "wire format");

/*
 * The first bytes of a caller, the side whose tokens say so. They are never encrypted. If a
 * session of OpenSSL follows, the bits of the second are inverted.
 */
struct tw_tcp_hello {
	uint8_t to[TW_DRIVER_TOKEN], from[TW_DRIVER_TOKEN];
};

enum tw_tcp_kind {
	TW_TCP_PACKET_IS = 0x7c01, /* len bytes follow */
	TW_TCP_READ,		   /* total bytes are wanted from address; nothing follows */
	TW_TCP_DATA,		   /* len bytes of them follow */
	TW_TCP_WRITE,		   /* len bytes for address follow */
	TW_TCP_WRITE_LAST,	   /* and are the last of that transfer */
	TW_TCP_ENDED,		   /* a transfer has ended; address holds the result */
};

struct tw_tcp_head {
	uint32_t len, kind;
	uint64_t id; /* of the transfer, chosen by the side that began it */
	uint64_t address, key, total;
} TW_WIRE;
_Static_assert(sizeof(struct tw_tcp_head) == 40, "wire format");

/* The subject of an epoll event. */
enum tw_tcp_what { TW_TCP_LISTENER, TW_TCP_CALLER, TW_TCP_PATH, TW_TCP_CALLING };

/* Registered memory. */
struct tw_tcp_mr {
	uint64_t base, len, key;
	unsigned rights; /* enum tw_mem_rights */
};

/* A transfer that this side began. */
struct tw_tcp_op {
	struct tw_list node; /* of its path */
	void *cookie;
	uint64_t id, left;
	bool put;
	struct tw_cursor to; /* of a get: where the rest goes */
	struct iovec iov[];
};

/* Memory that is being sent, here read by the other side or put there by this one. */
struct tw_tcp_job {
	struct tw_list node;
	uint64_t id, left;
	uint64_t address, key; /* of a put: where the rest goes */
	struct tw_tcp_op *op;  /* of a put */
	struct tw_tcp_mr *mr;  /* of a get */
	struct tw_cursor from;
	struct iovec own; /* of a get */
};

/* A packet, or without one a head or hello that ends where the packet would begin. */
struct tw_tcp_packet {
	struct tw_net_packet packet;
	struct tw_tcp_packet *next; /* in the queue of its path */
	uint32_t left;		    /* bytes that have not left yet, the last ones */
	struct tw_tcp_head head;
};
_Static_assert(offsetof(struct tw_tcp_packet, head) + sizeof(struct tw_tcp_head) ==
		       sizeof(struct tw_tcp_packet),
	       "the packet follows its head");

/* Where it listens. */
struct tw_tcp_board {
	enum tw_tcp_what what;
	int listener;
	struct sockaddr_storage addr;
};

struct tw_tcp_path {
	enum tw_tcp_what what;
	struct tw_tcp *t;
	const struct tw_tcp_board *board;
	struct tw_list node;  /* of t->paths, or of t->freed_paths */
	struct tw_list busy;  /* of t->busy while something waits to leave */
	struct tw_list stuck; /* of t->stuck while something received was not passed on */
	bool freed;
	bool tx_shutdown; /* nothing more is sent */
	bool ended;	  /* nothing more is received */
	bool reported;	  /* and the session layer was told */
	bool tuned;	  /* its round trip is known */
	int fd;
	int reserved; /* kept free for the other side's call, or -1 */
	int calling;  /* what is TW_TCP_CALLING: before its hello, or a handshake ends; or -1 */
	bool watched_out;
	/* Sending: the rest of a piece of memory, then the queue, then the next piece. */
	struct tw_tcp_job *job;
	struct tw_tcp_head job_head;
	size_t head_left, job_left;
	struct tw_tcp_packet *out, **out_end;
	unsigned nout;
	size_t out_len; /* in bytes */
	struct tw_list jobs;
	unsigned serving; /* jobs that the other side asked for */
	/* Receiving: the rest of a piece for memory, and bytes not parsed yet. */
	uint64_t in_left;
	uint32_t in_kind;
	uint64_t in_id;
	struct tw_tcp_op *in_op; /* the get whose memory it is for */
	struct tw_tcp_mr *in_mr; /* or the registration, at in_to; neither: dropped */
	char *in_to;
	char *in;
	size_t in_at, in_len;
	bool expected; /* another piece for memory follows this one */
	struct tw_list ops;
	unsigned nreads; /* of these, not yet answered in full */
	struct tw_driver_tokens tokens;
	int64_t key_left; /* bytes that its key may encrypt yet */
	bool by_session;  /* OpenSSL encrypts, not the kernel */
	void *session;	  /* it, once the hello has passed */
	uint8_t *text;	  /* what it encrypts next */
};

/* A connection whose hello is not complete yet. */
struct tw_tcp_caller {
	enum tw_tcp_what what;
	struct tw_tcp *t;
	struct tw_list node;
	int fd;
	uint64_t until; /* a tick */
	size_t len;
	struct tw_tcp_hello hello;
};

struct tw_tcp {
	struct tw_driver_host host;
	struct tw_tcp_board boards[TW_TCP_BOARDS]; /* the first is that of open() */
	unsigned nboards;
	int epfd;
	unsigned ncallers, looks;
	unsigned nopen; /* connections of paths */
	struct tw_list paths, busy, stuck, callers, freed_paths;
	struct tw_tcp_path *recent; /* the last one that received something */
	uint64_t next_id;
	void *mrs;	    /* a tree, see tsearch(3) */
	bool accept_paused; /* out of descriptors: nothing is accepted */
	bool ending;	    /* some path has ended and was not reported yet */
	bool no_tls;	    /* the kernel has no TLS */
	bool said_ports;    /* that the range of ports is used up */
	int64_t key_bytes;  /* TW_TCP_KEY_BYTES, or a test's */
};

static inline bool tw_tcp_stuck(const struct tw_tcp_path *p)
{
	return !tw_list_empty(&p->stuck);
}

/* tcp.c: listens on a board; NULL if it cannot. */
struct tw_tcp_board *tw_tcp_board(struct tw_tcp *t, const struct sockaddr_storage *at);

/* paths.c */
enum tw_err tw_tcp_path_new(void *instance, const struct sockaddr_storage *board,
			    const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			    void **path);
enum tw_err tw_tcp_path_bind(void *path, const struct tw_driver_address *other);
void tw_tcp_path_free(void *path);
/* Ends the path; the next progress reports it. */
void tw_tcp_end(struct tw_tcp_path *p);
/* Gives up its memory and descriptors. */
void tw_tcp_path_shut(struct tw_tcp_path *p);
/* Once connected: chooses options by the round-trip time. */
void tw_tcp_tune(struct tw_tcp_path *p);
void tw_tcp_accept(struct tw_tcp *t);
uint64_t tw_tcp_expire(void *instance, uint64_t now);
void tw_tcp_read_hello(struct tw_tcp_caller *c);
/* A path in state CALLING is connected, or cannot be. */
void tw_tcp_called(struct tw_tcp_path *p);
void tw_tcp_caller_free(struct tw_tcp *t, struct tw_tcp_caller *c);
int tw_tcp_watch(struct tw_tcp *t, int op, int fd, uint32_t events, void *what);

/*
 * encrypt.c: from here on the kernel makes records of what is sent, and takes nothing else in. So
 * it is between the hello and all that follows: neither side has sent or read any of that yet.
 */
bool tw_tcp_encrypt(struct tw_tcp_path *p);
/* A session over the connection, whose handshake tw_tcp_session_shake() goes on with. */
bool tw_tcp_session(struct tw_tcp_path *p, int fd, bool calls);
enum tw_err tw_tcp_session_shake(struct tw_tcp_path *p);
void tw_tcp_session_end(struct tw_tcp_path *p);
/* As sendmsg(2); after a part or EAGAIN the same bytes come first in the next call. */
ssize_t tw_tcp_session_send(struct tw_tcp_path *p, const struct iovec *iov, unsigned n);
/* As recv(2); what did not fit is left behind, see tw_tcp_session_pending(). */
ssize_t tw_tcp_session_recv(struct tw_tcp_path *p, void *data, size_t len);
/* Whether it has bytes for which no event comes. */
bool tw_tcp_session_pending(const struct tw_tcp_path *p);

/* out.c */
enum tw_err tw_tcp_send(void *path, struct tw_net_packet *packet, bool more);
/* Sends as much as the system takes. */
void tw_tcp_flush(struct tw_tcp_path *p);
/* A head or hello of ours; false if there is no memory or too much waits already. */
bool tw_tcp_queue(struct tw_tcp_path *p, const void *bytes, size_t len);
/* Nothing more leaves. Data that the other end sent before is still read. */
void tw_tcp_shutdown_tx(struct tw_tcp_path *p);

/* in.c */
/* Receives. */
void tw_tcp_read(struct tw_tcp_path *p);
/* Parses the bytes received. */
void tw_tcp_parse(struct tw_tcp_path *p);

/* rma.c */
enum tw_err tw_tcp_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, uint32_t key_len, void *cookie);
void tw_tcp_cancel(void *instance, void *cookie);
enum tw_err tw_tcp_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			   struct tw_driver_mr *mr);
void tw_tcp_mem_dereg(void *instance, struct tw_driver_mr *mr);
/* The registration that allows this; NULL: none does. */
struct tw_tcp_mr *tw_tcp_mr_find(struct tw_tcp *t, uint64_t key, enum tw_mem_rights right,
				 uint64_t address, uint64_t len);
struct tw_tcp_op *tw_tcp_op_find(struct tw_tcp_path *p, uint64_t id, bool put);
/* Ends an access. */
void tw_tcp_op_over(struct tw_tcp_path *p, struct tw_tcp_op *op, enum tw_err err);
/* Handles a READ. */
void tw_tcp_serve(struct tw_tcp_path *p, const struct tw_tcp_head *h);
void tw_tcp_send_ended(struct tw_tcp_path *p, uint64_t id, enum tw_err err);
void tw_tcp_job_free(struct tw_tcp_path *p, struct tw_tcp_job *job);

#endif /* TW_TCP_H */
