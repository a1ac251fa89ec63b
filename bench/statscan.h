/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the open endpoints of running programs: copies of their public state
 * (base/stats.h). The owner of an endpoint can write anything there, so rely only on
 * checked properties: counts are within their arrays, and strings end.
 */
#ifndef BENCH_STATSCAN_H
#define BENCH_STATSCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/stats.h"

#define SCAN_ANY UINT32_MAX

struct scan_entry {
	pid_t pid; /* as we see it; stats.pid is as its owner sees it */
	dev_t dev; /* dev and ino tell endpoints apart */
	ino_t ino;
	struct tw_stats stats;
	char program[17];
	char interface[9];
	char providers[TW_STATS_PEERS][9];
};

struct scan {
	struct scan_entry **entries; /* by pid, then board, then endpoint id */
	unsigned n, room;
	bool denied; /* some process could not be looked into */
	double when; /* by bench_now() */
};

/*
 * Looks at one process, or at all with 0, for one endpoint id or SCAN_ANY. 0,
 * or -1 with errno when that process cannot be looked into.
 */
int scan_endpoints(struct scan *s, pid_t pid, uint32_t endpoint_id);
/* Opens a regular file of at least so many bytes for reading; -1 if it is not one. */
int scan_open_regular(const char *path, size_t least, struct stat *st);
/* The same endpoint in another scan, or NULL. */
const struct scan_entry *scan_find(const struct scan *s, const struct scan_entry *like);
/* Says why it cannot, by errno, and ends the program. */
void scan_failed(pid_t pid) __attribute__((noreturn));
void scan_free(struct scan *s);

/* Reports why there is nothing to show; returns the exit code. */
int scan_nothing(const struct scan *s, pid_t pid, uint32_t endpoint_id);

#endif /* BENCH_STATSCAN_H */
