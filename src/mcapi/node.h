/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the MCAPI interface share.
 *
 *   init.c   nodes of this process        say.c    controls between nodes
 *   hear.c   what arrives
 *   endp.c   endpoints, attr.c theirs     queue.c  messages and packets that wait
 *   msg.c    messages                     req.c    requests, waiting
 *   chan_bind.c, chan.c channels          pkt.c    packets
 *   room.c   buffers promised to senders
 *   scl.c    scalars                      ring.h   the ring that carries them
 *   scl_chan.c, scl_end.c their channels   turn.h  the line that two of them share
 *
 * A node is one engine endpoint; all of this runs under its lock, but for the
 * inside of scalar channels. Arrivals come through hear.c in whichever thread makes
 * progress, so connecting needs no call of the program. What is to be said is
 * queued (tw_say) and leaves when the lock is about to be left or progress ends.
 */
#ifndef TW_MCAPI_NODE_H
#define TW_MCAPI_NODE_H

#include "engine/engine.h"
#include "mcapi.h"
#include "mcapi/wire.h"

_Static_assert(MCAPI_MAX_NODES == TW_MAX_NODES, "one limit");

#define TW_MC_FILTER 0x4d434150 /* keeps programs of other interfaces away */
#define TW_MC_PRIOS MCAPI_MAX_NO_PRIORITIES
#define TW_MC_BUFFERS 128  /* MCAPI_ATTR_NO_BUFFERS at first */
#define TW_MC_SCALARS 1792 /* that a scalar channel holds */
/* When a call gives up that needs another node's answer: only one that is stopped takes so long. */
#define TW_MC_SYNC_MS 10000
#define TW_MC_POLL_US 10 /* of the first look for what is waited for */

struct tw_node;

/* What is to happen when a request of the engine ends: its context. */
struct tw_op {
	void (*done)(struct tw_node *n, struct tw_op *op, const struct tw_req *r);
};

/* A question to another node. The answer is NULL if that node is not there. */
struct tw_ask {
	struct tw_list link; /* on node->asks */
	uint32_t token, to;
	void (*answer)(struct tw_node *n, struct tw_ask *ask, const struct tw_say *say);
};

enum tw_mreq_kind {
	TW_Q_GET,
	TW_Q_MSG_SEND,
	TW_Q_MSG_RECV,
	TW_Q_CONNECT,
	TW_Q_OPEN,
	TW_Q_PKT_SEND,
	TW_Q_PKT_RECV,
	TW_Q_CLOSE
};

enum tw_mreq_state { TW_Q_PENDING, TW_Q_DONE, TW_Q_CANCELLED };

/* A non-blocking operation, or a blocking one while its caller waits. */
struct tw_mreq {
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
	struct tw_op op;
	struct tw_ask ask;
};

enum tw_chan_open { TW_CH_SHUT, TW_CH_OPENING, TW_CH_OPEN, TW_CH_CANCELLED };

/* One end of a channel. */
struct tw_chan {
	bool bound, reserved;
	bool peer_open, peer_closed;
	bool sender;	  /* of the binding */
	uint8_t type;	  /* of the binding: TW_K_PKT or TW_K_SCL */
	uint8_t open;	  /* enum tw_chan_open */
	bool open_sender; /* what was opened */
	uint8_t open_type;
	uint32_t handle; /* what the program holds, 0 none */
	uint32_t other, epoch;
	uint32_t asker, token; /* while reserved: who wants to know */
	struct tw_mreq *opening;
	struct tw_scl *scl;
	uint32_t credits; /* of the sender */
	/* Of the receiver. */
	uint32_t taken; /* not told to the sender yet */
	bool starving;	/* the sender waits for the next one */
	/* Of the sender. */
	struct tw_list sends;  /* wait for credit */
	struct tw_list hungry; /* on node->hungry until the receiver knows */
	struct tw_list push;   /* on node->pushes when there is new credit */
	struct tw_say opened;  /* what the other end said when it opened */
};

/* A node that sends messages to an endpoint; see room.c. */
struct tw_source {
	uint32_t promised; /* may come */
	uint32_t taken;	   /* were received, and it was not told yet */
	bool known, starving, recalled;
};

struct tw_endp {
	uint32_t handle;
	uint32_t buffers, prio;
	int32_t timeout;
	uint32_t queued, promised; /* to all sources */
	struct tw_source *sources; /* by node, made when the first asks for room */
	uint32_t nsources;	   /* known ones */
	struct tw_chan chan;
	struct tw_list packets, msg_recvs, packet_recvs;
	struct tw_list msgs[TW_MC_PRIOS]; /* of tw_umsg.unexp.all, as packets */
};

/* A place that messages are sent to. */
struct tw_dest {
	struct tw_dest *next;
	uint32_t handle, credits;
	uint32_t kept;	      /* credit, 0 or 1, of the first that waits */
	struct tw_list sends; /* wait for the connection, or for room */
	struct tw_list push;  /* on node->dest_pushes */
	struct tw_ask ask;    /* for room: on a list while there is no answer */
};

struct tw_mc_peer {
	enum { TW_MC_AWAY, TW_MC_CONNECTING, TW_MC_HERE } state;
	struct tw_addr addr;
	struct tw_list out;   /* controls to be sent */
	struct tw_list dirty; /* on node->dirty if something is to be done */
	struct tw_list late;  /* announced controls and scalars, and those behind them */
	struct tw_op connected;
};

#define TW_MC_DESTS 256 /* hash buckets */

struct tw_node {
	uint32_t number;
	uintptr_t thread; /* that it is, or that ends it: tw_thread_id() */
	struct tw_node *past;
	bool elsewhere;		  /* the topology has it on another host */
	_Atomic(uint64_t) handle; /* of the engine endpoint; 0: not initialized */
	struct tw_ep *ep;
	uint32_t nendps;
	struct tw_pool reqs;
	struct tw_list collected; /* requests whose end was seen, oldest first */
	uint32_t ncollected;
	struct tw_list gets, wanted, asks, local, dirty, hungry, pushes, dest_pushes;
	bool attending;
	uint32_t tokens, epochs, gens;
	struct tw_dest *dest;
	struct tw_umsg *lent1; /* packets that the program holds: one, for which */
	struct tw_umsg **lent; /* that is enough, and a hash table of others */
	uint32_t nlent, lent_size;
	struct tw_endp **ports[256]; /* by the port's high byte, then its low byte */
	struct tw_dest *dests[TW_MC_DESTS];
	struct tw_mc_peer peers[TW_MAX_NODES];
};

static inline uint32_t tw_node_of(mcapi_endpoint_t e)
{
	return e >> 16;
}

/* init.c ------------------------------------------------------------------- */

extern _Thread_local struct tw_node *tw_mc_thread; /* the node that this thread is */
extern _Atomic(struct tw_node *) tw_mc_first;	   /* for the other threads */

/* The node of that number, if it is one of this process, or was until just now. */
struct tw_node *tw_mc_node(uint32_t number);

static inline struct tw_node *tw_mc_self(void)
{
	struct tw_node *n = tw_mc_thread;

	return tw_likely(n != NULL) ? n : atomic_load_explicit(&tw_mc_first, memory_order_acquire);
}

/* Locks the caller's node; NULL if there is none. */
tw_shared struct tw_ep *tw_mc_enter(struct tw_node **node)
{
	struct tw_node *n = tw_mc_self();

	*node = n;
	return tw_likely(n != NULL)
		       ? tw_enter(atomic_load_explicit(&n->handle, memory_order_relaxed))
		       : NULL;
}

/* The same at the head of a call, whose status is `none' if there is no node. */
tw_shared struct tw_ep *tw_mc_begin(struct tw_node **node, mcapi_status_t *status,
				    mcapi_status_t none)
{
	if (tw_unlikely(!status))
		return NULL;
	*status = none;
	return tw_mc_enter(node);
}

void tw_mc_attend(struct tw_ep *ep);
/* The engine's endpoint is about to end, and has ended. */
bool tw_mc_ending(struct tw_ep *ep);
void tw_mc_ended(void *node);

void tw_mc_leave_slow(struct tw_ep *ep);

/* Says what is to be said, then unlocks. */
tw_shared void tw_mc_leave(struct tw_ep *ep)
{
	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done) || !tw_leave_quick(ep)))
		tw_mc_leave_slow(ep);
}

/* say.c -------------------------------------------------------------------- */

void tw_say(struct tw_node *n, uint32_t to, const struct tw_say *say);
/* Asks; the answer comes by ask->answer. */
void tw_ask(struct tw_node *n, struct tw_ask *ask, uint32_t to, struct tw_say *say);
void tw_unask(struct tw_ask *ask);
void tw_answer(struct tw_node *n, const struct tw_say *question, mcapi_status_t status,
	       uint32_t value);
void tw_told(struct tw_node *n, const struct tw_say *say);
/* Connects if need be and sends what waits. */
void tw_peer_flush(struct tw_node *n, struct tw_mc_peer *peer);
/* A node is gone: nobody waits for its answers any more. */
void tw_asks_lost(struct tw_node *n, uint32_t node);
void tw_mc_peers_init(struct tw_node *n);
void tw_mc_peers_fini(struct tw_node *n);
/* Does what a control asks for; in hear.c. */
void tw_hear(struct tw_node *n, uint32_t from, const struct tw_say *say);

extern const struct tw_taker tw_mc_taker;

/* endp.c ------------------------------------------------------------------- */

/* The endpoint of this node at that port, or NULL. */
tw_shared struct tw_endp *tw_endp_at(const struct tw_node *n, uint32_t port)
{
	struct tw_endp **low = n->ports[(port >> 8) & 255];

	return tw_likely(low != NULL) ? low[port & 255] : NULL;
}

/* An endpoint of this node, or NULL. */
tw_shared struct tw_endp *tw_endp_find(const struct tw_node *n, mcapi_endpoint_t e)
{
	return tw_likely(tw_node_of(e) == n->number) ? tw_endp_at(n, e) : NULL;
}

/*
 * At the head of a call about an endpoint of the caller's node: locks. Without it
 * nothing is locked, and the status is MCAPI_ENOT_ENDP.
 */
tw_shared struct tw_endp *tw_endp_begin(struct tw_node **n, mcapi_endpoint_t endpoint,
					mcapi_status_t *status)
{
	struct tw_ep *ep = tw_mc_begin(n, status, MCAPI_ENOT_ENDP);
	struct tw_endp *e = ep ? tw_endp_find(*n, endpoint) : NULL;

	if (tw_unlikely(ep && !e))
		tw_mc_leave(ep);
	return e;
}

/* Calls fn for every endpoint. */
void tw_endp_each(struct tw_node *n, void (*fn)(struct tw_node *, struct tw_endp *, void *),
		  void *arg);
void tw_endp_free(struct tw_node *n, struct tw_endp *e);
void tw_endps_fini(struct tw_node *n);
void tw_get_asked(struct tw_node *n, uint32_t from, const struct tw_say *say);
/* Asks again for endpoints of nodes that were not there. */
void tw_gets_search(struct tw_node *n);
/* A question of another node that can only be answered later. */
struct tw_wanted {
	struct tw_list link; /* on node->wanted */
	uint32_t from;
	struct tw_say say;
};
bool tw_want(struct tw_node *n, uint32_t from, const struct tw_say *say);
/* Another node does not want to know any more. */
void tw_wanted_lost(struct tw_node *n, uint32_t node);
void tw_wanted_fini(struct tw_node *n);
void tw_attr_asked(struct tw_node *n, const struct tw_say *say);

/* queue.c ------------------------------------------------------------------ */

/* A message or packet comes in: u is queued, delivered or dropped. */
void tw_queue_msg(struct tw_node *n, struct tw_umsg *u);
void tw_queue_packet(struct tw_node *n, struct tw_umsg *u);
/* The same from an endpoint of this node; false when memory is short. */
bool tw_queue_local(struct tw_node *n, uint64_t match, const void *data, size_t len);
static inline struct tw_umsg *tw_queue_at(struct tw_list *l)
{
	return tw_container(l, struct tw_umsg, unexp.all);
}

/* Not still being fetched. */
static inline bool tw_queue_whole(const struct tw_umsg *u)
{
	return u->have == u->len;
}

/* The next one that can be received whole, or NULL. */
struct tw_umsg *tw_queue_next_msg(struct tw_endp *e);
tw_shared struct tw_umsg *tw_queue_next_packet(struct tw_endp *e)
{
	struct tw_umsg *u = tw_queue_at(e->packets.next);

	return !tw_list_empty(&e->packets) && tw_queue_whole(u) ? u : NULL;
}

/* How many can be received at once. */
unsigned tw_queue_ready(const struct tw_list *l);
/* Hands a packet of the queue to the program; false when memory is short. */
bool tw_queue_hand_out(struct tw_node *n, struct tw_endp *e, struct tw_umsg *u);
/* Takes it off; its sender may get credit. */
void tw_queue_take(struct tw_node *n, struct tw_endp *e, struct tw_umsg *u);
/* Puts the message into the buffer of a receive, which ends. */
void tw_queue_deliver(struct tw_node *n, struct tw_mreq *m, struct tw_umsg *u);
/* Gives packets to waiting receives; ends those that wait in vain. */
void tw_queue_serve_packets(struct tw_node *n, struct tw_endp *e);
void tw_queue_serve_msgs(struct tw_node *n, struct tw_endp *e);
void tw_queue_drop(struct tw_node *n, struct tw_endp *e, struct tw_list *l);
/* Receives an announcement into nothing. */
void tw_queue_refuse(struct tw_node *n, struct tw_umsg *u);
/*
 * Begins to fetch announced data: what goes into a queue in its place, or NULL. It
 * is whole when then() is called; or lost, and then() takes it out of the queue.
 */
struct tw_umsg *tw_queue_fetch(struct tw_node *n, struct tw_umsg *u,
			       void (*then)(struct tw_node *, void *whose, struct tw_umsg *lost),
			       void *whose);
/* Takes it out of its queue: nobody wants it. */
void tw_queue_forget(struct tw_node *n, struct tw_umsg *u);
/* The same for a whole queue when the engine is gone. */
void tw_queue_scrap(struct tw_list *l);
/* Packets in the program's hands. */
struct tw_umsg *tw_lent_take(struct tw_node *n, const void *buffer);
void tw_lent_fini(struct tw_node *n);

/* room.c ------------------------------------------------------------------- */

/* At the sender: there is room, or none any more. */
void tw_credit(struct tw_node *n, mcapi_endpoint_t to, uint32_t count);
void tw_room_recalled(struct tw_node *n, const struct tw_say *say);
/* At the receiver: somebody asks for room, or gives it back. */
void tw_room_asked(struct tw_node *n, uint32_t from, const struct tw_say *say);
void tw_room_returned(struct tw_node *n, uint32_t from, const struct tw_say *say);
/* A message has come in; one was received, which makes room for another. */
void tw_room_arrived(struct tw_endp *e, uint32_t from);
void tw_room_took(struct tw_node *n, struct tw_endp *e, uint32_t from);
/* A node is gone; there are fewer buffers; the endpoint is gone. */
void tw_room_lost(struct tw_node *n, struct tw_endp *e, uint32_t node);
void tw_room_changed(struct tw_node *n, struct tw_endp *e);
void tw_room_closed(struct tw_node *n, struct tw_endp *e);
/* How many more messages an endpoint of this node takes. */
uint32_t tw_room_left(const struct tw_endp *e);
/* It is one of this node and full, whatever others give back. */
bool tw_room_full(const struct tw_node *n, mcapi_endpoint_t to);

/* msg.c -------------------------------------------------------------------- */

/* A place that was sent to before, or NULL. */
struct tw_dest *tw_dest_find(const struct tw_node *n, mcapi_endpoint_t to);
/* Sends what waits there, as far as there is room. */
void tw_msg_push(struct tw_node *n, struct tw_dest *d);

/* req.c -------------------------------------------------------------------- */

/* A request of the user's; NULL when there are no more. */
struct tw_mreq *tw_mreq_new(struct tw_node *n, enum tw_mreq_kind kind);
void tw_mreq_init(struct tw_mreq *m, enum tw_mreq_kind kind);
void tw_mreq_free(struct tw_node *n, struct tw_mreq *m);
void tw_mreq_done(struct tw_node *n, struct tw_mreq *m, mcapi_status_t status, size_t size);
mcapi_request_t tw_mreq_handle(const struct tw_node *n, const struct tw_mreq *m);
/* One that the program gets with its handle; NULL, and the status says so, if not. */
struct tw_mreq *tw_mreq_begin(struct tw_node *n, enum tw_mreq_kind kind, mcapi_request_t *request,
			      mcapi_status_t *status);
/* A send has begun and given a status: the program gets the request, or it is freed. */
void tw_mreq_started(struct tw_node *n, struct tw_mreq *m, size_t size, mcapi_request_t *request,
		     mcapi_status_t *status);
/*
 * Sends to a node. MCAPI_INCOMPLETE: m ends with it. `lost' is its status if the
 * node is gone. MCAPI_ENO_MEM: nothing was done.
 */
mcapi_status_t tw_mreq_carry(struct tw_node *n, struct tw_mreq *m, const void *data, size_t size,
			     uint64_t match, uint32_t to, mcapi_status_t lost);
/* Waits up to that many milliseconds (negative: for ever). */
enum tw_waited tw_mc_wait(struct tw_node *n, bool (*test)(struct tw_ep *, void *), void *arg,
			  int timeout);
bool tw_mreq_over(struct tw_ep *ep, void *mreq);
/* Waits for the end of an operation on the caller's stack; its status. */
mcapi_status_t tw_mreq_wait(struct tw_node *n, struct tw_mreq *m, int timeout,
			    mcapi_status_t closed);

/* chan.c ------------------------------------------------------------------- */

void tw_chan_init(struct tw_chan *c);
/* Whether the handle is that of this end, in that direction; its open may be cancelled. */
static inline bool tw_chan_is(const struct tw_chan *c, uint32_t handle, enum tw_mc_kind type,
			      bool sender)
{
	return c->handle == handle && c->open_type == type && c->open_sender == sender &&
	       c->open != TW_CH_SHUT;
}

/* The end of a packet channel that a handle names, or NULL. */
tw_shared struct tw_endp *tw_pkt_find(const struct tw_node *n, uint32_t handle, bool sender)
{
	struct tw_endp *e = tw_endp_at(n, handle);

	return tw_likely(e && tw_chan_is(&e->chan, handle, TW_K_PKT, sender)) &&
			       e->chan.open != TW_CH_CANCELLED
		       ? e
		       : NULL;
}

void tw_chan_connect(enum tw_mc_kind type, mcapi_endpoint_t a, mcapi_endpoint_t b,
		     mcapi_request_t *request, mcapi_status_t *status);
void tw_chan_open(enum tw_mc_kind type, bool sender, mcapi_endpoint_t endpoint, uint32_t *handle,
		  mcapi_request_t *request, mcapi_status_t *status);
void tw_chan_close(enum tw_mc_kind type, bool sender, uint32_t handle, mcapi_request_t *request,
		   mcapi_status_t *status);
void tw_chan_cancel_open(struct tw_node *n, struct tw_mreq *m);
/* Ends a binding that was never opened here. */
void tw_chan_dissolve(struct tw_node *n, struct tw_endp *e);
/* Connected, or about to be. */
static inline bool tw_chan_taken(const struct tw_endp *e)
{
	return e->chan.bound || e->chan.reserved;
}

/* The binding is made, and over; an end that is being opened waits for the next. */
void tw_chan_bound(struct tw_node *n, struct tw_endp *e);
void tw_chan_unbind(struct tw_endp *e);
/* The other end has said something. */
void tw_chan_told(struct tw_node *n, struct tw_endp *e, const struct tw_say *say);
/* All controls about channels; in chan_bind.c. */
void tw_chan_hear(struct tw_node *n, const struct tw_say *say);
/* The end of a channel that a control is about; NULL if that is over. */
struct tw_endp *tw_chan_named(struct tw_node *n, const struct tw_say *say);
/* Speaks to the other end. */
void tw_chan_say(struct tw_node *n, struct tw_endp *e, enum tw_saying what, uint32_t value);
/* A node is gone. */
void tw_chan_lost(struct tw_node *n, struct tw_endp *e, uint32_t node);

/* pkt.c -------------------------------------------------------------------- */

/* Sends what has credit; and the same some time soon, for hooks that may not send. */
void tw_pkt_push(struct tw_node *n, struct tw_endp *e);
void tw_pkt_push_soon(struct tw_node *n, struct tw_endp *e);
/* The receiver is gone: ends what waits. */
void tw_pkt_fail(struct tw_node *n, struct tw_endp *e);
/* A packet or scalar was received: the sender may get credit. */
void tw_chan_tell_taken(struct tw_node *n, struct tw_endp *e);
tw_shared void tw_chan_took(struct tw_node *n, struct tw_endp *e, uint32_t count, uint32_t window)
{
	struct tw_chan *c = &e->chan;

	c->taken += count;
	if (tw_unlikely(c->taken > window / 4 || c->starving))
		tw_chan_tell_taken(n, e);
}

/* Tells receivers that senders starve. */
void tw_hungry_tell(struct tw_node *n);

/* scl_end.c ---------------------------------------------------------------- */

/* Makes the end of a scalar channel; its handle, or 0. */
uint32_t tw_scl_open(struct tw_node *n, struct tw_endp *e, bool sender);
/* What a receiver tells the sender of its ring. */
void tw_scl_describe(struct tw_endp *e, struct tw_say *say);
/* Both ends are open. */
void tw_scl_ready(struct tw_node *n, struct tw_endp *e);
/* The other end is closed. */
void tw_scl_peer_closed(struct tw_endp *e);
void tw_scl_close(struct tw_endp *e);
/* How many wait at a receiving end; about, while somebody receives. */
uint32_t tw_scl_queued(const struct tw_endp *e);
/* The same if nobody is in it just now. */
bool tw_scl_try_close(struct tw_endp *e);
/* This thread is amid a call on one of the node's: a signal handler asks. */
bool tw_scl_inside(const struct tw_node *n);
void tw_scl_hear(struct tw_node *n, struct tw_endp *e, const struct tw_say *say);
void tw_scl_arrived(struct tw_node *n, struct tw_endp *e, unsigned size, uint64_t value);
void tw_scl_forked(void);
void tw_scl_forget(void); /* by this thread, what it was let into */

#endif /* TW_MCAPI_NODE_H */
