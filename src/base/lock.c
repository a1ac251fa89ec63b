/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lock.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

#define YIELD_US 50 /* a yield comes back sooner, but passes by who has a lower priority */
#define NAP_US 100

#if !TW_AMD64
_Thread_local char tw_lock_self[8] __attribute__((aligned(8)));
#endif
_Thread_local unsigned tw_lock_depth;

void tw_lock_init(struct tw_lock *l, bool single)
{
	memset(l, 0, sizeof(*l));
	l->single = single;
	pthread_mutex_init(&l->mutex, NULL);
	tw_barrier_register();
	if (!tw_barrier_private())
		l->biases = TW_LOCK_BIASES;
}

void tw_back_off(uint64_t *since)
{
	uint64_t now = tw_clock();

	if (!*since)
		*since = now;
	if (now - *since < tw_clock_us(YIELD_US))
		sched_yield();
	else
		tw_sys_sleep_us(NAP_US);
}

/* Revokes the bias. True when its thread is outside. */
static bool revoke_bias(struct tw_lock *l, bool wait)
{
	uintptr_t w = atomic_load_explicit(&l->owner, memory_order_relaxed);
	uint64_t since = 0;

	if (w == 0)
		return true;
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
	/* [lock-bias] */
	tw_barrier_threads();
	/* [lock-leave] */
	while (atomic_load_explicit(&l->inside[w & 7], memory_order_acquire)) {
		if (!wait) {
			/* [lock-return] */
			atomic_store_explicit(&l->owner, w, memory_order_release);
			return false;
		}
		/* It leaves by a plain store, and wakes nobody. */
		tw_back_off(&since);
	}
	return true;
}

void tw_lock_slow(struct tw_lock *l)
{
	uintptr_t me = tw_thread_id();

	if (l->single) {
		/* No other thread is inside: the bias moves to this one. */
		l->biased_to = me;
		atomic_store_explicit(&l->owner, me, memory_order_relaxed);
		atomic_store_explicit(&l->inside[0], 1, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&l->waiters, 1, memory_order_relaxed);
	tw_mutex_lock(&l->mutex);
	revoke_bias(l, true);
	atomic_fetch_sub_explicit(&l->waiters, 1, memory_order_relaxed);
	l->by_mutex = true;
	if ((l->biased_to & ~(uintptr_t)7) == me)
		return;
	/* tw_lock_mine() reads it without the mutex. */
	me = l->biases < TW_LOCK_BIASES ? me | l->biases++ : 0;
	__atomic_store_n(&l->biased_to, me, __ATOMIC_RELAXED);
}

bool tw_lock_try(struct tw_lock *l)
{
	/* The cheap test first: usually it suffices. */
	if (tw_lock_inside(l))
		return false;
	tw_lock_depth++;
	/* [handler] */
	tw_barrier_compiler();
	if (pthread_mutex_trylock(&l->mutex) != 0) {
		tw_lock_depth--;
		return false;
	}
	if (!revoke_bias(l, false)) {
		tw_mutex_unlock(&l->mutex);
		return false;
	}
	l->by_mutex = true;
	return true;
}

void tw_unlock_slow(struct tw_lock *l)
{
	bool contended = tw_lock_contended(l);

	l->by_mutex = false;
	/* [lock-return] */
	atomic_store_explicit(&l->owner, l->biased_to, memory_order_release);
	tw_mutex_unlock(&l->mutex);
	/* A mutex does not favour the thread that has waited longest. */
	if (contended)
		sched_yield();
}

void tw_unlock_unbiased(struct tw_lock *l)
{
	/* Nobody but the holder of the mutex writes it. */
	atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
	if (l->by_mutex) {
		l->by_mutex = false;
		tw_mutex_unlock(&l->mutex);
	} else {
		atomic_store_explicit(&l->inside[0], 0, memory_order_relaxed); /* single */
	}
}

bool tw_lock_mine(const struct tw_lock *l)
{
	/* [handler] Not the owner word, which other threads change while its thread is inside. */
	uintptr_t w = __atomic_load_n(&l->biased_to, __ATOMIC_RELAXED);

	return tw_lock_depth || ((w & ~(uintptr_t)7) == tw_thread_id() &&
				 atomic_load_explicit(&l->inside[w & 7], memory_order_relaxed));
}
