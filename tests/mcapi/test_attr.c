/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.2.5 and 4.2.6: the nine attributes. */
#include <stdlib.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_attr, .init = twc_job, .timeout = MCT_TIMEOUT);

#define NUMBERS (MCAPI_ATTR_RECV_BUFFERS_AVAILABLE + 1)

static int writable(mcapi_uint_t number)
{
	return number == MCAPI_ATTR_NO_BUFFERS || number == MCAPI_ATTR_TIMEOUT ||
	       number == MCAPI_ATTR_ENDP_PRIO;
}

static void check_defaults(mcapi_endpoint_t ep)
{
	twc_eq(mct_attr(ep, MCAPI_ATTR_NO_PRIORITIES), MCAPI_MAX_NO_PRIORITIES);
	twc_eq(mct_attr(ep, MCAPI_ATTR_NO_BUFFERS), 128);
	twc_check(mct_attr(ep, MCAPI_ATTR_BUFFER_SIZE) >= 16 << 20);
	twc_eq(mct_attr(ep, MCAPI_ATTR_BUFFER_TYPE), MCAPI_FIFO_BUFFER);
	if (mcapi_get_node_id(ST) == ep >> 16)
		twc_eq(mct_attr(ep, MCAPI_ATTR_MEMORY_TYPE), MCAPI_SHARED_MEMORY);
	twc_eq((int)mct_attr(ep, MCAPI_ATTR_TIMEOUT), MCAPI_INFINITE);
	twc_eq(mct_attr(ep, MCAPI_ATTR_ENDP_PRIO), 1);
	twc_eq(mct_attr(ep, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
	twc_eq(mct_attr(ep, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 128);
}

Test(mcapi_attr, defaults, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(2);
	check_defaults(ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_attr, types_have_four_bytes, .timeout = MCT_TIMEOUT)
{
	twc_eq(sizeof(mcapi_attr_no_priorities), 4);
	twc_eq(sizeof(mcapi_attr_no_buffers), 4);
	twc_eq(sizeof(mcapi_attr_message_buffer_size), 4);
	twc_eq(sizeof(mcapi_attr_buffer_type), 4);
	twc_eq(sizeof(mcapi_attr_memory_type), 4);
	twc_eq(sizeof(mcapi_attr_timeout), 4);
	twc_eq(sizeof(mcapi_attr_endp_priority), 4);
	twc_eq(sizeof(mcapi_attr_endp_status), 4);
	twc_eq(sizeof(mcapi_attr_recv_buffers_available), 4);
}

Test(mcapi_attr, set_and_get, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep, other;

	mct_up(1);
	ep = mct_create(2);
	other = mct_create(3);
	mct_set_attr(ep, MCAPI_ATTR_NO_BUFFERS, 16);
	twc_eq(mct_attr(ep, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 16);
	mct_set_attr(ep, MCAPI_ATTR_NO_BUFFERS, 300);
	twc_eq(mct_attr(ep, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 300);
	mct_set_attr(ep, MCAPI_ATTR_TIMEOUT, 500);
	mct_set_attr(ep, MCAPI_ATTR_TIMEOUT, 0);
	mct_set_attr(ep, MCAPI_ATTR_TIMEOUT, (uint32_t)MCAPI_INFINITE);
	mct_set_attr(ep, MCAPI_ATTR_ENDP_PRIO, 0);
	mct_set_attr(ep, MCAPI_ATTR_ENDP_PRIO, MCAPI_MAX_NO_PRIORITIES - 1);
	/* Its own only; and gone with the endpoint. */
	check_defaults(other);
	mct_delete(ep);
	check_defaults(mct_create(2));
	mct_down();
}

Test(mcapi_attr, read_only, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(2);
	for (mcapi_uint_t i = 0; i < NUMBERS; i++) {
		uint32_t value = mct_attr(ep, i);

		if (!writable(i))
			mct_is(MCAPI_EREAD_ONLY,
			       mcapi_set_endpoint_attribute(ep, i, &value, 4, ST));
	}
	check_defaults(ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_attr, numbers_and_sizes, .timeout = MCT_TIMEOUT)
{
	static const mcapi_uint_t numbers[] = {NUMBERS, NUMBERS + 1, 1000, 0x80000000, 0xffffffff};
	static const size_t sizes[] = {0, 1, 2, 3, 5, 8, (size_t)-1};
	uint32_t value[4] = {0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a, 0x5a5a5a5a};
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(2);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		mct_is(MCAPI_EATTR_NUM, mcapi_get_endpoint_attribute(ep, numbers[i], value, 4, ST));
		mct_is(MCAPI_EATTR_NUM, mcapi_set_endpoint_attribute(ep, numbers[i], value, 4, ST));
	}
	for (mcapi_uint_t n = 0; n < NUMBERS; n++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			mct_is(MCAPI_EATTR_SIZE,
			       mcapi_get_endpoint_attribute(ep, n, value, sizes[i], ST));
			if (writable(n))
				mct_is(MCAPI_EATTR_SIZE,
				       mcapi_set_endpoint_attribute(ep, n, value, sizes[i], ST));
		}
	/* On an error the attribute is not modified (4.2.5). */
	for (int i = 0; i < 4; i++)
		twc_eq(value[i], 0x5a5a5a5a);
	/* Nor is what lies behind it. */
	mct_ok(mcapi_get_endpoint_attribute(ep, MCAPI_ATTR_NO_BUFFERS, value, 4, ST));
	twc_eq(value[0], 128);
	twc_eq(value[1], 0x5a5a5a5a);
	check_defaults(ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_attr, wrong_values, .timeout = MCT_TIMEOUT)
{
	static const struct {
		mcapi_uint_t number;
		int value;
	} wrong[] = {
		{MCAPI_ATTR_NO_BUFFERS, 0},
		{MCAPI_ATTR_NO_BUFFERS, -1},
		{MCAPI_ATTR_ENDP_PRIO, MCAPI_MAX_NO_PRIORITIES},
		{MCAPI_ATTR_ENDP_PRIO, -1},
	};
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(2);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		mcapi_set_endpoint_attribute(ep, wrong[i].number, &wrong[i].value, 4, ST);
		if (mct_status != MCAPI_EPARAM)
			twc_fail(__FILE__, __LINE__, "attribute %u to %d: %s, not MCAPI_EPARAM",
				 wrong[i].number, wrong[i].value, mct_name(mct_status));
	}
	check_defaults(ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_attr, null_arguments, .timeout = MCT_TIMEOUT)
{
	uint32_t value = 5;
	mcapi_endpoint_t ep;

	mct_up(1);
	ep = mct_create(2);
	mct_is(MCAPI_EPARAM, mcapi_get_endpoint_attribute(ep, MCAPI_ATTR_NO_BUFFERS, NULL, 4, ST));
	mct_is(MCAPI_EPARAM, mcapi_set_endpoint_attribute(ep, MCAPI_ATTR_NO_BUFFERS, NULL, 4, ST));
	mct_null(mcapi_get_endpoint_attribute(ep, MCAPI_ATTR_NO_BUFFERS, &value, 4, MCAPI_NULL));
	mct_null(mcapi_set_endpoint_attribute(ep, MCAPI_ATTR_NO_BUFFERS, &value, 4, MCAPI_NULL));
	check_defaults(ep);
	mct_delete(ep);
	mct_down();
}

Test(mcapi_attr, not_an_endpoint, .timeout = MCT_TIMEOUT)
{
	uint32_t value = 5;
	mcapi_endpoint_t ep, bad[3];

	mct_up(1);
	ep = mct_create(2);
	bad[0] = mct_create(3);
	mct_delete(bad[0]);
	bad[1] = ep + 7;
	bad[2] = 0xffffffff;
	for (int i = 0; i < 3; i++)
		for (mcapi_uint_t n = 0; n < NUMBERS; n++) {
			mct_is(MCAPI_ENOT_ENDP,
			       mcapi_get_endpoint_attribute(bad[i], n, &value, 4, ST));
			if (writable(n))
				mct_is(MCAPI_ENOT_ENDP,
				       mcapi_set_endpoint_attribute(bad[i], n, &value, 4, ST));
		}
	twc_eq(value, 5);
	mct_delete(ep);
	mct_down();
}

static void cannot_change(mcapi_endpoint_t ep)
{
	for (mcapi_uint_t n = 0; n < NUMBERS; n++) {
		uint32_t value = mct_attr(ep, n);

		if (writable(n))
			mct_is(MCAPI_ECONNECTED,
			       mcapi_set_endpoint_attribute(ep, n, &value, 4, ST));
	}
}

/* Neither from the connect on, nor later (3.2); the status tells where it is. */
Test(mcapi_attr, while_connected, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		unsigned s, r;
		struct mct_chan c = {k, mct_create(2), mct_create(3), 0, 0};
		mcapi_request_t rx, tx;

		mct_connect(k, c.s, c.r);
		s = MCAPI_CREATED | MCAPI_CONNECTED | k->flag | MCAPI_SEND;
		r = MCAPI_CREATED | MCAPI_CONNECTED | k->flag | MCAPI_RECEIVE;
		twc_eq(mct_attr(c.s, MCAPI_ATTR_ENDP_STATUS), s);
		twc_eq(mct_attr(c.r, MCAPI_ATTR_ENDP_STATUS), r);
		cannot_change(c.s);
		cannot_change(c.r);
		rx = mct_open_recv(k, c.r, &c.rx);
		tx = mct_open_send(k, c.s, &c.tx);
		mct_done(&rx);
		mct_done(&tx);
		twc_eq(mct_attr(c.s, MCAPI_ATTR_ENDP_STATUS), s | MCAPI_OPEN);
		twc_eq(mct_attr(c.r, MCAPI_ATTR_ENDP_STATUS), r | MCAPI_OPEN);
		cannot_change(c.s);
		cannot_change(c.r);
		mct_chan_close(&c);
		twc_eq(mct_attr(c.s, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
		twc_eq(mct_attr(c.r, MCAPI_ATTR_ENDP_STATUS), MCAPI_CREATED);
		mct_set_attr(c.s, MCAPI_ATTR_ENDP_PRIO, 3);
		mct_set_attr(c.r, MCAPI_ATTR_NO_BUFFERS, 3);
		mct_delete(c.s);
		mct_delete(c.r);
	}
	mct_down();
}

Test(mcapi_attr, buffers_available, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t a, b;
	struct mct_chan c;

	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	for (uint64_t i = 0; i < 5; i++)
		mct_send(a, b, i, 0);
	mct_available(b, 5);
	twc_eq(mct_attr(b, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 123);
	twc_eq(mct_attr(a, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 128);
	for (uint64_t i = 0; i < 5; i++)
		twc_eq(mct_recv(b), i);
	twc_eq(mct_attr(b, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 128);
	mct_chan(&c, &mct_kinds[MCT_PKT]);
	for (uint64_t i = 0; i < 3; i++)
		mct_put(c.k, c.tx, i);
	mct_queued(c.k, c.rx, 3);
	twc_eq(mct_attr(c.r, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 125);
	twc_eq(mct_take(c.k, c.rx), 0);
	twc_eq(mct_attr(c.r, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), 126);
	mct_chan_end(&c);
	mct_down();
}

static void remote_eventually(mcapi_endpoint_t ep, mcapi_uint_t number, uint32_t want)
{
	double end = twt_now() + MCT_LONG / 1000.;

	while (mct_attr(ep, number) != want && twt_now() < end)
		twc_sleep(1);
	twc_eq(mct_attr(ep, number), want);
}

/* The sender looks at the receiver's buffers (3.13). */
MCT_BOTH(mcapi_attr, of_another_node, 2)
{
	uint32_t value = 0;
	mcapi_endpoint_t mine = mct_create(5), other;

	if (me->rank == 0) {
		mct_meet(me);
		mct_meet(me);
		for (uint64_t i = 0; i < 30; i++)
			twc_eq(mct_recv(mine), i);
		mct_meet(me);
		mct_meet(me);
		mct_set_attr(mine, MCAPI_ATTR_NO_BUFFERS, 40);
		mct_set_attr(mine, MCAPI_ATTR_ENDP_PRIO, 6);
		mct_meet(me);
		mct_meet(me);
		mct_delete(mine);
		mct_meet(me);
		return;
	}
	mct_meet(me);
	other = mct_get(0, 5);
	check_defaults(other);
	for (uint64_t i = 0; i < 30; i++)
		mct_send(mine, other, i, 0);
	remote_eventually(other, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, 98);
	mct_meet(me);
	mct_meet(me);
	remote_eventually(other, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, 128);
	mct_is(MCAPI_EATTR_NUM, mcapi_get_endpoint_attribute(other, NUMBERS, &value, 4, ST));
	mct_is(MCAPI_EATTR_SIZE, mcapi_get_endpoint_attribute(
					 other, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, &value, 8, ST));
	/* Setting is for the endpoint's own node. */
	mct_is(MCAPI_ENOT_ENDP,
	       mcapi_set_endpoint_attribute(other, MCAPI_ATTR_ENDP_PRIO, &value, 4, ST));
	twc_eq(mct_attr(other, MCAPI_ATTR_ENDP_PRIO), 1);
	mct_meet(me);
	mct_meet(me);
	remote_eventually(other, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, 40);
	twc_eq(mct_attr(other, MCAPI_ATTR_NO_BUFFERS), 40);
	twc_eq(mct_attr(other, MCAPI_ATTR_ENDP_PRIO), 6);
	mct_meet(me);
	mct_meet(me);
	mct_is(MCAPI_ENOT_ENDP, mcapi_get_endpoint_attribute(
					other, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE, &value, 4, ST));
	mct_delete(mine);
}

/* The buffers of a scalar channel are places for scalars (3.5.3). */
MCT_BOTH(mcapi_attr, scalar_buffers, 2)
{
	enum { HOLDS = 1792 };
	const struct mct_kind *k = &mct_kinds[MCT_SCL];
	uint32_t h = mct_open_between(me, k);
	mcapi_endpoint_t r = mct_get(0, 1);

	twc_eq(mct_attr(r, MCAPI_ATTR_NO_BUFFERS), HOLDS);
	twc_eq(mct_attr(r, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), HOLDS);
	mct_meet(me);
	if (me->rank)
		for (uint64_t i = 0; i < 10; i++)
			mct_put(k, h, i);
	else
		mct_queued(k, h, 10);
	mct_meet(me);
	twc_eq(mct_attr(r, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), HOLDS - 10);
	mct_meet(me);
	for (uint64_t i = 0; me->rank == 0 && i < 4; i++)
		twc_eq(mct_take(k, h), i);
	mct_meet(me);
	twc_eq(mct_attr(r, MCAPI_ATTR_RECV_BUFFERS_AVAILABLE), HOLDS - 6);
	mct_meet(me);
	for (uint64_t i = 4; me->rank == 0 && i < 10; i++)
		twc_eq(mct_take(k, h), i);
	mct_close_between(me, k, h);
}

/* Of an endpoint on another host, where there is one. */
MCT_BOTH(mcapi_attr, memory_of_another_node, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);

	if (getenv("TWT_NETNS"))
		atomic_store(&me->shared->word[0], 1);
	mct_meet(me);
	twc_eq(mct_attr(mine, MCAPI_ATTR_MEMORY_TYPE), MCAPI_SHARED_MEMORY);
	twc_eq(mct_attr(other, MCAPI_ATTR_MEMORY_TYPE),
	       atomic_load(&me->shared->word[0]) ? MCAPI_REMOTE_MEMORY : MCAPI_SHARED_MEMORY);
	mct_meet(me);
}
