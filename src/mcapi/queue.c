/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages and packets that have arrived. An announced one is queued at once, to keep the
 * order, and fetched without a call of the program. A long message for a waiting receive
 * is fetched into its buffer.
 */
#include <stdlib.h>

#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

/* An announced message that is being fetched into a queue. */
struct fetch {
	struct tw_mcapi_op op;
	struct tw_unexp_msg *u;
	void (*then)(struct tw_mcapi_node *n, void *whose, struct tw_unexp_msg *lost);
	void *whose; /* NULL: dropped */
};

static void fetched(struct tw_mcapi_node *n, struct tw_mcapi_op *op, const struct tw_req *r)
{
	struct fetch *f = tw_container(op, struct fetch, op);
	struct tw_unexp_msg *lost = r->status == TW_S_OK ? NULL : f->u;

	f->u->have = f->u->len;
	if (f->whose)
		f->then(n, f->whose, lost);
	if (lost || !f->whose)
		tw_unexp_msg_put(n->ep, f->u);
	free(f);
}

void tw_mcapi_queue_refuse(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	struct tw_req *r = u->rndv ? tw_req_new1(n->ep, TW_RECV, NULL, 0) : NULL;

	if (!r) {
		tw_unexp_msg_put(n->ep, u);
		return;
	}
	r->context = NULL;
	tw_take_pull(n->ep, u, r);
}

struct tw_unexp_msg *tw_mcapi_queue_fetch(struct tw_mcapi_node *n, struct tw_unexp_msg *u,
					  void (*then)(struct tw_mcapi_node *, void *,
						       struct tw_unexp_msg *),
					  void *whose)
{
	struct fetch *f = malloc(sizeof(*f));
	struct tw_unexp_msg *to = tw_unexp_msg_get(n->ep, u->len);
	struct tw_req *r = f && to ? tw_req_new1(n->ep, TW_RECV, to->data, u->len) : NULL;

	if (!r) {
		tw_log(TW_LOG_ERROR, "no memory for a message of %u bytes: it is lost", u->len);
		free(f);
		if (to)
			tw_unexp_msg_put(n->ep, to);
		tw_mcapi_queue_refuse(n, u);
		return NULL;
	}
	*f = (struct fetch){{fetched}, to, then, whose};
	to->unexp.match = u->unexp.match;
	to->source = u->source;
	to->len = u->len;
	to->have = 0;
	to->rndv = false;
	to->address = (uintptr_t)f;
	r->context = &f->op;
	/* Without data it is whole: it may be taken before the fetch ends. */
	if (!u->len) {
		r->context = NULL;
		free(f);
	}
	tw_take_pull(n->ep, u, r);
	return to;
}

void tw_mcapi_queue_forget(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	tw_list_del(&u->unexp.all);
	if (tw_mcapi_queue_whole(u))
		tw_unexp_msg_put(n->ep, u);
	else
		((struct fetch *)(uintptr_t)u->address)->whose = NULL;
}

void tw_mcapi_queue_scrap(struct tw_list *l)
{
	while (!tw_list_empty(l)) {
		struct tw_unexp_msg *u = tw_mcapi_queue_at(l->next);

		tw_list_del(&u->unexp.all);
		if (!tw_mcapi_queue_whole(u))
			free((void *)(uintptr_t)u->address);
		free(u);
	}
}

static uint32_t node_from(const struct tw_unexp_msg *u)
{
	return (uint32_t)(u->source.where & 0xffff) - TW_EID_NODES;
}

/* Messages ------------------------------------------------------------------- */

void tw_mcapi_queue_take(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u)
{
	tw_list_del(&u->unexp.all);
	e->queued--;
	if (tw_mcapi_kind_of(u->unexp.match) == TW_MCAPI_K_MSG)
		tw_mcapi_credits_took(n, e, node_from(u));
	else
		tw_mcapi_chan_took(n, e, 1, e->buffers);
}

void tw_mcapi_queue_deliver(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
			    struct tw_unexp_msg *u)
{
	size_t len = tw_min((size_t)u->len, m->len);

	if (len)
		tw_copy(m->buffer, u->data, len);
	tw_mcapi_mreq_done(n, m, len < u->len ? MCAPI_ETRUNCATED : MCAPI_SUCCESS, len);
	tw_unexp_msg_put(n->ep, u);
}

struct tw_unexp_msg *tw_mcapi_queue_next_msg(struct tw_mcapi_endp *e)
{
	if (!e->queued)
		return NULL;
	for (unsigned i = 0; i < TW_MCAPI_PRIOS; i++)
		if (!tw_list_empty(&e->msgs[i]) &&
		    tw_mcapi_queue_whole(tw_mcapi_queue_at(e->msgs[i].next)))
			return tw_mcapi_queue_at(e->msgs[i].next);
	return NULL;
}

void tw_mcapi_queue_serve_msgs(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_unexp_msg *u;

	while (!tw_list_empty(&e->msg_recvs) && (u = tw_mcapi_queue_next_msg(e))) {
		tw_mcapi_queue_take(n, e, u);
		tw_mcapi_queue_deliver(n, tw_list_first(&e->msg_recvs, struct tw_mcapi_mreq, link),
				       u);
	}
}

static void msg_here(struct tw_mcapi_node *n, void *whose, struct tw_unexp_msg *lost)
{
	struct tw_mcapi_endp *e = whose;

	if (lost)
		tw_mcapi_queue_take(n, e, lost);
	tw_mcapi_queue_serve_msgs(n, e);
}

/* The end of a fetch into the buffer of a receive. */
static void direct_done(struct tw_mcapi_node *n, struct tw_mcapi_op *op, const struct tw_req *r)
{
	struct tw_mcapi_mreq *m = tw_container(op, struct tw_mcapi_mreq, op);
	struct tw_mcapi_endp *e;

	m->bound = false;
	if (r->status == TW_S_OK || r->status == TW_S_TRUNCATED) {
		tw_mcapi_mreq_done(n, m, r->status == TW_S_OK ? MCAPI_SUCCESS : MCAPI_ETRUNCATED,
				   r->xfer_len);
		return;
	}
	/* The sender is gone: the receive waits for the next message. */
	e = tw_mcapi_endp_find(n, m->endpoint);
	if (!e) {
		tw_mcapi_mreq_done(n, m, MCAPI_ENOT_ENDP, 0);
		return;
	}
	tw_list_add_tail(e->msg_recvs.next, &m->link);
	tw_mcapi_queue_serve_msgs(n, e);
}

static bool fetch_directly(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u)
{
	struct tw_mcapi_mreq *m = tw_list_first(&e->msg_recvs, struct tw_mcapi_mreq, link);
	struct tw_req *r = tw_req_new1(n->ep, TW_RECV, m->buffer,
				       (uint32_t)tw_min(m->len, (size_t)UINT32_MAX));

	if (!r)
		return false;
	tw_list_del(&m->link);
	m->bound = true;
	m->carrier = r;
	m->op.done = direct_done;
	r->context = &m->op;
	tw_mcapi_credits_took(n, e, node_from(u));
	tw_take_pull(n->ep, u, r);
	return true;
}

void tw_mcapi_queue_msg(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, tw_mcapi_port_of(u->unexp.match));
	bool waited = e && !tw_list_empty(&e->msg_recvs) && !e->queued;

	if (!e || u->len > MCAPI_MAX_MESSAGE_SIZE) {
		tw_mcapi_queue_refuse(n, u);
		return;
	}
	tw_mcapi_credits_arrived(e, node_from(u));
	if (waited && !u->rndv) {
		tw_mcapi_credits_took(n, e, node_from(u));
		tw_mcapi_queue_deliver(n, tw_list_first(&e->msg_recvs, struct tw_mcapi_mreq, link),
				       u);
		return;
	}
	if (waited && fetch_directly(n, e, u))
		return;
	if (u->rndv)
		u = tw_mcapi_queue_fetch(n, u, msg_here, e);
	if (!u)
		return;
	tw_list_add_tail(&e->msgs[tw_mcapi_prio_of(u->unexp.match) % TW_MCAPI_PRIOS],
			 &u->unexp.all);
	e->queued++;
	tw_mcapi_queue_serve_msgs(n, e);
}

bool tw_mcapi_queue_local(struct tw_mcapi_node *n, uint64_t match, const void *data, size_t len)
{
	struct tw_unexp_msg *u = tw_unexp_msg_get(n->ep, (uint32_t)len);

	if (!u)
		return false;
	u->unexp.match = match;
	u->source = n->ep->self->addr;
	u->len = u->have = (uint32_t)len;
	u->rndv = u->sync = false;
	if (len)
		tw_copy(u->data, data, len);
	n->ep->events++;
	if (tw_mcapi_kind_of(match) == TW_MCAPI_K_MSG)
		tw_mcapi_queue_msg(n, u);
	else
		tw_mcapi_queue_packet(n, u);
	return true;
}

/* Packets -------------------------------------------------------------------- */

void tw_mcapi_queue_serve_packets(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_unexp_msg *u;

	while (!tw_list_empty(&e->packet_recvs) && (u = tw_mcapi_queue_next_packet(e))) {
		struct tw_mcapi_mreq *m =
			tw_list_first(&e->packet_recvs, struct tw_mcapi_mreq, link);

		/* The packet stays for a later receive. */
		if (!tw_mcapi_queue_claim(n, e, u)) {
			tw_mcapi_mreq_done(n, m, MCAPI_ENO_BUFFER, 0);
			continue;
		}
		*m->packet = u->data;
		tw_mcapi_mreq_done(n, m, MCAPI_SUCCESS, u->len);
	}
	/* Nothing can come from a closed sender. */
	if (!e->chan.peer_closed || !tw_list_empty(&e->packets))
		return;
	while (!tw_list_empty(&e->packet_recvs))
		tw_mcapi_mreq_done(n, tw_list_first(&e->packet_recvs, struct tw_mcapi_mreq, link),
				   MCAPI_ENOT_HANDLE, 0);
}

static void packet_here(struct tw_mcapi_node *n, void *whose, struct tw_unexp_msg *lost)
{
	struct tw_mcapi_endp *e = whose;

	if (lost)
		tw_mcapi_queue_take(n, e, lost);
	tw_mcapi_queue_serve_packets(n, e);
}

void tw_mcapi_queue_packet(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, tw_mcapi_port_of(u->unexp.match));
	const struct tw_mcapi_chan *c = e ? &e->chan : NULL;

	if (!c || !c->bound || c->sender || c->type != TW_MCAPI_K_PKT ||
	    (c->open != TW_MCAPI_CH_OPEN && c->open != TW_MCAPI_CH_OPENING) ||
	    c->epoch != tw_mcapi_epoch_of(u->unexp.match) || u->len > MCAPI_MAX_PACKET_SIZE) {
		tw_mcapi_queue_refuse(n, u);
		return;
	}
	if (u->rndv)
		u = tw_mcapi_queue_fetch(n, u, packet_here, e);
	if (!u)
		return;
	tw_list_add_tail(&e->packets, &u->unexp.all);
	e->queued++;
	if (!tw_list_empty(&e->packet_recvs))
		tw_mcapi_queue_serve_packets(n, e);
}

/* Both ----------------------------------------------------------------------- */

unsigned tw_mcapi_queue_ready(const struct tw_list *l)
{
	unsigned n = 0;

	for (struct tw_list *i = l->next; i != l && tw_mcapi_queue_whole(tw_mcapi_queue_at(i));
	     i = i->next)
		n++;
	return n;
}

void tw_mcapi_queue_drop(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_list *l)
{
	while (!tw_list_empty(l)) {
		tw_mcapi_queue_forget(n, tw_mcapi_queue_at(l->next));
		e->queued--;
	}
}

/* Packets that the program holds: open addressing, at most half full ----------------------------
 */

static uint32_t slot_of(const struct tw_mcapi_node *n, const void *buffer)
{
	uint64_t h = (uintptr_t)buffer * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 32) & (n->outstanding_size - 1);
}

static void put_outstanding(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	uint32_t i = slot_of(n, u->data);

	while (n->outstanding[i])
		i = (i + 1) & (n->outstanding_size - 1);
	n->outstanding[i] = u;
}

static bool grow_outstanding(struct tw_mcapi_node *n)
{
	uint32_t old_size = n->outstanding_size;
	struct tw_unexp_msg **old = n->outstanding;

	n->outstanding = calloc(old_size ? 2 * (size_t)old_size : 64, sizeof(*old));
	if (!n->outstanding) {
		n->outstanding = old;
		return false;
	}
	n->outstanding_size = old_size ? 2 * old_size : 64;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i])
			put_outstanding(n, old[i]);
	free(old);
	return true;
}

static bool add_outstanding(struct tw_mcapi_node *n, struct tw_unexp_msg *u)
{
	if (tw_likely(!n->outstanding1)) {
		n->outstanding1 = u;
		return true;
	}
	if (2 * n->noutstanding >= n->outstanding_size && !grow_outstanding(n))
		return false;
	put_outstanding(n, u);
	n->noutstanding++;
	return true;
}

bool tw_mcapi_queue_claim(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u)
{
	if (!add_outstanding(n, u))
		return false;
	tw_list_del(&u->unexp.all);
	e->queued--;
	tw_mcapi_chan_took(n, e, 1, e->buffers);
	return true;
}

struct tw_unexp_msg *tw_mcapi_outstanding_take(struct tw_mcapi_node *n, const void *buffer)
{
	struct tw_unexp_msg *found = n->outstanding1, *u;
	uint32_t i;

	if (tw_likely(found && found->data == buffer)) {
		n->outstanding1 = NULL;
		return found;
	}
	found = NULL;
	if (!n->noutstanding)
		return NULL;
	for (i = slot_of(n, buffer); (u = n->outstanding[i]);
	     i = (i + 1) & (n->outstanding_size - 1))
		if (u->data == buffer) {
			found = u;
			break;
		}
	if (!found)
		return NULL;
	n->outstanding[i] = NULL;
	n->noutstanding--;
	/* Those behind it may have been displaced by it. */
	while ((u = n->outstanding[i = (i + 1) & (n->outstanding_size - 1)])) {
		n->outstanding[i] = NULL;
		put_outstanding(n, u);
	}
	return found;
}

void tw_mcapi_outstanding_fini(struct tw_mcapi_node *n)
{
	for (uint32_t i = 0; i < n->outstanding_size; i++)
		free(n->outstanding[i]);
	free(n->outstanding);
	free(n->outstanding1);
	n->outstanding = NULL;
	n->outstanding1 = NULL;
	n->noutstanding = n->outstanding_size = 0;
}
