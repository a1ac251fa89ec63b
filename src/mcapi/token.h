/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turn of two opposite scalar channels: a scalar beside their rings (scl_ring.h) that
 * both nodes write, one after the other. Who has received it may send the next one in
 * it. Question and answer then travel in one line, which the processor hands over with
 * the right to write; providers/shm/ring.h has the same for packets.
 *
 * The scalar takes no place in the ring: it says before which place it comes. So a
 * reader that finds the next place full looks here first, unless the turn is its own.
 */
#ifndef TW_MCAPI_TURN_H
#define TW_MCAPI_TURN_H

#include "mcapi/scl_ring.h"

#define TW_MCAPI_TOKEN_PATIENCE 64 /* most looks at the ring before the first at the turn */

/*
 * What of it a process knows. Who sends and who receives may be two threads: the sender
 * takes `ours' away before it writes, so the receiver may find there once more what it has
 * received. So the marks of each side's stamps change every time.
 */
struct tw_mcapi_token {
	struct tw_mcapi_scl_slot *slot;
	_Atomic(uint32_t) ours; /* set by the receiver */
	uint32_t us;		/* the sender's next mark */
	uint32_t them;		/* the one that the receiver waits for */
	unsigned refs;		/* under the node's lock */
};

enum {
	TW_MCAPI_TOKEN_FIRST = 1,
	TW_MCAPI_TOKEN_SECOND,
	TW_MCAPI_TOKEN_SIDES,
	TW_MCAPI_TOKEN_OTHER,
	TW_MCAPI_TOKEN_MARK = 7
};

/* The stamp: line 32 bits | slot 3 | size code 2 | mark 3. */
#define TW_MCAPI_TOKEN_CODE 3
#define TW_MCAPI_TOKEN_SLOT 5
#define TW_MCAPI_TOKEN_LINE 8

static inline uint64_t tw_mcapi_token_stamp(uint32_t mark, const struct tw_mcapi_scl_pos *p,
					    unsigned code)
{
	return (uint64_t)p->line << TW_MCAPI_TOKEN_LINE | p->slot << TW_MCAPI_TOKEN_SLOT |
	       code << TW_MCAPI_TOKEN_CODE | mark;
}

/* A sender that sees this may send in it; a receiver that does not may look. */
static inline bool tw_mcapi_token_ours(const struct tw_mcapi_token *t)
{
	return atomic_load_explicit(&t->ours, memory_order_acquire);
}

/* Sends in it, which is ours. */
static inline void tw_mcapi_token_put(struct tw_mcapi_token *t, const struct tw_mcapi_scl_pos *p,
				      uint64_t value, unsigned code)
{
	atomic_store_explicit(&t->ours, 0, memory_order_relaxed);
	atomic_store_explicit(&t->slot->value, value, memory_order_relaxed);
	atomic_store_explicit(&t->slot->stamp, tw_mcapi_token_stamp(t->us, p, code),
			      memory_order_release);
	t->us ^= TW_MCAPI_TOKEN_OTHER;
}

/* The size code of the scalar in it that is due, or -1; it is not ours. */
static inline int tw_mcapi_token_look(const struct tw_mcapi_token *t,
				      const struct tw_mcapi_scl_pos *p)
{
	uint64_t stamp = atomic_load_explicit(&t->slot->stamp, memory_order_acquire) ^
			 tw_mcapi_token_stamp(t->them, p, 0);

	return stamp & ~(3ull << TW_MCAPI_TOKEN_CODE) ? -1 : (int)(stamp >> TW_MCAPI_TOKEN_CODE);
}

/* Takes it, after tw_mcapi_token_look() has seen it. */
static inline uint64_t tw_mcapi_token_take(struct tw_mcapi_token *t)
{
	uint64_t value = atomic_load_explicit(&t->slot->value, memory_order_relaxed);

	t->them ^= TW_MCAPI_TOKEN_OTHER;
	atomic_store_explicit(&t->ours, 1, memory_order_release);
	return value;
}

/* Whether one is in it that was not received, due now or later. */
static inline bool tw_mcapi_token_full(const struct tw_mcapi_token *t)
{
	return (atomic_load_explicit(&t->slot->stamp, memory_order_acquire) &
		TW_MCAPI_TOKEN_MARK) == t->them;
}

#endif /* TW_MCAPI_TURN_H */
