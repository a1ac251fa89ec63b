/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 4.6.1, 4.6.2, 4.6.7 and the figures of 6.6.2: trees of resources, on machines
 * that hwloc makes up (HWLOC_SYNTHETIC) and on this one.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_resource, .init = twc_job, .timeout = MR_TIMEOUT);

/* Eight processors in two packages, each with a memory. */
#define MACHINE                                                                                    \
	"pack:2 [numa(memory=1GB)] l3:1(size=8MB) core:2 l2:1(size=262144) "                       \
	"l1d:1(size=32768) pu:2"
/* 6.6.2, figure 3: two processors, two memories. */
#define FIGURE "[numa(memory=1GB)] [numa(memory=2GB)] pu:2"

static mrapi_resource_t *tree_of(mrapi_rsrc_filter_t filter)
{
	mrapi_resource_t *root = mr_val(mrapi_resources_get(filter, &mr_st));

	twc_check(root);
	twc_eq(root->resource_type, MRAPI_RSRC_SYSTEM);
	return root;
}

static void release(mrapi_resource_t *root)
{
	mr_ok(mrapi_resource_tree_free(&root, &mr_st));
	twc_check(!root);
}

/* How many of a type there are below; all of a tree is well made. */
static unsigned count(const mrapi_resource_t *r, mrapi_rsrc_type_t type)
{
	unsigned n = 0;

	twc_check(memchr(r->name, '\0', sizeof(r->name)) && r->name[0]);
	twc_eq(r->child_count, r->number_of_children);
	twc_eq(r->child_count && !r->children, 0);
	for (mrapi_uint_t i = 0; i < r->child_count; i++)
		n += (r->children[i]->resource_type == type) + count(r->children[i], type);
	return n;
}

static const mrapi_rsrc_type_t all_types[] = {MRAPI_RSRC_MEM, MRAPI_RSRC_CACHE,
					      MRAPI_RSRC_CPU, MRAPI_RSRC_DMA,
					      MRAPI_RSRC_CROSSBAR, MRAPI_RSRC_SYSTEM,
					      MRAPI_RSRC_GROUP};

static unsigned total(const mrapi_resource_t *r)
{
	unsigned n = 0;

	for (int i = 0; i < 7; i++)
		n += count(r, all_types[i]);
	return n;
}

/* The n-th of a type, in the order of the tree. */
static const mrapi_resource_t *find(const mrapi_resource_t *r, mrapi_rsrc_type_t type, unsigned *n)
{
	const mrapi_resource_t *found = NULL;

	for (mrapi_uint_t i = 0; !found && i < r->child_count; i++) {
		if (r->children[i]->resource_type == type && (*n)-- == 0)
			return r->children[i];
		found = find(r->children[i], type, n);
	}
	return found;
}

static const mrapi_resource_t *nth(const mrapi_resource_t *r, mrapi_rsrc_type_t type, unsigned n)
{
	const mrapi_resource_t *found = find(r, type, &n);

	twc_check(found);
	return found;
}

static mrapi_uint_t value(const mrapi_resource_t *r, mrapi_uint_t num)
{
	mrapi_uint_t v = 0xeeeeeeee;

	mr_ok(mrapi_resource_get_attribute(r, num, &v, sizeof(v), &mr_st));
	return v;
}

static void machine(const char *synthetic)
{
	setenv("HWLOC_SYNTHETIC", synthetic, 1);
	mr_up(MR_NODE);
}

Test(mrapi_resource, filters)
{
	static const struct {
		mrapi_rsrc_filter_t filter;
		unsigned cpus, caches, memories;
	} filters[] = {{MRAPI_RSRC_CPU, 8, 0, 0},
		       {MRAPI_RSRC_CACHE, 0, 10, 0},
		       {MRAPI_RSRC_MEM, 0, 0, 2},
		       {MRAPI_RSRC_CROSSBAR, 0, 0, 0}};
	mrapi_resource_t *root;

	machine(MACHINE);
	for (int i = 0; i < 4; i++) {
		root = tree_of(filters[i].filter);
		twc_eq(count(root, MRAPI_RSRC_CPU), filters[i].cpus);
		twc_eq(count(root, MRAPI_RSRC_CACHE), filters[i].caches);
		twc_eq(count(root, MRAPI_RSRC_MEM), filters[i].memories);
		/* And nothing else. */
		twc_eq(total(root), filters[i].cpus + filters[i].caches + filters[i].memories);
		release(root);
	}
	root = tree_of(MRAPI_RSRC_ALL);
	twc_eq(count(root, MRAPI_RSRC_CPU), 8);
	twc_eq(count(root, MRAPI_RSRC_CACHE), 10);
	twc_eq(count(root, MRAPI_RSRC_MEM), 2);
	twc_check(count(root, MRAPI_RSRC_GROUP) >= 6);
	twc_eq(count(root, MRAPI_RSRC_SYSTEM), 0);
	release(root);
	root = tree_of(MRAPI_RSRC_DMA);
	twc_eq(total(root), count(root, MRAPI_RSRC_DMA));
	release(root);
	mr_down();
}

Test(mrapi_resource, invalid_filters)
{
	static const int bad[] = {-1, MRAPI_RSRC_SYSTEM, MRAPI_RSRC_GROUP, 9, 77};

	machine(MACHINE);
	twc_eq(MRAPI_RSRC_NONE, MRAPI_RSRC_ALL);
	for (int i = 0; i < 5; i++)
		twc_check(!mr_get(MRAPI_ERR_RSRC_INVALID_SUBSYSTEM,
				  mrapi_resources_get((mrapi_rsrc_filter_t)bad[i], &mr_st)));
	mr_down();
}

/* A package holds its cores' processors, its memory and its caches, and no others'. */
Test(mrapi_resource, hierarchy)
{
	mrapi_resource_t *root;

	machine(MACHINE);
	root = tree_of(MRAPI_RSRC_ALL);
	twc_eq(root->child_count, 2);
	for (mrapi_uint_t i = 0; i < 2; i++) {
		const mrapi_resource_t *package = root->children[i];

		twc_eq(package->resource_type, MRAPI_RSRC_GROUP);
		twc_eq(count(package, MRAPI_RSRC_CPU), 4);
		twc_eq(count(package, MRAPI_RSRC_CACHE), 5);
		twc_eq(count(package, MRAPI_RSRC_MEM), 1);
		for (unsigned n = 0; n < 4; n++)
			twc_eq(value(nth(package, MRAPI_RSRC_CPU, n), MRAPI_RSRC_CPU_ID), 4 * i + n);
	}
	release(root);
	mr_down();
}

/* ---- 4.6.2 Attributes */

Test(mrapi_resource, memory)
{
	mrapi_addr_t base[2], size[2];
	mrapi_resource_t *root;

	machine("[numa(memory=1073741824)] [numa(memory=68719476736)] pu:2");
	root = tree_of(MRAPI_RSRC_MEM);
	twc_eq(root->child_count, 2);
	for (int i = 0; i < 2; i++) {
		const mrapi_resource_t *m = root->children[i];

		mr_ok(mrapi_resource_get_attribute(m, MRAPI_RSRC_MEM_BASEADDR, &base[i],
						   sizeof(base[i]), &mr_st));
		size[i] = (mrapi_addr_t)value(m, MRAPI_RSRC_MEM_WORDSIZE) *
			  value(m, MRAPI_RSRC_MEM_NUMWORDS);
	}
	twc_eq(size[0], 1ull << 30);
	twc_eq(size[1], 1ull << 36);
	twc_check(base[0] + size[0] <= base[1] || base[1] + size[1] <= base[0]);
	release(root);
	mr_down();
}

Test(mrapi_resource, caches)
{
	static const mrapi_uint_t size[] = {0, 32768, 262144, 8000000};
	unsigned seen[4] = {0};
	mrapi_resource_t *root;

	machine(MACHINE);
	root = tree_of(MRAPI_RSRC_CACHE);
	for (unsigned n = 0; n < 10; n++) {
		const mrapi_resource_t *c = nth(root, MRAPI_RSRC_CACHE, n);
		mrapi_uint_t level = value(c, MRAPI_RSRC_CACHE_LEVEL);

		twc_check(level >= 1 && level <= 3);
		seen[level]++;
		twc_eq(value(c, MRAPI_RSRC_CACHE_SIZE), size[level]);
		twc_eq(value(c, MRAPI_RSRC_CACHE_LINE_SIZE), 64);
		value(c, MRAPI_RSRC_CACHE_ASSOCIATIVITY);
	}
	twc_eq(seen[1], 4);
	twc_eq(seen[2], 4);
	twc_eq(seen[3], 2);
	/* 6.6.1: the L3 cache is children[0]. */
	twc_eq(value(root->children[0], MRAPI_RSRC_CACHE_LEVEL), 3);
	release(root);
	mr_down();
}

Test(mrapi_resource, cpus)
{
	mrapi_resource_t *root;

	machine(MACHINE);
	root = tree_of(MRAPI_RSRC_CPU);
	twc_eq(root->child_count, 8);
	for (mrapi_uint_t n = 0; n < 8; n++) {
		const mrapi_resource_t *c = root->children[n];
		char *type = NULL;

		twc_eq(value(c, MRAPI_RSRC_CPU_ID), n);
		value(c, MRAPI_RSRC_CPU_FREQUENCY);
		mr_ok(mrapi_resource_get_attribute(c, MRAPI_RSRC_CPU_TYPE, &type, sizeof(type),
						   &mr_st));
		twc_check(type && *type);
	}
	release(root);
	mr_down();
}

Test(mrapi_resource, attribute_errors)
{
	static const mrapi_rsrc_type_t types[] = {MRAPI_RSRC_MEM, MRAPI_RSRC_CACHE, MRAPI_RSRC_CPU};
	mrapi_resource_t *root, none;
	union {
		mrapi_uint_t u;
		mrapi_addr_t a;
		char bytes[64];
	} v;

	machine(MACHINE);
	root = tree_of(MRAPI_RSRC_ALL);
	for (int i = 0; i < 3; i++) {
		const mrapi_resource_t *r = nth(root, types[i], 0);

		mr_is(MRAPI_ERR_ATTR_NUM,
		      mrapi_resource_get_attribute(r, MR_NO_ATTR, &v, 4, &mr_st));
		mr_is(MRAPI_ERR_ATTR_NUM, mrapi_resource_get_attribute(r, ~0u, &v, 4, &mr_st));
		mr_is(MRAPI_ERR_ATTR_SIZE, mrapi_resource_get_attribute(r, 1, &v, 3, &mr_st));
		mr_is(MRAPI_ERR_ATTR_SIZE, mrapi_resource_get_attribute(r, 0, &v, 0, &mr_st));
		mr_is(MRAPI_ERR_ATTR_SIZE, mrapi_resource_get_attribute(r, 0, &v, 64, &mr_st));
		mr_is(MRAPI_ERR_PARAMETER, mrapi_resource_get_attribute(r, 0, NULL, 4, &mr_st));
	}
	/* Those that have no attributes. */
	mr_is(MRAPI_ERR_ATTR_NUM, mrapi_resource_get_attribute(root, 0, &v, 4, &mr_st));
	mr_is(MRAPI_ERR_ATTR_NUM,
	      mrapi_resource_get_attribute(nth(root, MRAPI_RSRC_GROUP, 0), 0, &v, 4, &mr_st));
	/* No resources. */
	memset(&none, 0, sizeof(none));
	none.resource_type = MRAPI_RSRC_CPU;
	mr_is(MRAPI_ERR_RSRC_INVALID, mrapi_resource_get_attribute(NULL, 0, &v, 4, &mr_st));
	mr_is(MRAPI_ERR_RSRC_INVALID, mrapi_resource_get_attribute(&none, 0, &v, 4, &mr_st));
	release(root);
	mr_down();
}

/* ---- 4.6.7 */

struct tree {
	mrapi_resource_t *root;
	mrapi_status_t status;
};

static void free_there(void *arg)
{
	struct tree *t = arg;

	mr_st = -1;
	mrapi_resource_tree_free(&t->root, &mr_st);
	t->status = mr_st;
}

Test(mrapi_resource, tree_free)
{
	struct tree *t = mr_shared(sizeof(*t));
	mrapi_resource_t *none = NULL, *child, *kept, fake;
	const mrapi_resource_t *cpu;
	struct mr_peer p;
	mrapi_uint_t v;

	machine(MACHINE);
	mr_peer(&p, MR_THREAD, 1);
	t->root = kept = tree_of(MRAPI_RSRC_ALL);
	memset(&fake, 0, sizeof(fake));
	mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(NULL, &mr_st));
	mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&none, &mr_st));
	none = &fake;
	mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&none, &mr_st));
	twc_check(none == &fake);
	child = t->root->children[0];
	mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&child, &mr_st));
	/* Another node may read it and not free it. */
	mr_do(&p, free_there, t);
	mr_eq(t->status, MRAPI_ERR_RSRC_NOTOWNER);
	twc_check(t->root == kept);
	cpu = nth(t->root, MRAPI_RSRC_CPU, 0);
	value(cpu, MRAPI_RSRC_CPU_ID);
	release(t->root);
	mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&kept, &mr_st));
	mr_is(MRAPI_ERR_RSRC_INVALID,
	      mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_ID, &v, sizeof(v), &mr_st));
	mr_peer_end(&p);
	mr_down();
}

static void not_owner(void *arg)
{
	mrapi_resource_t *root = *(mrapi_resource_t **)arg;

	mr_is(MRAPI_ERR_RSRC_NOTOWNER, mrapi_resource_tree_free(&root, &mr_st));
}

Test(mrapi_resource, not_owner)
{
	mrapi_resource_t **root = mr_shared(sizeof(*root));
	struct mr_peer p;

	machine(MACHINE);
	mr_peer(&p, MR_THREAD, 1);
	*root = tree_of(MRAPI_RSRC_CPU);
	mr_do(&p, not_owner, root);
	release(*root);
	mr_peer_end(&p);
	mr_down();
}

/* Many trees, freed in any order; a tree ends with its node. */
Test(mrapi_resource, many_trees)
{
	mrapi_resource_t *root[40];

	machine(MACHINE);
	for (int i = 0; i < 40; i++)
		root[i] = tree_of(i % 2 ? MRAPI_RSRC_ALL : MRAPI_RSRC_CPU);
	for (int i = 0; i < 40; i += 2)
		release(root[39 - i]);
	for (int i = 0; i < 40; i += 2)
		twc_eq(count(root[i], MRAPI_RSRC_CPU), 8);
	mr_down();
	mr_up(MR_NODE);
	for (int i = 0; i < 40; i++)
		mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&root[i], &mr_st));
	mr_down();
}

Test(mrapi_resource, large_machine)
{
	mrapi_resource_t *root;

	machine("pack:8 [numa(memory=1GB)] l3:2 core:16 l1d:1 pu:4");
	root = tree_of(MRAPI_RSRC_ALL);
	twc_eq(count(root, MRAPI_RSRC_CPU), 1024);
	twc_eq(count(root, MRAPI_RSRC_CACHE), 8 * 2 + 256);
	twc_eq(count(root, MRAPI_RSRC_MEM), 8);
	release(root);
	mr_down();
}

/* This machine: what it has, its values in sane bounds. */
Test(mrapi_resource, this_machine)
{
	mrapi_resource_t *root;
	unsigned cpus;

	unsetenv("HWLOC_SYNTHETIC");
	mr_up(MR_NODE);
	root = tree_of(MRAPI_RSRC_ALL);
	cpus = count(root, MRAPI_RSRC_CPU);
	twc_check(cpus >= 1);
	twc_check(count(root, MRAPI_RSRC_MEM) >= 1);
	for (unsigned n = 0; n < cpus; n++)
		twc_check(value(nth(root, MRAPI_RSRC_CPU, n), MRAPI_RSRC_CPU_FREQUENCY) < 20000);
	release(root);
	mr_down();
}

/* ---- 6.6.2 */

/* A processor that this process may run on, alone from now on. */
static int bind_to_one(void)
{
	cpu_set_t set;
	int cpu = 0;

	twc_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	twc_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	return cpu;
}

/* Figures 5 and 6, no partitions, all: both processors and both memories. */
Test(mrapi_resource, figures_5_and_6)
{
	mrapi_resource_t *root;

	machine(FIGURE);
	root = tree_of(MRAPI_RSRC_ALL);
	twc_eq(count(root, MRAPI_RSRC_CPU), 2);
	twc_eq(count(root, MRAPI_RSRC_MEM), 2);
	twc_eq(value(nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), 0);
	twc_eq(value(nth(root, MRAPI_RSRC_CPU, 1), MRAPI_RSRC_CPU_ID), 1);
	release(root);
	mr_down();
}

/* Figures 7 and 8, partitions: one's own processor alone, and both memories. */
Test(mrapi_resource, figures_7_and_8)
{
	int cpu = bind_to_one();
	mrapi_resource_t *root;
	char text[100];

	/* A machine that has this processor and one more. */
	snprintf(text, sizeof(text), "[numa(memory=1GB)] [numa(memory=2GB)] pu:%d", cpu + 2);
	setenv("HWLOC_THISSYSTEM", "1", 1);
	machine(text);
	root = tree_of(MRAPI_NONE);
	twc_eq(count(root, MRAPI_RSRC_CPU), 1);
	twc_eq(count(root, MRAPI_RSRC_MEM), 2);
	twc_eq(value(nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), cpu);
	release(root);
	mr_down();
}

/* Figure 9, execution context: the processor that the caller runs on. */
Test(mrapi_resource, figure_9)
{
	int cpu = bind_to_one();
	mrapi_resource_t *root;

	setenv("HWLOC_THISSYSTEM", "1", 1);
	if (cpu > 1)
		cr_skip_test("processors 0 and 1 are not for this process");
	machine(FIGURE);
	root = tree_of(MRAPI_RSRC_EXECUTION_CONTEXT);
	twc_eq(total(root), 1);
	twc_eq(value(nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), cpu);
	release(root);
	mr_down();
}

/* Figure 10, memory. */
Test(mrapi_resource, figure_10)
{
	mrapi_resource_t *root;

	machine(FIGURE);
	root = tree_of(MRAPI_RSRC_MEM);
	twc_eq(root->child_count, 2);
	twc_eq(total(root), 2);
	twc_eq(count(root, MRAPI_RSRC_MEM), 2);
	release(root);
	mr_down();
}

/* ---- 6.1 Shared memory in a memory chosen by its metadata */
static void use_case_6_1(const char *synthetic)
{
	mrapi_resource_t *root, got;
	mrapi_shmem_attributes_t a;
	mrapi_shmem_hndl_t h;
	mrapi_addr_t base;
	char *p;

	if (synthetic)
		setenv("HWLOC_SYNTHETIC", synthetic, 1);
	mr_up(MR_NODE);
	root = tree_of(MRAPI_RSRC_MEM);
	for (mrapi_uint_t i = 0; i < root->child_count; i++) {
		mr_ok(mrapi_resource_get_attribute(root->children[i], MRAPI_RSRC_MEM_BASEADDR,
						   &base, sizeof(mrapi_addr_t), &mr_st));
		mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
		mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_RESOURCE, root->children[i],
						sizeof(mrapi_resource_t), &mr_st));
		h = mr_val(mrapi_shmem_create(MRAPI_SHMEM_ID_ANY, 1024, NULL, 0, &a, sizeof(a),
					      &mr_st));
		p = mr_val(mrapi_shmem_attach(h, &mr_st));
		memset(p, 1, 1024);
		mr_ok(mrapi_shmem_get_attribute(h, MRAPI_SHMEM_RESOURCE, &got, sizeof(got),
						&mr_st));
		twc_eq(got.resource_type, MRAPI_RSRC_MEM);
		twc_eq(strcmp(got.name, root->children[i]->name), 0);
		mr_ok(mrapi_shmem_detach(h, &mr_st));
		mr_ok(mrapi_shmem_delete(h, &mr_st));
	}
	twc_check(root->child_count);
	release(root);
	mr_down();
}

Test(mrapi_resource, use_case_6_1)
{
	use_case_6_1(NULL);
}

Test(mrapi_resource, use_case_6_1_synthetic)
{
	use_case_6_1(FIGURE);
}

/* What is no memory is refused as one. */
Test(mrapi_resource, shmem_resource_errors)
{
	mrapi_shmem_attributes_t a;
	mrapi_resource_t *root;

	machine(MACHINE);
	root = tree_of(MRAPI_RSRC_ALL);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_RESOURCE, nth(root, MRAPI_RSRC_CPU, 0),
					sizeof(mrapi_resource_t), &mr_st));
	mr_is(MRAPI_ERR_ATTR_SIZE,
	      mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_RESOURCE, nth(root, MRAPI_RSRC_MEM, 0),
					sizeof(mrapi_resource_t) - 1, &mr_st));
	release(root);
	mr_down();
}
