/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by match.c and match_unexp.c: the hash tables, one per mask. Under one mask a
 * message has exactly one key.
 *
 * In a bucket the nodes of one key are adjacent, oldest first. The prev pointer of the
 * first points to the last, so that a whole key can be skipped. The prev pointer of the
 * others points to the node before. So thousands of equal keys cost as much as one, and the
 * size of a table depends on the number of distinct keys.
 */
#ifndef TW_MATCH_INTERNAL_H
#define TW_MATCH_INTERNAL_H

#include "engine/match.h"

#define NMASKS TW_MATCH_MASKS
#define SMALL_BITS 4 /* log2 of the buckets a table starts with */
#define SMALL (1 << SMALL_BITS)
#define ODD_RANDOM 0x9e3779b97f4a7c15

typedef struct tw_match_node node_t;

struct tw_match_table {
	uint64_t mask;
	node_t **buckets;
	uint64_t seed;	/* odd */
	uint64_t count; /* nodes */
	uint64_t nkeys; /* distinct keys */
	uint64_t limit; /* nkeys above which the table grows */
	uint64_t used;	/* when this index was last searched */
	uint16_t bit;	/* 1 << its number */
	bool own;	/* the buckets are its own allocation */
	uint8_t shift;	/* 64 - log2 of the buckets */
} tw_aligned_line;

/* How often a mask was seen, or the steps that it has cost. */
struct tally {
	uint64_t mask, n;
};

struct tw_match {
	struct tw_match_head head;
	struct tw_match_table *last; /* posted to */
	uint64_t walked;	     /* steps in the list since reconsider() last ran */

	uint64_t clock; /* counts searches by index */
	struct tw_match_table posted[NMASKS];
	struct tw_match_table index[NMASKS + 1]; /* the last one by name */
	struct tally scans[NMASKS];		 /* entries walked, by mask without index */

	node_t *small[2 * NMASKS + 1][SMALL];
};

/* Without memory the table stays as it is: slower, but correct. */
void tw_match_grow(struct tw_match_table *t);
/* Adds n to the tally of a mask and returns the tally. */
struct tally *tw_match_tally(struct tally tallies[NMASKS], uint64_t mask, uint64_t n);

/* The halves of the product of 128 bits, by exclusive or. */
static inline uint64_t fold_product(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
	__uint128_t wide = (__uint128_t)a * b;

	return (uint64_t)wide ^ (uint64_t)(wide >> 64);
#else
	uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), high = (a >> 32) * (b >> 32);
	uint64_t left = (a >> 32) * (b & UINT32_MAX), right = (a & UINT32_MAX) * (b >> 32);
	uint64_t carry = ((low >> 32) + (left & UINT32_MAX) + (right & UINT32_MAX)) >> 32;

	return (a * b) ^ (high + (left >> 32) + (right >> 32) + carry);
#endif
}

/*
 * The second multiplication is needed: with one, about one seed in fifty makes chains of
 * ten and more from keys in arithmetic progression, which tags often are.
 */
static inline size_t table_hash(const struct tw_match_table *t, uint64_t key)
{
	return (size_t)((fold_product(key, t->seed) * ODD_RANDOM) >> t->shift);
}

static inline size_t table_size(const struct tw_match_table *t)
{
	return (size_t)1 << (64 - t->shift);
}

/* The pointer to the first node of a key, or where it would be. */
static inline node_t **table_find(const struct tw_match_table *t, uint64_t key)
{
	node_t **at = &t->buckets[table_hash(t, key)];

	while (*at && (*at)->key != key)
		at = &(*at)->prev->next;
	return at;
}

/* Adds a node behind those of its key. */
static inline void table_add(struct tw_match_table *t, node_t *n)
{
	node_t **at = table_find(t, n->key), *first = *at;

	t->count++;
	if (first) {
		n->next = first->prev->next;
		n->prev = first->prev;
		first->prev->next = n;
		first->prev = n;
		return;
	}
	n->next = NULL;
	n->prev = n;
	*at = n;
	if (tw_unlikely(++t->nkeys > t->limit))
		tw_match_grow(t);
}

static inline void table_del_first(struct tw_match_table *t, node_t **at)
{
	node_t *n = *at;

	t->count--;
	*at = n->next;
	if (n->prev == n)
		t->nkeys--;
	else
		n->next->prev = n->prev;
}

static inline void table_del(struct tw_match_table *t, node_t *n)
{
	node_t **at = table_find(t, n->key), *first = *at;

	if (n == first) {
		table_del_first(t, at);
		return;
	}
	t->count--;
	n->prev->next = n->next;
	if (n == first->prev)
		first->prev = n->prev;
	else
		n->next->prev = n->prev;
}

/* The receive that a message meets if that is the one posted first, or NULL: look. */
static inline struct tw_posted *tw_match_first(const struct tw_match *m, uint64_t match)
{
	struct tw_posted *p = tw_container(m->head.list.next, struct tw_posted, list);

	return !m->head.live && m->head.nlisted && (match & p->mask) == p->key ? p : NULL;
}

static inline void tw_match_unlist(struct tw_match *m, struct tw_posted *p)
{
	m->head.nlisted--;
	tw_list_del(&p->list);
}

/* True if any receive is posted. */
static inline bool tw_match_has_posted(const struct tw_match *m)
{
	return m->head.live || m->head.nlisted;
}

/* A table has lost an entry. */
static inline void tw_match_left(struct tw_match *m, const struct tw_match_table *t)
{
	if (!t->count)
		m->head.live &= ~(uint32_t)t->bit;
}

/* Where tw_match_look() has found a receive: in a table, or else in the list. */
struct tw_match_spot {
	node_t **at;
	uint64_t match;
	struct tw_match_table *table;
	bool unclear; /* there may be one that only tw_match_take_posted() finds */
};

/* As tw_match_look(), without what was found before. */
struct tw_posted *tw_match_look_anew(struct tw_match *m, uint64_t match, struct tw_match_spot *spot);

/*
 * The earliest posted receive for a message. NULL: there is none, or spot->unclear. Between two
 * looks only tw_match_take() changes anything.
 */
static inline struct tw_posted *tw_match_look(struct tw_match *m, uint64_t match,
					      struct tw_match_spot *spot)
{
	/* In a bucket equal keys are adjacent: the next one is where the last was. */
	if (spot->at && spot->match == match && *spot->at &&
	    (*spot->at)->key == (match & spot->table->mask))
		return tw_container(*spot->at, struct tw_posted, node);
	return tw_match_look_anew(m, match, spot);
}

/* Removes what tw_match_look() has found. */
static inline void tw_match_take(struct tw_match *m, struct tw_posted *p,
				 struct tw_match_spot *spot)
{
	if (!spot->at) {
		tw_match_unlist(m, p);
		return;
	}
	table_del_first(spot->table, spot->at);
	tw_match_left(m, spot->table);
}

#endif /* TW_MATCH_INTERNAL_H */
