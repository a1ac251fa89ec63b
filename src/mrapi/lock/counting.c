/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.3.2 and 4.3.3: semaphores and reader/writer locks. Both are counting locks: an
 * ownership record per lock, and sleepers. A semaphore has readers only.
 *
 * A writer takes the writer word: first as pending, which keeps new readers out, and once
 * all readers have left, as owner. Further waiting writers are counted and keep readers out
 * as well. Deleting takes that word and keeps it.
 *
 * A change bumps seq if anything sleeps; a sleeper reads seq and is counted before its last
 * attempt, so no change is missed. Counts have an epoch: reclaiming starts a new one, because
 * dead processes may have been counted.
 */
#include <limits.h>

#include "mrapi/remote/remote.h"

#define COUNT 0xffffu

/* A thread that takes a lock for reading holds it, as another thread may be of the same node. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;

/* An attempt to take a lock. */
struct attempt {
	struct tw_mrapi_counting *c;
	uint32_t handle, me;
	bool writer;  /* mode */
	bool no_wait;
	bool pending; /* the writer word names this caller */
	bool counted; /* among the waiting writers */
	uint32_t epoch;
	mrapi_status_t (*try)(void *); /* a proxy's, instead of counting_attempt() */
	void *arg;
};

static struct tw_mrapi_counting *counting_of(struct tw_mrapi_obj *o)
{
	return tw_container(o, struct tw_mrapi_counting, obj);
}

/* Replaces one record of that owner; false if there is none. */
static bool replace_record(struct tw_mrapi_counting *c, uint32_t me, uint16_t owner, uint16_t by)
{
	uint32_t limit = c->limit;

	for (uint32_t i = 0; i < limit; i++) {
		_Atomic(uint16_t) *record = &c->holder[(me + i) % limit];
		uint16_t was = owner;

		/* [counting] [counting-sleep] */
		if (atomic_load(record) == owner &&
		    atomic_compare_exchange_strong(record, &was, by))
			return true;
	}
	return false;
}

/* Clears one record of the caller's. Its slot may have got another limit since. */
static bool clear_record(struct tw_mrapi_counting *c, uint32_t me)
{
	uint16_t mine = (uint16_t)me;
	bool cleared = replace_record(c, me, mine, 0);

	for (uint32_t i = c->limit; i < MRAPI_MAX_SEM_SHAREDLOCKS && !cleared;
	     i++, mine = (uint16_t)me)
		/* [counting] [counting-sleep] */
		cleared = atomic_compare_exchange_strong(&c->holder[i], &mine, 0);
	return cleared;
}

static bool counting_held_by(struct tw_mrapi_counting *c, uint32_t me)
{
	bool held = atomic_load(&c->writer) == me;
	uint32_t limit = c->limit;

	for (uint32_t i = 0; i < limit && !held; i++)
		held = atomic_load_explicit(&c->holder[(me + i) % limit], memory_order_relaxed) ==
		       me;
	return held;
}

static bool no_readers(struct tw_mrapi_counting *c)
{
	uint32_t limit = c->limit;

	for (uint32_t i = 0; i < limit; i++)
		/* [counting] [counting-sleep] */
		if (atomic_load(&c->holder[i]))
			return false;
	return true;
}

/* ------------------------------------------------------------------- sleepers */

static uint32_t count_up(_Atomic(uint32_t) *word)
{
	/* [counting-sleep] */
	return atomic_fetch_add(word, 1) >> 16;
}

static void count_down(_Atomic(uint32_t) *word, uint32_t epoch)
{
	uint32_t w = atomic_load(word);

	while (w >> 16 == epoch && !atomic_compare_exchange_weak(word, &w, w - 1))
		;
}

static void new_epoch(_Atomic(uint32_t) *word)
{
	uint32_t w = atomic_load(word);

	/* [counting-sleep] */
	while (!atomic_compare_exchange_weak(word, &w, ((w >> 16) + 1) << 16))
		;
}

/* After a change: wakes up to n sleepers. */
static void counting_wake(struct tw_mrapi_counting *c, int n)
{
	/* [counting-sleep] */
	if (!(atomic_load(&c->sleepers) & COUNT))
		return;
	atomic_fetch_add(&c->seq, 1);
	tw_futex_wake(&c->seq, n);
}

static void counting_wake_all(struct tw_mrapi_obj *o)
{
	struct tw_mrapi_counting *c = counting_of(o);

	if (!atomic_load(&c->obj.contended))
		return;
	new_epoch(&c->sleepers);
	new_epoch(&c->writers);
	/* [counting-sleep] */
	atomic_fetch_add(&c->seq, 1);
	tw_futex_wake(&c->seq, INT_MAX);
}

static void counting_drop(struct tw_mrapi_obj *o, uint32_t node)
{
	struct tw_mrapi_counting *c = counting_of(o);
	uint32_t writer = atomic_load(&c->writer);
	bool changed = false;

	for (uint32_t i = 0; i < MRAPI_MAX_SEM_SHAREDLOCKS; i++) {
		uint16_t holder = (uint16_t)node;

		changed |= atomic_compare_exchange_strong(&c->holder[i], &holder, 0);
	}
	if ((writer & TW_MRAPI_OWNER) == node)
		changed |= atomic_compare_exchange_strong(&c->writer, &writer, 0);
	if (changed)
		counting_wake(c, INT_MAX);
}

#define WRITER (COUNT + 1) /* beside a number of records */

static uint64_t counting_had(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_counting *c = counting_of(o);
	uint64_t n = atomic_load(&c->writer) == me ? WRITER : 0;

	for (uint32_t i = 0; i < MRAPI_MAX_SEM_SHAREDLOCKS; i++)
		n += atomic_load(&c->holder[i]) == me;
	return n;
}

static void counting_restore(struct tw_mrapi_obj *o, uint32_t me, uint64_t n)
{
	struct tw_mrapi_counting *c = counting_of(o);
	uint32_t writer = atomic_load(&c->writer);

	if ((writer & TW_MRAPI_OWNER) == me && writer != (n & WRITER ? me : 0))
		atomic_compare_exchange_strong(&c->writer, &writer, 0);
	while ((counting_had(o, me) & COUNT) > (n & COUNT) && clear_record(c, me))
		;
	counting_wake(c, INT_MAX);
}

/* ------------------------------------------------------------- lock and unlock */

/* mode 0: any. False if the node has no such lock. */
static bool counting_give(struct tw_mrapi_counting *c, uint32_t handle, uint32_t me, unsigned mode)
{
	uint32_t writer = me;
	/* [counting] */
	bool given = mode != MRAPI_READER && atomic_compare_exchange_strong(&c->writer, &writer, 0);

	if (!given && mode != MRAPI_WRITER)
		given = clear_record(c, me);
	if (given)
		counting_wake(c, tw_mrapi_kind_of(handle) == TW_MRAPI_SEM ? 1 : INT_MAX);
	return given;
}

static bool try_read(struct attempt *a)
{
	if (atomic_load(&a->c->writer) || atomic_load(&a->c->writers) & COUNT)
		return false;
	if (!replace_record(a->c, a->me, 0, (uint16_t)a->me))
		return false;
	/* [counting] */
	if (!atomic_load(&a->c->writer))
		return true;
	/* A writer became pending at the same time; either it waits or this reader does. */
	counting_give(a->c, a->handle, a->me, MRAPI_READER);
	return false;
}

static bool try_write(struct attempt *a)
{
	uint32_t nobody = 0, mine = a->me | TW_MRAPI_PENDING;

	/* Then it does not turn readers away if it must fail. */
	if (a->no_wait && !no_readers(a->c))
		return false;
	if (!a->pending)
		/* [counting] */
		a->pending = atomic_compare_exchange_strong(&a->c->writer, &nobody, mine);
	if (!a->pending || !no_readers(a->c))
		return false;
	a->pending = false;
	return atomic_compare_exchange_strong(&a->c->writer, &mine, a->me);
}

/*
 * A node has a reader/writer lock at most once (4.3.3.7). Looked at in each try: another thread of
 * the node may have got it meanwhile. Readers exclude each other here by a mutex of the process.
 */
static mrapi_status_t try_rwl(struct attempt *a)
{
	if (counting_held_by(a->c, a->me))
		return MRAPI_ERR_RWL_LOCKED;
	return (a->writer ? try_write(a) : try_read(a)) ? MRAPI_SUCCESS : MRAPI_TIMEOUT;
}

/* SUCCESS, TIMEOUT while others have it, or RWL_LOCKED if the node has it. */
static mrapi_status_t try_any(struct attempt *a)
{
	if (!tw_mrapi_is(&a->c->obj, a->handle))
		return MRAPI_TIMEOUT;
	if (tw_mrapi_kind_of(a->handle) == TW_MRAPI_SEM)
		return try_read(a) ? MRAPI_SUCCESS : MRAPI_TIMEOUT;
	return a->writer ? try_rwl(a) : tw_mrapi_locked(&reading, try_rwl(a));
}

void tw_mrapi_counting_forked(void)
{
	pthread_mutex_init(&reading, NULL);
}

/* One try; TIMEOUT while the lock is taken. */
static mrapi_status_t counting_attempt(struct attempt *a)
{
	mrapi_status_t status = try_any(a);
	bool got = status == MRAPI_SUCCESS;

	if (!tw_mrapi_is(&a->c->obj, a->handle)) {
		/* The slot has been deleted and may be another object. */
		if (got)
			counting_give(a->c, a->handle, a->me,
				      a->writer ? MRAPI_WRITER : MRAPI_READER);
		return tw_mrapi_stale(tw_mrapi_kind_of(a->handle), a->handle);
	}
	if (tw_mrapi_me() == a->me)
		return status;
	counting_drop(&a->c->obj, a->me);
	return MRAPI_ERR_NODE_NOTINIT;
}

/* Counts a waiting writer; again after a reclaim, which starts a new epoch. */
static void count_in(struct attempt *a)
{
	if (!a->writer || (a->counted && atomic_load(&a->c->writers) >> 16 == a->epoch))
		return;
	a->epoch = count_up(&a->c->writers);
	a->counted = true;
}

static mrapi_status_t again(struct attempt *a)
{
	return a->try ? a->try(a->arg) : counting_attempt(a);
}

/*
 * Spins, then sleeps between attempts; the last one's status, or why the wait ended. Then it passes
 * on a wake-up that this thread does not use.
 */
static mrapi_status_t counting_wait_for(struct attempt *a, mrapi_timeout_t timeout)
{
	mrapi_status_t status = MRAPI_TIMEOUT, why = MRAPI_SUCCESS;
	struct tw_mrapi_wait w;

	atomic_store(&a->c->obj.contended, 1);
	tw_mrapi_wait_begin(&w, a->me, timeout);
	while (status == MRAPI_TIMEOUT && why == MRAPI_SUCCESS) {
		uint32_t epoch, seq;

		count_in(a);
		status = again(a);
		if (status != MRAPI_TIMEOUT || tw_mrapi_spin(&w))
			continue;
		/* First: from its count on, also a reclaim that takes it back changes seq. */
		/* [counting-sleep] */
		seq = atomic_load(&a->c->seq);
		epoch = count_up(&a->c->sleepers);
		status = again(a);
		if (status == MRAPI_TIMEOUT)
			why = tw_mrapi_sleep(&w, &a->c->seq, seq);
		count_down(&a->c->sleepers, epoch);
	}
	tw_mrapi_wait_end(&w);
	if (status != MRAPI_SUCCESS)
		counting_wake(a->c, 1);
	return status == MRAPI_TIMEOUT ? why : status;
}

static void end_attempt(struct attempt *a)
{
	uint32_t mine = a->me | TW_MRAPI_PENDING;

	if (a->counted)
		count_down(&a->c->writers, a->epoch);
	if (a->pending)
		atomic_compare_exchange_strong(&a->c->writer, &mine, 0);
	if (a->pending || a->counted)
		counting_wake(a->c, INT_MAX);
}

/* Its state is on another host. */
static tw_noinline mrapi_status_t counting_ask(struct tw_mrapi_obj *o, enum tw_mrapi_remote_op op,
					       uint32_t handle, unsigned mode,
					       mrapi_timeout_t timeout)
{
	struct tw_mrapi_ctrl c = {
		.op = op, .handle = handle, .mode = mode, .timeout = timeout};

	return tw_mrapi_remote_ask(o, &c);
}

mrapi_status_t tw_mrapi_counting_take(enum tw_mrapi_kind kind, uint32_t handle,
				      mrapi_rwl_mode_t mode, mrapi_timeout_t timeout)
{
	struct attempt a = {.handle = handle,
			    .me = tw_mrapi_me(),
			    .writer = mode == MRAPI_WRITER,
			    .no_wait = timeout == 0};
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(a.me, kind, handle, &o);

	if (status != MRAPI_SUCCESS)
		return status;
	if (mode != MRAPI_READER && mode != MRAPI_WRITER)
		return MRAPI_ERR_PARAMETER;
	a.c = counting_of(o);
	status = counting_attempt(&a);
	if (status == MRAPI_TIMEOUT && o->host)
		return counting_ask(o, TW_MRAPI_REMOTE_LOCK, handle, mode, timeout);
	if (status == MRAPI_TIMEOUT && timeout != 0)
		status = counting_wait_for(&a, timeout);
	end_attempt(&a);
	return status;
}

mrapi_status_t tw_mrapi_counting_wait(uint32_t handle, mrapi_rwl_mode_t mode,
				      mrapi_timeout_t timeout, mrapi_status_t (*try)(void *),
				      void *arg)
{
	struct attempt a = {.handle = handle,
			    .me = tw_mrapi_self.as.me,
			    .writer = mode == MRAPI_WRITER,
			    .try = try,
			    .arg = arg};
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(a.me, tw_mrapi_kind_of(handle), handle, &o);

	if (status != MRAPI_SUCCESS)
		return try(arg);
	a.c = counting_of(o);
	status = counting_wait_for(&a, timeout);
	end_attempt(&a);
	return status;
}

mrapi_status_t tw_mrapi_counting_give(enum tw_mrapi_kind kind, uint32_t handle, unsigned mode)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(me, kind, handle, &o);

	if (status != MRAPI_SUCCESS || counting_give(counting_of(o), handle, me, mode))
		return status;
	if (o->host)
		return counting_ask(o, TW_MRAPI_REMOTE_UNLOCK, handle, mode, 0);
	return kind == TW_MRAPI_SEM ? MRAPI_ERR_SEM_NOTLOCKED : MRAPI_ERR_RWL_NOTLOCKED;
}

static mrapi_status_t counting_end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_counting *c = counting_of(o);
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(atomic_load(&o->handle));
	bool over = false;
	uint32_t nobody = 0;

	if (atomic_compare_exchange_strong(&c->writer, &nobody, me | TW_MRAPI_PENDING)) {
		over = no_readers(c);
		if (over)
			tw_mrapi_table_free(kind, o);
		atomic_store(&c->writer, 0);
		counting_wake(c, INT_MAX);
	}
	if (over)
		return MRAPI_SUCCESS;
	return kind == TW_MRAPI_SEM ? MRAPI_ERR_SEM_LOCKED : MRAPI_ERR_RWL_LOCKED;
}

const struct tw_mrapi_ops tw_mrapi_counting_ops = {counting_end, counting_drop, counting_wake_all,
						   counting_had, counting_restore};

/* ------------------------------------------------------------------- the calls */

static uint32_t counting_create(enum tw_mrapi_kind kind, uint32_t id, const void *attributes,
				mrapi_uint_t limit, mrapi_status_t *status)
{
	bool sem = kind == TW_MRAPI_SEM;
	mrapi_status_t result = sem ? MRAPI_ERR_SEM_LOCKLIMIT : MRAPI_ERR_PARAMETER;
	uint32_t handle = 0;

	if ((limit <= MRAPI_MAX_SEM_SHAREDLOCKS && !(sem && limit == 0)) || !tw_mrapi_me())
		result = tw_mrapi_lock_create(kind, id, attributes, limit, &handle);
	tw_mrapi_set_status(status, result);
	return handle;
}

mrapi_sem_hndl_t mrapi_sem_create(mrapi_sem_id_t sem_id, const mrapi_sem_attributes_t *attributes,
				  mrapi_uint_t shared_lock_limit, mrapi_status_t *status)
{
	return counting_create(TW_MRAPI_SEM, sem_id, attributes, shared_lock_limit, status);
}

void mrapi_sem_lock(mrapi_sem_hndl_t sem, mrapi_timeout_t timeout, mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    tw_mrapi_counting_take(TW_MRAPI_SEM, sem, MRAPI_READER, timeout));
}

mrapi_boolean_t mrapi_sem_trylock(mrapi_sem_hndl_t sem, mrapi_status_t *status)
{
	return tw_mrapi_tried(tw_mrapi_counting_take(TW_MRAPI_SEM, sem, MRAPI_READER, 0), status);
}

void mrapi_sem_unlock(mrapi_sem_hndl_t sem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_counting_give(TW_MRAPI_SEM, sem, MRAPI_READER));
}

mrapi_rwl_hndl_t mrapi_rwl_create(mrapi_rwl_id_t rwl_id, const mrapi_rwl_attributes_t *attributes,
				  mrapi_uint_t reader_lock_limit, mrapi_status_t *status)
{
	return counting_create(TW_MRAPI_RWL, rwl_id, attributes, reader_lock_limit, status);
}

void mrapi_rwl_lock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_timeout_t timeout,
		    mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_counting_take(TW_MRAPI_RWL, rwl, mode, timeout));
}

mrapi_boolean_t mrapi_rwl_trylock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode,
				  mrapi_status_t *status)
{
	return tw_mrapi_tried(tw_mrapi_counting_take(TW_MRAPI_RWL, rwl, mode, 0), status);
}

void(mrapi_rwl_unlock)(mrapi_rwl_hndl_t rwl, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_counting_give(TW_MRAPI_RWL, rwl, 0));
}

void mrapi_rwl_unlock_mode(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_status_t *status)
{
	mrapi_status_t result = tw_mrapi_me() ? MRAPI_ERR_PARAMETER : MRAPI_ERR_NODE_NOTINIT;

	if (mode == MRAPI_READER || mode == MRAPI_WRITER)
		result = tw_mrapi_counting_give(TW_MRAPI_RWL, rwl, mode);
	tw_mrapi_set_status(status, result);
}
