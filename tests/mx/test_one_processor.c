/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes that share a processor, each polling until the other's message is there. */
#include <sched.h>

#include "mx/mxt.h"

TestSuite(mx_one_processor, .init = mxt_job, .timeout = MXT_TIMEOUT);

/* Who keeps the processor polls more than 100,000 times until it is taken away. */
enum { ROUNDS = 300, POLLS = 8000 };

static void bind_to_first(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	mxt_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	mxt_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

static bool by_test(struct mxt_side *s, mx_request_t *r)
{
	uint32_t done = 0;
	mx_status_t st;

	mxt_ok(mx_test(s->ep, r, &st, &done));
	return done;
}

static bool by_ipeek(struct mxt_side *s, mx_request_t *r)
{
	uint32_t done = 0;
	mx_request_t any;

	mxt_ok(mx_ipeek(s->ep, &any, &done));
	return done && by_test(s, r);
}

static bool by_iprobe(struct mxt_side *s, mx_request_t *r)
{
	uint32_t there = 0;
	mx_status_t st;

	mxt_ok(mx_iprobe(s->ep, 2, MXT_ALL, &st, &there));
	return by_test(s, r);
}

static bool (*const polls[])(struct mxt_side *s, mx_request_t *r) = {by_test, by_ipeek, by_iprobe};

/* Receives a message. Returns how often it polled for it. */
static uint64_t take(struct mxt_side *s, unsigned way)
{
	uint64_t n = 1, in;
	mx_request_t r = mxt_irecv(s->ep, &in, sizeof(in), 1);

	while (!polls[way](s, &r))
		n++;
	return n;
}

static void give(struct mxt_side *s)
{
	uint64_t out = 1;
	mx_request_t r = mxt_isend(s->ep, &out, sizeof(out), s->peer, 1);

	mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
}

static void reply(struct mxt_side *s)
{
	bind_to_first();
	for (unsigned way = 0; way < 3; way++)
		for (int i = 0; i < ROUNDS; i++) {
			take(s, way);
			give(s);
		}
}

Test(mx_one_processor, polls_leave_it_to_the_other, .timeout = MXT_TIMEOUT)
{
	struct mxt_side s;

	mxt_same_host();
	mxt_two(&s, reply, NULL);
	bind_to_first();
	for (unsigned way = 0; way < 3; way++) {
		uint64_t n = 0;

		for (int i = 0; i < ROUNDS; i++) {
			give(&s);
			n += take(&s, way);
		}
		if (n > (uint64_t)ROUNDS * POLLS)
			mxt_fail(__FILE__, __LINE__, "way %u: %llu polls a message", way,
				 (unsigned long long)n / ROUNDS);
	}
	mxt_two_end(&s);
}
