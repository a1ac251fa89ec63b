/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The token: two sides, with a ring to each, share one slot, which they write alternately. A
 * side that has taken an item out of it has the token and may write its next item there, in
 * place of its ring. A request and its reply then travel in a single line, which the
 * processors exchange together with the right to write. doc/decisions.md, 20 and 27.
 *
 * The stamp is written last and says all in one word: the place in the ring, the side of its
 * writer, the length. The side is needed because the last item of the other side may have
 * the place that is expected. tests/model/token.pml proves the rules for both uses:
 *
 *   ring.h   packets. One in the slot takes the place that it names: a reader looks there
 *            where the ring has nothing. A side is one thread at a time (a lock).
 *   words.h  words. One in the slot comes before the place that it names, as the tags of the
 *            ring are too narrow to leave places out: a reader without the token looks there
 *            first. A side may be a sending and a receiving thread, so its stamps alternate:
 *            the receiver may see the item that it has just taken once more.
 */
#ifndef TW_TOKEN_H
#define TW_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

/* The stamp: place plus one 32 bits | side 1 | alternation 1 | length 30. */
#define TW_STAMP_SECOND (1ull << 32) /* by the second side */
#define TW_STAMP_OTHER (1ull << 33)
#define TW_STAMP_LEN 34

/* By: TW_STAMP_SECOND or 0, TW_STAMP_OTHER or 0. */
static inline uint64_t tw_stamp(uint64_t by, uint32_t number, uint32_t len)
{
	return (uint64_t)len << TW_STAMP_LEN | by | number;
}

/*
 * The polls of a reader that leave the slot alone. Reading it takes its line from the cache
 * of the other side, which must fetch it back before it can reply; reading it too late costs
 * as much. So their number is learnt from the looks that items took.
 */
struct tw_backoff {
	uint32_t polls;
	uint32_t early; /* items found at the first look */
};

static inline void tw_backoff_learn(struct tw_backoff *b, bool late, uint32_t most)
{
	if (late)
		b->polls += b->polls < most;
	else if ((++b->early & 3) == 0)
		b->polls -= b->polls > 0;
}

#endif /* TW_TOKEN_H */
