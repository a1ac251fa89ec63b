/* SPDX-License-Identifier: BSD-2-Clause */
/* Other nodes: reaching them, telling them something, asking them. */
#include <stdlib.h>

#include "mcapi/node.h"

/* A control on its way. */
struct letter {
	struct tw_list link;
	struct tw_op op;
	uint32_t to;
	struct tw_say say;
};

/* Nobody will read it: whoever waits for its effect learns that now. */
static void undeliverable(struct tw_node *n, struct letter *l)
{
	struct tw_say say = l->say;

	switch (say.what) {
	case TW_SAY_GET:
	case TW_SAY_ROOM:
	case TW_SAY_ATTR:
	case TW_SAY_BIND:
		tw_asks_lost(n, l->to);
		break;
	case TW_SAY_BIND2:
		say.what = TW_SAY_BOUND;
		say.status = MCAPI_ENOT_ENDP;
		tw_say(n, n->number, &say);
		break;
	default:
		break;
	}
}

static void sent(struct tw_node *n, struct tw_op *op, const struct tw_req *r)
{
	struct letter *l = tw_container(op, struct letter, op);

	if (r->status != TW_S_OK) {
		if (n->peers[l->to].state == TW_MC_HERE)
			n->peers[l->to].state = TW_MC_AWAY;
		undeliverable(n, l);
	}
	free(l);
}

static void soil(struct tw_node *n, struct tw_mc_peer *peer)
{
	if (tw_list_empty(&peer->dirty))
		tw_list_add_tail(&n->dirty, &peer->dirty);
	n->ep->attend = true;
}

void tw_say(struct tw_node *n, uint32_t to, const struct tw_say *say)
{
	struct letter *l = malloc(sizeof(*l));

	if (!l) {
		tw_log(TW_LOG_ERROR, "no memory to answer node %u", to);
		return;
	}
	l->op.done = sent;
	l->to = to;
	l->say = *say;
	if (to == n->number) {
		tw_list_add_tail(&n->local, &l->link);
		n->ep->attend = true;
		return;
	}
	tw_list_add_tail(&n->peers[to].out, &l->link);
	soil(n, &n->peers[to]);
}

static void connected(struct tw_node *n, struct tw_op *op, const struct tw_req *r)
{
	struct tw_mc_peer *peer = tw_container(op, struct tw_mc_peer, connected);

	if (r->status == TW_S_OK) {
		peer->state = TW_MC_HERE;
		peer->addr = r->source;
		soil(n, peer);
		return;
	}
	if (peer->state == TW_MC_HERE)
		return;
	peer->state = TW_MC_AWAY;
	while (!tw_list_empty(&peer->out)) {
		struct letter *l = tw_list_first(&peer->out, struct letter, link);

		tw_list_del(&l->link);
		undeliverable(n, l);
		free(l);
	}
}

static void reach(struct tw_node *n, struct tw_mc_peer *peer)
{
	uint32_t number = (uint32_t)(peer - n->peers);
	uint64_t deadline = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	struct tw_req *r = tw_connect_new(n->ep, tw_place_nic(number), TW_EID_NODES + number,
					  TW_MC_FILTER, deadline);

	if (!r)
		return;
	peer->state = TW_MC_CONNECTING;
	r->context = &peer->connected;
	tw_connect(n->ep, r);
}

void tw_peer_flush(struct tw_node *n, struct tw_mc_peer *peer)
{
	if (peer->state == TW_MC_AWAY && !tw_list_empty(&peer->out))
		reach(n, peer);
	while (peer->state == TW_MC_HERE && !tw_list_empty(&peer->out)) {
		struct letter *l = tw_list_first(&peer->out, struct letter, link);
		struct tw_req *r = tw_req_new1(n->ep, TW_SEND, (char *)&l->say, sizeof(l->say));

		if (!r)
			return;
		tw_list_del(&l->link);
		r->context = &l->op;
		r->match = tw_mc_match(TW_K_SAY, 0, 0, 0, 0);
		r->flags = TW_R_URGENT;
		tw_send(n->ep, r, peer->addr);
	}
}

/* Questions ------------------------------------------------------------------- */

void tw_ask(struct tw_node *n, struct tw_ask *ask, uint32_t to, struct tw_say *say)
{
	ask->token = say->token = ++n->tokens;
	ask->to = to;
	say->asker = n->number;
	tw_list_add_tail(&n->asks, &ask->link);
	tw_say(n, to, say);
}

void tw_unask(struct tw_ask *ask)
{
	tw_list_del(&ask->link);
}

void tw_answer(struct tw_node *n, const struct tw_say *question, mcapi_status_t status,
	       uint32_t value)
{
	struct tw_say say = *question;

	say.what = TW_SAY_TOLD;
	say.status = status;
	say.value = value;
	tw_say(n, question->asker, &say);
}

void tw_told(struct tw_node *n, const struct tw_say *say)
{
	struct tw_list *l, *tmp;

	tw_list_each(&n->asks, l, tmp) {
		struct tw_ask *ask = tw_container(l, struct tw_ask, link);

		if (ask->token != say->token)
			continue;
		tw_list_del(&ask->link);
		ask->answer(n, ask, say);
		return;
	}
	/* A connect that was cancelled meanwhile. */
	if (say->epoch && say->status == MCAPI_SUCCESS) {
		struct tw_say undo = *say;

		undo.what = TW_SAY_UNBIND;
		undo.to_sender = true;
		tw_say(n, tw_node_of(say->a), &undo);
		undo.to_sender = false;
		tw_say(n, tw_node_of(say->b), &undo);
	}
}

void tw_asks_lost(struct tw_node *n, uint32_t node)
{
	struct tw_list *l, *tmp;

	tw_list_each(&n->asks, l, tmp) {
		struct tw_ask *ask = tw_container(l, struct tw_ask, link);

		if (ask->to != node)
			continue;
		tw_list_del(&ask->link);
		ask->answer(n, ask, NULL);
	}
	n->ep->events++;
}

void tw_mc_peers_init(struct tw_node *n)
{
	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		struct tw_mc_peer *peer = &n->peers[i];

		peer->state = TW_MC_AWAY;
		tw_list_init(&peer->out);
		tw_list_init(&peer->dirty);
		tw_list_init(&peer->late);
		peer->connected.done = connected;
	}
}

static void burn(struct tw_list *letters)
{
	while (!tw_list_empty(letters)) {
		struct letter *l = tw_list_first(letters, struct letter, link);

		tw_list_del(&l->link);
		free(l);
	}
}

void tw_mc_peers_fini(struct tw_node *n)
{
	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		burn(&n->peers[i].out);
		tw_queue_scrap(&n->peers[i].late);
	}
	burn(&n->local);
}

/* What is owed ---------------------------------------------------------------- */

static void collect(struct tw_node *n, struct tw_ep *ep)
{
	while (!tw_list_empty(&ep->done)) {
		struct tw_req *r = tw_list_first(&ep->done, struct tw_req, link);
		struct tw_op *op = r->context;

		tw_list_del(&r->link);
		if (op)
			op->done(n, op, r);
		tw_req_free(ep, r);
	}
}

static void hear_oneself(struct tw_node *n)
{
	while (!tw_list_empty(&n->local)) {
		struct letter *l = tw_list_first(&n->local, struct letter, link);

		tw_list_del(&l->link);
		tw_hear(n, n->number, &l->say);
		free(l);
	}
}

void tw_mc_leave_slow(struct tw_ep *ep)
{
	if (ep->attend || !tw_list_empty(&ep->done))
		tw_mc_attend(ep);
	if (tw_unfinished(ep))
		tw_hand_over(ep);
	tw_leave(ep);
}

void tw_mc_attend(struct tw_ep *ep)
{
	struct tw_node *n = ep->owner;

	n->ep = ep;
	/* A send may make progress, and so come back here: it is all done below. */
	if (n->attending)
		return;
	n->attending = true;
	do {
		ep->attend = false;
		collect(n, ep);
		hear_oneself(n);
		while (!tw_list_empty(&n->pushes)) {
			struct tw_endp *e = tw_list_first(&n->pushes, struct tw_endp, chan.push);

			tw_list_del(&e->chan.push);
			tw_pkt_push(n, e);
		}
		while (!tw_list_empty(&n->dest_pushes)) {
			struct tw_dest *d = tw_list_first(&n->dest_pushes, struct tw_dest, push);

			tw_list_del(&d->push);
			tw_msg_push(n, d);
		}
		while (!tw_list_empty(&n->dirty)) {
			struct tw_mc_peer *peer =
				tw_list_first(&n->dirty, struct tw_mc_peer, dirty);

			tw_list_del(&peer->dirty);
			tw_peer_flush(n, peer);
		}
	} while (ep->attend || !tw_list_empty(&ep->done));
	n->attending = false;
}
