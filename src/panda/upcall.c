/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Upcalls are made without the lock, so that they may call any function, and one at a time,
 * so that those of a port keep the order of its messages. A call that polls makes them;
 * else a thread, which sleeps while none is due.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/futex.h"
#include "base/thread.h"
#include "panda/panda_internal.h"

#define AT_ONCE 64 /* upcalls of one poll */

static struct {
	pthread_t thread;
	_Atomic(uint32_t) calls; /* futex of the thread, incremented to wake it */
	_Atomic(bool) stop;
} upcalls;

static _Thread_local bool inside;

bool tw_panda_in_upcall(void)
{
	return inside;
}

/* An upcall is over: the next may begin, and a pan_mp_free_port() that waits may go on. */
static void end_one(uint64_t handle)
{
	struct tw_ep *ep = tw_enter(handle); /* none after a pan_mp_end() */

	if (!ep)
		return;
	tw_panda.dispatching = false;
	tw_panda.running = NULL;
	ep->events++;
	tw_leave(ep);
}

static void call_sender(struct tw_ep *ep)
{
	struct tw_panda_ticket *t = tw_list_first(&tw_panda.finished, struct tw_panda_ticket, link);
	void (*upcall)(void *) = t->upcall;
	void *arg = t->arg;

	tw_panda_ticket_free(t);
	tw_group_leave(ep);
	upcall(arg);
}

static void call_port(struct tw_ep *ep)
{
	struct tw_panda_port *port = tw_list_take(&tw_panda.ready, struct tw_panda_port, ready);
	int (*upcall)(void *, int, int) = port->upcall;
	struct tw_unexp_msg *u = port->msg;
	int size, len;
	void *data = tw_panda_message_data(u, &size, &len);

	port->msg = NULL;
	tw_panda_port_listen(ep, port);
	tw_panda.running = port;
	tw_group_leave(ep);
	if (!upcall(data, size, len))
		pan_free(data);
}

/* Makes the next upcall; false if there is none, and then the thread may sleep. */
static bool run_one(bool by_thread)
{
	/* [set-up] */
	uint64_t handle = atomic_load_explicit(&tw_panda.handle, memory_order_acquire);
	struct tw_ep *ep = tw_enter(handle);

	if (!ep)
		return false;
	if (!tw_panda_upcalls_due()) {
		tw_panda.asleep |= by_thread;
		tw_leave(ep);
		return false;
	}
	tw_panda.dispatching = true;
	inside = true;
	if (!tw_list_empty(&tw_panda.finished))
		call_sender(ep);
	else
		call_port(ep);
	inside = false;
	end_one(handle);
	return true;
}

void tw_panda_dispatch(void)
{
	struct tw_ep *ep;

	for (int i = 0; i < AT_ONCE; i++)
		if (!run_one(false))
			return;
	/* The rest is for the next poll, or for the thread. */
	ep = tw_panda_try_enter();
	if (!ep)
		return;
	if (tw_panda.asleep && tw_panda_upcalls_due())
		tw_panda_upcalls_wake();
	tw_leave(ep);
}

void tw_panda_upcalls_wake(void)
{
	tw_panda.asleep = false;
	/* [upcalls] */
	atomic_fetch_add_explicit(&upcalls.calls, 1, memory_order_release);
	tw_futex_wake(&upcalls.calls, 1);
}

static void *upcall_run(void *arg)
{
	(void)arg;
	for (;;) {
		/* [upcalls] */
		uint32_t calls = atomic_load_explicit(&upcalls.calls, memory_order_acquire);

		if (atomic_load(&upcalls.stop))
			return NULL;
		if (!run_one(true))
			tw_futex_wait(&upcalls.calls, calls, TW_FUTEX_FOREVER);
	}
}

bool tw_panda_upcalls_begin(void)
{
	tw_panda.has_thread = tw_settings.service && !tw_settings.single_threaded;
	if (!tw_panda.has_thread)
		return true;
	atomic_store(&upcalls.stop, false);
	tw_panda.has_thread = !tw_thread_start(&upcalls.thread, upcall_run, NULL, "panda");
	return tw_panda.has_thread;
}

void tw_panda_upcalls_end(void)
{
	TW_NOT_CANCELLED;

	if (!tw_panda.has_thread)
		return;
	atomic_store(&upcalls.stop, true);
	/* [upcalls] */
	atomic_fetch_add(&upcalls.calls, 1);
	tw_futex_wake(&upcalls.calls, 1);
	pthread_join(upcalls.thread, NULL);
	tw_panda.has_thread = false;
}
