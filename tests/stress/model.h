/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of stress_mrapi_model share. */
#ifndef MODEL_H
#define MODEL_H

#include <pthread.h>
#include <string.h>

#include "mrapi.h"
#include "stress/stress.h"

enum { PROCS = 8, THREADS = 8, NODES = PROCS * THREADS };
enum { MUTEX, SEM, RWL, LOCKS };
enum { IDS = 6, SEGMENTS = 4, SEGMENT_SIZE = 20000, STRIPE = 4096, RECORDS = 1 << 20 };

/* What is known of one lock, by its handle, for as long as the program runs. */
struct record {
	atomic_uint handle;
	atomic_int dead, holders, writers;
	unsigned a, b; /* plain: under the lock */
};

struct shared {
	atomic_uint meet;
	atomic_ullong locks, creates, moved;
	/* Deletes, by which stale handles are told from wrong answers. */
	struct deletes {
		atomic_uint begun, ended;
	} deletes[LOCKS][IDS], segment_deletes[SEGMENTS];
	struct record record[LOCKS][RECORDS];
};
extern struct shared *shared;

/* A lock as a node knows it. */
struct known {
	mrapi_hndl_t h;
	unsigned deletes; /* that had ended when it was looked up */
};

/* Remote memory of another node: my stripe of it, and what should be there. */
struct remote {
	mrapi_rmem_hndl_t h;
	int attached;
	char model[STRIPE];
};

struct node {
	int rank; /* of all nodes */
	pthread_t id;
	uint64_t rng;
	struct known known[LOCKS][IDS];
	struct known segment[SEGMENTS];
	char *mapped[SEGMENTS]; /* NULL: not attached */
	char *memory;		/* mine, for others */
	mrapi_rmem_hndl_t mine; /* 0: it is withdrawn */
	struct remote *remote;	/* of each node */
	uint64_t locks, creates, moved;
};

extern int nodes;

/* Each thread's calls report here; must() names the call and what it should say. */
extern _Thread_local mrapi_status_t st;
#define must(want, call) must_at(__FILE__, __LINE__, #call, want, ((call), st))
/* The same of a call that was made already. */
#define said(want) must_at(__FILE__, __LINE__, "the call before", want, st)
#define ok(call) must(MRAPI_SUCCESS, call)
void must_at(const char *file, int line, const char *what, mrapi_status_t want, mrapi_status_t got);
const char *status_name(mrapi_status_t status);
unsigned pick(struct node *n, unsigned of);

/* ---- model_locks.c */
void use_lock(struct node *n);
void delete_lock(struct node *n);

/* ---- model_memory.c */
void use_segment(struct node *n);
void detach_segments(struct node *n);
/* My memory, for others. */
void offer(struct node *n);
void withdraw(struct node *n);
void use_remote(struct node *n);
void detach_remotes(struct node *n);
/* All that this node wrote is there. */
void check_remotes(struct node *n);

#endif /* MODEL_H */
