/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the engine has of one-sided access beside put and get, over every provider: atomics,
 * and puts that notify. Two endpoints of this process, or with `self' one.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "engine/engine.h"
#include "engine/window_internal.h"
#include "lib/twc.h"
#include "provider/pair.h"

#if TW_USES_WINDOWS

#define KEY 5
#define FILTER 7
#define WORDS 64

struct notice {
	uint64_t datum;
	uint32_t len;
};

static struct {
	uint64_t a, b; /* handles of who accesses, and of the owner */
	struct tw_addr to;
	uint64_t memory[WORDS];
	struct notice notices[100];
	unsigned n, refuse;
} w;

/* Refuses the first, which come again. */
static enum tw_err notified(struct tw_ep *ep, struct tw_peer *p, uint64_t datum, uint32_t len)
{
	(void)ep, (void)p;
	if (w.refuse) {
		w.refuse--;
		return TW_AGAIN;
	}
	twc_check(w.n < tw_countof(w.notices));
	/* The data came before. */
	if (len)
		twc_eq(w.memory[datum % WORDS], datum);
	w.notices[w.n++] = (struct notice){datum, len};
	return TW_OK;
}

static const struct tw_interface interface = {.ids = 8, .window_notified = notified};
static const struct tw_interface deaf = {.ids = 8};

static uint64_t open_ep(uint32_t id, const struct tw_interface *iface)
{
	struct tw_open how = {.number = id, .filter = FILTER, .unexp_max = 1 << 20, .iface = iface};
	uint64_t handle;

	twc_eq(tw_ep_open(&how, &handle), TW_OK);
	return handle;
}

static bool done(struct tw_ep *ep, void *r)
{
	(void)ep;
	return ((struct tw_req *)r)->flags & TW_R_DONE;
}

static enum tw_status finish(struct tw_ep *ep, struct tw_req *r)
{
	enum tw_status status;

	twc_check(r);
	twc_eq(tw_wait(ep, done, r, 1000000ull * (unsigned)TWT_LONG), TW_W_TRUE);
	status = (enum tw_status)r->status;
	tw_req_free(ep, r);
	return status;
}

static struct tw_ep *begin(const struct traits *t, const struct tw_interface *iface)
{
	struct tw_ep *ep, *owner;
	uint64_t key = KEY;
	char names[64];
	struct tw_req *r;

	if (!*t->name || !strcmp(t->name, "lossy"))
		cr_skip_test("nothing that is found by name");
	twc_job();
	snprintf(names, sizeof(names), "self,%s", t->name);
	setenv("TAGWIRE_PROVIDERS", names, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	twc_eq(tw_begin(), TW_OK);
	w.a = w.b = open_ep(1, t->can & OTHERS ? &deaf : iface);
	if (t->can & OTHERS)
		w.b = open_ep(2, iface);
	owner = tw_enter(w.b);
	twc_eq(tw_window_register(owner, w.memory, sizeof(w.memory), 7, &key), TW_OK);
	w.to = owner->self->addr;
	tw_leave(owner);
	ep = tw_enter(w.a);
	if (t->can & OTHERS) {
		r = tw_connect_new(ep, w.to.where >> 16, w.to.where & 0xffff, FILTER, TW_FOREVER);
		tw_connect(ep, r);
		twc_eq(tw_wait(ep, done, r, 1000000ull * (unsigned)TWT_LONG), TW_W_TRUE);
		w.to = r->other;
		twc_eq(finish(ep, r), TW_S_OK);
	}
	return ep;
}

static void end(struct tw_ep *ep)
{
	tw_leave(ep);
	twc_eq(tw_ep_close(w.a), TW_OK);
	if (w.b != w.a)
		twc_eq(tw_ep_close(w.b), TW_OK);
	tw_end();
}

static struct tw_req *change(struct tw_ep *ep, uint64_t key, uint64_t offset,
			     const struct tw_atomic *a)
{
	struct tw_req *r = tw_window_atomic(ep, a);

	if (r)
		tw_window_access(ep, r, w.to, key, offset);
	return r;
}

/* One element at a byte of the window; returns what was there. */
static uint64_t one(struct tw_ep *ep, enum tw_atomic_op op, enum tw_atomic_type type,
		    uint64_t offset, uint64_t operand, uint64_t compare)
{
	uint64_t old = 0;
	struct tw_atomic a = {op, type, 1, &operand, &compare, &old};

	twc_eq(finish(ep, change(ep, KEY, offset, &a)), TW_S_OK);
	return old;
}

static uint64_t of_float(float f)
{
	uint64_t bits = 0;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

static uint64_t of_double(double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

/* What one operation does to an element; operands as their bytes lie in memory. */
static const struct {
	enum tw_atomic_op op;
	enum tw_atomic_type type;
	int64_t old, operand, compare, new;
} sums[] = {
	{TW_ATOMIC_SUM, TW_ATOMIC_INT8, 127, 1, 0, -128},
	{TW_ATOMIC_SUM, TW_ATOMIC_UINT8, 255, 3, 0, 2},
	{TW_ATOMIC_SUM, TW_ATOMIC_INT32, INT32_MAX, 1, 0, INT32_MIN},
	{TW_ATOMIC_SUM, TW_ATOMIC_INT64, INT64_MAX, 1, 0, INT64_MIN},
	{TW_ATOMIC_PROD, TW_ATOMIC_INT16, -3, 7, 0, -21},
	{TW_ATOMIC_PROD, TW_ATOMIC_UINT64, -1, 2, 0, -2},
	{TW_ATOMIC_MIN, TW_ATOMIC_INT32, 5, -7, 0, -7},
	{TW_ATOMIC_MIN, TW_ATOMIC_UINT32, 5, -7, 0, 5},
	{TW_ATOMIC_MAX, TW_ATOMIC_INT8, -1, 1, 0, 1},
	{TW_ATOMIC_MAX, TW_ATOMIC_UINT8, 255, 1, 0, 255},
	{TW_ATOMIC_LOR, TW_ATOMIC_INT16, 0, 8, 0, 1},
	{TW_ATOMIC_LAND, TW_ATOMIC_INT16, 4, 8, 0, 1},
	{TW_ATOMIC_LAND, TW_ATOMIC_INT16, 4, 0, 0, 0},
	{TW_ATOMIC_LXOR, TW_ATOMIC_INT16, 4, 8, 0, 0},
	{TW_ATOMIC_BOR, TW_ATOMIC_UINT16, 0x0f0f, 0x1111, 0, 0x1f1f},
	{TW_ATOMIC_BAND, TW_ATOMIC_UINT64, 0x0f0f, 0x1111, 0, 0x0101},
	{TW_ATOMIC_BXOR, TW_ATOMIC_INT32, 0x0f0f, 0x1111, 0, 0x1e1e},
	{TW_ATOMIC_READ, TW_ATOMIC_INT64, 77, 1, 0, 77},
	{TW_ATOMIC_WRITE, TW_ATOMIC_INT64, 77, 78, 0, 78},
	{TW_ATOMIC_CSWAP, TW_ATOMIC_UINT64, 7, 9, 7, 9},
	{TW_ATOMIC_CSWAP, TW_ATOMIC_UINT64, 7, 9, 8, 7},
	{TW_ATOMIC_CSWAP_NE, TW_ATOMIC_INT32, 7, 9, 8, 9},
	{TW_ATOMIC_CSWAP_LE, TW_ATOMIC_INT32, 7, 9, 7, 9},
	{TW_ATOMIC_CSWAP_LT, TW_ATOMIC_INT32, 7, 9, 7, 7},
	{TW_ATOMIC_CSWAP_GE, TW_ATOMIC_INT32, 7, 9, -8, 7},
	{TW_ATOMIC_CSWAP_GE, TW_ATOMIC_UINT32, 7, 9, -8, 9},
	{TW_ATOMIC_CSWAP_GT, TW_ATOMIC_INT32, 7, 9, 8, 9},
	{TW_ATOMIC_MSWAP, TW_ATOMIC_UINT32, 0x1234, 0xabcd, 0x00f0, 0x12c4},
};

CONFORMANCE(window_atomics, ANY)
{
	struct tw_ep *ep;

	if (*(const char *)&(int){1} == 0)
		cr_skip_test("the operands are written for little endian");
	ep = begin(t, &interface);
	for (unsigned i = 0; i < tw_countof(sums); i++) {
		uint32_t size = tw_atomic_size(sums[i].type);
		/* Aligned and not; the bytes beside it stay. */
		uint64_t at = 16 + (i % 2) * 3;
		uint8_t *element = (uint8_t *)w.memory + at;
		uint64_t old, got = 0, want = (uint64_t)sums[i].new;

		memset(w.memory, 0xa5, sizeof(w.memory));
		memcpy(element, &sums[i].old, size);
		old = one(ep, sums[i].op, sums[i].type, at, (uint64_t)sums[i].operand,
			  (uint64_t)sums[i].compare);
		twc_check(!memcmp(&old, &sums[i].old, size));
		memcpy(&got, element, size);
		twc_check(!memcmp(&got, &want, size));
		twc_eq(element[-1], 0xa5);
		twc_eq(element[size], 0xa5);
	}
	w.memory[0] = of_float(1.5f);
	one(ep, TW_ATOMIC_SUM, TW_ATOMIC_FLOAT, 0, of_float(0.25f), 0);
	twc_eq((uint32_t)w.memory[0], of_float(1.75f));
	w.memory[0] = of_double(-1);
	one(ep, TW_ATOMIC_MIN, TW_ATOMIC_DOUBLE, 0, of_double(-2.5), 0);
	twc_eq(w.memory[0], of_double(-2.5));
	end(ep);
}

/* Many at once, in order: each finds what the one before has left. */
CONFORMANCE(window_atomics_in_order, ANY)
{
	struct tw_ep *ep = begin(t, &interface);
	enum { N = 400 };
	struct tw_req *r[N];
	uint64_t old[N][2];

	memset(w.memory, 0, sizeof(w.memory));
	for (uint64_t i = 0; i < N; i++) {
		struct tw_atomic a = {TW_ATOMIC_SUM, TW_ATOMIC_UINT64, 2, (uint64_t[]){1, i}, NULL,
				      old[i]};

		r[i] = change(ep, KEY, 8, &a);
	}
	for (uint64_t i = 0; i < N; i++) {
		twc_eq(finish(ep, r[i]), TW_S_OK);
		twc_eq(old[i][0], i);
		twc_eq(old[i][1], i * (i - 1) / 2);
	}
	twc_eq(w.memory[1], N);
	end(ep);
}

CONFORMANCE(window_atomics_refused, ANY)
{
	struct tw_ep *ep = begin(t, &interface), *owner;
	uint64_t buf[200] = {0}, key = KEY + 1;
	struct tw_atomic a = {TW_ATOMIC_SUM, TW_ATOMIC_UINT64, 1, buf, buf, buf};

	twc_eq(finish(ep, change(ep, 99, 0, &a)), TW_S_BAD_WINDOW);
	twc_eq(finish(ep, change(ep, KEY, sizeof(w.memory) - 7, &a)), TW_S_OUT_OF_WINDOW);
	tw_leave(ep);
	owner = tw_enter(w.b);
	twc_eq(tw_window_register(owner, w.memory, 64, TW_WINDOW_ATOMIC, &key), TW_OK);
	tw_leave(owner);
	ep = tw_enter(w.a);
	twc_eq(finish(ep, change(ep, key, 0, &a)), TW_S_NO_RIGHT);
	a.result = NULL;
	twc_eq(finish(ep, change(ep, key, 0, &a)), TW_S_OK);
	a.count = 0;
	twc_check(!tw_window_atomic(ep, &a));
	a.count = TW_ATOMIC_MAX_BYTES / 8 + 1;
	twc_check(!tw_window_atomic(ep, &a));
	a = (struct tw_atomic){TW_ATOMIC_BOR, TW_ATOMIC_FLOAT, 1, buf, NULL, NULL};
	twc_check(!tw_window_atomic(ep, &a));
	a.op = TW_ATOMIC_READ;
	twc_check(!tw_window_atomic(ep, &a));
	a.op = TW_ATOMIC_OPS;
	twc_check(!tw_window_atomic(ep, &a));
	end(ep);
}

/* The owner says that it may be changed, but it is read-only. */
CONFORMANCE(window_atomics_read_only, ANY)
{
	size_t len = 2 * tw_page_size();
	char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct tw_ep *ep = begin(t, &interface), *owner;
	uint64_t v[2] = {1, 1}, old[2] = {0}, key = KEY + 1;
	struct tw_atomic change_it = {TW_ATOMIC_SUM, TW_ATOMIC_UINT64, 1, v, NULL, NULL};
	struct tw_atomic fetch = {TW_ATOMIC_READ, TW_ATOMIC_UINT64, 1, v, NULL, old};
	struct tw_atomic across = {TW_ATOMIC_SUM, TW_ATOMIC_UINT64, 2, v, NULL, old};

	twc_check(memory != MAP_FAILED);
	memset(memory, 7, len);
	twc_eq(mprotect(memory + len / 2, len / 2, PROT_READ), 0);
	tw_leave(ep);
	owner = tw_enter(w.b);
	twc_eq(tw_window_register(owner, memory, len, 7, &key), TW_OK);
	tw_leave(owner);
	ep = tw_enter(w.a);
	twc_eq(finish(ep, change(ep, key, len / 2, &change_it)), TW_S_ABORTED);
	twc_eq(finish(ep, change(ep, key, len / 2 - 8, &across)), TW_S_ABORTED);
	twc_eq(finish(ep, change(ep, key, len / 2, &fetch)), TW_S_OK);
	twc_eq(old[0], 0x0707070707070707);
	twc_eq(finish(ep, change(ep, key, len / 2 - 8, &change_it)), TW_S_OK);
	twc_eq(*(uint64_t *)(void *)(memory + len / 2 - 8), 0x0707070707070708);
	end(ep);
	munmap(memory, len);
}

static bool all_notified(struct tw_ep *ep, void *n)
{
	(void)ep;
	return w.n == *(unsigned *)n;
}

static void notify(const struct traits *t, const char *protocol)
{
	enum { N = 60 };
	static uint64_t value[N];
	struct tw_req *r[N];
	unsigned n = N, seen = 0;
	struct tw_ep *ep;

	setenv("TAGWIRE_RNDV", protocol, 1);
	w.refuse = 7;
	ep = begin(t, &interface);
	for (uint64_t i = 0; i < N; i++) {
		value[i] = i << 32 | i;
		r[i] = tw_req_new1(ep, TW_WRITE, &value[i], i % 4 ? 8 : 0);
		tw_window_notify(r[i], value[i]);
		tw_window_access(ep, r[i], w.to, KEY, i % WORDS * 8);
	}
	for (unsigned i = 0; i < N; i++)
		twc_eq(finish(ep, r[i]), TW_S_OK);
	tw_leave(ep);
	ep = tw_enter(w.b);
	twc_eq(tw_wait(ep, all_notified, &n, 1000000ull * (unsigned)TWT_LONG), TW_W_TRUE);
	for (unsigned i = 0; i < N; i++)
		for (unsigned k = 0; k < N; k++)
			if (w.notices[i].datum == value[k]) {
				twc_eq(w.notices[i].len, k % 4 ? 8 : 0);
				seen++;
			}
	twc_eq(seen, N);
	tw_leave(ep);
	end(tw_enter(w.a));
}

CONFORMANCE(window_notify, ANY)
{
	notify(t, "auto");
}

CONFORMANCE(window_notify_served, ANY)
{
	notify(t, "copy");
}

/*
 * One that was refused is offered again though its owner's program makes no call, and no more
 * comes. That program is woken for it though it has one processor for all its threads.
 */
CONFORMANCE(window_notify_alone, OTHERS)
{
	double until = twt_now() + TWT_LONG;
	struct tw_ep *ep;
	struct tw_req *r;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	twc_check(sched_setaffinity(0, sizeof(one), &one) == 0);
	w.refuse = 7;
	ep = begin(t, &interface);
	r = tw_req_new1(ep, TW_WRITE, NULL, 0);
	tw_window_notify(r, 1);
	tw_window_access(ep, r, w.to, KEY, 0);
	tw_leave(ep);
	while (*(volatile unsigned *)&w.n == 0) {
		twc_check(twt_now() < until);
		usleep(1000);
	}
	ep = tw_enter(w.a);
	twc_eq(finish(ep, r), TW_S_OK);
	end(ep);
}

/* The owner enforces the rights of a window, if the peer does not. */
CONFORMANCE(window_rights_ignored, RIGHTS)
{
	static char open_memory[16], buffer[16] = "of the peer";
	struct tw_ep *ep = begin(t, &deaf), *owner;
	uint64_t key = KEY + 1;

	tw_leave(ep);
	owner = tw_enter(w.b);
	twc_eq(tw_window_register(owner, open_memory, 16, TW_WINDOW_READ, &key), TW_OK);
	tw_leave(owner);
	ep = tw_enter(w.a);
	for (int put = 0; put < 2; put++) {
		struct tw_req *r = tw_req_new1(ep, put ? TW_WRITE : TW_READ, buffer, 16);

		if (put)
			tw_import_get(tw_peer_at(ep, w.to), key)->grant.rights |= TW_WINDOW_WRITE;
		memcpy(buffer, "of the peer", 12);
		tw_window_access(ep, r, w.to, key, 0);
		twc_eq(finish(ep, r), put ? TW_S_NO_RIGHT : TW_S_OK);
		twc_eq(*open_memory, 0);
	}
	end(ep);
}

/* A peer that does not take notifications is not to get any: it ends the link. */
CONFORMANCE(window_notify_nobody, OTHERS)
{
	struct tw_ep *ep = begin(t, &deaf);
	enum tw_status status = TW_S_OK;
	double until = twt_now() + TWT_LONG;

	while (status == TW_S_OK) {
		struct tw_req *r = tw_req_new1(ep, TW_WRITE, w.memory + 32, 8);

		twc_check(twt_now() < until);
		tw_window_notify(r, 1);
		tw_window_access(ep, r, w.to, KEY, 0);
		status = finish(ep, r);
	}
	twc_check(status == TW_S_LOST || status == TW_S_CLOSED);
	end(ep);
}

#endif /* TW_USES_WINDOWS */
