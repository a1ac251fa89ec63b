/* SPDX-License-Identifier: BSD-2-Clause */
/* VIII Cancelling, and mx_forget(). */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_cancel, .init = mxt_job, .timeout = MXT_TIMEOUT);

static uint32_t cancel(mx_endpoint_t ep, mx_request_t *req)
{
	uint32_t result = 77;

	mxt_ok(mx_cancel(ep, req, &result));
	mxt_check(result == 0 || result == 1);
	return result;
}

static void send_int(struct mxt_pair *p, int value, uint64_t match)
{
	mx_request_t s = mxt_isend(p->a, &value, sizeof(value), p->ab, match);

	mxt_wait(p->a, &s, MX_STATUS_SUCCESS);
}

Test(mx_cancel, unmatched_receive, .timeout = MXT_TIMEOUT)
{
	int first = -1, second = -1;
	uint32_t result = 77;
	mx_request_t r, r2, old, got;
	struct mxt_pair p;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = old = mxt_irecv(p.b, &first, sizeof(first), 1);
	r2 = mxt_irecv(p.b, &second, sizeof(second), 1);
	mxt_eq(cancel(p.b, &r), 1);
	mxt_rc(MX_BAD_REQUEST, mx_test(p.b, &old, &st, &result));
	mxt_rc(MX_BAD_REQUEST, mx_cancel(p.b, &old, &result));
	/* Its resources are free already: it does not come up as complete. */
	mxt_ok(mx_ipeek(p.b, &got, &result));
	mxt_eq(result, 0);
	send_int(&p, 33, 1);
	mxt_wait(p.b, &r2, MX_STATUS_SUCCESS);
	mxt_eq(second, 33);
	mxt_eq(first, -1);
	mxt_pair_end(&p);
	mxt_down();
}

/* From the middle and the ends of the queue, in any order. */
Test(mx_cancel, many, .timeout = MXT_TIMEOUT)
{
	enum { N = 500 };
	static mx_request_t r[N];
	static char gone[N];
	static int in[N];
	struct mxt_pair p;
	uint64_t rnd = 5;
	int left = N;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < N; i++) {
		in[i] = -1;
		r[i] = mxt_irecv(p.b, &in[i], sizeof(in[i]), 1);
	}
	while (left > N / 2) {
		int k = (int)(twt_random(&rnd) % N);

		if (gone[k])
			continue;
		mxt_eq(cancel(p.b, &r[k]), 1);
		gone[k] = 1;
		left--;
	}
	for (int i = 0, n = 0; i < N; i++)
		if (!gone[i])
			send_int(&p, n++, 1);
	for (int i = 0, n = 0; i < N; i++) {
		if (gone[i]) {
			mxt_eq(in[i], -1);
			continue;
		}
		mxt_wait(p.b, &r[i], MX_STATUS_SUCCESS);
		mxt_eq(in[i], n++);
	}
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_cancel, completed_receive, .timeout = MXT_TIMEOUT)
{
	uint32_t result = 77;
	mx_request_t r, got;
	struct mxt_pair p;
	int in = -1;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, &in, sizeof(in), 1);
	send_int(&p, 44, 1);
	mxt_ok(mx_peek(p.b, MXT_LONG, &got, &result));
	mxt_check(result);
	mxt_eq(cancel(p.b, &r), 0);
	mxt_eq(cancel(p.b, &r), 0);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_eq(in, 44);
	mxt_pair_end(&p);
	mxt_down();
}

/* A short send is complete at once; test_withdraw.c has those that are not. */
Test(mx_cancel, complete_send, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t s, r;
	char out[100] = "", in[100];

	mxt_up();
	mxt_pair(&p);
	s = mxt_isend(p.a, out, sizeof(out), p.ab, 1);
	mxt_eq(cancel(p.a, &s), 0);
	mxt_probe(p.b, 1);
	mxt_eq(cancel(p.a, &s), 0);
	r = mxt_irecv(p.b, in, sizeof(in), 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* VIII: cancelled, or complete soon; never both and never neither. */
static void sender(struct mxt_side *s)
{
	for (int i = 0; i < 500; i++) {
		mx_request_t req;

		mxt_await(s->fd);
		req = mxt_isend(s->ep, &i, sizeof(i), s->peer, 1);
		mxt_wait(s->ep, &req, MX_STATUS_SUCCESS);
	}
}

Test(mx_cancel, races_with_the_message, .timeout = MXT_TIMEOUT)
{
	int cancelled = 0, received = 0;
	struct mxt_side s;
	uint64_t rnd = 3;

	mxt_two(&s, sender, NULL);
	for (int i = 0; i < 500; i++) {
		double delay = (double)(twt_random(&rnd) % 1000) * 1e-6, end;
		int in = -1;
		mx_request_t r = mxt_irecv(s.ep, &in, sizeof(in), 1);

		mxt_signal(s.fd);
		for (end = twt_now() + delay; twt_now() < end;)
			if (i & 1)
				mxt_ok(mx_progress(s.ep));
		if (cancel(s.ep, &r)) {
			mxt_eq(in, -1);
			cancelled++;
			r = mxt_irecv(s.ep, &in, sizeof(in), 1);
		} else {
			received++;
		}
		mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(in, i);
	}
	cr_log_info("%d cancelled, %d received", cancelled, received);
	mxt_two_end(&s);
}

static void not_surfacing(mx_endpoint_t ep)
{
	uint32_t result = 77;
	mx_request_t got;
	mx_status_t st;

	mxt_ok(mx_peek(ep, 200, &got, &result));
	mxt_eq(result, 0);
	mxt_ok(mx_test_any(ep, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

Test(mx_cancel, forget_a_receive, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, old, next, s;
	int in = -1, got = -1;
	uint32_t result = 77;
	struct mxt_pair p;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = old = mxt_irecv(p.b, &in, sizeof(in), 1);
	mxt_ok(mx_forget(p.b, &r));
	/* The handle ends now, the receive does not. */
	mxt_rc(MX_BAD_REQUEST, mx_test(p.b, &old, &st, &result));
	next = mxt_irecv(p.b, &got, sizeof(got), 1);
	/* V.1.2: once this send is complete, it has been delivered. */
	s = mxt_issend(p.a, &(int){1}, sizeof(int), p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_eq(in, 1);
	mxt_pending(p.b, &next);
	send_int(&p, 2, 1);
	mxt_wait(p.b, &next, MX_STATUS_SUCCESS);
	mxt_eq(got, 2);
	not_surfacing(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_cancel, forget_complete_requests, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, s, got;
	uint32_t result = 77;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, NULL, 0, 1);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_ok(mx_peek(p.b, MXT_LONG, &got, &result));
	mxt_check(result);
	mxt_ok(mx_peek(p.a, MXT_LONG, &got, &result));
	mxt_check(result);
	mxt_ok(mx_forget(p.b, &r));
	mxt_ok(mx_forget(p.a, &s));
	not_surfacing(p.a);
	not_surfacing(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

/* A forgotten send is a send all the same. */
Test(mx_cancel, forget_sends, .timeout = MXT_TIMEOUT)
{
	enum { LEN = 1 << 20 };
	char *out = malloc(LEN), *in = malloc(LEN);
	static const uint32_t lens[] = {0, 100, LEN};
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	twt_fill(out, LEN, 8);
	for (int i = 0; i < 6; i++) {
		uint32_t len = lens[i / 2];
		mx_request_t s, r;

		s = (i & 1 ? mxt_issend : mxt_isend)(p.a, out, len, p.ab, 1);
		mxt_ok(mx_forget(p.a, &s));
		r = mxt_irecv(p.b, in, len, 1);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).xfer_length, len);
		mxt_eq(twt_check(in, len, 8), len);
		not_surfacing(p.a);
	}
	free(out);
	free(in);
	mxt_pair_end(&p);
	mxt_down();
}

/* As programs do that send and never look: nothing may pile up and stop them. */
Test(mx_cancel, forget_very_many, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 20000; i++) {
		mx_request_t r, s;
		int in = -1;

		s = mxt_isend(p.a, &i, sizeof(i), p.ab, 1);
		mxt_ok(mx_forget(p.a, &s));
		r = mxt_irecv(p.b, &in, sizeof(in), 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_eq(in, i);
	}
	mxt_pair_end(&p);
	mxt_down();
}
