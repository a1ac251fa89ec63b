/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_GONE 256 /* longest object whose memory can be returned */

/* Stands in for every chunk that was returned. */
static char nothing[TW_POOL_CHUNK * SIZE_MAX_GONE] tw_aligned_line;

void tw_pool_init(struct tw_pool *p, uint32_t size, uint32_t max)
{
	memset(p, 0, sizeof(*p));
	p->size = (size + TW_LINE - 1) & ~(uint32_t)(TW_LINE - 1);
	p->max_chunks = (max + TW_POOL_CHUNK - 1) >> TW_POOL_CHUNK_BITS;
}

void tw_pool_fini(struct tw_pool *p)
{
	for (uint32_t i = 0; i < p->nchunks; i++)
		if (p->chunks[i] != nothing)
			free(p->chunks[i]);
	free(p->chunks);
	memset(p, 0, sizeof(*p));
}

/* The capacity of the table of chunks is a power of two. */
static int grow_table(struct tw_pool *p)
{
	uint32_t n = p->nchunks;
	char **table;

	if (n & (n - 1))
		return 0;
	table = realloc(p->chunks, (n ? 2 * (size_t)n : 1) * sizeof(*table));
	if (!table)
		return -1;
	p->chunks = table;
	return 0;
}

/* The number of the next chunk. Makes space for it in the table. */
static int next_number(struct tw_pool *p, uint32_t *n)
{
	*n = p->nchunks;
	if (!p->ngone)
		return p->nchunks == p->max_chunks ? -1 : grow_table(p);
	while (p->chunks[p->gone] != nothing)
		p->gone++;
	*n = p->gone;
	return 0;
}

int tw_pool_grow(struct tw_pool *p)
{
	size_t bytes = (size_t)p->size * TW_POOL_CHUNK;
	uint32_t n;
	char *chunk;

	if (next_number(p, &n) < 0)
		return -1;
	chunk = aligned_alloc(TW_LINE, bytes);
	if (!chunk)
		return -1;
	memset(chunk, 0, bytes);
	for (uint32_t i = TW_POOL_CHUNK; i-- > 0;) {
		struct tw_pool_obj *o = (void *)(chunk + (size_t)i * p->size);
		o->index = (n << TW_POOL_CHUNK_BITS) + i;
		o->gen = p->gen;
		if (!p->free)
			p->last = o;
		o->next_free = p->free;
		p->free = o;
	}
	if (n == p->nchunks)
		p->nchunks++;
	else
		p->ngone--;
	p->chunks[n] = chunk;
	return 0;
}

void *tw_pool_next(const struct tw_pool *p, uint32_t *index)
{
	while (*index >> TW_POOL_CHUNK_BITS < p->nchunks) {
		struct tw_pool_obj *o = tw_pool_at(p, (*index)++);

		if (o->gen & 1)
			return o;
	}
	return NULL;
}

/* Counts the free objects of each chunk. The first ones, which are kept, count as having none. */
static void count_free(const struct tw_pool *p, uint32_t keep, uint8_t *nfree)
{
	for (const struct tw_pool_obj *o = p->free; o; o = o->next_free)
		nfree[o->index >> TW_POOL_CHUNK_BITS]++;
	for (uint32_t i = 0; keep; i++) {
		nfree[i] = 0;
		keep -= p->chunks[i] != nothing;
	}
}

void tw_pool_trim(struct tw_pool *p, uint32_t keep)
{
	struct tw_pool_obj **at = &p->free, *o, *last = NULL;
	uint8_t *nfree;

	_Static_assert(TW_POOL_CHUNK <= UINT8_MAX, "counts of a chunk's objects");
	if (tw_pool_held(p) <= keep || p->size > SIZE_MAX_GONE)
		return;
	nfree = calloc(p->nchunks, sizeof(*nfree));
	if (!nfree)
		return;
	count_free(p, keep, nfree);
	while ((o = *at)) {
		if (nfree[o->index >> TW_POOL_CHUNK_BITS] < TW_POOL_CHUNK) {
			at = &o->next_free;
			last = o;
			continue;
		}
		p->gen = tw_max(p->gen, o->gen);
		*at = o->next_free;
	}
	for (uint32_t i = 0; i < p->nchunks; i++) {
		if (nfree[i] < TW_POOL_CHUNK)
			continue;
		free(p->chunks[i]);
		p->chunks[i] = nothing;
		p->ngone++;
	}
	p->last = last;
	p->gone = 0;
	free(nfree);
}
