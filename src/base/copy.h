/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy for mostly short data: no call up to TW_COPY_INLINE bytes. */
#ifndef TW_COPY_H
#define TW_COPY_H

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"

#define TW_COPY_INLINE 64

/* First the lengths of most short messages. */
tw_shared void tw_copy(void *to, const void *from, size_t n)
{
	uint8_t *d = to;
	const uint8_t *s = from;

	if (tw_likely(n - 8 <= 8)) {
		uint64_t a, b;

		memcpy(&a, s, 8);
		memcpy(&b, s + n - 8, 8);
		memcpy(d, &a, 8);
		memcpy(d + n - 8, &b, 8);
	} else if (n > 16) {
		if (tw_unlikely(n > TW_COPY_INLINE)) {
			tw_opaque(n); /* of a length with a known limit gcc makes a slow instruction */
			memcpy(d, s, n);
			return;
		}
		memcpy(d, s, 16);
		if (n > 32) {
			memcpy(d + 16, s + 16, 16);
			if (n > 48)
				memcpy(d + 32, s + 32, 16);
		}
		memcpy(d + n - 16, s + n - 16, 16);
	} else if (n >= 4) {
		uint32_t a, b;

		memcpy(&a, s, 4);
		memcpy(&b, s + n - 4, 4);
		memcpy(d, &a, 4);
		memcpy(d + n - 4, &b, 4);
	} else if (n) {
		d[0] = s[0];
		d[n / 2] = s[n / 2];
		d[n - 1] = s[n - 1];
	}
}

/*
 * For memory that another processor has read, and reads again, as of a ring. A long copy through
 * the cache does not first fetch the lines that it overwrites. On x86-64 the writer times two
 * copies in each period, one through the cache and one around it, and takes the way around for the
 * others if it is a fifth faster (doc/decisions.md, 158 and 166).
 */
#define TW_OVER_MIN 512u   /* shorter copies always go through the cache */
#define TW_OVER_LONG 2048u /* from here on through it by REP MOVSB */
#define TW_OVER_SHORT 4160u /* 4 KiB and a line; longer ones choose apart */
/* Copies. A prime, so that a trial is not always at one place of a ring. */
#define TW_OVER_PERIOD 251u
#define TW_OVER_TRIAL 30u /* the number of the copy that is timed through the cache */

/* Of copies that share a way. Zeros: none yet. */
struct tw_over_class {
	uint32_t copies;
	bool around;
	size_t len;	/* of the copy through the cache that waits for one around it; 0: none */
	uint64_t ticks; /* that it took */
};
struct tw_over {
	struct tw_over_class shorter; /* up to TW_OVER_SHORT */
	struct tw_over_class longer;
};

void tw_copy_over(struct tw_over *o, void *to, const void *from, size_t n);

/* Whether copies of this length, up to TW_OVER_SHORT, go around the cache. */
static inline bool tw_over_around(const struct tw_over *o, size_t n)
{
	return n >= TW_OVER_MIN && o->shorter.around;
}

/* Whether a copy of this length is the one around the cache. Lengths that differ do not compare. */
static inline bool tw_over_pairs(const struct tw_over_class *o, size_t n)
{
	return n <= 2 * o->len && o->len <= 2 * n;
}

/* Chooses the way, after the other copy of the pair has taken so many ticks. */
static inline void tw_over_choose(struct tw_over_class *o, uint64_t around, size_t n)
{
	o->around = 5 * around * o->len < 4 * o->ticks * n;
	o->len = 0;
}

/*
 * Whether to fetch the lines of the next copy of this length, up to TW_OVER_SHORT. Not before a
 * copy around the cache, and not before one that is timed, which would find its lines here.
 */
static inline bool tw_over_fetch(const struct tw_over *o, size_t n)
{
	const struct tw_over_class *c = &o->shorter;

	return n < TW_OVER_MIN ||
	       !(c->around || c->len || (c->copies + 1) % TW_OVER_PERIOD == TW_OVER_TRIAL);
}

#endif /* TW_COPY_H */
