/* SPDX-License-Identifier: BSD-2-Clause */
/* What other nodes send: sorted by kind, checked, handed on. */
#include "mcapi/node.h"

/* The node that an address belongs to, or TW_MAX_NODES. */
static uint32_t node_at(uint64_t where)
{
	uint32_t id = where & 0xffff;

	return id >= TW_EID_NODES && id < TW_EID_NODES + TW_MAX_NODES ? id - TW_EID_NODES
								      : TW_MAX_NODES;
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

static void control(struct tw_node *n, uint32_t from, const struct tw_umsg *u)
{
	struct tw_say say;

	if (u->len != sizeof(say))
		return;
	memcpy(&say, u->data, sizeof(say));
	tw_hear(n, from, &say);
}

/* Only where there is no ring for them. */
static void scalar(struct tw_node *n, const struct tw_umsg *u)
{
	struct tw_endp *e = tw_endp_at(n, tw_mc_port_of(u->unexp.match));
	uint64_t value;

	if (!e || !e->chan.scl || e->chan.epoch != tw_mc_epoch_of(u->unexp.match) ||
	    u->len != sizeof(value))
		return;
	memcpy(&value, u->data, sizeof(value));
	tw_scl_arrived(n, e, tw_mc_prio_of(u->unexp.match), value);
}

static void take(struct tw_node *n, uint32_t from, struct tw_umsg *u)
{
	if (tw_mc_kind_of(u->unexp.match) == TW_K_SCL)
		scalar(n, u);
	else
		control(n, from, u);
	tw_umsg_put(n->ep, u);
}

/* The first of those that are late is here, and with it what came behind it. */
static void late_here(struct tw_node *n, void *whose, struct tw_umsg *lost)
{
	struct tw_mc_peer *peer = whose;

	if (lost)
		tw_list_del(&lost->unexp.all);
	while (!tw_list_empty(&peer->late)) {
		struct tw_umsg *u = tw_list_first(&peer->late, struct tw_umsg, unexp.all);

		if (u->have < u->len)
			return;
		tw_list_del(&u->unexp.all);
		take(n, (uint32_t)(peer - n->peers), u);
	}
}

/*
 * Controls and scalars count in the order in which they were sent. One whose
 * sender had no credit is announced: then all behind it wait with it.
 */
static void in_turn(struct tw_node *n, uint32_t from, struct tw_umsg *u)
{
	struct tw_mc_peer *peer = &n->peers[from];

	if (tw_likely(!u->rndv && tw_list_empty(&peer->late))) {
		take(n, from, u);
		return;
	}
	if (!u->len || u->len > sizeof(struct tw_say)) {
		tw_queue_refuse(n, u);
		return;
	}
	if (u->rndv)
		u = tw_queue_fetch(n, u, late_here, peer);
	if (u)
		tw_list_add_tail(&peer->late, &u->unexp.all);
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
		case TW_K_SAY:
			in_turn(n, from, u);
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
	while (!tw_list_empty(&peer->late))
		tw_queue_forget(n, tw_list_first(&peer->late, struct tw_umsg, unexp.all));
	if (peer->state == TW_MC_HERE && peer->addr.session == p->addr.session)
		peer->state = TW_MC_AWAY;
	tw_asks_lost(n, loss.node);
	tw_wanted_lost(n, loss.node);
	tw_endp_each(n, lose, &loss);
	for (unsigned i = 0; i < TW_MC_DESTS; i++)
		for (struct tw_dest *d = n->dests[i]; d; d = d->next)
			if (tw_node_of(d->handle) == loss.node)
				d->credits = d->kept = 0;
	ep->attend = true;
}

const struct tw_taker tw_mc_taker = {
	.arrived = arrived,
	.attend = tw_mc_attend,
	.down = down,
	.ending = tw_mc_ending,
	.ended = tw_mc_ended,
};
