/* SPDX-License-Identifier: BSD-2-Clause */
/* V.5 Long messages, every way that they can travel (TAGWIRE_RNDV). */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_ways, .init = mxt_job, .timeout = MXT_TIMEOUT);

#define LONG 3000001u
#define MARK 0xfe

static const uint32_t sizes[] = {8193,	16384, 16385,  32768,  32769,  40960,	65535,
				 65536, 65537, 196608, 196609, 524287, 1 << 20, LONG};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Both sides poll: only then both copy. */
static mx_status_t poll(mx_endpoint_t ep, mx_request_t *r)
{
	double end = twt_now() + MXT_LONG / 1e3;
	uint32_t result = 0;
	mx_status_t st;

	for (unsigned i = 1; !result; i++) {
		mxt_ok(mx_test(ep, r, &st, &result));
		if (i % 1000 == 0)
			sched_yield();
		mxt_check(twt_now() < end);
	}
	return st;
}

/* One message each way; the answer is received into more or less than it has. */
static void exchange(struct mxt_side *s, uint32_t i, uint32_t len, int32_t more)
{
	uint32_t room = (uint32_t)((int32_t)len + more);
	char *out = malloc(len), *in = malloc(room + 64);
	mx_request_t snd, r;
	mx_status_t st;

	twt_fill(out, len, i);
	memset(in, MARK, room + 64);
	r = mxt_irecv(s->ep, in, room, i);
	snd = (i & 1 ? mxt_isend : mxt_issend)(s->ep, out, len, s->peer, i);
	mxt_eq(poll(s->ep, &snd).code, MX_STATUS_SUCCESS);
	st = poll(s->ep, &r);
	mxt_eq(st.code, more < 0 ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS);
	mxt_eq(st.msg_length, len);
	mxt_eq(st.xfer_length, more < 0 ? room : len);
	mxt_eq(twt_check(in, st.xfer_length, i), st.xfer_length);
	for (uint32_t k = st.xfer_length; k < room + 64; k++)
		mxt_eq((uint8_t)in[k], MARK);
	free(out);
	free(in);
}

static void sweep(struct mxt_side *s)
{
	static const int32_t more[] = {0, -1, -5000, 77};

	for (uint32_t i = 0; i < SIZES * 4; i++)
		exchange(s, i, sizes[i / 4], more[i % 4]);
}

static void all_sizes(const char *way)
{
	struct mxt_side s;

	setenv("TAGWIRE_RNDV", way, 1);
	mxt_two(&s, sweep, NULL);
	sweep(&s);
	mxt_two_end(&s);
}

Test(mx_ways, copy)
{
	all_sizes("copy");
}

Test(mx_ways, get)
{
	all_sizes("get");
}

Test(mx_ways, automatic)
{
	all_sizes("auto");
}

enum { COPY_LEN = 400000 };

static void send_until_copied(struct mxt_side *s)
{
	char *out = calloc(1, COPY_LEN), more = 1;
	mx_request_t r;

	for (uint32_t i = 0; more; i++) {
		r = mxt_isend(s->ep, out, COPY_LEN, s->peer, i);
		mxt_eq(poll(s->ep, &r).code, MX_STATUS_SUCCESS);
		r = mxt_irecv(s->ep, &more, 1, i);
		mxt_eq(poll(s->ep, &r).code, MX_STATUS_SUCCESS);
	}
	free(out);
}

/* While both poll, both copy. On a busy machine it may take a while until they do at once. */
Test(mx_ways, really_copied)
{
	char *in = malloc(COPY_LEN), more = 1;
	struct mxt_side s;
	mx_request_t r;

	mxt_same_host();
	mxt_two(&s, send_until_copied, NULL);
	for (uint32_t i = 0; more; i++) {
		r = mxt_irecv(s.ep, in, COPY_LEN, i);
		mxt_eq(poll(s.ep, &r).code, MX_STATUS_SUCCESS);
		more = mxt_counted("rendezvous by copy") == 0;
		r = mxt_isend(s.ep, &more, 1, s.peer, i);
		mxt_eq(poll(s.ep, &r).code, MX_STATUS_SUCCESS);
	}
	mxt_two_end(&s);
	free(in);
}

/* Pieces on either side: what cannot be read in one piece is copied. */
static void in_pieces(struct mxt_side *s)
{
	char *out = malloc(LONG), *in = malloc(LONG);
	uint32_t third = LONG / 3;

	for (uint32_t i = 0; i < 4; i++) {
		mx_segment_t from[3] = {
			{out, third}, {out + third, 1}, {out + third + 1, LONG - third - 1}};
		mx_segment_t to[2] = {{in, 2 * third}, {in + 2 * third, LONG - 2 * third}};
		mx_segment_t from1 = {out, LONG}, to1 = {in, LONG};
		mx_request_t snd, r;

		twt_fill(out, LONG, i);
		memset(in, MARK, LONG);
		mxt_ok(mx_irecv(s->ep, i & 1 ? to : &to1, i & 1 ? 2 : 1, i, MXT_ALL, NULL, &r));
		mxt_ok(mx_isend(s->ep, i & 2 ? from : &from1, i & 2 ? 3 : 1, s->peer, i, NULL,
				&snd));
		mxt_eq(poll(s->ep, &snd).code, MX_STATUS_SUCCESS);
		mxt_eq(poll(s->ep, &r).code, MX_STATUS_SUCCESS);
		mxt_eq(twt_check(in, LONG, i), LONG);
	}
	free(out);
	free(in);
}

Test(mx_ways, pieces)
{
	struct mxt_side s;

	setenv("TAGWIRE_RNDV", "get", 1);
	mxt_two(&s, in_pieces, NULL);
	in_pieces(&s);
	mxt_two_end(&s);
}

/* A receive whose last pages may only be read: no way writes there. */
static void send_to_readonly(struct mxt_side *s)
{
	char *out = malloc(LONG);
	mx_request_t snd;

	twt_fill(out, LONG, 1);
	snd = mxt_isend(s->ep, out, LONG, s->peer, 1);
	mxt_eq(poll(s->ep, &snd).code, MX_STATUS_ABORTED);
	/* The connection is as good as before. */
	snd = mxt_isend(s->ep, out, LONG, s->peer, 2);
	mxt_eq(poll(s->ep, &snd).code, MX_STATUS_SUCCESS);
	free(out);
}

Test(mx_ways, get_into_readonly)
{
	size_t half = 1 << 21;
	struct mxt_side s;
	mx_request_t r;
	char *in;

	mxt_shared_reads();
	setenv("TAGWIRE_RNDV", "get", 1);
	in = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mxt_check(in != MAP_FAILED);
	memset(in, 0, 2 * half);
	mxt_check(mprotect(in + half, half, PROT_READ) == 0);
	mxt_two(&s, send_to_readonly, NULL);
	r = mxt_irecv(s.ep, in, LONG, 1);
	mxt_eq(poll(s.ep, &r).code, MX_STATUS_ABORTED);
	mxt_check(mprotect(in + half, half, PROT_READ | PROT_WRITE) == 0);
	r = mxt_irecv(s.ep, in, LONG, 2);
	mxt_eq(poll(s.ep, &r).code, MX_STATUS_SUCCESS);
	mxt_eq(twt_check(in, LONG, 1), LONG);
	mxt_two_end(&s);
	munmap(in, 2 * half);
}
