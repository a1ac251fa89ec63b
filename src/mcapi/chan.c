/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.4, 4.5: the life of a channel. Binding is done by the two nodes
 * (wire.h), opening by the two programs; each end tells the other.
 *
 *   bound      the endpoints are connected
 *   open       what this program did with its end
 *   peer_open, peer_closed   what the other program did with its own
 */
#include "mcapi/node.h"

void tw_chan_init(struct tw_chan *c)
{
	tw_list_init(&c->sends);
	tw_list_init(&c->hungry);
	tw_list_init(&c->push);
}

void tw_chan_say(struct tw_node *n, struct tw_endp *e, enum tw_saying what, uint32_t value)
{
	struct tw_chan *c = &e->chan;
	struct tw_say say = {.what = (uint8_t)what,
			     .type = c->type,
			     .to_sender = !c->sender,
			     .a = c->sender ? e->handle : c->other,
			     .b = c->sender ? c->other : e->handle,
			     .epoch = c->epoch,
			     .value = value};

	if (!tw_barrier_global())
		say.flags = TW_SAY_FENCE;
	if (what == TW_SAY_OPENED && c->scl)
		tw_scl_describe(e, &say);
	tw_say(n, tw_node_of(c->other), &say);
}

/* Opening ---------------------------------------------------------------------- */

static void end_open(struct tw_node *n, struct tw_chan *c, mcapi_status_t status)
{
	struct tw_mreq *m = c->opening;

	c->opening = NULL;
	if (m)
		tw_mreq_done(n, m, status, 0);
}

/* The end is open once both programs have opened theirs. */
static void try_open(struct tw_node *n, struct tw_endp *e)
{
	struct tw_chan *c = &e->chan;

	if (!c->bound || c->open != TW_CH_OPENING || !c->peer_open)
		return;
	c->open = TW_CH_OPEN;
	if (c->scl)
		tw_scl_ready(n, e);
	end_open(n, c, MCAPI_SUCCESS);
	if (c->sender && c->type == TW_K_PKT)
		tw_pkt_push_soon(n, e);
}

/* Whether an end of that type and direction may be opened as the other. */
static mcapi_status_t fits(enum tw_mc_kind type, bool sender, enum tw_mc_kind as, bool as_sender)
{
	if (type != as)
		return MCAPI_ECHAN_TYPE;
	return sender == as_sender ? MCAPI_SUCCESS : MCAPI_EDIR;
}

/* The handle is worth nothing any more. */
static void shut(struct tw_node *n, struct tw_endp *e, enum tw_chan_open how)
{
	struct tw_chan *c = &e->chan;

	if (c->scl)
		tw_scl_close(e);
	if (how == TW_CH_SHUT)
		c->handle = 0;
	c->open = (uint8_t)how;
	tw_queue_drop(n, e, &e->packets);
	while (!tw_list_empty(&e->packet_recvs))
		tw_mreq_done(n, tw_list_first(&e->packet_recvs, struct tw_mreq, link),
			     MCAPI_ENOT_HANDLE, 0);
	tw_pkt_fail(n, e);
}

void tw_chan_unbind(struct tw_endp *e)
{
	struct tw_chan *c = &e->chan;

	c->bound = c->reserved = c->peer_open = c->peer_closed = c->starving = false;
	c->credits = c->taken = 0;
}

void tw_chan_bound(struct tw_node *n, struct tw_endp *e)
{
	struct tw_chan *c = &e->chan;
	mcapi_status_t status;

	c->bound = true;
	c->reserved = false;
	if (c->open != TW_CH_OPENING)
		return;
	status = fits(c->type, c->sender, c->open_type, c->open_sender);
	if (status != MCAPI_SUCCESS) {
		end_open(n, c, status);
		shut(n, e, TW_CH_CANCELLED);
		return;
	}
	tw_chan_say(n, e, TW_SAY_OPENED, e->buffers);
	try_open(n, e);
}

static mcapi_status_t may_open(const struct tw_chan *c, enum tw_mc_kind type, bool sender)
{
	bool opened = c->open == TW_CH_OPENING || c->open == TW_CH_OPEN;
	mcapi_status_t status = MCAPI_SUCCESS;

	if (c->bound)
		status = fits(c->type, c->sender, type, sender);
	else if (opened)
		status = fits(c->open_type, c->open_sender, type, sender);
	return status == MCAPI_SUCCESS && opened ? MCAPI_ECONNECTED : status;
}

static mcapi_status_t open_end(struct tw_node *n, struct tw_endp *e, enum tw_mc_kind type,
			       bool sender, uint32_t *handle, mcapi_request_t *request)
{
	struct tw_chan *c = &e->chan;
	mcapi_status_t status = may_open(c, type, sender);
	struct tw_mreq *m;

	if (status != MCAPI_SUCCESS)
		return status;
	m = tw_mreq_new(n, TW_Q_OPEN);
	if (!m)
		return MCAPI_ENO_REQUEST;
	c->handle = type == TW_K_PKT
			    ? (n->gens = (n->gens % 0xffff) + 1) << 16 | (e->handle & 0xffff)
			    : tw_scl_open(n, e, sender);
	if (!c->handle) {
		tw_mreq_free(n, m);
		return MCAPI_ENO_MEM;
	}
	m->endpoint = e->handle;
	c->opening = m;
	c->open = TW_CH_OPENING;
	c->open_type = (uint8_t)type;
	c->open_sender = sender;
	*handle = c->handle;
	*request = tw_mreq_handle(n, m);
	if (!c->bound)
		return MCAPI_ENOT_CONNECTED;
	tw_chan_say(n, e, TW_SAY_OPENED, e->buffers);
	try_open(n, e);
	return MCAPI_SUCCESS;
}

void tw_chan_open(enum tw_mc_kind type, bool sender, mcapi_endpoint_t endpoint, uint32_t *handle,
		  mcapi_request_t *request, mcapi_status_t *status)
{
	struct tw_node *n;
	struct tw_endp *e = tw_endp_begin(&n, endpoint, status);

	if (!e)
		return;
	/* A connect that has come in counts. */
	tw_progress(n->ep);
	*status = handle && request ? open_end(n, e, type, sender, handle, request) : MCAPI_EPARAM;
	tw_mc_leave(n->ep);
}

void tw_chan_cancel_open(struct tw_node *n, struct tw_mreq *m)
{
	struct tw_endp *e = tw_endp_find(n, m->endpoint);

	if (!e || e->chan.opening != m)
		return;
	e->chan.opening = NULL;
	shut(n, e, TW_CH_CANCELLED);
	if (e->chan.bound)
		tw_chan_say(n, e, TW_SAY_UNOPENED, 0);
}

/* Closing ------------------------------------------------------------------------ */

static void close_end(struct tw_node *n, struct tw_endp *e)
{
	struct tw_chan *c = &e->chan;

	/* One that was never completed. */
	end_open(n, c, MCAPI_EREQ_CANCELED);
	shut(n, e, TW_CH_SHUT);
	if (c->bound)
		tw_chan_say(n, e, TW_SAY_CLOSED, 0);
	tw_chan_unbind(e);
}

struct search {
	uint32_t handle;
	struct tw_endp *found;
};

static void look_at(struct tw_node *n, struct tw_endp *e, void *arg)
{
	struct search *s = arg;

	(void)n;
	if (e->chan.open_type == TW_K_SCL && e->chan.handle == s->handle)
		s->found = e;
}

/* Handles of scalar channels do not name the endpoint; only closing asks for it. */
static struct tw_endp *by_scalar_handle(struct tw_node *n, uint32_t handle)
{
	struct search s = {handle, NULL};

	tw_endp_each(n, look_at, &s);
	return s.found;
}

static struct tw_endp *by_handle(struct tw_node *n, uint32_t handle, enum tw_mc_kind type,
				 bool sender)
{
	struct tw_endp *e = type == TW_K_SCL ? by_scalar_handle(n, handle) : tw_endp_at(n, handle);

	return e && tw_chan_is(&e->chan, handle, type, sender) ? e : NULL;
}

void tw_chan_close(enum tw_mc_kind type, bool sender, uint32_t handle, mcapi_request_t *request,
		   mcapi_status_t *status)
{
	struct tw_mreq *m;
	struct tw_endp *e;
	struct tw_node *n;
	struct tw_ep *ep;

	ep = tw_mc_begin(&n, status, MCAPI_ENOT_HANDLE);
	if (!ep)
		return;
	e = by_handle(n, handle, type, sender);
	if (e && !request) {
		*status = MCAPI_EPARAM;
	} else if (e && e->chan.open == TW_CH_CANCELLED) {
		*status = MCAPI_ENOT_OPEN;
	} else if (e) {
		m = tw_mreq_begin(n, TW_Q_CLOSE, request, status);
		if (m) {
			close_end(n, e);
			tw_mreq_done(n, m, MCAPI_SUCCESS, 0);
		}
	}
	tw_mc_leave(ep);
}

/* The other program has closed its end, or is gone. */
static void peer_closed(struct tw_node *n, struct tw_endp *e)
{
	struct tw_chan *c = &e->chan;

	if (c->open != TW_CH_OPEN) {
		tw_chan_unbind(e);
		return;
	}
	c->peer_closed = true;
	if (c->type == TW_K_SCL)
		tw_scl_peer_closed(e);
	else if (c->sender)
		tw_pkt_fail(n, e);
	else
		tw_queue_serve_packets(n, e);
}

void tw_chan_dissolve(struct tw_node *n, struct tw_endp *e)
{
	if (e->chan.bound)
		tw_chan_say(n, e, TW_SAY_CLOSED, 0);
	tw_chan_unbind(e);
}

void tw_chan_lost(struct tw_node *n, struct tw_endp *e, uint32_t node)
{
	struct tw_chan *c = &e->chan;

	if (c->reserved && tw_node_of(c->other) == node) {
		struct tw_say say = {.token = c->token, .asker = c->asker};

		tw_chan_unbind(e);
		tw_answer(n, &say, MCAPI_ENOT_ENDP, 0);
	} else if (c->bound && tw_node_of(c->other) == node) {
		peer_closed(n, e);
	}
}

/* What the other end says ------------------------------------------------------- */

struct tw_endp *tw_chan_named(struct tw_node *n, const struct tw_say *say)
{
	struct tw_endp *e = tw_endp_find(n, say->to_sender ? say->a : say->b);
	const struct tw_chan *c = e ? &e->chan : NULL;

	if (!c || !tw_chan_taken(e) || c->epoch != say->epoch || c->sender != say->to_sender ||
	    c->other != (say->to_sender ? say->b : say->a))
		return NULL;
	return e;
}

void tw_chan_told(struct tw_node *n, struct tw_endp *e, const struct tw_say *say)
{
	struct tw_chan *c = &e->chan;

	switch (say->what) {
	case TW_SAY_UNBIND:
		if (c->open == TW_CH_OPEN)
			peer_closed(n, e);
		else
			tw_chan_unbind(e);
		break;
	case TW_SAY_OPENED:
		c->peer_open = true;
		c->credits = say->value;
		c->opened = *say;
		try_open(n, e);
		break;
	case TW_SAY_UNOPENED:
		if (c->open == TW_CH_OPEN)
			peer_closed(n, e);
		c->peer_open = false;
		break;
	case TW_SAY_CLOSED:
		peer_closed(n, e);
		break;
	case TW_SAY_TAKEN:
		c->credits = tw_min(c->credits + say->value, 0x7fffffffu);
		if (c->type == TW_K_PKT)
			tw_pkt_push_soon(n, e);
		break;
	case TW_SAY_HUNGRY:
		c->starving = true;
		tw_chan_took(n, e, 0, e->buffers);
		break;
	case TW_SAY_MAPPED:
	case TW_SAY_PAIRED:
	case TW_SAY_WAKE:
		if (c->scl)
			tw_scl_hear(n, e, say);
		break;
	default:
		break;
	}
}
