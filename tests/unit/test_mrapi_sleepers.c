/* SPDX-License-Identifier: BSD-2-Clause */
/* Who waits for a mutex no longer is not counted as its sleeper: unlocking wakes nobody for it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"
#include "unit/mrapi_kit.h"

#define WAITS 20

static mrapi_mutex_hndl_t mutex;

static uint32_t sleepers(void)
{
	return atomic_load(&tw_mrapi.seg->mutex[mutex & TW_MRAPI_SLOT_MASK].sleepers);
}

static void lock(mrapi_timeout_t timeout, mrapi_status_t wanted)
{
	mrapi_status_t st;
	mrapi_key_t key;

	mrapi_mutex_lock(mutex, &key, timeout, &st);
	cr_assert_eq(st, wanted);
}

static void begin(void)
{
	mrapi_status_t st;

	mrapi_kit_job("sleepers");
	mrapi_kit_up(7);
	mutex = mrapi_mutex_create(1, NULL, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	lock(MRAPI_TIMEOUT_INFINITE, MRAPI_SUCCESS);
}

static void *gives_up(void *arg)
{
	mrapi_status_t st;

	mrapi_kit_up(8);
	for (int i = 0; i < WAITS; i++)
		lock(2, MRAPI_TIMEOUT);
	mrapi_finalize(&st);
	return arg;
}

static void *waits(void *arg)
{
	mrapi_status_t st;

	mrapi_kit_up(9);
	lock(MRAPI_TIMEOUT_INFINITE, MRAPI_SUCCESS);
	mrapi_finalize(&st);
	return arg;
}

static void run(void *(*fn)(void *), pthread_t *thread)
{
	cr_assert_eq(pthread_create(thread, NULL, fn, NULL), 0);
}

static void unlock(void)
{
	mrapi_key_t key = 1;
	mrapi_status_t st;

	mrapi_mutex_unlock(mutex, &key, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

Test(mrapi_sleepers, gone, .timeout = TWT_TIMEOUT)
{
	pthread_t thread;

	begin();
	run(gives_up, &thread);
	pthread_join(thread, NULL);
	cr_assert_eq(sleepers(), 0u);
}

/* One that goes on waiting stays counted, and is woken. */
Test(mrapi_sleepers, one_stays, .timeout = TWT_TIMEOUT)
{
	pthread_t other, thread;

	begin();
	run(waits, &other);
	while (!sleepers())
		sched_yield();
	run(gives_up, &thread);
	pthread_join(thread, NULL);
	/* The end of a node has woken it. */
	while (sleepers() != 1)
		sched_yield();
	unlock();
	pthread_join(other, NULL);
	cr_assert_eq(sleepers(), 0u);
}
