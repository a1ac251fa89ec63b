/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records what happens at a traced endpoint (base/trace.h). Such an endpoint takes no fast path:
 * its ep->slow_path is never 0, its txqs stay closed, and its peers' rx_slow_path is never 0. So
 * without a trace the fast paths do not ask for one (doc/decisions.md, 181). Probes (base/probe.h)
 * are at the same places, and in the fast paths, too (128).
 */
#ifndef TW_TRACE_H
#define TW_TRACE_H

#include "base/probe.h"
#include "base/trace.h"
#include "engine/engine.h"

/* Traces the endpoint, if TAGWIRE_TRACE says so; says why it cannot. */
void tw_trace_open(struct tw_ep *ep);
void tw_trace_close(struct tw_ep *ep);
/* Keeps the name of a peer. */
void tw_trace_peer(const struct tw_peer *p);
/* Writes an event of this tick. number: or link. */
void tw_trace_add(struct tw_ep *ep, uint64_t tick, enum tw_trace_kind kind, uint32_t peer,
		  uint64_t match, uint32_t len, uint32_t number, uint32_t id);
/* A poll has found nothing, or a call has slept since that tick. */
void tw_trace_idle(struct tw_ep *ep, uint64_t since);

/* The probe of a kind, which mostly is a constant. peer: its name, or 0; object: or NULL. */
static tw_inline void tw_trace_probe(enum tw_trace_kind kind, uint64_t peer, uint64_t match,
				     uint32_t len, const void *object)
{
	switch (kind) {
	case TW_TRACE_QUEUED:
		TW_PROBE(queue, peer, match, len, object);
		break;
	case TW_TRACE_EAGER:
		TW_PROBE(send, peer, match, len, object);
		break;
	case TW_TRACE_ANNOUNCED:
		TW_PROBE(announce, peer, match, len, object);
		break;
	case TW_TRACE_POSTED:
		TW_PROBE(post, peer, match, len, object);
		break;
	case TW_TRACE_RECEIVED:
	case TW_TRACE_MET:
		TW_PROBE(receive, peer, match, len, object);
		break;
	case TW_TRACE_UNEXPECTED:
		TW_PROBE(unexpected, peer, match, len, object);
		break;
	case TW_TRACE_TAKEN:
		TW_PROBE(take, peer, match, len, object);
		break;
	case TW_TRACE_ENDED:
		TW_PROBE(end, peer, match, len, object);
		break;
	default:
		break;
	}
}

static inline uint32_t tw_trace_req(const struct tw_req *r)
{
	return r->obj.index + 1;
}

static inline uint32_t tw_trace_msg(const struct tw_unexp_msg *u)
{
	return (uint32_t)((uintptr_t)u / _Alignof(max_align_t));
}

/* The tick, if the endpoint is traced. */
static inline uint64_t tw_trace_now(const struct tw_ep *ep)
{
	return tw_unlikely(ep->traced) ? tw_clock() : 0;
}

/* A message has left that was begun at this tick; r: its request, or NULL. */
static inline void tw_trace_sent(struct tw_peer *p, uint64_t tick, enum tw_trace_kind kind,
				 uint64_t match, uint32_t len, const struct tw_req *r)
{
	tw_trace_probe(kind, p->addr.where, match, len, r);
	if (tw_unlikely(p->ep->traced))
		tw_trace_add(p->ep, tick, kind, p->index, match, len, p->traced_out++,
			     r ? tw_trace_req(r) : 0);
}

/* A message, its first part, or its announcement has come, and meets a receive. */
static inline void tw_trace_met(struct tw_peer *p, enum tw_trace_kind kind, uint64_t match,
				uint32_t len, const struct tw_req *r)
{
	tw_trace_probe(TW_TRACE_MET, p->addr.where, match, len, r);
	if (tw_unlikely(p->ep->traced))
		tw_trace_add(p->ep, tw_clock(), kind, p->index, match, len, p->traced_in++,
			     tw_trace_req(r));
}

/* Or it meets none. */
static inline void tw_trace_unexpected(struct tw_peer *p, const struct tw_unexp_msg *u)
{
	tw_trace_probe(TW_TRACE_UNEXPECTED, p->addr.where, u->unexp.match, u->len, u);
	if (tw_unlikely(p->ep->traced))
		tw_trace_add(p->ep, tw_clock(), TW_TRACE_UNEXPECTED, p->index, u->unexp.match,
			     u->len, p->traced_in++, tw_trace_msg(u));
}

/* A request goes on: peer may be NULL. */
static inline void tw_trace_step(struct tw_ep *ep, enum tw_trace_kind kind, const struct tw_peer *p,
				 const struct tw_req *r, uint32_t len, uint32_t link)
{
	tw_trace_probe(kind, p ? p->addr.where : 0, r->match, len, r);
	if (tw_unlikely(ep->traced))
		tw_trace_add(ep, tw_clock(), kind, p ? p->index : UINT16_MAX, r->match, len, link,
			     tw_trace_req(r));
}

static inline void tw_trace_ended(struct tw_ep *ep, const struct tw_req *r)
{
	tw_trace_step(ep, TW_TRACE_ENDED, NULL, r, r->xfer_len, r->proto);
}

/* An unexpected message has another name now. */
static inline void tw_trace_fetched(struct tw_ep *ep, const struct tw_unexp_msg *u,
				    const struct tw_unexp_msg *to)
{
	if (tw_unlikely(ep->traced))
		tw_trace_add(ep, tw_clock(), TW_TRACE_FETCHED, u->peer->index, u->unexp.match,
			     u->len, tw_trace_msg(u), tw_trace_msg(to));
}

/* A one-sided access begins, and the owner of the window moves a piece of one. */
static inline void tw_trace_access(struct tw_ep *ep, const struct tw_req *r, uint64_t key)
{
	if (tw_unlikely(ep->traced))
		tw_trace_add(ep, tw_clock(),
			     r->kind == TW_WRITE  ? TW_TRACE_PUT
			     : r->kind == TW_READ ? TW_TRACE_GET
						  : TW_TRACE_ATOMIC,
			     r->peer->index, key, r->len, 0, tw_trace_req(r));
}

static inline void tw_trace_served(struct tw_peer *p, uint64_t key, uint64_t len)
{
	if (tw_unlikely(p->ep->traced))
		tw_trace_add(p->ep, tw_clock(), TW_TRACE_SERVED, p->index, key, (uint32_t)len, 0,
			     0);
}

/* r: the receive that takes the message, or NULL. */
static inline void tw_trace_taken(struct tw_ep *ep, const struct tw_unexp_msg *u,
				  const struct tw_req *r)
{
	bool more = r && (u->state == TW_U_ANNOUNCED || u->state == TW_U_PART);

	tw_trace_probe(TW_TRACE_TAKEN, u->peer->addr.where, u->unexp.match, u->len, u);
	if (tw_unlikely(ep->traced))
		tw_trace_add(ep, tw_clock(), TW_TRACE_TAKEN, u->peer->index, u->unexp.match, u->len,
			     tw_trace_msg(u), more ? tw_trace_req(r) : 0);
}

#endif /* TW_TRACE_H */
