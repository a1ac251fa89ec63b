/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unexpected messages: messages that no posted receive has matched. The matcher keeps them in order
 * until a receive takes them or a caller claims them. If the interface sets fetch_max, announced
 * messages are fetched before their match.
 */
#include "engine/recv.h"
#include "engine/trace.h"

/* Bytes that it holds here. */
static inline uint32_t unexp_held(const struct tw_unexp_msg *u)
{
	return u->state == TW_U_ANNOUNCED ? 0 : u->len;
}

/* It is no unexpected message any more. */
static inline void unexp_remove(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	ep->gauges[TW_G_UNEXP_BYTES] -= unexp_held(u);
	u->peer->numsgs--;
}

/* Nor is its memory needed. */
static void unexp_discard(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	unexp_remove(ep, u);
	tw_unexp_msg_put(ep, u);
}

/* Gives a whole message to a receive that is bound to it. */
static tw_inline void unexp_deliver(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r,
				    bool claim)
{
	struct tw_peer *p = u->peer;

	if (!claim)
		tw_req_scatter(r, 0, u->data, r->xfer_len, NULL);
	unexp_remove(ep, u);
	if (u->state == TW_U_WHOLE && tw_likely(p->state == TW_PEER_UP))
		tw_credits_release(p, tw_credit_cost(u->len));
	if (tw_unlikely(u->sync && p->state == TW_PEER_UP)) {
		r->remote = tw_unexp_ref(u);
		tw_transfer_step(p, r, TW_ON_MATCHED_SYNC);
	} else {
		tw_recv_complete(ep, r);
	}
	if (!claim)
		tw_unexp_msg_put(ep, u);
}

/* The rest goes directly to the receive. */
static void unexp_redirect(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r)
{
	struct tw_peer *p = u->peer;

	p->rx_req = r;
	p->rx_unexp = NULL;
	r->flags |= u->sync ? TW_R_SYNC : 0;
	r->remote = tw_unexp_ref(u);
	unexp_remove(ep, u);
	if (r->flags & TW_R_CLAIM)
		return;
	tw_req_scatter(r, 0, u->data, tw_min(u->have, r->xfer_len), NULL);
	tw_unexp_msg_put(ep, u);
}

static void unexp_start(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r)
{
	tw_recv_bind(r, u->peer, u->unexp.match, u->len);
	tw_transfer_start(u->peer, r, tw_unexp_ref(u), u->address, u->data,
			  u->key_len);
	unexp_discard(ep, u);
}

/* Only of a claimed message the peer can be gone before all of it is here. */
static void unexp_lost(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r)
{
	r->len = 0;
	tw_recv_bind(r, u->peer, u->unexp.match, u->len);
	unexp_discard(ep, u);
	tw_req_complete(ep, r, TW_S_LOST);
}

static tw_noinline void unexp_receive_slow(struct tw_ep *ep, struct tw_unexp_msg *u,
					   struct tw_req *r)
{
	bool here = tw_unexp_is_whole(u) || u->state == TW_U_FETCHING;

	tw_recv_imm(r, u->has_imm, u->imm);
	if (!here && u->peer->state != TW_PEER_UP) {
		unexp_lost(ep, u, r);
		return;
	}
	if (u->state == TW_U_ANNOUNCED) {
		unexp_start(ep, u, r);
		return;
	}
	if (r->flags & TW_R_CLAIM) {
		/* Until it is fetched its memory is the fetch's. */
		r->seg.ptr = u->state == TW_U_FETCHING ? NULL : u->data;
		r->seg.len = r->len = u->len;
	}
	tw_recv_bind(r, u->peer, u->unexp.match, u->len);
	if (u->state == TW_U_FETCHING)
		u->receiver = r;
	else if (u->state == TW_U_PART)
		unexp_redirect(ep, u, r);
	else
		unexp_deliver(ep, u, r, r->flags & TW_R_CLAIM);
}

void tw_unexp_receive(struct tw_ep *ep, struct tw_unexp_msg *u, struct tw_req *r)
{
	ep->counters[TW_C_UNEXPECTED_MATCHED]++;
	tw_trace_taken(ep, u, r);
	if (tw_unlikely(u->slow_path || (r->flags & TW_R_CLAIM))) {
		unexp_receive_slow(ep, u, r);
		return;
	}
	tw_recv_bind(r, u->peer, u->unexp.match, u->len);
	tw_assume(u->state == TW_U_WHOLE && !u->sync);
	unexp_deliver(ep, u, r, false);
}

/* Its sender cannot be answered for want of memory, and would wait: the connection ends. */
static void unexp_unanswered(struct tw_peer *p)
{
	if (p->state != TW_PEER_UP || p->unanswered)
		return;
	tw_log(TW_LOG_ERROR, "no memory to answer a message: its connection ends");
	p->unanswered = p->ep->unanswered = true;
	tw_peer_work(p);
}

void tw_unexp_acknowledge(const struct tw_unexp_msg *u)
{
	if (!tw_transfer_note(u->peer, tw_unexp_ref(u), TW_ON_MATCHED_SYNC))
		unexp_unanswered(u->peer);
}

void tw_unexp_free(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	if (u->state == TW_U_WHOLE && u->peer->state == TW_PEER_UP)
		tw_credits_release(u->peer, tw_credit_cost(u->len));
	unexp_discard(ep, u);
}

/* Without memory for a receive. Neither a fetch nor a fragment may write to memory that is gone. */
static void unexp_drop_without(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_peer *p = u->peer;

	if (u->state == TW_U_FETCHING) {
		u->state = TW_U_DROPPED;
		return;
	}
	if (u->sync || !tw_unexp_is_whole(u))
		unexp_unanswered(p);
	if (p->rx_unexp == u)
		p->rx_unexp = NULL;
	tw_unexp_free(ep, u);
}

/* An empty receive takes it, so that the sender sees it matched. */
void tw_unexp_drop(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);

	if (!r) {
		unexp_drop_without(ep, u);
		return;
	}
	tw_req_forget(r);
	tw_unexp_receive(ep, u, r);
}

void tw_unexp_drop_all(struct tw_ep *ep, uint64_t key, uint64_t mask)
{
	struct tw_unexp_msg *u;

	while ((u = tw_unexp_find(ep, key, mask))) {
		tw_unexp_unqueue(ep, u);
		tw_unexp_drop(ep, u);
	}
}

uint32_t tw_unexp_count_to(struct tw_ep *ep, uint64_t key, uint64_t mask, bool whole, uint32_t most)
{
	struct tw_unexp_msg *u = most ? tw_unexp_find(ep, key, mask) : NULL;
	uint32_t n = 0;

	while (u && (!whole || tw_unexp_is_whole(u)) && ++n < most)
		u = tw_unexp_next(ep, u, key, mask);
	return n;
}

uint32_t tw_unexp_count(struct tw_ep *ep, uint64_t key, uint64_t mask, bool whole)
{
	return tw_unexp_count_to(ep, key, mask, whole, UINT32_MAX);
}

/* Fetching -------------------------------------------------------------------- */

static bool unexp_should_fetch(const struct tw_ep *ep, const struct tw_unexp_msg *u)
{
	return u->state == TW_U_ANNOUNCED && ep->gauges[TW_G_UNEXP_BYTES] < ep->fetch_max;
}

/* Begins to receive an announced message into memory of its own, which replaces it. */
static struct tw_unexp_msg *unexp_fetch(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);
	struct tw_unexp_msg *to;

	if (!r)
		return u;
	tw_req_forget(r);
	r->flags |= TW_R_CLAIM;
	if (!tw_recv_alloc(ep, r, u->len)) {
		tw_req_free(ep, r);
		return u;
	}
	to = tw_req_claimed(r);
	to->unexp.match = u->unexp.match;
	to->peer = u->peer;
	to->state = TW_U_FETCHING;
	to->sync = to->has_imm = false;
	to->unexp.name = u->unexp.name;
	to->receiver = NULL;
	to->probe_number = 0;
	tw_recv_bind(r, u->peer, u->unexp.match, u->len);
	tw_transfer_start(u->peer, r, tw_unexp_ref(u), u->address, u->data,
			  u->key_len);
	ep->gauges[TW_G_UNEXP_BYTES] += u->len;
	tw_trace_fetched(ep, u, to);
	tw_unexp_msg_put(ep, u);
	return to;
}

void tw_unexp_fetched(struct tw_ep *ep, struct tw_req *f)
{
	struct tw_unexp_msg *u = tw_req_claimed(f);
	struct tw_req *r = u->receiver;

	if (u->state == TW_U_DROPPED) {
		unexp_discard(ep, u);
		return;
	}
	u->state = TW_U_FETCHED;
	if (f->status == TW_S_OK && r) {
		r->proto = f->proto;
		if (r->flags & TW_R_CLAIM)
			r->seg.ptr = u->data;
		unexp_deliver(ep, u, r, r->flags & TW_R_CLAIM);
	} else if (f->status == TW_S_OK) {
		ep->events++;
		if (ep->iface->whole)
			ep->iface->whole(ep, u, f);
	} else {
		if (!r)
			tw_unexp_unqueue(ep, u);
		unexp_discard(ep, u);
		if (!r)
			return;
		r->xfer_len = 0;
		tw_req_complete(ep, r, (enum tw_status)f->status);
	}
}

/* The interface has another idea; or the message is announced, and may come now. */
static tw_noinline struct tw_unexp_msg *unexp_slow(struct tw_ep *ep, struct tw_unexp_msg *u,
						   enum tw_verdict verdict)
{
	struct tw_posted *q = NULL;

	if (verdict == TW_DROP) {
		tw_unexp_drop(ep, u);
		return NULL;
	}
	if (verdict == TW_REMATCH)
		q = tw_match_take_posted(ep->match, u->unexp.match);
	if (!q)
		return unexp_should_fetch(ep, u) ? unexp_fetch(ep, u) : u;
	ep->gauges[TW_G_POSTED]--;
	tw_unexp_receive(ep, u, tw_container(q, struct tw_req, posted));
	return NULL;
}

static tw_inline void unexp_queue(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	enum tw_verdict verdict = ep->unexpected ? ep->unexpected(ep, u) : TW_KEEP;

	ep->events++;
	if (tw_unlikely(verdict != TW_KEEP || u->state == TW_U_ANNOUNCED))
		u = unexp_slow(ep, u, verdict);
	if (tw_unlikely(!u))
		return;
	ep->gauges[TW_G_UNEXPECTED]++;
	tw_match_arrive(ep->match, &u->unexp);
}

void tw_unexp_queue(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	unexp_queue(ep, u);
}

enum tw_err tw_unexp_whole(struct tw_peer *p, struct tw_hdr hdr, const char *data, uint32_t len,
			   uint32_t cost)
{
	struct tw_unexp_msg *u = tw_unexp_new(p, hdr, len, TW_U_WHOLE);

	if (tw_unlikely(!u))
		return TW_AGAIN;
	tw_ring_copy(p->link->txq, u->data, data, len);
	p->used += cost;
	tw_trace_probe(TW_TRACE_UNEXPECTED, p->addr.where, hdr.match, len, u);
	unexp_queue(p->ep, u);
	return TW_OK;
}

void tw_recv_lost(struct tw_peer *p)
{
	struct tw_ep *ep = p->ep;
	struct tw_unexp_msg *u = p->numsgs ? tw_unexp_find(ep, 0, 0) : NULL, *next;

	for (; u; u = next) {
		next = tw_unexp_next(ep, u, 0, 0);
		if (u->peer == p && (u->state == TW_U_ANNOUNCED || u->state == TW_U_PART)) {
			tw_unexp_unqueue(ep, u);
			tw_unexp_free(ep, u);
		}
	}
	p->rx_unexp = NULL;
	p->rx_req = NULL;
	p->rx_len = 0;
}
