/* SPDX-License-Identifier: BSD-2-Clause */
/* Metadata: trees of resources, and the counters of their dynamic attributes. */
#ifndef TW_MRAPI_RSRC_H
#define TW_MRAPI_RSRC_H

#include <hwloc.h>

#include "mrapi/mrapi_internal.h"

#define TW_MRAPI_RSRC_ATTRS 6u

/* One resource. The program sees the first member, and may write to it: it is not read. */
struct tw_mrapi_rsrc {
	mrapi_resource_t shown;
	unsigned parent; /* the root is its own */
	mrapi_rsrc_type_t type;
	unsigned index;	 /* the system's number, or hwloc's for caches */
	bool last_level; /* a cache with none above it */
	bool here;	 /* on the machine that runs this */
	/* By attribute; unused for dynamic ones. */
	uint64_t value[TW_MRAPI_RSRC_ATTRS];
};

struct tw_mrapi_tree {
	struct tw_list link;
	uint32_t me;		    /* its owner */
	struct tw_mrapi_rsrc *rsrc; /* the root first */
	mrapi_resource_t **kids;
	unsigned n;
	char cpu_type[64];
};

/* The tree of a topology; cpu is the caller's. NULL when memory is short. */
struct tw_mrapi_tree *tw_mrapi_tree_build(hwloc_topology_t topology, mrapi_rsrc_filter_t filter,
					  unsigned cpu);
void tw_mrapi_tree_free(struct tw_mrapi_tree *t);

/* ---- counter.c: under tw_mrapi_meta_mutex */
bool tw_mrapi_attr_dynamic(mrapi_rsrc_type_t type, mrapi_uint_t num);
mrapi_status_t tw_mrapi_counter_start(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				      void (*rollover)(void));
mrapi_status_t tw_mrapi_counter_reset(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				      void (*unused)(void));
mrapi_status_t tw_mrapi_counter_stop(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				     void (*unused)(void));
mrapi_status_t tw_mrapi_counter_read(const struct tw_mrapi_rsrc *f, mrapi_uint_t num, uint32_t me,
				     mrapi_uint_t *value);

#endif /* TW_MRAPI_RSRC_H */
