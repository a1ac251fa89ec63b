/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes that share a processor, each polling until the other's message is there. */
#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

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

enum { KEPT_MOST = 8192, SOME = 1000 }; /* bytes of an idle connection, of a message */

static void yield_to_others(void)
{
	DIR *d = opendir("/proc/self/task");

	cr_assert(d);
	for (struct dirent *t; (t = readdir(d));)
		if (t->d_name[0] != '.')
			cr_assert_eq(setpriority(PRIO_PROCESS, (id_t)atoi(t->d_name), 19), 0);
	closedir(d);
}

/* Computes while the second of three messages comes. */
static void read_late(struct mxt_side *s)
{
	char buf[SOME];

	for (uint64_t match = 1; match <= 3; match++) {
		mx_request_t r = mxt_irecv(s->ep, buf, SOME, match);

		mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
		if (match == 1)
			mxt_sleep(4000);
	}
}

static void send_some(struct mxt_side *s, uint64_t match)
{
	static char buf[SOME];
	mx_request_t r = mxt_isend(s->ep, buf, SOME, s->peer, match);

	mxt_wait(s->ep, &r, MX_STATUS_SUCCESS);
}

/*
 * A reader that is woken runs before the writer goes on, and has read all when that looks again.
 * The writer's memory goes back as it does elsewhere.
 */
Test(mx_one_processor, memory_goes_back_where_the_reader_goes_first, .timeout = MXT_TIMEOUT)
{
	uint64_t before;
	int64_t kept;
	struct mxt_side s;

	mxt_same_host();
	bind_to_first();
	mxt_two(&s, read_late, NULL);
	yield_to_others();
	before = twt_shared_memory(getpid());
	send_some(&s, 1);
	mxt_sleep(500);
	send_some(&s, 2);
	for (double end = twt_now() + TWT_LONG; twt_now() < end; mxt_sleep(100)) {
		kept = (int64_t)(twt_shared_memory(getpid()) - before);
		if (kept <= KEPT_MOST)
			break;
	}
	cr_assert_leq(kept, KEPT_MOST);
	send_some(&s, 3);
	mxt_two_end(&s);
}
