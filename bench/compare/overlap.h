/* SPDX-License-Identifier: BSD-2-Clause */
/* Transfers beside computing: see mx_overlap, which does the same in more detail. */
#ifndef COMPARE_OVERLAP_H
#define COMPARE_OVERLAP_H

#include "work.h"

#define OVERLAP_TRIES 9
#define OVERLAP_FACTOR 4     /* computing takes so many transfers */
#define OVERLAP_LEAST 200e-6 /* seconds */

enum { PART_ALONE, PART_COMPUTING, PART_BOTH, PARTS };

/* Arithmetic in registers: no memory, no calls. */
__attribute__((noinline)) static void compute(uint64_t loops)
{
	uint64_t x = 88172645463325252u;

	for (uint64_t i = 0; i < loops; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	__asm__ volatile("" : : "r"(x));
}

static uint64_t loops_for(double seconds)
{
	static double rate;

	if (rate == 0) {
		double best = 1;

		for (int k = 0; k < 5; k++) {
			double start = now(), took;

			compute(1 << 18);
			took = now() - start;
			best = took < best ? took : best;
		}
		rate = (1 << 18) / best;
	}
	return (uint64_t)(seconds * rate) + 1;
}

/* One part of a try; the seconds that the end saw. With only computing, the message is
 * empty and comes afterwards. */
static double overlap_send(size_t size, int part, uint64_t loops)
{
	double start, took = 0;
	peer_req data, ack;

	peer_irecv(1, NULL, 0, TAG_ACK, &ack);
	peer_recv(1, NULL, 0, TAG_GO);
	start = now();
	if (part != PART_COMPUTING)
		peer_isend(1, out, size, TAG_PING, &data);
	if (part != PART_ALONE)
		compute(loops);
	if (part == PART_COMPUTING) {
		took = now() - start;
		peer_isend(1, out, 0, TAG_PING, &data);
	}
	peer_wait(&data);
	/* The transfer ends when the receiver has it. */
	peer_wait(&ack);
	return part == PART_COMPUTING ? took : now() - start;
}

static double overlap_receive(size_t size, int part, uint64_t loops)
{
	double start = now(), took;
	peer_req data;

	peer_irecv(0, in, size, TAG_PING, &data);
	peer_send(0, NULL, 0, TAG_GO);
	if (part != PART_ALONE)
		compute(loops);
	took = now() - start;
	peer_wait(&data);
	if (part != PART_COMPUTING)
		took = now() - start;
	peer_send(0, NULL, 0, TAG_ACK);
	return took;
}

static double overlap_part(size_t size, int part, uint64_t loops)
{
	return (rank ? overlap_receive : overlap_send)(size, part, loops);
}

/* Per cent of the transfer that hid behind this end's computing. */
static double overlap_hidden(size_t size, bool computes)
{
	double v[PARTS][OVERLAP_TRIES], alone[OVERLAP_TRIES], t[PARTS], spent;
	uint64_t loops;

	for (unsigned i = 0; i < OVERLAP_TRIES; i++)
		alone[i] = overlap_part(size, PART_ALONE, 0);
	/* Both compute as long as rank 0's transfer asks for. */
	spent = median(alone, OVERLAP_TRIES) * OVERLAP_FACTOR;
	spent = spent < OVERLAP_LEAST ? OVERLAP_LEAST : spent;
	if (rank)
		spent = (double)hear() / 1e9;
	else
		say((uint64_t)(spent * 1e9));
	loops = computes ? loops_for(spent) : 0;
	for (unsigned i = 0; i < OVERLAP_TRIES; i++)
		for (int part = 0; part < PARTS; part++)
			v[part][i] = overlap_part(size, part, loops);
	for (int part = 0; part < PARTS; part++)
		t[part] = median(v[part], OVERLAP_TRIES);
	return 100 * (1 - (t[PART_BOTH] - t[PART_COMPUTING]) / t[PART_ALONE]);
}

/* Of the ends that compute, the one with less hidden. */
static double overlap(size_t size, bool sender, bool receiver)
{
	double mine = overlap_hidden(size, rank ? receiver : sender), theirs = 0;

	if (rank) {
		peer_send(0, &mine, sizeof mine, TAG_SYNC);
		return 0;
	}
	peer_recv(1, &theirs, sizeof theirs, TAG_SYNC);
	return !receiver || (sender && mine < theirs) ? mine : theirs;
}

#endif /* COMPARE_OVERLAP_H */
