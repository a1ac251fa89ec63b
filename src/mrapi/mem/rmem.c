/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.4.2: remote memory. A handle has the access type of its client. Each process
 * has one client per remote memory to which its nodes are attached.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "mrapi/remote/remote.h"

#define USERS_US 100 /* between two looks whether accesses have ended */
#define SLOT_MASK ((1u << TW_MRAPI_ATYPE_SHIFT) - 1)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* clients; taken before the admin lock */

static _Atomic(struct tw_mrapi_client *) clients[MRAPI_MAX_RMEMS]; /* by slot; never freed */

static mrapi_rmem_hndl_t with_atype(uint32_t handle, mrapi_rmem_atype_t atype)
{
	return handle | ((uint32_t)atype - 1) << TW_MRAPI_ATYPE_SHIFT;
}

/* A client's access type: any valid one but ANY. */
static bool client_atype(mrapi_rmem_atype_t a)
{
	return a == MRAPI_RMEM_ATYPE_DEFAULT || a == MRAPI_ACCESS_TYPE_DMA ||
	       a == MRAPI_ACCESS_TYPE_SW_CACHE;
}

static struct tw_mrapi_rmem *rmem_of(uint32_t handle)
{
	return &tw_mrapi.seg->rmem[handle & SLOT_MASK];
}

struct tw_mrapi_client *tw_mrapi_client_at(uint32_t slot)
{
	return clients[slot];
}

struct tw_mrapi_rmem *tw_mrapi_own_rmem(uint32_t handle)
{
	struct tw_mrapi_rmem *r = rmem_of(handle);

	return tw_mrapi_is(&r->obj, handle) && !r->obj.host &&
			       tw_mrapi_node(r->owner)->proc == tw_mrapi.proc
		       ? r
		       : NULL;
}

static mrapi_status_t rmem_find(uint32_t me, mrapi_rmem_hndl_t handle, struct tw_mrapi_rmem **out)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(me, TW_MRAPI_RMEM, tw_mrapi_plain(handle), &o);

	if (status != MRAPI_SUCCESS)
		return status;
	*out = tw_container(o, struct tw_mrapi_rmem, obj);
	if ((*out)->atype != MRAPI_RMEM_ATYPE_ANY && (*out)->atype != tw_mrapi_atype_of(handle))
		return MRAPI_ERR_RMEM_INVALID;
	return MRAPI_SUCCESS;
}

/* ------------------------------------------------------------------ clients */

bool tw_mrapi_client_valid(struct tw_mrapi_client *c)
{
	return tw_mrapi_is(&c->r->obj, c->handle) && !(atomic_load(&c->users) & TW_MRAPI_REVOKED);
}

bool tw_mrapi_client_get(struct tw_mrapi_client *c, uint32_t handle)
{
	/* [client] */
	if (!(atomic_fetch_add(&c->users, 1) & TW_MRAPI_CLIENT_STATES) &&
	    atomic_load(&c->handle) == handle)
		return true;
	tw_mrapi_client_put(c);
	return false;
}

void tw_mrapi_client_put(struct tw_mrapi_client *c)
{
	uint32_t handle = atomic_load(&c->handle);

	/* [client] */
	if (tw_likely((atomic_fetch_sub(&c->users, 1) & ~TW_MRAPI_ENDING) != TW_MRAPI_REVOKED + 1))
		return;
	/* The last one: the owner waits. */
	tw_mrapi_admin_lock();
	if (tw_mrapi_is(&c->r->obj, handle))
		tw_mrapi_let_go(c->r);
	tw_mrapi_admin_unlock();
}

/*
 * Clears, drains: while a node of this process is in the set of those attached, the owner keeps the
 * memory, so it leaves the set only after this.
 */
static void end_client(struct tw_mrapi_client *c)
{
	/* [client] */
	atomic_fetch_or(&c->users, TW_MRAPI_ENDING);
	while ((atomic_load(&c->users) & ~TW_MRAPI_REVOKED) != TW_MRAPI_ENDING)
		tw_sys_sleep_us(USERS_US);
	tw_mrapi_cache_prune(c, true);
	if (c->map)
		munmap(c->map, c->span);
	c->map = NULL;
	if (c->owner)
		tw_mrapi_memory_detach(c);
	atomic_store(&c->handle, 0);
	atomic_fetch_and(&c->users, ~TW_MRAPI_CLIENT_STATES);
}

/* Clears, drains, tells. Under the mutex. */
static void rmem_detach_node(struct tw_mrapi_client *c, uint32_t me)
{
	bool last = !tw_mrapi_any_here(&c->r->attached, me);

	if (last)
		end_client(c);
	tw_mrapi_nodeset_del(&c->r->attached, me);
	if (!last)
		tw_mrapi_cache_prune(c, false);
}

/* Frees clients that no node of this process needs. */
static void prune(struct tw_mrapi_client *c, uint32_t unused)
{
	(void)unused;
	if (!tw_mrapi_is(&c->r->obj, c->handle) || !tw_mrapi_any_here(&c->r->attached, 0))
		end_client(c);
	else
		tw_mrapi_cache_prune(c, false);
}

static void detach_if_attached(struct tw_mrapi_client *c, uint32_t me)
{
	if (!tw_mrapi_is(&c->r->obj, c->handle) || !tw_mrapi_nodeset_has(&c->r->attached, me))
		return;
	tw_mrapi_cache_flush(c, me, false);
	rmem_detach_node(c, me);
}

static void each_client(void (*fn)(struct tw_mrapi_client *c, uint32_t me), uint32_t me)
{
	tw_mrapi_lock(&mutex);
	for (uint32_t i = 0; i < MRAPI_MAX_RMEMS; i++)
		if (clients[i] && clients[i]->handle)
			fn(clients[i], me);
	tw_mrapi_unlock(&mutex);
}

void tw_mrapi_clients_lost(const struct tw_member *owner)
{
	for (uint32_t i = 0; i < MRAPI_MAX_RMEMS; i++)
		if (clients[i] && clients[i]->owner == owner)
			atomic_store(&clients[i]->there, 0);
}

void tw_mrapi_rmem_prune(void)
{
	each_client(prune, 0);
}

void tw_mrapi_rmem_end(uint32_t me)
{
	tw_mrapi_revoke(me);
	each_client(detach_if_attached, me);
}

static void rmem_queue_init(struct tw_mrapi_client *c)
{
	c->queue.busy = 0;
	tw_list_init(&c->queue.link);
	tw_list_init(&c->queue.requests);
}

void tw_mrapi_rmem_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	tw_mrapi_served_forked();
	for (uint32_t i = 0; i < MRAPI_MAX_RMEMS; i++) {
		struct tw_mrapi_client *c = clients[i];

		if (!c)
			continue;
		tw_mrapi_caches_forked(c);
		rmem_queue_init(c);
		c->map = NULL;
		c->owner = NULL;
		c->handle = c->users = 0;
	}
}

/* Sets up the client for the process's first attached node. Under the mutex. */
static mrapi_status_t begin_client(struct tw_mrapi_rmem *r, uint32_t handle)
{
	struct tw_mrapi_client *c = clients[handle & SLOT_MASK];
	mrapi_status_t status;

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return MRAPI_ERR_MEM_LIMIT;
		pthread_mutex_init(&c->mutex, NULL);
		rmem_queue_init(c);
		clients[handle & SLOT_MASK] = c;
	}
	if (c->handle == handle)
		return !r->obj.host || c->there ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
	if (c->handle)
		end_client(c);
	c->r = r;
	if (r->obj.host) {
		status = tw_mrapi_memory_attach(c, handle);
		if (status != MRAPI_SUCCESS)
			return status;
	} else {
		tw_mrapi_path_to(c, tw_mrapi_node(r->owner)->proc);
	}
	if (!tw_mrapi_path_open(c))
		return MRAPI_ERR_NOT_SUPPORTED;
	/* The owner of the memory that was here before may have asked late. */
	atomic_fetch_and(&c->users, ~TW_MRAPI_CLIENT_STATES);
	c->handle = handle;
	return MRAPI_SUCCESS;
}

/* With that access type, NULL: with the handle's. Under the mutex. */
static mrapi_status_t rmem_attach(uint32_t me, mrapi_rmem_hndl_t handle,
				  const mrapi_rmem_atype_t *atype)
{
	mrapi_rmem_atype_t own = tw_mrapi_atype_of(handle);
	struct tw_mrapi_rmem *r;
	mrapi_status_t status = rmem_find(me, handle, &r);

	if (status != MRAPI_SUCCESS)
		return status;
	if (atype && !client_atype(*atype))
		return MRAPI_ERR_RMEM_ATYPE_INVALID;
	if (atype && *atype != own && own != MRAPI_RMEM_ATYPE_ANY)
		return MRAPI_ERR_RMEM_ATYPE;
	if (tw_mrapi_nodeset_has(&r->attached, me))
		return MRAPI_ERR_RMEM_ATTACHED;
	status = begin_client(r, tw_mrapi_plain(handle));
	if (status != MRAPI_SUCCESS)
		return status;
	/* The owner may have deleted it meanwhile; from here on it cannot. */
	tw_mrapi_admin_lock();
	if (!tw_mrapi_is(&r->obj, tw_mrapi_plain(handle)) || r->ending)
		status = MRAPI_ERR_RMEM_INVALID;
	else if (tw_mrapi_me() != me)
		status = MRAPI_ERR_NODE_NOTINIT;
	else
		tw_mrapi_nodeset_add(&r->attached, me);
	tw_mrapi_admin_unlock();
	if (status != MRAPI_SUCCESS && !tw_mrapi_any_here(&r->attached, 0))
		end_client(clients[handle & SLOT_MASK]);
	return status;
}

mrapi_status_t tw_mrapi_client_find(uint32_t me, mrapi_rmem_hndl_t handle,
				    struct tw_mrapi_client **out)
{
	struct tw_mrapi_rmem *r;
	mrapi_status_t status = rmem_find(me, handle, &r);

	if (status != MRAPI_SUCCESS)
		return status;
	if (!tw_mrapi_nodeset_has(&r->attached, me))
		return MRAPI_ERR_RMEM_NOTATTACHED;
	*out = clients[handle & SLOT_MASK];
	return MRAPI_SUCCESS;
}

static mrapi_status_t rmem_detach(uint32_t me, mrapi_rmem_hndl_t handle)
{
	struct tw_mrapi_client *c;
	mrapi_status_t status = tw_mrapi_client_find(me, handle, &c);

	if (status != MRAPI_SUCCESS)
		return status;
	tw_mrapi_requests_complete(c, me);
	/* Even if the owner can no longer be reached. */
	tw_mrapi_cache_flush(c, me, false);
	rmem_detach_node(c, me);
	return MRAPI_SUCCESS;
}

void(mrapi_rmem_attach)(mrapi_rmem_hndl_t rmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    tw_mrapi_locked(&mutex, rmem_attach(tw_mrapi_me(), rmem, NULL)));
}

void mrapi_rmem_attach_atype(mrapi_rmem_hndl_t rmem, mrapi_rmem_atype_t access_type,
			     mrapi_status_t *status)
{
	tw_mrapi_set_status(
		status, tw_mrapi_locked(&mutex, rmem_attach(tw_mrapi_me(), rmem, &access_type)));
}

void mrapi_rmem_detach(mrapi_rmem_hndl_t rmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, tw_mrapi_locked(&mutex, rmem_detach(tw_mrapi_me(), rmem)));
}

/* ------------------------------------------------------------ create, delete */

/* Whether it overlaps a remote memory of this process. */
static bool collides(uint64_t at, uint64_t size)
{
	tw_mrapi_each_rmem(r)
		if (tw_mrapi_own_rmem(atomic_load(&r->obj.handle)) && at < r->address + r->size &&
		    r->address < at + size)
			return true;
	return false;
}

void tw_mrapi_rmem_set(struct tw_mrapi_rmem *r, const struct tw_mrapi_rmem *to)
{
	r->address = to->address;
	r->offset = to->offset;
	r->size = to->size;
	r->owner = to->owner;
	r->atype = to->atype;
	r->ending = 0;
	tw_mrapi_nodeset_clear(&r->attached);
}

static mrapi_status_t rmem_begin(struct tw_mrapi_obj *o, const void *arg)
{
	const struct tw_mrapi_rmem *wanted = arg;

	if (collides(wanted->address, wanted->size))
		return MRAPI_ERR_RMEM_CONFLICT;
	/* Another thread has detached it since the range was looked up. */
	if (wanted->offset != TW_MRAPI_NOT_SHARED &&
	    !tw_mrapi_arena_attached(wanted->offset, wanted->size))
		return MRAPI_ERR_PARAMETER;
	tw_mrapi_rmem_set(tw_container(o, struct tw_mrapi_rmem, obj), wanted);
	return MRAPI_SUCCESS;
}

mrapi_rmem_hndl_t mrapi_rmem_create(mrapi_rmem_id_t rmem_id, void *mem,
				    mrapi_rmem_atype_t access_type,
				    const mrapi_rmem_attributes_t *attributes, mrapi_uint_t size,
				    mrapi_status_t *status)
{
	struct tw_mrapi_rmem wanted = {.address = (uintptr_t)mem,
				       .size = size,
				       .owner = (uint16_t)tw_mrapi_me(),
				       .atype = (uint16_t)access_type};
	mrapi_rmem_hndl_t handle = 0;
	mrapi_status_t result = MRAPI_SUCCESS;
	unsigned flags;

	if (!wanted.owner)
		result = MRAPI_ERR_NODE_NOTINIT;
	else if (access_type != MRAPI_RMEM_ATYPE_ANY && !client_atype(access_type))
		result = MRAPI_ERR_RMEM_ATYPE_INVALID;
	else if (!tw_mrapi_attr_flags(TW_MRAPI_RMEM, attributes, &flags) || !mem || size == 0)
		result = MRAPI_ERR_PARAMETER;
	if (result == MRAPI_SUCCESS) {
		wanted.offset = tw_mrapi_arena_offset(mem, size);
		result = tw_mrapi_obj_create(wanted.owner, TW_MRAPI_RMEM, rmem_id, flags,
					     rmem_begin, &wanted, &handle);
	}
	if (handle)
		handle = with_atype(handle, access_type);
	tw_mrapi_set_status(status, result);
	return handle;
}

static mrapi_status_t rmem_get_attribute(mrapi_rmem_hndl_t rmem, mrapi_uint_t num, void *value,
					 size_t size)
{
	struct tw_mrapi_rmem *r;
	mrapi_status_t status = rmem_find(tw_mrapi_me(), rmem, &r);
	mrapi_rmem_atype_t atype;
	size_t bytes;

	if (status != MRAPI_SUCCESS)
		return status;
	if (!value)
		return MRAPI_ERR_PARAMETER;
	bytes = r->size;
	atype = (mrapi_rmem_atype_t)r->atype;
	if (num == MRAPI_RMEM_SIZE)
		return tw_mrapi_attr_put(value, size, &bytes, sizeof(bytes));
	if (num == MRAPI_RMEM_ACCESS_TYPE)
		return tw_mrapi_attr_put(value, size, &atype, sizeof(atype));
	return tw_mrapi_attr_get(TW_MRAPI_RMEM, &r->obj, num, value, size);
}

void mrapi_rmem_get_attribute(mrapi_rmem_hndl_t rmem, mrapi_uint_t attribute_num, void *attribute,
			      size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    rmem_get_attribute(rmem, attribute_num, attribute, attribute_size));
}

static mrapi_status_t rmem_get(mrapi_rmem_id_t id, mrapi_rmem_atype_t atype,
			       mrapi_rmem_hndl_t *handle)
{
	struct tw_mrapi_rmem *r;
	mrapi_status_t status;
	uint32_t found, me = tw_mrapi_me();

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	if (!client_atype(atype))
		return MRAPI_ERR_RMEM_ATYPE_INVALID;
	status = tw_mrapi_obj_get(me, TW_MRAPI_RMEM, id, &found);
	if (status != MRAPI_SUCCESS)
		return status;
	r = rmem_of(found);
	if (r->obj.host && !tw_mrapi_memory_reach(r, found))
		return MRAPI_ERR_RMEM_ID_INVALID;
	if (r->atype != MRAPI_RMEM_ATYPE_ANY && r->atype != (uint32_t)atype)
		return MRAPI_ERR_RMEM_ATYPE;
	*handle = with_atype(found, atype);
	return MRAPI_SUCCESS;
}

mrapi_rmem_hndl_t mrapi_rmem_get(mrapi_rmem_id_t rmem_id, mrapi_rmem_atype_t access_type,
				 mrapi_status_t *status)
{
	mrapi_rmem_hndl_t handle = 0;

	tw_mrapi_set_status(status, rmem_get(rmem_id, access_type, &handle));
	return handle;
}

static mrapi_status_t rmem_end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_rmem *r = tw_container(o, struct tw_mrapi_rmem, obj);

	if (r->owner != me)
		return MRAPI_ERR_RMEM_NOTOWNER;
	if (!tw_mrapi_nodeset_empty(&r->attached) || tw_mrapi_exports(atomic_load(&o->handle)))
		return MRAPI_ERR_RMEM_ATTACH;
	tw_mrapi_table_free(TW_MRAPI_RMEM, o);
	return MRAPI_SUCCESS;
}

static void rmem_drop(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_rmem *r = tw_container(o, struct tw_mrapi_rmem, obj);

	tw_mrapi_nodeset_del(&r->attached, me);
	if (atomic_load(&o->handle) && r->owner == me)
		tw_mrapi_table_free(TW_MRAPI_RMEM, o);
}

const struct tw_mrapi_ops tw_mrapi_rmem_ops = {.end = rmem_end, .drop = rmem_drop};

/* Under the endpoint's lock no process of another host attaches in between. */
static mrapi_status_t delete_here(uint32_t handle)
{
	struct tw_ep *ep = tw_mrapi_net_enter();
	uint32_t id = rmem_of(handle)->obj.id;
	mrapi_status_t status = tw_mrapi_obj_delete(TW_MRAPI_RMEM, handle);

	if (ep)
		tw_group_leave(ep);
	tw_mrapi_served_quiet();
	if (status == MRAPI_SUCCESS)
		tw_mrapi_remote_gone(TW_MRAPI_RMEM, id, handle);
	return status;
}

void mrapi_rmem_delete(mrapi_rmem_hndl_t rmem, mrapi_status_t *status)
{
	struct tw_mrapi_rmem *r;
	mrapi_status_t result = rmem_find(tw_mrapi_me(), rmem, &r);

	if (result == MRAPI_SUCCESS && r->obj.host)
		result = MRAPI_ERR_RMEM_NOTOWNER;
	else if (result == MRAPI_SUCCESS)
		result = delete_here(tw_mrapi_plain(rmem));
	tw_mrapi_set_status(status, result);
}
