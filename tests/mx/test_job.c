/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_job_connect() without a launcher: the other process may not have begun, or begin again. */
#include <signal.h>
#include <stdlib.h>

#include "mx/mxt.h"

static void two_ranks(void)
{
	mxt_job();
	mxt_same_host();
	setenv("TAGWIRE_RANK", "0/2", 1);
}

TestSuite(mx_job, .init = two_ranks, .timeout = MXT_TIMEOUT);

enum { FIRST = 40, OTHER }; /* endpoints of the two ranks */

static int told;
static char message[200];

static mx_return_t note(char *text, mx_return_t rc)
{
	told++;
	strncpy(message, text, sizeof(message) - 1);
	return rc;
}

static mx_endpoint_t begin(void)
{
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(FIRST);
	mxt_ok(mx_job_exchange(ep));
	told = 0;
	mx_set_error_handler(note);
	return ep;
}

static void end(mx_endpoint_t ep)
{
	mxt_close(ep);
	mxt_down();
}

/* Looking again is no failure; the end of it is one, of this call. */
Test(mx_job, told_once, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr;
	mx_endpoint_t ep = begin();

	mxt_rc(MX_CONNECTION_FAILED, mx_job_connect(ep, 1, MXT_KEY, 1, &addr));
	mxt_eq(told, 1);
	mxt_check(strncmp(message, "mx_job_connect:", 15) == 0);
	mxt_rc(MX_FAILURE, mx_job_connect(ep, 0, MXT_KEY, 1, NULL));
	mxt_rc(MX_NIC_NOT_FOUND, mx_job_connect(ep, 2, MXT_KEY, 1, &addr));
	mxt_eq(told, 3);
	end(ep);
	mxt_rc(MX_NOT_INITIALIZED, mx_job_connect(ep, 1, MXT_KEY, 1, &addr));
}

/* Opens after a while, in milliseconds, and goes on or stops there. */
struct late {
	unsigned after;
	int stops;
};

static int open_late(void *arg, int fd)
{
	const struct late *l = arg;
	mx_endpoint_t ep;

	mxt_up();
	mxt_sleep(l->after);
	ep = mxt_open(OTHER);
	if (l->stops)
		raise(SIGSTOP);
	mxt_await(fd);
	mxt_close(ep);
	mxt_down();
	return 0;
}

Test(mx_job, waits_for_the_other, .timeout = MXT_TIMEOUT)
{
	struct late late = {300, 0};
	mx_endpoint_addr_t addr;
	struct twt_child c;
	mx_endpoint_t ep;

	twt_spawn(&c, open_late, &late);
	ep = begin();
	mxt_ok(mx_job_connect(ep, 1, MXT_KEY, MXT_LONG / 1000, &addr));
	mxt_eq(mxt_whose(addr).id, OTHER);
	mxt_eq(told, 0);
	mxt_signal(c.fd);
	mxt_eq(twt_join(&c, MXT_CHILD), 0);
	end(ep);
}

/* The time is that of all attempts: one that begins late does not get it anew. */
Test(mx_job, timeout, .timeout = MXT_TIMEOUT)
{
	const uint32_t slow = twt_slow();
	struct late late = {3000 * slow, 1};
	mx_endpoint_addr_t addr;
	struct twt_child c;
	mx_endpoint_t ep;
	double took, awake;

	twt_spawn(&c, open_late, &late);
	ep = begin();
	took = twt_now();
	awake = twt_awake();
	mxt_rc(MX_TIMEOUT, mx_job_connect(ep, 1, MXT_KEY, 5 * slow, &addr));
	took = twt_now() - took;
	mxt_check(took >= 4.9 * slow);
	mxt_check(twt_awake() - awake < 7.5 * slow);
	mxt_kill(&c);
	end(ep);
}

static int live(void *arg, int fd)
{
	mx_request_t r;
	mx_endpoint_t ep;
	char byte;

	(void)arg;
	mxt_await(fd);
	mxt_up();
	ep = mxt_open(OTHER);
	r = mxt_irecv(ep, &byte, 1, 1);
	mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	pause();
	return 1;
}

/* A rank that was killed, and began again. It is connected to before its death was noticed, too. */
Test(mx_job, begins_again, .timeout = MXT_TIMEOUT)
{
	enum { LIVES = 4 };
	struct twt_child c[LIVES];
	uint32_t result = 0;
	mx_status_t st;
	mx_endpoint_addr_t addr;
	mx_endpoint_t ep;
	mx_request_t r;

	for (int i = 0; i < LIVES; i++)
		twt_spawn(&c[i], live, NULL);
	ep = begin();
	for (int i = 0; i < LIVES; i++) {
		mxt_signal(c[i].fd);
		mxt_ok(mx_job_connect(ep, 1, MXT_KEY, MXT_LONG / 1000, &addr));
		r = mxt_issend(ep, "x", 1, addr, 1);
		mxt_wait(ep, &r, MX_STATUS_SUCCESS);
		r = mxt_issend(ep, "x", 1, addr, 2);
		mxt_kill(&c[i]);
		if (i % 2 == 0)
			continue;
		mxt_ok(mx_wait(ep, &r, MXT_LONG, &st, &result));
		mxt_check(result && st.code != MX_STATUS_SUCCESS);
	}
	mxt_rc(MX_CONNECTION_FAILED, mx_job_connect(ep, 1, MXT_KEY, 1, &addr));
	end(ep);
}
