/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects of one size with a number each. The number and a generation, counted
 * up at every release, make handles that can be checked before they are used.
 * Looking at an object that was released is safe: where its memory was given
 * back there is one that was never in use.
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
	struct tw_pool_obj *free;
	char **chunks;
	uint32_t nchunks;
	uint32_t size; /* of an object, a multiple of a line */
	uint32_t max_chunks;
	uint32_t ngone; /* chunks that were given back, */
	uint32_t gone;	/* the first of them or before it, */
	uint32_t gen;	/* the last generation that was in any */
};

/* About max objects of so many bytes: whole chunks of them. */
void tw_pool_init(struct tw_pool *p, uint32_t size, uint32_t max);
void tw_pool_fini(struct tw_pool *p);
/* Adds a chunk of free objects; 0, or -1 when memory or numbers are used up. */
int tw_pool_grow(struct tw_pool *p);
/* Gives back the chunks without an object in use, but for so many. */
void tw_pool_trim(struct tw_pool *p, uint32_t keep);

static inline uint32_t tw_pool_held(const struct tw_pool *p)
{
	return p->nchunks - p->ngone;
}

/* An object, not cleared but for its header; NULL when memory is short. */
tw_shared void *tw_pool_get(struct tw_pool *p)
{
	struct tw_pool_obj *o;

	if (tw_unlikely(!p->free) && tw_pool_grow(p) < 0)
		return NULL;
	o = p->free;
	p->free = o->next_free;
	o->gen++;
	return o;
}

static inline void tw_pool_put(struct tw_pool *p, void *object)
{
	struct tw_pool_obj *o = object;

	o->gen++;
	o->next_free = p->free;
	p->free = o;
}

/* The object of that number and generation; NULL if there is none in use. */
tw_shared void *tw_pool_find(const struct tw_pool *p, uint32_t index, uint32_t gen)
{
	uint32_t chunk = index >> TW_POOL_CHUNK_BITS;
	struct tw_pool_obj *o;

	if (tw_unlikely(chunk >= p->nchunks || !(gen & 1)))
		return NULL;
	o = (struct tw_pool_obj *)(void *)(p->chunks[chunk] +
					   (size_t)(index & (TW_POOL_CHUNK - 1)) * p->size);
	return tw_likely(o->gen == gen) ? o : NULL;
}

#endif /* TW_POOL_H */
