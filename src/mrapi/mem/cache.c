/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A node's software cache of one remote memory (MRAPI 3.5.2): blocks that were read,
 * and which bytes were written since. Flush writes back exactly those bytes, so
 * nodes that write neighbouring bytes do not overwrite each other. Sync also drops the
 * blocks, so the next read sees what others have flushed. Each node has its own cache,
 * also within one process.
 */
#include <stdlib.h>

#include "mrapi/mem/memory.h"

#define BLOCK 4096u
#define MAX_BLOCKS 4096u /* per cache; a full cache is emptied */

struct tw_mrapi_cache_block {
	bool dirty;
	char written[BLOCK]; /* 1: that byte */
	char data[BLOCK];
};

struct tw_mrapi_cache {
	struct tw_mrapi_cache *next;
	uint32_t me; /* its owner; kept for the next node with the same slot */
	struct tw_mrapi_cache_block **block;
	uint32_t nblocks; /* slots, as the memory may be another one when they are released */
	uint32_t cached;
};

static mrapi_status_t transfer(struct tw_mrapi_client *c, bool write, uint64_t remote, char *local,
			       uint32_t bytes)
{
	struct tw_mrapi_move m = {write, local, remote, bytes, 1, 0, 0, c->handle};

	return tw_mrapi_move(c, &m);
}

static mrapi_status_t write_back(struct tw_mrapi_client *c, struct tw_mrapi_cache_block *b,
				 uint32_t i)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	const char *from = b->written, *top = from + BLOCK, *end;

	if (!b->dirty)
		return status;
	while (status == MRAPI_SUCCESS && (from = memchr(from, 1, (size_t)(top - from)))) {
		uint32_t at = (uint32_t)(from - b->written);

		end = memchr(from, 0, (size_t)(top - from));
		end = end ? end : top;
		status = transfer(c, true, (uint64_t)i * BLOCK + at, b->data + at,
				  (uint32_t)(end - from));
		from = end;
	}
	if (status == MRAPI_SUCCESS) {
		memset(b->written, 0, sizeof(b->written));
		b->dirty = false;
	}
	return status;
}

static mrapi_status_t cache_flush(struct tw_mrapi_client *c, struct tw_mrapi_cache *k)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	for (uint32_t i = 0; k->block && i < k->nblocks && status == MRAPI_SUCCESS; i++)
		if (k->block[i])
			status = write_back(c, k->block[i], i);
	return status;
}

static void cache_drop(struct tw_mrapi_cache *k)
{
	for (uint32_t i = 0; k->block && i < k->nblocks; i++)
		free(k->block[i]);
	free(k->block);
	k->block = NULL;
	k->cached = 0;
}

static mrapi_status_t make_room(struct tw_mrapi_client *c, struct tw_mrapi_cache *k)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	if (k->cached >= MAX_BLOCKS) {
		status = cache_flush(c, k);
		if (status == MRAPI_SUCCESS)
			cache_drop(k);
	}
	if (!k->block) {
		k->nblocks = (uint32_t)(((uint64_t)c->r->size + BLOCK - 1) / BLOCK);
		k->block = calloc(k->nblocks, sizeof(*k->block));
	}
	return k->block ? status : MRAPI_ERR_MEM_LIMIT;
}

/* The block, read from the memory if it is not cached. */
static mrapi_status_t block(struct tw_mrapi_client *c, struct tw_mrapi_cache *k, uint32_t i,
			    struct tw_mrapi_cache_block **out)
{
	struct tw_mrapi_cache_block *b;
	uint64_t start = (uint64_t)i * BLOCK;
	mrapi_status_t status = MRAPI_SUCCESS;

	*out = b = k->block && i < k->nblocks ? k->block[i] : NULL;
	if (b)
		return status;
	status = make_room(c, k);
	if (status != MRAPI_SUCCESS)
		return status;
	/* The owner has died, and its slot has other memory. */
	if (i >= k->nblocks || start >= c->r->size)
		return MRAPI_ERR_RMEM_INVALID;
	b = calloc(1, sizeof(*b));
	if (!b)
		return MRAPI_ERR_MEM_LIMIT;
	status = transfer(c, false, start, b->data, (uint32_t)tw_min(BLOCK, c->r->size - start));
	if (status != MRAPI_SUCCESS) {
		free(b);
		return status;
	}
	k->block[i] = *out = b;
	k->cached++;
	return status;
}

static mrapi_status_t access_one(struct tw_mrapi_client *c, struct tw_mrapi_cache *k, bool write,
				 char *local, uint64_t remote, uint32_t bytes)
{
	while (bytes > 0) {
		uint32_t at = (uint32_t)(remote % BLOCK), part = tw_min(bytes, BLOCK - at);
		struct tw_mrapi_cache_block *b;
		mrapi_status_t status = block(c, k, (uint32_t)(remote / BLOCK), &b);

		if (status != MRAPI_SUCCESS)
			return status;
		if (write) {
			memcpy(b->data + at, local, part);
			memset(b->written + at, 1, part);
			b->dirty = true;
		} else {
			memcpy(local, b->data + at, part);
		}
		local += part;
		remote += part;
		bytes -= part;
	}
	return MRAPI_SUCCESS;
}

/* The node's cache; NULL if it has none or memory is short. Under the client's mutex. */
static struct tw_mrapi_cache *cache_find(struct tw_mrapi_client *c, uint32_t me, bool make)
{
	struct tw_mrapi_cache *k = c->caches;

	while (k && k->me != me)
		k = k->next;
	if (!k && make && (k = calloc(1, sizeof(*k)))) {
		k->me = me;
		k->next = c->caches;
		c->caches = k;
	}
	return k;
}

mrapi_status_t tw_mrapi_cache_access(struct tw_mrapi_client *c, uint32_t me,
				     const struct tw_mrapi_move *m)
{
	struct tw_mrapi_cache *k;
	mrapi_status_t status;

	tw_mrapi_lock(&c->mutex);
	k = cache_find(c, me, true);
	status = k ? MRAPI_SUCCESS : MRAPI_ERR_MEM_LIMIT;
	for (uint32_t i = 0; i < m->n && status == MRAPI_SUCCESS; i++)
		status = access_one(c, k, m->write, m->local + (size_t)i * m->local_stride,
				    m->remote + (uint64_t)i * m->remote_stride, m->bytes);
	tw_mrapi_unlock(&c->mutex);
	return status;
}

mrapi_status_t tw_mrapi_cache_flush(struct tw_mrapi_client *c, uint32_t me, bool then_drop)
{
	struct tw_mrapi_cache *k;
	mrapi_status_t status;

	tw_mrapi_lock(&c->mutex);
	k = cache_find(c, me, false);
	status = k ? cache_flush(c, k) : MRAPI_SUCCESS;
	if (k && then_drop && status == MRAPI_SUCCESS)
		cache_drop(k);
	tw_mrapi_unlock(&c->mutex);
	return status;
}

void tw_mrapi_cache_prune(struct tw_mrapi_client *c, bool all)
{
	tw_mrapi_lock(&c->mutex);
	for (struct tw_mrapi_cache *k = c->caches; k; k = k->next)
		if (all || !tw_mrapi_nodeset_has(&c->r->attached, k->me))
			cache_drop(k);
	tw_mrapi_unlock(&c->mutex);
}

void tw_mrapi_caches_forked(struct tw_mrapi_client *c)
{
	/* After a fork amid another thread's change they cannot be walked. */
	bool sound = pthread_mutex_trylock(&c->mutex) == 0;

	for (struct tw_mrapi_cache *k = c->caches; k && sound; k = k->next)
		cache_drop(k);
	if (!sound)
		c->caches = NULL;
	pthread_mutex_init(&c->mutex, NULL);
}
