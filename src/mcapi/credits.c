/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI_ATTR_NO_BUFFERS is exact: an endpoint grants credits to the nodes that send to it,
 * and never more than it has buffers:
 *
 *   granted <= buffers, where a credit is granted until its message is received
 *
 * An only sender gets all credits, one of several its share; more follow as messages are
 * received (CREDIT). If none is left for another sender, or for the endpoint's own node, the
 * others return unused credits (RECALL, RETURN) and request them again when needed. Packets
 * need none of this, as a channel has one sender.
 */
#include <stdlib.h>

#include "mcapi/queue.h"

/* Buffers that are neither in use nor granted. */
static uint32_t credits_left(const struct tw_mcapi_endp *e)
{
	return e->buffers > e->granted ? e->buffers - e->granted : 0;
}

static struct tw_mcapi_source *credit_source_of(struct tw_mcapi_endp *e, uint32_t node)
{
	if (tw_unlikely(!e->sources))
		e->sources = calloc(TW_MAX_NODES, sizeof(*e->sources));
	return e->sources ? &e->sources[node] : NULL;
}

static uint32_t credit_grant(struct tw_mcapi_endp *e, struct tw_mcapi_source *s, uint32_t most)
{
	uint32_t n = tw_min(most, credits_left(e));

	s->granted += n;
	e->granted += n;
	s->taken = 0;
	s->starved = n == 0;
	return n;
}

/* True if a RETURN is due. */
static bool recall(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	bool due = false;

	for (uint32_t i = 0; e->granted && i < TW_MAX_NODES; i++) {
		struct tw_mcapi_source *s = &e->sources[i];

		due |= s->recalled;
		if (!s->known || !s->granted || s->recalled)
			continue;
		due = s->recalled = true;
		tw_mcapi_ctrl_send(n, i,
				   &(struct tw_mcapi_ctrl){.what = TW_MCAPI_CTRL_RECALL,
							   .a = e->handle});
	}
	return due;
}

/* The sender ---------------------------------------------------------------------- */

void tw_mcapi_on_recall(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_dest *d = tw_mcapi_dest_find(n, ctrl->a);
	struct tw_mcapi_ctrl back = {.what = TW_MCAPI_CTRL_RETURN, .a = ctrl->a};

	if (d) {
		back.value = d->credits;
		d->credits = 0;
	}
	tw_mcapi_ctrl_send(n, tw_mcapi_node_of(ctrl->a), &back);
}

/* The receiver ------------------------------------------------------------------- */

/* An equal share for every node that ever requested credits. */
static uint32_t credit_share(const struct tw_mcapi_endp *e)
{
	return tw_max(1u, credits_left(e) / e->nsources);
}

/* Defers a request until credits are returned. False: nobody has any to return, or no memory. */
static bool await_returns(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t from,
			  const struct tw_mcapi_ctrl *ctrl)
{
	return !tw_mcapi_credits_full(n, e->handle) && recall(n, e) &&
	       tw_mcapi_pending_add(n, from, ctrl);
}

void tw_mcapi_on_credit_request(struct tw_mcapi_node *n, uint32_t from,
				const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->a);
	struct tw_mcapi_source *s;

	if (!e) {
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_ENOT_ENDP, 0);
	} else if (from == n->number) {
		if (credits_left(e) || !await_returns(n, e, from, ctrl))
			tw_mcapi_ctrl_reply(n, ctrl, MCAPI_SUCCESS, credits_left(e) != 0);
	} else if (!(s = credit_source_of(e, from))) {
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_SUCCESS, 0);
	} else {
		e->nsources += !s->known;
		s->known = true;
		if ((credits_left(e) && !s->recalled) || !await_returns(n, e, from, ctrl))
			tw_mcapi_ctrl_reply(n, ctrl, MCAPI_SUCCESS,
					    credit_grant(e, s, credit_share(e)));
	}
}

static void credit_serve(struct tw_mcapi_node *n, mcapi_endpoint_t endpoint)
{
	tw_mcapi_pending_serve(n, TW_MCAPI_CTRL_CREDITS, endpoint, tw_mcapi_on_credit_request);
}

/* Messages of a node that wait, of those that had credit. */
static uint32_t credit_waiting(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e,
			       uint32_t node)
{
	return tw_unexp_count_to(n->ep, tw_mcapi_msgs_of(e, 0) | (uint64_t)node << 32,
				 TW_MCAPI_ANY_PRIO | (uint64_t)0xff << 32, false,
				 e->sources[node].granted);
}

void tw_mcapi_on_return(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->a);

	if (e && e->sources) {
		struct tw_mcapi_source *s = &e->sources[from];
		uint32_t back = tw_min(ctrl->value, s->granted - credit_waiting(n, e, from));

		s->granted -= back;
		e->granted -= back;
		s->recalled = false;
	}
	credit_serve(n, ctrl->a);
}

bool tw_mcapi_credits_own(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_source *s = credit_source_of(e, n->number);

	return s && credit_grant(e, s, 1);
}

void tw_mcapi_credits_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t from)
{
	struct tw_mcapi_source *s = e->sources && from < TW_MAX_NODES ? &e->sources[from] : NULL;
	uint32_t more;

	if (tw_likely(s && s->granted)) {
		s->granted--;
		e->granted--;
	}
	/* A node that is gone gets no credits. */
	if (!s || !s->known || (++s->taken <= e->buffers / 4 && !s->starved) || s->recalled)
		return;
	more = credit_grant(e, s, s->taken);
	if (more)
		tw_mcapi_ctrl_send(n, from,
				   &(struct tw_mcapi_ctrl){.what = TW_MCAPI_CTRL_CREDIT,
							   .a = e->handle,
							   .value = more});
}

void tw_mcapi_credits_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node)
{
	uint32_t left;

	if (!e->sources)
		return;
	left = credit_waiting(n, e, node);
	e->granted -= e->sources[node].granted - left;
	e->nsources -= e->sources[node].known;
	e->sources[node] = (struct tw_mcapi_source){.granted = left};
	credit_serve(n, e->handle);
}

void tw_mcapi_credits_changed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	if (e->granted > e->buffers)
		recall(n, e);
	credit_serve(n, e->handle);
}

bool tw_mcapi_credits_full(struct tw_mcapi_node *n, mcapi_endpoint_t to)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, to);

	return e && tw_unexp_count_to(n->ep, tw_mcapi_msgs_of(e, 0), TW_MCAPI_ANY_PRIO, false,
				      e->buffers) == e->buffers;
}
