/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access over every provider, by mx_put() and mx_get(), twice each: as the provider
 * moves the data, and served by the owner.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#if TW_HAVE_MX
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "provider/conformance/windows.h"

static void sizes(const struct traits *t, const char *protocol)
{
	static const uint32_t lens[] = {0,	 1,    7,    8,	   63,	  64,	   1000,
					4097,	 8191, 8192, 8193, 65537, 1 << 20, (1 << 20) + 3,
					SIZE - 5};
	char *out = malloc(SIZE), *in = malloc(SIZE + 1);
	struct win_side s;

	twc_check(out && in);
	win_begin(&s, t, protocol, NULL);
	win_succeeds(&s, win_get(&s, in, SIZE, KEY, 0));
	twc_eq(twt_check(in, SIZE, 1), SIZE);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		uint32_t len = lens[i], at = i % 6;

		twt_fill(out, len, i + 2);
		in[len] = 'x';
		win_succeeds(&s, win_put(&s, out, len, KEY, at));
		memset(in, 0, len);
		win_succeeds(&s, win_get(&s, in, len, KEY, at));
		twc_eq(twt_check(in, len, i + 2), len);
		twc_eq(in[len], 'x');
	}
	win_end(&s);
	free(out);
	free(in);
}

BOTH(sizes, ANY)

/* Pieces on this side, and a window that ends where an access does. */
static void pieces(const struct traits *t, const char *protocol)
{
	char *out = malloc(SIZE), *in = malloc(SIZE);
	mx_segment_t from[MX_MAX_SEGMENTS], to[2] = {{in, 77777}, {in + 77777, SIZE - 77777}};
	uint32_t at = 0;
	struct win_side s;
	mx_request_t r;

	twc_check(out && in);
	twt_fill(out, SIZE, 9);
	for (unsigned i = 0; i < MX_MAX_SEGMENTS; i++) {
		uint32_t len = i == MX_MAX_SEGMENTS - 1 ? SIZE - at : i * 41;

		from[i] = (mx_segment_t){out + at, len};
		at += len;
	}
	win_begin(&s, t, protocol, NULL);
	ok(mx_put(s.ep, from, MX_MAX_SEGMENTS, s.peer, KEY, 0, 0, &s, &r));
	win_succeeds(&s, r);
	ok(mx_get(s.ep, to, 2, s.peer, KEY, 0, 0, &s, &r));
	win_succeeds(&s, r);
	twc_eq(twt_check(in, SIZE, 9), SIZE);
	win_end(&s);
	free(out);
	free(in);
}

BOTH(pieces, ANY)

static void refuses_a_limit(const struct win_side *s, mx_request_t r)
{
	twc_eq(mx_set_request_timeout(s->ep, r, 1), MX_BAD_REQUEST);
	twc_eq(mx_set_request_timeout(s->ep, r, MX_INFINITE), MX_BAD_REQUEST);
}

/* An access has no time limit, neither its own nor that of the endpoint. */
static void limits(const struct traits *t, const char *protocol)
{
	char *out = calloc(1, SIZE);
	mx_request_t put, get, flush;
	struct win_side s;

	twc_check(out);
	win_begin(&s, t, protocol, NULL);
	ok(mx_set_request_timeout(s.ep, NULL, 1));
	put = win_put(&s, out, SIZE, KEY, 0);
	ok(mx_flush(s.ep, s.peer, 3, &s, &flush));
	get = win_get(&s, out, SIZE, KEY, 0);
	refuses_a_limit(&s, put);
	refuses_a_limit(&s, flush);
	refuses_a_limit(&s, get);
	twc_sleep(20);
	win_succeeds(&s, flush);
	win_succeeds(&s, put);
	win_succeeds(&s, get);
	ok(mx_set_request_timeout(s.ep, NULL, MX_INFINITE));
	win_end(&s);
	free(out);
}

BOTH(limits, ANY)

enum { MANY = 500, EACH = 4001 };

/* All under way at once, then a flush: the requests that it waits for have ended. */
static void many(const struct traits *t, const char *protocol)
{
	char *out = malloc(MANY * EACH), *in = malloc(MANY * EACH);
	mx_request_t r[MANY], flush;
	struct win_side s;

	twc_check(out && in);
	twt_fill(out, MANY * EACH, 3);
	win_begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < MANY; i++)
		r[i] = win_put(&s, out + i * EACH, EACH, KEY, i * EACH);
	ok(mx_flush(s.ep, s.peer, 3, &s, &flush));
	win_succeeds(&s, flush);
	for (unsigned i = 0; i < MANY; i++) {
		uint32_t result = 0;
		mx_status_t st;

		ok(mx_test(s.ep, &r[i], &st, &result));
		twc_check(result);
		twc_eq(st.code, MX_STATUS_SUCCESS);
		twc_eq(st.msg_length, EACH);
	}
	for (unsigned i = 0; i < MANY; i++)
		r[i] = win_get(&s, in + i * EACH, EACH, KEY, i * EACH);
	for (unsigned i = MANY; i-- > 0;)
		win_succeeds(&s, r[i]);
	twc_eq(twt_check(in, MANY * EACH, 3), MANY * EACH);
	win_end(&s);
	free(out);
	free(in);
}

BOTH(many, ANY)

enum { THREADS = 4, PART = SIZE / THREADS, ROUNDS = 40 };

struct part {
	struct win_side *s;
	unsigned n;
	struct twc_thread thread;
};

static void use_part(void *arg)
{
	struct part *p = arg;
	char *out = malloc(PART), *in = malloc(PART);
	uint64_t rng = p->n + 1;

	twc_check(out && in);
	for (unsigned i = 0; i < ROUNDS / twt_slow() + 1; i++) {
		uint32_t len = (uint32_t)(twt_random(&rng) % (i % 8 ? 9000 : PART));
		uint64_t at = p->n * (uint64_t)PART + twt_random(&rng) % (PART - len);

		twt_fill(out, len, rng);
		win_succeeds(p->s, win_put(p->s, out, len, KEY, at));
		win_succeeds(p->s, win_get(p->s, in, len, KEY, at));
		twc_check(!memcmp(in, out, len));
	}
	free(out);
	free(in);
}

static void threads(const struct traits *t, const char *protocol)
{
	struct part parts[THREADS] = {0};
	struct win_side s;

	win_begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		parts[i].s = &s;
		parts[i].n = i;
		twc_start(&parts[i].thread, use_part, &parts[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		twc_join(&parts[i].thread);
	win_end(&s);
}

BOTH(threads, ANY)

/* What the window does not allow; and the peer is as good as before. */
static void refusals(const struct traits *t, const char *protocol)
{
	static const struct {
		uint64_t key, offset;
		uint32_t len;
		bool allowed;
	} tries[] = {{KEY + 1, 0, 8, false},
		     {KEY + 1, 0, 0, false},
		     {KEY, SIZE, 0, true},
		     {KEY, SIZE - 8, 8, true},
		     {KEY, SIZE - 8, 9, false},
		     {KEY, SIZE + 1, 0, false},
		     {KEY, SIZE, 1, false},
		     {KEY, UINT64_MAX, 1, false},
		     {KEY, UINT64_MAX - 7, 8, false},
		     {KEY, UINT64_MAX - 7, 100000, false},
		     {0, 0, 8, false},
		     {KEY, 0, 8, true}};
	char *memory = calloc(1, 100000);
	struct win_side s;

	twc_check(memory);
	win_begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		mx_status_code_t want = tries[i].allowed ? MX_STATUS_SUCCESS
							 : MX_STATUS_BAD_RDMAWIN;

		win_ends(&s, win_put(&s, memory, tries[i].len, tries[i].key, tries[i].offset),
			 want);
		win_ends(&s, win_get(&s, memory, tries[i].len, tries[i].key, tries[i].offset),
			 want);
	}
	win_end(&s);
	free(memory);
}

BOTH(refusals, ANY)

/* Windows with one right each: keys that the library chose, and the owner tells. */
static void rights_owner(struct win_side *s)
{
	static const uint32_t rights[] = {MX_WINDOW_READ, MX_WINDOW_WRITE, 0};
	uint64_t key[3];

	for (unsigned i = 0; i < 3; i++)
		ok(mx_window_register(s->ep, s->memory + i * 8, 8, rights[i] | MX_WINDOW_ASSIGN,
				      &key[i]));
	twc_eq(twt_put(s->fd, key, sizeof(key)), 0);
	twc_hear(s->fd);
	for (unsigned i = 0; i < 3; i++)
		ok(mx_window_deregister(s->ep, key[i]));
	twc_eq(mx_window_deregister(s->ep, key[0]), MX_NO_MATCH);
}

static void rights(const struct traits *t, const char *protocol)
{
	char buf[8] = {0};
	uint64_t key[3];
	struct win_side s;

	win_begin(&s, t, protocol, rights_owner);
	twc_eq(twt_get(s.fd, key, sizeof(key)), 0);
	for (unsigned i = 0; i < 3; i++) {
		win_ends(&s, win_get(&s, buf, 8, key[i], 0),
			 i == 0 ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN);
		win_ends(&s, win_put(&s, buf, 8, key[i], 0),
			 i == 1 ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN);
	}
	twc_tell(s.fd);
	win_end(&s);
}

BOTH(rights, OTHERS)

/* A message that follows a put finds it. */
static void order_owner(struct win_side *s)
{
	for (uint32_t i = 0; i < 200; i++) {
		mx_segment_t none = {NULL, 0};
		mx_request_t r;
		uint32_t seen;

		ok(mx_irecv(s->ep, &none, 1, i, MX_MATCH_MASK_NONE, s, &r));
		win_succeeds(s, r);
		memcpy(&seen, s->memory + i * 4099, sizeof(seen));
		twc_eq(seen, i + 7);
	}
}

static void order(const struct traits *t, const char *protocol)
{
	uint32_t value[200];
	struct win_side s;

	win_begin(&s, t, protocol, order_owner);
	for (uint32_t i = 0; i < 200; i++) {
		mx_segment_t none = {NULL, 0};
		mx_request_t r, flush;

		value[i] = i + 7;
		r = win_put(&s, &value[i], 4, KEY, i * 4099);
		ok(mx_flush(s.ep, s.peer, 0, &s, &flush));
		win_succeeds(&s, flush);
		win_succeeds(&s, r);
		ok(mx_isend(s.ep, &none, 1, s.peer, i, &s, &r));
		win_succeeds(&s, r);
	}
	win_end(&s);
}

BOTH(order, OTHERS)

/* Bad arguments. */
CONFORMANCE(window_arguments, ANY)
{
	mx_segment_t seg = {&(char){0}, 1};
	mx_endpoint_t none = NULL;
	mx_request_t r = (mx_request_t)7;
	uint64_t key = KEY;
	struct win_side s;

	win_begin(&s, t, "auto", NULL);
	twc_eq(mx_window_register(none, &s, 1, RIGHTS, &key), MX_BAD_ENDPOINT);
	twc_eq(mx_window_register(s.ep, &s, 1, RIGHTS, NULL), MX_FAILURE);
	twc_eq(mx_window_register(s.ep, &s, 1, 4, &key), MX_FAILURE);
	twc_eq(mx_window_register(s.ep, NULL, 1, RIGHTS, &key), MX_BAD_SEG_MEM);
	twc_eq(mx_window_register(s.ep, &s, SIZE_MAX, RIGHTS, &key), MX_BAD_SEG_MEM);
	key = 1;
	ok(mx_window_register(s.ep, NULL, 0, RIGHTS, &key));
	twc_eq(mx_window_register(s.ep, &s, 1, RIGHTS, &key), MX_BUSY);
	ok(mx_window_deregister(s.ep, 1));
	twc_eq(mx_window_deregister(s.ep, 1), MX_NO_MATCH);
	twc_eq(mx_window_deregister(none, KEY), MX_BAD_ENDPOINT);
	twc_eq(mx_put(none, &seg, 1, s.peer, KEY, 0, 0, NULL, &r), MX_BAD_ENDPOINT);
	twc_eq(mx_put(s.ep, &seg, 1, s.peer, KEY, 0, 0, NULL, NULL), MX_BAD_REQUEST);
	twc_eq(mx_get(s.ep, NULL, 1, s.peer, KEY, 0, 0, NULL, &r), MX_BAD_SEG_LIST);
	twc_eq(mx_get(s.ep, &seg, MX_MAX_SEGMENTS + 1, s.peer, KEY, 0, 0, NULL, &r),
	       MX_BAD_SEG_CNT);
	twc_eq(mx_flush(none, s.peer, 0, NULL, &r), MX_BAD_ENDPOINT);
	twc_eq(mx_flush(s.ep, s.peer, 0, NULL, NULL), MX_BAD_REQUEST);
	twc_check(r == (mx_request_t)7);
	memset(&s.peer, 0xff, sizeof(s.peer));
	win_ends(&s, win_put(&s, &key, 8, KEY, 0), MX_STATUS_BAD_SESSION);
	ok(mx_flush(s.ep, s.peer, 0, &s, &r));
	win_ends(&s, r, MX_STATUS_BAD_SESSION);
	win_end(&s);
}

#endif /* TW_HAVE_MX */
