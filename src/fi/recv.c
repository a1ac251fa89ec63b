/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives; looking at messages that have arrived, claiming and discarding them; cancel. */
#include <stdlib.h>

#include "engine/fast.h"
#include "fi/drain.h"

/* One receive. */
struct op {
	const struct iovec *iov;
	size_t count;
	fi_addr_t from;
	uint64_t key, mask;
	void *context;
	uint32_t bits;
};

static ssize_t recv_new_request(struct tw_ep *ep, const struct op *op, struct tw_req **out)
{
	struct tw_seg segs[TW_FI_IOVS];
	uint32_t n, len;
	int rc = tw_fi_pieces(segs, op->iov, op->count, true, &n, &len);

	if (rc)
		return rc;
	*out = tw_req_new(ep, TW_RECV, segs, n, len);
	if (!*out)
		return -FI_EAGAIN;
	(*out)->context = op->context;
	(*out)->user = op->bits;
	return 0;
}

/* Where a receive's messages must come from; 0: anywhere. False for an invalid address. */
static inline bool recv_source_of(struct tw_fi_ep *e, fi_addr_t from, struct tw_fi_dest **d)
{
	*d = NULL;
	if (tw_likely(!e->directed || from == FI_ADDR_UNSPEC))
		return true;
	*d = tw_fi_dest(e, from);
	return *d != NULL;
}

void tw_fi_recv_post(struct tw_ep *ep, struct tw_req *r, uint64_t where)
{
	struct tw_source *from = where ? tw_source_get(ep, where) : NULL;

	if (where && !from)
		tw_req_complete(ep, r, TW_S_NO_RESOURCES);
	else
		tw_recv_post_from(ep, r, TW_FI_UNTAGGED, TW_FI_UNTAGGED, from);
}

static ssize_t recv_entered(struct tw_fi_ep *e, struct tw_ep *ep, const struct op *op)
{
	struct tw_fi_dest *d;
	struct tw_req *r;
	ssize_t rc;

	if (tw_unlikely(e->nrx >= e->rx_size)) {
		tw_progress(ep);
		tw_fi_drain(e, ep);
		return -FI_EAGAIN;
	}
	if (!recv_source_of(e, op->from, &d))
		return -FI_EINVAL;
	if (d && !d->from && !(d->from = tw_source_get(ep, d->where)))
		return -FI_EAGAIN;
	rc = recv_new_request(ep, op, &r);
	if (rc)
		return rc;
	if (tw_unlikely(!(op->bits & TW_FI_TAGGED) && !tw_list_empty(&e->multis))) {
		/* Behind the buffers for many messages. */
		r->match = d ? d->where : 0;
		tw_list_add_tail(&e->held, &r->link);
	} else {
		tw_recv_post_from(ep, r, op->key, op->mask, d ? d->from : NULL);
	}
	e->nrx++;
	/* Asks for the data of an announced message at once. */
	if (tw_unlikely(!tw_list_empty(&ep->work)))
		tw_flush(ep);
	return 0;
}

/* Looking, claiming, discarding ---------------------------------------------- */

static struct tw_unexp_msg *claimed_by(const struct op *op)
{
	return op->context ? ((struct fi_context *)op->context)->internal[0] : NULL;
}

static void recv_describe(const struct tw_fi_ep *e, const struct tw_unexp_msg *u,
			  const struct op *op, struct tw_fi_event *v)
{
	*v = (struct tw_fi_event){
		.e = {.op_context = op->context, .flags = FI_RECV | FI_TAGGED, .len = u->len}};
	v->e.tag = u->unexp.match & ~TW_FI_UNTAGGED;
	v->source = tw_fi_av_find(e->av, u->peer->addr.where);
	if (u->has_imm) {
		v->e.flags |= FI_REMOTE_CQ_DATA;
		v->e.data = u->imm;
	}
}

/* The start of a message, as far as it is here and fits the first piece. */
static void copy_start(const struct tw_unexp_msg *u, const struct op *op, struct tw_fi_event *v)
{
	uint32_t here = tw_unexp_is_whole(u) ? u->len : u->state == TW_U_PART ? u->have : 0;

	if (!here || !op->count || !op->iov || !op->iov[0].iov_base)
		return;
	memcpy(op->iov[0].iov_base, u->data, tw_min((size_t)here, op->iov[0].iov_len));
	v->e.buf = op->iov[0].iov_base;
}

static ssize_t recv_peek(struct tw_fi_ep *e, struct tw_ep *ep, const struct op *op, uint64_t flags)
{
	struct tw_fi_event v = {.e = {.op_context = op->context, .flags = FI_RECV | FI_TAGGED}};
	struct tw_unexp_msg *u;
	struct tw_fi_dest *d;

	if (!e->rx_cq)
		return -FI_ENOCQ;
	if (!recv_source_of(e, op->from, &d) || ((flags & FI_CLAIM) && !op->context))
		return -FI_EINVAL;
	if (!tw_fi_cq_room(e->rx_cq))
		return -FI_EAGAIN;
	tw_progress(ep);
	u = tw_unexp_find_from(ep, op->key, op->mask, d ? d->where : 0);
	if (u) {
		recv_describe(e, u, op, &v);
		if (!(flags & FI_DISCARD))
			copy_start(u, op, &v);
	} else {
		v.err = FI_ENOMSG;
		v.e.tag = op->key;
	}
	/* Others fill that queue, too. */
	if (!tw_fi_cq_put(e->rx_cq, &v))
		return -FI_EAGAIN;
	if (u && (flags & (FI_CLAIM | FI_DISCARD)))
		tw_unexp_unqueue(ep, u);
	if (u && (flags & FI_DISCARD)) {
		tw_unexp_drop(ep, u);
	} else if (u && (flags & FI_CLAIM)) {
		tw_list_add_tail(&e->claimed, &u->unexp.all);
		((struct fi_context *)op->context)->internal[0] = u;
	}
	ep->events++;
	return 0;
}

static ssize_t recv_claim(struct tw_fi_ep *e, struct tw_ep *ep, const struct op *op, uint64_t flags)
{
	struct tw_unexp_msg *u = claimed_by(op);
	struct tw_fi_event v;
	struct tw_req *r;
	ssize_t rc;

	if (!u)
		return -FI_EINVAL;
	if (flags & FI_DISCARD) {
		recv_describe(e, u, op, &v);
		v.e.len = 0;
		if (!e->rx_cq || !tw_fi_cq_put(e->rx_cq, &v))
			return -FI_EAGAIN;
		tw_list_del(&u->unexp.all);
		tw_unexp_drop(ep, u);
		((struct fi_context *)op->context)->internal[0] = NULL;
		ep->events++;
		return 0;
	}
	rc = recv_new_request(ep, op, &r);
	if (rc)
		return rc;
	((struct fi_context *)op->context)->internal[0] = NULL;
	e->nrx++;
	tw_list_del(&u->unexp.all);
	tw_unexp_receive(ep, u, r);
	if (!tw_list_empty(&ep->work))
		tw_flush(ep);
	return 0;
}

void tw_fi_claimed_drop(struct tw_fi_ep *e)
{
	struct tw_ep *ep = tw_fi_enter(e);
	struct tw_unexp *x;

	if (!ep)
		return;
	while ((x = tw_list_take(&e->claimed, struct tw_unexp, all)))
		tw_unexp_drop(ep, tw_container(x, struct tw_unexp_msg, unexp));
	tw_leave_unfinished(ep);
}

/* Into a buffer for many messages. */
static ssize_t recv_multi(struct tw_fi_ep *e, struct tw_ep *ep, const struct op *op)
{
	struct tw_fi_dest *d;

	if (op->count != 1 || !op->iov || !op->iov[0].iov_base || !recv_source_of(e, op->from, &d))
		return -FI_EINVAL;
	return tw_fi_multi_post(e, ep, op->iov[0].iov_base, op->iov[0].iov_len, op->context,
				d ? d->where : 0);
}

/* A receive, or what its flags make of it. */
static ssize_t recv_op(struct fid_ep *fid, const struct op *op, uint64_t flags)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	struct tw_ep *ep = tw_fi_enter(e);
	ssize_t rc;

	if (tw_unlikely(!ep))
		return -FI_EOPBADSTATE;
	if (tw_unlikely(!e->enabled))
		rc = -FI_EOPBADSTATE;
	else if (tw_likely(!(flags & (FI_PEEK | FI_CLAIM | FI_MULTI_RECV))))
		rc = recv_entered(e, ep, op);
	else if (flags & FI_MULTI_RECV)
		rc = recv_multi(e, ep, op);
	else
		rc = flags & FI_PEEK ? recv_peek(e, ep, op, flags) : recv_claim(e, ep, op, flags);
	tw_leave_unfinished(ep);
	return rc;
}

static tw_noinline ssize_t fi_recv_slow(struct fid_ep *fid, void *buf, size_t len, fi_addr_t from,
					uint64_t key, uint64_t mask, void *context, uint32_t bits)
{
	struct iovec iov = {buf, len};
	struct op op = {&iov, 1, from, key, mask, context, bits};

	return recv_op(fid, &op, 0);
}

/* Whether there were receives for that source before. */
static inline bool known_source(const struct tw_fi_ep *e, fi_addr_t from)
{
	return from < e->ndests && e->dests[from] && e->dests[from]->from;
}

/* The fast path: no message waits, and nothing is to be done. */
static tw_inline ssize_t recv1(struct fid_ep *fid, void *buf, size_t len, fi_addr_t from,
			       uint64_t key, uint64_t mask, void *context, uint32_t bits)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, fid);
	bool one = e->directed && from != FI_ADDR_UNSPEC;
	struct tw_lock_way way;
	struct tw_ep *ep;
	struct tw_req *r;

	if (tw_unlikely(!e->enabled || !buf || len > UINT32_MAX))
		return fi_recv_slow(fid, buf, len, from, key, mask, context, bits);
	ep = tw_enter_fast(e->handle, &way);
	if (tw_unlikely(!ep))
		return fi_recv_slow(fid, buf, len, from, key, mask, context, bits);
	if (tw_unlikely((ep->gauges[TW_G_UNEXPECTED] | ep->slow_path) || !ep->reqs.free ||
			e->nrx >= e->rx_size || !tw_list_empty(&e->multis) ||
			(one && !known_source(e, from)))) {
		tw_leave_unfinished(ep);
		return fi_recv_slow(fid, buf, len, from, key, mask, context, bits);
	}
	r = tw_recv_prepare(ep, buf, (uint32_t)len, key, mask);
	r->context = context;
	r->user = bits;
	e->nrx++;
	if (one)
		tw_source_post(ep, r, e->dests[from]->from);
	else
		tw_match_post(ep->match, &r->posted);
	tw_lock_leave(way);
	return 0;
}

static int take_flags(struct tw_fi_ep *e, uint64_t flags, uint32_t *bits)
{
	const uint64_t known = FI_COMPLETION | FI_MULTI_RECV | FI_MORE | FI_PEEK | FI_CLAIM |
			       FI_DISCARD | FI_RECV | FI_TAGGED | FI_MSG | FI_TRANSMIT_COMPLETE |
			       FI_DELIVERY_COMPLETE | FI_INJECT_COMPLETE;

	if (flags & ~known)
		return -FI_EBADFLAGS;
	if (e->rx_cq && (!e->rx_selective || (flags & FI_COMPLETION)))
		*bits |= TW_FI_NOTIFY;
	return 0;
}

/* FI_TAGGED ------------------------------------------------------------------ */

static inline uint32_t rx_bits(struct fid_ep *fid)
{
	return tw_fi_of(struct tw_fi_ep, fid)->rx_bits;
}

ssize_t tw_fi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		     fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
	uint64_t mask = ~ignore | TW_FI_UNTAGGED;
	struct op op = {.iov = iov,
			.count = count,
			.from = from,
			.key = tag & mask,
			.mask = mask,
			.context = context,
			.bits = rx_bits(ep) | TW_FI_TAGGED};

	(void)desc;
	return tw_unlikely(op.key & TW_FI_UNTAGGED) ? -FI_EINVAL : recv_op(ep, &op, 0);
}

ssize_t tw_fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		    uint64_t tag, uint64_t ignore, void *context)
{
	uint64_t mask = ~ignore | TW_FI_UNTAGGED;

	(void)desc;
	if (tw_unlikely(tag & mask & TW_FI_UNTAGGED))
		return -FI_EINVAL;
	return recv1(ep, buf, len, from, tag & mask, mask, context, rx_bits(ep) | TW_FI_TAGGED);
}

ssize_t tw_fi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags)
{
	uint64_t mask = ~m->ignore | TW_FI_UNTAGGED;
	struct op op = {.iov = m->msg_iov,
			.count = m->iov_count,
			.from = m->addr,
			.key = m->tag & mask,
			.mask = mask,
			.context = m->context,
			.bits = TW_FI_TAGGED};
	int rc = take_flags(tw_fi_of(struct tw_fi_ep, ep), flags, &op.bits);

	if (rc == 0 && (op.key & TW_FI_UNTAGGED))
		rc = -FI_EINVAL;
	if (rc == 0 && (flags & FI_MULTI_RECV))
		rc = -FI_EBADFLAGS;
	if (rc)
		return rc;
	if ((flags & FI_DISCARD) && !(flags & (FI_PEEK | FI_CLAIM)))
		return -FI_EINVAL;
	return recv_op(ep, &op, flags);
}

/* FI_MSG --------------------------------------------------------------------- */

ssize_t tw_fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		    fi_addr_t from, void *context)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, ep);
	struct op op = {.iov = iov,
			.count = count,
			.from = from,
			.key = TW_FI_UNTAGGED,
			.mask = TW_FI_UNTAGGED,
			.context = context,
			.bits = e->rx_bits};

	(void)desc;
	return recv_op(ep, &op, count == 1 ? e->rx_flags & FI_MULTI_RECV : 0);
}

ssize_t tw_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from,
		   void *context)
{
	struct tw_fi_ep *e = tw_fi_of(struct tw_fi_ep, ep);
	struct iovec iov = {buf, len};

	if (tw_unlikely(e->rx_flags & FI_MULTI_RECV))
		return tw_fi_recvv(ep, &iov, desc, 1, from, context);
	return recv1(ep, buf, len, from, TW_FI_UNTAGGED, TW_FI_UNTAGGED, context, e->rx_bits);
}

ssize_t tw_fi_recvmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
	struct op op = {.iov = m->msg_iov,
			.count = m->iov_count,
			.from = m->addr,
			.key = TW_FI_UNTAGGED,
			.mask = TW_FI_UNTAGGED,
			.context = m->context};
	int rc = take_flags(tw_fi_of(struct tw_fi_ep, ep), flags, &op.bits);

	if (rc)
		return rc;
	if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return -FI_EBADFLAGS;
	return recv_op(ep, &op, flags);
}

/* Cancelling ------------------------------------------------------------------ */

static struct tw_req *find_posted(struct tw_ep *ep, const void *context)
{
	struct tw_req *r;

	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));)
		if (r->kind == TW_RECV && (r->flags & TW_R_POSTED) && r->context == context)
			break;
	return r;
}

static struct tw_req *find_sent(struct tw_ep *ep, const void *context)
{
	struct tw_req *r;

	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));)
		if (r->kind == TW_SEND && !(r->flags & TW_R_DONE) && r->context == context &&
		    !(r->user & TW_FI_COPIED))
			break;
	return r;
}

/* 0: it ends with FI_ECANCELED, unless a receive has it already. */
static ssize_t cancel_send(struct tw_ep *ep, const void *context)
{
	struct tw_req *r = find_sent(ep, context);

	switch (r ? tw_take_back(ep, r, TW_S_CANCELLED) : TW_BACK_NO) {
	case TW_BACK_DONE:
		tw_req_complete(ep, r, TW_S_CANCELLED);
		return 0;
	case TW_BACK_ASKED:
		tw_flush(ep);
		return 0;
	default:
		return -FI_ENOENT;
	}
}

static struct tw_req *find_held(struct tw_fi_ep *e, const void *context)
{
	tw_list_walk(&e->held, struct tw_req, r, link)
		if (r->context == context)
			return r;
	return NULL;
}

ssize_t tw_fi_cancel(fid_t fid, void *context)
{
	struct tw_fi_ep *e = tw_fi_from(struct tw_fi_ep, fid);
	struct tw_ep *ep = tw_fi_enter(e);
	struct tw_req *r;
	ssize_t rc = 0;

	if (!ep)
		return -FI_EOPBADSTATE;
	r = find_posted(ep, context);
	if (r)
		tw_recv_cancel(ep, r);
	else if ((r = find_held(e, context)))
		tw_list_del(&r->link);
	else
		r = tw_fi_dests_take(e, context);
	if (r) {
		r->xfer_len = r->msg_len = 0;
		tw_req_complete(ep, r, TW_S_CANCELLED);
	} else {
		rc = tw_fi_multi_cancel(e, ep, context);
		if (rc == -FI_ENOENT)
			rc = cancel_send(ep, context);
	}
	tw_fi_drain(e, ep);
	tw_leave_unfinished(ep);
	return rc;
}
