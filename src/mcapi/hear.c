/* SPDX-License-Identifier: BSD-2-Clause */
/* What other nodes send: sorted by kind, checked, handed on. */
#include <stdlib.h>

#include "mcapi/node.h"

/* The node that an address belongs to, or TW_MAX_NODES. */
static uint32_t node_at(uint64_t where)
{
	uint32_t id = where & 0xffff;

	return id >= TW_EID_NODES && id < TW_EID_NODES + TW_MAX_NODES ? id - TW_EID_NODES : TW_MAX_NODES;
}

/* A node that speaks to us can be spoken to. */
static void greet(struct tw_node *n, uint32_t from, const struct tw_umsg *u)
{
	struct tw_mc_peer *peer = &n->peers[from];

	if (tw_likely(peer->state == TW_MC_HERE && peer->addr.session == u->source.session))
		return;
	peer->state = TW_MC_HERE;
	peer->addr = u->source;
	if (!tw_list_empty(&peer->out) && tw_list_empty(&peer->dirty)) {
		tw_list_add_tail(&n->dirty, &peer->dirty);
		n->ep->attend = true;
	}
}

void tw_hear(struct tw_node *n, uint32_t from, const struct tw_say *say)
{
	/* Who asks is who speaks, but for what is passed on. */
	if (say->asker >= TW_MAX_NODES || tw_node_of(say->a) >= TW_MAX_NODES ||
	    tw_node_of(say->b) >= TW_MAX_NODES)
		return;
	switch (say->what) {
	case TW_SAY_GET:
		tw_get_asked(n, from, say);
		break;
	case TW_SAY_ROOM:
		tw_room_asked(n, from, say);
		break;
	case TW_SAY_ATTR:
		tw_attr_asked(n, say);
		break;
	case TW_SAY_TOLD:
		tw_told(n, say);
		break;
	case TW_SAY_CREDIT:
		tw_credit(n, say->a, say->value);
		break;
	case TW_SAY_RECALL:
		tw_room_recalled(n, say);
		break;
	case TW_SAY_RETURN:
		tw_room_returned(n, from, say);
		break;
	default:
		tw_chan_hear(n, say);
	}
	n->ep->events++;
}

/* A control that was announced: its sender had no credit. */
struct late {
	struct tw_op op;
	uint32_t from;
	struct tw_say say;
};

static void late_done(struct tw_node *n, struct tw_op *op, const struct tw_req *r)
{
	struct late *l = tw_container(op, struct late, op);

	if (r->status == TW_S_OK)
		tw_hear(n, l->from, &l->say);
	free(l);
}

static void control(struct tw_node *n, uint32_t from, struct tw_umsg *u)
{
	struct late *l;
	struct tw_req *r;

	if (!u->rndv) {
		if (u->len == sizeof(struct tw_say)) {
			struct tw_say say;

			memcpy(&say, u->data, sizeof(say));
			tw_hear(n, from, &say);
		}
		tw_umsg_put(n->ep, u);
		return;
	}
	l = u->len == sizeof(l->say) ? malloc(sizeof(*l)) : NULL;
	r = l ? tw_req_new1(n->ep, TW_RECV, (char *)&l->say, sizeof(l->say)) : NULL;
	if (!r) {
		free(l);
		tw_queue_refuse(n, u);
		return;
	}
	l->op.done = late_done;
	l->from = from;
	r->context = &l->op;
	tw_take_pull(n->ep, u, r);
}

/* Only where there is no ring for them. */
static void scalar(struct tw_node *n, struct tw_umsg *u)
{
	struct tw_endp *e = tw_endp_find(n, n->number << 16 | tw_mc_port_of(u->unexp.match));
	uint64_t value;

	if (u->rndv) {
		tw_queue_refuse(n, u);
		return;
	}
	if (e && e->chan.scl && e->chan.epoch == tw_mc_epoch_of(u->unexp.match) &&
	    u->len == sizeof(value)) {
		memcpy(&value, u->data, sizeof(value));
		tw_scl_arrived(n, e, tw_mc_prio_of(u->unexp.match), value);
	}
	tw_umsg_put(n->ep, u);
}

static void arrived(struct tw_ep *ep, struct tw_umsg *u)
{
	struct tw_node *n = ep->owner;
	uint32_t from = node_at(u->source.where);

	n->ep = ep;
	if (tw_likely(from < TW_MAX_NODES)) {
		greet(n, from, u);
		switch (tw_mc_kind_of(u->unexp.match)) {
		case TW_K_MSG:
			tw_queue_msg(n, u);
			return;
		case TW_K_PKT:
			tw_queue_packet(n, u);
			return;
		case TW_K_SCL:
			scalar(n, u);
			return;
		case TW_K_SAY:
			control(n, from, u);
			return;
		}
	}
	tw_queue_refuse(n, u);
}

struct loss {
	uint32_t node;
};

static void lose(struct tw_node *n, struct tw_endp *e, void *arg)
{
	uint32_t node = ((struct loss *)arg)->node;

	tw_chan_lost(n, e, node);
	tw_room_lost(n, e, node);
}

static void down(struct tw_ep *ep, const struct tw_peer *p)
{
	struct tw_node *n = ep->owner;
	struct loss loss = {node_at(p->addr.where)};
	struct tw_mc_peer *peer;

	n->ep = ep;
	if (loss.node >= TW_MAX_NODES || loss.node == n->number)
		return;
	peer = &n->peers[loss.node];
	if (peer->state == TW_MC_HERE && peer->addr.session == p->addr.session)
		peer->state = TW_MC_AWAY;
	tw_asks_lost(n, loss.node);
	tw_wanted_lost(n, loss.node);
	tw_endp_each(n, lose, &loss);
	for (unsigned i = 0; i < TW_MC_DESTS; i++)
		for (struct tw_dest *d = n->dests[i]; d; d = d->next)
			if (tw_node_of(d->handle) == loss.node)
				d->credits = 0;
	ep->attend = true;
}

const struct tw_taker tw_mc_taker = {
	.arrived = arrived,
	.attend = tw_mc_attend,
	.down = down,
};
