/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared memory provider, between its own files.
 *
 *   shm.c      the operations: open, close, send, get, progress, arm
 *   links.c    links and their place in the poll set
 *   conn.c     the handshake over a local socket; a peer's process that ends
 *   hello.c    its messages
 *   doorbell.c waking the peer, goodbyes and hang-ups
 *   names.c    names of sockets
 *   remote.c   memory of the other process
 */
#ifndef TW_SHM_H
#define TW_SHM_H

#include <sys/types.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "base/list.h"
#include "providers/provider.h"
#include "shmem/ring.h"
#include "shmem/sock.h"

#define TW_SHM_HALF_MAX 64	 /* most connections without a hello */
#define TW_SHM_REVOKE_US 1000000 /* the longest wait for a write of a peer */

/* A message of the handshake, in host byte order. */
struct tw_shm_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t kind; /* enum tw_shm_kind */
	uint64_t nic_id;
	uint32_t endpoint_id, session, filter, presented, window;
	uint32_t nslots, nbytes; /* geometry of both rings, from the initiator */
	uint32_t barrier;	 /* reached by tw_barrier_processes() */
	uint32_t why;		 /* enum tw_err of a refusal */
	uint32_t narrow;	 /* TW_NARROW of the sender */
	uint64_t cookie_at;	 /* address of tw_shm_ep.cookie in the sender */
};
_Static_assert(sizeof(struct tw_shm_hello) == 64, "wire format");

#define TW_SHM_MAGIC 0x74776d31u /* "twm1" */
#define TW_SHM_VERSION 15

enum tw_shm_kind { TW_SHM_CONNECT = 1, TW_SHM_ACCEPT, TW_SHM_REFUSE };

enum tw_shm_state {
	TW_SHM_RETRY,	/* the listener's queue was full */
	TW_SHM_WAITING, /* hello sent, no reply yet */
	TW_SHM_HALF,	/* accepted, waiting for the hello */
	TW_SHM_UP,
	TW_SHM_DRAIN, /* the peer is gone, its packets are not all taken */
	TW_SHM_DEAD,  /* to be reaped */
};

struct tw_shm_ep;

struct tw_shm_link {
	struct tw_link link;
	struct tw_shm_ep *ep;
	enum tw_shm_state state;
	bool blocked;		 /* a send found no space */
	bool closing;		 /* the peer said goodbye */
	bool unrung;		 /* a doorbell that is due could not be rung */
	enum tw_err why;	 /* the reason, while draining */
	uint32_t left;		 /* packets that may be left in its ring */
	struct tw_list deferred; /* on the endpoint's list while a doorbell is deferred */
	uint32_t deferred_head;	 /* it rings if the packet before this position is unread */
	uint64_t due;		 /* at this tick */
	uint32_t blocked_len, blocked_reserve; /* of the smallest packet that found no space */
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
	uint64_t rang;	  /* the peer's last poll at the last ring, 0 never */
	unsigned at;	  /* its place in host->rxqs */
	uint32_t seen_tail;   /* position of rx at the last tw_shm_deactivate_idle() */
	uint32_t shrink_head; /* position of that ring at the last check */
	void *map;
	size_t map_size;
	int sock, pidfd;
	uint64_t cookie, cookie_at; /* the peer's */
	uint64_t alive_at;	    /* a tick at which its pid was its own */
	struct tw_watch sock_watch, pid_watch;
	struct tw_list node; /* pending or dead */
	uint64_t deadline;
	struct tw_ident me;
	uint64_t to_nic;
	uint32_t to_eid;
};

extern const struct tw_provider tw_provider_shm;

struct tw_shm_ep {
	struct tw_host *host;
	struct tw_watch listen_watch;
	struct tw_sock_listener listener;
	uint64_t listen_again; /* tick at which to accept again, 0 now */
	uint64_t cookie;       /* peers read it with our memory, to know that it is ours */
	uint32_t armed;	       /* the state of the endpoint, if peers must ring; else 0 */
	unsigned max_up;       /* room in host->rxqs.rx, which has the links in use */
	unsigned polls;		 /* calls of progress() */
	uint64_t polled_at;	 /* tick of a recent poll */
	uint64_t shrink_at;	 /* tick of the next check of grown rings, 0 none */
	uint32_t shrink_us;	 /* between two of them */
	uint64_t close_by;	 /* closing: no peer is waited for after this tick */
	struct tw_ring_share share; /* of the rings of all links */
	struct tw_list deferred;    /* links to check again, see doorbell.c */
	struct tw_list pending;	 /* links that are not up */
	struct tw_list dead;
};

/* names.c: 0 or an enum tw_err; descriptors are non-blocking and CLOEXEC. */
enum tw_err tw_shm_listen(uint64_t nic_id, uint32_t endpoint_id, struct tw_sock_listener *l);
/* The process that has the name of an endpoint, or 0. */
pid_t tw_shm_holder(uint64_t nic_id, uint32_t endpoint_id);
/* TW_AGAIN when the listener's queue is full; TW_EPERM: another user's, which was logged. */
enum tw_err tw_shm_dial(uint64_t nic_id, uint32_t endpoint_id, int *fd);
/* As tw_shm_dial(), in another network namespace. TW_EUNREACH: TAGWIRE_DIR does not have it. */
enum tw_err tw_shm_dial_shared(uint64_t nic_id, uint32_t endpoint_id, int *fd);

/* conn.c */
/* A segment of two rings, with their first pages. */
enum tw_err tw_shm_segment_make(uint32_t nslots, uint32_t nbytes, int *fd, void **map);
enum tw_err tw_shm_conn_listen(struct tw_shm_ep *ep);
enum tw_err tw_shm_conn_start(struct tw_shm_link *l);
uint64_t tw_shm_conn_expire(struct tw_shm_ep *ep, uint64_t now);

/*
 * hello.c: a CONNECT comes with one descriptor, of the rings, the others (fd NULL) with none.
 * TW_AGAIN when there is none to read.
 */
void tw_shm_hello_fill(const struct tw_shm_ep *ep, struct tw_shm_hello *h, enum tw_shm_kind kind,
		       const struct tw_ident *me);
enum tw_err tw_shm_hello_send(int sock, const struct tw_shm_hello *h, const int *fd);
enum tw_err tw_shm_hello_recv(int sock, struct tw_shm_hello *h, int *fd);

/* doorbell.c */
void tw_shm_goodbye(struct tw_shm_link *l);
/* Reads the socket: doorbells, goodbyes, a hang-up. */
void tw_shm_doorbells_read(struct tw_shm_link *l, uint32_t events);
/* Rings, unless that was done since the peer's last poll. False: check again later. */
bool tw_shm_doorbell_ring(struct tw_shm_link *l);
/* The peer must act on the last packet: rings later if it is not read. */
void tw_shm_doorbell_defer(struct tw_shm_link *l);
/* Rings where a deferred doorbell is due, and the packet was not read. */
void tw_shm_flush_deferred(struct tw_shm_ep *ep, uint64_t now);
/* The tick at which to check them again, 0 none. */
uint64_t tw_shm_deferred_due(const struct tw_shm_ep *ep);
/* The tick of the peer's last poll that it has shown. */
uint64_t tw_shm_polled_at(const struct tw_shm_link *l);

/*
 * shm.c: the peer has rung. Reads its ring at once, as the caller may poll only once and
 * the ring may be inactive.
 */
void tw_shm_doorbell_pending(struct tw_shm_link *l);

/* links.c */
struct tw_shm_link *tw_shm_link_new(struct tw_shm_ep *ep, enum tw_shm_state state);
/* Adds the link to the poll set. */
enum tw_err tw_shm_link_up(struct tw_shm_link *l);
/* Puts the link into the active set, which every poll reads, unless it drains. */
void tw_shm_activate(struct tw_shm_link *l);
void tw_shm_deactivate(struct tw_shm_link *l);
/* Leaves there only those with a packet since the last call. */
void tw_shm_deactivate_idle(struct tw_shm_ep *ep);
/* Closes its descriptors: nothing wakes this side for it any more. */
void tw_shm_link_close_fds(struct tw_shm_link *l);
/* Takes a link out of use. The next progress frees it. */
void tw_shm_link_end(struct tw_shm_link *l);
/* As tw_shm_link_end(), for a peer that violates the protocol: does not wait for its writes. */
void tw_shm_link_drop(struct tw_shm_link *l);
/* A ring has grown (tw_ring_grown). Its memory is released when it is idle. */
void tw_shm_grown(struct tw_shm_ep *ep);
/* Releases the memory of idle rings. Returns the tick of the next check, or 0. */
uint64_t tw_shm_shrink(struct tw_shm_ep *ep, uint64_t now);
/* Frees the links that have ended. */
void tw_shm_reap(struct tw_shm_ep *ep);

/* One of the links in use. */
static inline struct tw_shm_link *tw_shm_link_at(const struct tw_shm_ep *ep, unsigned i)
{
	return tw_container(ep->host->rxqs.rx[i], struct tw_shm_link, rx);
}

/*
 * The peer of a link may know of this side how it sleeps, and when it polled: in the control
 * words of the ring that it writes. A doorbell rung before this does not count for packets that
 * come after the barrier of shm_do_arm(), which orders both.
 */
static inline void tw_shm_show_armed(struct tw_shm_link *l, uint64_t now)
{
	tw_ring_show_poll(&l->rx, now);
	/* [armed] */
	atomic_store_explicit(&l->rx.ring->reader.armed, l->ep->armed, memory_order_relaxed);
}

/* True if the link is in the poll set. */
static inline bool tw_shm_in_use(const struct tw_shm_link *l)
{
	return l->state == TW_SHM_UP || l->state == TW_SHM_DRAIN;
}

/* remote.c */
enum tw_err tw_shm_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie);

/* shm.c: a packet of this class was written: rings the peer if it must. */
void tw_shm_written(struct tw_shm_link *l, enum tw_send_class cls);
/* True if the other side still has the link. */
bool tw_shm_alive(const struct tw_shm_link *l);
/* Takes the remaining packets from the ring, then calls down(). */
void tw_shm_link_down(struct tw_shm_link *l, enum tw_err why);

#endif /* TW_SHM_H */
