/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency and rate of MCAPI messages, packets and scalars between two nodes, each
 * a process of this host. One leads: it gives orders in shared memory, measures
 * and reports; the other follows.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "cli.h"
#include "mcapi_ends.h"
#include "series.h"
#include "table.h"

const char bench_tool[] = "mcapi_perf";

#define MAX_RUN (1ull << 40)

static const char help[] =
	"Usage: mcapi_perf [options]\n"
	"Measures latency (half of a round trip) and rate of what MCAPI sends between two\n"
	"nodes of this host.\n\n"
	"What to measure:\n"
	"  --kind KIND         message, packet or scalar only (default all)\n"
	"  --size BYTES        one size of messages and packets; k, m multiply by 1024\n"
	"  --min BYTES         the smallest (default 8)\n"
	"  --max BYTES         the largest (default 1m); doubled from one to the next\n"
	"  --bits N            width of scalars: 8, 16, 32 or 64 (default 64)\n"
	"  --window N          packets in flight in a stream (default 1)\n"
	"  --no-bind           leave it to the system where the two nodes run\n\n"
	"How to measure and report:\n"
	"  --rounds N          rounds over everything, reported as medians (default 5)\n"
	"  --time MS           time for each figure in each round (default 20)\n"
	"  --csv, --json       comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

static const struct table_column columns[] = {
	{"kind", "kind", "%s"},
	{"size", "bytes", "%" PRIu64},
	{"latency_us", "latency us", "%.3f"},
	{"latency_min_us", "least us", "%.3f"},
	BENCH_LINE_COLUMNS,
	{"ratio", "ratio", "%.2f"},
	{"rate_s", "per second", "%.0f"},
	{"mb_s", "MB/s", "%.1f"},
};

struct options {
	enum kind kind; /* KINDS: all */
	struct bench_range sizes;
	uint32_t bits, window;
	unsigned rounds;
	double seconds;
	bool no_bind;
	enum table_format format;
};

struct row {
	enum kind kind;
	uint32_t size;
	uint64_t bounces, streams; /* in the next round */
	struct bench_series latency, ratio, rate;
	struct bench_lines lines;
};

/* How often it fits into the time. */
static uint64_t calibrate(struct perf *p, enum what what, enum kind kind, uint32_t size,
			  double seconds)
{
	uint64_t n = 1;
	double took;

	while ((took = ends_run(p, what, kind, size, n)) < seconds / 4 && n < MAX_RUN)
		n *= 4;
	n = (uint64_t)((double)n * seconds / (took + 1e-9));
	return n ? n : 1;
}

static double line(struct perf *p, double seconds)
{
	static uint64_t n;

	if (!n)
		n = calibrate(p, LINE, MESSAGE, 0, seconds / 5);
	return ends_run(p, LINE, MESSAGE, 0, n) / (double)n / 2 * 1e6;
}

struct tool {
	struct perf *p;
	const struct options *o;
	struct row rows[2 * BENCH_MAX_SIZES + 1];
};

static void measure(void *tool, unsigned round, unsigned i)
{
	struct tool *all = tool;
	struct row *r = &all->rows[i];
	struct perf *p = all->p;
	double us, rate, before, bare, seconds = all->o->seconds;

	bench_progress("round %u of %u, %s of %u bytes", round + 1, all->o->rounds,
		       ends_kinds[r->kind], r->size);

	if (!r->bounces) {
		r->bounces = calibrate(p, BOUNCE, r->kind, r->size, seconds);
		r->streams = calibrate(p, STREAM, r->kind, r->size, seconds);
	}
	before = line(p, seconds);
	us = ends_run(p, BOUNCE, r->kind, r->size, r->bounces) / (double)r->bounces / 2 * 1e6;
	rate = (double)r->streams / ends_run(p, STREAM, r->kind, r->size, r->streams);
	bare = bench_lines_add(&r->lines, before, line(p, seconds));
	bench_add(&r->latency, us);
	bench_add(&r->ratio, us / bare);
	bench_add(&r->rate, rate);
}

static void print(void *tool, struct table *t, unsigned i)
{
	const struct row *r = &((const struct tool *)tool)->rows[i];
	struct bench_series latency = bench_counting(&r->lines, &r->latency);
	struct bench_series ratio = bench_counting(&r->lines, &r->ratio);
	struct bench_series rate = bench_counting(&r->lines, &r->rate);

	table_text(t, ends_kinds[r->kind]);
	table_count(t, r->size);
	table_real(t, bench_median(&latency));
	table_real(t, bench_least(&latency));
	bench_line_cells(t, &r->lines);
	bench_unless_busy(t, &r->lines, bench_median(&ratio));
	table_real(t, bench_median(&rate));
	table_real(t, bench_median(&rate) * r->size / 1e6);
}

static unsigned make_rows(const struct options *o, struct row *rows)
{
	uint32_t sizes[BENCH_MAX_SIZES];
	unsigned n = 0, m;

	for (enum kind kind = MESSAGE; kind < KINDS; kind++) {
		if (o->kind != KINDS && o->kind != kind)
			continue;
		if (kind == SCALAR) {
			rows[n++] = (struct row){.kind = SCALAR, .size = o->bits / 8};
			continue;
		}
		m = bench_sizes(&o->sizes, sizes);
		for (unsigned i = 0; i < m; i++)
			rows[n++] = (struct row){.kind = kind, .size = sizes[i]};
	}
	return n;
}

static void lead(struct perf *p, const struct options *o)
{
	static struct tool tool;
	struct bench_rows rows = {
		.rounds = o->rounds, .measure = measure, .print = print, .tool = &tool};
	struct table t;

	tool.p = p;
	tool.o = o;
	rows.n = make_rows(o, tool.rows);
	table_open_flow(&t, o->format, columns, sizeof columns / sizeof columns[0]);
	bench_rounds(&rows, &t);
	ends_stop(p);
	table_close(&t);
	bench_say_busy();
}

/* The command line ---------------------------------------------------------------------- */

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_WORD("kind", &o->kind, ends_kinds, KINDS),
		CLI_RANGE(&o->sizes, MCAPI_MAX_PACKET_SIZE),
		CLI_UINT("bits", &o->bits, 0, UINT32_MAX),
		CLI_UINT("window", &o->window, 1, ENDS_MAX_WINDOW),
		CLI_SET("no-bind", &o->no_bind),
		CLI_UINT("rounds", &o->rounds, 1, BENCH_MAX_ROUNDS),
		CLI_MS("time", &o->seconds, 100000),
		CLI_FORMAT(&o->format),
		{.name = NULL},
	};

	*o = (struct options){KINDS, {.min = 8, .max = 1 << 20}, 64, 1, 5, 0.02, false, TABLE_PLAIN};
	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (o->bits < 8 || o->bits > 64 || o->bits & (o->bits - 1))
		bench_usage("--bits is 8, 16, 32 or 64");
	bench_range_end(&o->sizes);
}

int main(int argc, char **argv)
{
	struct perf p = {.shared = NULL};
	struct options o;

	parse(&o, argc, argv);
	p.window = o.window;
	bench_descriptors(); /* MCAPI waits for endpoints without a limit */
	ends_start(&p, o.no_bind);
	if (p.lead)
		lead(&p, &o);
	else
		ends_follow(&p);
	ends_finish();
	return bench_exit_code();
}
