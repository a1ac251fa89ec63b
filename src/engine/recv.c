/* SPDX-License-Identifier: BSD-2-Clause */
/* The receiving side: arriving messages match posted receives or wait for them. */
#include <endian.h>
#include <string.h>

#include "engine/recv.h"
#include "engine/trace.h"
#include "engine/window.h"

bool tw_recv_alloc(struct tw_ep *ep, struct tw_req *r, uint32_t len)
{
	struct tw_unexp_msg *u = tw_unexp_msg_get(ep, len);

	if (!u)
		return false;
	r->seg.ptr = u->data;
	r->seg.len = r->len = len;
	u->len = len;
	tw_list_init(&u->unexp.all);
	return true;
}

void tw_recv_post_from(struct tw_ep *ep, struct tw_req *r, uint64_t key, uint64_t mask,
		       struct tw_source *from)
{
	struct tw_unexp_msg *u = from ? tw_unexp_find_from(ep, key, mask, from->where)
				      : tw_unexp_find(ep, key, mask);

	ep->counters[TW_C_RECV_POSTED]++;
	if (u && u->state == TW_U_ANNOUNCED && (r->flags & TW_R_CLAIM) &&
	    !tw_recv_alloc(ep, r, u->len)) {
		tw_req_complete(ep, r, TW_S_NO_RESOURCES);
		return;
	}
	if (u) {
		tw_unexp_unqueue(ep, u);
		tw_unexp_receive(ep, u, r);
		return;
	}
	r->posted.key = key;
	r->posted.mask = mask;
	r->match = key;
	r->flags |= TW_R_POSTED;
	ep->gauges[TW_G_POSTED]++;
	tw_trace_step(ep, TW_TRACE_POSTED, NULL, r, r->len, 0);
	if (from)
		tw_source_post(ep, r, from);
	else
		tw_match_post(ep->match, &r->posted);
}

void tw_recv_post(struct tw_ep *ep, struct tw_req *r, uint64_t key, uint64_t mask)
{
	tw_recv_post_from(ep, r, key, mask, NULL);
}

bool tw_recv_cancel(struct tw_ep *ep, struct tw_req *r)
{
	if (!(r->flags & TW_R_POSTED))
		return false;
	tw_match_unpost(r->extra & TW_X_DIRECTED ? r->from->match : ep->match, &r->posted);
	r->flags &= (uint8_t)~TW_R_POSTED;
	ep->gauges[TW_G_POSTED]--;
	ep->counters[TW_C_RECV_CANCELLED]++;
	return true;
}

/* The receive that a message meets; its own source's receives are in one order with the others. */
static inline struct tw_posted *take_matching(struct tw_peer *p, uint64_t match)
{
	return tw_unlikely(p->directed) ? tw_source_take(p, match)
					: tw_match_take_posted(p->ep->match, match);
}

static inline struct tw_req *take_posted(struct tw_peer *p, uint64_t match, uint32_t len)
{
	struct tw_ep *ep = p->ep;
	struct tw_posted *q;

	while ((q = take_matching(p, match))) {
		struct tw_req *r = tw_container(q, struct tw_req, posted);

		ep->gauges[TW_G_POSTED]--;
		if (tw_likely(!(r->flags & TW_R_CLAIM) || tw_recv_alloc(ep, r, len)))
			return r;
		/* The message stays for a later one. */
		r->flags &= (uint8_t)~TW_R_POSTED;
		tw_req_complete(ep, r, TW_S_NO_RESOURCES);
	}
	return NULL;
}

static void keep_imm(struct tw_unexp_msg *u, const struct tw_peer *p, struct tw_hdr hdr)
{
	if (tw_likely(!(tw_hdr_flags(hdr) & TW_FLAG_IMM)))
		return;
	u->has_imm = true;
	u->imm = p->rx_imm;
}

/* Stores a message, or its first part, that matches no receive. */
static tw_noinline enum tw_err recv_unexpected(struct tw_peer *p, struct tw_hdr hdr,
					       const char *data, uint32_t len, bool sync,
					       struct tw_ref ref)
{
	bool whole = len == tw_hdr_len(hdr);
	struct tw_unexp_msg *u =
		tw_unexp_new(p, hdr, tw_hdr_len(hdr), whole ? TW_U_WHOLE : TW_U_PART);

	if (!u)
		return TW_AGAIN;
	tw_ring_copy(p->link->txq, u->data, data, len);
	u->have = len;
	u->sync = sync;
	u->unexp.name = sync ? tw_unexp_name(p, ref) : 0;
	keep_imm(u, p, hdr);
	p->used += tw_credit_cost(u->len);
	p->rx_unexp = whole ? NULL : u;
	p->rx_at = len;
	p->rx_len = whole ? 0 : u->len;
	tw_trace_unexpected(p, u);
	tw_unexp_queue(p->ep, u);
	return TW_OK;
}

/* Takes the immediate data off the front of a payload. False if it does not belong there. */
static bool take_imm(struct tw_peer *p, const char **data, uint32_t *len)
{
	if (!p->ep->iface->imm || *len < sizeof(p->rx_imm))
		return false;
	memcpy(&p->rx_imm, *data, sizeof(p->rx_imm));
	p->rx_imm = le64toh(p->rx_imm);
	*data += sizeof(p->rx_imm);
	*len -= (uint32_t)sizeof(p->rx_imm);
	return true;
}

static bool too_long(const struct tw_ep *ep, uint32_t len)
{
	return ep->iface->max_len && len > ep->iface->max_len;
}

static enum tw_err recv_eager(struct tw_peer *p, struct tw_hdr hdr, const char *data, uint32_t len)
{
	struct tw_ep *ep = p->ep;
	bool sync = TW_USES_SYNC && (tw_hdr_flags(hdr) & TW_FLAG_SYNC);
	bool imm = tw_hdr_flags(hdr) & TW_FLAG_IMM;
	struct tw_ref ref = {0, 0};
	struct tw_req *r;

	if (tw_unlikely(sync)) {
		if (len < sizeof(ref))
			return TW_EPROTO;
		memcpy(&ref, data, sizeof(ref));
		data += sizeof(ref);
		len -= sizeof(ref);
	}
	if (tw_unlikely(imm && !take_imm(p, &data, &len)))
		return TW_EPROTO;
	if (tw_unlikely(len > tw_hdr_len(hdr) || p->rx_len || (len == 0 && tw_hdr_len(hdr)) ||
			tw_hdr_len(hdr) >= UINT32_MAX / 2 ||
			tw_credit_cost(tw_hdr_len(hdr)) > p->window - p->used ||
			too_long(ep, tw_hdr_len(hdr))))
		return TW_EPROTO;
	r = take_posted(p, hdr.match, tw_hdr_len(hdr));
	if (!r)
		return recv_unexpected(p, hdr, data, len, sync, ref);
	tw_trace_met(p, len == tw_hdr_len(hdr) ? TW_TRACE_RECEIVED : TW_TRACE_MET, hdr.match,
		     tw_hdr_len(hdr), r);
	tw_recv_bind(r, p, hdr.match, tw_hdr_len(hdr));
	tw_recv_imm(r, imm, p->rx_imm);
	tw_req_scatter(r, 0, data, tw_min(len, r->xfer_len), p->link->txq);
	p->used += tw_credit_cost(tw_hdr_len(hdr));
	p->show->msgs_received++;
	if (len == tw_hdr_len(hdr)) {
		tw_recv_eager_done(p, r, sync, ref);
		return TW_OK;
	}
	p->rx_req = r;
	r->flags |= sync ? TW_R_SYNC : 0;
	r->remote = ref;
	p->rx_at = len;
	p->rx_len = tw_hdr_len(hdr);
	return TW_OK;
}

/*
 * A short message sent without credit; its sender waits for the match. The window grows by
 * it, and shrinks when it is taken.
 */
static enum tw_err recv_beyond(struct tw_peer *p, struct tw_hdr hdr, const char *data, uint32_t len)
{
	uint32_t cost = tw_credit_cost(tw_hdr_len(hdr));
	enum tw_err err;

	if (!(tw_hdr_flags(hdr) & TW_FLAG_SYNC) || tw_hdr_len(hdr) > TW_SMALL_MAX)
		return TW_EPROTO;
	p->window += cost;
	err = recv_eager(p, hdr, data, len);
	if (err != TW_OK)
		p->window -= cost;
	return err;
}

static enum tw_err recv_fragment(struct tw_peer *p, const char *data, uint32_t len)
{
	struct tw_req *r = p->rx_req;
	struct tw_unexp_msg *u = p->rx_unexp;

	if (!p->rx_len || !len || len > p->rx_len - p->rx_at)
		return TW_EPROTO;
	if (r && p->rx_at < r->xfer_len)
		tw_req_scatter(r, p->rx_at, data, tw_min(len, r->xfer_len - p->rx_at),
			       p->link->txq);
	if (u) {
		tw_ring_copy(p->link->txq, u->data + p->rx_at, data, len);
		u->have = p->rx_at + len;
	}
	p->rx_at += len;
	if (p->rx_at < p->rx_len)
		return TW_OK;
	p->rx_req = NULL;
	p->rx_unexp = NULL;
	p->rx_len = 0;
	if (u) {
		u->state = TW_U_WHOLE;
		p->ep->events++;
		if (p->ep->iface->whole)
			p->ep->iface->whole(p->ep, u, NULL);
	}
	if (r) {
		tw_trace_ended(p->ep, r);
		tw_recv_eager_done(p, r, tw_is_sync(r), r->remote);
	}
	return TW_OK;
}

static enum tw_err recv_announced(struct tw_peer *p, struct tw_hdr hdr, const void *data,
				  uint32_t len)
{
	struct tw_rts rts;
	struct tw_req *r;
	struct tw_unexp_msg *u;

	const char *key = (const char *)data + sizeof(rts);
	bool imm = tw_hdr_flags(hdr) & TW_FLAG_IMM;

	if (len < sizeof(rts) || p->rx_len || too_long(p->ep, tw_hdr_len(hdr)))
		return TW_EPROTO;
	memcpy(&rts, data, sizeof(rts));
	len -= (uint32_t)sizeof(rts);
	if ((imm && !take_imm(p, &key, &len)) || (len && len != tw_key_size(p)))
		return TW_EPROTO;
	/* An address without its key is of no use. */
	if (len != tw_key_size(p))
		rts.address = 0;
	r = take_posted(p, hdr.match, tw_hdr_len(hdr));
	if (r) {
		p->show->msgs_received++;
		tw_trace_met(p, TW_TRACE_MET, hdr.match, tw_hdr_len(hdr), r);
		tw_recv_bind(r, p, hdr.match, tw_hdr_len(hdr));
		tw_recv_imm(r, imm, p->rx_imm);
		tw_transfer_start(p, r, rts.ref, rts.address, key, len);
		return TW_OK;
	}
	u = tw_unexp_new(p, hdr, len, TW_U_ANNOUNCED);
	if (!u)
		return TW_AGAIN;
	memcpy(u->data, key, len);
	u->key_len = len;
	u->unexp.name = tw_unexp_name(p, rts.ref);
	u->address = rts.address;
	keep_imm(u, p, hdr);
	tw_trace_unexpected(p, u);
	tw_unexp_queue(p->ep, u);
	return TW_OK;
}

enum tw_err tw_recv_packet(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			   uint32_t len)
{
	struct tw_peer *p = link->peer;
	enum tw_err err;

	switch (tw_hdr_type(hdr)) {
	case TW_EAGER:
		err = TW_USES_SYNC && (tw_hdr_flags(hdr) & TW_FLAG_BEYOND)
			      ? recv_beyond(p, hdr, payload, len)
			      : recv_eager(p, hdr, payload, len);
		break;
	case TW_FRAG:
		err = recv_fragment(p, payload, len);
		break;
	case TW_RTS:
		err = recv_announced(p, hdr, payload, len);
		break;
	case TW_WINDOW:
		err = TW_USES_WINDOWS ? tw_window_packet(p, hdr, payload, len) : TW_EPROTO;
		break;
	case TW_AM:
		err = tw_am_packet(p, hdr, payload, len);
		break;
	default:
		err = tw_transfer_packet(p, hdr, payload, len);
	}
	/* Only after the packet was taken: it may be offered again. */
	if (err == TW_OK && tw_hdr_credits(hdr) && !p->barred) {
		p->credits += tw_hdr_credits(hdr);
		if (tw_unlikely(!tw_list_empty(&p->sendq)))
			tw_peer_work(p);
	}
	/* It waits at the provider, which rings no doorbell for it again. */
	if (tw_unlikely(err == TW_AGAIN))
		tw_progress_request(p->ep);
	return err;
}
