/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gigabytes of memory that take a few MiB: the bytes around the boundaries of 32-bit lengths have
 * pages of their own, and all others share the pages of one small file.
 */
#ifndef LARGE_H
#define LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LARGE_2G (1ull << 31)
#define LARGE_4G (1ull << 32)
/* Of every such memory: more than any length of a test. */
#define LARGE_SIZE (LARGE_4G + (64ull << 20))

/* NULL if the system does not give that much of the address space. */
char *large_map(void);
void large_unmap(char *memory);
/* Fills what has pages of its own by the seed. */
void large_fill(char *memory, uint64_t seed);
/*
 * Whether len bytes at `at' of one memory are those at `from' of another that was filled with that
 * seed, and the bytes around them those of the seed `around'.
 */
bool large_same(const char *memory, uint64_t at, uint64_t from, uint64_t len, uint64_t seed,
		uint64_t around);

#endif /* LARGE_H */
