/* SPDX-License-Identifier: BSD-2-Clause */
#include "series.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

void bench_add(struct bench_series *s, double v)
{
	if (s->n < BENCH_MAX_ROUNDS)
		s->v[s->n++] = v;
}

int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(const struct bench_series *s)
{
	double v[BENCH_MAX_ROUNDS];

	for (unsigned i = 0; i < s->n; i++) {
		if (isnan(s->v[i]))
			return NAN;
		v[i] = s->v[i];
	}
	if (!s->n)
		return NAN;
	qsort(v, s->n, sizeof v[0], bench_by_value);
	return (v[(s->n - 1) / 2] + v[s->n / 2]) / 2;
}

double bench_least(const struct bench_series *s)
{
	double least = NAN;

	for (unsigned i = 0; i < s->n; i++)
		if (!(s->v[i] >= least)) /* true at first, when there is none */
			least = s->v[i];
	return least;
}

#define STEADY 0.15
#define SCHEDULED 5.0 /* us: from here on a line is the time that other programs run */

static const struct {
	const char *name;
	double below; /* microseconds */
} distances[] = {{"near", 0.05}, {"shared cache", 0.12}, {"far", INFINITY}};

#define DISTANCES (sizeof distances / sizeof distances[0])

double bench_lines_add(struct bench_lines *l, double before, double after)
{
	double line = (before + after) / 2;

	if (l->line.n < BENCH_MAX_ROUNDS)
		l->steady[l->line.n] = line < SCHEDULED &&
				       fabs(before - after) <= STEADY * fmin(before, after);
	bench_add(&l->line, line);
	return line;
}

static unsigned distance_of(double line)
{
	unsigned d = 0;

	while (line >= distances[d].below)
		d++;
	return d;
}

/* The class of most steady rounds, and how many they are. */
static unsigned distance(const struct bench_lines *l, unsigned *rounds)
{
	unsigned count[DISTANCES] = {0}, best = 0;

	for (unsigned i = 0; i < l->line.n; i++)
		if (l->steady[i])
			count[distance_of(l->line.v[i])]++;
	for (unsigned d = 1; d < DISTANCES; d++)
		if (count[d] > count[best])
			best = d;
	*rounds = count[best];
	return best;
}

struct bench_series bench_counting(const struct bench_lines *l, const struct bench_series *s)
{
	struct bench_series counting = {.n = 0};
	unsigned rounds, d = distance(l, &rounds);

	if (!rounds)
		return *s;
	for (unsigned i = 0; i < s->n; i++)
		if (l->steady[i] && distance_of(l->line.v[i]) == d)
			bench_add(&counting, s->v[i]);
	return counting;
}

static unsigned rows_shown, rows_busy;

void bench_line_cells(struct table *t, const struct bench_lines *l)
{
	struct bench_series counting = bench_counting(l, &l->line);
	double line = bench_median(&counting);
	unsigned rounds, d = distance(l, &rounds);

	rows_shown++;
	rows_busy += bench_busy(l);
	table_real(t, line);
	if (isnan(line))
		table_none(t);
	else
		table_text(t, rounds ? distances[d].name : "busy machine");
	if (bench_busy(l))
		table_none(t);
	else
		table_count(t, isnan(line) ? l->line.n : rounds);
}

bool bench_busy(const struct bench_lines *l)
{
	unsigned rounds;

	distance(l, &rounds);
	return !rounds && l->line.n && !isnan(bench_median(&l->line));
}

void bench_say_busy(void)
{
	if (rows_busy)
		fprintf(stderr,
			"%s: %u of %u rows do not count, as other programs used the processors; "
			"repeat it on an idle machine\n",
			bench_tool, rows_busy, rows_shown);
}

void bench_unless_busy(struct table *t, const struct bench_lines *l, double value)
{
	if (bench_busy(l))
		table_none(t);
	else
		table_real(t, value);
}

/* Rounds --------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

int bench_exit_code(void)
{
	return interrupted ? 128 + SIGINT : 0;
}

void bench_rounds(const struct bench_rows *r, struct table *t)
{
	struct sigaction once = {.sa_handler = interrupt,
				 .sa_flags = (int)SA_RESETHAND | SA_RESTART};
	unsigned measured = 0, printed = 0;

	sigaction(SIGINT, &once, NULL);
	for (unsigned round = 0; round < r->rounds && !interrupted; round++) {
		for (unsigned i = 0; i < r->n && !interrupted; i++) {
			r->measure(r->tool, round, i);
			measured = i >= measured ? i + 1 : measured;
			if (round + 1 < r->rounds)
				continue;
			bench_progress_end();
			r->print(r->tool, t, printed++);
		}
		if (r->round_ends && !interrupted)
			r->round_ends(r->tool);
	}
	bench_progress_end();
	while (printed < measured)
		r->print(r->tool, t, printed++);
}

unsigned bench_sizes(const struct bench_range *r, uint32_t sizes[BENCH_MAX_SIZES])
{
	unsigned n = 0;

	for (uint64_t size = r->min; size < r->max; size = size ? size * 2 : 1)
		sizes[n++] = (uint32_t)size;
	sizes[n++] = r->max;
	return n;
}
