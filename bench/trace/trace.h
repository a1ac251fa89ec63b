/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mx_trace: the traces of processes, merged.
 *
 *   rings.c    reads the files of base/trace.h     chrome.c   writes the trace event format
 *   match.c    finds both sides of each message    report.c   the summary as text
 *   sums.c     adds up                             svg.c      the summary as a picture
 *   clocks.c   aligns the clocks of several hosts  timeline.c what happened when, in that picture
 */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/trace.h"

#define TRACE_UNKNOWN UINT32_MAX

enum trace_what { TRACE_MESSAGE, TRACE_SCALAR, TRACE_PUT, TRACE_GET, TRACE_ATOMIC, TRACE_SERVED };

/* One side of a message, or a one-sided access, which has no other. */
struct trace_side {
	struct trace_side *pair; /* the other, or NULL */
	uint64_t tick;		 /* sent, or arrived */
	uint64_t asked;		 /* the send was called, or the receive was posted; 0: unknown */
	uint64_t matched;	 /* of an arrival: a receive has it; 0: none yet */
	uint64_t ended;		 /* 0: not yet */
	uint64_t match;
	uint32_t ring, other; /* where it was recorded, and the other side's */
	uint32_t number, len;
	enum trace_what what;
	bool out, announced, unexpected, copied;
	uint8_t thread;
};

/* The time during which an endpoint polled in vain or slept. */
struct trace_wait {
	uint64_t from, until;
	uint64_t late;		      /* until here for the other side, which was late */
	const struct trace_side *end; /* the side of a message that ended it, or NULL */
	uint32_t ring, other;	      /* other: the late one, or TRACE_UNKNOWN */
	uint8_t thread;
};

struct trace_ring {
	char name[64]; /* "program 1234", with several hosts "program 1234 on alpha" */
	unsigned host;
	struct tw_trace_file head;
	struct tw_trace_event *events; /* oldest first */
	size_t n;
	uint64_t lost;		   /* overwritten */
	struct trace_side **sides; /* by event, or NULL */
};

struct trace {
	struct trace_ring *rings;
	unsigned n, nhosts;
	struct trace_side *sides;
	size_t nsides;
	struct trace_wait *waits;
	size_t nwaits;
	uint64_t start; /* the first tick */
	double per_us;
};

#define TRACE_SIZES 6

struct trace_size {
	const char *name;
	uint32_t end; /* the longest message */
};
extern const struct trace_size trace_sizes[TRACE_SIZES];

/* From one endpoint to another. */
struct trace_pair {
	uint64_t messages, bytes, eager, got, copied, pending;
	uint64_t accesses, access_bytes;     /* one-sided */
	uint64_t late_sender, late_receiver; /* ticks that the other side waited */
};

struct trace_total {
	uint64_t sent, received, unexpected;
	uint64_t held, waited; /* ticks; held: unexpected messages, until a receive had them */
};

struct trace_sums {
	const struct trace *t;
	struct trace_pair *pairs;   /* n * n */
	struct trace_total *totals; /* by ring */
	uint64_t sent[TRACE_SIZES], bytes[TRACE_SIZES], unexpected[TRACE_SIZES];
};

/* Adds all traces of a directory. */
void trace_read(struct trace *t, const char *dir);
/* By host and process, after the last. */
void trace_sort(struct trace *t);
void trace_free(struct trace *t);
/* Directories of the traces that processes of the job, or this process, write now. */
unsigned trace_find(const char *job, int pid, char dirs[][512], unsigned most);
/* Finds the sides of all messages, and pairs them. */
void trace_pair_up(struct trace *t);
/* Gives all hosts the clock of the first one. */
void trace_align(struct trace *t);
const char *trace_host(const struct trace *t, unsigned host);
/* Pairs the messages, and finds the reason of each wait. */
void trace_match(struct trace *t);
/* Closes the file; ends the program if it cannot be written. */
void trace_chrome(const struct trace *t, FILE *f, const char *path);
void trace_sum(struct trace_sums *s, const struct trace *t);
void trace_sums_free(struct trace_sums *s);
void trace_report(const struct trace_sums *s);
/* Closes the file; ends the program if it cannot be written. */
void trace_svg(const struct trace_sums *s, FILE *f, const char *path, double from_ms, double ms);
/* Draws the time from from_ms on, so many ms, or with 0 all that follows. Returns the y below. */
double trace_timeline(const struct trace *t, FILE *f, double y, double from_ms, double ms);

/* Memory of zeros; ends the program where there is none. */
void *trace_alloc(size_t n, size_t size);

static inline double trace_us(const struct trace *t, uint64_t tick)
{
	return (double)(int64_t)(tick - t->start) / t->per_us;
}

/* A number of the process, also among those of other hosts. */
static inline uint32_t trace_process(const struct trace *t, uint32_t ring)
{
	return t->rings[ring].head.pid + (t->rings[ring].host << 22); /* pids have 22 bits */
}

static inline double trace_ms(const struct trace *t, uint64_t ticks)
{
	return (double)ticks / t->per_us / 1e3;
}

static inline struct trace_pair *trace_pair(const struct trace_sums *s, uint32_t from, uint32_t to)
{
	return &s->pairs[(size_t)from * s->t->n + to];
}

#endif /* BENCH_TRACE_H */
