/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.3.3: reader/writer locks. A reader takes an ownership record. A writer takes
 * the writer word: first as pending, which keeps new readers out, and once all readers
 * have left, as owner. Further waiting writers are counted and keep readers out as well.
 */
#include <limits.h>

#include "mrapi/mrapi_internal.h"

#define COUNT 0xffffu

/* An attempt to take a lock. */
struct attempt {
	struct tw_mrapi_counting *l;
	mrapi_rwl_hndl_t handle;
	uint32_t me;
	bool writer;   /* mode */
	bool pending;  /* pending: the writer word names this caller */
	bool counting; /* counted among the waiting writers */
	uint32_t epoch;
};

static struct tw_mrapi_counting *rwl_of(struct tw_mrapi_obj *o)
{
	return tw_container(o, struct tw_mrapi_counting, obj);
}

static void free_writer(struct tw_mrapi_counting *l)
{
	atomic_store(&l->writer, 0);
	tw_mrapi_counting_wake(l, INT_MAX);
}

static void give(struct tw_mrapi_counting *l, uint32_t me)
{
	if (tw_mrapi_counting_give(l, me))
		tw_mrapi_counting_wake(l, INT_MAX);
}

static bool try_read(struct attempt *a)
{
	if (atomic_load(&a->l->writer) || atomic_load(&a->l->writers) & COUNT)
		return false;
	if (!tw_mrapi_counting_take(a->l, a->me))
		return false;
	if (!atomic_load(&a->l->writer))
		return true;
	/* A writer became pending at the same time; either it waits or this reader does. */
	give(a->l, a->me);
	return false;
}

static bool try_write(struct attempt *a)
{
	uint32_t nobody = 0;

	if (!a->pending)
		a->pending = atomic_compare_exchange_strong(&a->l->writer, &nobody,
							    a->me | TW_MRAPI_PENDING);
	if (!a->pending || !tw_mrapi_counting_empty(a->l))
		return false;
	atomic_store(&a->l->writer, a->me);
	a->pending = false;
	return true;
}

/* One try; TIMEOUT while the lock is taken. */
static mrapi_status_t attempt(struct attempt *a)
{
	bool here = tw_mrapi_is(&a->l->obj, a->handle);
	bool got = here && (a->writer ? try_write(a) : try_read(a));

	if (tw_mrapi_is(&a->l->obj, a->handle))
		return got ? MRAPI_SUCCESS : MRAPI_TIMEOUT;
	/* The slot has been deleted and may be another object. */
	if (got && a->writer)
		free_writer(a->l);
	else if (got)
		give(a->l, a->me);
	return tw_mrapi_stale(TW_MRAPI_RWL, a->handle);
}

/* Counts a waiting writer; again after a reclaim, which starts a new epoch. */
static void count_in(struct attempt *a)
{
	if (!a->writer || (a->counting && atomic_load(&a->l->writers) >> 16 == a->epoch))
		return;
	a->epoch = tw_mrapi_count_up(&a->l->writers);
	a->counting = true;
}

/* Ends the attempt. */
static void end_attempt(struct attempt *a)
{
	uint32_t mine = a->me | TW_MRAPI_PENDING;

	if (a->counting)
		tw_mrapi_count_down(&a->l->writers, a->epoch);
	if (a->pending)
		atomic_compare_exchange_strong(&a->l->writer, &mine, 0);
	if (a->pending || a->counting)
		tw_mrapi_counting_wake(a->l, INT_MAX);
}

static mrapi_status_t attempt_again(void *arg)
{
	struct attempt *a = arg;

	count_in(a);
	return attempt(a);
}

static mrapi_status_t lock(mrapi_rwl_hndl_t handle, mrapi_rwl_mode_t mode, mrapi_timeout_t timeout)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(TW_MRAPI_RWL, handle, &o);
	struct attempt a;

	if (status != MRAPI_SUCCESS)
		return status;
	if (mode != MRAPI_READER && mode != MRAPI_WRITER)
		return MRAPI_ERR_PARAMETER;
	a = (struct attempt){rwl_of(o), handle, tw_mrapi_me(), mode == MRAPI_WRITER, false,
			     false,	0};
	if (atomic_load(&a.l->writer) == a.me || tw_mrapi_counting_held(a.l, a.me))
		return MRAPI_ERR_RWL_LOCKED;
	/* A trylock of a writer does not turn readers away if it must fail. */
	if (!(a.writer && timeout == 0) || tw_mrapi_counting_empty(a.l))
		status = attempt(&a);
	else
		status = MRAPI_TIMEOUT;
	if (status == MRAPI_TIMEOUT && timeout != 0) {
		atomic_store_explicit(&a.l->obj.contended, 1, memory_order_relaxed);
		status = tw_mrapi_counting_wait(a.l, a.me, timeout, attempt_again, &a);
	}
	end_attempt(&a);
	return status;
}

/* mode 0: the mode that the caller has */
static mrapi_status_t unlock(mrapi_rwl_hndl_t handle, unsigned mode)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(TW_MRAPI_RWL, handle, &o);
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_counting *l;

	if (status != MRAPI_SUCCESS)
		return status;
	l = rwl_of(o);
	if (mode != MRAPI_READER && atomic_load(&l->writer) == me) {
		free_writer(l);
		return MRAPI_SUCCESS;
	}
	if (mode == MRAPI_WRITER || !tw_mrapi_counting_give(l, me))
		return MRAPI_ERR_RWL_NOTLOCKED;
	tw_mrapi_counting_wake(l, INT_MAX);
	return MRAPI_SUCCESS;
}

/* Deleting takes the lock as a writer and keeps it. */
static mrapi_status_t end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_counting *l = rwl_of(o);
	uint32_t nobody = 0;
	mrapi_status_t status = MRAPI_ERR_RWL_LOCKED;

	if (!atomic_compare_exchange_strong(&l->writer, &nobody, me | TW_MRAPI_PENDING))
		return status;
	if (tw_mrapi_counting_empty(l)) {
		tw_mrapi_table_free(TW_MRAPI_RWL, o);
		status = MRAPI_SUCCESS;
	}
	free_writer(l);
	return status;
}

mrapi_rwl_hndl_t mrapi_rwl_create(mrapi_rwl_id_t rwl_id, const mrapi_rwl_attributes_t *attributes,
				  mrapi_uint_t reader_lock_limit, mrapi_status_t *status)
{
	mrapi_rwl_hndl_t handle = 0;
	mrapi_status_t result = MRAPI_ERR_PARAMETER;

	if (reader_lock_limit <= MRAPI_MAX_SHARED_LOCKS || !tw_mrapi_me())
		result = tw_mrapi_lock_create(TW_MRAPI_RWL, rwl_id, attributes, reader_lock_limit,
					      &handle);
	tw_mrapi_set_status(status, result);
	return handle;
}

void mrapi_rwl_get_attribute(mrapi_rwl_hndl_t rwl, mrapi_uint_t attribute_num, void *attribute,
			     size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_obj_attr(TW_MRAPI_RWL, rwl, attribute_num, attribute,
						      attribute_size));
}

mrapi_rwl_hndl_t mrapi_rwl_get(mrapi_rwl_id_t rwl_id, mrapi_status_t *status)
{
	mrapi_rwl_hndl_t handle = 0;

	tw_mrapi_set_status(status, tw_mrapi_obj_get(TW_MRAPI_RWL, rwl_id, &handle));
	return handle;
}

void mrapi_rwl_delete(mrapi_rwl_hndl_t rwl, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_obj_delete(TW_MRAPI_RWL, rwl, end));
}

void mrapi_rwl_lock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_timeout_t timeout,
		    mrapi_status_t *status)
{
	tw_mrapi_set_status(status, lock(rwl, mode, timeout));
}

mrapi_boolean_t mrapi_rwl_trylock(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode,
				  mrapi_status_t *status)
{
	mrapi_status_t result = lock(rwl, mode, 0);

	tw_mrapi_set_status(status, result == MRAPI_TIMEOUT ? MRAPI_SUCCESS : result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

void(mrapi_rwl_unlock)(mrapi_rwl_hndl_t rwl, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, unlock(rwl, 0));
}

void mrapi_rwl_unlock_mode(mrapi_rwl_hndl_t rwl, mrapi_rwl_mode_t mode, mrapi_status_t *status)
{
	if (mode != MRAPI_READER && mode != MRAPI_WRITER)
		tw_mrapi_set_status(status,
				    tw_mrapi_me() ? MRAPI_ERR_PARAMETER : MRAPI_ERR_NODE_NOTINIT);
	else
		tw_mrapi_set_status(status, unlock(rwl, mode));
}
