/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A blocked call returns because of what it waits for, and not at the next tick
 * of some clock. Slow machines take their time too, but not seconds.
 */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_prompt, .init = mxt_job, .timeout = MXT_TIMEOUT);

#define PROMPT (1.0 * twt_patience())
enum { LEN = 1 << 20 };

static char *out, *in;

/* Where the message goes: to another endpoint of this process, or to oneself. */
static void start(struct mxt_pair *p, int self)
{
	out = calloc(1, LEN);
	in = calloc(1, LEN);
	mxt_up();
	mxt_pair(p);
	if (!self)
		return;
	mxt_close(p->b);
	p->b = p->a;
	p->ab = p->ba = mxt_self(p->a);
}

static void finish(struct mxt_pair *p)
{
	if (p->a != p->b)
		mxt_close(p->b);
	mxt_close(p->a);
	mxt_down();
	free(out);
	free(in);
}

/* The call has to end now, with what it waited for. */
static void ends(struct mxt_block *b, double since)
{
	double took;

	mxt_join(&b->thread);
	took = twt_now() - since;
	mxt_ok(b->rc);
	mxt_check(b->result);
	if (took > PROMPT)
		mxt_fail(__FILE__, __LINE__, "call %d ended after %.1f s", (int)b->call, took);
}

/* Completes a request that the blocked call may have completed already. */
static void complete(mx_endpoint_t ep, mx_request_t *req, struct mxt_block *b)
{
	if (b->call != MXT_WAIT && b->call != MXT_WAIT_ANY)
		mxt_wait(ep, req, MX_STATUS_SUCCESS);
}

static const uint32_t lens[] = {0, 100, 20000, LEN};

/* Blocked on a receive, until the message is sent. */
static void receives(int self)
{
	struct mxt_block b;
	struct mxt_pair p;

	start(&p, self);
	for (int call = 0; call < MXT_CALLS; call++)
		for (int i = 0; i < 4; i++) {
			mx_request_t r = NULL, s;
			double t;

			/* To oneself these would see the send too. */
			if (self && (call == MXT_PEEK || call == MXT_WAIT_ANY))
				continue;
			if (call != MXT_PROBE)
				r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
			mxt_block(&b, (enum mxt_call)call, p.b, r, MX_INFINITE);
			mxt_asleep(&b.thread);
			t = twt_now();
			s = mxt_isend(p.a, out, lens[i], p.ab, MXT_BLOCK_MATCH);
			ends(&b, t);
			if (call == MXT_PROBE)
				r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
			complete(p.b, &r, &b);
			mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		}
	finish(&p);
}

Test(mx_prompt, receives, .timeout = MXT_TIMEOUT)
{
	receives(0);
}

Test(mx_prompt, receives_from_self, .timeout = MXT_TIMEOUT)
{
	receives(1);
}

/* Blocked on a synchronous send, until it is received. */
Test(mx_prompt, synchronous_sends, .timeout = MXT_TIMEOUT)
{
	static const enum mxt_call calls[] = {MXT_WAIT, MXT_PEEK, MXT_WAIT_ANY};
	struct mxt_block b;
	struct mxt_pair p;

	start(&p, 0);
	for (int call = 0; call < 3; call++)
		for (int i = 0; i < 4; i++) {
			mx_request_t s = mxt_issend(p.a, out, lens[i], p.ab, MXT_BLOCK_MATCH), r;
			double t;

			mxt_block(&b, calls[call], p.a, s, MX_INFINITE);
			mxt_asleep(&b.thread);
			t = twt_now();
			r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
			ends(&b, t);
			mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
			complete(p.a, &s, &b);
		}
	finish(&p);
}

/* Long sends stay in their buffer until they are received. */
Test(mx_prompt, buffered_sends, .timeout = MXT_TIMEOUT)
{
	struct mxt_block b;
	struct mxt_pair p;

	start(&p, 0);
	for (int i = 0; i < 4; i++) {
		mx_request_t s = mxt_isend(p.a, out, LEN, p.ab, MXT_BLOCK_MATCH), r;
		double t;

		mxt_probe(p.b, MXT_BLOCK_MATCH);
		mxt_block(&b, MXT_BUFFERED, p.a, s, MX_INFINITE);
		mxt_asleep(&b.thread);
		t = twt_now();
		r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
		ends(&b, t);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	}
	finish(&p);
}

/* One thread does both: what it does on one endpoint completes the other's request. */
static void one_thread(int self, enum mxt_call call, uint32_t len)
{
	struct mxt_block b;
	struct mxt_pair p;
	mx_request_t s, r;

	start(&p, self);
	for (int late = 0; late < 2; late++) {
		if (!late)
			r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
		s = mxt_issend(p.a, out, len, p.ab, MXT_BLOCK_MATCH);
		if (late) {
			mxt_probe(p.b, MXT_BLOCK_MATCH);
			r = mxt_irecv(p.b, in, LEN, MXT_BLOCK_MATCH);
		}
		mxt_block_here(&b, call, p.a, s, MXT_LONG);
		mxt_ok(b.rc);
		mxt_check(b.result);
		if (b.took > PROMPT)
			mxt_fail(__FILE__, __LINE__, "call %d, %u bytes, late %d: %.1f s",
				 (int)call, len, late, b.took);
		complete(p.a, &s, &b);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	}
	finish(&p);
}

Test(mx_prompt, one_thread, .timeout = MXT_TIMEOUT)
{
	static const enum mxt_call calls[] = {MXT_WAIT, MXT_BUFFERED, MXT_PEEK, MXT_WAIT_ANY};

	for (int call = 0; call < 4; call++)
		for (int i = 0; i < 4; i++)
			one_thread(0, calls[call], lens[i]);
}

Test(mx_prompt, one_thread_to_self, .timeout = MXT_TIMEOUT)
{
	for (int i = 0; i < 4; i++) {
		one_thread(1, MXT_WAIT, lens[i]);
		one_thread(1, MXT_BUFFERED, lens[i]);
	}
}

/* The far side makes the calls that it must and then none for a long time. */
static void seldom(struct mxt_side *s)
{
	char *buf = calloc(1, LEN);

	for (int i = 0; i < 4; i++) {
		mx_request_t r, snd;

		mxt_await(s->fd);
		r = mxt_irecv(s->ep, buf, LEN, 1);
		snd = mxt_isend(s->ep, buf, lens[i], s->peer, 2);
		mxt_await(s->fd);
		mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		mxt_wait(s->ep, &snd, MX_STATUS_SUCCESS);
		mxt_signal(s->fd);
	}
	free(buf);
}

Test(mx_prompt, two_processes, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	out = calloc(1, LEN);
	in = calloc(1, LEN);
	mxt_two(&s, seldom, NULL);
	for (int i = 0; i < 4; i++) {
		mx_request_t snd = mxt_issend(s.ep, out, lens[i], s.peer, 1);
		mx_request_t r = mxt_irecv(s.ep, in, LEN, 2);
		struct mxt_block b[2];
		double t;

		mxt_block(&b[0], MXT_WAIT, s.ep, snd, MX_INFINITE);
		mxt_block(&b[1], MXT_WAIT, s.ep, r, MX_INFINITE);
		mxt_asleep(&b[0].thread);
		mxt_asleep(&b[1].thread);
		t = twt_now();
		mxt_signal(s.fd);
		ends(&b[0], t);
		ends(&b[1], t);
		mxt_signal(s.fd);
		mxt_await(s.fd);
	}
	mxt_two_end(&s);
	free(out);
	free(in);
}

Test(mx_prompt, connect, .timeout = MXT_TIMEOUT)
{
	struct mxt_name far;
	struct twt_child c;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	for (int i = 0; i < 3; i++) {
		mx_endpoint_t ep = mxt_open(MX_ANY_ENDPOINT);
		double t = twt_now();
		mx_request_t req;

		mxt_ok(mx_iconnect(ep, far.nic, far.id, MXT_KEY, 1, NULL, &req));
		mxt_wait(ep, &req, MX_STATUS_SUCCESS);
		mxt_connect(ep, mxt_name(ep));
		mxt_close(ep);
		mxt_check(twt_now() - t < PROMPT);
	}
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}
