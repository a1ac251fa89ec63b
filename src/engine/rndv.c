/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages. The sender announces; the receiver, once it has a match,
 * either pulls the data (get, then DONE) or asks for it (CTS, then DATA).
 * Replies are owed, never sent from inside an arrival: tw_rndv_flush() sends
 * them when there is room.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define PULL_MIN 8192		 /* a system call costs more than copying this twice */
#define PULL_PIECE (256 * 1024) /* bytes of one get */
#define PULL_BUDGET (512 * 1024) /* bytes pulled in one go */
#define PUSH_PIECE (16 * 1024)
#define PUSH_BUDGET 16 /* pieces pushed in one go */

void tw_owe(struct tw_peer *p, struct tw_req *r, enum tw_owed what)
{
	r->owed = (uint8_t)what;
	tw_list_add_tail(&p->owing, &r->link);
	tw_peer_work(p);
}

/*
 * The side that idles moves the data whatever is faster; when both look, the
 * way that was measured to be faster.
 */
static enum tw_way way_for(struct tw_peer *p, struct tw_req *r, uint64_t address)
{
	const char *set = tw_settings.rndv;

	if (!address || !p->link->can_get || set[2] == 's' /* push */)
		return TW_PUSH;
	if (p->link->direct || set[2] == 'l' /* pull */ || !p->link->provider->polls(p->link))
		return TW_PULL;
	if (r->xfer_len < PULL_MIN)
		return TW_PUSH;
	r->flags |= TW_R_SAMPLE;
	return tw_choose(&p->choose, r->xfer_len);
}

uint64_t tw_rndv_expose(struct tw_peer *p, struct tw_req *r)
{
	struct tw_mr *mr;

	if (r->nsegs != 1)
		return 0;
	if (!p->link->key_size)
		return (uintptr_t)r->seg.ptr;
	if (!p->link->can_get)
		return 0;
	mr = malloc(sizeof(*mr));
	if (!mr || p->link->provider->mem_reg(p->link, r->seg.ptr, r->seg.len, mr) != TW_OK) {
		free(mr);
		return 0;
	}
	r->rma = mr;
	return mr->address;
}

void tw_rndv_forget(struct tw_peer *p, struct tw_req *r)
{
	/* Registrations end with the link. */
	if (r->kind == TW_SEND && r->rma && p->link)
		p->link->provider->mem_dereg(p->link, r->rma);
	free(r->rma);
	r->rma = NULL;
}

/* What a get needs is kept; false when memory is short. */
static bool keep_key(struct tw_req *r, const void *key, uint32_t len)
{
	r->rma = len ? malloc(len) : NULL;
	if (r->rma)
		memcpy(r->rma, key, len);
	return r->rma || !len;
}

void tw_rndv_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		   const void *key, uint32_t key_len)
{
	if (!keep_key(r, key, key_len))
		address = 0;
	r->remote = ref;
	r->remote_address = address;
	r->at = 0;
	r->gets = 0;
	r->failed = TW_OK;
	r->status = TW_S_OK;
	r->flags |= TW_R_RNDV;
	p->ep->nmoving++;
	if (r->xfer_len == 0) {
		tw_owe(p, r, TW_OWE_DONE);
		return;
	}
	if (way_for(p, r, address) == TW_PUSH) {
		tw_owe(p, r, TW_OWE_CTS);
	} else {
		tw_list_add_tail(&p->pulling, &r->link);
		tw_peer_work(p);
	}
	r->started = (r->flags & TW_R_SAMPLE) ? tw_clock() : 0;
}

static void learn(struct tw_peer *p, struct tw_req *r, enum tw_way way)
{
	if (r->flags & TW_R_SAMPLE)
		tw_choose_sample(&p->choose, way, r->xfer_len, tw_clock() - r->started);
}

static void receive_done(struct tw_peer *p, struct tw_req *r)
{
	p->ep->nmoving--;
	tw_rndv_forget(p, r);
	if (r->status == TW_S_OK) {
		tw_recv_finish(p->ep, r);
		return;
	}
	r->xfer_len = 0;
	tw_req_complete(p->ep, r, (enum tw_status)r->status);
}

/* Sends what a receive owes; false when there is no room. */
static bool pay(struct tw_peer *p, struct tw_req *r)
{
	static const uint8_t types[] = {
		[TW_OWE_ACK] = TW_ACK, [TW_OWE_CTS] = TW_CTS, [TW_OWE_DONE] = TW_DONE};
	struct tw_ref me = {r->obj.index, r->obj.gen};
	struct iovec iov = {&me, sizeof(me)};
	unsigned niov = r->owed == TW_OWE_CTS;
	uint8_t flags = r->owed == TW_OWE_DONE && r->status != TW_S_OK ? TW_DONE_FAILED
								       : TW_DONE_OK;
	struct tw_hdr hdr = tw_hdr_make(types[r->owed], flags, 0, r->xfer_len,
					tw_ref_pack(r->remote));

	if (p->link->provider->send(p->link, TW_SEND_CONTROL, hdr, &iov, niov,
				    niov ? sizeof(me) : 0) != TW_OK)
		return false;
	tw_list_del(&r->link);
	if (r->owed == TW_OWE_CTS) {
		r->flags |= TW_R_DATA;
		p->ep->counters[TW_C_RNDV_PUSH]++;
		tw_list_add_tail(&p->waiting, &r->link);
	} else if (r->owed == TW_OWE_DONE) {
		receive_done(p, r);
	} else {
		tw_recv_finish(p->ep, r);
	}
	return true;
}

/* No get of this receive is under way any more, and none will begin. */
static void pull_over(struct tw_peer *p, struct tw_req *r)
{
	tw_list_del(&r->link);
	switch (r->failed) {
	case TW_OK:
		p->ep->counters[TW_C_RNDV_PULL]++;
		learn(p, r, TW_PULL);
		tw_owe(p, r, TW_OWE_DONE);
		break;
	case TW_EPERM:
		/* The data can still be sent. */
		p->ep->counters[TW_C_PULL_REFUSED]++;
		r->at = 0;
		r->flags &= (uint8_t)~TW_R_SAMPLE;
		tw_owe(p, r, TW_OWE_CTS);
		break;
	case TW_EFAULT:
		r->status = TW_S_ABORTED;
		tw_owe(p, r, TW_OWE_DONE);
		break;
	default:
		/* The peer is dying: its end will end this receive. */
		tw_list_add_tail(&p->waiting, &r->link);
	}
}

/* One get; false when there is no room for it. */
static bool pull(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[16];
	uint32_t want = tw_min((uint32_t)PULL_PIECE, r->xfer_len - r->at), covered;
	unsigned n = tw_req_iov(r, r->at, want, iov, tw_countof(iov), &covered);
	enum tw_err err = p->link->provider->get(p->link, iov, n, r->remote_address + r->at,
						 r->rma, r);

	if (err == TW_AGAIN)
		return false;
	if (err == TW_OK || err == TW_PENDING)
		r->at += covered;
	else
		r->failed = (uint8_t)err;
	r->gets += err == TW_PENDING;
	if (r->at < r->xfer_len && !r->failed)
		return true;
	if (r->gets) {
		tw_list_del(&r->link);
		tw_list_add_tail(&p->waiting, &r->link);
	} else {
		pull_over(p, r);
	}
	return true;
}

void tw_rndv_ended(struct tw_link *link, void *cookie, enum tw_err err)
{
	struct tw_peer *p = link->peer;
	struct tw_req *r = cookie;

	if (err != TW_OK)
		r->failed = (uint8_t)err;
	r->gets--;
	/* Places for further ones, of whichever receive. */
	if (!tw_list_empty(&p->pulling))
		tw_peer_work(p);
	if (!r->gets && (r->at == r->xfer_len || r->failed))
		pull_over(p, r);
}

static bool pull_some(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = PULL_BUDGET; budget > 0 && !tw_list_empty(&p->pulling);
	     budget -= PULL_PIECE) {
		if (!pull(p, tw_list_first(&p->pulling, struct tw_req, link)))
			break;
		moved = true;
	}
	return moved;
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

static void send_done(struct tw_peer *p, struct tw_req *r, enum tw_status status)
{
	struct tw_ep *ep = p->ep;

	tw_list_del(&r->link);
	if (r->flags & TW_R_RNDV)
		tw_rndv_forget(p, r);
	ep->nmoving--;
	ep->gauges[TW_G_SENDS]--;
	r->xfer_len = status == TW_S_OK ? r->len : 0;
	tw_req_complete(ep, r, status);
}

static bool push_some(struct tw_peer *p)
{
	bool moved = false;

	for (int i = 0; i < PUSH_BUDGET && !tw_list_empty(&p->pushing); i++) {
		struct tw_req *r = tw_list_first(&p->pushing, struct tw_req, link);

		if (!push(p, r))
			break;
		moved = true;
		if (r->at == r->xfer_len)
			send_done(p, r, TW_S_OK);
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
		p->owed += n;
		p->used += n;
		return;
	}
}

bool tw_rndv_flush(struct tw_peer *p)
{
	bool moved = false;

	while (!tw_list_empty(&p->owing) &&
	       pay(p, tw_list_first(&p->owing, struct tw_req, link)))
		moved = true;
	if (!tw_list_empty(&p->pulling))
		moved |= pull_some(p);
	if (!tw_list_empty(&p->pushing))
		moved |= push_some(p);
	return_credits(p);
	return moved;
}

/* What arrives --------------------------------------------------------------- */

static enum tw_err clear_to_send(struct tw_peer *p, struct tw_hdr hdr, const void *data,
				 uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	if (!r || len != sizeof(struct tw_ref) || !(r->flags & TW_R_RNDV) ||
	    (r->flags & TW_R_DATA) || tw_hdr_len(hdr) > r->len || !tw_hdr_len(hdr))
		return TW_EPROTO;
	memcpy(&r->remote, data, sizeof(r->remote));
	tw_rndv_forget(p, r);
	r->flags |= TW_R_DATA;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = 0;
	p->rts_left++;
	tw_list_del(&r->link);
	tw_list_add_tail(&p->pushing, &r->link);
	tw_peer_work(p);
	return TW_OK;
}

static enum tw_err pushed(struct tw_peer *p, struct tw_hdr hdr, const void *data,
			  uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_RECV);

	if (!r || !(r->flags & TW_R_DATA) || tw_hdr_len(hdr) != r->at || !len ||
	    len > r->xfer_len - r->at)
		return TW_EPROTO;
	tw_req_scatter(r, r->at, data, len);
	r->at += len;
	if (r->at < r->xfer_len)
		return TW_OK;
	learn(p, r, TW_PUSH);
	tw_list_del(&r->link);
	receive_done(p, r);
	return TW_OK;
}

static enum tw_err taken(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	if (!r || !(r->flags & TW_R_RNDV) || (r->flags & TW_R_DATA))
		return TW_EPROTO;
	p->rts_left++;
	send_done(p, r, tw_hdr_flags(hdr) == TW_DONE_OK ? TW_S_OK : TW_S_ABORTED);
	return TW_OK;
}

static enum tw_err acknowledged(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);

	/* Buffered: the whole message has left, so it can have been matched. */
	if (!r || !(r->flags & TW_R_SYNC) || !(r->flags & TW_R_BUFFERED))
		return TW_EPROTO;
	send_done(p, r, TW_S_OK);
	return TW_OK;
}

enum tw_err tw_rndv_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			   uint32_t len)
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
	default:
		return TW_EPROTO;
	}
}
