/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that share a node and what it has (3.14.2); a child of the node's process. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_threads, .init = twc_job, .timeout = MCT_TIMEOUT);

#define THREADS 4
#define EACH 2000

/* Each number is sent once by one thread; all together are received once. */
struct crowd {
	struct mct_chan chan;
	mcapi_endpoint_t from, to;
	atomic_uint next;
	atomic_uchar came[THREADS * EACH];
};

struct part {
	struct crowd *c;
	int number;
};

static void note(struct crowd *c, uint64_t value)
{
	twc_check(value < THREADS * EACH);
	twc_eq(atomic_fetch_add(&c->came[value], 1), 0);
}

static void send_msgs(void *arg)
{
	struct part *p = arg;

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t value = (uint64_t)p->number * EACH + i;

		do {
			mct_either(MCAPI_SUCCESS, MCAPI_ENO_BUFFER,
				   mcapi_msg_send(p->c->from, p->c->to, &value, 8, 0, ST));
			if (mct_status == MCAPI_ENO_BUFFER)
				twc_sleep(0);
		} while (mct_status == MCAPI_ENO_BUFFER);
	}
}

static void recv_msgs(void *arg)
{
	struct part *p = arg;
	mcapi_request_t req;
	uint64_t value;

	for (int i = 0; i < EACH; i++) {
		if (i % 2) {
			note(p->c, mct_recv(p->c->to));
			continue;
		}
		mct_ok(mcapi_msg_recv_i(p->c->to, &value, 8, &req, ST));
		twc_eq(mct_done(&req), 8);
		note(p->c, value);
	}
}

static void send_items(void *arg)
{
	struct part *p = arg;
	mcapi_request_t req;

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t value = (uint64_t)p->number * EACH + i;

		if (p->c->chan.k->flag == MCAPI_SCL) {
			mct_put(p->c->chan.k, p->c->chan.tx, value);
			continue;
		}
		mct_ok(mcapi_pktchan_send_i(p->c->chan.tx, &value, 8, &req, ST));
		twc_eq(mct_done(&req), 8);
	}
}

static void recv_items(void *arg)
{
	struct part *p = arg;

	for (int i = 0; i < EACH; i++)
		note(p->c, mct_take(p->c->chan.k, p->c->chan.rx));
}

static void run_crowd(struct crowd *c, void (*send)(void *), void (*recv)(void *))
{
	struct twc_thread t[2 * THREADS];
	struct part p[THREADS];

	memset(c->came, 0, sizeof(c->came));
	for (int i = 0; i < THREADS; i++) {
		p[i] = (struct part){c, i};
		twc_start(&t[i], send, &p[i]);
		twc_start(&t[THREADS + i], recv, &p[i]);
	}
	for (int i = 0; i < 2 * THREADS; i++)
		twc_join(&t[i]);
	for (int i = 0; i < THREADS * EACH; i++)
		twc_eq(c->came[i], 1);
}

Test(mcapi_threads, share_endpoints, .timeout = MCT_TIMEOUT)
{
	static struct crowd c;

	mct_up(1);
	c.from = mct_create(1);
	c.to = mct_create(2);
	run_crowd(&c, send_msgs, recv_msgs);
	mct_available(c.to, 0);
	mct_down();
}

Test(mcapi_threads, share_channels, .timeout = MCT_TIMEOUT)
{
	static struct crowd c;

	mct_up(1);
	mct_each_kind(k)
	{
		mct_chan(&c.chan, k);
		run_crowd(&c, send_items, recv_items);
		mct_queued(k, c.chan.rx, 0);
		mct_chan_end(&c.chan);
	}
	mct_down();
}

/* Each with endpoints and channels of its own, in one node. */
static void alone(void *arg)
{
	const struct mct_kind *k = &mct_kinds[*(int *)arg % 2];
	struct mct_chan c;

	for (int round = 0; round < 20; round++) {
		mct_chan(&c, k);
		for (uint64_t i = 0; i < 50; i++) {
			mct_put(k, c.tx, i);
			mct_send(c.s, c.r, i, 0);
		}
		for (uint64_t i = 0; i < 50; i++) {
			twc_eq(mct_take(k, c.rx), i);
			twc_eq(mct_recv(c.r), i);
		}
		mct_chan_end(&c);
	}
}

Test(mcapi_threads, beside_each_other, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t[THREADS];
	int number[THREADS];

	mct_up(1);
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		twc_start(&t[i], alone, &number[i]);
	}
	for (int i = 0; i < THREADS; i++)
		twc_join(&t[i]);
	mct_down();
}

/* Several wait for one request. */
struct wait {
	mcapi_request_t req;
	size_t size;
	mcapi_status_t status;
};

static void wait_here(void *arg)
{
	struct wait *w = arg;

	mcapi_wait(&w->req, &w->size, &w->status, MCT_LONG);
}

Test(mcapi_threads, wait_for_one_request, .timeout = MCT_TIMEOUT)
{
	struct twc_thread t[THREADS];
	struct wait w[THREADS];
	mcapi_request_t req = 0;
	mcapi_endpoint_t a;
	uint64_t value;

	mct_up(1);
	a = mct_create(1);
	mct_ok(mcapi_msg_recv_i(a, &value, 8, &req, ST));
	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct wait){.req = req, .status = MCAPI_ERROR};
		twc_start(&t[i], wait_here, &w[i]);
	}
	for (int i = 0; i < THREADS; i++)
		twc_asleep(&t[i]);
	mct_send(a, a, 5, 0);
	for (int i = 0; i < THREADS; i++) {
		twc_join(&t[i]);
		/* The end of a request is told to each that asks. */
		twc_eq(w[i].status, MCAPI_SUCCESS);
		twc_eq(w[i].size, 8);
	}
	mct_down();
}

/* Nothing of the parent's is the child's, which may be a node of its own. */
static int child_of_node(mcapi_endpoint_t ep)
{
	mcapi_endpoint_t mine;

	mct_is(MCAPI_ENODE_NOTINIT, mcapi_get_node_id(ST));
	mct_is(MCAPI_ENODE_NOTINIT, mcapi_create_endpoint(9, ST));
	mct_is(MCAPI_ENOT_ENDP, mcapi_msg_available(ep, ST));
	mct_is(MCAPI_ENO_FINAL, mcapi_finalize(ST));
	mct_up(2);
	mine = mct_create(1);
	mct_send(mine, mct_get(1, 1), 77, 0);
	twc_eq(mct_recv(mine), 78);
	mct_down();
	return 0;
}

Test(mcapi_threads, fork, .timeout = MCT_TIMEOUT)
{
	mcapi_endpoint_t ep;
	int status = 0;
	pid_t pid;

	mct_up(1);
	ep = mct_create(1);
	mct_send(ep, ep, 1, 0);
	pid = fork();
	twc_check(pid >= 0);
	if (pid == 0) {
		alarm(MCT_CHILD);
		_exit(child_of_node(ep));
	}
	twc_eq(mct_recv(ep), 1);
	twc_eq(mct_recv(ep), 77);
	mct_send(ep, mct_get(2, 1), 78, 0);
	twc_eq(waitpid(pid, &status, 0), pid);
	twc_eq(status, 0);
	mct_send(ep, ep, 2, 0);
	twc_eq(mct_recv(ep), 2);
	mct_down();
}

static pthread_t forker;

static void *without_a_node(void *unused)
{
	mcapi_status_t st;
	bool second = mcapi_get_node_id(&st) == 2 && st == MCAPI_SUCCESS;

	(void)unused;
	return second ? &forker : NULL;
}

static void *outlives_the_forker(void *unused)
{
	pthread_t thread;
	void *second;

	(void)unused;
	mct_up(2);
	twc_eq(pthread_join(forker, NULL), 0);
	mct_down();
	mct_up(2);
	twc_eq(pthread_create(&thread, NULL, without_a_node, NULL), 0);
	twc_eq(pthread_join(thread, &second), 0);
	_exit(second ? 0 : 1);
}

/* The end of the thread that has forked ends no node in the child. */
Test(mcapi_threads, forker_ends, .timeout = MCT_TIMEOUT)
{
	pthread_t thread;
	int status = 0;
	pid_t pid;

	mct_up(1);
	pid = fork();
	twc_check(pid >= 0);
	if (pid == 0) {
		alarm(MCT_CHILD);
		forker = pthread_self();
		if (pthread_create(&thread, NULL, outlives_the_forker, NULL) == 0)
			pthread_exit(NULL);
		_exit(2);
	}
	twc_eq(waitpid(pid, &status, 0), pid);
	twc_eq(status, 0);
	mct_down();
}

/* A whole life of a node in a thread that is cancelled as soon as a call lets that happen. */
static void *lives_cancelled(void *through)
{
	mcapi_status_t st;
	mcapi_version_t version;
	mcapi_endpoint_t ep;
	mcapi_request_t r;
	uint64_t value = 1;
	size_t size;

	twc_eq(pthread_cancel(pthread_self()), 0);
	/* By these calls alone: those of mcapit.h write files. */
	mcapi_initialize(1, &version, &st);
	ep = mcapi_create_endpoint(1, &st);
	mcapi_msg_send(ep, ep, &value, 8, 0, &st);
	mcapi_msg_recv(ep, &value, 8, &size, &st);
	twc_eq(st, MCAPI_SUCCESS);
	mcapi_msg_recv_i(ep, &value, 8, &r, &st);
	mcapi_wait(&r, &size, &st, 20);
	twc_eq(st, MCAPI_EREQ_TIMEOUT);
	mcapi_delete_endpoint(ep, &st);
	mcapi_finalize(&st);
	twc_eq(st, MCAPI_SUCCESS);
	*(bool *)through = true;
	pthread_testcancel();
	return NULL;
}

/* No call is a cancellation point; a node can begin afterwards. */
Test(mcapi_threads, cancelled, .timeout = MCT_TIMEOUT)
{
	bool through = false;
	pthread_t thread;
	void *result;

	twc_eq(pthread_create(&thread, NULL, lives_cancelled, &through), 0);
	twc_eq(pthread_join(thread, &result), 0);
	twc_check(through && result == PTHREAD_CANCELED);
	mct_up(1);
	mct_down();
}
