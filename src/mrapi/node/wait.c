/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a lock: a short spin, then a futex. The process's sleepers are listed, so
 * that finalizing a node can end its threads' waits before the segment is unmapped. And
 * holding back the cancellation of the calling thread.
 */
#include <sched.h>

#include "base/sys.h"
#include "mrapi/mrapi_internal.h"

#define TRIES 3	       /* before sleeping */
#define FIRST_TRY_US 4 /* doubled each time */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
struct tw_list tw_mrapi_waits = {&tw_mrapi_waits, &tw_mrapi_waits};

static _Thread_local struct {
	unsigned depth;
	int state; /* before */
} held;

void tw_mrapi_lock(pthread_mutex_t *m)
{
	if (held.depth++ == 0)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &held.state);
	pthread_mutex_lock(m);
}

void tw_mrapi_unlock(pthread_mutex_t *m)
{
	pthread_mutex_unlock(m);
	if (--held.depth == 0)
		pthread_setcancelstate(held.state, NULL);
}

static bool alone(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

/*
 * Each try takes the cache line from the owner, which may lock and unlock many times
 * meanwhile; few tries cost a waiter little.
 */
bool tw_mrapi_spin(struct tw_mrapi_wait *w)
{
	uint64_t until;

	if (w->timeout == 0 || w->spins >= TRIES || (w->spins == 0 && alone()))
		return false;
	until = tw_clock() + (tw_clock_us(FIRST_TRY_US) << w->spins++);
	while (tw_clock() < until)
		tw_cpu_relax();
	return true;
}

mrapi_status_t tw_mrapi_sleep(struct tw_mrapi_wait *w, _Atomic(uint32_t) *word, uint32_t value)
{
	if (w->timeout == 0)
		return MRAPI_TIMEOUT;
	if (!w->word) {
		w->word = word;
		w->deadline = tw_mrapi_deadline(w->timeout);
		tw_mrapi_lock(&mutex);
		tw_list_add_tail(&tw_mrapi_waits, &w->link);
		tw_mrapi_unlock(&mutex);
	}
	/* The node may have ended before the wait was listed. */
	if (atomic_load(&w->ended) || tw_mrapi_me() != w->me)
		return MRAPI_ERR_NODE_NOTINIT;
	if (w->deadline != TW_FUTEX_FOREVER && tw_clock_ns() >= w->deadline)
		return MRAPI_TIMEOUT;
	tw_futex_wait(word, value, w->deadline);
	return atomic_load(&w->ended) ? MRAPI_ERR_NODE_NOTINIT : MRAPI_SUCCESS;
}

void tw_mrapi_wait_end(struct tw_mrapi_wait *w)
{
	if (!w->word)
		return;
	tw_mrapi_lock(&mutex);
	tw_list_del(&w->link);
	tw_mrapi_unlock(&mutex);
}

unsigned tw_mrapi_wait_notify(uint32_t me)
{
	unsigned n = 0;

	tw_mrapi_lock(&mutex);
	tw_list_walk(&tw_mrapi_waits, struct tw_mrapi_wait, w, link) {
		if (me && w->me != me)
			continue;
		atomic_store(&w->ended, true);
		/* Also who is just going to sleep. */
		atomic_fetch_add(w->word, 1);
		tw_futex_wake(w->word, INT32_MAX);
		n++;
	}
	tw_mrapi_unlock(&mutex);
	return n;
}

void tw_mrapi_wait_abort(uint32_t me)
{
	while (tw_mrapi_wait_notify(me))
		tw_sys_sleep_us(500);
}

void tw_mrapi_wait_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	tw_list_init(&tw_mrapi_waits);
}
