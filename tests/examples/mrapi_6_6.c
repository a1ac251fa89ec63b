/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.6.1: a dynamic attribute is watched until it rolls over. The text's
 * attribute, hits of the last cache, needs a hardware counter; where the system
 * has or allows none, the cycles of a processor stand in for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mrapi.h"

#define DOMAIN 1
#define NODE 1
#define LAST 20 /* seconds */

static mrapi_status_t mrapi_status;

#define WRONG wrong(__LINE__);
static void wrong(unsigned line)
{
	char text[MRAPI_MAX_STATUS_SIZE];

	fprintf(stderr, "WRONG: line=%u status=%s\n", line,
		mrapi_display_status(mrapi_status, text, sizeof(text)));
	exit(1);
}

static _Atomic(mrapi_boolean_t) rollover = MRAPI_FALSE; /* by the library's thread */

static void has_rolled_over(void)
{
	rollover = MRAPI_TRUE;
}

/* The text's loop. MRAPI_FALSE: this attribute cannot be counted here. */
static mrapi_boolean_t watch(mrapi_rsrc_filter_t filter, mrapi_uint_t attribute)
{
	mrapi_resource_t *root, *resource;
	mrapi_uint_t value;
	time_t start = time(NULL);

	root = mrapi_resources_get(filter, &mrapi_status);
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	if (root->child_count == 0)
		return MRAPI_FALSE;
	resource = root->children[0];
	mrapi_resource_get_attribute(resource, attribute, &value, sizeof(value), &mrapi_status);
	if (mrapi_status != MRAPI_ERR_RSRC_NOTSTARTED) {
		WRONG
	}
	mrapi_dynamic_attribute_start(resource, attribute, &has_rolled_over, &mrapi_status);
	if (mrapi_status == MRAPI_ERR_NOT_SUPPORTED)
		return MRAPI_FALSE;
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	while (rollover == MRAPI_FALSE && time(NULL) < start + LAST) {
		mrapi_resource_get_attribute(resource, attribute, &value, sizeof(value),
					     &mrapi_status);
		if (mrapi_status != MRAPI_SUCCESS) {
			WRONG
		}
	}
	mrapi_dynamic_attribute_stop(resource, attribute, &mrapi_status);
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	mrapi_resource_get_attribute(resource, attribute, &value, sizeof(value), &mrapi_status);
	if (mrapi_status != MRAPI_ERR_RSRC_NOTSTARTED) {
		WRONG
	}
	mrapi_resource_tree_free(&root, &mrapi_status);
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	return MRAPI_TRUE;
}

int main(void)
{
	mrapi_parameters_t parms = 0;
	mrapi_info_t version;

	mrapi_initialize(DOMAIN, NODE, parms, &version, &mrapi_status);
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	if (watch(MRAPI_RSRC_CACHE, MRAPI_RSRC_CACHE_HITS))
		printf("hits of the last cache were counted\n");
	else if (!watch(MRAPI_RSRC_CPU, MRAPI_RSRC_CPU_CYCLES))
		WRONG
	/* Hits in cache may be too few for the time; cycles are not. */
	if (!rollover && !watch(MRAPI_RSRC_CPU, MRAPI_RSRC_CPU_CYCLES))
		WRONG
	mrapi_finalize(&mrapi_status);
	if (mrapi_status != MRAPI_SUCCESS) {
		WRONG
	}
	return rollover ? 0 : 1;
}
