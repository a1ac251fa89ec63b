/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that are plain programs end at the first check that fails. */
#ifndef TWT_CHECK_H
#define TWT_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define check(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif /* TWT_CHECK_H */
