/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.6.2 on made-up machines: two processors and two memories, whole and
 * parted by a hypervisor, as each filter shows them.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "mrapi/meta/rsrc.h"

static const struct tw_mrapi_rsrc *rsrc_of(const mrapi_resource_t *shown)
{
	return tw_container(shown, const struct tw_mrapi_rsrc, shown);
}

/* One memory beside each package; caches of two levels. */
#define MACHINE "pack:2 [numa(memory=1073741824)] l3:1(size=8388608) l2:1(size=1048576) core:1 pu:1"

static hwloc_topology_t machine(const char *description, int only_cpu)
{
	hwloc_topology_t t;
	hwloc_bitmap_t set = hwloc_bitmap_alloc();

	cr_assert_eq(hwloc_topology_init(&t), 0);
	cr_assert_eq(hwloc_topology_set_synthetic(t, description), 0);
	cr_assert_eq(hwloc_topology_load(t), 0);
	if (only_cpu >= 0) {
		hwloc_bitmap_set(set, (unsigned)only_cpu);
		cr_assert_eq(hwloc_topology_restrict(t, set, 0), 0);
	}
	hwloc_bitmap_free(set);
	return t;
}

/* Resources of a type below r; the last one's number. */
static unsigned count(const mrapi_resource_t *r, mrapi_rsrc_type_t type, unsigned *index)
{
	unsigned n = r->resource_type == type;

	if (n && index)
		*index = (unsigned)r->opaque[1];
	for (unsigned i = 0; i < r->child_count; i++)
		n += count(r->children[i], type, index);
	return n;
}

static struct tw_mrapi_tree *tree(int only_cpu, mrapi_rsrc_filter_t filter, unsigned cpu)
{
	hwloc_topology_t t = machine(MACHINE, only_cpu);
	struct tw_mrapi_tree *tree = tw_mrapi_tree_build(t, filter, cpu);

	hwloc_topology_destroy(t);
	cr_assert(tree != NULL);
	cr_expect_eq(tree->rsrc[0].shown.resource_type, MRAPI_RSRC_SYSTEM);
	return tree;
}

/* Figures 5 and 6 */
Test(mrapi_tree, whole_machine)
{
	struct tw_mrapi_tree *t = tree(-1, MRAPI_RSRC_ALL, 0);

	cr_expect_eq(count(&t->rsrc[0].shown, MRAPI_RSRC_CPU, NULL), 2);
	cr_expect_eq(count(&t->rsrc[0].shown, MRAPI_RSRC_MEM, NULL), 2);
	cr_expect_eq(count(&t->rsrc[0].shown, MRAPI_RSRC_CACHE, NULL), 4);
	/* A package holds its memory and what leads to its processor. */
	cr_assert_eq(t->rsrc[0].shown.child_count, 2);
	cr_expect_eq(count(t->rsrc[0].shown.children[0], MRAPI_RSRC_CPU, NULL), 1);
	cr_expect_eq(count(t->rsrc[0].shown.children[0], MRAPI_RSRC_MEM, NULL), 1);
	tw_mrapi_tree_free(t);
}

/* Figures 7 and 8: the other partition's processor is not seen, the memories are. */
Test(mrapi_tree, partitions)
{
	for (int cpu = 0; cpu < 2; cpu++) {
		struct tw_mrapi_tree *t = tree(cpu, MRAPI_RSRC_NONE, (unsigned)cpu);
		unsigned index = 99;

		cr_expect_eq(count(&t->rsrc[0].shown, MRAPI_RSRC_CPU, &index), 1);
		cr_expect_eq(index, (unsigned)cpu);
		cr_expect_eq(count(&t->rsrc[0].shown, MRAPI_RSRC_MEM, NULL), 2);
		tw_mrapi_tree_free(t);
	}
}

/* Figure 9 */
Test(mrapi_tree, execution_context)
{
	for (unsigned cpu = 0; cpu < 2; cpu++) {
		struct tw_mrapi_tree *t = tree(-1, MRAPI_RSRC_EXECUTION_CONTEXT, cpu);

		cr_assert_eq(t->rsrc[0].shown.child_count, 1);
		cr_expect_eq(t->rsrc[0].shown.children[0]->resource_type, MRAPI_RSRC_CPU);
		cr_expect_eq(t->rsrc[0].shown.children[0]->opaque[1], cpu);
		tw_mrapi_tree_free(t);
	}
}

/* Figure 10 */
Test(mrapi_tree, memory)
{
	struct tw_mrapi_tree *t = tree(-1, MRAPI_RSRC_MEM, 0);

	cr_assert_eq(t->rsrc[0].shown.child_count, 2);
	cr_expect_eq(t->n, 3u);
	for (unsigned i = 1; i < 3; i++) {
		cr_expect_eq(t->rsrc[i].shown.resource_type, MRAPI_RSRC_MEM);
		cr_expect_eq(t->rsrc[i].value[MRAPI_RSRC_MEM_WORDSIZE] *
				     t->rsrc[i].value[MRAPI_RSRC_MEM_NUMWORDS],
			     1u << 30);
		/* One behind the other: a made-up machine has no addresses. */
		cr_expect_eq(t->rsrc[i].value[MRAPI_RSRC_MEM_BASEADDR], (i - 1ull) << 30);
	}
	tw_mrapi_tree_free(t);
}

Test(mrapi_tree, caches_hold_caches)
{
	struct tw_mrapi_tree *t = tree(-1, MRAPI_RSRC_CACHE, 0);
	const mrapi_resource_t *l3 = t->rsrc[0].shown.children[0], *l2;

	cr_assert_eq(t->rsrc[0].shown.child_count, 2);
	cr_assert_eq(l3->child_count, 1);
	l2 = l3->children[0];
	cr_expect_eq(rsrc_of(l3)->value[MRAPI_RSRC_CACHE_LEVEL], 3);
	cr_expect_eq(rsrc_of(l3)->value[MRAPI_RSRC_CACHE_SIZE], 8u << 20);
	cr_expect(rsrc_of(l3)->last_level);
	cr_expect_eq(rsrc_of(l2)->value[MRAPI_RSRC_CACHE_LEVEL], 2);
	cr_expect(!rsrc_of(l2)->last_level);
	tw_mrapi_tree_free(t);
}

/* 64 bits of memory in 32 bits of words */
Test(mrapi_tree, much_memory)
{
	hwloc_topology_t topology = machine("[numa(memory=1099511627776)] pu:1", -1);
	struct tw_mrapi_tree *t = tw_mrapi_tree_build(topology, MRAPI_RSRC_MEM, 0);

	cr_assert_eq(t->n, 2u);
	cr_expect_leq(t->rsrc[1].value[MRAPI_RSRC_MEM_NUMWORDS], UINT32_MAX);
	cr_expect_eq(t->rsrc[1].value[MRAPI_RSRC_MEM_WORDSIZE] *
			     t->rsrc[1].value[MRAPI_RSRC_MEM_NUMWORDS],
		     1ull << 40);
	tw_mrapi_tree_free(t);
	hwloc_topology_destroy(topology);
}
