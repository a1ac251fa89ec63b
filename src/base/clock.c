/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <pthread.h>

uint64_t tw_clock_per_us = 1000;

#if defined(__x86_64__) || defined(__i386__)
struct moment {
	uint64_t ns, ticks;
};

/* The same moment by both clocks: the shortest of several tries, as any may be interrupted. */
static struct moment moment(void)
{
	struct moment m = {0, 0};
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = tw_clock(), ns = tw_clock_ns(), took = tw_clock() - before;

		if (took < least) {
			least = took;
			m = (struct moment){ns, before + took / 2};
		}
	}
	return m;
}

/* Accurate to 0.1% after 500 us, which is enough for time limits. */
static void calibrate(void)
{
	struct moment from = moment(), to;

	while (tw_clock_ns() - from.ns < 500000)
		;
	to = moment();
	tw_clock_per_us = (to.ticks - from.ticks) * 1000 / (to.ns - from.ns);
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
