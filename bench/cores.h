/* SPDX-License-Identifier: BSD-2-Clause */
/* A core for each of two processes. */
#ifndef BENCH_CORES_H
#define BENCH_CORES_H

#include <stdbool.h>

/*
 * Picks two processors of the process's mask: of different cores if possible,
 * near each other if there is a choice. False if there are not two.
 */
bool bench_cores(int cpus[2]);
/* Keeps this process on one processor. */
void bench_bind(int cpu);

#endif /* BENCH_CORES_H */
