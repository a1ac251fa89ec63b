/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_HOSTCHECK_H
#define BENCH_HOSTCHECK_H

#include <stdbool.h>

#include "table.h"

/*
 * Tries what the library asks of this system and prints what there is, and what is missing or
 * slower without it. False: something is missing that the library cannot do without.
 */
bool hostcheck(enum table_format format);
/* Whether the system lets one process read the memory of another: 0 or an error number. */
int hostcheck_copy(void);

#endif /* BENCH_HOSTCHECK_H */
