/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that hang on purpose, and what mx_why says of them. Each process of a case is this
 * program again, in a job of its own; the sentences are compared word by word.
 */
#ifndef WHYT_H
#define WHYT_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/twt.h"

#define WHYT_MOST 64

struct whyt_case {
	const char *name;
	int n; /* processes */
	void (*role)(int me, int n);
	int signal; /* for role 1 once the first case of this role is explained, or 0 */
	/* {0} stands for the process id of role 0, and so on; *: any words up to the next one */
	const char *want[3];
};

int whyt_main(int argc, char **argv, const struct whyt_case *cases, int n);
/* The role cannot go on: ends the process, and with it the case. */
#define whyt_must(cond)                                                                            \
	do {                                                                                       \
		if (!(cond))                                                                       \
			whyt_fail(__FILE__, __LINE__, #cond);                                      \
	} while (0)
void whyt_fail(const char *file, int line, const char *what) __attribute__((noreturn));
/* Computes, and calls nothing. */
void whyt_compute(void) __attribute__((noreturn));
/* Sleeps elsewhere. */
void whyt_sleep(void) __attribute__((noreturn));

#endif /* WHYT_H */
