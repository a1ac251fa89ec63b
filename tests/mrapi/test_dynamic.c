/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.6.3 to 4.6.5 Dynamic attributes, and the use case 6.6.1. */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_dynamic, .init = twc_job, .timeout = MR_TIMEOUT);

static mrapi_resource_t *first_of(mrapi_rsrc_filter_t filter)
{
	mrapi_resource_t *root = mr_val(mrapi_resources_get(filter, &mr_st));

	twc_check(root && root->child_count);
	return root->children[0];
}

static void stopped(const mrapi_resource_t *r, mrapi_uint_t num)
{
	mrapi_uint_t v;

	mr_is(MRAPI_ERR_RSRC_NOTSTARTED,
	      mrapi_resource_get_attribute(r, num, &v, sizeof(v), &mr_st));
	mr_is(MRAPI_ERR_RSRC_NOTSTARTED, mrapi_dynamic_attribute_stop(r, num, &mr_st));
}

/* All that are static, and none at all. */
Test(mrapi_dynamic, errors)
{
	static const struct {
		mrapi_rsrc_filter_t filter;
		mrapi_uint_t num;
	} fixed[] = {{MRAPI_RSRC_MEM, MRAPI_RSRC_MEM_BASEADDR},
		     {MRAPI_RSRC_MEM, MRAPI_RSRC_MEM_NUMWORDS},
		     {MRAPI_RSRC_CPU, MRAPI_RSRC_CPU_FREQUENCY},
		     {MRAPI_RSRC_CPU, MRAPI_RSRC_CPU_TYPE},
		     {MRAPI_RSRC_CPU, MRAPI_RSRC_CPU_ID}};
	mrapi_resource_t none;

	mr_up(MR_NODE);
	for (int i = 0; i < 5; i++) {
		const mrapi_resource_t *r = first_of(fixed[i].filter);

		mr_is(MRAPI_ERR_RSRC_NOTDYNAMIC,
		      mrapi_dynamic_attribute_start(r, fixed[i].num, NULL, &mr_st));
		mr_is(MRAPI_ERR_RSRC_NOTDYNAMIC,
		      mrapi_dynamic_attribute_reset(r, fixed[i].num, &mr_st));
		mr_is(MRAPI_ERR_RSRC_NOTDYNAMIC,
		      mrapi_dynamic_attribute_stop(r, fixed[i].num, &mr_st));
		mr_is(MRAPI_ERR_ATTR_NUM,
		      mrapi_dynamic_attribute_start(r, MR_NO_ATTR, NULL, &mr_st));
		mr_is(MRAPI_ERR_ATTR_NUM, mrapi_dynamic_attribute_reset(r, MR_NO_ATTR, &mr_st));
		mr_is(MRAPI_ERR_ATTR_NUM, mrapi_dynamic_attribute_stop(r, MR_NO_ATTR, &mr_st));
	}
	memset(&none, 0, sizeof(none));
	for (int i = 0; i < 2; i++) {
		const mrapi_resource_t *r = i ? &none : NULL;

		mr_is(MRAPI_ERR_RSRC_INVALID,
		      mrapi_dynamic_attribute_start(r, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
		mr_is(MRAPI_ERR_RSRC_INVALID,
		      mrapi_dynamic_attribute_reset(r, MRAPI_RSRC_CPU_CYCLES, &mr_st));
		mr_is(MRAPI_ERR_RSRC_INVALID,
		      mrapi_dynamic_attribute_stop(r, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	}
	mr_down();
}

Test(mrapi_dynamic, start_and_stop)
{
	const mrapi_resource_t *cpu;
	mrapi_uint_t a, b;

	mr_up(MR_NODE);
	cpu = first_of(MRAPI_RSRC_CPU);
	stopped(cpu, MRAPI_RSRC_CPU_BUSY);
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_BUSY, NULL, &mr_st));
	mr_is(MRAPI_ERR_RSRC_STARTED,
	      mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_BUSY, NULL, &mr_st));
	a = mr_value(cpu, MRAPI_RSRC_CPU_BUSY);
	/* Each attribute for itself. */
	stopped(cpu, MRAPI_RSRC_CPU_CYCLES);
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	b = mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
	twc_sleep(1);
	twc_check(mr_value(cpu, MRAPI_RSRC_CPU_CYCLES) > b);
	twc_check(mr_value(cpu, MRAPI_RSRC_CPU_BUSY) >= a);
	mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_BUSY, &mr_st));
	stopped(cpu, MRAPI_RSRC_CPU_CYCLES);
	stopped(cpu, MRAPI_RSRC_CPU_BUSY);
	mr_down();
}

/* Started again it goes on where it was; reset begins anew. */
Test(mrapi_dynamic, previous_value)
{
	const mrapi_resource_t *cpu;
	mrapi_uint_t before, after;
	int tries = 0;

	mr_up(MR_NODE);
	cpu = first_of(MRAPI_RSRC_CPU);
	do {
		/* Should the counter roll over here (a slow machine), try again. */
		mr_ok(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
		mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
		twc_sleep(50);
		before = mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
		mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
		mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
		after = mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
		mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	} while (after < before && tries++ < 20);
	twc_check(before > 0);
	twc_check(after >= before);
	/* What passed while it was stopped does not count. */
	mr_ok(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	twc_sleep(50);
	for (tries = 0; tries < 20; tries++) {
		mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
		after = mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
		mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
		if (after < before)
			break;
		mr_ok(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	}
	twc_check(after < before);
	/* Also while it runs. */
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	mr_ok(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
	mr_down();
}

static atomic_int rolled;

static void roll(void)
{
	atomic_fetch_add(&rolled, 1);
}

/* The cycles of a few seconds do not fit: the callback comes, and it counts on. */
Test(mrapi_dynamic, rollover)
{
	const mrapi_resource_t *cpu;
	double end = twt_now() + TWC_LONG;
	mrapi_uint_t last = 0, now = 0;
	int smaller = 0;

	mr_up(MR_NODE);
	cpu = first_of(MRAPI_RSRC_CPU);
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, roll, &mr_st));
	while (!(atomic_load(&rolled) && smaller) && twt_now() < end) {
		now = mr_value(cpu, MRAPI_RSRC_CPU_CYCLES);
		smaller += now < last;
		last = now;
		twc_sleep(5);
	}
	twc_eq(atomic_load(&rolled), 1);
	twc_eq(smaller, 1);
	mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	mr_down();
}

/* Nobody reads it: the callback comes all the same, when the count has just begun anew. */
static const mrapi_resource_t *unread;
static mrapi_uint_t at_rollover;

static void read_then(void)
{
	at_rollover = mr_value(unread, MRAPI_RSRC_CPU_CYCLES);
	twc_eq(mr_val(mrapi_node_id_get(&mr_st)), MR_NODE);
	atomic_fetch_add(&rolled, 1);
}

Test(mrapi_dynamic, rollover_unread)
{
	double end = twt_now() + TWC_LONG;

	mr_up(MR_NODE);
	unread = first_of(MRAPI_RSRC_CPU);
	mr_ok(mrapi_dynamic_attribute_start(unread, MRAPI_RSRC_CPU_CYCLES, read_then, &mr_st));
	while (!atomic_load(&rolled) && twt_now() < end)
		twc_sleep(5);
	twc_eq(atomic_load(&rolled), 1);
	twc_check(at_rollover < 1u << 31);
	/* Not after its node has ended, although another one of the process goes on. */
	mr_down();
	mr_up(MR_NODE + 1);
	twc_sleep(MR_SHORT);
	twc_eq(atomic_load(&rolled), 1);
	mr_down();
}

/* A counter belongs to the node that started it, until it stops it or leaves. */
static void start_there(void *arg)
{
	mrapi_status_t *status = arg;

	mr_st = -1;
	mrapi_dynamic_attribute_start(first_of(MRAPI_RSRC_CPU), MRAPI_RSRC_CPU_CYCLES, NULL,
				      &mr_st);
	*status = mr_st;
}

static void refused_there(void *arg)
{
	const mrapi_resource_t *cpu = first_of(MRAPI_RSRC_CPU);

	(void)arg;
	mr_is(MRAPI_ERR_RSRC_COUNTER_INUSE,
	      mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	/* It has not started it, and has nothing to reset (4.6.4: no such error). */
	stopped(cpu, MRAPI_RSRC_CPU_CYCLES);
	mr_ok(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
}

MR_BOTH(mrapi_dynamic, in_use)
{
	mrapi_status_t *status = mr_shared(sizeof(*status));
	const mrapi_resource_t *cpu;
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	cpu = first_of(MRAPI_RSRC_CPU);
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	mr_do(&p, refused_there, NULL);
	mr_ok(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	mr_do(&p, start_there, status);
	mr_eq(*status, MRAPI_SUCCESS);
	mr_is(MRAPI_ERR_RSRC_COUNTER_INUSE,
	      mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	mr_peer_end(&p);
	mr_ok(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &mr_st));
	mr_down();
}

/* Those that need the system's help: they count, or say that they cannot. */
static void where_supported(mrapi_rsrc_filter_t filter, mrapi_uint_t num)
{
	const mrapi_resource_t *r = first_of(filter);
	mrapi_uint_t v;

	mr_st = -1;
	mrapi_dynamic_attribute_start(r, num, NULL, &mr_st);
	if (mr_st == MRAPI_ERR_NOT_SUPPORTED) {
		stopped(r, num);
		return;
	}
	mr_eq(mr_st, MRAPI_SUCCESS);
	v = mr_value(r, num);
	twc_check(mr_value(r, num) >= v);
	mr_ok(mrapi_dynamic_attribute_reset(r, num, &mr_st));
	mr_ok(mrapi_dynamic_attribute_stop(r, num, &mr_st));
	stopped(r, num);
}

Test(mrapi_dynamic, memory_and_caches)
{
	mrapi_resource_t *caches;

	mr_up(MR_NODE);
	where_supported(MRAPI_RSRC_MEM, MRAPI_RSRC_MEM_ALLOCATIONS);
	caches = mr_val(mrapi_resources_get(MRAPI_RSRC_CACHE, &mr_st));
	if (caches->child_count) {
		where_supported(MRAPI_RSRC_CACHE, MRAPI_RSRC_CACHE_HITS);
		where_supported(MRAPI_RSRC_CACHE, MRAPI_RSRC_CACHE_MISSES);
	}
	mr_down();
}

/* Of a machine that is not this one nothing can be counted. */
Test(mrapi_dynamic, synthetic)
{
	setenv("HWLOC_SYNTHETIC", "l3:1 pu:2", 1);
	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_NOT_SUPPORTED,
	      mrapi_dynamic_attribute_start(first_of(MRAPI_RSRC_CACHE), MRAPI_RSRC_CACHE_HITS, NULL,
					    &mr_st));
	stopped(first_of(MRAPI_RSRC_CACHE), MRAPI_RSRC_CACHE_HITS);
	mr_down();
}

/* 6.6.1: the number of a cache's hits is 1. */
Test(mrapi_dynamic, use_case_6_6_1)
{
	mrapi_resource_t *root;
	uint32_t hits;

	mr_up(MR_NODE);
	root = mr_val(mrapi_resources_get(MRAPI_RSRC_CACHE, &mr_st));
	if (!root->child_count)
		cr_skip_test("the system knows of no caches");
	mr_is(MRAPI_ERR_RSRC_NOTSTARTED,
	      mrapi_resource_get_attribute(root->children[0], 1, &hits, sizeof(hits), &mr_st));
	mr_st = -1;
	mrapi_dynamic_attribute_start(root->children[0], 1, roll, &mr_st);
	if (mr_st == MRAPI_ERR_NOT_SUPPORTED)
		cr_skip_test("the system does not count cache hits");
	mr_eq(mr_st, MRAPI_SUCCESS);
	/* Rolling over takes long here; mrapi_dynamic/rollover waits for that. */
	for (int i = 0; i < 100; i++)
		mr_ok(mrapi_resource_get_attribute(root->children[0], 1, &hits, sizeof(hits),
						   &mr_st));
	mr_ok(mrapi_dynamic_attribute_stop(root->children[0], 1, &mr_st));
	mr_is(MRAPI_ERR_RSRC_NOTSTARTED,
	      mrapi_resource_get_attribute(root->children[0], 1, &hits, sizeof(hits), &mr_st));
	mr_down();
}
