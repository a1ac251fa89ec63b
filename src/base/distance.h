/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the processor that writes a word is far: a line comes from its cache later than one from
 * memory. Processors that share a cache are near. Processes change their processors, so this is
 * measured again and again (doc/decisions.md, 175).
 */
#ifndef TW_DISTANCE_H
#define TW_DISTANCE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"

#define TW_FAR_NS 100	/* a line that takes longer comes from far: memory is nearer */
#define TW_FAR_VOTES 3u /* so many more for the other answer change it */

/* Only x86-64 has another way for what is far (copy.h). */
#ifdef __x86_64__
#define TW_DISTANCE 1
#define tw_distance_order() __builtin_ia32_lfence()
#else
#define TW_DISTANCE 0
#define tw_distance_order()
#endif

/* Zeros: near. */
struct tw_distance {
	uint8_t votes;
	bool far;
};

static inline void tw_distance_vote(struct tw_distance *d, bool far)
{
	if (far && d->votes < TW_FAR_VOTES)
		d->votes++;
	else if (!far && d->votes)
		d->votes--;
	if (d->votes == (d->far ? 0 : TW_FAR_VOTES))
		d->far = !d->far;
}

/* Reads the word as acquire, and the ticks that this takes. */
static inline uint32_t tw_distance_time(const _Atomic(uint32_t) *word, uint64_t *ticks)
{
	uint64_t begun;
	uint32_t value;

	/* The reads of the clock and of the word keep their order. */
	tw_distance_order();
	begun = tw_clock();
	tw_distance_order();
	/* [ring-taken] */
	value = atomic_load_explicit(word, memory_order_acquire);
	tw_distance_order();
	*ticks = tw_clock() - begun;
	return value;
}

/*
 * Reads the word as acquire. A value other than the known one came from the writer's cache; the
 * second time it is in this one, and only the clock takes time.
 */
static inline uint32_t tw_distance_read(struct tw_distance *d, const _Atomic(uint32_t) *word,
					uint32_t known)
{
	uint64_t first, again;
	uint32_t value;

	if (!TW_DISTANCE)
		/* [ring-taken] */
		return atomic_load_explicit(word, memory_order_acquire);
	value = tw_distance_time(word, &first);
	if (value != known) {
		tw_distance_time(word, &again);
		tw_distance_vote(d, first * 1000 > again * 1000 + TW_FAR_NS * tw_clock_per_us);
	}
	return value;
}

#endif /* TW_DISTANCE_H */
