/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine takes packets from a ring. Consecutive whole messages that meet posted receives are
 * taken in one batch, which accounts for credits and counters once. Other whole messages join
 * the unexpected queue. All other packets go through tw_recv_packet().
 */
#include <endian.h>
#include <string.h>

#include "engine/match_internal.h"
#include "engine/fast.h"
#include "engine/recv.h"

/* A whole message in the next slot of a ring. */
struct arrival {
	struct tw_slot *slot;
	struct tw_hdr hdr;
	uint32_t len;	/* of the message */
	uint32_t extra; /* of the immediate data before it */
};

/*
 * True if the slot holds the next packet of the ring, and that is a whole message that
 * returns no credits. Stamp and header are the peer's: each is read once, and must agree.
 */
static tw_inline bool slot_has_whole(const struct tw_ring_rx *rx, struct tw_slot *s, bool imm,
				     struct arrival *a)
{
	/* [ring-stamp] */
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
	uint64_t what = s->hdr.what, match = s->hdr.match;

	/* Or they might be read again where they are used. */
	tw_opaque(what);
	tw_opaque(match);
	a->slot = s;
	a->hdr = (struct tw_hdr){what, match};
	a->len = tw_hdr_len(a->hdr);
	a->extra = imm && (tw_hdr_flags(a->hdr) & TW_FLAG_IMM) ? sizeof(uint64_t) : 0;
	return stamp == tw_stamp(rx->side, rx->tail + 1, a->len + a->extra) &&
	       ((uint32_t)what & ~(imm ? TW_FLAG_IMM << 8 : 0u)) == TW_EAGER &&
	       a->len <= TW_FAST_MAX;
}

/* True if the next packet is a whole message. imm, a constant: perhaps with immediate data. */
static tw_inline bool ring_has_whole(struct tw_ring_rx *rx, bool imm, struct arrival *a)
{
	if (tw_likely(slot_has_whole(rx, &rx->slots[rx->tail & rx->mask], imm, a)))
		return true;
	return rx->token && slot_has_whole(rx, rx->token, imm, a);
}

static tw_inline const char *arrival_data(const struct tw_ring_rx *rx, const struct arrival *a)
{
	return tw_ring_data(rx, a->slot, a->len + a->extra);
}

static tw_inline void arrival_taken(struct tw_ring_rx *rx, const struct arrival *a)
{
	tw_ring_advance(rx, a->slot, a->len + a->extra);
}

/* Gives a message to the receive that it meets, which has left the matcher and is then complete. */
static tw_inline void batch_deliver(struct tw_ring_rx *rx, const struct tw_peer *p,
				    const struct arrival *a, bool imm, struct tw_req *r)
{
	const char *data = arrival_data(rx, a);

	tw_trace_probe(TW_TRACE_RECEIVED, p->addr.where, a->hdr.match, a->len, r);
	/* A receive that claims stays one. */
	r->outcome ^= tw_req_posted.outcome ^ tw_req_ok.outcome;
	r->match = a->hdr.match;
	r->msg_len = a->len;
	if (imm) {
		r->extra = a->extra ? TW_X_IMM : 0;
		if (a->extra) {
			memcpy(&r->imm, data, sizeof(r->imm));
			r->imm = le64toh(r->imm);
		}
	}
	tw_ring_copy(rx->back, r->seg.ptr, data + a->extra, a->len);
	arrival_taken(rx, a);
	tw_addr_copy(&r->other, &p->addr);
}

/* Settles credits and counters of this number of messages. */
static tw_inline void batch_account(struct tw_peer *p, unsigned n, uint32_t cost, uint64_t bytes)
{
	p->ep->counters[TW_C_RECV_DONE] += n;
	p->ep->counters[TW_C_RECV_BYTES] += bytes;
	p->show->msgs_received += n;
	p->used += cost;
	tw_credits_release(p, cost);
}

/* The posted receive that a message meets, if its memory holds the whole message. */
static tw_inline struct tw_req *receive_for(struct tw_ep *ep, struct tw_match *m,
					    const struct arrival *a, struct tw_match_spot *spot)
{
	struct tw_posted *posted = tw_match_look(m, a->hdr.match, spot);
	struct tw_req *r;

	if (tw_unlikely(!posted))
		return NULL;
	r = tw_container(posted, struct tw_req, posted);
	if (tw_likely(r->outcome == tw_req_posted.outcome))
		return a->len <= r->len ? r : NULL;
	return r->outcome == tw_req_posted_claim.outcome && tw_recv_alloc(ep, r, a->len) ? r : NULL;
}

/* The requests of a batch are complete. */
static tw_inline void batch_done(struct tw_peer *p, struct tw_list *done, unsigned n)
{
	struct tw_ep *ep = p->ep;

	done->prev->next = done;
	tw_list_splice_tail(&ep->done, done);
	ep->events++;
	ep->gauges[TW_G_POSTED] -= n;
	tw_recv_hold(p);
}

/* Takes messages that meet receives of a matcher, which has all that they could meet. */
static tw_inline unsigned batch_posted(struct tw_peer *p, struct tw_ring_rx *rx, struct tw_match *m,
				       bool imm, unsigned budget)
{
	struct tw_match_spot spot = {0};
	struct tw_list done = {&done, &done}, *last = &done;
	struct arrival a;
	struct tw_req *r;
	uint32_t room = p->window - p->used, cost = 0;
	uint64_t bytes = 0;
	unsigned n = 0, most = tw_min(budget, (unsigned)p->ep->gauges[TW_G_POSTED]);

	/*
	 * Stops when no receive is left: a look at the next slot would take its line from the
	 * writer, as in tw_poll_spares().
	 */
	while (n < most && ring_has_whole(rx, imm, &a)) {
		bool small = a.len <= TW_SHORT_MAX;

		/* An empty message costs one credit less. */
		cost += tw_likely(small) ? TW_FAST_COST - !a.len : tw_credit_cost(a.len);
		if (tw_unlikely(cost > room) || !(r = receive_for(p->ep, m, &a, &spot))) {
			cost -= tw_credit_cost(a.len);
			break;
		}
		tw_match_take(m, &r->posted, &spot);
		/* Two copies of this code, so that each has fewer tests. */
		if (tw_likely(small))
			batch_deliver(rx, p, &a, imm, r);
		else
			batch_deliver(rx, p, &a, imm, r);
		last->next = &r->link;
		r->link.prev = last;
		last = &r->link;
		bytes += a.len;
		n++;
	}
	done.prev = last;
	if (!n)
		return 0;
	batch_account(p, n, cost, bytes);
	batch_done(p, &done, n);
	return n;
}

static inline bool meets_none(struct tw_ep *ep, uint64_t match)
{
	struct tw_match_spot spot = {0};

	return !ep->gauges[TW_G_POSTED] ||
	       (!tw_match_look_anew(ep->match, match, &spot) && !spot.unclear);
}

/* Takes messages that meet no receive. Not for a user's handler, which may change anything. */
static unsigned batch_unexpected(struct tw_peer *p, struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_ep *ep = p->ep;
	struct arrival a;
	unsigned n = 0;

	if (tw_unlikely(p->rx_slow_path || ep->unexpected != ep->iface->unexpected))
		return 0;
	while (n < budget && ring_has_whole(rx, false, &a) && meets_none(ep, a.hdr.match)) {
		uint32_t cost = tw_credit_cost(a.len);

		if (tw_unlikely(cost > p->window - p->used) ||
		    tw_unexp_whole(p, a.hdr, arrival_data(rx, &a), a.len, cost) != TW_OK)
			break;
		arrival_taken(rx, &a);
		n++;
	}
	return n;
}

/* Takes a packet of any kind. *left: its provider must look at it. */
static unsigned batch_packet(struct tw_peer *p, struct tw_ring_rx *rx, struct tw_slot *s,
			     bool *left)
{
	struct tw_link *link = rx->link;
	struct tw_hdr hdr = s->hdr;
	uint32_t len;
	const void *payload = tw_ring_payload(rx, s, &len);
	enum tw_err err = payload ? tw_recv_packet(link, hdr, payload, len) : TW_EPROTO;

	/* It may have ended the link, whose memory stays until the provider's next progress. */
	if (tw_unlikely(p->link != link))
		return 0;
	if (tw_likely(err == TW_OK)) {
		tw_ring_advance(rx, s, len);
		return 1;
	}
	if (!payload && tw_ring_control(rx, s))
		return 1;
	/* Without memory the message stays in the ring for the next poll. */
	rx->refused = payload && err != TW_AGAIN;
	*left |= err != TW_AGAIN;
	return 0;
}

/* The matcher that has all receives that messages of a peer could meet; NULL: none is known. */
static inline struct tw_match *matcher_of(const struct tw_peer *p)
{
	return tw_likely(!p->rx_slow_path) ? p->ep->match : tw_source_matcher(p);
}

static inline unsigned batch_take_posted(struct tw_peer *p, struct tw_ring_rx *rx, bool imm,
					 unsigned budget)
{
	struct tw_match *m = p->ep->gauges[TW_G_POSTED] ? matcher_of(p) : NULL;

	if (!m)
		return 0;
	return imm ? batch_posted(p, rx, m, true, budget) : batch_posted(p, rx, m, false, budget);
}

/* Takes what begins with this slot. */
static inline unsigned take_packets(struct tw_peer *p, struct tw_ring_rx *rx, struct tw_slot *s,
				    unsigned budget, bool *left)
{
	uint32_t kind = (uint32_t)s->hdr.what; /* only a hint, as it is read again */
	unsigned n = 0;

	if (tw_likely(kind == TW_EAGER)) {
		n = batch_take_posted(p, rx, false, budget);
		if (!n)
			n = batch_unexpected(p, rx, budget);
	} else if (kind == (TW_EAGER | TW_FLAG_IMM << 8) && p->ep->iface->imm) {
		n = batch_take_posted(p, rx, true, budget);
	}
	return n ? n : batch_packet(p, rx, s, left);
}

unsigned tw_recv_ring(struct tw_ring_rx *rx, unsigned budget, bool *left)
{
	struct tw_link *link = rx->link;
	struct tw_peer *p = link->peer;
	unsigned n = 0, got;
	struct tw_slot *s;

	link->hold = false;
	while (n < budget && !link->hold && (s = tw_ring_next(rx))) {
		got = take_packets(p, rx, s, budget - n, left);
		if (!got)
			break;
		n += got;
		/* A writer that waits for space goes on meanwhile, and knows that this side polls. */
		if (tw_unlikely(rx->btail - rx->bpublished >= rx->max_payload / 2) &&
		    p->link == link) {
			tw_ring_show_poll(rx, tw_clock());
			if (tw_ring_publish(rx))
				link->provider->wake(link);
		}
	}
	/* The provider polls next: thus its other writers learn of a poll that takes time. */
	*left |= n >= budget;
	if (n && tw_unlikely(tw_ring_publish(rx)) && p->link == link)
		link->provider->wake(link);
	return n;
}

/* Continues after a message that was taken without a batch. */
static tw_inline void taken_alone(struct tw_peer *p, struct tw_ring_rx *rx, uint32_t len)
{
	if (tw_unlikely(tw_ring_publish(rx)))
		p->link->provider->wake(p->link);
	p->ep->came = true;
	tw_poll_count(p->ep, tw_polls(p->ep) + 1);
	batch_account(p, 1, tw_credit_cost(len), len);
}

static tw_inline struct tw_req *recv_alone(struct tw_peer *p, struct tw_ring_rx *rx, bool imm)
{
	struct tw_match *m = matcher_of(p);
	struct tw_posted *posted;
	struct arrival a;
	struct tw_req *r;

	if (tw_unlikely(!m || !ring_has_whole(rx, imm, &a)))
		return NULL;
	posted = tw_match_first(m, a.hdr.match);
	if (tw_unlikely(!posted))
		return NULL;
	r = tw_container(posted, struct tw_req, posted);
	if (tw_unlikely(r->outcome != tw_req_posted.outcome || a.len > r->len ||
			tw_credit_cost(a.len) > p->window - p->used))
		return NULL;
	tw_match_unlist(m, posted);
	batch_deliver(rx, p, &a, imm, r);
	p->ep->gauges[TW_G_POSTED]--;
	taken_alone(p, rx, a.len);
	return r;
}

struct tw_req *tw_recv_alone(struct tw_ring_rx *rx)
{
	struct tw_peer *p = rx->link->peer;

	return tw_likely(!tw_in_handler(p->ep)) ? recv_alone(p, rx, false) : NULL;
}

struct tw_req *tw_recv_alone_imm(struct tw_ring_rx *rx)
{
	return recv_alone(rx->link->peer, rx, true);
}

struct tw_unexp_msg *tw_recv_direct(struct tw_ep *ep, const struct tw_addr *from, uint64_t match)
{
	struct tw_peer *p = tw_peer_named(ep, *from);
	struct tw_unexp_msg *u;
	struct tw_ring_rx *rx;
	struct arrival a;

	if (tw_unlikely(!p || p->state != TW_PEER_UP || !p->link->txq || p->rx_slow_path ||
			tw_poll_slow_path(ep) || !tw_poll_shown(ep, tw_polls(ep) + 1)))
		return NULL;
	rx = p->link->txq->back;
	if (!ring_has_whole(rx, false, &a) || a.hdr.match != match ||
	    tw_credit_cost(a.len) > p->window - p->used ||
	    tw_unlikely(!(u = tw_unexp_msg_get(ep, a.len))))
		return NULL;
	u->len = a.len;
	tw_trace_probe(TW_TRACE_RECEIVED, from->where, match, a.len, u);
	tw_ring_copy(rx->back, u->data, arrival_data(rx, &a), a.len);
	arrival_taken(rx, &a);
	taken_alone(p, rx, a.len);
	return u;
}
