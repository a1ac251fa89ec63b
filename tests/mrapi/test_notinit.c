/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI_ERR_NODE_NOTINIT: every call by what is no node, with good arguments. */
#include "mrapi/mrapit.h"

TestSuite(mrapi_notinit, .init = twc_job, .timeout = MR_TIMEOUT);

#define NO(call) mr_is(MRAPI_ERR_NODE_NOTINIT, call)

static void objects(void)
{
	union mr_attributes a;
	mrapi_boolean_t b = MRAPI_TRUE;

	memset(&a, 0, sizeof(a));
	for (int i = 0; i < MR_KINDS; i++) {
		const struct mr_kind *k = &mr_kind[i];

		NO(k->init_attributes(&a));
		NO(k->set_attribute(&a, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		NO(k->get_attribute(1, MRAPI_DOMAIN_SHARED, &b, sizeof(b)));
		NO(k->create(1, NULL));
		NO(k->get(1));
		NO(k->remove(1));
		if (!k->lock)
			continue;
		NO(k->lock(1, 0));
		twc_check(!mr_get(MRAPI_ERR_NODE_NOTINIT, k->trylock(1)));
		NO(k->unlock(1));
	}
}

static void nodes(void)
{
	mrapi_uint_t v;

	NO(mrapi_finalize(&mr_st));
	NO(mrapi_node_id_get(&mr_st));
	NO(mrapi_domain_id_get(&mr_st));
	NO(mrapi_node_get_attribute(MR_NODE, MRAPI_OBJECT_ID, &v, sizeof(v), &mr_st));
}

static void memory(void)
{
	mrapi_request_t r = 1;
	size_t size;
	char buf[8];

	twc_check(!mr_get(MRAPI_ERR_NODE_NOTINIT, mrapi_shmem_attach(1, &mr_st)));
	NO(mrapi_shmem_detach(1, &mr_st));
	NO(mrapi_rmem_attach(1, &mr_st));
	NO(mrapi_rmem_detach(1, &mr_st));
	NO(mrapi_rmem_read(1, 0, buf, 8, 0, 8, 1, 0, 0, &mr_st));
	NO(mrapi_rmem_write(1, 0, buf, 0, 8, 1, 0, 0, &mr_st));
	NO(mrapi_rmem_read_i(1, 0, buf, 0, 8, 1, 0, 0, &r, &mr_st));
	NO(mrapi_rmem_write_i(1, 0, buf, 0, 8, 1, 0, 0, &r, &mr_st));
	NO(mrapi_rmem_flush(1, &mr_st));
	NO(mrapi_rmem_sync(1, &mr_st));
	twc_check(!mr_get(MRAPI_ERR_NODE_NOTINIT, mrapi_test(&r, &size, &mr_st)));
	twc_check(!mr_get(MRAPI_ERR_NODE_NOTINIT, mrapi_wait(&r, &size, 0, &mr_st)));
	twc_eq(mr_get(MRAPI_ERR_NODE_NOTINIT, mrapi_wait_any(1, &r, &size, 0, &mr_st)),
	       MRAPI_INFINITE);
	NO(mrapi_cancel(&r, &mr_st));
}

static void never(void)
{
	twc_check(0);
}

static void never_event(mrapi_event_t event)
{
	(void)event;
	twc_check(0);
}

static void metadata(mrapi_resource_t *tree)
{
	mrapi_resource_t *kept = tree;
	mrapi_uint_t v;

	twc_check(!mr_get(MRAPI_ERR_NODE_NOTINIT, mrapi_resources_get(MRAPI_RSRC_ALL, &mr_st)));
	NO(mrapi_resource_get_attribute(tree, MRAPI_RSRC_CPU_ID, &v, sizeof(v), &mr_st));
	NO(mrapi_dynamic_attribute_start(tree, MRAPI_RSRC_CPU_CYCLES, never, &mr_st));
	NO(mrapi_dynamic_attribute_reset(tree, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	NO(mrapi_dynamic_attribute_stop(tree, MRAPI_RSRC_CPU_CYCLES, &mr_st));
	NO(mrapi_resource_register_callback(MRAPI_EVENT_NODE_LEFT, 1, never_event, &mr_st));
	NO(mrapi_resource_tree_free(&tree, &mr_st));
	twc_check(tree == kept);
}

static void atomics(void)
{
	static mrapi_uint32_t x = 5, one = 1, prev;
	static uintptr_t p;
	mrapi_atomic_barrier_t b;
	mrapi_msg_t msg = {0};
	unsigned counter = 0;
	int bit;

	memset(&b, 0, sizeof(b));
	NO(mrapi_barrier_init(&b, 0, &msg, 1, sizeof(msg), &counter, 1, &mr_st));
	NO(mrapi_exchange_init(&b, 0, &msg, 1, sizeof(msg), &counter, 1, &mr_st));
	NO(mrapi_atomic_hold(&b, MRAPI_TRUE, &mr_st));
	NO(mrapi_atomic_read(NULL, &x, &prev, 4, &mr_st));
	NO(mrapi_atomic_read_ptr(NULL, &p, &p, &mr_st));
	NO(mrapi_atomic_add(NULL, &x, &one, &prev, 4, &mr_st));
	NO(mrapi_atomic_inc(NULL, &x, &prev, 4, &mr_st));
	NO(mrapi_atomic_dec(NULL, &x, &prev, 4, &mr_st));
	NO(mrapi_atomic_or(NULL, &x, &one, &prev, 4, &mr_st));
	NO(mrapi_atomic_and(NULL, &x, &one, &prev, 4, &mr_st));
	NO(mrapi_atomic_xor(NULL, &x, &one, &prev, 4, &mr_st));
	NO(mrapi_atomic_cas(NULL, &x, &one, &x, &prev, 4, &mr_st));
	NO(mrapi_atomic_xchg(NULL, &x, &one, &prev, 4, &mr_st));
	NO(mrapi_atomic_cas_ptr(NULL, &p, 1, 0, &p, &mr_st));
	NO(mrapi_atomic_xchg_ptr(NULL, &p, 1, 0, &p, &mr_st));
	NO(mrapi_atomic_sync(NULL, &mr_st));
	NO(mrapi_atomic_lock(NULL, &x, &prev, 4, &mr_st));
	NO(mrapi_atomic_release(NULL, &x, 4, &mr_st));
	NO(mrapi_atomic_set(NULL, &x, 1, &bit, 4, &mr_st));
	NO(mrapi_atomic_clear(NULL, &x, 0, &bit, 4, &mr_st));
	NO(mrapi_atomic_change(NULL, &x, 0, &bit, 4, &mr_st));
	/* Nothing was done. */
	twc_eq(x, 5);
	twc_eq(p, 0);
}

static void everything(mrapi_resource_t *tree)
{
	objects();
	nodes();
	memory();
	metadata(tree);
	atomics();
}

Test(mrapi_notinit, before)
{
	mrapi_resource_t none;

	memset(&none, 0, sizeof(none));
	everything(&none);
}

Test(mrapi_notinit, after)
{
	mrapi_resource_t none;

	memset(&none, 0, sizeof(none));
	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		mr_ok(mr_kind[i].create(1, NULL));
	mr_down();
	everything(&none);
}

static void in_child(void *arg)
{
	mrapi_resource_t none;

	(void)arg;
	memset(&none, 0, sizeof(none));
	everything(&none);
}

/* The child of a node, with that node's handles, requests and resources. */
Test(mrapi_notinit, child)
{
	struct mr_peer p;

	mr_up(MR_NODE);
	for (int i = 0; i < MR_KINDS; i++)
		mr_ok(mr_kind[i].create(1, NULL));
	mr_peer_raw(&p, MR_PROCESS);
	mr_do(&p, in_child, NULL);
	mr_peer_end(&p);
	mr_down();
}
