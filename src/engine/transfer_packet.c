/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of transfers: those that arrive, and when what is due is sent. */
#include <string.h>

#include "engine/engine.h"

static void return_credits(struct tw_peer *p)
{
	while (tw_credits_due(p)) {
		uint16_t n = tw_take_credits(p);

		if (p->link->provider->send(p->link, TW_SEND_CONTROL,
					    tw_hdr_make(TW_CREDIT, 0, n, 0, 0), NULL, 0,
					    0) == TW_OK)
			continue;
		p->unreturned += n;
		p->used += n;
		return;
	}
}

void tw_tell(struct tw_peer *p, uint32_t n)
{
	p->tell += n;
	tw_peer_work(p);
}

static bool send_told(struct tw_peer *p)
{
	if (p->link->provider->send(p->link, TW_SEND_CONTROL,
				    tw_hdr_make(TW_TELL, 0, 0, p->tell, 0), NULL, 0, 0) != TW_OK)
		return false;
	p->ep->counters[TW_C_ACK_SENT]++;
	p->tell = 0;
	return true;
}

bool tw_transfer_flush(struct tw_peer *p)
{
	bool moved = false;

	while (!tw_list_empty(&p->replying) &&
	       tw_transfer_reply(p, tw_list_first(&p->replying, struct tw_req, link)))
		moved = true;
	if (!tw_list_empty(&p->pulling))
		moved |= tw_transfer_pull(p);
	if (!tw_list_empty(&p->pushing))
		moved |= tw_transfer_push(p);
	if (tw_unlikely(tw_tells(p)))
		moved |= send_told(p);
	return_credits(p);
	return moved;
}

/* Arrival -------------------------------------------------------------------- */

static enum tw_err clear_to_send(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr,
				 const void *data, uint32_t len)
{
	if (!tw_transfer_takes(r, TW_ON_CTS) || len != sizeof(r->remote) ||
	    tw_hdr_len(hdr) > r->len || !tw_hdr_len(hdr))
		return TW_EPROTO;
	memcpy(&r->remote, data, sizeof(r->remote));
	tw_transfer_forget(p, r);
	r->proto = TW_PROTO_COPY;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = 0;
	return tw_transfer_step(p, r, TW_ON_CTS);
}

static enum tw_err pushed(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr, const void *data,
			  uint32_t len)
{
	if (!tw_transfer_takes(r, TW_ON_DATA) || tw_hdr_len(hdr) != r->at || !len ||
	    len > r->xfer_len - r->at)
		return TW_EPROTO;
	tw_req_scatter(r, r->at, data, len);
	r->at += len;
	return tw_transfer_step(p, r, r->at < r->xfer_len ? TW_ON_DATA : TW_ON_MOVED);
}

static enum tw_err share(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr, const void *data,
			 uint32_t len)
{
	struct tw_share s;

	/* A put that is not done by us here would end after this send could. */
	if (!p->link->by_cpu || !tw_transfer_takes(r, TW_ON_SHARE) || len != sizeof(s))
		return TW_EPROTO;
	memcpy(&s, data, sizeof(s));
	if (tw_hdr_len(hdr) > r->len || s.from >= tw_hdr_len(hdr))
		return TW_EPROTO;
	r->proto = TW_PROTO_SPLIT;
	r->remote = s.ref;
	r->remote_address = s.address - s.from;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = s.from;
	return tw_transfer_step(p, r, s.from ? TW_ON_SHARE : TW_ON_SHARE_ALL);
}

static enum tw_err told(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_ep *ep = p->ep;

	if (!TW_USES_TELL || !ep->taker || !ep->taker->told)
		return TW_EPROTO;
	ep->taker->told(ep, p, tw_hdr_len(hdr));
	return TW_OK;
}

/* Packets that name a request. */
static enum tw_err for_request(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr,
			       const void *data, uint32_t len)
{
	bool ok = tw_hdr_flags(hdr) == TW_DONE_OK;

	switch (tw_hdr_type(hdr)) {
	case TW_CTS:
		return clear_to_send(p, r, hdr, data, len);
	case TW_DATA:
		return pushed(p, r, hdr, data, len);
	case TW_DONE:
		return tw_transfer_step(p, r, ok ? TW_ON_DONE : TW_ON_DONE_FAILED);
	case TW_ACK:
		return tw_transfer_step(p, r, TW_ON_ACK);
	case TW_SHARE:
		return share(p, r, hdr, data, len);
	default:
		return tw_transfer_step(p, r, ok ? TW_ON_PUT : TW_ON_PUT_FAILED);
	}
}

enum tw_err tw_transfer_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			       uint32_t len)
{
	struct tw_req *r;

	switch (tw_hdr_type(hdr)) {
	case TW_CTS:
	case TW_DATA:
	case TW_DONE:
	case TW_ACK:
	case TW_SHARE:
	case TW_PUT:
		r = tw_req_named(p, hdr.match);
		if (r)
			return for_request(p, r, hdr, payload, len);
		/* A send that was asked back need not have waited for its end. */
		return tw_hdr_type(hdr) == TW_ACK && p->asked ? TW_OK : TW_EPROTO;
	case TW_CREDIT:
		return TW_OK;
	case TW_TELL:
		return told(p, hdr);
	case TW_CANCEL:
		return TW_USES_SYNC ? tw_withdraw_asked(p, hdr, payload, len) : TW_EPROTO;
	case TW_CANCELLED:
		return TW_USES_SYNC ? tw_withdraw_answered(p, hdr) : TW_EPROTO;
	default:
		return TW_EPROTO;
	}
}
