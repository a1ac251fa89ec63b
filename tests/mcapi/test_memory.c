/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and what waits are bounded by memory: what happens at the bound. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_memory, .init = twc_job, .timeout = MCT_TIMEOUT);

/* Allows this process so many bytes more than it has. */
static void allow(size_t more)
{
	struct rlimit limit;
	unsigned long pages = 0;
	FILE *in = fopen("/proc/self/statm", "r");

	twc_check(in && fscanf(in, "%lu", &pages) == 1);
	fclose(in);
	twc_eq(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = more ? pages * (size_t)getpagesize() + more : limit.rlim_max;
	twc_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* What the call says when memory is short; success, if it can do without more. */
#define short_of_memory(a, b, ...)                                                                 \
	do {                                                                                       \
		mct_status = MCAPI_ERROR;                                                          \
		__VA_ARGS__;                                                                       \
		mct_is_at(__FILE__, __LINE__, #__VA_ARGS__,                                        \
			  mct_status == MCAPI_SUCCESS ? MCAPI_SUCCESS                              \
			  : mct_status == (b)	      ? (b)                                        \
						      : (a));                                              \
	} while (0)

#define ALLOWED (24u << 20)
#define SPARE (ALLOWED / 64) /* requests that it has room for, at most */
#define NOBODYS_PORT 77

static int run_out(void *arg, int fd)
{
	static mcapi_request_t spare[SPARE];
	mcapi_endpoint_t a, b, c, none;
	mcapi_request_t req = 0, first = 0;
	static char big[1 << 20];
	unsigned nspare;
	struct mct_chan pkt;
	uint64_t value = 0;
	long waiting = 0;
	void *p = NULL;

	(void)arg;
	(void)fd;
	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	c = mct_create(3);
	mct_chan(&pkt, &mct_kinds[MCT_PKT]);
	mct_ok(mcapi_msg_recv_i(a, &value, 8, &first, ST));
	allow(ALLOWED);
	do {
		short_of_memory(MCAPI_ENO_REQUEST, MCAPI_ENO_REQUEST,
				mcapi_msg_recv_i(a, &value, 8, &req, ST));
		waiting += mct_status == MCAPI_SUCCESS;
	} while (mct_status == MCAPI_SUCCESS && waiting < MCAPI_MAX_REQUESTS + 1000);
	twc_eq(mct_status, MCAPI_ENO_REQUEST);
	twc_check(waiting > 1000);
	/* That may have been for want of something else: the last requests go, too. */
	mct_status = MCAPI_SUCCESS;
	for (nspare = 0; nspare < SPARE; nspare++) {
		mct_status = MCAPI_ERROR;
		mcapi_get_endpoint_i(1, NOBODYS_PORT, &none, &spare[nspare], ST);
		if (mct_status != MCAPI_SUCCESS)
			break;
	}
	twc_eq(mct_status, MCAPI_ENO_REQUEST);
	/* Nothing else gets a request either. */
	for (int i = 0; i < 5; i++) {
		mct_is(MCAPI_ENO_REQUEST, mcapi_connect_pktchan_i(b, c, &req, ST));
		mct_is(MCAPI_ENO_REQUEST, mcapi_connect_sclchan_i(b, c, &req, ST));
		mct_is(MCAPI_ENO_REQUEST, mcapi_pktchan_recv_i(pkt.rx, &p, &req, ST));
		mct_is(MCAPI_ENO_REQUEST, mcapi_msg_send_i(b, c, big, 8, 0, &req, ST));
		mct_is(MCAPI_ENO_REQUEST, mcapi_pktchan_send_i(pkt.tx, big, sizeof(big), &req, ST));
	}
	/* With memory everything goes on: the first receive is the first to be served. */
	allow(0);
	while (nspare)
		mct_ok(mcapi_cancel(&spare[--nspare], ST));
	mct_send(b, a, 6, 0);
	twc_eq(mct_done(&first), 8);
	twc_eq(value, 6);
	mct_connect(&mct_kinds[MCT_SCL], b, c);
	mct_put(pkt.k, pkt.tx, 7);
	twc_eq(mct_take(pkt.k, pkt.rx), 7);
	mct_chan_end(&pkt);
	mct_down();
	return 0;
}

/* A child, whose memory can be limited. */
static void in_child(int (*fn)(void *, int))
{
	struct twt_child child;

	if (MCT_SANITIZED)
		cr_skip_test("memory cannot be limited under the address sanitizer");
#ifdef M_ARENA_MAX
	/* A thread's first malloc() would map 128 MiB and give half of it back, as we look. */
	mallopt(M_ARENA_MAX, 1);
#endif
	twt_spawn(&child, fn, NULL);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
}

Test(mcapi_memory, no_more_requests, .timeout = MCT_TIMEOUT)
{
	in_child(run_out);
}

/* Memory that malloc has set aside already: takes away what would hold so much. */
static struct block {
	struct block *next;
} *hoard;

static void take_all_of(size_t size)
{
	struct block *b;

	twc_check(size >= sizeof(*b));
	while ((b = malloc(size))) {
		b->next = hoard;
		hoard = b;
	}
}

static void no_block_of(size_t size)
{
	allow(size);
	take_all_of(size);
}

static void memory_again(void)
{
	while (hoard) {
		struct block *b = hoard;

		hoard = b->next;
		free(b);
	}
	allow(0);
}

/* There are requests, but no memory for the data. */
static int too_long(void *arg, int fd)
{
	static char big[16 << 20];
	mcapi_endpoint_t a, b;
	mcapi_request_t req;
	struct mct_chan pkt;

	(void)arg;
	(void)fd;
	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	mct_chan(&pkt, &mct_kinds[MCT_PKT]);
	for (int i = 0; i < 3; i++) {
		no_block_of(1 << 20);
		mct_is(MCAPI_ENO_MEM, mcapi_msg_send_i(a, b, big, sizeof(big), 0, &req, ST));
		mct_is(MCAPI_ENO_MEM, mcapi_pktchan_send_i(pkt.tx, big, sizeof(big), &req, ST));
		mct_is(MCAPI_ENO_BUFFER, mcapi_pktchan_send(pkt.tx, big, sizeof(big), ST));
		/* What is short still goes. */
		mct_send(a, b, 3, 0);
		twc_eq(mct_recv(b), 3);
		memory_again();
	}
	mct_ok(mcapi_pktchan_send_i(pkt.tx, big, sizeof(big), &req, ST));
	twc_eq(mct_done(&req), sizeof(big));
	mct_chan_end(&pkt);
	mct_down();
	return 0;
}

Test(mcapi_memory, no_more_memory, .timeout = MCT_TIMEOUT)
{
	in_child(too_long);
}

/* Packets that the program does not give back: remembering them takes no memory. */
static int keep_all(void *arg, int fd)
{
	enum { MANY = 1 << 15 };
	static void *packet[MANY + 1];
	mcapi_request_t req;
	struct mct_chan pkt;
	size_t got;

	(void)arg;
	(void)fd;
	mct_up(1);
	mct_chan(&pkt, &mct_kinds[MCT_PKT]);
	for (int n = 0; n < MANY; n++) {
		mct_put(pkt.k, pkt.tx, (uint64_t)n);
		mct_ok(mcapi_pktchan_recv(pkt.rx, &packet[n], &got, ST));
	}
	mct_put(pkt.k, pkt.tx, MANY);
	no_block_of(1 << 18);
	mct_ok(mcapi_pktchan_recv_i(pkt.rx, &packet[MANY], &req, ST));
	twc_eq(mct_done(&req), sizeof(uint64_t));
	memory_again();
	for (int i = 0; i <= MANY; i++) {
		twc_check(memcmp(packet[i], &(uint64_t){(uint64_t)i}, 8) == 0);
		mct_ok(mcapi_pktchan_free(packet[i], ST));
	}
	mct_chan_end(&pkt);
	mct_down();
	return 0;
}

Test(mcapi_memory, no_more_packets, .timeout = MCT_TIMEOUT)
{
	in_child(keep_all);
}

/* Packets that wait for buffers: refused some day, none of them lost or damaged. */
static int flood(void *arg, int fd)
{
	enum { SIZE = 5000, MOST = 100000 };
	static mcapi_request_t req[MOST];
	static char data[SIZE];
	struct mct_chan pkt;
	void *p = NULL;
	size_t got = 0;
	int n = 0;

	(void)arg;
	(void)fd;
	mct_up(1);
	mct_chan(&pkt, &mct_kinds[MCT_PKT]);
	memset(data, 0x77, sizeof(data));
	allow(24 << 20);
	do
		short_of_memory(MCAPI_ENO_MEM, MCAPI_ENO_REQUEST,
				mcapi_pktchan_send_i(pkt.tx, data, SIZE, &req[n], ST));
	while (mct_status == MCAPI_SUCCESS && ++n < MOST);
	allow(0);
	twc_check(n >= 128);
	for (int i = 0; i < n; i++) {
		mct_ok(mcapi_pktchan_recv(pkt.rx, &p, &got, ST));
		twc_eq(got, SIZE);
		twc_check(memcmp(p, data, SIZE) == 0);
		mct_ok(mcapi_pktchan_free(p, ST));
	}
	for (int i = 0; i < n; i++)
		twc_eq(mct_done(&req[i]), SIZE);
	mct_chan_end(&pkt);
	mct_down();
	return 0;
}

Test(mcapi_memory, waiting_packets, .timeout = MCT_TIMEOUT)
{
	in_child(flood);
}

/* No block of any length of a control message. */
static void no_small_block(void)
{
	allow(512);
	for (size_t size = 512; size >= 32; size -= 16)
		take_all_of(size);
}

static _Atomic(int) other_is_up, over;

static void other_node(void *arg)
{
	(void)arg;
	mct_up(2);
	mct_create(1);
	other_is_up = 1;
	while (!over)
		twc_sleep(1);
	mct_down();
}

/* A request without memory is made again, to this node and to another. No channel ends of it. */
static int no_control(void *arg, int fd)
{
	struct twc_thread other;
	struct mct_chan pkt;

	(void)arg;
	(void)fd;
	twc_start(&other, other_node, NULL);
	while (!other_is_up)
		twc_sleep(1);
	mct_up(1);
	mct_create(1);
	mct_get(2, 1);
	mct_chan(&pkt, &mct_kinds[MCT_PKT]);
	for (mcapi_node_t node = 1; node <= 2; node++) {
		mcapi_endpoint_t found = 0;
		mcapi_request_t req;

		mct_ok(mcapi_get_endpoint_i(node, 1, &found, &req, ST));
		mct_done(&req);
		no_small_block();
		mct_ok(mcapi_get_endpoint_i(node, 1, &found, &req, ST));
		memory_again();
		mct_done(&req);
		twc_eq(found, node << 16 | 1);
		mct_put(pkt.k, pkt.tx, node);
		twc_eq(mct_take(pkt.k, pkt.rx), node);
	}
	mct_chan_end(&pkt);
	over = 1;
	twc_join(&other);
	mct_down();
	return 0;
}

Test(mcapi_memory, no_more_controls, .timeout = MCT_TIMEOUT)
{
	in_child(no_control);
}

/* There is memory for the data, but no request of the engine: the credit is not lost. */
static int no_carrier(void *arg, int fd)
{
	enum { MANY = 4096, KEPT = 1024, BUFFERS = 128 };
	static mcapi_request_t req[MANY];
	static char big[1 << 16], to[1 << 16];
	mcapi_endpoint_t a, b, none;
	int waiting = 0;
	size_t got;

	(void)arg;
	(void)fd;
	mct_up(1);
	a = mct_create(1);
	b = mct_create(2);
	none = mct_create(3);
	mct_delete(none);
	/* These leave room for requests that the engine has not. */
	for (int i = 0; i < MANY; i++)
		mct_ok(mcapi_msg_send_i(a, none, big, 8, 0, &req[i], ST));
	for (int i = 0; i < MANY; i++)
		mct_done(&req[i]);
	/* This leaves memory for a message of that length. */
	mct_ok(mcapi_msg_send(a, b, big, sizeof(big), 0, ST));
	mct_ok(mcapi_msg_recv(b, to, sizeof(to), &got, ST));
	no_block_of(1 << 14);
	do
		short_of_memory(MCAPI_ENO_REQUEST, MCAPI_ENO_REQUEST,
				mcapi_msg_recv_i(a, to, 8, &req[0], ST));
	while (mct_status == MCAPI_SUCCESS && ++waiting < MANY - KEPT);
	twc_check(waiting < MANY - KEPT);
	for (int i = 0; i < 2 * BUFFERS; i++)
		mct_is(MCAPI_ENO_MEM, mcapi_msg_send_i(a, b, big, sizeof(big), 0, &req[0], ST));
	memory_again();
	for (uint64_t i = 0; i < BUFFERS; i++)
		mct_send(a, b, i, 0);
	for (uint64_t i = 0; i < BUFFERS; i++)
		twc_eq(mct_recv(b), i);
	mct_down();
	return 0;
}

Test(mcapi_memory, no_more_carriers, .timeout = MCT_TIMEOUT)
{
	in_child(no_carrier);
}
