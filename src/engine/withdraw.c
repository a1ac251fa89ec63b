/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Withdrawing requests, for a cancel or at their time limit. A request that has not left this
 * endpoint ends at once. For a send that has left, CANCEL asks the peer, because only the peer
 * knows whether a receive has matched the message. If none has, the peer drops the message and
 * replies (CANCELLED), which ends the send here. Otherwise the send ends as usual.
 *
 * Time limits are in a heap. An entry is valid while its request is pending and has this limit.
 * Other entries are dropped when they expire, or are swept out.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define ANSWER_US 1000000 /* for the answer to a CANCEL, where a send can end without it */
#define SWEEP_MIN 64

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
		tw_connect_leave(ep, r);
		return TW_BACK_DONE;
	default:
		return TW_BACK_NO;
	}
}

/* Arrival -------------------------------------------------------------------- */

static struct tw_unexp_msg *find_unmatched(struct tw_peer *p, uint64_t ref)
{
	struct tw_match *m = p->ep->match;
	struct tw_unexp *x = p->numsgs ? tw_match_find_named(m, ref) : NULL;

	for (; x; x = tw_match_next_named(m, x)) {
		struct tw_unexp_msg *u = tw_container(x, struct tw_unexp_msg, unexp);

		if (u->peer == p &&
		    (u->state == TW_U_ANNOUNCED || (u->sync && u->state == TW_U_WHOLE)))
			return u;
	}
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
	struct tw_unexp_msg *u;

	if (len)
		return TW_EPROTO;
	u = find_unmatched(p, hdr.match);
	if (!tw_transfer_note(p, tw_ref_unpack(hdr.match), u ? TW_ON_DROPPED : TW_ON_NOT_FOUND))
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

static struct tw_req *request_of(struct tw_ep *ep, const struct tw_limit *l)
{
	struct tw_req *r = tw_pool_find(&ep->reqs, l->index, l->gen);

	return r && !(r->flags & TW_R_DONE) && r->limit == l->when ? r : NULL;
}

static void sift_up(struct tw_limit *heap, uint32_t i, struct tw_limit l)
{
	for (; i && l.when < heap[(i - 1) / 2].when; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = l;
}

static void sift_down(struct tw_limit *heap, uint32_t n, struct tw_limit l)
{
	uint32_t i = 0, child;

	for (; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && heap[child + 1].when < heap[child].when)
			child++;
		if (l.when <= heap[child].when)
			break;
		heap[i] = heap[child];
	}
	heap[i] = l;
}

/* Of requests that have ended most entries are left: they go before memory is added. */
static void withdraw_sweep(struct tw_ep *ep)
{
	struct tw_limits *h = &ep->limits;
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->n; i++)
		if (request_of(ep, &h->heap[i])) {
			struct tw_limit l = h->heap[i];

			sift_up(h->heap, n++, l);
		}
	h->n = n;
}

/* Memory for the limit of one more request; false when it is short. */
static bool withdraw_reserve(struct tw_ep *ep)
{
	struct tw_limits *h = &ep->limits;
	struct tw_limit *heap;
	uint32_t max;

	if (h->n < h->max)
		return true;
	withdraw_sweep(ep);
	if (h->n < h->max / 2)
		return true;
	max = h->max ? 2 * h->max : SWEEP_MIN;
	heap = realloc(h->heap, max * sizeof(*heap));
	if (!heap)
		return h->n < h->max;
	h->heap = heap;
	h->max = max;
	return true;
}

static void withdraw_limit(struct tw_ep *ep, struct tw_req *r, uint64_t when)
{
	struct tw_limits *h = &ep->limits;

	r->limit = when;
	sift_up(h->heap, h->n++, (struct tw_limit){when, r->obj.index, r->obj.gen});
	tw_timer(&ep->host, when);
}

bool tw_req_limit(struct tw_ep *ep, struct tw_req *r, uint64_t us)
{
	uint64_t when = us == TW_FOREVER ? TW_FOREVER : tw_clock() + tw_clock_us(us);

	if (r->flags & TW_R_DONE)
		return true;
	if (r->kind == TW_CONNECT) {
		r->deadline = when;
		if (when != TW_FOREVER)
			tw_timer(&ep->host, when);
		return true;
	}
	if (when == TW_FOREVER) {
		r->limit = 0;
		return true;
	}
	if (!withdraw_reserve(ep))
		return false;
	withdraw_limit(ep, r, when);
	return true;
}

static void withdraw_late(struct tw_ep *ep, struct tw_req *r, uint64_t now)
{
	bool again = r->flags & TW_R_ASKED;

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

uint64_t tw_limits_expire(struct tw_ep *ep, uint64_t now)
{
	struct tw_limits *h = &ep->limits;

	while (h->n && h->heap[0].when <= now) {
		struct tw_req *r = request_of(ep, &h->heap[0]);

		sift_down(h->heap, h->n - 1, h->heap[h->n - 1]);
		h->n--;
		if (r)
			withdraw_late(ep, r, now);
	}
	return h->n ? h->heap[0].when : 0;
}
