/* SPDX-License-Identifier: BSD-2-Clause */
/* MX V: sends and receives. */
#include "engine/quick.h"
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

mx_return_t tw_mx_new_request(struct tw_ep *ep, enum tw_kind kind, const mx_segment_t *list,
			      uint32_t count, void *context, const mx_request_t *request,
			      struct tw_req **out)
{
	mx_return_t rc;

	if (!request)
		return MX_BAD_REQUEST;
	if (count == 1 && list && list->segment_ptr) {
		*out = tw_req_new1(ep, kind, list->segment_ptr, list->segment_length);
		if (!*out)
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

	rc = tw_mx_new_request(ep, TW_SEND, list, count, context, request, &r);
	if (tw_unlikely(rc != MX_SUCCESS))
		return tw_mx_leave_fail(ep, function, rc);
	r->flags = flags;
	r->match = match;
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_send(ep, r, tw_mx_addr(to));
	if (tw_unlikely(tw_mx_ep(ep)->request_us))
		tw_mx_limit(ep, request);
	tw_mx_leave(ep);
	return MX_SUCCESS;
}

static tw_noinline mx_return_t isend_entered(struct tw_ep *ep, const mx_segment_t *list,
					     uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					     void *context, mx_request_t *request)
{
	return send_entered(ep, list, count, to, match, context, request, 0, "mx_isend");
}

static tw_noinline mx_return_t isend_any(mx_endpoint_t endpoint, const mx_segment_t *list,
					 uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					 void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_isend", MX_BAD_ENDPOINT);
	return isend_entered(ep, list, count, to, match, context, request);
}

static tw_noinline mx_return_t sent_unusual(struct tw_ep *ep, struct tw_peer *p)
{
	if (tw_quick_asleep(p))
		tw_quick_wake(p);
	ep->events++;
	tw_mx_leave(ep);
	return MX_SUCCESS;
}

/*
 * The message has left; its request is made only now, as the other side waits for the
 * message.
 */
static tw_inline mx_return_t sent(struct tw_ep *ep, struct tw_lock_way way, struct tw_peer *p,
				  uint32_t len, mx_endpoint_addr_t to, uint64_t match,
				  void *context, mx_request_t *request)
{
	bool asleep = tw_quick_asleep(p);
	struct tw_addr addr = tw_mx_addr(to);
	struct tw_req *r = tw_req_ended(ep, &addr, match, len);

	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	if (tw_unlikely(asleep || ep->unusual))
		return sent_unusual(ep, p);
	tw_lock_leave(way);
	return MX_SUCCESS;
}

/* Of more bytes than fit a slot, or of none, or in the token slot. */
static tw_noinline mx_return_t isend_mid(struct tw_ep *ep, const mx_segment_t *list,
					 struct tw_peer *p, mx_endpoint_addr_t to, uint64_t match,
					 void *context, mx_request_t *request)
{
	uint32_t len = list->segment_length;

	if (tw_unlikely(!tw_quick_send_mid(p, list->segment_ptr, len, match)))
		return isend_entered(ep, list, 1, to, match, context, request);
	return sent(ep, tw_lock_held(&ep->slot->lock), p, len, to, match, context, request);
}

/* The short path calls nothing, so that few registers need to be saved. */
mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		     mx_request_t *request)
{
	struct tw_lock_way way;
	struct tw_ep *ep = tw_enter_quick((uint64_t)(uintptr_t)endpoint, &way);
	struct tw_peer *p;
	uint32_t len;

	if (tw_unlikely(!ep))
		return isend_any(endpoint, segments_list, segments_count, destination, match_send,
				 context, request);
	p = tw_quick_peer(ep, tw_mx_addr(destination));
	if (tw_unlikely(!p || !request || segments_count != 1 || !segments_list ||
			!segments_list->segment_ptr || !ep->reqs.free))
		return isend_entered(ep, segments_list, segments_count, destination, match_send,
				     context, request);
	len = segments_list->segment_length;
	if (tw_unlikely(!tw_quick_fits(p, len)))
		return isend_mid(ep, segments_list, p, destination, match_send, context, request);
	tw_quick_send(p, segments_list->segment_ptr, len, match_send);
	return sent(ep, way, p, len, destination, match_send, context, request);
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

/* Requests the data of an announced message at once. */
static mx_return_t leave_working(struct tw_ep *ep)
{
	if (ep->has_work && !tw_in_handler(ep))
		tw_flush(ep);
	ep->events++;
	tw_mx_leave(ep);
	return MX_SUCCESS;
}

static tw_noinline mx_return_t irecv_entered(struct tw_ep *ep, const mx_segment_t *list,
					     uint32_t count, uint64_t match, uint64_t mask,
					     void *context, mx_request_t *request)
{
	mx_return_t rc = tw_mx_check_match(ep, match, mask);
	struct tw_req *r;

	if (rc == MX_SUCCESS)
		rc = tw_mx_new_request(ep, TW_RECV, list, count, context, request, &r);
	if (rc != MX_SUCCESS)
		return tw_mx_leave_fail(ep, "mx_irecv", rc);
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_recv_post(ep, r, match, mask);
	if (tw_mx_ep(ep)->request_us)
		tw_mx_limit(ep, request);
	return leave_working(ep);
}

static tw_noinline mx_return_t irecv_any(mx_endpoint_t endpoint, const mx_segment_t *list,
					 uint32_t count, uint64_t match, uint64_t mask,
					 void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_irecv", MX_BAD_ENDPOINT);
	return irecv_entered(ep, list, count, match, mask, context, request);
}

/* A message waits, perhaps one that this receive meets. */
static tw_noinline mx_return_t irecv_unexpected(struct tw_ep *ep, const mx_segment_t *list,
						uint64_t match, uint64_t mask, void *context,
						mx_request_t *request)
{
	struct tw_unexp_msg *u = tw_unexp_find(ep, match, mask);
	struct tw_req *r;

	if (tw_unlikely(!u || u->unusual || u->len > list->segment_length))
		return irecv_entered(ep, list, 1, match, mask, context, request);
	r = tw_quick_receive(ep, u, list->segment_ptr);
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	if (tw_unlikely(ep->unusual))
		return leave_working(ep);
	tw_lock_leave(tw_lock_held(&ep->slot->lock));
	return MX_SUCCESS;
}

mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     uint64_t match_recv, uint64_t match_mask, void *context, mx_request_t *request)
{
	struct tw_lock_way way;
	struct tw_ep *ep = tw_enter_quick((uint64_t)(uintptr_t)endpoint, &way);
	struct tw_req *r;

	if (tw_unlikely(!ep))
		return irecv_any(endpoint, segments_list, segments_count, match_recv, match_mask,
				 context, request);
	if (tw_unlikely(ep->unusual | tw_mx_ep(ep)->request_us | tw_mx_ep(ep)->context_mask |
			(match_recv & ~match_mask)) ||
	    tw_unlikely(!ep->reqs.free || !request || segments_count != 1 || !segments_list ||
			!segments_list->segment_ptr))
		return irecv_entered(ep, segments_list, segments_count, match_recv, match_mask,
				     context, request);
	if (tw_unlikely(ep->gauges[TW_G_UNEXPECTED]))
		return irecv_unexpected(ep, segments_list, match_recv, match_mask, context,
					request);
	r = tw_quick_recv(ep, segments_list->segment_ptr, segments_list->segment_length, match_recv,
			  match_mask);
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_match_post(ep->match, &r->posted);
	tw_lock_leave(way);
	return MX_SUCCESS;
}
