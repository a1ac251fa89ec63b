/* SPDX-License-Identifier: BSD-2-Clause */
/* mcapi_get_fd(), mcapi_arm_fd(): a node that sleeps in poll() or epoll_wait() misses nothing. */
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_fd, .init = twc_job, .timeout = MCT_TIMEOUT);

enum { ROUNDS = 200 };

static int ready(int ms)
{
	struct pollfd p = {.events = POLLIN};

	mct_ok(p.fd = mcapi_get_fd(ST));
	return poll(&p, 1, ms);
}

/* Completes a request; sleeps in poll() only. */
static void complete(mcapi_request_t *req)
{
	mcapi_boolean_t over, armed;
	mcapi_status_t st;
	size_t size;

	for (;;) {
		over = mcapi_test(req, &size, &st);
		if (st != MCAPI_INCOMPLETE)
			break;
		mct_ok(armed = mcapi_arm_fd(ST));
		if (armed)
			twc_eq(ready(MCT_LONG), 1);
	}
	twc_check(over);
}

MCT_BOTH(mcapi_fd, messages, 2)
{
	mcapi_endpoint_t mine = mct_create(1), other;
	mcapi_request_t req;
	uint64_t value = 0;

	/* The other node may not be there yet. */
	mct_ok(mcapi_get_endpoint_i(1 - (mcapi_node_t)me->rank, 1, &other, &req, ST));
	complete(&req);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		if (me->rank == 0)
			mct_send(mine, other, i, 0);
		mct_ok(mcapi_msg_recv_i(mine, &value, 8, &req, ST));
		complete(&req);
		twc_eq(value, i);
		if (me->rank == 1)
			mct_send(mine, other, i, 0);
	}
	mct_meet(me);
}

MCT_BOTH(mcapi_fd, packets, 2)
{
	uint32_t h = mct_open_between(me, &mct_kinds[MCT_PKT]);
	mcapi_request_t req;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		void *packet;

		if (me->rank == 1) {
			mct_ok(mcapi_pktchan_send_i(h, &i, 8, &req, ST));
			complete(&req);
			continue;
		}
		mct_ok(mcapi_pktchan_recv_i(h, &packet, &req, ST));
		complete(&req);
		twc_eq(*(uint64_t *)packet, i);
		mct_ok(mcapi_pktchan_free(packet, ST));
	}
	mct_meet(me);
	mct_close_between(me, &mct_kinds[MCT_PKT], h);
}

/* A get of an endpoint that does not exist yet, on a node that does not exist either. */
static void late(struct mct_me *me)
{
	mcapi_endpoint_t other;
	mcapi_request_t req;

	if (me->rank == 1)
		twc_sleep(100);
	mct_up((mcapi_node_t)me->rank);
	if (me->rank == 1) {
		mct_create(1);
	} else {
		mct_ok(mcapi_get_endpoint_i(1, 1, &other, &req, ST));
		complete(&req);
		twc_eq(other, 1 << 16 | 1);
	}
	mct_meet(me);
	mct_down();
}

Test(mcapi_fd, late_node, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_PROCESSES, 2, late);
}

Test(mcapi_fd, busy_and_errors, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;
	mcapi_request_t req;
	mcapi_boolean_t armed;
	uint64_t value = 0;

	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_fd(ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_arm_fd(ST));
	mct_null(mcapi_get_fd(MCAPI_NULL));
	mct_null(mcapi_arm_fd(MCAPI_NULL));
	mct_up(1);
	ep = mct_create(1);
	twc_check(mcapi_get_fd(ST) >= 0);
	mct_ok(mcapi_msg_recv_i(ep, &value, 8, &req, ST));
	do {
		mct_ok(armed = mcapi_arm_fd(ST));
	} while (!armed);
	twc_eq(ready(50), 0);
	mct_send(ep, ep, 5, 0);
	twc_eq(ready(MCT_LONG), 1);
	mct_ok(armed = mcapi_arm_fd(ST));
	twc_check(!armed);
	mct_done(&req);
	twc_eq(value, 5);
	mct_down();
}

/* Each arrival is an event, in each way of epoll. */
Test(mcapi_fd, ways_of_epoll, .timeout = MCT_TIMEOUT)
{
	static const uint32_t ways[] = {0, EPOLLONESHOT, EPOLLET, EPOLLET | EPOLLONESHOT};
	mcapi_endpoint_t ep;
	size_t size;
	char c;
	int fd;

	mct_up(1);
	ep = mct_create(1);
	mct_ok(fd = mcapi_get_fd(ST));
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct epoll_event ev = {.events = EPOLLIN | ways[i]}, got;
		int epfd = epoll_create1(EPOLL_CLOEXEC);

		twc_check(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) == 0);
		for (int n = 0; n < 5; n++) {
			mcapi_boolean_t armed;

			do {
				mct_ok(armed = mcapi_arm_fd(ST));
			} while (!armed);
			if (ways[i] & EPOLLONESHOT)
				twc_check(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &ev) == 0);
			mct_ok(mcapi_msg_send(ep, ep, "x", 1, 0, ST));
			twc_eq(epoll_wait(epfd, &got, 1, MCT_LONG), 1);
			mct_ok(mcapi_msg_recv(ep, &c, 1, &size, ST));
		}
		twc_check(close(epfd) == 0);
	}
	mct_down();
}
