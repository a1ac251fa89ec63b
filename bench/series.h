/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures over rounds and sizes, for tools of any interface. Makes no MX calls. */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

#include "cli.h"
#include "table.h"

#define BENCH_MAX_ROUNDS 99

/* Seconds from some fixed moment. */
static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One figure in every round. */
struct bench_series {
	unsigned n;
	double v[BENCH_MAX_ROUNDS];
};
void bench_add(struct bench_series *s, double v);
/* NaN when there are none or some are not numbers. */
double bench_median(const struct bench_series *s);
double bench_least(const struct bench_series *s);
/* For qsort(), of doubles. */
int bench_by_value(const void *a, const void *b);

/*
 * The bare line beside the figures of each round. A round counts if the line just before
 * and just after it differs by at most 15%, is below 5 us, and belongs to the distance class
 * of most such rounds. Between hosts there is no line, and every round counts. If none counts,
 * all are shown, and the row says that the machine is busy. Classes and limits are those of
 * mx_compare (compare/results.py).
 */
struct bench_lines {
	struct bench_series line; /* means of before and after */
	bool steady[BENCH_MAX_ROUNDS];
};
/* The mean; microseconds, or NaN between hosts. */
double bench_lines_add(struct bench_lines *l, double before, double after);
/* The values of the rounds that count. */
struct bench_series bench_counting(const struct bench_lines *l, const struct bench_series *s);
/* Whether no round counts: the machine was busy. */
bool bench_busy(const struct bench_lines *l);
/* A figure, or none where the machine was busy. */
void bench_unless_busy(struct table *t, const struct bench_lines *l, double value);
/* At the end: says on standard error how many rows were so. */
void bench_say_busy(void);
/* The cells of these columns. */
#define BENCH_LINE_COLUMNS                                                                         \
	{"line_us", "line us", "%.3f"}, {"distance", "distance", "%s"},                            \
	{                                                                                          \
		"rounds", "rounds", "%" PRIu64                                                     \
	}
#define BENCH_LINE_CELLS 3u
void bench_line_cells(struct table *t, const struct bench_lines *l);

/* A tool that measures its rows in rounds, and prints each when the last round has measured it. */
struct bench_rows {
	unsigned rounds, n;
	void (*measure)(void *tool, unsigned round, unsigned row);
	void (*print)(void *tool, struct table *t, unsigned row);
	void (*round_ends)(void *tool); /* or NULL */
	void *tool;
};
/*
 * Measures all. Ctrl-C ends it after the figure that is being measured: all rows that were measured
 * are printed. The second one ends the program.
 */
void bench_rounds(const struct bench_rows *r, struct table *t);
/* For main(): 0, or 130 after ctrl-C. */
int bench_exit_code(void);

/* Message sizes of a range, doubled each time; 0 is followed by 1. */
#define BENCH_MAX_SIZES 34
unsigned bench_sizes(const struct bench_range *r, uint32_t sizes[BENCH_MAX_SIZES]);

#endif /* BENCH_SERIES_H */
