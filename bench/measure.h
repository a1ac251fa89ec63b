/* SPDX-License-Identifier: BSD-2-Clause */
/* Measurements that several tools have in common. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>

#include "line.h"

/* Runs something n times; returns seconds. */
typedef double bench_run(struct bench *b, void *arg, uint64_t n);
/* How often it fits into the seconds given; warms up by the way. */
uint64_t bench_calibrate(struct bench *b, bench_run *run, void *arg, double seconds);
/* The same from n that took so long: for the next round. */
uint64_t bench_adjust(uint64_t n, double took, double seconds);

/* All rounds over the sizes of a range: measures row i, of that size. */
typedef void bench_measure(struct bench *b, unsigned i, uint32_t size, const void *options);
/* Prints row i, once it has all rounds. */
typedef void bench_print(struct table *t, unsigned i);
void bench_sweep(struct bench *b, const struct bench_range *sizes, bench_measure *measure,
		 bench_print *print, struct table *t, const void *options);

/* How many messages this end sent and received by each protocol, by the library's counters. */
enum bench_protocol { BENCH_EAGER, BENCH_COPY, BENCH_GET, BENCH_PROTOCOLS };
struct bench_protocols {
	uint32_t n[BENCH_PROTOCOLS];
};
struct bench_protocols bench_protocols(const struct bench *b);
/* Adds what has come since: the messages of one order, which the leading end gave. */
void bench_protocols_add(struct bench_protocols *sum, const struct bench *b,
			 const struct bench_protocols *before);
/* A cell with those that took a twentieth of the messages or more. */
void bench_protocol_cell(struct table *t, const struct bench_protocols *p);

/* Touched memory. Grows, never shrinks. */
struct bench_memory {
	char *base;
	size_t size;
};
void bench_memory(struct bench_memory *m, size_t size);

/* Back and forth, one message at a time. The ends use the same. */
struct bench_pingpong {
	char *out, *in;
	uint32_t size;
	uint64_t match, mask; /* sent with match, received as match & mask */
	bool unexpected;      /* post receives only when the message is there */
};
/* n round trips; returns seconds. */
double bench_pingpong_lead(struct bench *b, const struct bench_pingpong *p, uint64_t n);
/* The other end; signals when it is ready. */
void bench_pingpong_follow(struct bench *b, const struct bench_pingpong *p, uint64_t n);

#endif /* BENCH_MEASURE_H */
