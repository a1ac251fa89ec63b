/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3: one message, and what is wrong with it. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_msg, .init = twc_job, .timeout = MCT_TIMEOUT);

/* Sizes around every border that an implementation may have. */
static const size_t sizes[] = {0,      1,      2,      3,	7,	8,    31,   32,
			       33,     55,     63,     64,	65,	127,  129,  1000,
			       4095,   4096,   4097,   8191,	8192,	8193, 9999, 65537,
			       196608, 196609, 262145, 1000003, 4194305};
#define SIZES (int)(sizeof(sizes) / sizeof(*sizes))

static uint8_t *filled(size_t size, uint64_t seed)
{
	uint8_t *p = malloc(size + 1);

	twc_check(p);
	twt_fill(p, size, seed);
	return p;
}

static void send_both_ways(mcapi_endpoint_t from, mcapi_endpoint_t to, size_t size, uint64_t seed)
{
	uint8_t *p = filled(size, seed), *q = filled(size, seed + 1000);
	mcapi_request_t req = 0;

	mct_ok(mcapi_msg_send(from, to, p, size, 0, ST));
	/* The buffer is ours again. */
	memset(p, 0xee, size);
	mct_ok(mcapi_msg_send_i(from, to, q, size, 0, &req, ST));
	twc_eq(mct_done(&req), size);
	memset(q, 0xee, size);
	free(p);
	free(q);
}

static void recv_both_ways(mcapi_endpoint_t ep, size_t size, uint64_t seed)
{
	uint8_t *p = malloc(size + 9);
	mcapi_request_t req = 0;
	size_t got = 77;

	twc_check(p);
	memset(p, 0x5a, size + 9);
	mct_ok(mcapi_msg_recv(ep, p, size + 8, &got, ST));
	twc_eq(got, size);
	twc_eq(twt_check(p, size, seed), size);
	twc_eq(p[size + 8], 0x5a);
	memset(p, 0x5a, size + 9);
	mct_ok(mcapi_msg_recv_i(ep, p, size, &req, ST));
	twc_eq(mct_done(&req), size);
	twc_eq(twt_check(p, size, seed + 1000), size);
	twc_eq(p[size], 0x5a);
	free(p);
}

MCT_BOTH(mcapi_msg, sizes_between_nodes, 2)
{
	mcapi_endpoint_t mine = mct_create(1);

	if (me->rank == 0)
		for (int i = 0; i < SIZES; i++)
			recv_both_ways(mine, sizes[i], (uint64_t)i);
	else
		for (int i = 0; i < SIZES; i++)
			send_both_ways(mine, mct_get(0, 1), sizes[i], (uint64_t)i);
	mct_meet(me);
	mct_delete(mine);
}

/* To another endpoint of the same node, and to itself, from one thread. */
Test(mcapi_msg, sizes_in_one_node, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	for (int i = 0; i < SIZES; i++)
		for (int to = 0; to < 2; to++) {
			mcapi_endpoint_t there = to ? b : a;
			uint8_t *p = filled(sizes[i], 5), *q = malloc(sizes[i] + 1);
			mcapi_request_t s = 0, r = 0;

			twc_check(q);
			mct_ok(mcapi_msg_send_i(a, there, p, sizes[i], 2, &s, ST));
			mct_ok(mcapi_msg_recv_i(there, q, sizes[i], &r, ST));
			twc_eq(mct_done(&r), sizes[i]);
			twc_eq(mct_done(&s), sizes[i]);
			twc_eq(twt_check(q, sizes[i], 5), sizes[i]);
			free(p);
			free(q);
		}
	mct_delete(a);
	mct_delete(b);
	mct_down();
}

/* The longest message, and one byte more. */
MCT_BOTH(mcapi_msg, longest, 2)
{
	size_t size = MCAPI_MAX_MESSAGE_SIZE, got = 0;
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	uint8_t *p = filled(size + 1, 99);
	mcapi_request_t req = 0;

	if (me->rank == 0) {
		mct_is(MCAPI_EMESS_LIMIT, mcapi_msg_send(mine, other, p, size + 1, 0, ST));
		mct_is(MCAPI_EMESS_LIMIT, mcapi_msg_send_i(mine, other, p, size + 1, 0, &req, ST));
		mct_is(MCAPI_EMESS_LIMIT, mcapi_msg_send(mine, other, p, (size_t)-1, 0, ST));
		mct_is(MCAPI_EMESS_LIMIT,
		       mcapi_msg_send_i(mine, other, p, (size_t)-1, 0, &req, ST));
		mct_ok(mcapi_msg_send(mine, other, p, size, 0, ST));
	} else {
		memset(p, 0, size);
		mct_ok(mcapi_msg_recv(mine, p, size, &got, ST));
		twc_eq(got, size);
		twc_eq(twt_check(p, size, 99), size);
	}
	free(p);
	mct_meet(me);
	mct_available(mine, 0);
}

/* Addresses of every alignment are legal (3.11). */
Test(mcapi_msg, alignments, .timeout = MCT_TIMEOUT)
{
	uint8_t p[256], q[256];
	mcapi_endpoint_t a;
	size_t got;

	mct_up(1);
	a = mct_create(1);
	for (int from = 0; from < 17; from++)
		for (int to = 0; to < 17; to++) {
			memset(q, 0, sizeof(q));
			twt_fill(p + from, 101, 7);
			mct_ok(mcapi_msg_send(a, a, p + from, 101, 0, ST));
			mct_ok(mcapi_msg_recv(a, q + to, 101, &got, ST));
			twc_eq(twt_check(q + to, 101, 7), 101);
		}
	mct_down();
}

Test(mcapi_msg, priorities_exist, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	mcapi_endpoint_t a;

	mct_up(1);
	a = mct_create(1);
	for (mcapi_priority_t prio = 0; prio < MCAPI_MAX_NO_PRIORITIES; prio++) {
		mct_send(a, a, prio, prio);
		twc_eq(mct_recv(a), prio);
	}
	mct_is(MCAPI_EPRIO, mcapi_msg_send(a, a, "x", 1, MCAPI_MAX_NO_PRIORITIES, ST));
	mct_is(MCAPI_EPRIO, mcapi_msg_send(a, a, "x", 1, (mcapi_priority_t)-1, ST));
	mct_is(MCAPI_EPRIO, mcapi_msg_send_i(a, a, "x", 1, MCAPI_MAX_NO_PRIORITIES, &req, ST));
	mct_is(MCAPI_EPRIO, mcapi_msg_send_i(a, a, "x", 1, (mcapi_priority_t)-1, &req, ST));
	mct_available(a, 0);
	mct_down();
}

/* A blocking receive, then one that was there before the message. */
static void truncated(mcapi_endpoint_t from, mcapi_endpoint_t to, size_t sent, size_t room)
{
	uint8_t *p = filled(sent, 3), *q = malloc(room + 8);
	mcapi_request_t req = 0, s = 0;
	size_t got = 0;

	twc_check(q);
	memset(q, 0x5a, room + 8);
	mct_ok(mcapi_msg_send_i(from, to, p, sent, 0, &s, ST));
	mct_is(MCAPI_ETRUNCATED, mcapi_msg_recv(to, q, room, &got, ST));
	mct_done(&s);
	for (int i = 0; i < 8; i++)
		twc_eq(q[room + i], 0x5a);
	mct_ok(mcapi_msg_recv_i(to, q, room, &req, ST));
	mct_ok(mcapi_msg_send_i(from, to, p, sent, 0, &s, ST));
	mct_ends(&req, MCAPI_ETRUNCATED);
	mct_seen("mcapi_msg_recv_i()", MCAPI_ETRUNCATED);
	mct_done(&s);
	for (int i = 0; i < 8; i++)
		twc_eq(q[room + i], 0x5a);
	/* It does no harm to the next one. */
	mct_send(from, to, 17, 0);
	twc_eq(mct_recv(to), 17);
	free(p);
	free(q);
}

Test(mcapi_msg, truncated, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	truncated(a, b, 1, 0);
	truncated(a, b, 9, 8);
	truncated(a, b, 100, 64);
	truncated(a, b, 65536, 10);
	truncated(a, b, 1000000, 999999);
	mct_down();
}

Test(mcapi_msg, null_arguments, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	mcapi_endpoint_t a;
	char buffer[8] = "";
	size_t got = 77;

	mct_up(1);
	a = mct_create(1);
	mct_null(mcapi_msg_send(a, a, buffer, 1, 0, MCAPI_NULL));
	mct_null(mcapi_msg_send_i(a, a, buffer, 1, 0, &req, MCAPI_NULL));
	mct_null(mcapi_msg_recv(a, buffer, 1, &got, MCAPI_NULL));
	mct_null(mcapi_msg_recv_i(a, buffer, 1, &req, MCAPI_NULL));
	mct_null(mcapi_msg_available(a, MCAPI_NULL));
	mct_is(MCAPI_EPARAM, mcapi_msg_send_i(a, a, buffer, 1, 0, MCAPI_NULL, ST));
	mct_is(MCAPI_EPARAM, mcapi_msg_send_i(a, a, NULL, 1, 0, &req, ST));
	mct_is(MCAPI_EPARAM, mcapi_msg_send(a, a, NULL, 1, 0, ST));
	mct_is(MCAPI_EPARAM, mcapi_msg_recv(a, NULL, 1, &got, ST));
	mct_is(MCAPI_EPARAM, mcapi_msg_recv_i(a, NULL, 1, &req, ST));
	mct_is(MCAPI_EPARAM, mcapi_msg_recv_i(a, buffer, 1, MCAPI_NULL, ST));
	/* Nothing was sent and no receive waits. */
	mct_available(a, 0);
	mct_send(a, a, 44, 0);
	twc_eq(mct_recv(a), 44);
	/* An empty message has no address. */
	mct_ok(mcapi_msg_send(a, a, NULL, 0, 0, ST));
	mct_ok(mcapi_msg_recv(a, buffer, 8, &got, ST));
	twc_eq(got, 0);
	mct_down();
}

static void refused(mcapi_endpoint_t bad, mcapi_endpoint_t good)
{
	mcapi_request_t req = 0;
	char buffer[8] = "";
	unsigned n = 77;
	size_t got = 0;

	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_send(bad, good, buffer, 1, 0, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_send_i(bad, good, buffer, 1, 0, &req, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_recv(bad, buffer, 1, &got, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_recv_i(bad, buffer, 1, &req, ST));
	mct_is(MCAPI_ENOT_ENDP, n = mcapi_msg_available(bad, ST));
	twc_eq(n, MCAPI_NULL);
}

Test(mcapi_msg, not_an_endpoint, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, gone;

	mct_up(1);
	a = mct_create(1);
	gone = mct_create(2);
	mct_delete(gone);
	refused(gone, a);
	refused(0xffffffff, a);
	refused(a + 1000, a);
	mct_available(a, 0);
	mct_delete(a);
	mct_down();
}

/* Only its own node sends from an endpoint and receives from it (3.2, 4.3.1). */
MCT_BOTH(mcapi_msg, endpoint_of_another_node, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);

	mct_meet(me);
	refused(other, mine);
	mct_meet(me);
	mct_available(mine, 0);
	mct_delete(mine);
}

/* Nobody there is not the sender's fault (3.5.1); what is sent is discarded. */
Test(mcapi_msg, nobody_there, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, to[3];
	mcapi_request_t req = 0;
	static char big[250000];

	mct_up(1);
	a = mct_create(1);
	to[0] = mct_create(2);
	mct_delete(to[0]);
	/* A handle says node and port: a port that never was, a node that is not there. */
	to[1] = to[0] + 1;
	to[2] = to[0] + (5u << 16);
	for (int i = 0; i < 3; i++)
		for (int n = 0; n < 300; n++) {
			mct_ok(mcapi_msg_send(a, to[i], big, n % 9 ? 8 : sizeof(big), 0, ST));
			mct_ok(mcapi_msg_send_i(a, to[i], big, 8, 0, &req, ST));
			twc_eq(mct_done(&req), 8);
		}
	mct_send(a, a, 3, 0);
	twc_eq(mct_recv(a), 3);
	mct_down();
}

/* An endpoint that was deleted, or whose node is gone. */
MCT_BOTH(mcapi_msg, nobody_there_any_more, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other;

	if (me->rank == 0) {
		mct_meet(me);
		twc_eq(mct_recv(mine), 1);
		mct_delete(mine);
		mct_meet(me);
		return;
	}
	other = mct_get(0, 1);
	mct_meet(me);
	mct_send(mine, other, 1, 0);
	mct_meet(me);
	for (uint64_t i = 0; i < 300; i++)
		mct_send(mine, other, i, 0);
	twc_sleep(50);
	for (uint64_t i = 0; i < 300; i++)
		mct_send(mine, other, i, 0);
	mct_delete(mine);
}

/* The attribute limits blocking receives (3.12). */
Test(mcapi_msg, timeout_of_the_endpoint, .timeout = MCT_TIMEOUT)
{
	uint64_t value = 5;
	mcapi_endpoint_t a;
	size_t got = 0;

	mct_up(1);
	a = mct_create(1);
	mct_set_attr(a, MCAPI_ATTR_TIMEOUT, 50);
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_msg_recv(a, &value, sizeof(value), &got, ST));
	mct_set_attr(a, MCAPI_ATTR_TIMEOUT, 0);
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_msg_recv(a, &value, sizeof(value), &got, ST));
	twc_eq(value, 5);
	/* No receive is left behind that would take this. */
	mct_send(a, a, 6, 0);
	mct_available(a, 1);
	twc_eq(mct_recv(a), 6);
	mct_down();
}

/* The length may be nobody's business (7.5). */
Test(mcapi_msg, size_not_wanted, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a;
	uint64_t value = 0;

	mct_up(1);
	a = mct_create(1);
	mct_send(a, a, 8, 0);
	mct_ok(mcapi_msg_recv(a, &value, sizeof(value), NULL, ST));
	twc_eq(value, 8);
	mct_down();
}
