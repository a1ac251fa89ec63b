/* SPDX-License-Identifier: BSD-2-Clause */
/* 4.8.1 to 4.8.3 Barriers, exchanges and holding them. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mrapi/mrapit.h"

TestSuite(mrapi_barrier, .init = twc_job, .timeout = MR_TIMEOUT);

enum { ELEMS = 3, ROUNDS = 300 };

struct message {
	mrapi_msg_t head;
	uint32_t a, b;
};

struct buffers {
	struct message m[ELEMS];
	unsigned counter;
	uint64_t sum;
	mrapi_status_t status;
};

typedef void init_fn(mrapi_atomic_barrier_t *axb, pid_t dest, mrapi_msg_t *buffer, unsigned elems,
		     size_t size, unsigned *counter, mca_timeout_t timeout, mrapi_status_t *status);

static void barrier(mrapi_atomic_barrier_t *x, pid_t dest, struct buffers *b, mca_timeout_t timeout)
{
	mr_ok(mrapi_barrier_init(x, dest, &b->m->head, ELEMS, sizeof(*b->m), &b->counter, timeout,
				 &mr_st));
}

static void exchange(mrapi_atomic_barrier_t *x, pid_t dest, struct buffers *b,
		     mca_timeout_t timeout)
{
	mr_ok(mrapi_exchange_init(x, dest, &b->m->head, ELEMS, sizeof(*b->m), &b->counter, timeout,
				  &mr_st));
}

/* The same for both; the name is for the table of statuses. */
#define INIT(i, ...)                                                                               \
	(snprintf(mr_called, sizeof(mr_called), "%s", name[i]), init[i](__VA_ARGS__, &mr_st))

Test(mrapi_barrier, init_errors)
{
	static init_fn *const init[] = {mrapi_barrier_init, mrapi_exchange_init};
	static const char *const name[] = {"mrapi_barrier_init", "mrapi_exchange_init"};
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_msg_t *m = &b->m->head;
	mrapi_atomic_barrier_t x;

	mr_up(MR_NODE);
	for (int i = 0; i < 2; i++) {
		mr_is(MRAPI_ERR_PARAMETER, INIT(i, NULL, 0, m, ELEMS, sizeof(*b->m), NULL, 0));
		mr_is(MRAPI_ERR_PARAMETER, INIT(i, &x, 0, NULL, ELEMS, sizeof(*b->m), NULL, 0));
		mr_is(MRAPI_ERR_PARAMETER, INIT(i, &x, 0, m, 0, sizeof(*b->m), NULL, 0));
		mr_is(MRAPI_ERR_PARAMETER, INIT(i, &x, 0, m, 1, sizeof(*m) - 1, NULL, 0));
		mr_ok(INIT(i, &x, 0, m, 1, sizeof(*m), NULL, 0));
	}
	mr_down();
}

/* 4.8.3: what it was before is returned. */
Test(mrapi_barrier, hold)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x;

	mr_up(MR_NODE);
	barrier(&x, 0, b, 100);
	twc_eq(mr_val(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st)), MRAPI_FALSE);
	twc_eq(mr_val(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st)), MRAPI_FALSE);
	twc_eq(mr_val(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st)), MRAPI_TRUE);
	twc_eq(mr_val(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st)), MRAPI_TRUE);
	twc_eq(mr_val(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st)), MRAPI_FALSE);
	mr_is(MRAPI_ERR_PARAMETER, mrapi_atomic_hold(NULL, MRAPI_TRUE, &mr_st));
	mr_down();
}

/* 3.12.20: within one process the barrier has no effect, whatever is held. */
Test(mrapi_barrier, same_process)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x, y;
	uint32_t one = 1, now = 0;

	mr_up(MR_NODE);
	barrier(&x, getpid(), b, MRAPI_INFINITE);
	barrier(&y, getpid(), b, MRAPI_INFINITE);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_add(&y, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_read(&y, &b->m[0].a, &now, 4, &mr_st));
	twc_eq(now, 2);
	exchange(&x, getpid(), b, MRAPI_INFINITE);
	for (int i = 0; i < 3; i++)
		mr_ok(mrapi_atomic_inc(&x, &b->m[0].a, &now, 4, &mr_st));
	twc_eq(now, 5);
	mr_ok(mrapi_atomic_sync(&x, &mr_st));
	mr_down();
}

/*
 * While one process holds the barrier, the other's operation fails at its timeout. The
 * element is given back by the operation after "hold no more", or by a sync.
 */
static void add_there(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;
	uint32_t one = 1;

	barrier(&x, 0, b, MR_SHORT);
	mr_st = -1;
	mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st);
	b->status = mr_st;
}

Test(mrapi_barrier, timeout)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x;
	uint32_t one = 1;
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	barrier(&x, 0, b, MRAPI_INFINITE);
	mr_ok(mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_SUCCESS);
	twc_eq(b->m[0].a, 2);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_ERR_ATOM_OP_FAILED);
	twc_eq(b->m[0].a, 3);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_ERR_ATOM_OP_FAILED);
	mr_ok(mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_SUCCESS);
	twc_eq(b->m[0].a, 5);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_add(&x, &b->m[0].a, &one, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
	mr_ok(mrapi_atomic_sync(&x, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_SUCCESS);
	mr_down();
	mr_peer_end(&p);
}

/* 4.8.3: a structure of several words is updated as one. */
static void update(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;

	barrier(&x, 0, b, MR_LONG);
	for (int i = 0; i < ROUNDS; i++) {
		mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
		mr_ok(mrapi_atomic_inc(&x, &b->m[0].a, NULL, 4, &mr_st));
		if (i % 50 == 0)
			twc_sleep(1);
		mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
		mr_ok(mrapi_atomic_inc(&x, &b->m[0].b, NULL, 4, &mr_st));
	}
}

static void look(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;

	barrier(&x, 0, b, MR_LONG);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t first = 0, second = 1;

		mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
		mr_ok(mrapi_atomic_read(&x, &b->m[0].a, &first, 4, &mr_st));
		mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
		mr_ok(mrapi_atomic_read(&x, &b->m[0].b, &second, 4, &mr_st));
		twc_eq(first, second);
	}
}

Test(mrapi_barrier, whole_updates)
{
	struct buffers *b = mr_shared(sizeof(*b));
	struct mr_peer p[4];

	for (mrapi_node_t i = 0; i < 4; i++)
		mr_peer(&p[i], MR_PROCESS, i);
	for (int i = 0; i < 4; i++)
		mr_go(&p[i], i % 2 ? look : update, b);
	for (int i = 0; i < 4; i++)
		mr_done(&p[i]);
	twc_eq(b->m[0].a, 2 * ROUNDS);
	twc_eq(b->m[0].b, 2 * ROUNDS);
	for (int i = 0; i < 4; i++)
		mr_peer_end(&p[i]);
}

/* An exchange: each write is read once, in order. */
static void produce(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;

	exchange(&x, 0, b, MR_LONG);
	for (uint32_t i = 1; i <= ROUNDS; i++)
		mr_ok(mrapi_atomic_xchg(&x, &b->m[0].a, &i, NULL, 4, &mr_st));
}

static void consume(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;

	exchange(&x, 0, b, MR_LONG);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		uint32_t got = 0;

		mr_ok(mrapi_atomic_read(&x, &b->m[0].a, &got, 4, &mr_st));
		twc_eq(got, i);
		b->sum += got;
	}
}

Test(mrapi_barrier, exchange)
{
	struct buffers *b = mr_shared(sizeof(*b));
	struct mr_peer writer, reader;

	mr_peer(&writer, MR_PROCESS, 1);
	mr_peer(&reader, MR_PROCESS, 2);
	mr_go(&reader, consume, b);
	mr_go(&writer, produce, b);
	mr_done(&writer);
	mr_done(&reader);
	twc_eq(b->sum, ROUNDS * (ROUNDS + 1) / 2);
	mr_peer_end(&writer);
	mr_peer_end(&reader);
}

/* Each element of the buffer is exchanged for itself; the counter chooses. */
Test(mrapi_barrier, elements)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x;
	uint32_t v, got;

	mr_up(MR_NODE);
	for (b->counter = 0; b->counter < ELEMS; b->counter++) {
		exchange(&x, 0, b, MR_SHORT);
		v = 10 + b->counter;
		mr_ok(mrapi_atomic_xchg(&x, &b->m[b->counter].a, &v, NULL, 4, &mr_st));
	}
	for (b->counter = 0; b->counter < 2 * ELEMS; b->counter++) {
		exchange(&x, 0, b, MR_SHORT);
		/* The counter goes round. */
		mrapi_atomic_read(&x, &b->m[b->counter % ELEMS].a, &got, 4, &mr_st);
		if (b->counter < ELEMS) {
			mr_eq(mr_st, MRAPI_SUCCESS);
			twc_eq(got, 10 + b->counter);
		} else {
			/* It was read, and nothing new was written. */
			mr_eq(mr_st, MRAPI_ERR_ATOM_OP_FAILED);
		}
	}
	mr_down();
}

/* What the element's head has for the program is the program's, also amid operations. */
Test(mrapi_barrier, transaction)
{
	static init_fn *const init[] = {mrapi_barrier_init, mrapi_exchange_init};
	static const char *const name[] = {"mrapi_barrier_init", "mrapi_exchange_init"};
	struct buffers *b = mr_shared(sizeof(*b));
	unsigned *txn = &b->m[0].head.txn, now = 0;
	mrapi_atomic_barrier_t x, y;

	mr_up(MR_NODE);
	for (int i = 0; i < 2; i++) {
		*txn = 0;
		mr_ok(INIT(i, &x, 0, &b->m->head, ELEMS, sizeof(*b->m), NULL, MR_LONG));
		mr_ok(INIT(i, &y, 0, &b->m->head, ELEMS, sizeof(*b->m), NULL, MR_LONG));
		mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
		mr_ok(mrapi_atomic_inc(&x, txn, NULL, sizeof(*txn), &mr_st));
		twc_eq(*txn, 1);
		mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
		mr_ok(mrapi_atomic_inc(&x, txn, NULL, sizeof(*txn), &mr_st));
		mr_ok(mrapi_atomic_read(&y, txn, &now, sizeof(*txn), &mr_st));
		twc_eq(now, 2);
	}
	mr_down();
}

/* 4.8.17: who waits for a lock must not keep out the one that releases it. */
struct contest {
	struct buffers b;
	init_fn *init;
	uint32_t lock;
	volatile uint64_t plain;
};

static void contend(void *arg)
{
	struct contest *c = arg;
	mrapi_atomic_barrier_t x;

	c->init(&x, 0, &c->b.m->head, ELEMS, sizeof(*c->b.m), NULL, MR_LONG, &mr_st);
	for (int i = 0; i < ROUNDS; i++) {
		/* Now and then as the first thing of several. */
		mr_ok(mrapi_atomic_hold(&x, i % 3 == 0, &mr_st));
		mr_ok(mrapi_atomic_lock(&x, &c->lock, NULL, 4, &mr_st));
		mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
		c->plain++;
		if (i % 50 == 0)
			twc_sleep(1);
		mr_ok(mrapi_atomic_release(&x, &c->lock, 4, &mr_st));
	}
}

static void contest(init_fn *init)
{
	struct contest *c = mr_shared(sizeof(*c));
	struct mr_peer p[2];

	c->init = init;
	for (mrapi_node_t i = 0; i < 2; i++)
		mr_peer(&p[i], MR_PROCESS, i);
	for (int i = 0; i < 2; i++)
		mr_go(&p[i], contend, c);
	for (int i = 0; i < 2; i++)
		mr_done(&p[i]);
	twc_eq(c->plain, 2 * ROUNDS);
	twc_eq(c->lock, 0);
	for (int i = 0; i < 2; i++)
		mr_peer_end(&p[i]);
}

Test(mrapi_barrier, lock_under_barrier)
{
	contest(mrapi_barrier_init);
}

Test(mrapi_barrier, lock_under_exchange)
{
	contest(mrapi_exchange_init);
}

/* A lock that is not to be had fails at the timeout, and the element is free. */
static void lock_there(void *arg)
{
	struct buffers *b = arg;
	mrapi_atomic_barrier_t x;

	barrier(&x, 0, b, MR_SHORT);
	mr_st = -1;
	mrapi_atomic_lock(&x, &b->m[0].a, NULL, 4, &mr_st);
	b->status = mr_st;
}

Test(mrapi_barrier, lock_timeout)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x;
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	barrier(&x, 0, b, 0);
	mr_ok(mrapi_atomic_lock(&x, &b->m[0].a, NULL, 4, &mr_st));
	mr_do(&p, lock_there, b);
	mr_eq(b->status, MRAPI_ERR_ATOM_OP_FAILED);
	mr_ok(mrapi_atomic_release(&x, &b->m[0].a, 4, &mr_st));
	mr_do(&p, lock_there, b);
	mr_eq(b->status, MRAPI_SUCCESS);
	mr_down();
	mr_peer_end(&p);
}

/* What is locked under an exchange can be written there, and then read. */
Test(mrapi_barrier, locked_exchange)
{
	struct buffers *b = mr_shared(sizeof(*b));
	uint32_t seven = 7, got = 0;
	mrapi_atomic_barrier_t x;

	mr_up(MR_NODE);
	exchange(&x, 0, b, MR_SHORT);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_lock(&x, &b->m[0].b, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_xchg(&x, &b->m[0].a, &seven, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
	mr_ok(mrapi_atomic_release(&x, &b->m[0].b, 4, &mr_st));
	/* Nobody has read it yet. */
	mr_is(MRAPI_ERR_ATOM_OP_FAILED, mrapi_atomic_xchg(&x, &b->m[0].a, &seven, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_lock(&x, &b->m[0].b, NULL, 4, &mr_st));
	mr_is(MRAPI_ERR_ATOM_OP_FAILED, mrapi_atomic_xchg(&x, &b->m[0].a, &seven, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_read(&x, &b->m[0].a, &got, 4, &mr_st));
	twc_eq(got, 7);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
	mr_ok(mrapi_atomic_release(&x, &b->m[0].b, 4, &mr_st));
	mr_ok(mrapi_atomic_xchg(&x, &b->m[0].a, &seven, NULL, 4, &mr_st));
	mr_down();
}

/* A process that dies inside leaves the barrier to others. */
static void hold_there(void *arg)
{
	static mrapi_atomic_barrier_t x;
	struct buffers *b = arg;

	barrier(&x, 0, b, MR_LONG);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_inc(&x, &b->m[0].a, NULL, 4, &mr_st));
}

Test(mrapi_barrier, holder_is_killed)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x;
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	mr_do(&p, hold_there, b);
	mr_peer_kill(&p);
	barrier(&x, 0, b, MR_LONG);
	mr_ok(mrapi_atomic_inc(&x, &b->m[0].a, NULL, 4, &mr_st));
	twc_eq(b->m[0].a, 2);
	mr_down();
}

/* A node that ends inside, too, and its descriptor gives nothing back that is not its. */
Test(mrapi_barrier, holder_is_finalized)
{
	struct buffers *b = mr_shared(sizeof(*b));
	mrapi_atomic_barrier_t x, y;
	struct mr_peer p;

	mr_peer(&p, MR_PROCESS, 1);
	mr_up(MR_NODE);
	barrier(&x, 0, b, MR_LONG);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_inc(&x, &b->m[0].a, NULL, 4, &mr_st));
	mr_down();
	mr_up(MR_NODE);
	barrier(&y, 0, b, MR_LONG);
	mr_ok(mrapi_atomic_hold(&y, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_inc(&y, &b->m[0].a, NULL, 4, &mr_st));
	mr_ok(mrapi_atomic_hold(&x, MRAPI_FALSE, &mr_st));
	mr_ok(mrapi_atomic_sync(&x, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_ERR_ATOM_OP_FAILED);
	mr_ok(mrapi_atomic_hold(&y, MRAPI_FALSE, &mr_st));
	mr_ok(mrapi_atomic_inc(&y, &b->m[0].a, NULL, 4, &mr_st));
	mr_do(&p, add_there, b);
	mr_eq(b->status, MRAPI_SUCCESS);
	mr_down();
	mr_peer_end(&p);
}

/* The process number of a holder may be nobody's elsewhere: the holder lives all the same. */
struct elsewhere {
	struct buffers b;
	bool refused; /* the system makes no namespace for us */
};

static void add_elsewhere(void *arg)
{
	struct elsewhere *e = arg;
	int ended;
	pid_t pid;

	e->refused = !twt_unshare(CLONE_NEWPID);
	if (e->refused)
		return;
	pid = fork();
	twc_check(pid >= 0);
	if (pid == 0) {
		mr_up(1);
		add_there(&e->b);
		mr_down();
		_exit(0);
	}
	twc_eq(waitpid(pid, &ended, 0), pid);
	twc_eq(ended, 0);
}

Test(mrapi_barrier, holder_elsewhere)
{
	struct elsewhere *e = mr_shared(sizeof(*e));
	mrapi_atomic_barrier_t x;
	struct mr_peer p;

	mr_peer_raw(&p, MR_PROCESS);
	mr_up(MR_NODE);
	barrier(&x, 0, &e->b, MR_LONG);
	mr_ok(mrapi_atomic_hold(&x, MRAPI_TRUE, &mr_st));
	mr_ok(mrapi_atomic_inc(&x, &e->b.m[0].a, NULL, 4, &mr_st));
	mr_do(&p, add_elsewhere, e);
	if (!e->refused) {
		mr_eq(e->b.status, MRAPI_ERR_ATOM_OP_FAILED);
		twc_eq(e->b.m[0].a, 1);
	}
	mr_down();
	mr_peer_end(&p);
	if (e->refused)
		cr_skip_test("the system makes no namespace for us");
}
