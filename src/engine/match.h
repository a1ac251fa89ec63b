/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matching: posted receives against arriving messages and the reverse.
 *
 * A message with match information M matches a receive (R, mask) when
 * (M & mask) == R. The earliest posted receive wins; the earliest arrived
 * message wins. Both directions cost the same at any depth for up to
 * TW_MATCH_MASKS masks at a time; receives with further masks wait in an
 * ordered list. Called under the endpoint's lock; knows nothing of endpoints.
 */
#ifndef TW_MATCH_H
#define TW_MATCH_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/list.h"

#define TW_MATCH_MASKS 8
#define TW_MATCH_LISTED 8 /* up to this many receives, or messages, are scanned, not hashed */

/* Private to the matcher: a node of a hash table. */
struct tw_match_node {
	uint64_t key;
	struct tw_match_node *next, *prev;
};

/* A posted receive. Its owner embeds it, and sets key and mask before posting. */
struct tw_posted {
	union {
		struct tw_match_node node; /* when in a table */
		struct {
			uint64_t key;	     /* match_recv; key & ~mask == 0 */
			struct tw_list list; /* when in the list */
		};
	};
	uint64_t mask;		      /* match_mask */
	uint64_t seq;		      /* order of posting, set by tw_match_post */
	struct tw_match_table *table; /* the table that contains it; NULL: the list */
};

/* An unexpected message. Its owner embeds it, and sets match and name before queueing it. */
struct tw_unexp {
	uint64_t match;	    /* match_send */
	uint64_t name;	    /* what the owner knows it by besides; need not be unique */
	struct tw_list all; /* every unexpected message, in order */
	/* Per index in use. */
	struct tw_match_node in[TW_MATCH_MASKS + 1];
};

struct tw_match; /* posted and unexpected queues of one endpoint */

/* The beginning of struct tw_match, for the fast paths below. */
struct tw_match_head {
	struct tw_list all; /* unexpected messages, in order */
	uint64_t nunexp;
	uint32_t built;	     /* bits of the indexes in use */
	uint32_t live;	     /* bits of the tables with entries */
	uint64_t nlisted;    /* receives in the list */
	struct tw_list list; /* receives in no table, in order */
	uint64_t posted_seq;
};

/* NULL when memory is short. */
struct tw_match *tw_match_new(void);
void tw_match_free(struct tw_match *m);

/* Removes a posted receive. */
void tw_match_unpost(struct tw_match *m, struct tw_posted *p);
/* Removes and returns the earliest posted receive for a message; NULL if none. */
struct tw_posted *tw_match_take_posted(struct tw_match *m, uint64_t match);
/* As tw_match_take_posted(), but the receive stays posted. */
struct tw_posted *tw_match_find_posted(struct tw_match *m, uint64_t match);
/* Queues a receive in m so that its seq is in one order with the receives of another. */
void tw_match_post_among(struct tw_match *m, struct tw_posted *p, struct tw_match *other);

/* For their callers below. */
void tw_match_post_tables(struct tw_match *m, struct tw_posted *p);
void tw_match_arrive_indexed(struct tw_match *m, struct tw_unexp *u);
void tw_match_remove_indexed(struct tw_match *m, struct tw_unexp *u);
struct tw_unexp *tw_match_search_unexp(struct tw_match *m, uint64_t key, uint64_t mask);

static inline void tw_match_enlist(struct tw_match_head *h, struct tw_posted *p)
{
	p->table = NULL;
	h->nlisted++;
	tw_list_add_tail(&h->list, &p->list);
}

/* Queues a receive that matches nothing that has arrived. Cannot fail. */
static inline void tw_match_post(struct tw_match *m, struct tw_posted *p)
{
	struct tw_match_head *h = (struct tw_match_head *)m;

	p->seq = h->posted_seq++;
	if (tw_unlikely(h->live || h->nlisted >= TW_MATCH_LISTED))
		tw_match_post_tables(m, p);
	else
		tw_match_enlist(h, p);
}

/* Queues a message that matches no posted receive. Cannot fail. */
static inline void tw_match_arrive(struct tw_match *m, struct tw_unexp *u)
{
	struct tw_match_head *q = (struct tw_match_head *)m;

	q->nunexp++;
	tw_list_add_tail(&q->all, &u->all);
	if (tw_unlikely(q->built))
		tw_match_arrive_indexed(m, u);
}

/* Removes an unexpected message. */
static inline void tw_match_remove(struct tw_match *m, struct tw_unexp *u)
{
	struct tw_match_head *q = (struct tw_match_head *)m;

	q->nunexp--;
	tw_list_del(&u->all);
	if (tw_unlikely(q->built))
		tw_match_remove_indexed(m, u);
}

/* Returns the earliest message for (key, mask) and keeps it queued; NULL if none. */
static inline struct tw_unexp *tw_match_find_unexp(struct tw_match *m, uint64_t key, uint64_t mask)
{
	struct tw_list *all = &((struct tw_match_head *)m)->all;
	struct tw_unexp *first = tw_container(all->next, struct tw_unexp, all);

	if (tw_list_empty(all))
		return NULL;
	return (first->match & mask) == key ? first : tw_match_search_unexp(m, key, mask);
}

/* Returns the next one after u. */
struct tw_unexp *tw_match_next_unexp(struct tw_match *m, struct tw_unexp *u, uint64_t key,
				     uint64_t mask);

/* As tw_match_find_unexp(), by name. */
struct tw_unexp *tw_match_find_named(struct tw_match *m, uint64_t name);

/* Releases the memory of empty tables. */
void tw_match_trim(struct tw_match *m);

#endif /* TW_MATCH_H */
