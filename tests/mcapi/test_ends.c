/* SPDX-License-Identifier: BSD-2-Clause */
/* What ends otherwise than well: deletion under a receiver, time, a peer that never comes. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_ends, .init = twc_job, .timeout = MCT_TIMEOUT);

struct receiver {
	mcapi_endpoint_t ep;
	mcapi_status_t status;
};

static void receive_here(void *arg)
{
	struct receiver *r = arg;
	uint64_t value;
	size_t size;

	mcapi_msg_recv(r->ep, &value, 8, &size, &r->status);
}

/* Nobody may wait for messages of an endpoint that is gone. */
Test(mcapi_ends, delete_under_receivers, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req = 0;
	struct twc_thread t;
	struct receiver r;
	uint64_t value = 5;
	size_t size = 0;

	mct_up(1);
	r = (struct receiver){mct_create(1), MCAPI_SUCCESS};
	twc_start(&t, receive_here, &r);
	twc_asleep(&t);
	mct_ok(mcapi_msg_recv_i(r.ep, &value, 8, &req, ST));
	mct_delete(r.ep);
	twc_join(&t);
	twc_check(r.status != MCAPI_SUCCESS);
	mcapi_wait(&req, &size, ST, MCT_LONG);
	twc_check(mct_status != MCAPI_SUCCESS && mct_status != MCAPI_EREQ_TIMEOUT);
	/* The next endpoint of this port has no receives. */
	r.ep = mct_create(1);
	mct_send(r.ep, r.ep, 9, 0);
	twc_eq(mct_recv(r.ep), 9);
	twc_eq(value, 5);
	mct_down();
}

/* The attribute limits what blocks on a channel, too (3.12). */
Test(mcapi_ends, timeout_on_channels, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k) for (int timeout = 0; timeout <= 40; timeout += 40)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};

		mct_set_attr(c.s, MCAPI_ATTR_TIMEOUT, (uint32_t)timeout);
		mct_set_attr(c.r, MCAPI_ATTR_TIMEOUT, (uint32_t)timeout);
		mct_chan_reopen(&c);
		mct_k(MCAPI_EREQ_TIMEOUT, k, recv, c.rx);
		mct_put(k, c.tx, 3);
		mct_queued(k, c.rx, 1);
		twc_eq(mct_take(k, c.rx), 3);
		/* Full: the time runs. */
		uint64_t sent = 0;

		do {
			k->send(c.tx, sent, ST);
			sent += mct_status == MCAPI_SUCCESS;
			twc_check(sent < 1000000);
		} while (mct_status == MCAPI_SUCCESS);
		twc_eq(mct_status, MCAPI_EREQ_TIMEOUT);
		for (uint64_t i = 0; i < sent; i++)
			twc_eq(mct_take(k, c.rx), i);
		mct_queued(k, c.rx, 0);
		mct_chan_end(&c);
	}
	mct_down();
}

/* Time that is not over yet when something comes. */
static void send_late(void *arg)
{
	struct mct_chan *c = arg;

	twc_sleep(50);
	mct_put(c->k, c->tx, 6);
}

Test(mcapi_ends, in_time, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		struct twc_thread t;

		mct_set_attr(c.r, MCAPI_ATTR_TIMEOUT, MCT_LONG);
		mct_chan_reopen(&c);
		twc_start(&t, send_late, &c);
		twc_eq(mct_take(k, c.rx), 6);
		twc_join(&t);
		mct_chan_end(&c);
	}
	mct_down();
}

/* A connection to a node that is not there: refused, or it can be cancelled. */
Test(mcapi_ends, connect_to_nobody, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b, far;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	far = a + (7u << 16);
	mct_each_kind(k) for (int sends = 0; sends < 2; sends++)
	{
		mcapi_request_t req = 0;

		k->connect(sends ? a : far, sends ? far : a, &req, ST);
		if (mct_status == MCAPI_SUCCESS) {
			mct_either(MCAPI_SUCCESS, MCAPI_ENOTREQ_HANDLE, mcapi_cancel(&req, ST));
			mct_ends(&req, mct_status == MCAPI_SUCCESS ? MCAPI_EREQ_CANCELED
								   : MCAPI_ENOT_ENDP);
		} else {
			mct_is_at(__FILE__, __LINE__, k->connect_name, MCAPI_ENOT_ENDP);
		}
		twc_eq(mct_attr(a, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
		mct_connect(k, a, b);
		mct_delete(b);
		b = mct_create(2);
	}
	mct_down();
}

/* Both send what is long before either receives: it waits at the receiver. */
MCT_BOTH(mcapi_ends, long_messages_cross, 2)
{
	const size_t size = 4 << 20;
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	uint8_t *p = malloc(size);
	size_t got = 0;

	twc_check(p);
	for (uint64_t round = 0; round < 3; round++) {
		twt_fill(p, size, round + 10 * (uint64_t)me->rank);
		mct_ok(mcapi_msg_send(mine, other, p, size, 0, ST));
		mct_ok(mcapi_msg_send(mine, mine, p, size, 0, ST));
		memset(p, 0, size);
		for (int i = 0; i < 2; i++) {
			mct_ok(mcapi_msg_recv(mine, p, size, &got, ST));
			twc_eq(got, size);
			twc_check(twt_check(p, size, round) == size ||
				  twt_check(p, size, round + 10) == size);
		}
		mct_meet(me);
	}
	free(p);
	mct_delete(mine);
}

/* Very many requests in one wait. */
Test(mcapi_ends, wait_any_of_many, .timeout = MCT_TIMEOUT)
{
	enum { MANY = 3000 };
	static mcapi_request_t req[MANY], *list[MANY];
	static uint64_t value[MANY];
	mcapi_endpoint_t a, b;
	mcapi_int_t index;
	size_t size = 0;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	for (int i = 0; i < MANY; i++) {
		mct_ok(mcapi_msg_recv_i(i == MANY - 1 ? b : a, &value[i], 8, &req[i], ST));
		list[i] = &req[i];
	}
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_wait_any(MANY, list, &size, ST, 10));
	mct_send(a, b, 4, 0);
	mct_ok(index = mcapi_wait_any(MANY, list, &size, ST, MCT_LONG));
	twc_eq(index, MANY - 1);
	twc_eq(value[MANY - 1], 4);
	mct_down();
}
