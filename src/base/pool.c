/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

void tw_pool_init(struct tw_pool *p, uint32_t size, uint32_t max)
{
	memset(p, 0, sizeof(*p));
	p->size = (size + TW_LINE - 1) & ~(uint32_t)(TW_LINE - 1);
	p->max_chunks = (max + TW_POOL_CHUNK - 1) >> TW_POOL_CHUNK_BITS;
}

void tw_pool_fini(struct tw_pool *p)
{
	for (uint32_t i = 0; i < p->nchunks; i++)
		free(p->chunks[i]);
	free(p->chunks);
	memset(p, 0, sizeof(*p));
}

/* The table of chunks has room for a power of two of them. */
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

int tw_pool_grow(struct tw_pool *p)
{
	size_t bytes = (size_t)p->size * TW_POOL_CHUNK;
	char *chunk;

	if (p->nchunks == p->max_chunks || grow_table(p) < 0)
		return -1;
	chunk = aligned_alloc(TW_LINE, bytes);
	if (!chunk)
		return -1;
	memset(chunk, 0, bytes);
	for (uint32_t i = TW_POOL_CHUNK; i-- > 0;) {
		struct tw_pool_obj *o = (void *)(chunk + (size_t)i * p->size);
		o->index = (p->nchunks << TW_POOL_CHUNK_BITS) + i;
		o->next_free = p->free;
		p->free = o;
	}
	p->chunks[p->nchunks++] = chunk;
	return 0;
}
