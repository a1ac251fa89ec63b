/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command TWT_BREAK breaks the network of rank 1 for good, in the middle of
 * a numbered stream from rank 1 to rank 0. Where TAGWIRE_PROVIDERS names another
 * network that takes over, and all of the stream comes, in order and once; else
 * it ends as unreachable. Rank 2, on rank 0's side, does not notice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "stress/stress.h"

#define N 240
#define LONG 300000
#define SHORT 9000
#define STREAM 7
#define OTHER 8
#define RETRY_MS 3000

static struct shared {
	atomic_uint met;
	atomic_int ended; /* the code that the stream ended with at rank 1 */
} * shared;

static uint8_t buf[LONG];
static int other_network;

static uint32_t counter(enum tw_counter which)
{
	uint32_t board = 0, values[TW_NCOUNTERS];

	st_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), values, sizeof(values)));
	return values[which];
}

static uint32_t length(unsigned i)
{
	return i % 16 == 15 ? LONG : i * 37 % SHORT;
}

static mx_status_t over(struct st_me *me, mx_request_t *r)
{
	mx_status_t s;

	if (!st_poll(me->ep, r, ST_LONG / 2, &s))
		st_fail("a request does not end");
	return s;
}

/* From the far side, to the end or as far as the network lasts. */
static void streamer(struct st_me *me)
{
	mx_status_t s = {.code = MX_STATUS_SUCCESS};

	for (unsigned i = 0; i < N && s.code == MX_STATUS_SUCCESS; i++) {
		mx_request_t r;

		st_at(i);
		twt_fill(buf, length(i), i);
		/* Synchronous: not more than one is under way. */
		r = st_issend(me->ep, buf, length(i), me->addr[0], STREAM);
		s = over(me, &r);
	}
	atomic_store(&shared->ended, s.code);
}

/* Back and forth with a neighbour; the last one tells it to stop. */
static void ping(struct st_me *me, uint32_t last)
{
	mx_request_t r = st_isend(me->ep, &last, sizeof(last), me->addr[2], OTHER);

	st_finish(me->ep, &r);
	r = st_irecv(me->ep, &last, sizeof(last), OTHER);
	st_finish(me->ep, &r);
}

static void neighbour(struct st_me *me)
{
	uint32_t last = 0;

	while (!last) {
		mx_request_t r = st_irecv(me->ep, &last, sizeof(last), OTHER);

		st_finish(me->ep, &r);
		r = st_isend(me->ep, &last, sizeof(last), me->addr[0], OTHER);
		st_finish(me->ep, &r);
	}
}

static void break_it(void)
{
	const char *command = getenv("TWT_BREAK");

	if (!command || system(command) != 0)
		st_fail("TWT_BREAK, which breaks the network, does not work");
	printf("broken by %s\n", command);
	fflush(stdout);
}

/* One message of the stream; false when it does not come because it has ended. */
static int next(struct st_me *me, unsigned i)
{
	mx_request_t r = st_irecv(me->ep, buf, LONG, STREAM);
	double end = twt_now() + ST_LONG / 2;
	mx_status_t s;

	while (!st_poll(me->ep, &r, 0.1, &s)) {
		uint32_t cancelled;

		if (twt_now() > end)
			st_fail("message %u does not come", i);
		if (!atomic_load(&shared->ended))
			continue;
		st_ok(mx_cancel(me->ep, &r, &cancelled));
		if (cancelled)
			return 0;
	}
	if (s.code != MX_STATUS_SUCCESS && !other_network && st_gone(s.code))
		return 0;
	st_eq(s.code, MX_STATUS_SUCCESS);
	st_eq(s.xfer_length, length(i));
	if (twt_check(buf, length(i), i) != length(i))
		st_fail("message %u is wrong, or not the next one", i);
	return 1;
}

static void hub(struct st_me *me)
{
	double start = 0;
	unsigned i = 0;

	while (i < N && next(me, i)) {
		st_at(i++);
		ping(me, 0);
		if (i == N / 3) {
			break_it();
			start = twt_now();
		}
		/* What breaks it may run in the background: the stream must not end before. */
		if (start && !counter(TW_C_PATH_BROKEN))
			usleep(50000);
	}
	printf("%u of %d messages came, the last %.1f s after it broke\n", i, N, twt_now() - start);
	if (other_network) {
		st_eq(i, N);
		st_check(counter(TW_C_PATH_BROKEN) > 0);
	} else {
		mx_request_t r = st_isend(me->ep, buf, 8, me->addr[1], STREAM);

		st_check(i < N);
		st_check(st_gone(over(me, &r).code));
	}
	ping(me, 1);
}

static void process(struct st_me *me)
{
	if (me->rank == 0)
		hub(me);
	else if (me->rank == 1)
		streamer(me);
	else
		neighbour(me);
	st_meet(&shared->met, 3);
	if (other_network)
		st_eq(atomic_load(&shared->ended), MX_STATUS_SUCCESS);
	else
		st_check(st_gone((mx_status_code_t)atomic_load(&shared->ended)));
}

int main(int argc, char **argv)
{
	const char *providers = getenv("TAGWIRE_PROVIDERS");
	char retry[16];

	other_network = providers && (strstr(providers, "tcp") || strstr(providers, "ofi"));
	/* Another network is opened in this time, which may take long here. */
	snprintf(retry, sizeof(retry), "%d", (other_network ? 40 : 1) * RETRY_MS);
	setenv("TAGWIRE_RETRY", retry, 1);
	st_begin(argc, argv, "vm_broken", 5, NULL);
	shared = st_shared(sizeof(*shared));
	st_crew(3, 0, process, NULL);
	st_done("%s", other_network ? "the other network took over" : "told of it");
	return 0;
}
