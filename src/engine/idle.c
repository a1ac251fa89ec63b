/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polling, sleeping and waking. An endpoint is in one of five states
 * (enum tw_idle_state in providers/provider.h):
 *
 * POLLING	Calls of the program poll; or it computes, and nothing is known to be left to do.
 *		Packets that the engine must act on ring the doorbell if they stay unread.
 * SERVED	The service thread has found that the program computes, and polls in its place.
 *		It holds the lock meanwhile, so this is seen from inside progress only.
 * RESTING	The program computes, and the work that is left needs a packet: any packet rings
 *		the doorbell, which wakes the service thread.
 * COMPUTING	The same with no work left: packets that the engine must act on ring it.
 * ASLEEP	A blocking call sleeps: any packet rings the doorbell, which wakes that call.
 *
 * There is one deadline: the tick at which something is due, work that a call left unfinished
 * included. A program that polls sees to it itself. The service thread therefore checks an
 * endpoint when it is due. If there was no poll since its last check it takes over; else it asks
 * the next poll to see to what is due, and checks again later (doc/decisions.md, 9). While these
 * checks go on, a new deadline needs no system call.
 *
 * tests/model/sleep.pml has the same states and proves that nobody sleeps beside a packet.
 */
#include "engine/engine.h"
#include "shmem/spin.h"

#define SOON_US 100000	    /* checks go on until no deadline is nearer than this */
#define TURN_US 1000	    /* longest work for one endpoint before others have their turn */
/* An endpoint that was left behind: before the second try to end it, and longest between two. */
#define LEFT_US 50
#define LEFT_MAX_US 1000000

enum { SAME = TW_IDLE_STATES };

/* clang-format off */
static const uint8_t next_state[TW_IDLE_STATES][TW_IDLE_EVENTS] = {
	/*		   POLL        TAKE       SPENT       NOTHING       OVER */
	[TW_POLLING]   = { SAME,       TW_SERVED, TW_ASLEEP,  SAME,         SAME },
	[TW_SERVED]    = { SAME,       SAME,      TW_RESTING, TW_COMPUTING, TW_POLLING },
	[TW_RESTING]   = { TW_POLLING, TW_SERVED, TW_ASLEEP,  SAME,         TW_POLLING },
	[TW_COMPUTING] = { TW_POLLING, TW_SERVED, TW_ASLEEP,  SAME,         TW_POLLING },
	[TW_ASLEEP]    = { SAME,       SAME,      SAME,       SAME,         TW_POLLING },
};
/* clang-format on */

static bool armed(enum tw_idle_state state)
{
	return state >= TW_RESTING;
}

bool tw_idle_event(struct tw_ep *ep, enum tw_idle_event event)
{
	enum tw_idle_state old = ep->host.state;
	uint8_t new = next_state[old][event];
	bool found = false;

	if (new == SAME)
		return false;
	ep->host.state = new;
	ep->changed_at = tw_clock();
	ep->changed_polls = atomic_load_explicit(&ep->slot->polls, memory_order_relaxed);
	for (unsigned i = 0; i < ep->nprovs; i++)
		if (armed(new))
			found |= ep->provs[i].ops->arm(ep->provs[i].instance);
		else if (armed(old) && ep->provs[i].ops->disarm)
			ep->provs[i].ops->disarm(ep->provs[i].instance);
	/*
	 * Another thread may still sleep on the descriptor: the service thread rests again. Where
	 * there is none, the descriptor becomes ready when the lock is released.
	 */
	if (ep->awaited && new == TW_POLLING && tw_has_service(ep->slot))
		tw_progress_request(ep);
	else if (ep->awaited && new == TW_POLLING)
		ep->events++;
	return found;
}

/* The deadline --------------------------------------------------------------- */

/* The next check counts polls from here. */
static void note_polls(struct tw_slot_entry *s)
{
	uint64_t polls = atomic_load_explicit(&s->polls, memory_order_relaxed);

	atomic_store_explicit(&s->polls_seen, polls, memory_order_relaxed);
}

/* True if the program has polled since then, apart from the poll that set the deadline. */
static bool has_polled(const struct tw_slot_entry *s)
{
	return atomic_load_explicit(&s->polls, memory_order_relaxed) -
		       atomic_load_explicit(&s->polls_seen, memory_order_relaxed) >
	       1;
}

void tw_timer(struct tw_host *host, uint64_t when)
{
	struct tw_ep *ep = tw_container(host, struct tw_ep, host);
	struct tw_slot_entry *s = ep->slot;
	uint64_t set = tw_deadline(ep);

	if (set && set <= when)
		return;
	atomic_store_explicit(&s->deadline, when, memory_order_relaxed);
	/* [timer-check] */
	if (!tw_barrier_private())
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	/* A sleeping call knows the deadline of before. */
	if (host->state == TW_ASLEEP && !tw_has_service(s))
		ep->events++;
	if (host->state == TW_SERVED || atomic_load_explicit(&s->next_check, memory_order_relaxed))
		return;
	note_polls(s);
	tw_service_wake(s, when);
}

void tw_progress_request(struct tw_ep *ep)
{
	if (ep->unfinished_due)
		return;
	ep->unfinished_due = true;
	tw_timer(&ep->host, tw_clock() + tw_clock_us(TW_COMPUTES_US));
}

void tw_expire(struct tw_ep *ep)
{
	uint64_t now = tw_clock(), next;

	atomic_store_explicit(&ep->slot->deadline, 0, memory_order_relaxed);
	ep->unfinished_due = false;
	tw_txqs_close(ep); /* a provider may write to a ring that rests */
	next = tw_earlier(tw_connect_expire(ep, now), tw_trim_expire(ep, now));
	if (TW_HAVE_MX)
		next = tw_earlier(next, tw_limits_expire(ep, now));
	for (unsigned i = 0; i < ep->nprovs; i++)
		if (ep->provs[i].ops->expire)
			next = tw_earlier(next,
					  ep->provs[i].ops->expire(ep->provs[i].instance, now));
	if (ep->iface->expire)
		next = tw_earlier(next, ep->iface->expire(ep, now));
	if (next)
		tw_timer(&ep->host, next);
	if (ep->awaited && ep->host.state == TW_POLLING)
		tw_progress_request(ep);
}

void tw_expire_due(struct tw_ep *ep, uint64_t now)
{
	uint64_t deadline = tw_deadline(ep);

	if (deadline && deadline <= now)
		tw_expire(ep);
}

/* Checks of the service thread ------------------------------------------- */

/* Polls in place of the program. */
static void idle_take_over(struct tw_ep *ep)
{
	uint64_t start = tw_clock();
	struct tw_spin spin = {0};
	bool serves = ep->iface->serves, long_enough;
	unsigned n, empty = 0;

	tw_idle_event(ep, TW_IDLE_TAKE);
	ep->counters[TW_C_TAKEOVER]++;
	tw_poll_events(ep);
	tw_expire_due(ep, start);
	do {
		n = tw_progress(ep);
		empty = n ? 0 : empty;
		long_enough = tw_clock() - start >= tw_clock_us(TURN_US);
		if (n && serves)
			tw_spin_start(&spin, tw_clock());
		/* Requests come in rows: it polls for the next one as a blocking call would. */
		if (n || (spin.start && tw_spin_on(&spin, NULL)))
			continue;
		if (!tw_idle_event(ep,
				   serves || tw_unfinished(ep) ? TW_IDLE_SPENT : TW_IDLE_NOTHING))
			return;
		tw_idle_event(ep, TW_IDLE_TAKE);
		/* A packet may stay in its ring for lack of memory. */
		if (++empty == 2)
			break;
	} while (!tw_lock_contended(&ep->slot->lock) && !long_enough);
	/* Other endpoints need this thread: it comes back after them. */
	if (long_enough && empty < 2)
		tw_timer(&ep->host, tw_clock());
	/* The program needs the lock: its next poll, or the next check, continues. */
	else if (n || empty || tw_unfinished(ep))
		tw_progress_request(ep);
	tw_idle_event(ep, TW_IDLE_OVER);
}

bool tw_idle_arm(struct tw_ep *ep)
{
	tw_txqs_close(ep);
	ep->awaited = true;
	tw_idle_event(ep, TW_IDLE_TAKE);
	if (!tw_idle_event(ep, TW_IDLE_SPENT))
		return true;
	tw_idle_event(ep, TW_IDLE_TAKE);
	tw_idle_event(ep, TW_IDLE_OVER);
	return false;
}

static void wake_waiters(struct tw_ep *ep)
{
	if (ep->iface->background)
		ep->iface->background(ep);
	tw_wake_due(ep);
}

/* idle_take_over() leaves the endpoint as for a program that polls again. One that sleeps does not.
 */
static void idle_arm_again(struct tw_ep *ep)
{
	unsigned empty = 0;

	wake_waiters(ep);
	while (ep->awaited && !tw_idle_arm(ep)) {
		empty = tw_progress(ep) ? 0 : empty + 1;
		wake_waiters(ep);
		/* A packet may stay in its ring for lack of memory. */
		if (empty < 2 && !tw_lock_contended(&ep->slot->lock))
			continue;
		tw_progress_request(ep);
		break;
	}
}

/*
 * Asks the next poll to see to what is due. Returns the tick of the next check, or 0. Checks go on
 * while a poll has not done so: the descriptors are watched one shot at a time.
 */
static uint64_t leave_to_program(struct tw_slot_entry *s, uint64_t now, bool ready)
{
	uint64_t deadline = atomic_load_explicit(&s->deadline, memory_order_relaxed);
	uint64_t next = now + tw_clock_us(TW_COMPUTES_US);

	if (ready || (deadline && deadline <= now)) {
		atomic_store_explicit(&s->requested, true, memory_order_relaxed);
	} else if (!atomic_load_explicit(&s->requested, memory_order_relaxed) &&
		   (!deadline || deadline >= now + tw_clock_us(SOON_US))) {
		atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
		/* [timer-check] */
		tw_barrier_threads();
		return atomic_load_explicit(&s->deadline, memory_order_relaxed);
	}
	atomic_store_explicit(&s->next_check, next, memory_order_relaxed);
	return next;
}

uint64_t tw_idle_check(struct tw_slot_entry *s, bool ready)
{
	bool polled = has_polled(s);
	uint64_t now = tw_clock(), next;
	struct tw_ep *ep;

	/* [handle] */
	if (!atomic_load_explicit(&s->handle, memory_order_acquire) || !tw_has_service(s)) {
		/* It may have been opened again meanwhile. [timer-check] */
		atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
		tw_barrier_threads();
		return atomic_load_explicit(&s->handle, memory_order_relaxed) && tw_has_service(s)
			       ? atomic_load_explicit(&s->deadline, memory_order_relaxed)
			       : 0;
	}
	note_polls(s);
	if (polled && !ready)
		return leave_to_program(s, now, false);
	if (!tw_lock_try(&s->lock))
		return leave_to_program(s, now, ready);
	ep = s->ep;
	if (!atomic_load_explicit(&s->handle, memory_order_relaxed) || !tw_has_service(s)) {
		/* Where the endpoint has ended no bias of before may come back. */
		tw_unlock_unbiased(&s->lock);
		return 0;
	}
	atomic_store_explicit(&s->next_check, 0, memory_order_relaxed);
	atomic_store_explicit(&s->requested, false, memory_order_relaxed);
	/* A sleeping call polls itself, but may not know of the deadline. */
	if (ep->host.state == TW_ASLEEP) {
		ep->events++;
	} else {
		idle_take_over(ep);
		idle_arm_again(ep);
		note_polls(s);
		tw_service_resume(s);
	}
	next = tw_deadline(ep);
	/* That call was woken for what is due. */
	if (ep->host.state == TW_ASLEEP && next <= now)
		next = 0;
	tw_leave(ep);
	return next;
}

/* An endpoint that was left behind: tries with back-off until no thread is inside. */
static uint64_t idle_finish(struct tw_slot_entry *s, uint64_t now)
{
	uint64_t check_at = atomic_load(&s->next_check);

	if (check_at > now)
		return check_at;
	s->backoff = check_at ? tw_min(2 * s->backoff, (uint64_t)LEFT_MAX_US) : LEFT_US;
	check_at = now + tw_clock_us(s->backoff);
	atomic_store(&s->next_check, check_at);
	return tw_ep_finish(s) ? 0 : check_at;
}

uint64_t tw_idle_due(struct tw_slot_entry *s, uint64_t now)
{
	uint64_t check_at = atomic_load_explicit(&s->next_check, memory_order_relaxed);
	uint64_t deadline = atomic_load_explicit(&s->deadline, memory_order_relaxed);
	uint64_t when = check_at ? check_at : deadline;

	/* [left-behind] */
	if (atomic_load_explicit(&s->left, memory_order_acquire))
		return idle_finish(s, now);
	return when && when <= now ? tw_idle_check(s, false) : when;
}
