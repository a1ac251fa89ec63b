/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages between nodes, and what is deferred: see group/group.h. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/report.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"

static struct tw_mcapi_node *node_of(struct tw_group *g)
{
	return tw_container(g, struct tw_mcapi_node, group);
}

void tw_mcapi_ctrl_send(struct tw_mcapi_node *n, uint32_t to, const struct tw_mcapi_ctrl *ctrl)
{
	tw_ctrl_must_send(&n->peers[to], tw_mcapi_match(TW_MCAPI_K_CTRL, 0, 0, 0, 0), ctrl,
			  sizeof(*ctrl));
}

/* Requests ------------------------------------------------------------------- */

static void ctrl_replied(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct tw_mcapi_ctrl_request *q = tw_container(r, struct tw_mcapi_ctrl_request, r);
	struct tw_mcapi_node *n = node_of(r->to->group);

	(void)len;
	/* A node that was there is gone, and may have begun again. */
	if (reply || r->to->why != TW_S_OK ||
	    !tw_mcapi_ctrl_request(n, q, (uint32_t)(r->to - n->peers), &q->ctrl))
		q->on_reply(n, q, reply);
}

bool tw_mcapi_ctrl_request(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			   uint32_t to, const struct tw_mcapi_ctrl *ctrl)
{
	ctrl_req->r.on_reply = ctrl_replied;
	tw_ctrl_request(&ctrl_req->r, &n->peers[to]);
	ctrl_req->ctrl = *ctrl;
	ctrl_req->ctrl.token = ctrl_req->r.number;
	ctrl_req->ctrl.requester = n->number;
	if (tw_ctrl_send(&n->peers[to], tw_mcapi_match(TW_MCAPI_K_CTRL, 0, 0, 0, 0),
			 &ctrl_req->ctrl, sizeof(ctrl_req->ctrl)))
		return true;
	tw_ctrl_abandon(&ctrl_req->r);
	return false;
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

static void ctrl_on_reply(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_ctrl undo = *ctrl;

	if (tw_ctrl_replied(&n->peers[from], ctrl->token, ctrl, sizeof(*ctrl)))
		return;
	/* The reply to a connect that was cancelled. */
	if (!ctrl->epoch || ctrl->status != MCAPI_SUCCESS)
		return;
	undo.what = TW_MCAPI_CTRL_UNBIND;
	undo.to_sender = true;
	tw_mcapi_ctrl_send(n, tw_mcapi_node_of(ctrl->a), &undo);
	undo.to_sender = false;
	tw_mcapi_ctrl_send(n, tw_mcapi_node_of(ctrl->b), &undo);
}

/* Arrivals ------------------------------------------------------------------- */

/*
 * A peer is the node whose endpoint id it has if it is on this host as the node is, and nobody
 * else is that node. Another NIC id than that of the node's place may be of the same host.
 */
static bool node_admits(struct tw_ep *ep, uint64_t where)
{
	const struct tw_mcapi_node *n = ep->owner;
	uint32_t node = tw_mcapi_node_at(where), board;
	char who[TW_REPORT_SIZE / 2], cause[80], advice[TW_REPORT_SIZE];
	const struct tw_member *m;

	if (node >= TW_MAX_NODES)
		return false;
	m = &n->peers[node];
	if (tw_board_of(where >> 16, &board) == tw_topology_node_board(node, &board) &&
	    (m->state != TW_MEMBER_HERE || m->addr.where == where))
		return true;
	tw_failure_who(who, sizeof(who), ep, where);
	snprintf(cause, sizeof(cause), "it says that it is node %u, which lives elsewhere", node);
	/* The advice names the process: any number of them may say so, and one line is enough. */
	snprintf(advice, sizeof(advice), "set the same TAGWIRE_NODES in all processes; it is %s",
		 who);
	tw_report(TW_LOG_ERROR, "a process", cause, advice);
	return false;
}

static bool node_called(const struct tw_ep *ep, uint64_t where, char *out, size_t size)
{
	const struct tw_mcapi_node *n = ep->owner;
	uint32_t node = tw_mcapi_node_at(where);

	if (node >= TW_MAX_NODES || n->peers[node].where != where)
		return false;
	snprintf(out, size, "node %u", node);
	return true;
}

static void on_ctrl(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
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
		tw_mcapi_on_credit_request(n, from, ctrl);
		break;
	case TW_MCAPI_CTRL_ATTR:
		tw_mcapi_on_attr(n, ctrl);
		break;
	case TW_MCAPI_CTRL_REPLY:
		ctrl_on_reply(n, from, ctrl);
		break;
	case TW_MCAPI_CTRL_CREDIT:
		tw_mcapi_on_more_credits(n, ctrl->a, ctrl->value);
		break;
	case TW_MCAPI_CTRL_RECALL:
		tw_mcapi_on_recall(n, ctrl);
		break;
	case TW_MCAPI_CTRL_RETURN:
		tw_mcapi_on_return(n, from, ctrl);
		break;
	case TW_MCAPI_CTRL_BIND:
		tw_mcapi_chan_on_bind(n, ctrl);
		break;
	case TW_MCAPI_CTRL_BIND2:
		tw_mcapi_chan_on_bind2(n, ctrl);
		break;
	default:
		tw_mcapi_chan_on_peer(n, ctrl);
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
	uint32_t from = tw_mcapi_node_at(p->addr.where);
	struct tw_mcapi_ctrl ctrl;
	uint64_t value;

	if (from >= TW_MAX_NODES)
		return;
	if (!p->context)
		tw_member_met(&n->peers[from], p->addr);
	if (tw_mcapi_kind_of(arg) == TW_MCAPI_K_CTRL && len == sizeof(ctrl)) {
		memcpy(&ctrl, data, len);
		on_ctrl(n, from, &ctrl);
	} else if (tw_mcapi_kind_of(arg) == TW_MCAPI_K_SCL && len == sizeof(value)) {
		memcpy(&value, data, len);
		on_scalar(n, arg, le64toh(value));
	}
}

static void ctrl_lost(struct tw_member *m)
{
	struct tw_mcapi_node *n = node_of(m->group);
	uint32_t node = (uint32_t)(m - n->peers);
	struct tw_mcapi_endp *e;

	/* It was not there. */
	if (m->why != TW_S_OK)
		return;
	tw_mcapi_pending_lost(n, node);
	for (uint32_t port = 0; (e = tw_mcapi_endp_next(n, &port));) {
		tw_mcapi_chan_lost(n, e, node);
		tw_mcapi_credits_lost(n, e, node);
	}
	for (unsigned i = 0; i < TW_MCAPI_DESTS; i++)
		for (struct tw_mcapi_dest *d = n->dests[i]; d; d = d->next)
			if (tw_mcapi_node_of(d->handle) == node)
				d->credits = d->kept = 0;
}

/* Deferred work ---------------------------------------------------------------- */

static void push_all(struct tw_group *g)
{
	struct tw_mcapi_node *n = node_of(g);
	struct tw_mcapi_endp *e;
	struct tw_mcapi_dest *d;

	while ((e = tw_list_take(&n->pushes, struct tw_mcapi_endp, chan.push)))
		tw_mcapi_pkt_push(n, e);
	while ((d = tw_list_take(&n->dest_pushes, struct tw_mcapi_dest, push)))
		tw_mcapi_msg_push(n, d);
}

void tw_mcapi_peers_init(struct tw_mcapi_node *n)
{
	tw_group_init(&n->group, TW_MCAPI_FILTER);
	n->group.work = push_all;
	n->group.lost = ctrl_lost;
	for (uint32_t i = 0; i < TW_MAX_NODES; i++)
		tw_member_init(&n->group, &n->peers[i],
			       tw_topology_node_nic(i) << 16 | (TW_MCAPI_FIRST_ID + i));
}

bool tw_mcapi_self_room(struct tw_mcapi_node *n, size_t len)
{
	struct tw_unexp_msg *u = tw_unexp_msg_get(n->ep, (uint32_t)len);

	if (u)
		tw_unexp_msg_put(n->ep, u);
	return u;
}

/* For a program that sleeps on its descriptor: see mcapi_arm_fd(). */
static uint64_t ctrl_expire(struct tw_ep *ep, uint64_t now)
{
	struct tw_mcapi_node *n = ep->owner;

	tw_mcapi_gets_search(n);
	return tw_earlier(tw_mcapi_gets_say(n, now),
			  ep->armed && !tw_list_empty(&n->gets)
				  ? now + tw_clock_us(TW_MCAPI_SEARCH_US)
				  : 0);
}

_Static_assert(MCAPI_MAX_MESSAGE_SIZE >= MCAPI_MAX_PACKET_SIZE, "one limit for both");

const struct tw_interface tw_mcapi_interface = {
	.unexpected = tw_mcapi_unexpected,
	.admits = node_admits,
	.called = node_called,
	.am_handler = on_am,
	.attend = tw_group_attend,
	.down = tw_group_down_said,
	.expire = ctrl_expire,
	.ending = tw_mcapi_ending,
	.ended = tw_mcapi_ended,
	.name = "mcapi",
	.first_id = TW_MCAPI_FIRST_ID,
	.max_len = MCAPI_MAX_MESSAGE_SIZE,
};
