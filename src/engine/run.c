/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run: messages of the short way (quick.h) that lie in a ring one after the other. Credits and
 * counters of those that meet posted receives are settled once, at the end. The others join the
 * unexpected queue. The first packet that is anything else ends the run, and goes through
 * tw_recv_packet().
 */
#include <endian.h>
#include <string.h>

#include "engine/match_internal.h"
#include "engine/quick.h"
#include "engine/recv.h"

/*
 * True if the slot holds the next packet of the ring, and that is a whole message that
 * returns no credits. Stamp and header are the peer's: each is read once, and must agree.
 */
static inline bool holds_short(const struct tw_ring_rx *rx, const struct tw_slot *s,
			       struct tw_hdr *hdr)
{
	/* [ring-stamp] */
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
	uint64_t what = s->hdr.what, match = s->hdr.match;
	uint32_t len;

	/* Or they might be read again where they are used. */
	tw_opaque(what);
	tw_opaque(match);
	*hdr = (struct tw_hdr){what, match};
	len = tw_hdr_len(*hdr);
	return stamp == tw_stamp(rx->side, rx->tail + 1, len) && (uint32_t)hdr->what == TW_EAGER &&
	       len <= TW_SHORT_SEND;
}

static inline struct tw_slot *next_short(struct tw_ring_rx *rx, struct tw_hdr *hdr)
{
	struct tw_slot *s = &rx->slots[rx->tail & rx->mask];

	if (tw_likely(holds_short(rx, s, hdr)))
		return s;
	s = rx->token;
	return s && holds_short(rx, s, hdr) ? s : NULL;
}

/* The receive that a message meets, if all of it has a place there; still posted. */
static inline struct tw_req *receive_for(struct tw_ep *ep, struct tw_match *m, struct tw_hdr hdr,
					 struct tw_match_spot *spot)
{
	struct tw_posted *posted = tw_match_look(m, hdr.match, spot);
	struct tw_req *r;

	if (tw_unlikely(!posted))
		return NULL;
	r = tw_container(posted, struct tw_req, posted);
	if (tw_likely(r->outcome == tw_req_posted.outcome))
		return tw_hdr_len(hdr) <= r->len ? r : NULL;
	return r->outcome == tw_req_posted_claim.outcome && tw_recv_room(ep, r, tw_hdr_len(hdr))
		       ? r
		       : NULL;
}

static void settle(struct tw_peer *p, struct tw_list *done, unsigned n, uint32_t cost,
		   uint64_t bytes)
{
	struct tw_ep *ep = p->ep;

	done->prev->next = done;
	tw_list_splice_tail(&ep->done, done);
	ep->events++;
	ep->counters[TW_C_RECV_DONE] += n;
	ep->counters[TW_C_RECV_BYTES] += bytes;
	ep->gauges[TW_G_POSTED] -= n;
	p->show->msgs_received += n;
	p->used += cost;
	tw_credits_release(p, cost);
	/* A handler must see messages at once. */
	p->link->hold = !ep->gauges[TW_G_POSTED] && !ep->unexpected;
}

static tw_inline void deliver(struct tw_ring_rx *rx, const struct tw_slot *s, uint32_t len,
			      void *to)
{
	tw_copy(to, tw_ring_data(rx, s, len), len);
	tw_ring_advance(rx, s, len);
}

/* Takes messages that meet posted receives. */
static unsigned run_posted(struct tw_peer *p, struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_ep *ep = p->ep;
	struct tw_match *m = ep->match;
	struct tw_match_spot spot = {0};
	struct tw_list done = {&done, &done}, *last = &done;
	struct tw_hdr hdr;
	struct tw_slot *s;
	struct tw_req *r;
	uint32_t room = p->window - p->used, cost = 0;
	uint64_t bytes = 0;
	unsigned n = 0;

	while (n < budget && (s = next_short(rx, &hdr))) {
		uint32_t len = tw_hdr_len(hdr);
		bool small = len <= TW_RING_INLINE;

		/* An empty one costs one less. */
		cost += tw_likely(small) ? TW_QUICK_COST - !len : tw_credit_cost(len);
		if (tw_unlikely(cost > room) || !(r = receive_for(ep, m, hdr, &spot))) {
			cost -= tw_credit_cost(len);
			break;
		}
		tw_match_take(m, &r->posted, &spot);
		/* Two copies, so that each asks less. */
		if (tw_likely(small))
			deliver(rx, s, len, r->seg.ptr);
		else
			deliver(rx, s, len, r->seg.ptr);
		r->outcome ^= tw_req_posted.outcome ^ tw_req_ok.outcome;
		r->match = hdr.match;
		r->msg_len = len;
		tw_addr_copy(&r->source, &p->addr);
		last->next = &r->link;
		r->link.prev = last;
		last = &r->link;
		bytes += len;
		n++;
	}
	done.prev = last;
	if (n)
		settle(p, &done, n, cost, bytes);
	return n;
}

static inline bool meets_none(struct tw_ep *ep, struct tw_hdr hdr)
{
	struct tw_match_spot spot = {0};

	return !ep->gauges[TW_G_POSTED] ||
	       (!tw_match_look_anew(ep->match, hdr.match, &spot) && !spot.unclear);
}

/* Takes messages that meet no receive. A user's handler may do anything, so they are not for it. */
static unsigned run_unexpected(struct tw_peer *p, struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_ep *ep = p->ep;
	struct tw_hdr hdr;
	struct tw_slot *s;
	unsigned n = 0;

	if (tw_unlikely(ep->unexpected != ep->iface->unexpected))
		return 0;
	while (n < budget && (s = next_short(rx, &hdr)) && meets_none(ep, hdr)) {
		uint32_t len = tw_hdr_len(hdr), cost = tw_credit_cost(len);

		if (tw_unlikely(cost > p->window - p->used) ||
		    tw_unexp_whole(p, hdr, tw_ring_data(rx, s, len), len, cost) != TW_OK)
			break;
		tw_ring_advance(rx, s, len);
		n++;
	}
	return n;
}

/* The next packet if that is a whole message, with immediate data or without. */
static struct tw_slot *next_qualified(struct tw_ring_rx *rx, bool imm, struct tw_hdr *hdr,
				      uint32_t *extra)
{
	struct tw_slot *s = tw_ring_next(rx);
	uint64_t stamp, what, match;

	if (!s)
		return NULL;
	stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);
	what = s->hdr.what, match = s->hdr.match;
	tw_opaque(what);
	tw_opaque(match);
	*hdr = (struct tw_hdr){what, match};
	*extra = (tw_hdr_flags(*hdr) & TW_FLAG_IMM) ? sizeof(uint64_t) : 0;
	if (((uint32_t)what & ~(TW_FLAG_IMM << 8)) != TW_EAGER || (*extra && !imm) ||
	    tw_hdr_len(*hdr) > TW_SHORT_SEND ||
	    stamp != tw_stamp(rx->side, rx->tail + 1, tw_hdr_len(*hdr) + *extra))
		return NULL;
	return s;
}

/* Takes messages that meet receives, where some are for one source only or have immediate data. */
static tw_noinline unsigned run_qualified(struct tw_peer *p, struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_ep *ep = p->ep;
	struct tw_list done = {&done, &done};
	struct tw_match *in;
	struct tw_hdr hdr;
	struct tw_slot *s;
	uint32_t room = p->window - p->used, cost = 0, extra;
	uint64_t bytes = 0;
	unsigned n = 0;

	while (n < budget && (s = next_qualified(rx, ep->iface->imm, &hdr, &extra))) {
		struct tw_posted *q = tw_source_look(p, hdr.match, &in);
		uint32_t len = tw_hdr_len(hdr);
		const char *data;
		struct tw_req *r;

		if (!q || cost + tw_credit_cost(len) > room)
			break;
		r = tw_container(q, struct tw_req, posted);
		if (r->outcome != tw_req_posted.outcome || len > r->len)
			break;
		cost += tw_credit_cost(len);
		tw_match_unpost(in, q);
		data = tw_ring_data(rx, s, len + extra);
		r->extra = 0;
		if (extra) {
			r->extra = TW_X_IMM;
			memcpy(&r->imm, data, sizeof(r->imm));
			r->imm = le64toh(r->imm);
		}
		if (len)
			tw_copy(r->seg.ptr, data + extra, len);
		tw_ring_advance(rx, s, len + extra);
		tw_req_succeeded(r, &p->addr, hdr.match, len);
		tw_list_add_tail(&done, &r->link);
		bytes += len;
		n++;
	}
	if (n)
		settle(p, &done, n, cost, bytes);
	return n;
}

unsigned tw_recv_run(struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_peer *p = rx->link->peer;
	unsigned n = 0, got;

	if (tw_unlikely(p->rx_unusual))
		return p->rx_len ? 0 : run_qualified(p, rx, budget);
	do {
		got = p->ep->gauges[TW_G_POSTED] ? run_posted(p, rx, budget - n) : 0;
		if (!rx->link->hold)
			got += run_unexpected(p, rx, budget - n - got);
		n += got;
	} while (got && p->ep->gauges[TW_G_POSTED] && !rx->link->hold);
	return n || !p->ep->iface->imm ? n : run_qualified(p, rx, budget);
}

/* After a message that was not taken by a run. */
static tw_inline void took(struct tw_peer *p, struct tw_ring_rx *rx, uint32_t len)
{
	struct tw_ep *ep = p->ep;
	uint32_t cost = tw_credit_cost(len);

	if (tw_unlikely(tw_ring_publish(rx)))
		p->link->provider->wake(p->link);
	tw_poll_count(ep, tw_polls(ep) + 1);
	ep->counters[TW_C_RECV_DONE]++;
	ep->counters[TW_C_RECV_BYTES] += len;
	p->show->msgs_received++;
	p->used += cost;
	tw_credits_release(p, cost);
}

bool tw_recv_for(struct tw_ring_rx *rx, struct tw_req *r)
{
	struct tw_peer *p = rx->link->peer;
	struct tw_ep *ep = p->ep;
	struct tw_posted *posted = &r->posted;
	struct tw_hdr hdr;
	struct tw_slot *s;
	uint32_t len;

	if (tw_unlikely(p->rx_unusual || tw_in_handler(ep) || !tw_match_is_first(ep->match, posted)))
		return false;
	s = next_short(rx, &hdr);
	len = tw_hdr_len(hdr);
	if (tw_unlikely(!s || (hdr.match & posted->mask) != posted->key || len > r->len ||
			tw_credit_cost(len) > p->window - p->used))
		return false;
	tw_match_unlist(ep->match, posted);
	deliver(rx, s, len, r->seg.ptr);
	tw_req_succeeded(r, &p->addr, hdr.match, len);
	ep->gauges[TW_G_POSTED]--;
	took(p, rx, len);
	return true;
}

struct tw_unexp_msg *tw_recv_direct(struct tw_ep *ep, const struct tw_addr *from, uint64_t match)
{
	struct tw_peer *p = tw_peer_named(ep, *from);
	struct tw_unexp_msg *u;
	struct tw_ring_rx *rx;
	struct tw_hdr hdr;
	struct tw_slot *s;
	uint32_t len;

	if (tw_unlikely(!p || p->state != TW_PEER_UP || !p->link->lane || p->rx_unusual ||
			tw_poll_unusual(ep) || !tw_poll_shown(ep, tw_polls(ep) + 1)))
		return NULL;
	rx = p->link->lane->back;
	s = next_short(rx, &hdr);
	len = tw_hdr_len(hdr);
	if (!s || hdr.match != match || tw_credit_cost(len) > p->window - p->used ||
	    tw_unlikely(!(u = tw_unexp_msg_get(ep, len))))
		return NULL;
	u->len = len;
	tw_copy(u->data, tw_ring_data(rx, s, len), len);
	tw_ring_advance(rx, s, len);
	took(p, rx, len);
	return u;
}
