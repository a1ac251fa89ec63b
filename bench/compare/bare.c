/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the machine does without any library, between two processes on the same
 * processors: the limits that mx_compare draws beside the others. Jobs:
 *
 *	line		us one way of a cache line
 *	stream		cache lines a second in one direction, through a ring of them
 *	copy:SIZE	MB/s of memcpy() by one process
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "work.h"

#define LINES 256 /* of the ring */
#define FREED 32  /* the reader gives back so many at a time */

static struct {
	_Alignas(64) _Atomic(uint64_t) turn; /* counts on, from job to job */
	_Alignas(64) _Atomic(uint64_t) freed;
	struct {
		_Alignas(64) _Atomic(uint64_t) number;
	} lines[LINES];
} * shared;

/* No pause instruction: it would be what is measured. */
static void await(_Atomic(uint64_t) *what, uint64_t value)
{
	unsigned polls = 0;

	while (atomic_load_explicit(what, memory_order_acquire) < value)
		idle(&polls);
}

static double run_line(const struct job *j, uint64_t n)
{
	static uint64_t turn;
	double start = now();

	(void)j;
	for (uint64_t i = 0; i < n; i++, turn += 2) {
		if (rank)
			await(&shared->turn, turn + 1);
		atomic_store_explicit(&shared->turn, turn + 1 + (uint64_t)rank,
				      memory_order_release);
		if (!rank)
			await(&shared->turn, turn + 2);
	}
	return (now() - start) / 2;
}

static double run_stream(const struct job *j, uint64_t n)
{
	static uint64_t at; /* counts on, too */
	uint64_t end = at + n;
	double start = now();

	(void)j;
	for (; at < end; at++) {
		_Atomic(uint64_t) *number = &shared->lines[at % LINES].number;

		if (rank == 0) {
			if (at >= LINES && at % FREED == 0)
				await(&shared->freed, at + FREED - LINES);
			atomic_store_explicit(number, at + 1, memory_order_release);
			continue;
		}
		await(number, at + 1);
		if ((at + 1) % FREED == 0)
			atomic_store_explicit(&shared->freed, at + 1, memory_order_release);
	}
	if (rank)
		atomic_store_explicit(&shared->freed, end, memory_order_release);
	else
		await(&shared->freed, end);
	return now() - start;
}

static double run_copy(const struct job *j, uint64_t n)
{
	void *(*volatile copy)(void *, const void *, size_t) = memcpy; /* must be called */
	double start = now();

	for (uint64_t i = 0; i < n && rank == 0; i++)
		copy(in, out, j->size);
	return now() - start;
}

static void prepare(void)
{
	shared = launch_share(sizeof *shared);
}

static double figure(struct job *j)
{
	if (!strcmp(j->name, "line")) {
		j->run = run_line;
		return per_turn(j) * 1e6;
	}
	if (!strcmp(j->name, "stream")) {
		j->run = run_stream;
		return 1 / per_turn(j);
	}
	if (!strcmp(j->name, "copy")) {
		j->size = number(j, 0, MAX_SIZE);
		j->run = run_copy;
		return (double)j->size / per_turn(j) / 1e6;
	}
	die(j->name, "no such job");
	return 0;
}
