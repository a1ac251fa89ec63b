/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared and remote memory, in one process and between two, by every path. */
#include <pthread.h>
#include <string.h>

#include "mrapi/basic/basic.h"

TestSuite(basic_memory, .init = basic_job, .timeout = TWT_TIMEOUT);

Test(basic_memory, shmem)
{
	mrapi_node_t nodes[] = {1, 5};
	mrapi_shmem_hndl_t h;
	size_t size = 0;
	char *p, *q;

	basic_node(1);
	IS(mrapi_shmem_create(1, 0, NULL, 0, NULL, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_shmem_create(1, 100, nodes, 0, NULL, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_shmem_create(1, 100, nodes, 2, NULL, &st), MRAPI_ERR_NODE_NOTINIT);
	OK(h = mrapi_shmem_create(1, 5000, nodes, 1, NULL, &st));
	IS(mrapi_shmem_create(1, 100, NULL, 0, NULL, 0, &st), MRAPI_ERR_SHM_EXISTS);
	OK(mrapi_shmem_get_attribute(h, MRAPI_SHMEM_SIZE, &size, sizeof(size), &st));
	CHECK(size == 5000);
	OK(p = mrapi_shmem_attach(h, &st));
	IS(q = mrapi_shmem_attach(h, &st), MRAPI_ERR_SHM_ATTACHED);
	CHECK(p && !q && p[0] == 0 && p[4999] == 0);
	memset(p, 1, 5000);
	IS(mrapi_shmem_delete(h, &st), MRAPI_ERR_SHM_ATTACH);
	OK(mrapi_shmem_detach(h, &st));
	IS(mrapi_shmem_detach(h, &st), MRAPI_ERR_SHM_NOTATTACHED);
	OK(p = mrapi_shmem_attach(h, &st));
	CHECK(p[4999] == 1);
	OK(mrapi_shmem_detach(h, &st));
	OK(mrapi_shmem_delete(h, &st));
	IS(mrapi_shmem_attach(h, &st), MRAPI_ERR_SHM_INVALID);
	basic_end();
}

Test(basic_memory, shmem_address)
{
	mrapi_shmem_attributes_t a;
	mrapi_addr_t at = 0x250000000000, odd = 12345;
	mrapi_shmem_hndl_t h;

	basic_node(1);
	OK(mrapi_shmem_init_attributes(&a, &st));
	IS(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_SIZE, &at, sizeof(at), &st),
	   MRAPI_ERR_ATTR_READONLY);
	OK(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &odd, sizeof(odd), &st));
	IS(mrapi_shmem_create(1, 100, NULL, 0, &a, &st), MRAPI_ERR_PARAMETER);
	OK(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &at, sizeof(at), &st));
	OK(h = mrapi_shmem_create(1, 100, NULL, 0, &a, sizeof(a), &st));
	OK(CHECK(mrapi_shmem_attach(h, &st) == (void *)(uintptr_t)at));
	basic_end();
}

static int second(void *arg, int fd)
{
	mrapi_shmem_hndl_t h;
	char *p, go;

	(void)arg;
	basic_node(2);
	CHECK(twt_put(fd, "r", 1) == 0 && twt_get(fd, &go, 1) == 0);
	OK(h = mrapi_shmem_get(1, &st));
	IS(mrapi_shmem_get(2, &st), MRAPI_ERR_SHM_NODE_NOTSHARED);
	OK(p = mrapi_shmem_attach(h, &st));
	CHECK(!strcmp(p, "hello"));
	strcpy(p, "world");
	return 0; /* attached still */
}

Test(basic_memory, shmem_between_processes)
{
	struct twt_child child;
	mrapi_shmem_hndl_t h, mine;
	mrapi_node_t me = 1;
	char *p, ready;

	twt_spawn(&child, second, NULL);
	basic_node(1);
	CHECK(twt_get(child.fd, &ready, 1) == 0);
	OK(h = mrapi_shmem_create(1, 100000, NULL, 0, NULL, &st));
	OK(mine = mrapi_shmem_create(2, 100, &me, 1, NULL, &st));
	OK(p = mrapi_shmem_attach(h, &st));
	strcpy(p, "hello");
	CHECK(twt_put(child.fd, "g", 1) == 0);
	CHECK(twt_join(&child, TWT_LONG) == 0);
	CHECK(!strcmp(p, "world"));
	OK(mrapi_shmem_detach(h, &st));
	for (int i = 0; i < 1000; i++) { /* until the dead is buried */
		mrapi_status_t st;

		mrapi_shmem_delete(h, &st);
		if (st == MRAPI_SUCCESS)
			break;
		usleep(1000);
	}
	IS(mrapi_shmem_delete(h, &st), MRAPI_ERR_SHM_INVALID);
	OK(mrapi_shmem_delete(mine, &st));
	basic_end();
}

/* ------------------------------------------------------------ remote memory */

#define SIZE 1000000u

Test(basic_memory, rmem_rules)
{
	static char mem[1000], buf[1000];
	mrapi_rmem_hndl_t h;
	mrapi_request_t r;

	basic_node(1);
	IS(mrapi_rmem_create(1, mem, 99, NULL, 10, &st), MRAPI_ERR_RMEM_TYPENOTVALID);
	IS(mrapi_rmem_create(1, NULL, MRAPI_RMEM_DEFAULT, NULL, 10, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_rmem_create(1, mem, MRAPI_RMEM_DEFAULT, NULL, 0, &st), MRAPI_ERR_PARAMETER);
	OK(h = mrapi_rmem_create(1, mem, MRAPI_RMEM_DMA, NULL, 1000, &st));
	IS(mrapi_rmem_create(1, buf, MRAPI_RMEM_DMA, NULL, 10, &st), MRAPI_ERR_RMEM_EXISTS);
	IS(mrapi_rmem_create(2, mem + 999, MRAPI_RMEM_DMA, NULL, 10, &st), MRAPI_ERR_RMEM_CONFLICT);
	IS(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_ANY, &st), MRAPI_ERR_RMEM_ATYPE_INVALID);
	IS(mrapi_rmem_get(1, MRAPI_RMEM_SWCACHE, &st), MRAPI_ERR_RMEM_ATYPE);
	OK(CHECK(mrapi_rmem_get(1, MRAPI_RMEM_DMA, &st) == h));
	IS(mrapi_rmem_read(h, 0, buf, 10, 0, 10, 1, 0, 0, &st), MRAPI_ERR_RMEM_NOTATTACHED);
	IS(mrapi_rmem_attach(h, MRAPI_RMEM_DEFAULT, &st), MRAPI_ERR_RMEM_ATYPE);
	OK(mrapi_rmem_attach(h, &st));
	IS(mrapi_rmem_attach(h, MRAPI_RMEM_DMA, &st), MRAPI_ERR_RMEM_ATTACHED);
	OK(mrapi_rmem_read(h, 990, buf, 10, 0, 10, 1, 0, 0, &st));
	OK(mrapi_rmem_read(h, 990, buf, 0, 10, 1, 0, 0, &st));
	IS(mrapi_rmem_read(h, 991, buf, 10, 0, 10, 1, 0, 0, &st), MRAPI_ERR_RMEM_BUFF_OVERRUN);
	IS(mrapi_rmem_read(h, 0, buf, 9, 0, 10, 1, 0, 0, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_rmem_read(h, 0, buf, 1000, 0, 10, 2, 9, 10, &st), MRAPI_ERR_RMEM_STRIDE);
	IS(mrapi_rmem_write(h, 0, NULL, 0, 10, 1, 0, 0, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_rmem_write(h, 0, buf, 0, 0, 1, 0, 0, &st), MRAPI_ERR_PARAMETER);
	IS(mrapi_rmem_write(h, ~0u, buf, 0, 10, ~0u, ~0u, ~0u, &st), MRAPI_ERR_RMEM_BUFF_OVERRUN);
	IS(mrapi_rmem_delete(h, &st), MRAPI_ERR_RMEM_ATTACH);
	OK(mrapi_rmem_flush(h, &st));
	OK(mrapi_rmem_synch(h, &st));
	OK(mrapi_rmem_read_i(h, 0, buf, 0, 1000, 1, 0, 0, &r, &st));
	OK(CHECK(mrapi_wait(&r, NULL, 1000, &st)));
	IS(mrapi_test(&r, NULL, &st), MRAPI_ERR_REQUEST_INVALID);
	OK(mrapi_rmem_write_i(h, 0, buf, 0, 1000, 1, 0, 0, &r, &st));
	OK(mrapi_cancel(&r, &st));
	IS(mrapi_wait(&r, NULL, 1000, &st), MRAPI_ERR_REQUEST_CANCELED);
	OK(mrapi_rmem_detach(h, &st));
	IS(mrapi_rmem_detach(h, &st), MRAPI_ERR_RMEM_NOTATTACHED);
	OK(mrapi_rmem_delete(h, &st));
	IS(mrapi_rmem_get(1, MRAPI_RMEM_DMA, &st), MRAPI_ERR_RMEM_ID_INVALID);
	basic_end();
}

/* The owner: private memory 1, shared memory promoted as 2. */
static int owner(void *arg, int fd)
{
	mrapi_rmem_hndl_t a, b;
	mrapi_shmem_hndl_t s;
	char *private = malloc(SIZE), *shared, go;

	(void)arg;
	basic_node(2);
	OK(s = mrapi_shmem_create(1, SIZE, NULL, 0, NULL, &st));
	OK(shared = mrapi_shmem_attach(s, &st));
	twt_fill(private, SIZE, 1);
	twt_fill(shared, SIZE, 2);
	OK(a = mrapi_rmem_create(1, private, MRAPI_RMEM_ATYPE_ANY, NULL, SIZE, &st));
	OK(b = mrapi_rmem_create(2, shared, MRAPI_RMEM_ATYPE_ANY, NULL, SIZE, &st));
	CHECK(twt_put(fd, "r", 1) == 0 && twt_get(fd, &go, 1) == 0);
	CHECK(twt_check(private, SIZE, 11) == SIZE);
	CHECK(twt_check(shared, SIZE, 12) == SIZE);
	OK(mrapi_rmem_delete(a, &st));
	IS(mrapi_shmem_detach(s, &st), MRAPI_SUCCESS);
	IS(mrapi_shmem_delete(s, &st), MRAPI_ERR_SHM_ATTACH); /* promoted */
	OK(mrapi_rmem_delete(b, &st));
	OK(mrapi_shmem_delete(s, &st));
	basic_end();
	free(private);
	return 0;
}

/* Reads and writes all of it, whole and strided, and compares. */
static void exercise(mrapi_rmem_id_t id, mrapi_rmem_atype_t atype, unsigned seed)
{
	char *buf = calloc(2, SIZE), *want = malloc(SIZE);
	mrapi_rmem_hndl_t h;
	mrapi_request_t r[2];
	uint64_t rng = seed;
	size_t moved = 0;

	twt_fill(want, SIZE, seed);
	OK(h = mrapi_rmem_get(id, atype, &st));
	OK(mrapi_rmem_attach(h, &st));
	OK(mrapi_rmem_read(h, 0, buf, SIZE, 0, SIZE, 1, 0, 0, &st));
	CHECK(memcmp(buf, want, SIZE) == 0);
	for (int i = 0; i < 200; i++) {
		uint32_t n = 1 + (uint32_t)(twt_random(&rng) % 300);
		uint32_t bytes = 1 + (uint32_t)(twt_random(&rng) % (SIZE / 2 / n));
		uint32_t rs = bytes + (uint32_t)(twt_random(&rng) % 100);
		uint32_t ls = bytes + (uint32_t)(twt_random(&rng) % 100);
		uint32_t off = (uint32_t)(twt_random(&rng) % 1000);

		if (off + (uint64_t)(n - 1) * rs + bytes > SIZE ||
		    7 + (uint64_t)(n - 1) * ls + bytes > 2 * SIZE)
			continue;
		memset(buf, 0, 2 * SIZE);
		OK(mrapi_rmem_read(h, off, buf, 2 * SIZE, 7, bytes, n, rs, ls, &st));
		for (uint32_t k = 0; k < n; k++)
			CHECK(!memcmp(buf + 7 + (size_t)k * ls, want + off + (size_t)k * rs,
				      bytes));
		/* Back where it was: nothing changes, whatever goes wrong. */
		OK(mrapi_rmem_write(h, off, buf, 7, bytes, n, rs, ls, &st));
	}
	twt_fill(want, SIZE, seed + 10);
	OK(mrapi_rmem_write_i(h, 0, want, 0, SIZE / 2, 1, 0, 0, &r[0], &st));
	OK(mrapi_rmem_write_i(h, SIZE / 2, want, SIZE / 2, SIZE / 4, 2, SIZE / 4, SIZE / 4, &r[1],
			      &st));
	OK(CHECK(mrapi_wait_any(1, &r[1], &moved, MRAPI_INFINITE, &st) == 0));
	CHECK(moved == SIZE / 2);
	OK(CHECK(mrapi_wait(&r[0], &moved, MRAPI_INFINITE, &st)));
	OK(mrapi_rmem_read(h, 0, buf, SIZE, 0, SIZE, 1, 0, 0, &st));
	CHECK(memcmp(buf, want, SIZE) == 0);
	OK(mrapi_rmem_detach(h, &st)); /* flushes */
	free(buf);
	free(want);
}

static void by(const char *path, mrapi_rmem_atype_t atype)
{
	struct twt_child child;
	char ready;

	setenv("TAGWIRE_RMEM", path, 1);
	twt_spawn(&child, owner, NULL);
	CHECK(twt_get(child.fd, &ready, 1) == 0);
	basic_node(1);
	exercise(1, atype, 1);
	exercise(2, atype, 2);
	CHECK(twt_put(child.fd, "g", 1) == 0);
	CHECK(twt_join(&child, TWT_LONG) == 0);
	IS(mrapi_rmem_get(1, atype, &st), MRAPI_ERR_RMEM_ID_INVALID);
	basic_end();
}

Test(basic_memory, rmem_auto)
{
	by("auto", MRAPI_RMEM_DEFAULT);
}

Test(basic_memory, rmem_vm)
{
	by("vm", MRAPI_RMEM_DMA);
}

Test(basic_memory, rmem_served)
{
	by("served", MRAPI_RMEM_DEFAULT);
}

Test(basic_memory, rmem_cached)
{
	by("auto", MRAPI_RMEM_SWCACHE);
}

Test(basic_memory, cache_holds_back)
{
	static char mem[10000];
	mrapi_rmem_hndl_t c, d;
	char x = 0;

	basic_node(1);
	OK(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_ANY, NULL, sizeof(mem), &st));
	OK(c = mrapi_rmem_get(1, MRAPI_RMEM_SWCACHE, &st));
	OK(d = mrapi_rmem_get(1, MRAPI_RMEM_DEFAULT, &st));
	OK(mrapi_rmem_attach(c, &st));
	OK(mrapi_rmem_write(c, 5000, "a", 0, 1, 1, 0, 0, &st));
	CHECK(mem[5000] == 0);
	mem[5001] = 'b'; /* beside it, by somebody else */
	OK(mrapi_rmem_read(c, 5001, &x, 1, 0, 1, 1, 0, 0, &st));
	CHECK(x == 0);
	OK(mrapi_rmem_flush(c, &st));
	CHECK(mem[5000] == 'a' && mem[5001] == 'b');
	OK(mrapi_rmem_sync(c, &st));
	OK(mrapi_rmem_read(c, 5001, &x, 1, 0, 1, 1, 0, 0, &st));
	CHECK(x == 'b');
	OK(mrapi_rmem_read(d, 5000, &x, 1, 0, 1, 1, 0, 0, &st));
	CHECK(x == 'a');
	basic_end();
}
