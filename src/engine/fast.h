/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path of a message of up to 1,024 bytes: the engine writes it into the ring of its peer
 * (its txq) without a call of the provider. Invariant: an open txq implies that the peer is up,
 * that its send queue is empty, and that credits, space in the ring and sends until the next poll
 * are reserved for as many messages as it is open for. tw_send() and tw_inject() open it; every
 * other packet closes it.
 */
#ifndef TW_FAST_H
#define TW_FAST_H

#include <endian.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/trace.h"

/* The txq to an address, if it is open; else NULL. */
static inline struct tw_ring_tx *tw_fast_txq(struct tw_ep *ep, struct tw_addr to)
{
	struct tw_peer *p = tw_peer_named(ep, to);

	return p && tw_likely(tw_ring_open(p->txq)) ? p->txq : NULL;
}

/* After a message was written: true if the peer sleeps or rests, and tw_fast_wake() must follow. */
static inline bool tw_fast_asleep(const struct tw_ring_tx *txq)
{
	tw_barrier_compiler(); /* [armed] */
	return tw_idle_by_any(atomic_load_explicit(&txq->ring->reader.armed, memory_order_relaxed));
}

void tw_fast_wake(struct tw_ring_tx *txq);

/* Where a message goes: constants, which specialise the one function that writes it. */
enum tw_eager_class {
	TW_EAGER_SLOT, /* a slot, perhaps the token slot: 1 to 64 bytes */
	TW_EAGER_ANY   /* any slot, the token slot included, and bytes: 0 to 1,024 bytes */
};

/*
 * True if a message of this length may be written so to an open txq. imm: with immediate data,
 * which makes it ANY.
 */
static tw_inline bool tw_eager_fits(const struct tw_ring_tx *txq, enum tw_eager_class class,
				    uint32_t len, bool imm)
{
	uint32_t all = len + (imm ? (uint32_t)sizeof(uint64_t) : 0);

	if (class == TW_EAGER_SLOT)
		return len - 1 < TW_SHORT_MAX;
	if (tw_likely(all <= TW_RING_INLINE))
		return true;
	return len <= TW_FAST_MAX && tw_ring_open_mid(txq, all);
}

/* Writes a message for which tw_eager_fits() is true. imm: its immediate data, or NULL. */
static tw_inline void tw_eager_write(struct tw_ring_tx *txq, enum tw_eager_class class,
				     const void *data, uint32_t len, uint64_t match,
				     const uint64_t *imm)
{
	uint32_t extra = imm ? (uint32_t)sizeof(*imm) : 0;
	bool more = class == TW_EAGER_ANY && tw_unlikely(len > TW_SHORT_MAX);
	bool bytes = more && len + extra > TW_RING_INLINE;
	struct tw_slot *s = tw_ring_slot_or_token(txq, bytes ? 0 : len + extra);
	uint8_t *to = bytes ? tw_ring_take_bytes(txq, len + extra) : s->data;

	if (class == TW_EAGER_SLOT)
		tw_assume(len <= TW_SHORT_MAX);
	txq->payload += len;
	s->hdr = tw_hdr_make(TW_EAGER, imm ? TW_FLAG_IMM : 0, 0, len, match);
	if (imm) {
		uint64_t word = htole64(*imm);

		memcpy(to, &word, sizeof(word));
	}
	if (class == TW_EAGER_ANY && len > TW_COPY_SHORT)
		tw_copy_over(txq->distance.far, to + extra, data, len);
	else
		tw_copy(to + extra, data, len);
	if (class == TW_EAGER_ANY && (more || !len)) /* an empty message costs one less */
		txq->lines += tw_credit_cost(len) - TW_FAST_COST;
	tw_opaque(s); /* so that the probe keeps no register: its operands are in memory */
	tw_trace_probe(TW_TRACE_EAGER, txq->peer, s->hdr.match, len, NULL);
	tw_ring_stamp(txq, s, len + extra);
}

/* tw_inject(), inlined for a message of one slot. */
static tw_inline bool tw_inject_slot(struct tw_ep *ep, const void *data, uint32_t len,
				     uint64_t match, struct tw_addr to)
{
	struct tw_ring_tx *txq = tw_fast_txq(ep, to);

	if (tw_unlikely(!txq) || tw_unlikely(!tw_eager_fits(txq, TW_EAGER_SLOT, len, false)))
		return tw_inject(ep, data, len, match, to, NULL);
	tw_eager_write(txq, TW_EAGER_SLOT, data, len, match, NULL);
	if (tw_unlikely(tw_fast_asleep(txq)))
		tw_fast_wake(txq);
	return true;
}

/*
 * Makes a receive of one piece, which tw_match_post() is to post: no message waits that it could
 * meet. There is a request.
 */
static tw_inline struct tw_req *tw_recv_prepare(struct tw_ep *ep, void *data, uint32_t len,
						uint64_t key, uint64_t mask)
{
	struct tw_req *r = tw_req_init(tw_req_take(ep), TW_RECV, data, len);

	r->outcome = tw_req_posted.outcome;
	r->match = r->posted.key = key;
	r->posted.mask = mask;
	tw_trace_probe(TW_TRACE_POSTED, 0, key, len, r);
	ep->counters[TW_C_RECV_POSTED]++;
	ep->gauges[TW_G_POSTED]++;
	return r;
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

/* The next poll must do more than look at the rings. */
static inline bool tw_poll_slow_path(const struct tw_ep *ep)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;

	return ep->polled | (rxqs->n - rxqs->nactive) | ep->host.state | ep->slow_path |
	       atomic_load_explicit(&ep->slot->requested, memory_order_relaxed);
}

/* The poll of this number is the provider's. */
static inline bool tw_poll_full(uint64_t polls)
{
	return !(polls & (TW_RXQ_POLLS - 1));
}

/* The poll of this number is to be shown, or is the provider's. */
static inline bool tw_poll_shows(uint64_t polls)
{
	return tw_unlikely(!(polls & (TW_RXQ_SHOWS - 1)));
}

/* False: it is the provider's. */
static inline bool tw_poll_shown(const struct tw_ep *ep, uint64_t polls)
{
	if (tw_poll_full(polls))
		return false;
	if (tw_poll_shows(polls))
		tw_rings_show_poll(ep->host.rxqs.rx, ep->host.rxqs.nactive, tw_clock());
	return true;
}

/*
 * The first fast poll after a message does not look at the rings if no receive is left: it would
 * take the next slot from its writer, who mostly is about to write it (doc/decisions.md, 162).
 */
static inline bool tw_poll_spares(struct tw_ep *ep)
{
	bool came = ep->came;

	ep->came = false;
	return came && !ep->gauges[TW_G_POSTED];
}

/* The fast poll, which finds nothing. False: there may be something, call tw_progress(). */
static inline bool tw_fast_poll_empty(struct tw_ep *ep)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;
	struct tw_ring_rx **rx = rxqs->rx, **end = rx + rxqs->nactive;
	uint64_t polls = tw_polls(ep) + 1;

	if (!tw_poll_shown(ep, polls))
		return false;
	if (!tw_poll_spares(ep))
		for (; rx != end; rx++)
			if (!tw_ring_poll_empty(*rx, &rxqs->dense))
				return false;
	tw_poll_count(ep, polls);
	return true;
}

/* The fast poll, which publishes itself if due and takes packets. Returns as tw_progress(). */
unsigned tw_progress_usual(struct tw_ep *ep);

/*
 * Takes a message that was claimed and is whole: its memory is the caller's, who returns it by
 * tw_unexp_msg_put().
 */
tw_shared void tw_unexp_take(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_peer *p = u->peer;

	tw_trace_taken(ep, u, NULL);
	if (tw_unlikely(u->sync))
		tw_unexp_acknowledge(u);
	ep->counters[TW_C_UNEXPECTED_MATCHED]++;
	ep->counters[TW_C_RECV_DONE]++;
	ep->counters[TW_C_RECV_BYTES] += u->len;
	ep->gauges[TW_G_UNEXP_BYTES] -= u->len;
	p->numsgs--;
	if (tw_likely(u->state == TW_U_WHOLE && p->state == TW_PEER_UP))
		tw_credits_release(p, tw_credit_cost(u->len));
}

/* Makes a receive, complete, of a message that waits: whole, without a reply, and not longer. */
static inline struct tw_req *tw_recv_unexpected(struct tw_ep *ep, struct tw_unexp_msg *u,
						void *data)
{
	struct tw_req *r = tw_req_take(ep);

	tw_req_succeeded(r, &u->peer->addr, u->unexp.match, u->len);
	tw_list_add_tail(&ep->done, &r->link);
	tw_copy(data, u->data, u->len);
	ep->counters[TW_C_RECV_POSTED]++;
	tw_unexp_unqueue(ep, u);
	tw_unexp_take(ep, u);
	tw_unexp_msg_put(ep, u);
	return r;
}

#endif /* TW_FAST_H */
