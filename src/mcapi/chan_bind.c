/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.4.1, 4.5.1: binding two endpoints, by any node (wire.h). */
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

/* The end of a reservation: replies to the BIND. */
static void reply(struct tw_mcapi_node *n, struct tw_mcapi_chan *c, mcapi_status_t status)
{
	struct tw_mcapi_ctrl bind = c->bind2.ctrl;

	c->reserved = false;
	tw_ctrl_abandon(&c->bind2.r);
	bind.requester = c->requester;
	bind.token = c->token;
	bind.epoch = c->epoch;
	tw_mcapi_ctrl_reply(n, &bind, status, 0);
}

/* At the sender's node: the receiver's has replied, or is not there. */
static void on_bind2_reply(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			   const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_container(ctrl_req, struct tw_mcapi_endp, chan.bind2);
	mcapi_status_t status = ctrl ? ctrl->status : MCAPI_ENOT_ENDP;

	e->chan.epoch = ctrl ? ctrl->epoch & 0xffffff : 0;
	reply(n, &e->chan, status);
	if (status == MCAPI_SUCCESS)
		tw_mcapi_chan_bound(n, e);
}

void tw_mcapi_chan_on_bind(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->a);
	struct tw_mcapi_ctrl on = *ctrl;
	struct tw_mcapi_chan *c;

	if (!e || tw_mcapi_chan_in_use(e)) {
		tw_mcapi_ctrl_reply(n, ctrl, e ? MCAPI_ECONNECTED : MCAPI_ENOT_ENDP, 0);
		return;
	}
	c = &e->chan;
	c->reserved = true;
	c->sender = true;
	c->type = ctrl->type;
	c->other = ctrl->b;
	c->epoch = 0;
	c->requester = ctrl->requester;
	c->token = ctrl->token;
	c->bind2.on_reply = on_bind2_reply;
	on.what = TW_MCAPI_CTRL_BIND2;
	on.value = e->prio;
	if (!tw_mcapi_ctrl_request(n, &c->bind2, tw_mcapi_node_of(ctrl->b), &on))
		reply(n, c, MCAPI_ENO_REQUEST);
}

void tw_mcapi_chan_on_bind2(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->b);
	mcapi_status_t status = MCAPI_SUCCESS;
	struct tw_mcapi_ctrl bound = *ctrl;

	bound.epoch = n->epochs = (n->epochs % 0xffffff) + 1;
	if (!e)
		status = MCAPI_ENOT_ENDP;
	else if (tw_mcapi_chan_in_use(e))
		status = MCAPI_ECONNECTED;
	else if (e->prio != ctrl->value)
		status = MCAPI_EATTR_INCOMP;
	tw_mcapi_ctrl_reply(n, &bound, status, 0);
	if (status != MCAPI_SUCCESS)
		return;
	e->chan.sender = false;
	e->chan.type = ctrl->type;
	e->chan.other = ctrl->a;
	e->chan.epoch = bound.epoch;
	tw_mcapi_chan_bound(n, e);
}

void tw_mcapi_chan_unbind(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (c->reserved)
		reply(n, c, MCAPI_ENOT_ENDP);
	c->bound = c->peer_open = c->peer_closed = c->starved = false;
	c->credits = c->taken = 0;
	c->match = 0;
	tw_mcapi_pkt_repost(n, e);
}

/* Connecting ---------------------------------------------------------------------- */

static mcapi_status_t connect_ends(struct tw_mcapi_node *n, enum tw_mcapi_kind type,
				   mcapi_endpoint_t a, mcapi_endpoint_t b, mcapi_request_t *request)
{
	struct tw_mcapi_ctrl ctrl = {
		.what = TW_MCAPI_CTRL_BIND, .type = (uint8_t)type, .a = a, .b = b};
	struct tw_mcapi_mreq *m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_CONNECT);
	mcapi_status_t status;

	if (!m)
		return MCAPI_ENO_REQUEST;
	tw_mcapi_mreq_ask(n, m, tw_mcapi_node_of(a), &ctrl);
	/* Between endpoints of this node the reply is there now. */
	tw_group_attend(n->ep);
	status = m->state == TW_MCAPI_Q_DONE ? m->status : MCAPI_INCOMPLETE;
	tw_mcapi_mreq_started(n, m, 0, request, &status);
	return status;
}

void tw_mcapi_chan_connect(enum tw_mcapi_kind type, mcapi_endpoint_t a, mcapi_endpoint_t b,
			   mcapi_request_t *request, mcapi_status_t *status)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	if (!request)
		*status = MCAPI_EPARAM;
	else if (tw_mcapi_node_of(a) < MCAPI_MAX_NODES && tw_mcapi_node_of(b) < MCAPI_MAX_NODES)
		*status = connect_ends(n, type, a, b, request);
	tw_mcapi_leave(ep);
}
