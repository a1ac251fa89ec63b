/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of objects. A handle has the slot; ids are hashed. Slots are used again in
 * turn. Deleted ids of objects that had MRAPI_ERROR_EXT are remembered, to
 * distinguish them from ids that never existed.
 */
#include "mrapi/remote/remote.h"

#define CHUNK 64    /* slots whose pages are allocated together */
#define FREE_KEPT 256 /* free slots that are passed over one after the other */
#define NO_SLOT 0
#define ANYS (MRAPI_MAX_MUTEX_ID - MRAPI_MAX_USER_MUTEX_ID) /* ids for MRAPI_x_ID_ANY */

static const struct {
	uint32_t max;
	uint32_t size;
	size_t offset;
	mrapi_status_t id_invalid, invalid, deleted, limit;
	const struct tw_mrapi_ops *ops;
} kinds[TW_MRAPI_KINDS] = {
	[TW_MRAPI_MUTEX] = {MRAPI_MAX_MUTEXES, sizeof(struct tw_mrapi_mutex),
			    offsetof(struct tw_mrapi_segment, mutex), MRAPI_ERR_MUTEX_ID_INVALID,
			    MRAPI_ERR_MUTEX_INVALID, MRAPI_ERR_MUTEX_DELETED, MRAPI_ERR_MUTEX_LIMIT,
			    &tw_mrapi_mutex_ops},
	[TW_MRAPI_SEM] = {MRAPI_MAX_SEMS, sizeof(struct tw_mrapi_counting),
			  offsetof(struct tw_mrapi_segment, sem), MRAPI_ERR_SEM_ID_INVALID,
			  MRAPI_ERR_SEM_INVALID, MRAPI_ERR_SEM_DELETED, MRAPI_ERR_SEM_LIMIT,
			  &tw_mrapi_counting_ops},
	[TW_MRAPI_RWL] = {MRAPI_MAX_RWLS, sizeof(struct tw_mrapi_counting),
			  offsetof(struct tw_mrapi_segment, rwl), MRAPI_ERR_RWL_ID_INVALID,
			  MRAPI_ERR_RWL_INVALID, MRAPI_ERR_RWL_DELETED, MRAPI_ERR_RWL_LIMIT,
			  &tw_mrapi_counting_ops},
	[TW_MRAPI_SHMEM] = {MRAPI_MAX_SHMEMS, sizeof(struct tw_mrapi_shmem),
			    offsetof(struct tw_mrapi_segment, shmem), MRAPI_ERR_SHM_ID_INVALID,
			    MRAPI_ERR_SHM_INVALID, MRAPI_ERR_SHM_INVALID, MRAPI_ERR_MEM_LIMIT,
			    &tw_mrapi_shmem_ops},
	[TW_MRAPI_RMEM] = {MRAPI_MAX_RMEMS, sizeof(struct tw_mrapi_rmem),
			   offsetof(struct tw_mrapi_segment, rmem), MRAPI_ERR_RMEM_ID_INVALID,
			   MRAPI_ERR_RMEM_INVALID, MRAPI_ERR_RMEM_INVALID, MRAPI_ERR_MEM_LIMIT,
			   &tw_mrapi_rmem_ops},
};

_Static_assert(MRAPI_MAX_MUTEXES <= TW_MRAPI_SLOT_MASK + 1, "a handle holds the slot");
_Static_assert(MRAPI_MAX_RMEMS <= 1u << TW_MRAPI_ATYPE_SHIFT, "and the access type above it");

struct tw_mrapi_obj *tw_mrapi_slot(enum tw_mrapi_kind kind, uint32_t slot)
{
	return (void *)((char *)tw_mrapi.seg + kinds[kind].offset +
			(size_t)slot * kinds[kind].size);
}

const struct tw_mrapi_ops *tw_mrapi_ops(enum tw_mrapi_kind kind)
{
	return kinds[kind].ops;
}

struct tw_mrapi_obj *tw_mrapi_walk(struct tw_mrapi_walk *w)
{
	for (; w->kind < TW_MRAPI_KINDS; w->kind++, w->next = 0)
		if (w->next < tw_mrapi.seg->table[w->kind].high)
			return tw_mrapi_slot(w->kind, w->next++);
	return NULL;
}

static uint32_t table_slot_of(enum tw_mrapi_kind kind, const struct tw_mrapi_obj *o)
{
	return (uint32_t)(((const char *)o - (char *)tw_mrapi.seg - kinds[kind].offset) /
			  kinds[kind].size);
}

static uint16_t *bucket_of(struct tw_mrapi_table *t, uint32_t id)
{
	return &t->bucket[(id * 2654435761u) >> 20];
}
_Static_assert(TW_MRAPI_BUCKETS == 1u << 12, "the hash gives 12 bits");

mrapi_status_t tw_mrapi_stale(enum tw_mrapi_kind kind, uint32_t handle)
{
	uint32_t slot = handle & TW_MRAPI_SLOT_MASK, gen, latest;

	if (slot >= kinds[kind].max || tw_mrapi_kind_of(handle) != kind ||
	    !(handle & TW_MRAPI_HANDLE_EXT))
		return kinds[kind].invalid;
	gen = handle >> TW_MRAPI_GEN_SHIFT & TW_MRAPI_GEN_MASK;
	latest = atomic_load(&tw_mrapi_slot(kind, slot)->gen);
	/* After generations have wrapped, all were in use. */
	return latest > TW_MRAPI_GEN_MASK || (gen > 0 && gen <= latest) ? kinds[kind].deleted
									: kinds[kind].invalid;
}

struct tw_mrapi_obj *tw_mrapi_lookup(enum tw_mrapi_kind kind, uint32_t id)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	for (uint16_t s = *bucket_of(t, id); s != NO_SLOT;) {
		struct tw_mrapi_obj *o = tw_mrapi_slot(kind, s - 1u);

		if (o->id == id)
			return o;
		s = o->next;
	}
	return NULL;
}

/* The latest entry of an id among the deleted ones, or NULL. */
static uint32_t *find_deleted(enum tw_mrapi_kind kind, uint32_t id)
{
	uint32_t *deleted = kind < TW_MRAPI_LOCKS ? tw_mrapi.seg->deleted[kind] : NULL;
	uint32_t n = tw_mrapi.seg->table[kind].ndeleted;

	for (uint32_t i = tw_min(n, TW_MRAPI_DELETED_IDS); deleted && i-- > 0;) {
		uint32_t *at = &deleted[--n % TW_MRAPI_DELETED_IDS];

		if (*at == id)
			return at;
	}
	return NULL;
}

static void remember(enum tw_mrapi_kind kind, uint32_t id)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	if (kind >= TW_MRAPI_LOCKS || find_deleted(kind, id))
		return;
	tw_mrapi.seg->deleted[kind][t->ndeleted % TW_MRAPI_DELETED_IDS] = id;
	t->ndeleted = t->ndeleted + 1 < 2 * TW_MRAPI_DELETED_IDS ? t->ndeleted + 1
								 : TW_MRAPI_DELETED_IDS;
}

/* The last object of that id had no MRAPI_ERROR_EXT. */
static void unnote(enum tw_mrapi_kind kind, uint32_t id)
{
	uint32_t *at = find_deleted(kind, id);

	if (at)
		*at = MRAPI_MUTEX_ID_ANY;
}

static void unchain(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o)
{
	uint16_t *at = bucket_of(&tw_mrapi.seg->table[kind], o->id);

	while (*at != table_slot_of(kind, o) + 1)
		at = &tw_mrapi_slot(kind, *at - 1u)->next;
	*at = o->next;
}

/* A slot that is free again. After its last generation it is used only if there is no other. */
static struct tw_mrapi_obj *freed(enum tw_mrapi_kind kind, bool spent)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	for (uint32_t n = 0; n < t->high; n++) {
		struct tw_mrapi_obj *o = tw_mrapi_slot(kind, t->next++ % t->high);

		if (!atomic_load(&o->handle) && !o->there &&
		    (spent || (o->gen & TW_MRAPI_GEN_MASK) != TW_MRAPI_GEN_MASK))
			return o;
	}
	return NULL;
}

/* Takes a slot that was never used; allocates its pages first. */
static struct tw_mrapi_obj *fresh(enum tw_mrapi_kind kind)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	if (t->high == kinds[kind].max)
		return NULL;
	if (t->high % CHUNK == 0 &&
	    !tw_mrapi_allocate(tw_mrapi_slot(kind, t->high), (size_t)CHUNK * kinds[kind].size))
		return NULL;
	return tw_mrapi_slot(kind, t->high++);
}

static bool choose_id(enum tw_mrapi_kind kind, uint32_t *id)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	for (uint32_t tries = 0; tries <= kinds[kind].max; tries++) {
		*id = MRAPI_MAX_USER_MUTEX_ID + 1 + t->anys++ % ANYS;
		if (!tw_mrapi_lookup(kind, *id))
			return true;
	}
	return false;
}

/* False: memory is short for the id of an object with these flags, once it is deleted. */
static bool table_remembers(enum tw_mrapi_kind kind, unsigned flags)
{
	return !(flags & TW_MRAPI_EXT) || kind >= TW_MRAPI_LOCKS ||
	       tw_mrapi_allocate(tw_mrapi.seg->deleted[kind], sizeof(tw_mrapi.seg->deleted[0]));
}

mrapi_status_t tw_mrapi_table_take(enum tw_mrapi_kind kind, uint32_t id, unsigned flags,
				   struct tw_mrapi_obj **out)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];
	struct tw_mrapi_obj *o = NULL;

	if (!table_remembers(kind, flags))
		return kinds[kind].limit;
	if (t->high - t->live > FREE_KEPT)
		o = freed(kind, false);
	if (!o)
		o = fresh(kind);
	if (!o)
		o = freed(kind, false);
	if (!o)
		o = freed(kind, true);
	if (!o)
		return kinds[kind].limit;
	o->id = id;
	*out = o;
	return MRAPI_SUCCESS;
}

/* A slot that is free again unless the caller makes an object of it. */
static mrapi_status_t table_claim(enum tw_mrapi_kind kind, uint32_t id, unsigned flags,
				  struct tw_mrapi_obj **out)
{
	if (id != MRAPI_MUTEX_ID_ANY && id > MRAPI_MAX_USER_MUTEX_ID)
		return kinds[kind].id_invalid;
	if (id != MRAPI_MUTEX_ID_ANY && tw_mrapi_lookup(kind, id))
		return MRAPI_EXISTS;
	if (id == MRAPI_MUTEX_ID_ANY && !choose_id(kind, &id))
		return kinds[kind].limit;
	return tw_mrapi_table_take(kind, id, flags, out);
}

/* Of the object in the slot, or the last one. */
static uint32_t table_handle(enum tw_mrapi_kind kind, const struct tw_mrapi_obj *o)
{
	uint32_t gen = o->gen & TW_MRAPI_GEN_MASK;

	return (uint32_t)kind << TW_MRAPI_KIND_SHIFT | table_slot_of(kind, o) |
	       gen << TW_MRAPI_GEN_SHIFT | (o->flags & TW_MRAPI_EXT ? TW_MRAPI_HANDLE_EXT : 0);
}

uint32_t tw_mrapi_table_publish(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, unsigned flags,
				uint32_t domain)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];
	uint16_t *bucket = bucket_of(t, o->id);
	uint32_t handle;

	++o->gen;
	o->domain = domain;
	o->flags = (uint16_t)flags;
	handle = table_handle(kind, o);
	o->contended = 0;
	o->next = *bucket;
	*bucket = (uint16_t)(table_slot_of(kind, o) + 1);
	t->live++;
	/* [object] */
	atomic_store(&o->handle, handle);
	return handle;
}

void tw_mrapi_table_free(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o)
{
	const struct tw_mrapi_shmem *s = tw_container(o, struct tw_mrapi_shmem, obj);

	if (o->flags & TW_MRAPI_EXT)
		remember(kind, o->id);
	else
		unnote(kind, o->id);
	/* [object] */
	atomic_store(&o->handle, 0);
	unchain(kind, o);
	tw_mrapi.seg->table[kind].live--;
	tw_mrapi_remote_cleared(kind, o);
	if (kind == TW_MRAPI_SHMEM)
		tw_mrapi_arena_discard(s->offset, s->span);
}

mrapi_status_t tw_mrapi_table_end(enum tw_mrapi_kind kind, struct tw_mrapi_obj *o, uint32_t me)
{
	mrapi_status_t status;

	if (kind != TW_MRAPI_SHMEM && tw_mrapi.nic)
		o->there = tw_mrapi.proc + 1;
	status = kinds[kind].ops->end(o, me);
	if (status != MRAPI_SUCCESS)
		o->there = 0;
	return status;
}

void tw_mrapi_table_reported(enum tw_mrapi_kind kind, uint32_t handle)
{
	struct tw_mrapi_obj *o = tw_mrapi_slot(kind, handle & TW_MRAPI_SLOT_MASK);

	/* If the slot has been used since, another thread has reported the end, too. */
	if (!atomic_load(&o->handle) && o->there == tw_mrapi.proc + 1 &&
	    table_handle(kind, o) == handle)
		o->there = 0;
}

uint32_t tw_mrapi_table_unreported(enum tw_mrapi_kind *kind, uint32_t *id)
{
	struct tw_mrapi_walk w = {0};
	struct tw_mrapi_obj *o;

	while ((o = tw_mrapi_walk(&w))) {
		if (atomic_load(&o->handle) || o->there != tw_mrapi.proc + 1)
			continue;
		*kind = w.kind;
		*id = o->id;
		return table_handle(w.kind, o);
	}
	return 0;
}

/* Rebuilds the lists from the slots: a slot with a handle is an object. */
void tw_mrapi_table_repair(enum tw_mrapi_kind kind)
{
	struct tw_mrapi_table *t = &tw_mrapi.seg->table[kind];

	memset(t->bucket, 0, sizeof(t->bucket));
	t->live = 0;
	for (uint32_t i = 0; i < t->high; i++) {
		struct tw_mrapi_obj *o = tw_mrapi_slot(kind, i);
		uint16_t *bucket = bucket_of(t, o->id);

		if (!atomic_load(&o->handle)) {
			tw_mrapi_remote_cleared(kind, o);
			continue;
		}
		o->next = *bucket;
		*bucket = (uint16_t)(i + 1);
		t->live++;
	}
}

/* Creates of this process that have claimed an object, and make it known or free it. */
static _Atomic(unsigned) creating;

void tw_mrapi_creates_end(void)
{
	uint64_t since = 0;

	while (atomic_load(&creating))
		tw_back_off(&since);
}

void tw_mrapi_creates_forked(void)
{
	atomic_store(&creating, 0);
}

/*
 * Makes a claimed object known, once it has its pages, which takes long, or the other hosts agree
 * to its id.
 */
static mrapi_status_t table_confirm(uint32_t me, struct tw_mrapi_obj *o, const void *arg,
				    uint32_t *handle)
{
	enum tw_mrapi_kind kind = tw_mrapi_kind_of(*handle);
	uint32_t id = o->id;
	mrapi_status_t status = kind == TW_MRAPI_SHMEM ? tw_mrapi_shmem_fill(o, arg)
						       : tw_mrapi_remote_claim(kind, o);

	tw_mrapi_admin_lock();
	if (tw_mrapi_me() != me)
		status = MRAPI_ERR_NODE_NOTINIT;
	else if (!tw_mrapi_is(o, *handle))
		status = MRAPI_EXISTS;
	if (status == MRAPI_SUCCESS) {
		o->there = 0;
		atomic_fetch_and(&o->flags, (uint16_t)~TW_MRAPI_CLAIMED);
	} else if (tw_mrapi_is(o, *handle)) {
		tw_mrapi_table_free(kind, o);
	}
	tw_mrapi_admin_unlock();
	if (status == MRAPI_SUCCESS)
		return status;
	if (kind != TW_MRAPI_SHMEM)
		tw_mrapi_remote_gone(kind, id, *handle);
	*handle = 0;
	return status;
}

mrapi_status_t tw_mrapi_obj_create(uint32_t me, enum tw_mrapi_kind kind, uint32_t id,
				   unsigned flags,
				   mrapi_status_t (*begin)(struct tw_mrapi_obj *o, const void *arg),
				   const void *arg, uint32_t *handle)
{
	bool claimed = kind == TW_MRAPI_SHMEM || tw_mrapi_remote_hosts(), claims;
	struct tw_mrapi_obj *o = NULL;
	mrapi_status_t status;

	if (claimed)
		flags |= TW_MRAPI_CLAIMED;
	do {
		tw_mrapi_admin_lock();
		status = tw_mrapi_me() == me ? table_claim(kind, id, flags, &o)
					     : MRAPI_ERR_NODE_NOTINIT;
		if (status == MRAPI_SUCCESS && begin)
			status = begin(o, arg);
		if (status == MRAPI_SUCCESS) {
			o->there = claimed ? tw_mrapi.proc + 1 : 0;
			*handle = tw_mrapi_table_publish(kind, o, flags, tw_mrapi_node(me)->domain);
		}
		claims = status == MRAPI_SUCCESS && claimed;
		atomic_fetch_add(&creating, claims);
		tw_mrapi_admin_unlock();
		if (claims)
			status = table_confirm(me, o, arg, handle);
		atomic_fetch_sub(&creating, claims);
	} while (status == MRAPI_EXISTS && id == MRAPI_MUTEX_ID_ANY);
	return status;
}

static mrapi_status_t table_set_limit(struct tw_mrapi_obj *o, const void *limit)
{
	tw_container(o, struct tw_mrapi_counting, obj)->limit = *(const uint32_t *)limit;
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_lock_create(enum tw_mrapi_kind kind, uint32_t id, const void *attributes,
				    uint32_t limit, uint32_t *handle)
{
	uint32_t me = tw_mrapi_me();
	unsigned flags;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	if (!tw_mrapi_attr_flags(kind, attributes, &flags))
		return MRAPI_ERR_PARAMETER;
	return tw_mrapi_obj_create(me, kind, id, flags,
				   kind == TW_MRAPI_MUTEX ? NULL : table_set_limit, &limit, handle);
}

/* Finds an id for the caller's domain. MRAPI_INCOMPLETE: it is being created. */
static mrapi_status_t find_id(uint32_t me, enum tw_mrapi_kind kind, uint32_t id, uint32_t *handle)
{
	struct tw_mrapi_obj *o;

	if (id == MRAPI_MUTEX_ID_ANY)
		return kinds[kind].id_invalid;
	o = tw_mrapi_lookup(kind, id);
	if (!o)
		return find_deleted(kind, id) ? kinds[kind].deleted : kinds[kind].id_invalid;
	if (o->flags & TW_MRAPI_CLAIMED)
		return MRAPI_INCOMPLETE;
	if (!(o->flags & TW_MRAPI_DOMAIN_SHARED) && o->domain != tw_mrapi_node(me)->domain)
		return MRAPI_ERR_DOMAIN_NOTSHARED;
	*handle = atomic_load(&o->handle);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_obj_get(uint32_t me, enum tw_mrapi_kind kind, uint32_t id, uint32_t *handle)
{
	mrapi_status_t status;
	uint64_t since = 0;

	/* An id that another create has reported as existing is found, if only later. */
	for (;;) {
		if (!me || tw_mrapi_me() != me)
			return MRAPI_ERR_NODE_NOTINIT;
		tw_mrapi_admin_lock();
		status = find_id(me, kind, id, handle);
		tw_mrapi_admin_unlock();
		if (status != MRAPI_INCOMPLETE)
			break;
		tw_back_off(&since);
	}
	if (status == kinds[kind].id_invalid)
		tw_mrapi_hosts_look();
	return status;
}

mrapi_status_t tw_mrapi_obj_find(uint32_t me, enum tw_mrapi_kind kind, uint32_t handle,
				 struct tw_mrapi_obj **out)
{
	uint32_t slot = handle & TW_MRAPI_SLOT_MASK;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	if (slot >= kinds[kind].max || !tw_mrapi_is(tw_mrapi_slot(kind, slot), handle))
		return tw_mrapi_stale(kind, handle);
	*out = tw_mrapi_slot(kind, slot);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_obj_attr(enum tw_mrapi_kind kind, uint32_t handle, mrapi_uint_t num,
				 void *value, size_t size)
{
	struct tw_mrapi_obj *o;
	mrapi_status_t status = tw_mrapi_obj_find(tw_mrapi_me(), kind, handle, &o);

	return status == MRAPI_SUCCESS ? tw_mrapi_attr_get(kind, o, num, value, size) : status;
}

mrapi_status_t tw_mrapi_obj_delete(enum tw_mrapi_kind kind, uint32_t handle)
{
	struct tw_mrapi_ctrl c = {.op = TW_MRAPI_REMOTE_DELETE, .handle = handle};
	struct tw_mrapi_obj *o;
	mrapi_status_t status;
	uint32_t id, me = tw_mrapi_me();
	bool remote;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	tw_mrapi_admin_lock();
	status = tw_mrapi_obj_find(me, kind, handle, &o);
	remote = status == MRAPI_SUCCESS && o->host;
	id = status == MRAPI_SUCCESS ? o->id : 0;
	if (status == MRAPI_SUCCESS && !remote)
		status = tw_mrapi_table_end(kind, o, me);
	tw_mrapi_admin_unlock();
	if (remote)
		return tw_mrapi_remote_ask(o, &c);
	if (status == MRAPI_SUCCESS && kind < TW_MRAPI_LOCKS)
		tw_mrapi_remote_gone(kind, id, handle);
	return status;
}
