/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: what interfaces call and what its own files share.
 *
 *   endpoint.c  opening and closing, handles      progress.c  the heartbeat
 *   peer.c      peers and their fate              connect.c   connecting
 *   request.c   requests and their data (.h)      wait.c      blocking calls
 *   send.c      the sending side                  service.c   the service thread
 *   recv.c      the receiving side                directory.c boards and names
 *   rndv.c      long messages                     peers.c     the peers file
 *   withdraw.c  cancelling, time limits
 *   stats.c     what tools see
 *   library.c   the first and the last interface
 *   topology.c     where numbered nodes live         unexp_msg.c      memory of messages
 *   uses.h      what of it nothing that is built asks for
 *
 * Everything here is called with the endpoint's lock held (between tw_enter and
 * tw_leave) unless its comment says otherwise.
 */
#ifndef TW_ENGINE_H
#define TW_ENGINE_H

#include "engine/request.h"
#include "engine/types.h"

/* library.c; no lock ------------------------------------------------------- */

/* The first interface that begins reads the settings; TW_EPROTO: they are wrong. */
enum tw_err tw_begin(void);
void tw_end(void);

/* endpoint.c ------------------------------------------------------------- */

struct tw_open {
	uint32_t board, endpoint_id, filter; /* ~0 endpoint_id: any */
	uint32_t unexp_max;
	uint64_t context_mask;
	void (*error_handler)(void);
	const struct tw_taker *taker; /* without MX there must be one */
	void *owner;
};

/*
 * Both without a lock. Closing waits for blocked callers to leave, unless this thread is
 * amid a call on the endpoint, which a signal handler has interrupted: then the rest is
 * done when that has ended (tw_ep_finish), and only the endpoint's name is free at once.
 */
enum tw_err tw_ep_open(const struct tw_open *how, uint64_t *handle);
enum tw_err tw_ep_close(uint64_t handle);
/* The same for an interface's call, which the engine does not know of. */
enum tw_err tw_ep_leave_behind(uint64_t handle);
/* Whether it would be so: this thread's own call may have been interrupted by a signal. */
bool tw_ep_inside(uint64_t handle);
/* Ends a slot that was left, if nobody is inside; whether it has ended. No lock. */
bool tw_ep_finish(struct tw_slot_entry *s);
/* Ends everything in a forked child. */
void tw_ep_forked(void);

/* This thread is inside the unexpected handler. */
static inline bool tw_handler_in(const struct tw_slot_entry *s)
{
	return TW_USES_HANDLER &&
	       atomic_load_explicit(&s->handler, memory_order_relaxed) == tw_thread_id();
}

/* It is inside that of some endpoint. */
bool tw_in_any_handler(void);

/* Locks the endpoint of a handle, in the common case: the lock is biased to the caller. */
static inline struct tw_ep *tw_enter_quick(uint64_t handle)
{
	struct tw_slot_entry *s = &tw_slots[(handle - 1) & (TW_MAX_OPEN - 1)];

	tw_opaque(s); /* or the place of every field is worked out from the handle again */
	if (tw_unlikely(!handle ||
			atomic_load_explicit(&s->handle, memory_order_acquire) != handle ||
			tw_handler_in(s)))
		return NULL;
	/* Whoever ends the handle holds the lock, and with it the bias from then on. */
	return tw_likely(tw_lock_biased(&s->lock)) ? s->ep : NULL;
}

struct tw_ep *tw_enter_slow(uint64_t handle);

/* Locks the endpoint of a handle; NULL if there is none. */
tw_shared struct tw_ep *tw_enter(uint64_t handle)
{
	struct tw_ep *ep = tw_enter_quick(handle);

	return tw_likely(ep != NULL) ? ep : tw_enter_slow(handle);
}

void tw_wake_sleepers(struct tw_ep *ep);

/* Whole messages are the interface's: nothing is matched; without MX, nowhere. */
static inline bool tw_takes(const struct tw_ep *ep)
{
	return !TW_HAVE_MX || ep->taker;
}

/* Something is under way that needs more polls. */
static inline bool tw_unfinished(const struct tw_ep *ep)
{
	return ep->nactive || !tw_list_empty(&ep->work);
}

static inline bool tw_in_handler(const struct tw_ep *ep)
{
	return tw_handler_in(ep->slot);
}

tw_shared void tw_leave(struct tw_ep *ep)
{
	struct tw_slot_entry *s = ep->slot;

	if (tw_unlikely(tw_in_handler(ep)))
		return;
	if (tw_unlikely(ep->nsleeping && ep->events != ep->woken))
		tw_wake_sleepers(ep);
	tw_unlock(&s->lock);
}

/* Leaves if nothing has to be seen to on the way. */
static inline bool tw_leave_quick(struct tw_ep *ep)
{
	if (tw_unlikely(tw_unfinished(ep) || ep->nsleeping || ep->slot->lock.by_mutex ||
			tw_in_handler(ep)))
		return false;
	tw_unlock(&ep->slot->lock);
	return true;
}

/* send.c, recv.c, rndv.c ------------------------------------------------- */

/* Sends to an address; the request ends at once if that leads nowhere. */
void tw_send(struct tw_ep *ep, struct tw_req *r, struct tw_addr to);
/*
 * The same where the message can leave at once: it leaves before its request is
 * made, since the other side waits for the one and nobody for the other. NULL:
 * nothing was done.
 */
struct tw_req *tw_send_now(struct tw_ep *ep, char *data, uint32_t len, uint64_t match,
			   struct tw_addr to);
/* The same without a request, for who needs none; false: nothing was done. */
bool tw_send_bare(struct tw_ep *ep, const void *data, uint32_t len, uint64_t match,
		  struct tw_addr to);
/* Sends on what waits; whether anything moved. */
bool tw_send_flush(struct tw_peer *p);
/* The credits that the next packet to a peer returns. */
static inline uint16_t tw_take_credits(struct tw_peer *p)
{
	uint32_t n = tw_min(p->unreturned, 0xffffu);

	p->unreturned -= n;
	p->used -= n;
	return (uint16_t)n;
}

void tw_recv_post(struct tw_ep *ep, struct tw_req *r, uint64_t key, uint64_t mask);
/* Takes a receive back if nothing has matched it. */
bool tw_recv_cancel(struct tw_ep *ep, struct tw_req *r);
enum tw_err tw_recv_packet(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			   uint32_t len);
/* All data is here: ends the receive, once it owes nothing. */
void tw_recv_finish(struct tw_ep *ep, struct tw_req *r);
void tw_unexp_msg_free(struct tw_ep *ep, struct tw_unexp_msg *u);
/* Frees all unexpected messages. */
void tw_unexp_msgs_fini(struct tw_ep *ep);
/* Memory for a message of that length, without a place in any queue; NULL when short. */
struct tw_unexp_msg *tw_unexp_msg_get(struct tw_ep *ep, uint32_t room);
void tw_unexp_msg_put(struct tw_ep *ep, struct tw_unexp_msg *u);
/* Gives memory back that was not needed for a while; the tick of the next look, or 0. */
uint64_t tw_rest_expire(struct tw_ep *ep, uint64_t now);
/* A look is due some time if there are many requests. */
void tw_rest_later(struct tw_ep *ep);
/* A taker receives an announced message. Ends the announcement. */
void tw_take_pull(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r);
/* What a message of that length held is the sender's again. */
void tw_take_release(struct tw_ep *ep, struct tw_addr from, uint32_t len);
/* Tells the other side's taker of so many messages; overtakes what is matched. */
void tw_tell(struct tw_peer *p, uint32_t n);
/* That is still to be done. */
static inline bool tw_tells(const struct tw_peer *p)
{
	return TW_USES_TELL && p->tell;
}

static inline bool tw_holds(const struct tw_ep *ep)
{
	return TW_USES_TELL && ep->taker->holds;
}

/* Forgets announcements and halves of messages of a peer that is gone. */
void tw_recv_lost(struct tw_peer *p);

unsigned tw_rndv_protos(const char *name);
/* The receive of an announced message begins; key_len bytes of remote key. */
/*
 * A long transfer, or one that waits for its acknowledgement. It is passive where
 * the other side does all that is left and rings if it wants something else, but
 * for an interface that acts on what ends.
 */
tw_shared void tw_move(struct tw_peer *p, struct tw_req *r, bool active)
{
	active |= !p->link->by_cpu || tw_takes(p->ep);
	p->ep->nactive += (uint32_t)active - (uint32_t)r->active;
	r->active = active;
}

static inline void tw_move_begin(struct tw_peer *p, struct tw_req *r, bool active)
{
	p->ep->nmoving++;
	r->active = false;
	tw_move(p, r, active);
}

static inline void tw_move_end(struct tw_ep *ep, struct tw_req *r)
{
	ep->nmoving--;
	ep->nactive -= r->active;
}

void tw_rndv_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		   const void *key, uint32_t key_len);
void tw_rndv_learn(struct tw_peer *p, const struct tw_req *r, enum tw_proto proto);
/* A send that waits to hear what the receiver wants. */
/* All of it is over, well or not. */
void tw_rndv_received(struct tw_peer *p, struct tw_req *r);
void tw_rndv_sent(struct tw_peer *p, struct tw_req *r, enum tw_status status);
static inline bool tw_rndv_announced(const struct tw_req *r)
{
	return (r->flags & TW_R_RNDV) && !(r->flags & TW_R_DATA) && r->deferred != TW_DEFER_PUT;
}
enum tw_err tw_rndv_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload, uint32_t len);
bool tw_rndv_flush(struct tw_peer *p);
void tw_defer(struct tw_peer *p, struct tw_req *r, enum tw_deferred what);

/* withdraw.c --------------------------------------------------------------- */

enum tw_back {
	TW_BACK_NO,   /* complete, or matched: it ends by itself */
	TW_BACK_DONE, /* it is on no list any more: the caller ends it */
	TW_BACK_ASKED /* the peer's answer ends it with that status, or tells that it is too late */
};
enum tw_back tw_take_back(struct tw_ep *ep, struct tw_req *r, enum tw_status status);
/* All of a send that is to be asked back has left. */
void tw_ask_back(struct tw_peer *p, struct tw_req *r);
bool tw_withdraw_pay(struct tw_peer *p, struct tw_req *r);
enum tw_err tw_withdraw_asked(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len);
enum tw_err tw_withdraw_answered(struct tw_peer *p, struct tw_hdr hdr);
/* Memory for the limit of one more request; false when it is short. */
bool tw_limits_room(struct tw_ep *ep);
/*
 * The request, if it is pending then, ends with TW_S_TIMEOUT so many microseconds from
 * now, TW_FOREVER: not. False when memory is short.
 */
bool tw_req_limit(struct tw_ep *ep, struct tw_req *r, uint64_t us);
/* Takes back what is late; the next time wanted, or 0. */
uint64_t tw_limits_expire(struct tw_ep *ep, uint64_t now);

/* direct.c ---------------------------------------------------------------- */

/* Lets the other side read the data of a send; 0 if it cannot. */
uint64_t tw_direct_expose(struct tw_peer *p, struct tw_req *r);
/* Keeps what a receive needs to know of the sender's memory; false without memory. */
bool tw_direct_init(struct tw_req *r, uint64_t address, const void *key, uint32_t key_len);
/* Frees what a request has of remote memory. */
void tw_direct_forget(struct tw_peer *p, struct tw_req *r);
void tw_direct_start(struct tw_peer *p, struct tw_req *r, enum tw_proto proto);
/* Both move a piece or more; whether anything moved. */
bool tw_direct_pull(struct tw_peer *p);
bool tw_direct_put(struct tw_peer *p, struct tw_req *r);
void tw_direct_ended(struct tw_link *link, void *cookie, enum tw_err err);
enum tw_err tw_direct_share(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len);
enum tw_err tw_direct_written(struct tw_peer *p, struct tw_hdr hdr);
/*
 * An interface's own access to memory that a peer has registered: a request of kind
 * TW_READ or TW_WRITE. It ends with TW_S_REJECTED where the data must be sent instead.
 */
void tw_direct_access(struct tw_ep *ep, struct tw_req *r, struct tw_addr to, uint64_t address,
		      const void *key, uint32_t key_len);

/* peer.c ----------------------------------------------------------------- */

struct tw_peer *tw_peer_new(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id);
/* The live peer of that name, or NULL. */
struct tw_peer *tw_peer_find(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id);
/* The peer that an address names, dead ones included; NULL for a foreign address. */
tw_shared struct tw_peer *tw_peer_at(struct tw_ep *ep, struct tw_addr a)
{
	uint32_t index = a.slot_peer & 0xfffff;
	struct tw_peer *p;

	if (tw_unlikely(index >= ep->npeers))
		return NULL;
	p = ep->peers[index];
	if (tw_unlikely(!tw_addr_same(&p->addr, &a) || p->state < TW_PEER_UP))
		return NULL;
	return p;
}

/* Lines of unexpected memory to grant to one more peer. */
uint32_t tw_peer_window(struct tw_ep *ep);
void tw_peer_up(struct tw_peer *p, struct tw_link *link, const struct tw_ident *other,
		uint32_t window);
/*
 * The peer has connected, but nobody here has shown its filter: messages to it are
 * rejected. It has no credits, so that sending asks for this only where these are short.
 */
void tw_peer_bar(struct tw_peer *p);
/* Somebody has. */
void tw_peer_admit(struct tw_peer *p);
void tw_peer_down(struct tw_peer *p, enum tw_status why);
void tw_peer_free(struct tw_peer *p);

/* A packet to it costs more than copying what is in it. */
static inline bool tw_is_remote(const struct tw_peer *p)
{
	return TW_USES_NET && p->link->far;
}

/* Bytes of the keys of its memory. */
static inline uint32_t tw_key_size(const struct tw_peer *p)
{
	return TW_USES_NET ? p->link->key_size : 0;
}

/* So many lines are owed that a packet of their own is due. */
static inline bool tw_credits_due(const struct tw_peer *p)
{
	return p->unreturned > tw_min(p->window / 2, (uint32_t)TW_CREDITS_DUE);
}

tw_shared void tw_peer_work(struct tw_peer *p)
{
	if (tw_list_empty(&p->work))
		tw_list_add_tail(&p->ep->work, &p->work);
}

/* connect.c -------------------------------------------------------------- */

/* A request to connect; NULL when memory is short. The deadline is a tick. */
struct tw_req *tw_connect_new(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id, uint32_t key,
			      uint64_t deadline);
/* Starts or joins a connect; the request ends with the result. */
void tw_connect(struct tw_ep *ep, struct tw_req *r);
/* Takes a connect out of those that wait for its peer. */
void tw_connect_leave(struct tw_ep *ep, struct tw_req *r);
/* Ends a connect whose result nobody wants any more. */
void tw_connect_abandon(struct tw_ep *ep, struct tw_req *r);
void tw_disconnect(struct tw_ep *ep, struct tw_peer *p);
/* Gives up what is late; the next time wanted, or 0. */
uint64_t tw_connect_expire(struct tw_ep *ep, uint64_t now);
enum tw_err tw_connect_incoming(struct tw_host *host, struct tw_link *link,
				const struct tw_ident *other, struct tw_ident *me);
void tw_connect_done(struct tw_link *link, const struct tw_ident *other);
void tw_connect_refused(struct tw_link *link, enum tw_err why);
void tw_connect_down(struct tw_link *link, enum tw_err why);

/* progress.c ------------------------------------------------------------- */

extern const struct tw_upcalls tw_upcalls;
/* Moves things along; how much moved. Never blocks. */
unsigned tw_progress(struct tw_ep *ep);
/* Sends on what waits; whether anything moved. */
bool tw_flush(struct tw_ep *ep);
/* Called before the lock is left with work unfinished: somebody must go on. */
void tw_progress_request(struct tw_ep *ep);
/* Serves descriptors that are ready. */
void tw_poll_events(struct tw_ep *ep);
/* Does what is due by time. */
void tw_expire(struct tw_ep *ep);
void tw_timer(struct tw_host *host, uint64_t when);
bool tw_arm(struct tw_ep *ep);
void tw_disarm(struct tw_ep *ep);

/* wait.c ----------------------------------------------------------------- */

enum tw_waited { TW_W_TRUE, TW_W_TIMEOUT, TW_W_WOKEN, TW_W_CLOSED };
/*
 * A few looks without pausing or leaving the lock, for what is about to come;
 * tw_wait() goes on from there, in a friendlier way.
 */
bool tw_poll_first(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		   uint64_t us);
/* Waits until test(ep, arg); the lock is given up while it sleeps. */
enum tw_waited tw_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		       uint64_t timeout_us);
void tw_wake_callers(struct tw_ep *ep);
/* This thread waits there, further up its stack. No lock. */
bool tw_waits_in(const struct tw_slot_entry *s);

/* service.c; none needs a lock ------------------------------------------- */

/* The first starts the thread, the last stops it. */
enum tw_err tw_service_get(void);
void tw_service_put(void);
bool tw_service_running(void);
enum tw_err tw_service_watch(struct tw_slot_entry *s, int epfd);
/* A blocked caller serves the endpoint itself. */
void tw_service_pause(struct tw_slot_entry *s);
void tw_service_resume(struct tw_slot_entry *s);
void tw_service_timer(struct tw_slot_entry *s, uint64_t when);
/* Ends a slot that was left, as soon as nobody is inside; a signal handler may call it. */
void tw_service_finish(struct tw_slot_entry *s);
/* With the lock held: leaves an endpoint to its program's calls, and takes it on again. */
void tw_service_leave(struct tw_slot_entry *s);
void tw_service_return(struct tw_slot_entry *s);
/* It sees to the endpoint while the program does not. */
static inline bool tw_served(struct tw_slot_entry *s)
{
	return tw_service_running() && !atomic_load_explicit(&s->alone, memory_order_relaxed);
}
void tw_service_forked(void);

/* directory.c; no lock ---------------------------------------------------- */

struct tw_board {
	uint64_t nic_id;
	char ifname[16];
	uint32_t speed; /* MB/s, 0 unknown */
	int numa_node;	/* -1 none */
};

enum tw_err tw_directory_init(void);
unsigned tw_boards(const struct tw_board **boards);
enum tw_err tw_name_to_nic(const char *name, uint64_t *nic_id);
enum tw_err tw_nic_to_name(uint64_t nic_id, char *name, unsigned len);
/* Where a NIC is on the IP network, port 0; TW_EUNREACH when that is not known. */
enum tw_err tw_nic_to_address(uint64_t nic_id, struct sockaddr_storage *sa);
/* The board here of a NIC id; false if it is none of ours. */
bool tw_board_of(uint64_t nic_id, uint32_t *board);
/* NIC ids of this host, for providers. */
const uint64_t *tw_local_nics(unsigned *n);

/* topology.c; no lock ------------------------------------------------------- */

/*
 * The NIC ids of n numbered nodes, or ranks, by TAGWIRE_NODES; false if that makes no
 * sense, or names one from limit on.
 */
bool tw_topology_parse(uint64_t *nics, unsigned n, unsigned limit);
/* The same for all nodes; the calls below ask it. */
bool tw_topology_init(void);
uint64_t tw_topology_node_nic(uint32_t node);
/* The board that a node has here; false if it lives on another host. */
bool tw_topology_node_board(uint32_t node, uint32_t *board);
/* The other hosts that it names; how many. */
unsigned tw_topology_other_hosts(uint64_t *others, unsigned max);

/* stats.c ---------------------------------------------------------------- */

enum tw_err tw_stats_open(struct tw_ep *ep);
void tw_stats_close(struct tw_ep *ep);
void tw_stats_peer(struct tw_peer *p);

#endif /* TW_ENGINE_H */
