/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads litmus tests; the language is at the head of litmus.c. */
#ifndef PARSE_H
#define PARSE_H

#include "rc11.h"

#define MAX_CHANGES 48

struct test {
	char name[64];
	struct program p;
	int nchanges;
	struct {
		bool holds;
		char text[200];
	} change[MAX_CHANGES];
};

/* One line other than the name of a test. A mistake ends the program. */
void parse_line(struct test *test, const char *file, int line, const char *text);
/* Changes a program as a variant or a mutation says. */
void parse_change(struct program *p, const char *text);

#endif /* PARSE_H */
