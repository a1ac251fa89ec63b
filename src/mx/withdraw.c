/* SPDX-License-Identifier: BSD-2-Clause */
/* MX VIII: cancelling. Also mx_set_request_timeout() of later MX releases. */
#include "engine/window.h"
#include "mx/mx_internal.h"

#define REPLY_US 100000 /* limit of mx_cancel() for the peer's reply */

void tw_mx_limit(struct tw_ep *ep, const mx_request_t *request)
{
	struct tw_req *r = tw_mx_request(ep, request);

	if (r)
		tw_req_limit(ep, r, tw_mx_ep(ep)->request_us);
}

mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request,
				   uint32_t milliseconds)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	uint64_t us = tw_mx_timeout(milliseconds);
	struct tw_req *r;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	if (!request) {
		tw_mx_ep(ep)->request_us = us == TW_FOREVER ? 0 : us;
		tw_leave(ep);
		return MX_SUCCESS;
	}
	r = tw_mx_request(ep, &request);
	/* Nobody can take back an access: its owner or the network may still move the data. */
	if (!r || tw_is_access(r) || r->kind == TW_FLUSH)
		return tw_mx_leave_fail(ep, __func__, MX_BAD_REQUEST);
	tw_req_limit(ep, r, us);
	tw_leave(ep);
	return MX_SUCCESS;
}

static bool is_replied(struct tw_ep *ep, void *arg)
{
	const struct tw_req *r = tw_mx_request(ep, arg);

	return !r || !(r->flags & TW_R_ASKED) || (r->flags & TW_R_DONE);
}

/*
 * Waits for the reply of the peer, which says whether it has matched the send. The peer's service
 * thread replies while its program computes. A stopped process does not reply; the next cancel does
 * not wait for it again.
 */
static enum tw_waited wait_for_reply(struct tw_ep *ep, mx_request_t request)
{
	struct tw_req *r = tw_mx_request(ep, &request);
	struct tw_peer *peer = r->peer;
	enum tw_waited waited;

	if (tw_in_handler(ep))
		return TW_W_TIMEOUT;
	tw_flush(ep);
	if (peer->silent)
		return TW_W_TIMEOUT;
	/* No call that looks for any finds it; one that names it may end it meanwhile. */
	r->peeked_by = TW_MX_HIDDEN;
	waited = tw_wait(ep, is_replied, &request, REPLY_US);
	r = tw_mx_request(ep, &request);
	if (r)
		r->peeked_by = 0;
	if (waited == TW_W_TIMEOUT && r)
		peer->silent = true;
	ep->events++;
	return waited;
}

mx_return_t mx_cancel(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_request_t handle;
	enum tw_back back;
	struct tw_req *r;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	r = tw_mx_request(ep, request);
	if (!r)
		return tw_mx_leave_fail(ep, __func__, MX_BAD_REQUEST);
	if (!result)
		return tw_mx_leave_fail(ep, __func__, MX_FAILURE);
	handle = *request;
	back = tw_take_back(ep, r, TW_S_CANCELLED);
	if (back == TW_BACK_ASKED) {
		if (wait_for_reply(ep, handle) == TW_W_CLOSED)
			return tw_mx_leave_fail(ep, __func__, MX_BAD_ENDPOINT);
		r = tw_mx_request(ep, &handle);
		if (r && (r->flags & TW_R_DONE) && r->status == TW_S_CANCELLED)
			back = TW_BACK_DONE;
	}
	*result = back == TW_BACK_DONE;
	if (*result) {
		tw_req_free(ep, r);
		ep->events++;
	}
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}
