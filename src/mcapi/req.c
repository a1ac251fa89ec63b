/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MCAPI 4.6: requests. A request whose end was reported reports it again (the
 * specification's own example tests one twice), until COLLECTED_KEPT others were reported
 * after it.
 */
#include "engine/fast.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

#define COLLECTED_KEPT 1024
#define STARVED_US 20 /* without credit, until STARVED is sent */

void tw_mcapi_mreq_init(struct tw_mcapi_mreq *m, enum tw_mcapi_mreq_kind kind)
{
	m->kind = (uint8_t)kind;
	m->state = TW_MCAPI_Q_PENDING;
	m->collected = false;
	m->carrier = NULL;
	m->status = MCAPI_INCOMPLETE;
	m->size = 0;
	m->len = 0;
	tw_list_init(&m->link);
	tw_list_init(&m->ctrl_req.r.link);
}

struct tw_mcapi_mreq *tw_mcapi_mreq_new(struct tw_mcapi_node *n, enum tw_mcapi_mreq_kind kind)
{
	struct tw_mcapi_mreq *m = tw_pool_get(&n->reqs);

	if (m)
		tw_mcapi_mreq_init(m, kind);
	return m;
}

void tw_mcapi_mreq_free(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	tw_list_del(&m->link);
	tw_ctrl_abandon(&m->ctrl_req.r);
	tw_pool_put(&n->reqs, m);
}

/* A posted receive is taken back; a packet that is on its way is dropped. */
static void unpost(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	struct tw_req *r = m->carrier;

	tw_list_del(&m->link);
	if (r && tw_recv_cancel(n->ep, r))
		tw_req_free(n->ep, r);
	else if (r && m->kind == TW_MCAPI_Q_PKT_RECV)
		r->context = NULL;
	else
		return;
	m->carrier = NULL;
}

void tw_mcapi_mreq_done(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_status_t status,
			size_t size)
{
	unpost(n, m);
	tw_ctrl_abandon(&m->ctrl_req.r);
	m->state = TW_MCAPI_Q_DONE;
	m->status = status;
	m->size = size;
	n->ep->events++;
}

void tw_mcapi_mreq_sent(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_status_t status)
{
	tw_mcapi_mreq_done(n, m, status, status == MCAPI_SUCCESS ? m->len : 0);
}

static void req_on_reply(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			 const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_mreq *m = tw_container(ctrl_req, struct tw_mcapi_mreq, ctrl_req);

	tw_mcapi_mreq_done(n, m, ctrl ? ctrl->status : MCAPI_ENOT_ENDP, ctrl ? ctrl->value : 0);
}

void tw_mcapi_mreq_ask(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, uint32_t to,
		       const struct tw_mcapi_ctrl *ctrl)
{
	m->ctrl_req.on_reply = req_on_reply;
	if (!tw_mcapi_ctrl_request(n, &m->ctrl_req, to, ctrl))
		tw_mcapi_mreq_done(n, m, MCAPI_ENO_REQUEST, 0);
}

void tw_mcapi_sends_end(struct tw_mcapi_node *n, struct tw_list *sends, mcapi_status_t status)
{
	struct tw_mcapi_mreq *m;

	while ((m = tw_list_take(sends, struct tw_mcapi_mreq, link)))
		tw_mcapi_mreq_sent(n, m, status);
}

/* Generation, number, node: 32, 24 and 8 bits. */
mcapi_request_t tw_mcapi_mreq_handle(const struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m)
{
	return (uint64_t)m->obj.gen << 32 | (uint64_t)m->obj.index << 8 | n->number;
}

void tw_mcapi_mreq_started(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, size_t size,
			   mcapi_request_t *request, mcapi_status_t *status)
{
	if (!m)
		return;
	if (*status != MCAPI_SUCCESS && *status != MCAPI_INCOMPLETE) {
		tw_mcapi_mreq_free(n, m);
		return;
	}
	if (*status == MCAPI_SUCCESS)
		tw_mcapi_mreq_done(n, m, MCAPI_SUCCESS, size);
	*request = tw_mcapi_mreq_handle(n, m);
	*status = MCAPI_SUCCESS;
}

static struct tw_mcapi_mreq *req_find(const struct tw_mcapi_node *n, const mcapi_request_t *request)
{
	if (!request || (*request & 255) != n->number)
		return NULL;
	return tw_pool_find(&n->reqs, (uint32_t)*request >> 8, (uint32_t)(*request >> 32));
}

/* Reports the end of a request. */
static mcapi_boolean_t req_report(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, size_t *size,
				  mcapi_status_t *status)
{
	*status = m->status;
	/* A failed transfer has no size. */
	if (*status == MCAPI_SUCCESS || *status == MCAPI_ETRUNCATED)
		*size = m->size;
	if (!m->collected) {
		m->collected = true;
		tw_list_add_tail(&n->collected, &m->link);
		if (++n->ncollected > COLLECTED_KEPT) {
			tw_mcapi_mreq_free(n,
					   tw_list_take(&n->collected, struct tw_mcapi_mreq, link));
			n->ncollected--;
		}
	}
	return *status == MCAPI_SUCCESS ? MCAPI_TRUE : MCAPI_FALSE;
}

static void carried(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_mcapi_mreq *m = tw_container(op, struct tw_mcapi_mreq, op);

	m->carrier = NULL;
	if (r->status != TW_S_OK)
		tw_mcapi_msg_lost(ep->owner, m);
	tw_mcapi_mreq_done(ep->owner, m, r->status == TW_S_OK ? MCAPI_SUCCESS : m->lost, r->len);
}

mcapi_status_t tw_mcapi_mreq_carry(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
				   const void *data, size_t size, uint64_t match, uint32_t to,
				   mcapi_status_t lost)
{
	struct tw_req *r;

	if (tw_likely(tw_inject_slot(n->ep, data, (uint32_t)size, match, n->peers[to].addr)))
		return MCAPI_SUCCESS;
	r = tw_req_new1(n->ep, TW_SEND, (char *)(uintptr_t)data, (uint32_t)size);
	if (tw_unlikely(!r))
		return MCAPI_ENO_MEM;
	r->match = match;
	m->carrier = r;
	m->lost = lost;
	m->op.done = carried;
	r->context = &m->op;
	tw_send(n->ep, r, n->peers[to].addr);
	/* The send may have made progress and collected it. */
	if (tw_unlikely(!m->carrier))
		return m->status;
	if (tw_unlikely(!(r->flags & TW_R_DONE)))
		return MCAPI_INCOMPLETE;
	m->carrier = NULL;
	if (r->status != TW_S_OK)
		tw_mcapi_msg_lost(n, m);
	lost = r->status == TW_S_OK ? MCAPI_SUCCESS : lost;
	tw_req_free(n->ep, r);
	return lost;
}

enum tw_waited tw_mcapi_wait(struct tw_mcapi_node *n, bool (*test)(struct tw_ep *, void *),
			     void *arg, int timeout)
{
	struct tw_ep *ep = n->ep;
	uint64_t now, end = TW_FOREVER;

	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done)))
		tw_group_attend(ep);
	if (tw_likely(timeout && tw_poll_first(ep, test, arg, TW_MCAPI_POLL_US)))
		return TW_W_TRUE;
	now = tw_clock();
	if (timeout >= 0)
		end = now + tw_clock_us(1000ull * (unsigned)timeout);
	for (;;) {
		uint64_t slice = end == TW_FOREVER ? TW_FOREVER : (end - now) / tw_clock_per_us + 1;
		enum tw_waited waited;

		if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done)))
			tw_group_attend(ep);
		if (test(ep, arg))
			return TW_W_TRUE;
		if (!tw_list_empty(&n->credit_starved))
			slice = tw_min(slice, (uint64_t)STARVED_US);
		if (!tw_list_empty(&n->gets))
			slice = tw_min(slice, (uint64_t)TW_MCAPI_SEARCH_US);
		waited = tw_wait(ep, test, arg, slice);
		if (waited == TW_W_TRUE || waited == TW_W_CLOSED)
			return waited;
		tw_mcapi_report_starved(n);
		tw_mcapi_gets_search(n);
		now = tw_clock();
		if (now >= end) {
			tw_group_attend(ep);
			tw_progress(ep);
			return test(ep, arg) ? TW_W_TRUE : TW_W_TIMEOUT;
		}
	}
}

static bool req_is_over(struct tw_ep *ep, void *mreq)
{
	(void)ep;
	return ((struct tw_mcapi_mreq *)mreq)->state != TW_MCAPI_Q_PENDING;
}

/* The node ends: what the engine has of the caller's, its buffer and m, it must let go of now. */
static void req_give_up(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	tw_group_attend(n->ep);
	unpost(n, m);
	while (tw_mcapi_mreq_bound(m)) {
		tw_disconnect(m->carrier->peer);
		tw_group_attend(n->ep);
	}
}

mcapi_status_t tw_mcapi_mreq_wait(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, int timeout,
				  mcapi_status_t closed)
{
	enum tw_waited waited = tw_mcapi_wait(n, req_is_over, m, timeout);

	/* The engine uses the buffer until it ends, which is soon. */
	if (waited == TW_W_TIMEOUT && tw_mcapi_mreq_bound(m))
		waited = tw_mcapi_wait(n, req_is_over, m, -1);
	if (waited == TW_W_TRUE)
		return m->status;
	if (waited == TW_W_CLOSED)
		req_give_up(n, m);
	unpost(n, m);
	tw_ctrl_abandon(&m->ctrl_req.r);
	return waited == TW_W_CLOSED ? closed : MCAPI_EREQ_TIMEOUT;
}

/* The calls --------------------------------------------------------------------- */

mcapi_boolean_t mcapi_test(const mcapi_request_t *request, size_t *size,
			   mcapi_status_t *mcapi_status)
{
	mcapi_boolean_t over = MCAPI_FALSE;
	struct tw_mcapi_mreq *m;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	if (!mcapi_status)
		return MCAPI_FALSE;
	*mcapi_status = size ? MCAPI_ENOTREQ_HANDLE : MCAPI_EPARAM;
	ep = size ? tw_mcapi_enter(&n) : NULL;
	if (!ep)
		return MCAPI_FALSE;
	m = req_find(n, request);
	if (m && m->state == TW_MCAPI_Q_PENDING) {
		tw_progress(ep);
		if (!tw_list_empty(&n->credit_starved))
			tw_mcapi_report_starved(n);
		if (!tw_list_empty(&n->gets))
			tw_mcapi_gets_search(n);
		tw_group_attend(ep);
	}
	if (m && m->state == TW_MCAPI_Q_PENDING)
		*mcapi_status = MCAPI_INCOMPLETE;
	else if (m)
		over = req_report(n, m, size, mcapi_status);
	tw_mcapi_leave(ep);
	return over;
}

int mcapi_get_fd(mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENODE_NOTINIT);
	int fd = -1;

	if (!ep)
		return -1;
	*mcapi_status = tw_ep_fd(ep, &fd) == TW_OK ? MCAPI_SUCCESS : MCAPI_ENO_MEM;
	tw_mcapi_leave(ep);
	return fd;
}

mcapi_boolean_t mcapi_arm_fd(mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENODE_NOTINIT);
	bool armed;

	if (!ep)
		return MCAPI_FALSE;
	*mcapi_status = MCAPI_SUCCESS;
	tw_mcapi_report_starved(n);
	tw_group_attend(ep);
	armed = tw_ep_fd_arm(ep, NULL);
	if (armed && !tw_list_empty(&n->gets))
		tw_timer(&ep->host, tw_clock() + tw_clock_us(TW_MCAPI_SEARCH_US));
	tw_mcapi_leave(ep);
	return armed ? MCAPI_TRUE : MCAPI_FALSE;
}

struct waiting {
	struct tw_mcapi_node *n;
	const mcapi_request_t *const *requests;
	size_t number, which;
	bool unknown;
};

/*
 * Completed ones first; a cancelled one also ends the wait. Another thread may end a request while
 * this one waits.
 */
static bool any_over(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;
	bool cancelled = false;

	(void)ep;
	for (size_t i = 0; i < w->number; i++) {
		struct tw_mcapi_mreq *m = req_find(w->n, w->requests[i]);

		if (m && m->state == TW_MCAPI_Q_PENDING)
			continue;
		w->unknown = !m;
		if (!m || m->state == TW_MCAPI_Q_DONE) {
			w->which = i;
			return true;
		}
		if (!cancelled)
			w->which = i;
		cancelled = true;
	}
	return cancelled;
}

static mcapi_int_t wait_any(size_t number, const mcapi_request_t *const *requests, size_t *size,
			    mcapi_status_t *status, mcapi_timeout_t timeout)
{
	struct waiting w = {.requests = requests, .number = number};
	mcapi_int_t which = MCAPI_NULL;
	struct tw_ep *ep;

	if (!status)
		return MCAPI_NULL;
	*status = size && requests && number ? MCAPI_ENOTREQ_HANDLE : MCAPI_EPARAM;
	ep = *status == MCAPI_EPARAM ? NULL : tw_mcapi_enter(&w.n);
	if (!ep)
		return MCAPI_NULL;
	switch (tw_mcapi_wait(w.n, any_over, &w, timeout)) {
	case TW_W_TRUE:
		if (!w.unknown) {
			req_report(w.n, req_find(w.n, requests[w.which]), size, status);
			which = (mcapi_int_t)w.which;
		}
		break;
	case TW_W_CLOSED:
		break;
	default:
		*status = MCAPI_EREQ_TIMEOUT;
	}
	tw_mcapi_leave(ep);
	return which;
}

mcapi_int_t mcapi_wait_any(size_t number, mcapi_request_t **requests, size_t *size,
			   mcapi_status_t *mcapi_status, mcapi_timeout_t timeout)
{
	return wait_any(number, (const mcapi_request_t *const *)requests, size, mcapi_status,
			timeout);
}

mcapi_boolean_t mcapi_wait(const mcapi_request_t *request, size_t *size,
			   mcapi_status_t *mcapi_status, mcapi_timeout_t timeout)
{
	wait_any(1, &request, size, mcapi_status, timeout);
	return mcapi_status && *mcapi_status == MCAPI_SUCCESS ? MCAPI_TRUE : MCAPI_FALSE;
}

/* False if it is too late. */
static bool req_cancel(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
		       const mcapi_request_t *request)
{
	struct waiting w = {.n = n, .requests = &request, .number = 1};

	if (m->state != TW_MCAPI_Q_PENDING)
		return false;
	if (tw_mcapi_mreq_bound(m)) {
		/* Its buffer is in use until it ends. Another thread may collect it meanwhile. */
		tw_mcapi_wait(n, any_over, &w, -1);
		return false;
	}
	if (m->kind == TW_MCAPI_Q_OPEN)
		tw_mcapi_chan_cancel_open(n, m);
	tw_mcapi_mreq_done(n, m, MCAPI_EREQ_CANCELED, 0);
	m->state = TW_MCAPI_Q_CANCELLED;
	return true;
}

void mcapi_cancel(const mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_mreq *m;
	struct tw_mcapi_node *n;
	struct tw_ep *ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOTREQ_HANDLE);

	if (!ep)
		return;
	m = req_find(n, request);
	if (m && req_cancel(n, m, request))
		*mcapi_status = MCAPI_SUCCESS;
	tw_mcapi_leave(ep);
}
