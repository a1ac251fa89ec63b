/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a resource tree (MRAPI 3.6.1) from hwloc's topology. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "mrapi/meta/rsrc.h"

struct builder {
	struct tw_mrapi_tree *t;
	unsigned room;
	mrapi_rsrc_filter_t filter;
	bool here, failed;
	uint64_t next_base; /* address of the next memory */
};

static mrapi_rsrc_type_t type_of(hwloc_obj_t o)
{
	if (hwloc_obj_type_is_cache(o->type) || o->type == HWLOC_OBJ_MEMCACHE)
		return MRAPI_RSRC_CACHE;
	if (o->type == HWLOC_OBJ_PU)
		return MRAPI_RSRC_CPU;
	if (o->type == HWLOC_OBJ_NUMANODE)
		return MRAPI_RSRC_MEM;
	return o->type == HWLOC_OBJ_MACHINE ? MRAPI_RSRC_SYSTEM : MRAPI_RSRC_GROUP;
}

static bool tree_grow(struct builder *b)
{
	unsigned room = b->room ? 2 * b->room : 64;
	struct tw_mrapi_rsrc *rsrc = realloc(b->t->rsrc, room * sizeof(*rsrc));

	b->failed |= !rsrc;
	if (b->failed)
		return false;
	b->t->rsrc = rsrc;
	b->room = room;
	return true;
}

/* Adds an item; its number. */
static unsigned tree_add(struct builder *b, unsigned parent, mrapi_rsrc_type_t type, unsigned index,
			 const char *name)
{
	struct tw_mrapi_rsrc *r;

	if (b->failed || (b->t->n == b->room && !tree_grow(b)))
		return 0;
	r = &b->t->rsrc[b->t->n];
	*r = (struct tw_mrapi_rsrc){
		.type = type, .index = index, .here = b->here, .parent = parent};
	snprintf(r->shown.name, sizeof(r->shown.name), "%s", name);
	r->shown.resource_type = type;
	r->shown.opaque[TW_MRAPI_RSRC_INDEX] = index;
	r->shown.opaque[TW_MRAPI_RSRC_HERE] = b->here;
	return b->t->n++;
}

/* ------------------------------------------------------------------- values */

/* The lowest physical address of a NUMA node: its first block in the kernel's list. */
static bool physical_base(unsigned node, uint64_t *base)
{
	char path[64], text[32];
	uint64_t lowest = UINT64_MAX, size;
	struct dirent *e;
	DIR *d;

	if (!tw_file_line("/sys/devices/system/memory/block_size_bytes", "", text, sizeof(text)))
		return false;
	size = strtoull(text, NULL, 16);
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u", node);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		unsigned block;

		if (sscanf(e->d_name, "memory%u", &block) == 1)
			lowest = tw_min(lowest, (uint64_t)block);
	}
	if (d)
		closedir(d);
	*base = lowest * size;
	return lowest != UINT64_MAX;
}

/* Memory size in words of 8 bytes, or larger ones if the number would not fit. */
static void memory_facts(struct builder *b, struct tw_mrapi_rsrc *f, hwloc_obj_t o)
{
	uint64_t bytes = o->attr->numanode.local_memory, word = 8, base;

	while (bytes / word > UINT32_MAX)
		word *= 2;
	if (!b->here || !physical_base(f->index, &base))
		base = b->next_base;
	b->next_base = base + bytes;
	f->value[MRAPI_RSRC_MEM_BASEADDR] = base;
	f->value[MRAPI_RSRC_MEM_WORDSIZE] = word;
	f->value[MRAPI_RSRC_MEM_NUMWORDS] = bytes / word;
}

static void cache_facts(struct tw_mrapi_rsrc *f, hwloc_obj_t o)
{
	f->value[MRAPI_RSRC_CACHE_SIZE] = tw_min(o->attr->cache.size, (uint64_t)UINT32_MAX);
	f->value[MRAPI_RSRC_CACHE_LINE_SIZE] = o->attr->cache.linesize;
	f->value[MRAPI_RSRC_CACHE_ASSOCIATIVITY] = (uint32_t)o->attr->cache.associativity;
	f->value[MRAPI_RSRC_CACHE_LEVEL] = o->attr->cache.depth;
	f->last_level = true;
	for (hwloc_obj_t above = o->parent; above; above = above->parent)
		if (hwloc_obj_type_is_cache(above->type))
			f->last_level = false;
}

static uint64_t frequency_mhz(unsigned cpu)
{
	char path[96], text[64];
	uint64_t khz;
	double mhz;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
	if (tw_file_number(path, "", &khz))
		return khz / 1000;
	if (!tw_file_line("/proc/cpuinfo", "cpu MHz", text, sizeof(text)) ||
	    sscanf(text, " : %lf", &mhz) != 1)
		return 0;
	return (uint64_t)(mhz + 0.5);
}

static unsigned add_object(struct builder *b, unsigned parent, hwloc_obj_t o)
{
	mrapi_rsrc_type_t type = type_of(o);
	bool numbered = type == MRAPI_RSRC_CPU || type == MRAPI_RSRC_MEM;
	unsigned index = numbered ? o->os_index : o->logical_index, i;
	char kind[32], name[64];

	hwloc_obj_type_snprintf(kind, sizeof(kind), o, 0);
	snprintf(name, sizeof(name), "%s %u",
		 type == MRAPI_RSRC_CPU	  ? "CPU"
		 : type == MRAPI_RSRC_MEM ? "Memory"
					  : kind,
		 index);
	i = tree_add(b, parent, type, index, name);
	if (b->failed)
		return 0;
	if (type == MRAPI_RSRC_MEM)
		memory_facts(b, &b->t->rsrc[i], o);
	if (type == MRAPI_RSRC_CACHE)
		cache_facts(&b->t->rsrc[i], o);
	if (type == MRAPI_RSRC_CPU) {
		b->t->rsrc[i].value[MRAPI_RSRC_CPU_FREQUENCY] = b->here ? frequency_mhz(index) : 0;
		b->t->rsrc[i].value[MRAPI_RSRC_CPU_ID] = index;
	}
	return i;
}

/* -------------------------------------------------------------------- shape */

static void walk(struct builder *b, unsigned parent, hwloc_obj_t o)
{
	bool wanted =
		o->type != HWLOC_OBJ_MACHINE &&
		(b->filter == MRAPI_RSRC_NONE || (mrapi_rsrc_filter_t)type_of(o) == b->filter);
	unsigned i = wanted ? add_object(b, parent, o) : parent;

	for (hwloc_obj_t c = o->memory_first_child; c && !b->failed; c = c->next_sibling)
		walk(b, i, c);
	for (hwloc_obj_t c = o->first_child; c && !b->failed; c = c->next_sibling)
		walk(b, i, c);
}

/* The channels of DMA engines that the kernel lists. */
static void add_dma(struct builder *b)
{
	DIR *d = b->here ? opendir("/sys/class/dma") : NULL;
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			tree_add(b, 0, MRAPI_RSRC_DMA, n++, e->d_name);
	if (d)
		closedir(d);
}

/* The processor that the caller runs on. */
static void add_context(struct builder *b, hwloc_topology_t topology, unsigned cpu)
{
	hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, cpu);

	if (!pu)
		pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, 0);
	if (pu)
		add_object(b, 0, pu);
}

/* The arrays of children, in one block. */
static bool link_children(struct builder *b)
{
	struct tw_mrapi_tree *t = b->t;
	mrapi_resource_t **next;

	t->kids = calloc(t->n, sizeof(*t->kids));
	if (!t->kids)
		return false;
	next = t->kids;
	for (unsigned i = 1; i < t->n; i++)
		t->rsrc[t->rsrc[i].parent].shown.child_count++;
	for (unsigned i = 0; i < t->n; i++) {
		mrapi_resource_t *r = &t->rsrc[i].shown;

		r->opaque[TW_MRAPI_RSRC_TREE] = (uintptr_t)t;
		r->children = r->child_count ? next : NULL;
		next += r->child_count;
		r->child_count = 0;
	}
	for (unsigned i = 1; i < t->n; i++) {
		mrapi_resource_t *p = &t->rsrc[t->rsrc[i].parent].shown;

		p->children[p->child_count++] = &t->rsrc[i].shown;
	}
	return true;
}

static void find_cpu_type(struct tw_mrapi_tree *t, hwloc_topology_t topology)
{
	hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
	const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

	if (!model)
		model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
	if (!model)
		model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "Architecture");
	snprintf(t->cpu_type, sizeof(t->cpu_type), "%s", model ? model : "unknown");
}

struct tw_mrapi_tree *tw_mrapi_tree_build(hwloc_topology_t topology, mrapi_rsrc_filter_t filter,
					  unsigned cpu)
{
	struct builder b = {.filter = filter, .here = hwloc_topology_is_thissystem(topology)};

	b.t = calloc(1, sizeof(*b.t));
	if (!b.t)
		return NULL;
	tw_list_init(&b.t->link);
	tree_add(&b, 0, MRAPI_RSRC_SYSTEM, 0, "System");
	if (filter == MRAPI_RSRC_EXECUTION_CONTEXT)
		add_context(&b, topology, cpu);
	else if (filter != MRAPI_RSRC_DMA)
		walk(&b, 0, hwloc_get_root_obj(topology));
	if (filter == MRAPI_RSRC_DMA || filter == MRAPI_RSRC_NONE)
		add_dma(&b);
	if (b.failed || !link_children(&b)) {
		tw_mrapi_tree_free(b.t);
		b.t = NULL;
	} else {
		find_cpu_type(b.t, topology);
	}
	return b.t;
}

void tw_mrapi_tree_free(struct tw_mrapi_tree *t)
{
	free(t->rsrc);
	free(t->kids);
	free(t);
}
