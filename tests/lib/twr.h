/* SPDX-License-Identifier: BSD-2-Clause */
/* MRAPI in programs without Criterion: calls that must report a status. */
#ifndef TWR_H
#define TWR_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mrapi.h"

/* What a failure tells besides the place: the process's part, and how to come there again. */
static const char *twr_who = "main";
static uint64_t twr_number;

static inline void twr_fail(const char *file, int line, const char *what, mrapi_status_t st)
{
	char text[MRAPI_MAX_STATUS_SIZE];

	fprintf(stderr, "%s:%d: process %d, %s %llu: %s: %s\n", file, line, (int)getpid(), twr_who,
		(unsigned long long)twr_number, what, mrapi_display_status(st, text, sizeof(text)));
	exit(1);
}

#define FAIL(what, status) twr_fail(__FILE__, __LINE__, what, status)
#define HOLDS(what) ((what) ? (void)0 : FAIL(#what, MRAPI_SUCCESS))
/* Runs a call that ends with &st and compares the status. */
#define IS(expected, call)                                                                         \
	do {                                                                                       \
		mrapi_status_t st = -1;                                                            \
		call;                                                                              \
		if (st != (expected))                                                              \
			FAIL(#call, st);                                                           \
	} while (0)
#define OK(call) IS(MRAPI_SUCCESS, call)

/* The calling thread becomes a node. */
static inline void twr_node_in(mrapi_domain_t domain, mrapi_node_t node)
{
	mrapi_info_t info;

	OK(mrapi_initialize(domain, node, NULL, &info, &st));
}

static inline void twr_node(mrapi_node_t node)
{
	twr_node_in(1, node);
}

#endif /* TWR_H */
