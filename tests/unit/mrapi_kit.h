/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests inside MRAPI. */
#ifndef MRAPI_KIT_H
#define MRAPI_KIT_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mrapi.h"

/* The tests run at once, so each has a job of its own. */
static inline void mrapi_kit_job(const char *name)
{
	char job[64];

	snprintf(job, sizeof(job), "%s-%d", name, (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
}

static inline void mrapi_kit_up(mrapi_node_t number)
{
	mrapi_status_t st;
	mrapi_info_t info;

	mrapi_initialize(1, number, NULL, &info, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

#endif /* MRAPI_KIT_H */
