/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels of both kinds behind one set of calls. */
#include "mcapi/mcapit.h"

static void pkt_send(uint32_t h, uint64_t value, mcapi_status_t *st)
{
	mcapi_pktchan_send(h, &value, sizeof(value), st);
}

static uint64_t pkt_recv(uint32_t h, mcapi_status_t *st)
{
	mcapi_status_t freed = MCAPI_ERROR;
	void *buffer = NULL;
	uint64_t value = 0;
	size_t size = 77;

	if (!st) {
		mcapi_pktchan_recv(h, &buffer, &size, st);
		return 0;
	}
	mcapi_pktchan_recv(h, &buffer, &size, st);
	if (*st != MCAPI_SUCCESS)
		return 0;
	twc_eq(size, sizeof(value));
	memcpy(&value, buffer, sizeof(value));
	mcapi_pktchan_free(buffer, &freed);
	twc_eq(freed, MCAPI_SUCCESS);
	return value;
}

const struct mct_kind mct_kinds[3] = {
	{"packet", MCAPI_PKT, MCAPI_SCL, mcapi_connect_pktchan_i, mcapi_open_pktchan_recv_i,
	 mcapi_open_pktchan_send_i, mcapi_pktchan_recv_close_i, mcapi_pktchan_send_close_i,
	 mcapi_pktchan_available, pkt_send, pkt_recv, "mcapi_connect_pktchan_i()",
	 "mcapi_open_pktchan_recv_i()", "mcapi_open_pktchan_send_i()",
	 "mcapi_pktchan_recv_close_i()", "mcapi_pktchan_send_close_i()",
	 "mcapi_pktchan_available()", "mcapi_pktchan_send()", "mcapi_pktchan_recv()"},
	{"scalar", MCAPI_SCL, MCAPI_PKT, mcapi_connect_sclchan_i, mcapi_open_sclchan_recv_i,
	 mcapi_open_sclchan_send_i, mcapi_sclchan_recv_close_i, mcapi_sclchan_send_close_i,
	 mcapi_sclchan_available, mcapi_sclchan_send_uint64, mcapi_sclchan_recv_uint64,
	 "mcapi_connect_sclchan_i()", "mcapi_open_sclchan_recv_i()", "mcapi_open_sclchan_send_i()",
	 "mcapi_sclchan_recv_close_i()", "mcapi_sclchan_send_close_i()",
	 "mcapi_sclchan_available()", "mcapi_sclchan_send_uint64()", "mcapi_sclchan_recv_uint64()"},
	{"packet", MCAPI_PKT, MCAPI_SCL, mcapi_connect_pktchan_i, mcapi_open_pktchan_recv_i,
	 mcapi_open_pktchan_send_i, mcapi_packetchan_recv_close_i, mcapi_packetchan_send_close_i,
	 mcapi_pktchan_available, pkt_send, pkt_recv, "mcapi_connect_pktchan_i()",
	 "mcapi_open_pktchan_recv_i()", "mcapi_open_pktchan_send_i()",
	 "mcapi_packetchan_recv_close_i()", "mcapi_packetchan_send_close_i()",
	 "mcapi_pktchan_available()", "mcapi_pktchan_send()", "mcapi_pktchan_recv()"},
};

void mct_connect(const struct mct_kind *k, mcapi_endpoint_t s, mcapi_endpoint_t r)
{
	mcapi_request_t req = 0;

	mct_kok(k, connect, s, r, &req);
	mct_done(&req);
}

mcapi_request_t mct_open_recv(const struct mct_kind *k, mcapi_endpoint_t ep, uint32_t *h)
{
	mcapi_request_t req = 0;

	mct_kok(k, open_recv, h, ep, &req);
	return req;
}

mcapi_request_t mct_open_send(const struct mct_kind *k, mcapi_endpoint_t ep, uint32_t *h)
{
	mcapi_request_t req = 0;

	mct_kok(k, open_send, h, ep, &req);
	return req;
}

void mct_close_recv(const struct mct_kind *k, uint32_t h)
{
	mcapi_request_t req = 0;

	mct_kok(k, close_recv, h, &req);
	mct_done(&req);
}

void mct_close_send(const struct mct_kind *k, uint32_t h)
{
	mcapi_request_t req = 0;

	mct_kok(k, close_send, h, &req);
	mct_done(&req);
}

void mct_put(const struct mct_kind *k, uint32_t h, uint64_t value)
{
	mct_kok(k, send, h, value);
}

uint64_t mct_take(const struct mct_kind *k, uint32_t h)
{
	uint64_t value;

	mct_status = MCAPI_ERROR;
	value = k->recv(h, ST);
	mct_is_at(__FILE__, __LINE__, k->recv_name, MCAPI_SUCCESS);
	return value;
}

void mct_queued(const struct mct_kind *k, uint32_t h, unsigned n)
{
	double end = twt_now() + MCT_LONG / 1000.;
	unsigned got;

	for (;;) {
		mct_status = MCAPI_ERROR;
		got = k->available(h, ST);
		mct_is_at(__FILE__, __LINE__, k->available_name, MCAPI_SUCCESS);
		if (got >= n || twt_now() > end)
			break;
		twc_sleep(1);
	}
	twc_eq(got, n);
}

void mct_chan_reopen(struct mct_chan *c)
{
	mcapi_request_t rx, tx;

	mct_connect(c->k, c->s, c->r);
	rx = mct_open_recv(c->k, c->r, &c->rx);
	tx = mct_open_send(c->k, c->s, &c->tx);
	mct_done(&rx);
	mct_done(&tx);
}

void mct_chan(struct mct_chan *c, const struct mct_kind *k)
{
	c->k = k;
	c->s = mct_create(MCAPI_PORT_ANY);
	c->r = mct_create(MCAPI_PORT_ANY);
	mct_chan_reopen(c);
}

void mct_chan_close(struct mct_chan *c)
{
	mct_close_send(c->k, c->tx);
	mct_close_recv(c->k, c->rx);
}

void mct_chan_end(struct mct_chan *c)
{
	mct_chan_close(c);
	mct_delete(c->s);
	mct_delete(c->r);
}

uint32_t mct_open_between(struct mct_me *me, const struct mct_kind *k)
{
	mcapi_endpoint_t mine = mct_create(1);
	mcapi_request_t req;
	uint32_t h = 0;

	if (me->rank == 0)
		mct_connect(k, mct_get(1, 1), mine);
	mct_meet(me);
	req = me->rank ? mct_open_send(k, mine, &h) : mct_open_recv(k, mine, &h);
	mct_done(&req);
	return h;
}

void mct_close_between(struct mct_me *me, const struct mct_kind *k, uint32_t h)
{
	mct_meet(me);
	if (me->rank)
		mct_close_send(k, h);
	else
		mct_close_recv(k, h);
	mct_delete(mct_get((mcapi_node_t)me->rank, 1));
}
