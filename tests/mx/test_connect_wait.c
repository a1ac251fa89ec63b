/* SPDX-License-Identifier: BSD-2-Clause */
/* IV.3.1 mx_connect() that waits, and addresses that have become wrong. */
#include <signal.h>
#include <stdio.h>

#include "mx/mxt.h"

TestSuite(mx_connect_wait, .init = mxt_job, .timeout = MXT_TIMEOUT);

Test(mx_connect_wait, timeout, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t addr, old;
	struct mxt_name far;
	struct twt_child c;
	mx_endpoint_t ep;
	double took, awake;

	far = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_stop(c.pid);
	memset(&addr, 0x5a, sizeof(addr));
	old = addr;
	took = twt_now();
	awake = twt_awake();
	mxt_rc(MX_TIMEOUT, mx_connect(ep, far.nic, far.id, MXT_KEY, 8, &addr));
	took = twt_now() - took;
	mxt_check(took >= 7.2);
	mxt_check(twt_awake() - awake <= 8 + 0.8 * twt_patience());
	mxt_check(mxt_same_addr(addr, old));
	/* The failure does not spoil the next attempt. */
	mxt_eq(kill(c.pid, SIGCONT), 0);
	addr = mxt_connect(ep, far);
	mxt_check(mxt_same_name(mxt_whose(addr), far));
	mxt_close(ep);
	mxt_idle_close(&c);
	mxt_idle_end(&c);
	mxt_down();
}

struct attempt {
	mx_endpoint_t ep;
	struct mxt_name to;
	uint32_t timeout;
	mx_return_t rc;
	mx_endpoint_addr_t addr;
	struct mxt_thread thread;
};

static void attempt(void *arg)
{
	struct attempt *a = arg;

	a->rc = mx_connect(a->ep, a->to.nic, a->to.id, MXT_KEY, a->timeout, &a->addr);
}

/* How a blocked mx_connect() is ended: by one of these. */
enum end { WAKEUP, CLOSE, CONTINUE, DEATH };

static void end_attempt(enum end how, uint32_t timeout, mx_return_t want, mx_return_t or)
{
	struct twt_child c;
	struct attempt a;
	double cpu;

	a.to = mxt_idle(&c, MX_ANY_ENDPOINT);
	mxt_up();
	/* What is loaded for the first connect is not what is measured. */
	a.ep = mxt_open(MX_ANY_ENDPOINT);
	mxt_connect(a.ep, a.to);
	mxt_close(a.ep);
	a.ep = mxt_open(MX_ANY_ENDPOINT);
	a.timeout = timeout;
	mxt_stop(c.pid);
	mxt_start(&a.thread, attempt, &a);
	mxt_asleep(&a.thread);
	cpu = twt_cpu();
	mxt_sleep(500);
	mxt_check(twt_cpu() - cpu < 0.5 * MXT_IDLE);
	mxt_check(!atomic_load(&a.thread.done));
	switch (how) {
	case WAKEUP:
		mxt_ok(mx_wakeup(a.ep));
		break;
	case CLOSE:
		mxt_close(a.ep);
		break;
	case CONTINUE:
		break;
	case DEATH:
		mxt_kill(&c);
		break;
	}
	/* A stopped peer goes on only where that is the end. */
	if (how == CONTINUE)
		mxt_eq(kill(c.pid, SIGCONT), 0);
	mxt_join(&a.thread);
	if (a.rc != or)
		mxt_rc(want, a.rc);
	if (how == CONTINUE)
		mxt_check(mxt_same_name(mxt_whose(a.addr), a.to));
	if (how == WAKEUP || how == CLOSE)
		mxt_eq(kill(c.pid, SIGCONT), 0);
	if (how != DEATH) {
		mxt_idle_close(&c);
		mxt_idle_end(&c);
	}
	if (how != CLOSE)
		mxt_close(a.ep);
	mxt_down();
}

Test(mx_connect_wait, wakeup, .timeout = MXT_TIMEOUT)
{
	end_attempt(WAKEUP, MXT_CHILD, MX_TIMEOUT, MX_TIMEOUT);
	end_attempt(WAKEUP, MX_INFINITE, MX_TIMEOUT, MX_TIMEOUT);
}

Test(mx_connect_wait, close, .timeout = MXT_TIMEOUT)
{
	end_attempt(CLOSE, MX_INFINITE, MX_BAD_ENDPOINT, MX_BAD_ENDPOINT);
}

Test(mx_connect_wait, peer_goes_on, .timeout = MXT_TIMEOUT)
{
	end_attempt(CONTINUE, MX_INFINITE, MX_SUCCESS, MX_SUCCESS);
	end_attempt(CONTINUE, 0xffffffffu, MX_SUCCESS, MX_SUCCESS);
	end_attempt(CONTINUE, MXT_CHILD, MX_SUCCESS, MX_SUCCESS);
}

/* It is closed, or it does not answer: both are true of the dead. */
Test(mx_connect_wait, peer_dies, .timeout = MXT_TIMEOUT)
{
	end_attempt(DEATH, 20, MX_CONNECTION_FAILED, MX_TIMEOUT);
}

/* A send to this address must complete so. */
#define send_ends(...) send_ends_at(__LINE__, __VA_ARGS__)
static void send_ends_at(int line, mx_endpoint_t ep, mx_endpoint_addr_t to, mx_status_code_t want)
{
	char c = 0;
	mx_request_t req = mxt_isend(ep, &c, 1, to, 1);

	mxt_wait_at(__FILE__, line, ep, &req, want);
	req = mxt_issend(ep, &c, 1, to, 1);
	mxt_wait_at(__FILE__, line, ep, &req, want);
}

/* The address of an endpoint, used after another took the place. */
Test(mx_connect_wait, earlier_life, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t old, new;
	mx_request_t s, r;
	mx_endpoint_t a, b;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(31);
	old = mxt_connect(a, mxt_name(b));
	mxt_close(b);
	b = mxt_reopen(31);
	new = mxt_connect(a, mxt_name(b));
	mxt_check(!mxt_same_addr(old, new));
	send_ends(a, old, MX_STATUS_BAD_SESSION);
	r = mxt_irecv(b, NULL, 0, 2);
	s = mxt_isend(a, NULL, 0, new, 2);
	mxt_wait(a, &s, MX_STATUS_SUCCESS);
	mxt_wait(b, &r, MX_STATUS_SUCCESS);
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

/* Opens the id when told, receives one message and ends when told. */
static int heir(void *arg, int fd)
{
	struct mxt_name name;
	mx_request_t r;
	mx_endpoint_t ep;

	(void)arg;
	mxt_await(fd);
	mxt_up();
	ep = mxt_reopen(32);
	name = mxt_name(ep);
	mxt_eq(twt_put(fd, &name, sizeof(name)), 0);
	r = mxt_irecv(ep, NULL, 0, 2);
	mxt_wait(ep, &r, MX_STATUS_SUCCESS);
	mxt_await(fd);
	mxt_close(ep);
	mxt_down();
	return 0;
}

Test(mx_connect_wait, earlier_process, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t old, new;
	struct twt_child first, second;
	struct mxt_name name, later;
	mx_request_t s;
	mx_endpoint_t a;

	twt_spawn(&second, heir, NULL);
	name = mxt_idle(&first, 32);
	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	old = mxt_connect(a, name);
	mxt_kill(&first);
	mxt_signal(second.fd);
	mxt_eq(twt_get(second.fd, &later, sizeof(later)), 0);
	mxt_check(mxt_same_name(name, later));
	/* From another host the end of the first may be heard of after its heir has begun. */
	for (double end = twt_now() + MXT_CHILD;;) {
		new = mxt_connect(a, later);
		if (!mxt_same_addr(old, new))
			break;
		mxt_check(twt_now() < end);
	}
	send_ends(a, old, MX_STATUS_BAD_SESSION);
	s = mxt_isend(a, NULL, 0, new, 2);
	mxt_wait(a, &s, MX_STATUS_SUCCESS);
	mxt_signal(second.fd);
	mxt_eq(twt_join(&second, MXT_CHILD), 0);
	mxt_close(a);
	mxt_down();
}

/* An address belongs to the local endpoint that it was made for (II.3). */
Test(mx_connect_wait, address_of_another, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_addr_t zero = {{0, 0}}, garbage;
	mx_endpoint_t c;
	struct mxt_pair p;

	mxt_up();
	mxt_pair(&p);
	c = mxt_open(MX_ANY_ENDPOINT);
	memset(&garbage, 0xee, sizeof(garbage));
	send_ends(c, p.ab, MX_STATUS_BAD_SESSION);
	send_ends(c, zero, MX_STATUS_BAD_SESSION);
	send_ends(c, garbage, MX_STATUS_BAD_SESSION);
	send_ends(p.a, zero, MX_STATUS_BAD_SESSION);
	/* Connecting makes an address of its own; the other stays wrong. */
	mxt_connect(c, mxt_name(p.b));
	send_ends(c, p.ab, MX_STATUS_BAD_SESSION);
	mxt_close(c);
	mxt_pair_end(&p);
	mxt_down();
}
