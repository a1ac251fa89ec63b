/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls made from threads that block, and every call at once. */
#include "mx/mxt.h"

static void blocking(void *arg)
{
	struct mxt_block *b = arg;
	mx_request_t peeked = NULL;
	double start = twt_now();

	switch (b->call) {
	case MXT_WAIT:
		b->rc = mx_wait(b->ep, &b->req, b->timeout, &b->status, &b->result);
		break;
	case MXT_BUFFERED:
		b->rc = mx_buffered(b->ep, &b->req, b->timeout, &b->result);
		break;
	case MXT_PEEK:
		b->rc = mx_peek(b->ep, b->timeout, &peeked, &b->result);
		b->req = peeked;
		break;
	case MXT_PROBE:
		b->rc = mx_probe(b->ep, b->timeout, MXT_BLOCK_MATCH, MXT_ALL, &b->status,
				 &b->result);
		break;
	default:
		b->rc = mx_wait_any(b->ep, b->timeout, MXT_BLOCK_MATCH, MXT_ALL, &b->status,
				    &b->result);
	}
	b->took = twt_now() - start;
}

static void prepare(struct mxt_block *b, enum mxt_call call, mx_endpoint_t ep, mx_request_t req,
		    uint32_t timeout)
{
	memset(b, 0, sizeof(*b));
	b->call = call;
	b->ep = ep;
	b->req = req;
	b->timeout = timeout;
	b->result = 77;
}

void mxt_block(struct mxt_block *b, enum mxt_call call, mx_endpoint_t ep, mx_request_t req,
	       uint32_t timeout)
{
	prepare(b, call, ep, req, timeout);
	mxt_start(&b->thread, blocking, b);
}

void mxt_block_here(struct mxt_block *b, enum mxt_call call, mx_endpoint_t ep, mx_request_t req,
		    uint32_t timeout)
{
	prepare(b, call, ep, req, timeout);
	blocking(b);
}

static mx_unexp_handler_action_t keep(void *context, mx_endpoint_addr_t source, uint64_t match,
				      uint32_t length, void *data)
{
	(void)context, (void)source, (void)match, (void)length, (void)data;
	return MX_RECV_CONTINUE;
}

static void told(void *context, uint64_t match, int length)
{
	(void)context, (void)match, (void)length;
}

#define FAILS(call) mxt_rc_at(file, line, #call, want, call)

void mxt_every_call_at(const char *file, int line, mx_endpoint_t ep, mx_return_t want)
{
	static char garbage[64];
	mx_request_t const other = (mx_request_t)(uintptr_t)garbage;
	mx_request_t req = other;
	mx_endpoint_addr_t addr, zero = {{0, 0}};
	mx_segment_t seg = {garbage, 8};
	uint32_t result = 77;
	mx_status_t st;
	int fd;

	memset(&addr, 0x5a, sizeof(addr));
	FAILS(mx_isend(ep, &seg, 1, zero, 1, NULL, &req));
	FAILS(mx_issend(ep, &seg, 1, zero, 1, NULL, &req));
	FAILS(mx_irecv(ep, &seg, 1, 1, MXT_ALL, NULL, &req));
	FAILS(mx_iconnect(ep, MXT_NO_NIC, 1, 1, 1, NULL, &req));
	FAILS(mx_ipeek(ep, &req, &result));
	FAILS(mx_peek(ep, 10, &req, &result));
	FAILS(mx_ibuffered(ep, &req, &result));
	FAILS(mx_buffered(ep, &req, 10, &result));
	FAILS(mx_test(ep, &req, &st, &result));
	FAILS(mx_wait(ep, &req, 10, &st, &result));
	FAILS(mx_cancel(ep, &req, &result));
	FAILS(mx_set_request_timeout(ep, NULL, 10));
	FAILS(mx_set_request_timeout(ep, other, 10));
	FAILS(mx_forget(ep, &req));
	FAILS(mx_test_any(ep, 0, 0, &st, &result));
	FAILS(mx_wait_any(ep, 10, 0, 0, &st, &result));
	FAILS(mx_iprobe(ep, 0, 0, &st, &result));
	FAILS(mx_probe(ep, 10, 0, 0, &st, &result));
	FAILS(mx_connect(ep, MXT_NO_NIC, 1, 1, 1, &addr));
	FAILS(mx_disconnect(ep, zero));
	FAILS(mx_get_endpoint_addr(ep, &addr));
	FAILS(mx_progress(ep));
	FAILS(mx_get_fd(ep, &fd));
	FAILS(mx_arm_fd(ep));
	FAILS(mx_register_unexp_handler(ep, keep, NULL));
	FAILS(mx_register_unexp_callback(ep, told, NULL));
	FAILS(mx_disable_progression(ep));
	FAILS(mx_reenable_progression(ep));
	FAILS(mx_wakeup(ep));
	FAILS(mx_close_endpoint(ep));
	mxt_check(req == other);
	for (size_t i = 0; i < sizeof(addr); i++)
		mxt_eq(((unsigned char *)&addr)[i], 0x5a);
}
