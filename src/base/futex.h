/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting on a word of shared memory. */
#ifndef TW_FUTEX_H
#define TW_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"

#define TW_FUTEX_FOREVER UINT64_MAX

/* The call whose time is a struct tw_sys_time. */
#ifdef SYS_futex_time64
#define TW_SYS_FUTEX SYS_futex_time64
#else
#define TW_SYS_FUTEX SYS_futex
#endif

/* Sleeps while the word has this value, until that tw_clock_ns() at most. May return early. */
static inline void tw_futex_wait(_Atomic(uint32_t) *word, uint32_t value, uint64_t deadline)
{
	struct tw_sys_time t = {(int64_t)(deadline / 1000000000),
				(int64_t)(deadline % 1000000000)};

	syscall(TW_SYS_FUTEX, word, FUTEX_WAIT_BITSET, value,
		deadline == TW_FUTEX_FOREVER ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void tw_futex_wake(_Atomic(uint32_t) *word, int n)
{
	syscall(TW_SYS_FUTEX, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

#endif /* TW_FUTEX_H */
