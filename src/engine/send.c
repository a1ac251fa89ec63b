/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending side. Messages leave in the order of the sends: once a message waits, all
 * later ones to the same peer wait behind it.
 */
#include "engine/fast.h"

/* Sends one packet of an eager message, with the reference first if needed. */
static enum tw_err engine_send_piece(struct tw_peer *p, struct tw_req *r, uint8_t type,
				     uint8_t flags, uint32_t len)
{
	struct iovec iov[TW_MAX_SEGMENTS + 2];
	struct tw_ref ref = tw_req_ref(r);
	enum tw_send_class cls = TW_SEND_PLAIN;
	uint32_t extra = 0, covered;
	uint64_t now = tw_trace_now(p->ep);
	unsigned n = 0;
	enum tw_err err;

	if (type == TW_EAGER && tw_is_sync(r)) {
		flags |= TW_FLAG_SYNC;
		extra = sizeof(ref);
		iov[n++] = (struct iovec){&ref, sizeof(ref)};
	}
	if (type == TW_EAGER && (r->extra & TW_X_IMM)) {
		flags |= TW_FLAG_IMM;
		extra += (uint32_t)sizeof(r->imm);
		iov[n++] = (struct iovec){&r->imm, sizeof(r->imm)};
	}
	/*
	 * To a remote peer one call for all packets is cheaper; on the same host the
	 * receiver starts to copy.
	 */
	if (tw_is_remote(p) && r->at + len < r->len)
		cls = TW_SEND_MORE;
	/* The other side must reply or act once it has the whole message. */
	if ((tw_is_sync(r) || (r->flags & TW_R_URGENT)) && r->at + len == r->len)
		cls = TW_SEND_ENGINE;
	n += tw_req_iov(r, r->at, len, iov + n, TW_MAX_SEGMENTS, &covered);
	err = tw_packet_return(p, cls, tw_hdr_make(type, flags, 0, r->len, r->match), iov, n,
			       extra + len);
	if (err == TW_OK && type == TW_EAGER)
		tw_trace_sent(p, now, TW_TRACE_EAGER, r->match, r->len, r);
	return err;
}

/* The data has left. The kind of send determines what remains. */
static void engine_sent(struct tw_peer *p, struct tw_req *r)
{
	struct tw_ep *ep = p->ep;

	ep->counters[TW_C_SEND_EAGER]++;
	ep->counters[TW_C_SEND_BYTES] += r->len;
	r->xfer_len = r->len;
	if (tw_is_sync(r)) {
		r->rma = NULL;
		tw_transfer_step(p, r, TW_ON_LEFT);
		if (r->flags & TW_R_ASKED)
			tw_transfer_step(p, r, TW_ON_RECALL);
		return;
	}
	ep->gauges[TW_G_SENDS]--;
	tw_trace_ended(ep, r);
	tw_req_complete(ep, r, TW_S_OK);
}

static bool send_eager(struct tw_peer *p, struct tw_req *r)
{
	uint32_t piece = tw_eager_piece(p->link, r->len);

	if (r->at == 0) {
		uint32_t first = tw_min(piece, r->len);

		if (engine_send_piece(p, r, TW_EAGER, 0, first) != TW_OK)
			return false;
		p->credits -= tw_credit_cost(r->len);
		r->at = first;
	}
	while (r->at < r->len) {
		uint32_t part = tw_min(piece, r->len - r->at);

		if (engine_send_piece(p, r, TW_FRAG, 0, part) != TW_OK)
			return false;
		r->at += part;
	}
	return true;
}

static bool send_announce(struct tw_peer *p, struct tw_req *r)
{
	struct tw_rts rts = {tw_req_ref(r), 0};
	struct iovec iov[3] = {{&rts, sizeof(rts)}};
	uint32_t len = sizeof(rts);
	uint64_t now = tw_trace_now(p->ep);
	uint8_t flags = 0;
	unsigned niov = 1;
	struct tw_hdr hdr;

	r->rma = NULL;
	rts.address = tw_transfer_expose(p, r);
	if (r->extra & TW_X_IMM) {
		flags = TW_FLAG_IMM;
		iov[niov++] = (struct iovec){&r->imm, sizeof(r->imm)};
		len += (uint32_t)sizeof(r->imm);
	}
	if (TW_USES_NET && r->rma) {
		iov[niov++] = (struct iovec){((struct tw_mem_reg *)r->rma)->key, p->link->key_size};
		len += p->link->key_size;
	}
	hdr = tw_hdr_make(TW_RTS, flags, 0, r->len, r->match);
	if (tw_packet_return(p, TW_SEND_ENGINE, hdr, iov, niov, len) != TW_OK) {
		tw_transfer_forget(p, r);
		return false;
	}
	tw_trace_sent(p, now, TW_TRACE_ANNOUNCED, r->match, r->len, r);
	p->ep->counters[TW_C_SEND_RNDV]++;
	p->ep->counters[TW_C_SEND_BYTES] += r->len;
	r->proto = TW_PROTO_GET;
	tw_transfer_step(p, r, TW_ON_ANNOUNCE);
	return true;
}

/*
 * Sends a short message without credit. The send ends when the message is matched, so that
 * the number of requests bounds the receiver's memory.
 */
static bool send_beyond(struct tw_peer *p, struct tw_req *r)
{
	uint8_t flags = r->flags;

	r->flags |= TW_R_SYNC;
	if (engine_send_piece(p, r, TW_EAGER, TW_FLAG_BEYOND, r->len) != TW_OK) {
		r->flags = flags;
		return false;
	}
	engine_sent(p, r);
	return true;
}

/* Announced without credit: the receiver may be waiting for this very message. */
static bool without_credit(struct tw_peer *p, struct tw_req *r)
{
	if (!(r->len <= TW_SMALL_MAX && !p->ep->fetch_max ? send_beyond(p, r)
							  : send_announce(p, r)))
		return false;
	p->ep->counters[TW_C_NO_CREDIT]++;
	return true;
}

/*
 * Sends a message, or as much of it as there is space for. True when it has left or was
 * announced; it is then on its next list. It must be on no list before.
 */
static bool try_send(struct tw_peer *p, struct tw_req *r)
{
	if (r->kind == TW_AM_SEND)
		return tw_am_flush(p, r);
	/* The credits of a message are taken once, with its first packet. */
	if (r->at == 0) {
		if (r->len > p->ep->eager_max)
			return send_announce(p, r);
		if (tw_credit_cost(r->len) > p->credits)
			return without_credit(p, r);
	}
	if (!send_eager(p, r))
		return false;
	engine_sent(p, r);
	return true;
}

void tw_send_queue(struct tw_peer *p, struct tw_req *r)
{
	tw_list_add_tail(&p->sendq, &r->link);
	p->show->queued++;
	tw_peer_work(p);
}

bool tw_send_flush(struct tw_peer *p)
{
	bool moved = false;

	while (!tw_list_empty(&p->sendq)) {
		struct tw_req *r = tw_list_first(&p->sendq, struct tw_req, link);
		uint32_t at = r->at;

		tw_list_del(&r->link);
		if (!try_send(p, r)) {
			/* Back to the head: no message may overtake it. */
			tw_list_add_tail(p->sendq.next, &r->link);
			return moved || r->at != at;
		}
		p->show->queued--;
		moved = true;
	}
	return moved;
}

struct tw_ring_tx tw_no_txq;

/* Counts the messages that have taken the open txq of a peer. */
static void txq_count(struct tw_peer *p)
{
	struct tw_ring_tx *txq = p->txq;
	uint32_t n = txq->head - p->txq_from;

	p->txq_from = txq->head;
	p->unpolled += n;
	p->show->msgs_sent += n;
	p->ep->counters[TW_C_SEND_EAGER] += n;
	p->ep->counters[TW_C_SEND_BYTES] += txq->payload;
	txq->payload = 0;
}

void tw_txqs_count(struct tw_ep *ep)
{
	tw_list_walk(&ep->open, struct tw_peer, p, open)
		txq_count(p);
}

void tw_txq_close(struct tw_peer *p)
{
	struct tw_ring_tx *txq = p->txq;

	if (tw_list_empty(&p->open))
		return;
	tw_list_del(&p->open);
	txq_count(p);
	p->credits += (p->txq_end - txq->head) * TW_FAST_COST - txq->lines;
	p->txq = &tw_no_txq;
}

void tw_txqs_close(struct tw_ep *ep)
{
	while (!tw_list_empty(&ep->open))
		tw_txq_close(tw_list_first(&ep->open, struct tw_peer, open));
}

/* A message of one packet and one piece, with an empty send queue. */
static tw_inline bool send_whole(struct tw_peer *p, const void *data, uint32_t len, uint64_t match,
				 const uint64_t *imm)
{
	struct tw_ep *ep = p->ep;
	struct iovec iov[2] = {{(void *)(uintptr_t)data, len}};
	uint32_t extra = imm ? (uint32_t)sizeof(*imm) : 0;
	uint32_t cost = tw_credit_cost(len);
	uint64_t now = tw_trace_now(ep);
	struct tw_hdr hdr;

	tw_txq_close(p); /* counts its credits; its messages precede this one */
	if (tw_unlikely(p->state != TW_PEER_UP || len > ep->eager_max || cost > p->credits ||
			!tw_list_empty(&p->sendq)))
		return false;
	if (len > TW_FAST_MAX && len > tw_eager_piece(p->link, len))
		return false;
	hdr = tw_hdr_make(TW_EAGER, imm ? TW_FLAG_IMM : 0, 0, len, match);
	if (imm) {
		iov[1] = iov[0];
		iov[0] = (struct iovec){(void *)(uintptr_t)imm, sizeof(*imm)};
	}
	if (tw_unlikely(tw_packet_return(p, TW_SEND_PLAIN, hdr, iov, imm ? 2 : 1, extra + len) !=
			TW_OK))
		return false;
	tw_trace_sent(p, now, TW_TRACE_EAGER, match, len, NULL);
	p->credits -= cost;
	ep->counters[TW_C_SEND_EAGER]++;
	ep->counters[TW_C_SEND_BYTES] += len;
	return true;
}

/* A program that only sends must also poll, or arm the doorbell. */
static inline void send_count(struct tw_peer *p)
{
	p->show->msgs_sent++;
	if (tw_likely(++p->unpolled < TW_RXQ_BATCH))
		return;
	p->unpolled = 0;
	tw_progress(p->ep);
}

/* Opens the txq for as many messages as need no further test. */
static void txq_open(struct tw_peer *p)
{
	struct tw_ring_tx *txq;
	uint32_t n;

	/* The poll may have changed the peer. */
	if (p->state != TW_PEER_UP || !tw_list_empty(&p->sendq) || !tw_list_empty(&p->open) ||
	    p->ep->traced)
		return;
	txq = p->link->txq;
	if (!txq || !tw_ring_room_small(txq) || p->ep->eager_max < TW_FAST_MAX)
		return;
	/* The message that polls does not use the txq. */
	n = tw_min(txq->limit - txq->head, TW_RXQ_BATCH - 1 - p->unpolled);
	/* With one more for each, as a slot holds messages of two lines. */
	n = tw_min(n, p->credits / (TW_FAST_COST + 1));
	if (!n)
		return;
	p->txq = txq;
	txq->payload = 0;
	txq->lines = 0;
	p->txq_from = txq->head;
	p->txq_end = txq->open = txq->head + n;
	p->credits -= n * TW_FAST_COST;
	txq->bopen = txq->bhead + TW_LINE * tw_min(tw_ring_room_mid(txq) / TW_LINE, p->credits - n);
	tw_list_add_tail(&p->ep->open, &p->open);
}

/* After a message of send_whole(). */
static inline void count_whole(struct tw_peer *p)
{
	send_count(p);
	txq_open(p);
}

void tw_fast_wake(struct tw_ring_tx *txq)
{
	struct tw_link *link = txq->back->link;

	link->provider->wake(link);
}

bool tw_inject(struct tw_ep *ep, const void *data, uint32_t len, uint64_t match, struct tw_addr to,
	       const uint64_t *imm)
{
	struct tw_ring_tx *txq = tw_fast_txq(ep, to);
	struct tw_peer *p;
	uint64_t word;

	if (txq && tw_eager_fits(txq, TW_EAGER_ANY, len, imm)) {
		tw_eager_write(txq, TW_EAGER_ANY, data, len, match, imm);
		if (tw_unlikely(tw_fast_asleep(txq)))
			tw_fast_wake(txq);
		return true;
	}
	p = tw_peer_at(ep, to);
	if (imm)
		word = htole64(*imm);
	if (!p || !send_whole(p, data, len, match, imm ? &word : NULL))
		return false;
	count_whole(p);
	return true;
}

/* All that the fast path does not cover. */
static tw_noinline void engine_send_slow(struct tw_peer *p, struct tw_req *r)
{
	struct tw_ep *ep = p->ep;

	if (p->state != TW_PEER_UP) {
		tw_req_complete(ep, r, (enum tw_status)p->why);
		return;
	}
	if (p->barred) {
		tw_req_complete(ep, r, TW_S_REJECTED);
		return;
	}
	tw_txq_close(p); /* nothing overtakes this one */
	ep->gauges[TW_G_SENDS]++;
	if (tw_list_empty(&p->sendq) && try_send(p, r)) {
		if (r->state == TW_XFER_ANNOUNCED)
			tw_peer_work(p);
		return;
	}
	ep->counters[TW_C_SEND_QUEUED]++;
	tw_trace_step(ep, TW_TRACE_QUEUED, p, r, r->len, 0);
	tw_send_queue(p, r);
}

void tw_send(struct tw_ep *ep, struct tw_req *r, struct tw_addr to)
{
	struct tw_peer *p = tw_peer_at(ep, to);

	r->other = to;
	r->msg_len = r->len;
	r->peer = p;
	if (tw_unlikely(!p)) {
		tw_req_complete(ep, r, TW_S_BAD_SESSION);
		return;
	}
	if ((!TW_USES_PIECES || r->nsegs == 1) && !(r->flags & (TW_R_SYNC | TW_R_URGENT)) &&
	    !r->extra && send_whole(p, r->seg.ptr, r->len, r->match, NULL)) {
		r->xfer_len = r->len;
		tw_req_complete(ep, r, TW_S_OK);
		count_whole(p);
	} else {
		engine_send_slow(p, r);
		send_count(p);
	}
}
