/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.3: messages. A node requests credits for an endpoint of another node before the
 * first message, and again when it has none; meanwhile the receiver returns credit as it
 * receives (credits.c). So the sender knows that an endpoint is full (MCAPI_ENO_BUFFER)
 * without a request for every message. Messages wait until the connection and the reply
 * are there.
 */
#include <stdlib.h>

#include "base/report.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

struct tw_mcapi_dest *tw_mcapi_dest_find(const struct tw_mcapi_node *n, mcapi_endpoint_t to)
{
	struct tw_mcapi_dest *d = n->dests[to % TW_MCAPI_DESTS];

	while (d && d->handle != to)
		d = d->next;
	return d;
}

static struct tw_mcapi_dest *dest_of(struct tw_mcapi_node *n, mcapi_endpoint_t to)
{
	struct tw_mcapi_dest **bucket = &n->dests[to % TW_MCAPI_DESTS], *d = n->dest;

	if (tw_likely(d && d->handle == to))
		return d;
	d = tw_mcapi_dest_find(n, to);
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			return NULL;
		d->handle = to;
		tw_list_init(&d->sends);
		tw_list_init(&d->push);
		tw_list_init(&d->ctrl_req.r.link);
		d->next = *bucket;
		*bucket = d;
	}
	n->dest = d;
	return d;
}

/* The status of a message that is lost is MCAPI_SUCCESS (3.5.1): nothing else says so. */
static void msg_say_dropped(struct tw_mcapi_node *n, mcapi_endpoint_t to, bool node_runs)
{
	char who[TW_REPORT_SIZE];

	tw_mcapi_endp_text(n, to, who, sizeof(who));
	tw_report(TW_LOG_ERROR, who,
		  node_runs ? "the node runs, and has no such endpoint any more: messages are lost"
			    : "the node is gone: messages are lost",
		  "they arrive again when it has begun again and created the endpoint");
}

/* The end of this node ends its sends, too: no other node is gone. */
void tw_mcapi_msg_lost(struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m)
{
	if (m->kind == TW_MCAPI_Q_MSG_SEND && atomic_load(&n->handle))
		msg_say_dropped(n, m->endpoint, false);
}

/* Messages that wait ------------------------------------------------------------ */

static void msg_on_reply(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			 const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_dest *d = tw_container(ctrl_req, struct tw_mcapi_dest, ctrl_req);

	/* A message to an endpoint that does not exist counts as sent (3.5.1). */
	if (!ctrl || ctrl->status != MCAPI_SUCCESS) {
		if (d->reached && !tw_list_empty(&d->sends))
			msg_say_dropped(n, d->handle, ctrl);
		tw_mcapi_sends_end(n, &d->sends, MCAPI_SUCCESS);
		return;
	}
	d->reached = true;
	if (!ctrl->value) {
		tw_mcapi_sends_end(n, &d->sends, MCAPI_ENO_BUFFER);
		return;
	}
	/* A recall leaves one for the message that waits. */
	d->kept = 1;
	d->credits = tw_min(d->credits + ctrl->value - 1, 0x7fffffffu);
	tw_mcapi_push_soon(n, &n->dest_pushes, &d->push);
}

static void request_credits(struct tw_mcapi_node *n, struct tw_mcapi_dest *d)
{
	d->ctrl_req.on_reply = msg_on_reply;
	if (!tw_mcapi_ctrl_request(n, &d->ctrl_req, tw_mcapi_node_of(d->handle),
				   &(struct tw_mcapi_ctrl){.what = TW_MCAPI_CTRL_CREDITS,
							   .type = TW_MCAPI_K_MSG,
							   .a = d->handle}))
		tw_mcapi_sends_end(n, &d->sends, MCAPI_ENO_MEM);
}

void tw_mcapi_on_more_credits(struct tw_mcapi_node *n, mcapi_endpoint_t to, uint32_t count)
{
	struct tw_mcapi_dest *d = tw_mcapi_dest_find(n, to);

	if (!d)
		return;
	d->credits = tw_min(d->credits + count, 0x7fffffffu);
	if (!tw_list_empty(&d->sends))
		tw_mcapi_push_soon(n, &n->dest_pushes, &d->push);
}

static bool take_credit(struct tw_mcapi_dest *d)
{
	if (d->kept)
		d->kept = 0;
	else if (d->credits)
		d->credits--;
	else
		return false;
	return true;
}

/* MCAPI_INCOMPLETE: m ends later. MCAPI_ENO_BUFFER: no credit. */
static mcapi_status_t msg_send_now(struct tw_mcapi_node *n, struct tw_mcapi_dest *d,
				   struct tw_mcapi_mreq *m)
{
	struct tw_mcapi_endp *own = tw_mcapi_endp_find(n, d->handle);
	mcapi_status_t status;

	if (tw_mcapi_node_of(d->handle) == n->number && !own)
		return MCAPI_SUCCESS;
	if (own && !tw_mcapi_self_room(n, m->len))
		return MCAPI_ENO_MEM;
	if (own && !tw_mcapi_credits_own(n, own))
		return MCAPI_ENO_BUFFER;
	if (own)
		d->kept = 1;
	if (tw_unlikely(n->peers[tw_mcapi_node_of(d->handle)].state != TW_MEMBER_HERE ||
			!take_credit(d)))
		return MCAPI_ENO_BUFFER;
	/* A lost message counts as sent (3.5.1). */
	status = tw_mcapi_mreq_carry(n, m, m->data, m->len, m->match, tw_mcapi_node_of(d->handle),
				     MCAPI_SUCCESS);
	if (tw_unlikely(status == MCAPI_ENO_MEM && own))
		tw_mcapi_on_return(n, n->number,
				   &(struct tw_mcapi_ctrl){.a = d->handle, .value = 1});
	else if (tw_unlikely(status == MCAPI_ENO_MEM))
		d->credits++;
	return status;
}

void tw_mcapi_msg_push(struct tw_mcapi_node *n, struct tw_mcapi_dest *d)
{
	struct tw_mcapi_mreq *m;

	while ((m = tw_list_take(&d->sends, struct tw_mcapi_mreq, link))) {
		mcapi_status_t status = msg_send_now(n, d, m);

		if (status == MCAPI_ENO_BUFFER) {
			tw_list_add_tail(d->sends.next, &m->link);
			if (tw_list_empty(&d->ctrl_req.r.link))
				request_credits(n, d);
			return;
		}
		if (status != MCAPI_INCOMPLETE)
			tw_mcapi_mreq_sent(n, m, status);
	}
	/* It may be recalled again. */
	d->credits += d->kept;
	d->kept = 0;
}

/* MCAPI_INCOMPLETE: m ends later. Messages to one endpoint leave in the order of their sends. */
static mcapi_status_t msg_send_any(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	struct tw_mcapi_dest *d = dest_of(n, m->endpoint);
	mcapi_status_t status;

	if (tw_unlikely(!d))
		return MCAPI_ENO_MEM;
	/* Credit may have arrived. */
	if (tw_unlikely(!d->credits) && tw_mcapi_node_of(d->handle) != n->number)
		tw_progress(n->ep);
	status = tw_list_empty(&d->sends) ? msg_send_now(n, d, m) : MCAPI_ENO_BUFFER;
	if (tw_mcapi_node_of(d->handle) == n->number)
		tw_group_poll_self(n->ep);
	if (tw_likely(status != MCAPI_ENO_BUFFER))
		return status == MCAPI_INCOMPLETE && m->state == TW_MCAPI_Q_DONE ? m->status
										 : status;
	if (tw_mcapi_credits_full(n, m->endpoint))
		return MCAPI_ENO_BUFFER;
	tw_list_add_tail(&d->sends, &m->link);
	if (tw_list_empty(&d->ctrl_req.r.link))
		request_credits(n, d);
	return MCAPI_INCOMPLETE;
}

/* MCAPI_INCOMPLETE: m ends later. NULL: no request is left. */
static mcapi_status_t msg_start(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
				mcapi_endpoint_t from, mcapi_endpoint_t to, const void *buffer,
				size_t size, mcapi_priority_t priority)
{
	if (!tw_mcapi_endp_find(n, from) || tw_mcapi_node_of(to) >= MCAPI_MAX_NODES)
		return MCAPI_ENOT_ENDP;
	if (size > MCAPI_MAX_MESSAGE_SIZE)
		return MCAPI_EMESS_LIMIT;
	if (priority >= TW_MCAPI_PRIOS)
		return MCAPI_EPRIO;
	if (size && !buffer)
		return MCAPI_EPARAM;
	if (!m)
		return MCAPI_ENO_REQUEST;
	m->endpoint = to;
	m->match = tw_mcapi_match(TW_MCAPI_K_MSG, priority, tw_mcapi_node_of(from), to, from);
	m->data = buffer;
	m->len = size;
	return msg_send_any(n, m);
}

void mcapi_msg_send(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,
		    const void *buffer, size_t buffer_size, mcapi_priority_t priority,
		    mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_mreq m;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	tw_mcapi_mreq_init(&m, TW_MCAPI_Q_MSG_SEND);
	*mcapi_status =
		msg_start(n, &m, send_endpoint, receive_endpoint, buffer, buffer_size, priority);
	if (*mcapi_status == MCAPI_INCOMPLETE)
		*mcapi_status = tw_mcapi_mreq_wait(n, &m, TW_MCAPI_SYNC_MS, MCAPI_ENOT_ENDP);
	if (*mcapi_status == MCAPI_EREQ_TIMEOUT)
		*mcapi_status = MCAPI_ENO_BUFFER;
	tw_mcapi_leave(ep);
}

void mcapi_msg_send_i(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,
		      const void *buffer, size_t buffer_size, mcapi_priority_t priority,
		      mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_mreq *m;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	m = request ? tw_mcapi_mreq_new(n, TW_MCAPI_Q_MSG_SEND) : NULL;
	*mcapi_status = MCAPI_EPARAM;
	if (request)
		*mcapi_status = msg_start(n, m, send_endpoint, receive_endpoint, buffer,
					  buffer_size, priority);
	tw_mcapi_mreq_started(n, m, buffer_size, request, mcapi_status);
	tw_mcapi_leave(ep);
}

/* Receiving ------------------------------------------------------------------- */

static bool msg_receive(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_mcapi_mreq *m,
			void *buffer, size_t size)
{
	/* Progress first, as a message of higher priority may have arrived. */
	tw_progress(n->ep);
	m->buffer = buffer;
	m->len = size;
	return tw_mcapi_msg_receive(n, e, m);
}

void mcapi_msg_recv_i(mcapi_endpoint_t receive_endpoint, void *buffer, size_t buffer_size,
		      mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = tw_mcapi_endp_begin(&n, receive_endpoint, mcapi_status);
	struct tw_mcapi_mreq *m;

	if (!e)
		return;
	if (!request || (buffer_size && !buffer)) {
		*mcapi_status = MCAPI_EPARAM;
	} else {
		m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_MSG_RECV);
		*mcapi_status = m && msg_receive(n, e, m, buffer, buffer_size) ? MCAPI_INCOMPLETE
									       : MCAPI_ENO_REQUEST;
		tw_mcapi_mreq_started(n, m, 0, request, mcapi_status);
	}
	tw_mcapi_leave(n->ep);
}

void mcapi_msg_recv(mcapi_endpoint_t receive_endpoint, void *buffer, size_t buffer_size,
		    size_t *received_size, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = tw_mcapi_endp_begin(&n, receive_endpoint, mcapi_status);
	struct tw_mcapi_mreq m;

	if (!e)
		return;
	if (buffer_size && !buffer) {
		*mcapi_status = MCAPI_EPARAM;
	} else {
		tw_mcapi_mreq_init(&m, TW_MCAPI_Q_MSG_RECV);
		if (msg_receive(n, e, &m, buffer, buffer_size))
			*mcapi_status = tw_mcapi_mreq_wait(n, &m, e->timeout, MCAPI_ENOT_ENDP);
		else
			tw_mcapi_mreq_done(n, &m, *mcapi_status = MCAPI_ENO_MEM, 0);
		if (received_size)
			*received_size = m.size;
	}
	tw_mcapi_leave(n->ep);
}

mcapi_uint_t mcapi_msg_available(mcapi_endpoint_t receive_endpoint, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = tw_mcapi_endp_begin(&n, receive_endpoint, mcapi_status);
	mcapi_uint_t count = 0;

	if (!e)
		return MCAPI_NULL;
	tw_progress(n->ep);
	*mcapi_status = MCAPI_SUCCESS;
	for (unsigned i = 0; i < TW_MCAPI_PRIOS; i++)
		count += tw_unexp_count(n->ep, tw_mcapi_msgs_of(e, i), TW_MCAPI_ONE_PRIO, true);
	tw_mcapi_leave(n->ep);
	return count;
}
