/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels between nodes in threads and processes, and nodes that go away. */
#include <signal.h>
#include <sys/wait.h>

#include "mcapi/basic/basic.h"

TestSuite(mcapi_basic_procs, .init = mcb_job, .timeout = MCB_TIMEOUT);

enum { PACKETS = 3000, SCALARS = 300000 };

static size_t length(unsigned i)
{
	return i % 100 == 7 ? 300000 : i * 37 % 3000;
}

static void source(struct mcb_other *o)
{
	mcapi_endpoint_t a = mcb_endpoint(1), b = mcb_endpoint(2);
	char *buf = malloc(300000);
	mcapi_request_t r, q;
	uint32_t pkt, scl;

	(void)o;
	twt_fill(buf, 300000, 1);
	mcb_connect_pkt(a, mcb_get(0, 1));
	mcb_connect_scl(b, mcb_get(0, 2));
	mcb_ok(mcapi_open_pktchan_send_i(&pkt, a, &r, &st));
	mcb_ok(mcapi_open_sclchan_send_i(&scl, b, &q, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(q, MCAPI_SUCCESS);
	for (unsigned i = 0; i < PACKETS; i++) {
		if (i & 1) {
			mcb_ok(do mcapi_pktchan_send(pkt, buf, length(i), &st);
			       while (st == MCAPI_ENO_BUFFER));
			continue;
		}
		mcb_ok(mcapi_pktchan_send_i(pkt, buf, length(i), &r, &st));
		if (i % 3 == 0)
			mcb_wait(r, MCAPI_SUCCESS);
	}
	for (uint64_t i = 0; i < SCALARS; i++)
		mcb_ok(mcapi_sclchan_send_uint64(scl, i, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_hear(o->fd);
	mcb_ok(mcapi_pktchan_send_close_i(pkt, &r, &st));
	mcb_ok(mcapi_sclchan_send_close_i(scl, &r, &st));
	mcb_hear(o->fd);
	free(buf);
}

static void channels(int threaded)
{
	mcapi_endpoint_t a, b;
	struct mcb_other o;
	mcapi_request_t r, q;
	uint32_t pkt, scl;
	size_t size;
	void *p;

	mcb_start(&o, threaded, 1, source);
	mcb_init(0);
	a = mcb_endpoint(1);
	b = mcb_endpoint(2);
	mcapi_open_pktchan_recv_i(&pkt, a, &r, &(mcapi_status_t){0});
	mcapi_open_sclchan_recv_i(&scl, b, &q, &(mcapi_status_t){0});
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(q, MCAPI_SUCCESS);
	for (unsigned i = 0; i < PACKETS; i++) {
		mcb_ok(mcapi_pktchan_recv(pkt, &p, &size, &st));
		mcb_eq(size, length(i));
		mcb_eq(twt_check(p, size, 1), size);
		mcb_ok(mcapi_pktchan_free(p, &st));
	}
	for (uint64_t i = 0; i < SCALARS; i++)
		mcb_ok(mcb_eq(mcapi_sclchan_recv_uint64(scl, &st), i));
	mcb_tell(o.fd);
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv(pkt, &p, &size, &st));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint64(scl, &st));
	mcb_ok(mcapi_pktchan_recv_close_i(pkt, &r, &st));
	mcb_ok(mcapi_sclchan_recv_close_i(scl, &r, &st));
	mcb_tell(o.fd);
	mcb_end(&o);
	mcb_final();
}

Test(mcapi_basic_procs, channels_threads)
{
	channels(1);
}

Test(mcapi_basic_procs, channels_processes)
{
	channels(0);
}

/* Both ends compute while a third node connects them (7.1). */
static void idle(struct mcb_other *o)
{
	uint32_t status = 0;

	mcb_endpoint(1);
	mcb_hear(o->fd);
	status = mcb_attr(o->node << 16 | 1, MCAPI_ATTR_ENDP_STATUS);
	mcb_check(status & MCAPI_CONNECTED);
	mcb_tell(o->fd);
	mcb_hear(o->fd);
}

static void third_party(int threaded)
{
	struct mcb_other o[2];
	mcapi_endpoint_t a, b;
	mcapi_request_t r;

	mcb_start(&o[0], threaded, 1, idle);
	mcb_start(&o[1], threaded, 2, idle);
	mcb_init(0);
	a = mcb_get(1, 1);
	b = mcb_get(2, 1);
	mcb_connect_pkt(a, b);
	mcb_ok(mcapi_connect_pktchan_i(b, a, &r, &st));
	mcb_wait(r, MCAPI_ECONNECTED);
	mcb_check(mcb_attr(a, MCAPI_ATTR_ENDP_STATUS) & MCAPI_SEND);
	mcb_check(mcb_attr(b, MCAPI_ATTR_ENDP_STATUS) & MCAPI_RECEIVE);
	for (int i = 0; i < 2; i++) {
		mcb_tell(o[i].fd);
		mcb_hear(o[i].fd);
	}
	for (int i = 0; i < 2; i++) {
		mcb_tell(o[i].fd);
		mcb_end(&o[i]);
	}
	mcb_final();
}

Test(mcapi_basic_procs, third_party_threads)
{
	third_party(1);
}

Test(mcapi_basic_procs, third_party_processes)
{
	third_party(0);
}

/* A get comes first, the node and its endpoint later. */
static void late(struct mcb_other *o)
{
	mcb_hear(o->fd);
	mcb_endpoint(5);
	mcb_hear(o->fd);
}

Test(mcapi_basic_procs, get_before_node)
{
	mcapi_endpoint_t e = 0;
	struct mcb_other o;
	mcapi_request_t r;

	mcb_init(0);
	mcb_ok(mcapi_get_endpoint_i(1, 5, &e, &r, &st));
	mcb_pending(r);
	mcb_start(&o, 1, 1, late);
	usleep(20000);
	mcb_pending(r);
	mcb_tell(o.fd);
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_eq(e, 1 << 16 | 5);
	mcb_tell(o.fd);
	mcb_end(&o);
	/* The node is gone, and its endpoint with it. */
	mcb_ok(mcapi_get_endpoint_i(1, 5, &e, &r, &st));
	mcb_pending(r);
	mcb_final();
}

/* A receiver that is killed: the sender learns it. */
static void victim(struct mcb_other *o)
{
	mcapi_endpoint_t a = mcb_endpoint(1), b = mcb_endpoint(2);
	mcapi_request_t r, q;
	uint32_t pkt, scl;

	mcapi_open_pktchan_recv_i(&pkt, a, &r, &(mcapi_status_t){0});
	mcapi_open_sclchan_send_i(&scl, b, &q, &(mcapi_status_t){0});
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(q, MCAPI_SUCCESS);
	mcb_ok(mcapi_sclchan_send_uint16(scl, 77, &st));
	mcb_tell(o->fd);
	pause();
}

Test(mcapi_basic_procs, killed)
{
	mcapi_request_t r, q, s[200];
	mcapi_endpoint_t a, b;
	struct mcb_other o;
	uint32_t pkt, scl;

	mcb_start(&o, 0, 1, victim);
	mcb_init(0);
	a = mcb_endpoint(1);
	b = mcb_endpoint(2);
	mcb_connect_pkt(a, mcb_get(1, 1));
	mcb_connect_scl(mcb_get(1, 2), b);
	mcb_ok(mcapi_open_pktchan_send_i(&pkt, a, &r, &st));
	mcb_ok(mcapi_open_sclchan_recv_i(&scl, b, &q, &st));
	mcb_wait(r, MCAPI_SUCCESS);
	mcb_wait(q, MCAPI_SUCCESS);
	for (int i = 0; i < 200; i++)
		mcb_ok(mcapi_pktchan_send_i(pkt, "x", 1, &s[i], &st));
	mcb_hear(o.fd);
	kill(o.child.pid, SIGKILL);
	mcb_wait(s[199], MCAPI_ENOT_HANDLE);
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_pktchan_send(pkt, "x", 1, &st));
	mcb_ok(mcb_eq(mcapi_sclchan_recv_uint16(scl, &st), 77));
	mcb_st(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint16(scl, &st));
	mcb_ok(mcapi_msg_send(a, 1 << 16 | 1, "x", 1, 0, &st));
	mcb_ok(mcapi_pktchan_send_close_i(pkt, &r, &st));
	mcb_ok(mcapi_sclchan_recv_close_i(scl, &r, &st));
	twt_join(&o.child, TWT_LONG);
	mcb_final();
}

/* Sixty-four nodes, each of which sends to all. */
enum { NODES = 64 };

static void among_many(struct mcb_other *o)
{
	mcapi_endpoint_t e = mcb_endpoint(1);
	int from[NODES] = {0}, got;
	size_t size;

	for (unsigned i = 0; i < NODES; i++) {
		int me = (int)o->node;

		mcb_ok(mcapi_msg_send(e, mcb_get(i, 1), &me, sizeof(me), 0, &st));
	}
	for (int i = 0; i < NODES; i++) {
		mcb_ok(mcapi_msg_recv(e, &got, sizeof(got), &size, &st));
		mcb_check(got >= 0 && got < NODES && !from[got]++);
	}
	mcb_tell(o->fd);
	mcb_hear(o->fd);
}

static void many(int threaded)
{
	static struct mcb_other o[NODES];

	for (unsigned i = 0; i < NODES; i++)
		mcb_start(&o[i], threaded, i, among_many);
	for (unsigned i = 0; i < NODES; i++)
		mcb_hear(o[i].fd);
	for (unsigned i = 0; i < NODES; i++)
		mcb_tell(o[i].fd);
	for (unsigned i = 0; i < NODES; i++)
		mcb_end(&o[i]);
}

Test(mcapi_basic_procs, many_threads)
{
	many(1);
}

Test(mcapi_basic_procs, many_processes)
{
	many(0);
}
