/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes that end and begin again while another one is stopped, which learns of both at once. */
#include <signal.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_restart, .init = twc_job, .timeout = MCT_TIMEOUT);

enum { CONNECTOR = 1, SENDER, RECEIVER };

/* It speaks to the receiver before that one ends. */
static int sender(void *arg, int fd)
{
	const struct mct_kind *k = arg;
	mcapi_endpoint_t ep;
	mcapi_request_t open;
	uint32_t h;
	size_t size;

	mct_up(SENDER);
	ep = mct_create(1);
	mct_send(ep, mct_get(RECEIVER, 1), 1, 0);
	twc_eq(twt_put(fd, "!", 1), 0);
	mct_k(MCAPI_ENOT_CONNECTED, k, open_send, &h, ep, &open);
	while (!mcapi_test(&open, &size, ST))
		twc_eq(mct_status, MCAPI_INCOMPLETE);
	mct_put(k, h, 7);
	mct_close_send(k, h);
	mct_down();
	return 0;
}

static int receiver(void *arg, int fd)
{
	const struct mct_kind *k = arg;
	mcapi_endpoint_t ep;
	mcapi_request_t open;
	uint32_t h;
	char c;

	mct_up(RECEIVER);
	twc_eq(mct_recv(mct_create(1)), 1);
	twc_eq(twt_put(fd, "!", 1), 0);
	twc_eq(twt_get(fd, &c, 1), 0);
	mct_down();
	mct_up(RECEIVER);
	ep = mct_create(1);
	twc_eq(twt_put(fd, "!", 1), 0);
	twc_eq(twt_get(fd, &c, 1), 0);
	open = mct_open_recv(k, ep, &h);
	mct_done(&open);
	twc_eq(mct_take(k, h), 7);
	mct_close_recv(k, h);
	mct_down();
	return 0;
}

/* The sender is told to connect to a node whose former end it has not noticed. */
static void connect_restarted(const struct mct_kind *k)
{
	struct twt_child from, to;
	mcapi_endpoint_t s, r;
	mcapi_request_t req;
	char c;

	twt_spawn(&from, sender, (void *)(uintptr_t)k);
	twt_spawn(&to, receiver, (void *)(uintptr_t)k);
	mct_up(CONNECTOR);
	twc_eq(twt_get(from.fd, &c, 1), 0);
	twc_eq(twt_get(to.fd, &c, 1), 0);
	s = mct_get(SENDER, 1);
	mct_stop(&from);
	twc_eq(twt_put(to.fd, "r", 1), 0);
	twc_eq(twt_get(to.fd, &c, 1), 0);
	r = mct_get(RECEIVER, 1);
	mct_kok(k, connect, s, r, &req);
	twc_eq(kill(from.pid, SIGCONT), 0);
	mct_done(&req);
	twc_eq(twt_put(to.fd, "!", 1), 0);
	twc_eq(twt_join(&from, MCT_CHILD), 0);
	twc_eq(twt_join(&to, MCT_CHILD), 0);
	mct_down();
}

Test(mcapi_restart, receiver_of_packets, .timeout = MCT_TIMEOUT)
{
	connect_restarted(&mct_kinds[MCT_PKT]);
}

Test(mcapi_restart, receiver_of_scalars, .timeout = MCT_TIMEOUT)
{
	connect_restarted(&mct_kinds[MCT_SCL]);
}
