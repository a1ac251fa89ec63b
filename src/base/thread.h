/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library, and what they lock. */
#ifndef TW_THREAD_H
#define TW_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Starts one: 0 or an error. Signals are for the program's own threads. */
static inline int tw_thread_start(pthread_t *thread, void *(*body)(void *), void *arg,
				  const char *name)
{
	sigset_t all, old;
	int err;

	memset(&all, 0xff, sizeof(all));
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(thread, NULL, body, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		pthread_setname_np(*thread, name);
	return err;
}

/* Registers what a child of fork() is to do first, once. Under a mutex of the caller's. */
static inline void tw_at_fork(bool *registered, void (*child)(void))
{
	if (!*registered)
		pthread_atfork(NULL, NULL, child);
	*registered = true;
}

/* One user more, beside others, of whom the last may end at any time. False: there is none. */
static inline bool tw_join_users(_Atomic(unsigned) *users)
{
	unsigned n = *users;

	while (n && !atomic_compare_exchange_weak(users, &n, n + 1))
		;
	return n;
}

/*
 * Takes a static mutex over fork(), so that a child finds it free and what it guards whole. It is
 * locked by tw_mutex_lock() alone, and no other such mutex is taken under it: a signal handler that
 * forks amid such a call may have it already.
 */
#define TW_MUTEX_OVER_FORK(name, mutex)                                                            \
	static _Thread_local bool name##_taken;                                                    \
	static void name##_before_fork(void)                                                       \
	{                                                                                          \
		name##_taken = (tw_lock_depth ? pthread_mutex_trylock(mutex)                       \
					      : pthread_mutex_lock(mutex)) == 0;                   \
	}                                                                                          \
	static void name##_after_fork(void)                                                        \
	{                                                                                          \
		if (name##_taken)                                                                  \
			pthread_mutex_unlock(mutex);                                               \
	}                                                                                          \
	static void name##_in_child(void)                                                          \
	{                                                                                          \
		if (name##_taken)                                                                  \
			pthread_mutex_unlock(mutex);                                               \
		else                                                                               \
			pthread_mutex_init(mutex, NULL);                                           \
	}                                                                                          \
	static __attribute__((constructor)) void name##_over_fork(void)                            \
	{                                                                                          \
		pthread_atfork(name##_before_fork, name##_after_fork, name##_in_child);            \
	}

static inline int tw_cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void tw_cancel_restore(const int *state)
{
	pthread_setcancelstate(*state, NULL);
}

/*
 * A declaration: the calling thread is not cancelled until the block ends, wherever that is. Calls
 * of the C library that look up names or read files, and many of other libraries, are cancellation
 * points.
 */
#define TW_NOT_CANCELLED                                                                           \
	__attribute__((cleanup(tw_cancel_restore), unused))                                        \
	const int tw_cancel_before = tw_cancel_hold()

#endif /* TW_THREAD_H */
