/* SPDX-License-Identifier: BSD-2-Clause */
/* What the examples of MRAPI's specification share: one status, checked after each call. */
#ifndef MRAPI_COMMON_H
#define MRAPI_COMMON_H

#include <stdio.h>
#include <stdlib.h>

#include "mrapi.h"

static mrapi_status_t status;

static inline void check(int line)
{
	char text[MRAPI_MAX_STATUS_SIZE];

	if (status == MRAPI_SUCCESS)
		return;
	fprintf(stderr, "line %d: %s\n", line, mrapi_display_status(status, text, sizeof(text)));
	exit(1);
}
#define CHECK check(__LINE__)

static inline void become(mrapi_node_t node)
{
	mrapi_info_t info;

	mrapi_initialize(1, node, NULL, &info, &status);
	CHECK;
}

#endif /* MRAPI_COMMON_H */
