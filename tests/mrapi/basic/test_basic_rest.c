/* SPDX-License-Identifier: BSD-2-Clause */
/* Metadata, events and atomic operations. */
#include <pthread.h>
#include <string.h>

#include "mrapi/basic/basic.h"

TestSuite(basic_rest, .init = basic_begin, .timeout = TWT_TIMEOUT);

static void show(const mrapi_resource_t *r, int depth, unsigned *cpus)
{
	mrapi_uint_t id, level;
	mrapi_addr_t base;
	char *type;

	if (r->resource_type == MRAPI_RSRC_CPU) {
		OK(mrapi_resource_get_attribute(r, MRAPI_RSRC_CPU_ID, &id, sizeof(id), &st));
		OK(mrapi_resource_get_attribute(r, MRAPI_RSRC_CPU_TYPE, &type, sizeof(type), &st));
		CHECK(strlen(type) > 0);
		++*cpus;
	}
	if (r->resource_type == MRAPI_RSRC_CACHE) {
		OK(mrapi_resource_get_attribute(r, MRAPI_RSRC_CACHE_LEVEL, &level, sizeof(level),
						&st));
		CHECK(level >= 1 && level <= 5);
	}
	if (r->resource_type == MRAPI_RSRC_MEM)
		OK(mrapi_resource_get_attribute(r, MRAPI_RSRC_MEM_BASEADDR, &base, sizeof(base),
						&st));
	CHECK(r->number_of_children == r->child_count);
	for (unsigned i = 0; i < r->child_count; i++)
		show(r->children[i], depth + 1, cpus);
}

Test(basic_rest, trees)
{
	mrapi_resource_t *all, *cpu, *here, stray;
	unsigned n = 0, flat = 0;

	IS(mrapi_resources_get(12345, &st), MRAPI_ERR_RSRC_INVALID_SUBSYSTEM);
	OK(all = mrapi_resources_get(MRAPI_RSRC_ALL, &st));
	OK(cpu = mrapi_resources_get(MRAPI_RSRC_CPU, &st));
	OK(here = mrapi_resources_get(MRAPI_RSRC_EXECUTION_CONTEXT, &st));
	show(all, 0, &n);
	show(cpu, 0, &flat);
	CHECK(n == flat && n == cpu->child_count && n > 0);
	CHECK(here->child_count == 1 && here->children[0]->resource_type == MRAPI_RSRC_CPU);
	stray = *cpu;
	IS(mrapi_resource_get_attribute(&stray, 0, &n, sizeof(n), &st), MRAPI_ERR_RSRC_INVALID);
	IS(mrapi_resource_get_attribute(cpu->children[0], 99, &n, sizeof(n), &st),
	   MRAPI_ERR_ATTR_NUM);
	IS(mrapi_resource_get_attribute(cpu->children[0], MRAPI_RSRC_CPU_ID, &n, 1, &st),
	   MRAPI_ERR_ATTR_SIZE);
	IS(mrapi_resource_tree_free(&cpu->children[0], &st), MRAPI_ERR_RSRC_INVALID_TREE);
	OK(mrapi_resource_tree_free(&all, &st));
	CHECK(all == NULL);
	IS(mrapi_resource_tree_free(&all, &st), MRAPI_ERR_RSRC_INVALID_TREE);
	OK(mrapi_resource_tree_free(&cpu, &st));
	OK(mrapi_resource_tree_free(&here, &st));
	basic_end();
}

static int rollovers;

static void rolled(void)
{
	rollovers++;
}

Test(basic_rest, counters)
{
	mrapi_resource_t *root, *cpu;
	mrapi_uint_t a = 0, b = 0;
	double end;

	OK(root = mrapi_resources_get(MRAPI_RSRC_CPU, &st));
	cpu = root->children[0];
	IS(mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_CYCLES, &a, sizeof(a), &st),
	   MRAPI_ERR_RSRC_NOTSTARTED);
	IS(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_ID, NULL, &st),
	   MRAPI_ERR_RSRC_NOTDYNAMIC);
	IS(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &st),
	   MRAPI_ERR_RSRC_NOTSTARTED);
	OK(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, rolled, &st));
	IS(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, rolled, &st),
	   MRAPI_ERR_RSRC_STARTED);
	OK(mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_CYCLES, &a, sizeof(a), &st));
	OK(mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_CYCLES, &b, sizeof(b), &st));
	CHECK(b > a);
	/* 2^32 cycles are seconds on any machine. */
	for (end = twt_now() + TWT_LONG; !rollovers && twt_now() < end; usleep(10000))
		OK(mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_CYCLES, &a, sizeof(a), &st));
	CHECK(rollovers == 1);
	OK(mrapi_dynamic_attribute_stop(cpu, MRAPI_RSRC_CPU_CYCLES, &st));
	OK(mrapi_dynamic_attribute_reset(cpu, MRAPI_RSRC_CPU_CYCLES, &st));
	OK(mrapi_dynamic_attribute_start(cpu, MRAPI_RSRC_CPU_CYCLES, NULL, &st));
	OK(mrapi_resource_get_attribute(cpu, MRAPI_RSRC_CPU_CYCLES, &b, sizeof(b), &st));
	CHECK(b < 1000000000);
	OK(mrapi_resource_tree_free(&root, &st));
	basic_end();
}

static _Atomic int joined, died;

static void on_join(mrapi_event_t event)
{
	joined += event == MRAPI_EVENT_NODE_JOINED;
}

static void on_death(mrapi_event_t event)
{
	died += event == MRAPI_EVENT_NODE_DIED;
}

static int dies(void *arg, int fd)
{
	(void)arg;
	(void)fd;
	basic_node(2);
	return 0;
}

Test(basic_rest, events)
{
	struct twt_child child;

	IS(mrapi_resource_register_callback(99, 1, on_join, &st), MRAPI_ERR_RSRC_INVALID_EVENT);
	IS(mrapi_resource_register_callback(MRAPI_EVENT_NODE_DIED, 1, NULL, &st),
	   MRAPI_ERR_RSRC_INVALID_CALLBACK);
	OK(mrapi_resource_register_callback(MRAPI_EVENT_NODE_JOINED, 2, on_join, &st));
	OK(mrapi_resource_register_callback(MRAPI_EVENT_NODE_DIED, 1, on_death, &st));
	for (int i = 0; i < 4; i++) {
		twt_spawn(&child, dies, NULL);
		CHECK(twt_join(&child, TWT_LONG) == 0);
		for (double end = twt_now() + TWT_LONG; died <= i && twt_now() < end; usleep(1000))
			;
		CHECK(died == i + 1);
	}
	CHECK(joined == 2);
	basic_end();
}

Test(basic_rest, atomics)
{
	union {
		uint8_t b[8];
		uint64_t q;
	} u = {{0}};
	uint8_t one = 1, got = 0, five = 5;
	uint64_t big = 1ull << 40, before;
	uintptr_t p = 1, q = 0;
	int bit = -1;

	OK(mrapi_atomic_add(NULL, &u.b[3], &one, &got, 1, &st));
	CHECK(u.b[3] == 1 && got == 0 && u.b[2] == 0 && u.b[4] == 0);
	OK(mrapi_atomic_inc(NULL, &u.b[3], &got, 1, &st));
	CHECK(got == 2);
	OK(mrapi_atomic_dec(NULL, &u.b[3], NULL, 1, &st));
	OK(mrapi_atomic_cas(NULL, &u.b[3], &five, &one, &got, 1, &st));
	CHECK(u.b[3] == 5 && got == 1);
	OK(mrapi_atomic_xchg(NULL, &u.q, &big, &before, 8, &st));
	CHECK(u.q == big && before == 5ull << 24);
	OK(mrapi_atomic_xor(NULL, &u.q, &big, &before, 8, &st));
	CHECK(u.q == 0 && before == big);
	OK(mrapi_atomic_set(NULL, &u.q, 31, &bit, 4, &st));
	CHECK(u.q == 1ull << 31 && bit == 0);
	OK(mrapi_atomic_change(NULL, &u.q, 31, &bit, 4, &st));
	CHECK(u.q == 0 && bit == 1);
	IS(mrapi_atomic_set(NULL, &u.q, 32, &bit, 4, &st), MRAPI_ERR_ATOM_OP_FAILED);
	IS(mrapi_atomic_add(NULL, &u.q, &one, NULL, 3, &st), MRAPI_ERR_ATOM_OP_FAILED);
	OK(mrapi_atomic_lock(NULL, &u.q, NULL, 8, &st));
	OK(mrapi_atomic_release(NULL, &u.q, 8, &st));
	IS(mrapi_atomic_release(NULL, &u.q, 8, &st), MRAPI_ERR_ATOM_OP_FAILED);
	OK(mrapi_atomic_xchg_ptr(NULL, &p, 2, &q, &st));
	CHECK(p == 2 && q == 1);
	IS(mrapi_atomic_cas_ptr(NULL, &p, 3, 9, &q, &st), MRAPI_ERR_ATOM_OP_FAILED);
	CHECK(p == 2 && q == 2);
	OK(mrapi_atomic_sync(NULL, &st));
	basic_end();
}

struct cell {
	mrapi_msg_t msg;
	uint32_t value;
};

static int reader(void *arg, int fd)
{
	mrapi_atomic_barrier_t axb;
	struct cell *cell;
	unsigned counter = 0;
	uint32_t got;
	mrapi_shmem_hndl_t h;
	char go;

	(void)arg;
	CHECK(twt_get(fd, &go, 1) == 0);
	basic_node(2);
	OK(h = mrapi_shmem_get(1, &st));
	OK(cell = mrapi_shmem_attach(h, &st));
	OK(mrapi_exchange_init(&axb, getppid(), &cell->msg, 1, sizeof(*cell), &counter, 20000,
			       &st));
	for (uint32_t i = 1; i <= 1000; i++) {
		OK(mrapi_atomic_read(&axb, &cell->value, &got, 4, &st));
		CHECK(got == i);
	}
	basic_end();
	return 0;
}

Test(basic_rest, exchange)
{
	struct twt_child child;
	mrapi_atomic_barrier_t axb;
	struct cell *cell;
	unsigned counter = 0;
	mrapi_shmem_hndl_t h;

	OK(h = mrapi_shmem_create(1, sizeof(*cell), NULL, 0, NULL, &st));
	OK(cell = mrapi_shmem_attach(h, &st));
	twt_spawn(&child, reader, NULL);
	OK(mrapi_exchange_init(&axb, child.pid, &cell->msg, 1, sizeof(*cell), &counter, 20000,
			       &st));
	CHECK(twt_put(child.fd, "g", 1) == 0);
	for (uint32_t i = 1; i <= 1000; i++)
		OK(mrapi_atomic_xchg(&axb, &cell->value, &i, NULL, 4, &st));
	CHECK(twt_join(&child, TWT_LONG) == 0);
	basic_end();
}
