/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that end in _i return immediately, whatever the other node does (3.5.4). */
#include <signal.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_prompt, .init = twc_job, .timeout = MCT_TIMEOUT);

/* All of them together; one that waits for an answer takes 100 ms to 10 s. */
#define MOST (3.0 * twt_slow())
#define MANY 60

/* A node with endpoints, which is stopped then; it may have spoken to us before. */
static int other_node(void *arg, int fd)
{
	mcapi_endpoint_t ep;
	char c;

	mct_up(2);
	ep = mct_create(1);
	for (int i = 0; i < MANY; i++)
		mct_create(100 + i);
	if (*(int *)arg)
		mct_send(ep, mct_get(1, 1), 1, 0);
	twc_eq(twt_put(fd, "!", 1), 0);
	while (twt_get(fd, &c, 1) == 0 && c == 'r')
		for (uint64_t i = 0; i < MANY; i++)
			twc_eq(mct_recv(ep), i);
	mct_down();
	return 0;
}

static void calls_return(int known)
{
	static mcapi_request_t sent[MANY], got[MANY], bound[MANY], opened[MANY];
	static mcapi_endpoint_t found[MANY];
	static uint64_t value[MANY];
	mcapi_endpoint_t mine, other = 2 << 16 | 1;
	struct twt_child child;
	double start;
	uint32_t h;
	char c;

	twt_spawn(&child, other_node, &known);
	mct_up(1);
	mine = mct_create(1);
	for (int i = 0; i < MANY; i++)
		mct_create(100 + i);
	twc_eq(twt_get(child.fd, &c, 1), 0);
	if (known)
		twc_eq(mct_recv(mine), 1);
	mct_stop(&child);
	start = twt_now();
	for (int i = 0; i < MANY; i++) {
		value[i] = (uint64_t)i;
		mct_ok(mcapi_msg_send_i(mine, other, &value[i], 8, 0, &sent[i], ST));
		mct_ok(mcapi_get_endpoint_i(2, 1, &found[i], &got[i], ST));
		mct_ok(mcapi_connect_pktchan_i(1 << 16 | (100 + (unsigned)i),
					       2 << 16 | (100 + (unsigned)i), &bound[i], ST));
		mct_either(MCAPI_SUCCESS, MCAPI_ENOT_CONNECTED,
			   mcapi_open_pktchan_send_i(&h, 1 << 16 | (100 + (unsigned)i), &opened[i],
						     ST));
		mct_pending(&sent[i]);
		mct_pending(&bound[i]);
	}
	if (twt_now() - start > MOST)
		twc_fail(__FILE__, __LINE__, "%d calls took %.1f s", 4 * MANY, twt_now() - start);
	/* One that was taken back is not sent. */
	mct_ok(mcapi_cancel(&sent[MANY - 1], ST));
	twc_eq(kill(child.pid, SIGCONT), 0);
	for (int i = 0; i < MANY - 1; i++) {
		twc_eq(mct_done(&sent[i]), 8);
		mct_done(&got[i]);
		twc_eq(found[i], other);
		mct_done(&bound[i]);
	}
	mct_send(mine, other, MANY - 1, 0);
	/* In the order of the calls. */
	twc_eq(twt_put(child.fd, "r", 1), 0);
	twc_eq(twt_put(child.fd, "!", 1), 0);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
	mct_down();
}

Test(mcapi_prompt, stopped_node, .timeout = MCT_TIMEOUT)
{
	calls_return(1);
}

Test(mcapi_prompt, stopped_node_that_is_new, .timeout = MCT_TIMEOUT)
{
	calls_return(0);
}

/* A send to a node that is not there, and ones to an endpoint that is not. */
Test(mcapi_prompt, nobody, .timeout = MCT_TIMEOUT)
{
	mcapi_request_t req[2];
	mcapi_endpoint_t mine;

	mct_up(1);
	mine = mct_create(1);
	mct_ok(mcapi_msg_send_i(mine, 3 << 16 | 1, "x", 1, 0, &req[0], ST));
	mct_ok(mcapi_msg_send_i(mine, 1 << 16 | 2, "x", 1, 0, &req[1], ST));
	twc_eq(mct_done(&req[0]), 1);
	twc_eq(mct_done(&req[1]), 1);
	mct_down();
}
