/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_set_request_timeout(): what is pending too long ends with MX_STATUS_TIMEOUT. */
#include <signal.h>
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_timeout, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { SHORT = 30, LATER = 60000, LONGEST = 1 << 20 }; /* ms, ms, bytes */
static char out[LONGEST], in[LONGEST];
static const uint32_t lens[] = {0, 100, 8000, LONGEST};

static void set(mx_endpoint_t ep, mx_request_t req, uint32_t ms)
{
	mxt_ok(mx_set_request_timeout(ep, req, ms));
}

static void nothing_waits(mx_endpoint_t ep)
{
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_iprobe(ep, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

Test(mx_timeout, receive, .timeout = MXT_TIMEOUT)
{
	mx_request_t early, late, s;
	struct mxt_pair p;
	double start;
	int got = -1;

	mxt_up();
	mxt_pair(&p);
	early = mxt_irecv(p.b, in, sizeof(in), 1);
	late = mxt_irecv(p.b, &got, sizeof(got), 1);
	start = twt_now();
	set(p.b, early, SHORT);
	set(p.b, late, LATER);
	mxt_wait(p.b, &early, MX_STATUS_TIMEOUT);
	mxt_check(twt_now() - start >= SHORT / 1000. - 0.001);
	mxt_pending(p.b, &late);
	/* It takes no message any more. */
	s = mxt_isend(p.a, &(int){5}, sizeof(int), p.ab, 1);
	mxt_wait(p.b, &late, MX_STATUS_SUCCESS);
	mxt_eq(got, 5);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* By polls, a sleeper, and the service thread alone. */
Test(mx_timeout, whoever_looks, .timeout = MXT_TIMEOUT)
{
	double end = twt_now() + MXT_LONG / 1000.;
	struct mxt_pair p;
	mx_request_t r, got;
	uint32_t result = 0;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, in, 1, 1);
	set(p.b, r, SHORT);
	while (!result) {
		mxt_check(twt_now() < end);
		mxt_ok(mx_test(p.b, &r, &st, &result));
	}
	mxt_eq(st.code, MX_STATUS_TIMEOUT);
	r = mxt_irecv(p.b, in, 1, 1);
	set(p.b, r, SHORT);
	mxt_ok(mx_peek(p.b, MXT_LONG, &got, &result));
	mxt_check(result && got == r);
	mxt_wait(p.b, &r, MX_STATUS_TIMEOUT);
	r = mxt_irecv(p.b, in, 1, 1);
	set(p.b, r, SHORT);
	/* Nobody calls: once it is over, a message does not meet it. */
	mxt_sleep(20 * SHORT * (unsigned)twt_slow());
	mxt_isend(p.a, out, 1, p.ab, 1);
	mxt_probe(p.b, 1);
	mxt_wait(p.b, &r, MX_STATUS_TIMEOUT);
	mxt_pair_end(&p);
	mxt_down();
}

/* The receiver makes no calls, and has no message of it afterwards. */
Test(mx_timeout, send, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 4; i++) {
		s = mxt_issend(p.a, out, lens[i], p.ab, 1);
		set(p.a, s, SHORT);
		mxt_wait(p.a, &s, MX_STATUS_TIMEOUT);
		nothing_waits(p.b);
	}
	s = mxt_isend(p.a, out, LONGEST, p.ab, 1);
	set(p.a, s, SHORT);
	mxt_wait(p.a, &s, MX_STATUS_TIMEOUT);
	nothing_waits(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_timeout, connect, .timeout = MXT_TIMEOUT)
{
	mx_request_t one, two;
	struct twt_child c;
	struct mxt_name name;
	mx_endpoint_t ep;

	name = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_stop(c.pid);
	mxt_ok(mx_iconnect(ep, name.nic, name.id, MXT_KEY, 1, NULL, &one));
	mxt_ok(mx_iconnect(ep, name.nic, name.id, MXT_KEY, 2, NULL, &two));
	set(ep, two, LATER);
	set(ep, one, SHORT);
	mxt_wait(ep, &one, MX_STATUS_TIMEOUT);
	mxt_pending(ep, &two);
	set(ep, NULL, SHORT);
	mxt_ok(mx_iconnect(ep, name.nic, name.id, MXT_KEY, 3, NULL, &one));
	mxt_wait(ep, &one, MX_STATUS_TIMEOUT);
	mxt_eq(kill(c.pid, SIGCONT), 0);
	mxt_wait(ep, &two, MX_STATUS_SUCCESS);
	mxt_close(ep);
	mxt_down();
	mxt_idle_close(&c);
	mxt_idle_end(&c);
}

/* All that are posted after it, none before; and off again. */
Test(mx_timeout, of_the_endpoint, .timeout = MXT_TIMEOUT)
{
	mx_request_t before, r[3], s;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	before = mxt_irecv(p.b, in, 1, 1);
	set(p.b, NULL, SHORT);
	for (int i = 0; i < 3; i++)
		r[i] = mxt_irecv(p.b, in, 1, 1);
	/* One of its own comes before the endpoint's. */
	set(p.b, r[1], MX_INFINITE);
	set(p.b, r[2], LATER);
	s = mxt_issend(p.b, out, 1, p.ba, 9);
	mxt_wait(p.b, &r[0], MX_STATUS_TIMEOUT);
	mxt_wait(p.b, &s, MX_STATUS_TIMEOUT);
	mxt_pending(p.b, &r[1]);
	mxt_pending(p.b, &r[2]);
	mxt_pending(p.b, &before);
	set(p.b, NULL, MX_INFINITE);
	r[0] = mxt_irecv(p.b, in, 1, 2);
	mxt_sleep(3 * SHORT);
	mxt_pending(p.b, &r[0]);
	/* What ends in time, or at once, ends as ever. */
	set(p.a, NULL, LATER);
	for (int i = 0; i < 3; i++) {
		s = mxt_issend(p.a, out, 1, p.ab, 1);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	mxt_wait(p.b, &before, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r[1], MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r[2], MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* Later limits replace earlier ones; complete, forgotten and unknown requests. */
Test(mx_timeout, set_again, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, s;
	struct mxt_pair p;
	int got = -1;

	mxt_up();
	mxt_pair(&p);
	r = mxt_irecv(p.b, &got, sizeof(got), 1);
	set(p.b, r, SHORT);
	set(p.b, r, LATER);
	mxt_sleep(3 * SHORT);
	mxt_pending(p.b, &r);
	set(p.b, r, SHORT);
	set(p.b, r, UINT32_MAX);
	mxt_sleep(3 * SHORT);
	mxt_pending(p.b, &r);
	s = mxt_isend(p.a, &(int){6}, sizeof(int), p.ab, 1);
	/* Complete: nothing can be late any more. */
	set(p.a, s, 1);
	mxt_sleep(SHORT);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_rc(MX_BAD_REQUEST, mx_set_request_timeout(p.b, r, SHORT));
	mxt_rc(MX_BAD_REQUEST,
	       mx_set_request_timeout(p.b, (mx_request_t)(uintptr_t)0x12345, SHORT));
	r = mxt_irecv(p.b, in, 1, 1);
	set(p.b, r, SHORT);
	mxt_ok(mx_forget(p.b, &r));
	mxt_sleep(3 * SHORT);
	s = mxt_isend(p.a, out, 1, p.ab, 1);
	mxt_probe(p.b, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

static void sit(struct mxt_side *s)
{
	mxt_await(s->fd);
	nothing_waits(s->ep);
}

/*
 * A peer that does not answer: a short send ends all the same, a long one, which it may
 * read any moment, when it answers.
 */
Test(mx_timeout, peer_is_stopped, .timeout = MXT_TIMEOUT)
{
	mx_request_t eager, announced, r;
	struct mxt_side m;

	mxt_two(&m, sit, NULL);
	mxt_stop(m.child.pid);
	mxt_ok(mx_set_request_timeout(m.ep, NULL, SHORT));
	eager = mxt_issend(m.ep, out, 10, m.peer, 1);
	announced = mxt_issend(m.ep, out, LONGEST, m.peer, 1);
	r = mxt_irecv(m.ep, in, 1, 1);
	mxt_wait(m.ep, &r, MX_STATUS_TIMEOUT);
	mxt_wait(m.ep, &eager, MX_STATUS_TIMEOUT);
	mxt_pending(m.ep, &announced);
	mxt_eq(kill(m.child.pid, SIGCONT), 0);
	mxt_wait(m.ep, &announced, MX_STATUS_TIMEOUT);
	mxt_signal(m.fd);
	mxt_two_end(&m);
}

/* Limits of requests that end in time leave nothing behind, many at once come in order. */
Test(mx_timeout, very_many, .timeout = MXT_TIMEOUT)
{
	enum { N = 3000 };
	static mx_request_t r[N];
	struct mxt_pair p;
	uint64_t rnd = 7;

	mxt_up();
	mxt_pair(&p);
	set(p.b, NULL, LATER);
	for (int i = 0; i < 50000; i++) {
		mx_request_t one = mxt_irecv(p.b, in, 1, 1);
		mx_request_t s = mxt_isend(p.a, out, 1, p.ab, 1);

		mxt_wait(p.b, &one, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	for (int i = 0; i < N; i++) {
		r[i] = mxt_irecv(p.b, in, 1, 1);
		set(p.b, r[i], 1 + (uint32_t)(twt_random(&rnd) % 200));
	}
	for (int i = 0; i < N; i++)
		mxt_wait(p.b, &r[i], MX_STATUS_TIMEOUT);
	mxt_pair_end(&p);
	mxt_down();
}
