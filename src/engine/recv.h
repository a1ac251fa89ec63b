/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the receiving side: a receive waits, or has met its message. */
#ifndef TW_RECV_H
#define TW_RECV_H

#include "engine/engine.h"

/* Completes a receive that has all its data and no deferred reply. */
static tw_inline void tw_recv_complete(struct tw_ep *ep, struct tw_req *r)
{
	enum tw_status status = TW_S_OK;

	ep->counters[TW_C_RECV_DONE]++;
	ep->counters[TW_C_RECV_BYTES] += r->xfer_len;
	if (tw_unlikely(r->msg_len > r->len)) {
		ep->counters[TW_C_RECV_TRUNCATED]++;
		status = TW_S_TRUNCATED;
	}
	tw_req_complete(ep, r, status);
}

/* Binds a receive to the message that it matched. */
static inline void tw_recv_bind(struct tw_req *r, struct tw_peer *p, uint64_t match, uint32_t len)
{
	r->flags &= (uint8_t)~TW_R_POSTED;
	r->peer = p;
	tw_addr_copy(&r->other, &p->addr);
	r->match = match;
	r->msg_len = len;
	r->xfer_len = tw_min(len, r->len);
}

static inline void tw_recv_imm(struct tw_req *r, bool imm, uint64_t data)
{
	if (tw_likely(!imm))
		return;
	r->extra |= TW_X_IMM;
	r->imm = data;
}

/* Gives a claiming receive memory for a message of which nothing is here yet. */
bool tw_recv_alloc(struct tw_ep *ep, struct tw_req *r, uint32_t len);

/*
 * A receive is over: if it was the last, the next slot is its writer's (doc/decisions.md, 162).
 * A handler must see messages at once.
 */
static inline void tw_recv_hold(struct tw_peer *p)
{
	struct tw_ep *ep = p->ep;

	ep->came = true;
	p->link->hold = !ep->gauges[TW_G_POSTED] && !ep->unexpected;
}

/* An eager message has completely reached its receive. */
static inline void tw_recv_eager_done(struct tw_peer *p, struct tw_req *r, bool sync,
				      struct tw_ref ref)
{
	tw_recv_hold(p);
	tw_credits_release(p, tw_credit_cost(r->msg_len));
	if (tw_unlikely(sync)) {
		r->remote = ref;
		tw_transfer_step(p, r, TW_ON_MATCHED_SYNC);
		return;
	}
	tw_recv_complete(p->ep, r);
}

/* A message that matches no receive, or its first part, or its announcement. */
static tw_inline struct tw_unexp_msg *tw_unexp_new(struct tw_peer *p, struct tw_hdr hdr,
						   uint32_t room, enum tw_unexp_state state)
{
	struct tw_unexp_msg *u = tw_unexp_msg_get(p->ep, room);

	if (tw_unlikely(!u))
		return NULL;
	u->unexp.match = hdr.match;
	u->peer = p;
	u->len = tw_hdr_len(hdr);
	u->slow_path = 0;
	u->state = (uint8_t)state;
	u->unexp.name = 0;
	u->probe_number = 0;
	p->numsgs++;
	p->show->msgs_received++;
	p->ep->counters[TW_C_UNEXPECTED]++;
	if (state != TW_U_ANNOUNCED)
		p->ep->gauges[TW_G_UNEXP_BYTES] += room;
	return u;
}

/* A whole message in one packet matches no receive. */
enum tw_err tw_unexp_whole(struct tw_peer *p, struct tw_hdr hdr, const char *data, uint32_t len,
			   uint32_t cost);

#endif /* TW_RECV_H */
