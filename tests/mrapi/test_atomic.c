/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.8.4 to 4.8.21 Atomic operations, at all mr_widths; test_barrier.c has the barriers. */
#include <stdio.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_atom, .init = twc_job, .timeout = MR_TIMEOUT);

#define FAILS(call) mr_is(MRAPI_ERR_ATOM_OP_FAILED, call)

static const size_t not_widths[] = {0, 3, 5, 7, 9, 16, ~(size_t)0};

/* A word of any width between two guards. */
union word {
	uint64_t v;
	unsigned char bytes[8];
};

struct cell {
	uint64_t before;
	union word w;
	uint64_t after;
};

#define GUARD 0xa5a5a5a5a5a5a5a5ull

/* The low bytes of a value, the others are the guard's. */
static void put(struct cell *c, size_t width, uint64_t v)
{
	c->before = c->w.v = c->after = GUARD;
	memcpy(c->w.bytes, &v, width);
}

static void check_cell(struct cell *c, size_t width, uint64_t want)
{
	uint64_t v = GUARD;

	memcpy(&v, &want, width);
	twc_eq(c->before, GUARD);
	twc_eq(c->after, GUARD);
	twc_eq(c->w.v, v);
}

static const uint64_t values[] = {0,
				  1,
				  2,
				  0x7f,
				  0x80,
				  0xff,
				  0x1234,
				  0x7fff,
				  0xffff,
				  0x12345678,
				  0x80000000,
				  0xffffffff,
				  0x123456789abcdef0ull,
				  0x8000000000000000ull,
				  ~0ull};
enum { V = sizeof(values) / sizeof(*values) };

/* Add, or, and, xor, xchg: the previous value is what they return. */
struct binary {
	void (*call)(void *, void *, const void *, void *, size_t, mrapi_status_t *);
	uint64_t (*model)(uint64_t, uint64_t);
	const char *name;
};

static uint64_t m_add(uint64_t a, uint64_t b)
{
	return a + b;
}
static uint64_t m_or(uint64_t a, uint64_t b)
{
	return a | b;
}
static uint64_t m_and(uint64_t a, uint64_t b)
{
	return a & b;
}
static uint64_t m_xor(uint64_t a, uint64_t b)
{
	return a ^ b;
}
static uint64_t m_xchg(uint64_t a, uint64_t b)
{
	return (void)a, b;
}

static const struct binary binaries[] = {
	{mrapi_atomic_add, m_add, "mrapi_atomic_add"},
	{mrapi_atomic_or, m_or, "mrapi_atomic_or"},
	{mrapi_atomic_and, m_and, "mrapi_atomic_and"},
	{mrapi_atomic_xor, m_xor, "mrapi_atomic_xor"},
	{mrapi_atomic_xchg, m_xchg, "mrapi_atomic_xchg"},
};

/* A call of the table, noted under the function's name. */
#define CALL(b, ...)                                                                               \
	(snprintf(mr_called, sizeof(mr_called), "%s", (b)->name), (b)->call(__VA_ARGS__, &mr_st))

Test(mrapi_atom, binary)
{
	mr_up(MR_NODE);
	for (size_t o = 0; o < 5; o++)
		for (size_t w = 0; w < 4; w++)
			for (int i = 0; i < V * V; i++) {
				const struct binary *b = &binaries[o];
				uint64_t m = mr_mask(mr_widths[w]), x = values[i / V] & m;
				uint64_t y = values[i % V];
				struct cell dest, prev;

				put(&dest, mr_widths[w], x);
				put(&prev, mr_widths[w], 0x77);
				mr_ok(CALL(b, NULL, &dest.w, &y, &prev.w, mr_widths[w]));
				check_cell(&dest, mr_widths[w], b->model(x, y) & m);
				check_cell(&prev, mr_widths[w], x);
				mr_ok(CALL(b, NULL, &dest.w, &y, NULL, mr_widths[w]));
				check_cell(&dest, mr_widths[w], b->model(b->model(x, y), y) & m);
			}
	mr_down();
}

/* Subtraction by a negative value. */
Test(mrapi_atom, subtract)
{
	int8_t a = 5, da = -7;
	int16_t b = 5, db = -300;
	int32_t c = 5, dc = -70000;
	int64_t d = 5, dd = -(1ll << 40);

	mr_up(MR_NODE);
	mr_ok(mrapi_atomic_add(NULL, &a, &da, NULL, 1, &mr_st));
	mr_ok(mrapi_atomic_add(NULL, &b, &db, NULL, 2, &mr_st));
	mr_ok(mrapi_atomic_add(NULL, &c, &dc, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_add(NULL, &d, &dd, NULL, 8, &mr_st));
	twc_eq(a, -2);
	twc_eq(b, -295);
	twc_eq(c, -69995);
	twc_eq(d, 5 - (1ll << 40));
	mr_down();
}

/* Inc and dec return the new value, also over the edge. */
Test(mrapi_atom, inc_dec)
{
	mr_up(MR_NODE);
	for (size_t w = 0; w < 4; w++)
		for (int i = 0; i < V; i++) {
			uint64_t m = mr_mask(mr_widths[w]), x = values[i] & m;
			struct cell dest, now;

			put(&dest, mr_widths[w], x);
			put(&now, mr_widths[w], 0x77);
			mr_ok(mrapi_atomic_inc(NULL, &dest.w, &now.w, mr_widths[w], &mr_st));
			check_cell(&dest, mr_widths[w], (x + 1) & m);
			check_cell(&now, mr_widths[w], (x + 1) & m);
			mr_ok(mrapi_atomic_dec(NULL, &dest.w, &now.w, mr_widths[w], &mr_st));
			mr_ok(mrapi_atomic_dec(NULL, &dest.w, &now.w, mr_widths[w], &mr_st));
			check_cell(&dest, mr_widths[w], (x - 1) & m);
			check_cell(&now, mr_widths[w], (x - 1) & m);
			mr_ok(mrapi_atomic_inc(NULL, &dest.w, NULL, mr_widths[w], &mr_st));
			mr_ok(mrapi_atomic_inc(NULL, &dest.w, NULL, mr_widths[w], &mr_st));
			mr_ok(mrapi_atomic_dec(NULL, &dest.w, NULL, mr_widths[w], &mr_st));
			check_cell(&dest, mr_widths[w], x);
		}
	mr_down();
}

Test(mrapi_atom, read)
{
	mr_up(MR_NODE);
	for (size_t w = 0; w < 4; w++)
		for (int i = 0; i < V; i++) {
			uint64_t x = values[i] & mr_mask(mr_widths[w]);
			struct cell dest, got;

			put(&dest, mr_widths[w], x);
			put(&got, mr_widths[w], 0x77);
			mr_ok(mrapi_atomic_read(NULL, &dest.w, &got.w, mr_widths[w], &mr_st));
			check_cell(&got, mr_widths[w], x);
			check_cell(&dest, mr_widths[w], x);
			mr_ok(mrapi_atomic_read(NULL, &dest.w, NULL, mr_widths[w], &mr_st));
		}
	mr_down();
}

Test(mrapi_atom, cas)
{
	mr_up(MR_NODE);
	for (size_t w = 0; w < 4; w++)
		for (int i = 0; i < V * V; i++) {
			uint64_t m = mr_mask(mr_widths[w]), x = values[i / V] & m;
			uint64_t compare = values[i % V] & m, exchange = 0x5c & m;
			struct cell dest, prev;

			put(&dest, mr_widths[w], x);
			put(&prev, mr_widths[w], 0x77);
			mr_is(x == compare ? MRAPI_SUCCESS : MRAPI_ERR_ATOM_OP_FAILED,
			      mrapi_atomic_cas(NULL, &dest.w, &exchange, &compare, &prev.w,
					       mr_widths[w], &mr_st));
			check_cell(&prev, mr_widths[w], x);
			check_cell(&dest, mr_widths[w], x == compare ? exchange : x);
			mr_is(x == compare || x == exchange ? MRAPI_SUCCESS
							    : MRAPI_ERR_ATOM_OP_FAILED,
			      mrapi_atomic_cas(NULL, &dest.w, &compare, &exchange, NULL,
					       mr_widths[w], &mr_st));
			check_cell(&dest, mr_widths[w],
				   x == compare || x == exchange ? compare : x);
		}
	mr_down();
}

Test(mrapi_atom, pointers)
{
	uintptr_t p = 0, prev = 7, a = (uintptr_t)&p, b = (uintptr_t)&prev;

	mr_up(MR_NODE);
	mr_ok(mrapi_atomic_cas_ptr(NULL, &p, a, 0, &prev, &mr_st));
	twc_check(p == a && prev == 0);
	FAILS(mrapi_atomic_cas_ptr(NULL, &p, b, 0, &prev, &mr_st));
	twc_check(p == a && prev == a);
	mr_ok(mrapi_atomic_cas_ptr(NULL, &p, b, a, NULL, &mr_st));
	twc_check(p == b);
	mr_ok(mrapi_atomic_xchg_ptr(NULL, &p, a, 12345, &prev, &mr_st));
	twc_check(p == a && prev == b);
	/* Without compare, as programs also write it. */
	mr_ok(mrapi_atomic_xchg_ptr(NULL, &p, 0, &prev, &mr_st));
	twc_check(p == 0 && prev == a);
	mr_ok(mrapi_atomic_xchg_ptr(NULL, &p, b, 0, NULL, &mr_st));
	prev = 0;
	mr_ok(mrapi_atomic_read_ptr(NULL, &p, &prev, &mr_st));
	twc_check(prev == b && p == b);
	FAILS(mrapi_atomic_cas_ptr(NULL, NULL, a, 0, &prev, &mr_st));
	FAILS(mrapi_atomic_xchg_ptr(NULL, NULL, a, 0, &prev, &mr_st));
	FAILS(mrapi_atomic_read_ptr(NULL, NULL, &prev, &mr_st));
	mr_down();
}

/* Every bit of every width. What changes nothing fails, and tells what was there. */
Test(mrapi_atom, bits)
{
	mr_up(MR_NODE);
	for (size_t w = 0; w < 4; w++)
		for (int bit = 0; bit < (int)(8 * mr_widths[w]); bit++)
			for (int i = 0; i < V; i++) {
				uint64_t x = values[i] & mr_mask(mr_widths[w]), one = 1ull << bit;
				int had = (x & one) != 0, prev = 7;
				struct cell dest;

				put(&dest, mr_widths[w], x);
				mr_is(had ? MRAPI_ERR_ATOM_OP_FAILED : MRAPI_SUCCESS,
				      mrapi_atomic_set(NULL, &dest.w, bit, &prev, mr_widths[w],
						       &mr_st));
				twc_eq(prev, had);
				check_cell(&dest, mr_widths[w], x | one);
				mr_ok(mrapi_atomic_clear(NULL, &dest.w, bit, &prev, mr_widths[w],
							 &mr_st));
				twc_eq(prev, 1);
				check_cell(&dest, mr_widths[w], x & ~one);
				FAILS(mrapi_atomic_clear(NULL, &dest.w, bit, &prev, mr_widths[w],
							 &mr_st));
				twc_eq(prev, 0);
				check_cell(&dest, mr_widths[w], x & ~one);
				mr_ok(mrapi_atomic_change(NULL, &dest.w, bit, &prev, mr_widths[w],
							  &mr_st));
				twc_eq(prev, 0);
				mr_ok(mrapi_atomic_change(NULL, &dest.w, bit, &prev, mr_widths[w],
							  &mr_st));
				twc_eq(prev, 1);
				mr_ok(mrapi_atomic_set(NULL, &dest.w, bit, NULL, mr_widths[w],
						       &mr_st));
				mr_ok(mrapi_atomic_change(NULL, &dest.w, bit, NULL, mr_widths[w],
							  &mr_st));
				FAILS(mrapi_atomic_clear(NULL, &dest.w, bit, NULL, mr_widths[w],
							 &mr_st));
				check_cell(&dest, mr_widths[w], x & ~one);
			}
	mr_down();
}

/* No such width, nothing to work on, no such bit: nothing is touched. */
static void refused(void *dest, size_t size)
{
	uint64_t v = 1, c = 5, prev = 7;
	int bit = 7;

	for (size_t o = 0; o < 5; o++)
		FAILS(CALL(&binaries[o], NULL, dest, &v, &prev, size));
	FAILS(mrapi_atomic_read(NULL, dest, &prev, size, &mr_st));
	FAILS(mrapi_atomic_inc(NULL, dest, &prev, size, &mr_st));
	FAILS(mrapi_atomic_dec(NULL, dest, &prev, size, &mr_st));
	FAILS(mrapi_atomic_cas(NULL, dest, &v, &c, &prev, size, &mr_st));
	FAILS(mrapi_atomic_lock(NULL, dest, &prev, size, &mr_st));
	FAILS(mrapi_atomic_release(NULL, dest, size, &mr_st));
	FAILS(mrapi_atomic_set(NULL, dest, 0, &bit, size, &mr_st));
	FAILS(mrapi_atomic_clear(NULL, dest, 0, &bit, size, &mr_st));
	FAILS(mrapi_atomic_change(NULL, dest, 0, &bit, size, &mr_st));
	twc_eq(prev, 7);
	twc_eq(bit, 7);
}

Test(mrapi_atom, refused)
{
	struct cell c;
	uint64_t v = 1, prev = 7;
	int bit = 7;

	mr_up(MR_NODE);
	put(&c, 8, 5);
	for (size_t i = 0; i < sizeof(not_widths) / sizeof(*not_widths); i++)
		refused(&c.w, not_widths[i]);
	for (size_t w = 0; w < 4; w++) {
		static const int none[] = {-1, 64, 1000, 0x7fffffff};
		int wide = (int)(8 * mr_widths[w]);

		refused(NULL, mr_widths[w]);
		FAILS(mrapi_atomic_set(NULL, &c.w, wide, &bit, mr_widths[w], &mr_st));
		FAILS(mrapi_atomic_clear(NULL, &c.w, wide, &bit, mr_widths[w], &mr_st));
		FAILS(mrapi_atomic_change(NULL, &c.w, wide, &bit, mr_widths[w], &mr_st));
		for (int i = 0; i < 4; i++)
			FAILS(mrapi_atomic_set(NULL, &c.w, none[i], &bit, mr_widths[w], &mr_st));
		for (size_t o = 0; o < 5; o++)
			FAILS(CALL(&binaries[o], NULL, &c.w, NULL, &prev, mr_widths[w]));
		FAILS(mrapi_atomic_cas(NULL, &c.w, NULL, &v, &prev, mr_widths[w], &mr_st));
		FAILS(mrapi_atomic_cas(NULL, &c.w, &v, NULL, &prev, mr_widths[w], &mr_st));
	}
	check_cell(&c, 8, 5);
	mr_down();
}

/* A barrier that was never initialized. */
Test(mrapi_atom, bad_sync)
{
	mrapi_atomic_barrier_t sync;
	uint32_t x = 5, one = 1;

	mr_up(MR_NODE);
	memset(&sync, 0xee, sizeof(sync));
	FAILS(mrapi_atomic_sync(&sync, &mr_st));
	FAILS(mrapi_atomic_add(&sync, &x, &one, NULL, 4, &mr_st));
	FAILS(mrapi_atomic_read(&sync, &x, &one, 4, &mr_st));
	twc_eq(x, 5);
	mr_ok(mrapi_atomic_sync(NULL, &mr_st));
	mr_down();
}
