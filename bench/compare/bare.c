/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the machine does without any library, between two processes on the same
 * processors: the limits that mx_compare draws beside the others. Jobs:
 *
 *	stream		cache lines a second in one direction, through a ring of them
 *	copy:SIZE	MB/s of memcpy() by one process
 *	pipe:SIZE	MB/s by both: one copies into a ring, the other out of it
 *	halves:SIZE	MB/s by both: each copies a half, at once
 */
#include "work.h"

#define LINES 256 /* of the ring */
#define FREED 32  /* the reader gives back so many at a time */
#define PIECES 8  /* of the ring of bytes */
#define PIECE 8192

static struct {
	/* All of these count on, from job to job. */
	_Alignas(64) _Atomic(uint64_t) freed;
	_Alignas(64) _Atomic(uint64_t) piped_in;
	_Alignas(64) _Atomic(uint64_t) piped_out;
	_Alignas(64) _Atomic(uint64_t) begun;
	_Alignas(64) _Atomic(uint64_t) ended;
	struct {
		_Alignas(64) _Atomic(uint64_t) number;
	} lines[LINES];
	_Alignas(4096) char ring[PIECES][PIECE];
	_Alignas(4096) char from[MAX_SIZE];
	_Alignas(4096) char to[MAX_SIZE];
} * shared;

/* Must be called: a compiler would leave out what nobody reads. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

/* No pause instruction: it would be what is measured. */
static void await(_Atomic(uint64_t) *what, uint64_t value)
{
	unsigned polls = 0;

	while (atomic_load_explicit(what, memory_order_acquire) < value)
		idle(&polls);
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
	double start = now();

	for (uint64_t i = 0; i < n && rank == 0; i++)
		copy(in, out, j->size);
	return now() - start;
}

/* A message is in small pieces, for both to begin early. */
static size_t piece_of(size_t size)
{
	size_t piece = size / 4;

	return piece < 1024 ? 1024 : piece > PIECE ? PIECE : piece;
}

static double run_pipe(const struct job *j, uint64_t n)
{
	static uint64_t at; /* pieces so far */
	size_t piece = piece_of(j->size);
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		for (size_t done = 0; done < j->size; done += piece, at++) {
			size_t len = j->size - done < piece ? j->size - done : piece;
			char *place = shared->ring[at % PIECES];

			if (rank == 0) {
				if (at >= PIECES)
					await(&shared->piped_out, at - PIECES + 1);
				copy(place, out + done, len);
				atomic_store_explicit(&shared->piped_in, at + 1,
						      memory_order_release);
			} else {
				await(&shared->piped_in, at + 1);
				copy(in + done, place, len);
				atomic_store_explicit(&shared->piped_out, at + 1,
						      memory_order_release);
			}
		}
		if (rank == 0)
			await(&shared->piped_out, at);
	}
	return now() - start;
}

static double run_halves(const struct job *j, uint64_t n)
{
	static uint64_t at;
	size_t half = j->size / 2;
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		at++;
		if (rank == 0) {
			atomic_store_explicit(&shared->begun, at, memory_order_release);
			copy(shared->to, shared->from, half);
			await(&shared->ended, at);
		} else {
			await(&shared->begun, at);
			copy(shared->to + half, shared->from + half, j->size - half);
			atomic_store_explicit(&shared->ended, at, memory_order_release);
		}
	}
	return now() - start;
}

static void connect_mesh(void)
{
}

static void prepare(void)
{
	shared = launch_share(sizeof *shared);
}

static void figure(struct job *j)
{
	j->rate = true;
	if (!strcmp(j->name, "stream")) {
		j->run = run_stream;
		j->scale = 1;
		take_samples(j);
		return;
	}
	j->size = number(j, 0, MAX_SIZE);
	j->scale = (double)j->size / 1e6;
	if (!strcmp(j->name, "copy")) {
		j->run = run_copy;
	} else if (!strcmp(j->name, "pipe")) {
		j->run = run_pipe;
	} else if (!strcmp(j->name, "halves")) {
		j->run = run_halves;
	} else {
		die(j->name, "no such job");
	}
	take_samples(j);
}
