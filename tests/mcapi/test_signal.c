/* SPDX-License-Identifier: BSD-2-Clause */
/* mcapi_finalize() in a signal handler, whatever that has interrupted (4.1.2). */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "mcapi/mcapit.h"

TestSuite(mcapi_signal, .init = twc_job, .timeout = MCT_TIMEOUT);

static volatile sig_atomic_t finalized;
static mcapi_status_t finalize_status;

static void finalize_here(int sig)
{
	(void)sig;
	if (finalized)
		return;
	finalize_status = MCAPI_ERROR;
	mcapi_finalize(&finalize_status);
	finalized = 1;
}

static void handle(int sig, void (*handler)(int))
{
	struct sigaction sa = {.sa_handler = handler};

	twc_eq(sigaction(sig, &sa, NULL), 0);
}

/* Blocking calls ----------------------------------------------------------------- */

enum call {
	IN_RECV,
	IN_GET,
	IN_WAIT,
	IN_WAIT_ANY,
	IN_PKT_RECV,
	IN_PKT_SEND,
	IN_SCL_RECV,
	IN_SCL_SEND,
	CALLS
};

static mcapi_status_t block_in(enum call call)
{
	mcapi_endpoint_t ep = mct_create(1);
	mcapi_request_t req = 0, *one[] = {&req};
	mcapi_status_t st = MCAPI_SUCCESS;
	struct mct_chan c;
	uint64_t value;
	size_t size;

	mct_chan(&c, &mct_kinds[call >= IN_SCL_RECV ? MCT_SCL : MCT_PKT]);
	mct_ok(mcapi_msg_recv_i(mct_create(2), &value, sizeof(value), &req, ST));
	switch (call) {
	case IN_RECV:
		mcapi_msg_recv(ep, &value, sizeof(value), &size, &st);
		break;
	case IN_GET:
		mcapi_get_endpoint(1, 99, &st);
		break;
	case IN_WAIT:
		mcapi_wait(&req, &size, &st, MCAPI_INFINITE);
		break;
	case IN_WAIT_ANY:
		mcapi_wait_any(1, one, &size, &st, MCAPI_INFINITE);
		break;
	case IN_PKT_RECV:
	case IN_SCL_RECV:
		c.k->recv(c.rx, &st);
		break;
	default:
		while (st == MCAPI_SUCCESS)
			c.k->send(c.tx, 1, &st);
	}
	return st;
}

struct scene {
	enum call call;
	int sig;
	atomic_int tid, done, other_ended;
	pthread_t thread;
	struct twc_thread sender, other;
};

static void signal_the_sleeper(void *arg)
{
	struct scene *s = arg;

	twc_asleep_tid(&s->tid, &s->done);
	pthread_kill(s->thread, s->sig);
}

/* Another thread of the node blocks beside it. */
static void block_beside(void *arg)
{
	mcapi_status_t st = MCAPI_SUCCESS;
	struct scene *s = arg;
	uint64_t value;
	size_t size;

	mcapi_msg_recv(mct_create(50), &value, sizeof(value), &size, &st);
	twc_eq(st, MCAPI_ENOT_ENDP);
	atomic_store(&s->other_ended, 1);
}

static mcapi_status_t interrupted(struct scene *s, int sig)
{
	mcapi_status_t st;

	mct_up(1);
	s->sig = sig;
	s->thread = pthread_self();
	atomic_store(&s->tid, (int)syscall(SYS_gettid));
	twc_start(&s->other, block_beside, s);
	twc_asleep(&s->other);
	twc_start(&s->sender, signal_the_sleeper, s);
	st = block_in(s->call);
	atomic_store(&s->done, 1);
	twc_join(&s->sender);
	twc_join(&s->other);
	return st;
}

static int return_from_handler(void *arg, int fd)
{
	mcapi_endpoint_t ep;

	(void)fd;
	handle(SIGUSR1, finalize_here);
	for (int round = 0; round < 3; round++) {
		struct scene s = {.call = *(enum call *)arg};

		finalized = 0;
		twc_check(interrupted(&s, SIGUSR1) != MCAPI_SUCCESS);
		twc_check(finalized);
		twc_eq(finalize_status, MCAPI_SUCCESS);
		mct_is(MCAPI_ENO_FINAL, mcapi_finalize(ST));
		/* The number is free. */
		mct_up(1);
		ep = mct_create(1);
		mct_send(ep, ep, 3, 0);
		twc_eq(mct_recv(ep), 3);
		mct_down();
	}
	return 0;
}

/* The call that was interrupted, and another thread's, end with an error. */
Test(mcapi_signal, handler_finalizes, .timeout = MCT_TIMEOUT)
{
	for (enum call call = 0; call < CALLS; call++) {
		struct twt_child child;

		twt_spawn(&child, return_from_handler, &call);
		twc_eq(twt_join(&child, MCT_CHILD), 0);
	}
}

static void finalize_and_begin_again(int sig)
{
	mcapi_version_t version;
	mcapi_status_t st = MCAPI_ERROR;

	finalize_here(sig);
	mcapi_initialize(1, &version, &st);
	_exit(finalize_status == MCAPI_SUCCESS && st == MCAPI_SUCCESS ? 3 : 4);
}

static void finalize_at_exit(void)
{
	finalize_here(0);
	_exit(finalize_status == MCAPI_SUCCESS ? 3 : 4);
}

static void only_exit(int sig)
{
	(void)sig;
	exit(5);
}

static int end_in_handler(void *arg, int fd)
{
	struct scene s = {.call = *(enum call *)arg};

	(void)fd;
	atexit(finalize_at_exit);
	handle(SIGTERM, only_exit);
	interrupted(&s, SIGTERM);
	return 6;
}

static int begin_in_handler(void *arg, int fd)
{
	struct scene s = {.call = *(enum call *)arg};

	(void)fd;
	handle(SIGTERM, finalize_and_begin_again);
	interrupted(&s, SIGTERM);
	return 6;
}

/* A handler that does not return: the number is free at once, and the process ends. */
Test(mcapi_signal, handler_exits, .timeout = MCT_TIMEOUT)
{
	for (enum call call = 0; call < CALLS; call++) {
		struct twt_child child;

		twt_spawn(&child, end_in_handler, &call);
		twc_eq(twt_join(&child, MCT_CHILD), 3);
		twt_spawn(&child, begin_in_handler, &call);
		twc_eq(twt_join(&child, MCT_CHILD), 3);
		mct_up(1);
		mct_down();
	}
}

/* Any moment of any call ---------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void finalize_nothing(int sig)
{
	mcapi_status_t st;

	(void)sig;
	mcapi_finalize(&st);
	signals++;
}

/* The handler comes between any two instructions of the call that it makes, too. */
Test(mcapi_signal, handler_amid_finalize, .timeout = MCT_TIMEOUT)
{
	struct itimerval t = {{0, 60}, {0, 60}};
	mcapi_status_t st;

	handle(SIGALRM, finalize_nothing);
	twc_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
	for (signals = 0; signals < 2000;) {
		mcapi_finalize(&st);
		twc_eq(st, MCAPI_ENO_FINAL);
	}
	memset(&t, 0, sizeof(t));
	twc_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void arm_timer(uint64_t *rng)
{
	struct itimerval t = {.it_value = {0, 1 + (suseconds_t)(twt_random(rng) % 500)}};

	twc_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* Calls of all kinds until the handler has come; each may find that it has. */
static void use_node(void)
{
	mcapi_status_t st;
	mcapi_request_t r, q;
	mcapi_endpoint_t a = mcapi_create_endpoint(1, &st), b = mcapi_create_endpoint(2, &st);
	mcapi_endpoint_t c = mcapi_create_endpoint(3, &st), d = mcapi_create_endpoint(4, &st);
	mcapi_endpoint_t far = mcapi_get_endpoint(2, 1, &st);
	uint32_t rx = 0, tx = 0, in = 0, out = 0;
	uint64_t value = 0;
	size_t size;
	void *p;

	mcapi_connect_pktchan_i(a, b, &r, &st);
	mcapi_open_pktchan_send_i(&tx, a, &r, &st);
	mcapi_open_pktchan_recv_i(&rx, b, &q, &st);
	mcapi_connect_sclchan_i(c, d, &r, &st);
	mcapi_open_sclchan_send_i(&out, c, &r, &st);
	mcapi_open_sclchan_recv_i(&in, d, &q, &st);
	while (!finalized) {
		mcapi_msg_send(a, far, &value, sizeof(value), 0, &st);
		mcapi_msg_send(a, b, &value, sizeof(value), 0, &st);
		mcapi_msg_recv(b, &value, sizeof(value), &size, &st);
		mcapi_pktchan_send(tx, &value, sizeof(value), &st);
		mcapi_pktchan_recv(rx, &p, &size, &st);
		if (st == MCAPI_SUCCESS)
			mcapi_pktchan_free(p, &st);
		for (int i = 0; i < 20; i++) {
			mcapi_sclchan_send_uint64(out, 1, &st);
			mcapi_sclchan_recv_uint64(in, &st);
		}
	}
}

static int interrupt_anywhere(void *arg, int fd)
{
	uint64_t rng = 9;

	(void)fd;
	(void)arg;
	handle(SIGALRM, finalize_here);
	for (int round = 0; round < 300; round++) {
		finalized = 0;
		mct_up(1);
		arm_timer(&rng);
		use_node();
		if (finalize_status != MCAPI_SUCCESS)
			twc_fail(__FILE__, __LINE__, "round %d: %s", round,
				 mct_name(finalize_status));
	}
	return 0;
}

/* The other node takes what comes, and sees nodes come and go. */
static int receive_always(void *arg, int fd)
{
	mcapi_endpoint_t ep;
	mcapi_status_t st;
	uint64_t value;
	size_t size;
	char c;

	(void)arg;
	mct_up(2);
	ep = mct_create(1);
	mct_set_attr(ep, MCAPI_ATTR_TIMEOUT, 1);
	twc_eq(twt_put(fd, "!", 1), 0);
	while (recv(fd, &c, 1, MSG_DONTWAIT) < 0)
		mcapi_msg_recv(ep, &value, sizeof(value), &size, &st);
	mct_down();
	return 0;
}

Test(mcapi_signal, handler_finalizes_anywhere, .timeout = MCT_TIMEOUT)
{
	struct twt_child other, child;
	char c;

	twt_spawn(&other, receive_always, NULL);
	twc_eq(twt_get(other.fd, &c, 1), 0);
	twt_spawn(&child, interrupt_anywhere, NULL);
	twc_eq(twt_join(&child, MCT_CHILD), 0);
	twc_eq(twt_put(other.fd, "!", 1), 0);
	twc_eq(twt_join(&other, MCT_CHILD), 0);
}
