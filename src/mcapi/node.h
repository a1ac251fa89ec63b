/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the MCAPI interface share.
 *
 *   init.c   nodes of this process        ctrl.c    controls between nodes
 *   ctrl_recv.c   what arrives
 *   endp.c   endpoints, attr.c theirs     queue.c  messages and packets that wait
 *   msg.c    messages                     req.c    requests, waiting
 *   chan_bind.c, chan.c channels          pkt.c    packets
 *   credits.c   buffers promised to senders
 *   scl.c    scalars                      scl_ring.h   the ring that carries them
 *   scl_chan.c, scl_end.c their channels   token.h  the line that two of them share
 *
 * A node is one engine endpoint; all of this runs under its lock, but for the
 * inside of scalar channels. Arrivals come through ctrl_recv.c in whichever thread makes
 * progress, so connecting needs no call of the program. What is to be said is
 * queued (tw_mcapi_ctrl) and leaves when the lock is about to be left or progress ends.
 */
#ifndef TW_MCAPI_NODE_H
#define TW_MCAPI_NODE_H

#include "engine/engine.h"
#include "mcapi.h"
#include "mcapi/wire.h"

_Static_assert(MCAPI_MAX_NODES == TW_MAX_NODES, "one limit");

#define TW_MCAPI_FILTER 0x4d434150 /* keeps programs of other interfaces away */
#define TW_MCAPI_PRIOS MCAPI_MAX_NO_PRIORITIES
#define TW_MCAPI_BUFFERS 128  /* MCAPI_ATTR_NO_BUFFERS at first */
#define TW_MCAPI_SCALARS 1792 /* that a scalar channel holds */
/* When a call gives up that needs another node's answer: only one that is stopped takes so long. */
#define TW_MCAPI_SYNC_MS 10000
#define TW_MCAPI_POLL_US 10 /* of the first look for what is waited for */

struct tw_mcapi_node;

/* What is to happen when a request of the engine ends: its context. */
struct tw_mcapi_op {
	void (*done)(struct tw_mcapi_node *n, struct tw_mcapi_op *op, const struct tw_req *r);
};

/* A question to another node. The answer is NULL if that node is not there. */
struct tw_mcapi_ctrl_request {
	struct tw_list link; /* on node->asks */
	uint32_t token, to;
	void (*on_reply)(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ask,
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
	bool bound;	      /* the engine works on it: too late to cancel */
	bool collected;	      /* the user has seen its end */
	int32_t status, lost; /* lost: what a send ends with if it does not arrive */
	size_t size;
	struct tw_list link;
	union {
		void *buffer;	  /* MSG_RECV */
		const void *data; /* MSG_SEND, PKT_SEND */
		void **packet;	  /* PKT_RECV */
		mcapi_endpoint_t *found;
	};
	size_t len;
	mcapi_endpoint_t endpoint; /* which it is for */
	union {
		uint64_t retry; /* GET: tick at which to ask again, 0 asked */
		uint64_t match; /* MSG_SEND */
	};
	struct tw_mcapi_op op;
	struct tw_mcapi_ctrl_request ask;
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
	bool peer_open, peer_closed;
	bool sender;	  /* of the binding */
	uint8_t type;	  /* of the binding: TW_MCAPI_K_PKT or TW_MCAPI_K_SCL */
	uint8_t open;	  /* enum tw_mcapi_chan_open */
	bool open_sender; /* what was opened */
	uint8_t open_type;
	uint32_t handle; /* what the program holds, 0 none */
	uint32_t other, epoch;
	uint32_t asker, token; /* while reserved: who wants to know */
	struct tw_mcapi_mreq *opening;
	struct tw_mcapi_scl *scl;
	uint32_t credits; /* of the sender */
	/* Of the receiver. */
	uint32_t taken; /* not told to the sender yet */
	bool starved;	/* the sender waits for the next one */
	/* Of the sender. */
	struct tw_list sends;	       /* wait for credit */
	struct tw_list credit_starved; /* on node->hungry until the receiver knows */
	struct tw_list push;	       /* on node->pushes when there is new credit */
	struct tw_mcapi_ctrl opened;   /* what the other end said when it opened */
};

/* A node that sends messages to an endpoint; see credits.c. */
struct tw_mcapi_source {
	uint32_t granted; /* may come */
	uint32_t taken;	  /* were received, and it was not told yet */
	bool known, starved, recalled;
};

struct tw_mcapi_endp {
	uint32_t handle;
	uint32_t buffers, prio;
	int32_t timeout;
	uint32_t queued, granted;	 /* to all sources */
	struct tw_mcapi_source *sources; /* by node, made when the first asks for room */
	uint32_t nsources;		 /* known ones */
	struct tw_mcapi_chan chan;
	struct tw_list packets, msg_recvs, packet_recvs;
	struct tw_list msgs[TW_MCAPI_PRIOS]; /* of tw_unexp_msg.unexp.all, as packets */
};

/* A place that messages are sent to. */
struct tw_mcapi_dest {
	struct tw_mcapi_dest *next;
	uint32_t handle, credits;
	uint32_t kept;			  /* credit, 0 or 1, of the first that waits */
	struct tw_list sends;		  /* wait for the connection, or for room */
	struct tw_list push;		  /* on node->dest_pushes */
	struct tw_mcapi_ctrl_request ask; /* for room: on a list while there is no answer */
};

struct tw_mcapi_peer {
	enum { TW_MCAPI_AWAY, TW_MCAPI_CONNECTING, TW_MCAPI_HERE } state;
	struct tw_addr addr;
	struct tw_list out;   /* controls to be sent */
	struct tw_list dirty; /* on node->dirty if something is to be done */
	struct tw_list late;  /* announced controls and scalars, and those behind them */
	struct tw_mcapi_op connected;
};

#define TW_MCAPI_DESTS 256 /* hash buckets */

struct tw_mcapi_node {
	uint32_t number;
	uintptr_t thread; /* that it is, or that ends it: tw_thread_id() */
	struct tw_mcapi_node *past;
	bool elsewhere;		  /* the topology has it on another host */
	_Atomic(uint64_t) handle; /* of the engine endpoint; 0: not initialized */
	struct tw_ep *ep;
	uint32_t nendps;
	struct tw_pool reqs;
	struct tw_list collected; /* requests whose end was seen, oldest first */
	uint32_t ncollected;
	struct tw_list gets, pending, requests, local, dirty, credit_starved, pushes, dest_pushes;
	bool attending;
	uint32_t tokens, epochs, gens;
	struct tw_mcapi_dest *dest;
	struct tw_unexp_msg *outstanding1; /* packets that the program holds: one, for which */
	struct tw_unexp_msg **outstanding; /* that is enough, and a hash table of others */
	uint32_t noutstanding, outstanding_size;
	struct tw_mcapi_endp **ports[256]; /* by the port's high byte, then its low byte */
	struct tw_mcapi_dest *dests[TW_MCAPI_DESTS];
	struct tw_mcapi_peer peers[TW_MAX_NODES];
};

static inline uint32_t tw_mcapi_node_of(mcapi_endpoint_t e)
{
	return e >> 16;
}

/* init.c ------------------------------------------------------------------- */

extern _Thread_local struct tw_mcapi_node *tw_mcapi_thread; /* the node that this thread is */
extern _Atomic(struct tw_mcapi_node *) tw_mcapi_first;	    /* for the other threads */

/* The node of that number, if it is one of this process, or was until just now. */
struct tw_mcapi_node *tw_mcapi_node(uint32_t number);

static inline struct tw_mcapi_node *tw_mcapi_self(void)
{
	struct tw_mcapi_node *n = tw_mcapi_thread;

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

/* The same at the head of a call, whose status is `none' if there is no node. */
tw_shared struct tw_ep *tw_mcapi_begin(struct tw_mcapi_node **node, mcapi_status_t *status,
				       mcapi_status_t none)
{
	if (tw_unlikely(!status))
		return NULL;
	*status = none;
	return tw_mcapi_enter(node);
}

void tw_mcapi_attend(struct tw_ep *ep);
/* The engine's endpoint is about to end, and has ended. */
bool tw_mcapi_ending(struct tw_ep *ep);
void tw_mcapi_ended(void *node);

void tw_mcapi_leave_slow(struct tw_ep *ep);

/* Says what is to be said, then unlocks. */
tw_shared void tw_mcapi_leave(struct tw_ep *ep)
{
	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done) || !tw_leave_quick(ep)))
		tw_mcapi_leave_slow(ep);
}

/* ctrl.c -------------------------------------------------------------------- */

void tw_mcapi_ctrl(struct tw_mcapi_node *n, uint32_t to, const struct tw_mcapi_ctrl *ctrl);
/* Asks; the answer comes by ask->answer. */
void tw_mcapi_ctrl_request(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ask, uint32_t to,
			   struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_ctrl_abandon(struct tw_mcapi_ctrl_request *ask);
void tw_mcapi_ctrl_reply(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *question,
			 mcapi_status_t status, uint32_t value);
void tw_mcapi_on_reply(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* Connects if need be and sends what waits. */
void tw_mcapi_peer_flush(struct tw_mcapi_node *n, struct tw_mcapi_peer *peer);
/* A node is gone: nobody waits for its answers any more. */
void tw_mcapi_requests_lost(struct tw_mcapi_node *n, uint32_t node);
void tw_mcapi_peers_init(struct tw_mcapi_node *n);
void tw_mcapi_peers_fini(struct tw_mcapi_node *n);
/* Does what a control asks for; in ctrl_recv.c. */
void tw_mcapi_on_ctrl(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);

extern const struct tw_taker tw_mcapi_taker;

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
 * At the head of a call about an endpoint of the caller's node: locks. Without it
 * nothing is locked, and the status is MCAPI_ENOT_ENDP.
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

/* Calls fn for every endpoint. */
void tw_mcapi_endp_each(struct tw_mcapi_node *n,
			void (*fn)(struct tw_mcapi_node *, struct tw_mcapi_endp *, void *),
			void *arg);
void tw_mcapi_endp_free(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_endps_fini(struct tw_mcapi_node *n);
void tw_mcapi_get_asked(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* Asks again for endpoints of nodes that were not there. */
void tw_mcapi_gets_search(struct tw_mcapi_node *n);
/* A question of another node that can only be answered later. */
struct tw_mcapi_pending {
	struct tw_list link; /* on node->wanted */
	uint32_t from;
	struct tw_mcapi_ctrl ctrl;
};
bool tw_mcapi_pending_add(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* Another node does not want to know any more. */
void tw_mcapi_pending_lost(struct tw_mcapi_node *n, uint32_t node);
void tw_mcapi_pending_fini(struct tw_mcapi_node *n);
void tw_mcapi_attr_asked(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);

/* queue.c ------------------------------------------------------------------ */

/* A message or packet comes in: u is queued, delivered or dropped. */
void tw_mcapi_queue_msg(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
void tw_mcapi_queue_packet(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/* The same from an endpoint of this node; false when memory is short. */
bool tw_mcapi_queue_local(struct tw_mcapi_node *n, uint64_t match, const void *data, size_t len);
static inline struct tw_unexp_msg *tw_mcapi_queue_at(struct tw_list *l)
{
	return tw_container(l, struct tw_unexp_msg, unexp.all);
}

/* Not still being fetched. */
static inline bool tw_mcapi_queue_whole(const struct tw_unexp_msg *u)
{
	return u->have == u->len;
}

/* The next one that can be received whole, or NULL. */
struct tw_unexp_msg *tw_mcapi_queue_next_msg(struct tw_mcapi_endp *e);
tw_shared struct tw_unexp_msg *tw_mcapi_queue_next_packet(struct tw_mcapi_endp *e)
{
	struct tw_unexp_msg *u = tw_mcapi_queue_at(e->packets.next);

	return !tw_list_empty(&e->packets) && tw_mcapi_queue_whole(u) ? u : NULL;
}

/* How many can be received at once. */
unsigned tw_mcapi_queue_ready(const struct tw_list *l);
/* Hands a packet of the queue to the program; false when memory is short. */
bool tw_mcapi_queue_hand_out(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			     struct tw_unexp_msg *u);
/* Takes it off; its sender may get credit. */
void tw_mcapi_queue_take(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u);
/* Puts the message into the buffer of a receive, which ends. */
void tw_mcapi_queue_deliver(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
			    struct tw_unexp_msg *u);
/* Gives packets to waiting receives; ends those that wait in vain. */
void tw_mcapi_queue_serve_packets(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_queue_serve_msgs(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_queue_drop(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_list *l);
/* Receives an announcement into nothing. */
void tw_mcapi_queue_refuse(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/*
 * Begins to fetch announced data: what goes into a queue in its place, or NULL. It
 * is whole when then() is called; or lost, and then() takes it out of the queue.
 */
struct tw_unexp_msg *tw_mcapi_queue_fetch(struct tw_mcapi_node *n, struct tw_unexp_msg *u,
					  void (*then)(struct tw_mcapi_node *, void *whose,
						       struct tw_unexp_msg *lost),
					  void *whose);
/* Takes it out of its queue: nobody wants it. */
void tw_mcapi_queue_forget(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/* The same for a whole queue when the engine is gone. */
void tw_mcapi_queue_scrap(struct tw_list *l);
/* Packets in the program's hands. */
struct tw_unexp_msg *tw_mcapi_outstanding_take(struct tw_mcapi_node *n, const void *buffer);
void tw_mcapi_outstanding_fini(struct tw_mcapi_node *n);

/* credits.c ------------------------------------------------------------------- */

/* At the sender: there is room, or none any more. */
void tw_mcapi_credit(struct tw_mcapi_node *n, mcapi_endpoint_t to, uint32_t count);
void tw_mcapi_credits_recalled(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* At the receiver: somebody asks for room, or gives it back. */
void tw_mcapi_credits_asked(struct tw_mcapi_node *n, uint32_t from,
			    const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_credits_returned(struct tw_mcapi_node *n, uint32_t from,
			       const struct tw_mcapi_ctrl *ctrl);
/* A message has come in; one was received, which makes room for another. */
void tw_mcapi_credits_arrived(struct tw_mcapi_endp *e, uint32_t from);
void tw_mcapi_credits_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t from);
/* A node is gone; there are fewer buffers; the endpoint is gone. */
void tw_mcapi_credits_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node);
void tw_mcapi_credits_changed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_credits_closed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* How many more messages an endpoint of this node takes. */
uint32_t tw_mcapi_credits_left(const struct tw_mcapi_endp *e);
/* It is one of this node and full, whatever others give back. */
bool tw_mcapi_credits_full(const struct tw_mcapi_node *n, mcapi_endpoint_t to);

/* msg.c -------------------------------------------------------------------- */

/* A place that was sent to before, or NULL. */
struct tw_mcapi_dest *tw_mcapi_dest_find(const struct tw_mcapi_node *n, mcapi_endpoint_t to);
/* Sends what waits there, as far as there is room. */
void tw_mcapi_msg_push(struct tw_mcapi_node *n, struct tw_mcapi_dest *d);

/* req.c -------------------------------------------------------------------- */

/* A request of the user's; NULL when there are no more. */
struct tw_mcapi_mreq *tw_mcapi_mreq_new(struct tw_mcapi_node *n, enum tw_mcapi_mreq_kind kind);
void tw_mcapi_mreq_init(struct tw_mcapi_mreq *m, enum tw_mcapi_mreq_kind kind);
void tw_mcapi_mreq_free(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m);
void tw_mcapi_mreq_done(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_status_t status,
			size_t size);
mcapi_request_t tw_mcapi_mreq_handle(const struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m);
/* One that the program gets with its handle; NULL, and the status says so, if not. */
struct tw_mcapi_mreq *tw_mcapi_mreq_begin(struct tw_mcapi_node *n, enum tw_mcapi_mreq_kind kind,
					  mcapi_request_t *request, mcapi_status_t *status);
/* A send has begun and given a status: the program gets the request, or it is freed. */
void tw_mcapi_mreq_started(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, size_t size,
			   mcapi_request_t *request, mcapi_status_t *status);
/*
 * Sends to a node. MCAPI_INCOMPLETE: m ends with it. `lost' is its status if the
 * node is gone. MCAPI_ENO_MEM: nothing was done.
 */
mcapi_status_t tw_mcapi_mreq_carry(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
				   const void *data, size_t size, uint64_t match, uint32_t to,
				   mcapi_status_t lost);
/* Waits up to that many milliseconds (negative: for ever). */
enum tw_waited tw_mcapi_wait(struct tw_mcapi_node *n, bool (*test)(struct tw_ep *, void *),
			     void *arg, int timeout);
bool tw_mcapi_mreq_over(struct tw_ep *ep, void *mreq);
/* Waits for the end of an operation on the caller's stack; its status. */
mcapi_status_t tw_mcapi_mreq_wait(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, int timeout,
				  mcapi_status_t closed);

/* chan.c ------------------------------------------------------------------- */

void tw_mcapi_chan_init(struct tw_mcapi_chan *c);
/* Whether the handle is that of this end, in that direction; its open may be cancelled. */
static inline bool tw_mcapi_chan_is(const struct tw_mcapi_chan *c, uint32_t handle,
				    enum tw_mcapi_kind type, bool sender)
{
	return c->handle == handle && c->open_type == type && c->open_sender == sender &&
	       c->open != TW_MCAPI_CH_SHUT;
}

/* The end of a packet channel that a handle names, or NULL. */
tw_shared struct tw_mcapi_endp *tw_mcapi_pkt_find(const struct tw_mcapi_node *n, uint32_t handle,
						  bool sender)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, handle);

	return tw_likely(e && tw_mcapi_chan_is(&e->chan, handle, TW_MCAPI_K_PKT, sender)) &&
			       e->chan.open != TW_MCAPI_CH_CANCELLED
		       ? e
		       : NULL;
}

void tw_mcapi_chan_connect(enum tw_mcapi_kind type, mcapi_endpoint_t a, mcapi_endpoint_t b,
			   mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_open(enum tw_mcapi_kind type, bool sender, mcapi_endpoint_t endpoint,
			uint32_t *handle, mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_close(enum tw_mcapi_kind type, bool sender, uint32_t handle,
			 mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_cancel_open(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m);
/* Ends a binding that was never opened here. */
void tw_mcapi_chan_dissolve(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* Connected, or about to be. */
static inline bool tw_mcapi_chan_taken(const struct tw_mcapi_endp *e)
{
	return e->chan.bound || e->chan.reserved;
}

/* The binding is made, and over; an end that is being opened waits for the next. */
void tw_mcapi_chan_bound(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_chan_unbind(struct tw_mcapi_endp *e);
/* The other end has said something. */
void tw_mcapi_chan_on_peer(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			   const struct tw_mcapi_ctrl *ctrl);
/* All controls about channels; in chan_bind.c. */
void tw_mcapi_chan_on_ctrl(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* The end of a channel that a control is about; NULL if that is over. */
struct tw_mcapi_endp *tw_mcapi_chan_named(struct tw_mcapi_node *n,
					  const struct tw_mcapi_ctrl *ctrl);
/* Speaks to the other end. */
void tw_mcapi_chan_ctrl_send(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			     enum tw_mcapi_ctrl_what what, uint32_t value);
/* A node is gone. */
void tw_mcapi_chan_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node);

/* pkt.c -------------------------------------------------------------------- */

/* Sends what has credit; and the same some time soon, for hooks that may not send. */
void tw_mcapi_pkt_push(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_pkt_push_soon(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* The receiver is gone: ends what waits. */
void tw_mcapi_pkt_fail(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* A packet or scalar was received: the sender may get credit. */
void tw_mcapi_chan_return_credits(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
tw_shared void tw_mcapi_chan_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t count,
				  uint32_t window)
{
	struct tw_mcapi_chan *c = &e->chan;

	c->taken += count;
	if (tw_unlikely(c->taken > window / 4 || c->starved))
		tw_mcapi_chan_return_credits(n, e);
}

/* Tells receivers that senders starve. */
void tw_mcapi_tell_starved(struct tw_mcapi_node *n);

/* scl_end.c ---------------------------------------------------------------- */

/* Makes the end of a scalar channel; its handle, or 0. */
uint32_t tw_mcapi_scl_open(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, bool sender);
/* What a receiver tells the sender of its ring. */
void tw_mcapi_scl_describe(struct tw_mcapi_endp *e, struct tw_mcapi_ctrl *ctrl);
/* Both ends are open. */
void tw_mcapi_scl_ready(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* The other end is closed. */
void tw_mcapi_scl_peer_closed(struct tw_mcapi_endp *e);
void tw_mcapi_scl_close(struct tw_mcapi_endp *e);
/* How many wait at a receiving end; about, while somebody receives. */
uint32_t tw_mcapi_scl_queued(const struct tw_mcapi_endp *e);
/* The same if nobody is in it just now. */
bool tw_mcapi_scl_try_close(struct tw_mcapi_endp *e);
/* This thread is amid a call on one of the node's: a signal handler asks. */
bool tw_mcapi_scl_inside(const struct tw_mcapi_node *n);
void tw_mcapi_scl_on_ctrl(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			  const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_scl_arrived(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, unsigned size,
			  uint64_t value);
void tw_mcapi_scl_forked(void);
void tw_mcapi_scl_forget(void); /* by this thread, what it was let into */

#endif /* TW_MCAPI_NODE_H */
