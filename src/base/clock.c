/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <pthread.h>

uint64_t tw_clock_per_us = 1000;

#if defined(__x86_64__)
static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Half a millisecond of spinning gives a per mille, enough for time limits. */
static void calibrate(void)
{
	uint64_t ns0 = now_ns(), t0 = tw_clock(), ns;

	do
		ns = now_ns() - ns0;
	while (ns < 500000);
	tw_clock_per_us = (tw_clock() - t0) * 1000 / ns;
	if (tw_clock_per_us == 0)
		tw_clock_per_us = 1;
}
#else
static void calibrate(void)
{
}
#endif

void tw_clock_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, calibrate);
}
