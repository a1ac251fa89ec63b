/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 4.6.1, 4.6.2, 4.6.7: trees of resources, on machines that hwloc makes up
 * (HWLOC_SYNTHETIC) and on this one.
 */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_resource, .init = twc_job, .timeout = MR_TIMEOUT);

/* Eight processors in two packages, each with a memory. */
#define MACHINE                                                                                    \
	"pack:2 [numa(memory=1GB)] l3:1(size=8MB) core:2 l2:1(size=262144) "                       \
	"l1d:1(size=32768) pu:2"

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

	mr_machine(MACHINE);
	for (int i = 0; i < 4; i++) {
		root = mr_tree(filters[i].filter);
		twc_eq(mr_count(root, MRAPI_RSRC_CPU), filters[i].cpus);
		twc_eq(mr_count(root, MRAPI_RSRC_CACHE), filters[i].caches);
		twc_eq(mr_count(root, MRAPI_RSRC_MEM), filters[i].memories);
		/* And nothing else. */
		twc_eq(mr_total(root), filters[i].cpus + filters[i].caches + filters[i].memories);
		mr_tree_free(root);
	}
	root = mr_tree(MRAPI_RSRC_ALL);
	twc_eq(mr_count(root, MRAPI_RSRC_CPU), 8);
	twc_eq(mr_count(root, MRAPI_RSRC_CACHE), 10);
	twc_eq(mr_count(root, MRAPI_RSRC_MEM), 2);
	twc_check(mr_count(root, MRAPI_RSRC_GROUP) >= 6);
	twc_eq(mr_count(root, MRAPI_RSRC_SYSTEM), 0);
	mr_tree_free(root);
	root = mr_tree(MRAPI_RSRC_DMA);
	twc_eq(mr_total(root), mr_count(root, MRAPI_RSRC_DMA));
	mr_tree_free(root);
	mr_down();
}

Test(mrapi_resource, invalid_filters)
{
	static const int bad[] = {-1, MRAPI_RSRC_SYSTEM, MRAPI_RSRC_GROUP, 9, 77};

	mr_machine(MACHINE);
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

	mr_machine(MACHINE);
	root = mr_tree(MRAPI_RSRC_ALL);
	twc_eq(root->child_count, 2);
	for (mrapi_uint_t i = 0; i < 2; i++) {
		const mrapi_resource_t *package = root->children[i];

		twc_eq(package->resource_type, MRAPI_RSRC_GROUP);
		twc_eq(mr_count(package, MRAPI_RSRC_CPU), 4);
		twc_eq(mr_count(package, MRAPI_RSRC_CACHE), 5);
		twc_eq(mr_count(package, MRAPI_RSRC_MEM), 1);
		for (unsigned n = 0; n < 4; n++)
			twc_eq(mr_value(mr_nth(package, MRAPI_RSRC_CPU, n), MRAPI_RSRC_CPU_ID),
			       4 * i + n);
	}
	mr_tree_free(root);
	mr_down();
}

/* ---- 4.6.2 Attributes */

Test(mrapi_resource, memory)
{
	mrapi_addr_t base[2], size[2];
	mrapi_resource_t *root;

	mr_machine("[numa(memory=1073741824)] [numa(memory=68719476736)] pu:2");
	root = mr_tree(MRAPI_RSRC_MEM);
	twc_eq(root->child_count, 2);
	for (int i = 0; i < 2; i++) {
		const mrapi_resource_t *m = root->children[i];

		mr_ok(mrapi_resource_get_attribute(m, MRAPI_RSRC_MEM_BASEADDR, &base[i],
						   sizeof(base[i]), &mr_st));
		size[i] = (mrapi_addr_t)mr_value(m, MRAPI_RSRC_MEM_WORDSIZE) *
			  mr_value(m, MRAPI_RSRC_MEM_NUMWORDS);
	}
	twc_eq(size[0], 1ull << 30);
	twc_eq(size[1], 1ull << 36);
	twc_check(base[0] + size[0] <= base[1] || base[1] + size[1] <= base[0]);
	mr_tree_free(root);
	mr_down();
}

Test(mrapi_resource, caches)
{
	static const mrapi_uint_t size[] = {0, 32768, 262144, 8000000};
	unsigned seen[4] = {0};
	mrapi_resource_t *root;

	mr_machine(MACHINE);
	root = mr_tree(MRAPI_RSRC_CACHE);
	for (unsigned n = 0; n < 10; n++) {
		const mrapi_resource_t *c = mr_nth(root, MRAPI_RSRC_CACHE, n);
		mrapi_uint_t level = mr_value(c, MRAPI_RSRC_CACHE_LEVEL);

		twc_check(level >= 1 && level <= 3);
		seen[level]++;
		twc_eq(mr_value(c, MRAPI_RSRC_CACHE_SIZE), size[level]);
		twc_eq(mr_value(c, MRAPI_RSRC_CACHE_LINE_SIZE), 64);
		mr_value(c, MRAPI_RSRC_CACHE_ASSOCIATIVITY);
	}
	twc_eq(seen[1], 4);
	twc_eq(seen[2], 4);
	twc_eq(seen[3], 2);
	/* 6.6.1: the L3 cache is children[0]. */
	twc_eq(mr_value(root->children[0], MRAPI_RSRC_CACHE_LEVEL), 3);
	mr_tree_free(root);
	mr_down();
}

Test(mrapi_resource, cpus)
{
	mrapi_resource_t *root;

	mr_machine(MACHINE);
	root = mr_tree(MRAPI_RSRC_CPU);
	twc_eq(root->child_count, 8);
	for (mrapi_uint_t n = 0; n < 8; n++) {
		const mrapi_resource_t *c = root->children[n];
		char *type = NULL;

		twc_eq(mr_value(c, MRAPI_RSRC_CPU_ID), n);
		mr_value(c, MRAPI_RSRC_CPU_FREQUENCY);
		mr_ok(mrapi_resource_get_attribute(c, MRAPI_RSRC_CPU_TYPE, &type, sizeof(type),
						   &mr_st));
		twc_check(type && *type);
	}
	mr_tree_free(root);
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

	mr_machine(MACHINE);
	root = mr_tree(MRAPI_RSRC_ALL);
	for (int i = 0; i < 3; i++) {
		const mrapi_resource_t *r = mr_nth(root, types[i], 0);

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
	      mrapi_resource_get_attribute(mr_nth(root, MRAPI_RSRC_GROUP, 0), 0, &v, 4, &mr_st));
	/* No resources. */
	memset(&none, 0, sizeof(none));
	none.resource_type = MRAPI_RSRC_CPU;
	mr_is(MRAPI_ERR_RSRC_INVALID, mrapi_resource_get_attribute(NULL, 0, &v, 4, &mr_st));
	mr_is(MRAPI_ERR_RSRC_INVALID, mrapi_resource_get_attribute(&none, 0, &v, 4, &mr_st));
	mr_tree_free(root);
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

	mr_machine(MACHINE);
	mr_peer(&p, MR_THREAD, 1);
	t->root = kept = mr_tree(MRAPI_RSRC_ALL);
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
	cpu = mr_nth(t->root, MRAPI_RSRC_CPU, 0);
	mr_value(cpu, MRAPI_RSRC_CPU_ID);
	mr_tree_free(t->root);
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

	mr_machine(MACHINE);
	mr_peer(&p, MR_THREAD, 1);
	*root = mr_tree(MRAPI_RSRC_CPU);
	mr_do(&p, not_owner, root);
	mr_tree_free(*root);
	mr_peer_end(&p);
	mr_down();
}

/* Many trees, freed in any order; a tree ends with its node. */
Test(mrapi_resource, many_trees)
{
	mrapi_resource_t *root[40];

	mr_machine(MACHINE);
	for (int i = 0; i < 40; i++)
		root[i] = mr_tree(i % 2 ? MRAPI_RSRC_ALL : MRAPI_RSRC_CPU);
	for (int i = 0; i < 40; i += 2)
		mr_tree_free(root[39 - i]);
	for (int i = 0; i < 40; i += 2)
		twc_eq(mr_count(root[i], MRAPI_RSRC_CPU), 8);
	mr_down();
	mr_up(MR_NODE);
	for (int i = 0; i < 40; i++)
		mr_is(MRAPI_ERR_RSRC_INVALID_TREE, mrapi_resource_tree_free(&root[i], &mr_st));
	mr_down();
}

Test(mrapi_resource, large_machine)
{
	mrapi_resource_t *root;

	mr_machine("pack:8 [numa(memory=1GB)] l3:2 core:16 l1d:1 pu:4");
	root = mr_tree(MRAPI_RSRC_ALL);
	twc_eq(mr_count(root, MRAPI_RSRC_CPU), 1024);
	twc_eq(mr_count(root, MRAPI_RSRC_CACHE), 8 * 2 + 256);
	twc_eq(mr_count(root, MRAPI_RSRC_MEM), 8);
	mr_tree_free(root);
	mr_down();
}

/* This machine: what it has, its values in sane bounds. */
Test(mrapi_resource, this_machine)
{
	mrapi_resource_t *root;
	unsigned cpus;

	unsetenv("HWLOC_SYNTHETIC");
	mr_up(MR_NODE);
	root = mr_tree(MRAPI_RSRC_ALL);
	cpus = mr_count(root, MRAPI_RSRC_CPU);
	twc_check(cpus >= 1);
	twc_check(mr_count(root, MRAPI_RSRC_MEM) >= 1);
	for (unsigned n = 0; n < cpus; n++)
		twc_check(mr_value(mr_nth(root, MRAPI_RSRC_CPU, n), MRAPI_RSRC_CPU_FREQUENCY) <
			  20000);
	mr_tree_free(root);
	mr_down();
}

/* What is no memory is refused as one. */
Test(mrapi_resource, shmem_resource_errors)
{
	mrapi_shmem_attributes_t a;
	mrapi_resource_t *root;

	mr_machine(MACHINE);
	root = mr_tree(MRAPI_RSRC_ALL);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER,
	      mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_RESOURCE, mr_nth(root, MRAPI_RSRC_CPU, 0),
					sizeof(mrapi_resource_t), &mr_st));
	mr_is(MRAPI_ERR_ATTR_SIZE,
	      mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_RESOURCE, mr_nth(root, MRAPI_RSRC_MEM, 0),
					sizeof(mrapi_resource_t) - 1, &mr_st));
	mr_tree_free(root);
	mr_down();
}
