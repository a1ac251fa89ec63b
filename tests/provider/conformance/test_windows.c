/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access over every provider, by mx_put() and mx_get(), twice each: as the provider
 * moves the data, and served by the owner. The owner is a process that has made its window
 * and does something else, the other accesses it. Over `self' it is one endpoint.
 * Needs: MX
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twc.h"
#include "mx_extensions.h"
#include "provider/pair.h"

#define KEY 0x1122334455667788ull
#define SIZE (3u << 20)
#define RIGHTS (MX_WINDOW_READ | MX_WINDOW_WRITE)
#define LONG_MS (1000u * (uint32_t)TWT_LONG)
#define FILTER 7

#define ok(call) twc_eq(call, MX_SUCCESS)

/* One of the two processes; peer is the other. */
struct side {
	mx_endpoint_t ep;
	mx_endpoint_addr_t peer;
	struct twt_child child;
	int fd;
	char *memory; /* of the owner, SIZE bytes */
	const char *providers, *protocol;
	void (*owner)(struct side *s);
};

static void set_up(const struct traits *t, const char *protocol)
{
	char names[64];

	if (!*t->name || !strcmp(t->name, "lossy"))
		cr_skip_test("nothing that mx_init() finds by name");
	twc_job();
	snprintf(names, sizeof(names), "self,%s", t->name);
	setenv("TAGWIRE_PROVIDERS", names, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_RNDV", protocol, 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
}

static void open_endpoint(struct side *s)
{
	ok(mx_init());
	ok(mx_open_endpoint(twt_board, MX_ANY_ENDPOINT, FILTER, NULL, 0, &s->ep));
}

static void meet(struct side *s)
{
	struct {
		uint64_t nic;
		uint32_t id;
	} me = {0, 0}, other;
	mx_endpoint_addr_t addr;

	open_endpoint(s);
	ok(mx_get_endpoint_addr(s->ep, &addr));
	ok(mx_decompose_endpoint_addr(addr, &me.nic, &me.id));
	twc_eq(twt_put(s->fd, &me, sizeof(me)), 0);
	twc_eq(twt_get(s->fd, &other, sizeof(other)), 0);
	ok(mx_connect(s->ep, other.nic, other.id, FILTER, TWT_LONG, &s->peer));
	twc_tell(s->fd);
	twc_hear(s->fd);
}

static void make_window(struct side *s, uint32_t rights)
{
	uint64_t key = KEY;

	s->memory = malloc(SIZE);
	twc_check(s->memory);
	twt_fill(s->memory, SIZE, 1);
	ok(mx_window_register(s->ep, s->memory, SIZE, rights, &key));
	twc_eq(key, KEY);
}

static int far_side(void *arg, int fd)
{
	struct side *s = arg;

	s->fd = fd;
	meet(s);
	make_window(s, RIGHTS);
	twc_tell(fd);
	if (s->owner)
		s->owner(s);
	else
		twc_hear(fd); /* it computes, or sleeps: it makes no call */
	ok(mx_close_endpoint(s->ep));
	ok(mx_finalize());
	return 0;
}

/* The side that accesses; s->peer is the owner. */
static void begin(struct side *s, const struct traits *t, const char *protocol,
		  void (*owner)(struct side *s))
{
	set_up(t, protocol);
	memset(s, 0, sizeof(*s));
	s->owner = owner;
	if (!(t->can & OTHERS)) {
		open_endpoint(s);
		ok(mx_get_endpoint_addr(s->ep, &s->peer));
		make_window(s, RIGHTS);
		return;
	}
	twt_spawn(&s->child, far_side, s);
	s->fd = s->child.fd;
	meet(s);
	twc_hear(s->fd);
}

static void end(struct side *s)
{
	if (s->fd && !s->owner)
		twc_tell(s->fd);
	if (s->fd)
		twc_eq(twt_join(&s->child, TWT_LONG), 0);
	ok(mx_close_endpoint(s->ep));
	ok(mx_finalize());
}

static mx_request_t put(struct side *s, const void *from, uint32_t len, uint64_t key,
			uint64_t offset)
{
	mx_segment_t seg = {(void *)(uintptr_t)from, len};
	mx_request_t r;

	ok(mx_put(s->ep, &seg, 1, s->peer, key, offset, 1, s, &r));
	return r;
}

static mx_request_t get(struct side *s, void *to, uint32_t len, uint64_t key, uint64_t offset)
{
	mx_segment_t seg = {to, len};
	mx_request_t r;

	ok(mx_get(s->ep, &seg, 1, s->peer, key, offset, 2, s, &r));
	return r;
}

static mx_status_code_t finish(struct side *s, mx_request_t r)
{
	uint32_t result = 0;
	mx_status_t st;

	ok(mx_wait(s->ep, &r, LONG_MS, &st, &result));
	twc_check(result);
	twc_check(st.context == s);
	if (st.code == MX_STATUS_SUCCESS)
		twc_eq(st.xfer_length, st.msg_length);
	return st.code;
}

#define ends(s, r, want) twc_eq(finish(s, r), want)
#define succeeds(s, r) ends(s, r, MX_STATUS_SUCCESS)

static void sizes(const struct traits *t, const char *protocol)
{
	static const uint32_t lens[] = {0,    1,     7,	     8,	     63,	  64,	  1000,	  4097,
					8191, 8192, 8193, 65537, 1 << 20, (1 << 20) + 3, SIZE - 5};
	char *out = malloc(SIZE), *in = malloc(SIZE + 1);
	struct side s;

	twc_check(out && in);
	begin(&s, t, protocol, NULL);
	succeeds(&s, get(&s, in, SIZE, KEY, 0));
	twc_eq(twt_check(in, SIZE, 1), SIZE);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		uint32_t len = lens[i], at = i % 6;

		twt_fill(out, len, i + 2);
		in[len] = 'x';
		succeeds(&s, put(&s, out, len, KEY, at));
		memset(in, 0, len);
		succeeds(&s, get(&s, in, len, KEY, at));
		twc_eq(twt_check(in, len, i + 2), len);
		twc_eq(in[len], 'x');
	}
	end(&s);
	free(out);
	free(in);
}

CONFORMANCE(window_sizes, ANY)
{
	sizes(t, "auto");
}

CONFORMANCE(window_sizes_served, ANY)
{
	sizes(t, "push");
}
