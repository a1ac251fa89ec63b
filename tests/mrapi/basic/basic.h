/* SPDX-License-Identifier: BSD-2-Clause */
/* What the basic MRAPI tests share. */
#ifndef BASIC_H
#define BASIC_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mrapi.h"

/* Runs a call that ends with &st and compares the status. */
#define OK(call) IS(call, MRAPI_SUCCESS)
#define IS(call, want)                                                                             \
	do {                                                                                       \
		mrapi_status_t st = -1;                                                            \
		call;                                                                              \
		basic_is(__FILE__, __LINE__, #call, st, want);                                     \
	} while (0)

void basic_is(const char *file, int line, const char *call, mrapi_status_t got,
	      mrapi_status_t want);
/* Fails in any process. */
void basic_check_at(const char *file, int line, const char *what, int holds);
#define CHECK(cond) basic_check_at(__FILE__, __LINE__, #cond, (cond) != 0)

/* A job of the test's own; children inherit it. */
void basic_job(void);
/* The calling thread becomes a node. */
void basic_node(mrapi_node_t node);
void basic_begin(void); /* both, as node 1 of domain 1 */
void basic_end(void);

#endif /* BASIC_H */
