/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn of two opposite scalar channels: a scalar beside their rings (ring.h) that
 * both nodes write, one after the other. Who has received it may send the next one in
 * it. Question and answer then travel in one line, which the processor hands over with
 * the right to write; providers/shm/ring.h has the same for packets.
 *
 * The scalar takes no place in the ring: it says before which place it comes. So a
 * reader that finds the next place full looks here first, unless the turn is its own.
 */
#ifndef TW_MCAPI_TURN_H
#define TW_MCAPI_TURN_H

#include "mcapi/ring.h"

#define TW_TURN_PATIENCE 64 /* most looks at the ring before the first at the turn */

/* What of it a process knows; used by one thread that sends and one that receives. */
struct tw_scl_turn {
	struct tw_scl_slot *slot;
	uint64_t us, them;	/* of the stamp: who wrote it */
	_Atomic(uint32_t) ours; /* set by the receiver, taken away by the sender */
	unsigned refs;		/* under the node's lock */
};

enum { TW_TURN_FIRST = 1, TW_TURN_SECOND, TW_TURN_SIDES = 3 };

static inline uint64_t tw_turn_stamp(uint64_t side, const struct tw_scl_pos *p, unsigned code)
{
	return (uint64_t)p->line << 8 | p->slot << 4 | code << 2 | side;
}

/* A sender that sees this may send in it; a receiver that does not may look. */
static inline bool tw_turn_ours(const struct tw_scl_turn *t)
{
	return atomic_load_explicit(&t->ours, memory_order_acquire);
}

/* Sends in it, which is ours. */
static inline void tw_turn_put(struct tw_scl_turn *t, const struct tw_scl_pos *p, uint64_t value,
			       unsigned code)
{
	atomic_store_explicit(&t->ours, 0, memory_order_relaxed);
	atomic_store_explicit(&t->slot->value, value, memory_order_relaxed);
	atomic_store_explicit(&t->slot->stamp, tw_turn_stamp(t->us, p, code), memory_order_release);
}

/* The size code of the scalar in it that is due, or -1; it is not ours. */
static inline int tw_turn_look(const struct tw_scl_turn *t, const struct tw_scl_pos *p)
{
	uint64_t stamp = atomic_load_explicit(&t->slot->stamp, memory_order_acquire) ^
			 tw_turn_stamp(t->them, p, 0);

	return stamp & ~0xcull ? -1 : (int)(stamp >> 2);
}

/* Takes it, after tw_turn_look() has seen it. */
static inline uint64_t tw_turn_take(struct tw_scl_turn *t)
{
	uint64_t value = atomic_load_explicit(&t->slot->value, memory_order_relaxed);

	atomic_store_explicit(&t->ours, 1, memory_order_release);
	return value;
}

/* Whether one is in it that was not received, due now or later. */
static inline bool tw_turn_full(const struct tw_scl_turn *t)
{
	return !tw_turn_ours(t) && (atomic_load_explicit(&t->slot->stamp, memory_order_acquire) &
				    TW_TURN_SIDES) == t->them;
}

#endif /* TW_MCAPI_TURN_H */
