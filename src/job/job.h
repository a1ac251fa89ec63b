/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The job that this process is one of: of a launcher (PMIx, a module), of the
 * environment (TAGWIRE_RANK), or of this process alone. Between tw_begin() and
 * tw_end(); no lock is held.
 */
#ifndef TW_JOB_H
#define TW_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct tw_job {
	uint32_t rank, size;
	uint32_t key;  /* the same in all processes; another job has another, most likely */
	bool launched; /* by a launcher, which knows who is there */
};

/*
 * Joins, or counts one more user. place is "R/N" for rank R of N, instead of
 * TAGWIRE_RANK; or NULL. TW_EPROTO when that makes no sense, TW_EUNREACH when the
 * launcher cannot be spoken to; the reason is told.
 */
enum tw_err tw_job_begin(const char *place, struct tw_job *job);
/* The board here on which this process of the job has its endpoint. */
enum tw_err tw_job_board(uint32_t *board);
/* The last user leaves the job. */
void tw_job_end(void);
/*
 * Tells all others where an endpoint is (NIC id << 16 | endpoint id), and where
 * theirs are. All call it; with a launcher it waits until all have. Without one,
 * nobody is asked: the hosts are those of TAGWIRE_NODES and endpoint ids differ as
 * the ranks do.
 */
enum tw_err tw_job_exchange(uint64_t mine, uint64_t *all);
/* Waits for the others, with a launcher. */
enum tw_err tw_job_fence(void);

/* What a launcher's module offers. */
#define TW_LAUNCHER_VERSION 1
struct tw_launcher {
	uint32_t version;
	/* False with the reason in why. */
	bool (*begin)(struct tw_job *job, char *why, unsigned len);
	void (*end)(void);
	bool (*exchange)(uint64_t mine, uint64_t *all, char *why, unsigned len);
	bool (*fence)(char *why, unsigned len);
};

#endif /* TW_JOB_H */
