/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State of single threads. Words that one has locked with mrapi_atomic_lock(): only
 * that thread may release them (MRAPI 4.8.18), and a word is too small to name its owner. And
 * whether it is unlocking a mutex.
 */
#include <sched.h>
#include <stdlib.h>

#include "base/barrier.h"
#include "mrapi/mrapi_internal.h"

static _Thread_local struct owned {
	const void **word;
	size_t n, room;
} owned;

_Thread_local struct tw_mrapi_unlocker tw_mrapi_unlocker;
static struct tw_list unlockers = {&unlockers, &unlockers};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of that list */

static pthread_key_t thread_end;
static bool have_key;

static void forget_words(void)
{
	free(owned.word);
	memset(&owned, 0, sizeof(owned));
}

static void thread_ended(void *unused)
{
	(void)unused;
	forget_words();
	if (atomic_exchange(&tw_mrapi_unlocker.state, TW_MRAPI_UNLISTED) == TW_MRAPI_UNLISTED)
		return;
	pthread_mutex_lock(&mutex);
	tw_list_del(&tw_mrapi_unlocker.link);
	pthread_mutex_unlock(&mutex);
}

static void prepare(void)
{
	have_key = pthread_key_create(&thread_end, thread_ended) == 0;
}

/* Has thread_ended() called. */
static bool see_end(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare);
	return have_key && pthread_setspecific(thread_end, &owned) == 0;
}

bool tw_mrapi_unlocker_listed(void)
{
	struct tw_mrapi_unlocker *u = &tw_mrapi_unlocker;

	if (atomic_load(&u->state) != TW_MRAPI_UNLISTED)
		return true;
	if (!see_end())
		return false;
	pthread_mutex_lock(&mutex);
	tw_list_add_tail(&unlockers, &u->link);
	pthread_mutex_unlock(&mutex);
	return true;
}

void tw_mrapi_unlocks_end(void)
{
	tw_barrier_hosts();
	pthread_mutex_lock(&mutex);
	tw_list_walk(&unlockers, struct tw_mrapi_unlocker, u, link)
		while (u != &tw_mrapi_unlocker && atomic_load(&u->state) == TW_MRAPI_UNLOCKING)
			sched_yield();
	pthread_mutex_unlock(&mutex);
}

bool tw_mrapi_owned_reserve(void)
{
	size_t room = owned.room ? 2 * owned.room : 16;
	const void **word;

	if (owned.n < owned.room)
		return true;
	if (!see_end())
		return false;
	word = realloc(owned.word, room * sizeof(*word));
	if (!word)
		return false;
	owned.word = word;
	owned.room = room;
	return true;
}

/* The last one first: locks nest. */
static size_t find(const void *word)
{
	size_t i = owned.n;

	while (i > 0 && owned.word[i - 1] != word)
		i--;
	return i;
}

bool tw_mrapi_owned(const void *word)
{
	return find(word) > 0;
}

void tw_mrapi_owned_add(const void *word)
{
	/* It may be listed already, if another thread has set the word to 0. */
	if (!tw_mrapi_owned(word))
		owned.word[owned.n++] = word;
}

void tw_mrapi_owned_del(const void *word)
{
	size_t i = find(word);

	if (i > 0)
		owned.word[i - 1] = owned.word[--owned.n];
}

void tw_mrapi_owned_forked(void)
{
	forget_words();
	pthread_mutex_init(&mutex, NULL);
	tw_list_init(&unlockers);
	atomic_store(&tw_mrapi_unlocker.state, TW_MRAPI_UNLISTED);
}
