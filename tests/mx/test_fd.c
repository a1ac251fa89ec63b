/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_get_fd(), mx_arm_fd(): a program that sleeps in poll() or epoll_wait() misses nothing. */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_fd, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { ROUNDS = 300, LEN = 1 << 20, OTHERS = 40 };

static const uint32_t lens[] = {0, 8, 1000, 20000, LEN};

static int fd_of(mx_endpoint_t ep)
{
	int fd = -1;

	mxt_ok(mx_get_fd(ep, &fd));
	mxt_check(fd >= 0);
	return fd;
}

static int ready(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms);
}

/* Arms; what ended or came before has to be reported first. */
static void arm(mx_endpoint_t ep)
{
	mx_return_t rc;

	do {
		rc = mx_arm_fd(ep);
	} while (rc == MX_BUSY);
	mxt_ok(rc);
}

/* Sleeps in poll() only; pause: ms between arming and sleeping. */
static void complete(mx_endpoint_t ep, mx_request_t *r, unsigned pause)
{
	uint32_t result;
	mx_status_t st;
	mx_return_t rc;

	for (;;) {
		mxt_ok(mx_test(ep, r, &st, &result));
		if (result)
			break;
		rc = mx_arm_fd(ep);
		if (rc == MX_BUSY)
			continue;
		mxt_ok(rc);
		if (pause)
			mxt_sleep(pause);
		mxt_eq(ready(fd_of(ep), MXT_LONG), 1);
	}
	mxt_eq(st.code, MX_STATUS_SUCCESS);
}

/* Sends and receives in turns; first: this side begins, and the other one pauses. */
static void play(mx_endpoint_t ep, mx_endpoint_addr_t to, int first, unsigned pause)
{
	char *out = calloc(1, LEN), *in = calloc(1, LEN);

	for (uint64_t i = 0; i < (pause ? 10 : ROUNDS); i++) {
		uint32_t len = lens[i % 5];
		mx_request_t r, s;

		r = mxt_irecv(ep, in, len, i);
		if (!first)
			complete(ep, &r, pause);
		s = mxt_isend(ep, out, len, to, i);
		complete(ep, &s, 0);
		if (first)
			complete(ep, &r, 0);
	}
	free(in);
	free(out);
}

static void other_process(struct mxt_side *s)
{
	play(s->ep, s->peer, 0, *(unsigned *)s->arg);
}

/* 1: the message comes between arming and sleeping. */
static void processes(unsigned pause)
{
	struct mxt_side s;

	mxt_two(&s, other_process, &pause);
	play(s.ep, s.peer, 1, pause);
	mxt_two_end(&s);
}

Test(mx_fd, processes, .timeout = MXT_TIMEOUT)
{
	processes(0);
}

Test(mx_fd, armed_before_it_comes, .timeout = MXT_TIMEOUT)
{
	processes(20);
}

static void other_thread(void *arg)
{
	struct mxt_pair *p = arg;

	play(p->b, p->ba, 0, 0);
}

Test(mx_fd, threads, .timeout = MXT_TIMEOUT)
{
	struct mxt_thread t;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	mxt_start(&t, other_thread, &p);
	play(p.a, p.ab, 1, 0);
	mxt_join(&t);
	mxt_pair_end(&p);
	mxt_down();
}

static void sleep_until_ready(void *ep)
{
	mxt_eq(ready(fd_of(ep), MXT_LONG), 1);
}

struct sleeper {
	mx_endpoint_t ep;
	atomic_int sent;
};

/* A connect or a late doorbell may make it readable for a moment. What ends makes it stay so. */
static void sleep_until_sent(void *arg)
{
	struct sleeper *s = arg;

	do {
		sleep_until_ready(s->ep);
	} while (!atomic_load(&s->sent));
}

/* A call of another thread receives the message. */
Test(mx_fd, beside_other_calls, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, s;
	struct sleeper sleeper;
	mx_endpoint_t other[OTHERS];
	struct mxt_thread t;
	struct mxt_pair p;
	mx_status_t st;
	uint32_t result;
	int v = 1;

	mxt_up();
	mxt_pair(&p);
	fd_of(p.b);
	sleeper.ep = p.b;
	for (uint64_t i = 0; i < 20; i++) {
		r = mxt_irecv(p.b, &v, sizeof(v), i);
		arm(p.b);
		atomic_store(&sleeper.sent, 0);
		mxt_start(&t, sleep_until_sent, &sleeper);
		mxt_asleep(&t);
		if (i == 0) {
			for (int k = 0; k < OTHERS; k++) {
				other[k] = mxt_open(MX_ANY_ENDPOINT);
				mxt_connect(other[k], mxt_name(p.b));
			}
			mxt_asleep(&t);
		}
		atomic_store(&sleeper.sent, 1);
		s = mxt_isend(p.a, &v, sizeof(v), p.ab, i);
		if (i & 1)
			mxt_ok(mx_wait(p.b, &r, MXT_LONG, &st, &result));
		else
			mxt_ok(mx_progress(p.b));
		mxt_join(&t);
		if (!(i & 1))
			mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	for (int i = 0; i < OTHERS; i++)
		mxt_close(other[i]);
	mxt_pair_end(&p);
	mxt_down();
}

/* A look between arming and sleeping, where no service thread arms again. */
Test(mx_fd, looked_at_without_a_service_thread, .timeout = MXT_TIMEOUT)
{
	mx_request_t r, s;
	struct mxt_pair p;
	mx_status_t st;
	uint32_t result;
	int v = 1;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_disable_progression(p.b));
	r = mxt_irecv(p.b, &v, sizeof(v), 1);
	arm(p.b);
	mxt_ok(mx_test(p.b, &r, &st, &result));
	mxt_check(!result);
	s = mxt_isend(p.a, &v, sizeof(v), p.ab, 1);
	mxt_eq(ready(fd_of(p.b), MXT_LONG), 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* A blocking call of another thread, for something else, sleeps meanwhile, or ends. */
Test(mx_fd, beside_a_blocking_call, .timeout = MXT_TIMEOUT)
{
	mx_request_t first, second, s;
	struct mxt_block b;
	struct mxt_pair p;
	int v = 1;

	mxt_up();
	mxt_pair(&p);
	fd_of(p.b);
	first = mxt_irecv(p.b, &v, sizeof(v), MXT_BLOCK_MATCH);
	second = mxt_irecv(p.b, &v, sizeof(v), 2);
	mxt_block(&b, MXT_WAIT, p.b, first, MX_INFINITE);
	mxt_asleep(&b.thread);
	arm(p.b);
	s = mxt_isend(p.a, &v, sizeof(v), p.ab, 2);
	sleep_until_ready(p.b);
	mxt_wait(p.b, &second, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	arm(p.b);
	s = mxt_isend(p.a, &v, sizeof(v), p.ab, MXT_BLOCK_MATCH);
	mxt_join(&b.thread);
	mxt_check(b.result);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	second = mxt_irecv(p.b, &v, sizeof(v), 3);
	arm(p.b);
	s = mxt_isend(p.a, &v, sizeof(v), p.ab, 3);
	sleep_until_ready(p.b);
	mxt_wait(p.b, &second, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_pair_end(&p);
	mxt_down();
}

/* What is complete, or came since the last time, is not slept beside. */
Test(mx_fd, busy, .timeout = MXT_TIMEOUT)
{
	mx_request_t s;
	struct mxt_pair p;
	mx_status_t st;
	uint32_t result;
	int v = 1;

	mxt_up();
	mxt_pair(&p);
	fd_of(p.b);
	arm(p.a);
	arm(p.b);
	mxt_eq(ready(fd_of(p.b), 50), 0);
	s = mxt_isend(p.a, &v, sizeof(v), p.ab, 1);
	mxt_eq(ready(fd_of(p.b), MXT_LONG), 1);
	/* Until it is collected. */
	mxt_rc(MX_BUSY, mx_arm_fd(p.a));
	mxt_rc(MX_BUSY, mx_arm_fd(p.a));
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_rc(MX_BUSY, mx_arm_fd(p.b));
	/* A message that no receive has matched is reported once. */
	mxt_ok(mx_iprobe(p.b, 1, MXT_ALL, &st, &result));
	mxt_check(result);
	mxt_ok(mx_arm_fd(p.b));
	mxt_eq(ready(fd_of(p.b), 50), 0);
	mxt_ok(mx_wakeup(p.b));
	mxt_eq(ready(fd_of(p.b), 0), 1);
	mxt_pair_end(&p);
	mxt_down();
}

Test(mx_fd, errors, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;
	int fd;

	mxt_up();
	ep = mxt_open(1);
	mxt_rc(MX_FAILURE, mx_get_fd(ep, NULL));
	fd = fd_of(ep);
	mxt_eq(fd_of(ep), fd);
	arm(ep);
	mxt_close(ep);
	mxt_rc(MX_BAD_ENDPOINT, mx_get_fd(ep, &fd));
	mxt_rc(MX_BAD_ENDPOINT, mx_arm_fd(ep));
	mxt_down();
}

/* Each call after which the program may sleep is followed by an event, in each way of epoll. */
Test(mx_fd, ways_of_epoll, .timeout = MXT_TIMEOUT)
{
	static const uint32_t ways[] = {0, EPOLLONESHOT, EPOLLET, EPOLLET | EPOLLONESHOT};
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(1);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct epoll_event ev = {.events = EPOLLIN | ways[i]}, got;
		int epfd = epoll_create1(EPOLL_CLOEXEC);

		mxt_check(epoll_ctl(epfd, EPOLL_CTL_ADD, fd_of(ep), &ev) == 0);
		for (int n = 0; n < 5; n++) {
			arm(ep);
			if (ways[i] & EPOLLONESHOT)
				mxt_check(epoll_ctl(epfd, EPOLL_CTL_MOD, fd_of(ep), &ev) == 0);
			mxt_ok(mx_wakeup(ep));
			mxt_eq(epoll_wait(epfd, &got, 1, MXT_LONG), 1);
		}
		mxt_check(close(epfd) == 0);
	}
	mxt_ok(mx_close_endpoint(ep));
	mxt_down();
}
