/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.3.1: mutexes. The lock word names the owner; taking it is one compare and
 * swap. The handle and the node are checked again afterwards: if the mutex has been
 * deleted or the node has ended, the lock is given back.
 *
 * Unlocking is a compare and swap, too: the node may have ended, and another one may have
 * the lock. Then it reads the sleepers' count. A thread that is going to sleep increments
 * the count and tries again. An unlock that reads a count decrements it, then bumps seq and
 * wakes: a sleeper has read seq before it was counted, so it does not sleep on if its own
 * count was taken. One that nobody has woken takes its count back, and then looks at seq: if it
 * has changed, its own count was taken, and it has taken another's, so it passes a wake-up on. A
 * sleeper that dies leaves its count, which causes one useless wake-up. Proof:
 * tests/model/mutex.pml.
 *
 * The lock is not handed over: the first thread to try gets it, often the last owner.
 *
 * Several threads may run for the owner of a recursive mutex. Its levels are one word,
 * changed by compare and swap. Depth 0 with an owner means that the lock is being taken
 * or released; no thread can lock again then. The node may end at any step: levels are
 * replaced only while its owner has the lock. A key is the number of its lock, counted
 * per mutex, and the number of the enclosing lock, which unlock restores. Proof:
 * tests/model/levels.pml.
 */
#include <limits.h>
#include <sched.h>

#include "mrapi/remote/remote.h"

static inline struct tw_mrapi_mutex *mutex_in(mrapi_mutex_hndl_t handle)
{
	return &tw_mrapi.seg->mutex[handle & TW_MRAPI_SLOT_MASK];
}

static mrapi_status_t mutex_find(uint32_t me, mrapi_mutex_hndl_t handle, const mrapi_key_t *key,
				 struct tw_mrapi_mutex **out)
{
	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	*out = mutex_in(handle);
	if (!tw_mrapi_is(&(*out)->obj, handle))
		return tw_mrapi_stale(TW_MRAPI_MUTEX, handle);
	return key ? MRAPI_SUCCESS : MRAPI_ERR_PARAMETER;
}

static inline mrapi_key_t mutex_make_key(uint32_t number, uint32_t around)
{
	return (uint64_t)number << 32 | around;
}

/* Levels: the number of the last lock, the owner, and the depth. */
#define DEPTH_BITS 20
#define MAX_DEPTH 0xffffu
_Static_assert(MRAPI_MAX_NODES < 1u << (32 - DEPTH_BITS) && MAX_DEPTH < 1u << DEPTH_BITS,
	       "holder and depth fit");

static inline uint64_t make_levels(uint32_t number, uint32_t me, uint32_t depth)
{
	return (uint64_t)number << 32 | me << DEPTH_BITS | depth;
}

/* 0 for other nodes. */
static inline uint32_t depth_of(uint64_t levels, uint32_t me)
{
	return (uint32_t)levels >> DEPTH_BITS == me ? levels & ((1u << DEPTH_BITS) - 1) : 0;
}

static void mutex_wake(struct tw_mrapi_mutex *m, int n)
{
	/* [mutex-sleep] */
	atomic_fetch_add(&m->seq, 1);
	tw_futex_wake(&m->seq, n);
}

static bool take_count(struct tw_mrapi_mutex *m)
{
	uint32_t n = atomic_load(&m->sleepers);

	while (n > 0 && !atomic_compare_exchange_weak(&m->sleepers, &n, n - 1))
		;
	return n > 0;
}

static tw_noinline void wake_one(struct tw_mrapi_mutex *m)
{
	if (take_count(m))
		mutex_wake(m, 1);
}

/* Releases the lock, unless the node has ended and it was dropped. */
static inline bool mutex_give_back(struct tw_mrapi_mutex *m, uint32_t me)
{
	/* [mutex] [mutex-sleep] [node-ends] */
	if (!atomic_compare_exchange_strong(&m->word, &me, 0))
		return false;
	if (tw_unlikely(atomic_load(&m->sleepers)))
		wake_one(m);
	return true;
}

static inline bool mutex_take(struct tw_mrapi_mutex *m, uint32_t me)
{
	uint32_t free = 0;

	/* [mutex] [mutex-deleted] [node-ends] */
	return atomic_compare_exchange_strong_explicit(&m->word, &free, me, memory_order_seq_cst,
						       memory_order_relaxed);
}

static inline bool mutex_held_by(struct tw_mrapi_mutex *m, uint32_t me)
{
	return atomic_load_explicit(&m->word, memory_order_relaxed) == me;
}

static inline bool recursive(struct tw_mrapi_mutex *m)
{
	return atomic_load_explicit(&m->obj.flags, memory_order_relaxed) & TW_MRAPI_RECURSIVE;
}

/* The caller has taken the lock of a mutex that is not recursive: its key is not checked. */
static inline void make_first_key(struct tw_mrapi_mutex *m, mrapi_key_t *key)
{
	uint64_t n = atomic_load_explicit(&m->locks, memory_order_relaxed) + 1;

	atomic_store_explicit(&m->locks, n, memory_order_relaxed);
	*key = n;
}

static uint32_t count_lock(struct tw_mrapi_mutex *m)
{
	return (uint32_t)atomic_fetch_add(&m->locks, 1) + 1;
}

static struct tw_mrapi_mutex *mutex_of(struct tw_mrapi_obj *o)
{
	return tw_container(o, struct tw_mrapi_mutex, obj);
}

static void mutex_drop(struct tw_mrapi_obj *o, uint32_t node)
{
	struct tw_mrapi_mutex *m = mutex_of(o);
	uint64_t levels = atomic_load(&m->levels);
	uint32_t remote = node | TW_MRAPI_REMOTE;

	mutex_give_back(m, node);
	atomic_compare_exchange_strong(&m->word, &remote, TW_MRAPI_REMOTE);
	while (depth_of(levels, node) && !atomic_compare_exchange_strong(&m->levels, &levels, 0))
		;
}

static uint64_t mutex_had(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_mutex *m = mutex_of(o);

	if (!mutex_held_by(m, me))
		return 0;
	return recursive(m) ? atomic_load(&m->levels) : 1;
}

static void mutex_restore(struct tw_mrapi_obj *o, uint32_t me, uint64_t levels)
{
	struct tw_mrapi_mutex *m = mutex_of(o);

	if (!levels)
		mutex_drop(o, me);
	else if (recursive(m))
		atomic_store(&m->levels, levels);
}

/* The caller has taken the lock. */
static void begin_levels(struct tw_mrapi_mutex *m, uint32_t me, mrapi_key_t *key)
{
	uint32_t number = count_lock(m);
	uint64_t levels = atomic_load(&m->levels);

	do
		if (atomic_load(&m->word) != me)
			return;
	while (!atomic_compare_exchange_strong(&m->levels, &levels, make_levels(number, me, 1)));
	atomic_store(&m->outermost, number);
	*key = mutex_make_key(number, 0);
}

static mrapi_status_t mutex_taken(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle, uint32_t me,
				  mrapi_key_t *key)
{
	bool here = tw_mrapi_is(&m->obj, handle);

	if (here && recursive(m))
		begin_levels(m, me, key);
	else if (here)
		make_first_key(m, key);
	if (here && tw_mrapi_me() == me)
		return MRAPI_SUCCESS;
	mutex_drop(&m->obj, me);
	return here ? MRAPI_ERR_NODE_NOTINIT : tw_mrapi_stale(TW_MRAPI_MUTEX, handle);
}

/* Whether the key is that of the last lock. */
static mrapi_status_t check_key(struct tw_mrapi_mutex *m, mrapi_key_t key, uint64_t levels,
				uint32_t depth)
{
	uint32_t outermost = atomic_load(&m->outermost), number = (uint32_t)(key >> 32);
	uint32_t around = (uint32_t)key, last = (uint32_t)(levels >> 32);

	if (number == last && (depth == 1 ? around == 0 : around - outermost < last - outermost))
		return MRAPI_SUCCESS;
	return number - outermost < last - outermost ? MRAPI_ERR_MUTEX_LOCKORDER
						     : MRAPI_ERR_MUTEX_KEY;
}

static mrapi_status_t unlock_level(struct tw_mrapi_mutex *m, uint32_t me, mrapi_key_t key)
{
	uint64_t levels = atomic_load(&m->levels), less;
	mrapi_status_t status;
	uint32_t depth;

	do {
		depth = depth_of(levels, me);
		if (depth == 0)
			return MRAPI_ERR_MUTEX_NOTLOCKED;
		status = check_key(m, key, levels, depth);
		if (status != MRAPI_SUCCESS)
			return status;
		less = depth == 1 ? 0 : make_levels((uint32_t)key, me, depth - 1);
	} while (!atomic_compare_exchange_strong(&m->levels, &levels, less));
	if (depth == 1)
		mutex_give_back(m, me);
	return MRAPI_SUCCESS;
}

/* The node has the lock. INCOMPLETE: its levels are being set up or taken down. */
static mrapi_status_t lock_again(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle, uint32_t me,
				 mrapi_key_t *key)
{
	uint64_t levels = atomic_load(&m->levels);
	uint32_t number, depth;

	if (!recursive(m))
		return MRAPI_ERR_MUTEX_LOCKED;
	do {
		depth = depth_of(levels, me);
		if (depth == 0)
			return MRAPI_INCOMPLETE;
		if (depth == MAX_DEPTH)
			return MRAPI_ERR_MUTEX_LOCKED;
		/* Else these levels are those of the slot's new mutex, or of a new node. */
		if (!tw_mrapi_is(&m->obj, handle))
			return tw_mrapi_stale(TW_MRAPI_MUTEX, handle);
		if (tw_mrapi_me() != me)
			return MRAPI_ERR_NODE_NOTINIT;
		number = count_lock(m);
	} while (!atomic_compare_exchange_strong(&m->levels, &levels,
						 make_levels(number, me, depth + 1)));
	*key = mutex_make_key(number, (uint32_t)(levels >> 32));
	return tw_mrapi_me() == me ? MRAPI_SUCCESS : MRAPI_ERR_NODE_NOTINIT;
}

/* The thread was counted after it had read seq, and does not sleep. */
static void uncount(struct tw_mrapi_mutex *m, uint32_t seq)
{
	take_count(m);
	if (atomic_load(&m->seq) != seq)
		mutex_wake(m, 1);
}

/* Sleeps until the lock is free. */
static mrapi_status_t sleep_for(struct tw_mrapi_mutex *m, struct tw_mrapi_wait *w)
{
	/* [mutex-sleep] */
	uint32_t seq = atomic_load(&m->seq);
	mrapi_status_t status;

	/* [mutex-contended] */
	atomic_store(&m->obj.contended, 1);
	/* [mutex-sleep] */
	atomic_fetch_add(&m->sleepers, 1);
	if (!atomic_load(&m->word)) {
		uncount(m, seq);
		return MRAPI_SUCCESS;
	}
	status = tw_mrapi_sleep(w, &m->seq, seq);
	if (status != MRAPI_SUCCESS || atomic_load(&m->seq) == seq)
		uncount(m, seq);
	return status;
}

/* SUCCESS with the lock, or the reason it cannot be had. */
static mrapi_status_t mutex_wait_for(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle,
				     mrapi_key_t *key, struct tw_mrapi_wait *w)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	while (status == MRAPI_SUCCESS) {
		if (!atomic_load_explicit(&m->word, memory_order_relaxed)) {
			if (mutex_take(m, w->me))
				return mutex_taken(m, handle, w->me, key);
			continue;
		}
		if (!tw_mrapi_is(&m->obj, handle))
			return tw_mrapi_stale(TW_MRAPI_MUTEX, handle);
		if (mutex_held_by(m, w->me)) {
			/* Locked before, or by another thread of the node during the wait. */
			status = lock_again(m, handle, w->me, key);
			if (status != MRAPI_INCOMPLETE)
				return status;
			sched_yield();
			status = MRAPI_SUCCESS;
			continue;
		}
		if (tw_mrapi_spin(w))
			continue;
		if (w->timeout == 0)
			return MRAPI_TIMEOUT;
		status = sleep_for(m, w);
		w->spins = 0;
	}
	return status;
}

mrapi_status_t tw_mrapi_mutex_wait(mrapi_mutex_hndl_t handle, mrapi_timeout_t timeout,
				   mrapi_status_t (*try)(void *), void *arg)
{
	mrapi_status_t status = MRAPI_TIMEOUT, why = MRAPI_SUCCESS;
	struct tw_mrapi_wait w;

	tw_mrapi_wait_begin(&w, tw_mrapi_self.as.me, timeout);
	while (why == MRAPI_SUCCESS && (status = try(arg)) == MRAPI_TIMEOUT)
		if (!tw_mrapi_spin(&w))
			why = sleep_for(mutex_in(handle), &w);
	tw_mrapi_wait_end(&w);
	if (status != MRAPI_SUCCESS && w.word)
		mutex_wake(mutex_in(handle), 1);
	return status == MRAPI_TIMEOUT ? why : status;
}

/* Its state is on another host; a plain one names the node of this host that has it, too. */
static mrapi_status_t lock_there(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle, uint32_t me,
				 mrapi_key_t *key, mrapi_timeout_t timeout)
{
	struct tw_mrapi_ctrl c = {.op = TW_MRAPI_REMOTE_LOCK, .handle = handle, .timeout = timeout};
	uint32_t had = TW_MRAPI_REMOTE, mine = me | TW_MRAPI_REMOTE;
	mrapi_status_t status;

	if (mutex_held_by(m, mine))
		return MRAPI_ERR_MUTEX_LOCKED;
	status = tw_mrapi_remote_ask(&m->obj, &c);
	if (status != MRAPI_SUCCESS)
		return status;
	*key = c.key;
	/* A node that has died may still be named; another thread of this one may have been first.
	 */
	while (!recursive(m) && (had & TW_MRAPI_REMOTE) && had != mine &&
	       !atomic_compare_exchange_strong(&m->word, &had, mine))
		;
	if (tw_mrapi_me() != me) {
		mutex_drop(&m->obj, me);
		return MRAPI_ERR_NODE_NOTINIT;
	}
	return !recursive(m) && had == mine ? MRAPI_ERR_MUTEX_LOCKED : MRAPI_SUCCESS;
}

static mrapi_status_t unlock_there(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle, uint32_t me,
				   mrapi_key_t key)
{
	struct tw_mrapi_ctrl c = {.op = TW_MRAPI_REMOTE_UNLOCK, .handle = handle, .key = key};
	uint32_t mine = me | TW_MRAPI_REMOTE;

	if (recursive(m))
		return tw_mrapi_remote_ask(&m->obj, &c);
	if (!atomic_compare_exchange_strong(&m->word, &mine, TW_MRAPI_REMOTE))
		return MRAPI_ERR_MUTEX_NOTLOCKED;
	return tw_mrapi_remote_post(&m->obj, &c);
}

mrapi_status_t tw_mrapi_mutex_take(mrapi_mutex_hndl_t handle, mrapi_key_t *key,
				   mrapi_timeout_t timeout)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_mutex *m;
	struct tw_mrapi_wait w;
	mrapi_status_t status = mutex_find(me, handle, key, &m);

	if (status != MRAPI_SUCCESS)
		return status;
	if (m->obj.host)
		return lock_there(m, handle, me, key, timeout);
	tw_mrapi_wait_begin(&w, me, timeout);
	status = mutex_wait_for(m, handle, key, &w);
	tw_mrapi_wait_end(&w);
	return status;
}

static tw_noinline void lock_slow(mrapi_mutex_hndl_t handle, mrapi_key_t *key,
				  mrapi_timeout_t timeout, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_mutex_take(handle, key, timeout));
}

static tw_noinline void taken_slow(struct tw_mrapi_mutex *m, mrapi_mutex_hndl_t handle, uint32_t me,
				   mrapi_key_t *key, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, mutex_taken(m, handle, me, key));
}

mrapi_status_t tw_mrapi_mutex_give(mrapi_mutex_hndl_t handle, const mrapi_key_t *key)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_mutex *m;
	mrapi_status_t status = mutex_find(me, handle, key, &m);

	if (status != MRAPI_SUCCESS)
		return status;
	if (m->obj.host)
		return unlock_there(m, handle, me, *key);
	if (recursive(m) && mutex_held_by(m, me))
		return unlock_level(m, me, *key);
	return mutex_give_back(m, me) ? MRAPI_SUCCESS : MRAPI_ERR_MUTEX_NOTLOCKED;
}

static tw_noinline void unlock_slow(mrapi_mutex_hndl_t handle, const mrapi_key_t *key,
				    mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_mutex_give(handle, key));
}

/* Deleting takes the lock and keeps it. */
static mrapi_status_t mutex_end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_mutex *m = mutex_of(o);

	if (!mutex_take(m, me))
		return MRAPI_ERR_MUTEX_LOCKED;
	tw_mrapi_table_free(TW_MRAPI_MUTEX, o);
	/* [mutex-deleted] */
	atomic_store(&m->word, 0);
	mutex_wake(m, INT_MAX);
	return MRAPI_SUCCESS;
}

static void mutex_wake_all(struct tw_mrapi_obj *o)
{
	/* [mutex-contended] */
	if (!atomic_load(&o->contended))
		return;
	/* First: who reads the new seq is counted after that. */
	atomic_store(&mutex_of(o)->sleepers, 0);
	mutex_wake(mutex_of(o), INT_MAX);
}

const struct tw_mrapi_ops tw_mrapi_mutex_ops = {mutex_end, mutex_drop, mutex_wake_all, mutex_had,
						mutex_restore};

mrapi_mutex_hndl_t mrapi_mutex_create(mrapi_mutex_id_t mutex_id,
				      const mrapi_mutex_attributes_t *attributes,
				      mrapi_status_t *status)
{
	mrapi_mutex_hndl_t handle = 0;

	tw_mrapi_set_status(status,
			    tw_mrapi_lock_create(TW_MRAPI_MUTEX, mutex_id, attributes, 0, &handle));
	return handle;
}

void mrapi_mutex_lock(mrapi_mutex_hndl_t mutex, mrapi_key_t *lock_key, mrapi_timeout_t timeout,
		      mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me_known();
	struct tw_mrapi_mutex *m;

	/* The common case, a free mutex, needs no stack frame. */
	if (tw_unlikely(me == 0 || lock_key == NULL)) {
		lock_slow(mutex, lock_key, timeout, status);
		return;
	}
	m = mutex_in(mutex);
	/* Else a line that another core has would move twice: for the handle and for the lock. */
	tw_prefetch_own(m);
	if (tw_unlikely(!tw_mrapi_is(&m->obj, mutex) || !mutex_take(m, me))) {
		lock_slow(mutex, lock_key, timeout, status);
		return;
	}
	if (tw_unlikely(!tw_mrapi_is(&m->obj, mutex) || recursive(m) ||
			tw_mrapi_me_known() != me)) {
		taken_slow(m, mutex, me, lock_key, status);
		return;
	}
	make_first_key(m, lock_key);
	tw_mrapi_set_status(status, MRAPI_SUCCESS);
}

mrapi_boolean_t mrapi_mutex_trylock(mrapi_mutex_hndl_t mutex, mrapi_key_t *lock_key,
				    mrapi_status_t *status)
{
	return tw_mrapi_tried(tw_mrapi_mutex_take(mutex, lock_key, 0), status);
}

void mrapi_mutex_unlock(mrapi_mutex_hndl_t mutex, const mrapi_key_t *lock_key,
			mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me_known();
	struct tw_mrapi_mutex *m;

	if (tw_unlikely(me == 0 || lock_key == NULL)) {
		unlock_slow(mutex, lock_key, status);
		return;
	}
	m = mutex_in(mutex);
	if (!tw_mrapi_is(&m->obj, mutex) || tw_unlikely(recursive(m)) ||
	    tw_unlikely(!mutex_give_back(m, me))) {
		unlock_slow(mutex, lock_key, status);
		return;
	}
	tw_mrapi_set_status(status, MRAPI_SUCCESS);
}
