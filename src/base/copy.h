/* SPDX-License-Identifier: BSD-2-Clause */
/* memcpy for mostly short data: no call up to TW_COPY_INLINE bytes. */
#ifndef TW_COPY_H
#define TW_COPY_H

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"

#define TW_COPY_INLINE 64
#define TW_COPY_SHORT 256u /* longer copies into and out of a ring depend on the distance */

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
 * For memory that another processor has read, and reads again, as of a ring. Through the cache
 * each line is taken from the reader's cache; around it none is. Where the reader is far (see
 * distance.h) the second is faster, else the first (doc/decisions.md, 158 and 175).
 */
#define TW_OVER_LONG 2048u /* from here on through the cache by REP MOVSB */

void tw_copy_over(bool around, void *to, const void *from, size_t n);

/*
 * Out of memory that another processor writes on and on, as of a ring: from the end to the start.
 * Forwards, this processor fetches lines beyond the end, which the writer then has to take back
 * (doc/decisions.md, 177).
 */
void tw_copy_back(void *to, const void *from, size_t n);

#endif /* TW_COPY_H */
