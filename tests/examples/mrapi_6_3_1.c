/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.3, use case 1: node 2 follows a linked list in node 1's memory through
 * a software cache and writes a score for each entity back by DMA, from two
 * buffers in turn. As the text has it, but node 1 attaches before it detaches,
 * and results land where their buffer began.
 */
#include <stdio.h>
#include <string.h>

#include "examples/mrapi_common.h"
#include "lib/twt.h"

#define AGREED_ID_FOR_SW_CACHE 0
#define AGREED_ID_FOR_DMA 1
#define ENTITIES 10000u
#define BUFFER_SIZE 1024u

typedef struct Entity_s {
	float a, b;
	struct Entity_s *next;
} Entity;

static float process(const Entity *e)
{
	return e->a * 2 + e->b;
}

/* ------------------------------------------------------------------- node 2 */

static mrapi_rmem_hndl_t get_and_attach(mrapi_rmem_id_t id, mrapi_rmem_atype_t type)
{
	mrapi_rmem_hndl_t handle = mrapi_rmem_get(id, type, &status);

	CHECK;
	mrapi_rmem_attach(handle, type, &status);
	CHECK;
	return handle;
}

static void write_back(mrapi_rmem_hndl_t dma, unsigned first, const float *buffer, unsigned n,
		       mrapi_request_t *request)
{
	mrapi_rmem_write_i(dma, first * (unsigned)sizeof(float), buffer, 0,
			   n * (unsigned)sizeof(float), 1, 0, 0, request, &status);
	CHECK;
}

static int node2(void *arg, int fd)
{
	static float result_buffers[2][BUFFER_SIZE];
	mrapi_rmem_hndl_t cache, dma;
	mrapi_request_t request[2];
	uintptr_t heap, at;
	unsigned done = 0, cur = 0, writes = 0;
	Entity e;

	(void)arg;
	if (twt_get(fd, &heap, sizeof(heap)) < 0 || twt_get(fd, &at, sizeof(at)) < 0)
		return 1;
	become(2);
	cache = get_and_attach(AGREED_ID_FOR_SW_CACHE, MRAPI_ACCESS_TYPE_SW_CACHE);
	dma = get_and_attach(AGREED_ID_FOR_DMA, MRAPI_ACCESS_TYPE_DMA);
	do {
		mrapi_rmem_read(cache, (mrapi_uint32_t)(at - heap), &e, 0, sizeof(e), 1, 0, 0,
				&status);
		CHECK;
		result_buffers[cur][done % BUFFER_SIZE] = process(&e);
		done++;
		at = (uintptr_t)e.next;
		if (done % BUFFER_SIZE && at)
			continue;
		write_back(dma, (done - 1) / BUFFER_SIZE * BUFFER_SIZE, result_buffers[cur],
			   (done - 1) % BUFFER_SIZE + 1, &request[cur]);
		cur = 1 - cur;
		/* The other buffer is filled next: its own write must be over. */
		if (writes++ > 0) {
			mrapi_wait(&request[cur], NULL, MRAPI_TIMEOUT_INFINITE, &status);
			CHECK;
		}
	} while (at);
	mrapi_wait(&request[1 - cur], NULL, MRAPI_TIMEOUT_INFINITE, &status);
	CHECK;
	mrapi_rmem_detach(cache, &status);
	CHECK;
	mrapi_rmem_detach(dma, &status);
	CHECK;
	return twt_put(fd, "d", 1) < 0;
}

/* ------------------------------------------------------------------- node 1 */

/* A list through the array, far from its order. */
static Entity *chain(Entity *heap)
{
	for (unsigned i = 0; i < ENTITIES; i++) {
		heap[i].a = (float)i;
		heap[i].b = 1;
		heap[i * 7919u % ENTITIES].next = &heap[(i + 1) * 7919u % ENTITIES];
	}
	heap[(ENTITIES - 1) * 7919u % ENTITIES].next = NULL;
	return heap;
}

static void give_up(mrapi_rmem_hndl_t handle)
{
	mrapi_rmem_detach(handle, &status);
	CHECK;
	mrapi_rmem_delete(handle, &status);
	CHECK;
}

int main(void)
{
	static Entity heap[ENTITIES];
	static float scores[ENTITIES];
	mrapi_rmem_hndl_t cache, dma;
	struct twt_child child;
	uintptr_t start = (uintptr_t)heap, first;
	char done;

	twt_spawn(&child, node2, NULL);
	become(1);
	first = (uintptr_t)chain(heap);
	cache = mrapi_rmem_create(AGREED_ID_FOR_SW_CACHE, heap, MRAPI_ACCESS_TYPE_SW_CACHE, NULL,
				  sizeof(heap), &status);
	CHECK;
	dma = mrapi_rmem_create(AGREED_ID_FOR_DMA, scores, MRAPI_ACCESS_TYPE_DMA, NULL,
				sizeof(scores), &status);
	CHECK;
	mrapi_rmem_attach(cache, &status);
	CHECK;
	mrapi_rmem_attach(dma, &status);
	CHECK;
	if (twt_put(child.fd, &start, sizeof(start)) || twt_put(child.fd, &first, sizeof(first)) ||
	    twt_get(child.fd, &done, 1) || twt_join(&child, TWT_LONG) != 0)
		return 1;
	give_up(cache);
	give_up(dma);
	for (unsigned i = 0; i < ENTITIES; i++)
		if (scores[i] != process(&heap[i * 7919u % ENTITIES])) {
			fprintf(stderr, "score %u is %f\n", i, (double)scores[i]);
			return 1;
		}
	mrapi_finalize(&status);
	CHECK;
	return 0;
}
