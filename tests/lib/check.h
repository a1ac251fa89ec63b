/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that are plain programs end at the first check that fails, their children as well. */
#ifndef TWT_CHECK_H
#define TWT_CHECK_H

#include <stdio.h>
#include <unistd.h>

/* Said with it: what is being tested. */
static const char *what = "";

#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, what, #cond);       \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif /* TWT_CHECK_H */
