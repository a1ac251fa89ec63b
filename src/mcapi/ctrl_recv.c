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
static void note_source(struct tw_mcapi_node *n, uint32_t from, struct tw_addr addr)
{
	struct tw_mcapi_peer *peer = &n->peers[from];

	if (tw_likely(peer->state == TW_MCAPI_HERE && peer->addr.session == addr.session))
		return;
	peer->state = TW_MCAPI_HERE;
	peer->addr = addr;
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

/* Only if the sender could not map the ring. */
static void on_scalar(struct tw_mcapi_node *n, uint64_t arg, uint64_t value)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, tw_mcapi_port_of(arg));

	if (e && e->chan.scl && e->chan.epoch == tw_mcapi_epoch_of(arg))
		tw_mcapi_scl_arrived(n, e, tw_mcapi_prio_of(arg), value);
}

static void on_am(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data, uint32_t len)
{
	struct tw_mcapi_node *n = ep->owner;
	uint32_t from = node_at(p->addr.where);
	struct tw_mcapi_ctrl ctrl;
	uint64_t value;

	n->ep = ep;
	if (from >= TW_MAX_NODES)
		return;
	note_source(n, from, p->addr);
	if (tw_mcapi_kind_of(arg) == TW_MCAPI_K_CTRL && len == sizeof(ctrl)) {
		memcpy(&ctrl, data, len);
		tw_mcapi_on_ctrl(n, from, &ctrl);
	} else if (tw_mcapi_kind_of(arg) == TW_MCAPI_K_SCL && len == sizeof(value)) {
		memcpy(&value, data, len);
		on_scalar(n, arg, value);
	}
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

_Static_assert(MCAPI_MAX_MESSAGE_SIZE >= MCAPI_MAX_PACKET_SIZE, "one limit for both");

const struct tw_interface tw_mcapi_interface = {
	.unexpected = tw_mcapi_unexpected,
	.am_handler = on_am,
	.attend = tw_mcapi_attend,
	.down = down,
	.ending = tw_mcapi_ending,
	.ended = tw_mcapi_ended,
	.max_len = MCAPI_MAX_MESSAGE_SIZE,
};
