/* SPDX-License-Identifier: BSD-2-Clause */
/* VIII Cancelling sends and connects: either the cancel wins or the receive, on both sides. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_withdraw, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { LONGEST = 1 << 20 };
static const uint32_t lens[] = {0, 100, 8000, LONGEST};
static char out[LONGEST], in[LONGEST];

static uint32_t cancel(mx_endpoint_t ep, mx_request_t *req)
{
	uint32_t result = 77;

	mxt_ok(mx_cancel(ep, req, &result));
	mxt_check(result == 0 || result == 1);
	return result;
}

/* It was too late, or the peer has not answered yet: the status tells which. */
static int cancelled(mx_endpoint_t ep, mx_request_t *req)
{
	uint32_t result = 77;
	mx_status_t st;

	if (cancel(ep, req))
		return 1;
	mxt_ok(mx_wait(ep, req, MXT_LONG, &st, &result));
	mxt_eq(result, 1);
	mxt_check(st.code == MX_STATUS_SUCCESS || st.code == MX_STATUS_CANCELLED);
	return st.code == MX_STATUS_CANCELLED;
}

static void nothing_waits(mx_endpoint_t ep)
{
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_iprobe(ep, 0, 0, &st, &result));
	mxt_eq(result, 0);
}

/* The peer makes no calls: its service thread gives the message back. */
Test(mx_withdraw, unmatched, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t s, old, r;
	uint32_t result;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 4; i++) {
		s = old = mxt_issend(p.a, out, lens[i], p.ab, 1);
		mxt_probe(p.b, 1);
		mxt_eq(cancel(p.a, &s), 1);
		mxt_rc(MX_BAD_REQUEST, mx_test(p.a, &old, &st, &result));
		nothing_waits(p.b);
		/* What is sent next is matched as if it had been the first. */
		r = mxt_irecv(p.b, in, LONGEST, 1);
		s = mxt_issend(p.a, &i, sizeof(i), p.ab, 1);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).msg_length, sizeof(i));
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	/* A long isend is pending until then, too. */
	s = mxt_isend(p.a, out, LONGEST, p.ab, 1);
	mxt_eq(cancel(p.a, &s), 1);
	nothing_waits(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

/* Thousands of one tag, cancelled last first or first first: each is found at once. */
Test(mx_withdraw, many_of_one_tag, .timeout = MXT_TIMEOUT)
{
	enum { MANY = 2000 };
	static mx_request_t s[MANY];
	struct mxt_pair p;
	mx_request_t r;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < MANY; i++)
		s[i] = mxt_issend(p.a, out, i % 2 ? 100 : LONGEST, p.ab, 1);
	mxt_probe(p.b, 1);
	for (int i = 0; i < MANY / 2 - 1; i++) {
		mxt_eq(cancelled(p.a, &s[i]), 1);
		mxt_eq(cancelled(p.a, &s[MANY - 1 - i]), 1);
	}
	for (int i = MANY / 2 - 1; i <= MANY / 2; i++) {
		r = mxt_irecv(p.b, in, LONGEST, 1);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).msg_length, i % 2 ? 100 : LONGEST);
		mxt_wait(p.a, &s[i], MX_STATUS_SUCCESS);
	}
	nothing_waits(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_withdraw, to_oneself, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;
	mx_request_t s;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 4; i++) {
		s = mxt_issend(ep, out, lens[i], mxt_self(ep), 1);
		mxt_eq(cancel(ep, &s), 1);
		nothing_waits(ep);
	}
	mxt_close(ep);
	mxt_down();
}

Test(mx_withdraw, matched, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t s, r;

	mxt_up();
	mxt_pair(&p);
	twt_fill(out, LONGEST, 3);
	for (int i = 0; i < 4; i++) {
		/* By a receive that was there, and by one that came later. */
		r = mxt_irecv(p.b, in, LONGEST, 1);
		s = mxt_issend(p.a, out, lens[i], p.ab, 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_eq(cancel(p.a, &s), 0);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		s = mxt_issend(p.a, out, lens[i], p.ab, 1);
		mxt_probe(p.b, 1);
		memset(in, 0, lens[i]);
		r = mxt_irecv(p.b, in, LONGEST, 1);
		mxt_eq(cancel(p.a, &s), 0);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).xfer_length, lens[i]);
		mxt_eq(twt_check(in, lens[i], 3), lens[i]);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* Out of the middle of many of one tag, the others in their order. */
Test(mx_withdraw, of_many, .timeout = MXT_TIMEOUT)
{
	enum { N = 300 };
	static mx_request_t s[N];
	static int values[N];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < N; i++) {
		values[i] = i;
		s[i] = i % 5 ? mxt_issend(p.a, &values[i], sizeof(int), p.ab, 1)
			     : mxt_issend(p.a, out, LONGEST, p.ab, 1);
	}
	for (int i = 0; i < N; i++)
		if (i % 3 == 0 || i % 5 == 0)
			mxt_check(cancelled(p.a, &s[i]));
	for (int i = 0; i < N; i++) {
		mx_request_t r;
		int got = -1;

		if (i % 3 == 0 || i % 5 == 0)
			continue;
		r = mxt_irecv(p.b, &got, sizeof(got), 1);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_eq(got, i);
		mxt_wait(p.a, &s[i], MX_STATUS_SUCCESS);
	}
	nothing_waits(p.b);
	mxt_pair_end(&p);
	mxt_down();
}

static void sit(struct mxt_side *s)
{
	mxt_await(s->fd);
	nothing_waits(s->ep);
}

/* Nobody answers: the call returns, and the status tells it later. */
Test(mx_withdraw, from_one_that_is_stopped, .timeout = MXT_TIMEOUT)
{
	mx_request_t s[200];
	struct mxt_side m;
	double start;

	mxt_two(&m, sit, NULL);
	mxt_stop(m.child.pid);
	start = twt_now();
	for (int i = 0; i < 200; i++) {
		uint32_t len = lens[i % 4];

		s[i] = mxt_issend(m.ep, out, len, m.peer, 1);
		if (cancel(m.ep, &s[i]))
			s[i] = NULL;
		else
			mxt_pending(m.ep, &s[i]);
	}
	/* It is not asked and waited for time and again. */
	mxt_check(twt_now() - start < MXT_LONG / 1000.);
	mxt_check(s[0]);
	mxt_eq(kill(m.child.pid, SIGCONT), 0);
	for (int i = 0; i < 200; i++)
		if (s[i])
			mxt_wait(m.ep, &s[i], MX_STATUS_CANCELLED);
	mxt_signal(m.fd);
	mxt_two_end(&m);
}

Test(mx_withdraw, inside_a_wakeup, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	s = mxt_issend(p.a, out, 10, p.ab, 1);
	mxt_ok(mx_wakeup(p.a));
	mxt_check(cancelled(p.a, &s));
	mxt_pair_end(&p);
	mxt_down();
}

static mx_request_t iconnect(mx_endpoint_t ep, struct mxt_name to, uint64_t match)
{
	mx_request_t req = NULL;

	mxt_ok(mx_iconnect(ep, to.nic, to.id, MXT_KEY, match, NULL, &req));
	return req;
}

Test(mx_withdraw, connect, .timeout = MXT_TIMEOUT)
{
	struct twt_child c;
	struct mxt_name name;
	mx_request_t one, two;
	mx_endpoint_t ep;

	name = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_stop(c.pid);
	one = iconnect(ep, name, 1);
	two = iconnect(ep, name, 2);
	mxt_pending(ep, &one);
	mxt_eq(cancel(ep, &one), 1);
	/* Another one to the same peer goes on; and after none is left, a new one begins. */
	mxt_pending(ep, &two);
	mxt_eq(cancel(ep, &two), 1);
	one = iconnect(ep, name, 3);
	mxt_eq(kill(c.pid, SIGCONT), 0);
	mxt_check(mxt_same_name(mxt_whose(mxt_wait(ep, &one, MX_STATUS_SUCCESS).source), name));
	two = iconnect(ep, name, 4);
	mxt_eq(cancel(ep, &two), 0);
	mxt_wait(ep, &two, MX_STATUS_SUCCESS);
	mxt_close(ep);
	mxt_down();
	mxt_idle_close(&c);
	mxt_idle_end(&c);
}

/* Against a model ------------------------------------------------------------- */

enum { MESSAGES = 6000, WINDOW = 24 };

static int told(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Receives at odd moments whatever there is, and notes what came how often. */
static void receive_at_random(struct mxt_side *s)
{
	static uint8_t seen[MESSAGES];
	uint64_t rnd = 17;
	uint32_t done = 0, end;
	int over = 0;

	while (!over) {
		mx_segment_t seg = {in, LONGEST};
		mx_request_t r;
		mx_status_t st;

		mxt_ok(mx_irecv(s->ep, &seg, 1, 0, 0, NULL, &r));
		do {
			mxt_ok(mx_wait(s->ep, &r, 20, &st, &done));
			over = !done && told(s->fd);
		} while (!done && !over);
		if (over && cancel(s->ep, &r))
			break;
		if (over)
			st = mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(st.code, MX_STATUS_SUCCESS);
		mxt_eq(twt_check(in, st.xfer_length, st.match_info), st.xfer_length);
		seen[st.match_info]++;
		for (end = (uint32_t)(twt_random(&rnd) % 400); end; end--)
			if (end & 1)
				mxt_ok(mx_progress(s->ep));
	}
	nothing_waits(s->ep);
	mxt_await(s->fd);
	mxt_eq(twt_put(s->fd, seen, sizeof(seen)), 0);
}

struct collector {
	mx_endpoint_t ep;
	mx_request_t req;
	uint32_t collected;
	mx_status_t status;
};

static void *collect(void *arg)
{
	struct collector *c = arg;
	mx_request_t req = c->req;
	mx_return_t rc;

	do
		rc = mx_test(c->ep, &req, &c->status, &c->collected);
	while (rc == MX_SUCCESS && !c->collected);
	mxt_check(rc == MX_SUCCESS || rc == MX_BAD_REQUEST);
	return NULL;
}

/* One thread cancels what another one collects: one of them ends it, and the other hears so. */
Test(mx_withdraw, beside_one_that_collects, .timeout = MXT_TIMEOUT)
{
	enum { ROUNDS = 400 };
	int withdrawn = 0, received = 0, collected = 0;
	mx_request_t s, r = 0;
	uint32_t result, len;
	struct mxt_pair p;
	uint64_t rnd = 31;
	pthread_t thread;
	mx_return_t rc;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < ROUNDS; i++) {
		struct collector c = {.ep = p.a};
		int back, arrived;

		len = lens[1 + i % 3];
		result = 0;
		s = c.req = mxt_issend(p.a, out, len, p.ab, 1);
		mxt_eq(pthread_create(&thread, NULL, collect, &c), 0);
		for (uint64_t n = twt_random(&rnd) % 40; n; n--)
			mxt_ok(mx_progress(p.a));
		if (i & 1)
			r = mxt_irecv(p.b, in, len, 1);
		rc = mx_cancel(p.a, &s, &result);
		mxt_check(rc == MX_SUCCESS || rc == MX_BAD_REQUEST);
		mxt_eq(pthread_join(thread, NULL), 0);
		back = rc == MX_SUCCESS && result;
		mxt_eq(back + c.collected, 1);
		arrived = c.collected && c.status.code == MX_STATUS_SUCCESS;
		mxt_check(arrived || back || c.status.code == MX_STATUS_CANCELLED);
		mxt_check(!arrived || i & 1);
		if (arrived)
			mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		else if (i & 1)
			mxt_eq(cancel(p.b, &r), 1);
		withdrawn += back;
		received += arrived;
		collected += c.collected && !arrived;
	}
	nothing_waits(p.b);
	cr_log_info("%d withdrawn, %d received, %d collected", withdrawn, received, collected);
	mxt_eq(withdrawn + received + collected, ROUNDS);
	mxt_pair_end(&p);
	mxt_down();
}

struct flying {
	mx_request_t req;
	uint64_t number;
	char *data;
};

/* How it ended: 1 received, 0 not. */
static int ended(const mx_status_t *st)
{
	mxt_check(st->code == MX_STATUS_SUCCESS || st->code == MX_STATUS_CANCELLED ||
		  st->code == MX_STATUS_TIMEOUT);
	return st->code == MX_STATUS_SUCCESS;
}

static int finish(struct mxt_side *m, struct flying *f, uint64_t *rnd)
{
	uint32_t result = 0;
	mx_status_t st;

	switch (twt_random(rnd) % 4) {
	case 0:
		mxt_ok(mx_set_request_timeout(m->ep, f->req, 1));
		break;
	case 1:
		mxt_ok(mx_test(m->ep, &f->req, &st, &result));
		if (result)
			return ended(&st);
		/* fall through */
	default:
		if (cancel(m->ep, &f->req))
			return 0;
	}
	mxt_ok(mx_wait(m->ep, &f->req, MXT_LONG, &st, &result));
	mxt_eq(result, 1);
	return ended(&st);
}

Test(mx_withdraw, races_with_the_match, .timeout = MXT_TIMEOUT)
{
	static const uint32_t sizes[] = {0, 8, 900, 8000, 40000, 300000};
	static uint8_t want[MESSAGES], seen[MESSAGES];
	static struct flying flying[WINDOW];
	struct mxt_side m;
	uint64_t rnd = 23;
	int received = 0;

	for (int i = 0; i < WINDOW; i++)
		flying[i].data = malloc(300000);
	mxt_two(&m, receive_at_random, NULL);
	for (uint64_t i = 0; i < MESSAGES + WINDOW; i++) {
		struct flying *f = &flying[twt_random(&rnd) % WINDOW];
		uint32_t len = sizes[twt_random(&rnd) % 6];

		/* All of them in the end. */
		if (i >= MESSAGES)
			f = &flying[i - MESSAGES];
		if (f->req)
			want[f->number] = (uint8_t)finish(&m, f, &rnd);
		/* What has ended is no longer read. */
		memset(f->data, 0xee, 300000);
		f->req = NULL;
		if (i >= MESSAGES)
			continue;
		twt_fill(f->data, len, i);
		f->number = i;
		f->req = mxt_issend(m.ep, f->data, len, m.peer, i);
	}
	mxt_signal(m.fd);
	mxt_signal(m.fd);
	mxt_eq(twt_get(m.fd, seen, sizeof(seen)), 0);
	for (int i = 0; i < MESSAGES; i++) {
		mxt_eq(seen[i], want[i]);
		received += seen[i];
	}
	/* Both happened often, or this showed nothing. */
	mxt_check(received > MESSAGES / 50 && received < MESSAGES - MESSAGES / 50);
	mxt_two_end(&m);
	for (int i = 0; i < WINDOW; i++)
		free(flying[i].data);
}
