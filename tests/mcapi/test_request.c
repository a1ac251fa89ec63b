/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.6: test, wait, wait_any, cancel. */
#include "mcapi/mcapit.h"

TestSuite(mcapi_request, .init = twc_job, .timeout = MCT_TIMEOUT);

#define REQUESTS 8

/* Receives that wait, one on each of some endpoints. */
struct waiting {
	mcapi_endpoint_t from, ep[REQUESTS];
	uint64_t value[REQUESTS];
	mcapi_request_t req[REQUESTS], *list[REQUESTS];
};

static void begin(struct waiting *w)
{
	mct_up(1);
	w->from = mct_create(MCAPI_PORT_ANY);
	for (int i = 0; i < REQUESTS; i++) {
		w->ep[i] = mct_create(i);
		w->value[i] = 0x5a5a5a5a5a5a5a5a;
		mct_ok(mcapi_msg_recv_i(w->ep[i], &w->value[i], 8, &w->req[i], ST));
		w->list[i] = &w->req[i];
	}
}

static int wait_any(struct waiting *w, mcapi_status_t want, mcapi_timeout_t timeout, size_t *size)
{
	mcapi_int_t index = 77;

	mct_is(want, index = mcapi_wait_any(REQUESTS, w->list, size, ST, timeout));
	return index;
}

Test(mcapi_request, test_and_wait, .timeout = MCT_TIMEOUT)
{
	struct waiting w;
	mcapi_boolean_t done = 77;
	double end = twt_now() + MCT_LONG / 1000.;
	size_t size = 0;

	begin(&w);
	mct_pending(&w.req[0]);
	mct_is(MCAPI_EREQ_TIMEOUT, done = mcapi_wait(&w.req[0], &size, ST, 0));
	twc_eq(done, MCAPI_FALSE);
	mct_is(MCAPI_EREQ_TIMEOUT, done = mcapi_wait(&w.req[0], &size, ST, 30));
	twc_eq(done, MCAPI_FALSE);
	mct_send(w.from, w.ep[0], 4, 0);
	twc_eq(mct_done(&w.req[0]), 8);
	twc_eq(w.value[0], 4);
	/* The same by polling. */
	mct_send(w.from, w.ep[1], 5, 0);
	do {
		mct_either(MCAPI_SUCCESS, MCAPI_INCOMPLETE,
			   done = mcapi_test(&w.req[1], &size, ST));
		twc_eq(done, mct_status == MCAPI_SUCCESS);
		twc_check(twt_now() < end);
	} while (!done);
	twc_eq(size, 8);
	twc_eq(w.value[1], 5);
	mct_down();
}

/* A timeout of 0 looks once: what is there is found. */
Test(mcapi_request, wait_of_no_time, .timeout = MCT_TIMEOUT)
{
	struct waiting w;
	mcapi_boolean_t done = 77;
	size_t size = 0;

	begin(&w);
	mct_send(w.from, w.ep[2], 6, 0);
	/* The other receive of this endpoint completes after it. */
	mct_send(w.from, w.ep[2], 7, 0);
	mct_available(w.ep[2], 1);
	mct_ok(done = mcapi_wait(&w.req[2], &size, ST, 0));
	twc_eq(done, MCAPI_TRUE);
	twc_eq(size, 8);
	twc_eq(w.value[2], 6);
	mct_down();
}

Test(mcapi_request, not_a_request, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t bad[] = {0, 1, 0xffffffff, ~0ull, 1ull << 63}, *list[1];
	mcapi_boolean_t done = 77;
	size_t size = 0;

	mct_up(1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		list[0] = &bad[i];
		mct_is(MCAPI_ENOTREQ_HANDLE, done = mcapi_test(&bad[i], &size, ST));
		twc_eq(done, MCAPI_FALSE);
		mct_is(MCAPI_ENOTREQ_HANDLE, done = mcapi_wait(&bad[i], &size, ST, MCT_LONG));
		twc_eq(done, MCAPI_FALSE);
		mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_wait_any(1, list, &size, ST, MCT_LONG));
		mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&bad[i], ST));
	}
	mct_down();
}

Test(mcapi_request, null_arguments, .timeout = MCT_TIMEOUT)
{
	struct waiting w;
	size_t size = 0;

	begin(&w);
	mct_is(MCAPI_EPARAM, mcapi_test(&w.req[0], NULL, ST));
	mct_is(MCAPI_EPARAM, mcapi_wait(&w.req[0], NULL, ST, MCT_LONG));
	mct_is(MCAPI_EPARAM, mcapi_wait_any(REQUESTS, w.list, NULL, ST, MCT_LONG));
	mct_is(MCAPI_EPARAM, mcapi_wait_any(REQUESTS, NULL, &size, ST, MCT_LONG));
	mct_is(MCAPI_EPARAM, mcapi_wait_any(0, w.list, &size, ST, MCT_LONG));
	mct_null(mcapi_test(&w.req[0], &size, MCAPI_NULL));
	mct_null(mcapi_wait(&w.req[0], &size, MCAPI_NULL, MCT_LONG));
	mct_null(mcapi_wait_any(REQUESTS, w.list, &size, MCAPI_NULL, MCT_LONG));
	mct_null(mcapi_cancel(&w.req[0], MCAPI_NULL));
	/* No address is no request. */
	mct_either(MCAPI_ENOTREQ_HANDLE, MCAPI_EPARAM, mcapi_test(NULL, &size, ST));
	mct_either(MCAPI_ENOTREQ_HANDLE, MCAPI_EPARAM, mcapi_wait(NULL, &size, ST, MCT_LONG));
	mct_either(MCAPI_ENOTREQ_HANDLE, MCAPI_EPARAM, mcapi_cancel(NULL, ST));
	w.list[3] = NULL;
	mct_either(MCAPI_ENOTREQ_HANDLE, MCAPI_EPARAM,
		   mcapi_wait_any(REQUESTS, w.list, &size, ST, MCT_LONG));
	/* All are what they were. */
	for (int i = 0; i < REQUESTS; i++) {
		mct_send(w.from, w.ep[i], (uint64_t)i, 0);
		twc_eq(mct_done(&w.req[i]), 8);
	}
	mct_down();
}

Test(mcapi_request, wait_any, .timeout = MCT_TIMEOUT)
{
	struct waiting w;
	size_t size = 0;

	begin(&w);
	twc_eq(wait_any(&w, MCAPI_EREQ_TIMEOUT, 0, &size), MCAPI_NULL);
	twc_eq(wait_any(&w, MCAPI_EREQ_TIMEOUT, 30, &size), MCAPI_NULL);
	for (int i = 5; i < 5 + REQUESTS; i++) {
		int at = i % REQUESTS;

		size = 77;
		mct_send(w.from, w.ep[at], (uint64_t)i, 0);
		twc_eq(wait_any(&w, MCAPI_SUCCESS, MCT_LONG, &size), at);
		twc_eq(size, 8);
		twc_eq(w.value[at], i);
		mct_ok(mcapi_msg_recv_i(w.ep[at], &w.value[at], 8, &w.req[at], ST));
	}
	mct_down();
}

/* A wait that blocks wakes by what it waits for. */
struct waiter {
	struct waiting *w;
	int any, index;
	mcapi_boolean_t done;
	mcapi_status_t status;
	size_t size;
};

static void wait_here(void *arg)
{
	struct waiter *b = arg;

	if (b->any)
		b->index =
			mcapi_wait_any(REQUESTS, b->w->list, &b->size, &b->status, MCAPI_INFINITE);
	else
		b->done = mcapi_wait(&b->w->req[3], &b->size, &b->status, MCAPI_INFINITE);
}

Test(mcapi_request, blocked_wait_wakes, .timeout = MCT_TIMEOUT)
{
	for (int any = 0; any < 2; any++) {
		struct waiting w;
		struct waiter b = {&w, any, 77, 77, MCAPI_ERROR, 0};
		struct twc_thread t;

		begin(&w);
		twc_start(&t, wait_here, &b);
		twc_asleep(&t);
		mct_send(w.from, w.ep[3], 1, 0);
		twc_join(&t);
		twc_eq(b.status, MCAPI_SUCCESS);
		twc_eq(b.size, 8);
		twc_eq(any ? b.index : b.done, any ? 3 : MCAPI_TRUE);
		mct_down();
	}
}

Test(mcapi_request, cancel_wakes_waiters, .timeout = MCT_TIMEOUT)
{
	for (int any = 0; any < 2; any++) {
		struct waiting w;
		struct waiter b = {&w, any, 77, 77, MCAPI_ERROR, 0};
		struct twc_thread t;

		begin(&w);
		twc_start(&t, wait_here, &b);
		twc_asleep(&t);
		mct_ok(mcapi_cancel(&w.req[3], ST));
		twc_join(&t);
		twc_eq(b.status, MCAPI_EREQ_CANCELED);
		mct_seen(any ? "mcapi_wait_any()" : "mcapi_wait()", b.status);
		if (!any)
			twc_eq(b.done, MCAPI_FALSE);
		mct_down();
	}
}

/* It stays cancelled, takes nothing, and the endpoint is as good as new. */
Test(mcapi_request, cancelled_receive, .timeout = MCT_TIMEOUT)
{
	struct waiting w;
	mcapi_boolean_t done = 77;
	mcapi_request_t *one[1];
	size_t size = 0;

	begin(&w);
	mct_ok(mcapi_cancel(&w.req[3], ST));
	for (int i = 0; i < 3; i++) {
		mct_is(MCAPI_EREQ_CANCELED, done = mcapi_test(&w.req[3], &size, ST));
		twc_eq(done, MCAPI_FALSE);
		mct_ends(&w.req[3], MCAPI_EREQ_CANCELED);
		one[0] = &w.req[3];
		mct_is(MCAPI_EREQ_CANCELED, mcapi_wait_any(1, one, &size, ST, MCT_LONG));
	}
	mct_send(w.from, w.ep[3], 9, 0);
	mct_available(w.ep[3], 1);
	twc_eq(w.value[3], 0x5a5a5a5a5a5a5a5a);
	twc_eq(mct_recv(w.ep[3]), 9);
	/* One of several: those before and behind it take their messages. */
	mct_ok(mcapi_msg_recv_i(w.ep[3], &w.value[3], 8, &w.req[3], ST));
	mct_ok(mcapi_msg_recv_i(w.ep[3], &w.value[4], 8, &w.req[4], ST));
	mct_ok(mcapi_msg_recv_i(w.ep[3], &w.value[5], 8, &w.req[5], ST));
	mct_ok(mcapi_cancel(&w.req[4], ST));
	mct_send(w.from, w.ep[3], 10, 0);
	mct_send(w.from, w.ep[3], 11, 0);
	mct_done(&w.req[3]);
	mct_done(&w.req[5]);
	twc_eq(w.value[3], 10);
	twc_eq(w.value[5], 11);
	mct_down();
}

/* "The operation may have completed" (4.6.4). */
Test(mcapi_request, cancel_too_late, .timeout = MCT_TIMEOUT)
{
	struct waiting w;

	begin(&w);
	mct_send(w.from, w.ep[0], 1, 0);
	mct_done(&w.req[0]);
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&w.req[0], ST));
	/* Complete, but nobody looked: the next message shows that it was taken. */
	mct_send(w.from, w.ep[1], 2, 0);
	mct_send(w.from, w.ep[1], 3, 0);
	mct_available(w.ep[1], 1);
	mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&w.req[1], ST));
	twc_eq(mct_done(&w.req[1]), 8);
	twc_eq(w.value[1], 2);
	twc_eq(mct_recv(w.ep[1]), 3);
	mct_down();
}

/* A cancelled get writes nothing. */
Test(mcapi_request, cancelled_get, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t got = 0x5a5a5a5a, ep;
	mcapi_request_t here = 0, there = 0;

	mct_up(1);
	mct_ok(mcapi_get_endpoint_i(1, 50, &got, &here, ST));
	mct_ok(mcapi_get_endpoint_i(2, 50, &got, &there, ST));
	mct_ok(mcapi_cancel(&here, ST));
	mct_ok(mcapi_cancel(&there, ST));
	mct_ends(&here, MCAPI_EREQ_CANCELED);
	mct_ends(&there, MCAPI_EREQ_CANCELED);
	ep = mct_create(50);
	twc_eq(mct_get(1, 50), ep);
	twc_eq(got, 0x5a5a5a5a);
	mct_down();
}

/* Packets: a receive, and a send that waits for a buffer. */
Test(mcapi_request, cancelled_packets, .timeout = MCT_TIMEOUT)
{
	const struct mct_kind *k = &mct_kinds[MCT_PKT];
	mcapi_request_t r = 0, s[3] = {0};
	uint64_t more[3] = {500, 501, 502};
	struct mct_chan c;
	void *p = NULL;

	mct_up(1);
	mct_chan(&c, k);
	mct_ok(mcapi_pktchan_recv_i(c.rx, &p, &r, ST));
	mct_ok(mcapi_cancel(&r, ST));
	mct_ends(&r, MCAPI_EREQ_CANCELED);
	for (uint64_t i = 0; i < 128; i++)
		mct_put(k, c.tx, i);
	for (int i = 0; i < 3; i++)
		mct_ok(mcapi_pktchan_send_i(c.tx, &more[i], 8, &s[i], ST));
	mct_pending(&s[1]);
	mct_ok(mcapi_cancel(&s[1], ST));
	mct_ends(&s[1], MCAPI_EREQ_CANCELED);
	twc_check(p == NULL);
	for (uint64_t i = 0; i < 128; i++)
		twc_eq(mct_take(k, c.rx), i);
	twc_eq(mct_take(k, c.rx), 500);
	twc_eq(mct_take(k, c.rx), 502);
	mct_done(&s[0]);
	mct_done(&s[2]);
	mct_queued(k, c.rx, 0);
	mct_chan_end(&c);
	mct_down();
}

/* A message that nobody receives: too long to be delivered before. */
Test(mcapi_request, cancelled_send, .timeout = MCT_TIMEOUT)
{
	static char big[4 << 20], into[4 << 20];
	mcapi_request_t s = 0;
	mcapi_endpoint_t a, b;
	size_t got = 0;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	big[5] = 1;
	mct_ok(mcapi_msg_send_i(a, b, big, sizeof(big), 0, &s, ST));
	/* Complete at once, or cancelled: but not both. */
	mct_either(MCAPI_SUCCESS, MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&s, ST));
	if (mct_status == MCAPI_SUCCESS) {
		mct_ends(&s, MCAPI_EREQ_CANCELED);
	} else {
		twc_eq(mct_done(&s), sizeof(big));
		mct_ok(mcapi_msg_recv(b, into, sizeof(into), &got, ST));
		twc_check(got == sizeof(big) && into[5] == 1);
	}
	mct_send(a, b, 3, 0);
	twc_eq(mct_recv(b), 3);
	mct_down();
}

/* Requests are their node's (3.16.9). */
MCT_BOTH(mcapi_request, of_another_node, 2)
{
	mcapi_endpoint_t mine = mct_create(1);
	mcapi_request_t req = 0;
	uint64_t value = 0;
	size_t size = 0;

	if (me->rank == 0) {
		mct_ok(mcapi_msg_recv_i(mine, &value, 8, &req, ST));
		atomic_store(&me->shared->word[0], req);
		mct_meet(me);
		mct_meet(me);
		mct_send(mine, mine, 5, 0);
		mct_done(&req);
	} else {
		mct_meet(me);
		req = atomic_load(&me->shared->word[0]);
		mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_test(&req, &size, ST));
		mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_wait(&req, &size, ST, MCT_LONG));
		mct_is(MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&req, ST));
		mct_meet(me);
	}
	mct_meet(me);
	mct_delete(mine);
}

/* Programs leak requests: many that are never looked at do no harm. */
Test(mcapi_request, leaked, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	mcapi_endpoint_t a;
	uint64_t value;

	mct_up(1);
	a = mct_create(1);
	for (uint64_t i = 0; i < 50000; i++) {
		mct_ok(mcapi_msg_send_i(a, a, &i, 8, 0, &req, ST));
		mct_ok(mcapi_msg_recv_i(a, &value, 8, &req, ST));
		if (i % 100 == 99) {
			mct_done(&req);
			twc_eq(value, i);
		}
	}
	mct_down();
}

/* A request that failed moved nothing that a size could be of; a truncated one did. */
Test(mcapi_request, size_of_a_failure, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0, *one[] = {&req};
	mcapi_endpoint_t a;
	uint64_t value = 0;
	size_t size = 77;

	mct_up(1);
	a = mct_create(1);
	mct_ok(mcapi_msg_recv_i(a, &value, 8, &req, ST));
	mct_is(MCAPI_INCOMPLETE, mcapi_test(&req, &size, ST));
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_wait(&req, &size, ST, 0));
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_wait_any(1, one, &size, ST, 0));
	mct_delete(a);
	mct_is(MCAPI_ENOT_ENDP, mcapi_wait(&req, &size, ST, MCT_LONG));
	mct_is(MCAPI_ENOT_ENDP, mcapi_test(&req, &size, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_wait_any(1, one, &size, ST, MCT_LONG));
	a = mct_create(1);
	mct_ok(mcapi_msg_recv_i(a, &value, 8, &req, ST));
	mct_ok(mcapi_cancel(&req, ST));
	mct_is(MCAPI_EREQ_CANCELED, mcapi_wait(&req, &size, ST, MCT_LONG));
	mct_is(MCAPI_EREQ_CANCELED, mcapi_test(&req, &size, ST));
	mct_is(MCAPI_EREQ_CANCELED, mcapi_wait_any(1, one, &size, ST, MCT_LONG));
	twc_eq(size, 77);
	mct_send(a, a, 5, 0);
	mct_ok(mcapi_msg_recv_i(a, &value, 3, &req, ST));
	mct_is(MCAPI_ETRUNCATED, mcapi_wait(&req, &size, ST, MCT_LONG));
	twc_eq(size, 3);
	mct_down();
}
