/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI 4.6: metadata. */
#include <sched.h>
#include <string.h>

#include "base/sys.h"
#include "base/thread.h"
#include "mrapi/meta/rsrc.h"

static struct tw_list trees = {&trees, &trees};

/* The tree and the facts of a resource; NULL if it is in no tree. */
static struct tw_mrapi_tree *find_tree(const mrapi_resource_t *r, struct tw_mrapi_rsrc **facts)
{
	tw_list_walk(&trees, struct tw_mrapi_tree, t, link) {
		uintptr_t into = (uintptr_t)r - (uintptr_t)t->rsrc;

		if (into < t->n * sizeof(*t->rsrc) && into % sizeof(*t->rsrc) == 0) {
			*facts = &t->rsrc[into / sizeof(*t->rsrc)];
			return t;
		}
	}
	return NULL;
}

static bool known_filter(mrapi_rsrc_filter_t f)
{
	return f == MRAPI_RSRC_NONE || f == MRAPI_RSRC_MEM || f == MRAPI_RSRC_CACHE ||
	       f == MRAPI_RSRC_CPU || f == MRAPI_RSRC_DMA || f == MRAPI_RSRC_CROSSBAR ||
	       f == MRAPI_RSRC_EXECUTION_CONTEXT;
}

/* Resources outside the caller's partition are not listed. */
static void restrict_to_partition(hwloc_topology_t topology)
{
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	if (set && hwloc_topology_is_thissystem(topology) &&
	    hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_THREAD) == 0)
		hwloc_topology_restrict(topology, set, 0);
	hwloc_bitmap_free(set);
}

extern char **__environ; /* programs may define environ, which is all that musl declares */

/*
 * hwloc loads plugins from where HWLOC_PLUGINS_PATH says, in a privileged program, too. The C
 * library removes the like from the environment before such a program begins.
 */
static __attribute__((constructor)) void rsrc_forget_variables(void)
{
	static const char prefix[] = "HWLOC_";
	char **kept = __environ;

	if (!tw_sys_privileged() || !kept)
		return;
	for (char **v = __environ; *v; v++)
		if (strncmp(*v, prefix, strlen(prefix)) != 0)
			*kept++ = *v;
	*kept = NULL;
}

static struct tw_mrapi_tree *make_tree(mrapi_rsrc_filter_t filter)
{
	struct tw_mrapi_tree *t = NULL;
	hwloc_topology_t topology;
	int cpu = sched_getcpu();
	TW_NOT_CANCELLED;

	if (hwloc_topology_init(&topology) < 0)
		return NULL;
	if (hwloc_topology_load(topology) == 0) {
		restrict_to_partition(topology);
		t = tw_mrapi_tree_build(topology, filter, cpu < 0 ? 0 : (unsigned)cpu);
	}
	hwloc_topology_destroy(topology);
	return t;
}

/* Not after the trees of the node have been freed. Under the mutex. */
static mrapi_status_t rsrc_keep(struct tw_mrapi_tree *t)
{
	if (tw_mrapi_me() != t->me) {
		tw_mrapi_tree_free(t);
		return MRAPI_ERR_NODE_NOTINIT;
	}
	tw_list_add_tail(&trees, &t->link);
	return MRAPI_SUCCESS;
}

mrapi_resource_t *mrapi_resources_get(mrapi_rsrc_filter_t subsystem_filter, mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();
	mrapi_status_t result = MRAPI_SUCCESS;
	struct tw_mrapi_tree *t = NULL;

	if (!me)
		result = MRAPI_ERR_NODE_NOTINIT;
	else if (!known_filter(subsystem_filter))
		result = MRAPI_ERR_RSRC_INVALID_SUBSYSTEM;
	else if (!(t = make_tree(subsystem_filter)))
		result = MRAPI_ERR_MEM_LIMIT;
	if (t) {
		t->me = me;
		result = tw_mrapi_locked(&tw_mrapi_meta_mutex, rsrc_keep(t));
	}
	tw_mrapi_set_status(status, result);
	return result == MRAPI_SUCCESS ? &t->rsrc[0].shown : NULL;
}

/* The size of an attribute; 0 if resources of that type do not have it. */
static size_t attribute_size_of(mrapi_rsrc_type_t type, mrapi_uint_t num)
{
	if (type == MRAPI_RSRC_MEM && num <= MRAPI_RSRC_MEM_ALLOCATIONS)
		return num == MRAPI_RSRC_MEM_BASEADDR ? sizeof(mrapi_addr_t) : sizeof(mrapi_uint_t);
	if (type == MRAPI_RSRC_CACHE && num <= MRAPI_RSRC_CACHE_LEVEL)
		return sizeof(mrapi_uint_t);
	if (type == MRAPI_RSRC_CPU && num <= MRAPI_RSRC_CPU_BUSY)
		return num == MRAPI_RSRC_CPU_TYPE ? sizeof(char *) : sizeof(mrapi_uint_t);
	return 0;
}

/* Under the mutex. */
static mrapi_status_t rsrc_get_attribute(const mrapi_resource_t *r, mrapi_uint_t num,
					 void *attribute, size_t size)
{
	struct tw_mrapi_rsrc *f;
	struct tw_mrapi_tree *t = find_tree(r, &f);
	mrapi_status_t status = MRAPI_SUCCESS;
	mrapi_uint_t value;
	char *text;

	if (!t)
		return MRAPI_ERR_RSRC_INVALID;
	if (!attribute_size_of(f->type, num))
		return MRAPI_ERR_ATTR_NUM;
	if (!attribute)
		return MRAPI_ERR_PARAMETER;
	if (attribute_size_of(f->type, num) != size)
		return MRAPI_ERR_ATTR_SIZE;
	if (f->type == MRAPI_RSRC_CPU && num == MRAPI_RSRC_CPU_TYPE) {
		text = t->cpu_type;
		memcpy(attribute, &text, size);
		return status;
	}
	if (size == sizeof(mrapi_addr_t)) {
		memcpy(attribute, &f->value[num], size);
		return status;
	}
	value = (mrapi_uint_t)f->value[num];
	if (tw_mrapi_attr_dynamic(f->type, num))
		status = tw_mrapi_counter_read(f, num, tw_mrapi_me(), &value);
	if (status == MRAPI_SUCCESS)
		memcpy(attribute, &value, size);
	return status;
}

void mrapi_resource_get_attribute(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				  void *attribute, size_t attribute_size, mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    tw_mrapi_me()
				    ? tw_mrapi_locked(&tw_mrapi_meta_mutex,
						      rsrc_get_attribute(resource, attribute_num,
									 attribute, attribute_size))
				    : MRAPI_ERR_NODE_NOTINIT);
}

/* The facts of a resource with a dynamic attribute, or the error. */
static mrapi_status_t dynamic(const mrapi_resource_t *r, mrapi_uint_t num, struct tw_mrapi_rsrc **f)
{
	if (!find_tree(r, f))
		return MRAPI_ERR_RSRC_INVALID;
	if (!attribute_size_of((*f)->type, num))
		return MRAPI_ERR_ATTR_NUM;
	return tw_mrapi_attr_dynamic((*f)->type, num) ? MRAPI_SUCCESS : MRAPI_ERR_RSRC_NOTDYNAMIC;
}

typedef mrapi_status_t change_fn(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				 void (*rollover)(void));

static mrapi_status_t rsrc_change(const mrapi_resource_t *resource, mrapi_uint_t num, change_fn *fn,
				  void (*rollover)(void))
{
	uint32_t me = tw_mrapi_me();
	struct tw_mrapi_rsrc *f;
	mrapi_status_t status;

	if (!me)
		return MRAPI_ERR_NODE_NOTINIT;
	tw_mrapi_lock(&tw_mrapi_meta_mutex);
	if (tw_mrapi_me() != me)
		status = MRAPI_ERR_NODE_NOTINIT;
	else if (rollover && !tw_mrapi_events_watch())
		status = MRAPI_ERR_MEM_LIMIT;
	else
		status = dynamic(resource, num, &f);
	if (status == MRAPI_SUCCESS)
		status = fn(f, num, me, rollover);
	tw_mrapi_unlock(&tw_mrapi_meta_mutex);
	if (status == MRAPI_SUCCESS && rollover)
		tw_mrapi_events_wake();
	return status;
}

void mrapi_dynamic_attribute_start(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				   void (*rollover_callback)(void), mrapi_status_t *status)
{
	tw_mrapi_set_status(status, rsrc_change(resource, attribute_num, tw_mrapi_counter_start,
						rollover_callback));
}

void mrapi_dynamic_attribute_reset(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				   mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    rsrc_change(resource, attribute_num, tw_mrapi_counter_reset, NULL));
}

void mrapi_dynamic_attribute_stop(const mrapi_resource_t *resource, mrapi_uint_t attribute_num,
				  mrapi_status_t *status)
{
	tw_mrapi_set_status(status,
			    rsrc_change(resource, attribute_num, tw_mrapi_counter_stop, NULL));
}

/* Under the mutex. */
static mrapi_status_t free_tree(mrapi_resource_t **root, uint32_t me)
{
	struct tw_mrapi_rsrc *f;
	struct tw_mrapi_tree *t = root && *root ? find_tree(*root, &f) : NULL;

	if (!t || *root != &t->rsrc[0].shown)
		return MRAPI_ERR_RSRC_INVALID_TREE;
	if (t->me != me)
		return MRAPI_ERR_RSRC_NOTOWNER;
	tw_list_del(&t->link);
	tw_mrapi_tree_free(t);
	*root = NULL;
	return MRAPI_SUCCESS;
}

void mrapi_resource_tree_free(mrapi_resource_t **root, mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();

	tw_mrapi_set_status(status, me ? tw_mrapi_locked(&tw_mrapi_meta_mutex, free_tree(root, me))
				       : MRAPI_ERR_NODE_NOTINIT);
}

void tw_mrapi_trees_end(uint32_t me)
{
	tw_list_walk(&trees, struct tw_mrapi_tree, t, link) {
		if (me && t->me != me)
			continue;
		tw_list_del(&t->link);
		tw_mrapi_tree_free(t);
	}
}
