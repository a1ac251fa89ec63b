/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Active messages: what the interfaces of two endpoints tell each other beside the program's
 * messages. One is a packet, in order with the messages, and calls the other side's handler.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static bool leave(struct tw_peer *p, uint64_t arg, const void *data, uint32_t len)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};

	return tw_packet_send(p, TW_SEND_ENGINE, tw_hdr_make(TW_AM, 0, 0, len, arg), &iov, len > 0,
			      len) == TW_OK;
}

enum tw_err tw_am_send(struct tw_ep *ep, struct tw_addr to, uint64_t arg, const void *data,
		       uint32_t len)
{
	struct tw_peer *p = tw_peer_at(ep, to);
	struct tw_req *r;

	if (!p || p->state != TW_PEER_UP || p->barred)
		return TW_ECLOSED;
	if (tw_list_empty(&p->sendq) && leave(p, arg, data, len))
		return TW_OK;
	r = tw_req_new1(ep, TW_AM_SEND, NULL, len);
	if (!r)
		return TW_ENOMEM;
	tw_req_forget(r);
	r->seg.ptr = malloc(len + 1); /* freed by tw_req_forgotten() */
	if (!r->seg.ptr) {
		tw_req_free(ep, r);
		return TW_ENOMEM;
	}
	if (len)
		memcpy(r->seg.ptr, data, len);
	r->match = arg;
	r->peer = p;
	tw_list_add_tail(&p->sendq, &r->link);
	tw_peer_work(p);
	return TW_OK;
}

bool tw_am_flush(struct tw_peer *p, struct tw_req *r)
{
	if (!leave(p, r->match, r->seg.ptr, r->len))
		return false;
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
