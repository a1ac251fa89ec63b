/* SPDX-License-Identifier: BSD-2-Clause */
/* The measurements of mrapi_perf, and its second process. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mrapi_perf.h"
#include "other.h"

#define PIECES 1024u /* of one system call */
#define BATCH 16     /* turns between two looks whether to stop */
#define LOOKS 10000  /* before the core is offered to others */
#define LINE 64

/* Memory that the two processes share beside MRAPI. */
struct common {
	_Atomic(uint32_t) ready, order, go, stop, done;
	uint32_t size; /* of an order: these */
	bool shared, write, stream;
	uint64_t n; /* and its answer */
	struct mx_name leader, follower;
	void *memory;
	pid_t owner;
	pthread_mutex_t mutex __attribute__((aligned(LINE)));
	_Atomic(uint64_t) made __attribute__((aligned(LINE))); /* of a stream, by its owner */
	_Atomic(uint64_t) taken __attribute__((aligned(LINE)));
};
static struct common *common;
enum { ORDER_END = 1, ORDER_LOCK, ORDER_LOCK_BARE, ORDER_MX, ORDER_STREAM };

static mrapi_mutex_hndl_t mutex;
static char *local, *shared; /* shared: as mapped here */
static uint32_t at;	     /* accesses begin here in both; only a stream's elsewhere than 0 */

static void check_other(void)
{
	int status;

	if (bench_other_ended(&status, WNOHANG))
		bench_fail("the other process ended");
}

static void begin(uint32_t order)
{
	atomic_store(&common->stop, 0);
	atomic_store(&common->done, 0);
	atomic_store(&common->go, 0);
	atomic_store(&common->order, order);
	while (!atomic_load(&common->go)) {
		check_other();
		sched_yield();
	}
}

static void await_done(void)
{
	while (!atomic_load(&common->done)) {
		check_other();
		sched_yield();
	}
}

/* -------------------------------------------------------------------- locks */

double work_lock(const struct figure *f, uint64_t n)
{
	double start = bench_now();
	mrapi_status_t st;
	mrapi_key_t key;

	(void)f;
	for (uint64_t i = 0; i < n; i++) {
		mrapi_mutex_lock(mutex, &key, MRAPI_INFINITE, &st);
		mrapi_mutex_unlock(mutex, &key, &st);
	}
	return bench_now() - start;
}

double work_lock_bare(const struct figure *f, uint64_t n)
{
	double start = bench_now();

	(void)f;
	for (uint64_t i = 0; i < n; i++) {
		pthread_mutex_lock(&common->mutex);
		pthread_mutex_unlock(&common->mutex);
	}
	return bench_now() - start;
}

/*
 * Both processes contend for the lock: the leader n times, the other until then. Returns
 * the time of n locks by either.
 */
static double contend(uint32_t order, uint64_t n, double (*mine)(const struct figure *, uint64_t))
{
	double start, took;

	begin(order);
	start = bench_now();
	mine(NULL, n);
	atomic_store(&common->stop, 1);
	await_done();
	took = bench_now() - start;
	return took * (double)n / (double)(n + common->n);
}

double work_contended(const struct figure *f, uint64_t n)
{
	(void)f;
	return contend(ORDER_LOCK, n, work_lock);
}

double work_contended_bare(const struct figure *f, uint64_t n)
{
	(void)f;
	return contend(ORDER_LOCK_BARE, n, work_lock_bare);
}

/* ------------------------------------------------------------ remote memory */

double work_rmem(const struct figure *f, uint64_t n)
{
	uint32_t count = f->stride ? f->size / PIECE : 1;
	uint32_t bytes = f->stride ? PIECE : f->size;
	double start = bench_now();
	mrapi_status_t st = MRAPI_SUCCESS;
	char text[MRAPI_MAX_STATUS_SIZE];

	for (uint64_t i = 0; i < n && st == MRAPI_SUCCESS; i++) {
		if (f->write)
			mrapi_rmem_write(f->rmem, at, local, at, bytes, count, f->stride, PIECE,
					 &st);
		else
			mrapi_rmem_read(f->rmem, at, local, BUFFERS * MAX_SIZE, at, bytes, count,
					f->stride, PIECE, &st);
	}
	if (st != MRAPI_SUCCESS)
		bench_fail("remote memory: %s", mrapi_display_status(st, text, sizeof(text)));
	return bench_now() - start;
}

double work_copy(const struct figure *f, uint64_t n)
{
	double start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		char *from = (f->write ? local : shared) + at,
		     *to = (f->write ? shared : local) + at;

		if (!f->stride)
			memcpy(to, from, f->size);
		for (uint32_t k = 0; f->stride && k < f->size / PIECE; k++)
			memcpy(to + (size_t)k * PIECE, from + (size_t)k * f->stride, PIECE);
		__asm__ volatile("" ::: "memory");
	}
	return bench_now() - start;
}

/* As many pieces in one call as the kernel takes. */
double work_vm(const struct figure *f, uint64_t n)
{
	static struct iovec from[PIECES];
	struct iovec to;
	double start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		uint32_t pieces = f->stride ? f->size / PIECE : 1, done = 0;

		while (done < pieces) {
			uint32_t k = 0;

			for (; k < PIECES && done + k < pieces; k++)
				from[k] = (struct iovec){(char *)common->memory + at +
								 (size_t)(done + k) * f->stride,
							 f->stride ? PIECE : f->size};
			to = (struct iovec){local + at + (size_t)done * PIECE,
					    (size_t)k * (f->stride ? PIECE : f->size)};
			if ((f->write ? process_vm_writev(common->owner, &to, 1, from, k, 0)
				      : process_vm_readv(common->owner, &to, 1, from, k, 0)) < 0)
				return NAN;
			done += k;
		}
	}
	return bench_now() - start;
}

double work_mx(const struct figure *f, uint64_t n)
{
	double start;

	common->size = f->size;
	common->write = f->write;
	common->stream = f->stream;
	common->n = n;
	begin(ORDER_MX);
	start = bench_now();
	beside_move(&common->follower, f->write, f->stream, local, f->size, n);
	await_done();
	return bench_now() - start;
}

/* ------------------------------------------------------------------ streams */

void work_make(char *buf, uint32_t size, uint64_t i)
{
	memset(buf, (int)i, size);
}

void work_look(const char *buf, uint32_t size)
{
	for (uint32_t k = 0; k < size; k += LINE)
		(void)*(const volatile char *)&buf[k];
}

static void await(_Atomic(uint64_t) *count, uint64_t least)
{
	for (unsigned looks = 1; atomic_load_explicit(count, memory_order_acquire) < least; looks++)
		if (looks % LOOKS == 0)
			sched_yield();
}

/* The owner fills its buffers in turns, as soon as they have been read. */
static void make_all(void)
{
	char *mine = common->shared ? shared : common->memory;

	for (uint64_t i = 0; i < common->n; i++) {
		if (i >= BUFFERS)
			await(&common->taken, i - BUFFERS + 1);
		work_make(mine + (size_t)(i % BUFFERS) * common->size, common->size, i);
		atomic_store_explicit(&common->made, i + 1, memory_order_release);
	}
}

static double take_all(const struct figure *f, enum way way, uint64_t n)
{
	bool refused = false;
	double start;

	common->size = f->size;
	common->shared = f->shared;
	common->n = n;
	atomic_store(&common->made, 0);
	atomic_store(&common->taken, 0);
	begin(ORDER_STREAM);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		await(&common->made, i + 1);
		at = (uint32_t)(i % BUFFERS) * f->size;
		refused |= isnan(f->run[way](f, 1));
		atomic_store_explicit(&common->taken, i + 1, memory_order_release);
		work_look(local + at, f->size);
	}
	at = 0;
	await_done();
	return refused ? NAN : bench_now() - start;
}

double work(const struct figure *f, enum way way, uint64_t n)
{
	return f->stream && way != MX ? take_all(f, way, n) : f->run[way](f, n);
}

/* -------------------------------------------------------------- the follower */

static void obey(uint32_t order)
{
	double (*turns)(const struct figure *, uint64_t) = order == ORDER_LOCK ? work_lock
									       : work_lock_bare;
	uint64_t n = 0;

	if (order == ORDER_MX) {
		beside_move(&common->leader, !common->write, common->stream, common->memory,
			    common->size, common->n);
		return;
	}
	if (order == ORDER_STREAM) {
		make_all();
		return;
	}
	while (!atomic_load(&common->stop)) {
		turns(NULL, BATCH);
		n += BATCH;
	}
	common->n = n;
}

/* Bytes that the strided accesses of --max span, or the buffers of a stream. */
static size_t room(void)
{
	size_t strided = (size_t)opt.sizes.max + (size_t)opt.sizes.max / PIECE * opt.stride;
	size_t stream = (size_t)opt.sizes.max * BUFFERS;

	return strided > stream ? strided : stream;
}

static void follow(void)
{
	uint32_t order;
	mrapi_info_t info;
	mrapi_shmem_hndl_t h;

	OK(mrapi_initialize(1, 2, NULL, &info, &st));
	OK(mutex = mrapi_mutex_create(1, NULL, &st));
	common->memory = malloc(room());
	if (!common->memory)
		bench_fail("no memory");
	memset(common->memory, 1, room());
	OK(h = mrapi_shmem_create(1, (mrapi_uint_t)room(), NULL, 0, NULL, &st));
	OK(shared = mrapi_shmem_attach(h, &st));
	OK(mrapi_rmem_create(1, common->memory, MRAPI_RMEM_DEFAULT, NULL, (mrapi_uint_t)room(),
			     &st));
	OK(mrapi_rmem_create(2, shared, MRAPI_RMEM_DEFAULT, NULL, (mrapi_uint_t)room(), &st));
	if (opt.rmem)
		common->follower = beside_open();
	common->owner = getpid();
	atomic_store(&common->ready, 1);
	for (;;) {
		while (!(order = atomic_exchange(&common->order, 0)))
			usleep(50);
		if (order == ORDER_END)
			break;
		atomic_store(&common->go, 1);
		obey(order);
		atomic_store(&common->done, 1);
	}
	if (opt.rmem)
		beside_close();
	OK(mrapi_finalize(&st));
	exit(0);
}

/* ---------------------------------------------------------------- both of them */

static void make_common(void)
{
	pthread_mutexattr_t attr;
	char job[40];

	snprintf(job, sizeof(job), "mrapi_perf-%d", (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (common == MAP_FAILED)
		bench_fail("no memory: %s", strerror(errno));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&common->mutex, &attr);
}

static void meet(void)
{
	mrapi_info_t info;
	mrapi_rmem_hndl_t h;

	while (!atomic_load(&common->ready)) {
		check_other();
		usleep(1000);
	}
	OK(mrapi_initialize(1, 1, NULL, &info, &st));
	OK(mutex = mrapi_mutex_get(1, &st));
	OK(shared = mrapi_shmem_attach(mrapi_shmem_get(1, &st), &st));
	for (mrapi_rmem_id_t id = 1; id <= 2; id++) {
		OK(h = mrapi_rmem_get(id, MRAPI_RMEM_DEFAULT, &st));
		OK(mrapi_rmem_attach(h, &st));
	}
	local = malloc((size_t)opt.sizes.max * BUFFERS + PIECE);
	if (!local)
		bench_fail("no memory");
	memset(local, 1, (size_t)opt.sizes.max * BUFFERS + PIECE);
	if (opt.rmem)
		common->leader = beside_open();
}

void work_start(void)
{
	bool bind = !opt.no_bind;

	bench_both_here();
	make_common();
	if (bench_fork(&bind) == 0)
		follow();
	meet();
}

void work_end(void)
{
	int status = 0;

	atomic_store(&common->order, ORDER_END);
	if (!bench_other_ended(&status, 0) || status)
		bench_fail("the other process failed");
	if (opt.rmem)
		beside_close();
	OK(mrapi_finalize(&st));
}
