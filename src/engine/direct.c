/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages straight from memory to memory. Pull: the receiver gets all of
 * it, then says DONE. Split, where processors do the copying: the receiver gets
 * the front while the sender, asked by SHARE, puts the rest and says PUT; two
 * processors are nearly twice as fast as one.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define PIECE (256 * 1024)	   /* bytes of one get or put */
#define REMOTE_PIECE (1024 * 1024) /* and of one that others wait for */
#define BUDGET (512 * 1024)	   /* bytes pulled in one go */
#define LEAD 4096		   /* the receiver starts earlier, by about so many bytes */
#define NPIECES 16		   /* pieces of memory of one get or put */

uint64_t tw_direct_expose(struct tw_peer *p, struct tw_req *r)
{
	struct tw_mem_reg *mr;

	if (r->nsegs != 1)
		return 0;
	if (!tw_key_size(p))
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

void tw_direct_forget(struct tw_peer *p, struct tw_req *r)
{
	if (!TW_USES_NET)
		return;
	/* Registrations end with the link. */
	if (r->kind == TW_SEND && r->rma && p->link)
		p->link->provider->mem_dereg(p->link, r->rma);
	free(r->rma);
	r->rma = NULL;
}

bool tw_direct_init(struct tw_req *r, uint64_t address, const void *key, uint32_t key_len)
{
	r->remote_address = address;
	r->gets = 0;
	r->failed = TW_OK;
	r->shared = false;
	r->until = r->xfer_len;
	if (!TW_USES_NET)
		return true;
	r->rma = key_len ? malloc(key_len) : NULL;
	if (r->rma)
		memcpy(r->rma, key, key_len);
	return r->rma || !key_len;
}

void tw_direct_start(struct tw_peer *p, struct tw_req *r, enum tw_proto proto)
{
	if (proto == TW_PROTO_SPLIT) {
		r->until = p->ep->in_background ? 0
						: (r->xfer_len / 2 + LEAD) & ~(uint32_t)(LEAD - 1);
		tw_defer(p, r, TW_DEFER_SHARE);
		return;
	}
	tw_list_add_tail(&p->pulling, &r->link);
	tw_peer_work(p);
}

/* The receiver -------------------------------------------------------------- */

/* The access of an interface is over. */
static void access_over(struct tw_peer *p, struct tw_req *r)
{
	static const uint8_t status_of[TW_NERRS] = {
		[TW_EPERM] = TW_S_REJECTED, [TW_EFAULT] = TW_S_ABORTED};

	if (r->failed && !status_of[r->failed]) {
		/* The peer is dying: its end will end this. */
		tw_list_add_tail(&p->waiting, &r->link);
		return;
	}
	p->ep->nmoving--;
	tw_direct_forget(p, r);
	tw_req_complete(p->ep, r, (enum tw_status)status_of[r->failed]);
}

/* Nothing of this receive is under way any more, and nothing will begin. */
static void pull_over(struct tw_peer *p, struct tw_req *r)
{
	bool split;

	tw_list_del(&r->link);
	if (TW_USES_NET && r->kind != TW_RECV) {
		access_over(p, r);
		return;
	}
	switch (r->failed) {
	case TW_OK:
		split = r->until < r->xfer_len;
		p->ep->counters[split ? TW_C_RNDV_SPLIT : TW_C_RNDV_PULL]++;
		tw_rndv_learn(p, r, split ? TW_PROTO_SPLIT : TW_PROTO_GET);
		/* Who wrote all of it knows that it is there. */
		if (r->until)
			tw_defer(p, r, TW_DEFER_DONE);
		else
			tw_rndv_received(p, r);
		break;
	case TW_EPERM:
		/* The data can still be sent. */
		p->ep->counters[TW_C_PULL_REFUSED]++;
		r->at = 0;
		r->flags &= (uint8_t)~TW_R_SAMPLE;
		tw_defer(p, r, TW_DEFER_CTS);
		break;
	case TW_EFAULT:
		r->status = TW_S_ABORTED;
		tw_defer(p, r, TW_DEFER_DONE);
		break;
	default:
		/* The peer is dying: its end will end this receive. */
		tw_list_add_tail(&p->waiting, &r->link);
	}
}

/* One get; false when there is no room for it. */
static bool pull(struct tw_peer *p, struct tw_req *r)
{
	const struct tw_provider *ops = p->link->provider;
	struct iovec iov[NPIECES];
	uint32_t most = tw_is_remote(p) ? REMOTE_PIECE : PIECE;
	uint32_t want = tw_min(most, r->until - r->at), covered;
	unsigned n = tw_req_iov(r, r->at, want, iov, tw_countof(iov), &covered);
	enum tw_err err = TW_OK;

	if (want)
		err = (TW_USES_NET && r->kind == TW_WRITE ? ops->put : ops->get)(
			p->link, iov, n, r->remote_address + r->at, r->rma, r);
	if (err == TW_AGAIN)
		return false;
	if (err == TW_OK || err == TW_PENDING)
		r->at += covered;
	else
		r->failed = (uint8_t)err;
	r->gets += err == TW_PENDING;
	if (r->at < r->until && !r->failed)
		return true;
	if (r->gets || r->shared) {
		tw_list_del(&r->link);
		tw_list_add_tail(&p->waiting, &r->link);
	} else {
		pull_over(p, r);
	}
	return true;
}

/* The receiver's part is over, well or not. */
static bool pulled(const struct tw_req *r)
{
	return !r->gets && (r->at == r->until || r->failed);
}

void tw_direct_ended(struct tw_link *link, void *cookie, enum tw_err err)
{
	struct tw_peer *p = link->peer;
	struct tw_req *r = cookie;

	if (err != TW_OK)
		r->failed = (uint8_t)err;
	r->gets--;
	/* Places for further ones, of whichever receive. */
	if (!tw_list_empty(&p->pulling))
		tw_peer_work(p);
	if (!r->shared && pulled(r))
		pull_over(p, r);
}

bool tw_direct_pull(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = BUDGET; budget > 0 && !tw_list_empty(&p->pulling); budget -= PIECE) {
		if (!pull(p, tw_list_first(&p->pulling, struct tw_req, link)))
			break;
		moved = true;
	}
	return moved;
}

void tw_direct_access(struct tw_ep *ep, struct tw_req *r, struct tw_addr to, uint64_t address,
		      const void *key, uint32_t key_len)
{
	struct tw_peer *p = tw_peer_at(ep, to);

	if (!p || p->state != TW_PEER_UP) {
		tw_req_complete(ep, r, TW_S_LOST);
		return;
	}
	r->peer = p;
	r->xfer_len = r->len;
	r->status = TW_S_OK;
	if (!p->link->can_get || key_len != p->link->key_size) {
		tw_req_complete(ep, r, TW_S_REJECTED);
		return;
	}
	if (!tw_direct_init(r, address, key, key_len)) {
		tw_req_complete(ep, r, TW_S_NO_RESOURCES);
		return;
	}
	r->flags |= TW_R_RNDV;
	ep->nmoving++;
	tw_list_add_tail(&p->pulling, &r->link);
	tw_peer_work(p);
}

enum tw_err tw_direct_written(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_RECV);
	bool over;

	if (!r || !(r->flags & TW_R_RNDV) || !r->shared)
		return TW_EPROTO;
	over = pulled(r);
	r->shared = false;
	p->shares--;
	if (tw_hdr_flags(hdr) != TW_DONE_OK) {
		/* What it could not write is read as well. */
		p->ep->counters[TW_C_PUT_FAILED]++;
		p->cannot_put = true;
		r->flags &= (uint8_t)~TW_R_SAMPLE;
		r->until = r->xfer_len;
		tw_move(p, r, true);
	}
	if (over && !pulled(r)) {
		tw_list_del(&r->link);
		tw_list_add_tail(&p->pulling, &r->link);
		tw_peer_work(p);
	} else if (over) {
		pull_over(p, r);
	}
	return TW_OK;
}

/* The sender ---------------------------------------------------------------- */

enum tw_err tw_direct_share(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match, TW_SEND);
	struct tw_share share;

	/* A put that is not done by us here would end after this send could. */
	if (!r || !p->link->by_cpu || !tw_rndv_announced(r) || len != sizeof(share))
		return TW_EPROTO;
	memcpy(&share, data, sizeof(share));
	if (tw_hdr_len(hdr) > r->len || share.from >= tw_hdr_len(hdr))
		return TW_EPROTO;
	r->remote = share.ref;
	r->remote_address = share.address - share.from;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = r->until = share.from;
	r->failed = TW_OK;
	r->deferred = TW_DEFER_PUT;
	tw_move(p, r, true);
	tw_list_del(&r->link);
	tw_list_add_tail(&p->pushing, &r->link);
	tw_peer_work(p);
	return TW_OK;
}

/* Says that the sender's part is over; false when there is no room. */
static bool say_put(struct tw_peer *p, struct tw_req *r)
{
	struct tw_hdr hdr = tw_hdr_make(TW_PUT, r->failed ? TW_DONE_FAILED : TW_DONE_OK, 0, 0,
					tw_ref_pack(r->remote));
	bool all = !r->until && !r->failed;

	/* A receiver that has nothing left to do need not be rung. */
	if (p->link->provider->send(p->link, all ? TW_SEND_NOTICE : TW_SEND_CONTROL, hdr, NULL, 0,
				    0) != TW_OK)
		return false;
	if (all) {
		tw_rndv_sent(p, r, TW_S_OK);
		return true;
	}
	tw_move(p, r, false);
	r->deferred = TW_DEFER_NONE;
	r->xfer_len = r->at = 0;
	tw_list_del(&r->link);
	tw_list_add_tail(&p->waiting, &r->link);
	return true;
}

bool tw_direct_put(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[NPIECES];
	uint32_t want = tw_min((uint32_t)PIECE, r->xfer_len - r->at), covered;
	unsigned n;
	enum tw_err err;

	if (!want || r->failed)
		return say_put(p, r);
	n = tw_req_iov(r, r->at, want, iov, NPIECES, &covered);
	err = p->link->provider->put(p->link, iov, n, r->remote_address + r->at, NULL, r);
	if (err == TW_OK)
		r->at += covered;
	else
		r->failed = (uint8_t)err;
	if (r->at == r->xfer_len || r->failed)
		say_put(p, r);
	return true;
}
