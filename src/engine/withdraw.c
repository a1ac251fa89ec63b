/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Withdrawing requests, for a cancel or at their time limit. A request that has not left this
 * endpoint ends at once. For a send that has left, CANCEL asks the peer, because only the peer
 * knows whether a receive has matched the message. If none has, the peer drops the message and
 * replies (CANCELLED), which ends the send here. Otherwise the send ends as usual.
 *
 * The endpoint has a timer for the earliest time limit, and then looks at all requests.
 */
#include "engine/engine.h"

#define ANSWER_US 1000000 /* for the answer to a CANCEL, where a send can end without it */

/* Asking back ---------------------------------------------------------------- */

static bool has_left(const struct tw_req *r)
{
	return tw_transfer_takes(r, TW_ON_RECALL);
}

static enum tw_back send_back(struct tw_ep *ep, struct tw_req *r, enum tw_status status)
{
	bool queued = r->state == TW_XFER_NONE; /* it waits for room */

	if (r->flags & TW_R_ASKED)
		return TW_BACK_ASKED;
	if (queued && r->at == 0) {
		tw_list_del(&r->link);
		r->peer->show->queued--;
		ep->gauges[TW_G_SENDS]--;
		return TW_BACK_DONE;
	}
	/* One whose first part has left can be asked back once all of it has. */
	if (!has_left(r) && !(queued && tw_is_sync(r)))
		return TW_BACK_NO;
	r->flags |= TW_R_ASKED;
	r->status = (uint8_t)status;
	if (has_left(r))
		tw_transfer_step(r->peer, r, TW_ON_RECALL);
	return TW_BACK_ASKED;
}

enum tw_back tw_take_back(struct tw_ep *ep, struct tw_req *r, enum tw_status status)
{
	if (r->flags & TW_R_DONE)
		return TW_BACK_NO;
	switch (r->kind) {
	case TW_RECV:
		return tw_recv_cancel(ep, r) ? TW_BACK_DONE : TW_BACK_NO;
	case TW_SEND:
		return send_back(ep, r, status);
	case TW_CONNECT:
		tw_connect_remove(ep, r);
		return TW_BACK_DONE;
	default:
		return TW_BACK_NO;
	}
}

/* Arrival -------------------------------------------------------------------- */

/* A sender has one message with a reference, or has itself to blame. */
static struct tw_unexp_msg *find_unmatched(struct tw_peer *p, struct tw_ref ref)
{
	struct tw_unexp *x =
		p->numsgs ? tw_match_find_named(p->ep->match, tw_unexp_name(p, ref)) : NULL;
	struct tw_unexp_msg *u = x ? tw_container(x, struct tw_unexp_msg, unexp) : NULL;

	if (u && u->peer == p &&
	    (u->state == TW_U_ANNOUNCED || (u->sync && u->state == TW_U_WHOLE)))
		return u;
	return NULL;
}

static void withdraw_drop(struct tw_peer *p, struct tw_unexp_msg *u)
{
	tw_unexp_unqueue(p->ep, u);
	tw_unexp_free(p->ep, u);
	p->ep->events++;
}

enum tw_err tw_withdraw_asked(struct tw_peer *p, struct tw_hdr hdr, uint32_t len)
{
	struct tw_ref ref = tw_ref_unpack(hdr.match);
	struct tw_unexp_msg *u;

	/* No request has an even generation. */
	if (len || !(ref.gen & 1))
		return TW_EPROTO;
	u = find_unmatched(p, ref);
	if (!tw_transfer_note(p, ref, u ? TW_ON_DROPPED : TW_ON_NOT_FOUND))
		return TW_AGAIN;
	if (u)
		withdraw_drop(p, u);
	return TW_OK;
}

/* Every CANCEL has one reply; the send may have ended before it. */
enum tw_err tw_withdraw_answered(struct tw_peer *p, struct tw_hdr hdr)
{
	struct tw_req *r = tw_req_named(p, hdr.match);

	if (!p->asked || tw_hdr_flags(hdr) > TW_CANCEL_LATE)
		return TW_EPROTO;
	p->asked--;
	p->silent = false;
	p->ep->events++;
	if (!r)
		return TW_OK;
	if (!(r->flags & TW_R_ASKED))
		return TW_EPROTO;
	if (tw_hdr_flags(hdr) == TW_CANCEL_OK)
		return tw_transfer_step(p, r, TW_ON_CANCELLED);
	r->flags &= (uint8_t)~TW_R_ASKED;
	return TW_OK;
}

/* Time limits ---------------------------------------------------------------- */

static void withdraw_limit(struct tw_ep *ep, struct tw_req *r, uint64_t when)
{
	r->extra |= TW_X_LIMITED;
	r->limit = when;
	ep->limit_at = tw_earlier(ep->limit_at, when);
	tw_timer(&ep->host, when);
}

void tw_req_limit(struct tw_ep *ep, struct tw_req *r, uint64_t us)
{
	uint64_t when = us == TW_FOREVER ? TW_FOREVER : tw_clock() + tw_clock_us(us);

	if (r->flags & TW_R_DONE)
		return;
	if (r->kind == TW_CONNECT) {
		r->connect.deadline = when;
		if (when != TW_FOREVER)
			tw_timer(&ep->host, when);
		return;
	}
	r->extra &= ~TW_X_LIMITED;
	if (when != TW_FOREVER)
		withdraw_limit(ep, r, when);
}

static void withdraw_late(struct tw_ep *ep, struct tw_req *r, uint64_t now)
{
	bool again = r->flags & TW_R_ASKED;

	r->extra &= ~TW_X_LIMITED;
	switch (tw_take_back(ep, r, TW_S_TIMEOUT)) {
	case TW_BACK_DONE:
		tw_req_complete(ep, r, TW_S_TIMEOUT);
		break;
	case TW_BACK_ASKED:
		if (again && has_left(r))
			tw_transfer_step(r->peer, r, TW_ON_EXPIRED);
		else
			withdraw_limit(ep, r, now + tw_clock_us(ANSWER_US));
		break;
	default:
		break;
	}
}

static bool is_limited(const struct tw_req *r)
{
	return (r->kind == TW_SEND || r->kind == TW_RECV) && (r->extra & TW_X_LIMITED) &&
	       !(r->flags & TW_R_DONE);
}

uint64_t tw_limits_expire(struct tw_ep *ep, uint64_t now)
{
	struct tw_req *r;

	if (!ep->limit_at || now < ep->limit_at)
		return ep->limit_at;
	ep->limit_at = 0;
	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));)
		if (is_limited(r) && r->limit <= now)
			withdraw_late(ep, r, now);
		else if (is_limited(r))
			ep->limit_at = tw_earlier(ep->limit_at, r->limit);
	return ep->limit_at;
}
