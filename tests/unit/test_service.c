/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread comes back to an endpoint that was busy. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "unit/syscall_kit.h"
#include "lib/twt.h"

static void attend(struct tw_ep *ep)
{
	ep->attend = false;
}

static void down(struct tw_ep *ep, const struct tw_peer *p)
{
	(void)ep;
	(void)p;
}

static const struct tw_interface interface = {.attend = attend, .down = down};

static void begin(void)
{
	char job[40];

	snprintf(job, sizeof(job), "service-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	cr_assert_eq(tw_begin(), TW_OK);
}

/* The program's own expiry may clear the timer that was to bring it back. */
Test(service, comes_back, .timeout = TWT_TIMEOUT)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	uint64_t handle, served, before;

	begin();
	cr_assert_eq(tw_ep_open(&how, &handle), TW_OK);
	for (int round = 0; round < 100; round++) {
		struct tw_ep *ep = tw_enter(handle);
		double end = twt_now() + TWT_LONG;

		before = ep->counters[TW_C_TAKEOVER];
		tw_wake_leader(ep);
		while (!(atomic_load(&ep->slot->requested))) {
			cr_assert(twt_now() < end);
			sched_yield();
		}
		tw_expire(ep);
		tw_leave(ep);
		do {
			cr_assert(twt_now() < end, "round %d: nobody comes", round);
			usleep(100);
			ep = tw_enter(handle);
			served = ep->counters[TW_C_TAKEOVER];
			tw_leave(ep);
		} while (served == before);
	}
	cr_assert_eq(tw_ep_close(handle), TW_OK);
	tw_end();
}

/*
 * A handler that closes an endpoint and opens another, while its thread has compared the handle of
 * the first and not yet entered, gets another slot, and so does one that does it again.
 */
Test(service, a_slot_rests, .timeout = TWT_TIMEOUT)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	struct tw_lock_way way;
	uint64_t first, next;

	begin();
	cr_assert_eq(tw_ep_open(&how, &first), TW_OK);
	cr_assert_eq(tw_ep_close(first), TW_OK);
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(tw_ep_open(&how, &next), TW_OK);
		cr_assert_neq(tw_slot_of(next), tw_slot_of(first));
		tw_leave(tw_enter(next));
		cr_assert(!tw_lock_biased(&tw_slot_of(first)->lock, &way));
		cr_assert_eq(tw_ep_close(next), TW_OK);
	}
	/* They are taken again in the end. */
	for (int i = 0; i < 2 * TW_MAX_OPEN; i++) {
		cr_assert_eq(tw_ep_open(&how, &next), TW_OK);
		cr_assert_eq(tw_ep_close(next), TW_OK);
	}
	cr_assert(tw_slots_used() < 64);
	tw_end();
}

static void count_end(void *ends)
{
	++*(_Atomic(int) *)ends;
}

static const struct tw_interface ending = {.attend = attend, .down = down, .ended = count_end};

/* A timer set for later does not hold up the end of an endpoint that was left behind. */
Test(service, ends_what_was_left_behind, .timeout = TWT_TIMEOUT)
{
	static _Atomic(int) ends;
	struct tw_open how = {.number = 8, .iface = &interface};
	uint64_t stays, left;

	begin();
	cr_assert_eq(tw_ep_open(&how, &stays), TW_OK);
	how = (struct tw_open){.number = 9, .iface = &ending, .owner = &ends};
	for (int round = 0; round < 100; round++) {
		double end = twt_now() + TWT_LONG;

		cr_assert_eq(tw_ep_open(&how, &left), TW_OK);
		cr_assert_eq(tw_ep_leave_behind(left), TW_OK);
		tw_service_wake(&tw_slots[0], tw_clock() + tw_clock_us(3600 * 1000000ull));
		while (ends == round) {
			cr_assert(twt_now() < end, "round %d: it does not end", round);
			usleep(100);
		}
	}
	cr_assert_eq(tw_ep_close(stays), TW_OK);
	tw_end();
}

/* Another thread may find an endpoint that was left behind, and come when it has ended. */
Test(service, ended_without_a_bias, .timeout = TWT_TIMEOUT)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	struct tw_slot_entry *s;
	uint64_t handle;

	setenv("TAGWIRE_SERVICE", "0", 1);
	begin();
	cr_assert_eq(tw_ep_open(&how, &handle), TW_OK);
	s = tw_slot_of(handle);
	cr_assert_eq(tw_ep_leave_behind(handle), TW_OK);
	cr_assert(tw_ep_finish(s));
	cr_assert(tw_ep_finish(s));
	cr_assert_eq(atomic_load(&s->lock.owner), 0u);
	tw_end();
}

/* Another thread, whenever the one that leaves it behind calls the system. */
static struct tw_slot_entry *finished;
static bool ended_early;

static bool finish_first(long number)
{
	if (number != SYS_futex)
		return false;
	before_syscall = NULL;
	tw_ep_finish(finished);
	ended_early |= !finished->ep;
	before_syscall = finish_first;
	return false;
}

/* It is not ended, and freed, by another thread while this one wakes those who wait. */
Test(service, left_behind_after_its_last_use, .timeout = TWT_TIMEOUT)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	struct tw_slot_entry *s;
	uint64_t handle;

	setenv("TAGWIRE_SERVICE", "0", 1);
	begin();
	cr_assert_eq(tw_ep_open(&how, &handle), TW_OK);
	s = tw_slot_of(handle);
	finished = s;
	before_syscall = finish_first;
	cr_assert_eq(tw_ep_leave_behind(handle), TW_OK);
	before_syscall = NULL;
	cr_assert(!ended_early);
	cr_assert(tw_ep_finish(s));
	cr_assert_null(s->ep);
	tw_end();
}

struct late {
	enum tw_err (*call)(uint64_t handle);
	uint64_t handle;
	enum tw_err err;
};

static enum tw_err enters(uint64_t handle)
{
	return tw_enter(handle) ? TW_OK : TW_ECLOSED;
}

static void *calls_late(void *arg)
{
	struct late *l = arg;

	l->err = l->call(l->handle);
	return NULL;
}

/* A call that has compared the handle, and waits for the lock while the endpoint is closed. */
static void ends_without_a_bias(enum tw_err (*call)(uint64_t handle))
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	struct late late = {.call = call};
	struct tw_slot_entry *s;
	pthread_t thread;

	setenv("TAGWIRE_SERVICE", "0", 1);
	begin();
	cr_assert_eq(tw_ep_open(&how, &late.handle), TW_OK);
	s = tw_slot_of(late.handle);
	cr_assert_not_null(tw_enter(late.handle));
	cr_assert_eq(pthread_create(&thread, NULL, calls_late, &late), 0);
	while (!tw_lock_contended(&s->lock))
		sched_yield();
	/* As a signal handler does. */
	cr_assert_eq(tw_ep_leave_behind(late.handle), TW_OK);
	tw_unlock(&s->lock);
	pthread_join(thread, NULL);
	cr_assert_eq(late.err, TW_ECLOSED);
	cr_assert_eq(atomic_load(&s->lock.owner), 0u);
	cr_assert(tw_ep_finish(s));
	tw_end();
}

Test(service, closed_without_a_bias, .timeout = TWT_TIMEOUT)
{
	ends_without_a_bias(tw_ep_close);
}

Test(service, entered_without_a_bias, .timeout = TWT_TIMEOUT)
{
	ends_without_a_bias(enters);
}

/* A slot that no endpoint has, at the moment of a fork. */
static _Atomic(int) held;

static void *holds(void *slot)
{
	struct tw_slot_entry *s = slot;

	while (!tw_lock_try(&s->lock))
		;
	atomic_store(&held, 1);
	while (atomic_load(&held))
		pause();
	return NULL;
}

/* Until it has that slot, which rests for some time. */
static int opens_in_child(void *slot, int fd)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	uint64_t handle;

	(void)fd;
	if (tw_begin() != TW_OK)
		return 1;
	for (int i = 0; i < 100; i++) {
		if (tw_ep_open(&how, &handle) != TW_OK || tw_ep_close(handle) != TW_OK)
			return 1;
		if (tw_slot_of(handle) == slot)
			return 0;
	}
	return 2;
}

Test(service, fork_beside_a_check_of_a_free_slot, .timeout = TWT_TIMEOUT)
{
	const struct tw_open how = {.number = 7, .iface = &interface};
	struct twt_child child;
	pthread_t thread;
	uint64_t handle;

	begin();
	cr_assert_eq(tw_ep_open(&how, &handle), TW_OK);
	cr_assert_eq(tw_ep_close(handle), TW_OK);
	cr_assert_eq(pthread_create(&thread, NULL, holds, tw_slot_of(handle)), 0);
	while (!atomic_load(&held))
		sched_yield();
	twt_spawn(&child, opens_in_child, tw_slot_of(handle));
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	tw_end();
}

static void *begins_and_ends(void *unused)
{
	double end = twt_now() + 3;

	while (twt_now() < end)
		if (tw_begin() == TW_OK)
			tw_end();
	return unused;
}

/* An interface may begin in one thread while another ends in a second one. */
Test(service, users_are_counted, .timeout = TWT_TIMEOUT)
{
	static const char *const sizes[] = {"4096", "8192"};
	pthread_t threads[4];

	for (unsigned i = 0; i < tw_countof(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, begins_and_ends, NULL), 0);
	for (unsigned i = 0; i < tw_countof(threads); i++)
		pthread_join(threads[i], NULL);
	/* Nobody is left: the first to begin reads the settings. */
	for (unsigned i = 0; i < tw_countof(sizes); i++) {
		setenv("TAGWIRE_EAGER_MAX", sizes[i], 1);
		cr_assert_eq(tw_begin(), TW_OK);
		cr_assert_eq(tw_settings.eager_max, (uint32_t)atoi(sizes[i]));
		tw_end();
	}
}
