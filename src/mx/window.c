/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided access. MX 1.0 announces it for a later version, and reserves a status for it. */
#include "engine/window.h"
#include "mx/mx_internal.h"

_Static_assert((int)MX_WINDOW_READ == (int)TW_WINDOW_READ, "rights are the engine's");
_Static_assert((int)MX_WINDOW_WRITE == (int)TW_WINDOW_WRITE, "rights are the engine's");
_Static_assert((int)MX_WINDOW_ASSIGN == (int)TW_WINDOW_ASSIGN, "and this beside them");

static mx_return_t code_of(enum tw_err err)
{
	switch (err) {
	case TW_OK:
		return MX_SUCCESS;
	case TW_ENOMEM:
		return MX_NO_RESOURCES;
	case TW_EBUSY:
		return MX_BUSY;
	case TW_EFAULT:
		return MX_BAD_SEG_MEM;
	case TW_EWINDOW:
		return MX_NO_MATCH;
	case TW_ECLOSED:
		return MX_BAD_ENDPOINT;
	default:
		return MX_NOT_COMPLETED;
	}
}

mx_return_t mx_window_register(mx_endpoint_t endpoint, void *base, size_t length, uint32_t rights,
			       uint64_t *key)
{
	const uint32_t all = MX_WINDOW_READ | MX_WINDOW_WRITE | MX_WINDOW_ASSIGN;
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = MX_FAILURE;

	if (ep && length && !base)
		rc = MX_BAD_SEG_MEM;
	else if (ep && key && !(rights & ~all))
		rc = code_of(tw_window_register(ep, base, length, rights, key));
	return tw_mx_end(ep, __func__, rc);
}

mx_return_t mx_window_deregister(mx_endpoint_t endpoint, uint64_t key)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	return tw_mx_end(ep, __func__,
			 ep ? code_of(tw_window_deregister(ep, key)) : MX_BAD_ENDPOINT);
}

static mx_return_t access_window(mx_endpoint_t endpoint, enum tw_kind kind,
				 const mx_segment_t *list, uint32_t count, mx_endpoint_addr_t peer,
				 uint64_t key, uint64_t offset, uint64_t match, void *context,
				 mx_request_t *request, const char *function)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = MX_BAD_ENDPOINT;
	struct tw_req *r;

	if (ep)
		rc = tw_mx_new_request(ep, kind, list, count, context, request, &r);
	if (rc == MX_SUCCESS) {
		r->match = match;
		*request = (mx_request_t)(uintptr_t)r->handle;
		tw_window_access(ep, r, tw_mx_addr(peer), key, offset);
	}
	return tw_mx_end(ep, function, rc);
}

mx_return_t mx_put(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		   mx_endpoint_addr_t owner, uint64_t key, uint64_t offset, uint64_t match_info,
		   void *context, mx_request_t *request)
{
	return access_window(endpoint, TW_WRITE, segments_list, segments_count, owner, key, offset,
			     match_info, context, request, __func__);
}

mx_return_t mx_get(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		   mx_endpoint_addr_t owner, uint64_t key, uint64_t offset, uint64_t match_info,
		   void *context, mx_request_t *request)
{
	return access_window(endpoint, TW_READ, segments_list, segments_count, owner, key, offset,
			     match_info, context, request, __func__);
}

mx_return_t mx_flush(mx_endpoint_t endpoint, mx_endpoint_addr_t owner, uint64_t match_info,
		     void *context, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = MX_BAD_ENDPOINT;
	struct tw_req *r;

	if (ep)
		rc = tw_mx_new_request(ep, TW_FLUSH, NULL, 0, context, request, &r);
	if (rc == MX_SUCCESS) {
		r->match = match_info;
		*request = (mx_request_t)(uintptr_t)r->handle;
		tw_window_flush(ep, r, tw_mx_addr(owner));
	}
	return tw_mx_end(ep, __func__, rc);
}
