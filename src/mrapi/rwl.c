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
struct way {
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

static bool try_read(struct way *w)
{
	if (atomic_load(&w->l->writer) || atomic_load(&w->l->writers) & COUNT)
		return false;
	if (!tw_mrapi_counting_take(w->l, w->me))
		return false;
	if (!atomic_load(&w->l->writer))
		return true;
	/* A writer became pending at the same time; either it waits or this reader does. */
	give(w->l, w->me);
	return false;
}

static bool try_write(struct way *w)
{
	uint32_t nobody = 0;

	if (!w->pending)
		w->pending = atomic_compare_exchange_strong(&w->l->writer, &nobody,
							    w->me | TW_MRAPI_PENDING);
	if (!w->pending || !tw_mrapi_counting_empty(w->l))
		return false;
	atomic_store(&w->l->writer, w->me);
	w->pending = false;
	return true;
}

/* One try; TIMEOUT while the lock is taken. */
static mrapi_status_t attempt(struct way *w)
{
	bool here = tw_mrapi_is(&w->l->obj, w->handle);
	bool got = here && (w->writer ? try_write(w) : try_read(w));

	if (tw_mrapi_is(&w->l->obj, w->handle))
		return got ? MRAPI_SUCCESS : MRAPI_TIMEOUT;
	/* The slot has been deleted and may be another object. */
	if (got && w->writer)
		free_writer(w->l);
	else if (got)
		give(w->l, w->me);
	return tw_mrapi_stale(TW_MRAPI_RWL, w->handle);
}

/* Counts a waiting writer; again after a reclaim, which starts a new epoch. */
static void count_in(struct way *w)
{
	if (!w->writer || (w->counting && atomic_load(&w->l->writers) >> 16 == w->epoch))
		return;
	w->epoch = tw_mrapi_count_up(&w->l->writers);
	w->counting = true;
}

/* Ends the attempt. */
static void arrive(struct way *w)
{
	uint32_t mine = w->me | TW_MRAPI_PENDING;

	if (w->counting)
		tw_mrapi_count_down(&w->l->writers, w->epoch);
	if (w->pending)
		atomic_compare_exchange_strong(&w->l->writer, &mine, 0);
	if (w->pending || w->counting)
		tw_mrapi_counting_wake(w->l, INT_MAX);
}

static mrapi_status_t attempt_again(void *arg)
{
	struct way *w = arg;

	count_in(w);
	return attempt(w);
}

static mrapi_status_t lock(mrapi_rwl_hndl_t handle, mrapi_rwl_mode_t mode, mrapi_timeout_t timeout)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(TW_MRAPI_RWL, handle, &o);
	struct way way;

	if (status != MRAPI_SUCCESS)
		return status;
	if (mode != MRAPI_READER && mode != MRAPI_WRITER)
		return MRAPI_ERR_PARAMETER;
	way = (struct way){rwl_of(o), handle, tw_mrapi_me(), mode == MRAPI_WRITER, false, false, 0};
	if (atomic_load(&way.l->writer) == way.me || tw_mrapi_counting_held(way.l, way.me))
		return MRAPI_ERR_RWL_LOCKED;
	/* A trylock of a writer does not turn readers away if it must fail. */
	if (!(way.writer && timeout == 0) || tw_mrapi_counting_empty(way.l))
		status = attempt(&way);
	else
		status = MRAPI_TIMEOUT;
	if (status == MRAPI_TIMEOUT && timeout != 0) {
		atomic_store_explicit(&way.l->obj.contended, 1, memory_order_relaxed);
		status = tw_mrapi_counting_wait(way.l, way.me, timeout, attempt_again, &way);
	}
	arrive(&way);
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
