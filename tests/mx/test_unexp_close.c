/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing and finalizing while an unexpected handler runs, inside it and beside it. */
#include <stdlib.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_unexp_close, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* What a handler does, and what it got for it. */
struct job {
	mx_return_t (*what)(struct job *j);
	mx_endpoint_t ep;	/* to close */
	pthread_barrier_t *meet; /* before that */
	mx_return_t rc;
	atomic_int in, leave, calls;
};

static mx_unexp_handler_action_t handler(void *context, mx_endpoint_addr_t source, uint64_t match,
					 uint32_t length, void *data)
{
	struct job *j = context;

	(void)source, (void)match, (void)length, (void)data;
	j->rc = j->what(j);
	j->calls++;
	return MX_RECV_FINISHED;
}

static mx_return_t finalize(struct job *j)
{
	(void)j;
	return mx_finalize();
}

static mx_return_t close_it(struct job *j)
{
	return mx_close_endpoint(j->ep);
}

static mx_return_t meet_and_close(struct job *j)
{
	pthread_barrier_wait(j->meet);
	return mx_close_endpoint(j->ep);
}

static mx_return_t linger(struct job *j)
{
	j->in = 1;
	while (!j->leave)
		usleep(1000);
	return mx_init();
}

static void until_called(struct job *j, mx_endpoint_t ep)
{
	double end = twt_now() + MXT_LONG / 1000.;

	while (!j->calls) {
		mxt_check(twt_now() < end);
		mxt_ok(mx_progress(ep));
	}
}

/* One message to b, whose handler does this; all is open and works afterwards. */
static void refused(struct mxt_pair *p, struct job *j)
{
	mx_request_t s;

	mxt_ok(mx_register_unexp_handler(p->b, handler, j));
	s = mxt_issend(p->a, NULL, 0, p->ab, 1);
	until_called(j, p->b);
	mxt_rc(MX_CLOSE_IN_HANDLER, j->rc);
	mxt_wait(p->a, &s, MX_STATUS_SUCCESS);
	mxt_ok(mx_register_unexp_handler(p->b, NULL, NULL));
}

Test(mx_unexp_close, finalize_inside, .timeout = MXT_TIMEOUT)
{
	struct job j = {.what = finalize};
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	refused(&p, &j);
	mxt_pair_end(&p);
	mxt_down();
}

/* The one that it runs in, the sender's and one that nobody uses. */
Test(mx_unexp_close, close_inside, .timeout = MXT_TIMEOUT)
{
	struct mxt_pair p;
	mx_endpoint_t spare;

	mxt_up();
	mxt_pair(&p);
	spare = mxt_open(MX_ANY_ENDPOINT);
	for (int i = 0; i < 3; i++) {
		struct job j = {.what = close_it,
				.ep = (mx_endpoint_t[]){p.b, p.a, spare}[i]};

		refused(&p, &j);
	}
	mxt_close(spare);
	mxt_pair_end(&p);
	mxt_down();
}

struct poller {
	struct job *j;
	mx_endpoint_t ep;
	struct mxt_thread thread;
};

static void poll_until_called(void *arg)
{
	struct poller *t = arg;

	until_called(t->j, t->ep);
}

/* Two handlers, each of which wants to close the other's endpoint: neither may wait. */
Test(mx_unexp_close, each_others, .timeout = MXT_TIMEOUT)
{
	pthread_barrier_t meet;
	struct mxt_pair p;
	struct job at_a = {.what = meet_and_close, .meet = &meet};
	struct job at_b = {.what = meet_and_close, .meet = &meet};
	struct poller a = {.j = &at_a}, b = {.j = &at_b};
	mx_request_t to_a, to_b;

	/* The service thread can be in one handler only. */
	setenv("TAGWIRE_SERVICE", "0", 1);
	mxt_up();
	p.a = a.ep = at_b.ep = mxt_open(MX_ANY_ENDPOINT);
	p.b = b.ep = at_a.ep = mxt_open(MX_ANY_ENDPOINT);
	pthread_barrier_init(&meet, NULL, 2);
	p.ab = mxt_self(p.a);
	p.ba = mxt_self(p.b);
	mxt_ok(mx_register_unexp_handler(p.a, handler, &at_a));
	mxt_ok(mx_register_unexp_handler(p.b, handler, &at_b));
	/* Each to itself, so that nothing need be connected. */
	to_a = mxt_isend(p.a, NULL, 0, p.ab, 1);
	to_b = mxt_isend(p.b, NULL, 0, p.ba, 1);
	mxt_start(&a.thread, poll_until_called, &a);
	mxt_start(&b.thread, poll_until_called, &b);
	mxt_join(&a.thread);
	mxt_join(&b.thread);
	mxt_rc(MX_CLOSE_IN_HANDLER, at_a.rc);
	mxt_rc(MX_CLOSE_IN_HANDLER, at_b.rc);
	mxt_wait(p.a, &to_a, MX_STATUS_SUCCESS);
	mxt_wait(p.b, &to_b, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

static void finalize_thread(void *arg)
{
	*(mx_return_t *)arg = mx_finalize();
}

static void close_thread(void *arg)
{
	struct job *j = arg;

	j->rc = mx_close_endpoint(j->ep);
}

/* From another thread it waits for the handler, which may even call mx_init(). */
Test(mx_unexp_close, finalize_beside, .timeout = MXT_TIMEOUT)
{
	struct job j = {.what = linger};
	struct mxt_thread thread;
	mx_return_t rc = MX_FAILURE;
	struct mxt_block blocked;
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_register_unexp_handler(p.b, handler, &j));
	mxt_block(&blocked, MXT_PROBE, p.b, NULL, 0);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	while (!j.in)
		mxt_sleep(1);
	mxt_start(&thread, finalize_thread, &rc);
	mxt_sleep(100);
	mxt_eq(thread.done, 0);
	j.leave = 1;
	mxt_join(&thread);
	mxt_join(&blocked.thread);
	mxt_ok(rc);
	mxt_rc(MX_ALREADY_INITIALIZED, j.rc);
	mxt_check(blocked.rc == MX_BAD_ENDPOINT || blocked.rc == MX_NOT_INITIALIZED);
	/* All is as at the beginning. */
	mxt_up();
	mxt_down();
}

Test(mx_unexp_close, close_beside, .timeout = MXT_TIMEOUT)
{
	struct job j = {.what = linger}, closing = {0};
	struct mxt_thread thread;
	struct mxt_block blocked;
	struct mxt_pair p;
	mx_request_t s;

	mxt_up();
	mxt_pair(&p);
	closing.ep = p.b;
	mxt_ok(mx_register_unexp_handler(p.b, handler, &j));
	mxt_block(&blocked, MXT_PROBE, p.b, NULL, 0);
	s = mxt_isend(p.a, NULL, 0, p.ab, 1);
	while (!j.in)
		mxt_sleep(1);
	mxt_start(&thread, close_thread, &closing);
	mxt_sleep(100);
	mxt_eq(thread.done, 0);
	j.leave = 1;
	mxt_join(&thread);
	mxt_join(&blocked.thread);
	mxt_ok(closing.rc);
	mxt_rc(MX_BAD_ENDPOINT, blocked.rc);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_close(p.a);
	mxt_down();
}
