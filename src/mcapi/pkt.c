/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.4: packets. A packet leaves when the receiver has a buffer for it; until then it
 * waits at the sender (4.4.4, 4.4.5). The program receives the engine's own buffer and
 * returns it with mcapi_pktchan_free().
 */
#include "engine/fast.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

static bool pkt_can_send(const struct tw_mcapi_chan *c)
{
	return c->open == TW_MCAPI_CH_OPEN && c->credits && !c->peer_closed;
}

static inline uint64_t match_of(const struct tw_mcapi_endp *e)
{
	return tw_mcapi_match(TW_MCAPI_K_PKT, 0, e->chan.epoch, e->chan.other, e->handle);
}

/* Gives a packet to the engine. MCAPI_INCOMPLETE: m ends later. */
static mcapi_status_t pkt_send_now(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
				   struct tw_mcapi_mreq *m, const void *buffer, size_t size)
{
	struct tw_mcapi_chan *c = &e->chan;
	uint64_t match = match_of(e);
	mcapi_status_t status;

	if (tw_mcapi_node_of(c->other) == n->number && !tw_mcapi_self_room(n, size))
		return MCAPI_ENO_MEM;
	c->credits--;
	status = tw_mcapi_mreq_carry(n, m, buffer, size, match, tw_mcapi_node_of(c->other),
				     MCAPI_ENOT_HANDLE);
	if (tw_unlikely(status == MCAPI_ENO_MEM))
		c->credits++;
	return status;
}

void tw_mcapi_pkt_push(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;
	struct tw_mcapi_mreq *m;

	while (pkt_can_send(c) && (m = tw_list_take(&c->sends, struct tw_mcapi_mreq, link))) {
		mcapi_status_t status = pkt_send_now(n, e, m, m->data, m->len);

		if (status != MCAPI_INCOMPLETE)
			tw_mcapi_mreq_sent(n, m, status);
	}
	tw_list_del(&c->credit_starved);
	/* Credit-starved: the receiver returns credit for every packet. */
	if (!tw_list_empty(&c->sends) && c->open == TW_MCAPI_CH_OPEN && !c->credits)
		tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_STARVED, 0);
}

void tw_mcapi_pkt_fail(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	tw_list_del(&e->chan.push);
	tw_list_del(&e->chan.credit_starved);
	tw_mcapi_sends_end(n, &e->chan.sends, MCAPI_ENOT_HANDLE);
}

void tw_mcapi_chan_return_credits(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (!c->bound || c->peer_closed || !c->taken)
		return;
	tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_TAKEN, c->taken);
	c->taken = 0;
	c->starved = false;
}

void tw_mcapi_report_starved(struct tw_mcapi_node *n)
{
	struct tw_mcapi_endp *e;

	while ((e = tw_list_take(&n->credit_starved, struct tw_mcapi_endp, chan.credit_starved)))
		if (e->chan.bound && e->chan.open == TW_MCAPI_CH_OPEN)
			tw_mcapi_chan_ctrl_send(n, e, TW_MCAPI_CTRL_STARVED, 0);
}

/* At the beginning of a call: locks, or sets MCAPI_ENOT_HANDLE. */
static tw_inline struct tw_mcapi_endp *pkt_begin(struct tw_mcapi_node **n, uint32_t handle,
						 bool sender, mcapi_status_t *status)
{
	struct tw_ep *ep = tw_mcapi_begin(n, status, MCAPI_ENOT_HANDLE);
	struct tw_mcapi_endp *e;

	if (tw_unlikely(!ep))
		return NULL;
	e = tw_mcapi_endp_at(*n, handle);
	if (tw_likely(e && e->chan.handle == handle && tw_mcapi_pkt_open(&e->chan, sender)))
		return e;
	if (e && tw_mcapi_chan_is(&e->chan, handle, TW_MCAPI_K_PKT, sender) &&
	    e->chan.open != TW_MCAPI_CH_CANCELLED)
		return e;
	tw_group_leave(ep);
	return NULL;
}

/* Sending -------------------------------------------------------------------------- */

/* MCAPI_INCOMPLETE: m ends later. */
static mcapi_status_t pkt_send(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			       struct tw_mcapi_mreq *m, const void *buffer, size_t size)
{
	struct tw_mcapi_chan *c = &e->chan;

	if (tw_unlikely(!c->credits))
		tw_progress(n->ep);
	if (tw_likely(pkt_can_send(c) && tw_list_empty(&c->sends))) {
		mcapi_status_t status = pkt_send_now(n, e, m, buffer, size);

		if (tw_mcapi_node_of(c->other) == n->number)
			tw_group_poll_self(n->ep);
		return status == MCAPI_INCOMPLETE && m->state == TW_MCAPI_Q_DONE ? m->status
										 : status;
	}
	if (c->peer_closed)
		return MCAPI_ENOT_HANDLE;
	m->data = buffer;
	m->len = size;
	tw_list_add_tail(&c->sends, &m->link);
	if (tw_list_empty(&c->credit_starved))
		tw_list_add_tail(&n->credit_starved, &c->credit_starved);
	return MCAPI_INCOMPLETE;
}

static mcapi_status_t pkt_check_send(const void *buffer, size_t size)
{
	if (size > MCAPI_MAX_PACKET_SIZE)
		return MCAPI_EPACK_LIMIT;
	return size && !buffer ? MCAPI_EPARAM : MCAPI_SUCCESS;
}

/* The fast path, without a request: the packet leaves now. */
static inline bool pkt_inject(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, const void *buffer,
			      size_t size)
{
	struct tw_mcapi_chan *c = &e->chan;
	uint32_t to = tw_mcapi_node_of(c->other);

	if (tw_unlikely(!tw_mcapi_pkt_open(c, true) || !c->credits || !tw_list_empty(&c->sends)))
		return false;
	c->credits--;
	if (tw_likely(tw_inject_slot(n->ep, buffer, (uint32_t)size, match_of(e),
				     n->peers[to].addr))) {
		if (tw_unlikely(to == n->number))
			tw_group_poll_self(n->ep);
		return true;
	}
	c->credits++;
	return false;
}

static tw_noinline mcapi_status_t send_waiting(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
					       const void *buffer, size_t size)
{
	int timeout = e->timeout;
	mcapi_status_t status;
	struct tw_mcapi_mreq m;

	tw_mcapi_mreq_init(&m, TW_MCAPI_Q_PKT_SEND);
	status = pkt_send(n, e, &m, buffer, size);
	if (status == MCAPI_INCOMPLETE)
		status = tw_mcapi_mreq_wait(n, &m, timeout, MCAPI_ENOT_HANDLE);
	/* The nearest status that 4.4.5 has. */
	return status == MCAPI_ENO_MEM ? MCAPI_ENO_BUFFER : status;
}

void mcapi_pktchan_send(mcapi_pktchan_send_hndl_t send_handle, const void *buffer, size_t size,
			mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = pkt_begin(&n, send_handle, true, mcapi_status);

	if (tw_unlikely(!e))
		return;
	*mcapi_status = pkt_check_send(buffer, size);
	if (tw_likely(*mcapi_status == MCAPI_SUCCESS) &&
	    tw_unlikely(!pkt_inject(n, e, buffer, size)))
		*mcapi_status = send_waiting(n, e, buffer, size);
	tw_mcapi_leave(n->ep);
}

void mcapi_pktchan_send_i(mcapi_pktchan_send_hndl_t send_handle, const void *buffer, size_t size,
			  mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = pkt_begin(&n, send_handle, true, mcapi_status);
	struct tw_mcapi_mreq *m = NULL;

	if (!e)
		return;
	*mcapi_status = request ? pkt_check_send(buffer, size) : MCAPI_EPARAM;
	if (*mcapi_status == MCAPI_SUCCESS) {
		m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_PKT_SEND);
		*mcapi_status = m ? pkt_send(n, e, m, buffer, size) : MCAPI_ENO_REQUEST;
	}
	tw_mcapi_mreq_started(n, m, size, request, mcapi_status);
	tw_mcapi_leave(n->ep);
}

/* Receiving ------------------------------------------------------------------------ */

void mcapi_pktchan_recv_i(mcapi_pktchan_recv_hndl_t receive_handle, void **buffer,
			  mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = pkt_begin(&n, receive_handle, false, mcapi_status);
	struct tw_mcapi_mreq *m;

	if (!e)
		return;
	if (!buffer || !request) {
		*mcapi_status = MCAPI_EPARAM;
	} else if (!tw_mcapi_pkt_drained(n, e)) {
		m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_PKT_RECV);
		if (m)
			m->packet = buffer;
		*mcapi_status = m && tw_mcapi_pkt_receive(n, e, m) ? MCAPI_INCOMPLETE
								   : MCAPI_ENO_REQUEST;
		tw_mcapi_mreq_started(n, m, 0, request, mcapi_status);
	}
	tw_mcapi_leave(n->ep);
}

/* Takes the next packet, if it is whole: from the queue, or straight from the sender's ring. */
static tw_inline struct tw_unexp_msg *pkt_take_packet(struct tw_mcapi_node *n,
						      const struct tw_mcapi_endp *e)
{
	struct tw_ep *ep = n->ep;
	struct tw_unexp_msg *u = tw_unexp_find(ep, tw_mcapi_packets_of(e), TW_MCAPI_TO_PORT);

	if (!u)
		return e->chan.match ? tw_recv_direct(ep,
						      &n->peers[tw_mcapi_node_of(e->chan.other)].addr,
						      e->chan.match)
				     : NULL;
	if (tw_unlikely(!tw_unexp_is_whole(u)))
		return NULL;
	tw_unexp_unqueue(ep, u);
	tw_unexp_take(ep, u);
	return u;
}

struct waiting {
	const struct tw_mcapi_endp *e;
	struct tw_unexp_msg *packet;
};

static bool packet_here(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;

	w->packet = pkt_take_packet(ep->owner, w->e);
	return w->packet || tw_mcapi_pkt_drained(ep->owner, w->e);
}

/* The fast path, without a request: a packet that is there or comes soon. */
static inline mcapi_status_t receive_soon(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
					  void **buffer, size_t *size)
{
	struct tw_unexp_msg *u;

	if (tw_unlikely(!e->timeout || !tw_list_empty(&e->packet_recvs)))
		return MCAPI_INCOMPLETE;
	u = pkt_take_packet(n, e);
	if (tw_unlikely(!u)) {
		struct waiting w = {e, NULL};

		/* This keeps the lock. */
		if (!tw_poll_first(n->ep, packet_here, &w, TW_MCAPI_POLL_US))
			return MCAPI_INCOMPLETE;
		u = w.packet;
		if (!u)
			return MCAPI_ENOT_HANDLE;
	}
	tw_mcapi_outstanding_add(n, u);
	tw_mcapi_chan_took(n, e, 1, e->buffers);
	*buffer = u->data;
	*size = u->len;
	return MCAPI_SUCCESS;
}

static tw_noinline mcapi_status_t receive_slow(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
					       void **buffer, size_t *size)
{
	int timeout = e->timeout;
	mcapi_status_t status;
	struct tw_mcapi_mreq m;

	tw_mcapi_mreq_init(&m, TW_MCAPI_Q_PKT_RECV);
	m.packet = buffer;
	if (tw_mcapi_pkt_drained(n, e))
		return MCAPI_ENOT_HANDLE;
	if (!tw_mcapi_pkt_receive(n, e, &m)) {
		tw_mcapi_mreq_done(n, &m, MCAPI_ENO_BUFFER, 0);
		return MCAPI_ENO_BUFFER;
	}
	status = tw_mcapi_mreq_wait(n, &m, timeout, MCAPI_ENOT_HANDLE);
	if (status == MCAPI_SUCCESS)
		*size = m.size;
	return status;
}

static tw_noinline void receive_unsized(mcapi_pktchan_recv_hndl_t handle, void **buffer,
					mcapi_status_t *status)
{
	size_t unused;

	mcapi_pktchan_recv(handle, buffer, &unused, status);
}

void mcapi_pktchan_recv(mcapi_pktchan_recv_hndl_t receive_handle, void **buffer,
			size_t *received_size, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e;

	if (tw_unlikely(!received_size)) {
		receive_unsized(receive_handle, buffer, mcapi_status);
		return;
	}
	e = pkt_begin(&n, receive_handle, false, mcapi_status);
	if (tw_unlikely(!e))
		return;
	*mcapi_status = MCAPI_EPARAM;
	if (tw_likely(buffer != NULL))
		*mcapi_status = receive_soon(n, e, buffer, received_size);
	if (tw_unlikely(*mcapi_status == MCAPI_INCOMPLETE))
		*mcapi_status = receive_slow(n, e, buffer, received_size);
	tw_mcapi_leave(n->ep);
}

mcapi_uint_t mcapi_pktchan_available(mcapi_pktchan_recv_hndl_t receive_handle,
				     mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = pkt_begin(&n, receive_handle, false, mcapi_status);
	mcapi_uint_t count = 0;

	if (!e)
		return MCAPI_NULL;
	tw_progress(n->ep);
	if (!tw_mcapi_pkt_drained(n, e)) {
		*mcapi_status = MCAPI_SUCCESS;
		count = tw_unexp_count(n->ep, tw_mcapi_packets_of(e), TW_MCAPI_TO_PORT, true);
	}
	tw_mcapi_leave(n->ep);
	return count;
}

/* A packet that another node of this process has received. */
static tw_noinline void free_elsewhere(const void *buffer, mcapi_status_t *status)
{
	struct tw_unexp_msg *u = NULL;

	for (uint32_t i = 0; !u && i < TW_MAX_NODES; i++) {
		struct tw_mcapi_node *n = tw_mcapi_node(i);
		struct tw_ep *ep = n ? tw_enter(atomic_load(&n->handle)) : NULL;

		if (!ep)
			continue;
		u = tw_mcapi_outstanding_take(n, buffer);
		if (u)
			tw_unexp_msg_put(ep, u);
		tw_mcapi_leave(ep);
	}
	if (u)
		*status = MCAPI_SUCCESS;
}

void mcapi_pktchan_free(const void *buffer, mcapi_status_t *mcapi_status)
{
	struct tw_unexp_msg *u;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOT_VALID_BUF);
	if (!ep)
		return;
	u = tw_mcapi_outstanding_take(n, buffer);
	if (tw_unlikely(!u)) {
		tw_mcapi_leave(ep);
		free_elsewhere(buffer, mcapi_status);
		return;
	}
	tw_unexp_msg_put(ep, u);
	*mcapi_status = MCAPI_SUCCESS;
	tw_mcapi_leave(ep);
}
