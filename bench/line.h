/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include "benchlib.h"
#include "series.h"

/* Before the other end is forked. */
void bench_line_here(struct bench *b);
/* The leading end: shares memory with the other one, if both are on one host. */
void bench_line_share(struct bench *b);
/* The following end: does what an order says, if it is about the line. */
bool bench_line_ordered(struct bench *b, const struct bench_order *order);

/*
 * One way of a bare cache line between the two processes, in microseconds: no transport between
 * these two cores takes much less. NaN between hosts.
 */
double bench_line(struct bench *b);
/* Measures the line again, after a round's figures; the mean of both. */
double bench_line_after(struct bench *b, struct bench_lines *l, double before);

#endif /* BENCH_LINE_H */
