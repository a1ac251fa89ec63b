/* SPDX-License-Identifier: BSD-2-Clause */
/* VI.2.1 How requests end when the peer has closed its endpoint or died. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_lost, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* The peer says that it has closed; a killed one may also just not be reached. */
static void gone(mx_status_code_t code, int killed)
{
	if (!killed || code != MX_STATUS_ENDPOINT_UNREACHABLE)
		mxt_eq(code, MX_STATUS_ENDPOINT_CLOSED);
}

/* Sends until the loss shows: a message that is buffered just before counts as sent. */
static void send_fails(mx_endpoint_t ep, mx_endpoint_addr_t to, uint32_t len, int killed)
{
	double end = twt_now() + MXT_LONG / 1000.;
	char *buf = calloc(1, len + 1);
	mx_segment_t seg = {buf, len};
	uint32_t result;
	mx_status_t st;

	do {
		mx_request_t req;

		mxt_check(twt_now() < end);
		mxt_ok(mx_isend(ep, &seg, 1, to, 1, buf, &req));
		result = 0;
		mxt_ok(mx_wait(ep, &req, MXT_LONG, &st, &result));
		mxt_check(result);
	} while (st.code == MX_STATUS_SUCCESS);
	gone(st.code, killed);
	mxt_check(st.context == buf);
	free(buf);
}

/* A synchronous send cannot be received any more, so the first one fails. */
static void issend_fails(mx_endpoint_t ep, mx_endpoint_addr_t to, uint32_t len, int killed)
{
	char *buf = calloc(1, len + 1);
	mx_request_t req = mxt_issend(ep, buf, len, to, 1);
	uint32_t result = 0;
	mx_status_t st;

	mxt_ok(mx_wait(ep, &req, MXT_LONG, &st, &result));
	mxt_check(result);
	gone(st.code, killed);
	free(buf);
}

/* What a program sees after the peer at this address has gone. */
static void after_loss(mx_endpoint_t ep, mx_endpoint_addr_t to, int killed)
{
	static const uint32_t lens[] = {0, 1, 1000, 40000, 1 << 20};
	mx_request_t r, s;
	int got = 0;

	r = mxt_irecv(ep, &got, sizeof(got), 5);
	for (int i = 0; i < 5; i++) {
		issend_fails(ep, to, lens[i], killed);
		send_fails(ep, to, lens[i], killed);
	}
	/* Receives are of anybody: they stay, and the endpoint still works. */
	mxt_pending(ep, &r);
	s = mxt_isend(ep, &(int){8}, sizeof(int), mxt_self(ep), 5);
	mxt_wait(ep, &s, MX_STATUS_SUCCESS);
	mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	mxt_eq(got, 8);
}

Test(mx_lost, endpoint_of_this_process_closed, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	mxt_close(p.b);
	after_loss(p.a, p.ab, 0);
	mxt_close(p.a);
	mxt_down();
}

Test(mx_lost, process_closed, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t to;
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	to = mxt_connect(ep, far);
	mxt_idle_close(&c);
	after_loss(ep, to, 0);
	mxt_idle_end(&c);
	after_loss(ep, to, 0);
	mxt_close(ep);
	mxt_down();
}

Test(mx_lost, process_killed, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t to;
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	to = mxt_connect(ep, far);
	mxt_kill(&c);
	after_loss(ep, to, 1);
	mxt_close(ep);
	mxt_down();
}

/*
 * A receive that waits for anybody has no status for that: standard error says it. None is posted:
 * the program may do that next.
 */
Test(mx_lost, says_so, .timeout = MXT_TIMEOUT)
{
	double end = twt_now() + MXT_LONG / 1000.;
	FILE *said = tmpfile();
	char text[1000] = "";
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;
	int old;

	mxt_check(said);
	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_connect(ep, far);
	old = dup(2);
	dup2(fileno(said), 2);
	mxt_kill(&c);
	while (!strstr(text, "receives that wait for it alone do not end") && twt_now() < end) {
		mxt_sleep(1);
		mx_progress(ep);
		rewind(said);
		text[fread(text, 1, sizeof(text) - 1, said)] = 0;
	}
	dup2(old, 2);
	close(old);
	fclose(said);
	mxt_check(strstr(text, "receives that wait for it alone do not end"));
	mxt_close(ep);
	mxt_down();
}

/* Requests that are pending when the peer goes. */
enum { PENDING = 6, LONG = 1 << 20 };

static void pending_sends(int kill_it)
{
	char *buf = calloc(1, LONG);
	mx_request_t req[PENDING], r;
	mx_endpoint_addr_t to;
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	to = mxt_connect(ep, far);
	r = mxt_irecv(ep, buf, LONG, 1);
	for (int i = 0; i < PENDING; i++)
		req[i] = i & 1 ? mxt_issend(ep, buf, 10, to, 1) : mxt_issend(ep, buf, LONG, to, 1);
	mxt_sleep(100);
	for (int i = 0; i < PENDING; i++)
		mxt_pending(ep, &req[i]);
	if (kill_it)
		mxt_kill(&c);
	else
		mxt_idle_close(&c);
	for (int i = 0; i < PENDING; i++) {
		uint32_t result = 0;
		mx_status_t st;

		mxt_ok(mx_wait(ep, &req[i], MXT_LONG, &st, &result));
		mxt_check(result);
		gone(st.code, kill_it);
	}
	mxt_pending(ep, &r);
	if (!kill_it)
		mxt_idle_end(&c);
	free(buf);
	mxt_close(ep);
	mxt_down();
}

Test(mx_lost, pending_sends_closed, .timeout = MXT_TIMEOUT)
{
	pending_sends(0);
}

Test(mx_lost, pending_sends_killed, .timeout = MXT_TIMEOUT)
{
	pending_sends(1);
}

/* Offers a message too long to have been sent before its receive is known. */
enum { HUGE_LEN = 64 << 20 };

static void offer(struct mxt_side *s)
{
	char *buf = calloc(1, HUGE_LEN);

	mxt_isend(s->ep, buf, HUGE_LEN, s->peer, 1);
	mxt_signal(s->fd);
	/* Without MX calls until the end, whichever it is. */
	if (twt_get(s->fd, buf, 1) < 0)
		_exit(1);
	if (*(int *)s->arg) {
		mxt_close(s->ep);
		s->ep = NULL;
		mxt_signal(s->fd);
		mxt_await(s->fd);
	}
	free(buf);
}

/*
 * The receive is matched, the sender stopped, then killed. The implementation
 * may have read the memory of the stopped process: then the message is right.
 */
Test(mx_lost, matched_receive_killed, .timeout = MXT_TIMEOUT)
{
	char *in = malloc(HUGE_LEN);
	uint32_t result = 0;
	struct mxt_side s;
	mx_request_t r;
	mx_status_t st;
	int closes = 0;

	mxt_two(&s, offer, &closes);
	mxt_await(s.fd);
	mxt_eq(mxt_probe(s.ep, 1).msg_length, HUGE_LEN);
	mxt_stop(s.child.pid);
	memset(in, 1, HUGE_LEN);
	r = mxt_irecv(s.ep, in, HUGE_LEN, 1);
	mxt_sleep(300);
	mxt_kill(&s.child);
	mxt_ok(mx_wait(s.ep, &r, MXT_LONG, &st, &result));
	mxt_check(result);
	if (st.code == MX_STATUS_SUCCESS) {
		for (size_t i = 0; i < HUGE_LEN; i++)
			if (in[i])
				mxt_eq(in[i], 0);
	} else {
		gone(st.code, 1);
	}
	free(in);
	mxt_close(s.ep);
	mxt_down();
}

/* An unmatched announcement of a peer that has gone does not hang who receives it. */
Test(mx_lost, announced_then_closed, .timeout = MXT_TIMEOUT)
{
	char *in = malloc(HUGE_LEN);
	uint32_t found = 0, result = 77;
	struct mxt_side s;
	mx_request_t r;
	mx_status_t st;
	int closes = 1;

	mxt_two(&s, offer, &closes);
	mxt_await(s.fd);
	mxt_probe(s.ep, 1);
	mxt_signal(s.fd);
	mxt_await(s.fd);
	mxt_sleep(300);
	mxt_ok(mx_iprobe(s.ep, 1, MXT_ALL, &st, &found));
	r = mxt_irecv(s.ep, in, HUGE_LEN, 1);
	mxt_ok(mx_wait(s.ep, &r, found ? MXT_LONG : 500, &st, &result));
	/* What the probe still shows is what the receive gets. */
	mxt_check(result || !found);
	if (result)
		mxt_eq(st.code, MX_STATUS_ENDPOINT_CLOSED);
	else
		mxt_ok(mx_cancel(s.ep, &r, &result));
	mxt_eq(result, 1);
	mxt_signal(s.fd);
	free(in);
	mxt_two_end(&s);
}

/* Threads that wait when it happens are told, and use no CPU until then. */
Test(mx_lost, while_waiting, .timeout = MXT_TIMEOUT)
{
	struct mxt_block b;
	struct mxt_name far;
	struct twt_child c;
	mx_request_t req;
	mx_endpoint_t ep;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	req = mxt_issend(ep, NULL, 0, mxt_connect(ep, far), 1);
	mxt_block(&b, MXT_WAIT, ep, req, MX_INFINITE);
	mxt_asleep(&b.thread);
	mxt_kill(&c);
	mxt_join(&b.thread);
	mxt_ok(b.rc);
	mxt_check(b.result);
	gone(b.status.code, 1);
	mxt_close(ep);
	mxt_down();
}

/* Dies at a random moment while it sends and receives as fast as it can. */
static void victim(struct mxt_side *s)
{
	static char out[250000], in[250000];
	static const uint32_t lens[] = {0, 10, 1000, 40000, 250000};

	for (uint64_t i = 0;; i++) {
		mx_request_t r = mxt_irecv(s->ep, in, sizeof(in), 2);
		mx_request_t snd = mxt_isend(s->ep, out, lens[i % 5], s->peer, 1);

		mxt_wait(s->ep, &snd, MX_STATUS_SUCCESS);
		mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
	}
}

static void killed_under_way(unsigned ms)
{
	static char out[250000], in[250000];
	double start, end;
	struct mxt_side s;
	int dead = 0, lost = 0;

	mxt_two(&s, victim, NULL);
	start = twt_now();
	end = start + MXT_CHILD;
	for (uint64_t i = 0; !lost; i++) {
		mx_request_t r, snd;
		uint32_t result = 0;
		mx_status_t st;

		mxt_check(twt_now() < end);
		if (!dead && twt_now() > start + ms / 1000.) {
			mxt_kill(&s.child);
			dead = 1;
		}
		r = mxt_irecv(s.ep, in, sizeof(in), 1);
		snd = mxt_isend(s.ep, out, (uint32_t)(i * 7919 % sizeof(out)), s.peer, 2);
		mxt_ok(mx_wait(s.ep, &snd, MXT_LONG, &st, &result));
		mxt_check(result);
		if (st.code != MX_STATUS_SUCCESS) {
			gone(st.code, 1);
			mxt_check(dead);
			lost = 1;
		}
		result = 0;
		mxt_ok(mx_wait(s.ep, &r, dead ? 300 : MXT_LONG, &st, &result));
		if (result && st.code != MX_STATUS_SUCCESS)
			gone(st.code, 1);
		else if (!result)
			mxt_check(dead);
	}
	mxt_close(s.ep);
	mxt_down();
}

Test(mx_lost, under_way, .timeout = MXT_TIMEOUT)
{
	for (unsigned ms = 1; ms < 200; ms = ms * 3 + 1)
		killed_under_way(ms);
}
