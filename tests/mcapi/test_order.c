/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What nodes say to each other beside their data (close, connect, credit), and
 * scalars that travel as messages, keep their order where the sender is short of
 * the engine's credit, so that some of it is announced and fetched and some is not.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

/* Credit for a few cache lines of each peer. */
static void starved(void)
{
	twc_job();
	setenv("TAGWIRE_UNEXP_MAX", "1024", 1);
}

TestSuite(mcapi_order, .init = starved, .timeout = MCT_TIMEOUT);

/* Takes credit away. */
static void crowd(mcapi_endpoint_t from, mcapi_endpoint_t to, unsigned n)
{
	static const char text[300];

	while (n--)
		mct_either(MCAPI_SUCCESS, MCAPI_ENO_BUFFER,
			   mcapi_msg_send(from, to, text, sizeof(text) - n % 200, 1, ST));
}

static void drain(mcapi_endpoint_t ep)
{
	char text[300];
	size_t size;

	while (mcapi_msg_available(ep, ST))
		mct_ok(mcapi_msg_recv(ep, text, sizeof(text), &size, ST));
}

/* A connect that follows a close, or a delete, finds the receiver free again. */
MCT_BOTH(mcapi_order, connect_after_close, 2)
{
	enum { ROUNDS = 400 };
	mcapi_endpoint_t mine = mct_create(1), mail = mct_create(2), other, there;
	uint32_t h;

	other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	there = mct_get(1 - (mcapi_node_t)me->rank, 2);
	if (me->rank == 1) {
		while (!atomic_load(&me->shared->word[0]))
			drain(mail);
		mct_meet(me);
		return;
	}
	for (unsigned i = 0, n = ROUNDS / twt_slow(); i < n; i++) {
		const struct mct_kind *k = &mct_kinds[i % 2];

		mct_connect(k, mine, other);
		crowd(mail, there, i % 5);
		if (i % 3) {
			mct_open_send(k, mine, &h);
			crowd(mail, there, i % 7);
			mct_close_send(k, h);
		} else {
			mct_delete(mine);
			mine = mct_create(1);
		}
	}
	atomic_store(&me->shared->word[0], 1);
	mct_meet(me);
}

/* What was sent before the close is received, long and short, however it travels. */
MCT_BOTH(mcapi_order, close_behind_packets, 2)
{
	enum { ROUNDS = 60, MANY = 40 };
	static const size_t sizes[] = {0, 8, 300, 5000, 0, 250000, 0, 1 << 20};
	mcapi_endpoint_t mine = mct_create(1), other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	const struct mct_kind *k = &mct_kinds[MCT_PKT];
	char *data = malloc(1 << 20);
	mcapi_request_t req, out[MANY];
	uint32_t h;

	twc_check(data);
	twt_fill(data, 1 << 20, 9);
	for (unsigned round = 0; round < ROUNDS; round += twt_slow()) {
		unsigned n = round % MANY;
		void *p;

		if (me->rank == 0) {
			mct_connect(k, mine, other);
			mct_meet(me);
			req = mct_open_send(k, mine, &h);
			mct_done(&req);
			for (unsigned i = 0; i < n; i++)
				mct_ok(mcapi_pktchan_send_i(h, data, sizes[(i + round) % 8],
							    &out[i], ST));
			mct_close_send(k, h);
			for (unsigned i = 0; i < n; i++)
				twc_eq(mct_done(&out[i]), sizes[(i + round) % 8]);
		} else {
			mct_meet(me);
			req = mct_open_recv(k, mine, &h);
			mct_done(&req);
			if (round % 3 == 0)
				twc_sleep(2);
			for (unsigned i = 0; i < n; i++) {
				size_t size = 77, want = sizes[(i + round) % 8];

				mct_ok(mcapi_pktchan_recv(h, &p, &size, ST));
				twc_eq(size, want);
				twc_eq(twt_check(p, size, 9), size);
				mct_ok(mcapi_pktchan_free(p, ST));
			}
			mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
			mct_close_recv(k, h);
		}
		mct_meet(me);
	}
	free(data);
}

/* No more descriptors: a ring cannot be shared, and scalars travel as messages. */
static void no_descriptors(void)
{
	struct rlimit limit;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	twc_check(fd >= 0 && !getrlimit(RLIMIT_NOFILE, &limit));
	close(fd);
	limit.rlim_cur = (rlim_t)fd;
	twc_check(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void scalars(struct mct_me *me)
{
	enum { MANY = 20000 };
	mcapi_endpoint_t mine = mct_create(1), mail = mct_create(2), other, there;
	const struct mct_kind *k = &mct_kinds[MCT_SCL];
	mcapi_request_t req;
	uint32_t h;

	other = mct_get(1 - (mcapi_node_t)me->rank, 1);
	there = mct_get(1 - (mcapi_node_t)me->rank, 2);
	if (me->rank == 0) {
		mct_connect(k, mine, other);
		mct_meet(me);
		req = mct_open_send(k, mine, &h);
		mct_done(&req);
		for (unsigned i = 0; i < MANY; i++) {
			mct_put(k, h, i);
			if (i % 50 == 0)
				crowd(mail, there, 3);
		}
		mct_close_send(k, h);
		mct_meet(me);
		return;
	}
	mct_meet(me);
	no_descriptors();
	req = mct_open_recv(k, mine, &h);
	mct_done(&req);
	for (unsigned i = 0; i < MANY; i++) {
		twc_eq(mct_take(k, h), i);
		if (i % 100 == 0)
			drain(mail);
		/* The sender uses up all it may send. */
		if (i % 64 == 63)
			twc_sleep(3);
	}
	mct_k(MCAPI_ENOT_HANDLE, k, recv, h);
	mct_close_recv(k, h);
	mct_meet(me);
}

Test(mcapi_order, scalars_by_message, .timeout = MCT_TIMEOUT)
{
	mct_crew(MCT_PROCESSES, 2, scalars);
}
