/* SPDX-License-Identifier: BSD-2-Clause */
/* The share of a transfer that overlaps computing, and how soon a computing side replies. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "line.h"
#include "overlap.h"

const char bench_tool[] = "mx_overlap";

static const char help[] =
	"Usage: mx_overlap [options]\n"
	"Measures which share of a transfer hides behind computing, by size, and how soon\n"
	"an end that computes replies.\n\n"
	"What to measure:\n"
	"  --case NAME         only this one: sender, receiver or both compute; takeover\n"
	"  --size BYTES        one size only; k, m and g multiply by 1024\n"
	"  --min BYTES         the smallest (default 1k)\n"
	"  --max BYTES         the largest (default 64m); doubled from one to the next\n"
	"  --compute MS        compute so long at least (default 1), or else four times\n"
	"                      as long as the transfer takes alone\n"
	"  --wait              wait in mx_wait() instead of polling with mx_test()\n\n" BENCH_HELP;

static const struct table_column columns[] = {
	{"case", "computes", "%s"},	      {"size", "bytes", "%" PRIu64},
	{"alone_us", "alone us", "%.1f"},     {"compute_us", "computing us", "%.1f"},
	{"total_us", "both us", "%.1f"},      {"hidden_pct", "hidden %", "%.1f"},
	{"arrived_pct", "arrived %", "%.0f"}, {"placed_pct", "placed %", "%.0f"},
	{"lost_us", "lost us", "%.1f"},	      {"slowed_pct", "slowed %", "%.1f"},
	{"cpu_us", "CPU us", "%.1f"},	      {"answer_us", "answer us", "%.1f"},
	{"answer_p99_us", "99% us", "%.1f"},  BENCH_LINE_COLUMNS,
	{"tries", "tries", "%" PRIu64},
};

enum { BY_SENDER, BY_RECEIVER, BY_BOTH, TAKEOVER, CASES };
static const char *const names[CASES] = {"sender", "receiver", "both", "takeover"};

#define MAX_TRIES BENCH_MAX_ROUNDS /* in one order, so that they fit a series */
#define WARM_TRIES 16		   /* the library tries several ways at first */
#define FACTOR 4		   /* computing takes so many transfers */
#define TAKEOVER_SIZE 16384	   /* long enough to be announced */
#define TAKEOVER_S 10e-3	   /* the side that answers computes so long, */
#define TAKEOVER_LATEST 0.3e-3	   /* and the request comes within this time */
#define TAKEOVER_SHARE 5	   /* of the time that any other figure gets */

#define MATCH_RESULT (OVERLAP_ACK + BENCH_MATCH(1, 0))

struct options {
	struct bench_options b;
	struct bench_range sizes;
	double compute; /* seconds */
	int only;	/* a case, or -1 */
	bool blocking;
};

/* In microseconds or percent, as the columns say. */
enum { T_ALONE, T_COMPUTING, T_TOTAL, HIDDEN, LOST, SLOWED, CPU, FIGURES };

struct row {
	uint32_t size;
	unsigned which;
	double compute; /* seconds, known after the first round's warm-up */
	uint64_t tries, arrived, placed;
	struct bench_lines lines;
	struct bench_series series[FIGURES]; /* one median for each round */
};

/* The replies to requests, of all rounds. */
struct answers {
	double *us;
	uint64_t n, arrived, placed;
};

static struct overlap_sample mine[MAX_TRIES], theirs[MAX_TRIES];

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		BENCH_OPTIONS(&o->b),
		CLI_RANGE(&o->sizes, BENCH_MAX_SIZE),
		CLI_SET("wait", &o->blocking),
		CLI_MS("compute", &o->compute, 100000),
		CLI_WORD("case", &o->only, names, CASES),
		{.name = NULL},
	};

	*o = (struct options){BENCH_DEFAULTS, {.min = 1024, .max = 64 << 20}, 1e-3, -1, false};
	bench_options(&o->b, argc, argv, options, help);
	bench_range_end(&o->sizes);
}

/* Tries -------------------------------------------------------------------------- */

static void run(struct bench *b, const struct overlap_plan *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		for (unsigned part = ALONE; part < (p->warm_up ? COMPUTING : PARTS); part++)
			(b->lead ? overlap_send : overlap_receive)(b, p, (enum overlap_part)part,
								   &mine[i]);
}

/* Takeover --------------------------------------------------------------------- */

/* This end computes while requests arrive; samples tell whether it replied meanwhile. */
static void answer(struct bench *b, const struct overlap_plan *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		overlap_receive(b, p, OVERLAPPED, &mine[i]);
}

/* A request arrives at any time after the other end's last call. */
static void ask(struct bench *b, const struct overlap_plan *p, struct answers *a)
{
	mx_segment_t seg = {overlap_memory.base, p->size};
	mx_request_t go, data, ack;
	mx_status_t status;
	mx_return_t rc;
	double start;

	for (uint32_t i = 0; i < p->n; i++) {
		bench_irecv(b, NULL, 0, OVERLAP_GO, MX_MATCH_MASK_NONE, &go);
		bench_irecv(b, NULL, 0, OVERLAP_ACK, MX_MATCH_MASK_NONE, &ack);
		bench_finish(b, &go, &status);
		overlap_compute(overlap_loops(TAKEOVER_LATEST * i / p->n));
		start = bench_now();
		/* Synchronous: it ends when the other end's library has acted. */
		rc = mx_issend(b->endpoint, &seg, 1, b->peer, OVERLAP_DATA, NULL, &data);
		if (rc != MX_SUCCESS)
			bench_failed("mx_issend", rc);
		bench_finish(b, &data, &status);
		a->us[a->n++] = (bench_now() - start) * 1e6;
		bench_finish(b, &ack, &status);
	}
}

/* The two ends ------------------------------------------------------------------ */

static void prepare(uint64_t size, uint64_t n)
{
	if (size > BENCH_MAX_SIZE || n > MAX_TRIES)
		bench_fail("the other end asks for too much");
	bench_memory(&overlap_memory, size ? size : 1);
}

static void follow(struct bench *b)
{
	struct bench_order order;
	mx_status_t status;
	mx_request_t req;
	struct overlap_plan p;

	while (bench_follow(b, &order)) {
		p = (struct overlap_plan){
			.size = (uint32_t)order.arg[0],
			.n = (uint32_t)order.arg[1],
			.computes = order.arg[2],
			.warm_up = order.arg[3],
			.loops = overlap_loops((double)order.arg[4] / 1e9),
			.answers = order.arg[5],
		};
		prepare(order.arg[0], order.arg[1]);
		bench_ready(b);
		(p.answers ? answer : run)(b, &p);
		bench_isend(b, mine, (uint32_t)(p.n * sizeof mine[0]), MATCH_RESULT, &req);
		bench_finish(b, &req, &status);
	}
}

static void order_plan(struct bench *b, const struct overlap_plan *p, bool other_computes,
		       double seconds)
{
	struct bench_order order = {
		.op = BENCH_OP_TOOL,
		.arg = {p->size, p->n, other_computes, p->warm_up, (uint64_t)(seconds * 1e9),
			p->answers},
	};

	prepare(p->size, p->n);
	bench_lead(b, &order);
}

static void results(struct bench *b, const struct overlap_plan *p)
{
	mx_status_t status;
	mx_request_t req;

	bench_irecv(b, theirs, sizeof theirs, MATCH_RESULT, MX_MATCH_MASK_NONE, &req);
	bench_finish(b, &req, &status);
	if (status.xfer_length != p->n * sizeof theirs[0])
		bench_fail("the other end gave a result of another version");
}

static void run_case(struct bench *b, const struct row *r, struct overlap_plan *p)
{
	p->computes = r->which != BY_RECEIVER;
	p->loops = overlap_loops(r->compute);
	order_plan(b, p, r->which != BY_SENDER, r->compute);
	run(b, p);
	results(b, p);
}

static double hidden(const struct overlap_sample *s)
{
	return 100 * (1 - (s->part[OVERLAPPED].elapsed - s->part[COMPUTING].elapsed) /
				  s->part[ALONE].elapsed);
}

/*
 * The result of a try: of the ends that compute, the one with less overlap; their CPU
 * times are added.
 */
static void add_try(unsigned which, unsigned i, struct bench_series *figures)
{
	double lost = 0, loop = 0, loop_alone = 0, cpu = 0;
	const struct overlap_sample *worse = NULL;

	for (unsigned end = BY_SENDER; end <= BY_RECEIVER; end++) {
		const struct overlap_sample *s = end == BY_SENDER ? &mine[i] : &theirs[i];
		const struct overlap_times *c = &s->part[COMPUTING], *o = &s->part[OVERLAPPED];

		if (which != BY_BOTH && which != end)
			continue;
		if (!worse || hidden(s) < hidden(worse))
			worse = s;
		lost += (o->loop - o->loop_cpu) - (c->loop - c->loop_cpu);
		cpu += o->process - c->process;
		loop += o->loop_cpu;
		loop_alone += c->loop_cpu;
	}
	bench_add(&figures[T_ALONE], worse->part[ALONE].elapsed * 1e6);
	bench_add(&figures[T_COMPUTING], worse->part[COMPUTING].elapsed * 1e6);
	bench_add(&figures[T_TOTAL], worse->part[OVERLAPPED].elapsed * 1e6);
	bench_add(&figures[HIDDEN], hidden(worse));
	bench_add(&figures[LOST], lost * 1e6);
	bench_add(&figures[SLOWED], 100 * (loop / loop_alone - 1));
	bench_add(&figures[CPU], cpu * 1e6);
}

/* The time of the transfer alone determines how long to compute. */
static void warm_up(struct bench *b, struct row *r, double least)
{
	struct overlap_plan p = {.size = r->size, .n = WARM_TRIES, .warm_up = true};
	struct bench_series alone = {.n = 0};

	run_case(b, r, &p);
	for (unsigned i = WARM_TRIES / 2; i < WARM_TRIES; i++)
		bench_add(&alone, fmax(mine[i].part[ALONE].elapsed, theirs[i].part[ALONE].elapsed));
	r->compute = fmax(least, FACTOR * bench_median(&alone));
}

static void measure(struct bench *b, struct row *r, const struct options *o)
{
	struct bench_series figures[FIGURES] = {0};
	struct overlap_plan p = {.size = r->size};
	double before;

	if (r->compute == 0)
		warm_up(b, r, o->compute);
	/* The first try finds other things in the caches: it does not count. */
	p.n = (uint32_t)fmin(MAX_TRIES, 2 + o->b.seconds / 2 / r->compute);
	before = bench_line(b);
	run_case(b, r, &p);
	bench_line_after(b, &r->lines, before);
	for (unsigned i = 1; i < p.n; i++) {
		/* If the receiver computes, its result counts. */
		const struct overlap_sample *s = r->which == BY_SENDER ? &mine[i] : &theirs[i];

		add_try(r->which, i, figures);
		r->arrived += s->arrived;
		r->placed += s->placed;
	}
	r->tries += p.n - 1;
	for (unsigned f = 0; f < FIGURES; f++)
		bench_add(&r->series[f], bench_median(&figures[f]));
	r->compute = fmax(r->compute, FACTOR * bench_median(&figures[T_ALONE]) / 1e6);
}

static void measure_answers(struct bench *b, struct answers *a, double seconds)
{
	struct overlap_plan p = {.size = TAKEOVER_SIZE, .answers = true};

	p.n = (uint32_t)fmin(MAX_TRIES, 2 + TAKEOVER_SHARE * seconds / TAKEOVER_S);
	order_plan(b, &p, true, TAKEOVER_S);
	ask(b, &p, a);
	results(b, &p);
	for (unsigned i = 0; i < p.n; i++) {
		a->arrived += theirs[i].arrived;
		a->placed += theirs[i].placed;
	}
}

/* Reporting ---------------------------------------------------------------------- */

struct tool {
	struct bench *b;
	const struct options *o;
	struct answers answers;
	struct row rows[TAKEOVER * BENCH_MAX_SIZES];
};

static void figure_cells(struct table *t, const struct row *r, unsigned first, unsigned last)
{
	for (unsigned f = first; f <= last; f++) {
		struct bench_series counting = bench_counting(&r->lines, &r->series[f]);

		table_real(t, bench_median(&counting));
	}
}

static void print(void *tool, struct table *t, unsigned i)
{
	const struct row *r = &((const struct tool *)tool)->rows[i];

	table_text(t, names[r->which]);
	table_count(t, r->size);
	figure_cells(t, r, T_ALONE, HIDDEN);
	table_real(t, 100.0 * (double)r->arrived / (double)r->tries);
	table_real(t, 100.0 * (double)r->placed / (double)r->tries);
	figure_cells(t, r, LOST, FIGURES - 1);
	table_none(t);
	table_none(t);
	bench_line_cells(t, &r->lines);
	table_count(t, r->tries);
}

static void report_answers(struct table *t, struct answers *a)
{
	qsort(a->us, a->n, sizeof a->us[0], bench_by_value);
	table_text(t, names[TAKEOVER]);
	table_count(t, TAKEOVER_SIZE);
	for (unsigned f = T_ALONE; f <= HIDDEN; f++)
		table_none(t);
	table_real(t, 100.0 * (double)a->arrived / (double)a->n);
	table_real(t, 100.0 * (double)a->placed / (double)a->n);
	for (unsigned f = LOST; f < FIGURES; f++)
		table_none(t);
	table_real(t, a->us[a->n / 2]);
	table_real(t, a->us[(a->n * 99 - 1) / 100]);
	for (unsigned c = 0; c < BENCH_LINE_CELLS; c++)
		table_none(t);
	table_count(t, a->n);
}

static void measure_row(void *tool, unsigned round, unsigned i)
{
	struct tool *all = tool;
	struct row *r = &all->rows[i];

	bench_progress("round %u of %u, %s, %u bytes", round + 1, all->b->o.rounds, names[r->which],
		       r->size);
	measure(all->b, r, all->o);
}

static void round_ends(void *tool)
{
	struct tool *all = tool;

	if (all->o->only < 0 || all->o->only == TAKEOVER)
		measure_answers(all->b, &all->answers, all->b->o.seconds);
}

static unsigned make_rows(const struct options *o, struct row *rows)
{
	uint32_t sizes[BENCH_MAX_SIZES];
	unsigned nsizes = bench_sizes(&o->sizes, sizes), n = 0;

	for (unsigned which = 0; which < TAKEOVER; which++) {
		if (o->only >= 0 && which != (unsigned)o->only)
			continue;
		for (unsigned i = 0; i < nsizes; i++)
			rows[n++] = (struct row){.size = sizes[i], .which = which};
	}
	return n;
}

int main(int argc, char **argv)
{
	static double us[BENCH_MAX_ROUNDS * MAX_TRIES];
	static struct tool tool = {.answers.us = us};
	struct bench_rows rows = {
		.measure = measure_row, .print = print, .round_ends = round_ends, .tool = &tool};
	struct options o;
	struct table t;
	struct bench b;

	parse(&o, argc, argv);
	bench_start(&b, &o.b);
	overlap_calibrate();
	if (!b.lead) {
		follow(&b);
		return 0;
	}
	b.blocking = o.blocking;
	tool.b = &b;
	tool.o = &o;
	rows.rounds = o.b.rounds;
	rows.n = make_rows(&o, tool.rows);
	table_open_flow(&t, o.b.format, columns, sizeof columns / sizeof columns[0]);
	bench_rounds(&rows, &t);
	if (tool.answers.n)
		report_answers(&t, &tool.answers);
	bench_stop(&b);
	table_close(&t);
	bench_say_busy();
	return bench_exit_code();
}
