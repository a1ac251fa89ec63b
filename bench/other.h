/* SPDX-License-Identifier: BSD-2-Clause */
/* The other end of a measurement on one host: a process that a tool forks. */
#ifndef BENCH_OTHER_H
#define BENCH_OTHER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Forks it, before there is anything that a child must not inherit. With bind, binds
 * each end to a core, or reports that there is only one. Returns 0 in the other end,
 * which dies with this one.
 */
pid_t bench_fork(bool *bind);
/* Whether it has ended, and how; flags of waitpid(). False where there is none. */
bool bench_other_ended(int *status, int flags);

/*
 * For tools whose two ends are always on this host. Of the processes that a launcher started, rank
 * 0 makes both, as no process that the launcher knows of; the others end here with 0.
 */
void bench_both_here(void);

#endif /* BENCH_OTHER_H */
