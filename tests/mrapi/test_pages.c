/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory on a system whose pages are larger than 4 KiB: this program's sysconf() and
 * mmap() take the C library's place, and refuse what such a system would.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_pages, .init = twc_job, .timeout = MR_TIMEOUT);

enum { SIZE = 20000, ODD = 4999 };

static long page; /* 0: the system's own */

long(sysconf)(int name)
{
	static long (*own)(int name);

	if (name == _SC_PAGESIZE)
		return page ? page : getpagesize();
	if (!own)
		own = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return own(name);
}

void *(mmap)(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	if (page && (offset % page || ((flags & MAP_FIXED) && (uintptr_t)at % (size_t)page))) {
		errno = EINVAL;
		return MAP_FAILED;
	}
#ifdef SYS_mmap2 /* of 32-bit processors: the offset is in units of 4096 bytes */
	return (void *)syscall(SYS_mmap2, at, size, prot, flags, fd, (long)(offset / 4096));
#else
	return (void *)syscall(SYS_mmap, at, size, prot, flags, fd, offset);
#endif
}

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

static void on_pages_of(long size, const char *way)
{
	mrapi_rmem_hndl_t h;
	struct mr_peer p;
	char *last;

	page = size;
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
	page = 0;
}

Test(mrapi_pages, direct)
{
	on_pages_of(16384, "direct");
	on_pages_of(65536, "direct");
}

Test(mrapi_pages, served)
{
	on_pages_of(65536, "served");
}

/* An address for shared memory is one of a page. */
Test(mrapi_pages, addresses)
{
	mrapi_addr_t at = sizeof(void *) < 8 ? 0x90000000 : 0x300000000000;
	mrapi_shmem_attributes_t a;
	mrapi_shmem_hndl_t h;

	page = 65536;
	mr_up(MR_NODE);
	mr_ok(mrapi_shmem_init_attributes(&a, &mr_st));
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &at, sizeof(at), &mr_st));
	h = mr_val(mrapi_shmem_create(1, SIZE, NULL, 0, &a, &mr_st));
	twc_check(mr_val(mrapi_shmem_attach(h, &mr_st)) == (void *)(uintptr_t)at);
	at += 4096;
	mr_ok(mrapi_shmem_set_attribute(&a, MRAPI_SHMEM_ADDRESS, &at, sizeof(at), &mr_st));
	mr_is(MRAPI_ERR_PARAMETER, mrapi_shmem_create(2, SIZE, NULL, 0, &a, &mr_st));
	mr_down();
}
