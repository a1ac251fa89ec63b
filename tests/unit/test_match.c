/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matcher against a plain list, and the cases that need many entries.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "engine/match_internal.h"
#include "lib/twt.h"

#define EXACT UINT64_MAX

static uint64_t nposted(const struct tw_match *m)
{
	uint64_t n = m->head.nlisted;

	for (unsigned i = 0; i < NMASKS; i++)
		n += m->posted[i].count;
	return n;
}

static uint64_t rng;

static uint64_t below(uint64_t n)
{
	return (twt_random(&rng) >> 32) * n >> 32;
}

/* The model: what is queued, in order. */
#define MODEL_MAX 20000

struct model {
	void *entry[MODEL_MAX];
	size_t n;
};

static void model_add(struct model *o, void *entry)
{
	cr_assert_lt(o->n, (size_t)MODEL_MAX);
	o->entry[o->n++] = entry;
}

static void model_del(struct model *o, size_t i)
{
	o->n--;
	memmove(&o->entry[i], &o->entry[i + 1], (o->n - i) * sizeof(o->entry[0]));
}

/* The index of the first receive for a message; o->n if none. */
static size_t model_posted(const struct model *o, uint64_t match)
{
	size_t i;

	for (i = 0; i < o->n; i++) {
		const struct tw_posted *p = o->entry[i];

		if ((match & p->mask) == p->key)
			break;
	}
	return i;
}

static size_t model_unexp(const struct model *o, uint64_t key, uint64_t mask)
{
	size_t i;

	for (i = 0; i < o->n; i++) {
		const struct tw_unexp *u = o->entry[i];

		if ((u->match & mask) == key)
			break;
	}
	return i;
}

/* A random history: how deep, how many masks, how many different messages. */
struct history {
	char name[24];
	size_t depth;
	unsigned int nmasks;  /* 0: a random one each time */
	unsigned int nvalues; /* of each of four 16-bit fields */
	unsigned int steps;
};

/* By fields, so that wildcards leave something to match; masks[0] is exact. */
static const uint64_t masks[] = {
	EXACT,
	0xffff00000000ffff,
	0xffffffff00000000,
	0,
	0x00000000ffffffff,
	0x0000ffff00000000,
	0xffff000000000000,
	0x000000000000ffff,
	0xffff0000ffffffff,
	0x00000000ffff0000,
	0x0000ffffffffffff,
	0xffffffff0000ffff,
	0x0000ffff0000ffff,
	0x0001000100010001,
};

static struct history histories[] = {
	{"one mask", 6, 1, 2, 60000},
	{"one mask, one message", 300, 1, 1, 20000},
	{"one mask, all different", 3000, 1, 3000, 20000},
	{"few", 12, 4, 2, 60000},
	{"wildcards", 400, 4, 3, 20000},
	{"eight masks", 300, 8, 2, 20000},
	{"nine masks", 12, 9, 3, 60000},
	{"nine masks, deep", 400, 9, 4, 20000},
	{"all masks", 200, 14, 2, 30000},
	{"all masks, deep", 1500, 14, 12, 10000},
	{"any mask", 60, 0, 2, 40000},
	{"any mask, deep", 1000, 0, 4, 10000},
};

static uint64_t random_mask(const struct history *h)
{
	uint64_t mask = 0;
	int i;

	if (h->nmasks)
		return masks[below(h->nmasks)];
	for (i = 0; i < 4; i++)
		mask |= below(2) ? (uint64_t)0xffff << 16 * i : 0;
	return mask ^ (uint64_t)1 << 16 * below(4);
}

static uint64_t random_match(const struct history *h)
{
	uint64_t match = 0;
	int i;

	for (i = 0; i < 4; i++)
		match = match << 16 | below(h->nvalues);
	return match;
}

/* Fills up and drains in turn, so that every size is met in both directions. */
static bool growing(size_t n, size_t depth)
{
	static bool up = true;

	if (n == 0)
		up = true;
	else if (n >= depth)
		up = false;
	return below(10) < (up ? 7u : 3u);
}

static void post_random(struct tw_match *m, struct model *o, const struct history *h)
{
	struct tw_posted *p = malloc(sizeof(*p));

	memset(p, 0xa5, sizeof(*p));
	p->mask = random_mask(h);
	p->key = random_match(h) & p->mask;
	tw_match_post(m, p);
	model_add(o, p);
}

static void take_random(struct tw_match *m, struct model *o, const struct history *h)
{
	uint64_t match = random_match(h);
	size_t i = model_posted(o, match);
	struct tw_posted *p = tw_match_take_posted(m, match);

	if (i == o->n) {
		cr_assert_null(p);
		return;
	}
	cr_assert_eq(p, o->entry[i]);
	model_del(o, i);
	free(p);
}

static void unpost_at(struct tw_match *m, struct model *o, size_t i)
{
	tw_match_unpost(m, o->entry[i]);
	free(o->entry[i]);
	model_del(o, i);
}

ParameterizedTestParameters(match, posted)
{
	return cr_make_param_array(struct history, histories, tw_countof(histories));
}

ParameterizedTest(struct history *h, match, posted)
{
	struct tw_match *m = tw_match_new();
	static struct model o;
	unsigned int step;

	rng = h->steps * h->depth;
	for (step = 0; step < h->steps; step++) {
		if (growing(o.n, h->depth))
			post_random(m, &o, h);
		else if (o.n && below(4) == 0)
			unpost_at(m, &o, below(o.n));
		else
			take_random(m, &o, h);
		cr_assert_eq(nposted(m), o.n);
	}
	while (o.n)
		unpost_at(m, &o, below(o.n));
	cr_assert_eq(nposted(m), 0u);
	tw_match_free(m);
}

enum { NAMES = 50 };

static void arrive_random(struct tw_match *m, struct model *o, const struct history *h)
{
	struct tw_unexp *u = malloc(sizeof(*u));

	memset(u, 0xa5, sizeof(*u));
	u->match = random_match(h);
	u->name = below(NAMES);
	tw_match_arrive(m, u);
	model_add(o, u);
}

static void find_random(struct tw_match *m, struct model *o, const struct history *h, bool take)
{
	uint64_t mask = random_mask(h), key = random_match(h) & mask;
	size_t i = model_unexp(o, key, mask);
	struct tw_unexp *u = tw_match_find_unexp(m, key, mask);

	if (i == o->n) {
		cr_assert_null(u);
		return;
	}
	cr_assert_eq(u, o->entry[i]);
	if (!take)
		return;
	tw_match_remove(m, u);
	free(u);
	model_del(o, i);
}

static void remove_at(struct tw_match *m, struct model *o, size_t i)
{
	tw_match_remove(m, o->entry[i]);
	free(o->entry[i]);
	model_del(o, i);
}

static void check_order(struct tw_match *m, const struct model *o)
{
	struct tw_unexp *u = tw_match_find_unexp(m, 0, 0);
	size_t i;

	for (i = 0; i < o->n; i++) {
		cr_assert_eq(u, o->entry[i]);
		u = tw_match_next_unexp(m, u, 0, 0);
	}
	cr_assert_null(u);
}

/* The earliest of one name. */
static void check_name(struct tw_match *m, const struct model *o, uint64_t name)
{
	const struct tw_unexp *first = NULL;

	for (size_t i = 0; i < o->n && !first; i++) {
		const struct tw_unexp *e = o->entry[i];

		first = e->name == name ? e : NULL;
	}
	cr_assert_eq(tw_match_find_named(m, name), first);
}

ParameterizedTestParameters(match, unexpected)
{
	return cr_make_param_array(struct history, histories, tw_countof(histories));
}

ParameterizedTest(struct history *h, match, unexpected)
{
	struct tw_match *m = tw_match_new();
	static struct model o;
	unsigned int step;

	rng = ~(h->steps * h->depth);
	for (step = 0; step < h->steps; step++) {
		if (growing(o.n, h->depth))
			arrive_random(m, &o, h);
		else if (o.n && below(8) == 0)
			remove_at(m, &o, below(o.n));
		else
			find_random(m, &o, h, below(3) != 0);
		if (step % 1024 == 0)
			check_order(m, &o);
		if (step % 512 == 0)
			check_name(m, &o, below(NAMES));
		cr_assert_eq(m->head.nunexp, o.n);
	}
	check_order(m, &o);
	while (o.n)
		remove_at(m, &o, o.n - 1);
	cr_assert_null(tw_match_find_unexp(m, 0, 0));
	tw_match_free(m);
}

Test(match, empty)
{
	struct tw_match *m = tw_match_new();

	cr_assert_null(tw_match_take_posted(m, 1));
	cr_assert_null(tw_match_find_unexp(m, 1, EXACT));
	cr_assert_null(tw_match_find_unexp(m, 0, 0));
	cr_assert_null(tw_match_find_posted(m, 1));
	cr_assert_null(tw_match_find_unexp(m, 0, 0));
	cr_assert_eq(nposted(m) + m->head.nunexp, 0u);
	tw_match_free(m);
	tw_match_free(NULL);
}

static void post(struct tw_match *m, struct tw_posted *p, uint64_t key, uint64_t mask)
{
	p->key = key;
	p->mask = mask;
	tw_match_post(m, p);
}

/* Every subset of a few receives cancelled, the rest found in order. */
static void cancel_subset(struct tw_posted *p, unsigned int n, unsigned int subset)
{
	struct tw_match *m = tw_match_new();
	unsigned int i;

	for (i = 0; i < n; i++)
		post(m, &p[i], i % 2, EXACT);
	for (i = 0; i < n; i++)
		if (subset >> i & 1)
			tw_match_unpost(m, &p[i]);
	for (i = 0; i < n; i++)
		if (!(subset >> i & 1))
			cr_assert_eq(tw_match_take_posted(m, i % 2), &p[i]);
	cr_assert_null(tw_match_take_posted(m, 0));
	cr_assert_null(tw_match_take_posted(m, 1));
	tw_match_free(m);
}

Test(match, cancel)
{
	struct tw_posted p[12];
	unsigned int subset;

	for (subset = 0; subset < 1u << 6; subset++)
		cancel_subset(p, 6, subset);
	for (subset = 0; subset < 1u << 12; subset++)
		cancel_subset(p, 12, subset);
}

#define MANY 30000

static struct tw_posted many[MANY];

/* Keys that differ in the low, the high, or both ends, or not at all. */
static uint64_t structured(unsigned int pattern, uint64_t i)
{
	switch (pattern) {
	case 0:
		return i;
	case 1:
		return i << 48;
	case 2:
		return (i & 0xff) << 56 | i >> 8;
	case 3:
		return i * 4096;
	default:
		return 0;
	}
}

Test(match, growth)
{
	struct tw_match *m = tw_match_new();
	unsigned int pattern;
	uint64_t i;

	for (pattern = 0; pattern < 5; pattern++) {
		for (i = 0; i < MANY; i++)
			post(m, &many[i], structured(pattern, i), EXACT);
		cr_assert_eq(nposted(m), (uint64_t)MANY);
		for (i = 0; i < MANY; i++)
			cr_assert_eq(tw_match_take_posted(m, structured(pattern, i)), &many[i]);
		cr_assert_eq(nposted(m), 0u);
	}
	tw_match_free(m);
}

/* Masks without a table of their own wait in the list, in order. */
static void post_stale(struct tw_match *m, struct tw_posted *stale, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		post(m, &stale[i], (uint64_t)0xdead << 48, masks[6] | 1u << i % TW_MATCH_MASKS);
}

Test(match, hot_mask_gets_a_table)
{
	struct tw_match *m = tw_match_new();
	struct tw_posted stale[3 * TW_MATCH_MASKS + 1];
	uint64_t i;

	post_stale(m, stale, tw_countof(stale));
	for (i = 0; i < 1000; i++)
		post(m, &many[i], i, EXACT);
	cr_assert_null(many[999].table);
	for (i = 999; i >= 900; i--)
		cr_assert_eq(tw_match_take_posted(m, i), &many[i]);
	for (i = 0; i < 900; i++)
		cr_assert_not_null(many[i].table);
	cr_assert_not_null(stale[0].table, "its mask has more than the others");
	post(m, &many[900], 0, EXACT);
	for (i = 0; i < 900; i++)
		cr_assert_eq(tw_match_take_posted(m, i), &many[i]);
	cr_assert_eq(tw_match_take_posted(m, 0), &many[900]);
	for (i = 0; i < tw_countof(stale); i++)
		cr_assert_eq(tw_match_take_posted(m, stale[i].key), &stale[i]);
	cr_assert_eq(nposted(m), 0u);
	tw_match_free(m);
}

/* A table that is larger than what waits keeps its mask. */
Test(match, busy_masks_keep_their_tables)
{
	struct tw_match *m = tw_match_new();
	static struct tw_posted stale[100 * TW_MATCH_MASKS];
	uint64_t i;

	post_stale(m, stale, tw_countof(stale));
	for (i = 0; i < 150; i++)
		post(m, &many[i], i, EXACT);
	for (i = 149; i >= 50; i--)
		cr_assert_eq(tw_match_take_posted(m, i), &many[i]);
	for (i = 0; i < 50; i++)
		cr_assert_null(many[i].table);
	for (i = 0; i < tw_countof(stale); i++)
		cr_assert_eq(tw_match_take_posted(m, stale[i].key), &stale[i]);
	for (i = 0; i < 50; i++)
		cr_assert_eq(tw_match_take_posted(m, i), &many[i]);
	tw_match_free(m);
}

/* An emptied table goes to the receives that wait, before any newer one. */
Test(match, empty_table_is_reused)
{
	struct tw_match *m = tw_match_new();
	struct tw_posted stale[2 * TW_MATCH_MASKS], more;
	uint64_t i;

	post_stale(m, stale, tw_countof(stale));
	for (i = 0; i < 20; i++)
		post(m, &many[i], i % 2, EXACT);
	cr_assert_null(many[0].table);
	tw_match_unpost(m, &stale[0]);
	tw_match_unpost(m, &stale[TW_MATCH_MASKS]);
	post(m, &more, 1, EXACT);
	cr_assert_not_null(many[0].table);
	for (i = 0; i < 20; i++)
		cr_assert_eq(tw_match_take_posted(m, i % 2), &many[i]);
	cr_assert_eq(tw_match_take_posted(m, 1), &more);
	for (i = 0; i < tw_countof(stale); i++)
		if (i % TW_MATCH_MASKS)
			cr_assert_eq(tw_match_take_posted(m, stale[i].key), &stale[i]);
	cr_assert_eq(nposted(m), 0u);
	tw_match_free(m);
}

#define QUEUE 2000

static struct tw_unexp queue[QUEUE];

/* More masks than indexes, each used often enough to get one, again and again. */
Test(match, indexes_replace_each_other)
{
	struct tw_match *m = tw_match_new();
	unsigned int round, i, k;

	for (i = 0; i < QUEUE; i++) {
		queue[i].match = (uint64_t)i << 32 | i;
		tw_match_arrive(m, &queue[i]);
	}
	for (round = 0; round < 40; round++) {
		uint64_t mask = EXACT << round % 11;

		for (k = 0; k < 20; k++) {
			i = QUEUE - 1 - k;
			cr_assert_eq(tw_match_find_unexp(m, queue[i].match & mask, mask),
				     &queue[i]);
			cr_assert_null(tw_match_find_unexp(m, (uint64_t)QUEUE << 32, mask));
		}
	}
	for (i = 0; i < QUEUE; i++) {
		cr_assert_eq(tw_match_find_unexp(m, queue[i].match, EXACT), &queue[i]);
		tw_match_remove(m, &queue[i]);
	}
	cr_assert_eq(m->head.nunexp, 0u);
	tw_match_free(m);
}
