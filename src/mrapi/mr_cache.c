/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software cache of a client (MRAPI 3.5.2): blocks of the remote memory that
 * were read, with the bytes that were written since marked. Flush writes those
 * bytes back and no others, so nodes that write beside each other do no harm;
 * sync drops the blocks as well, so the next read sees what others flushed.
 */
#include <stdlib.h>

#include "mrapi/memory.h"

#define BLOCK 4096u
#define MAX_BLOCKS 4096u /* held at a time; then all go */

struct tw_mr_cache_block {
	bool dirty;
	uint8_t written[BLOCK / 8]; /* a bit for each byte */
	char data[BLOCK];
};

static mrapi_status_t transfer(struct tw_mr_client *c, bool write, uint64_t remote, char *local,
			       uint32_t bytes)
{
	struct tw_mr_move m = {write, local, remote, bytes, 1, 0, 0};

	return tw_mr_move(c, &m);
}

static bool is_written(const struct tw_mr_cache_block *b, uint32_t at)
{
	return b->written[at / 8] >> (at % 8) & 1;
}

static mrapi_status_t write_back(struct tw_mr_client *c, uint32_t i)
{
	struct tw_mr_cache_block *b = c->cache[i];
	mrapi_status_t status = MRAPI_SUCCESS;

	if (!b->dirty)
		return status;
	for (uint32_t at = 0, end; at < BLOCK && status == MRAPI_SUCCESS; at = end) {
		for (end = at; end < BLOCK && is_written(b, end); end++)
			;
		if (end > at)
			status =
				transfer(c, true, (uint64_t)i * BLOCK + at, b->data + at, end - at);
		else
			end++;
	}
	if (status == MRAPI_SUCCESS) {
		memset(b->written, 0, sizeof(b->written));
		b->dirty = false;
	}
	return status;
}

mrapi_status_t tw_mr_cache_flush(struct tw_mr_client *c)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	for (uint32_t i = 0; c->cache && i < c->nblocks && status == MRAPI_SUCCESS; i++)
		if (c->cache[i])
			status = write_back(c, i);
	return status;
}

void tw_mr_cache_drop(struct tw_mr_client *c)
{
	for (uint32_t i = 0; c->cache && i < c->nblocks; i++)
		free(c->cache[i]);
	free(c->cache);
	c->cache = NULL;
	c->cached = 0;
}

static mrapi_status_t make_room(struct tw_mr_client *c)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	if (c->cached >= MAX_BLOCKS) {
		status = tw_mr_cache_flush(c);
		if (status == MRAPI_SUCCESS)
			tw_mr_cache_drop(c);
	}
	if (!c->cache) {
		c->nblocks = (uint32_t)(((uint64_t)c->r->size + BLOCK - 1) / BLOCK);
		c->cache = calloc(c->nblocks, sizeof(*c->cache));
	}
	return c->cache ? status : MRAPI_ERR_MEM_LIMIT;
}

/* The block, fetched if it is not there. */
static mrapi_status_t block(struct tw_mr_client *c, uint32_t i, struct tw_mr_cache_block **out)
{
	struct tw_mr_cache_block *b = c->cache ? c->cache[i] : NULL;
	uint64_t start = (uint64_t)i * BLOCK;
	mrapi_status_t status = MRAPI_SUCCESS;

	*out = b;
	if (b)
		return status;
	status = make_room(c);
	if (status != MRAPI_SUCCESS)
		return status;
	b = calloc(1, sizeof(*b));
	if (!b)
		return MRAPI_ERR_MEM_LIMIT;
	status = transfer(c, false, start, b->data, (uint32_t)tw_min(BLOCK, c->r->size - start));
	if (status != MRAPI_SUCCESS) {
		free(b);
		return status;
	}
	c->cache[i] = *out = b;
	c->cached++;
	return status;
}

static void mark(struct tw_mr_cache_block *b, uint32_t at, uint32_t bytes)
{
	b->dirty = true;
	for (uint32_t i = at; i < at + bytes; i++)
		b->written[i / 8] |= (uint8_t)(1u << (i % 8));
}

/* One access, block by block. */
static mrapi_status_t access_one(struct tw_mr_client *c, bool write, char *local, uint64_t remote,
				 uint32_t bytes)
{
	while (bytes > 0) {
		uint32_t at = (uint32_t)(remote % BLOCK), part = tw_min(bytes, BLOCK - at);
		struct tw_mr_cache_block *b;
		mrapi_status_t status = block(c, (uint32_t)(remote / BLOCK), &b);

		if (status != MRAPI_SUCCESS)
			return status;
		if (write) {
			memcpy(b->data + at, local, part);
			mark(b, at, part);
		} else {
			memcpy(local, b->data + at, part);
		}
		local += part;
		remote += part;
		bytes -= part;
	}
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mr_cache_access(struct tw_mr_client *c, const struct tw_mr_move *m)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	for (uint32_t i = 0; i < m->n && status == MRAPI_SUCCESS; i++)
		status = access_one(c, m->write, m->local + (size_t)i * m->local_stride,
				    m->remote + (uint64_t)i * m->remote_stride, m->bytes);
	return status;
}
