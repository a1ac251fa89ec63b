/* SPDX-License-Identifier: BSD-2-Clause */
/* V.5 Long messages, every way that they can travel (TAGWIRE_RNDV). */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_ways, .init = mxt_job, .timeout = MXT_TIMEOUT);

#define LONG 3000001u
#define MARK 0xfe

static const uint32_t sizes[] = {8193,	16384, 32767,  32768,  32769,	40960, 65535,
				 65536, 65537, 262145, 524287, 1 << 20, LONG};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Both sides poll: only then may the sender write. */
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

Test(mx_ways, push)
{
	all_sizes("push");
}

Test(mx_ways, pull)
{
	all_sizes("pull");
}

Test(mx_ways, split)
{
	all_sizes("split");
}

Test(mx_ways, automatic)
{
	all_sizes("auto");
}

enum { SPLITS = 200, SPLIT_LEN = 100000 };

/* Polls of the sender, in memory of both. */
static atomic_ulong *polls;

static void send_and_poll(struct mxt_side *s)
{
	char *out = calloc(1, SPLIT_LEN);

	for (uint32_t i = 0; i < SPLITS; i++) {
		mx_request_t snd = mxt_isend(s->ep, out, SPLIT_LEN, s->peer, i);
		uint32_t result = 0;

		while (!result) {
			mxt_ok(mx_test(s->ep, &snd, NULL, &result));
			atomic_fetch_add(polls, 1);
		}
	}
	free(out);
}

/*
 * Returns while the sender polls: it did so a few microseconds ago, and both ran since. On
 * a busy machine that takes a while.
 */
static void until_it_polls(void)
{
	double now = twt_now(), end = now + MXT_LONG / 1e3;
	unsigned long seen = atomic_load(polls);

	for (int together = 0; together < 20;) {
		double before = now;
		unsigned long was = seen;

		for (int i = 0; i < 100 && seen == was; i++)
			seen = atomic_load(polls);
		now = twt_now();
		mxt_check(now < end);
		together = seen != was && now - before < 5e-6 * twt_slow() ? together + 1 : 0;
	}
}

/*
 * Whenever the sender polls as the receiver finds the message, both move it. On an emulated
 * machine either may stand still in between.
 */
Test(mx_ways, really_split)
{
	char *in = malloc(SPLIT_LEN);
	struct mxt_side s;

	mxt_shared_reads();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("two that poll at once need two processors");
	setenv("TAGWIRE_RNDV", "split", 1);
	polls = mmap(NULL, sizeof(*polls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	mxt_check(polls != MAP_FAILED);
	mxt_two(&s, send_and_poll, NULL);
	for (uint32_t i = 0; i < SPLITS; i++) {
		mx_status_t st;
		uint32_t result = 0;
		mx_request_t r;

		while (!result)
			mxt_ok(mx_iprobe(s.ep, i, MXT_ALL, &st, &result));
		until_it_polls();
		r = mxt_irecv(s.ep, in, SPLIT_LEN, i);
		mxt_eq(poll(s.ep, &r).code, MX_STATUS_SUCCESS);
	}
	mxt_check(mxt_counted("rendezvous by split") >= SPLITS * 9 / 10 / twt_slow());
	mxt_eq(mxt_counted("puts failed"), 0);
	mxt_two_end(&s);
	free(in);
}

/* Pieces on either side: what cannot be written in one piece is moved otherwise. */
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

	setenv("TAGWIRE_RNDV", "split", 1);
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

static void readonly_end(const char *way)
{
	size_t half = 1 << 21;
	struct mxt_side s;
	mx_request_t r;
	char *in;

	mxt_shared_reads();
	setenv("TAGWIRE_RNDV", way, 1);
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

Test(mx_ways, pull_into_readonly)
{
	readonly_end("pull");
}

Test(mx_ways, split_into_readonly)
{
	readonly_end("split");
}
