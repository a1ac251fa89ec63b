/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.3: messages. A node learns how many messages an endpoint of another
 * node takes before it sends the first, and asks again when it has sent as many;
 * meanwhile the receiver gives credit back as it receives (room.c). So a full
 * endpoint is known to the sender (MCAPI_ENO_BUFFER) without a question for every
 * message.
 */
#include <stdlib.h>

#include "mcapi/node.h"

struct question {
	struct tw_ask ask;
	bool over, there;
	uint32_t room;
};

static void told(struct tw_node *n, struct tw_ask *ask, const struct tw_say *say)
{
	struct question *q = tw_container(ask, struct question, ask);

	q->over = true;
	q->there = say && say->status == MCAPI_SUCCESS;
	q->room = q->there ? say->value : 0;
	if (q->room && say->type == TW_K_MSG)
		tw_credit(n, say->a, q->room - 1);
}

static bool is_over(struct tw_ep *ep, void *arg)
{
	(void)ep;
	return ((struct question *)arg)->over;
}

struct tw_dest *tw_dest_find(const struct tw_node *n, mcapi_endpoint_t to)
{
	struct tw_dest *d = n->dests[to % TW_MC_DESTS];

	while (d && d->handle != to)
		d = d->next;
	return d;
}

static struct tw_dest *dest_of(struct tw_node *n, mcapi_endpoint_t to)
{
	struct tw_dest **bucket = &n->dests[to % TW_MC_DESTS], *d = n->dest;

	if (tw_likely(d && d->handle == to))
		return d;
	d = tw_dest_find(n, to);
	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			return NULL;
		d->handle = to;
		d->next = *bucket;
		*bucket = d;
	}
	n->dest = d;
	return d;
}

/*
 * Asks how many messages an endpoint of another node takes. One is the caller's,
 * who may not lose it to a RECALL; tw_credit() has the others. MCAPI_ENO_BUFFER:
 * none; MCAPI_INCOMPLETE: there is no such endpoint.
 */
static mcapi_status_t ask_room(struct tw_node *n, mcapi_endpoint_t to)
{
	struct question q = {.ask.answer = told};

	tw_ask(n, &q.ask, tw_node_of(to),
	       &(struct tw_say){.what = TW_SAY_ROOM, .type = TW_K_MSG, .a = to});
	if (tw_mc_wait(n, is_over, &q, TW_MC_SYNC_MS) != TW_W_TRUE) {
		tw_unask(&q.ask);
		return MCAPI_ENO_BUFFER;
	}
	if (!q.there)
		return MCAPI_INCOMPLETE;
	return q.room ? MCAPI_SUCCESS : MCAPI_ENO_BUFFER;
}

/* Room at an endpoint of another node, which is connected. */
static mcapi_status_t take_credit(struct tw_node *n, mcapi_endpoint_t to)
{
	struct tw_dest *d = dest_of(n, to);

	if (!d)
		return MCAPI_ENO_MEM;
	/* What has come back in the meantime. */
	if (tw_unlikely(!d->credits))
		tw_progress(n->ep);
	if (tw_unlikely(!d->credits))
		return ask_room(n, to);
	d->credits--;
	return MCAPI_SUCCESS;
}

static mcapi_status_t check_send(struct tw_node *n, mcapi_endpoint_t from, mcapi_endpoint_t to,
				 const void *buffer, size_t size, mcapi_priority_t priority)
{
	if (!tw_endp_find(n, from) || tw_node_of(to) >= MCAPI_MAX_NODES)
		return MCAPI_ENOT_ENDP;
	if (size > MCAPI_MAX_MESSAGE_SIZE)
		return MCAPI_EMESS_LIMIT;
	if (priority >= TW_MC_PRIOS)
		return MCAPI_EPRIO;
	return size && !buffer ? MCAPI_EPARAM : MCAPI_SUCCESS;
}

static mcapi_status_t send_local(struct tw_node *n, mcapi_endpoint_t to, uint64_t match,
				 const void *buffer, size_t size)
{
	mcapi_status_t status;

	if (!tw_room_local(n, to, &status) || status != MCAPI_SUCCESS)
		return status;
	return tw_queue_local(n, match, buffer, size) ? MCAPI_SUCCESS : MCAPI_ENO_MEM;
}

/* MCAPI_INCOMPLETE: the engine is at it and m will end. */
static mcapi_status_t send(struct tw_node *n, mcapi_endpoint_t from, mcapi_endpoint_t to,
			   const void *buffer, size_t size, mcapi_priority_t priority,
			   struct tw_mreq *m)
{
	uint64_t match = tw_mc_match(TW_K_MSG, priority, 0, to, from);
	mcapi_status_t status;

	if (tw_node_of(to) == n->number)
		return send_local(n, to, match, buffer, size);
	if (tw_unlikely(!tw_mc_reach(n, tw_node_of(to))))
		return MCAPI_SUCCESS;
	status = take_credit(n, to);
	if (tw_unlikely(status != MCAPI_SUCCESS))
		return status == MCAPI_INCOMPLETE ? MCAPI_SUCCESS : status;
	/* Lost on the way is sent (3.5.1). */
	return tw_mreq_carry(n, m, buffer, size, match, tw_node_of(to), MCAPI_SUCCESS);
}

void mcapi_msg_send(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,
		    const void *buffer, size_t buffer_size, mcapi_priority_t priority,
		    mcapi_status_t *mcapi_status)
{
	struct tw_mreq m;
	struct tw_node *n;
	struct tw_ep *ep;

	ep = tw_mc_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	*mcapi_status =
		check_send(n, send_endpoint, receive_endpoint, buffer, buffer_size, priority);
	if (tw_likely(*mcapi_status == MCAPI_SUCCESS)) {
		tw_mreq_init(&m, TW_Q_MSG_SEND);
		*mcapi_status =
			send(n, send_endpoint, receive_endpoint, buffer, buffer_size, priority, &m);
	}
	if (*mcapi_status == MCAPI_INCOMPLETE)
		*mcapi_status = tw_mreq_wait(n, &m, -1, MCAPI_ENOT_ENDP);
	tw_mc_leave(ep);
}

void mcapi_msg_send_i(mcapi_endpoint_t send_endpoint, mcapi_endpoint_t receive_endpoint,
		      const void *buffer, size_t buffer_size, mcapi_priority_t priority,
		      mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mreq *m = NULL;
	struct tw_node *n;
	struct tw_ep *ep;

	ep = tw_mc_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	*mcapi_status =
		check_send(n, send_endpoint, receive_endpoint, buffer, buffer_size, priority);
	if (*mcapi_status == MCAPI_SUCCESS && !request)
		*mcapi_status = MCAPI_EPARAM;
	if (*mcapi_status == MCAPI_SUCCESS) {
		m = tw_mreq_new(n, TW_Q_MSG_SEND);
		*mcapi_status = m ? send(n, send_endpoint, receive_endpoint, buffer, buffer_size,
					 priority, m)
				  : MCAPI_ENO_REQUEST;
	}
	tw_mreq_started(n, m, buffer_size, request, mcapi_status);
	tw_mc_leave(ep);
}

/* Receiving ------------------------------------------------------------------- */

/* Queues a receive, unless a message is there. */
static void receive(struct tw_node *n, struct tw_endp *e, struct tw_mreq *m, void *buffer,
		    size_t size)
{
	struct tw_umsg *u;

	/* Of what has come, the most urgent is first. */
	tw_progress(n->ep);
	u = tw_queue_next_msg(e);
	m->buffer = buffer;
	m->len = size;
	m->endpoint = e->handle;
	if (u && tw_list_empty(&e->msg_recvs)) {
		tw_queue_take(n, e, u);
		tw_queue_deliver(n, m, u);
		return;
	}
	tw_list_add_tail(&e->msg_recvs, &m->link);
}

void mcapi_msg_recv_i(mcapi_endpoint_t receive_endpoint, void *buffer, size_t buffer_size,
		      mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_node *n;
	struct tw_endp *e = tw_endp_begin(&n, receive_endpoint, mcapi_status);
	struct tw_mreq *m;

	if (!e)
		return;
	if (!request || (buffer_size && !buffer)) {
		*mcapi_status = MCAPI_EPARAM;
	} else {
		m = tw_mreq_begin(n, TW_Q_MSG_RECV, request, mcapi_status);
		if (m)
			receive(n, e, m, buffer, buffer_size);
	}
	tw_mc_leave(n->ep);
}

void mcapi_msg_recv(mcapi_endpoint_t receive_endpoint, void *buffer, size_t buffer_size,
		    size_t *received_size, mcapi_status_t *mcapi_status)
{
	struct tw_node *n;
	struct tw_endp *e = tw_endp_begin(&n, receive_endpoint, mcapi_status);
	struct tw_mreq m;

	if (!e)
		return;
	if (!received_size || (buffer_size && !buffer)) {
		*mcapi_status = MCAPI_EPARAM;
	} else {
		tw_mreq_init(&m, TW_Q_MSG_RECV);
		receive(n, e, &m, buffer, buffer_size);
		*mcapi_status = tw_mreq_wait(n, &m, e->timeout, MCAPI_ENOT_ENDP);
		*received_size = m.size;
	}
	tw_mc_leave(n->ep);
}

mcapi_uint_t mcapi_msg_available(mcapi_endpoint_t receive_endpoint, mcapi_status_t *mcapi_status)
{
	struct tw_node *n;
	struct tw_endp *e = tw_endp_begin(&n, receive_endpoint, mcapi_status);
	mcapi_uint_t count = 0;

	if (!e)
		return MCAPI_NULL;
	tw_progress(n->ep);
	*mcapi_status = MCAPI_SUCCESS;
	for (unsigned i = 0; i < TW_MC_PRIOS; i++)
		count += tw_queue_ready(&e->msgs[i]);
	tw_mc_leave(n->ep);
	return count;
}
