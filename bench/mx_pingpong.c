/* SPDX-License-Identifier: BSD-2-Clause */
/* One-way latency by message size. */
#include <inttypes.h>

#include "measure.h"

const char bench_tool[] = "mx_pingpong";

static const char help[] =
	"Usage: mx_pingpong [options]\n"
	"Measures how long a message takes one way (half of a round trip), by size.\n\n"
	"What to measure:\n"
	"  --size BYTES        one size only; k, m and g multiply by 1024\n"
	"  --min BYTES         the smallest (default 0)\n"
	"  --max BYTES         the largest (default 16m); doubled from one to the next\n"
	"  --wait              wait in mx_wait() instead of polling with mx_test()\n"
	"  --unexpected        post a receive only when its message is there\n"
	"  --fresh             send what was just received, so that all data moves\n\n" BENCH_HELP;

static const struct table_column columns[] = {
	{"size", "bytes", "%" PRIu64},
	{"latency_us", "latency us", "%.3f"},
	{"latency_min_us", "least us", "%.3f"},
	{"protocol", "protocol", "%s"},
	BENCH_LINE_COLUMNS,
	{"ratio", "ratio", "%.2f"},
	{"round_trips", "round trips", "%" PRIu64},
};

struct options {
	struct bench_options b;
	struct bench_range sizes;
	bool blocking, unexpected;
};

struct row {
	uint32_t size;
	uint64_t n;	/* round trips in the next round */
	uint64_t total; /* in all */
	struct bench_series latency, ratio;
	struct bench_lines lines;
	struct bench_protocols protocols;
};

static struct row rows[BENCH_MAX_SIZES];

static struct bench_memory out, in;

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		BENCH_OPTIONS(&o->b),
		CLI_RANGE(&o->sizes, BENCH_MAX_SIZE),
		CLI_SET("fresh", &o->b.fresh),
		CLI_SET("wait", &o->blocking),
		CLI_SET("unexpected", &o->unexpected),
		{.name = NULL},
	};

	*o = (struct options){.b = BENCH_DEFAULTS, .sizes.max = 16 << 20};
	bench_options(&o->b, argc, argv, options, help);
	bench_range_end(&o->sizes);
}

static struct bench_pingpong prepare(const struct bench *b, uint64_t size, uint64_t unexpected)
{
	if (size > BENCH_MAX_SIZE)
		bench_fail("the other end asks for %" PRIu64 " bytes", size);
	bench_memory(&out, size ? size : 1);
	bench_memory(&in, size ? size : 1);
	return (struct bench_pingpong){
		.out = out.base,
		.in = b->o.fresh ? out.base : in.base,
		.size = (uint32_t)size,
		.match = BENCH_MATCH(BENCH_KIND_TOOL, 0),
		.mask = MX_MATCH_MASK_NONE,
		.unexpected = unexpected,
	};
}

static void follow(struct bench *b)
{
	struct bench_order order;
	struct bench_pingpong p;

	while (bench_follow(b, &order)) {
		p = prepare(b, order.arg[0], order.arg[2]);
		bench_pingpong_follow(b, &p, order.arg[1]);
	}
}

static double run(struct bench *b, void *arg, uint64_t n)
{
	const struct bench_pingpong *p = arg;
	struct bench_order order = {.op = BENCH_OP_TOOL, .arg = {p->size, n, p->unexpected}};

	bench_lead(b, &order);
	return bench_pingpong_lead(b, p, n);
}

static void measure(struct bench *b, unsigned i, uint32_t size, const void *options)
{
	struct bench_pingpong p = prepare(b, size, ((const struct options *)options)->unexpected);
	struct row *r = &rows[i];
	struct bench_protocols protocols;
	double took, us, before;

	r->size = size;
	if (!r->n)
		r->n = bench_calibrate(b, run, &p, b->o.seconds);
	run(b, &p, r->n / 20 + 1);
	before = bench_line(b);
	protocols = bench_protocols(b);
	took = run(b, &p, r->n);
	bench_protocols_add(&r->protocols, b, &protocols);
	us = took / (double)r->n / 2 * 1e6;
	r->total += r->n;
	r->n = bench_adjust(r->n, took, b->o.seconds);
	bench_add(&r->latency, us);
	bench_add(&r->ratio, us / bench_line_after(b, &r->lines, before));
}

static void print(struct table *t, unsigned i)
{
	const struct row *r = &rows[i];
	struct bench_series latency = bench_counting(&r->lines, &r->latency);
	struct bench_series ratio = bench_counting(&r->lines, &r->ratio);

	table_count(t, r->size);
	table_real(t, bench_median(&latency));
	table_real(t, bench_least(&latency));
	bench_protocol_cell(t, &r->protocols);
	bench_line_cells(t, &r->lines);
	bench_unless_busy(t, &r->lines, bench_median(&ratio));
	table_count(t, r->total);
}

int main(int argc, char **argv)
{
	struct options o;
	struct table t;
	struct bench b;

	parse(&o, argc, argv);
	bench_start(&b, &o.b);
	if (!b.lead) {
		follow(&b);
		return 0;
	}
	b.blocking = o.blocking;
	table_open_flow(&t, o.b.format, columns, sizeof columns / sizeof columns[0]);
	bench_sweep(&b, &o.sizes, measure, print, &t, &o);
	bench_stop(&b);
	table_close(&t);
	bench_say_busy();
	return bench_exit_code();
}
