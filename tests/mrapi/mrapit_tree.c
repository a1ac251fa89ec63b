/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees of resources. */
#include <stdlib.h>

#include "mrapi/mrapit.h"

mrapi_resource_t *mr_tree(mrapi_rsrc_filter_t filter)
{
	mrapi_resource_t *root = mr_val(mrapi_resources_get(filter, &mr_st));

	twc_check(root);
	twc_eq(root->resource_type, MRAPI_RSRC_SYSTEM);
	return root;
}

void mr_tree_free(mrapi_resource_t *root)
{
	mr_ok(mrapi_resource_tree_free(&root, &mr_st));
	twc_check(!root);
}

/* How many of a type there are below; all of a tree is well made. */
unsigned mr_count(const mrapi_resource_t *r, mrapi_rsrc_type_t type)
{
	unsigned n = 0;

	twc_check(memchr(r->name, '\0', sizeof(r->name)) && r->name[0]);
	twc_eq(r->child_count, r->number_of_children);
	twc_eq(r->child_count && !r->children, 0);
	for (mrapi_uint_t i = 0; i < r->child_count; i++)
		n += (r->children[i]->resource_type == type) + mr_count(r->children[i], type);
	return n;
}

static const mrapi_rsrc_type_t all_types[] = {MRAPI_RSRC_MEM,	   MRAPI_RSRC_CACHE,
					      MRAPI_RSRC_CPU,	   MRAPI_RSRC_DMA,
					      MRAPI_RSRC_CROSSBAR, MRAPI_RSRC_SYSTEM,
					      MRAPI_RSRC_GROUP};

unsigned mr_total(const mrapi_resource_t *r)
{
	unsigned n = 0;

	for (int i = 0; i < 7; i++)
		n += mr_count(r, all_types[i]);
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

const mrapi_resource_t *mr_nth(const mrapi_resource_t *r, mrapi_rsrc_type_t type, unsigned n)
{
	const mrapi_resource_t *found = find(r, type, &n);

	twc_check(found);
	return found;
}

mrapi_uint_t mr_value(const mrapi_resource_t *r, mrapi_uint_t num)
{
	mrapi_uint_t v = 0xeeeeeeee;

	mr_ok(mrapi_resource_get_attribute(r, num, &v, sizeof(v), &mr_st));
	return v;
}

void mr_machine(const char *synthetic)
{
	setenv("HWLOC_SYNTHETIC", synthetic, 1);
	mr_up(MR_NODE);
}
