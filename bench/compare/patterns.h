/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs do: both ends send, neighbours in a ring, all to all, with fresh data. */
#ifndef COMPARE_PATTERNS_H
#define COMPARE_PATTERNS_H

#include "overlap.h"

#define LINE 64
#define COMPUTE_SECONDS 50e-6

static bool fresh;     /* the job's data is written before each send and read after each receive */
static bool computing; /* each turn computes first */

/* Nobody waits for one that waits for another. */
static void connect_mesh(void)
{
	static peer_req reqs[2 * MAX_RANKS];
	unsigned n = 0;

	for (int r = 1; r < ranks && rank; r++)
		if (r != rank) {
			peer_await(r);
			peer_connect(r);
			peer_irecv(r, NULL, 0, TAG_GO, &reqs[n++]);
			peer_isend(r, NULL, 0, TAG_GO, &reqs[n++]);
		}
	peer_wait_all(reqs, n);
}

/* One word of each line: all of them move between the caches, and little time is spent. */
static void write_lines(char *p, size_t size, uint64_t turn)
{
	for (size_t at = 0; fresh && at + sizeof turn <= size; at += LINE)
		memcpy(p + at, &turn, sizeof turn);
}

static void read_lines(const char *p, size_t size)
{
	uint64_t sum = 0, word;

	for (size_t at = 0; fresh && at + sizeof word <= size; at += LINE) {
		memcpy(&word, p + at, sizeof word);
		sum += word;
	}
	__asm__ volatile("" : : "r"(sum));
}

/* Time of this process, as others take the processor meanwhile. */
static void compute_some(void)
{
	if (computing)
		compute(loops_for(COMPUTE_SECONDS));
}

/* What follows the size. */
static void read_words(const struct job *j, unsigned first)
{
	fresh = computing = false;
	for (unsigned i = first; i < j->ntext; i++) {
		if (!strcmp(j->text[i], "fresh"))
			fresh = true;
		else if (!strcmp(j->text[i], "computing"))
			computing = true;
		else if (strcmp(j->text[i], "stale"))
			die(j->name, "its parameters are wrong");
	}
}

/* Each end posts a receive, sends, and waits for both. */
static double run_exchange(const struct job *j, uint64_t n)
{
	peer_req reqs[2];
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		write_lines(out, j->size, i);
		peer_irecv(!rank, in, j->size, TAG_PING, &reqs[0]);
		peer_isend(!rank, out, j->size, TAG_PING, &reqs[1]);
		peer_wait_all(reqs, 2);
		read_lines(in, j->size);
	}
	return now() - start;
}

/* Windows in both directions at once. */
static double run_both(const struct job *j, uint64_t n)
{
	static peer_req reqs[2 * MAX_WINDOW];
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < j->window; k++)
			peer_irecv(!rank, in, j->size, TAG_PING, &reqs[k]);
		for (unsigned k = 0; k < j->window; k++)
			peer_isend(!rank, out, j->size, TAG_PING, &reqs[j->window + k]);
		peer_wait_all(reqs, 2 * j->window);
	}
	return now() - start;
}

/* To the right, from the left. */
static double run_ring(const struct job *j, uint64_t n)
{
	int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	peer_req reqs[2];
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		compute_some();
		write_lines(out, j->size, i);
		peer_irecv(left, in, j->size, TAG_PING, &reqs[0]);
		peer_isend(right, out, j->size, TAG_PING, &reqs[1]);
		peer_wait_all(reqs, 2);
		read_lines(in, j->size);
	}
	return now() - start;
}

static double run_alltoall(const struct job *j, uint64_t n)
{
	static peer_req reqs[2 * MAX_RANKS];
	size_t all = j->size * (size_t)ranks;
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		unsigned count = 0;

		compute_some();
		write_lines(out, all, i);
		for (int k = 1; k < ranks; k++) {
			int from = (rank + ranks - k) % ranks;

			peer_irecv(from, in + (size_t)from * j->size, j->size, TAG_PING, &reqs[count++]);
		}
		for (int k = 1; k < ranks; k++) {
			int to = (rank + k) % ranks;

			peer_isend(to, out + (size_t)to * j->size, j->size, TAG_PING, &reqs[count++]);
		}
		peer_wait_all(reqs, count);
		read_lines(in, all);
	}
	return now() - start;
}

static void pattern(struct job *j, double (*run)(const struct job *, uint64_t), size_t most)
{
	j->size = number(j, 0, (unsigned)most);
	read_words(j, 1);
	j->run = run;
	if (computing)
		loops_for(COMPUTE_SECONDS); /* which measures once */
	take_samples(j);
	fresh = computing = false;
}

#endif /* COMPARE_PATTERNS_H */
