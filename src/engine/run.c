/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run: messages of the short way (quick.h) that lie in a ring one after the other and meet
 * posted receives. All that they have in common is settled once, at the end of the run. The
 * first packet that is anything else ends the run, and goes through tw_recv_packet().
 */
#include "engine/match_internal.h"
#include "engine/recv.h"

/*
 * True if the slot holds the next packet of the ring, and that is a whole message that
 * returns no credits. Stamp and header are the peer's: each is read once, and must agree.
 */
static inline bool holds_short(const struct tw_ring_rx *rx, const struct tw_slot *s,
			       struct tw_hdr *hdr)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);
	uint64_t what = s->hdr.what, match = s->hdr.match;
	uint32_t len;

	/* Or they might be read again where they are used. */
	tw_opaque(what);
	tw_opaque(match);
	*hdr = (struct tw_hdr){what, match};
	len = tw_hdr_len(*hdr);
	return stamp == tw_stamp(rx->side, rx->tail + 1, len) && (uint32_t)hdr->what == TW_EAGER &&
	       len - 1 < TW_SHORT_SEND;
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
static inline struct tw_req *receive_for(struct tw_ep *ep, struct tw_hdr hdr,
					 struct tw_match_spot *spot)
{
	struct tw_posted *posted = tw_match_look(ep->match, hdr.match, spot);
	struct tw_req *r;

	if (tw_unlikely(!posted))
		return NULL;
	r = tw_container(posted, struct tw_req, posted);
	return r->outcome == tw_req_posted.outcome && tw_hdr_len(hdr) <= r->len ? r : NULL;
}

static void settle(struct tw_peer *p, struct tw_list *done, unsigned n, uint32_t cost,
		   uint64_t bytes)
{
	struct tw_ep *ep = p->ep;

	tw_list_splice_tail(&ep->done, done);
	ep->events++;
	ep->counters[TW_C_RECV_DONE] += n;
	ep->counters[TW_C_RECV_BYTES] += bytes;
	ep->gauges[TW_G_POSTED] -= n;
	p->show->msgs_received += n;
	p->used += cost;
	tw_credits_release(p, cost);
	/* A handler must see messages at once. */
	ep->host.rxq_empty = !ep->gauges[TW_G_POSTED] && !ep->unexpected;
}

unsigned tw_recv_run(struct tw_link *link, struct tw_ring_rx *rx, unsigned budget)
{
	struct tw_peer *p = link->peer;
	struct tw_ep *ep = p->ep;
	struct tw_match_spot spot = {0};
	struct tw_list done = {&done, &done};
	struct tw_hdr hdr;
	struct tw_slot *s;
	struct tw_req *r;
	uint32_t room = p->window - p->used, cost = 0;
	uint64_t bytes = 0;
	unsigned n = 0;

	if (!ep->gauges[TW_G_POSTED] || p->rx_unusual)
		return 0;
	while (n < budget && (s = next_short(rx, &hdr)) && (r = receive_for(ep, hdr, &spot))) {
		uint32_t len = tw_hdr_len(hdr);

		if (tw_unlikely(cost + tw_credit_cost(len) > room))
			break;
		cost += tw_credit_cost(len);
		tw_match_take(ep->match, &r->posted, &spot);
		tw_copy(r->seg.ptr, tw_ring_data(rx, s, len), len);
		tw_ring_advance(rx, s, len);
		r->outcome = tw_req_ok.outcome;
		r->match = hdr.match;
		r->msg_len = len;
		tw_addr_copy(&r->source, &p->addr);
		tw_list_add_tail(&done, &r->link);
		bytes += len;
		n++;
	}
	if (n)
		settle(p, &done, n, cost, bytes);
	return n;
}
