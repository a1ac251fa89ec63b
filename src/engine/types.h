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
#include "engine/choose.h"
#include "engine/match.h"
#include "engine/uses.h"
#include "engine/wire.h"
#include "providers/provider.h"
#include "providers/registry.h"

#define TW_MAX_EIDS 1024  /* endpoint ids of a board that users choose */
#define TW_EID_NODES 1024 /* endpoint ids from here on belong to numbered nodes */
#define TW_MAX_NODES 256
#define TW_EID_MEMBERS (TW_EID_NODES + TW_MAX_NODES) /* and from here on to members of a job */
#define TW_MAX_MEMBERS 1024
#define TW_EID_PLATFORMS (TW_EID_MEMBERS + TW_MAX_MEMBERS) /* from here on, to platforms */
#define TW_MAX_PLATFORMS 4096
#define TW_EID_END (TW_EID_PLATFORMS + TW_MAX_PLATFORMS)
#define TW_MAX_OPEN 2048 /* open endpoints of a process */
#define TW_MAX_BOARDS 16
#define TW_MAX_SEGMENTS 256
#define TW_REMOTE_EAGER 8 /* times as long messages are sent before their receive is known */
#define TW_MAX_REQS (1u << 26)
#define TW_SHORT_SEND 1024    /* bytes that always leave as one packet */
#define TW_SLOW_EVERY 256     /* polls between two looks at the clock, a power of two */
#define TW_CREDITS_DUE 2048   /* lines to give back before a packet is sent for it */
#define TW_FOREVER UINT64_MAX /* a time limit that never comes */

/* An endpoint address as users hold it; compared as a whole. */
struct tw_addr {
	uint64_t where; /* NIC id << 16 | endpoint id */
	uint32_t session;
	uint32_t slot_peer; /* endpoint slot << 20 | peer index */
};

/* Word by word: a load that is wider than the stores before it has to wait for them. */
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
	return a->where == b->where && a->session == b->session && a->slot_peer == b->slot_peer;
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
	TW_NSTATUS
};

enum tw_kind { TW_SEND, TW_RECV, TW_CONNECT, TW_READ, TW_WRITE };

/* What a request still owes its peer before it may complete. */
enum tw_deferred {
	TW_DEFER_NONE,
	TW_DEFER_ACK,
	TW_DEFER_CTS,
	TW_DEFER_DONE,
	TW_DEFER_SHARE,
	TW_DEFER_PUT,
	TW_OWE_CANCEL,	 /* and what follows: withdraw.c */
	TW_OWE_CANCELLED /* a receive of nothing, made for the answer */
};

enum tw_req_flags {
	TW_R_DONE = 1,
	TW_R_SYNC = 2,
	TW_R_BUFFERED = 4,
	TW_R_FORGOTTEN = 8,
	TW_R_RNDV = 16,	   /* announced, or to be announced */
	TW_R_POSTED = 32,  /* in the matcher */
	TW_R_DATA = 64,	   /* DATA packets are expected, or wanted */
	TW_R_URGENT = 64,  /* of a send not announced: the other engine must act on it */
	TW_R_SAMPLE = 128, /* of a receive: its time teaches push against pull */
	TW_R_ASKED = 128   /* of a send: asked back, to end with r->status */
};

struct tw_seg {
	char *ptr;
	uint32_t len;
};

/* Aligned as the pool that it comes from. */
struct tw_req {
	struct tw_pool_obj obj;
	uint8_t kind, flags, status, deferred;
	uint32_t nsegs;
	struct tw_list link; /* the one list it is on: of its peer, or done */
	struct tw_peer *peer;
	void *context;
	uint64_t match; /* as sent */
	/* -- */
	uint64_t handle;   /* slot, number and generation; 0: nobody has it any more */
	uint32_t len;	   /* of the segments */
	uint32_t msg_len;  /* as sent */
	uint32_t xfer_len; /* to deliver, then delivered */
	uint32_t at;	   /* bytes moved so far */
	struct tw_seg *segs;
	struct tw_seg seg; /* where a single one lives */
	struct tw_addr source;
	/* -- */
	union {
		struct tw_posted posted;
		struct {
			struct tw_ref remote;
			uint64_t remote_address;
			uint64_t started;
			uint32_t gets;	/* under way */
			uint8_t failed; /* enum tw_err of one of them, or of a put */
			bool shared;	/* the sender has not finished writing the rest */
			bool active;	/* counted in nactive */
			uint32_t until; /* where the receiver's own part ends */
			void *rma; /* remote key of a receive, registration of a send, or NULL */
		};
		struct {
			uint64_t nic_id;
			uint32_t endpoint_id, key;
			uint64_t deadline;
		};
	};
	uintptr_t claimed; /* the thread whose peek returned it */
	uint64_t limit;	   /* tick of its time limit, meant if ep->limits has one of that tick */
} tw_aligned_line;

/* An unexpected message, or its announcement. */
struct tw_unexp_msg {
	struct tw_peer *peer;
	struct tw_addr source;
	uint32_t len;
	uint32_t have; /* bytes here; less than len while fragments come */
	bool rndv, sync;
	uint32_t room;	   /* for data */
	uint32_t key_len;  /* of the remote key, which is the data if rndv */
	struct tw_ref ref; /* of the sender, if rndv or sync */
	uint64_t address;
	uint64_t claimed;	    /* when a blocked probe returned it, 0 not; see tw_ep.claims */
	struct tw_unexp_msg *spare; /* next one, while unused */
	struct tw_unexp unexp;	    /* behind what everybody asks for: it is long */
	/* A packet, in the end. */
	char data[] __attribute__((aligned(16)));
};

/* Memory of long messages that is not in use, the last used first; see unexp_msg.c. */
struct tw_spare_long {
	struct tw_unexp_msg *first;
	uint32_t n, bytes;
	uint32_t fewest; /* there were since the last look */
};

struct tw_peer {
	/* First what is asked for often: short offsets are short instructions. */
	struct tw_ep *ep;
	struct tw_link *link;
	struct tw_addr addr;
	uint32_t index;
	uint8_t state;	 /* enum tw_peer_state */
	uint8_t why;	 /* enum tw_status of later sends, once down */
	bool cannot_put; /* its puts have failed */
	bool barred;	 /* its filter has not been shown; see tw_peer_bar() */
	/* Sending. */
	uint32_t credits; /* lines of eager data that may still go */
	uint32_t granted; /* credits at the start */
	uint32_t shares;  /* receives that it is writing the rest of */
	/* Receiving. */
	uint32_t window, used;	/* lines granted, lines in use */
	uint32_t unreturned;	/* lines to give back */
	uint32_t fair;		/* what the window should be */
	uint32_t rx_at, rx_len; /* of the message whose fragments are coming; rx_len 0: none are */
	struct tw_unexp_msg *rx_unexp;
	struct tw_list sendq;	  /* in order, wait for room */
	struct tw_list work;	  /* on ep->work when something can be sent */
	struct tw_list connects;  /* requests that wait for it */
	struct tw_list pushing;	  /* sends wanted by the other side */
	struct tw_list waiting;	  /* for an answer of the other side */
	struct tw_list deferring; /* receives that owe a packet */
	struct tw_list pulling;
	struct tw_req *rx_req; /* like rx_unexp, where a receive had been posted */
	struct tw_stats_peer *show;
	uint64_t starved; /* tick since which there were too few credits, 0 enough */
	uint64_t retry;	  /* tick at which to connect again, 0 none */
	uint32_t tell;	  /* messages that the other taker is still to hear of */
	uint32_t filter;  /* its own, which connects must show */
	uint32_t key;	  /* what our connect shows */
	uint32_t grant;	  /* the window that it offers */
	uint32_t numsgs;  /* unexpected messages that name it */
	uint32_t asked;	  /* CANCELs that it has not answered */
	bool silent;	  /* and one of them for too long */
	void *context;	  /* the user's */
	struct tw_choose choose;
};

/*
 * An interface with message queues of its own, which needs no matching. The
 * hooks run with the lock held, in whichever thread makes progress.
 */
struct tw_taker {
	/* A whole message or an announcement (tw_take_pull), now the interface's. No sends here. */
	void (*arrived)(struct tw_ep *ep, struct tw_unexp_msg *u);
	/* After an arrival asked for it (ep->attend), or with ep->done not empty. */
	void (*attend)(struct tw_ep *ep);
	/* The peer is gone. No sends here. */
	void (*down)(struct tw_ep *ep, const struct tw_peer *p);
	/* Its taker told of so many messages (tw_tell), or NULL. No sends here. */
	void (*told)(struct tw_ep *ep, struct tw_peer *p, uint32_t n);
	/* Does what is due by time; the next time wanted, or 0. May be NULL. No sends here. */
	uint64_t (*expire)(struct tw_ep *ep, uint64_t now);
	/*
	 * About to end, nobody is in a blocking call: gives up what of it has locks of its
	 * own; false: somebody is inside there, ask again. May be NULL.
	 */
	bool (*ending)(struct tw_ep *ep);
	/* It has ended; without a lock, maybe in the service thread. May be NULL. */
	void (*ended)(void *owner);
	/*
	 * Messages keep their place in the window until tw_take_release(), and not all
	 * that is announced is pulled at once.
	 */
	bool holds;
	struct tw_pool *pool; /* of its own, for as many as there are requests; may be NULL */
};

/* When requests end that are pending still, the first at the top of a heap. */
struct tw_limits {
	struct tw_limit {
		uint64_t when;
		uint32_t index, gen; /* of the request */
	} * heap;
	uint32_t n, max;
};

struct tw_ep {
	/* First what is asked for everywhere: short offsets are short instructions. */
	struct tw_slot_entry *slot;
	struct tw_list done;	      /* complete, not yet collected */
	const struct tw_taker *taker; /* or NULL: messages are matched */
	bool attend;
	bool leader; /* one of those who wait sleeps on epfd */
	bool armed;  /* peers ring for any packet */
	uint32_t nsleeping;
	void *owner;	     /* the taker's */
	struct tw_list work; /* peers that have something to send */
	uint64_t *counters;
	struct tw_peer **peers;
	uint64_t events, woken;
	uint32_t nactive; /* long transfers and acknowledgements that need our polls to go on */
	uint32_t npeers;
	unsigned npolled, nprovs;
	uint64_t *gauges;
	struct tw_match *match;
	struct tw_prov {
		const struct tw_provider *ops;
		void *instance;
	} polled[TW_MAX_PROVIDERS], provs[TW_MAX_PROVIDERS]; /* polled: by progress */
	struct tw_pool reqs;
	uint32_t eager_max, short_max; /* short: in one packet */
	unsigned protos;	       /* TW_PROTO_BIT() of those that the settings allow */
	/* -- */
	struct tw_host host;
	uint32_t max_peers;
	uint32_t nconnecting; /* of them, not up yet */
	struct tw_stats *stats;
	int stats_fd;
	uint32_t board;
	struct tw_peer *self;
	/* The user's options. */
	uint32_t unexp_max;
	uint64_t context_mask;	     /* bits of the context id, 0 none */
	void (*error_handler)(void); /* the interface's, not called here */
	/* The interface's; true drops the message. Inside it the lock is held. */
	bool (*unexp_handler)(struct tw_ep *ep, const struct tw_unexp_msg *u, void *data);
	void (*user_handler)(void); /* what the interface's hands it on to */
	void *user_context;
	struct tw_unexp_msg *spare;  /* short unexpected messages, unused */
	uint32_t nspare, spare_stop; /* spare_stop: with so many, to stop and think */
	struct tw_spare_long longs;
	uint64_t rest_at; /* tick of the next look at memory that rests, 0 none */
	struct tw_limits limits;
	uint64_t request_us; /* time limit of new requests, 0 none */
	/* Progress. */
	uint64_t next_events; /* tick at which to look at descriptors, no service */
	bool in_background;   /* by the service thread: the program computes */
	uint32_t nmoving;     /* long transfers and acknowledgements under way */
	/* Waiting; see wait.c. */
	bool closing;
	uint32_t nwaiting; /* threads in blocking calls */
	uint64_t claims;   /* counts what blocked probes returned */
	uint32_t wake_calls;
	uint64_t expects; /* tick until which something is about to come: waiters poll */
	_Atomic(uint32_t) gen;
	int epfd, wakefd;
	struct tw_watch wake_watch;
};

/* What the service thread leaves to a program that is inside or polls. */
enum tw_service_request { TW_REQUEST_EVENTS = 1, TW_REQUEST_TIMER = 2 };

/*
 * A place for an open endpoint; lives for ever, so that handles can be checked. Its
 * size is a power of two: every call finds one by its number, and the other way.
 */
struct tw_slot_entry {
	_Alignas(256) _Atomic(uint64_t) handle; /* 0: free */
	_Atomic(uintptr_t) handler;		/* thread inside the unexpected handler */
	struct tw_ep *ep;
	struct tw_lock lock;
	_Atomic(uint64_t) timer;	/* tick at which the service thread must look, 0 none */
	_Atomic(uint64_t) polls;	/* by the program */
	_Atomic(uint32_t) requested;	/* enum tw_service_request: the next poll should look */
	_Atomic(bool) background_asked; /* the timer is set for unfinished work */
	_Atomic(bool) left;		/* closed amid a call; see tw_ep_close() */
	bool ready;			/* the lock is made */
	_Atomic(bool) alone;		/* only the program's calls move it, no service thread */
	bool takes;			/* there is a taker */
	uint64_t name;			/* NIC id << 16 | endpoint id; see endpoint.c */
	uint32_t gen;
	/* Of the service thread, for a program that polls itself: */
	_Atomic(uint64_t) look; /* tick of the next look at it, 0 none */
	uint64_t backoff;
	uint64_t busy;		      /* us until it is tried again: somebody was inside */
	uint32_t quiet;		      /* looks in a row that found nothing due */
	_Atomic(uint64_t) seen_polls; /* at the last look, or when the timer was set */
};

extern struct tw_slot_entry tw_slots[TW_MAX_OPEN];
/* Slots at and above this were never used. */
unsigned tw_slots_used(void);

#endif /* TW_TYPES_H */
