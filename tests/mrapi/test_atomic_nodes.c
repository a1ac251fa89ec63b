/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.8.17 and 4.8.18 lock and release, and the atomicity of all operations, between nodes. */
#include "mrapi/mrapit.h"

struct shared {
	_Alignas(8) uint64_t lock; /* 32-bit processors align it to 4 */
	uint64_t sum;
	volatile uint64_t plain;
	uint64_t counter[4];
	size_t width;
	mrapi_status_t status;
	atomic_int stage;
};

static void lock_and_count(void *arg)
{
	struct shared *s = arg;
	uint64_t prev;

	for (int i = 0; i < 400; i++) {
		prev = 7;
		mr_ok(mrapi_atomic_lock(NULL, &s->lock, i % 2 ? &prev : NULL, s->width, &mr_st));
		twc_check(i % 2 == 0 || (prev & mr_mask(s->width)) == 0);
		s->plain++;
		if (i % 100 == 0)
			twc_sleep(1);
		mr_ok(mrapi_atomic_release(NULL, &s->lock, s->width, &mr_st));
	}
}

MR_BOTH(mrapi_atom, lock)
{
	struct shared *s = mr_shared(sizeof(*s));
	struct mr_peer p[3];

	for (mrapi_node_t i = 0; i < 3; i++)
		mr_peer(&p[i], where, i);
	for (size_t w = 0; w < 4; w++) {
		s->width = mr_widths[w];
		s->plain = s->lock = 0;
		for (int i = 0; i < 3; i++)
			mr_go(&p[i], lock_and_count, s);
		for (int i = 0; i < 3; i++)
			mr_done(&p[i]);
		twc_eq(s->plain, 3 * 400);
		twc_eq(s->lock, 0);
	}
	for (int i = 0; i < 3; i++)
		mr_peer_end(&p[i]);
}

/* 4.8.17: it is 1 while locked, and waits until it is 0, whoever set it. */
static void lock_once(void *arg)
{
	struct shared *s = arg;

	atomic_store(&s->stage, 1);
	mr_ok(mrapi_atomic_lock(NULL, &s->lock, NULL, 4, &mr_st));
	atomic_store(&s->stage, 2);
}

MR_BOTH(mrapi_atom, lock_waits)
{
	struct shared *s = mr_shared(sizeof(*s));
	uint32_t nine = 9, zero = 0, now;
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	mr_ok(mrapi_atomic_xchg(NULL, &s->lock, &nine, NULL, 4, &mr_st));
	mr_go(&p, lock_once, s);
	while (atomic_load(&s->stage) != 1)
		twc_sleep(1);
	twc_sleep(MR_SHORT);
	twc_eq(s->stage, 1);
	/* It has not touched it. */
	mr_ok(mrapi_atomic_read(NULL, &s->lock, &now, 4, &mr_st));
	twc_eq(now, 9);
	mr_ok(mrapi_atomic_xchg(NULL, &s->lock, &zero, NULL, 4, &mr_st));
	mr_done(&p);
	twc_eq(s->stage, 2);
	mr_ok(mrapi_atomic_read(NULL, &s->lock, &now, 4, &mr_st));
	twc_eq(now, 1);
	mr_down();
	mr_peer_end(&p);
}

/* What is not locked is left alone. */
Test(mrapi_atom, release_unlocked)
{
	uint32_t x = 0, y = 9;

	mr_up(MR_NODE);
	mrapi_atomic_release(NULL, &x, 4, &mr_st);
	twc_eq(x, 0);
	mrapi_atomic_release(NULL, &y, 4, &mr_st);
	twc_eq(y, 9);
	mr_down();
}

/* 4.8.18: "does not modify the destination unless it was locked by the same thread". */
static void release_there(void *arg)
{
	struct shared *s = arg;

	mr_st = -1;
	mrapi_atomic_release(NULL, &s->lock, 4, &mr_st);
	s->status = mr_st;
}

MR_BOTH(mrapi_atom, release_by_another)
{
	struct shared *s = mr_shared(sizeof(*s));
	struct mr_peer p;
	uint32_t now;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	mr_ok(mrapi_atomic_lock(NULL, &s->lock, NULL, 4, &mr_st));
	mr_do(&p, release_there, s);
	mr_ok(mrapi_atomic_read(NULL, &s->lock, &now, 4, &mr_st));
	twc_eq(now, 1);
	mr_eq(s->status, MRAPI_ERR_ATOM_OP_FAILED);
	mr_ok(mrapi_atomic_release(NULL, &s->lock, 4, &mr_st));
	twc_eq(s->lock, 0);
	mr_down();
	mr_peer_end(&p);
}

/* All operations on words that others change at the same time. */
static void change_all(void *arg)
{
	struct shared *s = arg;
	mrapi_node_t me = mr_val(mrapi_node_id_get(&mr_st));

	for (int i = 0; i < 1000; i++)
		for (size_t w = 0; w < 4; w++) {
			void *d = &s->counter[w];
			uint64_t one = 1, now = 0, next = 0, prev = 0;

			/* Node 0 adds, node 1 counts, node 2 swaps. */
			if (me == 0) {
				mr_ok(mrapi_atomic_add(NULL, d, &one, NULL, mr_widths[w], &mr_st));
			} else if (me == 1) {
				mr_ok(mrapi_atomic_inc(NULL, d, NULL, mr_widths[w], &mr_st));
				mr_ok(mrapi_atomic_inc(NULL, d, NULL, mr_widths[w], &mr_st));
				mr_ok(mrapi_atomic_dec(NULL, d, NULL, mr_widths[w], &mr_st));
			} else {
				do {
					mr_ok(mrapi_atomic_read(NULL, d, &now, mr_widths[w],
								&mr_st));
					next = now + 1;
					mrapi_atomic_cas(NULL, d, &next, &now, &prev, mr_widths[w],
							 &mr_st);
					twc_eq(mr_st == MRAPI_SUCCESS,
					       memcmp(&prev, &now, mr_widths[w]) == 0);
				} while (mr_st != MRAPI_SUCCESS);
			}
		}
}

MR_BOTH(mrapi_atom, together)
{
	struct shared *s = mr_shared(sizeof(*s));
	struct mr_peer p[3];

	for (mrapi_node_t i = 0; i < 3; i++)
		mr_peer(&p[i], where, i);
	for (int i = 0; i < 3; i++)
		mr_go(&p[i], change_all, s);
	for (int i = 0; i < 3; i++)
		mr_done(&p[i]);
	for (size_t w = 0; w < 4; w++)
		twc_eq(s->counter[w], 3000 & mr_mask(mr_widths[w]));
	for (int i = 0; i < 3; i++)
		mr_peer_end(&p[i]);
}
