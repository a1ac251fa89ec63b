/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a scalar channel: what scl_end.c makes and scl.c uses. */
#ifndef TW_MCAPI_SCL_H
#define TW_MCAPI_SCL_H

#include "mcapi/node.h"
#include "mcapi/ring.h"
#include "mcapi/turn.h"

#define TW_SCL_CHUNK 64 /* ends are made by so many */
#define TW_SCL_CHUNKS 1024

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
	_Atomic(struct tw_scl_turn *) turn; /* with an opposite channel, or NULL */
	struct tw_scl_pos pos;		    /* under the end's lock */
	unsigned patience, hits;	    /* of the receiver with the turn */
	struct tw_scl_pos feed;		    /* where the node puts what comes by message */
	struct tw_lock lock tw_aligned_line;
	uint32_t gen, number, endpoint;
	uint32_t taken; /* by message, not reported */
	int timeout, fd;
	struct tw_list unused;
};

extern _Atomic(struct tw_scl *) tw_scl_chunks[TW_SCL_CHUNKS];

/* A handle, generation << 16 | number, and which end it is. */
static inline uint64_t tw_scl_key(uint32_t handle, bool sender)
{
	return (uint64_t)handle << 1 | sender;
}

/* The end of that number, whatever it is now; NULL if there never was one. */
static inline struct tw_scl *tw_scl_numbered(uint32_t handle)
{
	uint32_t number = handle & 0xffff;
	struct tw_scl *s =
		atomic_load_explicit(&tw_scl_chunks[number / TW_SCL_CHUNK], memory_order_acquire);

	return tw_likely(s != NULL) ? s + number % TW_SCL_CHUNK : NULL;
}

/* The end that a handle names or once named, or NULL. */
static inline struct tw_scl *tw_scl_at(uint32_t handle, bool sender)
{
	struct tw_scl *s = tw_scl_numbered(handle);

	/* Nobody takes the bias of a lock by a handle of the past. */
	return tw_likely(s && atomic_load_explicit(&s->key, memory_order_relaxed) ==
				      tw_scl_key(handle, sender))
		       ? s
		       : NULL;
}

/* Under its lock: whether the handle still names it, and for this node. */
static inline bool tw_scl_is(const struct tw_scl *s, uint32_t handle, bool sender)
{
	return atomic_load_explicit(&s->key, memory_order_relaxed) == tw_scl_key(handle, sender) &&
	       (tw_likely(s->node == tw_mc_thread) || s->node == tw_mc_self());
}

/* Locks the end that a handle of the caller's node names. */
tw_shared struct tw_scl *tw_scl_enter(uint32_t handle, bool sender)
{
	struct tw_scl *s = tw_scl_at(handle, sender);

	if (tw_unlikely(!s))
		return NULL;
	tw_lock(&s->lock);
	if (tw_likely(tw_scl_is(s, handle, sender)))
		return s;
	tw_unlock(&s->lock);
	return NULL;
}

/* The turn is there and the sender's, or the other node's. */
static inline bool tw_scl_has_turn(const struct tw_scl *s)
{
	const struct tw_scl_turn *t = atomic_load_explicit(&s->turn, memory_order_acquire);

	return t && tw_turn_ours(t);
}

static inline bool tw_scl_in_turn(const struct tw_scl *s)
{
	const struct tw_scl_turn *t = atomic_load_explicit(&s->turn, memory_order_acquire);

	return t && !tw_turn_ours(t);
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
