/* SPDX-License-Identifier: BSD-2-Clause */
#include "series.h"

#include <math.h>
#include <stdlib.h>

#include "cli.h"

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

void bench_range_option(int c, const char *arg, uint32_t most, uint32_t *min, uint32_t *max)
{
	const char *name = c == 's' ? "size" : c == 'm' ? "min" : "max";
	uint32_t n = (uint32_t)bench_number(name, arg, 0, most);

	if (c != 'M')
		*min = n;
	if (c != 'm')
		*max = n;
}

void bench_range_end(uint32_t min, uint32_t max)
{
	if (min > max)
		bench_usage("--min is above --max");
}

unsigned bench_sizes(uint32_t min, uint32_t max, uint32_t sizes[BENCH_MAX_SIZES])
{
	unsigned n = 0;

	for (uint64_t size = min; size < max; size = size ? size * 2 : 1)
		sizes[n++] = (uint32_t)size;
	sizes[n++] = max;
	return n;
}
