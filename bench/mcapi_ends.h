/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of mcapi_perf: a process each, of which one leads. */
#ifndef BENCH_MCAPI_ENDS_H
#define BENCH_MCAPI_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "mcapi.h"

#define ENDS_MAX_WINDOW 256
#define ENDS_BUFFERS 512 /* that a receiving endpoint has for messages or packets */

enum kind { MESSAGE, PACKET, SCALAR, KINDS };
extern const char *const ends_kinds[KINDS];

enum what { END, LINE, BOUNCE, STREAM };

struct perf {
	struct shared *shared;
	uint64_t orders;
	bool lead;
	mcapi_endpoint_t out, in, peer; /* of messages */
	uint32_t pkt_out, pkt_in, scl_out, scl_in;
	char *buffer;
	void *packet; /* received and not given back */
	uint32_t window;
};

/* Forks the other end; makes each a node with its channels. */
void ends_start(struct perf *p, bool no_bind);
/* The leading end: runs something n times with the other; returns seconds. */
double ends_run(struct perf *p, enum what what, enum kind kind, uint32_t size, uint64_t n);
/* Ends the following end. */
void ends_stop(struct perf *p);
/* The following end: carries out orders. */
void ends_follow(struct perf *p);
void ends_finish(void);

#endif /* BENCH_MCAPI_ENDS_H */
