/* SPDX-License-Identifier: BSD-2-Clause */
#include "overlap.h"

#define SPOTS 65 /* where a message is looked at */

struct bench_memory overlap_memory;
static double loops_per_second;

/* Computing ------------------------------------------------------------------ */

static double clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) void overlap_compute(uint64_t loops)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < loops; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	__asm__ volatile("" : : "r"(x));
}

/* The best of several, in CPU time: others may want this core, too. */
void overlap_calibrate(void)
{
	const uint64_t loops = 1 << 20;

	for (int i = 0; i < 8; i++) {
		double start = clock_of(CLOCK_THREAD_CPUTIME_ID), rate;

		overlap_compute(loops);
		rate = (double)loops / (clock_of(CLOCK_THREAD_CPUTIME_ID) - start);
		if (rate > loops_per_second)
			loops_per_second = rate;
	}
}

uint64_t overlap_loops(double seconds)
{
	return (uint64_t)(seconds * loops_per_second) + 1;
}

static void timed_compute(const struct overlap_plan *p, struct overlap_times *t)
{
	double start = bench_now(), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);

	overlap_compute(p->loops);
	t->loop_cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	t->loop = bench_now() - start;
}

static void begin(struct overlap_times *t)
{
	t->process = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	t->elapsed = bench_now();
}

static void end(struct overlap_times *t)
{
	t->elapsed = bench_now() - t->elapsed;
	t->process = clock_of(CLOCK_PROCESS_CPUTIME_ID) - t->process;
}

/* Arrival ---------------------------------------------------------------------- */

/* A call could complete the transfer: only the memory shows its state before the call. */
static size_t spot(const struct overlap_plan *p, unsigned i)
{
	return (size_t)(p->size - 1) * i / (SPOTS - 1);
}

static void clear_spots(const struct overlap_plan *p)
{
	for (unsigned i = 0; p->size && i < SPOTS; i++)
		overlap_memory.base[spot(p, i)] = 0;
}

static bool all_spots(const struct overlap_plan *p)
{
	for (unsigned i = 0; p->size && i < SPOTS; i++)
		if (!((volatile char *)overlap_memory.base)[spot(p, i)])
			return false;
	return true;
}

/* One part of a try ------------------------------------------------------------ */

void overlap_send(struct bench *b, const struct overlap_plan *p, enum overlap_part part,
		  struct overlap_sample *s)
{
	struct overlap_times *t = &s->part[part];
	mx_request_t go, data, ack;
	mx_status_t status;

	bench_irecv(b, NULL, 0, OVERLAP_GO, MX_MATCH_MASK_NONE, &go);
	bench_irecv(b, NULL, 0, OVERLAP_ACK, MX_MATCH_MASK_NONE, &ack);
	bench_finish(b, &go, &status);
	begin(t);
	if (part != COMPUTING)
		bench_isend(b, overlap_memory.base, p->size, OVERLAP_DATA, &data);
	if (part != ALONE && p->computes)
		timed_compute(p, t);
	if (part == COMPUTING) {
		end(t);
		bench_isend(b, NULL, 0, OVERLAP_DATA, &data);
	}
	/* The receiver that computes measures for itself. */
	s->arrived = s->placed = bench_test(b, &ack, &status);
	bench_finish(b, &data, &status);
	if (!s->arrived)
		bench_finish(b, &ack, &status);
	if (part != COMPUTING)
		end(t);
}

void overlap_receive(struct bench *b, const struct overlap_plan *p, enum overlap_part part,
		     struct overlap_sample *s)
{
	struct overlap_times *t = &s->part[part];
	mx_request_t go, data, ack;
	mx_status_t status;

	clear_spots(p);
	begin(t);
	bench_irecv(b, overlap_memory.base, p->size, OVERLAP_DATA, MX_MATCH_MASK_NONE, &data);
	bench_isend(b, NULL, 0, OVERLAP_GO, &go);
	bench_finish(b, &go, &status);
	if (part != ALONE && p->computes)
		timed_compute(p, t);
	if (part == COMPUTING)
		end(t);
	s->placed = all_spots(p);
	s->arrived = bench_test(b, &data, &status);
	if (!s->arrived)
		bench_finish(b, &data, &status);
	if (part != COMPUTING)
		end(t);
	bench_isend(b, NULL, 0, OVERLAP_ACK, &ack);
	bench_finish(b, &ack, &status);
}
