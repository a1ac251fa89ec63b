/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 4.5: non-blocking accesses of remote memory return at once whatever their size
 * and the way to the memory, and several parts of one are under way at once.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_moves, .init = twc_job, .timeout = MR_TIMEOUT);

enum { SIZE = 8 << 20, ODD = 1 << 18 };

static void offer(void *arg)
{
	mrapi_node_t id = mr_val(mrapi_node_id_get(&mr_st));
	char *mem = malloc(SIZE);

	(void)arg;
	memset(mem, (int)id, SIZE);
	mr_ok(mrapi_rmem_create(id, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, SIZE, &mr_st));
}

static mrapi_rmem_hndl_t attach(mrapi_node_t owner)
{
	mrapi_rmem_hndl_t h = mr_val(mrapi_rmem_get(owner, MRAPI_RMEM_ATYPE_DEFAULT, &mr_st));

	mr_ok(mrapi_rmem_attach(h, &mr_st));
	return h;
}

static mrapi_request_t start(int write, mrapi_rmem_hndl_t h, char *local, uint32_t bytes)
{
	mrapi_request_t r = 0;

	if (write)
		mr_ok(mrapi_rmem_write_i(h, 0, local, 0, bytes, 1, 0, 0, &r, &mr_st));
	else
		mr_ok(mrapi_rmem_read_i(h, 0, local, 0, bytes, 1, 0, 0, &r, &mr_st));
	return r;
}

static void finish(const mrapi_request_t *r, size_t bytes)
{
	size_t size;

	twc_check(mr_val(mrapi_wait(r, &size, MR_LONG, &mr_st)));
	twc_eq(size, bytes);
}

static void *new_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	twc_check(p != MAP_FAILED);
	return p;
}

static long faults(void)
{
	struct rusage u;

	twc_eq(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_minflt;
}

/* Memory that was never touched tells who wrote to it: each page is a fault. */
static void little_in_the_call(enum mr_where where, const char *way)
{
	static const uint32_t sizes[] = {65536, 262144, SIZE};
	mrapi_request_t r;
	struct mr_peer p;
	mrapi_rmem_hndl_t h;
	char *first;

	setenv("TAGWIRE_RMEM", way, 1);
	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer, NULL);
	h = attach(1);
	/* Threads and tables are there from here on. */
	first = new_pages(SIZE);
	r = start(0, h, first, SIZE);
	finish(&r, SIZE);
	for (int i = 0; i < 3; i++) {
		char *local = new_pages(sizes[i]);
		long before = faults(), took;

		r = start(0, h, local, sizes[i]);
		took = faults() - before;
		finish(&r, sizes[i]);
		twc_eq(local[0], 1);
		twc_eq(local[sizes[i] - 1], 1);
		twc_check(took < 8);
		munmap(local, sizes[i]);
	}
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_down();
	mr_peer_end(&p);
	munmap(first, SIZE);
}

MR_BOTH(mrapi_moves, direct)
{
	little_in_the_call(where, "direct");
}

Test(mrapi_moves, vm)
{
	little_in_the_call(MR_PROCESS, "vm");
}

Test(mrapi_moves, served)
{
	little_in_the_call(MR_PROCESS, "served");
}

/* Memory that its owner may not write, or that the kernel does not copy for others. */
struct odd {
	uint32_t writable, secret, gone;
};

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

static void offer_odd(void *arg)
{
	struct odd *o = arg;
	char *mem;
	int fd;

	if (o->secret) {
		fd = (int)syscall(SYS_memfd_secret, 0);
		o->secret = fd >= 0;
		if (fd < 0)
			return;
		twc_eq(ftruncate(fd, ODD), 0);
		mem = mmap(NULL, ODD, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		twc_check(mem != MAP_FAILED);
	} else {
		mem = new_pages(ODD);
	}
	memset(mem, 1, ODD);
	mr_ok(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, ODD, &mr_st));
	if (!o->writable)
		twc_eq(mprotect(mem, ODD, o->gone ? PROT_NONE : PROT_READ), 0);
}

/* In one piece, and in many. */
static void odd_access(mrapi_rmem_hndl_t h, const struct odd *o)
{
	static const uint32_t bytes[] = {8, 4096, ODD, 8}, n[] = {1, 1, 1, 1000};
	mrapi_status_t reads = o->gone ? MRAPI_ERR_RMEM_INVALID : MRAPI_SUCCESS;
	mrapi_status_t writes = o->writable ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID;
	char *local = malloc(ODD);

	for (int i = 0; i < 4; i++) {
		mr_is(reads, mrapi_rmem_read(h, 0, memset(local, 9, ODD), ODD, 0, bytes[i], n[i],
					     16, 16, &mr_st));
		twc_eq(local[0], o->gone ? 9 : 1);
		mr_is(writes, mrapi_rmem_write(h, 0, memset(local, 2, ODD), 0, bytes[i], n[i], 16,
					       16, &mr_st));
		mr_is(reads, mrapi_rmem_read(h, 0, memset(local, 9, ODD), ODD, 0, bytes[i], n[i],
					     16, 16, &mr_st));
		twc_eq(local[(n[i] - 1) * 16 + bytes[i] - 1], o->gone ? 9 : o->writable ? 2 : 1);
		if (o->writable)
			mr_ok(mrapi_rmem_write(h, 0, memset(local, 1, ODD), 0, ODD, 1, 0, 0,
					       &mr_st));
	}
	free(local);
}

/* No access ends the owner, and what the kernel does not copy its owner does. */
static void odd_memory(const char *way, struct odd what)
{
	struct odd *o = mr_shared(sizeof(*o));
	mrapi_rmem_hndl_t h;
	struct mr_peer p;

	*o = what;
	setenv("TAGWIRE_RMEM", way, 1);
	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer_odd, o);
	if (what.secret && !o->secret)
		cr_skip("the system has no memfd_secret()");
	h = attach(1);
	odd_access(h, o);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_down();
	mr_peer_end(&p);
}

Test(mrapi_moves, read_only_vm)
{
	odd_memory("vm", (struct odd){0});
}

Test(mrapi_moves, read_only_served)
{
	odd_memory("served", (struct odd){0});
}

Test(mrapi_moves, gone_vm)
{
	odd_memory("vm", (struct odd){.gone = 1});
}

Test(mrapi_moves, gone_served)
{
	odd_memory("served", (struct odd){.gone = 1});
}

Test(mrapi_moves, secret_vm)
{
	odd_memory("vm", (struct odd){.secret = 1, .writable = 1});
}

/* An owner that does nothing, not even in the library's threads. */
static void halt(struct mr_peer *p)
{
	int status;

	twc_eq(kill(p->child.pid, SIGSTOP), 0);
	twc_eq(waitpid(p->child.pid, &status, WUNTRACED), p->child.pid);
	twc_check(WIFSTOPPED(status));
}

static void resume(struct mr_peer *p)
{
	twc_eq(kill(p->child.pid, SIGCONT), 0);
}

/* Threads of ours that move bytes. */
static int movers(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	twc_check(d);
	while ((e = readdir(d))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f))
			n += !strcmp(name, "tagwire-mover\n");
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

Test(mrapi_moves, owner_stands_still)
{
	static const uint32_t sizes[] = {1, 65536, 262144, SIZE};
	char *local = malloc(SIZE);
	struct mr_peer p;
	mrapi_rmem_hndl_t h;

	setenv("TAGWIRE_RMEM", "served", 1);
	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer, NULL);
	h = attach(1);
	for (int i = 0; i < 8; i++) {
		int write = i % 2;
		mrapi_request_t r;
		size_t size;

		memset(local, 1, SIZE);
		halt(&p);
		r = start(write, h, local, sizes[i / 2]);
		mr_is(MRAPI_INCOMPLETE, mrapi_test(&r, &size, &mr_st));
		mr_is(MRAPI_TIMEOUT, mrapi_wait(&r, &size, 20, &mr_st));
		mr_is(MRAPI_TIMEOUT, mrapi_wait_any(1, &r, &size, 20, &mr_st));
		resume(&p);
		finish(&r, sizes[i / 2]);
		twc_eq(local[0], 1);
	}
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_down();
	mr_peer_end(&p);
	free(local);
}

/* Each thread that moves bytes has asked for a part, and waits. */
Test(mrapi_moves, several_parts)
{
	double deadline = twt_now() + MR_LONG / 1000.;
	char *local = malloc(SIZE);
	struct mr_peer p;
	mrapi_request_t r;
	mrapi_rmem_hndl_t h;

	setenv("TAGWIRE_RMEM", "served", 1);
	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer, NULL);
	h = attach(1);
	halt(&p);
	r = start(0, h, local, SIZE);
	while (movers() < 3 && twt_now() < deadline)
		twc_sleep(1);
	twc_check(movers() >= 3);
	resume(&p);
	finish(&r, SIZE);
	for (int i = 0; i < SIZE; i++)
		twc_eq(local[i], 1);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_down();
	mr_peer_end(&p);
	free(local);
}

/* One that stands still holds up no other, neither of requests nor of plain calls. */
Test(mrapi_moves, others_go_on)
{
	char *local = malloc(SIZE), *other = malloc(SIZE);
	mrapi_rmem_hndl_t h[2];
	mrapi_request_t r[4], late;
	struct mr_peer p[2];

	setenv("TAGWIRE_RMEM", "served", 1);
	mr_peer(&p[0], MR_PROCESS, 1);
	mr_peer(&p[1], MR_PROCESS, 2);
	mr_up(MR_NODE);
	for (int i = 0; i < 2; i++) {
		mr_do(&p[i], offer, NULL);
		h[i] = attach((mrapi_node_t)i + 1);
	}
	halt(&p[0]);
	late = start(0, h[0], local, SIZE);
	for (int i = 0; i < 4; i++) {
		memset(other, 0, SIZE);
		r[i] = start(0, h[1], other, SIZE >> i);
		finish(&r[i], SIZE >> i);
		twc_eq(other[(SIZE >> i) - 1], 2);
	}
	mr_ok(mrapi_rmem_read(h[1], 0, other, SIZE, 0, SIZE, 1, 0, 0, &mr_st));
	mr_is(MRAPI_INCOMPLETE, mrapi_test(&late, NULL, &mr_st));
	resume(&p[0]);
	finish(&late, SIZE);
	twc_eq(local[SIZE - 1], 1);
	for (int i = 0; i < 2; i++)
		mr_ok(mrapi_rmem_detach(h[i], &mr_st));
	mr_down();
	mr_peer_end(&p[0]);
	mr_peer_end(&p[1]);
	free(local);
	free(other);
}

/* What is under way with a memory has ended when flush, sync or detach is back. */
MR_BOTH(mrapi_moves, settled)
{
	char *local = malloc(SIZE);
	mrapi_rmem_hndl_t h;
	struct mr_peer p;

	mr_peer(&p, where, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer, NULL);
	h = attach(1);
	for (int i = 0; i < 3; i++) {
		mrapi_request_t r;
		size_t size;

		memset(local, 0, SIZE);
		r = start(0, h, local, SIZE);
		if (i == 0)
			mr_ok(mrapi_rmem_flush(h, &mr_st));
		else if (i == 1)
			mr_ok(mrapi_rmem_sync(h, &mr_st));
		else
			mr_ok(mrapi_rmem_detach(h, &mr_st));
		twc_eq(local[SIZE - 1], 1);
		twc_check(mr_val(mrapi_test(&r, &size, &mr_st)));
		twc_eq(size, SIZE);
	}
	mr_down();
	mr_peer_end(&p);
	free(local);
}

/* An owner that has joined after its client, whose connection may still be on its way. */
static void read_some(void *arg)
{
	char local[100] = "";
	mrapi_rmem_hndl_t h = attach(MR_NODE);

	(void)arg;
	mr_ok(mrapi_rmem_read(h, 0, local, sizeof(local), 0, sizeof(local), 1, 0, 0, &mr_st));
	twc_eq(local[99], MR_NODE);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
}

Test(mrapi_moves, new_owner)
{
	static char mem[100];
	struct mr_peer p;

	setenv("TAGWIRE_RMEM", "served", 1);
	memset(mem, MR_NODE, sizeof(mem));
	mr_peer(&p, MR_PROCESS, 1);
	for (int i = 0; i < 100; i++) {
		mr_up(MR_NODE);
		mr_ok(mrapi_rmem_create(MR_NODE, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, sizeof(mem),
					&mr_st));
		mr_do(&p, read_some, NULL);
		mr_down();
	}
	mr_peer_end(&p);
}
