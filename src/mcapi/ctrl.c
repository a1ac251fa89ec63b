/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages to other nodes: connecting, sending, requests and replies. */
#include <stdlib.h>

#include "mcapi/chan.h"
#include "mcapi/queue.h"

#define SELF_POLLS 4 /* until a message to oneself, or its announcement, has arrived */

/* A control message to be sent. */
struct ctrl_msg {
	struct tw_list link;
	struct tw_mcapi_ctrl ctrl;
};

static void mark_dirty(struct tw_mcapi_node *n, struct tw_mcapi_peer *peer)
{
	if (tw_list_empty(&peer->dirty))
		tw_list_add_tail(&n->dirty, &peer->dirty);
	n->ep->attend = true;
}

void tw_mcapi_ctrl_send(struct tw_mcapi_node *n, uint32_t to, const struct tw_mcapi_ctrl *ctrl)
{
	struct ctrl_msg *msg = malloc(sizeof(*msg));

	if (!msg) {
		tw_log(TW_LOG_ERROR, "no memory for a control message to node %u", to);
		return;
	}
	msg->ctrl = *ctrl;
	if (to == n->number) {
		tw_list_add_tail(&n->local, &msg->link);
		n->ep->attend = true;
		return;
	}
	tw_list_add_tail(&n->peers[to].out, &msg->link);
	mark_dirty(n, &n->peers[to]);
}

static void release_all(struct tw_list *msgs)
{
	while (!tw_list_empty(msgs)) {
		struct ctrl_msg *msg = tw_list_first(msgs, struct ctrl_msg, link);

		tw_list_del(&msg->link);
		free(msg);
	}
}

/* A node is not there: requests to it end without a reply. */
static void requests_lost(struct tw_mcapi_node *n, uint32_t node)
{
	struct tw_list *l, *tmp;

	tw_list_each(&n->requests, l, tmp) {
		struct tw_mcapi_ctrl_request *ctrl_req =
			tw_container(l, struct tw_mcapi_ctrl_request, link);

		if (ctrl_req->to != node)
			continue;
		tw_list_del(&ctrl_req->link);
		ctrl_req->on_reply(n, ctrl_req, NULL);
	}
	n->ep->events++;
}

static void connected(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_mcapi_peer *peer = tw_container(op, struct tw_mcapi_peer, connected);
	struct tw_mcapi_node *n = ep->owner;

	if (r->status == TW_S_OK) {
		peer->state = TW_MCAPI_HERE;
		peer->addr = r->source;
		mark_dirty(n, peer);
		return;
	}
	if (peer->state == TW_MCAPI_HERE)
		return;
	peer->state = TW_MCAPI_AWAY;
	release_all(&peer->out);
	requests_lost(n, (uint32_t)(peer - n->peers));
}

static void reach(struct tw_mcapi_node *n, struct tw_mcapi_peer *peer)
{
	uint32_t number = (uint32_t)(peer - n->peers);
	uint64_t deadline = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	struct tw_req *r = tw_connect_new(n->ep, tw_topology_node_nic(number),
					  TW_EID_NODES + number, TW_MCAPI_FILTER, deadline);

	if (!r)
		return;
	peer->state = TW_MCAPI_CONNECTING;
	r->context = &peer->connected;
	tw_connect(n->ep, r);
}

void tw_mcapi_peer_flush(struct tw_mcapi_node *n, struct tw_mcapi_peer *peer)
{
	if (peer->state == TW_MCAPI_AWAY && !tw_list_empty(&peer->out))
		reach(n, peer);
	while (peer->state == TW_MCAPI_HERE && !tw_list_empty(&peer->out)) {
		struct ctrl_msg *msg = tw_list_first(&peer->out, struct ctrl_msg, link);
		enum tw_err err = tw_am_send(n->ep, peer->addr,
					     tw_mcapi_match(TW_MCAPI_K_CTRL, 0, 0, 0, 0),
					     &msg->ctrl, sizeof(msg->ctrl));

		if (err == TW_ENOMEM)
			return;
		tw_list_del(&msg->link);
		free(msg);
		if (err == TW_OK)
			continue;
		peer->state = TW_MCAPI_AWAY;
		tw_mcapi_requests_again(n, (uint32_t)(peer - n->peers));
	}
}

/* Requests ------------------------------------------------------------------- */

void tw_mcapi_ctrl_request(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			   uint32_t to, const struct tw_mcapi_ctrl *ctrl)
{
	ctrl_req->to = to;
	ctrl_req->ctrl = *ctrl;
	ctrl_req->ctrl.token = ++n->tokens;
	ctrl_req->ctrl.requester = n->number;
	tw_list_add_tail(&n->requests, &ctrl_req->link);
	tw_mcapi_ctrl_send(n, to, &ctrl_req->ctrl);
}

static bool has_left(const struct tw_mcapi_node *n, const struct tw_mcapi_ctrl_request *ctrl_req)
{
	const struct tw_list *out = &n->peers[ctrl_req->to].out;

	for (struct tw_list *l = out->next; l != out; l = l->next) {
		const struct tw_mcapi_ctrl *c = &tw_container(l, struct ctrl_msg, link)->ctrl;

		if (c->requester == n->number && c->token == ctrl_req->ctrl.token)
			return false;
	}
	return true;
}

void tw_mcapi_requests_again(struct tw_mcapi_node *n, uint32_t node)
{
	struct tw_list *l, *tmp;

	tw_list_each(&n->requests, l, tmp) {
		const struct tw_mcapi_ctrl_request *ctrl_req =
			tw_container(l, struct tw_mcapi_ctrl_request, link);

		if (ctrl_req->to == node && has_left(n, ctrl_req))
			tw_mcapi_ctrl_send(n, node, &ctrl_req->ctrl);
	}
}

void tw_mcapi_ctrl_abandon(struct tw_mcapi_ctrl_request *ctrl_req)
{
	tw_list_del(&ctrl_req->link);
}

void tw_mcapi_ctrl_reply(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *request,
			 mcapi_status_t status, uint32_t value)
{
	struct tw_mcapi_ctrl ctrl = *request;

	ctrl.what = TW_MCAPI_CTRL_REPLY;
	ctrl.status = status;
	ctrl.value = value;
	tw_mcapi_ctrl_send(n, request->requester, &ctrl);
}

void tw_mcapi_on_reply(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_list *l, *tmp;

	tw_list_each(&n->requests, l, tmp) {
		struct tw_mcapi_ctrl_request *ctrl_req =
			tw_container(l, struct tw_mcapi_ctrl_request, link);

		if (ctrl_req->ctrl.token != ctrl->token)
			continue;
		tw_list_del(&ctrl_req->link);
		ctrl_req->on_reply(n, ctrl_req, ctrl);
		return;
	}
	/* The reply to a connect that was cancelled. */
	if (ctrl->epoch && ctrl->status == MCAPI_SUCCESS) {
		struct tw_mcapi_ctrl undo = *ctrl;

		undo.what = TW_MCAPI_CTRL_UNBIND;
		undo.to_sender = true;
		tw_mcapi_ctrl_send(n, tw_mcapi_node_of(ctrl->a), &undo);
		undo.to_sender = false;
		tw_mcapi_ctrl_send(n, tw_mcapi_node_of(ctrl->b), &undo);
	}
}

void tw_mcapi_peers_init(struct tw_mcapi_node *n)
{
	for (unsigned i = 0; i < TW_MAX_NODES; i++) {
		struct tw_mcapi_peer *peer = &n->peers[i];

		peer->state = TW_MCAPI_AWAY;
		tw_list_init(&peer->out);
		tw_list_init(&peer->dirty);
		peer->connected.done = connected;
	}
}

void tw_mcapi_peers_fini(struct tw_mcapi_node *n)
{
	for (unsigned i = 0; i < TW_MAX_NODES; i++)
		release_all(&n->peers[i].out);
	release_all(&n->local);
}

/* Deferred work ---------------------------------------------------------------- */

static void on_own_ctrl(struct tw_mcapi_node *n)
{
	while (!tw_list_empty(&n->local)) {
		struct ctrl_msg *msg = tw_list_first(&n->local, struct ctrl_msg, link);

		tw_list_del(&msg->link);
		tw_mcapi_on_ctrl(n, n->number, &msg->ctrl);
		free(msg);
	}
}

bool tw_mcapi_self_room(struct tw_mcapi_node *n, size_t len)
{
	struct tw_unexp_msg *u = tw_unexp_msg_get(n->ep, (uint32_t)len);

	if (u)
		tw_unexp_msg_put(n->ep, u);
	return u;
}

void tw_mcapi_self_poll(struct tw_mcapi_node *n)
{
	for (int i = 0; i < SELF_POLLS && tw_progress(n->ep); i++)
		;
}

void tw_mcapi_leave_slow(struct tw_ep *ep)
{
	if (ep->attend || !tw_list_empty(&ep->done))
		tw_mcapi_attend(ep);
	if (tw_unfinished(ep))
		tw_progress_request(ep);
	tw_leave(ep);
}

void tw_mcapi_attend(struct tw_ep *ep)
{
	struct tw_mcapi_node *n = ep->owner;

	n->ep = ep;
	/* A send may make progress and call this again: the loop below does the work. */
	if (n->attending)
		return;
	n->attending = true;
	do {
		ep->attend = false;
		tw_collect(ep);
		on_own_ctrl(n);
		while (!tw_list_empty(&n->pushes)) {
			struct tw_mcapi_endp *e =
				tw_list_first(&n->pushes, struct tw_mcapi_endp, chan.push);

			tw_list_del(&e->chan.push);
			tw_mcapi_pkt_push(n, e);
		}
		while (!tw_list_empty(&n->dest_pushes)) {
			struct tw_mcapi_dest *d =
				tw_list_first(&n->dest_pushes, struct tw_mcapi_dest, push);

			tw_list_del(&d->push);
			tw_mcapi_msg_push(n, d);
		}
		while (!tw_list_empty(&n->dirty)) {
			struct tw_mcapi_peer *peer =
				tw_list_first(&n->dirty, struct tw_mcapi_peer, dirty);

			tw_list_del(&peer->dirty);
			tw_mcapi_peer_flush(n, peer);
		}
	} while (ep->attend || !tw_list_empty(&ep->done));
	n->attending = false;
}
