/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a scalar channel: what scl_end.c makes and scl.c uses. */
#ifndef TW_MCAPI_SCL_H
#define TW_MCAPI_SCL_H

#include "mcapi/node.h"
#include "mcapi/ring.h"
#include "mcapi/turn.h"

#define TW_SCL_CHUNK 64 /* ends are made by so many */
#define TW_SCL_CHUNKS 1024
#define TW_SCL_KNOWN 8

enum tw_scl_state { TW_SCL_OPENING, TW_SCL_READY, TW_SCL_ENDED };

struct tw_scl {
	_Atomic(uint64_t) key; /* tw_scl_key(), 0: not in use */
	_Atomic(uint32_t) state;
	bool sender, fence;
	bool by_message; /* the ring is not shared */
	bool shared;	 /* it is, and the other end knows */
	struct tw_node *node;
	struct tw_scl_ring *ring;
	/* The ring while scalars go through it and nothing else is to be done. */
	_Atomic(struct tw_scl_ring *) open;
	_Atomic(struct tw_scl_turn *) turn; /* with an opposite channel, or tw_scl_no_turn */
	struct tw_scl_pos pos;		    /* under the end's lock */
	unsigned patience, hits;	    /* of the receiver with the turn */
	struct tw_scl_pos feed;		    /* where the node puts what comes by message */
	struct tw_lock lock tw_aligned_line;
	uint32_t gen, number, endpoint;
	uint32_t taken; /* by message, not reported */
	int timeout, fd;
	struct tw_list unused;
};

/* By `sender': nothing may be sent in it, or received. */
extern struct tw_scl_turn tw_scl_no_turn[2];

/* Ends that this thread was let into, for the next times. */
struct tw_scl_known {
	uint64_t key; /* ~0: none */
	struct tw_scl *end;
	struct tw_lock_way way;
};

extern _Thread_local struct tw_scl_known tw_scl_known[TW_SCL_KNOWN];

/* A handle, generation << 16 | number, and which end it is. */
static inline uint64_t tw_scl_key(uint32_t handle, bool sender)
{
	return (uint64_t)handle << 1 | sender;
}

/* The end that a handle names, or NULL. */
struct tw_scl *tw_scl_at(uint32_t handle, bool sender);
/* Locks it, if it is the caller's node's. */
struct tw_scl *tw_scl_enter(uint32_t handle, bool sender);

/* The same, if this thread was there not long ago. */
static inline bool tw_scl_enter_known(uint32_t handle, bool sender, struct tw_scl **s,
				      struct tw_lock_way *way)
{
	const struct tw_scl_known *k = &tw_scl_known[handle % TW_SCL_KNOWN];
	uint64_t key = tw_scl_key(handle, sender);

	tw_opaque(k);
	if (tw_unlikely(k->key != key))
		return false;
	*s = k->end;
	*way = k->way;
	if (tw_unlikely(!tw_lock_by(&(*s)->lock, *way)))
		return false;
	/* It may have been closed since; and used again, but not by this handle. */
	if (tw_likely(atomic_load_explicit(&(*s)->key, memory_order_relaxed) == key))
		return true;
	tw_lock_leave(*way);
	return false;
}

/* Its turn, or NULL. */
static inline struct tw_scl_turn *tw_scl_paired(const struct tw_scl *s)
{
	struct tw_scl_turn *t = atomic_load_explicit(&s->turn, memory_order_acquire);

	return t != &tw_scl_no_turn[s->sender] ? t : NULL;
}

/* The turn is the sender's, or the other node's. */
static inline bool tw_scl_has_turn(const struct tw_scl *s)
{
	return tw_turn_ours(atomic_load_explicit(&s->turn, memory_order_acquire));
}

static inline bool tw_scl_in_turn(const struct tw_scl *s)
{
	return !tw_scl_has_turn(s);
}

/*
 * The size code of the next scalar, or -1; turned: it is in the turn. The turn is looked
 * for after the ring: who finds there what was sent behind it learns of it, too.
 */
tw_shared int tw_scl_next_code(const struct tw_scl *s, const struct tw_scl_ring *r,
			       bool look_at_turn, bool *turned)
{
	int code = tw_scl_look(&s->pos, r), in_turn = -1;

	if ((code >= 0 || look_at_turn) && tw_scl_in_turn(s))
		in_turn = tw_turn_look(s->turn, &s->pos);
	*turned = in_turn >= 0;
	return *turned ? in_turn : code;
}

/*
 * Takes it out of the turn, which it was seen in after so many looks. To look there
 * takes the line from the other node, which is about to write it: how long to look at
 * the ring only follows from how many looks it took.
 */
tw_shared uint64_t tw_scl_take_turn(struct tw_scl *s, unsigned looks)
{
	if (looks > s->patience)
		s->patience += s->patience < TW_TURN_PATIENCE;
	else if ((++s->hits & 3) == 0)
		s->patience -= s->patience > 0;
	return tw_turn_take(s->turn);
}

static inline enum tw_scl_state tw_scl_state_of(const struct tw_scl *s)
{
	return (enum tw_scl_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

#endif /* TW_MCAPI_SCL_H */
