/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI 6.1: shared memory in a memory that was chosen by its metadata. */

#include "examples/mrapi_common.h"

#define DOMAIN 1
#define NODE 1

/* The memory with the highest base address: the one that the program is after. */
static mrapi_addr_t wanted(const mrapi_resource_t *root)
{
	mrapi_addr_t addr, highest = 0;

	for (mrapi_uint_t i = 0; i < root->child_count; i++) {
		mrapi_resource_get_attribute(root->children[i], MRAPI_RSRC_MEM_BASEADDR, &addr,
					     sizeof(addr), &status);
		CHECK;
		if (addr > highest)
			highest = addr;
	}
	return highest;
}

static mrapi_shmem_hndl_t create_there(const mrapi_resource_t *memory)
{
	mrapi_shmem_attributes_t attributes;
	mrapi_shmem_hndl_t shmem;

	mrapi_shmem_init_attributes(&attributes, &status);
	CHECK;
	mrapi_shmem_set_attribute(&attributes, MRAPI_SHMEM_RESOURCE, memory,
				  sizeof(mrapi_resource_t), &status);
	CHECK;
	shmem = mrapi_shmem_create(MRAPI_SHMEM_ID_ANY, 1024, NULL, 0, &attributes,
				   sizeof(attributes), &status);
	CHECK;
	return shmem;
}

int main(void)
{
	mrapi_resource_t *mem_root, placed;
	mrapi_parameters_t parms = 0;
	mrapi_shmem_hndl_t shmem = 0;
	mrapi_info_t info;
	mrapi_addr_t addr, where;
	char *memory;

	mrapi_initialize(DOMAIN, NODE, parms, &info, &status);
	CHECK;
	mem_root = mrapi_resources_get(MRAPI_RSRC_MEM, &status);
	CHECK;
	where = wanted(mem_root);
	for (mrapi_uint_t i = 0; i < mem_root->child_count && !shmem; i++) {
		mrapi_resource_get_attribute(mem_root->children[i], MRAPI_RSRC_MEM_BASEADDR, &addr,
					     sizeof(addr), &status);
		CHECK;
		if (addr == where)
			shmem = create_there(mem_root->children[i]);
	}
	mrapi_shmem_get_attribute(shmem, MRAPI_SHMEM_RESOURCE, &placed, sizeof(placed), &status);
	CHECK;
	memory = mrapi_shmem_attach(shmem, &status);
	CHECK;
	memory[1023] = 1;
	mrapi_shmem_detach(shmem, &status);
	CHECK;
	mrapi_shmem_delete(shmem, &status);
	CHECK;
	mrapi_resource_tree_free(&mem_root, &status);
	CHECK;
	mrapi_finalize(&status);
	CHECK;
	return placed.resource_type == MRAPI_RSRC_MEM ? 0 : 1;
}
