/* SPDX-License-Identifier: BSD-2-Clause */
/* MX VI, VII: the state of requests, and probing. */
#include "engine/fast.h"
#include "mx/mx_internal.h"

const uint8_t tw_mx_status_codes[TW_NSTATUS] = {
	[TW_S_OK] = MX_STATUS_SUCCESS,
	[TW_S_TRUNCATED] = MX_STATUS_TRUNCATED,
	[TW_S_CANCELLED] = MX_STATUS_CANCELLED,
	[TW_S_CLOSED] = MX_STATUS_ENDPOINT_CLOSED,
	[TW_S_LOST] = MX_STATUS_ENDPOINT_UNREACHABLE,
	[TW_S_BAD_SESSION] = MX_STATUS_BAD_SESSION,
	[TW_S_BAD_KEY] = MX_STATUS_BAD_KEY,
	[TW_S_TIMEOUT] = MX_STATUS_TIMEOUT,
	[TW_S_UNKNOWN] = MX_STATUS_ENDPOINT_UNKNOWN,
	[TW_S_BAD_ENDPOINT] = MX_STATUS_BAD_ENDPOINT,
	[TW_S_REJECTED] = MX_STATUS_REJECTED,
	[TW_S_ABORTED] = MX_STATUS_ABORTED,
	[TW_S_NO_RESOURCES] = MX_STATUS_NO_RESOURCES,
	[TW_S_BAD_WINDOW] = MX_STATUS_BAD_RDMAWIN,
	[TW_S_OUT_OF_WINDOW] = MX_STATUS_BAD_RDMAWIN,
	[TW_S_NO_RIGHT] = MX_STATUS_BAD_RDMAWIN,
};

/* Reports a completed request to the user and frees it. */
static inline void collect(struct tw_ep *ep, struct tw_req *r, mx_status_t *status)
{
	tw_mx_status(status, r);
	tw_mx_req_free(ep, r);
}

/* The argument of the test that a blocking call repeats. */
struct waiting {
	const mx_request_t *request;
	bool buffered; /* it need not be complete */
	struct tw_req *found;
	struct tw_unexp *message;
	uint64_t match, mask;
	uint64_t since; /* of tw_mx_ep.probes, when a probe began to block */
};

static tw_noinline mx_return_t test_entered(struct tw_ep *ep, struct tw_req *r, mx_status_t *status,
					    uint32_t *result)
{
	if (tw_unlikely(!r || !tw_req_in_use(r)))
		return tw_mx_leave_fail(ep, "mx_test", MX_BAD_REQUEST);
	if (tw_unlikely(!result))
		return tw_mx_leave_fail(ep, "mx_test", MX_FAILURE);
	if (!(r->flags & TW_R_DONE))
		tw_progress(ep);
	*result = (r->flags & TW_R_DONE) != 0;
	if (*result)
		collect(ep, r, status);
	tw_leave_unfinished(ep);
	return MX_SUCCESS;
}

static tw_noinline mx_return_t test_slow(mx_endpoint_t endpoint, const mx_request_t *request,
					 mx_status_t *status, uint32_t *result)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (!ep)
		return tw_mx_fail(NULL, "mx_test", MX_BAD_ENDPOINT);
	return test_entered(ep, tw_mx_request(ep, request), status, result);
}

static tw_noinline mx_return_t complete_leave(struct tw_ep *ep)
{
	tw_leave_unfinished(ep);
	return MX_SUCCESS;
}

/* A poll that finds something, mostly the message of this request. */
static tw_noinline mx_return_t test_arrived(struct tw_ep *ep, struct tw_req *r, mx_status_t *status,
					    uint32_t *result)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;
	bool one = rxqs->nactive == 1 && !tw_poll_full(tw_polls(ep) + 1);
	struct tw_req *came = one ? tw_recv_alone(rxqs->rx[0]) : NULL;

	if (tw_unlikely(!came))
		tw_progress_usual(ep);
	else if (tw_unlikely(came != r))
		tw_req_ended(ep, came);
	if (tw_unlikely(r->outcome != tw_req_ok.outcome || ep->slow_path))
		return test_entered(ep, r, status, result);
	tw_mx_succeeded(status, r);
	tw_req_put(ep, r);
	*result = 1;
	tw_lock_leave(tw_lock_held(&ep->slot->lock));
	return MX_SUCCESS;
}

/* Polls any number of rings. */
static tw_noinline mx_return_t test_rings(struct tw_ep *ep, struct tw_req *r, mx_status_t *status,
					  uint32_t *result, struct tw_lock_way way)
{
	if (tw_unlikely(!tw_fast_poll_empty(ep)))
		return test_arrived(ep, r, status, result);
	*result = 0;
	tw_lock_leave(way);
	return MX_SUCCESS;
}

/* Tests a posted receive: polls the rings. With one active ring no register is saved. */
static tw_noinline mx_return_t test_posted(struct tw_ep *ep, struct tw_req *r, mx_status_t *status,
					   uint32_t *result, struct tw_lock_way way)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;
	uint64_t polls;

	if (tw_unlikely(tw_poll_slow_path(ep)))
		return test_entered(ep, r, status, result);
	polls = tw_polls(ep) + 1;
	if (tw_poll_shows(polls) || rxqs->nactive != 1)
		return test_rings(ep, r, status, result, way);
	if (tw_unlikely(!tw_ring_poll_empty(rxqs->rx[0], &rxqs->dense)))
		return test_arrived(ep, r, status, result);
	tw_poll_count(ep, polls);
	*result = 0;
	tw_lock_leave(way);
	return MX_SUCCESS;
}

static inline bool has_ended(const struct tw_req *r, uint64_t handle)
{
	return r->handle == handle && tw_likely(r->outcome == tw_req_ok.outcome);
}

/*
 * The fast path calls no function, so that no register needs to be saved. It covers the oldest
 * request of the ring buffer of sends, and the first complete request of the list. An unused entry
 * of the ring buffer has a handle that no program knows.
 */
mx_return_t mx_test(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status,
		    uint32_t *result)
{
	struct tw_lock_way way;
	struct tw_ep *ep = tw_enter_fast((uint64_t)(uintptr_t)endpoint, &way);
	struct tw_mx_sends *sends;
	struct tw_req *r;
	uint64_t handle;

	if (tw_unlikely(!ep))
		return test_slow(endpoint, request, status, result);
	if (tw_unlikely(!request || !result))
		return test_entered(ep, tw_mx_request(ep, request), status, result);
	handle = (uint64_t)(uintptr_t)*request;
	sends = &tw_mx_ep(ep)->sends;
	r = tw_mx_send_at(sends->first);
	if (r->handle == handle && (!TW_NARROW || has_ended(r, handle))) {
		tw_mx_succeeded(status, r);
		sends->first = r->link.next;
		tw_mx_send_put(r);
	} else {
		r = tw_req_first_done(ep);
		if (!r || !has_ended(r, handle)) {
			r = tw_req_last(ep, handle);
			if (tw_unlikely(!r || r->outcome != tw_req_posted.outcome))
				return test_entered(ep, r, status, result);
			return test_posted(ep, r, status, result, way);
		}
		tw_mx_succeeded(status, r);
		tw_req_put(ep, r);
	}
	*result = 1;
	return tw_likely(tw_leave_fast(ep, way)) ? MX_SUCCESS : complete_leave(ep);
}

/* The memory of a request is the program's again. */
static bool is_buffered(const struct tw_req *r)
{
	return (r->flags & TW_R_DONE) || r->state == TW_XFER_UNMATCHED;
}

/* True also if another thread has ended the request. */
static bool wait_over(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;

	w->found = tw_mx_request(ep, w->request);
	return !w->found || (w->found->flags & TW_R_DONE) || (w->buffered && is_buffered(w->found));
}

/* Waits for one request. */
static mx_return_t wait_request(struct tw_ep *ep, struct waiting *w, uint32_t timeout,
				uint32_t *result)
{
	enum tw_waited waited;

	if (!tw_mx_request(ep, w->request))
		return MX_BAD_REQUEST;
	if (!result)
		return MX_FAILURE;
	waited = tw_wait(ep, wait_over, w, tw_mx_timeout(timeout));
	if (waited == TW_W_CLOSED)
		return MX_BAD_ENDPOINT;
	if (waited == TW_W_TRUE && !w->found)
		return MX_BAD_REQUEST;
	*result = waited == TW_W_TRUE;
	return MX_SUCCESS;
}

mx_return_t mx_wait(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
		    mx_status_t *status, uint32_t *result)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct waiting w = {.request = request};
	mx_return_t rc = MX_BAD_ENDPOINT;

	if (ep)
		rc = wait_request(ep, &w, timeout, result);
	if (rc == MX_SUCCESS && *result)
		collect(ep, w.found, status);
	return tw_mx_end(ep, __func__, rc);
}

mx_return_t mx_buffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout,
			uint32_t *result)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct waiting w = {.request = request, .buffered = true};
	mx_return_t rc = MX_BAD_ENDPOINT;

	if (ep)
		rc = wait_request(ep, &w, timeout, result);
	return tw_mx_end(ep, __func__, rc);
}

mx_return_t mx_ibuffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct tw_req *r;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	r = tw_mx_request(ep, request);
	if (!r)
		return tw_mx_leave_fail(ep, __func__, MX_BAD_REQUEST);
	if (!result)
		return tw_mx_leave_fail(ep, __func__, MX_FAILURE);
	if (!is_buffered(r))
		tw_progress(ep);
	*result = is_buffered(r);
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

/* The calls that look for any request ---------------------------------------- */

/* The first complete request that matches. */
static bool find_done(struct tw_ep *ep, struct waiting *w,
		      bool (*wanted)(const struct waiting *w, const struct tw_req *r))
{
	const struct tw_mx_sends *s = &tw_mx_ep(ep)->sends;
	struct tw_list *n = s->first;

	tw_list_walk(&ep->done, struct tw_req, r, link) {
		w->found = r;
		if (wanted(w, r))
			return true;
	}
	if (n == s->next && !tw_mx_send_at(n)->outcome)
		return false;
	do {
		w->found = tw_mx_send_at(n);
		if (w->found->outcome == tw_req_ok.outcome && wanted(w, w->found))
			return true;
	} while ((n = n->next) != s->next);
	return false;
}

/* A request returned to one thread's peek is not returned to another's. */
static bool unclaimed(const struct waiting *w, const struct tw_req *r)
{
	(void)w;
	return !r->peeked_by || r->peeked_by == tw_thread_id();
}

static bool any_done(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;

	if (!find_done(ep, w, unclaimed))
		return false;
	w->found->peeked_by = tw_thread_id();
	return true;
}

static bool matches(const struct waiting *w, const struct tw_req *r)
{
	return r->peeked_by != TW_MX_HIDDEN && (r->match & w->mask) == w->match;
}

static bool any_matching(struct tw_ep *ep, void *arg)
{
	return find_done(ep, arg, matches);
}

bool tw_mx_any_done(struct tw_ep *ep)
{
	struct waiting w = {.match = 0};

	return find_done(ep, &w, matches);
}

/* One test with progress, or a wait. */
static mx_return_t poll_or_wait(struct tw_ep *ep, bool (*test)(struct tw_ep *, void *), void *arg,
				bool block, uint32_t timeout, uint32_t *result)
{
	enum tw_waited waited = TW_W_TRUE;

	if (block) {
		waited = tw_wait(ep, test, arg, tw_mx_timeout(timeout));
		if (waited == TW_W_CLOSED)
			return MX_BAD_ENDPOINT;
	} else if (!test(ep, arg)) {
		tw_progress(ep);
		waited = test(ep, arg) ? TW_W_TRUE : TW_W_TIMEOUT;
	}
	*result = waited == TW_W_TRUE;
	return MX_SUCCESS;
}

static mx_return_t complete_peek(mx_endpoint_t endpoint, bool block, uint32_t timeout,
				 mx_request_t *request, uint32_t *result, const char *function)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct waiting w = {0};
	mx_return_t rc;

	if (!ep)
		rc = MX_BAD_ENDPOINT;
	else if (tw_mx_ep(ep)->context_mask)
		rc = MX_NOT_SUPPORTED_WITH_CONTEXT_ID;
	else if (!request)
		rc = MX_BAD_REQUEST;
	else if (!result)
		rc = MX_FAILURE;
	else
		rc = poll_or_wait(ep, any_done, &w, block, timeout, result);
	if (rc == MX_SUCCESS && *result)
		*request = (mx_request_t)(uintptr_t)w.found->handle;
	return tw_mx_end(ep, function, rc);
}

mx_return_t mx_ipeek(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	return complete_peek(endpoint, false, 0, request, result, __func__);
}

mx_return_t mx_peek(mx_endpoint_t endpoint, uint32_t timeout, mx_request_t *request,
		    uint32_t *result)
{
	return complete_peek(endpoint, true, timeout, request, result, __func__);
}

/* Whether a call with a mask may begin. */
static inline mx_return_t check_masked(const struct tw_ep *ep, const struct waiting *w,
				       const uint32_t *result)
{
	if (!ep)
		return MX_BAD_ENDPOINT;
	return result ? tw_mx_check_match(ep, w->match, w->mask) : MX_FAILURE;
}

static mx_return_t any(mx_endpoint_t endpoint, bool block, uint32_t timeout, uint64_t match,
		       uint64_t mask, mx_status_t *status, uint32_t *result, const char *function)
{
	struct waiting w = {.match = match, .mask = mask};
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = check_masked(ep, &w, result);

	if (rc == MX_SUCCESS)
		rc = poll_or_wait(ep, any_matching, &w, block, timeout, result);
	if (rc == MX_SUCCESS && *result)
		collect(ep, w.found, status);
	return tw_mx_end(ep, function, rc);
}

mx_return_t mx_test_any(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask,
			mx_status_t *status, uint32_t *result)
{
	return any(endpoint, false, 0, match_info, match_mask, status, result, __func__);
}

mx_return_t mx_wait_any(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info,
			uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	return any(endpoint, true, timeout, match_info, match_mask, status, result, __func__);
}

static bool message_waits(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;

	w->message = tw_match_find_unexp(ep->match, w->match, w->mask);
	return w->message != NULL;
}

/* Of several threads blocked in a probe, one gets a message (MX VII.1.2). */
static bool message_comes(struct tw_ep *ep, void *arg)
{
	struct waiting *w = arg;
	struct tw_unexp *x = tw_match_find_unexp(ep->match, w->match, w->mask);

	for (; x; x = tw_match_next_unexp(ep->match, x, w->match, w->mask)) {
		struct tw_unexp_msg *u = tw_container(x, struct tw_unexp_msg, unexp);

		if (u->probe_number > w->since)
			continue;
		u->probe_number = ++tw_mx_ep(ep)->probes;
		w->message = x;
		return true;
	}
	return false;
}

static mx_return_t complete_probe(mx_endpoint_t endpoint, bool block, uint32_t timeout,
				  uint64_t match, uint64_t mask, mx_status_t *status,
				  uint32_t *result, const char *function)
{
	struct waiting w = {.match = match, .mask = mask};
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = check_masked(ep, &w, result);

	if (rc == MX_SUCCESS) {
		/* Messages that have arrived count, also before any progress. */
		if (!block)
			tw_progress(ep);
		w.since = tw_mx_ep(ep)->probes;
		rc = poll_or_wait(ep, block ? message_comes : message_waits, &w, block, timeout,
				  result);
	}
	if (rc == MX_SUCCESS && *result && status) {
		struct tw_unexp_msg *u = tw_container(w.message, struct tw_unexp_msg, unexp);

		*status = (mx_status_t){.code = MX_STATUS_SUCCESS,
					.source = tw_mx_user_addr(u->peer->addr),
					.match_info = u->unexp.match,
					.msg_length = u->len,
					.xfer_length = u->len};
	}
	return tw_mx_end(ep, function, rc);
}

mx_return_t mx_iprobe(mx_endpoint_t endpoint, uint64_t match_recv, uint64_t match_mask,
		      mx_status_t *status, uint32_t *result)
{
	return complete_probe(endpoint, false, 0, match_recv, match_mask, status, result, __func__);
}

mx_return_t mx_probe(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_recv,
		     uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	return complete_probe(endpoint, true, timeout, match_recv, match_mask, status, result,
			      __func__);
}
