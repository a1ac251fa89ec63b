/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.1: initialize, finalize, get_node_id; calls in the wrong order. */
#include <stdlib.h>
#include <sys/resource.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_init, .init = twc_job, .timeout = MCT_TIMEOUT);

Test(mcapi_init, initialize_and_finalize, .timeout = MCT_TIMEOUT)
{
	mcapi_version_t version = 0;
	mcapi_uint_t node = 77;

	mct_ok(mcapi_initialize(5, &version, ST));
	twc_eq(version, MCAPI_VERSION);
	mct_ok(node = mcapi_get_node_id(ST));
	twc_eq(node, 5);
	mct_ok(mcapi_finalize(ST));
}

Test(mcapi_init, initialize_twice, .timeout = MCT_TIMEOUT)
{
	mcapi_version_t version = 0;
	mcapi_uint_t node;

	mct_up(3);
	mct_is(MCAPI_INITIALIZED, mcapi_initialize(3, &version, ST));
	/* The same thread of control, whatever the number (3.1). */
	mct_is(MCAPI_INITIALIZED, mcapi_initialize(4, &version, ST));
	mct_ok(node = mcapi_get_node_id(ST));
	twc_eq(node, 3);
	mct_delete(mct_create(1));
	mct_down();
	mct_is(MCAPI_ENO_FINAL, mcapi_finalize(ST));
}

Test(mcapi_init, invalid_nodes, .timeout = MCT_TIMEOUT)
{
	static const mcapi_node_t wrong[] = {MCAPI_MAX_NODES, MCAPI_MAX_NODES + 1, 0x10000,
					     0x80000000, 0xffffffff};
	mcapi_version_t version = 0;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		mct_is(MCAPI_ENODE_NOTVALID, mcapi_initialize(wrong[i], &version, ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	mct_up(MCAPI_MAX_NODES - 1);
	twc_eq(mcapi_get_node_id(ST), MCAPI_MAX_NODES - 1);
	mct_delete(mct_create(9));
	mct_down();
}

Test(mcapi_init, null_arguments, .timeout = MCT_TIMEOUT)
{
	mcapi_version_t version = 0;
	mcapi_uint_t node;

	mct_is(MCAPI_EPARAM, mcapi_initialize(1, MCAPI_NULL, ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	/* A call that cannot tell does nothing. */
	mct_null(mcapi_initialize(1, &version, MCAPI_NULL));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	mct_up(1);
	mct_null(mcapi_get_node_id(MCAPI_NULL));
	mct_null(mcapi_finalize(MCAPI_NULL));
	mct_ok(node = mcapi_get_node_id(ST));
	twc_eq(node, 1);
	mct_down();
}

Test(mcapi_init, finalize_without_initialize, .timeout = MCT_TIMEOUT)
{
	mct_is(MCAPI_ENO_FINAL, mcapi_finalize(ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	mct_up(0);
	mct_down();
	mct_is(MCAPI_ENO_FINAL, mcapi_finalize(ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
}

/* Everything that was made by the first instance is unknown to the second. */
Test(mcapi_init, second_instance, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t old = 0;

	for (int i = 0; i < 10; i++) {
		struct mct_chan pkt, scl;
		mcapi_endpoint_t ep;

		mct_up(7);
		if (i)
			mct_is(MCAPI_ENOT_ENDP, mcapi_msg_available(old, ST));
		ep = old = mct_create(12);
		mct_send(ep, ep, 100 + (uint64_t)i, 0);
		twc_eq(mct_recv(ep), 100 + i);
		mct_chan(&pkt, &mct_kinds[MCT_PKT]);
		mct_chan(&scl, &mct_kinds[MCT_SCL]);
		mct_put(pkt.k, pkt.tx, 1);
		mct_put(scl.k, scl.tx, 2);
		twc_eq(mct_take(pkt.k, pkt.rx), 1);
		twc_eq(mct_take(scl.k, scl.rx), 2);
		/* Not closed, not deleted, and a message left over: all of it ends here. */
		mct_send(ep, ep, 200, 0);
		mct_down();
	}
}

/* No call needs more than to be told that there is no node. */
static void every_call(void)
{
	mcapi_endpoint_t ep = 0;
	mcapi_request_t req = 0, *reqs[] = {&req};
	char buffer[8] = "", *p = NULL;
	uint32_t value = 1, h = 0;
	size_t size = 0;

	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	mct_is(MCAPI_ENODE_NOTINIT, ep = mcapi_create_endpoint(1, ST));
	twc_eq(ep, MCAPI_NULL);
	/* Not documented for these two: but they cannot succeed, nor block. */
	mct_is(MCAPI_ENODE_NOTINIT, ep = mcapi_get_endpoint(0, 1, ST));
	twc_eq(ep, MCAPI_NULL);
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_endpoint_i(0, 1, &ep, &req, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(1, ST));
	mct_is(MCAPI_ENOT_ENDP,
	       mcapi_get_endpoint_attribute(1, MCAPI_ATTR_NO_BUFFERS, &value, 4, ST));
	mct_is(MCAPI_ENOT_ENDP,
	       mcapi_set_endpoint_attribute(1, MCAPI_ATTR_NO_BUFFERS, &value, 4, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_send(1, 2, buffer, 1, 0, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_send_i(1, 2, buffer, 1, 0, &req, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_recv(1, buffer, 1, &size, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_recv_i(1, buffer, 1, &req, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_available(1, ST));
	mct_each_kind(k)
	{
		mct_k(MCAPI_ENOT_ENDP, k, connect, 1, 2, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_recv, &h, 1, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_send, &h, 1, &req);
		mct_k(MCAPI_ENOT_HANDLE, k, close_recv, h, &req);
		mct_k(MCAPI_ENOT_HANDLE, k, close_send, h, &req);
		mct_k(MCAPI_ENOT_HANDLE, k, send, h, 1);
		mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
		mct_k(MCAPI_ENOT_HANDLE, k, available, h);
	}
	mct_is(MCAPI_ENOT_HANDLE, mcapi_pktchan_send_i(h, buffer, 1, &req, ST));
	mct_is(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv_i(h, (void **)&p, &req, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(buffer, ST));
	req = 1;
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_test(&req, &size, ST));
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_wait(&req, &size, ST, MCT_LONG));
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_wait_any(1, reqs, &size, ST, MCT_LONG));
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&req, ST));
}

Test(mcapi_init, calls_without_a_node, .timeout = MCT_TIMEOUT)
{
	every_call();
	mct_up(2);
	mct_down();
	every_call();
}

/* A number serves one node of the job at a time. */
static void second_comer(struct mct_me *me)
{
	mcapi_version_t version = 0;

	if (me->rank == 0) {
		mct_up(6);
		mct_meet(me);
		mct_meet(me);
		mct_down();
		mct_meet(me);
		return;
	}
	mct_meet(me);
	mct_either(MCAPI_INITIALIZED, MCAPI_ENODE_NOTVALID, mcapi_initialize(6, &version, ST));
	/* The refusal leaves no trace. */
	mct_up(8);
	mct_delete(mct_create(1));
	mct_down();
	mct_meet(me);
	mct_meet(me);
	mct_up(6);
	mct_delete(mct_create(1));
	mct_down();
}

Test(mcapi_init, duplicate_number_threads, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_THREADS, 2, second_comer);
}

Test(mcapi_init, duplicate_number_processes, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_PROCESSES, 2, second_comer);
}

/* A thread that did not initialize acts for the first node of its process. */
static void acts_for_the_first(void *arg)
{
	mcapi_endpoint_t *ep = arg;

	twc_eq(mcapi_get_node_id(ST), 4);
	*ep = mct_create(30);
	mct_send(*ep, *ep, 5, 0);
}

static void is_the_second(void *arg)
{
	(void)arg;
	mct_up(9);
	twc_eq(mcapi_get_node_id(ST), 9);
	mct_delete(mct_create(30));
	mct_down();
}

Test(mcapi_init, threads_of_a_node, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t;
	mcapi_endpoint_t ep = 0;

	mct_up(4);
	twc_start(&t, is_the_second, NULL);
	twc_join(&t);
	twc_start(&t, acts_for_the_first, &ep);
	twc_join(&t);
	twc_eq(mct_recv(ep), 5);
	mct_delete(ep);
	mct_down();
}

/* No descriptors left: nothing can be set up. */
static int cannot_initialize(void *arg, int fd)
{
	struct rlimit none = {0, 0}, all;
	mcapi_status_t status = MCAPI_ERROR;
	mcapi_version_t version = 0;

	(void)arg;
	(void)fd;
	twc_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	none.rlim_max = all.rlim_max;
	twc_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	mcapi_initialize(1, &version, &status);
	/* First, so that what is seen can be noted. */
	twc_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	mct_status = status;
	mct_is_at(__FILE__, __LINE__, "mcapi_initialize()", MCAPI_ENO_INIT);
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	/* It was no more than that. */
	mct_up(1);
	mct_delete(mct_create(1));
	mct_down();
	return 0;
}

Test(mcapi_init, cannot_initialize, .timeout = MCT_TIMEOUT)
{
	struct twt_child child;

	twt_spawn(&child, cannot_initialize, NULL);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
}

/* Nor with a topology that is none. */
Test(mcapi_init, wrong_topology, .timeout = MCT_TIMEOUT)
{
	static const char *const wrong[] = {"3-4",	     "1=a=b",	    "5-2=localhost",
					    "999=localhost", "x=localhost", "1=host.invalid"};
	mcapi_version_t version = 0;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		twc_eq(setenv("TAGWIRE_NODES", wrong[i], 1), 0);
		mcapi_initialize(1, &version, ST);
		if (mct_status != MCAPI_ENO_INIT)
			twc_fail(__FILE__, __LINE__, "%s: %s, not MCAPI_ENO_INIT", wrong[i],
				 mct_name(mct_status));
	}
	twc_eq(unsetenv("TAGWIRE_NODES"), 0);
	mct_up(1);
	mct_down();
}

Test(mcapi_init, every_status_has_a_sentence, .timeout = MCT_TIMEOUT)
{
	static const mcapi_status_t odd[] = {-1, MCAPI_EATTR_SIZE + 1, 1000, -2147483647 - 1,
					     2147483647};

	for (int i = MCAPI_SUCCESS; i <= MCAPI_EATTR_SIZE; i++) {
		const char *text = mcapi_strerror(i);

		twc_check(text && *text);
		/* MCAPI_EPARAM_ERROR is another name for MCAPI_EPARAM. */
		for (int j = MCAPI_SUCCESS; j < i && i != MCAPI_EPARAM_ERROR; j++)
			if (!strcmp(text, mcapi_strerror(j)))
				twc_fail(__FILE__, __LINE__, "%d and %d: %s", j, i, text);
	}
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		twc_check(mcapi_strerror(odd[i]) && *mcapi_strerror(odd[i]));
}

/* Names that the specification spells two ways, and what it fixes (5). */
Test(mcapi_init, names_and_limits, .timeout = MCT_TIMEOUT)
{
	enum mcapi_attribute_numbers attribute = MCAPI_ATTR_NO_BUFFERS;

	twc_eq(attribute, 1);
	twc_eq(MCAPI_MAX_NO_PRIORITIES, MCAPI_MAX_NO_PRORITIES);
	twc_eq(MCAPI_EPACKLIMIT, MCAPI_EPACK_LIMIT);
	twc_eq(MCAPI_TIMEOUT_INFINITE, MCAPI_INFINITE);
	twc_eq(MCAPI_PORT_ANY, -1);
	twc_eq(MCAPI_BUF_ALIGN, 32);
	twc_check(MCAPI_MAX_NODES >= 64);
	twc_check(MCAPI_MAX_ENDPOINTS >= 1024);
	twc_check(MCAPI_MAX_MESSAGE_SIZE >= 16 << 20);
	twc_check(MCAPI_MAX_PACKET_SIZE >= 16 << 20);
	twc_eq(sizeof(mcapi_uint64_t), 8);
	twc_eq(sizeof(mcapi_uint32_t), 4);
	twc_eq(sizeof(mcapi_uint16_t), 2);
	twc_eq(sizeof(mcapi_uint8_t), 1);
	twc_eq(sizeof(mcapi_endpoint_t), 4);
}
