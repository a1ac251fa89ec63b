/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs driver, shared by its files.
 *
 *   verbs.c    the operations: open, close, progress, arm
 *   device.c   the RDMA device of a board, and what it can do
 *   cm.c       connections: rdma_cm and its events
 *   paths.c    paths, their queue pairs and what is under way on them
 *   packets.c  send, receive buffers, credits
 *   rma.c      get, put, registrations
 *
 * A path is one reliable connection. Addresses that the two sides exchange
 * beforehand hold a random token each; the side with the greater one connects
 * and presents the other's. All paths of an endpoint share one completion queue
 * and one queue of receive buffers, so each grants the other side only as many
 * credits as there are buffers.
 */
#ifndef TW_VERBS_H
#define TW_VERBS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "base/cursor.h"
#include "base/list.h"
#include "base/slots.h"
#include "providers/net/driver.h"

#define TW_VERBS_PACKET 8448  /* longest packet, without our head */
#define TW_VERBS_GROW 64      /* receive buffers posted at a time */
#define TW_VERBS_BUFFERS 8192 /* receive buffers at most, as far as they are needed */
#define TW_VERBS_SQ 320	      /* work requests of a path: all that the session layer keeps, */
#define TW_VERBS_SQ_LOW 64    /* but only this many where there are more paths than */
#define TW_VERBS_DEEP 16
#define TW_VERBS_SQ_RMA 16  /* transfers among them */
#define TW_VERBS_SIGNAL 16  /* one of so many short packets is signaled */
#define TW_VERBS_CHAIN 8    /* packets handed over at once */
#define TW_VERBS_INLINE 512 /* bytes that travel in the work request, where possible */
#define TW_VERBS_SGE 4	    /* pieces of a work request at most */
#define TW_VERBS_CQ_BATCH 32
#define TW_VERBS_REPOST 8	  /* used buffers that are posted at once */
#define TW_VERBS_SHARE_MIN 4	  /* packets that every peer may send, whatever others do */
#define TW_VERBS_SHARE_MAX 288	  /* more than the session layer keeps for a peer */
#define TW_VERBS_PIECES 4	  /* of a transfer under way at a time */
#define TW_VERBS_PIECE (1u << 20) /* bytes registered at a time */
#define TW_VERBS_CM_LOOKS 1024	  /* polls between two looks for connection events */

/* How every packet begins on the wire. */
struct tw_verbs_head {
	uint32_t granted; /* credits of the receiver, counted from the beginning */
	uint32_t magic;
} TW_WIRE;
_Static_assert(sizeof(struct tw_verbs_head) == 8, "wire format");

/* The address of a path, exchanged by the session layer. */
struct tw_verbs_address {
	uint32_t magic, name;
	uint64_t token;
	struct sockaddr_in6 to; /* or a sockaddr_in */
} TW_WIRE;
_Static_assert(sizeof(struct tw_verbs_address) <= TW_DRIVER_ADDRESS, "it fits");

/* Private data of rdma_cm, both ways; 56 bytes at most. */
struct tw_verbs_hello {
	uint32_t magic, name; /* of the path that it is for */
	uint64_t token;	      /* that path's */
	uint64_t from;	      /* the sender's */
	uint32_t granted;
	uint32_t call; /* how often the caller has called */
} TW_WIRE;
_Static_assert(sizeof(struct tw_verbs_hello) == 32, "wire format");

#define TW_VERBS_MAGIC 0x74777662u
#define TW_VERBS_RECV (1ull << 63) /* in a wr_id: a buffer's number; else path and place */

struct tw_verbs;

/* A packet, sent or received; its memory also carries small pieces of a transfer. */
struct tw_verbs_packet {
	struct tw_net_packet packet;
	struct tw_verbs_head head;
};
_Static_assert(offsetof(struct tw_verbs_packet, head) + sizeof(struct tw_verbs_head) ==
		       sizeof(struct tw_verbs_packet),
	       "the packet follows its head");

static inline uint32_t tw_verbs_lkey(const struct tw_verbs_packet *k)
{
	return ((struct ibv_mr *)k->packet.slab->handle)->lkey;
}

/* Part of a transfer: one work request. */
struct tw_verbs_piece {
	struct tw_verbs_rma *rma;
	bool open;
	struct tw_cursor from;
	size_t len;
	struct tw_verbs_packet *buf; /* copied through it, or registered: */
	struct ibv_mr *mr[TW_VERBS_SGE];
	unsigned nmr;
};

struct tw_verbs_rma {
	struct tw_list node;	    /* of v->rmas */
	struct tw_list more;	    /* of p->waiting while there is more to post */
	struct tw_verbs_path *path;
	void *cookie;
	bool put;
	enum tw_err err;
	uint64_t address;
	uint32_t rkey;
	unsigned open; /* pieces under way */
	struct tw_cursor next; /* what is posted next */
	size_t left;
	struct tw_verbs_piece pieces[TW_VERBS_PIECES];
	struct iovec iov[];
};

enum tw_verbs_state {
	TW_VERBS_NEW, /* not connected yet */
	TW_VERBS_UP,
	TW_VERBS_DOWN, /* broken */
};

/* The purpose of a work request; both NULL for an inline send. */
struct tw_verbs_sqe {
	struct tw_verbs_packet *packet;
	struct tw_verbs_piece *piece;
};

struct tw_verbs_path {
	struct tw_verbs *v;
	struct tw_list node;	   /* of v->paths */
	struct tw_list credit_due; /* of v->credit_due: credits are to be advertised */
	struct tw_list broken;	   /* of v->broken: to be reported */
	struct tw_list waiting;	   /* transfers with more to post */
	enum tw_verbs_state state;
	uint32_t name, other_name; /* slot and generation */
	uint64_t token, other_token;
	bool bound, calls;
	bool accounted;		/* it has a share of the credits */
	struct sockaddr_in6 to; /* the other end; or a sockaddr_in */
	uint32_t call;		/* the number of calls so far */
	unsigned ticks;		/* since that one */
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct tw_verbs_path *next_qp; /* of the same hash */
	/* The send queue: everything before tail is over. */
	struct tw_verbs_sqe sq[TW_VERBS_SQ];
	uint32_t head, tail;
	unsigned depth;	     /* of the send queue */
	unsigned nrma;	     /* work requests for transfers */
	unsigned unsignaled; /* in a row */
	/* Packets that wait for the doorbell. */
	struct ibv_send_wr chain[TW_VERBS_CHAIN];
	struct ibv_sge sge[TW_VERBS_CHAIN];
	unsigned nchain;
	/* Credits, all counted from the beginning. */
	uint32_t sent, limit;		    /* by this side, which may send until limit */
	uint32_t granted, advertised, used; /* to the other side, told to it, and used by it */
};

/* Capabilities of the device. */
struct tw_verbs_limits {
	unsigned sq, sge, sge_read, srq, cqe;
	uint32_t inline_max;
	uint32_t message; /* bytes of a work request */
	uint8_t reads_in, reads_out;
	bool iwarp;
};

struct tw_verbs {
	struct tw_driver_host host;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct sockaddr_storage addr; /* with the listener's port */
	struct ibv_context *ctx; /* our own: what librdmacm keeps open does not survive a fork */
	struct tw_verbs_limits limits;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	int epfd;  /* of both channels and the timer */
	int timer; /* ticks while something connects */
	bool ticking;
	bool cm_activity; /* a call or an answer came since the last tick */
	unsigned unacked; /* events of the completion channel */
	/* Paths by name, and by queue pair. */
	struct tw_list paths;
	struct tw_slots table;
	uint32_t serial;
	struct tw_verbs_path *by_qp[256];
	unsigned nsq;	 /* work requests of all queue pairs */
	unsigned npaths; /* with a queue pair or soon to have one */
	unsigned connecting;
	unsigned looks; /* polls since the last check for connection events */
	bool gone;	/* the device was removed */
	struct tw_list credit_due, broken;
	/* Buffers. */
	struct tw_verbs_packet **rx; /* by number */
	unsigned nrx, reserved;	     /* receive buffers, and how many are reserved */
	uint32_t repost[TW_VERBS_CQ_BATCH], from[TW_VERBS_CQ_BATCH];
	unsigned nrepost;
	struct tw_list rmas;
	/* Completions read but not handled: the engine was not ready. */
	struct ibv_wc wc[TW_VERBS_CQ_BATCH];
	int nwc, next_wc;
};

/* device.c: finds the device, listens; TW_EUNREACH with the reason logged. */
enum tw_err tw_verbs_device_open(struct tw_verbs *v);

/* cm.c */
bool tw_verbs_call(struct tw_verbs_path *p);
/* Starts the timer while something connects, so that calls are repeated; or stops it. */
void tw_verbs_tick(struct tw_verbs *v);
void tw_verbs_cm_events(struct tw_verbs *v);
/* A path is connected. */
void tw_verbs_path_up(struct tw_verbs_path *p, uint32_t granted);

/* paths.c */
enum tw_err tw_verbs_path_new(void *instance, const struct sockaddr_storage *board,
			      const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			      void **path);
enum tw_err tw_verbs_path_bind(void *path, const struct tw_driver_address *other);
void tw_verbs_path_free(void *path);
struct tw_verbs_path *tw_verbs_path_find(struct tw_verbs *v, uint32_t name);
struct tw_verbs_path *tw_verbs_path_of_qp(struct tw_verbs *v, uint32_t qp_num);
bool tw_verbs_qp_make(struct tw_verbs_path *p);
/* Moves the queue pair on, as the connection says. */
bool tw_verbs_qp_move(struct tw_verbs_path *p, enum ibv_qp_state to);
/* A path is broken; progress() reports that. */
void tw_verbs_path_down(struct tw_verbs_path *p, const char *why);
/* Drops the connection attempt of a path; another one may follow. */
void tw_verbs_path_anew(struct tw_verbs_path *p);
/* Neither side's hardware uses memory for it any more. */
void tw_verbs_qp_end(struct tw_verbs_path *p);
/* Everything up to that work request is over, the last one with that status. */
void tw_verbs_sq_done(struct tw_verbs_path *p, uint32_t last, enum ibv_wc_status status);
/* Notes what a new work request is for; its wr_id. */
uint64_t tw_verbs_sq_next(struct tw_verbs_path *p, struct tw_verbs_packet *packet,
			  struct tw_verbs_piece *piece);

/* packets.c */
enum tw_err tw_verbs_send(void *path, struct tw_net_packet *packet, bool more);
bool tw_verbs_slab_reg(void *instance, struct tw_net_slab *slab);
void tw_verbs_slab_dereg(struct tw_net_slab *slab);
struct tw_verbs_packet *tw_verbs_packet_get(struct tw_verbs *v, bool big);
/* False: to be offered again. */
bool tw_verbs_received(struct tw_verbs *v, const struct ibv_wc *wc);
/* Posts used buffers again. Advertises credits in time. */
void tw_verbs_repost(struct tw_verbs *v);
void tw_verbs_credit_flush(struct tw_verbs *v);
/* A head alone, which grants credits and shows that the path is up; false: not now. */
bool tw_verbs_send_empty(struct tw_verbs_path *p);
/* The first credits of a peer; false: none are left. */
bool tw_verbs_credit_begin(struct tw_verbs_path *p);
void tw_verbs_credit_end(struct tw_verbs_path *p);
/* Posts the packets of the chain. */
bool tw_verbs_doorbell_ring(struct tw_verbs_path *p);
bool tw_verbs_rx_grow(struct tw_verbs *v);

/* rma.c */
enum tw_err tw_verbs_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
			 uint64_t address, const void *key, uint32_t key_len, void *cookie);
void tw_verbs_cancel(void *instance, void *cookie);
enum tw_err tw_verbs_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			     struct tw_driver_mr *mr);
void tw_verbs_mem_dereg(void *instance, struct tw_driver_mr *mr);
void tw_verbs_piece_done(struct tw_verbs *v, struct tw_verbs_piece *piece,
			 enum ibv_wc_status status);
/* Posts more of the transfers that have more. */
void tw_verbs_rma_pump(struct tw_verbs_path *p);
/* The queue pair is gone: its transfers are over. */
void tw_verbs_rma_orphan(struct tw_verbs_path *p);

#endif /* TW_VERBS_H */
