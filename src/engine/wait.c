/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocking calls. A waiter polls for a while, then sleeps. The first sleeper of an
 * endpoint, the leader, sleeps on its descriptors and makes progress when one is ready; the
 * others sleep on a futex. A thread that completes something while others sleep wakes them,
 * and each checks its own condition.
 */
#include <limits.h>
#include <poll.h>

#include "base/futex.h"
#include "base/sys.h"
#include "base/wakefd.h"
#include "engine/trace.h"
#include "shmem/spin.h"

#define REPLY_US 80 /* polling for so long, a connect is answered sooner */

/* The blocking calls of this thread; a signal handler may make one inside another. */
struct waits {
	const struct tw_slot_entry *slot;
	const struct waits *outer;
};
static _Thread_local const struct waits *waits;

bool tw_waits_in(const struct tw_slot_entry *s)
{
	const struct waits *w = waits;

	while (w && w->slot != s)
		w = w->outer;
	return w;
}

/* Under the lock, as where a follower reads it. */
static void wake_followers(struct tw_ep *ep)
{
	atomic_fetch_add_explicit(&ep->gen, 1, memory_order_relaxed);
	tw_futex_wake(&ep->gen, INT_MAX);
}

void tw_wake_leader(struct tw_ep *ep)
{
	epoll_data_t what = {.ptr = &ep->wake_watch};

	if (!tw_wakefd_raise_once(ep->host.epfd, ep->wakefd, what))
		tw_log(TW_LOG_ERROR, "cannot wake a waiter: %m");
}

void tw_wake_sleepers(struct tw_ep *ep)
{
	ep->woken = ep->events;
	if (ep->armed)
		tw_ep_ring(ep);
	if (ep->nsleeping > (ep->host.state == TW_ASLEEP))
		wake_followers(ep);
	if (ep->host.state == TW_ASLEEP)
		tw_wake_leader(ep);
}

void tw_wake_closed(struct tw_ep *ep)
{
	wake_followers(ep);
	tw_wake_leader(ep);
}

void tw_wake_callers(struct tw_ep *ep)
{
	ep->wake_calls++;
	ep->events++;
}

/* Microseconds that are left. */
static uint64_t until(uint64_t deadline)
{
	uint64_t now = tw_clock();

	if (deadline == TW_FOREVER)
		return TW_FOREVER;
	return deadline <= now ? 0 : (deadline - now) / tw_clock_per_us + 1;
}

static void sleep_as_leader(struct tw_ep *ep, uint64_t deadline)
{
	struct pollfd events = {.fd = ep->host.epfd, .events = POLLIN};
	uint64_t seen = ep->events, due = tw_deadline(ep), us, since;

	tw_service_pause(ep->slot);
	if (!tw_idle_event(ep, TW_IDLE_SPENT) && ep->events == seen) {
		us = until(due ? tw_min(due, deadline) : deadline);
		since = tw_trace_now(ep);
		ep->woken = ep->events;
		tw_unlock(&ep->slot->lock);
		TW_PROBE(sleep, 0, 0, 0, ep);
		/* Not epoll_wait(): it would consume a one-shot event that is not handled here. */
		tw_sys_poll(&events, 1,
			    us == TW_FOREVER ? -1 : (int)tw_min((us + 999) / 1000, 1000000ull));
		TW_PROBE(wake, 0, 0, 0, ep);
		tw_lock(&ep->slot->lock);
		if (since)
			tw_trace_idle(ep, since);
		ep->counters[TW_C_SLEEP]++;
	}
	tw_idle_event(ep, TW_IDLE_OVER);
	tw_poll_events(ep);
	/* The doorbells were read, so their packets must be taken, even if this call is done. */
	tw_progress(ep);
	tw_expire_due(ep, tw_clock());
	tw_service_resume(ep->slot);
	/* Another sleeper becomes the leader, or finds that it is done. */
	if (ep->nsleeping > 1)
		wake_followers(ep);
}

static void sleep_as_follower(struct tw_ep *ep, uint64_t deadline)
{
	uint32_t gen = atomic_load_explicit(&ep->gen, memory_order_relaxed);
	uint64_t us = until(deadline), since = tw_trace_now(ep);

	ep->woken = ep->events;
	tw_unlock(&ep->slot->lock);
	TW_PROBE(sleep, 0, 0, 0, ep);
	tw_futex_wait(&ep->gen, gen,
		      us == TW_FOREVER ? TW_FUTEX_FOREVER : tw_clock_ns() + 1000 * us);
	TW_PROBE(wake, 0, 0, 0, ep);
	tw_lock(&ep->slot->lock);
	if (since)
		tw_trace_idle(ep, since);
}

static void sleep_now(struct tw_ep *ep, uint64_t deadline)
{
	tw_txqs_close(ep);
	ep->nsleeping++;
	if (ep->host.state == TW_ASLEEP)
		sleep_as_follower(ep, deadline);
	else
		sleep_as_leader(ep, deadline);
	ep->nsleeping--;
}

static void spin_from(const struct tw_ep *ep, struct tw_spin *s, uint64_t now)
{
	tw_spin_start(s, now);
	if (tw_unlikely(ep->expects > now))
		s->limit = tw_max(s->limit, ep->expects - now);
}

/* False when it is time to sleep. Not called for every poll. */
static bool spin_on(struct tw_ep *ep, struct tw_spin *s)
{
	/* A reply wakes a sleeper at once; after a yield the thread may wait for its time slice. */
	if (ep->nconnecting)
		return tw_clock() - s->start < tw_clock_us(REPLY_US);
	return tw_spin_on(s, &ep->slot->lock);
}

/*
 * During a connect, replies come by descriptors. The waiting call polls them itself, so
 * that the service thread is not woken for each (doc/decisions.md, 12).
 */
static void poll_connects(struct tw_ep *ep, bool *paused)
{
	if (!*paused)
		tw_service_pause(ep->slot);
	*paused = true;
	/*
	 * The request of the service thread is met here; a poll that saw it would resume
	 * that thread.
	 */
	atomic_store_explicit(&ep->slot->requested, false, memory_order_relaxed);
	tw_poll_events(ep);
}

static void release_briefly(struct tw_ep *ep)
{
	tw_wake_due(ep);
	tw_unlock(&ep->slot->lock);
	tw_cpu_relax();
	tw_lock(&ep->slot->lock);
}

bool tw_poll_first(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		   uint64_t us)
{
	uint64_t start = 0, now;

	for (unsigned i = 1;; i++) {
		if (test(ep, arg))
			return true;
		tw_progress(ep);
		if (tw_likely(i & 15))
			continue;
		now = tw_clock();
		start = start ? start : now;
		if (now - start > tw_clock_us(us) || ep->closing ||
		    tw_lock_contended(&ep->slot->lock))
			return false;
	}
}

enum tw_waited tw_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg,
		       uint64_t timeout_us)
{
	uint64_t now = tw_clock(), deadline = TW_FOREVER;
	uint32_t wake_calls = ep->wake_calls, loops = 0;
	enum tw_waited why = TW_W_TRUE;
	struct waits here = {ep->slot, waits};
	bool idle = true, paused = false;
	struct tw_spin spin;

	if (tw_in_handler(ep))
		return TW_W_TIMEOUT;
	if (timeout_us != TW_FOREVER)
		deadline = now + tw_clock_us(timeout_us);
	spin_from(ep, &spin, now);
	ep->nwaiting++;
	waits = &here;
	for (;;) {
		/* The lock is released in between: this detects what happens then. */
		uint64_t seen = ep->events;
		bool spun_out = false;

		if (test(ep, arg))
			break;
		if (tw_unlikely(ep->nconnecting && ep->host.state != TW_ASLEEP))
			poll_connects(ep, &paused);
		if (tw_progress(ep)) {
			idle = false;
		} else if (!idle) {
			idle = true;
			spin_from(ep, &spin, tw_clock());
		}
		release_briefly(ep);
		if ((++loops & 15) == 0) {
			spun_out = !spin_on(ep, &spin) && idle;
			now = tw_clock();
		}
		if (ep->closing)
			why = TW_W_CLOSED;
		else if (ep->wake_calls != wake_calls)
			why = TW_W_WOKEN;
		else if (now >= deadline)
			why = TW_W_TIMEOUT;
		if (why != TW_W_TRUE)
			break;
		if (spun_out && ep->events == seen) {
			sleep_now(ep, deadline);
			paused = false; /* sleeping has resumed the service thread */
			now = tw_clock();
			idle = false;
		}
	}
	if (paused && ep->host.state != TW_ASLEEP)
		tw_service_resume(ep->slot);
	ep->nwaiting--;
	waits = here.outer;
	if (tw_unlikely(ep->closing)) {
		/* Once more, as the handler that closed it may have had no lock. */
		tw_wake_closed(ep);
		if (atomic_load(&ep->slot->left))
			tw_service_finish(ep->slot);
	}
	return why;
}
