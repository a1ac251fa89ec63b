/* SPDX-License-Identifier: BSD-2-Clause */
/* Completed requests become events of the queues, and count. */
#include <stdlib.h>

#include "engine/fast.h"
#include "fi/drain.h"

int tw_fi_error_of(enum tw_status status)
{
	static const uint16_t errors[TW_NSTATUS] = {
		[TW_S_TRUNCATED] = FI_ETRUNC,	     [TW_S_CANCELLED] = FI_ECANCELED,
		[TW_S_CLOSED] = FI_ECONNRESET,	     [TW_S_LOST] = FI_ECONNRESET,
		[TW_S_BAD_SESSION] = FI_ECONNRESET,  [TW_S_BAD_KEY] = FI_ECONNREFUSED,
		[TW_S_TIMEOUT] = FI_ETIMEDOUT,	     [TW_S_UNKNOWN] = FI_EHOSTUNREACH,
		[TW_S_BAD_ENDPOINT] = FI_EINVAL,     [TW_S_REJECTED] = FI_ECONNREFUSED,
		[TW_S_ABORTED] = FI_EFAULT,	     [TW_S_NO_RESOURCES] = FI_ENOMEM,
		[TW_S_BAD_WINDOW] = FI_EKEYREJECTED, [TW_S_OUT_OF_WINDOW] = FI_EINVAL,
		[TW_S_NO_RIGHT] = FI_EACCES,
	};

	return (unsigned)status < TW_NSTATUS && errors[status] ? errors[status] : FI_EOTHER;
}

/* The flags of the event of an operation, and the counter. */
static uint64_t flags_of(const struct tw_req *r, enum tw_fi_count *which)
{
	uint64_t tagged = (r->user & TW_FI_TAGGED) ? FI_TAGGED : FI_MSG;

	switch (r->kind) {
	case TW_RECV:
		*which = TW_FI_CRECV;
		return tagged | FI_RECV;
	case TW_READ:
		*which = TW_FI_CREAD;
		return FI_RMA | FI_READ;
	case TW_WRITE:
		*which = TW_FI_CWRITE;
		return FI_RMA | FI_WRITE;
	case TW_ATOMIC:
		*which = (r->user & TW_FI_FETCH) ? TW_FI_CREAD : TW_FI_CWRITE;
		return FI_ATOMIC | ((r->user & TW_FI_FETCH) ? FI_READ : FI_WRITE);
	default:
		*which = TW_FI_CSEND;
		return tagged | FI_SEND;
	}
}

static inline fi_addr_t source_of_message(const struct tw_fi_ep *e, const struct tw_req *r)
{
	return e->caps & FI_SOURCE ? tw_fi_av_find(e->av, r->other.where) : FI_ADDR_NOTAVAIL;
}

static void describe_received(struct tw_fi_ep *e, struct tw_req *r, struct tw_fi_event *v)
{
	v->e.len = r->status == TW_S_OK ? r->msg_len : r->xfer_len;
	v->e.tag = r->match & ~TW_FI_UNTAGGED;
	v->source = source_of_message(e, r);
	if (r->extra & TW_X_IMM && !(r->flags & TW_R_POSTED)) {
		v->e.flags |= FI_REMOTE_CQ_DATA;
		v->e.data = r->imm;
	}
	if (r->user & TW_FI_REPORTED)
		v->e.flags = FI_REMOTE_CQ_DATA | r->match;
	if (r->user & (TW_FI_REPORTED | TW_FI_MULTI))
		v->e.tag = 0;
	if (r->user & TW_FI_MULTI)
		tw_fi_multi_done(r, v);
}

static void drain_describe(struct tw_fi_ep *e, struct tw_req *r, uint64_t flags,
			   struct tw_fi_event *v)
{
	v->e = (struct fi_cq_tagged_entry){.op_context = r->context, .flags = flags};
	v->source = FI_ADDR_NOTAVAIL;
	v->err = v->prov_errno = 0;
	if (r->kind != TW_RECV)
		return;
	describe_received(e, r, v);
	/* FI_SOURCE_ERR: the program may insert it. */
	if (tw_unlikely(v->source == FI_ADDR_NOTAVAIL && (e->caps & FI_SOURCE) &&
			(e->caps & FI_SOURCE_ERR) &&
			!(r->user & (TW_FI_RELEASE | TW_FI_REPORTED)))) {
		v->err = FI_EADDRNOTAVAIL;
		v->where = r->other.where;
	}
}

static void describe_error(const struct tw_fi_ep *e, struct tw_req *r, struct tw_fi_event *v)
{
	/* An injected message has no other. */
	if (!v->e.op_context && (r->user & TW_FI_COPIED))
		v->e.op_context = e->fid.fid.context;
	v->err = tw_fi_error_of((enum tw_status)r->status);
	v->prov_errno = r->status;
	v->olen = r->status == TW_S_TRUNCATED ? r->msg_len - r->len : 0;
}

static void access_over(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_req *r)
{
	tw_fi_report(ep, r);
	if (r->user & TW_FI_WRITES) {
		e->nwrites--;
		tw_fi_tx_choose(e);
	}
}

/* False when the queue has no room: the request stays complete. */
static bool drain_deliver(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_req *r)
{
	bool recv = r->kind == TW_RECV, failed = r->status != TW_S_OK;
	struct tw_fi_cq *cq = recv ? e->rx_cq : e->tx_cq;
	struct tw_fi_event nobody, *v = &nobody;
	enum tw_fi_count which;
	uint64_t flags = flags_of(r, &which);

	if (cq && (failed || (r->user & TW_FI_NOTIFY))) {
		tw_lock(&cq->lock);
		if (!tw_fi_cq_room(cq)) {
			tw_unlock(&cq->lock);
			return false;
		}
		v = tw_fi_cq_next(cq);
	}
	if (tw_unlikely(r->user & TW_FI_PARTS))
		r->context = tw_fi_parts_done(r->context, !failed);
	drain_describe(e, r, flags, v);
	if (tw_unlikely(failed))
		describe_error(e, r, v);
	if (v != &nobody) {
		tw_unlock(&cq->lock);
		tw_fi_woken(&cq->w);
	}
	if (tw_is_access(r))
		access_over(e, ep, r);
	if (tw_unlikely(r->user & TW_FI_REPORTED)) {
		tw_req_free(ep, r);
		return true;
	}
	if (!(r->user & TW_FI_RELEASE))
		tw_fi_count(e, which, failed);
	if (recv)
		e->nrx--;
	else
		e->ntx--;
	e->ncopied -= (r->user & TW_FI_COPIED) != 0;
	tw_req_free(ep, r);
	return true;
}

/* True of a message that was received with no error, for an event and nothing else. */
static inline bool is_plain_message(const struct tw_req *r)
{
	uint64_t other = r->user ^ (TW_FI_NOTIFY | TW_FI_TAGGED);

	return r->kind == TW_RECV && r->status == TW_S_OK && !(other & ~(uint64_t)TW_FI_TAGGED);
}

/* Ends such a receive, with its event. */
static tw_inline void end_message(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_req *r,
				  struct fi_cq_tagged_entry *event)
{
	bool imm = r->extra & TW_X_IMM;

	event->op_context = r->context;
	event->flags = FI_RECV | ((r->user & TW_FI_TAGGED) ? FI_TAGGED : FI_MSG) |
		       (imm ? FI_REMOTE_CQ_DATA : 0);
	event->len = r->msg_len;
	event->buf = NULL;
	event->data = imm ? r->imm : 0;
	event->tag = r->match & ~TW_FI_UNTAGGED;
	e->nrx--;
	tw_req_free(ep, r);
}

/* The usual, which comes first: messages that are received, and nothing counts them. */
static void deliver_received(struct tw_fi_ep *e, struct tw_ep *ep)
{
	struct tw_fi_cq *cq = e->rx_cq;
	bool any = false;

	if (tw_unlikely(!cq || e->counts))
		return;
	tw_lock(&cq->lock);
	while (!tw_list_empty(&ep->done) && tw_fi_cq_room(cq)) {
		struct tw_req *r = tw_list_first(&ep->done, struct tw_req, link);
		struct tw_fi_event *v;

		if (tw_unlikely(!is_plain_message(r)))
			break;
		v = tw_fi_cq_next(cq);
		v->source = source_of_message(e, r);
		v->err = 0;
		end_message(e, ep, r, &v->e);
		any = true;
	}
	tw_unlock(&cq->lock);
	if (any)
		tw_fi_woken(&cq->w);
}

/*
 * Takes requests that have ended: all, with their events, or only connects, and accesses that
 * others wait to hear of. True if it is to be called again, as sends that waited for a connect may
 * have ended.
 */
static bool take_done(struct tw_fi_ep *e, struct tw_ep *ep, bool events)
{
	tw_list_walk(&ep->done, struct tw_req, r, link) {
		if (tw_fi_for_dest(r)) {
			tw_fi_dest_ready(ep, r);
			return true;
		}
		if (events)
			drain_deliver(e, ep, r);
		else
			tw_fi_report(ep, r);
	}
	return false;
}

void tw_fi_drain(struct tw_fi_ep *e, struct tw_ep *ep)
{
	if (tw_unlikely(!tw_list_empty(&e->multis)))
		tw_fi_multi_fill(e, ep);
	deliver_received(e, ep);
	while (tw_unlikely(!tw_list_empty(&ep->done)) && take_done(e, ep, true))
		;
	if (tw_unlikely(e->nfenced))
		tw_fi_dests_go_on(e, ep);
}

/* True if a thread may sleep on a descriptor that the endpoint feeds. */
static bool slept_on(const struct tw_fi_ep *e)
{
	bool any = e->domain->mr_waits;

	for (unsigned i = 0; !any && i < TW_FI_NFED; i++)
		any = tw_fi_fed(e, i) && tw_fi_armed(tw_fi_fed(e, i));
	return any;
}

/*
 * A message that has come alone: its event goes straight to the program, which reads a queue
 * that is empty. Others cannot overtake it, as the endpoint is the only one of the queue.
 */
static tw_inline bool read_alone(struct tw_fi_ep *e, struct tw_ep *ep, const struct tw_fi_cq *cq,
				 struct fi_cq_tagged_entry *event, fi_addr_t *from)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;
	struct tw_req *r;

	if (cq != e->rx_cq || cq->n || e->counts || rxqs->nactive != 1 ||
	    tw_poll_full(tw_polls(ep) + 1) ||
	    (ep->gauges[TW_G_POSTED] > 1 && tw_ring_has_more(rxqs->rx[0])))
		return false;
	r = tw_recv_alone_imm(rxqs->rx[0]);
	if (tw_unlikely(!r))
		return false;
	ep->events++;
	if (tw_unlikely(!is_plain_message(r))) {
		tw_req_ended(ep, r);
		return false;
	}
	if (from)
		*from = source_of_message(e, r);
	end_message(e, ep, r, event);
	return true;
}

static inline bool has_ended_none(const struct tw_fi_ep *e, const struct tw_ep *ep)
{
	return tw_list_empty(&ep->done) && tw_list_empty(&e->multis);
}

bool tw_fi_read(struct tw_fi_ep *e, const struct tw_fi_cq *cq, struct fi_cq_tagged_entry *event,
		fi_addr_t *from)
{
	struct tw_lock_way way = {0};
	struct tw_ep *fast = tw_enter_fast(e->handle, &way), *ep = fast ? fast : tw_fi_enter(e);
	bool usual = fast && has_ended_none(e, ep), read = false;

	if (tw_unlikely(!ep))
		return false;
	if (tw_unlikely(ep->awaited | tw_poll_slow_path(ep))) {
		ep->awaited = ep->awaited && slept_on(e);
		tw_progress(ep);
	} else if (tw_fast_poll_empty(ep)) {
		if (usual) {
			tw_lock_leave(way);
			return false;
		}
	} else if (usual && event && read_alone(e, ep, cq, event, from)) {
		read = true;
		if (tw_likely(tw_leave_fast(ep, way)))
			return true;
	} else {
		tw_progress_usual(ep);
	}
	if (!has_ended_none(e, ep))
		tw_fi_drain(e, ep);
	tw_leave_unfinished(ep);
	return read;
}

void tw_fi_progress(struct tw_fi_ep *e)
{
	tw_fi_read(e, NULL, NULL, NULL);
}

/* In the service thread, which may not take the locks of queues. */
void tw_fi_background(struct tw_ep *ep)
{
	struct tw_fi_ep *e = ep->owner;

	while (take_done(e, ep, false))
		;
	if (e->nfenced)
		tw_fi_dests_go_on(e, ep);
	if (tw_list_empty(&ep->done) && (tw_list_empty(&e->multis) || !ep->gauges[TW_G_UNEXPECTED]))
		return;
	for (unsigned i = 0; i < TW_FI_NFED; i++)
		if (tw_fi_fed(e, i))
			tw_fi_woken(tw_fi_fed(e, i));
}
