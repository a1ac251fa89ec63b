/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's limits and structures; engine.h has what is done with them. */
#ifndef TW_TYPES_H
#define TW_TYPES_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/counters.h"
#include "base/list.h"
#include "base/log.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/match.h"
#include "engine/uses.h"
#include "engine/wire.h"
#include "naming/naming.h"
#include "providers/provider.h"
#include "providers/registry.h"
#include "shmem/ring.h"

#define TW_MAX_OPEN 2048 /* slots of open endpoints of a process */
#define TW_MAX_SEGMENTS 256
#define TW_RMA_MAX (1u << 20) /* bytes of one put or get */
/*
 * Bits of a request's handle: generation, number, slot of the endpoint. MX hands it out as a
 * pointer; with 32 bits a handle that is used after its request has ended may name a later one.
 */
#define TW_REQ_NUMBER (TW_NARROW ? 11 : 12) /* the lowest of the number */
#define TW_REQ_GEN (TW_NARROW ? 28 : 38)
#define TW_MAX_REQS (1u << (TW_REQ_GEN - TW_REQ_NUMBER))
#define TW_FAST_MAX 1024      /* bytes that always leave as one packet */
#define TW_CREDITS_DUE 2048   /* lines to return before a packet is sent for it */
#define TW_FOREVER UINT64_MAX /* a time limit that never comes */

/* An endpoint address as users hold it; compared as a whole. */
struct tw_addr {
	uint64_t where; /* NIC id << 16 | endpoint id */
	uint32_t session;
	uint32_t slot_peer; /* endpoint slot << 20 | peer index */
};

/* Word by word: a load that is wider than the stores before it would stall. */
static inline void tw_addr_copy(void *to, const struct tw_addr *from)
{
	uint64_t a, b;

	memcpy(&a, from, 8);
	memcpy(&b, (const char *)from + 8, 8);
	memcpy(to, &a, 8);
	memcpy((char *)to + 8, &b, 8);
}

static inline bool tw_addr_same(const struct tw_addr *a, const struct tw_addr *b)
{
	uint64_t x, y;

	memcpy(&x, &a->session, 8);
	memcpy(&y, &b->session, 8);
	return a->where == b->where && x == y;
}

/* As in an address. */
static inline uint64_t tw_where(const struct tw_ident *i)
{
	return i->nic_id << 16 | i->endpoint_id;
}

/* That a program asks for. A NIC id has 48 bits; a larger one is no NIC's, as 0 is not. */
static inline uint64_t tw_where_at(uint64_t nic_id, uint32_t endpoint_id)
{
	return (nic_id >> 48 ? 0 : nic_id << 16) | endpoint_id;
}

enum tw_status {
	TW_S_OK,
	TW_S_TRUNCATED,
	TW_S_CANCELLED,
	TW_S_CLOSED,
	TW_S_LOST,
	TW_S_BAD_SESSION,
	TW_S_BAD_KEY,
	TW_S_TIMEOUT,
	TW_S_UNKNOWN,
	TW_S_BAD_ENDPOINT,
	TW_S_REJECTED,
	TW_S_ABORTED,
	TW_S_NO_RESOURCES,
	TW_S_BAD_WINDOW, /* of one-sided accesses; see window.h */
	TW_S_OUT_OF_WINDOW,
	TW_S_NO_RIGHT,
	TW_NSTATUS
};

/* cause.c: why a connect ended so; *advice: what to do, or NULL. */
const char *tw_failure_cause(enum tw_status why, const char **advice);

/* How long messages go, by the settings. */
enum tw_rndv { TW_RNDV_AUTO, TW_RNDV_COPY, TW_RNDV_GET };

/* How the data of a message has gone. */
enum tw_proto { TW_PROTO_COPY, TW_PROTO_GET };

enum tw_kind {
	TW_SEND,
	TW_RECV,
	TW_CONNECT,
	TW_FLUSH, /* waits for puts and atomics: tw_window_flush() */
	TW_READ,
	TW_WRITE,
	TW_ATOMIC,
	TW_AM_SEND,
	TW_SENT /* of an interface that keeps requests for sends that leave at once */
};

enum tw_req_flags {
	TW_R_DONE = 1,
	TW_R_SYNC = 2,	 /* of a send: ends when matched; of a receive: its sender waits for that */
	TW_R_URGENT = 4, /* of a send: the other engine must act on it */
	TW_R_FORGOTTEN = 8,
	TW_R_POSTED = 16, /* in the matcher */
	TW_R_CLAIM = 32,  /* of a receive: into memory of the engine, see tw_req_claimed() */
	TW_R_ASKED = 64	  /* of a send: asked back, to end with r->status */
};

enum tw_req_extra {
	TW_X_IMM = 1,	   /* imm goes, or came, with the message; a put: see tw_window_notify() */
	TW_X_DIRECTED = 2, /* of a posted receive: in the matcher of its source */
	TW_X_LIMITED = 4,  /* of a send or receive: it has a time limit */
	TW_X_WINDOW = 8,   /* of an active message: of window.h */
	TW_X_REPLY = 16,   /* and counted in tw_peer.windows.due */
	TW_X_REPORT = 32, /* of an access that has ended: the owner asks to be told, see window.h */
	TW_X_LATER = 64,  /* of a connect: the other endpoint may be opened before the deadline */
	TW_X_SAYS = 128	  /* of a connect: who made it says why it fails */
};

struct tw_seg {
	char *ptr;
	uint32_t len;
};

/* Aligned like its pool. */
struct tw_req {
	struct tw_pool_obj obj;
	union {
		uint32_t outcome; /* as one word, see tw_req_ok */
		struct {
			uint8_t flags, status;
			uint16_t nsegs;
		};
	};
	uint8_t kind;	     /* enum tw_kind */
	uint8_t extra;	     /* enum tw_req_extra */
	uint8_t state;	     /* enum tw_transfer */
	uint8_t proto : 1;   /* enum tw_proto */
	uint8_t active : 1;  /* counted in nactive */
	uint8_t what : 6;    /* TW_X_WINDOW: enum tw_window_what */
	struct tw_list link; /* the one list it is on: of its peer, or done */
	struct tw_peer *peer;
	void *context;
	uint64_t match; /* as sent */
	/* -- */
	uintptr_t name;	   /* number and slot, as in the handle */
	uint64_t handle;   /* generation, number and slot; 0: forgotten */
	uint32_t len;	   /* of the segments */
	uint32_t msg_len;  /* as sent */
	uint32_t xfer_len; /* to deliver, then delivered */
	uint32_t at;	   /* bytes moved so far */
	union {
		struct tw_seg seg;   /* the only one */
		struct tw_seg *segs; /* of several: memory of their own */
	};
	struct tw_addr other; /* who sent the message, or to whom it goes, or is connected */
	/* -- */
	union {
		struct tw_posted posted; /* of a receive in the matcher */
		struct {		 /* of a long message, and of an access */
			struct tw_ref remote;
			uint64_t remote_address;
			uint64_t started; /* a put or atomic: the flushes before it */
			uint32_t gets;	/* in progress */
			uint8_t failed; /* enum tw_err of one of them */
			uint8_t tries;	/* of an access: how often it was refused */
			uint16_t asked; /* the same: pieces that wait for the owner's reply */
			uint32_t until; /* end of the receiver's own part */
			union {
				void *rma; /* remote key of a receive, registration of a send, or NULL */
				struct tw_import *import; /* of an access: what it goes to */
			};
		};
		struct {
			uint32_t presented;
			uint64_t deadline;
		} connect;
		struct {
			uint64_t number;
			uint32_t puts; /* before it, that have not ended */
		} flush;
	};
	union {
		uintptr_t peeked_by;	/* the thread whose peek returned it */
		struct tw_source *from; /* while posted: the only source */
		uint64_t imm; /* of a send: little-endian */
	};
	union {
		uint64_t limit; /* tick of its time limit: TW_X_LIMITED */
		uint64_t user;	/* of an interface without time limits */
	};
} tw_aligned_line;

/*
 * Outcomes of requests of one segment: of one that has succeeded and is not collected yet,
 * and of a receive that is in the matcher, or claims what it meets there.
 */
union tw_req_outcome {
	struct {
		uint8_t flags, status;
		uint16_t nsegs;
	};
	uint32_t outcome;
};
static const union tw_req_outcome tw_req_ok = {{TW_R_DONE, TW_S_OK, 1}};
static const union tw_req_outcome tw_req_posted = {{TW_R_POSTED, TW_S_OK, 1}};
static const union tw_req_outcome tw_req_posted_claim = {{TW_R_POSTED | TW_R_CLAIM, TW_S_OK, 1}};

enum tw_unexp_state {
	TW_U_WHOLE,	/* it counts in the sender's window */
	TW_U_PART,	/* the same; its fragments are arriving, see tw_peer.rx_unexp */
	TW_U_ANNOUNCED, /* the data is the remote key */
	TW_U_FETCHING,	/* being received, for whichever receive matches it */
	TW_U_FETCHED,
	TW_U_DROPPED /* it was FETCHING; its memory is the fetch's */
};

/* An unexpected message, or memory for one. */
struct tw_unexp_msg {
	struct tw_peer *peer; /* while it is no receive's; peer->addr is its source */
	uint32_t len, room;
	union {
		uint32_t slow_path; /* 0: whole, without a reply or immediate data */
		struct {
			uint16_t state; /* enum tw_unexp_state; no padding, which is unspecified */
			bool sync, has_imm;
		};
	};
	uint32_t key_len;	   /* ANNOUNCED: of the remote key */
	union {
		uint32_t have;		 /* PART: bytes received */
		uint64_t address; /* ANNOUNCED: of the sender's memory, 0 none */
		struct tw_req *receiver; /* FETCHING: the receive that has matched it, or NULL */
	};
	union {
		uint64_t probe_number; /* of the blocked probe that returned it, 0 none */
		uint64_t imm;
	};
	struct tw_unexp_msg *next; /* while unused, or its owner's */
	/* Its name is the reference of the sender if ANNOUNCED or sync. Last, as it is long. */
	struct tw_unexp unexp;
	/* The start of the message, or the key. */
	char data[] __attribute__((aligned(16)));
};

/* Unused memory of long messages, most recently used first; see unexp_msg.c. */
struct tw_spare_long {
	struct tw_unexp_msg *first;
	uint32_t n, bytes;
	uint32_t fewest; /* minimum of n since the last check */
};

/* The reason why a peer is not reached, in words. */
struct tw_trouble {
	uint8_t why;  /* enum tw_status that it explains */
	bool general; /* the provider has said nothing; this is tw_failure_cause() */
	bool fresh;   /* said of the attempt that is under way */
	char cause[174], advice[176];
};

struct tw_peer {
	/* Frequently used fields first: short offsets make short instructions. */
	struct tw_addr addr;
	struct tw_ring_tx *txq; /* of the link, while it is open, or tw_no_txq */
	uint32_t txq_from;	/* its head at that time */
	uint32_t txq_end;	/* credits are set apart for the slots up to this */
	struct tw_ep *ep;
	struct tw_link *link;
	uint32_t index;
	uint8_t state;	 /* enum tw_peer_state */
	uint8_t why;	 /* enum tw_status of later sends, once down; before, of the last connect */
	bool barred;	 /* no connect has presented its filter; see tw_peer_bar() */
	bool unanswered; /* there was no memory to answer it: the connection is to end */
	/* Sending. */
	uint32_t credits; /* lines of eager data that may be sent */
	uint32_t granted; /* credits at the start */
	/* Receiving. */
	uint32_t window, used;	/* lines granted, lines in use */
	uint32_t unreturned;	/* lines to return */
	uint32_t fair;		/* what the window should be */
	uint32_t rx_at; /* of the message whose fragments arrive */
	union {
		uint64_t rx_slow_path; /* 0: whole messages may take the fast path */
		struct {
			uint32_t rx_len;   /* of that message; 0: none arrives so */
			uint32_t directed; /* there is a source, or a trace; no padding */
		};
	};
	struct tw_unexp_msg *rx_unexp; /* NULL: they are rx_req's */
	struct tw_list sendq;	 /* in order, waiting for space */
	struct tw_list work;	 /* on ep->work when something can be sent */
	struct tw_list connects; /* requests that wait for it */
	struct tw_list sending;	 /* sends whose data the other side has requested */
	struct tw_list waiting;	 /* for a reply of the other side */
	struct tw_list replying; /* requests for which a packet is due */
	struct tw_list moving;	 /* requests whose data this side gets or puts */
	struct tw_req *rx_req;
	uint64_t rx_imm;	  /* of the packet that is being taken */
	struct tw_source *source; /* of receives from it only, or NULL */
	struct tw_stats_peer *show;
	uint64_t vain_look;	 /* tick of a look for its polls in vain, 0: there was one since */
	uint64_t begun;		 /* tick */
	uint64_t retry;		 /* tick at which to connect again, 0 none */
	uint32_t filter;	 /* its own, which connects must present */
	uint32_t presented;	 /* the filter that our connect has sent */
	uint32_t numsgs;	 /* unexpected messages that refer to it */
	uint32_t asked;		 /* CANCELs without a reply */
	bool silent;		 /* one of them is overdue */
	bool awaited;		 /* it was said that it is connected to for long */
	uint16_t failed;	 /* connects in a row, until they are a limit apart */
	void *context;		 /* the user's */
	uint32_t unpolled;	 /* messages sent since the last poll for it */
	uint32_t traced_out, traced_in; /* messages that a trace has numbered */
	struct tw_list open;	 /* on ep->open while its txq is open */
	struct tw_trouble *trouble; /* NULL: it is reached, or nothing is known */
	struct {
		struct tw_list grants;	/* of windows of this endpoint */
		struct tw_list known;	/* its own windows */
		struct tw_list flushes; /* requests */
		uint64_t flush;		/* number of flushes that had to wait */
		uint32_t puts;		/* puts and atomics that have not ended */
		uint64_t polled;	/* tick at which the peer polled, as far as is known */
		uint32_t turn;		/* of the last access that was delegated to it, */
		uint32_t claimed;	/* and of the last that this side has claimed */
		bool applied;		/* which was an atomic, and is done */
		uint32_t skip;		/* accesses to come that are not delegated */
		struct tw_backoff backoff;
		uint32_t asked;		/* packets that wait for a reply */
		uint32_t due;		/* replies that have not left */
	} windows;
};

/* Receives from one peer only; see source.c. */
struct tw_source {
	uint64_t where;
	struct tw_match *match;
	struct tw_source *next;
};

enum tw_verdict {
	TW_KEEP,
	TW_REMATCH, /* keep, but a receive may have been posted for it */
	TW_DROP	    /* as if it were received with length 0 */
};

/*
 * The hooks of an interface; any may be NULL. They run with the lock held, in any thread
 * that makes progress. Only attend() may send.
 */
struct tw_interface {
	const char *name; /* up to 7 characters, for tools */
	/* No receive matches a message, or its first part, or its announcement. */
	enum tw_verdict (*unexpected)(struct tw_ep *ep, struct tw_unexp_msg *u);
	/* All of a message that was kept is here. If it was fetched: by that request. */
	void (*whole)(struct tw_ep *ep, struct tw_unexp_msg *u, const struct tw_req *fetched);
	/* Whether an endpoint may connect that presents the filter. NULL: each may. */
	bool (*admits)(struct tw_ep *ep, uint64_t where);
	/* How the program names an endpoint, as "node 3"; false: it has no name. For messages. */
	bool (*called)(const struct tw_ep *ep, uint64_t where, char *out, size_t size);
	/* An active message has arrived: tw_am_send(). */
	void (*am_handler)(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data,
			   uint32_t len);
	/* Called after a hook has set ep->attend, or with ep->done not empty. */
	void (*attend)(struct tw_ep *ep);
	/*
	 * The data of a put that notifies is here: tw_window_notify(). TW_AGAIN: to be called
	 * again, and nothing of this peer before that. NULL: peers may not.
	 */
	enum tw_err (*window_notified)(struct tw_ep *ep, struct tw_peer *p, uint64_t datum,
				       uint32_t len);
	/* The peer is gone. */
	void (*down)(struct tw_ep *ep, const struct tw_peer *p);
	/* Runs the timers that are due. Returns the next tick, or 0. */
	uint64_t (*expire)(struct tw_ep *ep, uint64_t now);
	/*
	 * The endpoint is about to end and no thread is in a blocking call. Releases what
	 * has locks of its own. False: a thread is inside there, ask again.
	 */
	bool (*ending)(struct tw_ep *ep);
	/* The endpoint has ended. Called without a lock, perhaps in the service thread. */
	void (*ended)(void *owner);
	/* The service thread has made progress: wakes those who sleep. Must not block. */
	void (*background)(struct tw_ep *ep);
	bool imm;    /* peers may send immediate data */
	bool serves; /* requests of peers, which find the program computing: it polls for the next */
	bool highest; /* any id: the highest that is free, as programs ask for low ones */
	uint32_t first_id, ids; /* its endpoint ids; those of two interfaces do not overlap */
	size_t ep_size;	      /* of its struct that begins with struct tw_ep; 0: it has none */
	uint32_t max_len;     /* a peer that sends more is dropped; 0: no limit */
	struct tw_pool *pool; /* of its own, for as many as there are requests; may be NULL */
};

/* A descriptor that a program polls, and what makes it ready. -1: not open. */
struct tw_pollable {
	int fd, event;
};

struct tw_ep {
	/* Frequently used fields first: short offsets make short instructions. */
	struct tw_list done tw_aligned_line; /* complete, not yet collected */
	struct tw_slot_entry *slot;
	const struct tw_interface *iface;
	/* All that a short call would have to ask for one by one: 0 as usual. */
	union {
		uint64_t slow_path;
		struct {
			uint32_t nactive;  /* transfers and acknowledgements that need our polls */
			uint16_t nwaiting; /* threads in blocking calls */
			uint8_t has_work;  /* a peer is on the list below; no padding */
			uint8_t traced;	   /* no call takes the fast path, see trace.h */
		};
	};
	bool attend, acts;   /* acts: there is iface->attend() */
	bool awaited;	     /* the program sleeps on a descriptor, see tw_idle_arm() */
	bool came;	     /* a message has met a receive since the last fast poll */
	bool unanswered;     /* a peer is */
	bool unfinished_due; /* the deadline is set for unfinished work */
	void *owner;	     /* used by the interface */
	struct tw_list work; /* peers that have something to send */
	struct tw_list open; /* peers whose txq is open */
	uint64_t *counters;
	struct tw_peer **peers;
	uint64_t events, woken;
	uint32_t npeers;
	unsigned nprovs;
	uint32_t polled; /* bits of those whose progress() every poll calls */
	uint64_t *gauges;
	struct tw_match *match;
	struct tw_windows *windows; /* NULL: there never was one */
	struct tw_source *sources; /* of receives from one peer only; NULL: there never was one */
	struct tw_prov {
		const struct tw_provider *ops;
		void *instance;
	} provs[TW_MAX_PROVIDERS];
	struct tw_prov lender; /* of host.rxqs; ops NULL: none */
	struct tw_pool reqs;
	uint32_t eager_max;
	uint8_t rndv;		       /* enum tw_rndv */
	/* -- */
	struct tw_host host;
	uint32_t max_peers;
	uint32_t nconnecting; /* peers that are connecting */
	struct tw_stats *stats;
	struct tw_trace *trace; /* NULL: it is not traced */
	int stats_fd;
	uint32_t board;
	struct tw_peer *self;
	/* The user's options. */
	uint32_t unexp_max;
	enum tw_verdict (*unexpected)(struct tw_ep *ep, struct tw_unexp_msg *u);
	struct tw_unexp_msg *spare;  /* short unexpected messages, unused */
	uint32_t nspare, spare_stop; /* spare_stop: at this number tw_unexp_msg_free() decides */
	struct tw_spare_long longs;
	uint64_t trim_at;   /* tick of the next check for unused memory, 0 none */
	uint64_t fetch_max; /* see struct tw_open */
	uint64_t limit_at;  /* not later than any time limit of a request, 0 none */
	/* Progress. */
	uint64_t next_events; /* tick of the next poll of descriptors without a service thread */
	uint64_t done_seen;   /* how much had been done at the last look: see yield_idle() */
	uint64_t changed_at, changed_polls; /* tick and number of polls of the last change of state */
	/* Waiting; see wait.c. */
	bool closing;
	uint32_t nsleeping; /* of them */
	uint32_t wake_calls;
	uint64_t expects; /* tick until which a message is expected: waiters poll */
	_Atomic(uint32_t) gen;
	int wakefd;
	struct tw_watch wake_watch;
	/* Of a program that polls a descriptor; see pollable.c. */
	struct tw_pollable pollable;
	bool armed;	   /* one of nwaiting and nsleeping */
	uint64_t armed_at; /* events at the last tw_ep_fd_arm() */
	/* The last failure of a connect that a provider has explained, and of whom. */
	struct tw_trouble failure;
	uint64_t failure_of;
};

/*
 * A slot of an open endpoint. It is never freed, so that handles can be checked. Its size
 * is a power of two, because every call converts between slot and number.
 */
struct tw_slot_entry {
	_Alignas(256) _Atomic(uint64_t) handle; /* 0: free; see TW_HANDLE_BARRED */
	_Atomic(uintptr_t) handler;		/* thread inside the unexpected handler */
	struct tw_ep *ep;
	struct tw_lock lock;
	/* See idle.c. */
	_Atomic(uint64_t) deadline; /* tick at which something is due, 0 none */
	_Atomic(uint64_t) polls;    /* by whoever holds the lock */
	_Atomic(bool) requested;    /* by the service thread: poll the descriptors */
	_Atomic(bool) left;	    /* closed inside a call; see tw_ep_close() */
	bool ready;		    /* the lock is initialized */
	_Atomic(bool) alone;	    /* progress only in the program's calls */
	const struct tw_interface *iface;
	uint64_t name;		    /* NIC id << 16 | endpoint id; see endpoint.c */
	uint32_t gen;
	/* Of the service thread: */
	_Atomic(uint64_t) next_check; /* tick, 0 none */
	uint64_t backoff;	      /* us before the next try to end one that was left behind */
	_Atomic(uint64_t) polls_seen; /* at the last check, or when the deadline was set */
};

/* Set in the handle while the unexpected handler runs: no call enters by the fast path. */
#define TW_HANDLE_BARRED (1ull << 63)

extern struct tw_slot_entry tw_slots[TW_MAX_OPEN]; /* the first is of no endpoint */
/* Slots from this number on were never used. */
unsigned tw_slots_used(void);

#endif /* TW_TYPES_H */
