/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The job of this process: of a launcher (PMIx, a module), of the environment
 * (TAGWIRE_RANK), or of this process alone. Called between tw_begin() and tw_end(),
 * without a lock.
 */
#ifndef TW_JOB_H
#define TW_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jobkey.h"

#define TW_JOB_MAX TW_NODES_MOST /* processes */
#define TW_JOB_HOST 256 /* bytes of a host's name */

struct tw_job {
	uint32_t rank, size;
	uint32_t key;  /* the same in all processes, and most likely different in other jobs */
	bool launched; /* by a launcher */
};

/*
 * Joins, or counts one more user. place is "R/N" for rank R of N, instead of
 * TAGWIRE_RANK; or NULL. TW_EPROTO if it is malformed, or not the place that other users have,
 * TW_EUNREACH if the launcher cannot be reached; the reason is logged.
 */
enum tw_err tw_job_begin(const char *place, struct tw_job *job);
/* The board of this host that has the endpoint of this process. */
enum tw_err tw_job_board(uint32_t *board);
/* The last user leaves the job. */
void tw_job_end(void);
/*
 * Exchanges the addresses of one endpoint of each process (NIC id << 16 | endpoint id). All
 * processes call it; with a launcher it waits until all have, and all have a key of rank 0's
 * (base/jobkey.h). Without one the addresses are computed: hosts are those of TAGWIRE_NODES and
 * endpoint ids differ as the ranks do. call is the function of the interface: if ranks do not call
 * it for long, the lowest one that waits says which.
 */
enum tw_err tw_job_exchange(const char *call, uint64_t mine, uint64_t *all);
/* Waits for the others, with a launcher. If that fails, it is logged. */
void tw_job_fence(const char *call);
/* Whether TAGWIRE_NODES or a launcher says where numbered nodes live. */
bool tw_job_has_hosts(void);
/*
 * tw_topology_init(): as TAGWIRE_NODES says, or else node N with rank N of a launcher, which is
 * asked once, for the job's key as well if there are several hosts: rank 0 makes it, and the
 * others wait for that, for TAGWIRE_CONNECT_TIMEOUT. False, and the reason is logged, if a host
 * cannot be found. They live here if the launcher cannot be asked, which is logged.
 */
bool tw_job_topology(void);

/* The module of a launcher. */
#define TW_LAUNCHER_VERSION 4

/*
 * Other ranks have not entered the exchange or fence for long: n ranks, the first of which are in
 * ranks[], up to TW_FENCE_RANKS. 0: the launcher does not know.
 */
typedef void tw_job_late(uint32_t n, const uint32_t *ranks);

struct tw_launcher {
	uint32_t version;
	/* False with the reason in why. */
	bool (*begin)(struct tw_job *job, char *why, unsigned len);
	void (*end)(void);
	/*
	 * have: whether there is a key; rank 0's is told to all. late() is called at most once,
	 * after late_ms, in the lowest rank that waits.
	 */
	bool (*exchange)(uint64_t mine, uint64_t *all, uint8_t key[TW_JOBKEY], bool *have,
			 unsigned late_ms, tw_job_late *late, char *why, unsigned len);
	bool (*fence)(unsigned late_ms, tw_job_late *late, char *why, unsigned len);
	/* Rank 0 tells the key, and has another one if one was told before; others wait for it. */
	bool (*key)(uint8_t key[TW_JOBKEY], unsigned limit_ms, char *why, unsigned len);
	/* The name of that process's host. */
	bool (*host)(uint32_t rank, char name[TW_JOB_HOST], char *why, unsigned len);
};

#endif /* TW_JOB_H */
