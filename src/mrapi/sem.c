/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI 4.3.2: semaphores. */
#include <limits.h>

#include "mrapi/mrapi_internal.h"

static struct tw_mrapi_counting *sem_of(struct tw_mrapi_obj *o)
{
	return tw_container(o, struct tw_mrapi_counting, obj);
}

/* An attempt to take a lock. */
struct attempt {
	struct tw_mrapi_counting *s;
	mrapi_sem_hndl_t handle;
	uint32_t me;
};

/* One try; TIMEOUT while all locks are taken. */
static mrapi_status_t attempt(void *arg)
{
	struct attempt *a = arg;
	bool got = tw_mrapi_is(&a->s->obj, a->handle) && tw_mrapi_counting_take(a->s, a->me);

	if (tw_mrapi_is(&a->s->obj, a->handle))
		return got ? MRAPI_SUCCESS : MRAPI_TIMEOUT;
	/* The slot has been deleted and may be another object. */
	if (got && tw_mrapi_counting_give(a->s, a->me))
		tw_mrapi_counting_wake(a->s, 1);
	return tw_mrapi_stale(TW_MRAPI_SEM, a->handle);
}

static mrapi_status_t lock(mrapi_sem_hndl_t handle, mrapi_timeout_t timeout)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(TW_MRAPI_SEM, handle, &o);
	struct attempt a;

	if (status != MRAPI_SUCCESS)
		return status;
	a = (struct attempt){sem_of(o), handle, tw_mrapi_me()};
	status = attempt(&a);
	if (status != MRAPI_TIMEOUT || timeout == 0)
		return status;
	status = tw_mrapi_counting_wait(a.s, a.me, timeout, attempt, &a);
	/* Passes on a wake-up that this thread does not use. */
	if (status != MRAPI_SUCCESS)
		tw_mrapi_counting_wake(a.s, 1);
	return status;
}

static mrapi_status_t unlock(mrapi_sem_hndl_t handle)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(TW_MRAPI_SEM, handle, &o);

	if (status != MRAPI_SUCCESS)
		return status;
	if (!tw_mrapi_counting_give(sem_of(o), tw_mrapi_me()))
		return MRAPI_ERR_SEM_NOTLOCKED;
	tw_mrapi_counting_wake(sem_of(o), 1);
	return MRAPI_SUCCESS;
}

/* Deleting takes all locks; it fails if one is taken. */
static mrapi_status_t end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_counting *s = sem_of(o);
	mrapi_status_t status = MRAPI_SUCCESS;
	uint32_t taken = 0;

	for (; taken < s->limit && status == MRAPI_SUCCESS; taken++) {
		uint16_t nobody = 0;

		if (!atomic_compare_exchange_strong(&s->holder[taken], &nobody, (uint16_t)me)) {
			status = MRAPI_ERR_SEM_LOCKED;
			break;
		}
	}
	if (status == MRAPI_SUCCESS)
		tw_mrapi_table_free(TW_MRAPI_SEM, o);
	while (taken-- > 0)
		atomic_store(&s->holder[taken], 0);
	tw_mrapi_counting_wake(s, INT_MAX);
	return status;
}

mrapi_sem_hndl_t mrapi_sem_create(mrapi_sem_id_t sem_id, const mrapi_sem_attributes_t *attributes,
				  mrapi_uint_t shared_lock_limit, mrapi_status_t *status)
{
	mrapi_sem_hndl_t handle = 0;
	mrapi_status_t result = MRAPI_ERR_SEM_LOCKLIMIT;

	if (shared_lock_limit <= MRAPI_MAX_SEM_SHAREDLOCKS || !tw_mrapi_me())
		result = tw_mrapi_lock_create(TW_MRAPI_SEM, sem_id, attributes, shared_lock_limit,
					      &handle);
	tw_mrapi_set_status(status, result);
	return handle;
}

void mrapi_sem_get_attribute(mrapi_sem_hndl_t sem, mrapi_uint_t attribute_num, void *attribute,
			     size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_obj_attr(TW_MRAPI_SEM, sem, attribute_num, attribute,
						      attribute_size));
}

mrapi_sem_hndl_t mrapi_sem_get(mrapi_sem_id_t sem_id, mrapi_status_t *status)
{
	mrapi_sem_hndl_t handle = 0;

	tw_mrapi_set_status(status, tw_mrapi_obj_get(TW_MRAPI_SEM, sem_id, &handle));
	return handle;
}

void mrapi_sem_delete(mrapi_sem_hndl_t sem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_obj_delete(TW_MRAPI_SEM, sem, end));
}

void mrapi_sem_lock(mrapi_sem_hndl_t sem, mrapi_timeout_t timeout, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, lock(sem, timeout));
}

mrapi_boolean_t mrapi_sem_trylock(mrapi_sem_hndl_t sem, mrapi_status_t *status)
{
	mrapi_status_t result = lock(sem, 0);

	tw_mrapi_set_status(status, result == MRAPI_TIMEOUT ? MRAPI_SUCCESS : result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

void mrapi_sem_unlock(mrapi_sem_hndl_t sem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, unlock(sem));
}
