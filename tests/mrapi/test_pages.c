/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory and the system's pages, which tests/portability/pages makes larger. */
#include <stdlib.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_pages, .init = twc_job, .timeout = MR_TIMEOUT);

enum { SIZE = 20000, ODD = 4999 };

/* Shared memory of each number, filled with it. */
static char *make(mrapi_shmem_id_t id)
{
	char *p = mr_val(mrapi_shmem_attach(
		mr_val(mrapi_shmem_create(id, SIZE, NULL, 0, NULL, &mr_st)), &mr_st));

	twc_check(p);
	memset(p, (int)id, SIZE);
	return p;
}

/* Another process finds them all, apart from each other, and a part of one as remote memory. */
static void use(void *arg)
{
	mrapi_rmem_hndl_t h;
	char buf[SIZE];

	(void)arg;
	for (mrapi_shmem_id_t id = 1; id <= 3; id++) {
		char *p = mr_val(mrapi_shmem_attach(mr_val(mrapi_shmem_get(id, &mr_st)), &mr_st));

		twc_check(p);
		for (int i = 0; i < SIZE; i++)
			twc_eq(p[i], id);
	}
	h = mr_val(mrapi_rmem_get(1, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));
	mr_ok(mrapi_rmem_attach(h, &mr_st));
	mr_ok(mrapi_rmem_read(h, 0, buf, SIZE, 0, SIZE - ODD, 1, 0, 0, &mr_st));
	twc_eq(buf[0], 3);
	twc_eq(buf[SIZE - ODD - 1], 3);
	memset(buf, 9, SIZE);
	mr_ok(mrapi_rmem_write(h, 0, buf, 0, SIZE - ODD, 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_detach(h, &mr_st));
}

static void memories(const char *way)
{
	mrapi_rmem_hndl_t h;
	struct mr_peer p;
	char *last;

	setenv("TAGWIRE_RMEM", way, 1);
	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	make(1);
	make(2);
	last = make(3);
	h = mr_val(mrapi_rmem_create(1, last + ODD, MRAPI_RMEM_ATYPE_DEFAULT, NULL, SIZE - ODD,
				     &mr_st));
	mr_do(&p, use, NULL);
	twc_eq(last[ODD - 1], 3);
	twc_eq(last[ODD], 9);
	twc_eq(last[SIZE - 1], 9);
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	mr_down();
	mr_peer_end(&p);
}

Test(mrapi_pages, direct)
{
	memories("direct");
}

Test(mrapi_pages, served)
{
	memories("served");
}

/* An address for shared memory is one of a page. */
Test(mrapi_pages, addresses)
{
	mrapi_addr_t at = sizeof(void *) < 8 ? 0x90000000 : 0x300000000000;
	mrapi_shmem_attributes_t a;
	mrapi_shmem_hndl_t h;

	mr_up(MR_NODE);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &at, sizeof(at), &mr_st));
	h = mr_val(mrapi_shmem_create(1, SIZE, NULL, 0, &a, &mr_st));
	twc_check(mr_val(mrapi_shmem_attach(h, &mr_st)) == (void *)(uintptr_t)at);
	at += (mrapi_addr_t)getpagesize() / 2;
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &at, sizeof(at), &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_shmem_create(2, SIZE, NULL, 0, &a, &mr_st));
	mr_down();
}
