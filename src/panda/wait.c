/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling and waiting. */
#include "panda/panda_internal.h"

#define POLL_US 10 /* of polling before a blocking call waits */

/* This call makes upcalls after it has unlocked: the thread is not woken for them. */
static _Thread_local bool polling;

void tw_panda_attend(struct tw_ep *ep)
{
	tw_group_attend(ep);
	if (!polling && tw_panda.asleep && tw_panda_upcalls_due())
		tw_panda_upcalls_wake();
}

void tw_panda_poll(struct tw_ep *ep)
{
	polling = true;
	tw_progress(ep);
	polling = false;
}

void tw_panda_leave_poll(struct tw_ep *ep)
{
	bool due;

	polling = true;
	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done)))
		tw_panda_attend(ep);
	polling = false;
	due = tw_panda_upcalls_due();
	tw_group_leave(ep);
	if (tw_unlikely(due))
		tw_panda_dispatch();
}

struct waiting {
	bool (*test)(struct tw_ep *ep, void *arg);
	void *arg;
};

/* Without a thread for upcalls, the waiting call makes them. */
static bool over_or_upcalls(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;

	return w->test(ep, w->arg) || (!tw_panda.has_thread && tw_panda_upcalls_due());
}

bool tw_panda_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *ep, void *arg), void *arg)
{
	/* [set-up] */
	uint64_t handle = atomic_load_explicit(&tw_panda.handle, memory_order_acquire);
	struct waiting w = {test, arg};

	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done)))
		tw_panda_attend(ep);
	if (tw_likely(tw_poll_first(ep, test, arg, POLL_US)))
		return true;
	while (!test(ep, arg)) {
		if (tw_wait(ep, over_or_upcalls, &w, TW_FOREVER) == TW_W_CLOSED) {
			tw_leave(ep);
			return false;
		}
		if (test(ep, arg))
			break;
		tw_group_leave(ep);
		tw_panda_dispatch();
		ep = tw_enter(handle); /* none after a pan_mp_end() */
		if (!ep)
			return false;
	}
	return true;
}

void pan_poll(void)
{
	struct tw_ep *ep = tw_panda_try_enter();

	if (!ep)
		return;
	tw_panda_poll(ep);
	tw_panda_leave_poll(ep);
}
