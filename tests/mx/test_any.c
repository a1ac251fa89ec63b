/* SPDX-License-Identifier: BSD-2-Clause */
/* VI.3 Querying for any completion: mx_ipeek(), mx_peek(), mx_test_any(), mx_wait_any(). */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_any, .init = mxt_job, .timeout = MXT_TIMEOUT);

static void send_one(struct mxt_pair *p, uint64_t match)
{
	mx_request_t s = mxt_isend(p->a, NULL, 0, p->ab, match);

	mxt_wait(p->a, &s, MX_STATUS_SUCCESS);
}

/* By neither way, with any match information. */
static void nothing_complete(mx_endpoint_t ep)
{
	static char garbage[8];
	mx_request_t req = (mx_request_t)(uintptr_t)garbage;
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_ipeek(ep, &req, &result));
	mxt_eq(result, 0);
	result = 77;
	mxt_ok(mx_test_any(ep, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

Test(mx_any, ipeek, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, idle, got;
	uint32_t result = 77;
	struct mxt_pair p;
	void *context;
	double end;

	mxt_up();
	mxt_pair(&p);
	nothing_complete(p.b);
	idle = mxt_irecv(p.b, NULL, 0, 1);
	mxt_ok(mx_irecv(p.b, NULL, 0, 2, MXT_ALL, &end, &r));
	nothing_complete(p.b);
	send_one(&p, 2);
	end = twt_now() + MXT_LONG / 1000.;
	do {
		mxt_check(twt_now() < end);
		got = NULL;
		mxt_ok(mx_ipeek(p.b, &got, &result));
	} while (!result);
	mxt_check(got == r);
	/* VI.3: the request is not released. */
	for (int i = 0; i < 5; i++) {
		got = NULL;
		mxt_ok(mx_ipeek(p.b, &got, &result));
		mxt_check(result && got == r);
	}
	mxt_ok(mx_context(&got, &context));
	mxt_check(context == &end);
	/* A peeked request is complete: mx_test() cannot fail to find it so. */
	result = 0;
	mxt_ok(mx_test(p.b, &got, NULL, &result));
	mxt_eq(result, 1);
	nothing_complete(p.b);
	mxt_pending(p.b, &idle);
	mxt_pair_end(&p);
	mxt_down();
}

/* Each of many completions comes up until it is completed, and then no more. */
static void peek_all(int blocking)
{
	enum { N = 200 };
	static mx_request_t r[N];
	static char seen[N];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (uintptr_t i = 0; i < N; i++)
		mxt_ok(mx_irecv(p.b, NULL, 0, i, MXT_ALL, (void *)i, &r[i]));
	for (uint64_t i = 0; i < N; i++)
		send_one(&p, N - 1 - i);
	for (int i = 0; i < N; i++) {
		mx_request_t req = NULL;
		uint32_t result = 0;
		mx_status_t st;

		while (!result) {
			if (blocking)
				mxt_ok(mx_peek(p.b, MXT_LONG, &req, &result));
			else
				mxt_ok(mx_ipeek(p.b, &req, &result));
			mxt_check(result || !blocking);
		}
		result = 0;
		mxt_ok(mx_test(p.b, &req, &st, &result));
		mxt_eq(result, 1);
		mxt_check(st.match_info < N && !seen[st.match_info]);
		mxt_check(st.context == (void *)(uintptr_t)st.match_info);
		seen[st.match_info] = 1;
	}
	nothing_complete(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_any, ipeek_all, .timeout = MXT_TIMEOUT)
{
	peek_all(0);
}

Test(mx_any, peek_all, .timeout = MXT_TIMEOUT)
{
	peek_all(1);
}

/* Sends come up too, a synchronous one only when it is received. */
Test(mx_any, peek_sends, .timeout = MXT_TIMEOUT)
{
	mx_request_t s, r, got = NULL;
	uint32_t result = 77;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_ok(mx_peek(p.a, MXT_LONG, &got, &result));
	mxt_check(result && got == s);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	s = mxt_issend(p.a, NULL, 0, p.ab, 2);
	mxt_ok(mx_buffered(p.a, &s, MXT_LONG, &result));
	mxt_check(result);
	mxt_ok(mx_peek(p.a, 100, &got, &result));
	mxt_eq(result, 0);
	r = mxt_irecv(p.b, NULL, 0, 2);
	mxt_ok(mx_peek(p.a, MXT_LONG, &got, &result));
	mxt_check(result && got == s);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* IX.2: one completion awakens one of the blocked threads. */
Test(mx_any, one_peek_gets_it, .timeout = MXT_TIMEOUT)
{
	enum { THREADS = 4 };
	struct mxt_block b[THREADS];
	struct mxt_pair p;
	mx_request_t r;
	int got = 0;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 1);
	for (int i = 0; i < THREADS; i++) {
		mxt_block(&b[i], MXT_PEEK, p.b, NULL, 4000);
		mxt_asleep(&b[i].thread);
	}
	send_one(&p, 1);
	for (int i = 0; i < THREADS; i++) {
		mxt_join(&b[i].thread);
		mxt_ok(b[i].rc);
		if (b[i].result) {
			mxt_check(b[i].req == r);
			got++;
		}
	}
	mxt_eq(got, 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* As many completions as threads: each thread gets one of its own. */
Test(mx_any, each_peek_gets_one, .timeout = MXT_TIMEOUT)
{
	enum { THREADS = 4 };
	struct mxt_block b[THREADS];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < THREADS; i++) {
		mxt_irecv(p.b, NULL, 0, (uint64_t)i);
		mxt_block(&b[i], MXT_PEEK, p.b, NULL, MX_INFINITE);
		mxt_asleep(&b[i].thread);
	}
	for (int i = 0; i < THREADS; i++)
		send_one(&p, (uint64_t)i);
	for (int i = 0; i < THREADS; i++) {
		mxt_join(&b[i].thread);
		mxt_check(b[i].result);
		for (int k = 0; k < i; k++)
			mxt_check(b[k].req != b[i].req);
	}
	for (int i = 0; i < THREADS; i++)
		mxt_wait(p.b, &b[i].req, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_any, test_any, .timeout = MXT_TIMEOUT)
{
	mx_request_t r[4], old;
	uint32_t result = 77;
	struct mxt_pair p;
	mx_status_t st;
	char in[4][8];

	mxt_up();
	mxt_pair(&p);
	for (uint64_t i = 0; i < 4; i++) {
		mx_segment_t seg = {in[i], 8};

		mxt_ok(mx_irecv(p.b, &seg, 1, 0x10 * i + 5, MXT_ALL, in[i], &r[i]));
	}
	nothing_complete(p.b);
	for (uint64_t i = 0; i < 3; i++) {
		mx_request_t s = mxt_isend(p.a, "hello", 5, p.ab, 0x10 * i + 5);

		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		/* Completes it for certain, leaving the request. */
		mxt_ok(mx_buffered(p.b, &r[i], MXT_LONG, &result));
		mxt_check(result);
	}
	/* Nothing that matches, though there are completions. */
	result = 77;
	mxt_ok(mx_test_any(p.b, 0x35, MXT_ALL, &st, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_test_any(p.b, 6, 0xf, &st, &result));
	mxt_eq(result, 0);
	old = r[1];
	mxt_ok(mx_test_any(p.b, 0x15, MXT_ALL, &st, &result));
	mxt_eq(result, 1);
	mxt_eq(st.code, MX_STATUS_SUCCESS);
	mxt_eq(st.match_info, 0x15);
	mxt_eq(st.xfer_length, 5);
	mxt_eq(st.msg_length, 5);
	mxt_check(st.context == in[1]);
	mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(p.a)));
	/* That released the request. */
	mxt_rc(MX_BAD_REQUEST, mx_test(p.b, &old, &st, &result));
	mxt_ok(mx_test_any(p.b, 0x15, MXT_ALL, &st, &result));
	mxt_eq(result, 0);
	/* By some of the bits: one of the other two, and then the last. */
	for (uint64_t seen = 0, i = 0; i < 2; i++) {
		mxt_ok(mx_test_any(p.b, 5, 0xf, &st, &result));
		mxt_eq(result, 1);
		mxt_check((st.match_info == 5 || st.match_info == 0x25) && st.match_info != seen);
		seen = st.match_info;
	}
	nothing_complete(p.b);
	mxt_pending(p.b, &r[3]);
	mxt_pair_end(&p);
	mxt_down();
}

/* A receive by mask is found by what it received, a send by what it sent. */
Test(mx_any, match_info_of_the_message, .timeout = MXT_TIMEOUT)
{
	uint32_t result = 77;
	struct mxt_pair p;
	mx_request_t r;
	mx_status_t st;
	char ctx;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_irecv(p.b, NULL, 0, 0, 0, &ctx, &r));
	mxt_isend(p.a, NULL, 0, p.ab, 0x77);
	mxt_ok(mx_wait_any(p.b, MXT_LONG, 0x77, MXT_ALL, &st, &result));
	mxt_eq(result, 1);
	mxt_check(st.context == &ctx);
	result = 0;
	mxt_ok(mx_wait_any(p.a, MXT_LONG, 0x70, 0xf0, &st, &result));
	mxt_eq(result, 1);
	mxt_eq(st.code, MX_STATUS_SUCCESS);
	nothing_complete(p.a);
	nothing_complete(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_any, wait_any_skips_others, .timeout = MXT_TIMEOUT)
{
	uint32_t result = 77;
	struct mxt_block b;
	struct mxt_pair p;
	mx_request_t r, r2;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 5);
	r2 = mxt_irecv(p.b, NULL, 0, MXT_BLOCK_MATCH);
	mxt_block(&b, MXT_WAIT_ANY, p.b, NULL, MX_INFINITE);
	mxt_asleep(&b.thread);
	send_one(&p, 5);
	mxt_ok(mx_buffered(p.b, &r, MXT_LONG, &result));
	mxt_check(result);
	mxt_asleep(&b.thread);
	mxt_ok(mx_wait_any(p.b, 200, 6, MXT_ALL, &st, &result));
	mxt_eq(result, 0);
	send_one(&p, MXT_BLOCK_MATCH);
	mxt_join(&b.thread);
	mxt_eq(b.result, 1);
	mxt_eq(b.status.match_info, MXT_BLOCK_MATCH);
	mxt_rc(MX_BAD_REQUEST, mx_test(p.b, &r2, &st, &result));
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* Requests that failed come up like others. */
Test(mx_any, failures_too, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t zero = {{0, 0}};
	mx_request_t s, got = NULL;
	uint32_t result = 77;
	mx_endpoint_t ep;
	mx_status_t st;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	s = mxt_isend(ep, NULL, 0, zero, 3);
	mxt_ok(mx_peek(ep, MXT_LONG, &got, &result));
	mxt_check(result && got == s);
	mxt_ok(mx_wait_any(ep, MXT_LONG, 3, MXT_ALL, &st, &result));
	mxt_check(result);
	mxt_eq(st.code, MX_STATUS_BAD_SESSION);
	nothing_complete(ep);
	mxt_close(ep);
	mxt_down();
}
