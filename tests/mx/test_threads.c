/* SPDX-License-Identifier: BSD-2-Clause */
/* IX.2 Multi-threaded applications. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_threads, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { THREADS = 6 };

/* Callers that block in every way when the endpoint goes away under them. */
static void goes_away(int finalize)
{
	struct mxt_block b[MXT_CALLS];
	mx_endpoint_t ep;

	for (int round = 0; round < 5; round++) {
		mxt_up();
		ep = mxt_open(MX_ANY_ENDPOINT);
		for (int i = 0; i < MXT_CALLS; i++) {
			mx_request_t req = NULL;

			if (i == MXT_WAIT || i == MXT_BUFFERED)
				req = mxt_irecv(ep, NULL, 0, (uint64_t)i);
			mxt_block(&b[i], (enum mxt_call)i, ep, req, MX_INFINITE);
		}
		for (int i = 0; i < MXT_CALLS; i++)
			mxt_asleep(&b[i].thread);
		if (!finalize)
			mxt_close(ep);
		else
			mxt_down();
		for (int i = 0; i < MXT_CALLS; i++) {
			mxt_join(&b[i].thread);
			mxt_rc(MX_BAD_ENDPOINT, b[i].rc);
		}
		if (!finalize)
			mxt_down();
	}
}

Test(mx_threads, close_releases_callers, .timeout = MXT_TIMEOUT)
{
	goes_away(0);
}

Test(mx_threads, finalize_releases_callers, .timeout = MXT_TIMEOUT)
{
	goes_away(1);
}

struct worker {
	struct mxt_pair *p;
	int n;
	struct mxt_thread thread;
};

static void together(void (*fn)(void *arg), struct mxt_pair *p)
{
	struct worker w[THREADS];

	for (int i = 0; i < THREADS; i++) {
		w[i].p = p;
		w[i].n = i;
		mxt_start(&w[i].thread, fn, &w[i]);
	}
	for (int i = 0; i < THREADS; i++)
		mxt_join(&w[i].thread);
}

static void on_a_pair(void (*fn)(void *arg))
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	together(fn, &p);
	mxt_pair_end(&p);
	mxt_down();
}

/* Half of the threads are one side of a game, half the other: all on two endpoints. */
static void ping_pong(void *arg)
{
	static const uint32_t lens[] = {0, 8, 100, 5000, 40000, 200000};
	struct worker *w = arg;
	int answering = w->n & 1;
	mx_endpoint_t ep = answering ? w->p->b : w->p->a;
	mx_endpoint_addr_t to = answering ? w->p->ba : w->p->ab;
	uint64_t match = (uint64_t)(w->n / 2) << 32;
	char *out = malloc(200000), *in = malloc(200000);

	twt_fill(out, 200000, 1);
	for (uint64_t i = 0, n = 300 / twt_slow(); i < n; i++) {
		uint32_t len = lens[i % 6];
		mx_request_t r, s;

		memset(in, 0, len);
		r = mxt_irecv(ep, in, len, match | i << 1 | !answering);
		if (!answering) {
			s = mxt_isend(ep, out, len, to, match | i << 1);
			mxt_wait(ep, &s, MX_STATUS_SUCCESS);
		}
		mxt_eq(mxt_wait(ep, &r, MX_STATUS_SUCCESS).xfer_length, len);
		mxt_eq(twt_check(in, len, 1), len);
		if (answering) {
			s = mxt_issend(ep, out, len, to, match | i << 1 | 1);
			mxt_wait(ep, &s, MX_STATUS_SUCCESS);
		}
	}
	free(out);
	free(in);
}

Test(mx_threads, ping_pong, .timeout = MXT_TIMEOUT)
{
	on_a_pair(ping_pong);
}

/* One's own messages to one's own endpoint, by polling. */
static void to_self(void *arg)
{
	struct worker *w = arg;
	mx_endpoint_t ep = w->p->a;
	mx_endpoint_addr_t self = mxt_self(ep);

	for (uint64_t i = 0; i < 2000; i++) {
		uint64_t out = i * 3, in = 0, match = (uint64_t)w->n << 32 | i;
		double end = twt_now() + MXT_LONG / 1000.;
		mx_request_t r, s;
		uint32_t result;

		r = mxt_irecv(ep, &in, sizeof(in), match);
		s = mxt_isend(ep, &out, sizeof(out), self, match);
		do {
			mxt_check(twt_now() < end);
			mxt_ok(mx_test(ep, &r, NULL, &result));
		} while (!result);
		do {
			mxt_check(twt_now() < end);
			mxt_ok(mx_test(ep, &s, NULL, &result));
		} while (!result);
		mxt_eq(in, i * 3);
	}
}

Test(mx_threads, to_self, .timeout = MXT_TIMEOUT)
{
	on_a_pair(to_self);
}

/* Endpoints come and go in all threads at once, and talk meanwhile. */
static void come_and_go(void *arg)
{
	(void)arg;
	for (int i = 0, n = 40 / (int)twt_slow(); i < n; i++) {
		struct mxt_pair p;
		mx_request_t r, s;
		int in = -1;

		mxt_pair(&p);
		r = mxt_irecv(p.b, &in, sizeof(in), 1);
		s = mxt_issend(p.a, &i, sizeof(i), p.ab, 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(in, i);
		mxt_pair_end(&p);
	}
}

Test(mx_threads, come_and_go, .timeout = MXT_TIMEOUT)
{
	on_a_pair(come_and_go);
}

/* The same connection, asked for by all threads at the same time. */
static void connect_all(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 100; i++) {
		mxt_check(mxt_same_addr(mxt_connect(w->p->a, mxt_name(w->p->b)), w->p->ab));
		mxt_check(mxt_same_name(mxt_whose(mxt_connect(w->p->b, mxt_name(w->p->a))),
					mxt_name(w->p->a)));
	}
}

Test(mx_threads, connect, .timeout = MXT_TIMEOUT)
{
	on_a_pair(connect_all);
}

/* Many send, one receives: the order of each thread's messages is kept. */
enum { EACH = 1500 };

static void send_in_order(void *arg)
{
	struct worker *w = arg;
	static uint64_t out[THREADS][EACH];

	for (uint64_t i = 0; i < EACH; i++) {
		mx_request_t s;

		out[w->n][i] = i;
		s = mxt_isend(w->p->a, &out[w->n][i], 8, w->p->ab, (uint64_t)w->n);
		mxt_wait(w->p->a, &s, MX_STATUS_SUCCESS);
	}
}

static void receive_from_all(void *arg)
{
	struct mxt_pair *p = arg;
	uint64_t next[THREADS] = {0};

	for (int i = 0; i < THREADS * EACH; i++) {
		uint64_t in = 0;
		mx_segment_t seg = {&in, 8};
		mx_request_t r;
		mx_status_t st;

		mxt_ok(mx_irecv(p->b, &seg, 1, 0, 0, NULL, &r));
		st = mxt_wait(p->b, &r, MX_STATUS_SUCCESS);
		mxt_check(st.match_info < THREADS);
		mxt_eq(in, next[st.match_info]++);
	}
}

Test(mx_threads, many_senders, .timeout = MXT_TIMEOUT)
{
	struct mxt_thread t;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	mxt_start(&t, receive_from_all, &p);
	together(send_in_order, &p);
	mxt_join(&t);
	mxt_pair_end(&p);
	mxt_down();
}

/* A pool that completes whatever comes up: everything once. */
enum { POOLED = 3000 };
static atomic_int completed[POOLED], total;

static void pool(void *arg)
{
	struct worker *w = arg;

	while (atomic_load(&total) < POOLED) {
		mx_request_t req = NULL;
		uint32_t result = 0;
		mx_status_t st;
		mx_return_t rc;

		mxt_ok(mx_peek(w->p->b, 200, &req, &result));
		if (!result)
			continue;
		/* Another thread may have found it too, and been faster. */
		result = 0;
		rc = mx_test(w->p->b, &req, &st, &result);
		if (rc == MX_BAD_REQUEST)
			continue;
		mxt_ok(rc);
		mxt_eq(result, 1);
		mxt_check(st.match_info < POOLED);
		mxt_eq(atomic_fetch_add(&completed[st.match_info], 1), 0);
		atomic_fetch_add(&total, 1);
	}
}

Test(mx_threads, pool_of_peekers, .timeout = MXT_TIMEOUT)
{
	struct worker w[3];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	/* Handles must not come again, or a late mx_test() would take another's. */
	for (uint64_t i = 0; i < POOLED; i++)
		mxt_irecv(p.b, NULL, 0, i);
	for (int i = 0; i < 3; i++) {
		w[i].p = &p;
		mxt_start(&w[i].thread, pool, &w[i]);
	}
	for (uint64_t i = 0; i < POOLED; i++) {
		mx_request_t s = mxt_isend(p.a, NULL, 0, p.ab, i);

		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	for (int i = 0; i < 3; i++)
		mxt_join(&w[i].thread);
	for (int i = 0; i < POOLED; i++)
		mxt_eq(atomic_load(&completed[i]), 1);
	mxt_pair_end(&p);
	mxt_down();
}

/* Threads that wait for anything, each of its own kind. */
static void any_of_mine(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < 400; i++) {
		uint64_t kind = (uint64_t)w->n;
		mx_request_t r, s;
		uint32_t result;
		mx_status_t st;

		mxt_ok(mx_irecv(w->p->b, NULL, 0, kind, 0xff, w, &r));
		s = mxt_isend(w->p->a, NULL, 0, w->p->ab, i << 8 | kind);
		result = 0;
		mxt_ok(mx_wait_any(w->p->b, MXT_LONG, kind, 0xff, &st, &result));
		mxt_eq(result, 1);
		mxt_check(st.context == w);
		mxt_eq(st.match_info, i << 8 | kind);
		mxt_wait(w->p->a, &s, MX_STATUS_SUCCESS);
	}
}

Test(mx_threads, wait_any, .timeout = MXT_TIMEOUT)
{
	on_a_pair(any_of_mine);
}

/* Wake-ups all the time: waits end early, but nothing is lost. */
static atomic_int stop;

static void disturb(void *arg)
{
	struct mxt_pair *p = arg;

	while (!atomic_load(&stop)) {
		mxt_ok(mx_wakeup(p->a));
		mxt_ok(mx_wakeup(p->b));
		mxt_sleep(1);
	}
}

static void wait_again(mx_endpoint_t ep, mx_request_t *req)
{
	double end = twt_now() + MXT_LONG / 1000.;
	uint32_t result;

	do {
		mxt_check(twt_now() < end);
		mxt_ok(mx_wait(ep, req, MX_INFINITE, NULL, &result));
	} while (!result);
}

static void disturbed(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < 1500; i++) {
		uint64_t match = (uint64_t)w->n << 32 | i, out = ~match, in = 0;
		mx_request_t r = mxt_irecv(w->p->b, &in, 8, match);
		mx_request_t s = mxt_issend(w->p->a, &out, 8, w->p->ab, match);

		wait_again(w->p->b, &r);
		wait_again(w->p->a, &s);
		mxt_eq(in, out);
	}
}

Test(mx_threads, wakeups_lose_nothing, .timeout = MXT_TIMEOUT)
{
	struct mxt_thread t;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	mxt_start(&t, disturb, &p);
	together(disturbed, &p);
	atomic_store(&stop, 1);
	mxt_join(&t);
	mxt_pair_end(&p);
	mxt_down();
}

/* As ping_pong, with the answering threads in another process. */
static void far_threads(struct mxt_side *s)
{
	struct mxt_pair p = {s->ep, s->ep, s->peer, s->peer};
	struct worker w[THREADS];

	for (int i = 0; i < THREADS; i++) {
		w[i].p = &p;
		w[i].n = 2 * i + (s->arg != NULL);
		mxt_start(&w[i].thread, ping_pong, &w[i]);
	}
	for (int i = 0; i < THREADS; i++)
		mxt_join(&w[i].thread);
}

Test(mx_threads, two_processes, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	mxt_two(&s, far_threads, &s);
	s.arg = NULL;
	far_threads(&s);
	mxt_two_end(&s);
}
