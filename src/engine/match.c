/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posted receives. A few are in the list; more are in tables, one for each mask. Invariant: while
 * any table has entries, the list has only receives whose mask has no table. So all receives of one
 * mask are in one place, in order.
 */
#include "engine/match_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

#define GROW_BITS 2   /* log2 of how much a table grows at a time */
#define WALK_FACTOR 4 /* times its length that walking the list may cost */
#define ALL_TABLES ((1u << NMASKS) - 1)

static inline struct tw_posted *to_posted(node_t *n)
{
	return tw_container(n, struct tw_posted, node);
}

static inline struct tw_posted *to_listed(struct tw_list *l)
{
	return tw_container(l, struct tw_posted, list);
}

void tw_match_grow(struct tw_match_table *t)
{
	node_t **old = t->buckets, **b = old, **end = old + table_size(t);
	node_t **fresh = calloc(table_size(t) << GROW_BITS, sizeof(*fresh));

	if (!fresh) {
		t->limit <<= GROW_BITS;
		return;
	}
	t->buckets = fresh;
	t->shift -= GROW_BITS;
	t->limit = table_size(t) / 2;
	for (; b < end; b++) {
		node_t *first, *next;

		for (first = *b; first; first = next) {
			node_t **at = &fresh[table_hash(t, first->key)];

			next = first->prev->next;
			first->prev->next = *at;
			*at = first;
		}
	}
	if (t->own)
		free(old);
	t->own = true;
}

/*
 * There may be more masks than slots (the "space saving" algorithm). Then a new mask takes
 * over the slot with the least count, and adds to it. No frequent mask is missed and the
 * sum is exact.
 */
struct tally *tw_match_tally(struct tally tallies[NMASKS], uint64_t mask, uint64_t n)
{
	struct tally *t, *least = tallies;

	for (t = tallies; t < tallies + NMASKS && t->mask != mask; t++)
		if (t->n < least->n)
			least = t;
	if (t == tallies + NMASKS)
		t = least;
	t->mask = mask;
	t->n += n;
	return t;
}

static uint64_t random_seed(const void *salt)
{
	uint64_t seed;

	if (!tw_sys_random(&seed, sizeof(seed)))
		seed = (tw_clock() ^ (uintptr_t)salt) * ODD_RANDOM;
	return seed | 1;
}

struct tw_match *tw_match_new(void)
{
	struct tw_match *m = aligned_alloc(TW_LINE, sizeof(*m));
	uint64_t seed;
	int i;

	if (!m)
		return NULL;
	memset(m, 0, sizeof(*m));
	seed = random_seed(m);
	tw_list_init(&m->head.list);
	tw_list_init(&m->head.all);
	m->last = m->posted;
	for (i = 0; i < 2 * NMASKS + 1; i++) {
		struct tw_match_table *t = i < NMASKS ? &m->posted[i] : &m->index[i - NMASKS];

		t->mask = UINT64_MAX;
		t->buckets = m->small[i];
		t->seed = seed;
		t->limit = SMALL / 2;
		t->shift = 64 - SMALL_BITS;
		t->bit = (uint16_t)(1 << (i < NMASKS ? i : i - NMASKS));
	}
	return m;
}

void tw_match_free(struct tw_match *m)
{
	int i;

	if (!m)
		return;
	for (i = 0; i < NMASKS; i++)
		if (m->posted[i].own)
			free(m->posted[i].buckets);
	for (i = 0; i < NMASKS + 1; i++)
		if (m->index[i].own)
			free(m->index[i].buckets);
	free(m);
}

static void shrink(struct tw_match_table *t, node_t **small)
{
	if (!t->own)
		return;
	free(t->buckets);
	memset(small, 0, SMALL * sizeof(*small));
	t->buckets = small;
	t->own = false;
	t->shift = 64 - SMALL_BITS;
	t->limit = SMALL / 2;
}

void tw_match_trim(struct tw_match *m)
{
	for (int i = 0; i < NMASKS; i++)
		if (!(m->head.live & m->posted[i].bit))
			shrink(&m->posted[i], m->small[i]);
	for (int i = 0; i < NMASKS + 1; i++)
		if (!(m->head.built & m->index[i].bit))
			shrink(&m->index[i], m->small[NMASKS + i]);
}

static inline void post_in(struct tw_match *m, struct tw_match_table *t, struct tw_posted *p)
{
	p->table = t;
	m->head.live |= t->bit;
	table_add(t, &p->node);
}

static struct tw_match_table *table_of(struct tw_match *m, uint64_t mask)
{
	struct tw_match_table *t;

	for (t = m->posted; t < m->posted + NMASKS; t++)
		if (t->mask == mask)
			return t;
	return NULL;
}

/* The table of a mask, or else an empty one, or NULL. */
static struct tw_match_table *table_for(struct tw_match *m, uint64_t mask)
{
	struct tw_match_table *t = table_of(m, mask);
	unsigned int i;

	for (i = 1; !t && i <= NMASKS; i++) {
		t = &m->posted[(m->last - m->posted + i) % NMASKS];
		if (m->head.live & t->bit)
			t = NULL;
	}
	if (!t)
		return NULL;
	t->mask = mask;
	m->last = t;
	return t;
}

/* Moves as many receives as there are tables for. */
static void list_to_tables(struct tw_match *m)
{
	tw_list_walk(&m->head.list, struct tw_posted, p, list) {
		struct tw_match_table *t = table_for(m, p->mask);

		if (!t)
			continue;
		tw_match_unlist(m, p);
		post_in(m, t, p);
	}
}

static tw_noinline void post_slow(struct tw_match *m, struct tw_posted *p)
{
	struct tw_match_table *t = m->head.live ? table_of(m, p->mask) : NULL;

	/* An empty table goes to the oldest receive without one. */
	if (!t && m->head.live != ALL_TABLES) {
		list_to_tables(m);
		t = table_for(m, p->mask);
	}
	if (!t) {
		tw_match_enlist(&m->head, p);
		return;
	}
	m->last = t;
	post_in(m, t, p);
}

void tw_match_post_tables(struct tw_match *m, struct tw_posted *p)
{
	if (tw_likely(m->head.live && m->last->mask == p->mask))
		post_in(m, m->last, p);
	else
		post_slow(m, p);
}

void tw_match_unpost(struct tw_match *m, struct tw_posted *p)
{
	if (!p->table) {
		tw_match_unlist(m, p);
		return;
	}
	table_del(p->table, &p->node);
	tw_match_left(m, p->table);
}

static uint64_t frequent_mask(struct tw_match *m)
{
	struct tally tallies[NMASKS] = {{0, 0}}, *most = tallies;

	tw_list_walk(&m->head.list, struct tw_posted, p, list) {
		struct tally *t = tw_match_tally(tallies, p->mask, 1);

		if (t->n > most->n)
			most = t;
	}
	return most->mask;
}

static uint64_t count_listed(struct tw_match *m, uint64_t mask)
{
	uint64_t n = 0;

	tw_list_walk(&m->head.list, struct tw_posted, p, list)
		n += p->mask == mask;
	return n;
}

static node_t *merge(node_t *a, node_t *b)
{
	node_t *first, **end = &first;

	while (a && b) {
		node_t **older = to_posted(a)->seq < to_posted(b)->seq ? &a : &b;

		*end = *older;
		end = &(*older)->next;
		*older = *end;
	}
	*end = a ? a : b;
	return first;
}

/* A step of merge sort: run[i] is empty or an ordered chain of 2^i. */
static void sort_in(node_t *run[64], node_t *n)
{
	unsigned int i;

	n->next = NULL;
	for (i = 0; run[i]; i++) {
		n = merge(run[i], n);
		run[i] = NULL;
	}
	run[i] = n;
}

/* Empties a table into the list, each receive in its order. */
static void table_to_list(struct tw_match *m, struct tw_match_table *t)
{
	node_t *run[64] = {NULL}, *sorted = NULL, *n, **at;
	unsigned int i;

	for (at = t->buckets; t->count; at++) {
		while ((n = *at)) {
			table_del_first(t, at);
			sort_in(run, n);
		}
	}
	while (m->head.nlisted) {
		struct tw_posted *p = to_listed(m->head.list.next);

		tw_match_unlist(m, p);
		sort_in(run, &p->node);
	}
	for (i = 0; i < 64; i++)
		sorted = merge(run[i], sorted);
	while ((n = sorted)) {
		sorted = n->next;
		tw_match_enlist(&m->head, to_posted(n));
	}
}

/*
 * When walking the list has cost several times its length, its most frequent mask takes
 * over the table with the fewest entries. The mask must have more receives than that, or
 * two masks would displace each other for ever.
 */
static tw_noinline void reconsider(struct tw_match *m)
{
	struct tw_match_table *t, *least = m->posted;
	uint64_t mask = frequent_mask(m);

	m->walked = 0;
	for (t = m->posted; t < m->posted + NMASKS; t++)
		if (t->count < least->count)
			least = t;
	if (count_listed(m, mask) <= 2 * least->count)
		return;
	table_to_list(m, least);
	least->mask = mask;
	m->head.live |= least->bit; /* or the oldest receive of the list would get it */
	list_to_tables(m);
}

/* The first receive in the list for a message, unless it is newer than seq. */
static inline struct tw_posted *find_listed(struct tw_match *m, uint64_t match, uint64_t seq,
					    uint64_t *steps)
{
	tw_list_walk(&m->head.list, struct tw_posted, p, list) {
		if (p->seq > seq)
			break;
		if ((match & p->mask) == p->key)
			return p;
		++*steps;
	}
	return NULL;
}

/* The pointer to the first receive in a table for a message; NULL if none. */
static inline node_t **find_hashed(struct tw_match *m, uint64_t match)
{
	node_t **first = NULL;
	uint32_t live;

	for (live = m->head.live; live; live &= live - 1) {
		struct tw_match_table *t = &m->posted[__builtin_ctz(live)];
		node_t **at = table_find(t, match & t->mask);

		if (!*at)
			continue;
		if (first && to_posted(*first)->seq < to_posted(*at)->seq)
			continue;
		first = at;
	}
	return first;
}

static inline struct tw_posted *take_at(struct tw_match *m, node_t **at)
{
	struct tw_posted *p = to_posted(*at);

	table_del_first(p->table, at);
	tw_match_left(m, p->table);
	return p;
}

static tw_noinline struct tw_posted *take_hashed(struct tw_match *m, uint64_t match)
{
	node_t **at = find_hashed(m, match);

	return at ? take_at(m, at) : NULL;
}

static tw_noinline struct tw_posted *take_mixed(struct tw_match *m, uint64_t match)
{
	struct tw_posted *p;
	node_t **at;

	if (!m->head.live)
		list_to_tables(m);
	if (m->walked > WALK_FACTOR * (m->head.nlisted + TW_MATCH_LISTED))
		reconsider(m);
	at = find_hashed(m, match);
	p = find_listed(m, match, at ? to_posted(*at)->seq : UINT64_MAX, &m->walked);
	if (!p)
		return at ? take_at(m, at) : NULL;
	tw_match_unlist(m, p);
	return p;
}

/* The cases are apart so that each has the registers to itself. */
struct tw_posted *tw_match_take_posted(struct tw_match *m, uint64_t match)
{
	struct tw_posted *p;
	uint64_t steps = 0;

	if (m->head.live && !m->head.nlisted)
		return take_hashed(m, match);
	if (m->head.live || m->head.nlisted > TW_MATCH_LISTED)
		return take_mixed(m, match);
	p = find_listed(m, match, UINT64_MAX, &steps);
	if (p)
		tw_match_unlist(m, p);
	return p;
}

struct tw_posted *tw_match_look_anew(struct tw_match *m, uint64_t match, struct tw_match_spot *spot)
{
	uint64_t steps = 0;

	spot->at = NULL;
	if (!m->head.live && m->head.nlisted <= TW_MATCH_LISTED)
		return find_listed(m, match, UINT64_MAX, &steps);
	spot->unclear = m->head.nlisted || (m->head.live & (m->head.live - 1));
	if (spot->unclear)
		return NULL;
	spot->table = &m->posted[__builtin_ctz(m->head.live)];
	spot->match = match;
	spot->at = table_find(spot->table, match & spot->table->mask);
	return *spot->at ? to_posted(*spot->at) : NULL;
}

struct tw_posted *tw_match_find_posted(struct tw_match *m, uint64_t match)
{
	node_t **at = m->head.live ? find_hashed(m, match) : NULL;
	uint64_t steps = 0;
	struct tw_posted *p = find_listed(m, match, at ? to_posted(*at)->seq : UINT64_MAX, &steps);

	return p || !at ? p : to_posted(*at);
}

void tw_match_post_among(struct tw_match *m, struct tw_posted *p, struct tw_match *other)
{
	m->head.posted_seq = other->head.posted_seq;
	tw_match_post(m, p);
	other->head.posted_seq = m->head.posted_seq;
}
