/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A clock cheap enough for the fast path. Ticks agree between the processes of a host.
 * tw_clock_init() measures their length once.
 */
#ifndef TW_CLOCK_H
#define TW_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/compiler.h"

extern uint64_t tw_clock_per_us; /* ticks in a microsecond, at least 1 */

void tw_clock_init(void);

/* The clock of the system's time limits, in nanoseconds. */
static inline uint64_t tw_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tw_shared uint64_t tw_clock(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#else
	return tw_clock_ns();
#endif
}

static inline uint64_t tw_clock_us(uint64_t us)
{
	return us * tw_clock_per_us;
}

/* The earlier of two ticks of which 0 is none. */
static inline uint64_t tw_earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static inline void tw_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* TW_CLOCK_H */
