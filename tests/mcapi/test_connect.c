/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.1 to 4.4.3 and 4.5.1 to 4.5.3: connect and open, both kinds of channel. */
#include "mcapi/mcapit.h"

TestSuite(mcapi_connect, .init = twc_job, .timeout = MCT_TIMEOUT);

/* Both ends are here, so that the call itself can tell. */
static void refused(const struct mct_kind *k, mcapi_status_t want, mcapi_endpoint_t s,
		    mcapi_endpoint_t r)
{
	mcapi_request_t req = 0;

	mct_k(want, k, connect, s, r, &req);
}

/* The call may not know of ends that are elsewhere; then its request tells. */
static void refused_there(const struct mct_kind *k, mcapi_status_t want, mcapi_endpoint_t s,
			  mcapi_endpoint_t r)
{
	mcapi_request_t req = 0;

	mct_status = MCAPI_ERROR;
	k->connect(s, r, &req, ST);
	if (mct_status == MCAPI_SUCCESS)
		mct_ends(&req, want);
	else
		mct_is_at(__FILE__, __LINE__, k->connect_name, want);
}

Test(mcapi_connect, not_an_endpoint, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	mcapi_endpoint_t a, gone;
	uint32_t h = 0;

	mct_up(1);
	a = mct_create(1);
	gone = mct_create(2);
	mct_delete(gone);
	mct_each_kind(k)
	{
		refused(k, MCAPI_ENOT_ENDP, a, gone);
		refused(k, MCAPI_ENOT_ENDP, gone, a);
		refused(k, MCAPI_ENOT_ENDP, gone, gone);
		refused(k, MCAPI_ENOT_ENDP, a, 0xffffffff);
		refused(k, MCAPI_ENOT_ENDP, 0xffffffff, a);
		mct_k(MCAPI_ENOT_ENDP, k, open_recv, &h, gone, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_send, &h, gone, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_recv, &h, 0xffffffff, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_send, &h, 0xffffffff, &req);
	}
	twc_eq(mct_attr(a, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
	mct_delete(a);
	mct_down();
}

Test(mcapi_connect, null_arguments, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		mcapi_endpoint_t s = mct_create(1), r = mct_create(2);
		struct mct_chan c = {k, s, r, 0, 0};
		mcapi_request_t req = 0, tx;
		uint32_t h = 0;

		mct_k(MCAPI_EPARAM, k, connect, s, r, MCAPI_NULL);
		mct_knull(k, connect, s, r, &req);
		twc_eq(mct_attr(s, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
		mct_connect(k, s, r);
		mct_k(MCAPI_EPARAM, k, open_recv, MCAPI_NULL, r, &req);
		mct_k(MCAPI_EPARAM, k, open_recv, &h, r, MCAPI_NULL);
		mct_knull(k, open_recv, &h, r, &req);
		mct_k(MCAPI_EPARAM, k, open_send, MCAPI_NULL, s, &req);
		mct_k(MCAPI_EPARAM, k, open_send, &h, s, MCAPI_NULL);
		mct_knull(k, open_send, &h, s, &req);
		/* Neither end is open. */
		req = mct_open_recv(k, r, &c.rx);
		mct_pending(&req);
		tx = mct_open_send(k, s, &c.tx);
		mct_done(&req);
		mct_done(&tx);
		mct_put(k, c.tx, 4);
		twc_eq(mct_take(k, c.rx), 4);
		mct_chan_end(&c);
	}
	mct_down();
}

/* One channel for each endpoint (4.4.1). */
Test(mcapi_connect, already_connected, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		struct mct_chan c;
		mcapi_endpoint_t other = mct_create(9);

		c = (struct mct_chan){k, mct_create(1), mct_create(2), 0, 0};
		mct_connect(k, c.s, c.r);
		for (int round = 0; round < 2; round++) {
			mct_each_kind(second)
			{
				refused(second, MCAPI_ECONNECTED, c.s, c.r);
				refused(second, MCAPI_ECONNECTED, c.r, c.s);
				refused(second, MCAPI_ECONNECTED, c.s, other);
				refused(second, MCAPI_ECONNECTED, other, c.s);
				refused(second, MCAPI_ECONNECTED, c.r, other);
				refused(second, MCAPI_ECONNECTED, other, c.r);
			}
			if (round == 0) {
				mcapi_request_t rx = mct_open_recv(k, c.r, &c.rx);
				mcapi_request_t tx = mct_open_send(k, c.s, &c.tx);

				mct_done(&rx);
				mct_done(&tx);
			}
		}
		twc_eq(mct_attr(other, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
		mct_put(k, c.tx, 31);
		twc_eq(mct_take(k, c.rx), 31);
		mct_chan_end(&c);
		mct_delete(other);
	}
	mct_down();
}

Test(mcapi_connect, attributes_must_agree, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	mct_set_attr(b, MCAPI_ATTR_ENDP_PRIO, 5);
	mct_each_kind(k)
	{
		refused(k, MCAPI_EATTR_INCOMP, a, b);
		refused(k, MCAPI_EATTR_INCOMP, b, a);
	}
	mct_set_attr(a, MCAPI_ATTR_ENDP_PRIO, 5);
	mct_connect(&mct_kinds[MCT_SCL], a, b);
	mct_delete(a);
	mct_delete(b);
	mct_down();
}

/* Elsewhere, connected by a node that has neither end. */
MCT_BOTH(mcapi_connect, refusals_from_elsewhere, 3)
{
	mcapi_endpoint_t mine[3];

	for (int i = 0; i < 3; i++)
		mine[i] = mct_create(i);
	if (me->rank == 1)
		mct_set_attr(mine[1], MCAPI_ATTR_ENDP_PRIO, 4);
	mct_meet(me);
	if (me->rank == 2)
		mct_each_kind(k)
		{
			mcapi_endpoint_t at = mct_get(0, k->flag == MCAPI_PKT ? 0 : 2);
			mcapi_endpoint_t to = mct_get(1, k->flag == MCAPI_PKT ? 0 : 2);

			refused_there(k, MCAPI_EATTR_INCOMP, at, mct_get(1, 1));
			refused_there(k, MCAPI_EATTR_INCOMP, mct_get(1, 1), at);
			refused_there(k, MCAPI_ENOT_ENDP, at, to + 77);
			refused_there(k, MCAPI_ENOT_ENDP, at + 77, to);
			/* The refusals left nothing. */
			mct_connect(k, at, to);
			refused_there(k, MCAPI_ECONNECTED, at, to);
			refused_there(k, MCAPI_ECONNECTED, to, at);
			refused_there(k, MCAPI_ECONNECTED, at, mct_get(1, 1));
			refused_there(k, MCAPI_ECONNECTED, mct_get(0, 1), to);
			refused_there(k, MCAPI_ECONNECTED, mine[0], to);
			refused_there(k, MCAPI_ECONNECTED, at, mine[0]);
		}
	mct_meet(me);
	if (me->rank == 2)
		for (int i = 0; i < 3; i++)
			twc_eq(mct_attr(mine[i], MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
	twc_eq(mct_attr(mine[1], MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
	mct_meet(me);
}

Test(mcapi_connect, type_and_direction, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		const struct mct_kind *wrong = k == mct_kinds ? k + 1 : mct_kinds;
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_request_t req = 0, rx, tx;
		uint32_t h = 0;

		mct_connect(k, c.s, c.r);
		for (int opened = 0; opened < 2; opened++) {
			mct_k(MCAPI_ECHAN_TYPE, wrong, open_recv, &h, c.r, &req);
			mct_k(MCAPI_ECHAN_TYPE, wrong, open_send, &h, c.s, &req);
			mct_k(MCAPI_EDIR, k, open_send, &h, c.r, &req);
			mct_k(MCAPI_EDIR, k, open_recv, &h, c.s, &req);
			if (opened)
				break;
			rx = mct_open_recv(k, c.r, &c.rx);
			tx = mct_open_send(k, c.s, &c.tx);
			mct_done(&rx);
			mct_done(&tx);
		}
		/* Once only. */
		mct_k(MCAPI_ECONNECTED, k, open_recv, &h, c.r, &req);
		mct_k(MCAPI_ECONNECTED, k, open_send, &h, c.s, &req);
		mct_put(k, c.tx, 8);
		twc_eq(mct_take(k, c.rx), 8);
		mct_chan_end(&c);
	}
	mct_down();
}

/* The same of an end that is not connected yet but being opened. */
Test(mcapi_connect, open_before_connect_refuses, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		const struct mct_kind *wrong = &mct_kinds[k->flag == MCAPI_PKT ? MCT_SCL : MCT_PKT];
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_request_t rx = 0, tx = 0, req = 0;
		uint32_t h = 0;

		mct_k(MCAPI_ENOT_CONNECTED, k, open_recv, &c.rx, c.r, &rx);
		mct_k(MCAPI_ENOT_CONNECTED, k, open_send, &c.tx, c.s, &tx);
		for (int connected = 0; connected < 2; connected++) {
			mct_k(MCAPI_ECHAN_TYPE, wrong, open_recv, &h, c.r, &req);
			mct_k(MCAPI_ECHAN_TYPE, wrong, open_send, &h, c.s, &req);
			mct_k(MCAPI_EDIR, k, open_send, &h, c.r, &req);
			mct_k(MCAPI_EDIR, k, open_recv, &h, c.s, &req);
			mct_k(MCAPI_ECONNECTED, k, open_recv, &h, c.r, &req);
			mct_k(MCAPI_ECONNECTED, k, open_send, &h, c.s, &req);
			if (!connected)
				mct_connect(k, c.s, c.r);
		}
		mct_done(&rx);
		mct_done(&tx);
		mct_put(k, c.tx, 9);
		twc_eq(mct_take(k, c.rx), 9);
		mct_chan_end(&c);
	}
	mct_down();
}

/* An open is complete when both ends have opened (4.4). */
Test(mcapi_connect, opens_wait_for_each_other, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k) for (int first = 0; first < 2; first++)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_request_t rx = 0, tx = 0, *one = first ? &rx : &tx;

		mct_connect(k, c.s, c.r);
		for (int i = 0; i < 2; i++) {
			if (i == first)
				tx = mct_open_send(k, c.s, &c.tx);
			else
				rx = mct_open_recv(k, c.r, &c.rx);
			if (i == 0)
				mct_pending(one);
		}
		mct_done(&tx);
		mct_done(&rx);
		mct_put(k, c.tx, 77);
		twc_eq(mct_take(k, c.rx), 77);
		mct_chan_end(&c);
	}
	mct_down();
}

/* Programs open first and connect later: told so, yet it works. */
Test(mcapi_connect, open_before_connect, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_request_t rx = 0, tx = 0;

		mct_k(MCAPI_ENOT_CONNECTED, k, open_recv, &c.rx, c.r, &rx);
		mct_k(MCAPI_ENOT_CONNECTED, k, open_send, &c.tx, c.s, &tx);
		mct_pending(&rx);
		mct_pending(&tx);
		mct_connect(k, c.s, c.r);
		mct_done(&rx);
		mct_done(&tx);
		mct_put(k, c.tx, 13);
		twc_eq(mct_take(k, c.rx), 13);
		mct_chan_end(&c);
	}
	mct_down();
}

/* The same with everybody elsewhere. */
MCT_BOTH(mcapi_connect, open_before_connect_elsewhere, 3)
{
	mct_each_kind(k)
	{
		mcapi_endpoint_t mine = mct_create(k->flag == MCAPI_PKT ? 1 : 2);
		mcapi_request_t req = 0;
		uint32_t h = 0;

		if (me->rank == 0)
			mct_k(MCAPI_ENOT_CONNECTED, k, open_send, &h, mine, &req);
		if (me->rank == 1)
			mct_k(MCAPI_ENOT_CONNECTED, k, open_recv, &h, mine, &req);
		mct_meet(me);
		if (me->rank == 2)
			mct_connect(k, mct_get(0, k->flag == MCAPI_PKT ? 1 : 2),
				    mct_get(1, k->flag == MCAPI_PKT ? 1 : 2));
		else
			mct_done(&req);
		if (me->rank == 0) {
			mct_put(k, h, 55);
			mct_close_send(k, h);
		}
		if (me->rank == 1) {
			twc_eq(mct_take(k, h), 55);
			mct_close_recv(k, h);
		}
		mct_meet(me);
		mct_delete(mine);
	}
}

/* An end belongs to its node. */
MCT_BOTH(mcapi_connect, open_of_another_node, 2)
{
	mct_each_kind(k)
	{
		int port = k->flag == MCAPI_PKT ? 1 : 2;
		mcapi_endpoint_t mine = mct_create(port);
		mcapi_endpoint_t other = mct_get(1 - (mcapi_node_t)me->rank, port);
		mcapi_request_t req = 0;
		uint32_t h = 0;

		if (me->rank == 0)
			mct_connect(k, mine, other);
		mct_meet(me);
		mct_k(MCAPI_ENOT_ENDP, k, open_send, &h, other, &req);
		mct_k(MCAPI_ENOT_ENDP, k, open_recv, &h, other, &req);
		mct_meet(me);
		if (me->rank == 0)
			req = mct_open_send(k, mine, &h);
		else
			req = mct_open_recv(k, mine, &h);
		mct_done(&req);
		if (me->rank == 0)
			mct_close_send(k, h);
		else
			mct_close_recv(k, h);
		mct_meet(me);
		mct_delete(mine);
	}
}

/* By the sender, by the receiver, by a third party; ends that compute meanwhile. */
MCT_BOTH(mcapi_connect, by_anybody, 3)
{
	for (int by = 0; by < 3; by++)
		mct_each_kind(k)
		{
			mcapi_endpoint_t mine = mct_create(MCAPI_PORT_ANY);
			mcapi_request_t req = 0;
			uint32_t h = 0;

			atomic_store(&me->shared->word[me->rank], mine);
			mct_meet(me);
			/* Only this one calls anything; the others are inside mct_meet(). */
			if (me->rank == by)
				mct_connect(k, (mcapi_endpoint_t)atomic_load(&me->shared->word[0]),
					    (mcapi_endpoint_t)atomic_load(&me->shared->word[1]));
			mct_meet(me);
			if (me->rank == 0) {
				req = mct_open_send(k, mine, &h);
				mct_done(&req);
				for (uint64_t i = 0; i < 100; i++)
					mct_put(k, h, i);
				mct_close_send(k, h);
			} else if (me->rank == 1) {
				req = mct_open_recv(k, mine, &h);
				mct_done(&req);
				for (uint64_t i = 0; i < 100; i++)
					twc_eq(mct_take(k, h), i);
				mct_close_recv(k, h);
			}
			mct_meet(me);
			mct_delete(mine);
			mct_meet(me);
		}
}

/* The same endpoints again and again, in both directions and as both kinds. */
MCT_BOTH(mcapi_connect, again_and_again, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	mcapi_request_t req;
	uint32_t h = 0;

	for (int i = 0; i < 40; i++) {
		const struct mct_kind *k = &mct_kinds[i / 2 % 2];
		int sends = i % 2 == me->rank;

		if (i / 4 % 2 == me->rank)
			mct_connect(k, sends ? mine : other, sends ? other : mine);
		mct_meet(me);
		req = sends ? mct_open_send(k, mine, &h) : mct_open_recv(k, mine, &h);
		mct_done(&req);
		if (sends) {
			mct_put(k, h, (uint64_t)i);
			mct_close_send(k, h);
		} else {
			twc_eq(mct_take(k, h), i);
			mct_close_recv(k, h);
		}
		mct_meet(me);
	}
	mct_delete(mine);
}

/* Many at once. */
Test(mcapi_connect, many_channels, .timeout = MCT_TIMEOUT)
{
	enum { MANY = 100 };
	static struct mct_chan c[MANY];

	mct_up(1);
	for (int i = 0; i < MANY; i++)
		mct_chan(&c[i], &mct_kinds[i % 2]);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < MANY; i++)
			mct_put(c[i].k, c[i].tx, (uint64_t)(i * 100 + round));
		for (int i = MANY - 1; round == 4 && i >= 0; i--)
			for (int n = 0; n <= round; n++)
				twc_eq(mct_take(c[i].k, c[i].rx), i * 100 + n);
	}
	for (int i = 0; i < MANY; i++)
		mct_chan_end(&c[i]);
	mct_down();
}
