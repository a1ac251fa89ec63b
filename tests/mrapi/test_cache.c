/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 3.5.2: the software cache is a node's own, whether or not the nodes are of one
 * process: what one has written others see once it has flushed and they sync.
 */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_cache, .init = twc_job, .timeout = MR_TIMEOUT);

enum { SIZE = 20000 };

/* What the second client is asked to do, and what it has found. */
struct job {
	mrapi_rmem_hndl_t h;
	uint32_t at, len;
	char bytes[SIZE];
};

static void attach(void *arg)
{
	struct job *j = arg;

	j->h = mr_val(mrapi_rmem_get(1, MRAPI_ACCESS_TYPE_SW_CACHE, &mr_st));
	mr_ok(mrapi_rmem_attach(j->h, &mr_st));
}

static void detach(void *arg)
{
	struct job *j = arg;

	mr_ok(mrapi_rmem_detach(j->h, &mr_st));
}

static void get(void *arg)
{
	struct job *j = arg;

	mr_ok(mrapi_rmem_read(j->h, j->at, j->bytes, SIZE, 0, j->len, 1, 0, 0, &mr_st));
}

static void put(void *arg)
{
	struct job *j = arg;

	mr_ok(mrapi_rmem_write(j->h, j->at, j->bytes, 0, j->len, 1, 0, 0, &mr_st));
}

static void flush(void *arg)
{
	struct job *j = arg;

	mr_ok(mrapi_rmem_flush(j->h, &mr_st));
}

static void sync(void *arg)
{
	struct job *j = arg;

	mr_ok(mrapi_rmem_sync(j->h, &mr_st));
}

/* What a client, here or there, finds at a place. */
static int seen(struct job *j, struct mr_peer *there, uint32_t at)
{
	j->at = at;
	j->len = 1;
	if (there)
		mr_do(there, get, j);
	else
		get(j);
	return j->bytes[0];
}

static void write_at(struct job *j, struct mr_peer *there, uint32_t at, uint32_t len, int value)
{
	j->at = at;
	j->len = len;
	memset(j->bytes, value, len);
	if (there)
		mr_do(there, put, j);
	else
		put(j);
}

/* This node owns the memory, and is a client of it; so is another. */
static struct job *begin(struct mr_peer *p, enum mr_where where, char *mem, struct job *own)
{
	struct job *there = mr_shared(sizeof(*there));

	mr_peer(p, where, 1);
	mr_up(MR_NODE);
	mr_ok(mrapi_rmem_create(1, mem, MRAPI_ACCESS_TYPE_SW_CACHE, NULL, SIZE, &mr_st));
	attach(own);
	mr_do(p, attach, there);
	return there;
}

MR_BOTH(mrapi_cache, of_each_node)
{
	static char mem[SIZE];
	static struct job own;
	struct mr_peer p;
	struct job *there = begin(&p, where, mem, &own);

	twc_eq(seen(there, &p, 5000), 0);
	write_at(&own, NULL, 4000, 3000, 1);
	twc_eq(seen(&own, NULL, 5000), 1);
	/* Written, and cached here alone. */
	twc_eq(mem[5000], 0);
	twc_eq(seen(there, &p, 5000), 0);
	/* Another's flush and sync have nothing to do with it. */
	mr_do(&p, flush, there);
	mr_do(&p, sync, there);
	twc_eq(mem[5000], 0);
	twc_eq(seen(there, &p, 5000), 0);
	/* Flushed, but what the other has cached is its own. */
	flush(&own);
	twc_eq(mem[4000], 1);
	twc_eq(mem[6999], 1);
	twc_eq(mem[7000], 0);
	twc_eq(seen(there, &p, 5000), 0);
	mr_do(&p, sync, there);
	twc_eq(seen(there, &p, 5000), 1);
	mr_do(&p, detach, there);
	detach(&own);
	mr_peer_end(&p);
	mr_down();
}

/* Written beside each other, in the same blocks: nothing is lost, whoever flushes first. */
MR_BOTH(mrapi_cache, beside_each_other)
{
	static char mem[SIZE];
	static struct job own;
	struct mr_peer p;
	struct job *there = begin(&p, where, mem, &own);

	for (uint32_t at = 0; at < SIZE; at += 200) {
		write_at(&own, NULL, at, 100, 1);
		write_at(there, &p, at + 100, 100, 2);
	}
	sync(&own);
	twc_eq(seen(&own, NULL, 150), 0);
	mr_do(&p, flush, there);
	for (uint32_t at = 0; at < SIZE; at++)
		twc_eq(mem[at], at % 200 < 100 ? 1 : 2);
	twc_eq(seen(there, &p, 50), 0);
	sync(&own);
	twc_eq(seen(&own, NULL, 150), 2);
	/* Detaching writes back; what the other caches stays as it is. */
	write_at(there, &p, 150, 1, 3);
	mr_do(&p, detach, there);
	twc_eq(mem[150], 3);
	twc_eq(seen(&own, NULL, 150), 2);
	/* Attached anew it begins without a cache. */
	mr_do(&p, attach, there);
	twc_eq(seen(there, &p, 50), 1);
	mr_do(&p, detach, there);
	detach(&own);
	mr_peer_end(&p);
	mr_down();
}

/* A node that is finalized is detached: what it has written arrives. */
MR_BOTH(mrapi_cache, finalized)
{
	static char mem[SIZE];
	static struct job own;
	struct mr_peer p;
	struct job *there = begin(&p, where, mem, &own);

	write_at(there, &p, 9000, 10, 4);
	twc_eq(seen(&own, NULL, 9000), 0);
	mr_peer_end(&p);
	twc_eq(mem[9000], 4);
	twc_eq(mem[9009], 4);
	twc_eq(seen(&own, NULL, 9000), 0);
	sync(&own);
	twc_eq(seen(&own, NULL, 9000), 4);
	/* Its place is another node's, which finds no cache of its predecessor. */
	mr_peer(&p, where, 2);
	mem[9000] = 5;
	mr_do(&p, attach, there);
	twc_eq(seen(there, &p, 9000), 5);
	mr_peer_end(&p);
	detach(&own);
	mr_down();
}
