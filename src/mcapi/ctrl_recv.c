/* SPDX-License-Identifier: BSD-2-Clause */
/* Arrivals from other nodes: checked, sorted by kind. */
#include "mcapi/chan.h"
#include "mcapi/queue.h"

/* The node that an address belongs to, or TW_MAX_NODES. */
static uint32_t node_at(uint64_t where)
{
	uint32_t id = where & 0xffff;

	return id >= TW_EID_NODES && id < TW_EID_NODES + TW_MAX_NODES ? id - TW_EID_NODES
								      : TW_MAX_NODES;
}

/* A message from a node shows its address: what waits for a connection can be sent. */
static void note_source(struct tw_mcapi_node *n, uint32_t from, const struct tw_unexp_msg *u)
{
	struct tw_mcapi_peer *peer = &n->peers[from];

	if (tw_likely(peer->state == TW_MCAPI_HERE && peer->addr.session == u->source.session))
		return;
	peer->state = TW_MCAPI_HERE;
	peer->addr = u->source;
	if (!tw_list_empty(&peer->out) && tw_list_empty(&peer->dirty)) {
		tw_list_add_tail(&n->dirty, &peer->dirty);
		n->ep->attend = true;
	}
}

void tw_mcapi_on_ctrl(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
{
	/* requester differs from `from' in forwarded messages. */
	if (ctrl->requester >= TW_MAX_NODES || tw_mcapi_node_of(ctrl->a) >= TW_MAX_NODES ||
	    tw_mcapi_node_of(ctrl->b) >= TW_MAX_NODES)
		return;
	switch (ctrl->what) {
	case TW_MCAPI_CTRL_GET:
		tw_mcapi_on_get(n, from, ctrl);
		break;
	case TW_MCAPI_CTRL_CREDITS:
		tw_mcapi_on_credits(n, from, ctrl);
		break;
	case TW_MCAPI_CTRL_ATTR:
		tw_mcapi_on_attr(n, ctrl);
		break;
	case TW_MCAPI_CTRL_REPLY:
		tw_mcapi_on_reply(n, ctrl);
		break;
	case TW_MCAPI_CTRL_CREDIT:
		tw_mcapi_on_credit(n, ctrl->a, ctrl->value);
		break;
	case TW_MCAPI_CTRL_RECALL:
		tw_mcapi_on_recall(n, ctrl);
		break;
	case TW_MCAPI_CTRL_RETURN:
		tw_mcapi_on_return(n, from, ctrl);
		break;
	default:
		tw_mcapi_chan_on_ctrl(n, ctrl);
	}
	n->ep->events++;
}

static void on_ctrl(struct tw_mcapi_node *n, uint32_t from, const struct tw_unexp_msg *u)
{
	struct tw_mcapi_ctrl ctrl;

	if (u->len != sizeof(ctrl))
		return;
	memcpy(&ctrl, u->data, sizeof(ctrl));
	tw_mcapi_on_ctrl(n, from, &ctrl);
}

/* Only if the sender could not map the ring. */
static void on_scalar(struct tw_mcapi_node *n, const struct tw_unexp_msg *u)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, tw_mcapi_port_of(u->unexp.match));
	uint64_t value;

	if (!e || !e->chan.scl || e->chan.epoch != tw_mcapi_epoch_of(u->unexp.match) ||
	    u->len != sizeof(value))
		return;
	memcpy(&value, u->data, sizeof(value));
	tw_mcapi_scl_arrived(n, e, tw_mcapi_prio_of(u->unexp.match), value);
}

static void consume(struct tw_mcapi_node *n, uint32_t from, struct tw_unexp_msg *u)
{
	if (tw_mcapi_kind_of(u->unexp.match) == TW_MCAPI_K_SCL)
		on_scalar(n, u);
	else
		on_ctrl(n, from, u);
	tw_unexp_msg_put(n->ep, u);
}

/* The first late one is whole: takes it and those behind it. */
static void late_here(struct tw_mcapi_node *n, void *whose, struct tw_unexp_msg *lost)
{
	struct tw_mcapi_peer *peer = whose;

	if (lost)
		tw_list_del(&lost->unexp.all);
	while (!tw_list_empty(&peer->late)) {
		struct tw_unexp_msg *u = tw_list_first(&peer->late, struct tw_unexp_msg, unexp.all);

		if (u->have < u->len)
			return;
		tw_list_del(&u->unexp.all);
		consume(n, (uint32_t)(peer - n->peers), u);
	}
}

/*
 * Control messages and scalars take effect in the order in which they were sent. One whose
 * sender had no credit is announced: those behind it wait until it is fetched.
 */
static void in_order(struct tw_mcapi_node *n, uint32_t from, struct tw_unexp_msg *u)
{
	struct tw_mcapi_peer *peer = &n->peers[from];

	if (tw_likely(!u->rndv && tw_list_empty(&peer->late))) {
		consume(n, from, u);
		return;
	}
	if (!u->len || u->len > sizeof(struct tw_mcapi_ctrl)) {
		tw_mcapi_queue_refuse(n, u);
		return;
	}
	if (u->rndv)
		u = tw_mcapi_queue_fetch(n, u, late_here, peer);
	if (u)
		tw_list_add_tail(&peer->late, &u->unexp.all);
}

static void arrived(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_mcapi_node *n = ep->owner;
	uint32_t from = node_at(u->source.where);

	n->ep = ep;
	if (tw_likely(from < TW_MAX_NODES)) {
		note_source(n, from, u);
		switch (tw_mcapi_kind_of(u->unexp.match)) {
		case TW_MCAPI_K_MSG:
			tw_mcapi_queue_msg(n, u);
			return;
		case TW_MCAPI_K_PKT:
			tw_mcapi_queue_packet(n, u);
			return;
		case TW_MCAPI_K_SCL:
		case TW_MCAPI_K_CTRL:
			in_order(n, from, u);
			return;
		}
	}
	tw_mcapi_queue_refuse(n, u);
}

struct loss {
	uint32_t node;
};

static void lose(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, void *arg)
{
	uint32_t node = ((struct loss *)arg)->node;

	tw_mcapi_chan_lost(n, e, node);
	tw_mcapi_credits_lost(n, e, node);
}

static void down(struct tw_ep *ep, const struct tw_peer *p)
{
	struct tw_mcapi_node *n = ep->owner;
	struct loss loss = {node_at(p->addr.where)};
	struct tw_mcapi_peer *peer;

	n->ep = ep;
	if (loss.node >= TW_MAX_NODES || loss.node == n->number)
		return;
	peer = &n->peers[loss.node];
	while (!tw_list_empty(&peer->late))
		tw_mcapi_queue_forget(n,
				      tw_list_first(&peer->late, struct tw_unexp_msg, unexp.all));
	if (peer->state == TW_MCAPI_HERE && peer->addr.session == p->addr.session)
		peer->state = TW_MCAPI_AWAY;
	tw_mcapi_requests_again(n, loss.node);
	tw_mcapi_pending_lost(n, loss.node);
	tw_mcapi_endp_each(n, lose, &loss);
	for (unsigned i = 0; i < TW_MCAPI_DESTS; i++)
		for (struct tw_mcapi_dest *d = n->dests[i]; d; d = d->next)
			if (tw_mcapi_node_of(d->handle) == loss.node)
				d->credits = d->kept = 0;
	ep->attend = true;
}

const struct tw_interface tw_mcapi_interface = {
	.arrived = arrived,
	.attend = tw_mcapi_attend,
	.down = down,
	.ending = tw_mcapi_ending,
	.ended = tw_mcapi_ended,
};
