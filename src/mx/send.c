/* SPDX-License-Identifier: BSD-2-Clause */
/* MX V: sends and receives. */
#include "mx/mx_internal.h"

/*
 * Checks a segment list and copies it without empty segments. An empty message has one
 * empty segment, which needs no case of its own on the short path.
 */
static tw_noinline mx_return_t copy_segments(const mx_segment_t *list, uint32_t count,
					     struct tw_seg *segs, uint32_t *nsegs, uint32_t *len)
{
	uint64_t sum = 0;
	uint32_t n = 0;

	if (count && !list)
		return MX_BAD_SEG_LIST;
	if (count > MX_MAX_SEGMENTS)
		return MX_BAD_SEG_CNT;
	for (uint32_t i = 0; i < count; i++) {
		if (!list[i].segment_length)
			continue;
		if (!list[i].segment_ptr)
			return MX_BAD_SEG_MEM;
		segs[n++] = (struct tw_seg){list[i].segment_ptr, list[i].segment_length};
		sum += list[i].segment_length;
	}
	if (sum > UINT32_MAX)
		return MX_BAD_SEG_MEM;
	if (n == 0)
		segs[n++] = (struct tw_seg){NULL, 0};
	*nsegs = n;
	*len = (uint32_t)sum;
	return MX_SUCCESS;
}

static tw_noinline mx_return_t many_segments(struct tw_ep *ep, enum tw_kind kind,
					     const mx_segment_t *list, uint32_t count,
					     struct tw_req **out)
{
	struct tw_seg segs[MX_MAX_SEGMENTS];
	uint32_t nsegs, len;
	mx_return_t rc = copy_segments(list, count, segs, &nsegs, &len);

	if (rc != MX_SUCCESS)
		return rc;
	*out = tw_req_new(ep, kind, segs, nsegs, len);
	return *out ? MX_SUCCESS : MX_NO_RESOURCES;
}

static inline mx_return_t new_request(struct tw_ep *ep, enum tw_kind kind, const mx_segment_t *list,
				      uint32_t count, void *context, const mx_request_t *request,
				      struct tw_req **out)
{
	mx_return_t rc;

	if (tw_unlikely(!request))
		return MX_BAD_REQUEST;
	if (tw_likely(count == 1 && list && list->segment_ptr)) {
		*out = tw_req_new1(ep, kind, list->segment_ptr, list->segment_length);
		if (tw_unlikely(!*out))
			return MX_NO_RESOURCES;
	} else {
		rc = many_segments(ep, kind, list, count, out);
		if (rc != MX_SUCCESS)
			return rc;
	}
	(*out)->context = context;
	return MX_SUCCESS;
}

static tw_noinline mx_return_t send_entered(struct tw_ep *ep, const mx_segment_t *list,
					    uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					    void *context, mx_request_t *request, uint8_t flags,
					    const char *function)
{
	struct tw_req *r;
	mx_return_t rc;

	rc = new_request(ep, TW_SEND, list, count, context, request, &r);
	if (tw_unlikely(rc != MX_SUCCESS))
		return tw_mx_leave_fail(ep, function, rc);
	r->flags = flags;
	r->match = match;
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_send(ep, r, tw_mx_addr(to));
	if (tw_unlikely(ep->request_us))
		tw_mx_limit(ep, request);
	tw_mx_leave(ep);
	return MX_SUCCESS;
}

static tw_noinline mx_return_t isend_any(mx_endpoint_t endpoint, const mx_segment_t *list,
					 uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					 void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_isend", MX_BAD_ENDPOINT);
	return send_entered(ep, list, count, to, match, context, request, 0, "mx_isend");
}

mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		     mx_request_t *request)
{
	struct tw_ep *ep = tw_enter_quick((uint64_t)(uintptr_t)endpoint);
	struct tw_req *r = NULL;

	if (tw_unlikely(!ep))
		return isend_any(endpoint, segments_list, segments_count, destination, match_send,
				 context, request);
	if (tw_likely(request && segments_count == 1 && segments_list &&
		      segments_list->segment_ptr))
		r = tw_send_now(ep, segments_list->segment_ptr, segments_list->segment_length,
				match_send, tw_mx_addr(destination));
	if (tw_unlikely(!r))
		return send_entered(ep, segments_list, segments_count, destination, match_send,
				    context, request, 0, "mx_isend");
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_mx_leave(ep);
	return MX_SUCCESS;
}

mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		      mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		      mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	return send_entered(ep, segments_list, segments_count, destination, match_send, context,
			    request, TW_R_SYNC, __func__);
}

mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     uint64_t match_recv, uint64_t match_mask, void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct tw_req *r;
	mx_return_t rc;

	if (tw_unlikely(!ep))
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	rc = tw_mx_check_match(ep, match_recv, match_mask);
	if (tw_likely(rc == MX_SUCCESS))
		rc = new_request(ep, TW_RECV, segments_list, segments_count, context, request, &r);
	if (tw_unlikely(rc != MX_SUCCESS))
		return tw_mx_leave_fail(ep, __func__, rc);
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_recv_post(ep, r, match_recv, match_mask);
	if (tw_unlikely(ep->request_us))
		tw_mx_limit(ep, request);
	/* Requests the data of an announced message at once. */
	if (tw_unlikely(!tw_list_empty(&ep->work)) && !tw_in_handler(ep))
		tw_flush(ep);
	tw_mx_leave(ep);
	return MX_SUCCESS;
}
