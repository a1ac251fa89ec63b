/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls under other names: that the kernel reads the structures as they were written. */
#include <criterion/criterion.h>
#include <time.h>

#include "base/sys.h"
#include "lib/twt.h"

TestSuite(sys, .timeout = TWT_TIMEOUT);

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Where time has 64 bits on a processor of 32, the kernel has two calls. */
Test(sys, poll_sleeps_for_less_than_a_second)
{
	double begun = seconds();

	cr_assert_eq(tw_sys_poll(NULL, 0, 300), 0);
	cr_assert_geq(seconds() - begun, 0.3);
}

Test(sys, poll_sleeps_for_more_than_a_second)
{
	double begun = seconds();

	cr_assert_eq(tw_sys_poll(NULL, 0, 1200), 0);
	cr_assert_geq(seconds() - begun, 1.2);
}
