/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages behind the one that the last posted receive was waiting for: they stay
 * where they are until the program looks again, but nothing waits for them in vain.
 */
#include <signal.h>
#include <stdlib.h>

#include "mx/mxt.h"

static void one_host(void)
{
	mxt_job();
	mxt_same_host();
}

TestSuite(mx_sated, .init = one_host, .timeout = MXT_TIMEOUT);

enum { N = 8, LONG = 300000, TURNS = 60, FLOOD = 3000 };

static const uint32_t lens[N] = {8, 0, 40, 41, 1000, 1024, 100, 3};

/* The message with this number, between the two of a test. */
static void give(mx_endpoint_t ep, mx_endpoint_addr_t to, unsigned i)
{
	char out[1024];
	mx_request_t s;

	twt_fill(out, sizeof(out), i);
	s = mxt_isend(ep, out, lens[i % N], to, i);
	mxt_wait(ep, &s, MX_STATUS_SUCCESS);
}

static void give_all(mx_endpoint_t ep, mx_endpoint_addr_t to, unsigned from, unsigned n)
{
	for (unsigned i = from; i < from + n; i++)
		give(ep, to, i);
}

static void check(const char *in, const mx_status_t *st, unsigned i)
{
	mxt_eq(st->code, MX_STATUS_SUCCESS);
	mxt_eq(st->match_info, i);
	mxt_eq(st->msg_length, lens[i % N]);
	mxt_eq(twt_check(in, lens[i % N], i), lens[i % N]);
}

static void take(mx_endpoint_t ep, unsigned i)
{
	char in[1024];
	mx_request_t r = mxt_irecv(ep, in, sizeof(in), i);
	mx_status_t st = mxt_wait(ep, &r, MX_STATUS_SUCCESS);

	check(in, &st, i);
}

static void take_all(mx_endpoint_t ep, unsigned from, unsigned n)
{
	for (unsigned i = from; i < from + n; i++)
		take(ep, i);
}

static uint32_t probed(mx_endpoint_t ep, uint64_t match)
{
	uint32_t result = 77;
	mx_status_t st;

	mxt_ok(mx_iprobe(ep, match, MXT_ALL, &st, &result));
	return result;
}

/* The far side gives when it is told to, and says so. */
static void giver(struct mxt_side *s)
{
	for (unsigned i = 0; i < 2; i++) {
		mxt_await(s->fd);
		give_all(s->ep, s->peer, i * N, N);
		mxt_signal(s->fd);
	}
	mxt_await(s->fd);
}

/*
 * Without the service thread, which would take in what the giver gives while this test
 * stands still. By a network nobody would connect then, as the other side stands still, too.
 */
static void unserved(struct mxt_side *s)
{
	setenv("TAGWIRE_SERVICE", "0", 1);
	setenv("TAGWIRE_PROVIDERS", "self,shm", 1);
	mxt_two(s, giver, NULL);
}

static void given(struct mxt_side *s)
{
	mxt_signal(s->fd);
	mxt_await(s->fd);
}

/* Polls until it is complete, as a program with a window of receives does. */
static void poll(mx_endpoint_t ep, mx_request_t *r, mx_status_t *st)
{
	double end = twt_now() + MXT_LONG / 1e3;
	uint32_t result = 0;

	while (!result) {
		mxt_ok(mx_test(ep, r, st, &result));
		mxt_check(twt_now() < end);
	}
}

/* Who posts receives one by one, or by twos, meets no unexpected message. */
Test(mx_sated, kept_in_place, .timeout = MXT_TIMEOUT)
{
	char in[2][1024];
	struct mxt_side s;
	mx_status_t st;
	mx_request_t r[2];

	unserved(&s);
	given(&s);
	for (unsigned i = 0; i < N; i++) {
		r[0] = mxt_irecv(s.ep, in[0], sizeof(in[0]), i);
		poll(s.ep, &r[0], &st);
		check(in[0], &st, i);
	}
	given(&s);
	for (unsigned i = N; i < 2 * N; i += 2) {
		for (unsigned k = 0; k < 2; k++)
			r[k] = mxt_irecv(s.ep, in[k], sizeof(in[k]), i + k);
		for (unsigned k = 0; k < 2; k++) {
			poll(s.ep, &r[k], &st);
			check(in[k], &st, i + k);
		}
	}
	mxt_eq(mxt_counted("messages unexpected"), 0);
	mxt_signal(s.fd);
	mxt_two_end(&s);
}

/* One look finds what has arrived, wherever it is. */
Test(mx_sated, probes, .timeout = MXT_TIMEOUT)
{
	char in[1024];
	struct mxt_side s;
	mx_request_t r, other;
	mx_status_t st;
	uint32_t result;

	unserved(&s);
	/* Cancelled, a receive is not posted any more. */
	other = mxt_irecv(s.ep, in, sizeof(in), 99);
	r = mxt_irecv(s.ep, in, sizeof(in), 0);
	mxt_ok(mx_cancel(s.ep, &other, &result));
	mxt_eq(result, 1);
	given(&s);
	mxt_eq(probed(s.ep, N - 1), 1);
	mxt_eq(probed(s.ep, 99), 0);
	poll(s.ep, &r, &st);
	check(in, &st, 0);
	take_all(s.ep, 1, N - 1);
	/* Blocked, and for any of them. */
	r = mxt_irecv(s.ep, in, sizeof(in), N);
	given(&s);
	poll(s.ep, &r, &st);
	mxt_ok(mx_probe(s.ep, MXT_LONG, 0, 0, &st, &result));
	mxt_eq(result, 1);
	mxt_eq(st.match_info, N + 1);
	/* A message to oneself passes by them. */
	give(s.ep, mxt_self(s.ep), 77);
	take(s.ep, 77);
	take_all(s.ep, N + 1, N - 1);
	mxt_signal(s.fd);
	mxt_two_end(&s);
}

static mx_unexp_handler_action_t count(void *context, mx_endpoint_addr_t source, uint64_t match,
				       uint32_t length, void *data)
{
	(void)source, (void)match, (void)length, (void)data;
	++*(unsigned *)context;
	return MX_RECV_CONTINUE;
}

/* A handler hears of all in one poll. */
Test(mx_sated, handler, .timeout = MXT_TIMEOUT)
{
	unsigned calls = 0;
	char in[1024];
	struct mxt_side s;
	mx_request_t r;

	unserved(&s);
	mxt_ok(mx_register_unexp_handler(s.ep, count, &calls));
	r = mxt_irecv(s.ep, in, sizeof(in), 0);
	given(&s);
	mxt_ok(mx_progress(s.ep));
	mxt_eq(calls, N - 1);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	take_all(s.ep, 1, N - 1);
	given(&s);
	take_all(s.ep, N, N);
	mxt_signal(s.fd);
	mxt_two_end(&s);
}

/* Of several peers, one whose message was the last that was waited for. */
Test(mx_sated, several_peers, .timeout = MXT_TIMEOUT)
{
	char in[1024];
	struct mxt_pair p;
	mx_endpoint_addr_t cb;
	mx_endpoint_t c;
	mx_request_t r;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	c = mxt_open(MX_ANY_ENDPOINT);
	cb = mxt_connect(c, mxt_name(p.b));
	for (unsigned i = 0; i < TURNS; i++) {
		r = mxt_irecv(p.b, in, sizeof(in), (i & 1) ? 0 : N);
		give_all(p.a, p.ab, 0, N);
		give_all(c, cb, N, N);
		poll(p.b, &r, &st);
		check(in, &st, (i & 1) ? 0 : N);
		take_all(p.b, (i & 1) ? 1 : 0, (i & 1) ? 2 * N - 1 : N);
		if (!(i & 1))
			take_all(p.b, N + 1, N - 1);
	}
	mxt_close(c);
	mxt_pair_end(&p);
	mxt_down();
}

/* A message, and behind it the word that a long one of the other side may come. */
static void requester(struct mxt_side *s)
{
	char *in = malloc(LONG);
	mx_request_t r;

	for (unsigned i = 0; i < TURNS; i++) {
		mxt_probe(s->ep, 1000);
		mxt_await(s->fd);
		give_all(s->ep, s->peer, 0, 2);
		r = mxt_irecv(s->ep, in, LONG, 1000);
		mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(twt_check(in, LONG, i), LONG);
		mxt_signal(s->fd);
	}
	free(in);
}

/*
 * While the program computes after it has got its message, its long one goes on its
 * way: copied, asked for by a packet behind messages that it has not posted for.
 */
static void answered(const char *way)
{
	char *out = malloc(LONG), in[1024];
	struct mxt_side s;
	mx_request_t r, l;
	mx_status_t st;

	setenv("TAGWIRE_RNDV", way, 1);
	mxt_two(&s, requester, NULL);
	for (unsigned i = 0; i < TURNS; i++) {
		twt_fill(out, LONG, i);
		r = mxt_irecv(s.ep, in, sizeof(in), 0);
		l = (i & 1 ? mxt_issend : mxt_isend)(s.ep, out, LONG, s.peer, 1000);
		mxt_signal(s.fd);
		if (i & 2)
			poll(s.ep, &r, &st);
		else
			mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
		/* No call until it has arrived. */
		mxt_await(s.fd);
		take(s.ep, 1);
		mxt_wait(s.ep, &l, MX_STATUS_SUCCESS);
	}
	mxt_two_end(&s);
	free(out);
}

Test(mx_sated, answers_copied, .timeout = MXT_TIMEOUT)
{
	answered("copy");
}

Test(mx_sated, answers_got, .timeout = MXT_TIMEOUT)
{
	answered("get");
}

/* More than a ring holds, to a program that has got one of them and computes. */
static void flooder(struct mxt_side *s)
{
	mxt_await(s->fd);
	give_all(s->ep, s->peer, 0, FLOOD);
	mxt_signal(s->fd);
	mxt_await(s->fd);
}

Test(mx_sated, full_ring, .timeout = MXT_TIMEOUT)
{
	char in[1024];
	struct mxt_side s;
	mx_request_t r;

	mxt_two(&s, flooder, NULL);
	r = mxt_irecv(s.ep, in, sizeof(in), 0);
	mxt_signal(s.fd);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	mxt_await(s.fd);
	take_all(s.ep, 1, FLOOD - 1);
	mxt_signal(s.fd);
	mxt_two_end(&s);
}

/* One thread gets the last receive's message, the others wait for what is behind it. */
Test(mx_sated, threads, .timeout = MXT_TIMEOUT)
{
	struct mxt_block wait, probe, sent;
	char in[1024], out[8] = "";
	struct mxt_pair p;
	mx_request_t r, s;

	mxt_up();
	mxt_pair(&p);
	for (unsigned i = 0; i < TURNS; i++) {
		r = mxt_irecv(p.b, in, sizeof(in), 0);
		s = mxt_issend(p.b, out, sizeof(out), p.ba, 5);
		mxt_probe(p.a, 5);
		mxt_block(&wait, MXT_WAIT, p.b, r, MX_INFINITE);
		mxt_block(&probe, MXT_PROBE, p.b, NULL, MX_INFINITE);
		mxt_block(&sent, MXT_WAIT, p.b, s, MX_INFINITE);
		if (i & 1) {
			mxt_asleep(&wait.thread);
			mxt_asleep(&probe.thread);
			mxt_asleep(&sent.thread);
		}
		give(p.a, p.ab, 0);
		s = mxt_isend(p.a, out, sizeof(out), p.ab, MXT_BLOCK_MATCH);
		/* Matches the synchronous one: its acknowledgement is the last to come. */
		r = mxt_irecv(p.a, in, sizeof(in), 5);
		mxt_wait(p.a, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_join(&wait.thread);
		mxt_join(&probe.thread);
		mxt_join(&sent.thread);
		mxt_check(wait.rc == MX_SUCCESS && wait.result);
		mxt_check(probe.rc == MX_SUCCESS && probe.result);
		mxt_check(sent.rc == MX_SUCCESS && sent.result);
		r = mxt_irecv(p.b, in, sizeof(in), MXT_BLOCK_MATCH);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	}
	mxt_pair_end(&p);
	mxt_down();
}

static void leaver(struct mxt_side *s)
{
	mxt_await(s->fd);
	give_all(s->ep, s->peer, 0, N);
	mxt_signal(s->fd);
	mxt_await(s->fd);
	if (s->arg)
		raise(SIGKILL);
	mxt_close(s->ep);
	s->ep = NULL;
	mxt_signal(s->fd);
	mxt_await(s->fd);
}

/* What a peer had sent before it left, or died, is received. */
static void left(void *dies)
{
	char in[1024];
	struct mxt_side s;
	mx_request_t r;

	mxt_two(&s, leaver, dies);
	r = mxt_irecv(s.ep, in, sizeof(in), 0);
	mxt_signal(s.fd);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	mxt_await(s.fd);
	mxt_signal(s.fd);
	if (dies)
		mxt_eq(twt_join(&s.child, MXT_CHILD), 1000 + SIGKILL);
	else
		mxt_await(s.fd);
	take_all(s.ep, 1, N - 1);
	if (!dies) {
		mxt_signal(s.fd);
		mxt_two_end(&s);
		return;
	}
	mxt_close(s.ep);
	mxt_down();
}

Test(mx_sated, peer_leaves, .timeout = MXT_TIMEOUT)
{
	left(NULL);
}

Test(mx_sated, peer_dies, .timeout = MXT_TIMEOUT)
{
	left("dies");
}

/* Closing does not wait for what nobody took. */
Test(mx_sated, closes, .timeout = MXT_TIMEOUT)
{
	char in[1024];
	struct mxt_pair p;
	mx_request_t r;

	mxt_up();
	for (unsigned i = 0; i < 10; i++) {
		mxt_pair(&p);
		r = mxt_irecv(p.b, in, sizeof(in), 0);
		give_all(p.a, p.ab, 0, N);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		if (i & 1)
			mxt_ok(mx_disconnect(p.b, p.ba));
		mxt_close(i & 2 ? p.a : p.b);
		mxt_close(i & 2 ? p.b : p.a);
	}
	mxt_down();
}
