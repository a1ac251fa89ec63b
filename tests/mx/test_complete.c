/* SPDX-License-Identifier: BSD-2-Clause */
/* VI.1 and VI.2: the buffered and the complete state of one request. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_complete, .init = mxt_job, .timeout = MXT_TIMEOUT);

Test(mx_complete, test, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t r, s, again;
	uint32_t result = 77;
	mx_status_t st;
	double end;
	char c = 0;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, &c, 1, 1);
	mxt_pending(p.b, &r);
	mxt_pending(p.b, &r);
	s = mxt_isend(p.a, "x", 1, p.ab, 1);
	end = twt_now() + MXT_LONG / 1000.;
	again = r;
	do {
		mxt_check(twt_now() < end);
		mxt_ok(mx_test(p.b, &r, &st, &result));
	} while (!result);
	mxt_eq(result, 1);
	mxt_eq(st.code, MX_STATUS_SUCCESS);
	mxt_eq(c, 'x');
	/* II.6: the handle is not valid any more. */
	mxt_rc(MX_BAD_REQUEST, mx_test(p.b, &again, &st, &result));
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* Every call that takes a request, with this one. */
static void every_request_call(mx_endpoint_t ep, mx_request_t *req, mx_return_t want)
{
	mx_request_t old = req ? *req : NULL;
	uint32_t result = 77;
	void *context = &old;
	mx_status_t st;

	mxt_rc(want, mx_test(ep, req, &st, &result));
	mxt_rc(want, mx_wait(ep, req, 10, &st, &result));
	mxt_rc(want, mx_wait(ep, req, MX_INFINITE, &st, &result));
	mxt_rc(want, mx_ibuffered(ep, req, &result));
	mxt_rc(want, mx_buffered(ep, req, 10, &result));
	mxt_rc(want, mx_buffered(ep, req, MX_INFINITE, &result));
	mxt_rc(want, mx_cancel(ep, req, &result));
	mxt_rc(want, mx_forget(ep, req));
	mxt_check(!req || *req == old);
	/* This one knows no endpoint. */
	if (ep) {
		mxt_rc(want, mx_context(req, &context));
		mxt_check(context == &old);
	}
}

Test(mx_complete, bad_requests, .timeout = MXT_TIMEOUT)
{
	static char garbage[256];
	mx_request_t bad[] = {NULL, (mx_request_t)(uintptr_t)garbage, (mx_request_t)(uintptr_t)1,
			      (mx_request_t)UINTPTR_MAX, (mx_request_t)(uintptr_t)0x1000};
	mx_request_t r, s, stale[2];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	every_request_call(p.a, NULL, MX_BAD_REQUEST);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		every_request_call(p.a, &bad[i], MX_BAD_REQUEST);
	r = stale[0] = mxt_irecv(p.b, NULL, 0, 1);
	s = stale[1] = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	every_request_call(p.b, &stale[0], MX_BAD_REQUEST);
	every_request_call(p.a, &stale[1], MX_BAD_REQUEST);
	/* Requests of a closed endpoint have gone with it. */
	stale[0] = mxt_irecv(p.b, NULL, 0, 1);
	mxt_close(p.b);
	every_request_call(p.a, &stale[0], MX_BAD_REQUEST);
	mxt_close(p.a);
	mxt_down();
}

/* II.2: a request means nothing to another endpoint. */
Test(mx_complete, request_of_another_endpoint, .timeout = MXT_TIMEOUT)
{
	uint32_t result = 77;
	struct mxt_pair p;
	mx_request_t r, s;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 1);
	mxt_rc(MX_BAD_REQUEST, mx_test(p.a, &r, &st, &result));
	mxt_rc(MX_BAD_REQUEST, mx_wait(p.a, &r, 10, &st, &result));
	mxt_rc(MX_BAD_REQUEST, mx_cancel(p.a, &r, &result));
	mxt_rc(MX_BAD_REQUEST, mx_forget(p.a, &r));
	mxt_rc(MX_BAD_REQUEST, mx_ibuffered(p.a, &r, &result));
	mxt_pending(p.b, &r);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* A handle of long ago stays bad while others come and go. */
Test(mx_complete, stale_among_new, .timeout = MXT_TIMEOUT)
{
	enum { N = 64 };
	mx_request_t old[N], now[N];
	struct mxt_pair p;
	mx_status_t st;
	uint32_t result;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < N; i++) {
		mx_request_t r = old[i] = mxt_irecv(p.b, NULL, 0, 1);

		mxt_ok(mx_cancel(p.b, &r, &result));
		mxt_eq(result, 1);
	}
	for (int i = 0; i < N; i++)
		now[i] = mxt_irecv(p.b, NULL, 0, 1);
	for (int i = 0; i < N; i++) {
		int in_use = 0;

		/* II.6 lets a handle come again for a new request. */
		for (int k = 0; k < N; k++)
			in_use |= old[i] == now[k];
		mxt_rc(in_use ? MX_SUCCESS : MX_BAD_REQUEST, mx_test(p.b, &old[i], &st, &result));
	}
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_complete, outputs_that_are_null, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, s, peeked;
	uint32_t result = 77;
	struct mxt_pair p;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 1);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_ok(mx_peek(p.b, MXT_LONG, &peeked, &result));
	mxt_rc(MX_FAILURE, mx_test(p.b, &r, &st, NULL));
	mxt_rc(MX_FAILURE, mx_wait(p.b, &r, 10, &st, NULL));
	mxt_rc(MX_FAILURE, mx_ibuffered(p.b, &r, NULL));
	mxt_rc(MX_FAILURE, mx_buffered(p.b, &r, 10, NULL));
	mxt_rc(MX_FAILURE, mx_cancel(p.b, &r, NULL));
	mxt_rc(MX_FAILURE, mx_ipeek(p.b, &peeked, NULL));
	mxt_rc(MX_FAILURE, mx_peek(p.b, 10, &peeked, NULL));
	mxt_rc(MX_FAILURE, mx_test_any(p.b, 1, MXT_ALL, &st, NULL));
	mxt_rc(MX_FAILURE, mx_wait_any(p.b, 10, 1, MXT_ALL, &st, NULL));
	mxt_rc(MX_FAILURE, mx_context(&r, NULL));
	mxt_rc(MX_BAD_REQUEST, mx_ipeek(p.b, NULL, &result));
	mxt_rc(MX_BAD_REQUEST, mx_peek(p.b, 10, NULL, &result));
	/* None of that completed it, and a status that is not wanted is not needed. */
	result = 0;
	mxt_ok(mx_test(p.b, &r, NULL, &result));
	mxt_eq(result, 1);
	mxt_ok(mx_wait(p.a, &s, MXT_LONG, NULL, &result));
	mxt_eq(result, 1);
	for (int any = 0; any < 2; any++) {
		r = mxt_irecv(p.b, NULL, 0, 1);
		s = mxt_isend(p.a, NULL, 0, p.ab, 1);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_ok(mx_peek(p.b, MXT_LONG, &peeked, &result));
		result = 0;
		if (any)
			mxt_ok(mx_test_any(p.b, 1, MXT_ALL, NULL, &result));
		else
			mxt_ok(mx_wait_any(p.b, MXT_LONG, 1, MXT_ALL, NULL, &result));
		mxt_eq(result, 1);
	}
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_complete, timeouts, .timeout = MXT_TIMEOUT)
{
	static const uint32_t ms[] = {1, 50, 400};
	struct mxt_block b;
	mx_endpoint_t ep;
	mx_request_t r;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	r = mxt_irecv(ep, NULL, 0, 1);
	for (int i = 0; i < 3; i++)
		for (int call = 0; call < MXT_CALLS; call++) {
			mxt_block_here(&b, (enum mxt_call)call, ep, r, ms[i]);
			mxt_ok(b.rc);
			mxt_eq(b.result, 0);
			/* Clocks are coarse; late is only a matter of the load. */
			mxt_check(b.took > ms[i] / 1000. - 0.002);
			mxt_check(b.took < MXT_LONG / 1000.);
		}
	mxt_pending(ep, &r);
	mxt_close(ep);
	mxt_down();
}

/* VI.2.2: a blocked thread should not use any CPU cycles. */
static void uses_no_cpu(enum mxt_call call)
{
	struct mxt_block b;
	mx_endpoint_t ep;
	mx_request_t r;
	double cpu;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	r = mxt_irecv(ep, NULL, 0, 1);
	mxt_sleep(100);
	cpu = twt_cpu();
	mxt_block_here(&b, call, ep, r, 1000);
	mxt_check(twt_cpu() - cpu < MXT_IDLE);
	mxt_ok(b.rc);
	mxt_eq(b.result, 0);
	mxt_close(ep);
	mxt_down();
}

Test(mx_complete, blocked_calls_use_no_cpu, .timeout = MXT_TIMEOUT)
{
	for (int call = 0; call < MXT_CALLS; call++)
		uses_no_cpu((enum mxt_call)call);
}

/* Blocked without a limit, in both spellings, until the message comes. */
Test(mx_complete, infinite, .timeout = MXT_TIMEOUT)
{
	static const uint32_t forever[] = {MX_INFINITE, 0xffffffffu};
	struct mxt_block b;
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 2; i++)
		for (int call = 0; call < MXT_CALLS; call++) {
			mx_request_t r = NULL;

			/* A probe sees only what has no receive. */
			if (call != MXT_PROBE)
				r = mxt_irecv(p.b, NULL, 0, MXT_BLOCK_MATCH);
			mxt_block(&b, (enum mxt_call)call, p.b, r, forever[i]);
			mxt_asleep(&b.thread);
			s = mxt_isend(p.a, NULL, 0, p.ab, MXT_BLOCK_MATCH);
			mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
			mxt_join(&b.thread);
			mxt_ok(b.rc);
			mxt_check(b.result);
			if (call == MXT_PROBE)
				r = mxt_irecv(p.b, NULL, 0, MXT_BLOCK_MATCH);
			if (call != MXT_WAIT && call != MXT_WAIT_ANY)
				mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		}
	mxt_pair_end(&p);
	mxt_down();
}

static void buffered_soon(mx_endpoint_t ep, mx_request_t *req)
{
	double end = twt_now() + MXT_LONG / 1000.;
	uint32_t result;

	do {
		mxt_check(twt_now() < end);
		result = 77;
		mxt_ok(mx_ibuffered(ep, req, &result));
	} while (!result);
}

Test(mx_complete, ibuffered, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 1, 100, 4000};
	char out[4000], in[4000];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 4; i++) {
		mx_request_t s = mxt_isend(p.a, out, lens[i], p.ab, 1), r;
		uint32_t result = 77;

		buffered_soon(p.a, &s);
		buffered_soon(p.a, &s);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		r = mxt_irecv(p.b, in, lens[i], 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		/* A synchronous send is buffered long before it is complete. */
		memset(out, 3, sizeof(out));
		s = mxt_issend(p.a, out, lens[i], p.ab, 1);
		buffered_soon(p.a, &s);
		memset(out, 4, sizeof(out));
		mxt_pending(p.a, &s);
		buffered_soon(p.a, &s);
		r = mxt_irecv(p.b, in, lens[i], 2);
		mxt_ok(mx_ibuffered(p.b, &r, &result));
		mxt_eq(result, 0);
		mxt_ok(mx_cancel(p.b, &r, &result));
		r = mxt_irecv(p.b, in, lens[i], 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		for (uint32_t k = 0; k < lens[i]; k++)
			mxt_eq(in[k], 3);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* The blocking form, of small synchronous sends and of a long send that is received. */
Test(mx_complete, buffered, .timeout = MXT_TIMEOUT)
{
	enum { LEN = 4 << 20 };
	char *out = calloc(1, LEN), *in = malloc(LEN);
	uint32_t result = 77;
	struct mxt_pair p;
	mx_request_t s, r;

	mxt_up();
	mxt_pair(&p);
	s = mxt_issend(p.a, out, 50, p.ab, 1);
	mxt_ok(mx_buffered(p.a, &s, MXT_LONG, &result));
	mxt_check(result && result != 77);
	mxt_pending(p.a, &s);
	r = mxt_irecv(p.b, in, 50, 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	result = 77;
	mxt_ok(mx_buffered(p.a, &s, MXT_LONG, &result));
	mxt_check(result && result != 77);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);

	s = mxt_isend(p.a, out, LEN, p.ab, 2);
	r = mxt_irecv(p.b, in, LEN, 2);
	result = 77;
	mxt_ok(mx_buffered(p.a, &s, MX_INFINITE, &result));
	mxt_check(result && result != 77);
	memset(out, 9, LEN);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	for (int i = 0; i < LEN; i++)
		if (in[i])
			mxt_eq(in[i], 0);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	free(out);
	free(in);
	mxt_pair_end(&p);
	mxt_down();
}

/* VI.4 */
Test(mx_complete, context, .timeout = MXT_TIMEOUT)
{
	char a = 0, b = 0, c = 0;
	mx_segment_t seg = {&c, 1};
	mx_request_t r, s, none;
	struct mxt_pair p;
	void *context;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_irecv(p.b, &seg, 1, 1, MXT_ALL, &a, &r));
	mxt_ok(mx_context(&r, &context));
	mxt_check(context == &a);
	none = mxt_irecv(p.b, NULL, 0, 2);
	mxt_ok(mx_context(&none, &context));
	mxt_check(context == NULL);
	mxt_ok(mx_issend(p.a, &seg, 1, p.ab, 1, &b, &s));
	mxt_ok(mx_context(&s, &context));
	mxt_check(context == &b);
	/* Complete or not, for as long as the request is there. */
	mxt_sleep(50);
	mxt_ok(mx_context(&r, &context));
	mxt_check(context == &a);
	mxt_check(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).context == &a);
	mxt_check(mxt_wait(p.a, &s, MX_STATUS_SUCCESS).context == &b);
	mxt_pair_end(&p);
	mxt_down();
}
