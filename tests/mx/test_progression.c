/* SPDX-License-Identifier: BSD-2-Clause */
/* mx_disable_progression(), mx_register_unexp_callback(), and names of later releases. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mx/mxt.h"

TestSuite(mx_progression, .init = mxt_job, .timeout = MXT_TIMEOUT);

enum { LONGEST = 8 << 20, WHILE = 200 /* ms in which nothing may happen */ };
static char out[LONGEST], in[LONGEST];

static mx_request_t issend(struct mxt_pair *p, uint32_t len)
{
	return mxt_issend(p->a, out, len, p->ab, 1);
}

/* Nothing moves at b without its calls, all of it with them. */
Test(mx_progression, off_and_on, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 100, LONGEST};
	struct mxt_pair p;
	mx_request_t s, r;

	mxt_up();
	mxt_pair(&p);
	for (int i = 0; i < 3; i++) {
		mxt_ok(mx_disable_progression(p.b));
		mxt_ok(mx_disable_progression(p.b));
		r = mxt_irecv(p.b, in, LONGEST, 1);
		s = issend(&p, lens[i]);
		mxt_sleep(WHILE);
		mxt_pending(p.a, &s);
		/* By a call of the program. */
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		r = mxt_irecv(p.b, in, LONGEST, 1);
		s = issend(&p, lens[i]);
		mxt_sleep(WHILE);
		mxt_pending(p.a, &s);
		/* Once it is on again, with what had come before it. */
		mxt_ok(mx_reenable_progression(p.b));
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
		mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	}
	mxt_ok(mx_reenable_progression(p.b));
	mxt_pair_end(&p);
	mxt_down();
}

/* Connects and time limits, which the service thread sees to as well. */
Test(mx_progression, connects_and_limits, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t a, b;
	mx_request_t c, r;
	struct mxt_name name;

	mxt_up();
	a = mxt_open(MX_ANY_ENDPOINT);
	b = mxt_open(MX_ANY_ENDPOINT);
	name = mxt_name(b);
	mxt_ok(mx_disable_progression(b));
	mxt_ok(mx_iconnect(a, name.nic, name.id, MXT_KEY, 1, NULL, &c));
	r = mxt_irecv(b, in, 1, 1);
	mxt_ok(mx_set_request_timeout(b, r, 10));
	mxt_sleep(WHILE);
	mxt_pending(a, &c);
	mxt_wait(b, &r, MX_STATUS_TIMEOUT);
	mxt_ok(mx_reenable_progression(b));
	mxt_wait(a, &c, MX_STATUS_SUCCESS);
	/* A new endpoint in its place is as any. */
	mxt_ok(mx_disable_progression(b));
	mxt_close(b);
	b = mxt_open(MX_ANY_ENDPOINT);
	mxt_connect(a, mxt_name(b));
	mxt_close(a);
	mxt_close(b);
	mxt_down();
}

struct told {
	atomic_int calls;
	uint64_t match;
	int length;
};

static void callback(void *context, uint64_t match, int length)
{
	struct told *t = context;

	t->match = match;
	t->length = length;
	t->calls++;
}

/* Told once of what nobody waits for; the message stays. */
Test(mx_progression, unexp_callback, .timeout = MXT_TIMEOUT)
{
	static const uint32_t lens[] = {0, 100, LONGEST};
	struct told t = {0};
	struct mxt_pair p;
	mx_request_t s, r;

	mxt_up();
	mxt_pair(&p);
	mxt_ok(mx_register_unexp_callback(p.b, callback, &t));
	for (int i = 0; i < 3; i++) {
		s = issend(&p, lens[i]);
		mxt_probe(p.b, 1);
		mxt_eq(t.calls, i + 1);
		mxt_eq(t.match, 1);
		mxt_eq(t.length, lens[i]);
		r = mxt_irecv(p.b, in, LONGEST, 1);
		mxt_eq(mxt_wait(p.b, &r, MX_STATUS_SUCCESS).xfer_length, lens[i]);
		mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	}
	r = mxt_irecv(p.b, in, 1, 1);
	s = issend(&p, 1);
	mxt_wait(p.b, &r, MX_STATUS_SUCCESS);
	mxt_wait(p.a, &s, MX_STATUS_SUCCESS);
	mxt_eq(t.calls, 3);
	mxt_ok(mx_register_unexp_callback(p.b, NULL, NULL));
	s = issend(&p, 1);
	mxt_probe(p.b, 1);
	mxt_eq(t.calls, 3);
	mxt_pair_end(&p);
	mxt_down();
}

/* Names that programs are compiled with. */
Test(mx_progression, names)
{
	mx_line_speed_t speed = MX_SPEED_10G;
	mx_segment_ptr_t ptr = out;
	mx_matching_callback_t cb = callback;
	mx_segment_t seg = {ptr, 1};

	_Static_assert(MX_SPEED_2G == 0 && MX_SPEED_10G == 1, "values");
	_Static_assert(MX_SIZEOF_ADDR == sizeof(mx_endpoint_addr_t), "size");
	_Static_assert(sizeof(mx_line_speed_t) == sizeof(uint32_t), "size");
	_Static_assert(MX_CONTEXT_ID_BITS_MAX == 16, "value");
	_Static_assert(MX_MAX_ENDPOINTS == 1024, "value");
#ifndef MX_HAS_NET_TYPE
#error MX_HAS_NET_TYPE is missing
#endif
	cr_assert(speed == 1 && cb && seg.segment_ptr == out);
}

/* A thread that sleeps in mx_wait() until somebody else does something. */
struct sleeper {
	struct mxt_thread thread;
	mx_endpoint_t ep;
	mx_request_t req;
	mx_status_t status;
	_Atomic(pid_t) tid;
};

static void sleeps(void *arg)
{
	struct sleeper *s = arg;
	uint32_t result = 0;

	atomic_store(&s->tid, (pid_t)syscall(SYS_gettid));
	mxt_ok(mx_wait(s->ep, &s->req, MX_INFINITE, &s->status, &result));
	mxt_check(result);
}

static void begin_sleep(struct sleeper *s, mx_endpoint_t ep, mx_request_t req)
{
	*s = (struct sleeper){.ep = ep, .req = req};
	mxt_start(&s->thread, sleeps, s);
	twt_await_asleep(&s->tid);
}

/* A thread that sleeps learns of a time limit that is set meanwhile, the service thread or not. */
Test(mx_progression, limit_beside_a_sleeper, .timeout = MXT_TIMEOUT)
{
	mx_endpoint_t ep;
	struct sleeper s;

	mxt_up();
	ep = mxt_open(1);
	for (int late = 0; late < 2; late++) {
		if (!late)
			mxt_ok(mx_disable_progression(ep));
		begin_sleep(&s, ep, mxt_irecv(ep, in, 8, 1));
		mxt_ok(mx_set_request_timeout(ep, s.req, WHILE));
		if (late)
			mxt_ok(mx_disable_progression(ep));
		mxt_join(&s.thread);
		mxt_eq(s.status.code, MX_STATUS_TIMEOUT);
		mxt_ok(mx_reenable_progression(ep));
	}
	mxt_close(ep);
	mxt_down();
}
