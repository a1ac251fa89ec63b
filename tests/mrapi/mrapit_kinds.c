/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of objects behind one table, for what holds for all of them. */
#include <stdio.h>

#include "mrapi/mrapit.h"

_Thread_local mrapi_key_t mr_key;

/* Notes which function is called. */
#define CALL(name, ...)                                                                            \
	(snprintf(mr_called, sizeof(mr_called), "%s", "mrapi_" #name),                             \
	 mrapi_##name(__VA_ARGS__, &mr_st))

/* What all kinds do in the same way. */
#define COMMON(kind)                                                                               \
	static void kind##_init_attributes(void *attributes)                                       \
	{                                                                                          \
		CALL(kind##_init_attributes, attributes);                                          \
	}                                                                                          \
	static void kind##_set_attribute(void *attributes, mrapi_uint_t num, const void *value,    \
					 size_t size)                                              \
	{                                                                                          \
		CALL(kind##_set_attribute, attributes, num, value, size);                          \
	}                                                                                          \
	static void kind##_get_attribute(mrapi_hndl_t h, mrapi_uint_t num, void *value,            \
					 size_t size)                                              \
	{                                                                                          \
		CALL(kind##_get_attribute, h, num, value, size);                                   \
	}                                                                                          \
	static void kind##_delete(mrapi_hndl_t h)                                                  \
	{                                                                                          \
		CALL(kind##_delete, h);                                                            \
	}
COMMON(mutex)
COMMON(sem)
COMMON(rwl)
COMMON(shmem)
COMMON(rmem)

static mrapi_hndl_t mutex_create(mrapi_uint_t id, const void *attributes)
{
	return CALL(mutex_create, id, attributes);
}

static mrapi_hndl_t sem_create(mrapi_uint_t id, const void *attributes)
{
	return CALL(sem_create, id, attributes, 1);
}

static mrapi_hndl_t rwl_create(mrapi_uint_t id, const void *attributes)
{
	return CALL(rwl_create, id, attributes, 4);
}

static mrapi_hndl_t shmem_create(mrapi_uint_t id, const void *attributes)
{
	snprintf(mr_called, sizeof(mr_called), "mrapi_shmem_create");
	return mrapi_shmem_create(id, 64, NULL, 0, attributes, &mr_st);
}

static mrapi_hndl_t rmem_create(mrapi_uint_t id, const void *attributes)
{
	static char memory[(MRAPI_MAX_RMEMS + 64) * 16];
	static atomic_uint used;

	return CALL(rmem_create, id,
		    memory + atomic_fetch_add(&used, 1) % (MRAPI_MAX_RMEMS + 64) * 16,
		    MRAPI_RMEM_ATYPE_DEFAULT, attributes, 16);
}

static mrapi_hndl_t mutex_get(mrapi_uint_t id)
{
	return CALL(mutex_get, id);
}

static mrapi_hndl_t sem_get(mrapi_uint_t id)
{
	return CALL(sem_get, id);
}

static mrapi_hndl_t rwl_get(mrapi_uint_t id)
{
	return CALL(rwl_get, id);
}

static mrapi_hndl_t shmem_get(mrapi_uint_t id)
{
	return CALL(shmem_get, id);
}

static mrapi_hndl_t rmem_get(mrapi_uint_t id)
{
	return CALL(rmem_get, id, MRAPI_RMEM_ATYPE_DEFAULT);
}

static void mutex_lock(mrapi_hndl_t h, mrapi_timeout_t timeout)
{
	CALL(mutex_lock, h, &mr_key, timeout);
}

static mrapi_boolean_t mutex_trylock(mrapi_hndl_t h)
{
	return CALL(mutex_trylock, h, &mr_key);
}

static void mutex_unlock(mrapi_hndl_t h)
{
	CALL(mutex_unlock, h, &mr_key);
}

static void sem_lock(mrapi_hndl_t h, mrapi_timeout_t timeout)
{
	CALL(sem_lock, h, timeout);
}

static mrapi_boolean_t sem_trylock(mrapi_hndl_t h)
{
	return CALL(sem_trylock, h);
}

static void sem_unlock(mrapi_hndl_t h)
{
	CALL(sem_unlock, h);
}

static void writer_lock(mrapi_hndl_t h, mrapi_timeout_t timeout)
{
	CALL(rwl_lock, h, MRAPI_WRITER, timeout);
}

static mrapi_boolean_t writer_trylock(mrapi_hndl_t h)
{
	return CALL(rwl_trylock, h, MRAPI_WRITER);
}

static void reader_lock(mrapi_hndl_t h, mrapi_timeout_t timeout)
{
	CALL(rwl_lock, h, MRAPI_READER, timeout);
}

static mrapi_boolean_t reader_trylock(mrapi_hndl_t h)
{
	return CALL(rwl_trylock, h, MRAPI_READER);
}

static void rwl_unlock(mrapi_hndl_t h)
{
	snprintf(mr_called, sizeof(mr_called), "mrapi_rwl_unlock");
	mrapi_rwl_unlock(h, &mr_st);
}

#define CALLS(kind)                                                                                \
	.create = kind##_create, .init_attributes = kind##_init_attributes,                        \
	.set_attribute = kind##_set_attribute, .get_attribute = kind##_get_attribute,              \
	.get = kind##_get, .remove = kind##_delete
#define STATUSES(K) .id_invalid = MRAPI_ERR_##K##_ID_INVALID, .invalid = MRAPI_ERR_##K##_INVALID
#define LOCK_STATUSES(K)                                                                           \
	STATUSES(K), .deleted = MRAPI_ERR_##K##_DELETED, .limit = MRAPI_ERR_##K##_LIMIT,           \
		     .locked = MRAPI_ERR_##K##_LOCKED, .notlocked = MRAPI_ERR_##K##_NOTLOCKED

const struct mr_kind mr_kind[MR_KINDS] = {
	[MR_MUTEX] = {"mutex", MRAPI_MAX_MUTEXES, LOCK_STATUSES(MUTEX), CALLS(mutex),
		      .lock = mutex_lock, .trylock = mutex_trylock, .unlock = mutex_unlock},
	[MR_SEM] = {"sem", MRAPI_MAX_SEMS, LOCK_STATUSES(SEM), CALLS(sem), .lock = sem_lock,
		    .trylock = sem_trylock, .unlock = sem_unlock},
	[MR_RWL] = {"rwl", MRAPI_MAX_RWLS, LOCK_STATUSES(RWL), CALLS(rwl), .lock = writer_lock,
		    .trylock = writer_trylock, .unlock = rwl_unlock},
	[MR_SHMEM] = {"shmem", MRAPI_MAX_SHMEMS, STATUSES(SHM), .limit = MRAPI_ERR_MEM_LIMIT,
		      CALLS(shmem)},
	[MR_RMEM] = {"rmem", MRAPI_MAX_RMEMS, STATUSES(RMEM), .limit = MRAPI_ERR_MEM_LIMIT,
		     CALLS(rmem)},
};

const struct mr_kind mr_reader = {"reader",
				  MRAPI_MAX_RWLS,
				  LOCK_STATUSES(RWL),
				  CALLS(rwl),
				  .lock = reader_lock,
				  .trylock = reader_trylock,
				  .unlock = rwl_unlock};

mrapi_hndl_t mr_create_with(const struct mr_kind *k, mrapi_uint_t id, mrapi_uint_t attribute,
			    mrapi_boolean_t value)
{
	union mr_attributes a;

	memset(&a, 0xee, sizeof(a));
	mr_ok(k->init_attributes(&a));
	mr_ok(k->set_attribute(&a, attribute, &value, sizeof(value)));
	return mr_val(k->create(id, &a));
}
