/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of 6.6.2 and the use case 6.1: what a node sees of its machine. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_figures, .init = twc_job, .timeout = MR_TIMEOUT);

/* 6.6.2, figure 3: two processors, two memories. */
#define FIGURE "[numa(memory=1GB)] [numa(memory=2GB)] pu:2"

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
Test(mrapi_figures, figures_5_and_6)
{
	mrapi_resource_t *root;

	mr_machine(FIGURE);
	root = mr_tree(MRAPI_RSRC_ALL);
	twc_eq(mr_count(root, MRAPI_RSRC_CPU), 2);
	twc_eq(mr_count(root, MRAPI_RSRC_MEM), 2);
	twc_eq(mr_value(mr_nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), 0);
	twc_eq(mr_value(mr_nth(root, MRAPI_RSRC_CPU, 1), MRAPI_RSRC_CPU_ID), 1);
	mr_tree_free(root);
	mr_down();
}

/* Figures 7 and 8, partitions: one's own processor alone, and both memories. */
Test(mrapi_figures, figures_7_and_8)
{
	int cpu = bind_to_one();
	mrapi_resource_t *root;
	char text[100];

	/* A machine that has this processor and one more. */
	snprintf(text, sizeof(text), "[numa(memory=1GB)] [numa(memory=2GB)] pu:%d", cpu + 2);
	setenv("HWLOC_THISSYSTEM", "1", 1);
	mr_machine(text);
	root = mr_tree(MRAPI_RSRC_NONE);
	twc_eq(mr_count(root, MRAPI_RSRC_CPU), 1);
	twc_eq(mr_count(root, MRAPI_RSRC_MEM), 2);
	twc_eq(mr_value(mr_nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), cpu);
	mr_tree_free(root);
	mr_down();
}

/* Figure 9, execution context: the processor that the caller runs on. */
Test(mrapi_figures, figure_9)
{
	int cpu = bind_to_one();
	mrapi_resource_t *root;

	setenv("HWLOC_THISSYSTEM", "1", 1);
	if (cpu > 1)
		cr_skip_test("processors 0 and 1 are not for this process");
	mr_machine(FIGURE);
	root = mr_tree(MRAPI_RSRC_EXECUTION_CONTEXT);
	twc_eq(mr_total(root), 1);
	twc_eq(mr_value(mr_nth(root, MRAPI_RSRC_CPU, 0), MRAPI_RSRC_CPU_ID), cpu);
	mr_tree_free(root);
	mr_down();
}

/* Figure 10, memory. */
Test(mrapi_figures, figure_10)
{
	mrapi_resource_t *root;

	mr_machine(FIGURE);
	root = mr_tree(MRAPI_RSRC_MEM);
	twc_eq(root->child_count, 2);
	twc_eq(mr_total(root), 2);
	twc_eq(mr_count(root, MRAPI_RSRC_MEM), 2);
	mr_tree_free(root);
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
	root = mr_tree(MRAPI_RSRC_MEM);
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
	mr_tree_free(root);
	mr_down();
}

Test(mrapi_figures, use_case_6_1)
{
	use_case_6_1(NULL);
}

Test(mrapi_figures, use_case_6_1_synthetic)
{
	use_case_6_1(FIGURE);
}
