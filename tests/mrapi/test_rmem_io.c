/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.2.9 to 4.4.2.14 Reading and writing remote memory, strides, flush and sync. */
#include <stdlib.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_rmem_io, .init = twc_job, .timeout = MR_TIMEOUT);

enum { SIZE = 3 << 20 };

static const mrapi_rmem_atype_t types[] = {MRAPI_RMEM_ATYPE_DEFAULT, MRAPI_ACCESS_TYPE_DMA,
					   MRAPI_ACCESS_TYPE_SW_CACHE};

/* The owner's memory: private or shared. */
enum source { PRIVATE, SHARED };

struct owner {
	enum source source;
	mrapi_rmem_hndl_t h;
	char *mem; /* there */
	uint64_t seed;
	size_t at, len; /* what to check or to fill */
	unsigned char value;
};

static void offer(void *arg)
{
	struct owner *o = arg;

	if (o->source == PRIVATE)
		o->mem = malloc(SIZE);
	else
		o->mem = mr_val(mrapi_shmem_attach(
			mr_val(mrapi_shmem_create(1, SIZE, NULL, 0, NULL, &mr_st)), &mr_st));
	twt_fill(o->mem, SIZE, o->seed);
	o->h = mr_val(mrapi_rmem_create(1, o->mem, MRAPI_RMEM_ATYPE_ANY, NULL, SIZE, &mr_st));
}

static void withdraw(void *arg)
{
	struct owner *o = arg;

	mr_ok(mrapi_rmem_delete(o->h, &mr_st));
	if (o->source == PRIVATE)
		free(o->mem);
}

static void compare(void *arg)
{
	struct owner *o = arg;

	for (size_t i = 0; i < o->len; i++)
		twc_eq((unsigned char)o->mem[o->at + i], o->value);
}

static void set(void *arg)
{
	struct owner *o = arg;

	memset(o->mem + o->at, o->value, o->len);
}

/* What is there now, as the owner sees it. */
static void check_there(struct mr_peer *p, struct owner *o, size_t at, size_t len,
			unsigned char value)
{
	o->at = at;
	o->len = len;
	o->value = value;
	mr_do(p, compare, o);
}

static void set_there(struct mr_peer *p, struct owner *o, size_t at, size_t len,
		      unsigned char value)
{
	o->at = at;
	o->len = len;
	o->value = value;
	mr_do(p, set, o);
}

static struct owner *begin(struct mr_peer *p, enum mr_where where, enum source source)
{
	struct owner *o = mr_shared(sizeof(*o));

	mr_peer(p, where, 1);
	mr_up(MR_NODE);
	o->source = source;
	o->seed = 9;
	mr_do(p, offer, o);
	return o;
}

static mrapi_rmem_hndl_t client(mrapi_rmem_atype_t atype)
{
	mrapi_rmem_hndl_t h = mr_val(mrapi_rmem_get(1, atype, &mr_st));

	mr_ok(mrapi_rmem_attach(h, &mr_st));
	return h;
}

static void end(struct mr_peer *p, struct owner *o)
{
	mr_do(p, withdraw, o);
	mr_down();
	mr_peer_end(p);
}

static void wait_for(mrapi_request_t *r)
{
	size_t size;

	twc_check(mr_val(mrapi_wait(r, &size, MR_LONG, &mr_st)));
}

/* All reads and writes, blocking or not, behind one function. */
struct io {
	mrapi_rmem_hndl_t h;
	int later; /* non-blocking, and waited for */
};

static void get(struct io io, uint32_t off, void *buf, size_t size, uint32_t local, uint32_t bytes,
		uint32_t n, uint32_t stride, uint32_t local_stride)
{
	mrapi_request_t r;

	if (!io.later) {
		mr_ok(mrapi_rmem_read(io.h, off, buf, size, local, bytes, n, stride, local_stride,
				      &mr_st));
		return;
	}
	mr_ok(mrapi_rmem_read_i(io.h, off, buf, local, bytes, n, stride, local_stride, &r, &mr_st));
	wait_for(&r);
}

static void put(struct io io, uint32_t off, const void *buf, uint32_t local, uint32_t bytes,
		uint32_t n, uint32_t stride, uint32_t local_stride)
{
	mrapi_request_t r;

	if (!io.later) {
		mr_ok(mrapi_rmem_write(io.h, off, buf, local, bytes, n, stride, local_stride,
				       &mr_st));
		return;
	}
	mr_ok(mrapi_rmem_write_i(io.h, off, buf, local, bytes, n, stride, local_stride, &r,
				 &mr_st));
	wait_for(&r);
}

/* The remote memory as it should be, and an operation done on both. */
static void random_strides(struct io io, char *model, uint64_t *rng)
{
	static char buf[SIZE + 64];

	for (int i = 0; i < 120; i++) {
		uint32_t bytes = 1 + (uint32_t)(twt_random(rng) % (i % 10 ? 100 : 300000));
		uint32_t n = 1 + (uint32_t)(twt_random(rng) % (bytes > 5000 ? 3 : 40));
		uint32_t stride = bytes + (uint32_t)(twt_random(rng) % 3 * (twt_random(rng) % 500));
		uint32_t lstride = bytes + (uint32_t)(twt_random(rng) % 2 * (twt_random(rng) % 99));
		uint32_t local = (uint32_t)(twt_random(rng) % 50), off;
		uint64_t local_end = local + (uint64_t)n * lstride;

		if ((uint64_t)stride * n >= SIZE || local_end >= SIZE)
			continue;
		off = (uint32_t)(twt_random(rng) % (SIZE - (uint64_t)stride * n));
		twt_fill(buf, local_end, twt_random(rng));
		if (i % 2) {
			put(io, off, buf, local, bytes, n, stride, lstride);
			for (uint32_t k = 0; k < n; k++)
				memcpy(model + off + (size_t)k * stride,
				       buf + local + (size_t)k * lstride, bytes);
		} else {
			char *want = malloc(local_end);

			memcpy(want, buf, local_end);
			for (uint32_t k = 0; k < n; k++)
				memcpy(want + local + (size_t)k * lstride,
				       model + off + (size_t)k * stride, bytes);
			get(io, off, buf, local_end, local, bytes, n, stride, lstride);
			/* What lies between the pieces is left alone. */
			twc_eq(memcmp(buf, want, local_end), 0);
			free(want);
		}
	}
}

static void strides(enum mr_where where, enum source source)
{
	static char model[SIZE], back[SIZE];
	struct mr_peer p;
	struct owner *o = begin(&p, where, source);
	uint64_t rng = 5;

	twt_fill(model, SIZE, o->seed);
	for (int t = 0; t < 3; t++)
		for (int later = 0; later < 2; later++) {
			struct io io = {client(types[t]), later};

			random_strides(io, model, &rng);
			/* Detaching writes back what a cache holds. */
			mr_ok(mrapi_rmem_detach(io.h, &mr_st));
			io.h = client(MRAPI_RMEM_ATYPE_DEFAULT);
			get(io, 0, back, SIZE, 0, SIZE, 1, 0, 0);
			twc_eq(memcmp(model, back, SIZE), 0);
			mr_ok(mrapi_rmem_detach(io.h, &mr_st));
		}
	end(&p, o);
}

MR_BOTH(mrapi_rmem_io, strides_private)
{
	strides(where, PRIVATE);
}

MR_BOTH(mrapi_rmem_io, strides_shared)
{
	strides(where, SHARED);
}

/* A single access: the strides do not matter, sizes do. */
static void sizes(enum mr_where where, enum source source)
{
	static const uint32_t size[] = {1, 2, 3, 7, 8, 64, 4095, 4096, 4097, 65536, 1000001, SIZE};
	static char buf[SIZE], back[SIZE];
	struct mr_peer p;
	struct owner *o = begin(&p, where, source);
	struct io io = {client(MRAPI_RMEM_ATYPE_DEFAULT), 0};

	get(io, 0, buf, SIZE, 0, SIZE, 1, 0, 0);
	twc_eq(twt_check(buf, SIZE, o->seed), SIZE);
	for (size_t i = 0; i < sizeof(size) / sizeof(*size); i++)
		for (io.later = 0; io.later < 2; io.later++) {
			uint32_t off = SIZE - size[i];

			twt_fill(buf, size[i], i + 1);
			put(io, off, buf, 0, size[i], 1, 0, 1);
			memset(back, 0, SIZE);
			get(io, off, back, size[i], 0, size[i], 1, 0xffffffff, 0);
			twc_eq(twt_check(back, size[i], i + 1), size[i]);
		}
	/* num_strides of 0 moves nothing. */
	memset(back, 7, 10);
	get(io, 0, back, SIZE, 0, 10, 0, 10, 10);
	for (int i = 0; i < 10; i++)
		twc_eq(back[i], 7);
	mr_ok(mrapi_rmem_detach(io.h, &mr_st));
	end(&p, o);
}

MR_BOTH(mrapi_rmem_io, sizes_private)
{
	sizes(where, PRIVATE);
}

MR_BOTH(mrapi_rmem_io, sizes_shared)
{
	sizes(where, SHARED);
}

/* By each way to another process's memory (TAGWIRE_RMEM), whichever is the usual one. */
static void by(const char *way)
{
	setenv("TAGWIRE_RMEM", way, 1);
}

Test(mrapi_rmem_io, by_kernel_private)
{
	by("vm");
	strides(MR_PROCESS, PRIVATE);
}

Test(mrapi_rmem_io, by_kernel_shared)
{
	by("vm");
	strides(MR_PROCESS, SHARED);
}

/* The memory of the process itself is reached as ever. */
Test(mrapi_rmem_io, by_kernel_own)
{
	by("vm");
	strides(MR_THREAD, PRIVATE);
}

Test(mrapi_rmem_io, by_owner_private)
{
	by("served");
	strides(MR_PROCESS, PRIVATE);
}

Test(mrapi_rmem_io, by_owner_own)
{
	by("served");
	strides(MR_THREAD, PRIVATE);
}

Test(mrapi_rmem_io, by_owner_shared)
{
	by("served");
	strides(MR_PROCESS, SHARED);
}

Test(mrapi_rmem_io, by_owner_sizes)
{
	by("served");
	sizes(MR_PROCESS, PRIVATE);
}

/* ---- errors, the same for all four calls */

struct args {
	mrapi_rmem_hndl_t h;
	uint32_t off;
	void *buf;
	size_t size; /* of read alone */
	uint32_t local, bytes, n, stride, local_stride;
};

static void all_four(struct args a, mrapi_status_t want)
{
	mrapi_request_t r = 0;

	mr_is(want, mrapi_rmem_read(a.h, a.off, a.buf, a.size, a.local, a.bytes, a.n, a.stride,
				    a.local_stride, &mr_st));
	mr_is(want, mrapi_rmem_write(a.h, a.off, a.buf, a.local, a.bytes, a.n, a.stride,
				     a.local_stride, &mr_st));
	mr_is(want, mrapi_rmem_read_i(a.h, a.off, a.buf, a.local, a.bytes, a.n, a.stride,
				      a.local_stride, &r, &mr_st));
	if (want == MRAPI_SUCCESS)
		wait_for(&r);
	mr_is(want, mrapi_rmem_write_i(a.h, a.off, a.buf, a.local, a.bytes, a.n, a.stride,
				       a.local_stride, &r, &mr_st));
	if (want == MRAPI_SUCCESS)
		wait_for(&r);
}

MR_BOTH(mrapi_rmem_io, errors)
{
	static char buf[4096];
	struct mr_peer p;
	struct owner *o = begin(&p, where, PRIVATE);
	struct args good = {.buf = buf,
			    .size = sizeof(buf),
			    .bytes = 16,
			    .n = 4,
			    .stride = 32,
			    .local_stride = 20};
	struct args a;

	for (int t = 0; t < 3; t++) {
		good.h = mr_val(mrapi_rmem_get(1, types[t], &mr_st));
		all_four(good, MRAPI_ERR_RMEM_NOTATTACHED);
		mr_is(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_flush(good.h, &mr_st));
		mr_is(MRAPI_ERR_RMEM_NOTATTACHED, mrapi_rmem_sync(good.h, &mr_st));
		mr_ok(mrapi_rmem_attach(good.h, &mr_st));
		all_four(good, MRAPI_SUCCESS);
#define BAD(field, value, want) (a = good, a.field = (value), all_four(a, want))
		BAD(h, 0, MRAPI_ERR_RMEM_INVALID);
		BAD(h, 0x7abcdef0, MRAPI_ERR_RMEM_INVALID);
		BAD(buf, NULL, MRAPI_ERR_PARAMETER);
		BAD(bytes, 0, MRAPI_ERR_PARAMETER);
		BAD(stride, 15, MRAPI_ERR_RMEM_STRIDE);
		BAD(stride, 0, MRAPI_ERR_RMEM_STRIDE);
		BAD(local_stride, 15, MRAPI_ERR_RMEM_STRIDE);
		BAD(local_stride, 0, MRAPI_ERR_RMEM_STRIDE);
		BAD(off, SIZE, MRAPI_ERR_RMEM_BUFF_OVERRUN);
		BAD(off, SIZE - 3 * 32 - 15, MRAPI_ERR_RMEM_BUFF_OVERRUN);
		BAD(off, 0xffffffff, MRAPI_ERR_RMEM_BUFF_OVERRUN);
		BAD(stride, 0xffffffff, MRAPI_ERR_RMEM_BUFF_OVERRUN);
		BAD(stride, 0x40000000, MRAPI_ERR_RMEM_BUFF_OVERRUN); /* times 4: 2^32 */
		a = good;
		a.n = 1;
		a.stride = a.local_stride = 0;
		a.off = SIZE - 16;
		all_four(a, MRAPI_SUCCESS);
		a.off++;
		all_four(a, MRAPI_ERR_RMEM_BUFF_OVERRUN);
		/* 4.4.2.9 alone knows the size of the buffer. */
		mr_is(MRAPI_ERR_PARAMETER,
		      mrapi_rmem_read(good.h, 0, buf, 0, 0, 16, 1, 0, 0, &mr_st));
		mr_is(MRAPI_ERR_PARAMETER,
		      mrapi_rmem_read(good.h, 0, buf, 15, 0, 16, 1, 0, 0, &mr_st));
		mr_is(MRAPI_ERR_PARAMETER,
		      mrapi_rmem_read(good.h, 0, buf, 16, 1, 16, 1, 0, 0, &mr_st));
		mr_ok(mrapi_rmem_read(good.h, 0, buf, 17, 1, 16, 1, 0, 0, &mr_st));
		/* And without it, as programs also write it. */
		mr_ok(mrapi_rmem_read(good.h, 0, buf, 1, 16, 1, 0, 0, &mr_st));
		mr_is(MRAPI_ERR_PARAMETER,
		      mrapi_rmem_read_i(good.h, 0, buf, 0, 16, 1, 0, 0, NULL, &mr_st));
		mr_is(MRAPI_ERR_PARAMETER,
		      mrapi_rmem_write_i(good.h, 0, buf, 0, 16, 1, 0, 0, NULL, &mr_st));
		mr_ok(mrapi_rmem_detach(good.h, &mr_st));
	}
	end(&p, o);
}

/* ---- flush and sync */

Test(mrapi_rmem_io, flush_and_sync_errors)
{
	mr_up(MR_NODE);
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_flush(0, &mr_st));
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_sync(0x12345678, &mr_st));
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_synch(0x12345678, &mr_st));
	mr_down();
}

/* Types without a cache: written is there, and both calls do no harm. */
MR_BOTH(mrapi_rmem_io, direct_types)
{
	struct mr_peer p;
	struct owner *o = begin(&p, where, PRIVATE);
	char buf[100];

	for (int t = 0; t < 2; t++) {
		mrapi_rmem_hndl_t h = client(types[t]);

		memset(buf, 30 + t, sizeof(buf));
		mr_ok(mrapi_rmem_write(h, 50, buf, 0, 100, 1, 0, 0, &mr_st));
		check_there(&p, o, 50, 100, (unsigned char)(30 + t));
		set_there(&p, o, 50, 10, 99);
		mr_ok(mrapi_rmem_read(h, 50, buf, 100, 0, 10, 1, 0, 0, &mr_st));
		twc_eq(buf[0], 99);
		mr_ok(mrapi_rmem_flush(h, &mr_st));
		mr_ok(mrapi_rmem_sync(h, &mr_st));
		check_there(&p, o, 50, 10, 99);
		mr_ok(mrapi_rmem_detach(h, &mr_st));
	}
	end(&p, o);
}

/* A software cache: written is there after flush, read is new after sync. */
MR_BOTH(mrapi_rmem_io, software_cache)
{
	struct mr_peer p;
	struct owner *o = begin(&p, where, PRIVATE);
	mrapi_rmem_hndl_t h = client(MRAPI_ACCESS_TYPE_SW_CACHE);
	char buf[20000];

	memset(buf, 1, sizeof(buf));
	mr_ok(mrapi_rmem_write(h, 3000, buf, 0, sizeof(buf), 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_flush(h, &mr_st));
	check_there(&p, o, 3000, sizeof(buf), 1);
	/* The client reads its own writes, flushed or not. */
	memset(buf, 2, 500);
	mr_ok(mrapi_rmem_write(h, 4000, buf, 0, 500, 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_read(h, 4000, buf, sizeof(buf), 1000, 500, 1, 0, 0, &mr_st));
	twc_eq(buf[1499], 2);
	/* The owner writes meanwhile, beside it in the same lines. */
	set_there(&p, o, 4500, 300, 3);
	set_there(&p, o, 3700, 300, 4);
	mr_ok(mrapi_rmem_flush(h, &mr_st));
	check_there(&p, o, 4000, 500, 2);
	check_there(&p, o, 4500, 300, 3);
	check_there(&p, o, 3700, 300, 4);
	mr_ok(mrapi_rmem_sync(h, &mr_st));
	mr_ok(mrapi_rmem_read(h, 3700, buf, sizeof(buf), 0, 1100, 1, 0, 0, &mr_st));
	for (int i = 0; i < 1100; i++)
		twc_eq(buf[i], i < 300 ? 4 : i < 800 ? 2 : 3);
	/* Detaching flushes. */
	memset(buf, 5, 10);
	mr_ok(mrapi_rmem_write(h, 9000, buf, 0, 10, 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	check_there(&p, o, 9000, 10, 5);
	end(&p, o);
}

/* Its owner ends and becomes another node's process: what was attached is gone. */
static void restart(void *arg)
{
	struct owner *o = arg;

	mr_down();
	free(o->mem);
	mr_up(1);
}

static void offer_little(void *arg)
{
	struct owner *o = arg;

	o->mem = calloc(1, 100);
	o->h = mr_val(mrapi_rmem_create(1, o->mem, MRAPI_RMEM_ATYPE_ANY, NULL, 100, &mr_st));
}

/*
 * What a cache held of memory whose owner has ended is dropped, all of it and no
 * more, when larger memory takes its place: after some time, as places rest.
 */
Test(mrapi_rmem_io, cache_of_ended_owner)
{
	struct mr_peer p;
	struct owner *o = mr_shared(sizeof(*o));
	mrapi_rmem_hndl_t h;
	char c = 1;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&p, offer_little, o);
	h = client(MRAPI_ACCESS_TYPE_SW_CACHE);
	mr_ok(mrapi_rmem_read(h, 0, &c, 1, 0, 1, 1, 0, 0, &mr_st));
	twc_eq(c, 0);
	mr_do(&p, restart, o);
	mr_is(MRAPI_ERR_RMEM_INVALID, mrapi_rmem_read(h, 0, &c, 1, 0, 1, 1, 0, 0, &mr_st));
	for (int i = 0; i < 300; i++) {
		mr_do(&p, offer, o);
		h = client(MRAPI_ACCESS_TYPE_SW_CACHE);
		if (i % 50 == 0)
			mr_ok(mrapi_rmem_read(h, 0, &c, 1, 0, 1, 1, 0, 0, &mr_st));
		mr_ok(mrapi_rmem_detach(h, &mr_st));
		mr_do(&p, withdraw, o);
	}
	mr_down();
	mr_peer_end(&p);
}

/* A child that becomes a node reads what is there, not what its parent's cache held. */
static int reads_anew(void *arg, int fd)
{
	mrapi_rmem_hndl_t h;
	char c = 0;

	(void)arg;
	mr_up(3);
	h = client(MRAPI_ACCESS_TYPE_SW_CACHE);
	mr_ok(mrapi_rmem_read(h, 10, &c, 1, 0, 1, 1, 0, 0, &mr_st));
	twc_eq(c, 2);
	mr_down();
	twc_tell(fd);
	return 0;
}

Test(mrapi_rmem_io, cache_of_parent)
{
	struct mr_peer p;
	struct owner *o = begin(&p, MR_PROCESS, PRIVATE);
	mrapi_rmem_hndl_t h = client(MRAPI_ACCESS_TYPE_SW_CACHE);
	struct twt_child child;
	char c = 0;

	set_there(&p, o, 10, 1, 1);
	mr_ok(mrapi_rmem_read(h, 10, &c, 1, 0, 1, 1, 0, 0, &mr_st));
	twc_eq(c, 1);
	set_there(&p, o, 10, 1, 2);
	twt_spawn(&child, reads_anew, NULL);
	twc_hear(child.fd);
	twc_eq(twt_join(&child, TWC_LONG), 0);
	mr_ok(mrapi_rmem_read(h, 10, &c, 1, 0, 1, 1, 0, 0, &mr_st));
	twc_eq(c, 1);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	end(&p, o);
}

/* The owner, attached, is a client like others; its own pointer works as well. */
Test(mrapi_rmem_io, own_memory)
{
	static char mem[1000];
	mrapi_rmem_hndl_t h;
	char buf[10];

	mr_up(MR_NODE);
	h = mr_val(mrapi_rmem_create(1, mem, MRAPI_RMEM_ATYPE_DEFAULT, NULL, 1000, &mr_st));
	mr_is(MRAPI_ERR_RMEM_NOTATTACHED,
	      mrapi_rmem_write(h, 0, "0123456789", 0, 10, 1, 0, 0, &mr_st));
	mr_ok(mrapi_rmem_attach(h, &mr_st));
	mr_is(MRAPI_ERR_RMEM_ATTACH, mrapi_rmem_delete(h, &mr_st));
	mr_ok(mrapi_rmem_write(h, 500, "0123456789", 0, 10, 1, 0, 0, &mr_st));
	twc_eq(memcmp(mem + 500, "0123456789", 10), 0);
	mem[501] = 'x';
	mr_ok(mrapi_rmem_read(h, 500, buf, 10, 0, 10, 1, 0, 0, &mr_st));
	twc_eq(memcmp(buf, "0x23456789", 10), 0);
	mr_ok(mrapi_rmem_detach(h, &mr_st));
	mr_ok(mrapi_rmem_delete(h, &mr_st));
	/* Demoted, not freed. */
	twc_eq(mem[501], 'x');
	mr_down();
}
