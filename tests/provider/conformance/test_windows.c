/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access over every provider, by mx_put() and mx_get(), twice each: as the provider
 * moves the data, and served by the owner. The owner is a process that has made its window
 * and does something else, the other accesses it. Over `self' it is one endpoint.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#if TW_HAVE_MX
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* Once as the provider moves data, once served. */
#define BOTH(test, traits)                                                                         \
	CONFORMANCE(window_##test, traits)                                                         \
	{                                                                                          \
		test(t, "auto");                                                                   \
	}                                                                                          \
	CONFORMANCE(window_##test##_served, traits)                                                \
	{                                                                                          \
		test(t, "push");                                                                   \
	}

BOTH(sizes, ANY)

/* Pieces on this side, and a window that ends where an access does. */
static void pieces(const struct traits *t, const char *protocol)
{
	char *out = malloc(SIZE), *in = malloc(SIZE);
	mx_segment_t from[MX_MAX_SEGMENTS], to[2] = {{in, 77777}, {in + 77777, SIZE - 77777}};
	uint32_t at = 0;
	struct side s;
	mx_request_t r;

	twc_check(out && in);
	twt_fill(out, SIZE, 9);
	for (unsigned i = 0; i < MX_MAX_SEGMENTS; i++) {
		uint32_t len = i == MX_MAX_SEGMENTS - 1 ? SIZE - at : i * 41;

		from[i] = (mx_segment_t){out + at, len};
		at += len;
	}
	begin(&s, t, protocol, NULL);
	ok(mx_put(s.ep, from, MX_MAX_SEGMENTS, s.peer, KEY, 0, 0, &s, &r));
	succeeds(&s, r);
	ok(mx_get(s.ep, to, 2, s.peer, KEY, 0, 0, &s, &r));
	succeeds(&s, r);
	twc_eq(twt_check(in, SIZE, 9), SIZE);
	end(&s);
	free(out);
	free(in);
}

BOTH(pieces, ANY)

enum { MANY = 500, EACH = 4001 };

/* All under way at once, then a flush: the requests that it waits for have ended. */
static void many(const struct traits *t, const char *protocol)
{
	char *out = malloc(MANY * EACH), *in = malloc(MANY * EACH);
	mx_request_t r[MANY], flush;
	struct side s;

	twc_check(out && in);
	twt_fill(out, MANY * EACH, 3);
	begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < MANY; i++)
		r[i] = put(&s, out + i * EACH, EACH, KEY, i * EACH);
	ok(mx_flush(s.ep, s.peer, 3, &s, &flush));
	succeeds(&s, flush);
	for (unsigned i = 0; i < MANY; i++) {
		uint32_t result = 0;
		mx_status_t st;

		ok(mx_test(s.ep, &r[i], &st, &result));
		twc_check(result);
		twc_eq(st.code, MX_STATUS_SUCCESS);
		twc_eq(st.msg_length, EACH);
	}
	for (unsigned i = 0; i < MANY; i++)
		r[i] = get(&s, in + i * EACH, EACH, KEY, i * EACH);
	for (unsigned i = MANY; i-- > 0;)
		succeeds(&s, r[i]);
	twc_eq(twt_check(in, MANY * EACH, 3), MANY * EACH);
	end(&s);
	free(out);
	free(in);
}

BOTH(many, ANY)

enum { THREADS = 4, PART = SIZE / THREADS, ROUNDS = 40 };

struct part {
	struct side *s;
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
		succeeds(p->s, put(p->s, out, len, KEY, at));
		succeeds(p->s, get(p->s, in, len, KEY, at));
		twc_check(!memcmp(in, out, len));
	}
	free(out);
	free(in);
}

static void threads(const struct traits *t, const char *protocol)
{
	struct part parts[THREADS] = {0};
	struct side s;

	begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		parts[i].s = &s;
		parts[i].n = i;
		twc_start(&parts[i].thread, use_part, &parts[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		twc_join(&parts[i].thread);
	end(&s);
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
	struct side s;

	twc_check(memory);
	begin(&s, t, protocol, NULL);
	for (unsigned i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		mx_status_code_t want =
			tries[i].allowed ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN;

		ends(&s, put(&s, memory, tries[i].len, tries[i].key, tries[i].offset), want);
		ends(&s, get(&s, memory, tries[i].len, tries[i].key, tries[i].offset), want);
	}
	end(&s);
	free(memory);
}

BOTH(refusals, ANY)

/* Windows with one right each: keys that the library chose, and the owner tells. */
static void rights_owner(struct side *s)
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
	struct side s;

	begin(&s, t, protocol, rights_owner);
	twc_eq(twt_get(s.fd, key, sizeof(key)), 0);
	for (unsigned i = 0; i < 3; i++) {
		ends(&s, get(&s, buf, 8, key[i], 0),
		     i == 0 ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN);
		ends(&s, put(&s, buf, 8, key[i], 0),
		     i == 1 ? MX_STATUS_SUCCESS : MX_STATUS_BAD_RDMAWIN);
	}
	twc_tell(s.fd);
	end(&s);
}

BOTH(rights, OTHERS)

/* A message that follows a put finds it. */
static void order_owner(struct side *s)
{
	for (uint32_t i = 0; i < 200; i++) {
		mx_segment_t none = {NULL, 0};
		mx_request_t r;
		uint32_t seen;

		ok(mx_irecv(s->ep, &none, 1, i, MX_MATCH_MASK_NONE, s, &r));
		succeeds(s, r);
		memcpy(&seen, s->memory + i * 4099, sizeof(seen));
		twc_eq(seen, i + 7);
	}
}

static void order(const struct traits *t, const char *protocol)
{
	uint32_t value[200];
	struct side s;

	begin(&s, t, protocol, order_owner);
	for (uint32_t i = 0; i < 200; i++) {
		mx_segment_t none = {NULL, 0};
		mx_request_t r, flush;

		value[i] = i + 7;
		r = put(&s, &value[i], 4, KEY, i * 4099);
		ok(mx_flush(s.ep, s.peer, 0, &s, &flush));
		succeeds(&s, flush);
		succeeds(&s, r);
		ok(mx_isend(s.ep, &none, 1, s.peer, i, &s, &r));
		succeeds(&s, r);
	}
	end(&s);
}

BOTH(order, OTHERS)

enum { ENDS = 60 };

/* As soon as a window is deregistered its memory is the owner's. */
static void ending_owner(struct side *s)
{
	uint64_t key = KEY;

	for (unsigned i = 0; i < ENDS / twt_slow() + 1; i++) {
		ok(mx_window_deregister(s->ep, KEY));
		memset(s->memory, 'o', SIZE);
		usleep(i % 3 * 300);
		for (uint32_t k = 0; k < SIZE; k++)
			twc_check(s->memory[k] == 'o');
		ok(mx_window_register(s->ep, s->memory, SIZE, RIGHTS, &key));
		usleep(i % 5 * 300);
	}
	twc_tell(s->fd);
	twc_hear(s->fd);
}

static void endings(const struct traits *t, const char *protocol)
{
	static const uint32_t lens[] = {8, 5000, SIZE, 100000, 0};
	char *memory = malloc(SIZE), over = 0;
	unsigned done = 0, denied = 0;
	struct side s;

	twc_check(memory);
	memset(memory, 'p', SIZE);
	begin(&s, t, protocol, ending_owner);
	for (unsigned i = 0; recv(s.fd, &over, 1, MSG_DONTWAIT) <= 0; i++) {
		mx_request_t r[5];

		for (unsigned k = 0; k < 5; k++)
			r[k] = (i + k) % 4 ? put(&s, memory, lens[k], KEY, SIZE - lens[k])
					   : get(&s, memory, lens[k], KEY, 0);
		for (unsigned k = 0; k < 5; k++) {
			mx_status_code_t code = finish(&s, r[k]);

			done += code == MX_STATUS_SUCCESS;
			denied += code != MX_STATUS_SUCCESS;
			if (code != MX_STATUS_SUCCESS)
				twc_eq(code, MX_STATUS_BAD_RDMAWIN);
		}
		memset(memory, 'p', SIZE);
	}
	twc_check(done && denied);
	succeeds(&s, put(&s, memory, SIZE, KEY, 0));
	twc_tell(s.fd);
	end(&s);
	free(memory);
}

BOTH(endings, OTHERS)

/* All that was begun ends when the owner is gone, however it goes. */
static void gone(const struct traits *t, const char *protocol, void (*owner)(struct side *s))
{
	char *memory = malloc(SIZE);
	mx_status_code_t code;
	mx_request_t r[50], flush;
	struct side s;

	twc_check(memory);
	begin(&s, t, protocol, owner);
	succeeds(&s, get(&s, memory, SIZE, KEY, 0));
	if (!owner)
		twc_eq(kill(s.child.pid, SIGKILL), 0);
	else
		twc_tell(s.fd);
	for (double until = twt_now() + TWT_LONG;;) {
		twc_check(twt_now() < until);
		for (unsigned i = 0; i < 50; i++)
			r[i] = put(&s, memory, i % 10 ? 100 : SIZE, i % 7 ? KEY : i, 0);
		ok(mx_flush(s.ep, s.peer, 0, &s, &flush));
		code = finish(&s, flush);
		for (unsigned i = 0; i < 50; i++)
			finish(&s, r[i]);
		if (code != MX_STATUS_SUCCESS)
			break;
	}
	twc_check(code == MX_STATUS_ENDPOINT_UNREACHABLE || code == MX_STATUS_ENDPOINT_CLOSED);
	ends(&s, get(&s, memory, 8, KEY, 0), code);
	twc_eq(twt_join(&s.child, TWT_LONG), owner ? 0 : 1000 + SIGKILL);
	ok(mx_close_endpoint(s.ep));
	ok(mx_finalize());
	free(memory);
}

static void closing_owner(struct side *s)
{
	twc_hear(s->fd);
	usleep(2000);
}

static void owner_dies(const struct traits *t, const char *protocol)
{
	gone(t, protocol, NULL);
}

static void owner_closes(const struct traits *t, const char *protocol)
{
	gone(t, protocol, closing_owner);
}

BOTH(owner_dies, OTHERS)
BOTH(owner_closes, OTHERS)

/* A peer that dies holds up no deregistration. */
static int using_side(void *arg, int fd)
{
	struct side *s = arg;
	char *memory = malloc(SIZE);

	s->fd = fd;
	meet(s);
	twc_hear(fd);
	twc_check(memory);
	succeeds(s, get(s, memory, SIZE, KEY, 0));
	twc_tell(fd);
	for (;;)
		finish(s, put(s, memory, SIZE, KEY, 0));
}

static void user_dies(const struct traits *t, const char *protocol)
{
	struct side s = {0};

	set_up(t, protocol);
	twt_spawn(&s.child, using_side, &s);
	s.fd = s.child.fd;
	meet(&s);
	make_window(&s, RIGHTS);
	twc_tell(s.fd);
	twc_hear(s.fd);
	usleep(1000);
	twc_eq(kill(s.child.pid, SIGKILL), 0);
	ok(mx_window_deregister(s.ep, KEY));
	memset(s.memory, 'o', SIZE);
	usleep(1000);
	for (uint32_t k = 0; k < SIZE; k++)
		twc_check(s.memory[k] == 'o');
	twc_eq(twt_join(&s.child, TWT_LONG), 1000 + SIGKILL);
	ok(mx_close_endpoint(s.ep));
	ok(mx_finalize());
}

BOTH(user_dies, OTHERS)

/* Bad arguments. */
CONFORMANCE(window_arguments, ANY)
{
	mx_segment_t seg = {&(char){0}, 1};
	mx_endpoint_t none = NULL;
	mx_request_t r = (mx_request_t)7;
	uint64_t key = KEY;
	struct side s;

	begin(&s, t, "auto", NULL);
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
	ends(&s, put(&s, &key, 8, KEY, 0), MX_STATUS_BAD_SESSION);
	ok(mx_flush(s.ep, s.peer, 0, &s, &r));
	ends(&s, r, MX_STATUS_BAD_SESSION);
	end(&s);
}

#endif /* TW_HAVE_MX */
