/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: what interfaces call and what its own files share.
 *
 *   library.c     start and end of the library     connect.c    connecting
 *   endpoint.c    opening, closing, handles        progress.c   progress
 *   request.c     requests and their data (.h)     idle.c       who polls, sleeps and wakes
 *   send.c        the sending side                 wait.c       blocking calls
 *   fast.h        the fast paths of both           service.c    the service thread
 *   batch.c       packets of a ring                pollable.c   descriptors that programs poll
 *   recv.c        receives; all other packets      peer.c       peers
 *   match*.c      the matcher (.h)                 am.c         active messages
 *   source.c      receives from one peer only      withdraw.c   cancelling, time limits
 *   unexp.c       unexpected messages              stats.c      statistics for tools
 *   unexp_msg.c   their memory                     layout.h     what mx_why reads
 *   transfer.c    long messages                    failure.c    why a peer is not reached
 *   transfer_move.c  their bytes                   cause.c      that in words
 *   window*.c     one-sided access (.h)            uses.h       what this build needs
 *   trace.c       events for mx_trace (.h)
 *
 * Everything here is called with the endpoint's lock held (between tw_enter and
 * tw_leave) unless its comment says otherwise.
 */
#ifndef TW_ENGINE_H
#define TW_ENGINE_H

#include "engine/request.h"
#include "engine/transfer.h"
#include "engine/types.h"
#include "engine/unexp.h"

/* library.c; no lock ------------------------------------------------------- */

/* The first interface reads the settings. TW_EPROTO: they are invalid. */
enum tw_err tw_begin(void);
void tw_end(void);

/* failure.c ---------------------------------------------------------------- */

#define TW_LONG_US 3000000 /* a program that waits so long may wait for ever, and is to learn for whom */

/*
 * "endpoint 3 of beta:0", or "node 2 (endpoint 1026 of beta:0)" if the interface has a name for it;
 * where is NIC id and endpoint id, as in an address.
 */
void tw_failure_who(char *out, size_t size, const struct tw_ep *ep, uint64_t where);
/* The provider's upcall `trouble'. */
void tw_failure_trouble(struct tw_host *host, void *peer, enum tw_err why, const char *cause,
			const char *advice);
/* Nothing is known of the peer, or it is reached. */
void tw_failure_forget(struct tw_peer *p);
/* A connect, or a peer, has ended so: keeps that and what its provider said, and may log it. */
void tw_failure_note(struct tw_peer *p, enum tw_status why, bool say);
/* A connect of the peer is tried again: keeps why the last attempt failed, for tools. */
void tw_failure_again(struct tw_peer *p, enum tw_err why);
/* Whether a provider has said why the last connect that failed, to there, ended so. */
bool tw_failure_explained(const struct tw_ep *ep, uint64_t where, enum tw_status why);
/* "what: endpoint 3 of beta:0: cause; advice" of a connect; TW_REPORT_SIZE bytes are enough. */
void tw_failure_text(char *out, size_t size, const char *what, const struct tw_ep *ep,
		     uint64_t where, enum tw_status why);
/*
 * Logs that text, or without what (NULL) from the endpoint on, as tw_report(). The cause is not said
 * again with what if it was said without.
 */
void tw_failure_report(const char *what, const struct tw_ep *ep, uint64_t where,
		       enum tw_status why);
/* For tw_interface.down: logs that receives of anybody may wait in vain. */
void tw_failure_down(struct tw_ep *ep, const struct tw_peer *p);

/* endpoint.c ------------------------------------------------------------- */

#define TW_ANY_ID UINT32_MAX

struct tw_open {
	uint32_t board, filter;
	uint32_t number; /* of the interface's endpoint ids; TW_ANY_ID: one that is free */
	uint32_t unexp_max;
	/* Announced messages come unmatched while fewer bytes of unexpected ones are here. */
	uint64_t fetch_max;
	const struct tw_interface *iface;
	void *owner;
	int *holder;	   /* NULL, or where the process is stored that has the id; 0: unknown */
	struct tw_ep **ep; /* NULL, or where it is before anything runs on it */
};

/*
 * Both without a lock. Closing waits for blocked callers to leave, unless a signal handler
 * closes while its thread is inside a call on the endpoint. Then only the endpoint's name
 * is free at once, and tw_ep_finish() does the rest after that call. doc/decisions.md, 14.
 */
enum tw_err tw_ep_open(const struct tw_open *how, uint64_t *handle);
enum tw_err tw_ep_close(uint64_t handle);
/* Closes as from such a signal handler, for a call that only the interface knows of. */
enum tw_err tw_ep_leave_behind(uint64_t handle);
/* True if this thread is inside a call on the endpoint. */
bool tw_ep_inside(uint64_t handle);
/* Ends an endpoint that was left behind, if no thread is inside. True if it has ended. No lock. */
bool tw_ep_finish(struct tw_slot_entry *s);
/* Drops all endpoints in a forked child. */
void tw_ep_forked(void);

/* True if this thread is inside the unexpected handler. */
static inline bool tw_handler_in(const struct tw_slot_entry *s)
{
	return TW_USES_HANDLER &&
	       atomic_load_explicit(&s->handler, memory_order_relaxed) == tw_thread_id();
}

/* Bracket the handler's run. */
void tw_handler_begin(struct tw_slot_entry *s);
void tw_handler_end(struct tw_slot_entry *s);
/* True if it is inside the handler of any endpoint. */
bool tw_in_any_handler(void);

/* Slot 0 is of no endpoint: handle 0 finds a lock that has no bias. */
static inline struct tw_slot_entry *tw_slot_of(uint64_t handle)
{
	return &tw_slots[handle & (TW_MAX_OPEN - 1)];
}

/*
 * Locks the endpoint of a handle if the lock is biased to the caller, and no handler runs
 * there (TW_HANDLE_BARRED). No thread has the bias of an endpoint that has ended.
 */
static inline struct tw_ep *tw_enter_fast(uint64_t handle, struct tw_lock_way *way)
{
	struct tw_slot_entry *s = tw_slot_of(handle);

	tw_opaque(s); /* or the compiler computes every field's address from the handle again */
	/* [handle] */
	if (tw_unlikely(tw_peek(&s->handle) != handle) ||
	    tw_unlikely(!tw_lock_biased(&s->lock, way)))
		return NULL;
	tw_assume(s->ep != NULL);
	return s->ep;
}

struct tw_ep *tw_enter_slow(uint64_t handle);

/* Locks the endpoint of a handle; NULL if there is none. */
tw_shared struct tw_ep *tw_enter(uint64_t handle)
{
	struct tw_lock_way way;
	struct tw_ep *ep = tw_enter_fast(handle, &way);

	return tw_likely(ep != NULL) ? ep : tw_enter_slow(handle);
}

void tw_wake_sleepers(struct tw_ep *ep);
/* Wakes those that have not been woken since the last event. */
static inline void tw_wake_due(struct tw_ep *ep)
{
	if (tw_unlikely(ep->nsleeping && ep->events != ep->woken))
		tw_wake_sleepers(ep);
}

/* Makes the endpoint's descriptors ready. */
void tw_wake_leader(struct tw_ep *ep);
/*
 * idle.c: called before the lock is released with work unfinished. The next poll or the service
 * thread continues it.
 */
void tw_progress_request(struct tw_ep *ep);

/* True if something is in progress that needs more polls. */
static inline bool tw_unfinished(const struct tw_ep *ep)
{
	return ep->nactive || ep->has_work;
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
	tw_wake_due(ep);
	tw_unlock(&s->lock);
}

/* Leaves after a call that may leave work unfinished. */
static inline void tw_leave_unfinished(struct tw_ep *ep)
{
	if (tw_unlikely(tw_unfinished(ep)))
		tw_progress_request(ep);
	tw_leave(ep);
}

/* Leaves as tw_enter_fast() has entered, unless tw_leave() has more to do than to unlock. */
static inline bool tw_leave_fast(struct tw_ep *ep, struct tw_lock_way way)
{
	if (tw_unlikely(ep->slow_path))
		return false;
	tw_lock_leave(way);
	return true;
}

/* Messages: send.c, recv.c, batch.c, source.c, unexp.c -------------------- */

/* Sends to an address. The request ends at once if the address is not valid. */
void tw_send(struct tw_ep *ep, struct tw_req *r, struct tw_addr to);
/*
 * Sends a message that can leave at once, without a request. imm: its immediate data, or NULL.
 * False: nothing was done.
 */
bool tw_inject(struct tw_ep *ep, const void *data, uint32_t len, uint64_t match, struct tw_addr to,
	       const uint64_t *imm);
extern struct tw_ring_tx tw_no_txq; /* never open, and never written */
/*
 * Ends the fast path to a peer (fast.h) until the next tw_send(), and counts what has taken
 * it. Called before everything that may not overtake or that counts credits.
 */
void tw_txq_close(struct tw_peer *p);
/* Ends the fast path to all peers. */
void tw_txqs_close(struct tw_ep *ep);
/* Only counts what has taken the fast path, for all peers. */
void tw_txqs_count(struct tw_ep *ep);
/* All packets of the engine but those of the fast path. */
static inline enum tw_err tw_packet_send(struct tw_peer *p, enum tw_send_class cls,
					 struct tw_hdr hdr, const struct iovec *iov, unsigned niov,
					 uint32_t len)
{
	tw_txq_close(p);
	return p->link->provider->send(p->link, cls, hdr, iov, niov, len);
}

/* As tw_packet_send(); if it leaves it returns the credits that are due to the peer. */
static inline enum tw_err tw_packet_return(struct tw_peer *p, enum tw_send_class cls,
					   struct tw_hdr hdr, const struct iovec *iov,
					   unsigned niov, uint32_t len)
{
	uint32_t n = tw_min(p->unreturned, 0xffffu);
	enum tw_err err;

	hdr.what |= (uint64_t)n << 16;
	err = tw_packet_send(p, cls, hdr, iov, niov, len);
	if (tw_unlikely(err != TW_OK))
		return err;
	p->unreturned -= n;
	p->used -= n;
	return TW_OK;
}

/* Queues a message for a peer, behind others. */
void tw_send_queue(struct tw_peer *p, struct tw_req *r);
/* Sends the messages queued for a peer. True if anything moved. */
bool tw_send_flush(struct tw_peer *p);
void tw_recv_post(struct tw_ep *ep, struct tw_req *r, uint64_t key, uint64_t mask);
/*
 * Receives from one peer only, whatever session it has. They are in one order with the others.
 * The source is valid until the endpoint is closed; NULL when memory is short.
 */
struct tw_source *tw_source_get(struct tw_ep *ep, uint64_t where);
/* from: NULL means any, as in tw_recv_post(). */
void tw_recv_post_from(struct tw_ep *ep, struct tw_req *r, uint64_t key, uint64_t mask,
		       struct tw_source *from);
/* Posts a receive for it, made by tw_recv_prepare(): no message waits that it could meet. */
void tw_source_post(struct tw_ep *ep, struct tw_req *r, struct tw_source *from);
/* The earliest unexpected message for (key, mask), from a peer or (0) any. */
struct tw_unexp_msg *tw_unexp_find_from(struct tw_ep *ep, uint64_t key, uint64_t mask,
					uint64_t where);
/* source.c, for the engine: */
struct tw_source *tw_source_find(struct tw_ep *ep, uint64_t where);
/* The matcher that has all receives that a message of a peer could meet; NULL: there are two. */
struct tw_match *tw_source_matcher(const struct tw_peer *p);
/* Removes and returns the receive that a message of a peer meets, who has a source. */
struct tw_posted *tw_source_take(struct tw_peer *p, uint64_t match);
/* A peer is lost: ends the receives that take messages of it alone. */
void tw_source_lost(struct tw_peer *p, enum tw_status why);
void tw_sources_free(struct tw_ep *ep);
/* Removes a receive that nothing has matched. */
bool tw_recv_cancel(struct tw_ep *ep, struct tw_req *r);
enum tw_err tw_recv_packet(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			   uint32_t len);
/*
 * Takes packets from a ring that has some, and publishes that. Returns their number. *left is set
 * if the provider must poll: it refuses the next packet's writer, or the budget is used up.
 */
unsigned tw_recv_ring(struct tw_ring_rx *rx, unsigned budget, bool *left);
/*
 * Takes the next message of a ring, if it is a short one that meets the receive that was posted
 * first, which has one segment. Returns that, complete but on no list. NULL: tw_progress() must
 * look.
 */
struct tw_req *tw_recv_alone(struct tw_ring_rx *rx);
/* As tw_recv_alone(), for an interface with immediate data and without a handler. */
struct tw_req *tw_recv_alone_imm(struct tw_ring_rx *rx);
/*
 * Takes the next message of a peer straight from its ring, if it is one of the fast path with
 * this match information, as after tw_unexp_take(). No receive that it could meet is posted, and
 * no such message waits. NULL: tw_progress() must look.
 */
struct tw_unexp_msg *tw_recv_direct(struct tw_ep *ep, const struct tw_addr *from, uint64_t match);

/* Releases memory that was not needed for a while. Returns the tick of the next check, or 0. */
uint64_t tw_trim_expire(struct tw_ep *ep, uint64_t now);
/* Schedules that check if there are many requests. */
void tw_trim_later(struct tw_ep *ep);
/* Drops announcements and incomplete messages of a peer that is gone. */
void tw_recv_lost(struct tw_peer *p);

/* am.c -------------------------------------------------------------------- */

/*
 * Sends an active message, at most TW_AM_MAX bytes, which are copied: the other side's
 * am_handler is called when the messages before it have arrived. It takes no credit, so
 * what it makes the other side keep must be bounded by its sender. TW_ECLOSED: the peer is
 * gone.
 */
enum tw_err tw_am_send(struct tw_ep *ep, struct tw_addr to, uint64_t arg, const void *data,
		       uint32_t len);
/* One to send later, with len bytes of memory to fill (seg.ptr). NULL when memory is short. */
struct tw_req *tw_am_new(struct tw_ep *ep, uint64_t arg, uint32_t len);
/* Sends it, and needs no memory. It is lost if the peer is gone. */
void tw_am_send_new(struct tw_ep *ep, struct tw_addr to, struct tw_req *r);
/* Queues it behind what is sent, also in upcalls. */
void tw_am_queue(struct tw_peer *p, struct tw_req *r);
/* Sends an active message that had to wait; false when there is no room. */
bool tw_am_flush(struct tw_peer *p, struct tw_req *r);
enum tw_err tw_am_packet(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len);

/* withdraw.c --------------------------------------------------------------- */

enum tw_back {
	TW_BACK_NO,   /* complete, or matched: it ends by itself */
	TW_BACK_DONE, /* it is on no list any more: the caller ends it */
	TW_BACK_ASKED /* the peer's answer ends it with that status, or tells that it is too late */
};
enum tw_back tw_take_back(struct tw_ep *ep, struct tw_req *r, enum tw_status status);
enum tw_err tw_withdraw_asked(struct tw_peer *p, struct tw_hdr hdr, uint32_t len);
enum tw_err tw_withdraw_answered(struct tw_peer *p, struct tw_hdr hdr);
/*
 * The request, if it is pending then, ends with TW_S_TIMEOUT so many microseconds from
 * now, TW_FOREVER: not.
 */
void tw_req_limit(struct tw_ep *ep, struct tw_req *r, uint64_t us);
/* Takes back what is late; the next time wanted, or 0. */
uint64_t tw_limits_expire(struct tw_ep *ep, uint64_t now);

/* peer.c ----------------------------------------------------------------- */

struct tw_peer *tw_peer_new(struct tw_ep *ep, uint64_t where);
/* The live peer of this name, or NULL. */
struct tw_peer *tw_peer_find(struct tw_ep *ep, uint64_t where);
/* The peer that has or will have an address; NULL if it is of no peer. */
static inline struct tw_peer *tw_peer_named(struct tw_ep *ep, struct tw_addr a)
{
	uint32_t index = a.slot_peer & 0xfffff;
	struct tw_peer *p;

	if (tw_unlikely(index >= ep->npeers))
		return NULL;
	p = ep->peers[index];
	return tw_likely(tw_addr_same(&p->addr, &a)) ? p : NULL;
}

/* The peer that an address names, dead ones included; NULL for a foreign address. */
tw_shared struct tw_peer *tw_peer_at(struct tw_ep *ep, struct tw_addr a)
{
	struct tw_peer *p = tw_peer_named(ep, a);

	return p && tw_likely(p->state >= TW_PEER_UP) ? p : NULL;
}

/* Lines of unexpected memory to grant to one more peer. */
uint32_t tw_peer_window(struct tw_ep *ep);
/* The window that it was offered is set. */
void tw_peer_up(struct tw_peer *p, struct tw_link *link, const struct tw_ident *other);
/*
 * The peer has connected, but no connect here has presented its filter, so that messages to
 * it are rejected. It has no credits: sending needs to check this only where credits are
 * short.
 */
void tw_peer_bar(struct tw_peer *p);
/* A connect has presented its filter. */
void tw_peer_admit(struct tw_peer *p);
void tw_peer_down(struct tw_peer *p, enum tw_status why);
void tw_peer_free(struct tw_peer *p);

/* True if a packet to the peer costs more than copying its contents. */
static inline bool tw_is_remote(const struct tw_peer *p)
{
	return TW_USES_NET && p->link->remote;
}

/*
 * The pieces of a message of this length on one host: the receiver copies one while the sender
 * copies the next (doc/decisions.md, 5).
 */
static inline uint32_t tw_piece(uint32_t len)
{
	return tw_min(tw_max(len / 4, 16384u), 32768u);
}

/* The pieces of an eager message of this length: its first packet has more than its bytes. */
static inline uint32_t tw_eager_piece(const struct tw_link *l, uint32_t len)
{
	uint32_t most = l->max_payload - (uint32_t)(sizeof(struct tw_ref) + sizeof(uint64_t));

	return TW_USES_NET && l->remote ? most : tw_min(tw_piece(len), most & ~4095u);
}

/* Size of the keys of its memory. */
static inline uint32_t tw_key_size(const struct tw_peer *p)
{
	return TW_USES_NET ? p->link->key_size : 0;
}

/* True if enough lines are due to the peer for a packet of their own. */
static inline bool tw_credits_due(const struct tw_peer *p)
{
	return p->unreturned > tw_min(p->window / 2, (uint32_t)TW_CREDITS_DUE);
}

tw_shared void tw_peer_work(struct tw_peer *p)
{
	if (tw_list_empty(&p->work))
		tw_list_add_tail(&p->ep->work, &p->work);
	p->ep->has_work = true;
}

/* Lines that a message no longer uses are returned to the sender later. */
static inline void tw_credits_release(struct tw_peer *p, uint32_t n)
{
	if (tw_unlikely(p->window > p->fair)) {
		uint32_t keep = tw_min(n, p->window - p->fair);

		p->window -= keep;
		p->used -= keep;
		n -= keep;
	}
	p->unreturned += n;
	if (tw_unlikely(tw_credits_due(p)))
		tw_peer_work(p);
}

static inline void tw_peer_no_work(struct tw_peer *p)
{
	tw_list_del(&p->work);
	p->ep->has_work = !tw_list_empty(&p->ep->work);
}

/* connect.c -------------------------------------------------------------- */

/* Makes a request to connect; NULL when memory is short. The deadline is a tick. */
struct tw_req *tw_connect_new(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id, uint32_t key,
			      uint64_t deadline);
/* The status of a connect that ends with this error. */
enum tw_status tw_connect_status(enum tw_err err);
/* Starts a connect or joins one. The request ends with the result. */
void tw_connect(struct tw_ep *ep, struct tw_req *r);
/* Removes a connect from those that wait for its peer. */
void tw_connect_remove(struct tw_ep *ep, struct tw_req *r);
void tw_disconnect(struct tw_peer *p);
/* Ends connects that are late. Returns the tick of the next deadline, or 0. */
uint64_t tw_connect_expire(struct tw_ep *ep, uint64_t now);
enum tw_err tw_connect_incoming(struct tw_host *host, struct tw_link *link,
				const struct tw_ident *other, struct tw_ident *me);
void tw_connect_done(struct tw_link *link, const struct tw_ident *other);
void tw_connect_refused(struct tw_link *link, enum tw_err why);
void tw_connect_down(struct tw_link *link, enum tw_err why);

/* progress.c ------------------------------------------------------------- */

extern const struct tw_upcalls tw_upcalls;
/* Polls the providers and sends what is queued. Returns how much moved. Never blocks. */
unsigned tw_progress(struct tw_ep *ep);
/* Sends what is queued. True if anything moved. */
bool tw_flush(struct tw_ep *ep);
/* Handles the descriptors that are ready. */
void tw_poll_events(struct tw_ep *ep);

/* idle.c ------------------------------------------------------------------- */

enum tw_idle_event {
	TW_IDLE_POLL,	 /* a call of the program polls */
	TW_IDLE_TAKE,	 /* the service thread polls in its place */
	TW_IDLE_SPENT,	 /* either has polled in vain for long enough */
	TW_IDLE_NOTHING, /* so has the service thread, and nothing is left to do */
	TW_IDLE_OVER,	 /* its work is done, or it was woken */
	TW_IDLE_EVENTS
};

/* Changes the state. True if that armed and something had arrived: do not sleep. */
bool tw_idle_event(struct tw_ep *ep, enum tw_idle_event event);
/*
 * The program is about to sleep where the engine does not know of it: from now on any packet
 * wakes the service thread. Calls of other threads interrupt that, and the service thread
 * resumes it within milliseconds, until the program clears ep->awaited. False: something
 * has arrived already.
 */
bool tw_idle_arm(struct tw_ep *ep);
/* The tick at which something is due, 0 none. */
static inline uint64_t tw_deadline(const struct tw_ep *ep)
{
	return atomic_load_explicit(&ep->slot->deadline, memory_order_relaxed);
}
/* Sets it, if it is not earlier already. */
void tw_timer(struct tw_host *host, uint64_t when);
/* Does what is due, and sets the next deadline. */
void tw_expire(struct tw_ep *ep);
void tw_expire_due(struct tw_ep *ep, uint64_t now);
/*
 * For the service thread, without the lock: does what is due at an endpoint, or checks it
 * because a descriptor is ready. Both return the tick of the next check, or 0.
 */
uint64_t tw_idle_due(struct tw_slot_entry *s, uint64_t now);
uint64_t tw_idle_check(struct tw_slot_entry *s, bool ready);

/* wait.c ----------------------------------------------------------------- */

enum tw_waited { TW_W_TRUE, TW_W_TIMEOUT, TW_W_WOKEN, TW_W_CLOSED };
/*
 * Polls without pausing or releasing the lock, for a result that is about to come.
 * tw_wait() continues with less load.
 */
bool tw_poll_first(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		   uint64_t us);
/* Waits until test(ep, arg) is true. Releases the lock while it sleeps. */
enum tw_waited tw_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		       uint64_t timeout_us);
void tw_wake_callers(struct tw_ep *ep);
/* Threads that sleep find that the endpoint is closed. For a signal handler: takes no lock. */
void tw_wake_closed(struct tw_ep *ep);
/* True if this thread is inside tw_wait() for that endpoint, further up its stack. No lock. */
bool tw_waits_in(const struct tw_slot_entry *s);

/* pollable.c ----------------------------------------------------------------- */

/* TW_ENOMEM: no descriptors are left. No lock. */
enum tw_err tw_pollable_open(struct tw_pollable *p);
void tw_pollable_close(struct tw_pollable *p);
/* epoll_ctl() of the endpoint's descriptors. */
int tw_pollable_control(const struct tw_pollable *p, int op, const struct tw_ep *ep);
/* Makes it ready, until it is cleared. No lock. */
void tw_pollable_ring(const struct tw_pollable *p);
/* False: the program has closed it. No lock. */
bool tw_pollable_clear(const struct tw_pollable *p);
/*
 * After that, and after arming more than one endpoint: the next time that it becomes ready is an
 * event for edge-triggered waiters. False: that time has come already. No lock.
 */
bool tw_pollable_look(const struct tw_pollable *p);
/* The descriptor of one endpoint, made by the first call and closed with the endpoint. */
enum tw_err tw_ep_fd(struct tw_ep *ep, int *fd);
/*
 * The descriptor becomes ready when something ends or arrives. False: that has happened since
 * the last call, ended() says so (NULL: all ends are events), or work is left that only calls do.
 */
bool tw_ep_fd_arm(struct tw_ep *ep, bool (*ended)(struct tw_ep *ep));
void tw_ep_ring(struct tw_ep *ep);

/* service.c; none needs a lock ------------------------------------------- */

/* The first call starts the thread, the last put stops it. */
enum tw_err tw_service_get(void);
void tw_service_put(void);
bool tw_service_running(void);
enum tw_err tw_service_watch(struct tw_slot_entry *s);
/* A blocked caller polls the endpoint itself. */
void tw_service_pause(struct tw_slot_entry *s);
void tw_service_resume(struct tw_slot_entry *s);
/* Has the endpoint checked at this tick at the latest. */
void tw_service_wake(struct tw_slot_entry *s, uint64_t when);
/* Ends an endpoint that was left behind, as soon as no thread is inside. Async-signal-safe. */
void tw_service_finish(struct tw_slot_entry *s);
/* With the lock held: leaves an endpoint to its program's calls, and takes it back. */
void tw_service_detach(struct tw_slot_entry *s);
void tw_service_attach(struct tw_slot_entry *s);
/* True if the service thread handles the endpoint while the program computes. */
static inline bool tw_has_service(struct tw_slot_entry *s)
{
	return tw_service_running() && !atomic_load_explicit(&s->alone, memory_order_relaxed);
}
void tw_service_forked(void);

/* stats.c ---------------------------------------------------------------- */

enum tw_err tw_stats_open(struct tw_ep *ep);
/* Of this process. Written by group/job.c. */
extern struct tw_stats_fence tw_stats_fence;
void tw_stats_close(struct tw_ep *ep);
void tw_stats_peer(struct tw_peer *p);
void tw_stats_paths(struct tw_link *link);

#endif /* TW_ENGINE_H */
