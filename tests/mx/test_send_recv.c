/* SPDX-License-Identifier: BSD-2-Clause */
/* V Point-to-point communication between endpoints of one process. */
#include <stdlib.h>

#include "mx/mxt.h"

TestSuite(mx_send_recv, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* About the sizes at which an implementation may change its ways. */
static const uint32_t sizes[] = {
	0,     1,     2,     3,	     7,	     8,	     9,	      31,      33,	48,
	63,    64,    65,    127,    128,    129,    255,     1000,    1023,	1024,
	1025,  4095,  4096,  4097,   8191,   16384,  32767,   32768,   32769,	65535,
	65536, 65537, 99991, 262143, 262144, 262145, 1048576, 1048577, 3000017, 16u << 20,
};
#define SIZES (sizeof(sizes) / sizeof(*sizes))
#define GUARD 64

typedef mx_request_t send_fn(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
			     uint64_t match);

/* One message into a buffer with a guard behind it; all of the status is checked. */
static void transfer(mx_endpoint_t tx, mx_endpoint_addr_t to, mx_endpoint_t rx, uint32_t len,
		     send_fn *send, int late)
{
	unsigned char *out = malloc(len + 1), *in = malloc(len + GUARD);
	uint64_t match = 0xabc0000000000000ull | len;
	mx_segment_t seg = {in, len + GUARD};
	mx_request_t s = NULL, r;
	mx_status_t st;

	twt_fill(out, len, match);
	memset(in, 0xee, len + GUARD);
	if (late) {
		s = send(tx, out, len, to, match);
		st = mxt_probe(rx, match);
		mxt_eq(st.msg_length, len);
	}
	mxt_ok(mx_irecv(rx, &seg, 1, match, MXT_ALL, in, &r));
	if (!late)
		s = send(tx, out, len, to, match);
	st = mxt_wait(rx, &r, MX_STATUS_SUCCESS);
	mxt_eq(st.msg_length, len);
	mxt_eq(st.xfer_length, len);
	mxt_eq(st.length, len);
	mxt_eq(st.match_info, match);
	mxt_check(st.context == in);
	mxt_check(mxt_same_name(mxt_whose(st.source), mxt_name(tx)));
	st = mxt_wait(tx, &s, MX_STATUS_SUCCESS);
	mxt_eq(st.xfer_length, len);
	mxt_check(st.context == NULL);
	mxt_eq(twt_check(in, len, match), len);
	for (int i = 0; i < GUARD; i++)
		mxt_eq(in[len + i], 0xee);
	/* The sender's buffer is only read. */
	mxt_eq(twt_check(out, len, match), len);
	free(out);
	free(in);
}

static void all_sizes(send_fn *send, int late, int self)
{
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (size_t i = 0; i < SIZES; i++) {
		if (self)
			transfer(p.a, mxt_self(p.a), p.a, sizes[i], send, late);
		else
			transfer(p.a, p.ab, p.b, sizes[i], send, late);
	}
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_send_recv, isend_expected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_isend, 0, 0);
}

Test(mx_send_recv, isend_unexpected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_isend, 1, 0);
}

Test(mx_send_recv, issend_expected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_issend, 0, 0);
}

Test(mx_send_recv, issend_unexpected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_issend, 1, 0);
}

Test(mx_send_recv, isend_to_self, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_isend, 0, 1);
}

Test(mx_send_recv, isend_to_self_unexpected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_isend, 1, 1);
}

Test(mx_send_recv, issend_to_self, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_issend, 0, 1);
}

Test(mx_send_recv, issend_to_self_unexpected, .timeout = MXT_TIMEOUT)
{
	all_sizes(mxt_issend, 1, 1);
}

/* The sender's status tells what it was about. */
Test(mx_send_recv, send_status, .timeout = MXT_TIMEOUT)
{
	char buf[300] = "";
	mx_segment_t seg[2] = {{buf, 100}, {buf + 100, 200}};
	struct mxt_pair p;
	mx_request_t s, r;
	mx_status_t st;

	mxt_up();
	mxt_pair(&p);
	for (int sync = 0; sync < 2; sync++) {
		r = mxt_irecv(p.b, NULL, 0, 0x1234);
		if (sync)
			mxt_ok(mx_issend(p.a, seg, 2, p.ab, 0x1234, buf, &s));
		else
			mxt_ok(mx_isend(p.a, seg, 2, p.ab, 0x1234, buf, &s));
		st = mxt_wait(p.b, &r, MX_STATUS_TRUNCATED);
		mxt_eq(st.msg_length, 300);
		mxt_eq(st.xfer_length, 0);
		st = mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_check(st.context == buf);
		mxt_eq(st.match_info, 0x1234);
		mxt_eq(st.msg_length, 300);
	}
	mxt_pair_end(&p);
	mxt_down();
}

/* A message of msg bytes for a receive of room bytes, which is smaller. */
static void truncated(struct mxt_pair *p, uint32_t msg, uint32_t room, send_fn *send, int late)
{
	unsigned char *out = malloc(msg), *in = malloc(room + GUARD);
	mx_segment_t seg[2] = {{in, room / 3}, {in + room / 3, room - room / 3}};
	mx_request_t s = NULL, r;
	mx_status_t st;

	twt_fill(out, msg, msg);
	memset(in, 0xee, room + GUARD);
	if (late) {
		s = send(p->a, out, msg, p->ab, 3);
		mxt_eq(mxt_probe(p->b, 3).msg_length, msg);
	}
	mxt_ok(mx_irecv(p->b, seg, 2, 3, MXT_ALL, NULL, &r));
	if (!late)
		s = send(p->a, out, msg, p->ab, 3);
	st = mxt_wait(p->b, &r, MX_STATUS_TRUNCATED);
	mxt_eq(st.msg_length, msg);
	mxt_eq(st.xfer_length, room);
	mxt_eq(st.match_info, 3);
	mxt_wait(p->a, &s, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(in, room, msg), room);
	for (int i = 0; i < GUARD; i++)
		mxt_eq(in[room + i], 0xee);
	free(out);
	free(in);
}

Test(mx_send_recv, truncation, .timeout = MXT_TIMEOUT)
{
	static const uint32_t of[][2] = {
		{1, 0},
		{10, 9},
		{64, 1},
		{200, 0},
		{5000, 4999},
		{40000, 100},
		{100000, 40000},
		{1 << 20, 0},
		{1 << 20, 1},
		{1 << 20, 1000},
		{1 << 20, (1 << 19) + 1},
		{1 << 20, (1 << 20) - 1},
		{5000000, 33000},
	};
	struct mxt_pair p, self;

	mxt_up();
	mxt_pair(&p);
	self = (struct mxt_pair){p.a, p.a, mxt_self(p.a), mxt_self(p.a)};
	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++)
		for (int late = 0; late < 2; late++) {
			truncated(&p, of[i][0], of[i][1], mxt_isend, late);
			truncated(&p, of[i][0], of[i][1], mxt_issend, late);
			truncated(&self, of[i][0], of[i][1], mxt_isend, late);
			truncated(&self, of[i][0], of[i][1], mxt_issend, late);
		}
	mxt_pair_end(&p);
	mxt_down();
}

/* Cuts a buffer into count pieces of odd sizes, some empty, and shuffles where they lie. */
static void cut(mx_segment_t *list, uint32_t count, char *buf, uint32_t len, uint64_t *rnd)
{
	uint32_t left = len;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t mean = left / (count - i), n = 0;

		if (twt_random(rnd) % 5 && mean)
			n = (uint32_t)(twt_random(rnd) % (2 * mean + 1));
		if (n > left || i == count - 1)
			n = left;
		list[i].segment_length = n;
		/* An empty piece may point nowhere. */
		list[i].segment_ptr = n || twt_random(rnd) % 2 ? buf + (len - left) : NULL;
		left -= n;
	}
}

/* Gathered from some pieces, scattered to others. */
Test(mx_send_recv, segments, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 1, 255, 256, 2000, 40001, 300007, 2u << 20};
	static const uint32_t counts[] = {1, 2, 3, 17, 255, 256};
	static mx_segment_t from[256], to[256];
	char *out = malloc(2u << 20), *in = malloc(2u << 20);
	uint64_t rnd = 17;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 8 * 6 * 4; i++) {
		uint32_t len = lens[i % 8], nf = counts[i / 8 % 6];
		uint32_t nt = counts[twt_random(&rnd) % 6];
		mx_request_t s, r;

		twt_fill(out, len, (uint64_t)i);
		memset(in, 0, len);
		cut(from, nf, out, len, &rnd);
		cut(to, nt, in, len, &rnd);
		if (i & 1)
			mxt_ok(mx_irecv(p.b, to, nt, 9, MXT_ALL, NULL, &r));
		if (twt_random(&rnd) & 1)
			mxt_ok(mx_isend(p.a, from, nf, p.ab, 9, NULL, &s));
		else
			mxt_ok(mx_issend(p.a, from, nf, p.ab, 9, NULL, &s));
		/* The lists are the caller's again at once. */
		memset(from, 0xff, sizeof(from));
		if (!(i & 1))
			mxt_ok(mx_irecv(p.b, to, nt, 9, MXT_ALL, NULL, &r));
		memset(to, 0xff, sizeof(to));
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).xfer_length, len);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_eq(twt_check(in, len, (uint64_t)i), len);
	}
	free(out);
	free(in);
	mxt_pair_end(&p);
	mxt_down();
}

/* The three calls that take a list. */
static mx_return_t post(int call, struct mxt_pair *p, mx_segment_t *list, uint32_t count,
			mx_request_t *req)
{
	switch (call) {
	case 0:
		return mx_isend(p->a, list, count, p->ab, 11, NULL, req);
	case 1:
		return mx_issend(p->a, list, count, p->ab, 11, NULL, req);
	default:
		return mx_irecv(p->b, list, count, 11, MXT_ALL, NULL, req);
	}
}

Test(mx_send_recv, wrong_lists, .timeout = MXT_TIMEOUT)
{
	static mx_segment_t list[257];
	mx_request_t const old = (mx_request_t)(uintptr_t)list;
	mx_request_t req = old;
	uint32_t result = 77;
	struct mxt_pair p;
	mx_status_t st;
	char c[8];

	mxt_up();
	mxt_pair(&p);
	for (int call = 0; call < 3; call++) {
		mx_segment_t bad[3] = {{c, 1}, {NULL, 1}, {c, 1}};
		mx_segment_t huge[3] = {{c, 0x80000000u}, {c, 0x7fffffffu}, {c, 1}};

		mxt_rc(MX_BAD_SEG_LIST, post(call, &p, NULL, 1, &req));
		mxt_rc(MX_BAD_SEG_LIST, post(call, &p, NULL, 256, &req));
		for (int i = 0; i < 257; i++)
			list[i] = (mx_segment_t){c, 0};
		mxt_rc(MX_BAD_SEG_CNT, post(call, &p, list, 257, &req));
		mxt_rc(MX_BAD_SEG_CNT, post(call, &p, list, 0xffffffffu, &req));
		mxt_rc(MX_BAD_SEG_MEM, post(call, &p, bad, 3, &req));
		mxt_rc(MX_BAD_SEG_MEM, post(call, &p, bad + 1, 1, &req));
		mxt_rc(MX_BAD_SEG_MEM, post(call, &p, huge, 3, &req));
		for (int i = 0; i < 256; i++)
			list[i] = (mx_segment_t){c, 0x80000000u};
		/* The sum of these is 0 in 32 bits. */
		mxt_rc(MX_BAD_SEG_MEM, post(call, &p, list, 256, &req));
		mxt_rc(MX_BAD_SEG_MEM, post(call, &p, list, 2, &req));
		mxt_rc(MX_BAD_REQUEST, post(call, &p, NULL, 0, NULL));
		mxt_check(req == old);
	}
	/* Nothing of that was posted. */
	mxt_ok(mx_iprobe(p.b, 0, 0, &st, &result));
	mxt_eq(result, 0);
	/* 4 GiB - 1 is the longest receive. */
	list[1].segment_length = 0x7fffffffu;
	mxt_ok(post(2, &p, list, 2, &req));
	mxt_ok(mx_cancel(p.b, &req, &result));
	mxt_eq(result, 1);
	mxt_pair_end(&p);
	mxt_down();
}

/* Nothing, said in every way that is allowed. */
Test(mx_send_recv, nothing, .timeout = MXT_TIMEOUT)
{
	mx_segment_t empty[3] = {{NULL, 0}, {empty, 0}, {NULL, 0}};
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (uint32_t ns = 0; ns < 8; ns++)
		for (uint32_t nr = 0; nr < 8; nr++) {
			mx_request_t s = NULL, r = NULL;

			mxt_ok(post(2, &p, nr & 4 ? empty : NULL, nr & 4 ? nr & 3 : 0, &r));
			mxt_ok(post(ns & 1, &p, ns & 4 ? empty : NULL, ns & 4 ? ns & 3 : 0, &s));
			mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).msg_length, 0);
			mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		}
	mxt_pair_end(&p);
	mxt_down();
}

/* V.1.2: a synchronous send waits for its receive, a standard one does not. */
Test(mx_send_recv, synchronous, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 1, 100, 5000, 1 << 20};
	static char out[1 << 20], in[1 << 20];
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 5; i++) {
		mx_request_t s = mxt_issend(p.a, out, lens[i], p.ab, 1), r, other;

		mxt_probe(p.b, 1);
		mxt_pending(p.a, &s);
		/* A receive of something else is not its receive. */
		other = mxt_irecv(p.b, in, sizeof(in), 2);
		mxt_sleep(100);
		mxt_pending(p.a, &s);
		r = mxt_irecv(p.b, in, sizeof(in), 1);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		s = mxt_isend(p.a, out, lens[0], p.ab, 2);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &other, MX_STATUS_SUCCESS);
	}
	for (int i = 0; i < 3; i++) {
		mx_request_t s = mxt_isend(p.a, out, lens[i], p.ab, 3), r;

		/* The buffer is the program's again: the message must not change. */
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		memset(out, 0x55, sizeof(out));
		r = mxt_irecv(p.b, in, sizeof(in), 3);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		for (uint32_t k = 0; k < lens[i]; k++)
			mxt_eq(in[k], 0);
		memset(out, 0, sizeof(out));
	}
	mxt_pair_end(&p);
	mxt_down();
}
