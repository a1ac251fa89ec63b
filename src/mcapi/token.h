/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The token slot of two opposite scalar channels: room for one scalar beside their rings
 * (scl_ring.h), written by both nodes in turn. The node that has received the scalar in it
 * holds the token and may send the next one there, so a request and its reply travel in
 * one cache line. src/shmem/ring.h has the same for packets.
 *
 * The scalar takes no place in the ring; its stamp names the place that it precedes. So a
 * reader that finds its next place full polls the slot first, unless it holds the token.
 */
#ifndef TW_MCAPI_TOKEN_H
#define TW_MCAPI_TOKEN_H

#include "mcapi/scl_ring.h"

#define TW_MCAPI_TOKEN_BACKOFF 64 /* most polls of the ring before the first of the slot */

/*
 * A process's view of the slot. Sender and receiver may be two threads: the sender clears
 * `ours' before it writes, so the receiver may see the scalar that it has received once
 * more. Therefore each side's stamps alternate between two marks.
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

/* True: the sender may send in it. False: the receiver may poll it. */
static inline bool tw_mcapi_token_ours(const struct tw_mcapi_token *t)
{
	return atomic_load_explicit(&t->ours, memory_order_acquire);
}

/* Sends in it; requires tw_mcapi_token_ours(). */
static inline void tw_mcapi_token_put(struct tw_mcapi_token *t, const struct tw_mcapi_scl_pos *p,
				      uint64_t value, unsigned code)
{
	atomic_store_explicit(&t->ours, 0, memory_order_relaxed);
	atomic_store_explicit(&t->slot->value, value, memory_order_relaxed);
	atomic_store_explicit(&t->slot->stamp, tw_mcapi_token_stamp(t->us, p, code),
			      memory_order_release);
	t->us ^= TW_MCAPI_TOKEN_OTHER;
}

/* The size code of the scalar in it that is next in order, or -1; requires !ours. */
static inline int tw_mcapi_token_look(const struct tw_mcapi_token *t,
				      const struct tw_mcapi_scl_pos *p)
{
	uint64_t stamp = atomic_load_explicit(&t->slot->stamp, memory_order_acquire) ^
			 tw_mcapi_token_stamp(t->them, p, 0);

	return stamp & ~(3ull << TW_MCAPI_TOKEN_CODE) ? -1 : (int)(stamp >> TW_MCAPI_TOKEN_CODE);
}

/* Takes the scalar that tw_mcapi_token_look() has found. */
static inline uint64_t tw_mcapi_token_take(struct tw_mcapi_token *t)
{
	uint64_t value = atomic_load_explicit(&t->slot->value, memory_order_relaxed);

	t->them ^= TW_MCAPI_TOKEN_OTHER;
	atomic_store_explicit(&t->ours, 1, memory_order_release);
	return value;
}

/* Whether it holds a scalar not yet received, next in order or later. */
static inline bool tw_mcapi_token_full(const struct tw_mcapi_token *t)
{
	return (atomic_load_explicit(&t->slot->stamp, memory_order_acquire) &
		TW_MCAPI_TOKEN_MARK) == t->them;
}

#endif /* TW_MCAPI_TOKEN_H */
