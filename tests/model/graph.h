/* SPDX-License-Identifier: BSD-2-Clause */
/* An execution, whole or so far: a graph of events. */
#ifndef GRAPH_H
#define GRAPH_H

#include "rc11.h"

#define MAX_EVENTS 64
#define BIT(i) (1ull << (i))
#define INIT 0xff /* thread of the initial values, the first events */

typedef uint64_t set;

struct event {
	uint8_t thread, at; /* the how many-th of its thread */
	uint8_t order, line;
	int8_t loc, rf; /* -1: a fence; no read. Of an injected fence rf is the caller */
	bool writes, injected;
	int8_t read, wrote; /* values */
	set before;	    /* happens-before */
	set heads;	    /* of a write: what an acquire that reads it synchronizes with */
};

struct cpu {
	uint8_t pc, events;
	bool in_barrier;    /* has run the first fence of a membarrier */
	uint8_t asked;	    /* threads whose membarrier has yet to interrupt this one */
	set injected;	    /* fences of its own membarrier */
	int8_t first;	    /* which began with this one */
	int8_t last, fence; /* last event; last release fence; -1 */
	set may_acquire;    /* what an acquire fence would synchronize with */
};

struct graph {
	int n;
	struct event ev[MAX_EVENTS];
	uint8_t mo[MAX_LOCS][MAX_EVENTS], nmo[MAX_LOCS];
	struct cpu cpu[MAX_THREADS];
	int reg[MAX_REGS];
};

extern const struct program *prog; /* whose graphs these are */

/* False if the graph was visited before; NULL forgets all. */
bool graph_is_new(const struct graph *g);
/* The place of a write in mo. */
int mo_place(const struct graph *g, int write);
/* The first place in mo that a read may read from after these events. */
int mo_least(const struct graph *g, int loc, set before);
/* True if something may be put into mo there: a read-modify-write follows what it reads. */
bool mo_open(const struct graph *g, int loc, int at);
bool same_place(const struct event *a, const struct event *b);
/* psc has no cycle. */
bool graph_sc(const struct graph *g);

#endif /* GRAPH_H */
