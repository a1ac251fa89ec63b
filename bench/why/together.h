/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mx_why of several hosts, one process of a job on each. Rank 0 hears of the others, lets all
 * read at one time, so that what they say of each other holds at that time, and gets what they have
 * read.
 */
#ifndef WHY_TOGETHER_H
#define WHY_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>

#include "myriexpress.h"
#include "why.h"

enum together_state {
	TOGETHER_MISSING, /* it has not come */
	TOGETHER_CAME,
	TOGETHER_SEEN,	 /* rank 0 has its facts, */
	TOGETHER_TWICE,	 /* or has the same processes from a lower rank */
	TOGETHER_GARBLED /* sent something else: another version */
};

struct together_rank {
	enum together_state state;
	uint64_t where; /* its endpoint */
	mx_endpoint_addr_t addr;
	int seen; /* the host in the facts that it sees, or WHY_NONE */
	char host[WHY_HOST_NAME];
};

struct together {
	mx_endpoint_t endpoint;
	double timeout; /* seconds for which rank 0 waits for another one */
	uint32_t rank, size;
	struct together_rank *ranks;
};

/* Returns when all that have come in time begin to read. */
void together_begin(struct together *t, double timeout);
/* Of a reading: leaves out the processes of this job. */
void together_leave_out(const struct together *t, struct why_facts *f);
/* Rank 0 adds the facts of the others and returns true; the others send theirs. */
bool together_end(struct together *t, struct why_facts *f);

#endif /* WHY_TOGETHER_H */
