/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lock biased to the thread that uses it. That thread enters and leaves with plain
 * stores. Another thread first revokes the bias, which costs a membarrier, and the bias
 * moves to it. After TW_LOCK_BIASES moves the lock is an ordinary mutex for good.
 * doc/decisions.md, 1.
 *
 * The owner word names the favoured thread and one of the inside flags. A flag has only one
 * writer ever: once the bias has left a flag it never returns to it. So a thread that was
 * overtaken between reading the owner word and setting its flag does no harm.
 */
#ifndef TW_LOCK_H
#define TW_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/barrier.h"
#include "base/compiler.h"

#define TW_LOCK_BIASES 4 /* at most 8: owner is the thread plus the index */

struct tw_lock {
	_Atomic(uintptr_t) owner; /* thread | flag index, 0: not biased now */
	_Atomic(uint32_t) inside[TW_LOCK_BIASES];
	bool by_mutex; /* how the current holder entered */
	bool single;   /* one thread at a time: no locking, and the bias follows it */
	/* Under the mutex: */
	uintptr_t biased_to; /* restored to owner by the unlock */
	unsigned biases;     /* flags used up */
	_Atomic(int) waiters;
	pthread_mutex_t mutex;
};

/* The thread's own address; its low bits are 0. */
static inline uintptr_t tw_thread_id(void)
{
#if TW_AMD64
	uintptr_t self;

	__asm__("mov %%fs:0, %0" : "=r"(self)); /* the ABI's thread pointer */
	return self;
#else
	extern _Thread_local char tw_lock_self[8] __attribute__((aligned(8)));

	return (uintptr_t)tw_lock_self;
#endif
}

/* The word less the thread's address. */
static inline uintptr_t tw_thread_less(uintptr_t w)
{
#if TW_AMD64
	__asm__("sub %%fs:0, %0" : "+r"(w));
	return w;
#else
	return w - tw_thread_id();
#endif
}

/* single: the caller guarantees that one thread at a time uses the lock. */
void tw_lock_init(struct tw_lock *l, bool single);
void tw_lock_slow(struct tw_lock *l);
void tw_unlock_slow(struct tw_lock *l);
/*
 * For a wait of which nobody tells the end: lets others run, those of a lower priority, too.
 * *since is 0 at first.
 */
void tw_back_off(uint64_t *since);
/*
 * Unlocks after tw_lock_slow() or tw_lock_try(). From then on a thread enters by the bias
 * only when it has been in by tw_lock_slow() again.
 */
void tw_unlock_unbiased(struct tw_lock *l);
/* Takes the lock if no thread is inside. Does not move the bias. */
bool tw_lock_try(struct tw_lock *l);

/* One thread's shortcut into a lock, valid as long as the bias is that thread's. */
struct tw_lock_way {
	uintptr_t owner;
	_Atomic(uint32_t) *inside;
};

static inline void tw_lock_leave(struct tw_lock_way way)
{
	/* [lock-leave] */
	atomic_store_explicit(way.inside, 0, memory_order_release);
}

static inline bool tw_lock_by(struct tw_lock *l, struct tw_lock_way way)
{
	atomic_store_explicit(way.inside, 1, memory_order_relaxed);
	tw_barrier_compiler(); /* [lock-bias] */
	/* [lock-return] */
	if (tw_likely(tw_peek(&l->owner) == way.owner)) {
		tw_barrier_compiler(); /* [lock-return] */
		return true;
	}
	tw_lock_leave(way);
	return false;
}

/* Enters if the lock is biased to this thread. The holder may leave by the way, too. */
tw_shared bool tw_lock_biased(struct tw_lock *l, struct tw_lock_way *way)
{
	uintptr_t w = atomic_load_explicit(&l->owner, memory_order_relaxed);
	uintptr_t flag = tw_thread_less(w);

	if (tw_unlikely(flag >= TW_LOCK_BIASES))
		return false;
	*way = (struct tw_lock_way){w, &l->inside[flag]};
	return tw_lock_by(l, *way);
}

/* The way by which the holder has entered, by the bias. */
static inline struct tw_lock_way tw_lock_held(struct tw_lock *l)
{
	return (struct tw_lock_way){l->biased_to, &l->inside[l->biased_to & 7]};
}

/* Called by the holder: records the shortcut, unless the lock has become a mutex. */
static inline bool tw_lock_way(struct tw_lock *l, struct tw_lock_way *way)
{
	*way = tw_lock_held(l);
	return way->owner != 0;
}

tw_shared void tw_lock(struct tw_lock *l)
{
	struct tw_lock_way way;

	if (tw_unlikely(!tw_lock_biased(l, &way)))
		tw_lock_slow(l);
}

tw_shared void tw_unlock(struct tw_lock *l)
{
	if (tw_likely(!l->by_mutex))
		/* [lock-leave] */
		atomic_store_explicit(&l->inside[l->biased_to & 7], 0, memory_order_release);
	else
		tw_unlock_slow(l);
}

/*
 * The number of library locks and mutexes that this thread holds or waits for, except locks
 * that it entered by the bias.
 */
extern _Thread_local unsigned tw_lock_depth;

/*
 * True if this thread may hold the lock. A signal handler asks, as it may have interrupted
 * the thread's own call. False is always right.
 */
bool tw_lock_mine(const struct tw_lock *l);

/* A mutex of the library, counted in tw_lock_depth. */
static inline void tw_mutex_lock(pthread_mutex_t *m)
{
	tw_lock_depth++;
	/* [handler] */
	tw_barrier_compiler();
	pthread_mutex_lock(m);
}

static inline void tw_mutex_unlock(pthread_mutex_t *m)
{
	pthread_mutex_unlock(m);
	/* [handler] */
	tw_barrier_compiler();
	tw_lock_depth--;
}

/*
 * For a mutex that a signal handler may want while its own thread has it. *inside is the thread's
 * own; false if it holds the mutex, takes it or releases it. The owner that a mutex notes itself is
 * no answer: it is not set while the thread takes the mutex.
 */
static inline bool tw_mutex_lock_once(pthread_mutex_t *mutex, bool *inside)
{
	if (*inside)
		return false;
	*inside = true;
	/* [handler] */
	tw_barrier_compiler();
	pthread_mutex_lock(mutex);
	return true;
}

/* The same, and false if another thread holds the mutex. */
static inline bool tw_mutex_try_once(pthread_mutex_t *mutex, bool *inside)
{
	if (*inside)
		return false;
	*inside = true;
	/* [handler] */
	tw_barrier_compiler();
	if (pthread_mutex_trylock(mutex) == 0)
		return true;
	/* [handler] */
	tw_barrier_compiler();
	*inside = false;
	return false;
}

static inline void tw_mutex_unlock_once(pthread_mutex_t *mutex, bool *inside)
{
	pthread_mutex_unlock(mutex);
	/* [handler] */
	tw_barrier_compiler();
	*inside = false;
}

/* True if the favoured thread seems to be inside. A cheap guess. */
static inline bool tw_lock_inside(const struct tw_lock *l)
{
	uintptr_t w = atomic_load_explicit(&l->owner, memory_order_relaxed);

	return w && atomic_load_explicit(&l->inside[w & 7], memory_order_relaxed);
}

/* True if another thread waits for the lock: the holder should release it now and then. */
static inline bool tw_lock_contended(struct tw_lock *l)
{
	return atomic_load_explicit(&l->waiters, memory_order_relaxed) != 0;
}

#endif /* TW_LOCK_H */
