/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of one size, each with a number. The number and a generation, incremented at
 * every allocation and release, form handles that can be checked before use. It is safe to
 * look at an object that was released: where its memory was returned, the lookup finds a
 * dummy that was never in use.
 */
#ifndef TW_POOL_H
#define TW_POOL_H

#include "base/compiler.h"

#define TW_POOL_CHUNK_BITS 7
#define TW_POOL_CHUNK (1u << TW_POOL_CHUNK_BITS)

/* The start of every pooled object. */
struct tw_pool_obj {
	uint32_t index;
	uint32_t gen; /* odd while in use */
	struct tw_pool_obj *next_free;
};

struct tw_pool {
	struct tw_pool_obj *free, *last; /* last: see tw_pool_put_last() */
	char **chunks;
	uint32_t nchunks;
	uint32_t size; /* of an object, a multiple of a cache line */
	uint32_t max_chunks;
	uint32_t ngone; /* chunks that were returned, */
	uint32_t gone;	/* the first of them or a smaller number, */
	uint32_t gen;	/* the highest generation in any of them */
};

/* Makes a pool of about max objects, rounded to whole chunks. */
void tw_pool_init(struct tw_pool *p, uint32_t size, uint32_t max);
void tw_pool_fini(struct tw_pool *p);
/* Adds a chunk of free objects. Returns -1 when memory or numbers are used up. */
int tw_pool_grow(struct tw_pool *p);
/* Returns unused chunks to the system, except this many. */
void tw_pool_trim(struct tw_pool *p, uint32_t keep);

static inline uint32_t tw_pool_held(const struct tw_pool *p)
{
	return p->nchunks - p->ngone;
}

/* Returns an object, as it was left but for its header. There must be one. */
static inline void *tw_pool_take(struct tw_pool *p)
{
	struct tw_pool_obj *o = p->free;

	p->free = o->next_free;
	o->gen++;
	return o;
}

/* An object of the pool; NULL when memory is short. */
tw_shared void *tw_pool_get(struct tw_pool *p)
{
	if (tw_unlikely(!p->free) && tw_pool_grow(p) < 0)
		return NULL;
	return tw_pool_take(p);
}

static inline void tw_pool_put(struct tw_pool *p, void *object)
{
	struct tw_pool_obj *o = object;

	o->gen++;
	o->next_free = p->free;
	p->free = o;
}

/* Of a pool whose objects all return this way: the one that was released first is taken first. */
static inline void tw_pool_put_last(struct tw_pool *p, void *object)
{
	struct tw_pool_obj *o = object;

	o->gen++;
	o->next_free = NULL;
	if (p->free)
		p->last->next_free = o;
	else
		p->free = o;
	p->last = o;
}

static inline void *tw_pool_at(const struct tw_pool *p, uint32_t index)
{
	return p->chunks[index >> TW_POOL_CHUNK_BITS] +
	       (size_t)(index & (TW_POOL_CHUNK - 1)) * p->size;
}

/* The first object in use from number *index on, which becomes the next; NULL: no more. */
void *tw_pool_next(const struct tw_pool *p, uint32_t *index);

/* Returns the object of this number and generation, or NULL if it is not in use. */
tw_shared void *tw_pool_find(const struct tw_pool *p, uint32_t index, uint32_t gen)
{
	struct tw_pool_obj *o;

	if (tw_unlikely(index >> TW_POOL_CHUNK_BITS >= p->nchunks || !(gen & 1)))
		return NULL;
	o = tw_pool_at(p, index);
	return tw_likely(o->gen == gen) ? o : NULL;
}

#endif /* TW_POOL_H */
