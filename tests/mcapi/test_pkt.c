/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.4 to 4.4.9: packets. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_pkt, .init = twc_job, .timeout = MCT_TIMEOUT);

#define BUFFERS 128
static const struct mct_kind *const kind = &mct_kinds[MCT_PKT];

static const size_t sizes[] = {0,      1,      2,      3,	7,	8,    31,   32,
			       33,     55,     63,     64,	65,	127,  129,  1000,
			       4095,   4096,   4097,   8191,	8192,	8193, 9999, 65537,
			       196608, 196609, 262145, 1000003, 4194305};
#define SIZES (int)(sizeof(sizes) / sizeof(*sizes))

static void expect(void *buffer, size_t got, size_t size, uint64_t seed)
{
	twc_eq(got, size);
	twc_check(buffer);
	twc_eq(twt_check(buffer, size, seed), size);
	/* It is the receiver's to use in any way it chooses (3.5.3). */
	memset(buffer, 0x11, size);
}

static void receive_both_ways(uint32_t h, size_t size, uint64_t seed)
{
	void *a = NULL, *b = NULL;
	mcapi_request_t req = 0;
	size_t got = 77;

	mct_ok(mcapi_pktchan_recv(h, &a, &got, ST));
	expect(a, got, size, seed);
	mct_ok(mcapi_pktchan_recv_i(h, &b, &req, ST));
	got = mct_done(&req);
	expect(b, got, size, seed + 1000);
	twc_check(a != b);
	mct_ok(mcapi_pktchan_free(b, ST));
	mct_ok(mcapi_pktchan_free(a, ST));
}

static void send_both_ways(uint32_t h, size_t size, uint64_t seed)
{
	uint8_t *p = malloc(size + 1), *q = malloc(size + 1);
	mcapi_request_t req = 0;

	twc_check(p && q);
	twt_fill(p, size, seed);
	twt_fill(q, size, seed + 1000);
	mct_ok(mcapi_pktchan_send(h, p, size, ST));
	memset(p, 0xee, size);
	mct_ok(mcapi_pktchan_send_i(h, q, size, &req, ST));
	twc_eq(mct_done(&req), size);
	memset(q, 0xee, size);
	free(p);
	free(q);
}

MCT_BOTH(mcapi_pkt, sizes_between_nodes, 2)
{
	uint32_t h = mct_open_between(me, kind);

	for (int i = 0; i < SIZES; i++)
		if (me->rank)
			send_both_ways(h, sizes[i], (uint64_t)i);
		else
			receive_both_ways(h, sizes[i], (uint64_t)i);
	mct_close_between(me, kind, h);
}

Test(mcapi_pkt, sizes_in_one_node, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	for (int i = 0; i < SIZES; i++) {
		uint8_t *p = malloc(sizes[i] + 1);
		mcapi_request_t s = 0, r = 0;
		void *q = NULL;
		size_t got;

		twc_check(p);
		twt_fill(p, sizes[i], 5);
		mct_ok(mcapi_pktchan_send_i(c.tx, p, sizes[i], &s, ST));
		mct_ok(mcapi_pktchan_recv_i(c.rx, &q, &r, ST));
		got = mct_done(&r);
		twc_eq(mct_done(&s), sizes[i]);
		expect(q, got, sizes[i], 5);
		mct_ok(mcapi_pktchan_free(q, ST));
		free(p);
	}
	mct_chan_end(&c);
	mct_down();
}

MCT_BOTH(mcapi_pkt, longest, 2)
{
	size_t size = MCAPI_MAX_PACKET_SIZE, got = 0;
	uint32_t h = mct_open_between(me, kind);
	mcapi_request_t req = 0;
	uint8_t *p;
	void *q = NULL;

	if (me->rank) {
		p = malloc(size + 1);
		twc_check(p);
		twt_fill(p, size, 99);
		mct_is(MCAPI_EPACK_LIMIT, mcapi_pktchan_send(h, p, size + 1, ST));
		mct_is(MCAPI_EPACK_LIMIT, mcapi_pktchan_send(h, p, (size_t)-1, ST));
		mct_is(MCAPI_EPACK_LIMIT, mcapi_pktchan_send_i(h, p, size + 1, &req, ST));
		mct_is(MCAPI_EPACK_LIMIT, mcapi_pktchan_send_i(h, p, (size_t)-1, &req, ST));
		mct_ok(mcapi_pktchan_send(h, p, size, ST));
		free(p);
	} else {
		mct_ok(mcapi_pktchan_recv(h, &q, &got, ST));
		expect(q, got, size, 99);
		mct_ok(mcapi_pktchan_free(q, ST));
	}
	mct_close_between(me, kind, h);
}

Test(mcapi_pkt, null_arguments, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	char buffer[8] = "";
	struct mct_chan c;
	void *p = NULL;
	size_t got;

	mct_up(1);
	mct_chan(&c, kind);
	mct_null(mcapi_pktchan_send(c.tx, buffer, 1, MCAPI_NULL));
	mct_null(mcapi_pktchan_send_i(c.tx, buffer, 1, &req, MCAPI_NULL));
	mct_null(mcapi_pktchan_recv(c.rx, &p, &got, MCAPI_NULL));
	mct_null(mcapi_pktchan_recv_i(c.rx, &p, &req, MCAPI_NULL));
	mct_null(mcapi_pktchan_available(c.rx, MCAPI_NULL));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_send(c.tx, NULL, 1, ST));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_send_i(c.tx, NULL, 1, &req, ST));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_send_i(c.tx, buffer, 1, MCAPI_NULL, ST));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_recv(c.rx, NULL, &got, ST));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_recv_i(c.rx, NULL, &req, ST));
	mct_is(MCAPI_EPARAM, mcapi_pktchan_recv_i(c.rx, &p, MCAPI_NULL, ST));
	/* Nothing was sent and no receive waits. */
	mct_queued(kind, c.rx, 0);
	mct_put(kind, c.tx, 44);
	mct_ok(mcapi_pktchan_recv(c.rx, &p, &got, ST));
	twc_eq(got, 8);
	mct_null(mcapi_pktchan_free(p, MCAPI_NULL));
	mct_ok(mcapi_pktchan_free(p, ST));
	/* An empty packet has no address, but a buffer. */
	mct_ok(mcapi_pktchan_send(c.tx, NULL, 0, ST));
	mct_ok(mcapi_pktchan_recv(c.rx, &p, &got, ST));
	twc_eq(got, 0);
	mct_ok(mcapi_pktchan_free(p, ST));
	mct_chan_end(&c);
	mct_down();
}

/* Buffers go back in any order, from any thread, even after the close. */
static void free_here(void *arg)
{
	mct_ok(mcapi_pktchan_free(arg, ST));
}

Test(mcapi_pkt, free_in_any_order, .timeout = MCT_TIMEOUT)
{
	enum { MANY = 40 };
	void *p[MANY], *kept;
	struct twc_thread t;
	struct mct_chan c;
	uint64_t rng = 3;
	size_t got;

	mct_up(1);
	mct_chan(&c, kind);
	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < MANY; i++)
			mct_put(kind, c.tx, i);
		for (int i = 0; i < MANY; i++)
			mct_ok(mcapi_pktchan_recv(c.rx, &p[i], &got, ST));
		for (uint64_t i = 0; i < MANY; i++)
			twc_check(memcmp(p[i], &i, sizeof(i)) == 0);
		for (int left = MANY; left; left--) {
			int at = (int)(twt_random(&rng) % (uint64_t)left);

			mct_ok(mcapi_pktchan_free(p[at], ST));
			p[at] = p[left - 1];
		}
	}
	mct_put(kind, c.tx, 71);
	mct_put(kind, c.tx, 72);
	mct_ok(mcapi_pktchan_recv(c.rx, &p[0], &got, ST));
	mct_ok(mcapi_pktchan_recv(c.rx, &kept, &got, ST));
	twc_start(&t, free_here, p[0]);
	twc_join(&t);
	mct_chan_end(&c);
	twc_eq(*(uint64_t *)kept, 72);
	mct_ok(mcapi_pktchan_free(kept, ST));
	mct_down();
}

/* What is held does not keep others from coming. */
Test(mcapi_pkt, many_buffers_held, .timeout = MCT_TIMEOUT)
{
	enum { MANY = 1000 };
	static void *p[MANY];
	struct mct_chan c;
	size_t got;

	mct_up(1);
	mct_chan(&c, kind);
	for (uint64_t i = 0; i < MANY; i++) {
		mct_put(kind, c.tx, i);
		mct_ok(mcapi_pktchan_recv(c.rx, &p[i], &got, ST));
	}
	for (uint64_t i = 0; i < MANY; i++) {
		twc_check(memcmp(p[i], &i, sizeof(i)) == 0);
		mct_ok(mcapi_pktchan_free(p[i], ST));
	}
	mct_chan_end(&c);
	mct_down();
}

Test(mcapi_pkt, not_a_buffer, .timeout = MCT_TIMEOUT)
{
	char mine[64] = "", *heap = malloc(64);
	struct mct_chan c;
	void *p = NULL;
	size_t got;

	mct_up(1);
	mct_chan(&c, kind);
	mct_put(kind, c.tx, 1);
	mct_ok(mcapi_pktchan_recv(c.rx, &p, &got, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(NULL, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(mine + 32, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(heap, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free((void *)(uintptr_t)8, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free((char *)p + 1, ST));
	mct_ok(mcapi_pktchan_free(p, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(p, ST));
	mct_chan_end(&c);
	mct_down();
	free(heap);
}

MCT_BOTH(mcapi_pkt, fifo, 2)
{
	enum { MANY = 3000 };
	static const size_t longest = 20000;
	uint32_t h = mct_open_between(me, kind);
	uint8_t *p = malloc(longest);
	uint64_t rng = 5;

	twc_check(p);
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t r = twt_random(&rng);
		size_t size = (size_t)(r % (r % 16 ? 100 : longest)), got = 0;
		mcapi_request_t req = 0;
		void *q = NULL;

		if (me->rank) {
			twt_fill(p, size, i);
			mct_ok(mcapi_pktchan_send_i(h, p, size, &req, ST));
			twc_eq(mct_done(&req), size);
		} else {
			mct_ok(mcapi_pktchan_recv(h, &q, &got, ST));
			expect(q, got, size, i);
			mct_ok(mcapi_pktchan_free(q, ST));
		}
	}
	free(p);
	mct_close_between(me, kind, h);
}

/* A full channel: send_i() stays pending until the receiver makes room (4.4.4). */
MCT_BOTH(mcapi_pkt, no_buffer, 2)
{
	uint32_t h = mct_open_between(me, kind);
	uint64_t more[3] = {1000, 1001, 1002};
	mcapi_request_t req[3];
	size_t size = 0;

	if (me->rank) {
		for (uint64_t i = 0; i < BUFFERS; i++)
			mct_put(kind, h, i);
		for (int i = 0; i < 3; i++)
			mct_ok(mcapi_pktchan_send_i(h, &more[i], 8, &req[i], ST));
		for (int i = 0; i < 3; i++)
			mct_pending(&req[i]);
		mct_is(MCAPI_EREQ_TIMEOUT, mcapi_wait(&req[0], &size, ST, 20));
		mct_meet(me);
		for (int i = 0; i < 3; i++)
			twc_eq(mct_done(&req[i]), 8);
		mct_meet(me);
		mct_put(kind, h, 2000);
	} else {
		mct_meet(me);
		for (uint64_t i = 0; i < BUFFERS; i++)
			twc_eq(mct_take(kind, h), i);
		for (int i = 0; i < 3; i++)
			twc_eq(mct_take(kind, h), more[i]);
		mct_queued(kind, h, 0);
		mct_meet(me);
		twc_eq(mct_take(kind, h), 2000);
	}
	mct_close_between(me, kind, h);
}

/* Receives that wait are served in order. */
MCT_BOTH(mcapi_pkt, receives_in_order, 2)
{
	enum { MANY = 300 };
	uint32_t h = mct_open_between(me, kind);
	static _Thread_local mcapi_request_t req[MANY];
	static _Thread_local void *p[MANY];

	if (me->rank) {
		mct_meet(me);
		for (uint64_t i = 0; i < MANY; i++) {
			mct_ok(mcapi_pktchan_send_i(h, &i, 8, &req[i], ST));
			mct_done(&req[i]);
		}
	} else {
		for (int i = 0; i < MANY; i++)
			mct_ok(mcapi_pktchan_recv_i(h, &p[i], &req[i], ST));
		mct_pending(&req[0]);
		mct_pending(&req[MANY - 1]);
		mct_meet(me);
		for (uint64_t i = 0; i < MANY; i++) {
			twc_eq(mct_done(&req[i]), 8);
			twc_check(memcmp(p[i], &i, 8) == 0);
			mct_ok(mcapi_pktchan_free(p[i], ST));
		}
	}
	mct_close_between(me, kind, h);
}

/* A receive, or a send without buffer, that waits when the other end closes. */
Test(mcapi_pkt, close_ends_requests, .timeout = MCT_TIMEOUT)
{
	struct mct_chan c;
	mcapi_request_t req = 0;
	uint64_t value = 7;
	void *p = NULL;
	size_t size = 0;

	mct_up(1);
	mct_chan(&c, kind);
	mct_ok(mcapi_pktchan_recv_i(c.rx, &p, &req, ST));
	mct_close_send(kind, c.tx);
	mct_ends(&req, MCAPI_ENOT_HANDLE);
	mct_close_recv(kind, c.rx);
	mct_chan_reopen(&c);
	for (uint64_t i = 0; i < BUFFERS; i++)
		mct_put(kind, c.tx, i);
	mct_ok(mcapi_pktchan_send_i(c.tx, &value, 8, &req, ST));
	mct_pending(&req);
	mct_close_recv(kind, c.rx);
	/* Discarded or refused, but not forgotten. */
	mcapi_wait(&req, &size, ST, MCT_LONG);
	twc_check(mct_status == MCAPI_SUCCESS || mct_status == MCAPI_ENOT_HANDLE);
	mct_close_send(kind, c.tx);
	mct_down();
}

enum { LATE = BUFFERS / 2, FRESH = 1000 };

static void send_late(struct mct_me *me, mcapi_endpoint_t mine, mcapi_endpoint_t other)
{
	mcapi_request_t open;
	uint32_t h;

	mct_meet(me);
	open = mct_open_send(kind, mine, &h);
	mct_done(&open);
	for (uint64_t i = 0; i < LATE; i++) {
		mct_either(MCAPI_SUCCESS, MCAPI_ENOT_HANDLE, mcapi_pktchan_send(h, &i, 8, ST));
		atomic_fetch_add(&me->shared->word[0], 1);
	}
	mct_meet(me);
	mct_close_send(kind, h);
	mct_meet(me);
	mct_connect(kind, mine, other);
	open = mct_open_send(kind, mine, &h);
	mct_done(&open);
	mct_put(kind, h, FRESH);
	mct_meet(me);
	mct_close_send(kind, h);
}

static void receive_fresh(struct mct_me *me, mcapi_endpoint_t mine, mcapi_endpoint_t other)
{
	mcapi_request_t open, req = 0;
	void *p = NULL;
	uint32_t h;

	atomic_store(&me->shared->word[0], 0);
	mct_connect(kind, other, mine);
	open = mct_open_recv(kind, mine, &h);
	mct_meet(me);
	mct_done(&open);
	while (atomic_load(&me->shared->word[0]) < LATE / 4)
		;
	mct_close_recv(kind, h);
	mct_k(MCAPI_ENOT_CONNECTED, kind, open_recv, &h, mine, &open);
	mct_ok(mcapi_pktchan_recv_i(h, &p, &req, ST));
	mct_meet(me);
	mct_pending(&req);
	mct_meet(me);
	mct_done(&open);
	twc_eq(mct_done(&req), 8);
	twc_eq(*(uint64_t *)p, FRESH);
	mct_ok(mcapi_pktchan_free(p, ST));
	mct_meet(me);
	mct_close_recv(kind, h);
}

/* The receiver closes and opens again while packets are on their way, which are discarded. */
MCT_BOTH(mcapi_pkt, late_packets, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);

	for (unsigned i = 0; i < 60 / twt_slow(); i++) {
		(me->rank ? send_late : receive_fresh)(me, mine, other);
		mct_meet(me);
	}
	mct_delete(mine);
}

/* A receive waits from the open on, whatever connections come and go. */
Test(mcapi_pkt, receive_before_connect, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t r, s;
	mcapi_request_t rx, tx, req[2];
	uint32_t hr, hs;
	void *p[2];

	mct_up(1);
	r = mct_create(1);
	mct_k(MCAPI_ENOT_CONNECTED, kind, open_recv, &hr, r, &rx);
	mct_ok(mcapi_pktchan_recv_i(hr, &p[0], &req[0], ST));
	s = mct_create(2);
	mct_connect(kind, s, r);
	mct_ok(mcapi_pktchan_recv_i(hr, &p[1], &req[1], ST));
	mct_delete(s);
	s = mct_create(2);
	mct_connect(kind, s, r);
	tx = mct_open_send(kind, s, &hs);
	mct_done(&tx);
	mct_done(&rx);
	for (uint64_t i = 0; i < 2; i++) {
		mct_pending(&req[i]);
		mct_put(kind, hs, i);
		twc_eq(mct_done(&req[i]), 8);
		twc_eq(*(uint64_t *)p[i], i);
		mct_ok(mcapi_pktchan_free(p[i], ST));
	}
	mct_close_send(kind, hs);
	mct_close_recv(kind, hr);
	mct_down();
}

/* A thread of another node of the process frees, too. */
static void free_as_another(void *arg)
{
	mct_up(2);
	mct_ok(mcapi_pktchan_free(arg, ST));
	mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(arg, ST));
	mct_down();
}

Test(mcapi_pkt, free_by_another_node, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t;
	struct mct_chan c;
	void *p[3];
	size_t got;

	mct_up(1);
	mct_chan(&c, kind);
	for (int i = 0; i < 3; i++) {
		mct_put(kind, c.tx, 5);
		mct_ok(mcapi_pktchan_recv(c.rx, &p[i], &got, ST));
	}
	for (int i = 0; i < 3; i++) {
		twc_start(&t, free_as_another, p[i]);
		twc_join(&t);
		mct_is(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(p[i], ST));
	}
	/* Its size is nobody's business (7.5). */
	mct_put(kind, c.tx, 6);
	mct_ok(mcapi_pktchan_recv(c.rx, &p[0], NULL, ST));
	twc_eq(*(uint64_t *)p[0], 6);
	mct_ok(mcapi_pktchan_free(p[0], ST));
	mct_chan_end(&c);
	mct_down();
}
