/* SPDX-License-Identifier: BSD-2-Clause */
/* II.4 Matching, II.5 unexpected messages, and the order of both. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_match, .init = mxt_job, .timeout = MXT_TIMEOUT);

static mx_request_t recv_masked(mx_endpoint_t ep, void *buf, size_t len, uint64_t match,
				uint64_t mask)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t req = NULL;

	mxt_ok(mx_irecv(ep, &seg, 1, match, mask, NULL, &req));
	return req;
}

Test(mx_match, bits_outside_the_mask, .timeout = MXT_TIMEOUT)
{
	static char garbage[8];
	mx_request_t req = (mx_request_t)(uintptr_t)garbage, old = req;
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_rc(MX_BAD_MATCH_MASK, mx_irecv(ep, NULL, 0, 1, 0, NULL, &req));
	mxt_rc(MX_BAD_MATCH_MASK, mx_irecv(ep, NULL, 0, 1ull << 63, MXT_ALL >> 1, NULL, &req));
	mxt_rc(MX_BAD_MATCH_MASK, mx_irecv(ep, NULL, 0, MXT_ALL, ~4ull, NULL, &req));
	mxt_check(req == old);
	mxt_close(ep);
	mxt_down();
}

/* Each of the 64 bits tells messages apart, and its mask bit makes it not count. */
Test(mx_match, every_bit, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int bit = 0; bit < 64; bit++) {
		uint64_t m = 0x5a5a5a5a12345678ull, other = m ^ 1ull << bit;
		mx_request_t r, r2, s;

		r = recv_masked(p.b, NULL, 0, m, MXT_ALL);
		s = mxt_isend(p.a, NULL, 0, p.ab, other);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(mxt_probe(p.b, other).match_info, other);
		mxt_pending(p.b, &r);
		r2 = recv_masked(p.b, NULL, 0, m & ~(1ull << bit), ~(1ull << bit));
		mxt_eq(mxt_wait(p.b, &r2, MX_STATUS_SUCCESS).match_info, other);
		s = mxt_isend(p.a, NULL, 0, p.ab, m);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).match_info, m);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* Messages that match alike are received in the order sent, whatever their sizes. */
static void in_order(int late)
{
	enum { N = 400 };
	static const uint32_t lens[] = {8, 0, 100, 40000, 4096, 8, 200000, 16, 33000, 1000};
	static mx_request_t s[N], r[N];
	static char *in[N], *out[N];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < N; i++) {
		uint32_t len = lens[i % 10];

		in[i] = malloc(200000);
		out[i] = malloc(len + 1);
		twt_fill(out[i], len, (uint64_t)i);
		if (!late)
			r[i] = recv_masked(p.b, in[i], 200000, 0, i % 3 ? 0 : 0xff);
	}
	for (int i = 0; i < N; i++)
		s[i] = mxt_isend(p.a, out[i], lens[i % 10], p.ab, (uint64_t)i << 8);
	for (int i = 0; i < N; i++) {
		mx_status_t st;

		if (late)
			r[i] = recv_masked(p.b, in[i], 200000, 0, i % 3 ? 0 : 0xff);
		st = mxt_wait(p.b, &r[i], MX_STATUS_SUCCESS);
		mxt_eq(st.match_info, (uint64_t)i << 8);
		mxt_eq(st.xfer_length, lens[i % 10]);
		mxt_eq(twt_check(in[i], st.xfer_length, (uint64_t)i), st.xfer_length);
	}
	for (int i = 0; i < N; i++) {
		mxt_wait(p.a, &s[i], MX_STATUS_SUCCESS);
		free(in[i]);
		free(out[i]);
	}
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_match, in_order_expected, .timeout = MXT_TIMEOUT)
{
	in_order(0);
}

Test(mx_match, in_order_unexpected, .timeout = MXT_TIMEOUT)
{
	in_order(1);
}

/* The first receive posted of those that match gets the message. */
Test(mx_match, order_of_receives, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_request_t r[4], s;

	mxt_up();
	mxt_pair(&p);
	r[0] = recv_masked(p.b, NULL, 0, 7, 0xff);
	r[1] = recv_masked(p.b, NULL, 0, 0, 0);
	r[2] = recv_masked(p.b, NULL, 0, 0x107, MXT_ALL);
	r[3] = recv_masked(p.b, NULL, 0, 0x100, 0xff00);
	for (int i = 0; i < 4; i++) {
		s = mxt_isend(p.a, NULL, 0, p.ab, 0x107);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &r[i], MX_STATUS_SUCCESS);
		for (int k = i + 1; k < 4; k++)
			mxt_pending(p.b, &r[k]);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* Messages of two senders: each one's are in order. */
Test(mx_match, two_senders, .timeout = MXT_TIMEOUT)
{
	enum { N = 300 };
	static mx_request_t s[2][N];
	static uint32_t out[2][N];
	uint32_t next[2] = {0, 0};
	mx_endpoint_addr_t to[2];
	mx_endpoint_t tx[2], rx;

	mxt_up();
	rx = mxt_open(MX_ANY_ENDPOINT);
	for (int k = 0; k < 2; k++) {
		tx[k] = mxt_open(MX_ANY_ENDPOINT);
		to[k] = mxt_connect(tx[k], mxt_name(rx));
	}
	for (uint32_t i = 0; i < N; i++)
		for (int k = 0; k < 2; k++) {
			out[k][i] = i;
			s[k][i] = mxt_isend(tx[k], &out[k][i], 4, to[k], (uint64_t)k);
		}
	for (int i = 0; i < 2 * N; i++) {
		uint32_t got = 0;
		mx_request_t r = recv_masked(rx, &got, 4, 0, 0);
		mx_status_t st = mxt_wait(rx, &r, MX_STATUS_SUCCESS);

		mxt_check(st.match_info < 2);
		mxt_eq(got, next[st.match_info]++);
		mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(tx[st.match_info])));
	}
	for (int i = 0; i < N; i++)
		for (int k = 0; k < 2; k++)
			mxt_wait(tx[k], &s[k][i], MX_STATUS_SUCCESS);
	for (int k = 0; k < 2; k++)
		mxt_close(tx[k]);
	mxt_close(rx);
	mxt_down();
}

/*
 * Random messages and receives against the rules written down plainly. The
 * low byte of the match information is matched by random masks; the upper half
 * numbers the messages, so that one can be awaited without being received.
 */
enum { STEPS = 3000, ROOM = 50000 };

struct model {
	int used;
	uint64_t match, mask; /* a message has no mask */
	uint32_t len;
	mx_request_t req;
	char *buf;
};

static struct model messages[STEPS], receives[STEPS];

static struct model *first(struct model *list, int n, uint64_t match, uint64_t mask, int receive)
{
	for (int i = 0; i < n; i++) {
		uint64_t m = receive ? list[i].mask : mask;

		if (!list[i].used &&
		    (receive ? (match & m) == list[i].match : (list[i].match & m) == match))
			return &list[i];
	}
	return NULL;
}

static void finish(struct mxt_pair *p, struct model *msg, struct model *rcv)
{
	mx_status_t st = mxt_wait(p->b, &rcv->req, MX_STATUS_SUCCESS);

	mxt_eq(st.match_info, msg->match);
	mxt_eq(st.xfer_length, msg->len);
	mxt_eq(twt_check(rcv->buf, msg->len, msg->match), msg->len);
	mxt_wait(p->a, &msg->req, MX_STATUS_SUCCESS);
	msg->used = rcv->used = 1;
	free(msg->buf);
	free(rcv->buf);
}

static void model_send(struct mxt_pair *p, int i, uint64_t bits, uint32_t len)
{
	struct model *msg = &messages[i], *rcv;

	*msg = (struct model){.match = (uint64_t)(i + 1) << 32 | bits, .len = len};
	msg->buf = malloc(len + 1);
	twt_fill(msg->buf, len, msg->match);
	rcv = first(receives, STEPS, msg->match, 0, 1);
	msg->req = mxt_isend(p->a, msg->buf, len, p->ab, msg->match);
	if (rcv)
		finish(p, msg, rcv);
	else
		mxt_eq(mxt_probe(p->b, msg->match).msg_length, len);
}

static void model_recv(struct mxt_pair *p, int i, uint64_t bits, uint64_t mask)
{
	struct model *rcv = &receives[i], *msg;

	*rcv = (struct model){.match = bits & mask, .mask = mask, .buf = malloc(ROOM)};
	rcv->req = recv_masked(p->b, rcv->buf, ROOM, rcv->match, mask);
	msg = first(messages, STEPS, rcv->match, mask, 0);
	if (msg)
		finish(p, msg, rcv);
}

Test(mx_match, against_a_model, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 1, 50, 700, 5000, 33000, 50000};
	static const uint64_t masks[] = {0xff, 0xf0, 0x0f, 0x03, 0x80, 0xfe, 0x00, 0xff};
	int cancelled = 0, taken = 0, left = 0;
	struct mxt_pair p;
	uint64_t rnd = 42;

	for (int i = 0; i < STEPS; i++)
		messages[i].used = receives[i].used = 1;
	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < STEPS; i++) {
		/* Long runs of either, so that both queues grow. */
		int sending = i / 200 % 2 ? twt_random(&rnd) % 4 == 0 : twt_random(&rnd) % 4 != 0;

		if (sending)
			model_send(&p, i, twt_random(&rnd) & 0xff, lens[twt_random(&rnd) % 7]);
		else
			model_recv(&p, i, twt_random(&rnd) & 0xff, masks[twt_random(&rnd) % 8]);
	}
	for (int i = 0; i < STEPS; i++) {
		uint32_t result = 77;

		if (!receives[i].used) {
			mxt_ok(mx_cancel(p.b, &receives[i].req, &result));
			mxt_eq(result, 1);
			receives[i].used = 1;
			free(receives[i].buf);
			cancelled++;
		}
	}
	/* What is left is received in order by a receive that matches all. */
	for (int i = 0; i < STEPS; i++) {
		if (messages[i].used)
			continue;
		left++;
		model_recv(&p, i, 0, 0);
		mxt_check(messages[i].used);
		taken++;
	}
	mxt_eq(taken, left);
	cr_log_info("%d receives and %d messages were left", cancelled, left);
	mxt_pair_end(&p);
	mxt_down();
}

/* More pending requests than any table holds (I: virtually unlimited). */
Test(mx_match, many_pending, .timeout = MXT_TIMEOUT)
{
	enum { N = 20000 };
	static mx_request_t s[N], r[N];
	static uint32_t in[N], out[N];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (uint32_t i = 0; i < N; i++) {
		out[i] = i;
		r[i] = mxt_irecv(p.b, &in[i], 4, i);
	}
	/* From the middle outwards, so that neither end of the queue is always right. */
	for (uint32_t i = 0; i < N; i++) {
		uint32_t k = i & 1 ? N / 2 - 1 - i / 2 : N / 2 + i / 2;

		s[k] = mxt_isend(p.a, &out[k], 4, p.ab, k);
	}
	for (uint32_t i = 0; i < N; i++) {
		mxt_wait(p.b, &r[i], MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s[i], MX_STATUS_SUCCESS);
		mxt_eq(in[i], i);
	}
	mxt_pair_end(&p);
	mxt_down();
}
