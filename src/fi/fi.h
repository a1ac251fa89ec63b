/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tagwire as a provider of libfabric: an RDM endpoint is an endpoint of the engine.
 *
 *   prov.c   what libfabric loads, fabrics     send.c    sends
 *   info.c   fi_getinfo()                      recv.c    receives, peek and claim
 *   domain.c domains                           multi.c   buffers for many messages
 *   addr.c   addresses and their strings       drain.c   completed requests become events
 *   av.c     address vectors                   cq.c      completion queues
 *   ep.c     endpoints                         cntr.c    counters
 *   dest.c   connecting                        wait.c    sleeping
 *   mr.c     registered memory                 sets.c    wait sets, poll sets
 *   rma.c    reads and writes of it            eq.c      event queues
 *   report.c what is said to its owner         atomic.c  atomics on it
 *
 * Lock order: that of all sets (sets.c), the domain's, a waiter's, the endpoint's of the engine,
 * then a queue's. The service thread never takes a queue's: it only connects and signals
 * (tw_fi_background).
 */
#ifndef TW_FI_H
#define TW_FI_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include "base/libfabric.h"
#include "engine/engine.h"
#include "engine/window.h"

#define TW_FI_NAME "tagwire"
#define TW_FI_VERSION FI_VERSION(0, 1)
#define TW_FI_FILTER 0x74776669u /* of its endpoints: those of MX do not connect to them */
/* Format of binary addresses, struct tw_fi_addr. */
#define TW_FI_ADDR (TW_LIBFABRIC_PROV_SPECIFIC | 0x7477u)
#define TW_FI_ADDR_LEN 64 /* longest string */
#define TW_FI_INJECT 4096 /* longest inject */
#define TW_FI_IOVS 16	  /* pieces of a message */
#define TW_FI_DEPTH 65536 /* operations of an endpoint in one direction, by default */
#define TW_FI_DEPTH_MAX (1u << 20)
#define TW_FI_CQ_SIZE 65536 /* events, by default */
#define TW_FI_MULTI_MIN 64  /* room of a buffer for many messages below which it is released */
/* Of a match value: the message has no tag. */
#define TW_FI_UNTAGGED (1ull << 63)
#define TW_FI_TAG_FORMAT 0x5555555555555555ull
/* Capabilities that let a receive name its source. */
#define TW_FI_DIRECTED (FI_DIRECTED_RECV | TW_LIBFABRIC_DIRECTED_2)

#define TW_FI_IDS 1024	     /* endpoint ids, from 0, as MX's */
#define TW_FI_ANY UINT32_MAX /* number of an endpoint that is still to be opened */

/* An address as fi_getname() gives it. */
struct tw_fi_addr {
	uint64_t nic_id;
	uint32_t endpoint_id, pad;
} TW_WIRE;
_Static_assert(sizeof(struct tw_fi_addr) == 16, "programs exchange it");

static inline uint64_t tw_fi_where(const struct tw_fi_addr *a)
{
	return a->nic_id << 16 | a->endpoint_id;
}

extern struct fi_provider tw_fi_provider;

/* prov.c: tells a user who sets FI_LOG_LEVEL=info why something was refused. */
void tw_fi_explain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As fi_cq_strerror() of an error of libfabric: in buf, if there is one. */
const char *tw_fi_text(int err, char *buf, size_t len);

/* References to an object, which cannot be closed meanwhile. */
typedef _Atomic(int) tw_fi_refs;

struct tw_fi_fabric {
	struct fid_fabric fid;
	tw_fi_refs refs;
};

struct tw_fi_domain {
	struct fid_domain fid;
	struct tw_fi_fabric *fabric;
	tw_fi_refs refs;
	uint32_t board, addr_format;
	uint64_t caps;
	bool single; /* the program lets one thread at a time into the domain */
	bool basic;  /* FI_MR_BASIC: remote addresses are virtual ones, see tw_fi_offset() */
	struct tw_fi_eq *eq;
	bool mr_events;		/* registering is reported to the event queue */
	_Atomic(bool) mr_waits; /* a counter of memory has a descriptor, or had */
	pthread_mutex_t mutex;	/* taken before the endpoints' locks */
	struct tw_list eps;	/* enabled ones: each has all memory as windows */
	pthread_mutex_t keys;	/* taken last; of the list of memory */
	struct tw_list mrs;
};

/* Registered memory. */
struct tw_fi_mr {
	struct fid_mr fid;
	struct tw_list link; /* of the domain */
	struct tw_fi_domain *domain;
	void *base;
	size_t len;
	unsigned rights;		   /* of a window; 0: only for local use */
	struct tw_fi_cntr *reads, *writes; /* of peers, or NULL */
};

#define TW_FI_BASE_BITS 48 /* of an address, in the keys of FI_MR_BASIC */

/* A thread waits for it; endpoints feed it. */
struct tw_fi_waiter {
	struct tw_fi_domain *domain;
	tw_fi_refs refs;
	struct tw_lock lock; /* of what follows; taken before the endpoints' */
	struct tw_fi_ep **eps;
	_Atomic(unsigned) neps;
	struct tw_pollable on; /* not open: nobody can wait */
	enum fi_wait_obj obj;
	/* A thread may sleep on it. The first event after that makes it ready and clears this. */
	_Atomic(bool) armed;
	_Atomic(uint32_t) signals, answered; /* of fi_cq_signal(), and those that somebody saw */
	struct fid_wait *set;
	struct tw_list polled; /* its places in poll sets */
	/* There is something that a thread has not seen that has seen this (a counter's sum). */
	bool (*ready)(struct tw_fi_waiter *w, uint64_t seen);
	_Atomic(uint64_t) seen; /* by the program's last look: for its own sleep on fd */
};

struct tw_fi_waitset {
	struct fid_wait fid;
	struct tw_fi_fabric *fabric;
	tw_fi_refs refs;
	int epfd;
	struct tw_fi_waiter *members[64];
	unsigned n;
};

/* The first fields are those of every format of an entry. */
struct tw_fi_event {
	struct fi_cq_tagged_entry e;
	union {
		fi_addr_t source; /* of a message, or FI_ADDR_NOTAVAIL */
		uint64_t olen;	  /* of an error, or */
		uint64_t where;	  /* of FI_EADDRNOTAVAIL */
	};
	int err, prov_errno;
};
_Static_assert(sizeof(struct tw_fi_event) == 64, "a cache line");

struct tw_fi_cq {
	struct fid_cq fid;
	struct tw_fi_waiter w;
	size_t entry; /* bytes of an entry of its format */
	struct tw_lock lock;
	struct tw_fi_event *ring;
	uint32_t size, head, n;
	char err_data[TW_FI_ADDR_LEN]; /* of the last error that was read */
};

struct tw_fi_cntr {
	struct fid_cntr fid;
	struct tw_fi_waiter w;
	_Atomic(uint64_t) value, errors;
};

struct tw_fi_eq {
	struct fid_eq fid;
	struct tw_fi_waiter w;
	pthread_mutex_t mutex;
	struct tw_list events;
	struct tw_fi_fabric *fabric;
	bool writable;
};

/* An address; those of one address are in a ring, those not in use in a list. */
struct tw_fi_av_entry {
	uint64_t where;	     /* 0: not in use */
	uint32_t next, last; /* next of the list: fi_addr_t + 1, or 0 */
};

struct tw_fi_av {
	struct fid_av fid;
	struct tw_fi_domain *domain;
	struct tw_fi_eq *eq;
	tw_fi_refs refs;
	pthread_mutex_t mutex;
	struct tw_fi_av_entry *entries; /* by fi_addr_t */
	uint32_t n, max, unused;	/* unused: fi_addr_t + 1 of the first, or 0 */
	uint32_t *hash;			/* fi_addr_t + 1 of the first entry of an address, 0 free */
	uint32_t buckets;
	uint64_t flags;
	struct tw_list eps; /* under the domain's lock */
};

enum tw_fi_dest_state { TW_FI_DEST_NONE, TW_FI_DEST_CONNECTING, TW_FI_DEST_HELD, TW_FI_DEST_UP };

/* Another endpoint, as one of ours knows it. */
struct tw_fi_dest {
	struct tw_addr addr; /* valid if up or held */
	uint8_t state;
	int8_t due;  /* to an injected operation: positive, the end of the connect; or its error */
	bool fenced; /* held until nothing is under way to it */
	uint64_t where;
	struct tw_source *from; /* of directed receives, or NULL */
	struct tw_list pending; /* what waits for the connection; held: for writes to end */
};

/* Bits of an operation, kept in tw_req.user. */
enum tw_fi_bits {
	TW_FI_NOTIFY = 1, /* a success is an event */
	TW_FI_TAGGED = 2,
	TW_FI_IMM = 4,
	TW_FI_SYNC = 8,	      /* ends when delivered */
	TW_FI_COPIED = 16,    /* the caller's memory is free at once */
	TW_FI_MULTI = 32,     /* into a buffer for many messages: context is struct tw_fi_multi */
	TW_FI_FETCH = 64,     /* an atomic that returns something */
	TW_FI_PARTS = 128,    /* to several places: context is struct tw_fi_parts */
	TW_FI_KEEP = 256,     /* an atomic that changes nothing */
	TW_FI_REPORTED = 512, /* a peer's access that ended */
	TW_FI_WRITES = 1024,  /* sends stay behind it */
	TW_FI_RELEASE = 2048, /* the end of a buffer for many messages, without one */
	TW_FI_FENCE = 4096    /* begins when nothing is under way to that peer */
};

/* One operation: a send, or an access to the memory of another. */
struct tw_fi_op {
	const struct tw_seg *segs;
	uint32_t nsegs, len;
	enum tw_kind kind;
	uint32_t bits; /* enum tw_fi_bits */
	fi_addr_t to;
	uint64_t match, imm; /* match: or the key of the memory, and */
	uint64_t offset;     /* where in it */
	void *context;
};

enum tw_fi_count {
	TW_FI_CSEND,
	TW_FI_CRECV,
	TW_FI_CREAD,
	TW_FI_CWRITE,
	TW_FI_CRREAD,
	TW_FI_CRWRITE,
	TW_FI_NCNTRS
};

struct tw_fi_ep {
	struct fid_ep fid;
	uint64_t handle; /* the engine's */
	struct tw_fi_dest **dests;
	uint32_t ndests;	   /* 0 until enabled */
	uint32_t tx_bits, rx_bits; /* of calls without flags */
	struct tw_fi_cq *tx_cq, *rx_cq;
	struct tw_fi_cntr *cntrs[TW_FI_NCNTRS];
	bool counts;	   /* any of them is bound, or FI_SOURCE_ERR: events take the slow path */
	bool tx_slow_path; /* sends count, or are not to overtake what is under way or waits */
	bool directed, enabled, ordered;	   /* ordered: FI_ORDER_SAW */
	uint32_t ntx, nrx, tx_size, rx_size;	   /* under way, and most of it */
	uint32_t ncopied, nwrites, nheld, nfenced; /* nheld, and nfenced of them: destinations */
	uint64_t caps, tx_flags, rx_flags;
	bool tx_selective, rx_selective;
	struct tw_fi_domain *domain;
	struct tw_list in_domain;
	struct tw_fi_av *av;
	struct tw_fi_eq *eq;
	struct tw_list in_av;
	struct tw_list multis; /* buffers for many messages, in order */
	struct tw_list full_multis;
	struct tw_list held; /* receives behind them */
	struct tw_list claimed;
	size_t multi_min;
	struct tw_fi_addr name;
};

#define tw_fi_of(type, ptr) tw_container(ptr, type, fid)
#define tw_fi_from(type, ptr) tw_container(ptr, type, fid.fid)

/* The queues and counters that an endpoint feeds, by number; NULL: it has none there. */
#define TW_FI_NFED (2 + TW_FI_NCNTRS)
static inline struct tw_fi_waiter *tw_fi_fed(const struct tw_fi_ep *e, unsigned i)
{
	struct tw_fi_cq *cq = i == 0 ? e->tx_cq : i == 1 ? e->rx_cq : NULL;
	struct tw_fi_cntr *c = i >= 2 ? e->cntrs[i - 2] : NULL;

	return cq ? &cq->w : c ? &c->w : NULL;
}

static inline bool tw_fi_feeds(const struct tw_fi_ep *e, const struct tw_fi_waiter *w)
{
	for (unsigned i = 0; i < TW_FI_NFED; i++)
		if (tw_fi_fed(e, i) == w)
			return true;
	return false;
}

/* Of accesses without flags. */
static inline uint32_t tw_fi_notify(const struct fid_ep *fid)
{
	return tw_fi_of(struct tw_fi_ep, fid)->tx_bits & TW_FI_NOTIFY;
}

static inline struct tw_ep *tw_fi_enter(const struct tw_fi_ep *e)
{
	return tw_enter(e->handle);
}

/* info.c */
int tw_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		  const struct fi_info *hints, struct fi_info **info);
/*
 * An info from a program that opens something: it may have changed since tw_fi_getinfo(). Makes
 * one with it as the hints; -FI_EINVAL: tw_fi_getinfo() would refuse these hints.
 */
int tw_fi_info_check(const struct tw_fi_fabric *f, uint32_t board, const struct fi_info *info,
		     struct fi_info **checked);

/* domain.c */
int tw_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		      void *context);
int tw_fi_no_control(struct fid *fid, int command, void *arg);
int tw_fi_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* mr.c */
extern struct fi_ops_mr tw_fi_mr_ops;
/* All memory of its domain is a window of the endpoint, until it leaves. */
int tw_fi_mr_join(struct tw_fi_ep *e);
void tw_fi_mr_leave(struct tw_fi_ep *e);
/* The counters of the memory of that key, if it has one for reads or for writes of peers. */
void tw_fi_mr_count(struct tw_fi_domain *d, uint64_t key, bool read, bool written);

/* rma.c, atomic.c */
extern struct fi_ops_rma tw_fi_rma_ops;
extern struct fi_ops_atomic tw_fi_atomic_ops;
extern struct fi_ops_collective tw_fi_coll_ops;
int tw_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
		       struct fi_atomic_attr *attr, uint64_t flags);
/* Where in the memory of a key a remote address is. */
static inline uint64_t tw_fi_offset(const struct tw_fi_ep *e, uint64_t address, uint64_t key)
{
	return e->domain->basic ? address - (key & ((1ull << TW_FI_BASE_BITS) - 1)) : address;
}
/* An atomic with results in several places is over; returns its context. */
void *tw_fi_parts_done(void *context, bool good);

/* report.c; the endpoint is entered */
/* Reports the end of an access to the owner of the memory, if that is due (TW_X_REPORT). */
void tw_fi_report(struct tw_ep *ep, struct tw_req *r);
/* Upcalls of the engine. */
void tw_fi_reported(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data,
		    uint32_t len);
enum tw_err tw_fi_notified(struct tw_ep *ep, struct tw_peer *p, uint64_t datum, uint32_t len);

/* addr.c */
/* As fi_av_straddr() does in that format: as snprintf(), or -1 if it has no address there. */
int tw_fi_addr_print(uint32_t format, const struct tw_fi_addr *addr, char *text, size_t len);
/* Of a host name, or an address as any of these strings, and a number of an endpoint. */
int tw_fi_resolve(const char *node, const char *service, struct tw_fi_addr *addr);
/* Whether so many bytes hold an address of that format. */
bool tw_fi_addr_whole(uint32_t format, const void *from, size_t len);
/* Reads an address of a format, and how long it is. */
int tw_fi_addr_take(uint32_t format, const void *from, size_t *used, struct tw_fi_addr *a);
/* Copies an address out in a format. -FI_ETOOSMALL, and the length that is needed. */
int tw_fi_addr_give(uint32_t format, const struct tw_fi_addr *a, void *addr, size_t *len);

/* av.c */
int tw_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		  void *context);
uint64_t tw_fi_av_where(struct tw_fi_av *av, fi_addr_t addr);
/* FI_ADDR_NOTAVAIL if it is not there. */
fi_addr_t tw_fi_av_find(struct tw_fi_av *av, uint64_t where);

/* ep.c */
int tw_fi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		  void *context);
/* Whether sends are usual. */
void tw_fi_tx_choose(struct tw_fi_ep *e);
extern struct fi_ops_msg tw_fi_msg_ops;
extern struct fi_ops_tagged tw_fi_tagged_ops;

/* dest.c; the endpoint is entered */
/* The one of a fi_addr_t; NULL if there is none. */
struct tw_fi_dest *tw_fi_dest_get(struct tw_fi_ep *e, fi_addr_t addr);
static inline struct tw_fi_dest *tw_fi_dest(struct tw_fi_ep *e, fi_addr_t addr)
{
	return tw_likely(addr < e->ndests && e->dests[addr]) ? e->dests[addr]
							     : tw_fi_dest_get(e, addr);
}
/*
 * Whether an injected operation may begin: 0, -FI_EAGAIN while a host is being connected, or why
 * that failed. It has no context by which an error entry could name it.
 */
int tw_fi_dest_ask(struct tw_ep *ep, struct tw_fi_dest *d);
/* Begins when the peer is connected. */
void tw_fi_dest_begin(struct tw_ep *ep, struct tw_fi_dest *d, struct tw_req *r);
/* Whether others wait for this request: until the peer is connected, or has all writes. */
static inline bool tw_fi_for_dest(const struct tw_req *r)
{
	return r->kind == TW_CONNECT || r->kind == TW_FLUSH;
}
/* One of those has ended. */
void tw_fi_dest_ready(struct tw_ep *ep, struct tw_req *r);
/* Whether a send waits for writes (FI_ORDER_SAW). Only if the endpoint has some. */
bool tw_fi_dest_holds(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_dest *d);
/* Goes on behind fences. Only if the endpoint has some. */
void tw_fi_dests_go_on(struct tw_fi_ep *e, struct tw_ep *ep);
/* The address was removed. */
void tw_fi_dest_drop(struct tw_fi_ep *e, fi_addr_t addr);
/* Takes one that waits there out, by its context; NULL: there is none. */
struct tw_req *tw_fi_dests_take(struct tw_fi_ep *e, const void *context);
/* Gives up those that wait for a connection. */
void tw_fi_dests_abandon(struct tw_fi_ep *e);
void tw_fi_dests_free(struct tw_fi_ep *e);

/* multi.c; the endpoint is entered */
struct tw_fi_multi;
ssize_t tw_fi_multi_post(struct tw_fi_ep *e, struct tw_ep *ep, void *buf, size_t len, void *context,
			 uint64_t where);
/* Moves messages that wait into the buffers. */
void tw_fi_multi_fill(struct tw_fi_ep *e, struct tw_ep *ep);
/* A message is in its buffer: fills in the event. */
void tw_fi_multi_done(struct tw_req *r, struct tw_fi_event *event);
/* 0, -FI_ENOENT, or -FI_ENOMEM. */
int tw_fi_multi_cancel(struct tw_fi_ep *e, struct tw_ep *ep, void *context);
void tw_fi_multi_free(struct tw_fi_ep *e);

/* The flags of all calls of an endpoint without flags. */
#define TW_FI_TX_FLAGS                                                                             \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MORE | FI_MATCH_COMPLETE)
#define TW_FI_RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_MORE)

/* send.c */
/*
 * The pieces of the caller's memory that are not empty, at most TW_FI_IOVS. More than a message
 * can have is cut off, or else -FI_EMSGSIZE.
 */
int tw_fi_pieces(struct tw_seg *segs, const struct iovec *iov, size_t count, bool cut, uint32_t *n,
		 uint32_t *len);
/* The flags of a call that has some. */
int tw_fi_op_flags(const struct tw_fi_ep *e, uint64_t flags, uint32_t *bits);
/* Begins it; of an atomic the request is made already. */
ssize_t tw_fi_op_begin(struct tw_fi_ep *e, const struct tw_fi_op *op, const struct tw_atomic *a);

/* recv.c: the calls of libfabric */
ssize_t tw_fi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		     fi_addr_t from, uint64_t tag, uint64_t ignore, void *context);
ssize_t tw_fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		    uint64_t tag, uint64_t ignore, void *context);
ssize_t tw_fi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags);
ssize_t tw_fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		    fi_addr_t from, void *context);
ssize_t tw_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		   void *context);
ssize_t tw_fi_recvmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags);

/* Posts a receive that was held back. */
void tw_fi_recv_post(struct tw_ep *ep, struct tw_req *r, uint64_t where);
ssize_t tw_fi_cancel(fid_t fid, void *context);
/* Of an endpoint that is closed: messages that were never received. */
void tw_fi_claimed_drop(struct tw_fi_ep *e);

/* cq.c */
int tw_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		  void *context);
static inline bool tw_fi_cq_room(const struct tw_fi_cq *cq)
{
	return cq->n < cq->size;
}
/* The next entry, to be filled in; there is room, and the lock is held. */
static inline struct tw_fi_event *tw_fi_cq_next(struct tw_fi_cq *cq)
{
	uint32_t at = cq->head + cq->n++;

	return &cq->ring[at < cq->size ? at : at - cq->size];
}
/* Takes the lock itself; false without room. */
bool tw_fi_cq_put(struct tw_fi_cq *cq, const struct tw_fi_event *event);

/* cntr.c */
int tw_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		    void *context);
void tw_fi_cntr_count(struct tw_fi_cntr *c, bool error);
static inline uint64_t tw_fi_cntr_sum(struct tw_fi_cntr *c)
{
	return atomic_load(&c->value) + atomic_load(&c->errors);
}
static inline void tw_fi_count(struct tw_fi_ep *e, enum tw_fi_count which, bool error)
{
	if (tw_unlikely(e->counts && e->cntrs[which]))
		tw_fi_cntr_count(e->cntrs[which], error);
}

/* eq.c */
int tw_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		  void *context);
/* For an object that has none yet. */
int tw_fi_eq_bind(struct tw_fi_eq **eq, struct fid *other);
/* err: 0, or this is for fi_eq_readerr(). */
void tw_fi_eq_put(struct tw_fi_eq *eq, uint32_t event, fid_t fid, void *context, uint64_t data,
		  int err);

/* wait.c */
int tw_fi_wait_init(struct tw_fi_waiter *w, struct tw_fi_domain *domain, enum fi_wait_obj obj,
		    struct fid_wait *set, bool (*ready)(struct tw_fi_waiter *w, uint64_t seen));
/* 0, or -FI_EBUSY: somebody refers to it. */
int tw_fi_wait_fini(struct tw_fi_waiter *w);
int tw_fi_wait_add(struct tw_fi_waiter *w, struct tw_fi_ep *e);
void tw_fi_wait_remove(struct tw_fi_waiter *w, struct tw_fi_ep *e);
/* Makes progress at all endpoints of w. */
void tw_fi_wait_look(struct tw_fi_waiter *w);
/* As tw_fi_wait_look(), under the lock of w. */
void tw_fi_wait_poll(struct tw_fi_waiter *w);
/* Something has happened at one of its endpoints, which is entered. */
void tw_fi_wake(struct tw_fi_waiter *w);
/* As tw_fi_wake(), where no endpoint is entered. */
void tw_fi_wake_all(struct tw_fi_waiter *w);
static inline bool tw_fi_armed(const struct tw_fi_waiter *w)
{
	return atomic_load_explicit(&w->armed, memory_order_relaxed);
}
static inline void tw_fi_woken(struct tw_fi_waiter *w)
{
	if (tw_unlikely(tw_fi_armed(w)) && atomic_exchange(&w->armed, false))
		tw_fi_wake(w);
}
/*
 * Sleeps until it is ready for one that has seen this, or something else has changed: 0. At that
 * tick, or after fi_cq_signal(): -FI_EAGAIN. Or -FI_EINTR.
 */
int tw_fi_wait(struct tw_fi_waiter *w, uint64_t seen, uint64_t end);
/* fi_control() of what can be waited for, and of wait sets. */
int tw_fi_wait_control(struct fid *fid, int command, void *arg);
int tw_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
/* Before sleeping on the descriptor: false if there is something already that is not seen. */
bool tw_fi_arm(struct tw_fi_waiter *w, uint64_t seen);
/* Of a queue or a counter; NULL for anything else. */
struct tw_fi_waiter *tw_fi_waiter_of(struct fid *fid);
/* The tick at which so many milliseconds are over; TW_FOREVER: never, if they are negative. */
uint64_t tw_fi_end(int timeout);
/* The same, or sooner: when a thread that sleeps is to look whether it is cancelled. */
uint64_t tw_fi_look(uint64_t end);
/* Sleeps on an armed descriptor, at most until then: 0, -FI_ETIMEDOUT, -FI_EINTR. */
int tw_fi_sleep(int fd, uint64_t end);

/* sets.c */
int tw_fi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
int tw_fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
/* Adds w to its wait set, if it has one. */
int tw_fi_sets_join(struct tw_fi_waiter *w);
/* Removes w from its set. */
void tw_fi_sets_leave(struct tw_fi_waiter *w);
/* Arms all that are in a wait set: 0, or -FI_EAGAIN if there is something already. */
int tw_fi_waitset_arm(struct tw_fi_waitset *s);

#endif /* TW_FI_H */
