/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread of a node that has ended is amid a call when the process joins its job again. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"
#include "unit/mrapi_kit.h"

static _Atomic(int) inside, changed;

/* The word that it locked is the one that it unlocks. */
static void *is_late(void *unused)
{
	double end = twt_now() + 0.3;
	uint32_t word;

	tw_mrapi_admin_lock();
	word = atomic_load(&tw_mrapi.seg->admin) & ~TW_MRAPI_WAITERS;
	atomic_store(&inside, 1);
	while (twt_now() < end)
		if ((atomic_load(&tw_mrapi.seg->admin) & ~TW_MRAPI_WAITERS) != word)
			atomic_store(&changed, 1);
	tw_mrapi_admin_unlock();
	return unused;
}

Test(mrapi_late, admin_lock, .timeout = TWT_TIMEOUT)
{
	pthread_t thread;
	mrapi_status_t st;

	mrapi_kit_job("late");
	mrapi_kit_up(7);
	mrapi_finalize(&st);
	cr_assert_eq(pthread_create(&thread, NULL, is_late, NULL), 0);
	while (!atomic_load(&inside))
		sched_yield();
	mrapi_kit_up(7);
	pthread_join(thread, NULL);
	cr_assert(!atomic_load(&changed), "another segment lies there, and its lock");
	mrapi_finalize(&st);
}
