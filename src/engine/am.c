/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Active messages, which interfaces exchange beside the program's messages. Each is one packet. It
 * keeps the order with messages, and calls the handler of the other side's interface.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static bool am_out(struct tw_peer *p, uint8_t type, uint8_t flags, uint64_t arg, const void *data,
		   uint32_t len)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};

	return tw_packet_send(p, TW_SEND_ENGINE, tw_hdr_make(type, flags, 0, len, arg), &iov,
			      len > 0, len) == TW_OK;
}

struct tw_req *tw_am_new(struct tw_ep *ep, uint64_t arg, uint32_t len)
{
	struct tw_req *r = tw_req_new1(ep, TW_AM_SEND, NULL, len);

	if (!r)
		return NULL;
	tw_req_forget(r);
	r->seg.ptr = malloc(len + 1); /* freed by tw_req_forgotten() */
	if (!r->seg.ptr) {
		tw_req_free(ep, r);
		return NULL;
	}
	r->peer = NULL;
	r->match = arg;
	return r;
}

void tw_am_queue(struct tw_peer *p, struct tw_req *r)
{
	r->peer = p;
	tw_txq_close(p); /* nothing overtakes it */
	tw_send_queue(p, r);
}

/* The peer of an address, if it takes active messages. */
static struct tw_peer *am_peer(struct tw_ep *ep, struct tw_addr to)
{
	struct tw_peer *p = tw_peer_at(ep, to);

	return p && p->state == TW_PEER_UP && !p->barred ? p : NULL;
}

enum tw_err tw_am_send(struct tw_ep *ep, struct tw_addr to, uint64_t arg, const void *data,
		       uint32_t len)
{
	struct tw_peer *p = am_peer(ep, to);
	struct tw_req *r;

	if (!p)
		return TW_ECLOSED;
	ep->counters[TW_C_AM_SENT]++;
	if (tw_list_empty(&p->sendq) && am_out(p, TW_AM, 0, arg, data, len))
		return TW_OK;
	r = tw_am_new(ep, arg, len);
	if (!r)
		return TW_ENOMEM;
	if (len)
		memcpy(r->seg.ptr, data, len);
	tw_am_queue(p, r);
	return TW_OK;
}

void tw_am_send_new(struct tw_ep *ep, struct tw_addr to, struct tw_req *r)
{
	struct tw_peer *p = am_peer(ep, to);

	if (!p) {
		tw_req_forgotten(ep, r);
		return;
	}
	ep->counters[TW_C_AM_SENT]++;
	if (!tw_list_empty(&p->sendq) || !tw_am_flush(p, r))
		tw_am_queue(p, r);
}

bool tw_am_flush(struct tw_peer *p, struct tw_req *r)
{
	bool window = r->extra & TW_X_WINDOW;

	if (!am_out(p, window ? TW_WINDOW : TW_AM, window ? r->what : 0, r->match, r->seg.ptr,
		    r->len))
		return false;
	p->windows.due -= (r->extra & TW_X_REPLY) != 0;
	tw_req_complete(p->ep, r, TW_S_OK);
	return true;
}

enum tw_err tw_am_packet(struct tw_peer *p, struct tw_hdr hdr, const void *data, uint32_t len)
{
	if (len != tw_hdr_len(hdr) || len > TW_AM_MAX || !p->ep->iface->am_handler)
		return TW_EPROTO;
	p->ep->iface->am_handler(p->ep, p, hdr.match, data, len);
	return TW_OK;
}
