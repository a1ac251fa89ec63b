/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends. A message of one packet to a connected peer leaves at once: it needs no request, and its
 * event is written here.
 */
#include <endian.h>
#include <stdlib.h>

#include "engine/fast.h"
#include "fi/drain.h"

int tw_fi_pieces(struct tw_seg *segs, const struct iovec *iov, size_t count, bool cut, uint32_t *n,
		 uint32_t *len)
{
	*n = *len = 0;
	if (count > TW_FI_IOVS || (count && !iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		size_t more = iov[i].iov_len, room = UINT32_MAX - *len;

		if (!more)
			continue;
		if (!iov[i].iov_base)
			return -FI_EINVAL;
		if (more > room && !cut)
			return -FI_EMSGSIZE;
		more = tw_min(more, room);
		segs[(*n)++] = (struct tw_seg){iov[i].iov_base, (uint32_t)more};
		*len += (uint32_t)more;
	}
	return 0;
}

/* A request with a copy of the data, which is freed with it. */
static struct tw_req *copied_request(struct tw_ep *ep, const struct tw_fi_op *op)
{
	struct tw_seg *own = malloc(2 * sizeof(*own) + op->len);
	struct tw_req *r;
	char *to = (char *)(own + 2);

	if (!own)
		return NULL;
	r = tw_req_new1(ep, op->kind, to, op->len);
	if (!r) {
		free(own);
		return NULL;
	}
	/* Only several pieces are memory of their own: the second is empty. */
	own[0] = r->seg;
	own[1] = (struct tw_seg){0};
	r->nsegs = 2;
	r->segs = own;
	for (uint32_t i = 0; i < op->nsegs; i++) {
		memcpy(to, op->segs[i].ptr, op->segs[i].len);
		to += op->segs[i].len;
	}
	return r;
}

static struct tw_req *send_new_request(struct tw_ep *ep, const struct tw_fi_op *op,
				       const struct tw_atomic *a)
{
	if (a)
		return tw_window_atomic(ep, a);
	return (op->bits & TW_FI_COPIED) ? copied_request(ep, op)
					 : tw_req_new(ep, op->kind, op->segs, op->nsegs, op->len);
}

/* The engine's notification says that a put has data. That of an atomic follows it (report.c). */
static void add_data(struct tw_fi_ep *e, const struct tw_fi_op *op, struct tw_req *r)
{
	bool imm = op->bits & TW_FI_IMM;

	if (op->kind == TW_SEND) {
		r->extra = imm ? TW_X_IMM : 0;
		r->imm = htole64(op->imm);
		return;
	}
	if (op->kind != TW_READ && e->ordered) {
		r->user |= TW_FI_WRITES;
		e->nwrites++;
		tw_fi_tx_choose(e);
	}
	if (imm && op->kind == TW_ATOMIC)
		r->imm = op->imm;
	else if (imm)
		tw_window_notify(r, op->imm);
}

static ssize_t begin_entered(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_op *op,
			     const struct tw_atomic *a)
{
	struct tw_fi_dest *d;
	struct tw_req *r;

	if (!e->enabled)
		return -FI_EOPBADSTATE;
	if ((op->bits & TW_FI_COPIED) && op->len > TW_FI_INJECT)
		return -FI_EMSGSIZE;
	if (e->ntx >= e->tx_size ||
	    ((op->bits & TW_FI_NOTIFY) && e->tx_cq && !tw_fi_cq_room(e->tx_cq))) {
		tw_progress(ep);
		tw_fi_drain(e, ep);
		return -FI_EAGAIN;
	}
	d = tw_fi_dest(e, op->to);
	if (!d)
		return -FI_EINVAL;
	if ((op->bits & (TW_FI_COPIED | TW_FI_NOTIFY)) == TW_FI_COPIED) {
		int rc = tw_fi_dest_ask(ep, d);

		if (rc)
			return rc;
	}
	r = send_new_request(ep, op, a);
	if (!r)
		return -FI_EAGAIN;
	r->flags = (op->bits & TW_FI_SYNC) ? TW_R_SYNC : 0;
	r->peer = NULL;
	r->match = op->match;
	r->remote_address = op->offset;
	r->context = op->context;
	r->user = op->bits;
	add_data(e, op, r);
	e->ntx++;
	e->ncopied += (op->bits & TW_FI_COPIED) != 0;
	tw_fi_dest_begin(ep, d, r);
	if (!tw_list_empty(&ep->done))
		tw_fi_drain(e, ep);
	return 0;
}

ssize_t tw_fi_op_begin(struct tw_fi_ep *e, const struct tw_fi_op *op, const struct tw_atomic *a)
{
	struct tw_ep *ep = tw_fi_enter(e);
	ssize_t rc;

	if (!ep)
		return -FI_EOPBADSTATE;
	rc = begin_entered(e, ep, op, a);
	tw_leave_unfinished(ep);
	return rc;
}

/* Tags have a bit less than match values. */
static inline bool bad_tag(uint64_t match, uint32_t bits)
{
	return !(bits & TW_FI_TAGGED) != !!(match & TW_FI_UNTAGGED);
}

/* The event of a send that is over; there is room, and the queue's lock is held. */
static tw_inline void write_event(struct tw_fi_cq *cq, void *context, uint32_t bits)
{
	struct tw_fi_event *v = tw_fi_cq_next(cq);

	v->e.op_context = context;
	v->e.flags = FI_SEND | ((bits & TW_FI_TAGGED) ? FI_TAGGED : FI_MSG);
	v->e.len = 0;
	v->e.buf = NULL;
	v->e.data = v->e.tag = 0;
	v->source = FI_ADDR_NOTAVAIL;
	v->err = 0;
}

/*
 * Without a request, if that is possible. A queue is written by all endpoints that are bound to
 * it, each under its own lock, so it has one more.
 */
static bool fi_send_inject(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_op *op)
{
	struct tw_fi_cq *cq = (op->bits & TW_FI_NOTIFY) ? e->tx_cq : NULL;
	struct tw_fi_dest *d = op->to < e->ndests ? e->dests[op->to] : NULL;
	const void *buf = op->nsegs ? op->segs->ptr : NULL;
	bool sent = true;

	if (!d || d->state != TW_FI_DEST_UP || (op->bits & (TW_FI_SYNC | TW_FI_FENCE)) ||
	    op->nsegs > 1 || ((op->bits & TW_FI_COPIED) && op->len > TW_FI_INJECT) ||
	    tw_unlikely(e->nwrites && tw_fi_dest_holds(e, ep, d)))
		return false;
	if (cq) {
		tw_lock(&cq->lock);
		sent = tw_fi_cq_room(cq);
	}
	if (sent)
		sent = tw_inject(ep, buf, op->len, op->match, d->addr,
				 (op->bits & TW_FI_IMM) ? &op->imm : NULL);
	if (cq) {
		if (sent)
			write_event(cq, op->context, op->bits);
		tw_unlock(&cq->lock);
		tw_fi_woken(&cq->w);
	}
	if (sent) {
		ep->events++;
		tw_fi_count(e, TW_FI_CSEND, false);
	}
	return sent;
}

static ssize_t fi_send_entered(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_op *op)
{
	ssize_t rc = fi_send_inject(e, ep, op) ? 0 : begin_entered(e, ep, op, NULL);

	tw_leave_unfinished(ep);
	return rc;
}

static tw_noinline ssize_t fi_send_slow(struct tw_fi_ep *e, struct tw_ep *ep, const void *buf,
					size_t len, fi_addr_t to, uint64_t match, uint64_t imm,
					void *context, uint32_t bits)
{
	struct tw_seg seg = {(void *)(uintptr_t)buf, (uint32_t)len};
	struct tw_fi_op op = {.segs = &seg,
			      .nsegs = len != 0,
			      .len = (uint32_t)len,
			      .to = to,
			      .match = match,
			      .imm = imm,
			      .context = context,
			      .bits = bits};

	if (!ep && !(ep = tw_fi_enter(e)))
		return -FI_EOPBADSTATE;
	if ((buf || !len) && len <= UINT32_MAX)
		return fi_send_entered(e, ep, &op);
	tw_leave_unfinished(ep);
	return buf ? -FI_EMSGSIZE : -FI_EINVAL;
}

/* A message has taken the fast path, and somebody sleeps or something is to be done. */
static tw_noinline ssize_t fi_sent_slow(struct tw_fi_ep *e, struct tw_ep *ep,
					struct tw_ring_tx *txq)
{
	if (tw_fast_asleep(txq))
		tw_fast_wake(txq);
	if (e->tx_cq)
		tw_fi_woken(&e->tx_cq->w);
	ep->events++;
	tw_leave_unfinished(ep);
	return 0;
}

/* Whether a message can take the txq of its peer, and a place for it in the queue. */
static tw_inline bool is_short(const struct tw_ring_tx *txq, const void *buf, size_t len,
			       uint32_t bits)
{
	if (bits & TW_FI_IMM)
		return len <= TW_SHORT_MAX && (buf || !len);
	return buf && len <= UINT32_MAX && tw_eager_fits(txq, TW_EAGER_SLOT, (uint32_t)len, false);
}

/* The fast path: all is as usual, and nothing is called. */
static tw_inline ssize_t send1(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
			       uint64_t match, uint64_t imm, void *context, uint32_t bits)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	struct tw_lock_way way, queue = {0};
	struct tw_ep *ep = tw_enter_fast(e->handle, &way);
	struct tw_fi_cq *cq = e->tx_cq;
	struct tw_ring_tx *txq;

	if (tw_unlikely(!ep || to >= e->ndests || !e->dests[to] || e->tx_slow_path))
		return fi_send_slow(e, ep, buf, len, to, match, imm, context, bits);
	txq = tw_fast_txq(ep, e->dests[to]->addr);
	if (tw_unlikely(!txq || !is_short(txq, buf, len, bits)))
		return fi_send_slow(e, ep, buf, len, to, match, imm, context, bits);
	if (bits & TW_FI_NOTIFY) {
		if (tw_unlikely(!tw_lock_biased(&cq->lock, &queue)))
			return fi_send_slow(e, ep, buf, len, to, match, imm, context, bits);
		if (tw_unlikely(!tw_fi_cq_room(cq))) {
			tw_lock_leave(queue);
			return fi_send_slow(e, ep, buf, len, to, match, imm, context, bits);
		}
	}
	if (bits & TW_FI_IMM) {
		tw_assume(len <= TW_SHORT_MAX);
		tw_eager_write(txq, TW_EAGER_ANY, buf, (uint32_t)len, match, &imm);
	} else {
		tw_eager_write(txq, TW_EAGER_SLOT, buf, (uint32_t)len, match, NULL);
	}
	if (bits & TW_FI_NOTIFY) {
		write_event(cq, context, bits);
		tw_lock_leave(queue);
	}
	if (tw_unlikely(tw_fast_asleep(txq) || ep->slow_path ||
			((bits & TW_FI_NOTIFY) && tw_fi_armed(&cq->w))))
		return fi_sent_slow(e, ep, txq);
	tw_lock_leave(way);
	return 0;
}

/* With the flags of the endpoint. */
static tw_inline ssize_t fi_send_plain(struct fid_ep *fid, const void *buf, size_t len,
				       fi_addr_t to, uint64_t match, uint64_t imm, void *context,
				       uint32_t bits)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);

	if (tw_unlikely(bad_tag(match, bits)))
		return -FI_EINVAL;
	if (tw_unlikely(e->tx_bits != TW_FI_NOTIFY))
		return fi_send_slow(e, NULL, buf, len, to, match, imm, context, e->tx_bits | bits);
	return send1(fid, buf, len, to, match, imm, context, TW_FI_NOTIFY | bits);
}

static tw_inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t to,
				uint64_t match, uint64_t imm, uint32_t bits)
{
	if (tw_unlikely(bad_tag(match, bits)))
		return -FI_EINVAL;
	return send1(fid, buf, len, to, match, imm, NULL, bits | TW_FI_COPIED);
}

int tw_fi_op_flags(const struct tw_fi_ep *e, uint64_t flags, uint32_t *bits)
{
	const uint64_t known = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
			       FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE |
			       FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE | FI_SEND | FI_TAGGED |
			       FI_MSG | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE;

	if (flags & ~known)
		return -FI_EBADFLAGS;
	if (e->tx_cq && (!e->tx_selective || (flags & FI_COMPLETION)))
		*bits |= TW_FI_NOTIFY;
	if (flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE))
		*bits |= TW_FI_SYNC;
	if (flags & FI_INJECT)
		*bits |= TW_FI_COPIED;
	if (flags & FI_REMOTE_CQ_DATA)
		*bits |= TW_FI_IMM;
	if (flags & FI_FENCE)
		*bits |= TW_FI_FENCE;
	return 0;
}

static ssize_t sendv_any(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to,
			 uint64_t match, uint64_t imm, void *context, uint32_t bits)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	struct tw_seg segs[TW_FI_IOVS];
	struct tw_fi_op op = {.segs = segs,
			      .to = to,
			      .match = match,
			      .imm = imm,
			      .context = context,
			      .bits = bits};
	int rc = bad_tag(match, bits) ? -FI_EINVAL
				      : tw_fi_pieces(segs, iov, count, false, &op.nsegs, &op.len);
	struct tw_ep *ep = rc ? NULL : tw_fi_enter(e);

	if (!ep)
		return rc ? rc : -FI_EOPBADSTATE;
	return fi_send_entered(e, ep, &op);
}

static ssize_t sendmsg_any(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to,
			   uint64_t match, uint64_t imm, void *context, uint64_t flags,
			   uint32_t bits)
{
	int rc = tw_fi_op_flags(tw_fi_of(struct tw_fi_ep, fid), flags, &bits);

	return rc ? rc : sendv_any(fid, iov, count, to, match, imm, context, bits);
}

static inline uint32_t tx_bits(struct fid_ep *fid)
{
	return tw_fi_of(struct tw_fi_ep, fid)->tx_bits;
}

/* FI_TAGGED ------------------------------------------------------------------ */

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			   uint64_t tag, void *context)
{
	(void)desc;
	return fi_send_plain(ep, buf, len, to, tag, 0, context, TW_FI_TAGGED);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			    fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return sendv_any(ep, iov, count, to, tag, 0, context, tx_bits(ep) | TW_FI_TAGGED);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags)
{
	return sendmsg_any(ep, m->msg_iov, m->iov_count, m->addr, m->tag, m->data, m->context,
			   flags, TW_FI_TAGGED);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to,
			     uint64_t tag)
{
	return inject(ep, buf, len, to, tag, 0, TW_FI_TAGGED);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
	(void)desc;
	return fi_send_plain(ep, buf, len, to, tag, data, context, TW_FI_TAGGED | TW_FI_IMM);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				 fi_addr_t to, uint64_t tag)
{
	return inject(ep, buf, len, to, tag, data, TW_FI_TAGGED | TW_FI_IMM);
}

/* FI_MSG --------------------------------------------------------------------- */

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			void *context)
{
	(void)desc;
	return fi_send_plain(ep, buf, len, to, TW_FI_UNTAGGED, 0, context, 0);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t to, void *context)
{
	(void)desc;
	return sendv_any(ep, iov, count, to, TW_FI_UNTAGGED, 0, context, tx_bits(ep));
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
	return sendmsg_any(ep, m->msg_iov, m->iov_count, m->addr, TW_FI_UNTAGGED, m->data,
			   m->context, flags, 0);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	return inject(ep, buf, len, to, TW_FI_UNTAGGED, 0, 0);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t to, void *context)
{
	(void)desc;
	return fi_send_plain(ep, buf, len, to, TW_FI_UNTAGGED, data, context, TW_FI_IMM);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t to)
{
	return inject(ep, buf, len, to, TW_FI_UNTAGGED, data, TW_FI_IMM);
}

/* The tables of both directions ----------------------------------------------- */

struct fi_ops_msg tw_fi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = tw_fi_recv,
	.recvv = tw_fi_recvv,
	.recvmsg = tw_fi_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

struct fi_ops_tagged tw_fi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tw_fi_trecv,
	.recvv = tw_fi_trecvv,
	.recvmsg = tw_fi_trecvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
