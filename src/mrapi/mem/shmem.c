/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.4.1: shared memory. The segment has the attached nodes; a process has one
 * mapping for all its nodes, which ends with the last of them.
 */
#include <sys/mman.h>

#include "base/page.h"
#include "mrapi/mem/memory.h"

/*
 * Where memory is mapped if no address is requested: pointers in it then mean the same
 * in every process. The thread sanitizer has its own shadow there, and 32 bits have room
 * for a part of the arena only.
 */
#define NARROW_AT 0x60000000u
static uint64_t nice_address(uint64_t offset)
{
	if (TW_TSAN)
		return 0;
	return TW_NARROW ? NARROW_AT + offset % NARROW_AT : 0x200000000000 + offset;
}

struct attributes {
	uint32_t mark, flags;
	uint64_t address;
	mrapi_resource_t resource;
};
_Static_assert(sizeof(struct attributes) <= sizeof(mrapi_shmem_attributes_t), "fits");

struct mapping {
	uint32_t handle; /* 0: none */
	char *address;
	uint64_t offset, span;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* taken before the admin lock */
static struct mapping mappings[MRAPI_MAX_SHMEMS];	  /* by slot */

static struct tw_mrapi_shmem *shmem_of(struct tw_mrapi_obj *o)
{
	return tw_container(o, struct tw_mrapi_shmem, obj);
}

static void end_mapping(struct mapping *m)
{
	if (m->handle)
		munmap(m->address, m->span);
	m->handle = 0;
}

/* The memory's mapping, made if there is none; NULL: it cannot be. */
static struct mapping *map(struct tw_mrapi_shmem *s)
{
	struct mapping *m = &mappings[s - tw_mrapi.seg->shmem];
	uint32_t handle = atomic_load(&s->obj.handle);

	if (m->handle == handle)
		return m;
	end_mapping(m);
	m->offset = s->offset;
	m->span = s->span;
	m->address = tw_mrapi_arena_map(s->offset, s->span,
					s->fixed ? s->address : nice_address(s->offset), s->fixed);
	m->handle = m->address ? handle : 0;
	return m->handle ? m : NULL;
}

uint64_t tw_mrapi_arena_offset(const void *mem, uint64_t size)
{
	uint64_t offset = TW_MRAPI_NOT_SHARED;

	tw_mrapi_lock(&mutex);
	for (struct mapping *m = mappings; m < mappings + MRAPI_MAX_SHMEMS; m++) {
		uint64_t into = (uint64_t)((const char *)mem - m->address);

		if (m->handle && into < m->span && size <= m->span - into)
			offset = m->offset + into;
	}
	tw_mrapi_unlock(&mutex);
	return offset;
}

bool tw_mrapi_arena_attached(uint64_t offset, uint64_t size)
{
	tw_mrapi_each_shmem(s)
		if (atomic_load(&s->obj.handle) && offset - s->offset < s->span &&
		    size <= s->span - (offset - s->offset))
			return tw_mrapi_any_here(&s->attached, 0);
	return false;
}

/* Unmaps memory that no node of this process needs. */
void tw_mrapi_shmem_prune(void)
{
	tw_mrapi_lock(&mutex);
	for (uint32_t i = 0; i < MRAPI_MAX_SHMEMS; i++) {
		struct tw_mrapi_shmem *s = &tw_mrapi.seg->shmem[i];
		struct mapping *m = &mappings[i];

		if (m->handle &&
		    (!tw_mrapi_is(&s->obj, m->handle) || !tw_mrapi_any_here(&s->attached, 0)))
			end_mapping(m);
	}
	tw_mrapi_unlock(&mutex);
}

/* The child keeps the mappings as plain memory. */
void tw_mrapi_shmem_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(mappings, 0, sizeof(mappings));
}

static bool may_share(const struct tw_mrapi_shmem *s, uint32_t me)
{
	for (uint32_t i = 0; i < s->nodes; i++)
		if (s->node[i] == tw_mrapi_node(me)->number)
			return true;
	return s->nodes == 0;
}

/* ------------------------------------------------------------------- create */

struct wanted {
	uint32_t size;
	uint64_t span;
	const mrapi_node_t *nodes;
	uint32_t nnodes;
	struct attributes attributes;
};

static bool shmem_sound(const struct wanted *w)
{
	return w->size > 0 && !w->nodes == (w->nnodes == 0) && w->nnodes <= MRAPI_MAX_NODES &&
	       w->attributes.address == tw_page_down(w->attributes.address);
}

static void set_where(struct tw_mrapi_where *w, const mrapi_resource_t *r)
{
	w->type = r->resource_type;
	memcpy(w->name, r->name, sizeof(w->name));
	memcpy(w->opaque, r->opaque, sizeof(w->opaque));
}

static mrapi_status_t shmem_begin(struct tw_mrapi_obj *o, const void *arg)
{
	struct tw_mrapi_shmem *s = shmem_of(o);
	mrapi_status_t status = MRAPI_SUCCESS;
	const struct wanted *w = arg;

	for (uint32_t i = 0; i < w->nnodes && status == MRAPI_SUCCESS; i++)
		status = tw_mrapi_node_shares(w->nodes[i]);
	if (status == MRAPI_SUCCESS)
		status = tw_mrapi_arena_reserve(w->span, &s->offset);
	if (status != MRAPI_SUCCESS)
		return status;
	s->span = w->span;
	s->size = w->size;
	s->fixed = w->attributes.address != 0;
	s->address = w->attributes.address;
	set_where(&s->where, &w->attributes.resource);
	tw_mrapi_nodeset_clear(&s->attached);
	s->nodes = (uint16_t)w->nnodes;
	for (uint32_t i = 0; i < w->nnodes; i++)
		s->node[i] = (uint16_t)w->nodes[i];
	return status;
}

mrapi_status_t tw_mrapi_shmem_fill(struct tw_mrapi_obj *o, const void *arg)
{
	const struct tw_mrapi_shmem *s = shmem_of(o);
	const struct wanted *w = arg;

	return tw_mrapi_arena_fill(s->offset, s->span, &w->attributes.resource);
}

mrapi_shmem_hndl_t(mrapi_shmem_create)(mrapi_shmem_id_t shmem_id, mrapi_uint_t size,
				       const mrapi_node_t *nodes, mrapi_uint_t nodes_size,
				       const mrapi_shmem_attributes_t *attributes,
				       mrapi_status_t *status)
{
	struct wanted w = {
		.size = size, .span = tw_page_up(size), .nodes = nodes, .nnodes = nodes_size};
	mrapi_shmem_hndl_t handle = 0;
	uint32_t me = tw_mrapi_me();
	unsigned flags;

	if (attributes)
		memcpy(&w.attributes, attributes, sizeof(w.attributes));
	if (!me)
		tw_mrapi_set_status(status, MRAPI_ERR_NODE_NOTINIT);
	else if (!tw_mrapi_attr_flags(TW_MRAPI_SHMEM, attributes, &flags) || !shmem_sound(&w))
		tw_mrapi_set_status(status, MRAPI_ERR_PARAMETER);
	else
		tw_mrapi_set_status(status, tw_mrapi_obj_create(me, TW_MRAPI_SHMEM, shmem_id, flags,
								shmem_begin, &w, &handle));
	return handle;
}

/* --------------------------------------------------------------- attributes */

void mrapi_shmem_init_attributes(mrapi_shmem_attributes_t *attributes, mrapi_status_t *status)
{
	mrapi_status_t result = tw_mrapi_attr_init(TW_MRAPI_SHMEM, (uint32_t *)(void *)attributes);

	if (result == MRAPI_SUCCESS)
		memset(&((struct attributes *)(void *)attributes)->resource, 0,
		       sizeof(mrapi_resource_t));
	tw_mrapi_set_status(status, result);
}

static mrapi_status_t set_address(struct attributes *a, const void *value, size_t size)
{
	uint32_t narrow;

	if (size == sizeof(a->address)) {
		memcpy(&a->address, value, size);
		return MRAPI_SUCCESS;
	}
	if (size != sizeof(narrow))
		return MRAPI_ERR_ATTR_SIZE;
	memcpy(&narrow, value, size);
	a->address = narrow;
	return MRAPI_SUCCESS;
}

/* A memory resource of the metadata tree, without its place in the tree. */
static mrapi_status_t set_resource(struct attributes *a, const void *value, size_t size)
{
	mrapi_resource_t r;

	if (size != sizeof(r))
		return MRAPI_ERR_ATTR_SIZE;
	memcpy(&r, value, size);
	if (r.resource_type != MRAPI_RSRC_MEM && r.resource_type != MRAPI_SHMEM_ANY)
		return MRAPI_ERR_PARAMETER;
	a->resource = r;
	a->resource.child_count = 0;
	a->resource.children = NULL;
	return MRAPI_SUCCESS;
}

void mrapi_shmem_set_attribute(mrapi_shmem_attributes_t *attributes, mrapi_uint_t attribute_num,
			       const void *attribute, size_t attribute_size, mrapi_status_t *status)
{
	struct attributes *a = (void *)attributes;
	mrapi_status_t result = tw_mrapi_attr_set(TW_MRAPI_SHMEM, (uint32_t *)(void *)attributes,
						  attribute_num, attribute, attribute_size);

	if (result == MRAPI_ERR_ATTR_NUM && attribute_num == MRAPI_SHMEM_ADDRESS)
		result = set_address(a, attribute, attribute_size);
	else if (result == MRAPI_ERR_ATTR_NUM && attribute_num == MRAPI_SHMEM_RESOURCE)
		result = set_resource(a, attribute, attribute_size);
	tw_mrapi_set_status(status, result);
}

static mrapi_status_t put_where(void *value, size_t size, const struct tw_mrapi_where *w)
{
	mrapi_resource_t r = {.resource_type = (mrapi_rsrc_type_t)w->type};

	memcpy(r.name, w->name, sizeof(r.name));
	memcpy(r.opaque, w->opaque, sizeof(r.opaque));
	return tw_mrapi_attr_put(value, size, &r, sizeof(r));
}

static mrapi_status_t shmem_get_attribute(mrapi_shmem_hndl_t shmem, mrapi_uint_t num, void *value,
					  size_t size)
{
	struct tw_mrapi_obj *o;
	struct tw_mrapi_shmem *s;
	mrapi_status_t status = tw_mrapi_obj_find(tw_mrapi_me(), TW_MRAPI_SHMEM, shmem, &o);
	size_t bytes;
	uint64_t address;
	uint32_t narrow;

	if (status != MRAPI_SUCCESS)
		return status;
	if (!value)
		return MRAPI_ERR_PARAMETER;
	s = shmem_of(o);
	bytes = s->size;
	address = s->fixed ? s->address : MRAPI_SHMEM_ADDR_ANY;
	if (num == MRAPI_SHMEM_SIZE)
		return tw_mrapi_attr_put(value, size, &bytes, sizeof(bytes));
	if (num == MRAPI_SHMEM_RESOURCE)
		return put_where(value, size, &s->where);
	narrow = (uint32_t)address;
	if (num == MRAPI_SHMEM_ADDRESS && narrow == address && size == sizeof(narrow))
		return tw_mrapi_attr_put(value, size, &narrow, sizeof(narrow));
	if (num == MRAPI_SHMEM_ADDRESS)
		return tw_mrapi_attr_put(value, size, &address, sizeof(address));
	return tw_mrapi_attr_get(TW_MRAPI_SHMEM, o, num, value, size);
}

void mrapi_shmem_get_attribute(mrapi_shmem_hndl_t shmem, mrapi_uint_t attribute_num,
			       void *attribute, size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    shmem_get_attribute(shmem, attribute_num, attribute, attribute_size));
}

/* ------------------------------------------------------- get, attach, delete */

mrapi_shmem_hndl_t mrapi_shmem_get(mrapi_shmem_id_t shmem_id, mrapi_status_t *status)
{
	mrapi_shmem_hndl_t handle = 0;
	uint32_t me = tw_mrapi_me();
	mrapi_status_t result = tw_mrapi_obj_get(me, TW_MRAPI_SHMEM, shmem_id, &handle);

	if (result == MRAPI_SUCCESS &&
	    !may_share(&tw_mrapi.seg->shmem[handle & TW_MRAPI_SLOT_MASK], me)) {
		result = MRAPI_ERR_SHM_NODE_NOTSHARED;
		handle = 0;
	}
	tw_mrapi_set_status(status, result);
	return handle;
}

static mrapi_status_t shmem_attach(struct tw_mrapi_shmem *s, uint32_t me, void **address)
{
	struct mapping *m;

	if (tw_mrapi_nodeset_has(&s->attached, me))
		return MRAPI_ERR_SHM_ATTACHED;
	if (!may_share(s, me))
		return MRAPI_ERR_SHM_NODE_NOTSHARED;
	m = map(s);
	if (!m)
		return MRAPI_ERR_MEM_LIMIT;
	tw_mrapi_nodeset_add(&s->attached, me);
	*address = m->address;
	return MRAPI_SUCCESS;
}

static mrapi_status_t shmem_detach(struct tw_mrapi_shmem *s, uint32_t me, void **unused)
{
	(void)unused;
	if (!tw_mrapi_nodeset_has(&s->attached, me))
		return MRAPI_ERR_SHM_NOTATTACHED;
	tw_mrapi_nodeset_del(&s->attached, me);
	if (!tw_mrapi_any_here(&s->attached, 0))
		end_mapping(&mappings[s - tw_mrapi.seg->shmem]);
	return MRAPI_SUCCESS;
}

/* Under both locks, finds the memory and what the caller's node has of it. */
static mrapi_status_t under_both(mrapi_status_t (*fn)(struct tw_mrapi_shmem *s, uint32_t me,
						      void **address),
				 mrapi_shmem_hndl_t shmem, void **address)
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_obj *o;
	mrapi_status_t status;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	tw_mrapi_lock(&mutex);
	tw_mrapi_admin_lock();
	status = tw_mrapi_obj_find(tw_mrapi_me() == me ? me : 0, TW_MRAPI_SHMEM, shmem, &o);
	if (status == MRAPI_SUCCESS)
		status = fn(shmem_of(o), me, address);
	tw_mrapi_admin_unlock();
	tw_mrapi_unlock(&mutex);
	return status;
}

void *mrapi_shmem_attach(mrapi_shmem_hndl_t shmem, mrapi_status_t *status)
{
	void *address = NULL;

	tw_mrapi_set_status(status, under_both(shmem_attach, shmem, &address));
	return address;
}

void mrapi_shmem_detach(mrapi_shmem_hndl_t shmem, mrapi_status_t *status)
{
	tw_mrapi_set_status(status, under_both(shmem_detach, shmem, NULL));
}

/* Remote memory made of it counts as attached. */
static bool promoted(const struct tw_mrapi_shmem *s)
{
	tw_mrapi_each_rmem(r)
		if (atomic_load(&r->obj.handle) && r->offset - s->offset < s->span)
			return true;
	return false;
}

static mrapi_status_t shmem_end(struct tw_mrapi_obj *o, uint32_t me)
{
	struct tw_mrapi_shmem *s = shmem_of(o);

	(void)me;
	if (!tw_mrapi_nodeset_empty(&s->attached) || promoted(s))
		return MRAPI_ERR_SHM_ATTACH;
	tw_mrapi_table_free(TW_MRAPI_SHMEM, o);
	return MRAPI_SUCCESS;
}

static void shmem_drop(struct tw_mrapi_obj *o, uint32_t me)
{
	tw_mrapi_nodeset_del(&shmem_of(o)->attached, me);
}

const struct tw_mrapi_ops tw_mrapi_shmem_ops = {.end = shmem_end, .drop = shmem_drop};
