/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.4, 4.5: channels, open and closed. The two nodes bind a channel (wire.h), the two
 * programs open it; each end sends the other its state.
 *
 *   bound                    the endpoints are connected
 *   open                     the state of this end
 *   peer_open, peer_closed   the state of the other end
 */
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

void tw_mcapi_chan_init(struct tw_mcapi_chan *c)
{
	tw_list_init(&c->sends);
	tw_list_init(&c->credit_starved);
	tw_list_init(&c->push);
	tw_list_init(&c->bind2.r.link);
}

void tw_mcapi_chan_ctrl_send(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			     enum tw_mcapi_ctrl_what what, uint32_t value)
{
	struct tw_mcapi_chan *c = &e->chan;
	struct tw_mcapi_ctrl ctrl = {.what = (uint8_t)what,
				     .type = c->type,
				     .to_sender = !c->sender,
				     .a = c->sender ? e->handle : c->other,
				     .b = c->sender ? c->other : e->handle,
				     .epoch = c->epoch,
				     .value = value};

	if (!tw_barrier_global())
		ctrl.flags = TW_MCAPI_CTRL_FENCE;
	if (what == TW_MCAPI_CTRL_OPENED && c->scl)
		tw_mcapi_scl_describe(e, &ctrl);
	tw_mcapi_ctrl_send(n, tw_mcapi_node_of(c->other), &ctrl);
}

/* The packets that this end takes have changed. */
static void set_match(struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;
	bool open = c->open == TW_MCAPI_CH_OPEN || c->open == TW_MCAPI_CH_OPENING;

	c->match = 0;
	if (open && c->bound && !c->sender && c->type == TW_MCAPI_K_PKT)
		c->match = tw_mcapi_match(TW_MCAPI_K_PKT, 0, c->epoch, e->handle, c->other);
}

/* Opening ---------------------------------------------------------------------- */

static void end_open(struct tw_mcapi_node *n, struct tw_mcapi_chan *c, mcapi_status_t status)
{
	struct tw_mcapi_mreq *m = c->opening;

	c->opening = NULL;
	if (m)
		tw_mcapi_mreq_done(n, m, status, 0);
}

/* The end is open once both programs have opened theirs. */
static void try_open(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (!c->bound || c->open != TW_MCAPI_CH_OPENING || !c->peer_open)
		return;
	c->open = TW_MCAPI_CH_OPEN;
	if (c->scl)
		tw_mcapi_scl_ready(n, e);
	end_open(n, c, MCAPI_SUCCESS);
	if (c->sender && c->type == TW_MCAPI_K_PKT)
		tw_mcapi_push_soon(n, &n->pushes, &c->push);
}

/* Whether an end of that type and direction may be opened as `as'. */
static mcapi_status_t chan_fits(enum tw_mcapi_kind type, bool sender, enum tw_mcapi_kind as,
				bool as_sender)
{
	if (type != as)
		return MCAPI_ECHAN_TYPE;
	return sender == as_sender ? MCAPI_SUCCESS : MCAPI_EDIR;
}

/* Makes the handle invalid. */
static void shut(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, enum tw_mcapi_chan_open how)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (c->scl)
		tw_mcapi_scl_close(e, true);
	if (how == TW_MCAPI_CH_SHUT)
		c->handle = 0;
	c->open = (uint8_t)how;
	set_match(e);
	tw_mcapi_pkt_drop(n, e);
	tw_mcapi_pkt_fail(n, e);
}

void tw_mcapi_chan_bound(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;
	mcapi_status_t status;

	c->bound = true;
	c->reserved = false;
	set_match(e);
	tw_mcapi_pkt_repost(n, e);
	if (c->open != TW_MCAPI_CH_OPENING)
		return;
	status = chan_fits(c->type, c->sender, c->open_type, c->open_sender);
	if (status != MCAPI_SUCCESS) {
		end_open(n, c, status);
		shut(n, e, TW_MCAPI_CH_CANCELLED);
		return;
	}
	tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_OPENED, e->buffers);
	try_open(n, e);
}

static mcapi_status_t may_open(const struct tw_mcapi_chan *c, enum tw_mcapi_kind type, bool sender)
{
	bool opened = c->open == TW_MCAPI_CH_OPENING || c->open == TW_MCAPI_CH_OPEN;
	mcapi_status_t status = MCAPI_SUCCESS;

	if (c->bound)
		status = chan_fits(c->type, c->sender, type, sender);
	else if (opened)
		status = chan_fits(c->open_type, c->open_sender, type, sender);
	return status == MCAPI_SUCCESS && opened ? MCAPI_ECONNECTED : status;
}

static mcapi_status_t open_end(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			       enum tw_mcapi_kind type, bool sender, uint32_t *handle,
			       mcapi_request_t *request)
{
	struct tw_mcapi_chan *c = &e->chan;
	mcapi_status_t status = may_open(c, type, sender);
	struct tw_mcapi_mreq *m;

	if (status != MCAPI_SUCCESS)
		return status;
	m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_OPEN);
	if (!m)
		return MCAPI_ENO_REQUEST;
	c->handle = type == TW_MCAPI_K_PKT
			    ? (n->gens = (n->gens % 0xffff) + 1) << 16 | (e->handle & 0xffff)
			    : tw_mcapi_scl_open(n, e, sender);
	if (!c->handle) {
		tw_mcapi_mreq_free(n, m);
		return MCAPI_ENO_MEM;
	}
	m->endpoint = e->handle;
	c->opening = m;
	c->open = TW_MCAPI_CH_OPENING;
	c->open_type = (uint8_t)type;
	c->open_sender = sender;
	*handle = c->handle;
	*request = tw_mcapi_mreq_handle(n, m);
	set_match(e);
	if (!c->bound)
		return MCAPI_ENOT_CONNECTED;
	tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_OPENED, e->buffers);
	try_open(n, e);
	return MCAPI_SUCCESS;
}

void tw_mcapi_chan_open(enum tw_mcapi_kind type, bool sender, mcapi_endpoint_t endpoint,
			uint32_t *handle, mcapi_request_t *request, mcapi_status_t *status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = tw_mcapi_endp_begin(&n, endpoint, status);

	if (!e)
		return;
	/* A connect that has arrived counts. */
	tw_progress(n->ep);
	*status = handle && request ? open_end(n, e, type, sender, handle, request) : MCAPI_EPARAM;
	tw_mcapi_leave(n->ep);
}

void tw_mcapi_chan_cancel_open(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, m->endpoint);

	if (!e || e->chan.opening != m)
		return;
	e->chan.opening = NULL;
	shut(n, e, TW_MCAPI_CH_CANCELLED);
	if (e->chan.bound)
		tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_UNOPENED, 0);
}

/* Closing ------------------------------------------------------------------------ */

static void chan_close_end(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	/* If it has not completed. */
	end_open(n, &e->chan, MCAPI_EREQ_CANCELED);
	shut(n, e, TW_MCAPI_CH_SHUT);
	tw_mcapi_chan_dissolve(n, e);
}

static struct tw_mcapi_endp *by_handle(struct tw_mcapi_node *n, uint32_t handle,
				       enum tw_mcapi_kind type, bool sender)
{
	/* Handles of scalar channels do not contain the port. */
	mcapi_endpoint_t port = type == TW_MCAPI_K_SCL ? tw_mcapi_scl_endpoint(handle) : handle;
	struct tw_mcapi_endp *e = tw_mcapi_endp_at(n, port);

	return e && tw_mcapi_chan_is(&e->chan, handle, type, sender) ? e : NULL;
}

void tw_mcapi_chan_close(enum tw_mcapi_kind type, bool sender, uint32_t handle,
			 mcapi_request_t *request, mcapi_status_t *status)
{
	struct tw_mcapi_mreq *m;
	struct tw_mcapi_endp *e;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, status, MCAPI_ENOT_HANDLE);
	if (!ep)
		return;
	e = by_handle(n, handle, type, sender);
	if (e && !request) {
		*status = MCAPI_EPARAM;
	} else if (e && e->chan.open == TW_MCAPI_CH_CANCELLED) {
		*status = MCAPI_ENOT_OPEN;
	} else if (e) {
		m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_CLOSE);
		*status = m ? MCAPI_SUCCESS : MCAPI_ENO_REQUEST;
		if (m)
			chan_close_end(n, e);
		tw_mcapi_mreq_started(n, m, 0, request, status);
	}
	tw_mcapi_leave(ep);
}

/* The other end is closed, or its node is gone. */
static void chan_peer_closed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (c->open != TW_MCAPI_CH_OPEN) {
		tw_mcapi_chan_unbind(n, e);
		return;
	}
	c->peer_closed = true;
	if (c->type == TW_MCAPI_K_SCL)
		tw_mcapi_scl_peer_closed(e);
	else if (c->sender)
		tw_mcapi_pkt_fail(n, e);
	else
		tw_mcapi_recvs_end(n, &e->packet_recvs, MCAPI_ENOT_HANDLE, false);
}

void tw_mcapi_chan_dissolve(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	if (e->chan.bound)
		tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_CLOSED, 0);
	tw_mcapi_chan_unbind(n, e);
}

void tw_mcapi_chan_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node)
{
	const struct tw_mcapi_chan *c = &e->chan;

	if (c->bound && tw_mcapi_node_of(c->other) == node)
		chan_peer_closed(n, e);
}

/* Control messages ------------------------------------------------------- */

/* The end that a control message is for; NULL if its binding is over. */
static struct tw_mcapi_endp *chan_named(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->to_sender ? ctrl->a : ctrl->b);
	const struct tw_mcapi_chan *c = e ? &e->chan : NULL;

	if (!c || !tw_mcapi_chan_in_use(e) || c->epoch != ctrl->epoch ||
	    c->sender != ctrl->to_sender || c->other != (ctrl->to_sender ? ctrl->b : ctrl->a))
		return NULL;
	return e;
}

void tw_mcapi_chan_on_peer(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = chan_named(n, ctrl);
	struct tw_mcapi_chan *c;

	if (!e)
		return;
	c = &e->chan;
	switch (ctrl->what) {
	case TW_MCAPI_CTRL_OPENED:
		c->peer_open = true;
		c->credits = ctrl->value;
		c->opened = *ctrl;
		try_open(n, e);
		break;
	case TW_MCAPI_CTRL_UNOPENED:
		if (c->open == TW_MCAPI_CH_OPEN)
			chan_peer_closed(n, e);
		c->peer_open = false;
		break;
	case TW_MCAPI_CTRL_UNBIND:
	case TW_MCAPI_CTRL_CLOSED:
		chan_peer_closed(n, e);
		break;
	case TW_MCAPI_CTRL_TAKEN:
		c->credits = tw_min(c->credits + ctrl->value, 0x7fffffffu);
		if (c->type == TW_MCAPI_K_PKT)
			tw_mcapi_push_soon(n, &n->pushes, &c->push);
		break;
	case TW_MCAPI_CTRL_STARVED:
		c->starved = true;
		tw_mcapi_chan_took(n, e, 0, e->buffers);
		break;
	case TW_MCAPI_CTRL_MAPPED:
	case TW_MCAPI_CTRL_PAIRED:
	case TW_MCAPI_CTRL_WAKE:
		if (c->scl)
			tw_mcapi_scl_on_ctrl(n, e, ctrl);
		break;
	default:
		break;
	}
}
