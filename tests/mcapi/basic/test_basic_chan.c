/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.4, 4.5: binding, opening and closing, with every refusal. */
#include <stdatomic.h>

#include "mcapi/basic/basic.h"

TestSuite(mcapi_basic_chan, .init = mcb_job, .timeout = MCB_TIMEOUT);

Test(mcapi_basic_chan, connect_refusals)
{
	mcapi_endpoint_t a, b, c;
	mcapi_request_t r;

	mcb_init(0);
	a = mcb_endpoint(1);
	b = mcb_endpoint(2);
	c = mcb_endpoint(3);
	mcb_st(MCAPI_EPARAM, mcapi_connect_pktchan_i(a, b, NULL, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_connect_pktchan_i(a, 55, &r, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_connect_pktchan_i(55, a, &r, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_connect_sclchan_i(a, 9 << 16, &r, &st));
	mcb_st(MCAPI_ENOT_ENDP, mcapi_connect_sclchan_i(9 << 16, a, &r, &st));
	mcb_set_attr(c, MCAPI_ATTR_ENDP_PRIO, 0);
	mcb_st(MCAPI_EATTR_INCOMP, mcapi_connect_pktchan_i(a, c, &r, &st));
	mcb_st(MCAPI_ECONNECTED, mcapi_connect_pktchan_i(a, a, &r, &st));
	mcb_connect_pkt(a, b);
	mcb_set_attr(c, MCAPI_ATTR_ENDP_PRIO, 1);
	mcb_st(MCAPI_ECONNECTED, mcapi_connect_pktchan_i(a, c, &r, &st));
	mcb_st(MCAPI_ECONNECTED, mcapi_connect_sclchan_i(c, b, &r, &st));
	/* Never opened: deleting one end frees the other. */
	mcb_ok(mcapi_delete_endpoint(a, &st));
	mcb_connect_pkt(c, b);
	mcb_final();
}

Test(mcapi_basic_chan, open_refusals)
{
	mcapi_endpoint_t a, b;
	mcapi_request_t r, s;
	uint32_t h, g, old;
	char buf[4];
	void *p;
	size_t size;

	mcb_init(0);
	a = mcb_endpoint(1);
	b = mcb_endpoint(2);
	mcb_st(MCAPI_ENOT_ENDP, mcapi_open_pktchan_send_i(&h, 55, &r, &st));
	mcb_st(MCAPI_EPARAM, mcapi_open_pktchan_send_i(&h, a, NULL, &st));
	mcb_st(MCAPI_EPARAM, mcapi_open_pktchan_send_i(NULL, a, &r, &st));
	mcb_connect_pkt(a, b);
	mcb_st(MCAPI_ECHAN_TYPE, mcapi_open_sclchan_send_i(&h, a, &r, &st));
	mcb_st(MCAPI_ECHAN_TYPE, mcapi_open_sclchan_recv_i(&h, b, &r, &st));
	mcb_st(MCAPI_EDIR, mcapi_open_pktchan_recv_i(&h, a, &r, &st));
	mcb_st(MCAPI_EDIR, mcapi_open_pktchan_send_i(&h, b, &r, &st));
	mcb_ok(mcapi_open_pktchan_send_i(&h, a, &r, &st));
	mcb_st(MCAPI_ECONNECTED, mcapi_open_pktchan_send_i(&g, a, &s, &st));
	mcb_st(MCAPI_ECHAN_OPEN, mcapi_delete_endpoint(a, &st));
	mcb_pending(r);
	/* A cancelled open: the handle cannot be closed, the end can be opened. */
	mcb_ok(mcapi_cancel(&r, &st));
	mcb_wait(r, MCAPI_EREQ_CANCELED);
	mcb_st(MCAPI_ENOT_OPEN, mcapi_pktchan_send_close_i(h, &r, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(h, buf, 1, &st));
	old = h;
	mcb_ok(mcapi_open_pktchan_send_i(&h, a, &r, &st));
	mcb_ok(mcapi_open_pktchan_recv_i(&g, b, &s, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(s, MCAPI_SUCCESS);
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(old, buf, 1, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(g, buf, 1, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv(h, &p, &size, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_available(h, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv_close_i(h, &r, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_close_i(h, &r, &st));
	mcb_st(MCAPI_EPARAM, mcapi_pktchan_send_close_i(h, NULL, &st));
	mcb_ok(mcapi_pktchan_send_close_i(h, &r, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send_close_i(h, &r, &st));
	/* The other end is closed too before the endpoint is free. */
	mcb_st(MCAPI_ECONNECTED, mcapi_connect_pktchan_i(a, b, &r, &st));
	mcb_ok(mcapi_packetchan_recv_close_i(g, &r, &st));
	mcb_connect_scl(b, a);
	mcb_final();
}

/* Programs of the field open first and connect later. */
Test(mcapi_basic_chan, open_before_connect)
{
	mcapi_endpoint_t a, b;
	mcapi_request_t r, s;
	uint32_t h, g;

	mcb_init(0);
	a = mcb_endpoint(1);
	b = mcb_endpoint(2);
	for (int i = 0; i < 4; i++) {
		mcb_st(MCAPI_ENOT_CONNECTED, mcapi_open_pktchan_send_i(&h, a, &r, &st));
		mcb_st(MCAPI_ENOT_CONNECTED, mcapi_open_pktchan_recv_i(&g, b, &s, &st));
		mcb_pending(r);
		mcb_connect_pkt(a, b);
		mcb_wait(r, MCAPI_SUCCESS);
		mcb_wait(s, MCAPI_SUCCESS);
		mcb_ok(mcapi_pktchan_send_close_i(h, &r, &st));
		mcb_ok(mcapi_pktchan_recv_close_i(g, &r, &st));
	}
	/* Closed before it was complete. */
	mcb_st(MCAPI_ENOT_CONNECTED, mcapi_open_sclchan_send_i(&h, a, &r, &st));
	mcb_ok(mcapi_sclchan_send_close_i(h, &s, &st));
	mcb_wait(s, MCAPI_SUCCESS);
	mcb_wait(r, MCAPI_EREQ_CANCELED);
	/* The wrong kind of open. */
	mcb_st(MCAPI_ENOT_CONNECTED, mcapi_open_sclchan_recv_i(&h, a, &r, &st));
	mcb_connect_scl(a, b);
	mcb_wait(r, MCAPI_EDIR);
	mcb_st(MCAPI_ENOT_OPEN, mcapi_sclchan_recv_close_i(h, &r, &st));
	mcb_ok(mcapi_open_sclchan_send_i(&h, a, &r, &st));
	mcb_final();
}

Test(mcapi_basic_chan, packets)
{
	mcapi_request_t r, s[130];
	struct mcb_chan c;
	char out[300];
	size_t size;
	void *p, *q;

	mcb_init(0);
	mcb_pkt(&c);
	mcb_st(MCAPI_EPACK_LIMIT,
	       mcapi_pktchan_send(c.send, out, (size_t)MCAPI_MAX_PACKET_SIZE + 1, &st));
	mcb_st(MCAPI_EPARAM, mcapi_pktchan_send(c.send, NULL, 1, &st));
	mcb_st(MCAPI_EPARAM, mcapi_pktchan_send_i(c.send, out, 1, NULL, &st));
	mcb_st(MCAPI_EPARAM, mcapi_pktchan_recv(c.recv, NULL, &size, &st));
	mcb_st(MCAPI_EPARAM, mcapi_pktchan_recv_i(c.recv, &p, NULL, &st));
	mcb_st(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(out, &st));
	mcb_st(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(NULL, &st));
	/* Non-blocking sends wait for a buffer. */
	twt_fill(out, sizeof(out), 3);
	for (int i = 0; i < 130; i++)
		mcb_ok(mcapi_pktchan_send_i(c.send, out, (size_t)i, &s[i], &st));
	mcb_pending(s[128]);
	mcb_ok(mcb_eq(mcapi_pktchan_available(c.recv, &st), 128));
	mcb_ok(mcapi_pktchan_recv(c.recv, &p, &size, &st));
	mcb_eq(size, 0);
	mcb_wait(s[128], MCAPI_SUCCESS);
	mcb_pending(s[129]);
	mcb_ok(mcapi_cancel(&s[129], &st));
	mcb_wait(s[129], MCAPI_EREQ_CANCELED);
	mcb_ok(mcapi_pktchan_free(p, &st));
	for (size_t i = 1; i < 129; i++) {
		mcb_ok(mcapi_pktchan_recv_i(c.recv, &q, &r, &st));
		mcb_eq(mcb_wait(r, MCAPI_SUCCESS), i);
		mcb_eq(twt_check(q, i, 3), i);
		mcb_ok(mcapi_pktchan_free(q, &st));
		mcb_st(MCAPI_ENOT_VALID_BUF, mcapi_pktchan_free(q, &st));
	}
	/* The receiver drains what came before the sender closed. */
	mcb_ok(mcapi_pktchan_send(c.send, "end", 4, &st));
	mcb_ok(mcapi_pktchan_send_close_i(c.send, &r, &st));
	mcb_ok(mcb_eq(mcapi_pktchan_available(c.recv, &st), 1));
	mcb_ok(mcapi_pktchan_recv(c.recv, &p, &size, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv(c.recv, &q, &size, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv_i(c.recv, &q, &r, &st));
	mcb_ok(mcapi_pktchan_recv_close_i(c.recv, &r, &st));
	mcb_check(strcmp(p, "end") == 0);
	mcb_ok(mcapi_pktchan_free(p, &st));
	mcb_final();
}

Test(mcapi_basic_chan, receiver_closes)
{
	mcapi_request_t r, s[129];
	struct mcb_chan c;

	mcb_init(0);
	mcb_pkt(&c);
	for (int i = 0; i < 129; i++)
		mcb_ok(mcapi_pktchan_send_i(c.send, "x", 1, &s[i], &st));
	mcb_ok(mcapi_pktchan_recv_close_i(c.recv, &r, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(s[128], MCAPI_ENOT_HANDLE);
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(c.send, "x", 1, &st));
	mcb_ok(mcapi_pktchan_send_close_i(c.send, &r, &st));
	mcb_connect_pkt(c.b, c.a);
	mcb_final();
}

Test(mcapi_basic_chan, scalars)
{
	struct mcb_chan c;
	mcapi_request_t r;
	uint32_t g;

	mcb_init(0);
	mcb_scl(&c);
	for (uint64_t i = 0; i < 5000; i++) {
		uint64_t v = i * 0x0123456789abcdefull;

		mcb_ok(mcapi_sclchan_send_uint64(c.send, v, &st));
		mcb_ok(mcapi_sclchan_send_uint32(c.send, (uint32_t)v, &st));
		mcb_ok(mcapi_sclchan_send_uint16(c.send, (uint16_t)v, &st));
		mcb_ok(mcapi_sclchan_send_uint8(c.send, (uint8_t)v, &st));
		mcb_ok(mcb_eq(mcapi_sclchan_available(c.recv, &st), 4));
		mcb_st(MCAPI_ESCL_SIZE, mcapi_sclchan_recv_uint8(c.recv, &st));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint64(c.recv, &st), v));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint32(c.recv, &st), (uint32_t)v));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint16(c.recv, &st), (uint16_t)v));
		mcb_st(MCAPI_ESCL_SIZE, mcapi_sclchan_recv_uint64(c.recv, &st));
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint8(c.recv, &st), (uint8_t)v));
	}
	mcb_ok(mcb_eq(mcapi_sclchan_available(c.recv, &st), 0));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint8(c.recv, 1, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(c.send, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(0, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_available(0xffffffff, &st));
	mcb_ok(mcapi_sclchan_send_uint8(c.send, 9, &st));
	mcb_ok(mcapi_sclchan_send_close_i(c.send, &r, &st));
	mcb_ok(mcb_eq(mcapi_sclchan_available(c.recv, &st), 1));
	mcb_ok(mcb_eq(mcapi_sclchan_recv_uint8(c.recv, &st), 9));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(c.recv, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_available(c.recv, &st));
	mcb_ok(mcapi_sclchan_recv_close_i(c.recv, &r, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_close_i(c.recv, &r, &st));
	/* The receiver closes first. */
	mcb_scl(&c);
	mcb_ok(mcapi_sclchan_send_uint8(c.send, 9, &st));
	g = c.recv;
	mcb_ok(mcapi_sclchan_recv_close_i(g, &r, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint8(c.send, 9, &st));
	mcb_ok(mcapi_sclchan_send_close_i(c.send, &r, &st));
	mcb_final();
}

/* Full and empty rings: both ends block in turn. */
static _Atomic(pid_t) sender_tid, receiver_tid;

static void *sender(void *arg)
{
	uint32_t handle = *(uint32_t *)arg;

	atomic_store(&sender_tid, gettid());
	for (uint32_t i = 0; i < 100000; i++) {
		if (i == 50000)
			twt_await_asleep(&receiver_tid);
		mcb_ok(mcapi_sclchan_send_uint32(handle, i, &st));
	}
	return NULL;
}

Test(mcapi_basic_chan, scalars_block)
{
	struct mcb_chan c;
	pthread_t t;

	mcb_init(0);
	mcb_scl(&c);
	atomic_store(&receiver_tid, gettid());
	pthread_create(&t, NULL, sender, &c.send);
	twt_await_asleep(&sender_tid);
	for (uint32_t i = 0; i < 100000; i++)
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint32(c.recv, &st), i));
	pthread_join(t, NULL);
	mcb_final();
}

struct blocked {
	struct mcb_chan c;
	_Atomic(pid_t) tid;
};

static void *blocked_recv(void *arg)
{
	struct blocked *b = arg;
	size_t size;
	void *p;

	atomic_store(&b->tid, gettid());
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv(b->c.recv, &p, &size, &st));
	return NULL;
}

static void *blocked_scalar(void *arg)
{
	struct blocked *b = arg;

	atomic_store(&b->tid, gettid());
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(b->c.recv, &st));
	return NULL;
}

/* Closing and finalizing release whoever is blocked. */
Test(mcapi_basic_chan, blocked)
{
	static struct blocked b[4];
	mcapi_request_t r;
	pthread_t t[4];

	mcb_init(0);
	for (int i = 0; i < 4; i++) {
		(i & 1 ? mcb_scl : mcb_pkt)(&b[i].c);
		pthread_create(&t[i], NULL, i & 1 ? blocked_scalar : blocked_recv, &b[i]);
	}
	for (int i = 0; i < 4; i++)
		twt_await_asleep(&b[i].tid);
	mcb_ok(mcapi_pktchan_send_close_i(b[0].c.send, &r, &st));
	mcb_ok(mcapi_sclchan_send_close_i(b[1].c.send, &r, &st));
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	mcb_final();
	pthread_join(t[2], NULL);
	pthread_join(t[3], NULL);
}
