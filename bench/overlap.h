/* SPDX-License-Identifier: BSD-2-Clause */
/* One transfer beside computing, as its two ends see it. */
#ifndef BENCH_OVERLAP_H
#define BENCH_OVERLAP_H

#include "measure.h"

/* Match information; more kinds may follow. */
#define OVERLAP_GO BENCH_MATCH(BENCH_KIND_TOOL, 0)
#define OVERLAP_DATA BENCH_MATCH(BENCH_KIND_TOOL + 1, 0)
#define OVERLAP_ACK BENCH_MATCH(BENCH_KIND_TOOL + 2, 0)

/* Every try has these parts, one after the other, so that disturbances hit all. */
enum overlap_part { ALONE, COMPUTING, OVERLAPPED, PARTS };

/* Times of one end in one try, in seconds. */
struct overlap_sample {
	struct overlap_times {
		double elapsed;	       /* from the first call to completion */
		double process;	       /* CPU time of all threads in it */
		double loop, loop_cpu; /* in the loop: elapsed, CPU time of this thread */
	} part[PARTS];
	uint64_t arrived; /* the first look after computing found it complete */
	uint64_t placed;  /* all of it was in memory before that */
};

/* One end's part of a try. */
struct overlap_plan {
	uint32_t size, n;
	bool computes, warm_up; /* only transfers, then */
	uint64_t loops;
	bool answers; /* the takeover's */
};

/* The message, at both ends. */
extern struct bench_memory overlap_memory;

/* Finds out how fast this processor computes; once, before the others. */
void overlap_calibrate(void);
uint64_t overlap_loops(double seconds);
/* Arithmetic in registers, each step waiting for the last: no memory, no calls. */
void overlap_compute(uint64_t loops);

/*
 * One part of a try. The receiver says go, the sender sends, the receiver
 * acknowledges. Where only computing is measured the message is empty and sent
 * afterwards.
 */
void overlap_send(struct bench *b, const struct overlap_plan *p, enum overlap_part part,
		  struct overlap_sample *s);
void overlap_receive(struct bench *b, const struct overlap_plan *p, enum overlap_part part,
		     struct overlap_sample *s);

#endif /* BENCH_OVERLAP_H */
