/* SPDX-License-Identifier: BSD-2-Clause */
/* The other end of a measurement on one host: a process that a tool forks. */
#ifndef BENCH_OTHER_H
#define BENCH_OTHER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Forks it, before there is anything that no child may inherit, and gives each
 * end a core if bind says so, or says that there is only one. 0 in the other
 * end, which dies with this one; this one does not leave it behind.
 */
pid_t bench_fork(bool *bind);
/* Whether it has ended, and how; flags of waitpid(). False where there is none. */
bool bench_other_ended(int *status, int flags);

#endif /* BENCH_OTHER_H */
