/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a scalar channel: what scl_end.c makes and scl.c uses. */
#ifndef TW_MCAPI_SCL_H
#define TW_MCAPI_SCL_H

#include "mcapi/node.h"
#include "mcapi/ring.h"

#define TW_SCL_CHUNK 64 /* ends are made by so many */
#define TW_SCL_CHUNKS 1024

enum tw_scl_state { TW_SCL_OPENING, TW_SCL_READY, TW_SCL_ENDED };

struct tw_scl {
	_Atomic(uint64_t) key; /* tw_scl_key(), 0: not in use */
	_Atomic(uint32_t) state;
	bool sender, fence;
	bool by_message; /* the ring is not shared */
	struct tw_node *node;
	struct tw_scl_ring *ring;
	/* The ring while scalars go through it and nothing else is to be done. */
	_Atomic(struct tw_scl_ring *) open;
	struct tw_scl_pos pos;	/* under the end's lock */
	struct tw_scl_pos feed; /* where the node puts what comes by message */
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

/* The end that a handle names or once named, or NULL. */
static inline struct tw_scl *tw_scl_at(uint32_t handle, bool sender)
{
	uint32_t number = handle & 0xffff;
	struct tw_scl *s =
		atomic_load_explicit(&tw_scl_chunks[number / TW_SCL_CHUNK], memory_order_acquire);

	if (tw_unlikely(!s))
		return NULL;
	s += number % TW_SCL_CHUNK;
	/* Nobody takes the bias of a lock by a handle of the past. */
	return tw_likely(atomic_load_explicit(&s->key, memory_order_relaxed) ==
			 tw_scl_key(handle, sender))
		       ? s
		       : NULL;
}

/* Under its lock: whether the handle still names it, and for this node. */
static inline bool tw_scl_is(const struct tw_scl *s, uint32_t handle, bool sender)
{
	return atomic_load_explicit(&s->key, memory_order_relaxed) == tw_scl_key(handle, sender) &&
	       s->node == tw_mc_self();
}

/* Locks the end that a handle of the caller's node names. */
static inline struct tw_scl *tw_scl_enter(uint32_t handle, bool sender)
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

static inline enum tw_scl_state tw_scl_state_of(const struct tw_scl *s)
{
	return (enum tw_scl_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

#endif /* TW_MCAPI_SCL_H */
