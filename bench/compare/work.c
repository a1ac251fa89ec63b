/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work that mx_compare gives to each message library: one process of several,
 * the same source for all.
 *
 *	driver [--ranks N] [--cpus LIST] [--time MS] [--unexpected BYTES]
 *	       [--line FILE] [--netns FILE] [--mesh] [--one-sided] JOB...
 *
 * Rank 0 is connected to all others, with --mesh each to each. All ranks but 0 are in the network namespace of --netns.
 * Rank 0 prints a line for each sample of a job: the job, the value, and the bare
 * cache line just before and just after it, in us (nan without --line FILE, which all
 * processes map, and where processes share processors).
 *
 *	version			the library's own word
 *	ready			ms from opening it to the first answer of a peer
 *	connect			us of that from knowing the peer's address
 *	memory			KiB resident in rank 0
 *	state			the same without code, which is resident by chance, and
 *				without the driver's own shared memory
 *	latency:SIZE[:DATA]	us one way; DATA is "stale" (as by default) or "fresh", which is
 *				written before each send and read after each receive
 *	exchange:SIZE[:DATA]	us in which both ends send and receive one message
 *	both:SIZE:WINDOW	messages a second in both directions together
 *	ring:SIZE[:DATA][:computing]	us in which each rank sends to the next one, and computes
 *				50 us before
 *	alltoall:SIZE[:DATA][:computing]	us in which each rank sends to each other
 *	rate:SIZE:WINDOW	messages a second, rank 0 to rank 1
 *	mpi:ROW:SIZE		us of a call of MPI, of a row of mpi_rows.h
 *	one-sided:CALL:SIZE:WINDOW[:DATA]	us of a call of "put", "get" or "add", from rank 0 to
 *				rank 1, until WINDOW of them are complete there; needs --one-sided
 *	match:KIND:FROM:DEPTH	us one way, 8 bytes, beside DEPTH others that are
 *				"posted" or "unexpected"; FROM "exact" or "any"
 *	overlap:WHO:SIZE	% of a transfer hidden; WHO computes
 *	many:SIZE:WINDOW	messages a second from all others to rank 0
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "patterns.h"

/* Latency ---------------------------------------------------------------------- */

static double pingpong(size_t size, int from, uint64_t n)
{
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		write_lines(out, size, i);
		if (rank == 0)
			peer_send(1, out, size, TAG_PING);
		peer_recv(from, in, size, TAG_PING);
		read_lines(in, size);
		if (rank == 1)
			peer_send(0, out, size, TAG_PING);
	}
	return now() - start;
}

static double run_latency(const struct job *j, uint64_t n)
{
	return pingpong(j->size, !rank, n) / 2;
}

/* Rate, as OSU's osu_bw: a window, then an answer -------------------------------- */

static double run_rate(const struct job *j, uint64_t n)
{
	static peer_req reqs[MAX_WINDOW];
	double start = now();

	for (uint64_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < j->window; k++)
			if (rank == 0)
				peer_isend(1, out, j->size, TAG_PING, &reqs[k]);
			else
				peer_irecv(0, in, j->size, TAG_PING, &reqs[k]);
		peer_wait_all(reqs, j->window);
		if (rank == 0)
			peer_recv(1, NULL, 0, TAG_ACK);
		else
			peer_send(0, NULL, 0, TAG_ACK);
	}
	return now() - start;
}

/* The same from many to rank 0 ---------------------------------------------------- */

static double run_many(const struct job *j, uint64_t n)
{
	static peer_req reqs[MAX_RANKS * MAX_WINDOW];
	double start = now();
	unsigned count;

	for (uint64_t i = 0; i < n; i++) {
		count = 0;
		for (int r = 1; r < ranks; r++)
			for (unsigned k = 0; k < j->window && (rank == 0 || rank == r); k++)
				if (rank == 0)
					peer_irecv(r, in, j->size, TAG_PING, &reqs[count++]);
				else
					peer_isend(0, out, j->size, TAG_PING, &reqs[count++]);
		peer_wait_all(reqs, count);
		for (int r = 1; r < ranks && rank == 0; r++)
			peer_send(r, NULL, 0, TAG_ACK);
		if (rank)
			peer_recv(0, NULL, 0, TAG_ACK);
	}
	return now() - start;
}

/* Matching ----------------------------------------------------------------------- */

/* What was sent before has arrived after it, both ways. */
static inline void sync_pair(void)
{
	char a = 0, b = 0;
	peer_req s, r;

	peer_irecv(!rank, &b, 1, TAG_SYNC, &r);
	peer_isend(!rank, &a, 1, TAG_SYNC, &s);
	peer_wait(&s);
	peer_wait(&r);
}

static int match_from(const struct job *j)
{
	return !strcmp(j->text[1], "any") ? ANY : !rank;
}

static double run_match(const struct job *j, uint64_t n)
{
	return pingpong(8, match_from(j), n) / 2;
}

static void match(struct job *j)
{
	static peer_req reqs[MAX_DEPTH];
	bool posted = !strcmp(j->text[0], "posted");
	unsigned depth = (unsigned)strtoul(j->text[2], NULL, 10);
	int from = match_from(j);

	if (depth > MAX_DEPTH)
		die(j->name, "too deep");
	sync_pair();
	for (unsigned i = 0; i < depth; i++)
		if (posted)
			peer_irecv(from, in, 8, TAG_OTHERS + i, &reqs[i]);
		else
			peer_isend(!rank, out, 8, TAG_OTHERS + i, &reqs[i]);
	sync_pair();
	take_samples(j);
	for (unsigned i = 0; i < depth; i++)
		if (posted)
			peer_send(!rank, out, 8, TAG_OTHERS + i);
		else
			peer_recv(!rank, in, 8, TAG_OTHERS + i);
	for (unsigned i = 0; i < depth; i++)
		peer_wait(&reqs[i]);
	sync_pair();
}

/* MPI's own calls ------------------------------------------------------------------ */

#ifdef PEER_HAS_ROWS
static double run_row(const struct job *j, uint64_t n)
{
	mpi_turn *turn = peer_row(j->text[0]);
	double start = now();

	for (uint64_t i = 0; i < n; i++)
		turn(out, in, (int)j->size);
	return now() - start;
}

static void row(struct job *j)
{
	j->size = number(j, 1, MAX_SIZE / (unsigned)ranks);
	j->run = run_row;
	/* There and back counts as two. */
	j->scale = strcmp(j->text[0], "PingPong") ? 1e6 : 0.5e6;
	if (!peer_row(j->text[0]))
		die(j->text[0], "no such row");
	take_samples(j);
}
#else
static void row(struct job *j)
{
	die(j->name, "only MPI has it");
}
#endif

/* One-sided calls ------------------------------------------------------------------ */

#ifdef PEER_HAS_ONE_SIDED
static bool puts_data(const struct job *j)
{
	return !strcmp(j->text[0], "put");
}

static void call_one(const struct job *j, unsigned k, peer_req *r)
{
	size_t at = k * j->size;
	static uint64_t old[MAX_WINDOW];

	if (puts_data(j))
		peer_put(out + at, j->size, at, r);
	else if (!strcmp(j->text[0], "get"))
		peer_get(out + at, j->size, at, r);
	else
		peer_add(&old[k], 1, r);
}

/* Rank 1 polls meanwhile. */
static double run_one_sided(const struct job *j, uint64_t n)
{
	static peer_req reqs[MAX_WINDOW];
	double start = now();

	if (rank) {
		peer_recv(0, NULL, 0, TAG_ACK);
		return 0;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (puts_data(j))
			write_lines(out, j->size * j->window, i);
		for (unsigned k = 0; k < j->window; k++)
			call_one(j, k, &reqs[k]);
		peer_wait_all(reqs, j->window);
		if (puts_data(j))
			peer_flush();
		else
			read_lines(out, j->size * j->window);
	}
	start = now() - start;
	peer_send(1, NULL, 0, TAG_ACK);
	return start;
}

static void one_sided_calls(struct job *j)
{
	static bool exposed;

	j->size = number(j, 1, MAX_SIZE);
	j->window = number(j, 2, MAX_WINDOW);
	if (!one_sided || !j->window || j->size * j->window > MAX_SIZE)
		die(j->name, "its parameters are wrong");
	if (!exposed)
		peer_expose(in, MAX_SIZE);
	exposed = true;
	read_words(j, 3);
	j->scale = 1e6 / j->window;
	j->run = run_one_sided;
	take_samples(j);
	fresh = false;
}
#else
static void one_sided_calls(struct job *j)
{
	die(j->name, "this library has none");
}
#endif

/* The table ------------------------------------------------------------------------ */

static void windows(struct job *j, double (*run)(const struct job *, uint64_t), unsigned senders)
{
	j->size = number(j, 0, MAX_SIZE);
	j->window = number(j, 1, MAX_WINDOW);
	j->run = run;
	j->scale = j->window * senders;
	j->rate = true;
	take_samples(j);
}

static void prepare(void)
{
}

static double ready_ms(const struct job *j)
{
	(void)j;
	return (opened + connected) * 1e3;
}

static double connect_us(const struct job *j)
{
	(void)j;
	return PEER_CONNECTS_AT_OPEN ? NAN : connected * 1e6;
}

static double kib(unsigned long n)
{
	return n ? (double)n : NAN;
}

static double resident_kib(const struct job *j)
{
	(void)j;
	return kib(memory.resident);
}

static double state_kib(const struct job *j)
{
	(void)j;
	return kib(memory.state);
}

static double overlap_pct(const struct job *j)
{
	return overlap(number(j, 1, MAX_SIZE), strcmp(j->text[0], "receiver") != 0,
		       strcmp(j->text[0], "sender") != 0);
}

static void figure(struct job *j)
{
	const char *kind = j->name;

	j->scale = 1e6;
	if (!strcmp(kind, "ready")) {
		take_one(ready_ms, j, false);
	} else if (!strcmp(kind, "connect")) {
		take_one(connect_us, j, false);
	} else if (!strcmp(kind, "memory")) {
		take_one(resident_kib, j, false);
	} else if (!strcmp(kind, "state")) {
		take_one(state_kib, j, false);
	} else if (!strcmp(kind, "latency")) {
		pattern(j, run_latency, MAX_SIZE);
	} else if (!strcmp(kind, "exchange")) {
		pattern(j, run_exchange, MAX_SIZE);
	} else if (!strcmp(kind, "ring")) {
		pattern(j, run_ring, MAX_SIZE);
	} else if (!strcmp(kind, "alltoall")) {
		pattern(j, run_alltoall, MAX_SIZE / (size_t)ranks);
	} else if (!strcmp(kind, "mpi")) {
		row(j);
	} else if (!strcmp(kind, "one-sided")) {
		one_sided_calls(j);
	} else if (!strcmp(kind, "both")) {
		windows(j, run_both, 2);
	} else if (!strcmp(kind, "rate")) {
		windows(j, run_rate, 1);
	} else if (!strcmp(kind, "many")) {
		windows(j, run_many, (unsigned)ranks - 1);
	} else if (!strcmp(kind, "match") && j->ntext == 3) {
		j->run = run_match;
		match(j);
	} else if (!strcmp(kind, "overlap") && j->ntext == 2) {
		take_one(overlap_pct, j, true);
	} else {
		die(kind, "no such job");
	}
}
