/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short accesses, which an owner that polls does, and the accessor where the owner does not. One
 * thread is both, so the test decides when the owner polls; nobody else serves it. Where another
 * thread polls for the owner, both do some of them.
 */
#include <stdlib.h>
#include <string.h>

#include "mx/mxt.h"

TestSuite(mx_delegate, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { WORDS = 1024, KEY = 5, LEN = 24, ROUNDS = 2000 };

struct delegation {
	struct mxt_pair p;
	uint64_t window[WORDS];
	mx_request_t never; /* a receive of the owner's, to poll by */
	atomic_bool ready, over;
};

static void poll_owner(struct delegation *t)
{
	mxt_pending(t->p.b, &t->never);
}

static mx_request_t put(struct delegation *t, const void *from, unsigned word, uint32_t len)
{
	mx_segment_t seg = {(void *)(uintptr_t)from, len};
	mx_request_t r;

	mxt_ok(mx_put(t->p.a, &seg, 1, t->p.ab, KEY, word * sizeof(uint64_t), 0, NULL, &r));
	return r;
}

static mx_request_t get(struct delegation *t, void *to, unsigned word, uint32_t len)
{
	mx_segment_t seg = {to, len};
	mx_request_t r;

	mxt_ok(mx_get(t->p.a, &seg, 1, t->p.ab, KEY, word * sizeof(uint64_t), 0, NULL, &r));
	return r;
}

static bool test(mx_endpoint_t ep, mx_request_t *r)
{
	uint32_t result;
	mx_status_t st;

	mxt_ok(mx_test(ep, r, &st, &result));
	if (result)
		mxt_eq(st.code, MX_STATUS_SUCCESS);
	return result;
}

/* By the accessor alone, which sleeps, or only polls. */
static void finish(struct delegation *t, mx_request_t *r, bool sleeps)
{
	if (sleeps)
		mxt_wait(t->p.a, r, MX_STATUS_SUCCESS);
	else
		while (!test(t->p.a, r))
			;
}

/* A put is complete when its call returns, or the owner is doing it. */
static void put_ends(struct delegation *t, uint64_t value, unsigned word)
{
	mx_request_t r = put(t, &value, word, sizeof(value));

	mxt_check(test(t->p.a, &r));
	mxt_eq(t->window[word], value);
}

static uint64_t served(void)
{
	char labels[64][MX_MAX_STR_LEN];
	uint32_t values[64], n, board = 0;

	mxt_ok(mx_get_info(NULL, MX_COUNTERS_COUNT, &board, sizeof(board), &n, sizeof(n)));
	mxt_check(n <= 64);
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_LABELS, &board, sizeof(board), labels,
			   n * MX_MAX_STR_LEN));
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), values,
			   n * (uint32_t)sizeof(*values)));
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(labels[i], "one-sided accesses served"))
			return values[i];
	mxt_fail(__FILE__, __LINE__, "no such counter");
	return 0;
}

static struct delegation *begin(void)
{
	struct delegation *t = calloc(1, sizeof(*t));
	uint64_t key = KEY, word = 1;
	mx_request_t r;

	mxt_same_host();
	mxt_shared_reads();
	mxt_up();
	mxt_pair(&t->p);
	mxt_ok(mx_disable_progression(t->p.a));
	mxt_ok(mx_disable_progression(t->p.b));
	mxt_ok(mx_window_register(t->p.b, t->window, sizeof(t->window),
				  MX_WINDOW_READ | MX_WINDOW_WRITE, &key));
	t->never = mxt_irecv(t->p.b, NULL, 0, 1);
	/* The first access asks for the window. */
	for (r = put(t, &word, 0, sizeof(word)); !test(t->p.a, &r);)
		poll_owner(t);
	return t;
}

static void end(struct delegation *t)
{
	mxt_pair_end(&t->p);
	mxt_down();
	free(t);
}

/* An owner that has just polled, and does so no more. */
Test(mx_delegate, owner_stops)
{
	struct delegation *t = begin();
	uint64_t seen;
	mx_request_t r;

	for (uint64_t i = 2; i < ROUNDS; i++) {
		poll_owner(t);
		put_ends(t, i, i % WORDS);
		poll_owner(t);
		r = get(t, &seen, i % WORDS, sizeof(seen));
		finish(t, &r, i % 2);
		mxt_eq(seen, i);
	}
	end(t);
}

/* An access that was taken back is not done again when the owner polls. */
Test(mx_delegate, done_once)
{
	struct delegation *t = begin();
	uint64_t before = served();

	for (uint64_t i = 1; i < ROUNDS; i++) {
		poll_owner(t);
		put_ends(t, i, 7);
		t->window[7] = 0;
		for (int polls = 0; polls < 3; polls++)
			poll_owner(t);
		mxt_eq(t->window[7], 0);
	}
	mxt_eq(served(), before);
	end(t);
}

static void polls(void *arg)
{
	struct delegation *t = arg;
	uint64_t rng = 5;

	while (!atomic_load(&t->over)) {
		for (uint64_t n = twt_random(&rng) % 2000; n > 0; n--)
			poll_owner(t);
		if (twt_random(&rng) % 4 == 0)
			mxt_sleep(1);
	}
}

/* The owner polls, and pauses now and then. How many it does depends on the processors. */
Test(mx_delegate, owner_polls)
{
	static uint64_t out[WORDS], in[WORDS];
	struct delegation *t = begin();
	struct mxt_thread thread;
	uint64_t rng = 3;
	mx_request_t r[WORDS / LEN];
	unsigned n = WORDS / LEN;

	mxt_start(&thread, polls, t);
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < WORDS; i++)
			out[i] = twt_random(&rng);
		for (unsigned i = 0; i < n; i++)
			r[i] = put(t, &out[i * LEN], i * LEN, LEN * sizeof(*out));
		for (unsigned i = n; i-- > 0;)
			finish(t, &r[i], round % 2);
		mxt_eq(memcmp(t->window, out, n * LEN * sizeof(*out)), 0);
		for (unsigned i = 0; i < n; i++)
			r[i] = get(t, &in[i * LEN], i * LEN, LEN * sizeof(*in));
		for (unsigned i = 0; i < n; i++)
			finish(t, &r[i], round % 2);
		mxt_eq(memcmp(in, out, n * LEN * sizeof(*out)), 0);
	}
	atomic_store(&t->over, true);
	mxt_join(&thread);
	memset(t->window, 0, sizeof(t->window));
	poll_owner(t);
	for (unsigned i = 0; i < WORDS; i++)
		mxt_eq(t->window[i], 0);
	end(t);
}

static void ends_windows(void *arg)
{
	struct delegation *t = arg;
	uint64_t rng = 7, key = KEY;

	for (unsigned round = 0; round < 40; round++) {
		for (uint64_t n = twt_random(&rng) % 200; n > 0; n--)
			poll_owner(t);
		mxt_ok(mx_window_deregister(t->p.b, key));
		mxt_ok(mx_window_register(t->p.b, t->window, sizeof(t->window),
					  MX_WINDOW_READ | MX_WINDOW_WRITE, &key));
	}
	atomic_store(&t->over, true);
}

/* Windows end while they are accessed: each access ends, the ones that the owner refuses too. */
Test(mx_delegate, window_ends)
{
	static const uint32_t lens[] = {8, 56, 57, 4096};
	static char buf[4096];
	struct delegation *t = begin();
	struct mxt_thread thread;
	mx_request_t r, none = mxt_irecv(t->p.a, NULL, 0, 1);

	mxt_start(&thread, ends_windows, t);
	for (unsigned i = 0; !atomic_load(&t->over); i++) {
		uint32_t len = lens[i / 2 % 4], result = 0;
		mx_status_t st;

		r = i % 2 ? put(t, buf, 0, len) : get(t, buf, 0, len);
		while (!result) {
			mxt_ok(mx_test(t->p.a, &r, &st, &result));
			/* Nobody else polls for the owner any more. */
			if (atomic_load(&t->over))
				poll_owner(t);
		}
		if (st.code != MX_STATUS_SUCCESS)
			mxt_eq(st.code, MX_STATUS_BAD_RDMAWIN);
		/* A poll, which the end of a window waits for. */
		mxt_pending(t->p.a, &none);
	}
	mxt_join(&thread);
	end(t);
}

enum { LARGE = 1 << 20, PUTS = 2000 };

static void receives_large(void *arg)
{
	struct delegation *t = arg;
	static char in[LARGE];
	mx_request_t r = mxt_irecv(t->p.b, in, LARGE, 2);

	for (unsigned i = 0; i < 100; i++)
		poll_owner(t);
	atomic_store(&t->ready, true);
	while (!test(t->p.b, &r))
		;
	atomic_store(&t->over, true);
}

/* A side that only puts does not poll: nobody waits for data that it is to send. */
Test(mx_delegate, puts_are_no_polls)
{
	static mx_request_t puts[PUTS];
	static char out[LARGE];
	struct delegation *t = begin();
	struct mxt_thread thread;
	uint64_t value = 1;
	mx_request_t send;

	for (unsigned round = 0; round < 20; round++) {
		unsigned n = 0;

		t->ready = t->over = false;
		mxt_start(&thread, receives_large, t);
		while (!atomic_load(&t->ready))
			;
		send = mxt_isend(t->p.a, out, LARGE, t->p.ab, 2);
		while (!atomic_load(&t->over))
			if (n < PUTS)
				puts[n++] = put(t, &value, 1, sizeof(value));
		mxt_join(&thread);
		finish(t, &send, false);
		while (n > 0)
			finish(t, &puts[--n], false);
	}
	end(t);
}
