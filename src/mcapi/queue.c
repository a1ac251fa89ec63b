/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages and packets that have arrived are unexpected messages of the engine, which
 * fetches announced ones without a call of the program; receives that wait are posted.
 */
#include <stdlib.h>

#include "engine/fast.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

/* Receives that wait ----------------------------------------------------------- */

/* Posts it, or gives it a message that is there; false if there is no memory. */
static bool queue_post(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, struct tw_unexp_msg *u,
		       uint64_t key, uint64_t mask)
{
	bool packet = m->kind == TW_MCAPI_Q_PKT_RECV;
	struct tw_req *r = tw_req_new1(n->ep, TW_RECV, packet ? NULL : m->buffer,
				       packet ? 0 : (uint32_t)tw_min(m->len, (size_t)UINT32_MAX));

	if (!r)
		return false;
	m->carrier = r;
	r->context = &m->op;
	if (packet)
		r->flags |= TW_R_CLAIM;
	if (!u) {
		tw_recv_post(n->ep, r, key, mask);
		return true;
	}
	tw_unexp_unqueue(n->ep, u);
	tw_unexp_receive(n->ep, u, r);
	return true;
}

void tw_mcapi_recvs_end(struct tw_mcapi_node *n, struct tw_list *recvs, mcapi_status_t status,
			bool all)
{
	tw_list_walk(recvs, struct tw_mcapi_mreq, m, link) {
		/* A message is on its way to its buffer, or only its sender is gone. */
		if (tw_mcapi_mreq_bound(m) && (!all || m->kind == TW_MCAPI_Q_MSG_RECV))
			tw_list_del(&m->link);
		else
			tw_mcapi_mreq_done(n, m, status, 0);
	}
}

/* Messages ------------------------------------------------------------------- */

/* The next one: the first whole one of the highest priority, or else one on its way. */
static struct tw_unexp_msg *next_msg(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e)
{
	struct tw_unexp_msg *first = NULL, *u;

	if (!n->ep->gauges[TW_G_UNEXPECTED])
		return NULL;
	for (unsigned i = 0; i < TW_MCAPI_PRIOS; i++) {
		u = tw_unexp_find(n->ep, tw_mcapi_msgs_of(e, i), TW_MCAPI_ONE_PRIO);
		if (u && tw_unexp_is_whole(u))
			return u;
		if (!first)
			first = u;
	}
	return first;
}

static void queue_take(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_mcapi_mreq *m,
		       struct tw_unexp_msg *u)
{
	size_t len = tw_min((size_t)u->len, m->len);

	tw_mcapi_credits_took(n, e, tw_mcapi_node_at(u->peer->addr.where));
	if (len)
		tw_copy(m->buffer, u->data, len);
	tw_mcapi_mreq_done(n, m, len < u->len ? MCAPI_ETRUNCATED : MCAPI_SUCCESS, len);
	tw_unexp_unqueue(n->ep, u);
	tw_unexp_take(n->ep, u);
	tw_unexp_msg_put(n->ep, u);
}

static void msg_received(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_mcapi_mreq *m = tw_container(op, struct tw_mcapi_mreq, op);
	struct tw_mcapi_node *n = ep->owner;
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, m->endpoint);

	m->carrier = NULL;
	if (r->status == TW_S_OK || r->status == TW_S_TRUNCATED) {
		if (e)
			tw_mcapi_credits_took(n, e, tw_mcapi_node_at(r->other.where));
		tw_mcapi_mreq_done(n, m, r->status == TW_S_OK ? MCAPI_SUCCESS : MCAPI_ETRUNCATED,
				   tw_min((size_t)r->msg_len, m->len));
		return;
	}
	/* The sender is gone: the receive waits for the next message. */
	tw_list_del(&m->link);
	if (!e || !tw_mcapi_msg_receive(n, e, m))
		tw_mcapi_mreq_done(n, m, e ? MCAPI_ENO_MEM : MCAPI_ENOT_ENDP, 0);
}

bool tw_mcapi_msg_receive(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_mcapi_mreq *m)
{
	struct tw_unexp_msg *u = next_msg(n, e);

	m->endpoint = e->handle;
	m->op.done = msg_received;
	if (u && tw_unexp_is_whole(u)) {
		queue_take(n, e, m, u);
		return true;
	}
	tw_list_add_tail(&e->msg_recvs, &m->link);
	return queue_post(n, m, u, tw_mcapi_msgs_of(e, 0), TW_MCAPI_ANY_PRIO);
}

uint32_t tw_mcapi_queued(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e)
{
	return tw_unexp_count(n->ep, tw_mcapi_msgs_of(e, 0), TW_MCAPI_ANY_PRIO, false) +
	       tw_unexp_count(n->ep, tw_mcapi_packets_of(e), TW_MCAPI_TO_PORT, false);
}

/* Packets -------------------------------------------------------------------- */

bool tw_mcapi_pkt_drained(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e)
{
	return e->chan.peer_closed &&
	       !tw_unexp_find(n->ep, tw_mcapi_packets_of(e), TW_MCAPI_TO_PORT);
}

static void pkt_received(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_mcapi_mreq *m = tw_container(op, struct tw_mcapi_mreq, op);
	struct tw_mcapi_node *n = ep->owner;
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, m->endpoint);
	struct tw_unexp_msg *u = tw_req_claimed(r);

	m->carrier = NULL;
	if (r->status == TW_S_OK) {
		*m->packet = u->data;
		tw_mcapi_outstanding_add(n, u);
		tw_mcapi_mreq_done(n, m, MCAPI_SUCCESS, u->len);
		if (e)
			tw_mcapi_chan_took(n, e, 1, e->buffers);
		return;
	}
	if (u)
		tw_unexp_msg_put(ep, u);
	/* There was no memory; or the sender is gone, and its channel with it. */
	tw_mcapi_mreq_done(n, m, r->status == TW_S_NO_RESOURCES ? MCAPI_ENO_BUFFER
								: MCAPI_ENOT_HANDLE, 0);
}

bool tw_mcapi_pkt_receive(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_mcapi_mreq *m)
{
	m->endpoint = e->handle;
	m->op.done = pkt_received;
	tw_list_add_tail(&e->packet_recvs, &m->link);
	return !e->chan.match || queue_post(n, m, NULL, e->chan.match, UINT64_MAX);
}

void tw_mcapi_pkt_repost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	tw_list_walk(&e->packet_recvs, struct tw_mcapi_mreq, m, link) {
		if (m->carrier && tw_recv_cancel(n->ep, m->carrier)) {
			tw_req_free(n->ep, m->carrier);
			m->carrier = NULL;
		}
		if (!m->carrier && e->chan.match &&
		    !queue_post(n, m, NULL, e->chan.match, UINT64_MAX))
			tw_mcapi_mreq_done(n, m, MCAPI_ENO_BUFFER, 0);
	}
}

void tw_mcapi_pkt_drop(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	tw_unexp_drop_all(n->ep, tw_mcapi_packets_of(e), TW_MCAPI_TO_PORT);
	tw_mcapi_recvs_end(n, &e->packet_recvs, MCAPI_ENOT_HANDLE, true);
}

/* Arrivals -------------------------------------------------------------------- */

/* Kept: messages for an endpoint of this node, and packets for its open channel. */
enum tw_verdict tw_mcapi_unexpected(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	uint64_t match = u->unexp.match;
	const struct tw_mcapi_endp *e = tw_mcapi_endp_at(ep->owner, tw_mcapi_port_of(match));

	return tw_likely(e && (match == e->chan.match ||
			       tw_mcapi_kind_of(match) == TW_MCAPI_K_MSG))
		       ? TW_KEEP
		       : TW_DROP;
}

/* Packets that the program holds: a hash table of chains ----------------------- */

static struct tw_unexp_msg **chain_of(struct tw_mcapi_node *n, const void *buffer)
{
	uint64_t h = (uintptr_t)buffer * 0x9e3779b97f4a7c15ull;

	return &n->outstanding[h >> 54];
}

void tw_mcapi_outstanding_add(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	struct tw_unexp_msg **chain = chain_of(n, u->data);

	u->next = *chain;
	*chain = u;
}

struct tw_unexp_msg *tw_mcapi_outstanding_take(struct tw_mcapi_node *n, const void *buffer)
{
	struct tw_unexp_msg **at = chain_of(n, buffer), *u;

	while ((u = *at) && u->data != buffer)
		at = &u->next;
	if (u)
		*at = u->next;
	return u;
}

void tw_mcapi_outstanding_fini(struct tw_mcapi_node *n)
{
	for (uint32_t i = 0; i < tw_countof(n->outstanding); i++)
		while (n->outstanding[i]) {
			struct tw_unexp_msg *u = n->outstanding[i];

			n->outstanding[i] = u->next;
			free(u);
		}
}
