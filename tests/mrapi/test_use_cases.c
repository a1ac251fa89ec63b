/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The use cases of section 6: 6.3 remote memory (1: software cache and double
 * buffering, 2: spill buffers) and 6.5 the table of packet flows. 6.1 and 6.6
 * are with the resources.
 */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_use_case, .init = twc_job, .timeout = MR_TIMEOUT);

/* ---- 6.3, use case 1 */

enum { ENTITIES = 5000, BUFFER = 512, SW_CACHE = 0, DMA = 1 };

struct entity {
	uint32_t data[6];
	uint64_t next; /* its address at node 1; 0: the last */
};

struct list {
	uint64_t heap, first;
	float *scores; /* at node 1 */
	struct entity *entities;
	mrapi_rmem_hndl_t cache, dma;
};

static float process(const struct entity *e)
{
	return (float)(e->data[0] + e->data[5]);
}

/* Node 1: a list whose elements lie about its heap, and room for the scores. */
static void node1_offers(void *arg)
{
	struct list *l = arg;
	uint64_t rng = 4;
	int *order = malloc(ENTITIES * sizeof(*order));

	l->entities = calloc(ENTITIES, sizeof(*l->entities));
	l->scores = calloc(ENTITIES, sizeof(*l->scores));
	for (int i = 0; i < ENTITIES; i++)
		order[i] = i;
	for (int i = ENTITIES - 1; i > 0; i--) {
		int k = (int)(twt_random(&rng) % (uint64_t)(i + 1)), was = order[i];

		order[i] = order[k];
		order[k] = was;
	}
	for (int i = 0; i < ENTITIES; i++) {
		struct entity *e = &l->entities[order[i]];

		e->data[0] = (uint32_t)i;
		e->data[5] = 3;
		e->next = i + 1 < ENTITIES ? (uintptr_t)&l->entities[order[i + 1]] : 0;
	}
	l->heap = (uintptr_t)l->entities;
	l->first = (uintptr_t)&l->entities[order[0]];
	l->cache = mr_val(mrapi_rmem_create(SW_CACHE, l->entities, MRAPI_ACCESS_TYPE_SW_CACHE, NULL,
					    ENTITIES * sizeof(*l->entities), &mr_st));
	l->dma = mr_val(mrapi_rmem_create(DMA, l->scores, MRAPI_ACCESS_TYPE_DMA, NULL,
					  ENTITIES * sizeof(*l->scores), &mr_st));
	free(order);
}

static void node1_checks(void *arg)
{
	struct list *l = arg;

	for (int i = 0; i < ENTITIES; i++)
		twc_check(l->scores[i] == (float)(i + 3));
	mr_ok(mrapi_rmem_delete(l->cache, &mr_st));
	mr_ok(mrapi_rmem_delete(l->dma, &mr_st));
	free(l->entities);
	free(l->scores);
}

static mrapi_rmem_hndl_t attach(mrapi_rmem_id_t id, mrapi_rmem_atype_t atype)
{
	mrapi_rmem_hndl_t h = mr_val(mrapi_rmem_get(id, atype, &mr_st));

	mr_ok(mrapi_rmem_attach(h, atype, &mr_st));
	return h;
}

MR_BOTH(mrapi_use_case, remote_memory_1)
{
	static float buffer[2][BUFFER];
	struct list *l = mr_shared(sizeof(*l));
	mrapi_rmem_hndl_t cache, dma;
	mrapi_request_t request[2];
	struct entity e = {.next = 0};
	struct mr_peer node1;
	unsigned done = 0;
	int cur = 0, pending[2] = {0};

	mr_peer(&node1, where, 1);
	mr_do(&node1, node1_offers, l);
	mr_up(2);
	cache = attach(SW_CACHE, MRAPI_ACCESS_TYPE_SW_CACHE);
	dma = attach(DMA, MRAPI_ACCESS_TYPE_DMA);
	for (uint64_t at = l->first; at; at = e.next) {
		unsigned n = done % BUFFER + 1;

		mr_ok(mrapi_rmem_read(cache, (mrapi_uint32_t)(at - l->heap), &e, 0, sizeof(e), 1, 0,
				      0, &mr_st));
		buffer[cur][n - 1] = process(&e);
		done++;
		if (n < BUFFER && e.next)
			continue;
		mr_ok(mrapi_rmem_write_i(dma, (done - n) * sizeof(float), buffer[cur], 0,
					 n * sizeof(float), 1, 0, 0, &request[cur], &mr_st));
		pending[cur] = 1;
		cur = 1 - cur;
		/* The other buffer's write, before it is filled again. */
		if (pending[cur])
			twc_check(mr_val(mrapi_wait(&request[cur], NULL, MR_LONG, &mr_st)));
		pending[cur] = 0;
	}
	twc_check(mr_val(mrapi_wait(&request[1 - cur], NULL, MR_LONG, &mr_st)));
	twc_eq(done, ENTITIES);
	mr_ok(mrapi_rmem_detach(cache, &mr_st));
	mr_ok(mrapi_rmem_detach(dma, &mr_st));
	mr_do(&node1, node1_checks, l);
	mr_down();
	mr_peer_end(&node1);
}

/* ---- 6.3, use case 2 */

enum { SPILLS = 20 };

struct spill {
	mrapi_rmem_id_t id;
	uint32_t bytes;
	void *memory; /* at node 1 */
	mrapi_rmem_hndl_t h;
};

static void more_memory(void *arg)
{
	struct spill *s = arg;

	s->memory = malloc(s->bytes);
	s->h = mr_val(mrapi_rmem_create(MRAPI_RMEM_ID_ANY, s->memory, MRAPI_RMEM_ATYPE_DEFAULT,
					NULL, s->bytes, &mr_st));
	mr_ok(mrapi_rmem_get_attribute(s->h, MRAPI_OBJECT_ID, &s->id, sizeof(s->id), &mr_st));
}

static void reclaim(void *arg)
{
	struct spill *s = arg;

	mr_ok(mrapi_rmem_delete(s->h, &mr_st));
	free(s->memory);
}

MR_BOTH(mrapi_use_case, remote_memory_2)
{
	struct spill *s = mr_shared(SPILLS * sizeof(*s));
	mrapi_rmem_hndl_t h[SPILLS];
	static char local[100000];
	struct mr_peer node1;

	mr_peer(&node1, where, 1);
	mr_up(2);
	for (int i = 0; i < SPILLS; i++) {
		s[i].bytes = 1000 + 4000u * (uint32_t)i;
		mr_do(&node1, more_memory, &s[i]);
		h[i] = attach(s[i].id, MRAPI_RMEM_ATYPE_DEFAULT);
		twt_fill(local, s[i].bytes, (uint64_t)i);
		mr_ok(mrapi_rmem_write(h[i], 0, local, 0, s[i].bytes, 1, 0, 0, &mr_st));
	}
	for (int i = SPILLS; i-- > 0;) {
		memset(local, 0, sizeof(local));
		mr_ok(mrapi_rmem_read(h[i], 0, local, sizeof(local), 0, s[i].bytes, 1, 0, 0,
				      &mr_st));
		twc_eq(twt_check(local, s[i].bytes, (uint64_t)i), s[i].bytes);
		mr_ok(mrapi_rmem_detach(h[i], &mr_st));
	}
	for (int i = 0; i < SPILLS; i++)
		mr_do(&node1, reclaim, &s[i]);
	mr_down();
	mr_peer_end(&node1);
}

/* ---- 6.5 */

enum { WORKERS = 4, BUCKETS = 16, FLOWS = 200, PACKETS = 2000, SHMEM_ID = 7 };

struct flow {
	struct flow *next;
	unsigned source, packets;
};

struct flow_table {
	struct {
		mrapi_mutex_hndl_t lock;
		struct flow *list;
	} bucket[BUCKETS];
	struct flow *free_list;
	mrapi_mutex_hndl_t free_lock;
	struct flow flow[FLOWS];
};

struct worker {
	int rank;
	struct flow_table *table;
};

static void make_table(struct flow_table *t)
{
	for (int i = 0; i < FLOWS; i++) {
		t->flow[i].next = t->free_list;
		t->free_list = &t->flow[i];
	}
	for (mrapi_mutex_id_t i = 0; i < BUCKETS; i++)
		t->bucket[i].lock = mr_val(mrapi_mutex_create(i, NULL, &mr_st));
	t->free_lock = mr_val(mrapi_mutex_create(BUCKETS + 1, NULL, &mr_st));
}

static void worker_init(void *arg)
{
	struct worker *w = arg;
	mrapi_shmem_hndl_t h;

	if (w->rank == 0)
		h = mr_val(mrapi_shmem_create(SHMEM_ID, sizeof(struct flow_table), NULL, 0, NULL, 0,
					      &mr_st));
	else
		h = mr_val(mrapi_shmem_get(SHMEM_ID, &mr_st));
	w->table = mr_val(mrapi_shmem_attach(h, &mr_st));
	if (w->rank == 0)
		make_table(w->table);
}

/* A flow that is new, under the lock of its bucket. */
static struct flow *new_flow(struct flow_table *t, unsigned source)
{
	mrapi_key_t key;
	struct flow *f;

	mr_ok(mrapi_mutex_lock(t->free_lock, &key, MRAPI_INFINITE, &mr_st));
	f = t->free_list;
	twc_check(f);
	t->free_list = f->next;
	mr_ok(mrapi_mutex_unlock(t->free_lock, &key, &mr_st));
	f->source = source;
	f->packets = 0;
	f->next = t->bucket[source % BUCKETS].list;
	t->bucket[source % BUCKETS].list = f;
	return f;
}

static void worker_runs(void *arg)
{
	struct worker *w = arg;
	uint64_t rng = (uint64_t)w->rank;

	for (int i = 0; i < PACKETS; i++) {
		unsigned source = (unsigned)(twt_random(&rng) % FLOWS), b = source % BUCKETS;
		mrapi_key_t key;
		struct flow *f;

		mr_ok(mrapi_mutex_lock(w->table->bucket[b].lock, &key, MRAPI_INFINITE, &mr_st));
		for (f = w->table->bucket[b].list; f && f->source != source; f = f->next)
			;
		if (!f)
			f = new_flow(w->table, source);
		f->packets++;
		mr_ok(mrapi_mutex_unlock(w->table->bucket[b].lock, &key, &mr_st));
	}
}

static void worker_checks(void *arg)
{
	struct worker *w = arg;
	unsigned packets = 0, flows = 0;

	for (int b = 0; b < BUCKETS; b++)
		for (struct flow *f = w->table->bucket[b].list; f; f = f->next) {
			packets += f->packets;
			flows++;
		}
	twc_eq(packets, WORKERS * PACKETS);
	twc_check(flows <= FLOWS);
}

MR_BOTH(mrapi_use_case, packet_flows)
{
	struct worker *w = mr_shared(WORKERS * sizeof(*w));
	struct mr_peer p[WORKERS];

	for (int i = 0; i < WORKERS; i++) {
		w[i].rank = i;
		mr_peer(&p[i], where, (mrapi_node_t)i);
	}
	for (int i = 0; i < WORKERS; i++)
		mr_do(&p[i], worker_init, &w[i]);
	for (int i = 0; i < WORKERS; i++)
		mr_go(&p[i], worker_runs, &w[i]);
	for (int i = 0; i < WORKERS; i++)
		mr_done(&p[i]);
	for (int i = 0; i < WORKERS; i++)
		mr_do(&p[i], worker_checks, &w[i]);
	for (int i = 0; i < WORKERS; i++)
		mr_peer_end(&p[i]);
}
