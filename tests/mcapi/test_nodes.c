/* SPDX-License-Identifier: BSD-2-Clause */
/* Nodes that come, go and are many (3.1, 4.1.2). */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_nodes, .init = twc_job, .timeout = MCT_TIMEOUT);

/* As many nodes as any program of the standard has, each talks with three others. */
static void ring_of_nodes(struct mct_me *me)
{
	static const int far[] = {1, 7, 31};
	mcapi_endpoint_t mine = mct_create(1);
	uint64_t sum = 0, want = 0;

	for (int i = 0; i < 3; i++) {
		int to = (me->rank + far[i]) % me->n;

		mct_send(mine, mct_get((mcapi_node_t)to, 1), (uint64_t)me->rank << 8 | (unsigned)i,
			 (mcapi_priority_t)i);
		want += (uint64_t)((me->rank + me->n - far[i]) % me->n) << 8 | (unsigned)i;
	}
	for (int i = 0; i < 3; i++)
		sum += mct_recv(mine);
	twc_eq(sum, want);
	/* A scalar channel around the ring, one token through all. */
	mcapi_endpoint_t in = mct_create(2), out = mct_create(3);
	const struct mct_kind *k = &mct_kinds[MCT_SCL];
	mcapi_request_t rx, tx;
	uint32_t hr, hs;

	mct_connect(k, out, mct_get((mcapi_node_t)((me->rank + 1) % me->n), 2));
	tx = mct_open_send(k, out, &hs);
	/* Who connects it is the one before. */
	mct_meet(me);
	rx = mct_open_recv(k, in, &hr);
	mct_done(&tx);
	mct_done(&rx);
	if (me->rank == 0)
		mct_put(k, hs, 1);
	sum = mct_take(k, hr);
	if (me->rank == 0)
		twc_eq(sum, me->n);
	else
		mct_put(k, hs, sum + 1);
	mct_meet(me);
	mct_close_send(k, hs);
	mct_close_recv(k, hr);
	mct_meet(me);
}

Test(mcapi_nodes, sixty_four_threads, .timeout = MCT_TIMEOUT)
{
	mct_crew(MCT_THREADS, 64, ring_of_nodes);
}

Test(mcapi_nodes, sixty_four_processes, .timeout = MCT_TIMEOUT)
{
	mct_crew(MCT_PROCESSES, 64, ring_of_nodes);
}

/* Nodes of threads and of processes together: four processes of two nodes each. */
struct member {
	struct mct_me *me;
	mcapi_node_t node;
};

static void half(void *arg)
{
	struct member *m = arg;
	mcapi_endpoint_t mine;

	mct_up(m->node);
	mine = mct_create(1);
	for (mcapi_node_t to = 0; to < 8; to++)
		mct_send(mine, mct_get(to, 1), m->node, 0);
	uint64_t seen = 0;

	for (int i = 0; i < 8; i++)
		seen |= 1u << mct_recv(mine);
	twc_eq(seen, 0xff);
	atomic_fetch_add(&m->me->shared->word[0], 1);
	mct_until(m->me, 0, 8);
	mct_down();
}

static void two_nodes(struct mct_me *me)
{
	struct member m[2] = {{me, (mcapi_node_t)(2 * me->rank)},
			      {me, (mcapi_node_t)(2 * me->rank + 1)}};
	struct twc_thread t[2];

	for (int i = 0; i < 2; i++)
		twc_start(&t[i], half, &m[i]);
	for (int i = 0; i < 2; i++)
		twc_join(&t[i]);
}

Test(mcapi_nodes, threads_and_processes, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_PROCESSES, 4, two_nodes);
}

/* Node 1 in a place that is not its own finds nobody. */
static void wrong_node_1(void)
{
	mcapi_endpoint_t found;
	mcapi_request_t r;
	size_t size;

	mct_up(1);
	mct_ok(mcapi_get_endpoint_i(0, 1, &found, &r, ST));
	mct_is(MCAPI_EREQ_TIMEOUT, mcapi_wait(&r, &size, ST, 200));
	mct_down();
}

static void impostor(struct mct_me *me)
{
	const struct mct_kind *k = &mct_kinds[MCT_PKT];
	mcapi_version_t version;
	uint32_t h = 0;

	if (me->rank < 2) {
		mct_up((mcapi_node_t)me->rank);
		h = mct_open_between(me, k);
	} else {
		mct_meet(me);
	}
	mct_meet(me);
	if (me->rank == 2) {
		/* Another board of this host. Without one the number is taken. */
		twc_eq(setenv("TAGWIRE_NODES", "1=127.0.0.1", 1), 0);
		mcapi_initialize(1, &version, ST);
		if (mct_status != MCAPI_INITIALIZED) {
			mcapi_finalize(ST);
			wrong_node_1();
		}
	}
	mct_meet(me);
	if (me->rank == 2) {
		mct_meet(me);
		return;
	}
	if (me->rank)
		mct_put(k, h, 7);
	else
		twc_eq(mct_take(k, h), 7);
	mct_close_between(me, k, h);
	mct_down();
}

/* A second node of a number, on another board, is not taken for the first. */
Test(mcapi_nodes, impostor, .timeout = MCT_TIMEOUT)
{
	mct_wild(MCT_PROCESSES, 3, impostor);
}

static void lives_elsewhere(void *arg)
{
	(void)arg;
	wrong_node_1();
}

/* A process of this host is not taken for a node of another one (an address for texts). */
Test(mcapi_nodes, on_the_wrong_host, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t;

	twc_eq(setenv("TAGWIRE_NODES", "1=192.0.2.1", 1), 0);
	mct_up(0);
	mct_create(1);
	twc_start(&t, lives_elsewhere, NULL);
	twc_join(&t);
	mct_delete(mct_get(0, 1));
	mct_down();
}

/* A call that blocks in another thread while its node ends: an error, not a hang. */
enum call { RECV, GET, WAIT, WAIT_ANY, PKT_RECV, SCL_RECV, SCL_SEND, CALLS };

struct caller {
	enum call call;
	mcapi_endpoint_t ep;
	struct mct_chan *pkt, *scl, *full;
	mcapi_request_t req;
	mcapi_status_t status;
};

static void block(void *arg)
{
	struct caller *c = arg;
	mcapi_request_t *list[1] = {&c->req};
	uint64_t value;
	size_t size;

	c->status = MCAPI_SUCCESS;
	switch (c->call) {
	case RECV:
		mcapi_msg_recv(c->ep, &value, 8, &size, &c->status);
		break;
	case GET:
		mcapi_get_endpoint(1, 99, &c->status);
		break;
	case WAIT:
		mcapi_wait(&c->req, &size, &c->status, MCAPI_INFINITE);
		break;
	case WAIT_ANY:
		mcapi_wait_any(1, list, &size, &c->status, MCAPI_INFINITE);
		break;
	case PKT_RECV:
		c->pkt->k->recv(c->pkt->rx, &c->status);
		break;
	case SCL_RECV:
		c->scl->k->recv(c->scl->rx, &c->status);
		break;
	default:
		while (c->status == MCAPI_SUCCESS)
			c->full->k->send(c->full->tx, 1, &c->status);
	}
}

static void block_all(struct caller *c, struct twc_thread *t, struct mct_chan chan[3],
		      uint64_t *value)
{
	mct_up(1);
	for (int i = 0; i < 3; i++)
		mct_chan(&chan[i], &mct_kinds[i ? MCT_SCL : MCT_PKT]);
	for (int i = 0; i < CALLS; i++) {
		c[i] = (struct caller){i, mct_create(i), &chan[0], &chan[1], &chan[2],
				       0, MCAPI_SUCCESS};
		if (i == WAIT || i == WAIT_ANY)
			mct_ok(mcapi_msg_recv_i(c[i].ep, value, 8, &c[i].req, ST));
		twc_start(&t[i], block, &c[i]);
	}
	for (int i = 0; i < CALLS; i++)
		twc_asleep(&t[i]);
}

Test(mcapi_nodes, finalize_while_others_block, .timeout = MCT_TIMEOUT)
{
	for (int round = 0; round < 3; round++) {
		struct caller c[CALLS];
		struct twc_thread t[CALLS];
		struct mct_chan chan[3];
		uint64_t value = 0;

		block_all(c, t, chan, &value);
		mct_down();
		for (int i = 0; i < CALLS; i++) {
			twc_join(&t[i]);
			if (c[i].status == MCAPI_SUCCESS)
				twc_fail(__FILE__, __LINE__, "call %d succeeded", i);
		}
	}
}

/* A long message is on its way when the node ends: the buffer is the program's again at once. */
#define LONG_LEN (8u << 20)
#define STEP 4096u

static atomic_int ended;

static int send_for_ever(void *arg, int fd)
{
	struct pollfd over = {.fd = fd, .events = POLLIN};
	char *data = calloc(1, LONG_LEN);
	mcapi_endpoint_t ep;

	(void)arg;
	mct_up(2);
	ep = mct_create(1);
	while (poll(&over, 1, 0) == 0)
		mcapi_msg_send(ep, 1u << 16 | 1, data, LONG_LEN, 0, ST);
	twc_hear(fd);
	mct_down();
	free(data);
	return 0;
}

static void receive_for_ever(void *arg)
{
	mcapi_endpoint_t ep = mcapi_get_endpoint(1, 1, ST);
	char *data = arg;
	size_t size;

	do
		mcapi_msg_recv(ep, data, LONG_LEN, &size, ST);
	while (mct_status == MCAPI_SUCCESS);
	for (size_t i = 0; i < LONG_LEN; i += STEP)
		data[i] = 0x5a;
	while (!atomic_load(&ended))
		twc_sleep(1);
	for (size_t i = 0; i < LONG_LEN; i += STEP)
		twc_eq(data[i], 0x5a);
}

Test(mcapi_nodes, finalize_amid_a_long_message, .timeout = MCT_TIMEOUT)
{
	char *data = malloc(LONG_LEN);
	struct twt_child child;

	twt_spawn(&child, send_for_ever, NULL);
	for (int round = 0; round < 100; round++) {
		struct twc_thread t;

		atomic_store(&ended, 0);
		mct_up(1);
		mct_create(1);
		twc_start(&t, receive_for_ever, data);
		usleep((useconds_t)(2000 + round * 37));
		mct_down();
		atomic_store(&ended, 1);
		twc_join(&t);
	}
	twc_tell(child.fd);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
	free(data);
}

/* From atexit() too: the process ends, and well. */
static void finalize_at_exit(void)
{
	mcapi_status_t status;

	mcapi_finalize(&status);
	/* Criterion's handlers, which come next, are not for this child. */
	_exit(status == MCAPI_SUCCESS ? 0 : 9);
}

static int exit_with_threads(void *arg, int fd)
{
	static struct caller c[CALLS];
	static struct twc_thread t[CALLS];
	static struct mct_chan chan[3];
	static uint64_t value;

	(void)arg;
	(void)fd;
	block_all(c, t, chan, &value);
	atexit(finalize_at_exit);
	exit(1);
}

Test(mcapi_nodes, finalize_at_exit, .timeout = MCT_TIMEOUT)
{
	struct twt_child child;

	twt_spawn(&child, exit_with_threads, NULL);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
}

/* A node that ends without a close: the other end of its channels notices. */
static int leave_suddenly(void *arg, int fd)
{
	uint32_t h[2];
	mcapi_request_t req;
	char how = *(char *)arg, c;

	mct_up(2);
	for (int i = 0; i < 2; i++) {
		mcapi_endpoint_t ep = mct_create(i);

		mct_connect(&mct_kinds[i], ep, mct_get(1, i));
		req = mct_open_send(&mct_kinds[i], ep, &h[i]);
		mct_done(&req);
		for (uint64_t n = 0; n < 20; n++)
			mct_put(&mct_kinds[i], h[i], n);
	}
	/* A channel the other way, for its sends. */
	mcapi_endpoint_t in = mct_create(5);

	mct_connect(&mct_kinds[MCT_SCL], mct_get(1, 5), in);
	req = mct_open_recv(&mct_kinds[MCT_SCL], in, &h[0]);
	mct_done(&req);
	twc_eq(twt_put(fd, "!", 1), 0);
	twc_eq(twt_get(fd, &c, 1), 0);
	if (how == 'f')
		mct_down();
	else if (how == 'k')
		kill(getpid(), SIGKILL);
	return 0;
}

static void left(char how)
{
	static const int code[] = {['f'] = 0, ['x'] = 0, ['k'] = 1000 + SIGKILL};
	double end = twt_now() + MCT_LONG / 1000.;
	mcapi_endpoint_t ep[3];
	struct twt_child child;
	mcapi_request_t req[3];
	uint32_t h[3];
	char c;

	twt_spawn(&child, leave_suddenly, &how);
	mct_up(1);
	ep[0] = mct_create(0);
	ep[1] = mct_create(1);
	ep[2] = mct_create(5);
	for (int i = 0; i < 3; i++) {
		while (!(mct_attr(ep[i], MCAPI_ATTR_ENDP_STATUS) & MCAPI_CONNECTED)) {
			twc_check(twt_now() < end);
			twc_sleep(1);
		}
		req[i] = i < 2 ? mct_open_recv(&mct_kinds[i], ep[i], &h[i])
			       : mct_open_send(&mct_kinds[MCT_SCL], ep[i], &h[i]);
	}
	for (int i = 0; i < 3; i++)
		mct_done(&req[i]);
	for (int i = 0; i < 2; i++)
		mct_queued(&mct_kinds[i], h[i], 20);
	twc_eq(twt_get(child.fd, &c, 1), 0);
	twc_eq(twt_put(child.fd, "!", 1), 0);
	twc_eq(twt_join(&child, MCT_CHILD), code[(int)how]);
	for (int i = 0; i < 2; i++) {
		for (uint64_t n = 0; n < 20; n++)
			twc_eq(mct_take(&mct_kinds[i], h[i]), n);
		mct_k(MCAPI_ENOT_HANDLE, &mct_kinds[i], recv, h[i]);
		mct_close_recv(&mct_kinds[i], h[i]);
	}
	do {
		mct_kinds[MCT_SCL].send(h[2], 1, ST);
		twc_check(twt_now() < end);
	} while (mct_status == MCAPI_SUCCESS);
	twc_eq(mct_status, MCAPI_ENOT_HANDLE);
	mct_close_send(&mct_kinds[MCT_SCL], h[2]);
	for (int i = 0; i < 3; i++)
		mct_delete(ep[i]);
	/* The number is free again. */
	mct_down();
	mct_up(2);
	mct_down();
}

Test(mcapi_nodes, peer_finalizes, .timeout = MCT_TIMEOUT)
{
	left('f');
}

Test(mcapi_nodes, peer_exits, .timeout = MCT_TIMEOUT)
{
	left('x');
}

Test(mcapi_nodes, peer_is_killed, .timeout = MCT_TIMEOUT)
{
	left('k');
}

/* The same number again, in the same process and in another, while others stay. */
MCT_BOTH(mcapi_nodes, come_and_go, 3)
{
	mcapi_endpoint_t mine = mct_create(1);

	for (int round = 0; round < 10; round++) {
		mct_meet(me);
		if (me->rank) {
			mct_send(mine, mct_get(0, 1), (uint64_t)round, 0);
		} else {
			twc_eq(mct_recv(mine), round);
			twc_eq(mct_recv(mine), round);
		}
		mct_meet(me);
		if (me->rank != round % 3) {
			mct_meet(me);
			continue;
		}
		mct_down();
		mct_up((mcapi_node_t)me->rank);
		mine = mct_create(1);
		mct_meet(me);
	}
	mct_delete(mine);
}

/* Several at once; all find each other again. */
MCT_BOTH(mcapi_nodes, restarts, 4)
{
	mcapi_endpoint_t mine = mct_create(1);

	for (uint64_t round = 0, n = 60 / twt_slow(); round < n; round++) {
		uint64_t rng = round, sum = 0;
		unsigned who = (unsigned)twt_random(&rng);

		for (mcapi_node_t to = 0; to < 4; to++)
			mct_send(mine, mct_get(to, 1), round << 4 | (unsigned)me->rank, 0);
		for (int i = 0; i < 4; i++)
			sum += mct_recv(mine);
		twc_eq(sum, 4 * (round << 4) + 6);
		mct_meet(me);
		if (who >> me->rank & 1) {
			mct_down();
			mct_up((mcapi_node_t)me->rank);
			mine = mct_create(1);
		}
		/* What is sent to a node that is about to end would end with it. */
		mct_meet(me);
	}
}

/* A thread that ends without finalizing: the library does it (3.10). */
static void end_without_finalizing(void *arg)
{
	static _Thread_local uint64_t value[2];
	atomic_int *stage = arg;
	mcapi_request_t req;
	struct mct_chan c;

	mct_up(1);
	mct_ok(mcapi_msg_recv_i(mct_create(1), &value[0], 8, &req, ST));
	mct_ok(mcapi_get_endpoint_i(1, 77, (mcapi_endpoint_t *)&value[1], &req, ST));
	mct_each_kind(k)
	{
		mct_chan(&c, k);
		mct_put(k, c.tx, 5);
	}
	atomic_store(stage, 1);
	while (atomic_load(stage) == 1)
		twc_sleep(1);
}

/* Another thread that acts for the node meanwhile: blocked, or in the midst of calls. */
struct actor {
	bool block;
	atomic_bool there;
};

static void act_for_it(void *arg)
{
	struct actor *a = arg;
	mcapi_status_t st = MCAPI_SUCCESS;
	mcapi_endpoint_t ep = mct_create(a->block ? 5 : 6);
	uint64_t value = 0;
	size_t size;

	atomic_store(&a->there, true);
	while (st == MCAPI_SUCCESS) {
		if (!a->block)
			mcapi_msg_send(ep, ep, &value, 8, 0, &st);
		if (st == MCAPI_SUCCESS)
			mcapi_msg_recv(ep, &value, 8, &size, &st);
	}
	twc_eq(st, MCAPI_ENOT_ENDP);
}

Test(mcapi_nodes, thread_ends, .timeout = MCT_TIMEOUT)
{
	for (int round = 0; round < 10; round++) {
		struct twc_thread node, blocked, busy;
		struct actor sleeper = {.block = true}, worker = {.block = false};
		atomic_int stage = 0;

		twc_start(&node, end_without_finalizing, &stage);
		while (!atomic_load(&stage))
			twc_sleep(1);
		twc_start(&blocked, act_for_it, &sleeper);
		twc_asleep(&blocked);
		twc_start(&busy, act_for_it, &worker);
		while (!atomic_load(&worker.there))
			twc_sleep(1);
		atomic_store(&stage, 2);
		twc_join(&node);
		twc_join(&blocked);
		twc_join(&busy);
		mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
		mct_up(1);
		mct_create(1);
		mct_send(mct_get(1, 1), mct_get(1, 1), 4, 0);
		twc_eq(mct_recv(mct_get(1, 1)), 4);
		mct_down();
	}
}

/* The main thread, which ends by pthread_exit(), too. */
static void follow(void *arg)
{
	double end = twt_now() + MCT_LONG / 1000.;

	(void)arg;
	do {
		twc_check(twt_now() < end);
		mcapi_get_node_id(ST);
	} while (mct_status == MCAPI_SUCCESS);
	mct_up(1);
	mct_down();
	_exit(3);
}

static int main_thread_ends(void *arg, int fd)
{
	static struct twc_thread t;

	(void)arg;
	(void)fd;
	mct_up(1);
	twc_start(&t, follow, NULL);
	pthread_exit(NULL);
}

Test(mcapi_nodes, main_thread_ends, .timeout = MCT_TIMEOUT)
{
	struct twt_child child;

	twt_spawn(&child, main_thread_ends, NULL);
	twc_eq(twt_join(&child, MCT_CHILD), 3);
}
