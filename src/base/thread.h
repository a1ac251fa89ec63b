/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the library, and what they lock. */
#ifndef TW_THREAD_H
#define TW_THREAD_H

#include <pthread.h>
#include <signal.h>
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

/*
 * Takes a static mutex over fork(), so that a child finds it free and what it guards whole. No
 * other such mutex may be taken under it.
 */
#define TW_MUTEX_OVER_FORK(name, mutex)                                                            \
	static void name##_before_fork(void)                                                       \
	{                                                                                          \
		pthread_mutex_lock(mutex);                                                         \
	}                                                                                          \
	static void name##_after_fork(void)                                                        \
	{                                                                                          \
		pthread_mutex_unlock(mutex);                                                       \
	}                                                                                          \
	static __attribute__((constructor)) void name##_over_fork(void)                            \
	{                                                                                          \
		pthread_atfork(name##_before_fork, name##_after_fork, name##_after_fork);          \
	}

/*
 * A call of the C library that looks up names or reads files is a cancellation point. Until
 * tw_cancel_restore(), with the result, the calling thread is not cancelled.
 */
static inline int tw_cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void tw_cancel_restore(int state)
{
	pthread_setcancelstate(state, NULL);
}

/* A mutex whose locking fails, and does not hang, where the thread has it already. */
static inline void tw_mutex_checked(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

#endif /* TW_THREAD_H */
