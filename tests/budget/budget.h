/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs share whose instructions tests/lint/budget counts. */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 64 /* as the script knows; a multiple of what happens now and then */
#define BATCHES 24
#if defined(__clang__) /* which makes no clones of functions */
#define COUNTED __attribute__((noinline)) void
#else
#define COUNTED __attribute__((noinline, noclone)) void
#endif

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct budget_case {
	const char *name;
	void (*open)(void), (*batch)(void), (*between)(void), (*close)(void);
	uint32_t size; /* bytes of a message, where the case knows of them */
};

/* Seen by callgrind as it is: one count ends. */
COUNTED batch_end(void);
COUNTED batch_end(void)
{
	__asm__ volatile("");
}

static uint32_t budget_size; /* of the case that runs */

/* Runs all cases, or the one that an argument names. */
static inline int budget_run(const struct budget_case *cases, unsigned n, int argc, char **argv)
{
	unsigned done = 0;

	for (unsigned c = 0; c < n; c++) {
		if (argc > 1 && strcmp(argv[1], cases[c].name) != 0)
			continue;
		budget_size = cases[c].size;
		cases[c].open();
		for (unsigned i = 0; i < BATCHES; i++) {
			cases[c].batch();
			cases[c].between();
			batch_end();
		}
		cases[c].close();
		done++;
	}
	MUST(done);
	return 0;
}

#endif /* BUDGET_H */
