/* SPDX-License-Identifier: BSD-2-Clause */
#include "mrapi/basic/basic.h"

#include <stdlib.h>

void basic_is(const char *file, int line, const char *call, mrapi_status_t got, mrapi_status_t want)
{
	char a[MRAPI_MAX_STATUS_SIZE], b[MRAPI_MAX_STATUS_SIZE];

	if (got == want)
		return;
	fprintf(stderr, "%s:%d: %s: %s, not %s\n", file, line, call,
		mrapi_display_status(got, a, sizeof(a)), mrapi_display_status(want, b, sizeof(b)));
	abort();
}

void basic_check_at(const char *file, int line, const char *what, int holds)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

void basic_job(void)
{
	char job[48];

	snprintf(job, sizeof(job), "basic-%d-%llx", (int)getpid(),
		 (unsigned long long)(twt_now() * 1e6));
	setenv("TAGWIRE_JOB", job, 1);
}

void basic_node(mrapi_node_t node)
{
	mrapi_info_t info;

	OK(mrapi_initialize(1, node, NULL, &info, &st));
}

void basic_begin(void)
{
	basic_job();
	basic_node(1);
}

void basic_end(void)
{
	OK(mrapi_finalize(&st));
}
