/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.10, 4.4.11, 4.5.13, 4.5.14: close, and delete (4.2.4), both kinds of channel. */
#include "mcapi/mcapit.h"

TestSuite(mcapi_close, .init = twc_job, .timeout = MCT_TIMEOUT);

static void every_use_is_refused(const struct mct_kind *k, uint32_t rx, uint32_t tx)
{
	mcapi_request_t req = 0;
	char buffer[8] = "";
	void *p = NULL;

	mct_k(MCAPI_ENOT_HANDLE, k, close_recv, rx, &req);
	mct_k(MCAPI_ENOT_HANDLE, k, close_send, tx, &req);
	mct_k(MCAPI_ENOT_HANDLE, k, send, tx, 1);
	mct_k(MCAPI_ENOT_HANDLE, k, recv, rx);
	mct_status = MCAPI_ERROR;
	twc_eq(k->available(rx, ST), MCAPI_NULL);
	mct_is_at(__FILE__, __LINE__, k->available_name, MCAPI_ENOT_HANDLE);
	if (k->flag == MCAPI_PKT) {
		mct_is(MCAPI_ENOT_HANDLE, mcapi_pktchan_send_i(tx, buffer, 1, &req, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_pktchan_recv_i(rx, &p, &req, ST));
	} else {
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint32(tx, 1, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint16(tx, 1, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_send_uint8(tx, 1, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint32(rx, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint16(rx, ST));
		mct_is(MCAPI_ENOT_HANDLE, mcapi_sclchan_recv_uint8(rx, ST));
	}
}

/* Numbers that never were a handle, the other kind's, the other end's, a closed one's. */
Test(mcapi_close, not_a_handle, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_close(k)
	{
		const struct mct_kind *other = &mct_kinds[k->flag == MCAPI_PKT ? MCT_SCL : MCT_PKT];
		struct mct_chan c;

		every_use_is_refused(k, 0, 0);
		every_use_is_refused(k, 0xffffffff, 0xffffffff);
		mct_chan(&c, k);
		every_use_is_refused(other, c.rx, c.tx);
		every_use_is_refused(k, c.tx, c.rx);
		mct_put(k, c.tx, 3);
		twc_eq(mct_take(k, c.rx), 3);
		mct_chan_close(&c);
		every_use_is_refused(k, c.rx, c.tx);
		mct_delete(c.s);
		mct_delete(c.r);
		every_use_is_refused(k, c.rx, c.tx);
	}
	mct_down();
}

/* An old handle is not taken for that of the next channel. */
Test(mcapi_close, stale_handle, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		struct mct_chan c, old;

		mct_chan(&c, k);
		for (int i = 0; i < 20; i++) {
			old = c;
			mct_chan_close(&c);
			mct_chan_reopen(&c);
			mct_put(k, c.tx, 5);
			every_use_is_refused(k, old.rx, old.tx);
			twc_eq(mct_take(k, c.rx), 5);
		}
		mct_chan_end(&c);
	}
	mct_down();
}

Test(mcapi_close, null_arguments, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_close(k)
	{
		struct mct_chan c;
		mcapi_request_t req = 0;

		mct_chan(&c, k);
		mct_k(MCAPI_EPARAM, k, close_recv, c.rx, MCAPI_NULL);
		mct_k(MCAPI_EPARAM, k, close_send, c.tx, MCAPI_NULL);
		mct_knull(k, close_recv, c.rx, &req);
		mct_knull(k, close_send, c.tx, &req);
		mct_knull(k, available, c.rx);
		/* Nothing was closed. */
		mct_put(k, c.tx, 6);
		twc_eq(mct_take(k, c.rx), 6);
		mct_chan_end(&c);
	}
	mct_down();
}

/* Another node's handle is no handle here (3.16.4). */
MCT_BOTH(mcapi_close, handle_of_another_node, 2)
{
	mct_each_kind(k)
	{
		struct mct_chan c;

		if (me->rank == 0) {
			mct_chan(&c, k);
			atomic_store(&me->shared->word[0], c.rx);
			atomic_store(&me->shared->word[1], c.tx);
		}
		mct_meet(me);
		if (me->rank == 1)
			every_use_is_refused(k, (uint32_t)atomic_load(&me->shared->word[0]),
					     (uint32_t)atomic_load(&me->shared->word[1]));
		mct_meet(me);
		if (me->rank == 0) {
			mct_put(k, c.tx, 61);
			twc_eq(mct_take(k, c.rx), 61);
			mct_chan_end(&c);
		}
		mct_meet(me);
	}
}

static void until_connected(mcapi_endpoint_t ep)
{
	double end = twt_now() + MCT_LONG / 1000.;

	while (!(mct_attr(ep, MCAPI_ATTR_ENDP_STATUS) & MCAPI_CONNECTED)) {
		twc_check(twt_now() < end);
		twc_sleep(1);
	}
}

/* Sends fail from some moment on, soon after the other end was closed. */
static void until_refused(const struct mct_kind *k, uint32_t tx)
{
	double end = twt_now() + MCT_LONG / 1000.;

	do {
		twc_check(twt_now() < end);
		k->send(tx, 9, ST);
	} while (mct_status == MCAPI_SUCCESS);
	mct_is_at(__FILE__, __LINE__, k->send_name, MCAPI_ENOT_HANDLE);
}

/* The receiver closes: what is pending is discarded, sends give an error (4.4.10). */
MCT_BOTH(mcapi_close, receiver_first, 2)
{
	mct_each_close(k)
	{
		mcapi_endpoint_t mine = mct_create(1);
		mcapi_endpoint_t other = mct_get(1 - (mcapi_node_t)me->rank, 1);
		mcapi_request_t req;
		uint32_t h = 0;

		if (me->rank == 0) {
			mct_connect(k, other, mine);
			req = mct_open_recv(k, mine, &h);
			mct_done(&req);
			mct_meet(me);
			mct_queued(k, h, 10);
			twc_eq(mct_take(k, h), 0);
			mct_meet(me);
			mct_close_recv(k, h);
			/* Done with, whatever the other does. */
			mct_is(MCAPI_ENOT_OWNER, mcapi_delete_endpoint(other, ST));
			mct_delete(mine);
			mct_meet(me);
		} else {
			until_connected(mine);
			req = mct_open_send(k, mine, &h);
			mct_done(&req);
			for (uint64_t i = 0; i < 10; i++)
				mct_put(k, h, i);
			mct_meet(me);
			mct_meet(me);
			until_refused(k, h);
			mct_close_send(k, h);
			mct_delete(mine);
			mct_meet(me);
		}
		mct_meet(me);
	}
}

/* The sender closes: what is pending is not discarded (4.4.11). */
MCT_BOTH(mcapi_close, sender_first, 2)
{
	mct_each_close(k)
	{
		mcapi_endpoint_t mine = mct_create(1);
		mcapi_endpoint_t other = mct_get(1 - (mcapi_node_t)me->rank, 1);
		mcapi_request_t req;
		uint32_t h = 0;

		if (me->rank == 0) {
			mct_connect(k, mine, other);
			req = mct_open_send(k, mine, &h);
			mct_done(&req);
			for (uint64_t i = 0; i < 50; i++)
				mct_put(k, h, i);
			mct_close_send(k, h);
			mct_delete(mine);
			mct_meet(me);
		} else {
			until_connected(mine);
			req = mct_open_recv(k, mine, &h);
			mct_done(&req);
			mct_meet(me);
			for (uint64_t i = 0; i < 50; i++)
				twc_eq(mct_take(k, h), i);
			mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
			mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
			mct_close_recv(k, h);
			mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
			mct_delete(mine);
		}
		mct_meet(me);
	}
}

/* Whoever is blocked gets an answer. */
struct blocked {
	const struct mct_chan *c;
	mcapi_status_t status;
};

static void receive_here(void *arg)
{
	struct blocked *b = arg;

	b->c->k->recv(b->c->rx, &b->status);
}

static void send_here(void *arg)
{
	struct blocked *b = arg;

	do
		b->c->k->send(b->c->tx, 1, &b->status);
	while (b->status == MCAPI_SUCCESS);
}

static void close_end(const struct mct_chan *c, int sender)
{
	if (sender)
		mct_close_send(c->k, c->tx);
	else
		mct_close_recv(c->k, c->rx);
}

/* By the other end, or by its own. */
static void close_wakes(const struct mct_kind *k, void (*call)(void *), int sends)
{
	mct_up(1);
	for (int own = 0; own < 2; own++) {
		struct mct_chan c;
		struct blocked b = {&c, MCAPI_ERROR};
		struct twc_thread t;

		mct_chan(&c, k);
		twc_start(&t, call, &b);
		twc_asleep(&t);
		close_end(&c, own == sends);
		twc_join(&t);
		twc_eq(b.status, MCAPI_ENOT_HANDLE);
		close_end(&c, own != sends);
	}
	mct_down();
}

Test(mcapi_close, wakes_blocked_receive, .timeout = MCT_TIMEOUT)
{
	mct_each_kind(k) close_wakes(k, receive_here, 0);
}

Test(mcapi_close, wakes_blocked_scalar_send, .timeout = MCT_TIMEOUT)
{
	close_wakes(&mct_kinds[MCT_SCL], send_here, 1);
}

/* An open that waits for the other end can be closed. */
Test(mcapi_close, before_open_completed, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_close(k) for (int connected = 0; connected < 2; connected++)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_status_t want = connected ? MCAPI_SUCCESS : MCAPI_ENOT_CONNECTED;
		mcapi_request_t rx = 0, tx = 0;
		size_t size;

		if (connected)
			mct_connect(k, c.s, c.r);
		mct_k(want, k, open_recv, &c.rx, c.r, &rx);
		mct_close_recv(k, c.rx);
		mct_k(MCAPI_ENOT_HANDLE, k, close_recv, c.rx, &rx);
		/* Nobody may wait for this open in vain. */
		mcapi_wait(&rx, &size, ST, MCT_LONG);
		twc_check(mct_status != MCAPI_EREQ_TIMEOUT);
		mct_delete(c.r);
		c.r = mct_create(2);
		mct_delete(c.s);
		c.s = mct_create(1);
		if (connected)
			mct_connect(k, c.s, c.r);
		mct_k(want, k, open_send, &c.tx, c.s, &tx);
		mct_close_send(k, c.tx);
		mct_k(MCAPI_ENOT_HANDLE, k, close_send, c.tx, &tx);
		mcapi_wait(&tx, &size, ST, MCT_LONG);
		twc_check(mct_status != MCAPI_EREQ_TIMEOUT);
		mct_delete(c.s);
		mct_delete(c.r);
	}
	mct_down();
}

Test(mcapi_close, after_a_cancelled_open, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_close(k) for (int connected = 0; connected < 2; connected++)
	{
		struct mct_chan c = {k, mct_create(1), mct_create(2), 0, 0};
		mcapi_status_t want = connected ? MCAPI_SUCCESS : MCAPI_ENOT_CONNECTED;
		mcapi_request_t rx = 0, tx = 0, req = 0;

		if (connected)
			mct_connect(k, c.s, c.r);
		mct_k(want, k, open_recv, &c.rx, c.r, &rx);
		mct_ok(mcapi_cancel(&rx, ST));
		mct_ends(&rx, MCAPI_EREQ_CANCELED);
		mct_k(MCAPI_ENOT_OPEN, k, close_recv, c.rx, &req);
		mct_k(want, k, open_send, &c.tx, c.s, &tx);
		mct_ok(mcapi_cancel(&tx, ST));
		mct_ends(&tx, MCAPI_EREQ_CANCELED);
		mct_k(MCAPI_ENOT_OPEN, k, close_send, c.tx, &req);
		/* Both can be opened now. */
		if (!connected)
			mct_connect(k, c.s, c.r);
		rx = mct_open_recv(k, c.r, &c.rx);
		tx = mct_open_send(k, c.s, &c.tx);
		mct_done(&rx);
		mct_done(&tx);
		mct_put(k, c.tx, 90);
		twc_eq(mct_take(k, c.rx), 90);
		mct_chan_end(&c);
	}
	mct_down();
}

Test(mcapi_close, delete_needs_close, .timeout = MCT_TIMEOUT)
{
	mct_up(1);
	mct_each_kind(k)
	{
		struct mct_chan c;

		mct_chan(&c, k);
		mct_is(MCAPI_ECHAN_OPEN, mcapi_delete_endpoint(c.s, ST));
		mct_is(MCAPI_ECHAN_OPEN, mcapi_delete_endpoint(c.r, ST));
		mct_put(k, c.tx, 12);
		twc_eq(mct_take(k, c.rx), 12);
		mct_close_send(k, c.tx);
		/* Its own end is what counts. */
		mct_delete(c.s);
		mct_is(MCAPI_ECHAN_OPEN, mcapi_delete_endpoint(c.r, ST));
		mct_close_recv(k, c.rx);
		mct_delete(c.r);
		/* An end that is only opened, the other not. */
		c.s = mct_create(1);
		c.r = mct_create(2);
		mct_connect(k, c.s, c.r);
		mct_open_recv(k, c.r, &c.rx);
		mct_is(MCAPI_ECHAN_OPEN, mcapi_delete_endpoint(c.r, ST));
		mct_close_recv(k, c.rx);
		mct_delete(c.r);
		mct_delete(c.s);
	}
	mct_down();
}

/* Connected and never opened: deleting one end sets the other free. */
MCT_BOTH(mcapi_close, delete_dissolves_connection, 2)
{
	mct_each_kind(k)
	{
		mcapi_endpoint_t mine = mct_create(1), third = mct_create(2);
		double end = twt_now() + MCT_LONG / 1000.;

		if (me->rank == 0) {
			mct_connect(k, mine, mct_get(1, 1));
			mct_delete(mine);
			mct_meet(me);
		} else {
			mct_meet(me);
			while (mct_attr(mine, MCAPI_ATTR_ENDP_STATUS) != MCAPI_CREATED) {
				twc_check(twt_now() < end);
				twc_sleep(1);
			}
			mct_connect(k, third, mine);
			mct_delete(mine);
		}
		mct_delete(third);
		mct_meet(me);
	}
}

/* New endpoints with old names: nothing of the channel before reaches them. */
MCT_BOTH(mcapi_close, same_names_again, 2)
{
	for (int round = 0, n = 150 / (int)twt_slow(); round < n; round++) {
		const struct mct_kind *k = &mct_kinds[round % 2];
		mcapi_endpoint_t mine = mct_create(1);
		mcapi_request_t req;
		uint32_t h = 0;

		if (me->rank == 0) {
			mct_connect(k, mct_get(1, 1), mine);
			req = mct_open_recv(k, mine, &h);
			mct_done(&req);
			mct_close_recv(k, h);
		} else {
			until_connected(mine);
			req = mct_open_send(k, mine, &h);
			mct_done(&req);
			until_refused(k, h);
			mct_close_send(k, h);
		}
		mct_delete(mine);
		mct_meet(me);
	}
}

/* The words of the test: what a sender has been told, and what the first has done. */
enum { CONNECTED = 1, SEND };
enum { OPEN = 1, SENT };

static void sends_when_told(struct mct_me *me, const struct mct_kind *k, mcapi_endpoint_t own)
{
	mcapi_request_t req;
	uint32_t h;

	while (me->shared->word[me->rank] < CONNECTED)
		mct_ok(mcapi_msg_available(own, ST));
	req = mct_open_send(k, own, &h);
	mct_done(&req);
	if (me->rank == 1)
		me->shared->word[0] = OPEN;
	/* Without progress: it does not see that the receiver has closed. */
	mct_until(me, me->rank, SEND);
	mct_put(k, h, (uint64_t)me->rank);
	if (me->rank == 1)
		me->shared->word[0] = SENT;
}

static void receives_from_second(struct mct_me *me, const struct mct_kind *k, mcapi_endpoint_t own)
{
	mcapi_request_t req;
	uint32_t h;

	for (mcapi_node_t i = 1; i <= 2; i++) {
		mct_connect(k, mct_get(i, 7), own);
		req = mct_open_recv(k, own, &h);
		me->shared->word[i] = CONNECTED;
		mct_done(&req);
		if (i == 2)
			break;
		mct_until(me, 0, OPEN);
		mct_close_recv(k, h);
	}
	me->shared->word[1] = SEND;
	mct_until(me, 0, SENT);
	me->shared->word[2] = SEND;
	twc_eq(mct_take(k, h), 2);
}

static void late_packet(struct mct_me *me)
{
	const struct mct_kind *k = &mct_kinds[MCT_PKT];
	mcapi_endpoint_t own = mct_create(7);

	if (me->rank)
		sends_when_told(me, k, own);
	else
		receives_from_second(me, k, own);
	mct_meet(me);
}

/* A packet of a closed channel is none of the next, from the same port of another node. */
Test(mcapi_close, late_packet, .timeout = MCT_TIMEOUT)
{
	setenv("TAGWIRE_SERVICE", "0", 1);
	mct_crew(MCT_PROCESSES, 3, late_packet);
}
