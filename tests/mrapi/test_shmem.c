/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.1 Shared memory. */
#include <stdio.h>
#include <sys/mman.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_shmem, .init = twc_job, .timeout = MR_TIMEOUT);

#define SHMEM (&mr_kind[MR_SHMEM])

/* What another node does with a segment. */
struct work {
	mrapi_shmem_hndl_t h;
	mrapi_status_t status;
	void *address;
	size_t size;
	uint64_t fill, check; /* seeds; 0: not */
};

static void attach(void *arg)
{
	struct work *w = arg;

	mr_st = -1;
	w->address = mrapi_shmem_attach(w->h, &mr_st);
	w->status = mr_st;
	twc_eq(!w->address, w->status != MRAPI_SUCCESS);
}

static void detach(void *arg)
{
	struct work *w = arg;

	mr_st = -1;
	mrapi_shmem_detach(w->h, &mr_st);
	w->status = mr_st;
}

static void use(void *arg)
{
	struct work *w = arg;

	if (w->check)
		twc_eq(twt_check(w->address, w->size, w->check), w->size);
	if (w->fill)
		twt_fill(w->address, w->size, w->fill);
}

static mrapi_status_t at(struct mr_peer *p, void (*fn)(void *), struct work *w)
{
	mr_do(p, fn, w);
	return w->status;
}

static const mrapi_uint_t sizes[] = {1, 2, 63, 4095, 4096, 4097, 100000, 3 << 20};

/* What one node writes the other reads, in all sizes; new memory is zero. */
MR_BOTH(mrapi_shmem, contents)
{
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		mrapi_size_t size = 0;
		char *mine;

		w->h = mr_val(mrapi_shmem_create(1, sizes[i], NULL, 0, NULL, &mr_st));
		mr_ok(mrapi_shmem_get_attribute(w->h, MRAPI_SHMEM_SIZE, &size, sizeof(size),
						&mr_st));
		twc_eq(size, sizes[i]);
		mine = mr_val(mrapi_shmem_attach(w->h, &mr_st));
		twc_check(mine);
		for (mrapi_uint_t n = 0; n < sizes[i]; n++)
			twc_eq(mine[n], 0);
		twt_fill(mine, sizes[i], i + 1);
		mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
		w->size = sizes[i];
		w->check = i + 1;
		w->fill = i + 100;
		mr_do(&p, use, w);
		twc_eq(twt_check(mine, sizes[i], i + 100), sizes[i]);
		mr_eq(at(&p, detach, w), MRAPI_SUCCESS);
		mr_ok(mrapi_shmem_detach(w->h, &mr_st));
		mr_ok(mrapi_shmem_delete(w->h, &mr_st));
	}
	mr_down();
	mr_peer_end(&p);
}

/* It stays while nobody is attached. */
MR_BOTH(mrapi_shmem, stays)
{
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer p;
	char *mine;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	w->size = 12345;
	w->h = mr_val(mrapi_shmem_create(1, 12345, NULL, 0, NULL, &mr_st));
	mine = mr_val(mrapi_shmem_attach(w->h, &mr_st));
	twt_fill(mine, w->size, 7);
	mr_ok(mrapi_shmem_detach(w->h, &mr_st));
	mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
	w->check = 7;
	mr_do(&p, use, w);
	mr_eq(at(&p, detach, w), MRAPI_SUCCESS);
	/* A new one with the same id has nothing of it. */
	mr_ok(mrapi_shmem_delete(w->h, &mr_st));
	w->h = mr_val(mrapi_shmem_create(1, 12345, NULL, 0, NULL, &mr_st));
	mine = mr_val(mrapi_shmem_attach(w->h, &mr_st));
	for (int i = 0; i < 12345; i++)
		twc_eq(mine[i], 0);
	mr_down();
	mr_peer_end(&p);
}

MR_BOTH(mrapi_shmem, attach_rules)
{
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	w->h = mr_val(mrapi_shmem_create(1, 100, NULL, 0, NULL, &mr_st));
	/* Creating is not attaching. */
	mr_is(MRAPI_ERR_SHM_NOTATTACHED, mrapi_shmem_detach(w->h, &mr_st));
	mr_ok(mrapi_shmem_attach(w->h, &mr_st));
	twc_check(!mr_get(MRAPI_ERR_SHM_ATTACHED, mrapi_shmem_attach(w->h, &mr_st)));
	/* Each node for itself, also within one process. */
	mr_eq(at(&p, detach, w), MRAPI_ERR_SHM_NOTATTACHED);
	mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
	mr_eq(at(&p, attach, w), MRAPI_ERR_SHM_ATTACHED);
	mr_is(MRAPI_ERR_SHM_ATTACH, mrapi_shmem_delete(w->h, &mr_st));
	mr_eq(mr_at_remove(&p, SHMEM, w->h), MRAPI_ERR_SHM_ATTACH);
	mr_ok(mrapi_shmem_detach(w->h, &mr_st));
	mr_is(MRAPI_ERR_SHM_ATTACH, mrapi_shmem_delete(w->h, &mr_st));
	mr_is(MRAPI_ERR_SHM_NOTATTACHED, mrapi_shmem_detach(w->h, &mr_st));
	mr_eq(at(&p, detach, w), MRAPI_SUCCESS);
	/* The failed deletes are not made up for. */
	twc_eq(mr_val(mrapi_shmem_get(1, &mr_st)), w->h);
	mr_eq(mr_at_remove(&p, SHMEM, w->h), MRAPI_SUCCESS);
	twc_check(!mr_get(MRAPI_ERR_SHM_INVALID, mrapi_shmem_attach(w->h, &mr_st)));
	mr_is(MRAPI_ERR_SHM_INVALID, mrapi_shmem_detach(w->h, &mr_st));
	mr_is(MRAPI_ERR_SHM_INVALID, mrapi_shmem_delete(w->h, &mr_st));
	mr_is(MRAPI_ERR_SHM_INVALID, mrapi_shmem_attach(0x12345678, &mr_st));
	mr_is(MRAPI_ERR_SHM_INVALID, mrapi_shmem_detach(0, &mr_st));
	mr_down();
	mr_peer_end(&p);
}

/* A node that finalizes, or is killed, is no longer attached. */
MR_BOTH(mrapi_shmem, attached_node_leaves)
{
	double end = twt_now() + MR_LONG / 1000.;
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	w->h = mr_val(mrapi_shmem_create(1, 100, NULL, 0, NULL, &mr_st));
	mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
	if (where == MR_THREAD)
		mr_peer_end(&p);
	else
		mr_peer_kill(&p);
	do
		mrapi_shmem_delete(w->h, &mr_st);
	while (where == MR_PROCESS && mr_st == MRAPI_ERR_SHM_ATTACH && twt_now() < end);
	mr_eq(mr_st, MRAPI_SUCCESS);
	mr_down();
}

Test(mrapi_shmem, create_errors)
{
	mrapi_node_t nodes[] = {MR_NODE, 55};

	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_PARAMETER, mrapi_shmem_create(1, 0, NULL, 0, NULL, &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_shmem_create(1, 10, nodes, 0, NULL, &mr_st));
	/* A node of the list is not initialized. */
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_shmem_create(1, 10, nodes, 2, NULL, &mr_st));
	mr_is(MRAPI_ERR_NODE_NOTINIT, mrapi_shmem_create(1, 10, nodes + 1, 1, NULL, &mr_st));
	mr_is(MRAPI_ERR_SHMEM_ID_INVALID, mrapi_shmem_get(1, &mr_st));
	mr_ok(mrapi_shmem_create(1, 10, nodes, 1, NULL, &mr_st));
	mr_is(MRAPI_ERR_SHM_EXISTS, mrapi_shmem_create(1, 10, NULL, 0, NULL, &mr_st));
	mr_is(MRAPI_ERR_SHMEM_ID_INVALID,
	      mrapi_shmem_create(0xf0000000, 10, NULL, 0, NULL, &mr_st));
	mr_down();
}

/* The number of arguments that the use cases of section 6 have. */
Test(mrapi_shmem, create_with_attributes_size)
{
	mrapi_shmem_attributes_t a;

	mr_up(MR_NODE);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_ok(mrapi_shmem_create(1, 10, NULL, 0, &a, sizeof(a), &mr_st));
	mr_ok(mrapi_shmem_create(2, 10, NULL, 0, NULL, 0, &mr_st));
	mr_is(MRAPI_EXISTS, mrapi_shmem_create(2, 10, NULL, 0, NULL, 0, &mr_st));
	mr_down();
}

/* Memory runs out with an answer, not with a signal, and is not taken in part. */
Test(mrapi_shmem, no_memory)
{
	unsigned long long available = 0, most = 0xffffffff;
	char line[100];
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu", &available) == 1)
			available *= 1024;
	if (f)
		fclose(f);
	if (!available || available > most)
		cr_skip_test("there is more memory than the largest segment takes");
	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_MEM_LIMIT,
	      mrapi_shmem_create(1, (mrapi_uint_t)most, NULL, 0, NULL, &mr_st));
	mr_ok(mrapi_shmem_create(1, 1 << 20, NULL, 0, NULL, &mr_st));
	mr_down();
}

/* Who is on the list of nodes may have it, whatever its domain. */
MR_BOTH(mrapi_shmem, node_list)
{
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer on, off, far;
	mrapi_node_t nodes[] = {1, 3};
	mrapi_hndl_t h;

	mr_peer(&on, where, 1);
	mr_peer(&off, where, 2);
	mr_peer_in(&far, where, MR_ELSEWHERE, 3);
	mr_up(MR_NODE);
	w->h = mr_val(mrapi_shmem_create(1, 100, nodes, 2, NULL, &mr_st));
	mr_eq(mr_at_get(&on, SHMEM, 1, &h), MRAPI_SUCCESS);
	twc_eq(h, w->h);
	mr_eq(mr_at_get(&far, SHMEM, 1, &h), MRAPI_SUCCESS);
	twc_eq(h, w->h);
	mr_eq(mr_at_get(&off, SHMEM, 1, NULL), MRAPI_ERR_SHM_NODE_NOTSHARED);
	/* Its creator is not on it either. */
	mr_is(MRAPI_ERR_SHM_NODE_NOTSHARED, mrapi_shmem_get(1, &mr_st));
	mr_eq(at(&on, attach, w), MRAPI_SUCCESS);
	mr_eq(at(&off, attach, w), MRAPI_ERR_SHM_NODE_NOTSHARED);
	mr_eq(at(&far, attach, w), MRAPI_SUCCESS);
	mr_eq(at(&far, detach, w), MRAPI_SUCCESS);
	mr_eq(at(&on, detach, w), MRAPI_SUCCESS);
	mr_ok(mrapi_shmem_delete(w->h, &mr_st));
	/* The list was copied. */
	w->h = mr_val(mrapi_shmem_create(1, 100, nodes, 1, NULL, &mr_st));
	nodes[0] = 2;
	mr_eq(at(&on, attach, w), MRAPI_SUCCESS);
	mr_eq(at(&off, attach, w), MRAPI_ERR_SHM_NODE_NOTSHARED);
	mr_down();
	mr_peer_end(&on);
	mr_peer_end(&off);
	mr_peer_end(&far);
}

/* A place that is free, in this process and in those forked from now on. */
static void *free_place(size_t size)
{
	/* Far from where the system puts new memory. */
	uint64_t far = ((uintptr_t)&free_place & ~0xffffffffull) - (1ull << 36);
	void *hint = (void *)(uintptr_t)(sizeof(void *) < 8 ? 0x90000000 : far);
	void *p = mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	twc_check(p != MAP_FAILED);
	munmap(p, size);
	return p;
}

/* 4.4.1.3 MRAPI_SHMEM_ADDRESS: everybody finds it there. */
MR_BOTH(mrapi_shmem, address)
{
	struct work *w = mr_shared(sizeof(*w));
	mrapi_shmem_attributes_t a;
	struct mr_peer p;
	char *place = free_place(1 << 20);
	mrapi_addr_t want = (uintptr_t)place, got = 0;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &want, sizeof(want), &mr_st));
	w->size = 10000;
	w->h = mr_val(mrapi_shmem_create(1, 10000, NULL, 0, &a, &mr_st));
	mr_ok(mrapi_shmem_get_attribute(w->h, MRAPI_SHMEM_ADDRESS, &got, sizeof(got), &mr_st));
	twc_eq(got, want);
	twc_check(mr_val(mrapi_shmem_attach(w->h, &mr_st)) == place);
	twt_fill(place, w->size, 3);
	mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
	twc_check(w->address == place);
	w->check = 3;
	mr_do(&p, use, w);
	mr_down();
	mr_peer_end(&p);
}

/* An address that is in use is not overwritten. */
Test(mrapi_shmem, address_in_use)
{
	mrapi_shmem_attributes_t a;
	char *taken = mr_shared(8192);
	mrapi_addr_t want = (uintptr_t)taken;
	mrapi_shmem_hndl_t h;
	void *p = NULL;

	strcpy(taken, "mine");
	mr_up(MR_NODE);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &want, sizeof(want), &mr_st));
	mr_st = -1;
	h = mrapi_shmem_create(1, 8192, NULL, 0, &a, &mr_st);
	if (mr_st == MRAPI_SUCCESS)
		p = mrapi_shmem_attach(h, &mr_st);
	twc_check(!p);
	mr_eq(mr_st, MRAPI_ERR_MEM_LIMIT);
	twc_eq(strcmp(taken, "mine"), 0);
	mr_down();
}

/* 6.5 keeps pointers in shared memory: it is at one address for all. */
MR_BOTH(mrapi_shmem, same_address)
{
	struct work *w = mr_shared(sizeof(*w));
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	for (mrapi_uint_t i = 0; i < 5; i++) {
		w->h = mr_val(mrapi_shmem_create(i, 50000, NULL, 0, NULL, &mr_st));
		mr_eq(at(&p, attach, w), MRAPI_SUCCESS);
		twc_check(mr_val(mrapi_shmem_attach(w->h, &mr_st)) == w->address);
	}
	mr_down();
	mr_peer_end(&p);
}

/* A lock in shared memory, and the atomics of 4.8 on it, between nodes. */
static void add_up(void *arg)
{
	struct work *w = arg;
	uint64_t *word = w->address, one = 1;

	for (int i = 0; i < 2000; i++)
		mr_ok(mrapi_atomic_add(NULL, word, &one, NULL, sizeof(one), &mr_st));
}

MR_BOTH(mrapi_shmem, atomics)
{
	struct work *w = mr_shared(2 * sizeof(*w));
	struct mr_peer p[2];
	uint64_t *word;

	mr_peer(&p[0], where, 1);
	mr_peer(&p[1], where, 2);
	mr_up(MR_NODE);
	w[0].h = w[1].h = mr_val(mrapi_shmem_create(1, 8, NULL, 0, NULL, &mr_st));
	word = mr_val(mrapi_shmem_attach(w->h, &mr_st));
	mr_eq(at(&p[0], attach, &w[0]), MRAPI_SUCCESS);
	mr_eq(at(&p[1], attach, &w[1]), MRAPI_SUCCESS);
	mr_go(&p[0], add_up, &w[0]);
	mr_go(&p[1], add_up, &w[1]);
	mr_done(&p[0]);
	mr_done(&p[1]);
	twc_eq(*word, 4000);
	mr_down();
	mr_peer_end(&p[0]);
	mr_peer_end(&p[1]);
}
