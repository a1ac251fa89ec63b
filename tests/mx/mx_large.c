/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes exchange messages at the boundaries of 31 and 32 bits, in every way that long
 * messages take, and access windows that are larger than 4 GiB.
 * Part of: rest
 */
#include "lib/large.h"
#include "mx/mxt.h"

TestSuite(mx_large, .init = mxt_job, .timeout = MXT_TIMEOUT);

static const uint64_t lengths[] = {LARGE_2G - 1, LARGE_2G, LARGE_2G + 1, LARGE_4G - 1};

#define NLENGTHS (sizeof(lengths) / sizeof(*lengths))
#define HALF (1u << 31)

/* Two segments: a length of one has 32 bits. The test has a time limit. */
static mx_status_t finish(mx_endpoint_t ep, mx_request_t r)
{
	uint32_t result;
	mx_status_t st;

	mxt_ok(mx_wait(ep, &r, MX_INFINITE, &st, &result));
	mxt_eq(st.code, MX_STATUS_SUCCESS);
	return st;
}

static uint32_t segments(mx_segment_t *s, char *memory, uint64_t len)
{
	uint32_t first = len < HALF ? (uint32_t)len : HALF;

	s[0] = (mx_segment_t){memory, first};
	s[1] = (mx_segment_t){memory + first, (uint32_t)(len - first)};
	return 2;
}

static char *map(void)
{
	char *memory = large_map();

	mxt_check(memory != NULL);
	return memory;
}

static void send_all(struct mxt_side *s)
{
	char *from = map();
	mx_segment_t seg[2];
	mx_request_t r;

	large_fill(from, 1);
	for (unsigned i = 0; i < NLENGTHS; i++) {
		mxt_ok(mx_isend(s->ep, seg, segments(seg, from, lengths[i]), s->peer, i, NULL, &r));
		mxt_eq(finish(s->ep, r).xfer_length, lengths[i]);
	}
	large_unmap(from);
}

static void receive_all(const char *way)
{
	mx_segment_t seg[2];
	struct mxt_side s;
	mx_request_t r;
	char *to;

	setenv("TAGWIRE_RNDV", way, 1);
	mxt_two(&s, send_all, NULL);
	to = map();
	for (unsigned i = 0; i < NLENGTHS; i++) {
		large_fill(to, 2);
		mxt_ok(mx_irecv(s.ep, seg, segments(seg, to, LARGE_4G - 1), i, MXT_ALL, NULL, &r));
		mxt_eq(finish(s.ep, r).xfer_length, lengths[i]);
		mxt_check(large_same(to, 0, 0, lengths[i], 1, 2));
	}
	mxt_two_end(&s);
	large_unmap(to);
}

Test(mx_large, copy)
{
	receive_all("copy");
}

Test(mx_large, get)
{
	receive_all("get");
}

Test(mx_large, automatic)
{
	receive_all("auto");
}

static void own_window(struct mxt_side *s)
{
	char *memory = map();
	uint64_t key;

	large_fill(memory, 2);
	mxt_ok(mx_window_register(s->ep, memory, LARGE_SIZE, MX_WINDOW_READ | MX_WINDOW_WRITE,
				  &key));
	mxt_eq(twt_put(s->fd, &key, sizeof(key)), 0);
	for (unsigned i = 0; i < 2; i++) {
		mxt_await(s->fd);
		mxt_check(large_same(memory, i ? LARGE_4G + 1 : 5, 0, i ? 100000 : LARGE_4G - 1, 1,
				     2));
		large_fill(memory, 2);
		mxt_signal(s->fd);
	}
	mxt_await(s->fd);
	mxt_ok(mx_window_deregister(s->ep, key));
	large_unmap(memory);
}

Test(mx_large, windows)
{
	mx_segment_t seg[2];
	struct mxt_side s;
	mx_request_t r;
	uint64_t key;
	char *memory;

	mxt_two(&s, own_window, NULL);
	memory = map();
	mxt_eq(twt_get(s.fd, &key, sizeof(key)), 0);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = i ? LARGE_4G + 1 : 5, len = i ? 100000 : LARGE_4G - 1;
		uint32_t n = segments(seg, memory, len);

		large_fill(memory, 1);
		mxt_ok(mx_put(s.ep, seg, n, s.peer, key, at, 0, NULL, &r));
		finish(s.ep, r);
		mxt_signal(s.fd);
		mxt_await(s.fd);
		mxt_ok(mx_get(s.ep, seg, n, s.peer, key, at, 0, NULL, &r));
		finish(s.ep, r);
		mxt_check(large_same(memory, 0, at, len, 2, 1));
	}
	mxt_signal(s.fd);
	mxt_two_end(&s);
	large_unmap(memory);
}
