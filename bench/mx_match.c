/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of matching against the depth of the queues. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "measure.h"

const char bench_tool[] = "mx_match";

static const char help[] =
	"Usage: mx_match [options]\n"
	"Measures the one-way latency of 8 bytes while other receives are posted, or other\n"
	"messages wait for receives, at both ends. The receive in question is the last.\n\n"
	"What to measure:\n"
	"  --max N             up to so many others (default 100000): 0, 1, 10, 100, ...\n"
	"  --kind KIND         exact:      receives posted that differ in all 64 bits\n"
	"                      wildcard:   receives posted with four masks in turn\n"
	"                      unexpected: messages that no receive matches\n"
	"                      all:        all of these (default)\n\n" BENCH_HELP;

static const struct table_column columns[] = {
	{"kind", "kind", "%s"},
	{"depth", "depth", "%" PRIu64},
	{"latency_us", "latency us", "%.3f"},
	{"latency_min_us", "least us", "%.3f"},
	{"ratio", "to depth 0", "%.2f"},
	BENCH_LINE_COLUMNS,
	{"round_trips", "round trips", "%" PRIu64},
};

enum kind { EXACT, WILDCARD, UNEXPECTED, NKINDS };
static const char *const kinds[NKINDS + 1] = {"exact", "wildcard", "unexpected", "all"};

enum { OP_FILL = BENCH_OP_TOOL, OP_RUN, OP_DRAIN };

#define SIZE 8
#define MAX_DEPTH 10000000
#define MAX_DEPTHS 9
#define MASKS 4
#define ALL MX_MATCH_MASK_NONE
#define MATCH_OTHER BENCH_MATCH(BENCH_KIND_TOOL + 1, 0)
#define MATCH_SYNC BENCH_MATCH(BENCH_KIND_TOOL + 2, 0)

struct options {
	struct bench_options b;
	uint32_t max;
	enum kind kind; /* NKINDS: all */
};

/* The others of a run; the same at both ends. */
struct others {
	enum kind kind;
	uint32_t n;
	mx_request_t *reqs;
	char buf[SIZE];
};

struct row {
	enum kind kind;
	uint32_t depth;
	uint64_t n;	/* round trips in the next round */
	uint64_t total; /* in all */
	struct bench_series latency, ratio;
	struct bench_lines lines;
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		BENCH_OPTIONS(&o->b),
		CLI_UINT("max", &o->max, 0, MAX_DEPTH),
		CLI_WORD("kind", &o->kind, kinds, NKINDS + 1),
		{.name = NULL},
	};

	*o = (struct options){.b = BENCH_DEFAULTS, .max = 100000, .kind = NKINDS};
	bench_options(&o->b, argc, argv, options, help);
	/* Space for all unexpected messages, or the last could not be received. */
	o->b.unexp_max = (4u << 20) + o->max * 256;
}

/* The mask of the i-th receive: a different four bits are left out each time. */
static uint64_t mask_of(enum kind kind, uint64_t i)
{
	return kind == WILDCARD ? ~(UINT64_C(15) << i % MASKS * 4) : ALL;
}

/* Match information that no two of the others share under any of the masks. */
static uint64_t match_of(uint64_t i)
{
	return MATCH_OTHER | i << 16;
}

static void post_others(struct bench *b, struct others *o)
{
	for (uint32_t i = 0; i < o->n; i++)
		bench_irecv(b, o->buf, SIZE, match_of(i), mask_of(o->kind, i), &o->reqs[i]);
}

/* A send that is held back completes only when it is received: keep it. */
static void send_others(struct bench *b, struct others *o)
{
	mx_status_t status;

	for (uint32_t i = 0; i < o->n; i++) {
		bench_isend(b, o->buf, SIZE, match_of(i), &o->reqs[i]);
		if (bench_test(b, &o->reqs[i], &status))
			o->reqs[i] = NULL;
	}
}

/* Whether all others of the other end have arrived. A library may hold some back. */
static bool have_others(struct bench *b, const struct others *o)
{
	double end = bench_now() + 2 + o->n * 50e-6;
	struct bench_spin spin = {.polls = 0};
	uint32_t found = o->n == 0;
	mx_status_t status;
	mx_return_t rc;

	while (!found && bench_now() < end) {
		rc = mx_iprobe(b->endpoint, match_of(o->n - 1), ALL, &status, &found);
		if (rc != MX_SUCCESS)
			bench_failed("mx_iprobe", rc);
		if (!found)
			bench_spin(b, &spin);
	}
	return found;
}

static void receive_others(struct bench *b, struct others *o)
{
	mx_request_t received;
	mx_status_t status;

	for (uint32_t i = 0; i < o->n; i++) {
		bench_irecv(b, o->buf, SIZE, match_of(i), ALL, &received);
		bench_finish(b, &received, &status);
	}
}

static void finish_sends(struct bench *b, struct others *o)
{
	mx_status_t status;

	for (uint32_t i = 0; i < o->n; i++)
		if (o->reqs[i])
			bench_finish(b, &o->reqs[i], &status);
}

/* Whether both ends succeeded. */
static bool both(struct bench *b, bool well)
{
	mx_request_t sent, received;
	mx_status_t status;
	char mine = well, theirs = 0;

	bench_irecv(b, &theirs, 1, MATCH_SYNC, ALL, &received);
	bench_isend(b, &mine, 1, MATCH_SYNC, &sent);
	bench_finish(b, &received, &status);
	bench_finish(b, &sent, &status);
	return mine && theirs;
}

/*
 * Messages that are held back delay everything behind them, so an end that misses some
 * receives the others before it reports.
 */
static bool exchange_others(struct bench *b, struct others *o)
{
	bool well;

	send_others(b, o);
	well = have_others(b, o);
	if (!well)
		receive_others(b, o);
	if (both(b, well))
		return true;
	if (well)
		receive_others(b, o);
	finish_sends(b, o);
	return false;
}

static void cancel_others(struct bench *b, struct others *o)
{
	uint32_t cancelled = 0;
	mx_return_t rc;

	for (uint32_t i = 0; i < o->n; i++) {
		rc = mx_cancel(b->endpoint, &o->reqs[i], &cancelled);
		if (rc != MX_SUCCESS)
			bench_failed("mx_cancel", rc);
		if (!cancelled)
			bench_fail("a message came that nobody has sent");
	}
}

/* False at both ends, and nothing left over, if so many cannot be. */
static bool fill(struct bench *b, struct others *o)
{
	if (o->kind == UNEXPECTED)
		return exchange_others(b, o);
	post_others(b, o);
	return true;
}

static void drain(struct bench *b, struct others *o)
{
	if (o->kind != UNEXPECTED) {
		cancel_others(b, o);
		return;
	}
	receive_others(b, o);
	finish_sends(b, o);
}

static struct bench_pingpong pingpong(enum kind kind)
{
	static char out[SIZE], in[SIZE];

	return (struct bench_pingpong){
		.out = out,
		.in = in,
		.size = SIZE,
		.match = BENCH_MATCH(BENCH_KIND_TOOL, 0xabcd),
		.mask = mask_of(kind, 0),
	};
}

static void set_others(struct others *o, uint64_t kind, uint64_t n)
{
	o->kind = (enum kind)kind;
	o->n = (uint32_t)n;
}

static void follow(struct bench *b, struct others *o, uint32_t max)
{
	struct bench_order order;
	struct bench_pingpong p;

	while (bench_follow(b, &order)) {
		switch (order.op) {
		case OP_FILL:
			if (order.arg[0] >= NKINDS || order.arg[1] > max)
				bench_fail("the other end asks for more than --max %u", max);
			set_others(o, order.arg[0], order.arg[1]);
			bench_ready(b);
			fill(b, o);
			break;
		case OP_RUN:
			p = pingpong(o->kind);
			bench_pingpong_follow(b, &p, order.arg[0]);
			break;
		default:
			bench_ready(b);
			drain(b, o);
		}
	}
}

static double run(struct bench *b, void *arg, uint64_t n)
{
	struct bench_order order = {.op = OP_RUN, .arg = {n}};

	bench_lead(b, &order);
	return bench_pingpong_lead(b, arg, n);
}

/* zero: the same kind without others. False if so many others cannot be. */
static bool measure(struct bench *b, struct row *r, const struct row *zero, struct others *o)
{
	struct bench_order start = {.op = OP_FILL, .arg = {r->kind, r->depth}};
	struct bench_order end = {.op = OP_DRAIN};
	struct bench_pingpong p = pingpong(r->kind);
	double took, us, before;

	set_others(o, r->kind, r->depth);
	bench_lead(b, &start);
	if (!fill(b, o))
		return false;
	if (!r->n)
		r->n = bench_calibrate(b, run, &p, b->o.seconds);
	run(b, &p, r->n / 20 + 1);
	before = bench_line(b);
	took = run(b, &p, r->n);
	bench_line_after(b, &r->lines, before);
	us = took / (double)r->n / 2 * 1e6;
	r->total += r->n;
	r->n = bench_adjust(r->n, took, b->o.seconds);
	bench_add(&r->latency, us);
	bench_add(&r->ratio, us / zero->latency.v[r->latency.n - 1]);
	bench_lead(b, &end);
	drain(b, o);
	return true;
}

/* Depth 0 of each kind comes first. */
static unsigned plan(const struct options *o, struct row *rows)
{
	unsigned n = 0;

	for (unsigned kind = 0; kind < NKINDS; kind++) {
		if (o->kind != NKINDS && o->kind != kind)
			continue;
		for (uint64_t depth = 0; depth < o->max; depth = depth ? depth * 10 : 1) {
			rows[n].kind = (enum kind)kind;
			rows[n++].depth = (uint32_t)depth;
		}
		rows[n].kind = (enum kind)kind;
		rows[n++].depth = o->max;
	}
	return n;
}

struct tool {
	struct bench *b;
	struct others *others;
	struct row rows[NKINDS * MAX_DEPTHS];
	const struct row *zero; /* of the kind that is being measured */
	bool too_deep[NKINDS];
};

static void print(void *tool, struct table *t, unsigned i)
{
	const struct row *r = &((const struct tool *)tool)->rows[i];
	struct bench_series latency = bench_counting(&r->lines, &r->latency);
	struct bench_series ratio = bench_counting(&r->lines, &r->ratio);

	table_text(t, kinds[r->kind]);
	table_count(t, r->depth);
	table_real(t, bench_median(&latency));
	table_real(t, bench_least(&latency));
	table_real(t, bench_median(&ratio));
	bench_line_cells(t, &r->lines);
	table_count(t, r->total);
}

/* Up to the depth that each kind can reach. */
static void measure_row(void *tool, unsigned round, unsigned i)
{
	struct tool *all = tool;
	struct row *r = &all->rows[i];

	if (r->depth == 0) {
		all->zero = r;
		all->too_deep[r->kind] = false;
	}
	if (all->too_deep[r->kind] || (round && !r->latency.n))
		return;
	bench_progress("round %u of %u, %s, %u others", round + 1, all->b->o.rounds, kinds[r->kind],
		       r->depth);
	if (measure(all->b, r, all->zero, all->others))
		return;
	all->too_deep[r->kind] = true;
	bench_progress_end();
	fprintf(stderr, "%s: %u messages did not all arrive before their receives\n", bench_tool,
		r->depth);
}

static void lead(struct bench *b, const struct options *o, struct others *others)
{
	static struct tool tool;
	struct bench_rows rows = {
		.rounds = o->b.rounds, .measure = measure_row, .print = print, .tool = &tool};
	struct table t;

	tool.b = b;
	tool.others = others;
	rows.n = plan(o, tool.rows);
	table_open_flow(&t, o->b.format, columns, sizeof columns / sizeof columns[0]);
	bench_rounds(&rows, &t);
	bench_stop(b);
	table_close(&t);
	bench_say_busy();
}

int main(int argc, char **argv)
{
	struct others others = {.n = 0};
	struct options o;
	struct bench b;

	parse(&o, argc, argv);
	bench_start(&b, &o.b);
	others.reqs = calloc((size_t)o.max + 1, sizeof(mx_request_t));
	if (!others.reqs)
		bench_fail("no memory");
	if (b.lead)
		lead(&b, &o, &others);
	else
		follow(&b, &others, o.max);
	free(others.reqs);
	return bench_exit_code();
}
