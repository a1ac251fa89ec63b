/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of a message of 1 to 1,024 bytes: into the lane of its peer, without asking
 * the provider. An open lane says that all is as usual: the peer is up, no message waits for it,
 * and credits, space in the ring and time until the next poll are set apart for as many
 * messages as it is open for. tw_send() opens it, and every other packet closes it.
 */
#ifndef TW_QUICK_H
#define TW_QUICK_H

#include "engine/engine.h"

/* The peer of an address, if its lane is open; else NULL. */
static inline struct tw_peer *tw_quick_peer(struct tw_ep *ep, struct tw_addr to)
{
	struct tw_peer *p = tw_peer_named(ep, to);

	return p && tw_likely(tw_ring_open(p->lane)) ? p : NULL;
}

/* True if the next slot of the lane holds a message of this length, and is the one to take. */
static inline bool tw_quick_fits(const struct tw_peer *p, uint32_t len)
{
	return len - 1 < TW_RING_INLINE && tw_likely(!p->lane->token);
}

/* True if the peer sleeps, after a message: tw_quick_wake() must follow. */
static inline bool tw_quick_asleep(const struct tw_peer *p)
{
	tw_barrier_compiler(); /* as in tests/model/sleep.pml */
	return atomic_load_explicit(&p->lane->ring->reader.armed, memory_order_acquire);
}

/* Sends a message that fits there. */
static inline void tw_quick_send(struct tw_peer *p, const void *data, uint32_t len, uint64_t match)
{
	struct tw_ring_tx *lane = p->lane;

	tw_ring_fill(lane, tw_ring_slot(lane), tw_hdr_make(TW_EAGER, 0, 0, len, match), data, len);
	p->lane_bytes += len;
}

/* The same for another, which may need more. False: nothing was done. */
static inline bool tw_quick_send_mid(struct tw_peer *p, const void *data, uint32_t len,
				     uint64_t match)
{
	struct tw_hdr hdr = tw_hdr_make(TW_EAGER, 0, 0, len, match);
	uint32_t more = tw_credit_cost(len) - TW_QUICK_COST, pos;

	if (tw_unlikely(len - 1 < TW_RING_INLINE)) {
		tw_ring_write_small(p->lane, hdr, data, len);
	} else {
		if (len - 1 >= TW_SHORT_SEND || more > p->credits ||
		    !tw_ring_room_mid(p->lane, len, &pos))
			return false;
		tw_ring_write_mid(p->lane, hdr, data, len, pos);
		p->credits -= more;
	}
	p->lane_bytes += len;
	return true;
}

static inline void tw_quick_wake(struct tw_peer *p)
{
	p->link->provider->wake(p->link);
}

/*
 * Makes and posts a receive of one piece. No message waits that it could meet, and there is
 * a request.
 */
static inline struct tw_req *tw_quick_post(struct tw_ep *ep, void *data, uint32_t len, uint64_t key,
					   uint64_t mask)
{
	struct tw_req *r = tw_req_init(tw_req_take(ep), TW_RECV, data, len);

	r->outcome = tw_req_posted.outcome;
	r->match = r->posted.key = key;
	r->posted.mask = mask;
	ep->counters[TW_C_RECV_POSTED]++;
	ep->gauges[TW_G_POSTED]++;
	tw_match_post(ep->match, &r->posted);
	return r;
}

#endif /* TW_QUICK_H */
