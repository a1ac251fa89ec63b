/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the work needs of a message library. One of peer_*.h is compiled in
 * (-DPEER='"peer_mpi.h"') and defines all of this as static functions, so that no
 * library pays for an indirect call. Ranks are 0 to ranks - 1; rank 0 talks to each
 * of the others, and they to rank 0. A library that fails ends the process.
 *
 * Installed as source: the drivers of the other libraries are compiled where they
 * are used.
 */
#ifndef COMPARE_PEER_H
#define COMPARE_PEER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 64
#define ANY (-1)      /* receive from whomever */
#define FROM_SHIFT 32 /* where tags have 64 bits, the sender's rank is above the tag */
#define TAG_BITS 0xffffffffu

static int rank, ranks;
static bool crowded;	    /* more ranks than processors: offer the processor to others */
static bool one_sided;	    /* there are put, get and fetch-add, from rank 0 to rank 1 */
static uint64_t unexpected; /* so many bytes may wait for their receives */

static inline void die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

/* With 64-bit tags: what a message carries, and what a receive looks at. */
static inline uint64_t full_tag(int from, uint32_t tag)
{
	return (uint64_t)(unsigned)from << FROM_SHIFT | tag;
}

static inline uint64_t tag_mask(int from)
{
	return from == ANY ? TAG_BITS : ~UINT64_C(0);
}

/* In a wait, after each look in vain: someone else may need the processor. */
static inline void idle(unsigned *polls)
{
	if (__builtin_expect(++*polls >= (crowded ? 8 : 10000), 0)) {
		*polls = 0;
		sched_yield();
	}
}

#define PEER_CONNECTS_AT_OPEN false /* then connecting has no time of its own */

#include PEER

#ifndef PEER_HAS_BLOCKING
static inline void peer_wait(peer_req *r)
{
	unsigned polls = 0;

	while (!peer_test(r))
		idle(&polls);
}

static inline void peer_wait_all(peer_req *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		peer_wait(&r[i]);
}

static inline void peer_send(int to, const void *buf, size_t len, uint32_t tag)
{
	peer_req r;

	peer_isend(to, buf, len, tag, &r);
	peer_wait(&r);
}

static inline void peer_recv(int from, void *buf, size_t len, uint32_t tag)
{
	peer_req r;

	peer_irecv(from, buf, len, tag, &r);
	peer_wait(&r);
}
#endif

#endif /* COMPARE_PEER_H */
