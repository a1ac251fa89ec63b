/* SPDX-License-Identifier: BSD-2-Clause */
/* MX III.3, IV.3, IV.4: endpoints and their addresses. */
#include <stdio.h>

#include "base/report.h"
#include "mx/mx_internal.h"

const struct tw_interface tw_mx_interface = {
	.name = "mx",
	.called = tw_mx_job_called,
	.down = tw_failure_down,
	.ids = MX_MAX_ENDPOINTS,
	.ep_size = sizeof(struct tw_mx_ep)};

static mx_return_t read_param(const mx_param_t *p, struct tw_open *how, mx_error_handler_t *handler,
			      uint64_t *context_mask)
{
	unsigned bits, shift;

	switch (p->key) {
	case MX_PARAM_ERROR_HANDLER:
		*handler = p->val.error_handler ? p->val.error_handler : MX_ERRORS_ARE_FATAL;
		return MX_SUCCESS;
	case MX_PARAM_UNEXP_QUEUE_MAX:
		how->unexp_max = p->val.unexp_queue_max;
		return MX_SUCCESS;
	case MX_PARAM_CONTEXT_ID:
		bits = p->val.context_id.bits;
		shift = p->val.context_id.shift;
		if (bits < 1 || bits > MX_CONTEXT_ID_BITS_MAX || bits + shift > 64)
			return MX_BAD_PARAM_VAL;
		*context_mask = (((uint64_t)1 << bits) - 1) << shift;
		return MX_SUCCESS;
	}
	return MX_BAD_PARAM_NAME;
}

/* The part that only this interface knows, unless mx_finalize() has ended the endpoint. */
static mx_return_t endpoint_set_up(uint64_t handle, mx_error_handler_t handler,
				   uint64_t context_mask)
{
	struct tw_ep *ep;
	bool made;

	/* [finalized] Of another thread, or of a signal handler. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!tw_mx_ready())
		tw_ep_close(handle);
	ep = tw_enter(handle);
	if (!ep)
		return MX_NOT_INITIALIZED;
	tw_mx_ep(ep)->error_handler = handler;
	tw_mx_ep(ep)->context_mask = context_mask;
	made = tw_mx_sends_init(ep);
	tw_leave(ep);
	if (made)
		return MX_SUCCESS;
	tw_ep_close(handle);
	return MX_NO_RESOURCES;
}

static mx_return_t open_checked(uint32_t board, uint32_t id, uint32_t filter,
				const mx_param_t *params, uint32_t nparams, mx_endpoint_t *endpoint,
				mx_error_handler_t *handler, int *holder)
{
	struct tw_open how = {.filter = filter,
			      .number = id == MX_ANY_ENDPOINT ? TW_ANY_ID : id,
			      .iface = &tw_mx_interface,
			      .holder = holder};
	const struct tw_board *boards;
	uint64_t handle, context_mask = 0;
	mx_return_t rc = MX_SUCCESS;
	enum tw_err err = TW_OK;
	unsigned n;

	if (!tw_mx_ready())
		return MX_NOT_INITIALIZED;
	if (!endpoint)
		return MX_FAILURE;
	if (nparams && !params)
		return MX_BAD_PARAM_LIST;
	how.unexp_max = tw_settings.unexp_max;
	for (uint32_t i = 0; i < nparams && rc == MX_SUCCESS; i++)
		rc = read_param(&params[i], &how, handler, &context_mask);
	if (rc != MX_SUCCESS)
		return rc;
	n = tw_boards(&boards);
	if (board >= n && board != MX_ANY_NIC)
		return MX_BOARD_UNKNOWN;
	if (id >= MX_MAX_ENDPOINTS && id != MX_ANY_ENDPOINT)
		return MX_BAD_ENDPOINT_ID;
	/* The best board that has the id free. */
	n = board == MX_ANY_NIC ? tw_boards_beyond_lo() : 1;
	for (uint32_t i = 0; i < n; i++) {
		how.board = board == MX_ANY_NIC ? tw_board_best(i) : board;
		err = tw_ep_open(&how, &handle);
		if (err != TW_EBUSY)
			break;
	}
	if (err != TW_OK)
		return tw_mx_code(err);
	rc = endpoint_set_up(handle, *handler, context_mask);
	if (rc == MX_SUCCESS)
		*endpoint = (mx_endpoint_t)(uintptr_t)handle;
	return rc;
}

static mx_return_t bad_id(mx_error_handler_t handler, const char *function, uint32_t id)
{
	char detail[64];

	snprintf(detail, sizeof(detail), "%u; ids are 0 to %d", id, MX_MAX_ENDPOINTS - 1);
	return tw_mx_fail_of(handler, function, MX_BAD_ENDPOINT_ID, detail);
}

/* Says more where the code alone does not tell what to do. */
static mx_return_t open_failed(mx_error_handler_t handler, mx_return_t rc, uint32_t board,
			       uint32_t id, int holder)
{
	static const char function[] = "mx_open_endpoint";
	const struct tw_board *boards;
	char detail[192], by[32];

	switch (rc) {
	case MX_BAD_ENDPOINT_ID:
		return bad_id(handler, function, id);
	case MX_BOARD_UNKNOWN:
		snprintf(detail, sizeof(detail), "%u; mx_info lists those of this host, 0 to %u",
			 board, tw_boards(&boards) - 1);
		return tw_mx_fail_of(handler, function, rc, detail);
	case MX_BUSY:
		if (id == MX_ANY_ENDPOINT)
			return tw_mx_fail_of(handler, function, rc, NULL);
		if (!holder) {
			snprintf(detail, sizeof(detail),
				 "%s: endpoint %u, or a TCP port of it, is in use; a message before "
				 "this one may say which; choose another id, TAGWIRE_JOB or "
				 "TAGWIRE_PORT",
				 function, id);
			return tw_mx_handle(handler, detail, rc);
		}
		snprintf(by, sizeof(by), "process %d", holder);
		snprintf(detail, sizeof(detail),
			 "%s: the endpoint id is in use: %s has endpoint %u; choose another id, or "
			 "run with another TAGWIRE_JOB",
			 function, by, id);
		return tw_mx_handle(handler, detail, rc);
	case MX_NO_RESOURCES:
		return tw_mx_fail_of(handler, function, rc, tw_mx_said);
	default:
		return tw_mx_fail(handler, function, rc);
	}
}

mx_return_t mx_open_endpoint(uint32_t board_num, uint32_t endpoint_id, uint32_t filter,
			     mx_param_t *params_list, uint32_t params_count,
			     mx_endpoint_t *endpoint)
{
	mx_error_handler_t handler = NULL;
	int holder = 0;
	mx_return_t rc = open_checked(board_num, endpoint_id, filter, params_list, params_count,
				      endpoint, &handler, &holder);

	if (rc == MX_SUCCESS)
		return rc;
	return open_failed(handler, rc, board_num, endpoint_id, holder);
}

mx_return_t mx_close_endpoint(mx_endpoint_t endpoint)
{
	/* Nor another endpoint: two handlers that close each other's would wait for ever. */
	if (tw_in_any_handler())
		return tw_mx_fail(NULL, __func__, MX_CLOSE_IN_HANDLER);
	if (tw_ep_close((uint64_t)(uintptr_t)endpoint) != TW_OK)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	return MX_SUCCESS;
}

mx_return_t mx_wakeup(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (ep)
		tw_wake_callers(ep);
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

mx_return_t mx_disable_progression(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	tw_service_detach(ep->slot);
	tw_leave(ep);
	return MX_SUCCESS;
}

mx_return_t mx_reenable_progression(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (ep)
		tw_service_attach(ep->slot);
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

static bool is_done(struct tw_ep *ep, void *arg)
{
	struct tw_req *r = arg;

	(void)ep;
	return r->flags & TW_R_DONE;
}

static mx_return_t connect_code(enum tw_status s)
{
	switch (s) {
	case TW_S_OK:
		return MX_SUCCESS;
	case TW_S_BAD_KEY:
	case TW_S_REJECTED:
		return MX_BAD_CONNECTION_KEY;
	case TW_S_UNKNOWN:
		return MX_NIC_NOT_FOUND;
	case TW_S_NO_RESOURCES:
		return MX_NO_RESOURCES;
	case TW_S_TIMEOUT:
		return MX_TIMEOUT;
	default:
		return MX_CONNECTION_FAILED;
	}
}

/* With the endpoint entered. The status tells more than the return code does. */
static mx_return_t endpoint_connect_to(struct tw_ep *ep, uint64_t nic_id, uint32_t endpoint_id,
				       uint32_t filter, uint32_t timeout, bool later,
				       mx_endpoint_addr_t *endpoint_addr, enum tw_status *status)
{
	uint64_t deadline = TW_FOREVER;
	enum tw_waited waited;
	struct tw_req *r;
	mx_return_t rc;

	if (timeout != MX_INFINITE && timeout != UINT32_MAX)
		deadline = tw_clock() + tw_clock_us(1000000ull * timeout);
	r = tw_connect_new(ep, nic_id, endpoint_id, filter, deadline);
	if (!r)
		return MX_NO_RESOURCES;
	r->peeked_by = TW_MX_HIDDEN;
	r->extra = (later ? TW_X_LATER : 0) |
		   (tw_mx_speaks(tw_mx_ep(ep)->error_handler) ? TW_X_SAYS : 0);
	tw_connect(ep, r);
	waited = tw_wait(ep, is_done, r, TW_FOREVER);
	if (waited != TW_W_TRUE) {
		tw_connect_remove(ep, r);
		tw_req_free(ep, r);
		return waited == TW_W_CLOSED ? MX_BAD_ENDPOINT : MX_TIMEOUT;
	}
	*status = (enum tw_status)r->status;
	rc = connect_code(*status);
	if (rc == MX_SUCCESS)
		*endpoint_addr = tw_mx_user_addr(r->other);
	tw_req_free(ep, r);
	return rc;
}

mx_return_t tw_mx_connect(struct tw_ep *ep, const char *function, uint64_t nic_id,
			  uint32_t endpoint_id, uint32_t filter, uint32_t timeout, bool later,
			  mx_endpoint_addr_t *endpoint_addr)
{
	mx_error_handler_t handler = tw_mx_ep(ep)->error_handler;
	enum tw_status status = TW_S_OK;
	char text[TW_REPORT_SIZE];
	mx_return_t rc;

	if (!endpoint_addr)
		return tw_mx_leave_fail(ep, function, MX_FAILURE);
	if (endpoint_id >= MX_MAX_ENDPOINTS) {
		tw_leave(ep);
		return bad_id(handler, function, endpoint_id);
	}
	rc = endpoint_connect_to(ep, nic_id, endpoint_id, filter, timeout, later, endpoint_addr,
				 &status);
	if (rc == MX_SUCCESS) {
		tw_leave_unfinished(ep);
		return rc;
	}
	if (status == TW_S_OK)
		return tw_mx_leave_fail(ep, function, rc);
	tw_failure_text(text, sizeof(text), function, ep, tw_where_at(nic_id, endpoint_id), status);
	tw_leave(ep);
	return tw_mx_handle(handler, text, rc);
}

mx_return_t mx_connect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
		       uint32_t filter, uint32_t timeout, mx_endpoint_addr_t *endpoint_addr)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	return tw_mx_connect(ep, __func__, nic_id, endpoint_id, filter, timeout, false,
			     endpoint_addr);
}

mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id,
			uint32_t filter, uint64_t match_info, void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct tw_req *r;
	uint64_t us;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	if (!request)
		return tw_mx_leave_fail(ep, __func__, MX_BAD_REQUEST);
	us = tw_mx_ep(ep)->request_us;
	if (!us)
		us = 1000ull * tw_settings.connect_timeout;
	r = tw_connect_new(ep, nic_id, endpoint_id, filter, tw_clock() + tw_clock_us(us));
	if (!r)
		return tw_mx_leave_fail(ep, __func__, MX_NO_RESOURCES);
	r->match = match_info;
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	if (endpoint_id >= MX_MAX_ENDPOINTS) {
		memset(&r->other, 0, sizeof(r->other));
		tw_req_complete(ep, r, TW_S_BAD_ENDPOINT);
	} else {
		tw_connect(ep, r);
	}
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t endpoint_addr)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct tw_peer *p = ep ? tw_peer_at(ep, tw_mx_addr(endpoint_addr)) : NULL;

	if (p && p != ep->self)
		tw_disconnect(p);
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

static mx_return_t decompose(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
			     uint32_t *endpoint_id, uint32_t *session_id, const char *function)
{
	struct tw_addr a = tw_mx_addr(endpoint_addr);

	if (!tw_mx_ready())
		return tw_mx_fail(NULL, function, MX_NOT_INITIALIZED);
	if (!nic_id || !endpoint_id || !session_id)
		return tw_mx_fail(NULL, function, MX_FAILURE);
	*nic_id = a.where >> 16;
	*endpoint_id = a.where & 0xffff;
	*session_id = a.session;
	return MX_SUCCESS;
}

mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
					uint32_t *endpoint_id, uint32_t *session_id)
{
	return decompose(endpoint_addr, nic_id, endpoint_id, session_id, __func__);
}

mx_return_t mx_decompose_endpoint_addr(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id,
				       uint32_t *endpoint_id)
{
	uint32_t session;

	return decompose(endpoint_addr, nic_id, endpoint_id, &session, __func__);
}

mx_return_t mx_get_endpoint_addr(mx_endpoint_t endpoint, mx_endpoint_addr_t *endpoint_addr)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (ep && endpoint_addr)
		*endpoint_addr = tw_mx_user_addr(ep->self->addr);
	return tw_mx_end(ep, __func__, endpoint_addr ? MX_SUCCESS : MX_FAILURE);
}
