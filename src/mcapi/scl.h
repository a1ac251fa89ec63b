/* SPDX-License-Identifier: BSD-2-Clause */
/* The end of a scalar channel. */
#ifndef TW_MCAPI_SCL_H
#define TW_MCAPI_SCL_H

#include "mcapi/node.h"
#include "shmem/words.h"

#define TW_MCAPI_SCL_CHUNK 64 /* ends in one allocation */
#define TW_MCAPI_SCL_CHUNKS 1024
#define TW_MCAPI_SCL_KNOWN 8

enum tw_mcapi_scl_state { TW_MCAPI_SCL_OPENING, TW_MCAPI_SCL_READY, TW_MCAPI_SCL_ENDED };

struct tw_mcapi_scl {
	_Atomic(uint64_t) key; /* tw_mcapi_scl_key(), 0: not in use */
	_Atomic(uint32_t) state;
	bool sender, fence;
	_Atomic(bool) by_message; /* the ring is not shared */
	bool shared;	 /* it is, and the other end knows */
	struct tw_mcapi_node *node;
	struct tw_words *ring;
	/* The ring, while the fast path may use it. */
	_Atomic(struct tw_words *) open;
	_Atomic(struct tw_words_token *) token; /* with an opposite channel, or tw_mcapi_no_token */
	struct tw_words_pos pos;		/* under the end's lock */
	struct tw_backoff backoff;		/* of a receiver */
	struct tw_words_pos feed;		/* the node's, for scalars that come by message */
	struct tw_lock lock tw_aligned_line;
	uint32_t gen, number;
	_Atomic(uint32_t) endpoint;
	uint32_t reported; /* of the scalars taken that came by message */
	uint32_t traced;   /* scalars that were recorded */
	int timeout, fd;
	struct tw_list unused;
};

/* By `sender': never the sender's, always the receiver's, so neither uses it. */
extern struct tw_words_token tw_mcapi_no_token[2];

/* A cache of ends that this thread has entered. */
struct tw_mcapi_scl_known {
	uint64_t key; /* ~0: none */
	struct tw_mcapi_scl *end;
	struct tw_lock_way way;
};

extern _Thread_local struct tw_mcapi_scl_known tw_mcapi_scl_known[TW_MCAPI_SCL_KNOWN];

/* Of a handle, generation << 16 | number, and which end it is. */
static inline uint64_t tw_mcapi_scl_key(uint32_t handle, bool sender)
{
	return (uint64_t)handle << 1 | sender;
}

/* The end that a handle names, or NULL. */
struct tw_mcapi_scl *tw_mcapi_scl_at(uint32_t handle, bool sender);
/* Locks an end, if it belongs to the caller's node. */
struct tw_mcapi_scl *tw_mcapi_scl_enter(uint32_t handle, bool sender);
/* The endpoint of an end, under the lock of the node alone; NULL if the end is closed. */
struct tw_mcapi_endp *tw_mcapi_scl_endp(struct tw_mcapi_node *n, uint32_t handle, bool sender);

/* As tw_mcapi_scl_enter(), from the cache; false on a miss. */
static inline bool tw_mcapi_scl_enter_known(uint32_t handle, bool sender, struct tw_mcapi_scl **s,
					    struct tw_lock_way *way)
{
	const struct tw_mcapi_scl_known *k = &tw_mcapi_scl_known[handle % TW_MCAPI_SCL_KNOWN];
	uint64_t key = tw_mcapi_scl_key(handle, sender);

	tw_opaque(k);
	if (tw_unlikely(k->key != key))
		return false;
	*s = k->end;
	*way = k->way;
	if (tw_unlikely(!tw_lock_by(&(*s)->lock, *way)))
		return false;
	/* It may have been closed, and used again under another handle. */
	if (tw_likely(atomic_load_explicit(&(*s)->key, memory_order_relaxed) == key))
		return true;
	tw_lock_leave(*way);
	return false;
}

/* The token slot of an end, or NULL. */
static inline struct tw_words_token *tw_mcapi_scl_paired(const struct tw_mcapi_scl *s)
{
	/* [token-known] */
	struct tw_words_token *t = atomic_load_explicit(&s->token, memory_order_acquire);

	return t != &tw_mcapi_no_token[s->sender] ? t : NULL;
}

/* The scalars at a receiver. */
static inline unsigned tw_mcapi_scl_count(const struct tw_mcapi_scl *s)
{
	const struct tw_words_token *t = tw_mcapi_scl_paired(s);

	return tw_words_count(s->pos, s->ring) + (t && tw_words_token_full(t));
}

/* The token is this node's, so that the sender may use it. */
static inline bool tw_mcapi_scl_has_token(const struct tw_mcapi_scl *s)
{
	/* [token-known] */
	return tw_words_token_ours(atomic_load_explicit(&s->token, memory_order_acquire));
}

/*
 * The size code of the next scalar, or -1; *in_token: it is in the token slot. The slot is
 * polled after the ring: a reader that sees a scalar in the ring must also see one that
 * was sent before it in the slot.
 */
tw_shared int tw_mcapi_scl_next_code(const struct tw_mcapi_scl *s, const struct tw_words *r,
				     bool look_at_token, bool *in_token)
{
	int code = tw_words_look(&s->pos, r), in_order = -1;

	if ((code >= 0 || look_at_token) && !tw_mcapi_scl_has_token(s))
		in_order = tw_words_token_look(s->token, &s->pos);
	*in_token = in_order >= 0;
	return *in_token ? in_order : code;
}

/* Takes the scalar out of the token slot, found after so many polls. */
tw_shared uint64_t tw_mcapi_scl_take_token(struct tw_mcapi_scl *s, unsigned polls)
{
	tw_backoff_learn(&s->backoff, polls > s->backoff.polls, TW_WORDS_BACKOFF);
	return tw_words_token_take(s->token);
}

/* scl_wait.c; by the handle, as the end may be closed meanwhile. */

/* Polls for a while without the node's lock; true if a send or receive may go on. */
bool tw_mcapi_scl_spin(uint32_t handle, bool sender);
/* Sleeps in the node until it may go on. The timeout is that of a call, whose *end begins as 0. */
mcapi_status_t tw_mcapi_scl_wait(uint32_t handle, bool sender, int timeout, uint64_t *end);
/* Wakes the other end. */
void tw_mcapi_scl_wake(uint32_t handle, bool sender);

static inline enum tw_mcapi_scl_state tw_mcapi_scl_state_of(const struct tw_mcapi_scl *s)
{
	/* [scalar-state] */
	return (enum tw_mcapi_scl_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

#endif /* TW_MCAPI_SCL_H */
