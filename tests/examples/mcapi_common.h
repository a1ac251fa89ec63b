/* SPDX-License-Identifier: BSD-2-Clause */
/* What the MCAPI use cases share; CHECK_STATUS is that of 7.5.1.1. */
#ifndef MCAPI_COMMON_H
#define MCAPI_COMMON_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/twt.h"
#include "mcapi.h"

#define CHECK_STATUS(S)                                                                            \
	do {                                                                                       \
		if ((S) != MCAPI_SUCCESS) {                                                        \
			fprintf(stderr, "%s:%d: failed with MCAPI status %d (%s)\n", __FILE__,     \
				__LINE__, S, mcapi_strerror(S));                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Node numbers may be in use by another program of this host. */
static inline void job_of_its_own(const char *program)
{
	char job[64];

	snprintf(job, sizeof(job), "%s-%d", program, (int)getpid());
	setenv("TAGWIRE_JOB", job, 1);
}

/* Waits for a request. */
static inline void finish(mcapi_request_t *request)
{
	mcapi_status_t status;
	size_t size;

	mcapi_wait(request, &size, &status, MCAPI_INFINITE);
	CHECK_STATUS(status);
}

/* Runs fn as a process; ends all when it does not end well. */
typedef void task_fn(void);

static inline int run_task(void *fn, int fd)
{
	(void)fd;
	((task_fn *)(uintptr_t)fn)();
	return 0;
}

static inline void start_process(struct twt_child *child, task_fn *fn)
{
	twt_spawn(child, run_task, (void *)(uintptr_t)fn);
}

static inline void join_processes(struct twt_child *child, int n)
{
	for (int i = 0; i < n; i++)
		CHECK(twt_join(&child[i], TWT_LONG) == 0);
}

#endif /* MCAPI_COMMON_H */
