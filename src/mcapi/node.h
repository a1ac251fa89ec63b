/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structures of the MCAPI interface, nodes and endpoints.
 *
 *   init.c, attr.c, endp.c    nodes of this process, their endpoints (this header)
 *   ctrl.c                    control messages between nodes (this header)
 *   req.c                     requests, waiting (req.h)
 *   queue.c, credits.c, msg.c messages (queue.h)
 *   chan_bind.c, chan.c       channels, chan_calls.c their functions (chan.h)
 *   pkt.c                     packets (chan.h)
 *   scl.c, scl_wait.c         scalars, in a ring of words (shmem/words.h)
 *   scl_end.c                 the ends of scalar channels (chan.h, scl.h)
 *
 * A node is one engine endpoint. All of this runs under the endpoint's lock, except the
 * inside of scalar channels. Nodes are the members of a group. Arrivals come in the thread
 * that makes progress, so connecting needs no call of the program. tw_mcapi_ctrl_send()
 * queues a control message; it leaves before the lock is released or when progress ends.
 */
#ifndef TW_MCAPI_NODE_H
#define TW_MCAPI_NODE_H

#include "engine/engine.h"
#include "group/group.h"
#include "mcapi.h"
#include "mcapi/wire.h"

_Static_assert(MCAPI_MAX_NODES == TW_MAX_NODES, "one limit");

#define TW_MCAPI_FIRST_ID 1024 /* endpoint ids: by the number of the node */
#define TW_MCAPI_FILTER 0x4d434150 /* connects MCAPI nodes only to each other */
#define TW_MCAPI_PRIOS MCAPI_MAX_NO_PRIORITIES
#define TW_MCAPI_BUFFERS 128   /* the default of MCAPI_ATTR_NO_BUFFERS */
#define TW_MCAPI_SCALARS 1792  /* capacity of a scalar channel */
#define TW_MCAPI_SYNC_MS 10000 /* limit of calls that need a reply; a stopped node sends none */
#define TW_MCAPI_POLL_US 10    /* of polling before a blocking call waits */
#define TW_MCAPI_SEARCH_US 2000 /* until the next request to a node that was not there */

struct tw_mcapi_node;

/*
 * A request to another node. It goes to the node that has the number when it is answered;
 * on_reply() gets NULL if there is none.
 */
struct tw_mcapi_ctrl_request {
	struct tw_ctrl_request r;
	struct tw_mcapi_ctrl ctrl;
	void (*on_reply)(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			 const struct tw_mcapi_ctrl *ctrl);
};

enum tw_mcapi_mreq_kind {
	TW_MCAPI_Q_GET,
	TW_MCAPI_Q_MSG_SEND,
	TW_MCAPI_Q_MSG_RECV,
	TW_MCAPI_Q_CONNECT,
	TW_MCAPI_Q_OPEN,
	TW_MCAPI_Q_PKT_SEND,
	TW_MCAPI_Q_PKT_RECV,
	TW_MCAPI_Q_CLOSE
};

enum tw_mcapi_mreq_state { TW_MCAPI_Q_PENDING, TW_MCAPI_Q_DONE, TW_MCAPI_Q_CANCELLED };

/* A non-blocking operation, or a blocking one while its caller waits. */
struct tw_mcapi_mreq {
	struct tw_pool_obj obj;
	uint8_t kind, state;
	bool collected;	      /* its end was reported to the program */
	int32_t status, lost; /* lost: the status of a send that does not arrive */
	size_t size;
	struct tw_list link;
	union {
		void *buffer;	  /* MSG_RECV */
		const void *data; /* MSG_SEND, PKT_SEND */
		void **packet;	  /* PKT_RECV */
		mcapi_endpoint_t *found;
	};
	size_t len;
	mcapi_endpoint_t endpoint; /* its destination or receiver */
	union {
		uint64_t retry; /* GET: tick of the next request; meanwhile, when it is said */
		uint64_t match; /* MSG_SEND */
	};
	struct tw_req *carrier; /* the engine's, or NULL */
	struct tw_op op;
	struct tw_mcapi_ctrl_request ctrl_req;
};

enum tw_mcapi_chan_open {
	TW_MCAPI_CH_SHUT,
	TW_MCAPI_CH_OPENING,
	TW_MCAPI_CH_OPEN,
	TW_MCAPI_CH_CANCELLED
};

/* One end of a channel. */
struct tw_mcapi_chan {
	bool bound, reserved;
	bool peer_open;
	bool sender; /* of the binding */
	union {
		struct {
			uint8_t open;	  /* enum tw_mcapi_chan_open */
			bool open_sender; /* of the open, which may precede the binding */
			uint8_t open_type;
			bool peer_closed;
		};
		uint8_t state[4]; /* of all four */
	};
	uint8_t type;	 /* of the binding: TW_MCAPI_K_PKT or TW_MCAPI_K_SCL */
	uint32_t handle; /* of the program, 0 none */
	uint32_t other, epoch;
	uint32_t requester, token;	    /* while reserved: of the BIND to reply to */
	struct tw_mcapi_ctrl_request bind2; /* while reserved */
	struct tw_mcapi_mreq *opening;
	struct tw_mcapi_scl *scl;
	uint32_t credits; /* of the sender */
	/* Of the receiver. */
	uint64_t match; /* of the packets that it takes, 0 none */
	uint32_t taken; /* received, credit not yet returned */
	bool starved;	/* the sender is credit-starved */
	/* Of the sender. */
	struct tw_list sends;	       /* waiting for credit */
	struct tw_list credit_starved; /* on node->credit_starved until STARVED is sent */
	struct tw_list push;	       /* on node->pushes when there is new credit */
	struct tw_mcapi_ctrl opened;   /* the other end's OPENED */
};

/* A node that sends messages to an endpoint; see credits.c. */
struct tw_mcapi_source {
	uint32_t granted; /* credits that it holds, and its messages that wait */
	uint32_t taken;	  /* received, credit not yet returned */
	bool known, starved, recalled;
};

struct tw_mcapi_endp {
	uint32_t handle;
	uint32_t buffers, prio;
	int32_t timeout;
	uint32_t granted;		 /* to all sources */
	struct tw_mcapi_source *sources; /* by node, allocated at the first request for credits */
	uint32_t nsources;		 /* known ones */
	struct tw_mcapi_chan chan;
	struct tw_list msg_recvs, packet_recvs; /* posted */
};

/* An endpoint that messages are sent to. */
struct tw_mcapi_dest {
	struct tw_mcapi_dest *next;
	uint32_t handle, credits;
	uint32_t kept;			       /* credit, 0 or 1, of the first waiting send */
	bool reached;			       /* the endpoint was there once */
	struct tw_list sends;		       /* waiting for the connection or for credit */
	struct tw_list push;		       /* on node->dest_pushes */
	struct tw_mcapi_ctrl_request ctrl_req; /* for credits: on a list until the reply */
};

#define TW_MCAPI_DESTS 256 /* hash buckets */

struct tw_mcapi_node {
	union {
		struct tw_group group;
		struct tw_ep *ep; /* the group's first field */
	};
	uint32_t number;
	uintptr_t thread; /* its own, or the one that ends it: tw_thread_id() */
	struct tw_mcapi_node *past; /* an older node of this number */
	bool elsewhere;		  /* it is said to live on another host */
	_Atomic(uint64_t) handle; /* of the engine endpoint; 0: not initialized */
	uint32_t nendps;
	struct tw_pool reqs;
	struct tw_list collected; /* requests whose end was reported, oldest first */
	uint32_t ncollected;
	struct tw_list gets, pending, credit_starved, pushes, dest_pushes;
	uint32_t epochs, gens;
	struct tw_mcapi_dest *dest;
	struct tw_unexp_msg *outstanding[1024]; /* packets that the program holds, hashed */
	struct tw_mcapi_endp **ports[256]; /* by the port's high byte, then its low byte */
	struct tw_mcapi_dest *dests[TW_MCAPI_DESTS];
	struct tw_member peers[TW_MAX_NODES];
};
_Static_assert(offsetof(struct tw_group, ep) == 0, "a node's");

static inline uint32_t tw_mcapi_node_of(mcapi_endpoint_t e)
{
	return e >> 16;
}

/* The node that an engine address belongs to; TW_MAX_NODES or more: none. */
static inline uint32_t tw_mcapi_node_at(uint64_t where)
{
	return (uint32_t)(where & 0xffff) - TW_MCAPI_FIRST_ID;
}

/* init.c ------------------------------------------------------------------- */

extern _Thread_local struct tw_mcapi_node *tw_mcapi_thread; /* this thread's own node */
extern _Atomic(struct tw_mcapi_node *) tw_mcapi_first;	    /* for threads without one */

/* The node of that number, if it belongs to this process; it may be ending. */
struct tw_mcapi_node *tw_mcapi_node(uint32_t number);

static inline struct tw_mcapi_node *tw_mcapi_self(void)
{
	struct tw_mcapi_node *n = tw_mcapi_thread;

	/* [set-up] */
	return tw_likely(n != NULL) ? n
				    : atomic_load_explicit(&tw_mcapi_first, memory_order_acquire);
}

/* Locks the caller's node; NULL if there is none. */
tw_shared struct tw_ep *tw_mcapi_enter(struct tw_mcapi_node **node)
{
	struct tw_mcapi_node *n = tw_mcapi_self();

	*node = n;
	return tw_likely(n != NULL)
		       ? tw_enter(atomic_load_explicit(&n->handle, memory_order_relaxed))
		       : NULL;
}

/* Enters the node at the beginning of a call; without a node *status is `none'. */
tw_shared struct tw_ep *tw_mcapi_begin(struct tw_mcapi_node **node, mcapi_status_t *status,
				       mcapi_status_t none)
{
	if (tw_unlikely(!status))
		return NULL;
	*status = none;
	return tw_mcapi_enter(node);
}

/* Before and after the engine's endpoint ends. */
bool tw_mcapi_ending(struct tw_ep *ep);
void tw_mcapi_ended(void *node);

/* There is memory for a message of its own: the send would wait for it. */
bool tw_mcapi_self_room(struct tw_mcapi_node *n, size_t len);

/* Sends what is queued, then unlocks. */
tw_shared void tw_mcapi_leave(struct tw_ep *ep)
{
	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done) || ep->slow_path))
		tw_group_leave(ep);
	else
		tw_unlock(&ep->slot->lock);
}

/* ctrl.c -------------------------------------------------------------------- */

void tw_mcapi_ctrl_send(struct tw_mcapi_node *n, uint32_t to, const struct tw_mcapi_ctrl *ctrl);
/* The reply comes through ctrl_req->on_reply(). False: no memory, and nothing comes. */
bool tw_mcapi_ctrl_request(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			   uint32_t to, const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_ctrl_reply(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *request,
			 mcapi_status_t status, uint32_t value);
void tw_mcapi_peers_init(struct tw_mcapi_node *n);
extern const struct tw_interface tw_mcapi_interface;

/* endp.c ------------------------------------------------------------------- */

/* The endpoint of this node at that port, or NULL. */
tw_shared struct tw_mcapi_endp *tw_mcapi_endp_at(const struct tw_mcapi_node *n, uint32_t port)
{
	struct tw_mcapi_endp **low = n->ports[(port >> 8) & 255];

	return tw_likely(low != NULL) ? low[port & 255] : NULL;
}

/* An endpoint of this node, or NULL. */
tw_shared struct tw_mcapi_endp *tw_mcapi_endp_find(const struct tw_mcapi_node *n,
						   mcapi_endpoint_t e)
{
	return tw_likely(tw_mcapi_node_of(e) == n->number) ? tw_mcapi_endp_at(n, e) : NULL;
}

/*
 * At the beginning of a call on an endpoint of the caller's node: locks. If there is no such
 * endpoint nothing is locked, and the status is MCAPI_ENOT_ENDP.
 */
tw_shared struct tw_mcapi_endp *
tw_mcapi_endp_begin(struct tw_mcapi_node **n, mcapi_endpoint_t endpoint, mcapi_status_t *status)
{
	struct tw_ep *ep = tw_mcapi_begin(n, status, MCAPI_ENOT_ENDP);
	struct tw_mcapi_endp *e = ep ? tw_mcapi_endp_find(*n, endpoint) : NULL;

	if (tw_unlikely(ep && !e))
		tw_mcapi_leave(ep);
	return e;
}

/* The first endpoint from *port on, which becomes the next port; NULL: no more. */
struct tw_mcapi_endp *tw_mcapi_endp_next(const struct tw_mcapi_node *n, uint32_t *port);
void tw_mcapi_endps_fini(struct tw_mcapi_node *n);
void tw_mcapi_on_get(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* How messages on standard error name an endpoint of another node. */
void tw_mcapi_endp_text(const struct tw_mcapi_node *n, mcapi_endpoint_t e, char *out, size_t size);
/* Requests endpoints again from nodes that were not there. */
void tw_mcapi_gets_search(struct tw_mcapi_node *n);
/* Says which endpoints other nodes have not created for long. Returns the next tick, or 0. */
uint64_t tw_mcapi_gets_say(struct tw_mcapi_node *n, uint64_t now);
/* A request of another node, with a deferred reply. */
struct tw_mcapi_pending {
	struct tw_list link; /* on node->pending */
	uint32_t from;
	struct tw_mcapi_ctrl ctrl;
};
bool tw_mcapi_pending_add(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* Serves those for an endpoint once more; some may be deferred again. */
typedef void tw_mcapi_on_fn(struct tw_mcapi_node *n, uint32_t from,
			    const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_pending_serve(struct tw_mcapi_node *n, enum tw_mcapi_ctrl_what what,
			    mcapi_endpoint_t endpoint, tw_mcapi_on_fn *serve);
/* A node is gone: drops its requests. */
void tw_mcapi_pending_lost(struct tw_mcapi_node *n, uint32_t node);
void tw_mcapi_on_attr(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);

#endif /* TW_MCAPI_NODE_H */
