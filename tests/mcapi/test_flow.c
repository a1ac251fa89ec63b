/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.3 and 3.5: many messages: order, priorities, back-pressure. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_flow, .init = twc_job, .timeout = MCT_TIMEOUT);

#define BUFFERS 128

/* Waits for a buffer instead of being refused. */
static void send_patiently(mcapi_endpoint_t from, mcapi_endpoint_t to, const void *p, size_t size,
			   mcapi_priority_t prio)
{
	double end = twt_now() + MCT_CHILD / 2;

	for (;;) {
		mct_either(MCAPI_SUCCESS, MCAPI_ENO_BUFFER,
			   mcapi_msg_send(from, to, p, size, prio, ST));
		if (mct_status == MCAPI_SUCCESS)
			return;
		twc_check(twt_now() < end);
		twc_sleep(0);
	}
}

/* Messages of all lengths from one endpoint with one priority stay in order. */
MCT_BOTH(mcapi_flow, fifo, 2)
{
	enum { MANY = 3000 };
	static const size_t longest = 20000;
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	uint8_t *p = malloc(longest);
	uint64_t rng = 5;

	twc_check(p);
	for (uint64_t i = 0, n = MANY / twt_slow(); i < n; i++) {
		uint64_t r = twt_random(&rng);
		size_t size = (size_t)(r % (r % 16 ? 100 : longest)), got = 0;

		if (me->rank == 0) {
			twt_fill(p, size, i);
			send_patiently(mine, other, p, size, 3);
		} else {
			mct_ok(mcapi_msg_recv(mine, p, longest, &got, ST));
			twc_eq(got, size);
			twc_eq(twt_check(p, size, i), size);
		}
	}
	free(p);
	mct_meet(me);
	mct_delete(mine);
}

/* Several senders, several endpoints: in order of each pair and priority. */
MCT_BOTH(mcapi_flow, fifo_per_pair_and_priority, 4)
{
	enum { FROM = 2, TO = 2, PRIOS = 3 };
	const int many = 800 / (int)twt_slow();
	uint64_t next[4][FROM][TO][PRIOS] = {0};
	mcapi_endpoint_t ep[FROM];
	uint64_t rng = 100 + (uint64_t)me->rank;

	for (int i = 0; i < FROM; i++)
		ep[i] = mct_create(i);
	if (me->rank) {
		for (int i = 0; i < many; i++) {
			uint64_t r = twt_random(&rng), f = r % FROM, t = r / 2 % TO;
			uint64_t prio = r / 4 % PRIOS, text[4] = {(uint64_t)me->rank, f, prio, 0};

			text[3] = next[0][f][t][prio]++;
			send_patiently(ep[f], mct_get(0, (mcapi_port_t)t), text, sizeof(text),
				       (mcapi_priority_t)prio);
		}
		mct_meet(me);
		return;
	}
	for (int left = 3 * many; left;) {
		int t = left % TO;
		uint64_t text[4];
		unsigned n;
		size_t got;

		mct_ok(n = mcapi_msg_available(ep[t], ST));
		if (!n) {
			t = 1 - t;
			mct_ok(n = mcapi_msg_available(ep[t], ST));
		}
		if (!n) {
			twc_sleep(0);
			continue;
		}
		mct_ok(mcapi_msg_recv(ep[t], text, sizeof(text), &got, ST));
		twc_eq(got, sizeof(text));
		twc_check(text[0] < 4 && text[1] < FROM && text[2] < PRIOS);
		twc_eq(text[3], next[text[0]][text[1]][t][text[2]]);
		next[text[0]][text[1]][t][text[2]]++;
		left--;
	}
	mct_meet(me);
}

/* What waits is taken by priority, 0 first, then in order. */
MCT_BOTH(mcapi_flow, priorities_overtake, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other;
	enum { EACH = 5 };

	if (me->rank == 1) {
		other = mct_get(0, 1);
		for (uint64_t i = 0; i < EACH; i++)
			for (int prio = MCAPI_MAX_NO_PRIORITIES - 1; prio >= 0; prio--)
				mct_send(mine, other, (uint64_t)prio << 8 | i,
					 (mcapi_priority_t)prio);
		mct_meet(me);
		return;
	}
	mct_available(mine, EACH * MCAPI_MAX_NO_PRIORITIES);
	for (uint64_t prio = 0; prio < MCAPI_MAX_NO_PRIORITIES; prio++)
		for (uint64_t i = 0; i < EACH; i++)
			twc_eq(mct_recv(mine), prio << 8 | i);
	mct_meet(me);
}

/* Receives that wait are served in their order, whatever the priority. */
MCT_BOTH(mcapi_flow, receives_in_order, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other;
	uint64_t value[50];
	mcapi_request_t req[50];

	if (me->rank == 1) {
		other = mct_get(0, 1);
		mct_meet(me);
		for (uint64_t i = 0; i < 50; i++)
			mct_send(mine, other, i, 7);
		mct_meet(me);
		return;
	}
	for (int i = 0; i < 50; i++)
		mct_ok(mcapi_msg_recv_i(mine, &value[i], 8, &req[i], ST));
	for (int i = 0; i < 50; i++)
		mct_pending(&req[i]);
	mct_meet(me);
	for (int i = 49; i >= 0; i--)
		twc_eq(mct_done(&req[i]), 8);
	for (uint64_t i = 0; i < 50; i++)
		twc_eq(value[i], i);
	mct_meet(me);
}

/* So many fit; a receive makes room for one more. */
static void fill(mcapi_endpoint_t from, mcapi_endpoint_t to, unsigned n)
{
	mcapi_request_t req = 0;
	uint64_t value = 0;

	for (unsigned i = 0; i < n; i++)
		mct_send(from, to, i, (mcapi_priority_t)0);
	for (int i = 0; i < 3; i++) {
		mct_is(MCAPI_ENO_BUFFER, mcapi_msg_send(from, to, &value, 8, 0, ST));
		/* The call does not wait for another node's word, so its request tells. */
		mct_either(MCAPI_ENO_BUFFER, MCAPI_SUCCESS,
			   mcapi_msg_send_i(from, to, &value, 8, 0, &req, ST));
		if (mct_status == MCAPI_SUCCESS)
			mct_ends(&req, MCAPI_ENO_BUFFER);
		/* No priority is above that. */
		mct_is(MCAPI_ENO_BUFFER, mcapi_msg_send(from, to, &value, 8, 7, ST));
	}
}

MCT_BOTH(mcapi_flow, no_buffer, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other;
	uint64_t value;

	if (me->rank == 0) {
		for (int round = 0; round < 3; round++) {
			mct_meet(me);
			mct_meet(me);
			mct_available(mine, BUFFERS);
			twc_eq(mct_attr(mine, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 0);
			twc_eq(mct_recv(mine), 0);
			for (uint64_t i = 1; i < BUFFERS; i++)
				twc_eq(mct_recv(mine), i);
			twc_eq(mct_recv(mine), 1000);
			mct_available(mine, 0);
		}
		mct_meet(me);
		return;
	}
	other = mct_get(0, 1);
	for (int round = 0; round < 3; round++) {
		mct_meet(me);
		fill(mine, other, BUFFERS);
		mct_meet(me);
		value = 1000;
		send_patiently(mine, other, &value, 8, 0);
	}
	mct_meet(me);
}

/* Those of one endpoint are nobody else's; the attribute says how many. */
Test(mcapi_flow, buffers_of_each_endpoint, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b, c;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	c = mct_create(3);
	mct_set_attr(c, MCAPI_ATTR_NO_BUFFERS, 5);
	fill(a, b, BUFFERS);
	fill(a, c, 5);
	/* Whoever sends. */
	mct_is(MCAPI_ENO_BUFFER, mcapi_msg_send(c, b, "x", 1, 0, ST));
	fill(a, a, BUFFERS);
	twc_eq(mct_recv(c), 0);
	mct_send(b, c, 5, 0);
	for (uint64_t i = 1; i <= 5; i++)
		twc_eq(mct_recv(c), i);
	for (uint64_t i = 0; i < BUFFERS; i++)
		twc_eq(mct_recv(a) + mct_recv(b), 2 * i);
	mct_down();
}

/* The buffers are the receiver's: two senders share them. */
MCT_BOTH(mcapi_flow, senders_share_buffers, 3)
{
	mcapi_endpoint_t mine = mct_create(1), other;

	if (me->rank == 0) {
		mct_set_attr(mine, MCAPI_ATTR_NO_BUFFERS, 10);
		mct_meet(me);
		mct_meet(me);
		mct_available(mine, 6);
		mct_meet(me);
		mct_meet(me);
		mct_available(mine, 10);
		mct_meet(me);
		return;
	}
	mct_meet(me);
	other = mct_get(0, 1);
	if (me->rank == 1)
		for (uint64_t i = 0; i < 6; i++)
			mct_send(mine, other, i, 0);
	mct_meet(me);
	mct_meet(me);
	if (me->rank == 2)
		fill(mine, other, 4);
	mct_meet(me);
	mct_meet(me);
}

/* However many send at once, the endpoint's own node too: never one too many, or too few. */
MCT_BOTH(mcapi_flow, many_senders, 7)
{
	enum { ROOM = 20, ROUNDS = 10 };
	mcapi_endpoint_t mine = mct_create(1), other;
	atomic_uint_fast64_t *sent = &me->shared->word[0];
	unsigned all = 0;

	if (me->rank == 0)
		mct_set_attr(mine, MCAPI_ATTR_NO_BUFFERS, ROOM);
	other = mct_get(0, 1);
	mct_meet(me);
	for (int round = 0; round < ROUNDS; round++) {
		double end = twt_now() + MCT_LONG / 1000.;

		all += round ? 7 : ROOM;
		while (atomic_load(sent) < all) {
			twc_check(twt_now() < end);
			mct_either(MCAPI_SUCCESS, MCAPI_ENO_BUFFER,
				   mcapi_msg_send(mine, other, "m", 1, 0, ST));
			if (mct_status == MCAPI_SUCCESS)
				atomic_fetch_add(sent, 1);
		}
		mct_meet(me);
		twc_eq(atomic_load(sent), all);
		mct_is(MCAPI_ENO_BUFFER, mcapi_msg_send(mine, other, "m", 1, 0, ST));
		mct_meet(me);
		for (int i = 0; me->rank == 0 && i < 7; i++) {
			char byte;
			size_t size;

			mct_ok(mcapi_msg_recv(mine, &byte, 1, &size, ST));
		}
		mct_meet(me);
	}
}

/* A receive that waits needs no buffer, so nothing is ever full. */
MCT_BOTH(mcapi_flow, receives_first, 2)
{
	enum { MANY = 500 };
	mcapi_endpoint_t mine = mct_create(1), other;
	static _Thread_local uint64_t value[MANY];
	static _Thread_local mcapi_request_t req[MANY];

	if (me->rank == 1) {
		other = mct_get(0, 1);
		mct_meet(me);
		for (uint64_t i = 0; i < MANY; i++)
			send_patiently(mine, other, &i, 8, 0);
		mct_meet(me);
		return;
	}
	for (int i = 0; i < MANY; i++)
		mct_ok(mcapi_msg_recv_i(mine, &value[i], 8, &req[i], ST));
	mct_meet(me);
	for (int i = 0; i < MANY; i++) {
		twc_eq(mct_done(&req[i]), 8);
		twc_eq(value[i], i);
	}
	mct_meet(me);
}

/* A handle that came in a message is as good as any (3.2). */
MCT_BOTH(mcapi_flow, endpoints_in_messages, 3)
{
	mcapi_endpoint_t mine = mct_create(MCAPI_PORT_ANY), root, peer[3];

	if (me->rank == 0) {
		mcapi_endpoint_t well_known = mct_create(0);

		for (int i = 0; i < 2; i++) {
			uint64_t text = mct_recv(well_known);

			peer[text >> 32] = (mcapi_endpoint_t)text;
		}
		/* Each gets the other's. */
		mct_send(well_known, peer[1], peer[2], 0);
		mct_send(well_known, peer[2], peer[1], 0);
		mct_meet(me);
		mct_meet(me);
		return;
	}
	root = mct_get(0, 0);
	mct_send(mine, root, (uint64_t)me->rank << 32 | mine, 0);
	peer[0] = (mcapi_endpoint_t)mct_recv(mine);
	/* Messages of different senders are in no order. */
	mct_meet(me);
	mct_send(mine, peer[0], 500 + (uint64_t)me->rank, 0);
	twc_eq(mct_recv(mine), 500 + 3 - me->rank);
	/* A channel between such two, too. */
	mct_each_kind(k)
	{
		mcapi_request_t req;
		uint32_t h;

		if (me->rank == 1)
			mct_connect(k, mine, peer[0]);
		if (me->rank == 1) {
			atomic_fetch_add(&me->shared->word[0], 1);
			req = mct_open_send(k, mine, &h);
			mct_done(&req);
			mct_put(k, h, 42);
			mct_close_send(k, h);
			mct_until(me, 1, (uint64_t)(k - mct_kinds) + 1);
		} else {
			mct_until(me, 0, (uint64_t)(k - mct_kinds) + 1);
			req = mct_open_recv(k, mine, &h);
			mct_done(&req);
			twc_eq(mct_take(k, h), 42);
			mct_close_recv(k, h);
			atomic_fetch_add(&me->shared->word[1], 1);
		}
	}
	mct_meet(me);
	mct_delete(mine);
}

/* A blocking receive sleeps until something comes. */
struct sleeper {
	mcapi_endpoint_t ep;
	uint64_t got;
};

static void receive_here(void *arg)
{
	struct sleeper *s = arg;
	size_t size;

	mct_ok(mcapi_msg_recv(s->ep, &s->got, 8, &size, ST));
	twc_eq(size, 8);
}

Test(mcapi_flow, blocked_receive_wakes, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t[3];
	struct sleeper s[3];
	mcapi_endpoint_t a;

	mct_up(1);
	a = mct_create(1);
	for (int i = 0; i < 3; i++) {
		s[i] = (struct sleeper){mct_create(10 + i), 0};
		twc_start(&t[i], receive_here, &s[i]);
	}
	for (int i = 0; i < 3; i++)
		twc_asleep(&t[i]);
	for (int i = 2; i >= 0; i--) {
		mct_send(a, s[i].ep, (uint64_t)i, 0);
		twc_join(&t[i]);
		twc_eq(s[i].got, i);
	}
	mct_down();
}
