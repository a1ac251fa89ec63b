/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects with a number and a generation. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/pool.h"
#include "lib/twt.h"

TestSuite(pool, .timeout = TWT_TIMEOUT);

struct thing {
	struct tw_pool_obj obj;
	uint64_t body[10];
};

static uint64_t rng = 7;

static uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

static void write_body(struct thing *t, uint64_t seed)
{
	twt_fill(t->body, sizeof(t->body), seed);
}

static void check_body(const struct thing *t, uint64_t seed)
{
	cr_assert_eq(twt_check(t->body, sizeof(t->body), seed), sizeof(t->body));
}

Test(pool, objects_are_apart)
{
	static struct thing *all[1000];
	struct tw_pool p;

	tw_pool_init(&p, sizeof(struct thing), 1024);
	for (unsigned i = 0; i < tw_countof(all); i++) {
		all[i] = tw_pool_get(&p);
		cr_assert_not_null(all[i]);
		cr_assert_eq((uintptr_t)all[i] % TW_LINE, 0u);
		write_body(all[i], i);
	}
	for (unsigned i = 0; i < tw_countof(all); i++) {
		check_body(all[i], i);
		cr_assert_eq(all[i]->obj.gen, 1u);
		cr_assert_lt(all[i]->obj.index, 1024u);
		cr_assert_eq(tw_pool_find(&p, all[i]->obj.index, 1), all[i]);
	}
	tw_pool_fini(&p);
}

Test(pool, next_in_use)
{
	struct thing *all[TW_POOL_CHUNK + 2], *t;
	uint32_t at = 0, n = 0;
	struct tw_pool p;

	tw_pool_init(&p, sizeof(struct thing), 1024);
	cr_assert_null(tw_pool_next(&p, &at));
	for (unsigned i = 0; i < tw_countof(all); i++)
		all[i] = tw_pool_get(&p);
	for (unsigned i = 0; i < tw_countof(all); i += 2)
		tw_pool_put(&p, all[i]);
	while ((t = tw_pool_next(&p, &at))) {
		cr_assert_eq(t->obj.gen, 1u);
		n++;
	}
	cr_assert_eq(n, tw_countof(all) / 2);
	tw_pool_fini(&p);
}

Test(pool, generations)
{
	struct tw_pool p;
	struct thing *t;
	uint32_t index;

	tw_pool_init(&p, sizeof(struct thing), TW_POOL_CHUNK);
	t = tw_pool_get(&p);
	index = t->obj.index;
	for (uint32_t round = 0; round < 1000; round++) {
		uint32_t gen = t->obj.gen;

		cr_assert_eq(gen, 2 * round + 1);
		cr_assert_eq(tw_pool_find(&p, index, gen), t);
		cr_assert_null(tw_pool_find(&p, index, gen - 1));
		cr_assert_null(tw_pool_find(&p, index, gen - 2));
		cr_assert_null(tw_pool_find(&p, index, gen + 2));
		tw_pool_put(&p, t);
		cr_assert_null(tw_pool_find(&p, index, gen));
		cr_assert_null(tw_pool_find(&p, index, gen + 1), "free, though the number fits");
		cr_assert_eq(tw_pool_get(&p), t, "the last one back is the warmest");
	}
	tw_pool_fini(&p);
}

/* A released object can still be looked at. */
Test(pool, memory_stays)
{
	struct tw_pool p;
	struct thing *t;

	tw_pool_init(&p, sizeof(struct thing), TW_POOL_CHUNK);
	t = tw_pool_get(&p);
	write_body(t, 5);
	tw_pool_put(&p, t);
	check_body(t, 5);
	cr_assert_eq(t->obj.gen, 2u);
	tw_pool_fini(&p);
	cr_assert_eq(p.nchunks, 0u);
}

static void use_up(uint32_t max)
{
	static struct thing *all[16 * TW_POOL_CHUNK];
	struct tw_pool p;
	uint32_t n = 0;

	tw_pool_init(&p, sizeof(struct thing), max);
	while (n < max && (all[n] = tw_pool_get(&p))) {
		write_body(all[n], n);
		n++;
	}
	cr_assert_eq(n, max);
	cr_assert_null(tw_pool_get(&p));
	cr_assert_eq(tw_pool_grow(&p), -1);
	for (uint32_t i = 0; i < n; i++) {
		check_body(all[i], i);
		cr_assert_eq(tw_pool_find(&p, all[i]->obj.index, all[i]->obj.gen), all[i]);
	}
	for (uint32_t i = 0; i < n; i += 3)
		tw_pool_put(&p, all[i]);
	for (uint32_t i = 0; i < n; i += 3)
		cr_assert_not_null(tw_pool_get(&p));
	cr_assert_null(tw_pool_get(&p));
	tw_pool_fini(&p);
}

Test(pool, limit)
{
	struct tw_pool none;

	for (uint32_t chunks = 1; chunks <= 16; chunks++)
		use_up(chunks * TW_POOL_CHUNK);
	tw_pool_init(&none, sizeof(struct thing), 0);
	cr_assert_null(tw_pool_get(&none));
	tw_pool_fini(&none);
}

Test(pool, empty)
{
	struct tw_pool p;

	tw_pool_init(&p, sizeof(struct thing), 1024);
	cr_assert_null(tw_pool_find(&p, 0, 0));
	cr_assert_null(tw_pool_find(&p, 0, 1));
	cr_assert_null(tw_pool_find(&p, UINT32_MAX, UINT32_MAX));
	cr_assert_eq(tw_pool_grow(&p), 0);
	for (uint32_t i = 0; i < 2 * TW_POOL_CHUNK; i++) {
		cr_assert_null(tw_pool_find(&p, i, 0));
		cr_assert_null(tw_pool_find(&p, i, 1));
	}
	tw_pool_fini(&p);
}

/* Chunks that nothing is in go back; what they were is not found, and not made again. */
Test(pool, trimmed)
{
	enum { CHUNKS = 50, ALL = CHUNKS * TW_POOL_CHUNK, LEFT = 20 * TW_POOL_CHUNK + 5 };
	static struct thing *all[ALL];
	static struct tw_pool_obj was[ALL];
	struct tw_pool p;

	tw_pool_init(&p, sizeof(struct thing), ALL);
	tw_pool_trim(&p, 0);
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < ALL; i++) {
			all[i] = tw_pool_get(&p);
			cr_assert_not_null(all[i]);
			cr_assert_gt(all[i]->obj.gen, was[all[i]->obj.index].gen);
			was[all[i]->obj.index] = all[i]->obj;
		}
		cr_assert_null(tw_pool_get(&p));
		tw_pool_trim(&p, 0);
		cr_assert_eq(tw_pool_held(&p), CHUNKS, "all are in use");
		for (unsigned i = 0; i < ALL; i++)
			if (all[i]->obj.index != LEFT)
				tw_pool_put(&p, all[i]);
		tw_pool_trim(&p, 3);
		cr_assert_eq(tw_pool_held(&p), 4u, "the first three, and one with an object");
		for (unsigned i = 0; i < ALL; i++)
			cr_assert_eq(tw_pool_find(&p, i, was[i].gen) != NULL, i == LEFT);
		tw_pool_put(&p, tw_pool_find(&p, LEFT, was[LEFT].gen));
		tw_pool_trim(&p, round);
		cr_assert_eq(tw_pool_held(&p), tw_min(round, 4u));
	}
	tw_pool_fini(&p);
}

#define MAX (4 * TW_POOL_CHUNK)

/* What a peer may send as a handle: only what is in use is ever found. */
Test(pool, garbage_handles)
{
	static struct thing *used[MAX];
	static uint32_t gens[MAX]; /* of the last use, by index */
	unsigned hits = 0;
	struct tw_pool p;

	tw_pool_init(&p, sizeof(struct thing), MAX);
	for (unsigned step = 0; step < 1000000; step++) {
		uint32_t index = below(4) ? below(MAX) : (uint32_t)twt_random(&rng);
		uint32_t gen = below(4) ? below(200) : (uint32_t)twt_random(&rng);
		struct thing *want = index < MAX && gens[index] == gen ? used[index] : NULL;
		struct thing *t;

		cr_assert_eq(tw_pool_find(&p, index, gen), want);
		hits += want != NULL;
		if (index >= MAX || step % 4)
			continue;
		if (used[index]) {
			tw_pool_put(&p, used[index]);
			used[index] = NULL;
		} else {
			t = tw_pool_get(&p);
			cr_assert_null(used[t->obj.index]);
			cr_assert_eq(t->obj.gen % 2, 1u);
			cr_assert_gt(t->obj.gen, gens[t->obj.index]);
			used[t->obj.index] = t;
			gens[t->obj.index] = t->obj.gen;
		}
	}
	cr_assert_gt(hits, 100u);
	tw_pool_fini(&p);
}
