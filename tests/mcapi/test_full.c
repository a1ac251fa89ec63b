/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.4.5: a blocking send to a channel that is full, and what ends it. */
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_full, .init = twc_job, .timeout = MCT_TIMEOUT);

#define BUFFERS 128

static const struct mct_kind *const kind = &mct_kinds[MCT_PKT];

/* Sends into a full channel until the channel, or the node, ends. */
struct blocked {
	uint32_t h;
	uint64_t value;
	mcapi_status_t status;
};

static void send_blocked(void *arg)
{
	struct blocked *b = arg;

	b->status = MCAPI_ERROR;
	mcapi_pktchan_send(b->h, &b->value, sizeof(b->value), &b->status);
}

static void fill_and_block(struct twc_thread *t, struct blocked *b, uint32_t h)
{
	for (uint64_t i = 0; i < BUFFERS; i++)
		mct_put(kind, h, i);
	*b = (struct blocked){h, BUFFERS, MCAPI_ERROR};
	twc_start(t, send_blocked, b);
	twc_asleep(t);
}

/* A full channel: the blocking send waits for room (4.4.5). */
Test(mcapi_full, send_blocks, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t;
	struct blocked b;
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	fill_and_block(&t, &b, c.tx);
	twc_eq(mct_take(kind, c.rx), 0);
	twc_join(&t);
	twc_eq(b.status, MCAPI_SUCCESS);
	for (uint64_t i = 1; i <= BUFFERS; i++)
		twc_eq(mct_take(kind, c.rx), i);
	mct_chan_end(&c);
	mct_down();
}

/* The same from node to node, the receiver being slow. */
MCT_BOTH(mcapi_full, send_blocks_between, 2)
{
	uint32_t h = mct_open_between(me, kind);
	enum { MANY = 5 * BUFFERS };

	for (uint64_t i = 0; i < MANY; i++) {
		if (me->rank) {
			mct_put(kind, h, i);
		} else {
			if (i % 100 == 0)
				twc_sleep(20);
			twc_eq(mct_take(kind, h), i);
		}
	}
	mct_close_between(me, kind, h);
}

/* Whatever ends the channel ends a send that is blocked in it. */
enum end { BY_SENDER, BY_RECEIVER, BY_NODE };

static void end_blocked(enum end how)
{
	struct twc_thread t;
	struct blocked b;
	struct mct_chan c;

	mct_up(1);
	mct_chan(&c, kind);
	fill_and_block(&t, &b, c.tx);
	if (how == BY_SENDER)
		mct_close_send(kind, c.tx);
	else if (how == BY_RECEIVER)
		mct_close_recv(kind, c.rx);
	else
		mct_down();
	twc_join(&t);
	twc_eq(b.status, MCAPI_ENOT_HANDLE);
	if (how != BY_NODE)
		mct_down();
}

Test(mcapi_full, blocked_send_ends, .timeout = MCT_TIMEOUT)
{
	for (enum end how = BY_SENDER; how <= BY_NODE; how++)
		end_blocked(how);
}

static int die_full(void *arg, int fd)
{
	mcapi_request_t req;
	uint32_t h;
	char c;

	(void)arg;
	mct_up(2);
	mct_connect(kind, mct_get(1, 1), mct_create(1));
	req = mct_open_recv(kind, mct_get(2, 1), &h);
	mct_done(&req);
	twc_eq(twt_get(fd, &c, 1), 0);
	_exit(7);
}

Test(mcapi_full, blocked_send_ends_with_the_receiver, .timeout = MCT_TIMEOUT)
{
	struct twt_child child;
	mcapi_request_t req;
	struct twc_thread t;
	struct blocked b;
	mcapi_endpoint_t ep;
	uint32_t h = 0;

	twt_spawn(&child, die_full, NULL);
	mct_up(1);
	ep = mct_create(1);
	mct_status = MCAPI_ERROR;
	mcapi_open_pktchan_send_i(&h, ep, &req, ST);
	mct_done(&req);
	fill_and_block(&t, &b, h);
	twc_eq(twt_put(child.fd, "!", 1), 0);
	twc_join(&t);
	twc_eq(b.status, MCAPI_ENOT_HANDLE);
	twc_eq(twt_join(&child, MCT_CHILD), 7);
	mct_down();
}

/* Packets have buffers of their own: messages do not count them. */
MCT_BOTH(mcapi_full, packets_take_no_buffers_of_messages, 2)
{
	enum { OWN = 3 };
	mcapi_endpoint_t from;
	struct mct_chan c;

	if (me->rank == 0) {
		mct_chan(&c, kind);
		atomic_store(&me->shared->word[0], c.r);
	}
	mct_meet(me);
	if (me->rank) {
		/* It gets all credits, and keeps those that it does not use. */
		from = mct_create(1);
		mct_send(from, (mcapi_endpoint_t)atomic_load(&me->shared->word[0]), 1, 0);
		mct_until(me, 1, 1);
		return;
	}
	twc_eq(mct_recv(c.r), 1);
	for (uint64_t i = 0; i < BUFFERS; i++)
		mct_put(kind, c.tx, i);
	for (uint64_t i = 0; i < OWN; i++)
		mct_send(c.s, c.r, i, 0);
	for (uint64_t i = 0; i < OWN; i++)
		twc_eq(mct_recv(c.r), i);
	for (uint64_t i = 0; i < BUFFERS; i++)
		twc_eq(mct_take(kind, c.rx), i);
	atomic_store(&me->shared->word[1], 1);
	mct_chan_end(&c);
}
