/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bare cache line between ranks 0 and 1, on the processors where they are: how far
 * apart these are just now. Without a library, so that every driver measures the same.
 */
#ifndef COMPARE_LINE_H
#define COMPARE_LINE_H

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

#define LINE_SECONDS 200e-6 /* that one measurement takes */
#define LINE_TURNS 64	    /* between two looks at the clock */
#define LINE_LAST (UINT64_C(1) << 63)

struct line_page {
	_Alignas(128) _Atomic(uint64_t) turn;
};

static struct line_page *line; /* NULL: not asked for */

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A file of the caller's, which all processes map. */
static inline void line_open(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		line = mmap(NULL, sizeof *line, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || line == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* No pause instruction: it would be what is measured. */
static inline uint64_t line_await(uint64_t old)
{
	unsigned polls = 0;
	uint64_t turn;

	while ((turn = atomic_load_explicit(&line->turn, memory_order_acquire)) == old)
		idle(&polls);
	return turn;
}

/* There and back; the word that comes back. */
static inline uint64_t line_turn(uint64_t turn)
{
	atomic_store_explicit(&line->turn, turn, memory_order_release);
	return line_await(turn);
}

/* Rank 0: microseconds one way. Rank 1 is about to follow. */
static inline double line_lead(void)
{
	uint64_t turn = line_turn(1), first = turn; /* once it is there */
	double start = now(), took;

	do {
		for (unsigned i = 0; i < LINE_TURNS; i++)
			turn = line_turn(turn + 1);
		took = now() - start;
	} while (took < LINE_SECONDS);
	line_turn(LINE_LAST);
	return took / (double)(turn - first) * 1e6;
}

/* Rank 1. It leaves the word at 0 for the next time. */
static inline double line_follow(void)
{
	uint64_t turn = 0;

	while ((turn = line_await(turn)) != LINE_LAST)
		atomic_store_explicit(&line->turn, ++turn, memory_order_release);
	atomic_store_explicit(&line->turn, 0, memory_order_release);
	return NAN;
}

#endif /* COMPARE_LINE_H */
