/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures over rounds and sizes, for tools of any interface. Makes no MX calls. */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include <stdint.h>
#include <time.h>

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

/* The options --size (s), --min (m) and --max (M) of a sweep, at most that much. */
void bench_range_option(int c, const char *arg, uint32_t most, uint32_t *min, uint32_t *max);
void bench_range_end(uint32_t min, uint32_t max);

/* Message sizes from min to max, doubled each time; 0 is followed by 1. */
#define BENCH_MAX_SIZES 34
unsigned bench_sizes(uint32_t min, uint32_t max, uint32_t sizes[BENCH_MAX_SIZES]);

#endif /* BENCH_SERIES_H */
