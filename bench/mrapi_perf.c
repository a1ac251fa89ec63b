/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of MRAPI's locks and remote memory, each beside the bare mechanism in the
 * same round: a process-shared pthread mutex, memcpy, process_vm_readv; and beside MX
 * with the same number of bytes.
 */
#include <inttypes.h>
#include <math.h>

#include "mrapi_perf.h"

const char bench_tool[] = "mrapi_perf";

static const char help[] =
	"Usage: mrapi_perf [options]\n"
	"Measures MRAPI locks and remote memory between two processes of this host, each\n"
	"figure beside that of the bare thing and of MX in the same round.\n\n"
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
	"  -h, --help; -V, --version\n";

static const struct table_column columns[] = {
	{"what", "what", "%s"},
	{"size", "size", "%" PRIu64},
	{"stride", "stride", "%" PRIu64},
	{"time_us", "time us", "%.4f"},
	{"bare_us", "bare us", "%.4f"},
	{"ratio", "to bare", "%.2f"},
	{"mx_us", "MX us", "%.4f"},
	{"mx_ratio", "to MX", "%.2f"},
	{"bandwidth_mb_s", "MB/s", "%.0f"},
};

#define MAX_ROWS 256

struct options opt = {true, true, false, {.min = 8, .max = 4u << 20}, 256, 5, 0.02, TABLE_PLAIN};

/* How often it fits into the time. The lesser of two: one may have been disturbed. */
static uint64_t calibrate(const struct figure *f, enum way way)
{
	for (uint64_t n = 1;; n *= 4) {
		double took = work(f, way, n), again = work(f, way, n);

		took = fmin(took, again);
		if (isnan(took))
			return 1;
		if (took >= opt.seconds / 8)
			return (uint64_t)((double)n * opt.seconds / took) + 1;
	}
}

/* In turns, so that disturbances of the machine affect all alike. */
static void measure(struct figure *f)
{
	double time[WAYS] = {NAN, NAN, NAN};

	for (int way = 0; way < WAYS; way++) {
		if (!f->run[way])
			continue;
		if (!f->n[way])
			f->n[way] = calibrate(f, (enum way)way);
		time[way] = work(f, (enum way)way, f->n[way]) / (double)f->n[way];
		bench_add(&f->time[way], time[way] * 1e6);
		bench_add(&f->ratio[way], time[MRAPI] / time[way]);
	}
}

static unsigned plan_rmem(struct figure *f, unsigned n, uint32_t stride)
{
	static const struct {
		const char *what;
		bool shared, write, stream;
	} kinds[] = {{"read shared", true, false, false},   {"write shared", true, true, false},
		     {"stream shared", true, false, true},  {"read private", false, false, false},
		     {"write private", false, true, false}, {"stream private", false, false, true}};
	mrapi_rmem_hndl_t private, shared;

	OK(private = mrapi_rmem_get(1, MRAPI_RMEM_DEFAULT, &st));
	OK(shared = mrapi_rmem_get(2, MRAPI_RMEM_DEFAULT, &st));
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (uint64_t size = stride && opt.sizes.min < PIECE ? PIECE : opt.sizes.min;
		     size <= opt.sizes.max && n < MAX_ROWS && !(stride && kinds[k].stream);
		     size *= stride ? 16 : 8)
			f[n++] = (struct figure){.run = {work_rmem,
							 kinds[k].shared ? work_copy : work_vm,
							 stride ? NULL : work_mx},
						 .what = kinds[k].what,
						 .size = (uint32_t)size,
						 .stride = stride,
						 .rmem = kinds[k].shared ? shared : private,
						 .shared = kinds[k].shared,
						 .write = kinds[k].write,
						 .stream = kinds[k].stream};
	return n;
}

static unsigned plan(struct figure *f)
{
	unsigned n = 0;

	if (opt.locks) {
		f[n++] = (struct figure){.run = {work_lock, work_lock_bare},
					 .what = "lock, uncontended"};
		f[n++] = (struct figure){.run = {work_contended, work_contended_bare},
					 .what = "lock, contended"};
	}
	if (opt.rmem)
		n = plan_rmem(f, n, 0);
	if (opt.rmem && opt.stride)
		n = plan_rmem(f, n, opt.stride);
	return n;
}

static void measure_row(void *figures, unsigned round, unsigned i)
{
	struct figure *f = (struct figure *)figures + i;

	bench_progress("round %u of %u, %s", round + 1, opt.rounds, f->what);
	measure(f);
}

static void print(void *figures, struct table *t, unsigned i)
{
	const struct figure *f = (const struct figure *)figures + i;

	table_text(t, f->what);
	if (f->size) {
		table_count(t, f->size);
		table_count(t, f->stride);
	} else {
		table_none(t);
		table_none(t);
	}
	table_real(t, bench_median(&f->time[MRAPI]));
	for (int way = BARE; way < WAYS; way++) {
		table_real(t, bench_median(&f->time[way]));
		table_real(t, bench_median(&f->ratio[way]));
	}
	table_real(t, f->size ? f->size / bench_median(&f->time[MRAPI]) : NAN);
}

/* ---------------------------------------------------------------- the options */

static void parse(int argc, char **argv)
{
	static const char *const parts[] = {"locks", "rmem"};
	enum { LOCKS, RMEM, BOTH } only = BOTH;
	const struct cli_option options[] = {
		CLI_WORD("only", &only, parts, BOTH),
		CLI_UINT("min", &opt.sizes.min, 1, MAX_SIZE),
		CLI_UINT("max", &opt.sizes.max, 1, MAX_SIZE),
		CLI_UINT("stride", &opt.stride, 0, 4096),
		CLI_SET("no-bind", &opt.no_bind),
		CLI_UINT("rounds", &opt.rounds, 1, BENCH_MAX_ROUNDS),
		CLI_MS("time", &opt.seconds, 60000),
		CLI_FORMAT(&opt.format),
		{.name = NULL},
	};

	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	opt.locks = only != RMEM;
	opt.rmem = only != LOCKS;
	bench_range_end(&opt.sizes);
	if (opt.stride && opt.stride < PIECE)
		bench_usage("--stride is less than the %u bytes of an access", PIECE);
	/* A strided access spans so many times its bytes. */
	if ((uint64_t)opt.sizes.max + (uint64_t)opt.sizes.max / PIECE * opt.stride > UINT32_MAX)
		bench_usage("--max with that --stride is more than 4 GB");
}

int main(int argc, char **argv)
{
	static struct figure figures[MAX_ROWS];
	struct bench_rows rows = {.measure = measure_row, .print = print, .tool = figures};
	struct table t;

	parse(argc, argv);
	work_start();
	rows.rounds = opt.rounds;
	rows.n = plan(figures);
	table_open_flow(&t, opt.format, columns, sizeof(columns) / sizeof(columns[0]));
	bench_rounds(&rows, &t);
	work_end();
	table_close(&t);
	return bench_exit_code();
}
