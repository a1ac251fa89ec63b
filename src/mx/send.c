/* SPDX-License-Identifier: BSD-2-Clause */
/* MX V: sends and receives. */
#include "engine/fast.h"
#include "mx/mx_internal.h"

#define MAX_SENDS 1024 /* requests of sends that leave at once */

/*
 * Checks a segment list and copies it without empty segments. An empty message has one
 * empty segment, which needs no case of its own on the fast path.
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

static tw_noinline mx_return_t mx_send_entered(struct tw_ep *ep, const mx_segment_t *list,
					       uint32_t count, mx_endpoint_addr_t to,
					       uint64_t match, void *context, mx_request_t *request,
					       uint8_t flags, const char *function)
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
	tw_leave_unfinished(ep);
	return MX_SUCCESS;
}

static tw_noinline mx_return_t isend_entered(struct tw_ep *ep, const mx_segment_t *list,
					     uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					     void *context, mx_request_t *request)
{
	return mx_send_entered(ep, list, count, to, match, context, request, 0, "mx_isend");
}

static tw_noinline mx_return_t isend_slow(mx_endpoint_t endpoint, const mx_segment_t *list,
					  uint32_t count, mx_endpoint_addr_t to, uint64_t match,
					  void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_isend", MX_BAD_ENDPOINT);
	return isend_entered(ep, list, count, to, match, context, request);
}

/* Adds a request to a ring buffer that is empty, or whose next entry is in use. */
static bool more_sends(struct tw_ep *ep)
{
	struct tw_mx_sends *s = &tw_mx_ep(ep)->sends;
	struct tw_req *r = s->n < MAX_SENDS ? tw_req_new1(ep, TW_SENT, NULL, 0) : NULL;

	if (!r)
		return false;
	r->outcome = 0;
	if (s->n++ == 0)
		s->first = &r->link;
	else
		tw_list_add_tail(s->next, &r->link);
	s->next = &r->link;
	return true;
}

bool tw_mx_sends_init(struct tw_ep *ep)
{
	tw_mx_ep(ep)->sends.n = 0;
	return more_sends(ep);
}

void tw_mx_req_free(struct tw_ep *ep, struct tw_req *r)
{
	struct tw_mx_sends *s = &tw_mx_ep(ep)->sends;

	if (r->kind != TW_SENT) {
		tw_req_free(ep, r);
		return;
	}
	tw_mx_send_put(r);
	if (s->first == &r->link)
		s->first = r->link.next;
	while (s->first != s->next && !tw_mx_send_at(s->first)->outcome)
		s->first = s->first->next;
}

static tw_noinline mx_return_t mx_sent_slow(struct tw_ep *ep, struct tw_ring_tx *txq)
{
	if (tw_fast_asleep(txq))
		tw_fast_wake(txq);
	ep->events++;
	tw_leave_unfinished(ep);
	return MX_SUCCESS;
}

/* Fills in the request of a send that is about to leave. */
static tw_inline void send_fill(struct tw_ep *ep, uint32_t len, mx_endpoint_addr_t to,
				uint64_t match, void *context, mx_request_t *request)
{
	struct tw_mx_sends *s = &tw_mx_ep(ep)->sends;
	struct tw_req *r = tw_mx_send_at(s->next);
	struct tw_addr addr = tw_mx_addr(to);

	tw_req_succeeded(r, &addr, match, len);
	s->next = r->link.next;
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
}

static tw_inline mx_return_t mx_send_sent(struct tw_ep *ep, struct tw_lock_way way,
					  struct tw_ring_tx *txq)
{
	if (tw_unlikely(tw_fast_asleep(txq) || ep->slow_path))
		return mx_sent_slow(ep, txq);
	tw_lock_leave(way);
	return MX_SUCCESS;
}

/* Everything but 1 to 64 bytes in an ordinary slot. */
static tw_noinline mx_return_t isend_mid(struct tw_ep *ep, const mx_segment_t *list,
					 struct tw_ring_tx *txq, mx_endpoint_addr_t to,
					 uint64_t match, void *context, mx_request_t *request)
{
	uint32_t len = list->segment_length;

	if (tw_unlikely(!tw_mx_send_free(ep) && !more_sends(ep)) ||
	    tw_unlikely(!tw_eager_fits(txq, TW_EAGER_ANY, len, false)))
		return isend_entered(ep, list, 1, to, match, context, request);
	send_fill(ep, len, to, match, context, request);
	tw_eager_write(txq, TW_EAGER_ANY, list->segment_ptr, len, match, NULL);
	return mx_send_sent(ep, tw_lock_held(&ep->slot->lock), txq);
}

/* The fast path calls no function, so that few registers need to be saved. */
mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		     mx_request_t *request)
{
	struct tw_lock_way way;
	struct tw_ring_tx *txq;
	struct tw_ep *ep;
	uint32_t len;

	if (tw_unlikely(segments_count != 1))
		return isend_slow(endpoint, segments_list, segments_count, destination, match_send,
				  context, request);
	ep = tw_enter_fast((uint64_t)(uintptr_t)endpoint, &way);
	if (tw_unlikely(!ep))
		return isend_slow(endpoint, segments_list, 1, destination, match_send, context,
				  request);
	txq = tw_fast_txq(ep, tw_mx_addr(destination));
	if (tw_unlikely(!txq || !request || !segments_list || !segments_list->segment_ptr))
		return isend_entered(ep, segments_list, 1, destination, match_send, context,
				     request);
	len = segments_list->segment_length;
	if (tw_unlikely(!tw_eager_fits(txq, TW_EAGER_SLOT, len, false) || !tw_mx_send_free(ep)))
		return isend_mid(ep, segments_list, txq, destination, match_send, context, request);
	send_fill(ep, len, destination, match_send, context, request);
	tw_eager_write(txq, TW_EAGER_SLOT, segments_list->segment_ptr, len, match_send, NULL);
	return mx_send_sent(ep, way, txq);
}

mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		      mx_endpoint_addr_t destination, uint64_t match_send, void *context,
		      mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	return mx_send_entered(ep, segments_list, segments_count, destination, match_send, context,
			       request, TW_R_SYNC, __func__);
}

/* Requests the data of an announced message at once. */
static mx_return_t leave_working(struct tw_ep *ep)
{
	if (ep->has_work && !tw_in_handler(ep))
		tw_flush(ep);
	ep->events++;
	tw_leave_unfinished(ep);
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

static tw_noinline mx_return_t irecv_slow(mx_endpoint_t endpoint, const mx_segment_t *list,
					  uint32_t count, uint64_t match, uint64_t mask,
					  void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_irecv", MX_BAD_ENDPOINT);
	return irecv_entered(ep, list, count, match, mask, context, request);
}

/* Unexpected messages wait: one of them may match this receive, which has one segment. */
static tw_noinline mx_return_t irecv_unexpected(struct tw_ep *ep, const mx_segment_t *list,
						uint32_t count, uint64_t match, uint64_t mask,
						void *context, mx_request_t *request)
{
	struct tw_unexp_msg *u = tw_unexp_find(ep, match, mask);
	struct tw_req *r;

	if (tw_unlikely(!u || u->slow_path || u->len > list->segment_length))
		return irecv_entered(ep, list, count, match, mask, context, request);
	r = tw_recv_unexpected(ep, u, list->segment_ptr);
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	if (tw_unlikely(ep->slow_path))
		return leave_working(ep);
	tw_lock_leave(tw_lock_held(&ep->slot->lock));
	return MX_SUCCESS;
}

mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		     uint64_t match_recv, uint64_t match_mask, void *context, mx_request_t *request)
{
	struct tw_lock_way way;
	struct tw_ep *ep = tw_enter_fast((uint64_t)(uintptr_t)endpoint, &way);
	struct tw_req *r;

	if (tw_unlikely(!ep))
		return irecv_slow(endpoint, segments_list, segments_count, match_recv, match_mask,
				  context, request);
	if (tw_unlikely(ep->slow_path | tw_mx_ep(ep)->request_us | tw_mx_ep(ep)->context_mask |
			(match_recv & ~match_mask)) ||
	    tw_unlikely(!ep->reqs.free || segments_count != 1 || !segments_list ||
			!segments_list->segment_ptr || !request))
		return irecv_entered(ep, segments_list, segments_count, match_recv, match_mask,
				     context, request);
	if (tw_unlikely(ep->gauges[TW_G_UNEXPECTED]))
		return irecv_unexpected(ep, segments_list, segments_count, match_recv, match_mask,
					context, request);
	r = tw_recv_prepare(ep, segments_list->segment_ptr, segments_list->segment_length,
			    match_recv, match_mask);
	r->context = context;
	*request = (mx_request_t)(uintptr_t)r->handle;
	tw_match_post(ep->match, &r->posted);
	tw_lock_leave(way);
	return MX_SUCCESS;
}
