/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of later MX releases, and mx_context() (MX VI.4), which shares their look-ups. */
#include <limits.h>

#include "mx/mx_internal.h"

/* Enters the endpoint of a slot, which handles of requests and addresses name. */
static struct tw_ep *enter_slot(uint32_t slot)
{
	if (slot >= TW_MAX_OPEN)
		return NULL;
	/* [handle] */
	return tw_enter(atomic_load_explicit(&tw_slots[slot].handle, memory_order_acquire));
}

static mx_return_t no_request(void)
{
	return tw_mx_ready() ? MX_BAD_REQUEST : MX_NOT_INITIALIZED;
}

mx_return_t mx_context(mx_request_t *request, void **context)
{
	struct tw_ep *ep;
	struct tw_req *r;

	if (!request)
		return tw_mx_fail(NULL, __func__, no_request());
	if (!context)
		return tw_mx_fail(NULL, __func__, MX_FAILURE);
	ep = enter_slot((uintptr_t)*request & ((1u << TW_REQ_NUMBER) - 1));
	if (!ep)
		return tw_mx_fail(NULL, __func__, no_request());
	r = tw_mx_request(ep, request);
	if (r)
		*context = r->context;
	tw_leave(ep);
	return r ? MX_SUCCESS : tw_mx_fail(NULL, __func__, MX_BAD_REQUEST);
}

mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	struct tw_req *r = ep ? tw_mx_request(ep, request) : NULL;

	if (r && (r->flags & TW_R_DONE))
		tw_mx_req_free(ep, r);
	else if (r)
		tw_req_forget(r);
	return tw_mx_end(ep, __func__, r ? MX_SUCCESS : MX_BAD_REQUEST);
}

mx_return_t mx_progress(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (ep)
		tw_progress(ep);
	return tw_mx_end(ep, __func__, MX_SUCCESS);
}

mx_return_t mx_get_fd(mx_endpoint_t endpoint, int *fd)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	mx_return_t rc = MX_FAILURE;

	if (ep && fd)
		rc = tw_mx_code(tw_ep_fd(ep, fd));
	return tw_mx_end(ep, __func__, rc);
}

/* MX_BUSY is no failure: no error handler is called. */
mx_return_t mx_arm_fd(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	bool armed;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	armed = tw_ep_fd_arm(ep, tw_mx_any_done);
	tw_leave_unfinished(ep);
	return armed ? MX_SUCCESS : MX_BUSY;
}

static enum tw_verdict call_handler(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	const struct tw_mx_ep *mx = tw_mx_ep(ep);
	mx_unexp_handler_t handler = (mx_unexp_handler_t)mx->user_handler;
	mx_unexp_handler_action_t action;

	tw_handler_begin(ep->slot);
	action = handler(mx->user_context, tw_mx_user_addr(u->peer->addr), u->unexp.match, u->len,
			 tw_unexp_is_whole(u) ? u->data : NULL);
	tw_handler_end(ep->slot);
	return action == MX_RECV_FINISHED ? TW_DROP : TW_REMATCH;
}

static enum tw_verdict call_callback(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	const struct tw_mx_ep *mx = tw_mx_ep(ep);
	mx_matching_callback_t callback = (mx_matching_callback_t)mx->user_handler;

	tw_handler_begin(ep->slot);
	callback(mx->user_context, u->unexp.match, (int)tw_min(u->len, (uint32_t)INT_MAX));
	tw_handler_end(ep->slot);
	return TW_REMATCH;
}

static mx_return_t install(mx_endpoint_t endpoint, const char *function,
			   enum tw_verdict (*call)(struct tw_ep *, struct tw_unexp_msg *),
			   void (*user)(void), void *context)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);

	if (ep) {
		ep->unexpected = user ? call : NULL;
		tw_mx_ep(ep)->user_handler = user;
		tw_mx_ep(ep)->user_context = context;
	}
	return tw_mx_end(ep, function, MX_SUCCESS);
}

mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler,
				      void *context)
{
	return install(endpoint, __func__, call_handler, (void (*)(void))handler, context);
}

mx_return_t mx_register_unexp_callback(mx_endpoint_t endpoint, mx_matching_callback_t callback,
				       void *context)
{
	return install(endpoint, __func__, call_callback, (void (*)(void))callback, context);
}

/* The peer of an address, its endpoint entered; NULL if there is none. */
static struct tw_peer *enter_peer(mx_endpoint_addr_t addr)
{
	struct tw_addr a = tw_mx_addr(addr);
	struct tw_ep *ep = enter_slot(a.slot_peer >> 20);
	struct tw_peer *p;

	if (!ep)
		return NULL;
	p = tw_peer_at(ep, a);
	if (!p)
		tw_leave(ep);
	return p;
}

mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void *context)
{
	struct tw_peer *p = enter_peer(endpoint_addr);

	if (!p)
		return tw_mx_fail(NULL, __func__, tw_mx_ready() ? MX_FAILURE : MX_NOT_INITIALIZED);
	p->context = context;
	tw_leave(p->ep);
	return MX_SUCCESS;
}

mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void **context)
{
	struct tw_peer *p = context ? enter_peer(endpoint_addr) : NULL;

	if (!p)
		return tw_mx_fail(NULL, __func__, tw_mx_ready() ? MX_FAILURE : MX_NOT_INITIALIZED);
	*context = p->context;
	tw_leave(p->ep);
	return MX_SUCCESS;
}

int mx__regcache_clean(void *ptr, size_t length)
{
	(void)ptr;
	(void)length;
	return 1;
}
