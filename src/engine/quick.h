/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way of a message of 1 to 1,024 bytes: into the lane of its peer, without asking
 * the provider. An open lane says that all is as usual: the peer is up, no message waits for it,
 * and credits, space in the ring and time until the next poll are set apart for as many
 * messages as it is open for. tw_send() opens it, and every other packet closes it.
 */
#ifndef TW_QUICK_H
#define TW_QUICK_H

#include <endian.h>
#include <string.h>

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
	tw_barrier_compiler(); /* [armed] */
	return atomic_load_explicit(&p->lane->ring->reader.armed, memory_order_relaxed);
}

/* Sends a message that fits there. */
static tw_inline void tw_quick_send(struct tw_peer *p, const void *data, uint32_t len,
				    uint64_t match)
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

/* True if a message of this length fits a slot with its immediate data. */
static inline bool tw_quick_fits_imm(uint32_t len)
{
	return len <= TW_RING_INLINE - sizeof(uint64_t);
}

/* Sends such a message; it may be empty. */
static tw_inline void tw_quick_send_imm(struct tw_peer *p, const void *data, uint32_t len,
					uint64_t match, uint64_t imm)
{
	struct tw_ring_tx *lane = p->lane;
	struct tw_slot *s = tw_ring_slot_or_token(lane);

	s->hdr = tw_hdr_make(TW_EAGER, TW_FLAG_IMM, 0, len, match);
	imm = htole64(imm);
	memcpy(s->data, &imm, sizeof(imm));
	if (len)
		tw_copy(s->data + sizeof(imm), data, len);
	else
		p->credits += TW_QUICK_COST - tw_credit_cost(0);
	tw_ring_stamp(lane, s, len + (uint32_t)sizeof(imm));
	p->lane_bytes += len;
}

static inline void tw_quick_wake(struct tw_peer *p)
{
	p->link->provider->wake(p->link);
}

/*
 * Makes a receive of one piece, which tw_match_post() is to post: no message waits that it could
 * meet. There is a request.
 */
static tw_inline struct tw_req *tw_quick_recv(struct tw_ep *ep, void *data, uint32_t len,
					      uint64_t key, uint64_t mask)
{
	struct tw_req *r = tw_req_init(tw_req_take(ep), TW_RECV, data, len);

	r->outcome = tw_req_posted.outcome;
	r->match = r->posted.key = key;
	r->posted.mask = mask;
	ep->counters[TW_C_RECV_POSTED]++;
	ep->gauges[TW_G_POSTED]++;
	return r;
}

/* Shows a poll to the writers of the active rings. */
static inline void tw_poll_show(const struct tw_lanes *lanes)
{
	uint64_t now = tw_clock();

	for (unsigned i = 0; i < lanes->nactive; i++)
		tw_ring_show_poll(lanes->rx[i], now);
}

/* Only the holder of the lock writes; the service thread reads. */
static inline uint64_t tw_polls(const struct tw_ep *ep)
{
	return atomic_load_explicit(&ep->slot->polls, memory_order_relaxed);
}

static inline void tw_poll_count(struct tw_ep *ep, uint64_t polls)
{
	atomic_store_explicit(&ep->slot->polls, polls, memory_order_relaxed);
}

/* The poll of this number must do more than look at the rings. */
static inline bool tw_poll_unusual(const struct tw_ep *ep, uint64_t polls)
{
	const struct tw_lanes *lanes = &ep->host.lanes;

	if (tw_unlikely(ep->npolled | (lanes->n - lanes->nactive) | ep->host.state | ep->unusual |
			atomic_load_explicit(&ep->slot->requested, memory_order_relaxed)))
		return true;
	if (tw_likely(polls & (TW_LANE_SHOWS - 1)))
		return false;
	if (!(polls & (TW_LANE_POLLS - 1)))
		return true;
	tw_poll_show(lanes);
	return false;
}

/* A poll, if that finds nothing and there is nothing else to do. False: tw_progress() must look. */
static inline bool tw_quick_vain(struct tw_ep *ep)
{
	const struct tw_lanes *lanes = &ep->host.lanes;
	struct tw_ring_rx **rx, **end;
	uint64_t polls = tw_polls(ep) + 1;

	if (tw_poll_unusual(ep, polls))
		return false;
	rx = lanes->rx;
	end = rx + lanes->nactive;
	for (; rx != end; rx++)
		if (!tw_ring_poll_vain(*rx, &lanes->dense))
			return false;
	tw_poll_count(ep, polls);
	return true;
}

/*
 * Takes a message that was claimed and is whole: its memory is the caller's, who returns it by
 * tw_unexp_msg_put().
 */
tw_shared void tw_unexp_take(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_peer *p = u->peer;

	if (tw_unlikely(u->sync))
		tw_unexp_acknowledge(ep, u);
	ep->counters[TW_C_UNEXPECTED_MATCHED]++;
	ep->counters[TW_C_RECV_DONE]++;
	ep->counters[TW_C_RECV_BYTES] += u->len;
	ep->gauges[TW_G_UNEXP_BYTES] -= u->len;
	p->numsgs--;
	if (tw_likely(u->state == TW_U_WHOLE && p->state == TW_PEER_UP))
		tw_credits_release(p, tw_credit_cost(u->len));
}

/* Makes a receive, complete, of a message that waits: whole, without a reply, and not longer. */
static inline struct tw_req *tw_quick_receive(struct tw_ep *ep, struct tw_unexp_msg *u, void *data)
{
	struct tw_req *r = tw_req_ended(ep, &u->peer->addr, u->unexp.match, u->len);

	tw_copy(data, u->data, u->len);
	ep->counters[TW_C_RECV_POSTED]++;
	tw_unexp_claim(ep, u);
	tw_unexp_take(ep, u);
	tw_unexp_msg_put(ep, u);
	return r;
}

#endif /* TW_QUICK_H */
