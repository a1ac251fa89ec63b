/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the rate of this host's time stamp counter, in kHz. The test machine has
 * the same counter, and cannot find out for itself while this host is busy.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lib/twt.h"

#define TRIES 15

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Ticks per millisecond; wrong if we are interrupted between the two clocks. */
static double one_try(void)
{
	struct timespec pause = {.tv_nsec = 5000000};
	double start = twt_now(), end;
	uint64_t ticks = tw_clock();

	nanosleep(&pause, NULL);
	end = twt_now();
	ticks = tw_clock() - ticks;
	return (double)ticks / (end - start) / 1000;
}

int main(void)
{
	double rate[TRIES];

	for (int i = 0; i < TRIES; i++)
		rate[i] = one_try();
	qsort(rate, TRIES, sizeof(*rate), by_value);
	printf("%.0f\n", rate[TRIES / 2]);
	return 0;
}
