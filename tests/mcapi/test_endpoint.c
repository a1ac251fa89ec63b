/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.2.1 to 4.2.4: create, get, delete. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_endpoint, .init = twc_job, .timeout = MCT_TIMEOUT);

Test(mcapi_endpoint, create_and_delete, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b, c;

	mct_up(1);
	a = mct_create(0);
	b = mct_create(65535);
	twc_check(a != b);
	twc_eq(mct_get(1, 0), a);
	twc_eq(mct_get(1, 65535), b);
	mct_is(MCAPI_EENDP_ISCREATED, c = mcapi_create_endpoint(0, ST));
	twc_eq(c, MCAPI_NULL);
	mct_delete(a);
	mct_is(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(a, ST));
	twc_eq(mct_create(0), a);
	mct_delete(a);
	mct_delete(b);
	mct_down();
}

/* The endpoint of node 0 and port 0 may look like MCAPI_NULL. */
Test(mcapi_endpoint, node_0_port_0, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep, other;

	mct_up(0);
	mct_is(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(MCAPI_NULL, ST));
	ep = mct_create(0);
	other = mct_create(1);
	twc_eq(mct_get(0, 0), ep);
	mct_send(other, ep, 9, 0);
	twc_eq(mct_recv(ep), 9);
	mct_delete(ep);
	mct_delete(other);
	mct_down();
}

Test(mcapi_endpoint, invalid_ports, .timeout = MCT_TIMEOUT)
{
	static const mcapi_port_t wrong[] = {65536, 0x7fffffff, -2, -65536, -2147483647 - 1};
	mcapi_endpoint_t ep;
	mcapi_request_t req = 0;

	mct_up(1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		mct_is(MCAPI_EPORT_NOTVALID, ep = mcapi_create_endpoint(wrong[i], ST));
		twc_eq(ep, MCAPI_NULL);
	}
	/* No endpoint has this port: it would be waited for in vain. */
	mct_is(MCAPI_EPORT_NOTVALID, ep = mcapi_get_endpoint(1, MCAPI_PORT_ANY, ST));
	twc_eq(ep, MCAPI_NULL);
	mct_is(MCAPI_EPORT_NOTVALID, mcapi_get_endpoint_i(1, MCAPI_PORT_ANY, &ep, &req, ST));
	/* Otherwise a get looks at 16 bits, as programs of the field expect. */
	ep = mct_create(5);
	twc_eq(mct_get(1, 65536 + 5), ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_endpoint, invalid_nodes, .timeout = MCT_TIMEOUT)
{
	static const mcapi_node_t wrong[] = {MCAPI_MAX_NODES, 0x10000, 0x80000000, 0xffffffff};
	mcapi_endpoint_t ep;
	mcapi_request_t req = 0;

	mct_up(1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		mct_is(MCAPI_ENODE_NOTVALID, ep = mcapi_get_endpoint(wrong[i], 1, ST));
		twc_eq(ep, MCAPI_NULL);
		mct_is(MCAPI_ENODE_NOTVALID, mcapi_get_endpoint_i(wrong[i], 1, &ep, &req, ST));
	}
	mct_down();
}

Test(mcapi_endpoint, null_arguments, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep, got = 0;
	mcapi_request_t req = 0;

	mct_up(1);
	mct_null(mcapi_create_endpoint(1, MCAPI_NULL));
	/* It was not created. */
	ep = mct_create(1);
	mct_null(mcapi_get_endpoint(1, 1, MCAPI_NULL));
	mct_null(mcapi_get_endpoint_i(1, 1, &got, &req, MCAPI_NULL));
	mct_is(MCAPI_EPARAM, mcapi_get_endpoint_i(1, 1, MCAPI_NULL, &req, ST));
	mct_is(MCAPI_EPARAM, mcapi_get_endpoint_i(1, 1, &got, MCAPI_NULL, ST));
	mct_null(mcapi_delete_endpoint(ep, MCAPI_NULL));
	twc_eq(mct_get(1, 1), ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_endpoint, not_an_endpoint, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(1);
	mct_is(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(0xffffffff, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_delete_endpoint(ep + 1, ST));
	mct_delete(ep);
	mct_down();
}

/* Pending messages are discarded (4.2.4). */
Test(mcapi_endpoint, delete_discards_messages, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	for (uint64_t i = 0; i < 10; i++)
		mct_send(a, b, i, (mcapi_priority_t)i % 8);
	mct_available(b, 10);
	mct_delete(b);
	b = mct_create(2);
	mct_available(b, 0);
	twc_eq(mct_attr(b, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 128);
	mct_send(a, b, 55, 0);
	twc_eq(mct_recv(b), 55);
	mct_delete(a);
	mct_delete(b);
	mct_down();
}

Test(mcapi_endpoint, port_any, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t any[50];

	mct_up(1);
	for (int i = 0; i < 50; i++) {
		any[i] = mct_create(MCAPI_PORT_ANY);
		for (int j = 0; j < i; j++)
			twc_check(any[i] != any[j]);
	}
	/* The lowest number that is free comes next. */
	mct_delete(any[20]);
	mct_delete(any[10]);
	twc_eq(mct_create(MCAPI_PORT_ANY), any[10]);
	twc_eq(mct_create(MCAPI_PORT_ANY), any[20]);
	/* Chosen ports stay free for those who choose. */
	for (int port = 0; port < 64; port++)
		mct_delete(mct_create(port));
	for (int i = 0; i < 50; i++)
		mct_delete(any[i]);
	mct_down();
}

/* More than there are ports. */
Test(mcapi_endpoint, port_any_cycles, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t first, ep;

	mct_up(1);
	first = mct_create(MCAPI_PORT_ANY);
	mct_delete(first);
	for (int i = 0; i < 66000; i++) {
		mct_ok(ep = mcapi_create_endpoint(MCAPI_PORT_ANY, ST));
		mct_ok(mcapi_delete_endpoint(ep, ST));
	}
	twc_eq(mct_create(MCAPI_PORT_ANY), first);
	mct_down();
}

/* As many as the header promises; all of them work. */
Test(mcapi_endpoint, limit, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t *ep = calloc(MCAPI_MAX_ENDPOINTS, sizeof(*ep)), more;

	twc_check(ep);
	mct_up(1);
	for (int i = 0; i < MCAPI_MAX_ENDPOINTS; i++)
		ep[i] = mct_create(i % 2 ? i : MCAPI_PORT_ANY);
	mct_is(MCAPI_EENDP_LIMIT, more = mcapi_create_endpoint(60000, ST));
	twc_eq(more, MCAPI_NULL);
	mct_is(MCAPI_EENDP_LIMIT, mcapi_create_endpoint(MCAPI_PORT_ANY, ST));
	for (int i = 0; i < MCAPI_MAX_ENDPOINTS; i++)
		mct_send(ep[i], ep[(i + 1) % MCAPI_MAX_ENDPOINTS], (uint64_t)i, 0);
	for (int i = 0; i < MCAPI_MAX_ENDPOINTS; i++)
		twc_eq(mct_recv(ep[(i + 1) % MCAPI_MAX_ENDPOINTS]), i);
	mct_delete(ep[7]);
	twc_eq(mct_create(7), ep[7]);
	for (int i = 0; i < MCAPI_MAX_ENDPOINTS; i++)
		mct_delete(ep[i]);
	mct_down();
	free(ep);
}

/* Another node sees all of them, and only the creator deletes. */
MCT_BOTH(mcapi_endpoint, get_from_elsewhere, 2)
{
	enum { MANY = 1024 };

	if (me->rank == 0) {
		for (int i = 0; i < MANY; i++)
			atomic_store(&me->shared->word[i % 64], mct_create(i));
		mct_meet(me);
		mct_meet(me);
		for (int i = 0; i < MANY; i += 100)
			twc_eq(mct_recv(mct_get(0, i)), i);
		for (int i = 0; i < MANY; i++)
			mct_delete(mct_get(0, i));
		mct_meet(me);
		return;
	}
	mcapi_endpoint_t from = mct_create(3);

	mct_meet(me);
	for (int i = 0; i < MANY; i++) {
		mcapi_endpoint_t ep = mct_get(0, i);

		if (i >= MANY - 64)
			twc_eq(ep, atomic_load(&me->shared->word[i % 64]));
		if (i % 100 == 0)
			mct_send(from, ep, (uint64_t)i, 1);
	}
	mct_is(MCAPI_ENOT_OWNER, mcapi_delete_endpoint(mct_get(0, 5), ST));
	mct_meet(me);
	mct_meet(me);
	mct_delete(from);
}

/* get_endpoint() waits for the endpoint, even for its node. */
MCT_BOTH(mcapi_endpoint, get_waits, 3)
{
	mcapi_endpoint_t ep, mine;

	if (me->rank == 0) {
		mct_meet(me);
		/* So that the others wait; it works either way. */
		twc_sleep(100);
		mine = mct_create(17);
		atomic_store(&me->shared->word[0], mine);
	} else {
		mine = mct_create(4);
		mct_meet(me);
		mct_ok(ep = mcapi_get_endpoint(0, 17, ST));
		mct_until(me, 0, 1);
		twc_eq(ep, atomic_load(&me->shared->word[0]));
		mct_send(mine, ep, (uint64_t)me->rank, 0);
	}
	if (me->rank == 0)
		twc_eq(mct_recv(mine) + mct_recv(mine), 3);
	mct_meet(me);
	mct_delete(mine);
}

/* The same, without blocking. */
MCT_BOTH(mcapi_endpoint, get_i_waits, 2)
{
	mcapi_endpoint_t ep = 0x5a5a5a5a;
	mcapi_request_t req = 0;

	if (me->rank == 0) {
		mct_meet(me);
		mct_meet(me);
		ep = mct_create(18);
		atomic_store(&me->shared->word[0], ep);
		mct_meet(me);
		mct_meet(me);
		mct_delete(ep);
		return;
	}
	mct_meet(me);
	mct_ok(mcapi_get_endpoint_i(0, 18, &ep, &req, ST));
	mct_pending(&req);
	twc_eq(ep, 0x5a5a5a5a);
	mct_meet(me);
	mct_done(&req);
	mct_meet(me);
	twc_eq(ep, atomic_load(&me->shared->word[0]));
	/* It exists now. */
	ep = 0;
	mct_ok(mcapi_get_endpoint_i(0, 18, &ep, &req, ST));
	mct_done(&req);
	twc_eq(ep, atomic_load(&me->shared->word[0]));
	mct_meet(me);
}

/* Of a node that starts only later. */
static void late_node(struct mct_me *me)
{
	mcapi_endpoint_t ep = 0;
	mcapi_request_t req = 0;

	if (me->rank == 0) {
		mct_up(0);
		mct_ok(mcapi_get_endpoint_i(21, 3, &ep, &req, ST));
		mct_pending(&req);
		mct_meet(me);
		mct_done(&req);
		twc_eq(mct_get(21, 3), ep);
		mct_meet(me);
		mct_down();
		return;
	}
	mct_meet(me);
	twc_sleep(50);
	mct_up(21);
	ep = mct_create(3);
	mct_meet(me);
	mct_down();
}

Test(mcapi_endpoint, node_that_starts_later_threads, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_THREADS, 2, late_node);
}

Test(mcapi_endpoint, node_that_starts_later_processes, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_PROCESSES, 2, late_node);
}

/* Own endpoints that do not exist yet: another thread of the node makes them. */
static void get_here(void *arg)
{
	*(mcapi_endpoint_t *)arg = mct_get(1, 40);
}

Test(mcapi_endpoint, get_waits_for_own_node, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep, got[4] = {0};
	struct twc_thread t[4];

	mct_up(1);
	for (int i = 0; i < 4; i++)
		twc_start(&t[i], get_here, &got[i]);
	for (int i = 0; i < 4; i++)
		twc_asleep(&t[i]);
	ep = mct_create(40);
	for (int i = 0; i < 4; i++) {
		twc_join(&t[i]);
		twc_eq(got[i], ep);
	}
	mct_delete(ep);
	mct_down();
}

/* A node that lives on another host, as the topology says (an address for texts). */
Test(mcapi_endpoint, not_allowed_here, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;

	twc_eq(setenv("TAGWIRE_NODES", "3-4=192.0.2.1", 1), 0);
	mct_up(3);
	mct_is(MCAPI_EEP_NOTALLOWED, ep = mcapi_create_endpoint(1, ST));
	twc_eq(ep, MCAPI_NULL);
	mct_is(MCAPI_EEP_NOTALLOWED, mcapi_create_endpoint(MCAPI_PORT_ANY, ST));
	mct_down();
	mct_up(5);
	mct_delete(mct_create(1));
	mct_down();
}
