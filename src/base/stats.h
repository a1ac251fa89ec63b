/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statistics of an open endpoint, in a memfd named TW_STATS_NAME, which tools find as
 * /proc/PID/fd/N -> "/memfd:tagwire-endpoint". Only the owner writes, with plain stores.
 * Fields that a reader sees may disagree for a moment.
 */
#ifndef TW_STATS_H
#define TW_STATS_H

#include "base/compiler.h"
#include "base/counters.h"
#include "base/hash.h"

#define TW_STATS_NAME "tagwire-endpoint"
#define TW_STATS_MAGIC 0x7461677769726501ull /* "tagwire", format 1 */
#define TW_STATS_PEERS 256		     /* peers shown; more are only counted */

enum tw_peer_state {
	TW_PEER_NONE,
	TW_PEER_CONNECTING,
	TW_PEER_UP, /* from here on its address is valid */
	TW_PEER_DOWN,
};

#define TW_STATS_PATHS 4

enum tw_stats_path_state { TW_PATH_NONE, TW_PATH_UP, TW_PATH_DOWN };

/* A way to a peer on another host. */
struct tw_stats_path {
	uint8_t state; /* enum tw_stats_path_state */
	uint8_t board;
	uint8_t share; /* percent of what was fetched by all */
	uint8_t pad;
};

struct tw_stats_peer {
	uint64_t nic_id;
	uint32_t endpoint_id;
	uint32_t session;
	uint32_t state;	    /* enum tw_peer_state */
	uint32_t queued;    /* sends that wait for space */
	uint64_t msgs_sent; /* messages, not packets */
	uint64_t msgs_received;
	char provider[8];
	struct tw_stats_path paths[TW_STATS_PATHS];
};
_Static_assert(sizeof(struct tw_stats_peer) == 64, "format");

struct tw_stats {
	uint64_t magic;
	uint32_t size; /* of the whole mapping, bytes */
	uint32_t pid;
	uint64_t nic_id;
	uint32_t board;
	uint32_t endpoint_id;
	uint32_t session;
	uint32_t npeers; /* slots used in peers[], at most TW_STATS_PEERS */
	uint32_t ncounters;
	uint32_t layout; /* tw_layout() of the owner: what is at `self' */
	char program[16];
	uint64_t gauges[4]; /* enum tw_gauge */
	uint64_t self;	    /* address of the endpoint in its owner's memory, for mx_why */
	char interface[8];  /* "mx", "mcapi", ... */
	uint64_t job;	    /* tw_stats_job() */
	uint64_t fence;	    /* address of a struct tw_stats_fence in its owner's memory */
	uint64_t counters[48]; /* enum tw_counter */
	struct tw_stats_peer peers[TW_STATS_PEERS];
};
_Static_assert(TW_NCOUNTERS <= 48 && TW_NGAUGES <= 4, "room in the format");
_Static_assert(offsetof(struct tw_stats, peers) == 512, "format");

#define TW_FENCE_RANKS 8u

/*
 * The call in which a process waits for all ranks of its job, for mx_why. The other members are
 * valid while call is not empty.
 */
struct tw_stats_fence {
	char call[24];
	uint32_t rank;	   /* of this process */
	uint32_t round;	   /* counts the calls */
	uint64_t begun;	   /* tick of tw_clock() */
	uint32_t nmissing; /* ranks that have not called; 0: not known */
	uint32_t missing[TW_FENCE_RANKS];
};

/* The job that a process has joined, as tools compare it; a segment of MRAPI has it, too. */
static inline uint64_t tw_stats_job(const char *name)
{
	return tw_hash_text(TW_HASH_START, name);
}

#endif /* TW_STATS_H */
