/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages. The sender announces; the receiver, once it has a match, takes
 * the data from the sender's memory (direct.c), or asks for it (CTS, then DATA).
 * Replies are owed, never sent from inside an arrival: tw_rndv_flush() sends
 * them when there is room.
 */
#include <string.h>

#include "engine/engine.h"

#define PULL_MIN 8192	 /* a system call costs more than copying this twice */
#define SPLIT_MIN 32768	 /* the same, and a message more */
#define STILL_MIN 262144 /* from here on it pays to look twice whether the peer polls */
#define STILL_US 2	 /* who polls does so at least once in this time */
#define PUSH_PIECE (16 * 1024)
#define PUSH_BUDGET 16 /* pieces pushed in one go */

void tw_defer(struct tw_peer *p, struct tw_req *r, enum tw_deferred what)
{
	r->deferred = (uint8_t)what;
	tw_list_add_tail(&p->deferring, &r->link);
	tw_peer_work(p);
}

/*
 * Whether the peer polls now. Its announcement may have been the last call for a
 * while: it takes a poll after that to know.
 */
static bool still_polls(const struct tw_peer *p, uint32_t len)
{
	uint64_t start, end;

	/* Who is writing the rest of another will look when that is done. */
	if (p->shares)
		return true;
	if (!p->link->provider->polls(p->link, 0))
		return false;
	if (len < STILL_MIN)
		return true;
	start = tw_clock();
	end = start + tw_clock_us(STILL_US);
	do {
		if (p->link->provider->polls(p->link, start))
			return true;
		tw_cpu_relax();
	} while ((int64_t)(tw_clock() - end) < 0);
	return false;
}

/* While our program computes, one that only waits may as well write: it is woken for it. */
static bool waits_for_us(const struct tw_peer *p, uint32_t len)
{
	const struct tw_provider *ops = p->link->provider;

	return p->ep->in_background && len >= STILL_MIN && ops->waits && ops->waits(p->link);
}

/*
 * The side that idles moves the data whatever is faster; when both look, the
 * way that was measured to be faster.
 */
static enum tw_proto proto_for(struct tw_peer *p, struct tw_req *r, uint64_t address)
{
	unsigned protos = TW_PROTO_BIT(TW_PROTO_COPY) | TW_PROTO_BIT(TW_PROTO_GET),
		 set = p->ep->protos;
	enum tw_proto proto;

	if (!address || !p->link->can_get || set == TW_PROTO_BIT(TW_PROTO_COPY))
		return TW_PROTO_COPY;
	if (p->link->direct || set == TW_PROTO_BIT(TW_PROTO_GET) ||
	    (!still_polls(p, r->xfer_len) && !waits_for_us(p, r->xfer_len)))
		return TW_PROTO_GET;
	if (p->link->by_cpu && r->nsegs == 1 && r->xfer_len >= SPLIT_MIN && !p->cannot_put) {
		protos |= TW_PROTO_BIT(TW_PROTO_SPLIT);
		if (set == TW_PROTO_BIT(TW_PROTO_SPLIT))
			return TW_PROTO_SPLIT;
	}
	/* Here the program computes: the peer writes all of it, or one get does. */
	if (p->ep->in_background)
		return protos & TW_PROTO_BIT(TW_PROTO_SPLIT) ? TW_PROTO_SPLIT : TW_PROTO_GET;
	if (r->xfer_len < PULL_MIN)
		return TW_PROTO_COPY;
	proto = tw_choose(&p->choose, r->xfer_len, protos);
	/* Beside others, or behind them, its time tells nothing. */
	if (p->ep->nmoving == 1 && tw_choose_teaches(&p->choose, r->xfer_len))
		r->flags |= TW_R_SAMPLE;
	return proto;
}

/* The ways that TAGWIRE_RNDV allows. */
unsigned tw_rndv_protos(const char *name)
{
	static const uint8_t protos[] = {TW_ALL_PROTOS, TW_PROTO_BIT(TW_PROTO_COPY),
					 TW_PROTO_BIT(TW_PROTO_GET), TW_PROTO_BIT(TW_PROTO_SPLIT)};

	return protos[tw_settings_choice(name, TW_RNDV_CHOICES)];
}

void tw_rndv_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		   const void *key, uint32_t key_len)
{
	enum tw_proto proto;

	r->remote = ref;
	r->at = 0;
	r->status = TW_S_OK;
	r->flags |= TW_R_RNDV;
	if (!tw_direct_init(r, address, key, key_len))
		address = 0;
	tw_move_begin(p, r, true);
	if (r->xfer_len == 0) {
		tw_defer(p, r, TW_DEFER_DONE);
		return;
	}
	proto = proto_for(p, r, address);
	r->started = (r->flags & TW_R_SAMPLE) ? tw_clock() : 0;
	if (proto == TW_PROTO_COPY)
		tw_defer(p, r, TW_DEFER_CTS);
	else
		tw_direct_start(p, r, proto);
}

void tw_rndv_learn(struct tw_peer *p, const struct tw_req *r, enum tw_proto proto)
{
	if ((r->flags & TW_R_SAMPLE) && p->ep->nmoving == 1)
		tw_choose_sample(&p->choose, proto, r->xfer_len, tw_clock() - r->started);
}

void tw_rndv_received(struct tw_peer *p, struct tw_req *r)
{
	tw_move_end(p->ep, r);
	tw_direct_forget(p, r);
	if (r->status == TW_S_OK) {
		tw_recv_finish(p->ep, r);
		return;
	}
	r->xfer_len = 0;
	tw_req_complete(p->ep, r, (enum tw_status)r->status);
}

/* Sends what a receive owes; false when there is no room. */
static bool flush_deferred(struct tw_peer *p, struct tw_req *r)
{
	static const uint8_t types[] = {[TW_DEFER_ACK] = TW_ACK,
					[TW_DEFER_CTS] = TW_CTS,
					[TW_DEFER_DONE] = TW_DONE,
					[TW_DEFER_SHARE] = TW_SHARE};
	struct tw_share share = {{r->obj.index, r->obj.gen}, 0, r->until, 0};
	struct iovec iov = {&share, 0};
	uint8_t flags = r->deferred == TW_DEFER_DONE && r->status != TW_S_OK ? TW_DONE_FAILED
									     : TW_DONE_OK;
	struct tw_hdr hdr =
		tw_hdr_make(types[r->deferred], flags, 0, r->xfer_len, tw_ref_pack(r->remote));
	enum tw_send_class cls = TW_SEND_CONTROL;

	if (r->deferred == TW_DEFER_CTS)
		iov.iov_len = sizeof(share.ref);
	if (r->deferred == TW_DEFER_SHARE) {
		share.address = (uintptr_t)r->seg.ptr + r->until;
		iov.iov_len = sizeof(share);
	}
	/* What only ends a send waits until its program looks. */
	if (r->deferred == TW_DEFER_DONE || r->deferred == TW_DEFER_ACK)
		cls = TW_SEND_NOTICE;
	if (p->link->provider->send(p->link, cls, hdr, &iov, iov.iov_len > 0,
				    (uint32_t)iov.iov_len) != TW_OK)
		return false;
	tw_list_del(&r->link);
	switch (r->deferred) {
	case TW_DEFER_CTS:
		r->flags |= TW_R_DATA;
		p->ep->counters[TW_C_RNDV_PUSH]++;
		tw_list_add_tail(&p->waiting, &r->link);
		break;
	case TW_DEFER_SHARE:
		r->shared = true;
		p->shares++;
		r->deferred = TW_DEFER_NONE;
		tw_move(p, r, r->until > 0);
		tw_list_add_tail(&p->pulling, &r->link);
		break;
	case TW_DEFER_DONE:
		tw_rndv_received(p, r);
		break;
	default:
		if (!TW_USES_SYNC)
			break;
		p->ep->counters[TW_C_ACK_SENT]++;
		tw_recv_finish(p->ep, r);
	}
	return true;
}

static bool pay_first(struct tw_peer *p)
{
	struct tw_req *r = tw_list_first(&p->deferring, struct tw_req, link);

	if (TW_USES_SYNC && r->deferred >= TW_OWE_CANCEL)
		return tw_withdraw_pay(p, r);
	return flush_deferred(p, r);
}

/* One DATA packet; false when there is no room. */
static bool push(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[TW_MAX_SEGMENTS];
	uint32_t most = tw_min((uint32_t)PUSH_PIECE, p->link->max_payload), covered;
	uint32_t want = tw_min(most, r->xfer_len - r->at);
	struct tw_hdr hdr = tw_hdr_make(TW_DATA, 0, 0, r->at, tw_ref_pack(r->remote));
	enum tw_send_class cls = r->at + want == r->xfer_len ? TW_SEND_ENGINE : TW_SEND_PLAIN;
	unsigned n = tw_req_iov(r, r->at, want, iov, TW_MAX_SEGMENTS, &covered);

	if (p->link->provider->send(p->link, cls, hdr, iov, n, want) != TW_OK)
		return false;
	r->at += want;
	return true;
}

void tw_rndv_sent(struct tw_peer *p, struct tw_req *r, enum tw_status status)
{
	struct tw_ep *ep = p->ep;

	tw_list_del(&r->link);
	if (r->flags & TW_R_RNDV)
		tw_direct_forget(p, r);
	tw_move_end(ep, r);
	ep->gauges[TW_G_SENDS]--;
	r->xfer_len = status == TW_S_OK ? r->len : 0;
	tw_req_complete(ep, r, status);
}

static bool push_some(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = PUSH_BUDGET; budget > 0 && !tw_list_empty(&p->pushing);) {
		struct tw_req *r = tw_list_first(&p->pushing, struct tw_req, link);
		bool put = r->deferred == TW_DEFER_PUT;

		budget -= put ? PUSH_BUDGET / 2 : 1;
		if (!(put ? tw_direct_put(p, r) : push(p, r)))
			break;
		moved = true;
		if (!put && r->at == r->xfer_len)
			tw_rndv_sent(p, r, TW_S_OK);
	}
	return moved;
}

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

bool tw_rndv_flush(struct tw_peer *p)
{
	bool moved = false;

	while (!tw_list_empty(&p->deferring) && pay_first(p))
		moved = true;
	if (!tw_list_empty(&p->pulling))
		moved |= tw_direct_pull(p);
	if (!tw_list_empty(&p->pushing))
		moved |= push_some(p);
	if (tw_unlikely(tw_tells(p)))
		moved |= send_told(p);
	return_credits(p);
	return moved;
}

/* What arrives --------------------------------------------------------------- */

static enum tw_err clear_to_send(struct tw_peer *p, struct tw_hdr hdr, const void *data,
				 uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	if (!r || len != sizeof(struct tw_ref) || !tw_rndv_announced(r) ||
	    tw_hdr_len(hdr) > r->len || !tw_hdr_len(hdr))
		return TW_EPROTO;
	memcpy(&r->remote, data, sizeof(r->remote));
	tw_direct_forget(p, r);
	r->deferred = TW_DEFER_NONE;
	r->flags |= TW_R_DATA;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = 0;
	tw_move(p, r, true);
	tw_list_del(&r->link);
	tw_list_add_tail(&p->pushing, &r->link);
	tw_peer_work(p);
	return TW_OK;
}

static enum tw_err pushed(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_RECV);

	if (!r || !(r->flags & TW_R_DATA) || tw_hdr_len(hdr) != r->at || !len ||
	    len > r->xfer_len - r->at)
		return TW_EPROTO;
	tw_req_scatter(r, r->at, data, len);
	r->at += len;
	if (r->at < r->xfer_len)
		return TW_OK;
	tw_rndv_learn(p, r, TW_PROTO_COPY);
	tw_list_del(&r->link);
	tw_rndv_received(p, r);
	return TW_OK;
}

static enum tw_err taken(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	if (!r || !tw_rndv_announced(r))
		return TW_EPROTO;
	tw_rndv_sent(p, r, tw_hdr_flags(hdr) == TW_DONE_OK ? TW_S_OK : TW_S_ABORTED);
	return TW_OK;
}

static enum tw_err acknowledged(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	/* One that was asked back need not have waited for its end. */
	if (!r && p->asked)
		return TW_OK;
	/* Buffered: the whole message has left, so it can have been matched. */
	if (!r || !tw_is_sync(r) || !(r->flags & TW_R_BUFFERED))
		return TW_EPROTO;
	tw_rndv_sent(p, r, TW_S_OK);
	return TW_OK;
}

static enum tw_err told(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_ep *ep = p->ep;

	if (!TW_USES_TELL || !ep->taker || !ep->taker->told)
		return TW_EPROTO;
	ep->taker->told(ep, p, tw_hdr_len(hdr));
	return TW_OK;
}

enum tw_err tw_rndv_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload, uint32_t len)
{
	switch (tw_hdr_type(hdr)) {
	case TW_CTS:
		return clear_to_send(p, hdr, payload, len);
	case TW_DATA:
		return pushed(p, hdr, payload, len);
	case TW_DONE:
		return taken(p, hdr);
	case TW_ACK:
		return acknowledged(p, hdr);
	case TW_CREDIT:
		return TW_OK;
	case TW_SHARE:
		return tw_direct_share(p, hdr, payload, len);
	case TW_PUT:
		return tw_direct_written(p, hdr);
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
