/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.4.1, 4.5.1: binding two endpoints, by any node (wire.h). */
#include "mcapi/node.h"

/* Binding ------------------------------------------------------------------------ */

/* At the sender's node. */
static void hear_bind(struct tw_node *n, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->a);
	struct tw_say on = *say;
	struct tw_chan *c;

	if (!e || tw_chan_taken(e)) {
		tw_answer(n, say, e ? MCAPI_ECONNECTED : MCAPI_ENOT_ENDP, 0);
		return;
	}
	c = &e->chan;
	n->epochs = (n->epochs % 0xffffff) + 1;
	c->reserved = true;
	c->sender = true;
	c->type = say->type;
	c->other = say->b;
	c->epoch = n->epochs;
	c->asker = say->asker;
	c->token = say->token;
	on.what = TW_SAY_BIND2;
	on.epoch = c->epoch;
	on.value = e->prio;
	tw_say(n, tw_node_of(say->b), &on);
}

/* At the receiver's node. */
static void hear_bind2(struct tw_node *n, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->b);
	struct tw_say back = *say;

	back.what = TW_SAY_BOUND;
	back.status = MCAPI_SUCCESS;
	if (!e)
		back.status = MCAPI_ENOT_ENDP;
	else if (tw_chan_taken(e))
		back.status = MCAPI_ECONNECTED;
	else if (e->prio != say->value)
		back.status = MCAPI_EATTR_INCOMP;
	tw_say(n, tw_node_of(say->a), &back);
	if (back.status != MCAPI_SUCCESS)
		return;
	e->chan.sender = false;
	e->chan.type = say->type;
	e->chan.other = say->a;
	e->chan.epoch = say->epoch;
	tw_chan_bound(n, e);
}

/* At the sender's node again. */
static void hear_bound(struct tw_node *n, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->a);
	mcapi_status_t status = say->status;

	if (!e || !e->chan.reserved || e->chan.epoch != say->epoch) {
		/* The endpoint was deleted meanwhile. */
		if (status == MCAPI_SUCCESS) {
			struct tw_say undo = *say;

			undo.what = TW_SAY_UNBIND;
			undo.to_sender = false;
			tw_say(n, tw_node_of(say->b), &undo);
			status = MCAPI_ENOT_ENDP;
		}
	} else if (status == MCAPI_SUCCESS) {
		tw_chan_bound(n, e);
	} else {
		tw_chan_unbind(e);
	}
	tw_answer(n, say, status, 0);
}

void tw_chan_hear(struct tw_node *n, const struct tw_say *say)
{
	struct tw_endp *e;

	switch (say->what) {
	case TW_SAY_BIND:
		hear_bind(n, say);
		break;
	case TW_SAY_BIND2:
		hear_bind2(n, say);
		break;
	case TW_SAY_BOUND:
		hear_bound(n, say);
		break;
	default:
		e = tw_chan_named(n, say);
		if (e)
			tw_chan_told(n, e, say);
	}
}

/* Connecting ---------------------------------------------------------------------- */

static void told(struct tw_node *n, struct tw_ask *ask, const struct tw_say *say)
{
	struct tw_mreq *m = tw_container(ask, struct tw_mreq, ask);

	tw_mreq_done(n, m, say ? say->status : MCAPI_ENOT_ENDP, 0);
}

static mcapi_status_t connect_ends(struct tw_node *n, enum tw_mc_kind type, mcapi_endpoint_t a,
				   mcapi_endpoint_t b, mcapi_request_t *request)
{
	struct tw_say say = {.what = TW_SAY_BIND, .type = (uint8_t)type, .a = a, .b = b};
	struct tw_mreq *m = tw_mreq_new(n, TW_Q_CONNECT);
	mcapi_status_t status;

	if (!m)
		return MCAPI_ENO_REQUEST;
	m->ask.answer = told;
	tw_ask(n, &m->ask, tw_node_of(a), &say);
	/* Among endpoints of this node the answer is there now. */
	tw_mc_attend(n->ep);
	status = m->state == TW_Q_DONE ? m->status : MCAPI_SUCCESS;
	*request = tw_mreq_handle(n, m);
	if (status != MCAPI_SUCCESS)
		tw_mreq_free(n, m);
	return status;
}

void tw_chan_connect(enum tw_mc_kind type, mcapi_endpoint_t a, mcapi_endpoint_t b,
		     mcapi_request_t *request, mcapi_status_t *status)
{
	struct tw_node *n;
	struct tw_ep *ep;

	ep = tw_mc_begin(&n, status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	if (!request)
		*status = MCAPI_EPARAM;
	else if (tw_node_of(a) < MCAPI_MAX_NODES && tw_node_of(b) < MCAPI_MAX_NODES)
		*status = connect_ends(n, type, a, b, request);
	tw_mc_leave(ep);
}
