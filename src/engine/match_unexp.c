/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unexpected messages are a list in order of arrival, which is scanned while it is short. A mask
 * gets an index if its scans are often long. The first search by the sender's reference makes an
 * index of references. All indexes are dropped when the queue is short again.
 */
#include "engine/match_internal.h"

#define INDEX_COST 64 /* entries walked that an index costs, however short the queue */

#define each_built(m, t, bits)                                                                     \
	for ((bits) = (m)->head.built; (bits) && ((t) = &(m)->index[__builtin_ctz(bits)], true);        \
	     (bits) &= (bits)-1)

static inline struct tw_unexp *to_unexp(struct tw_list *l)
{
	return tw_container(l, struct tw_unexp, all);
}

static inline node_t *link_in(struct tw_match *m, struct tw_match_table *t, struct tw_unexp *u)
{
	return &u->in[t - m->index];
}

static inline void index_add(struct tw_match *m, struct tw_match_table *t, struct tw_unexp *u)
{
	node_t *n = link_in(m, t, u);

	n->key = t == &m->index[NMASKS] ? u->name : u->match & t->mask;
	table_add(t, n);
}

/* Message by message: the cost depends on the queue, not on the size of the index. */
static void index_drop(struct tw_match *m, struct tw_match_table *t)
{
	tw_list_walk(&m->head.all, struct tw_unexp, u, all)
		table_del(t, link_in(m, t, u));
	m->head.built &= ~(uint32_t)t->bit;
}

static struct tw_match_table *index_least_used(struct tw_match *m)
{
	struct tw_match_table *t, *least = m->index;

	for (t = m->index; t < m->index + NMASKS; t++)
		if (t->used < least->used)
			least = t;
	return least;
}

static void index_fill(struct tw_match *m, struct tw_match_table *t)
{
	m->head.built |= t->bit;
	tw_list_walk(&m->head.all, struct tw_unexp, u, all)
		index_add(m, t, u);
}

static void index_build(struct tw_match *m, uint64_t mask)
{
	unsigned int i = (unsigned int)__builtin_ctz(~m->head.built);
	struct tw_match_table *t = &m->index[i];

	if (i >= NMASKS) {
		t = index_least_used(m);
		index_drop(m, t);
	}
	t->mask = mask;
	t->used = ++m->clock;
	index_fill(m, t);
}

void tw_match_arrive_indexed(struct tw_match *m, struct tw_unexp *u)
{
	struct tw_match_table *t;
	uint32_t bits;

	each_built(m, t, bits)
		index_add(m, t, u);
}

void tw_match_remove_indexed(struct tw_match *m, struct tw_unexp *u)
{
	struct tw_match_table *t;
	uint32_t bits;

	each_built(m, t, bits)
		table_del(t, link_in(m, t, u));
	if (m->head.nunexp > TW_MATCH_LISTED)
		return;
	each_built(m, t, bits)
		index_drop(m, t);
}

/* Builds an index when its mask has walked twice as far as building it costs. */
static tw_noinline void charge(struct tw_match *m, uint64_t mask, uint64_t steps)
{
	struct tally *t = tw_match_tally(m->scans, mask, steps);

	if (t->n < 2 * m->head.nunexp + INDEX_COST)
		return;
	t->n = 0;
	index_build(m, mask);
}

/* The first one for a key from this place on. */
static struct tw_unexp *scan(struct tw_match *m, struct tw_list *l, uint64_t key, uint64_t mask)
{
	uint64_t steps = 0;

	for (; l != &m->head.all && (to_unexp(l)->match & mask) != key; l = l->next)
		steps++;
	if (tw_unlikely(steps > TW_MATCH_LISTED))
		charge(m, mask, steps);
	return l == &m->head.all ? NULL : to_unexp(l);
}

static struct tw_match_table *unexp_index_of(struct tw_match *m, uint64_t mask)
{
	struct tw_match_table *t;
	uint32_t bits;

	each_built(m, t, bits)
		if (t->mask == mask && t != &m->index[NMASKS])
			return t;
	return NULL;
}

static struct tw_unexp *from_node(struct tw_match *m, struct tw_match_table *t, node_t *n)
{
	return n ? tw_container(n - (t - m->index), struct tw_unexp, in) : NULL;
}

struct tw_unexp *tw_match_search_unexp(struct tw_match *m, uint64_t key, uint64_t mask)
{
	struct tw_match_table *t = unexp_index_of(m, mask);

	if (!t)
		return scan(m, m->head.all.next, key, mask);
	t->used = ++m->clock;
	return from_node(m, t, *table_find(t, key));
}

struct tw_unexp *tw_match_next_unexp(struct tw_match *m, struct tw_unexp *u, uint64_t key,
				     uint64_t mask)
{
	struct tw_match_table *t = unexp_index_of(m, mask);
	node_t *n;

	if (!t)
		return scan(m, u->all.next, key, mask);
	n = link_in(m, t, u)->next;
	return from_node(m, t, n && n->key == key ? n : NULL);
}

struct tw_unexp *tw_match_find_named(struct tw_match *m, uint64_t name)
{
	struct tw_match_table *t = &m->index[NMASKS];

	if (!(m->head.built & t->bit))
		index_fill(m, t);
	return from_node(m, t, *table_find(t, name));
}
