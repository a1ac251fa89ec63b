/* SPDX-License-Identifier: BSD-2-Clause */
/* Unexpected messages: finding, counting and claiming them, and their memory. */
#ifndef TW_UNEXP_H
#define TW_UNEXP_H

#include "engine/match.h"
#include "engine/types.h"

/* The earliest that matches, which stays in its queue; NULL if none. */
static inline struct tw_unexp_msg *tw_unexp_find(struct tw_ep *ep, uint64_t key, uint64_t mask)
{
	struct tw_unexp *x = tw_match_find_unexp(ep->match, key, mask);

	return x ? tw_container(x, struct tw_unexp_msg, unexp) : NULL;
}

/* All its data is here. */
static inline bool tw_unexp_is_whole(const struct tw_unexp_msg *u)
{
	return u->state == TW_U_WHOLE || u->state == TW_U_FETCHED;
}

/*
 * The name that the matcher has of a message with a reference. It names the sender, too: else the
 * messages of one sender would lie in the way of a search for another's.
 */
static inline uint64_t tw_unexp_name(const struct tw_peer *p, struct tw_ref ref)
{
	return tw_ref_pack(ref) ^ (uintptr_t)p * 0x9e3779b97f4a7c15u;
}

/* The reference of a message that has one. */
static inline struct tw_ref tw_unexp_ref(const struct tw_unexp_msg *u)
{
	return tw_ref_unpack(u->unexp.name ^ tw_unexp_name(u->peer, (struct tw_ref){0, 0}));
}

/* The next that matches, after u. */
static inline struct tw_unexp_msg *tw_unexp_next(struct tw_ep *ep, struct tw_unexp_msg *u,
						 uint64_t key, uint64_t mask)
{
	struct tw_unexp *x = tw_match_next_unexp(ep->match, &u->unexp, key, mask);

	return x ? tw_container(x, struct tw_unexp_msg, unexp) : NULL;
}

/* How many match; or only the earliest of them until one that is not whole. */
uint32_t tw_unexp_count(struct tw_ep *ep, uint64_t key, uint64_t mask, bool whole);
/* As tw_unexp_count(), up to `most', as a peer decides how many messages there are. */
uint32_t tw_unexp_count_to(struct tw_ep *ep, uint64_t key, uint64_t mask, bool whole,
			   uint32_t most);
/*
 * Takes a message from the queue: no receive will match it. Then the caller calls
 * tw_unexp_receive(), tw_unexp_take() (whole messages only), tw_unexp_drop() or tw_unexp_free().
 */
static inline void tw_unexp_unqueue(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	tw_match_remove(ep->match, &u->unexp);
	ep->gauges[TW_G_UNEXPECTED]--;
}
/* The request receives it, as if it had matched it; one that claims: if it is no announcement. */
void tw_unexp_receive(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r);
/* tw_unexp_take() in fast.h: its memory is the caller's, who returns it by tw_unexp_msg_put(). */
/* Sends ACK for a synchronous message that the caller has taken. */
void tw_unexp_acknowledge(const struct tw_unexp_msg *u);
void tw_unexp_drop(struct tw_ep *ep, struct tw_unexp_msg *u);
/* Drops one that its sender has taken back: without a reply. */
void tw_unexp_free(struct tw_ep *ep, struct tw_unexp_msg *u);
/* Drops all that match. */
void tw_unexp_drop_all(struct tw_ep *ep, uint64_t key, uint64_t mask);
/*
 * The message of a receive with TW_R_CLAIM, which has no buffer of its own, once it is
 * complete; it is the caller's, as after tw_unexp_take(). NULL: none. With TW_S_NO_RESOURCES
 * there was no memory, and the message stays where it was.
 */
static inline struct tw_unexp_msg *tw_req_claimed(const struct tw_req *r)
{
	return r->seg.ptr ? tw_container(r->seg.ptr, struct tw_unexp_msg, data) : NULL;
}

/* A message matches no receive: queues it, unless the interface has another idea. */
void tw_unexp_queue(struct tw_ep *ep, struct tw_unexp_msg *u);
/* A request that has fetched a message is complete. */
void tw_unexp_fetched(struct tw_ep *ep, struct tw_req *r);
/* Drops what has not been claimed when the endpoint ends. */
void tw_unexp_msgs_fini(struct tw_ep *ep);
/* Allocates memory for a message of this length, in no queue; NULL when memory is short. */
struct tw_unexp_msg *tw_unexp_msg_new(struct tw_ep *ep, uint32_t room);
tw_shared struct tw_unexp_msg *tw_unexp_msg_get(struct tw_ep *ep, uint32_t room)
{
	struct tw_unexp_msg *u = ep->spare;

	if (tw_unlikely(!u || room > TW_SMALL_MAX))
		return tw_unexp_msg_new(ep, room);
	ep->spare = u->next;
	ep->nspare--;
	return u;
}

void tw_unexp_msg_free(struct tw_ep *ep, struct tw_unexp_msg *u);
tw_shared void tw_unexp_msg_put(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	if (u->room != TW_SMALL_MAX || tw_unlikely(ep->nspare == ep->spare_stop)) {
		tw_unexp_msg_free(ep, u);
		return;
	}
	u->next = ep->spare;
	ep->spare = u;
	ep->nspare++;
}

#endif /* TW_UNEXP_H */
