/* SPDX-License-Identifier: BSD-2-Clause */
/* What must hold in a program of several ranks, without the library of the tests. */
#ifndef MUST_H
#define MUST_H

#include <stdio.h>
#include <stdlib.h>

#include "mcapi.h"
#include "mrapi.h"

static unsigned rank;

static inline void check_at(const char *file, int line, int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s:%d: rank %u: %s\n", file, line, rank, what);
	exit(1);
}
#define check(cond) check_at(__FILE__, __LINE__, cond, #cond)
#define MC(call)                                                                                   \
	do {                                                                                       \
		mcapi_status_t status;                                                             \
		call;                                                                              \
		check_at(__FILE__, __LINE__, status == MCAPI_SUCCESS, #call);                                \
	} while (0)
#define MR(call)                                                                                   \
	do {                                                                                       \
		mrapi_status_t status;                                                             \
		call;                                                                              \
		check_at(__FILE__, __LINE__, status == MRAPI_SUCCESS, #call);                                \
	} while (0)

#endif /* MUST_H */
