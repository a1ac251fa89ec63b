/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 6.5: packet processing. Workers, each a process, count the packets of
 * flows in one table in shared memory: a hash table of linked lists, a mutex for
 * each bucket and one for the list of free entries. Where the text passes 0 and
 * means to wait, this waits; its pointers are offsets, good at any address.
 */
#include <stdio.h>
#include <stdlib.h>

#include "examples/mrapi_common.h"
#include "lib/twt.h"

#define MY_SHMEM_ID 7
#define MAX_FLOWS 5000u
#define HASH_BUCKETS 512u
#define WORKERS 3
#define FLOWS 3000u
#define PACKETS 20000u

typedef struct {
	uint32_t next; /* index + 1 */
	uint32_t source, destination;
	uint64_t packets;
} flow_info_t;

typedef struct {
	struct {
		mrapi_mutex_hndl_t lock;
		uint32_t list;
	} buckets[HASH_BUCKETS];
	uint32_t free_list;
	mrapi_mutex_hndl_t free_list_lock;
	flow_info_t flows[MAX_FLOWS];
} flow_table_t;

static flow_table_t *flow_table;

static void init_table(void)
{
	mrapi_shmem_hndl_t mem =
		mrapi_shmem_create(MY_SHMEM_ID, sizeof(flow_table_t), NULL, 0, NULL, 0, &status);

	CHECK;
	flow_table = mrapi_shmem_attach(mem, &status);
	CHECK;
	for (uint32_t i = 0; i < MAX_FLOWS; i++) {
		flow_table->flows[i].next = flow_table->free_list;
		flow_table->free_list = i + 1;
	}
	for (uint32_t i = 0; i < HASH_BUCKETS; i++) {
		flow_table->buckets[i].lock = mrapi_mutex_create(i, NULL, &status);
		CHECK;
	}
	flow_table->free_list_lock = mrapi_mutex_create(HASH_BUCKETS + 1, NULL, &status);
	CHECK;
}

static void init(int rank)
{
	become((mrapi_node_t)rank);
	if (rank == 0) {
		init_table();
		return;
	}
	flow_table = mrapi_shmem_attach(mrapi_shmem_get(MY_SHMEM_ID, &status), &status);
	CHECK;
}

static flow_info_t *find_flow(uint32_t at, uint32_t source, uint32_t destination)
{
	for (; at; at = flow_table->flows[at - 1].next)
		if (flow_table->flows[at - 1].source == source &&
		    flow_table->flows[at - 1].destination == destination)
			return &flow_table->flows[at - 1];
	return NULL;
}

static flow_info_t *new_flow(uint32_t bucket, uint32_t source, uint32_t destination)
{
	flow_info_t *flow;
	mrapi_key_t key;
	uint32_t at;

	mrapi_mutex_lock(flow_table->free_list_lock, &key, MRAPI_INFINITE, &status);
	CHECK;
	at = flow_table->free_list;
	if (!at)
		exit(1);
	flow = &flow_table->flows[at - 1];
	flow_table->free_list = flow->next;
	mrapi_mutex_unlock(flow_table->free_list_lock, &key, &status);
	CHECK;
	*flow = (flow_info_t){flow_table->buckets[bucket].list, source, destination, 0};
	flow_table->buckets[bucket].list = at;
	return flow;
}

static void update_flows(uint32_t source, uint32_t destination)
{
	uint32_t bucket = (source * 31 + destination) % HASH_BUCKETS;
	flow_info_t *flow;
	mrapi_key_t key;

	mrapi_mutex_lock(flow_table->buckets[bucket].lock, &key, MRAPI_INFINITE, &status);
	CHECK;
	flow = find_flow(flow_table->buckets[bucket].list, source, destination);
	if (!flow)
		flow = new_flow(bucket, source, destination);
	flow->packets++;
	mrapi_mutex_unlock(flow_table->buckets[bucket].lock, &key, &status);
	CHECK;
}

static int worker(void *arg, int fd)
{
	int rank = *(int *)arg;
	uint64_t rng = (uint64_t)rank;
	char go;

	if (twt_get(fd, &go, 1) < 0)
		return 1;
	init(rank);
	for (uint32_t i = 0; i < PACKETS; i++) {
		uint32_t flow = (uint32_t)(twt_random(&rng) % FLOWS);

		update_flows(flow, flow / 3);
	}
	mrapi_finalize(&status);
	CHECK;
	return 0;
}

int main(void)
{
	struct twt_child child[WORKERS];
	uint64_t packets = 0;
	uint32_t flows = 0;

	for (int i = 0; i < WORKERS; i++) {
		int rank = i + 1;

		twt_spawn(&child[i], worker, &rank);
	}
	init(0);
	for (int i = 0; i < WORKERS; i++)
		if (twt_put(child[i].fd, "g", 1) < 0)
			return 1;
	for (int i = 0; i < WORKERS; i++)
		if (twt_join(&child[i], TWT_LONG) != 0)
			return 1;
	for (uint32_t b = 0; b < HASH_BUCKETS; b++)
		for (uint32_t at = flow_table->buckets[b].list; at;
		     at = flow_table->flows[at - 1].next) {
			packets += flow_table->flows[at - 1].packets;
			flows++;
		}
	mrapi_finalize(&status);
	CHECK;
	printf("%u flows, %llu packets\n", flows, (unsigned long long)packets);
	return packets == (uint64_t)WORKERS * PACKETS && flows <= FLOWS ? 0 : 1;
}
