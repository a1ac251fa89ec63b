/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_close_endpoint() and mx_finalize() in a signal handler, whatever that has interrupted. */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_signal, .init = mxt_job, .timeout = MXT_TIMEOUT);

static mx_endpoint_t open_one;
static volatile sig_atomic_t closed;
static mx_return_t close_rc;

static void close_here(int sig)
{
	if (closed)
		return;
	close_rc = sig == SIGUSR1 ? mx_close_endpoint(open_one) : mx_finalize();
	closed = 1;
}

static void handle(void)
{
	struct sigaction sa = {.sa_handler = close_here};

	mxt_eq(sigaction(SIGUSR1, &sa, NULL), 0);
	mxt_eq(sigaction(SIGALRM, &sa, NULL), 0);
}

struct scene {
	int sig;
	atomic_int tid, done;
	pthread_t thread;
	struct mxt_thread sender;
};

static void signal_the_sleeper(void *arg)
{
	struct scene *s = arg;

	twc_asleep_tid(&s->tid, &s->done);
	pthread_kill(s->thread, s->sig);
}

/* The thread's own call, and one of another thread, when a handler closes the endpoint. */
static void interrupt_call(enum mxt_call call, int sig)
{
	struct scene s = {.sig = sig, .thread = pthread_self()};
	struct mxt_block mine, other;
	mx_request_t req;

	mxt_up();
	open_one = mxt_open(5);
	closed = 0;
	req = mxt_irecv(open_one, NULL, 0, 1);
	mxt_block(&other, MXT_PROBE, open_one, NULL, MX_INFINITE);
	mxt_asleep(&other.thread);
	atomic_store(&s.tid, (int)syscall(SYS_gettid));
	mxt_start(&s.sender, signal_the_sleeper, &s);
	mxt_block_here(&mine, call, open_one, req, MX_INFINITE);
	atomic_store(&s.done, 1);
	mxt_join(&s.sender);
	mxt_join(&other.thread);
	mxt_check(closed);
	mxt_rc(MX_SUCCESS, close_rc);
	mxt_rc(MX_BAD_ENDPOINT, mine.rc);
	mxt_rc(MX_BAD_ENDPOINT, other.rc);
	/* The id is free. */
	if (sig == SIGALRM)
		mxt_up();
	mxt_close(mxt_open(5));
	mxt_down();
}

Test(mx_signal, handler_closes, .timeout = MXT_TIMEOUT)
{
	handle();
	for (int call = 0; call < MXT_CALLS; call++) {
		interrupt_call((enum mxt_call)call, SIGUSR1);
		interrupt_call((enum mxt_call)call, SIGALRM);
	}
}

/* Calls until the handler has come; any may find that it has. */
static void use_endpoint(mx_endpoint_t ep)
{
	mx_endpoint_addr_t self;
	uint64_t value = 0;
	mx_segment_t seg = {&value, sizeof(value)};

	if (mx_get_endpoint_addr(ep, &self) != MX_SUCCESS)
		return;
	while (!closed) {
		mx_request_t s = NULL, r = NULL;
		mx_status_t st;
		uint32_t done;

		mx_irecv(ep, &seg, 1, 7, MXT_ALL, NULL, &r);
		mx_isend(ep, &seg, 1, self, 7, NULL, &s);
		mx_test(ep, &s, &st, &done);
		mx_wait(ep, &r, MX_INFINITE, &st, &done);
		mx_iprobe(ep, 8, MXT_ALL, &st, &done);
	}
}

Test(mx_signal, handler_closes_anywhere, .timeout = MXT_TIMEOUT)
{
	uint64_t rng = 4;

	handle();
	for (int round = 0; round < 300; round++) {
		struct itimerval t = {.it_value = {0, 1 + (suseconds_t)(twt_random(&rng) % 500)}};

		mxt_up();
		open_one = mxt_open(5);
		closed = 0;
		mxt_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
		use_endpoint(open_one);
		while (!closed)
			mxt_sleep(1);
		mxt_rc(MX_SUCCESS, close_rc);
	}
}

static void init_here(int sig)
{
	(void)sig;
	close_rc = mx_init();
	closed++;
}

static void finalize_here(int sig)
{
	(void)sig;
	close_rc = mx_finalize();
	closed = 1;
}

static void on_alarm(void (*handler)(int), int us, int again)
{
	struct itimerval t = {{0, again}, {0, us}};
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};

	closed = 0;
	mxt_eq(sigaction(SIGALRM, &sa, NULL), 0);
	mxt_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* The handler comes between any two instructions of the call that it makes, too. */
Test(mx_signal, handler_amid_init, .timeout = MXT_TIMEOUT)
{
	mx_return_t rc;

	mxt_up();
	on_alarm(init_here, 60, 60);
	while (closed < 2000) {
		rc = mx_init();
		mxt_check(rc == MX_ALREADY_INITIALIZED || rc == MX_BUSY);
	}
	on_alarm(init_here, 0, 0);
	mxt_check(close_rc == MX_ALREADY_INITIALIZED || close_rc == MX_BUSY);
	mxt_rc(MX_SUCCESS, mx_finalize());
}

Test(mx_signal, handler_finalizes_amid_job_calls, .timeout = MXT_TIMEOUT)
{
	uint64_t rng = 9;
	uint32_t rank, size;

	for (int round = 0; round < 500; round++) {
		mxt_up();
		on_alarm(finalize_here, 1 + (int)(twt_random(&rng) % 200), 0);
		while (!closed)
			mx_job_info(&rank, &size);
		mxt_rc(MX_SUCCESS, close_rc);
	}
}

static mx_endpoint_t reopened;

/* The id is free at once, and the slot of the endpoint before is not, if a call is in it. */
static void reopen_here(int sig)
{
	(void)sig;
	if (closed)
		return;
	close_rc = mx_close_endpoint(open_one);
	mx_open_endpoint(MX_ANY_NIC, 5, MXT_KEY, NULL, 0, &reopened);
	closed = 1;
}

static bool is_of(mx_return_t rc, bool before)
{
	return rc == MX_BAD_ENDPOINT || (before && rc == MX_SUCCESS);
}

/* Polls the endpoint until the handler has come; never the one that it has opened. */
static void poll_endpoint(mx_endpoint_t ep, mx_request_t req)
{
	mx_status_t st;
	uint32_t done = 0; /* a call that fails leaves it */
	bool before;

	do {
		before = !closed;
		mxt_check(is_of(mx_test(ep, &req, &st, &done), before) && !done);
		before = !closed;
		mxt_check(is_of(mx_iprobe(ep, 8, MXT_ALL, &st, &done), before) && !done);
		before = !closed;
		mxt_check(is_of(mx_wait(ep, &req, 0, &st, &done), before) && !done);
	} while (!closed);
}

/* A call that was interrupted finds that its endpoint has gone, and not the next one. */
Test(mx_signal, handler_reopens, .timeout = MXT_TIMEOUT)
{
	struct sigaction sa = {.sa_handler = reopen_here};
	uint64_t rng = 5;

	mxt_eq(sigaction(SIGALRM, &sa, NULL), 0);
	mxt_up();
	for (int round = 0; round < 300; round++) {
		struct itimerval t = {.it_value = {0, 1 + (suseconds_t)(twt_random(&rng) % 500)}};
		mx_request_t req;

		open_one = mxt_open(5);
		reopened = NULL;
		closed = 0;
		req = mxt_irecv(open_one, NULL, 0, 1);
		mxt_eq(setitimer(ITIMER_REAL, &t, NULL), 0);
		poll_endpoint(open_one, req);
		mxt_rc(MX_SUCCESS, close_rc);
		mxt_check(reopened != NULL && reopened != open_one);
		mxt_close(reopened);
	}
	mxt_down();
}
