/* SPDX-License-Identifier: BSD-2-Clause */
/* V Point-to-point communication between processes, and peers that go away. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_process, .init = mxt_job, .timeout = MXT_TIMEOUT);

static const uint32_t sizes[] = {0,	1,	7,	 8,	  33,	   64,	  65,
				 128,	1000,	4097,	 8193,	  32767,   32768, 32769,
				 65537, 200000, 1 << 20, 3000001, 16 << 20};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Sends back whatever arrives: the sizes are not known before. */
static void echo(struct mxt_side *s)
{
	for (int i = 0; i < SIZES * 2; i++) {
		uint32_t result = 0;
		mx_request_t r, snd;
		mx_status_t st;
		char *buf;

		mxt_ok(mx_probe(s->ep, MXT_LONG, 0, 0, &st, &result));
		mxt_check(result);
		buf = malloc(st.msg_length + 1);
		r = mxt_irecv(s->ep, buf, st.msg_length, st.match_info);
		st = mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		snd = (i & 1 ? mxt_issend : mxt_isend)(s->ep, buf, st.xfer_length, st.source,
						       st.match_info);
		mxt_wait(s->ep, &snd, MX_STATUS_SUCCESS);
		free(buf);
	}
}

Test(mx_process, there_and_back, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	mxt_two(&s, echo, NULL);
	for (int i = 0; i < SIZES * 2; i++) {
		uint32_t len = sizes[i / 2];
		char *out = malloc(len + 1), *in = calloc(1, len + 1);
		mx_request_t snd, r;
		mx_status_t st;

		twt_fill(out, len, (uint64_t)i);
		r = mxt_irecv(s.ep, in, len, (uint64_t)i + 7);
		snd = (i & 1 ? mxt_isend : mxt_issend)(s.ep, out, len, s.peer, (uint64_t)i + 7);
		mxt_wait(s.ep, &snd, MX_STATUS_SUCCESS);
		st = mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(st.xfer_length, len);
		mxt_check(mxt_same_name(mxt_whose(st.source), s.other));
		mxt_eq(twt_check(in, len, (uint64_t)i), len);
		free(out);
		free(in);
	}
	mxt_two_end(&s);
}

/* Both sides send first and receive then: neither may depend on the other's receive. */
static void swap(struct mxt_side *s)
{
	enum { N = 8, LEN = 4 << 20 };
	char *out = malloc(LEN), *in = malloc(LEN);
	mx_request_t snd[N], r;

	twt_fill(out, LEN, 5);
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < N; i++)
			snd[i] = mxt_isend(s->ep, out, LEN >> (2 * i), s->peer, i);
		for (uint64_t i = 0; i < N; i++) {
			memset(in, 0, LEN);
			r = mxt_irecv(s->ep, in, LEN, i);
			mxt_eq(mxt_wait(s->ep, &r, MX_STATUS_SUCCESS).xfer_length, LEN >> (2 * i));
			mxt_eq(twt_check(in, LEN >> (2 * i), 5), LEN >> (2 * i));
		}
		for (int i = 0; i < N; i++)
			mxt_wait(s->ep, &snd[i], MX_STATUS_SUCCESS);
	}
	free(out);
	free(in);
}

Test(mx_process, both_send_first, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	mxt_two(&s, swap, NULL);
	swap(&s);
	mxt_two_end(&s);
}

enum { FLOOD = 20000 };

static void drain(struct mxt_side *s)
{
	uint32_t got;

	mxt_await(s->fd);
	for (uint32_t i = 0; i < FLOOD; i++) {
		mx_request_t r = mxt_irecv(s->ep, &got, sizeof(got), 1);

		mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(got, i);
	}
}

/* More than the receiver has room for, before it receives anything. */
Test(mx_process, flood, .timeout = MXT_TIMEOUT)
{
	static mx_request_t req[FLOOD];
	static uint32_t out[FLOOD];
	struct mxt_side s;

	mxt_two(&s, drain, NULL);
	for (uint32_t i = 0; i < FLOOD; i++) {
		out[i] = i;
		req[i] = mxt_isend(s.ep, &out[i], sizeof(out[i]), s.peer, 1);
	}
	mxt_signal(s.fd);
	for (int i = 0; i < FLOOD; i++)
		mxt_wait(s.ep, &req[i], MX_STATUS_SUCCESS);
	mxt_two_end(&s);
}

enum { BIG = 8 << 20 };

/* I: a message moves along though the receiver makes no MX calls. */
static void busy_receiver(struct mxt_side *s)
{
	char *in = calloc(1, BIG);
	mx_request_t r = mxt_irecv(s->ep, in, BIG, 1);

	mxt_signal(s->fd);
	mxt_await(s->fd);
	mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(in, BIG, 9), BIG);
	free(in);
}

Test(mx_process, receiver_computes, .timeout = MXT_TIMEOUT)
{
	char *out = malloc(BIG);
	struct mxt_side s;
	mx_request_t req;

	twt_fill(out, BIG, 9);
	mxt_two(&s, busy_receiver, NULL);
	mxt_await(s.fd);
	req = mxt_issend(s.ep, out, BIG, s.peer, 1);
	mxt_wait(s.ep, &req, MX_STATUS_SUCCESS);
	mxt_signal(s.fd);
	mxt_two_end(&s);
	free(out);
}

/* V and II.5: nor need the sender make any. */
static void busy_sender(struct mxt_side *s)
{
	char *out = malloc(BIG);
	mx_request_t req;

	twt_fill(out, BIG, 10);
	req = mxt_isend(s->ep, out, BIG, s->peer, 1);
	mxt_signal(s->fd);
	mxt_await(s->fd);
	mxt_wait(s->ep, &req, MX_STATUS_SUCCESS);
	free(out);
}

Test(mx_process, sender_computes, .timeout = MXT_TIMEOUT)
{
	char *in = calloc(1, BIG);
	struct mxt_side s;
	mx_request_t r;

	mxt_two(&s, busy_sender, NULL);
	mxt_await(s.fd);
	r = mxt_irecv(s.ep, in, BIG, 1);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(in, BIG, 10), BIG);
	mxt_signal(s.fd);
	mxt_two_end(&s);
	free(in);
}

/* Sends until all is complete and leaves at once, in one of three ways. */
static void send_and_go(struct mxt_side *s)
{
	enum { N = 200, LONG = 500000 };
	static mx_request_t req[N];
	static uint32_t out[N];
	char *big = malloc(LONG);
	mx_request_t last;

	mxt_await(s->fd);
	twt_fill(big, LONG, 6);
	for (uint32_t i = 0; i < N; i++) {
		out[i] = i;
		req[i] = mxt_isend(s->ep, &out[i], sizeof(out[i]), s->peer, 1);
	}
	last = mxt_isend(s->ep, big, LONG, s->peer, 2);
	for (int i = 0; i < N; i++)
		mxt_wait(s->ep, &req[i], MX_STATUS_SUCCESS);
	mxt_wait(s->ep, &last, MX_STATUS_SUCCESS);
	free(big);
	switch (*(int *)s->arg) {
	case 0:
		mxt_close(s->ep);
		_exit(0);
	case 1:
		mxt_down();
		_exit(0);
	default:
		_exit(0);
	}
}

static void sender_leaves(int how)
{
	enum { N = 200, LONG = 500000 };
	char *big = calloc(1, LONG);
	struct mxt_side s;
	mx_request_t r;

	mxt_two(&s, send_and_go, &how);
	r = mxt_irecv(s.ep, big, LONG, 2);
	mxt_signal(s.fd);
	mxt_eq(twt_join(&s.child, MXT_CHILD), 0);
	mxt_sleep(200);
	mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(big, LONG, 6), LONG);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t got = 0;

		r = mxt_irecv(s.ep, &got, sizeof(got), 1);
		mxt_wait(s.ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(got, i);
	}
	free(big);
	mxt_close(s.ep);
	mxt_down();
}

Test(mx_process, sender_closes, .timeout = MXT_TIMEOUT)
{
	sender_leaves(0);
}

Test(mx_process, sender_finalizes, .timeout = MXT_TIMEOUT)
{
	sender_leaves(1);
}

Test(mx_process, sender_exits, .timeout = MXT_TIMEOUT)
{
	sender_leaves(2);
}

static int spoke(void *arg, int fd)
{
	enum { N = 300 };
	mx_endpoint_addr_t hub;
	struct mxt_name name;
	mx_endpoint_t ep;

	(void)arg;
	mxt_eq(twt_get(fd, &name, sizeof(name)), 0);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	hub = mxt_connect(ep, name);
	for (uint64_t i = 0; i < N; i++) {
		uint64_t back = 0;
		mx_request_t r = mxt_irecv(ep, &back, sizeof(back), i);
		mx_request_t s = mxt_isend(ep, &i, sizeof(i), hub, i);

		mxt_wait(ep, &s, MX_STATUS_SUCCESS);
		mxt_wait(ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(back, ~i);
	}
	mxt_close(ep);
	mxt_down();
	return 0;
}

/* One process serves several that it has never connected to. */
Test(mx_process, hub, .timeout = MXT_TIMEOUT)
{
	enum { SPOKES = 5, N = 300 };
	struct twt_child c[SPOKES];
	struct mxt_name me;
	mx_endpoint_t ep;

	for (int i = 0; i < SPOKES; i++)
		twt_spawn(&c[i], spoke, NULL);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	me = mxt_name(ep);
	for (int i = 0; i < SPOKES; i++)
		mxt_eq(twt_put(c[i].fd, &me, sizeof(me)), 0);
	for (int i = 0; i < SPOKES * N; i++) {
		uint64_t got = 0, answer;
		mx_segment_t seg = {&got, sizeof(got)};
		mx_request_t r, s;
		mx_status_t st;

		mxt_ok(mx_irecv(ep, &seg, 1, 0, 0, NULL, &r));
		st = mxt_wait(ep, &r, MX_STATUS_SUCCESS);
		mxt_eq(got, st.match_info);
		answer = ~got;
		s = mxt_isend(ep, &answer, sizeof(answer), st.source, got);
		mxt_wait(ep, &s, MX_STATUS_SUCCESS);
	}
	for (int i = 0; i < SPOKES; i++)
		mxt_eq(twt_join(&c[i], MXT_CHILD), 0);
	mxt_close(ep);
	mxt_down();
}
