/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What MRAPI's locks and remote memory cost, each beside the bare thing in the
 * same round: a process-shared pthread mutex, memcpy, process_vm_readv.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "cores.h"
#include "mrapi.h"
#include "series.h"
#include "table.h"

const char bench_tool[] = "mrapi_perf";

static const char help[] =
	"Usage: mrapi_perf [options]\n"
	"Measures MRAPI locks and remote memory between two processes of this host, each\n"
	"figure beside that of the bare thing in the same round.\n\n"
	"What to measure:\n"
	"  --only WHAT         locks, or rmem (default: both)\n"
	"  --min BYTES         smallest access of remote memory (default 8)\n"
	"  --max BYTES         largest (default 4m), up to 256m\n"
	"  --stride BYTES      distance of strided accesses of 64 bytes (default 256); 0: none\n\n"
	"How to measure and report:\n"
	"  --no-bind           leave it to the system where the two processes run\n"
	"  --rounds N          rounds over everything, reported as medians (default 5)\n"
	"  --time MS           time for each figure in each round (default 20)\n"
	"  --csv, --json       comma separated values; one JSON object a line\n"
	"  --help, --version\n";

static const struct table_column columns[] = {
	{"what", "what", "%s"},
	{"size", "size", "%" PRIu64},
	{"stride", "stride", "%" PRIu64},
	{"time_us", "time us", "%.4f"},
	{"bare_us", "bare us", "%.4f"},
	{"ratio", "to bare", "%.2f"},
	{"bandwidth_mb_s", "MB/s", "%.0f"},
};

#define PIECE 64u    /* bytes of a strided access */
#define PIECES 1024u /* of one system call */
#define MAX_SIZE (256u << 20)
#define MAX_ROWS 256
#define LINE 64

struct options {
	bool locks, rmem, no_bind;
	uint32_t min, max, stride;
	unsigned rounds;
	double seconds;
	enum table_format format;
};

static struct options opt = {true, true, false, 8, 4u << 20, 256, 5, 0.02, TABLE_PLAIN};

/* What the two processes share beside MRAPI. */
struct common {
	_Atomic(uint32_t) ready, order, done, go;
	_Atomic(uint64_t) n;
	pthread_mutex_t mutex __attribute__((aligned(LINE)));
	void *private;
	pid_t owner;
};
static struct common *common;
enum { ORDER_END = 1, ORDER_MRAPI, ORDER_PTHREAD };

static mrapi_mutex_hndl_t mutex;
static char *local, *shared; /* shared: as mapped here */

#define OK(call)                                                                                   \
	do {                                                                                       \
		mrapi_status_t st;                                                                 \
		char text[MRAPI_MAX_STATUS_SIZE];                                                  \
		call;                                                                              \
		if (st != MRAPI_SUCCESS)                                                           \
			bench_fail("%s: %s", #call, mrapi_display_status(st, text, sizeof(text))); \
	} while (0)

/* A figure: n times something; the seconds it took. */
struct figure {
	double (*run)(const struct figure *f, uint64_t n);
	double (*bare)(const struct figure *f, uint64_t n);
	const char *what;
	uint32_t size, stride;
	mrapi_rmem_hndl_t rmem;
	bool write;
	uint64_t n, bare_n;
	struct bench_series time, bare_time, ratio;
};

/* -------------------------------------------------------------------- locks */

static double run_lock(const struct figure *f, uint64_t n)
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

static double bare_lock(const struct figure *f, uint64_t n)
{
	double start = bench_now();

	(void)f;
	for (uint64_t i = 0; i < n; i++) {
		pthread_mutex_lock(&common->mutex);
		pthread_mutex_unlock(&common->mutex);
	}
	return bench_now() - start;
}

/* Both processes want the lock all the time; the leader's time for each of its turns. */
static double contend(uint32_t order, uint64_t n, double (*mine)(const struct figure *, uint64_t))
{
	double start;

	atomic_store(&common->done, 0);
	atomic_store(&common->n, n);
	atomic_store(&common->order, order);
	while (!atomic_load(&common->go))
		sched_yield();
	start = bench_now();
	mine(NULL, n);
	while (!atomic_load(&common->done))
		sched_yield();
	atomic_store(&common->go, 0);
	return (bench_now() - start) / 2; /* each of them n turns */
}

static double run_contended(const struct figure *f, uint64_t n)
{
	(void)f;
	return contend(ORDER_MRAPI, n, run_lock);
}

static double bare_contended(const struct figure *f, uint64_t n)
{
	(void)f;
	return contend(ORDER_PTHREAD, n, bare_lock);
}

/* ------------------------------------------------------------ remote memory */

static double run_rmem(const struct figure *f, uint64_t n)
{
	uint32_t count = f->stride ? f->size / PIECE : 1;
	uint32_t bytes = f->stride ? PIECE : f->size;
	double start = bench_now();
	mrapi_status_t st = MRAPI_SUCCESS;

	for (uint64_t i = 0; i < n && st == MRAPI_SUCCESS; i++) {
		if (f->write)
			mrapi_rmem_write(f->rmem, 0, local, 0, bytes, count, f->stride, PIECE, &st);
		else
			mrapi_rmem_read(f->rmem, 0, local, MAX_SIZE, 0, bytes, count, f->stride,
					PIECE, &st);
	}
	if (st != MRAPI_SUCCESS)
		bench_fail("remote memory: status %d", (int)st);
	return bench_now() - start;
}

static double bare_copy(const struct figure *f, uint64_t n)
{
	double start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		char *from = f->write ? local : shared, *to = f->write ? shared : local;

		if (!f->stride)
			memcpy(to, from, f->size);
		for (uint32_t at = 0; f->stride && at < f->size / PIECE; at++)
			memcpy(to + (size_t)at * PIECE, from + (size_t)at * f->stride, PIECE);
		__asm__ volatile("" ::: "memory");
	}
	return bench_now() - start;
}

/* As many pieces in one call as the kernel takes. */
static double bare_vm(const struct figure *f, uint64_t n)
{
	static struct iovec from[PIECES];
	struct iovec to;
	double start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		uint32_t pieces = f->stride ? f->size / PIECE : 1, done = 0;

		while (done < pieces) {
			uint32_t k = 0;

			for (; k < PIECES && done + k < pieces; k++)
				from[k] = (struct iovec){(char *)common->private +
								 (size_t)(done + k) * f->stride,
							 f->stride ? PIECE : f->size};
			to = (struct iovec){local + (size_t)done * PIECE,
					    (size_t)k * (f->stride ? PIECE : f->size)};
			if ((f->write ? process_vm_writev(common->owner, &to, 1, from, k, 0)
				      : process_vm_readv(common->owner, &to, 1, from, k, 0)) < 0)
				return NAN;
			done += k;
		}
	}
	return bench_now() - start;
}

/* -------------------------------------------------------------- the follower */

static void follow(void)
{
	uint32_t order;
	mrapi_info_t info;
	mrapi_shmem_hndl_t h;
	char *private, *mine;
	size_t room = (size_t)opt.max + (size_t)opt.max / PIECE * opt.stride;

	bench_role = " (follower)";
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	OK(mrapi_initialize(1, 2, NULL, &info, &st));
	OK(mutex = mrapi_mutex_create(1, NULL, &st));
	private = malloc(room);
	if (!private)
		bench_fail("no memory");
	memset(private, 1, room);
	OK(h = mrapi_shmem_create(1, (mrapi_uint_t)room, NULL, 0, NULL, &st));
	OK(mine = mrapi_shmem_attach(h, &st));
	OK(mrapi_rmem_create(1, private, MRAPI_RMEM_DEFAULT, NULL, (mrapi_uint_t)room, &st));
	OK(mrapi_rmem_create(2, mine, MRAPI_RMEM_DEFAULT, NULL, (mrapi_uint_t)room, &st));
	common->private = private;
	common->owner = getpid();
	atomic_store(&common->ready, 1);
	for (;;) {
		while (!(order = atomic_exchange(&common->order, 0)))
			usleep(50);
		if (order == ORDER_END)
			break;
		atomic_store(&common->go, 1);
		if (order == ORDER_MRAPI)
			run_lock(NULL, atomic_load(&common->n));
		else
			bare_lock(NULL, atomic_load(&common->n));
		atomic_store(&common->done, 1);
		while (atomic_load(&common->go))
			sched_yield();
	}
	OK(mrapi_finalize(&st));
	exit(0);
}

/* ---------------------------------------------------------------- the leader */

/* How often it fits into the time. */
static uint64_t calibrate(const struct figure *f, double (*run)(const struct figure *, uint64_t))
{
	uint64_t n = 1;
	double took;

	while ((took = run(f, n)) < opt.seconds / 2 && n < 1u << 30)
		n = took > opt.seconds / 100 ? (uint64_t)((double)n * opt.seconds / took) + 1
					     : n * 4;
	return n;
}

static void measure(struct figure *f)
{
	double time, bare;

	if (!f->n) {
		f->n = calibrate(f, f->run);
		f->bare_n = calibrate(f, f->bare);
	}
	time = f->run(f, f->n) / (double)f->n;
	bare = f->bare(f, f->bare_n) / (double)f->bare_n;
	bench_add(&f->time, time * 1e6);
	bench_add(&f->bare_time, bare * 1e6);
	bench_add(&f->ratio, time / bare);
}

static unsigned plan_rmem(struct figure *f, unsigned n, uint32_t stride)
{
	static const char *const names[2][2] = {{"read shared", "write shared"},
						{"read private", "write private"}};
	mrapi_rmem_hndl_t h[2];

	OK(h[0] = mrapi_rmem_get(2, MRAPI_RMEM_DEFAULT, &st));
	OK(h[1] = mrapi_rmem_get(1, MRAPI_RMEM_DEFAULT, &st));
	for (int private = 0; private < 2; private ++)
		for (int write = 0; write < 2; write++)
			for (uint64_t size = stride ? (opt.min > PIECE ? opt.min : PIECE) : opt.min;
			     size <= opt.max && n < MAX_ROWS; size *= stride ? 16 : 8)
				f[n++] = (struct figure){.run = run_rmem,
							 .bare = private ? bare_vm : bare_copy,
							 .what = names[private][write],
							 .size = (uint32_t)size,
							 .stride = stride,
							 .rmem = h[private],
							 .write = write};
	return n;
}

static unsigned plan(struct figure *f)
{
	unsigned n = 0;

	if (opt.locks) {
		f[n++] = (struct figure){
			.run = run_lock, .bare = bare_lock, .what = "lock, uncontended"};
		f[n++] = (struct figure){
			.run = run_contended, .bare = bare_contended, .what = "lock, contended"};
	}
	if (opt.rmem)
		n = plan_rmem(f, n, 0);
	if (opt.rmem && opt.stride)
		n = plan_rmem(f, n, opt.stride);
	return n;
}

static void report(const struct figure *f, unsigned n)
{
	struct table t;

	table_open(&t, opt.format, columns, sizeof(columns) / sizeof(columns[0]));
	for (unsigned i = 0; i < n; i++) {
		table_text(&t, f[i].what);
		if (f[i].size) {
			table_count(&t, f[i].size);
			table_count(&t, f[i].stride);
		} else {
			table_none(&t);
			table_none(&t);
		}
		table_real(&t, bench_median(&f[i].time));
		table_real(&t, bench_median(&f[i].bare_time));
		table_real(&t, bench_median(&f[i].ratio));
		table_real(&t, f[i].size ? f[i].size / bench_median(&f[i].time) : NAN);
	}
	table_close(&t);
}

static void lead(pid_t child)
{
	static struct figure figures[MAX_ROWS];
	mrapi_info_t info;
	mrapi_rmem_hndl_t h;
	unsigned n;

	while (!atomic_load(&common->ready)) {
		if (waitpid(child, NULL, WNOHANG) == child)
			bench_fail("the other process ended");
		usleep(1000);
	}
	OK(mrapi_initialize(1, 1, NULL, &info, &st));
	OK(mutex = mrapi_mutex_get(1, &st));
	OK(shared = mrapi_shmem_attach(mrapi_shmem_get(1, &st), &st));
	for (mrapi_rmem_id_t id = 1; id <= 2; id++) {
		OK(h = mrapi_rmem_get(id, MRAPI_RMEM_DEFAULT, &st));
		OK(mrapi_rmem_attach(h, &st));
	}
	local = malloc((size_t)opt.max + PIECE);
	if (!local)
		bench_fail("no memory");
	memset(local, 1, (size_t)opt.max + PIECE);
	n = plan(figures);
	for (unsigned round = 0; round < opt.rounds; round++)
		for (unsigned i = 0; i < n; i++) {
			bench_progress("round %u of %u, %s", round + 1, opt.rounds,
				       figures[i].what);
			measure(&figures[i]);
		}
	bench_progress_end();
	atomic_store(&common->order, ORDER_END);
	waitpid(child, NULL, 0);
	OK(mrapi_finalize(&st));
	report(figures, n);
}

/* ---------------------------------------------------------------- the options */

static void parse_only(const char *what)
{
	opt.locks = !strcmp(what, "locks");
	opt.rmem = !strcmp(what, "rmem");
	if (!opt.locks && !opt.rmem)
		bench_usage("--only: '%s' is neither locks nor rmem", what);
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {{"only", 1, NULL, 'o'},	   {"min", 1, NULL, 'm'},
						{"max", 1, NULL, 'M'},	   {"stride", 1, NULL, 's'},
						{"no-bind", 0, NULL, 'b'}, {"rounds", 1, NULL, 'r'},
						{"time", 1, NULL, 't'},	   {"csv", 0, NULL, 'c'},
						{"json", 0, NULL, 'j'},	   {"help", 0, NULL, 'h'},
						{"version", 0, NULL, 'v'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			parse_only(optarg);
			break;
		case 'm':
			opt.min = (uint32_t)bench_number("min", optarg, 1, MAX_SIZE);
			break;
		case 'M':
			opt.max = (uint32_t)bench_number("max", optarg, 1, MAX_SIZE);
			break;
		case 's':
			opt.stride = (uint32_t)bench_number("stride", optarg, 0, 4096);
			break;
		case 'b':
			opt.no_bind = true;
			break;
		case 'r':
			opt.rounds = (unsigned)bench_number("rounds", optarg, 1, BENCH_MAX_ROUNDS);
			break;
		case 't':
			opt.seconds = bench_real("time", optarg, 60000) / 1000;
			break;
		case 'c':
			opt.format = TABLE_CSV;
			break;
		case 'j':
			opt.format = TABLE_JSON;
			break;
		case 'h':
			bench_help(help);
		case 'v':
			bench_version();
		default:
			bench_usage_hint();
		}
	}
	if (optind < argc)
		bench_usage("'%s' is not an option", argv[optind]);
	if (opt.min > opt.max)
		bench_usage("--min is above --max");
	if (opt.stride && opt.stride < PIECE)
		bench_usage("--stride is less than the %u bytes of an access", PIECE);
	/* A strided access spans so many times its bytes. */
	if ((uint64_t)opt.max + (uint64_t)opt.max / PIECE * opt.stride > UINT32_MAX)
		bench_usage("--max with that --stride is more than 4 GB");
}

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

int main(int argc, char **argv)
{
	int cpus[2];
	bool bound;
	pid_t child;

	parse(argc, argv);
	make_common();
	bound = !opt.no_bind && bench_cores(cpus);
	child = fork();
	if (child < 0)
		bench_fail("fork: %s", strerror(errno));
	if (bound)
		bench_bind(cpus[child == 0]);
	if (child == 0)
		follow();
	lead(child);
	bench_output_end();
	return 0;
}
