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
	_Atomic(uint32_t) handle; /* generation << 16 | number, 0: not in use */
	_Atomic(uint32_t) state;
	bool sender, fence;
	bool by_message; /* the ring is not shared */
	struct tw_node *node;
	struct tw_scl_ring *ring;
	struct tw_scl_pos pos;	/* under the end's lock */
	struct tw_scl_pos feed; /* where the node puts what comes by message */
	struct tw_lock lock tw_aligned_line;
	uint32_t gen, number, endpoint;
	uint32_t taken; /* by message, not reported */
	int timeout, fd;
	struct tw_list unused;
};

extern _Atomic(struct tw_scl *) tw_scl_chunks[TW_SCL_CHUNKS];

/* Locks the end that a handle of the caller's node names. */
static inline struct tw_scl *tw_scl_enter(uint32_t handle, bool sender)
{
	uint32_t number = handle & 0xffff;
	struct tw_scl *s =
		atomic_load_explicit(&tw_scl_chunks[number / TW_SCL_CHUNK], memory_order_acquire);

	if (tw_unlikely(!s || !handle))
		return NULL;
	s += number % TW_SCL_CHUNK;
	if (tw_unlikely(atomic_load_explicit(&s->handle, memory_order_relaxed) != handle))
		return NULL;
	tw_lock(&s->lock);
	if (tw_likely(atomic_load_explicit(&s->handle, memory_order_relaxed) == handle &&
		      s->sender == sender && s->node == tw_mc_self()))
		return s;
	tw_unlock(&s->lock);
	return NULL;
}

static inline enum tw_scl_state tw_scl_state_of(const struct tw_scl *s)
{
	return (enum tw_scl_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

#endif /* TW_MCAPI_SCL_H */
