/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages over verbs are read from the sender's memory by the receiver's
 * device: the devices count no more sends than a few packets need, and the
 * reads complete while the sender's process is stopped.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "stress/stress.h"

#define LEN (1u << 20)
#define ROUNDS 8
#define FEW 16 /* sends; as packets, the message would be 64 of 16 KiB */

enum { READ, STOPPED };

static struct shared {
	atomic_uint met;
	pid_t sender;
} * shared;

static uint8_t buf[LEN];

static uint32_t counter(enum tw_counter which)
{
	uint32_t board = 0, values[TW_NCOUNTERS];

	st_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), values, sizeof(values)));
	return values[which];
}

/* What the devices at both ends of the wire have counted. */
static uint64_t devices(const char *what)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		unsigned long long n;
		char path[200];
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/infiniband/rxe%d/ports/1/hw_counters/%s",
			 i, what);
		f = fopen(path, "re");
		if (!f || fscanf(f, "%llu", &n) != 1)
			st_fail("%s cannot be read", path);
		fclose(f);
		sum += n;
	}
	return sum;
}

static char state_of(pid_t pid)
{
	char path[64], text[300] = "";
	const char *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		st_fail("%s cannot be read", path);
	fclose(f);
	p = strrchr(text, ')');
	return p && isspace((unsigned char)p[1]) ? p[2] : 0;
}

static void stop(pid_t pid)
{
	double end = twt_now() + ST_LONG / 2;

	st_check(kill(pid, SIGSTOP) == 0);
	while (state_of(pid) != 'T') {
		if (twt_now() > end)
			st_fail("the sender does not stop");
		st_sleep(0.01);
	}
}

/* The message is announced, and its data still at the sender. */
static void await_announcement(struct st_me *me, uint64_t match)
{
	uint32_t result = 0;
	mx_status_t s;

	st_ok(mx_probe(me->ep, (uint32_t)(ST_LONG * 500), match, ST_ALL, &s, &result));
	if (!result)
		st_fail("the message is not announced");
	st_eq(s.msg_length, LEN);
}

static void receive(struct st_me *me, uint64_t match)
{
	mx_request_t r;
	mx_status_t s;
	size_t at;

	memset(buf, 0, LEN);
	r = st_irecv(me->ep, buf, LEN, match);
	s = st_finish(me->ep, &r);
	st_eq(s.xfer_length, LEN);
	at = twt_check(buf, LEN, match);
	if (at != LEN)
		st_fail("byte %zu of message %llu is wrong", at, (unsigned long long)match);
}

static void receiver(struct st_me *me)
{
	uint64_t sends, packets, pulled;

	for (uint64_t match = 0; match < ROUNDS; match++) {
		st_at(match);
		await_announcement(me, match);
		if (match % 2 == STOPPED)
			stop(shared->sender);
		sends = devices("rdma_sends");
		packets = devices("rcvd_pkts");
		pulled = counter(TW_C_RNDV_PULL);
		receive(me, match);
		sends = devices("rdma_sends") - sends;
		packets = devices("rcvd_pkts") - packets;
		pulled = counter(TW_C_RNDV_PULL) - pulled;
		printf("%u bytes%s: %llu sends, %llu packets on the wire\n", LEN,
		       match % 2 == STOPPED ? ", the sender stopped" : "",
		       (unsigned long long)sends, (unsigned long long)packets);
		fflush(stdout);
		if (match % 2 == STOPPED) {
			st_eq(state_of(shared->sender), 'T');
			st_check(kill(shared->sender, SIGCONT) == 0);
		}
		st_eq(pulled, 1);
		if (sends > FEW || packets < LEN / 4096)
			st_fail("message %llu was not read by the device",
				(unsigned long long)match);
		st_meet(&shared->met, 2);
	}
}

static void sender(struct st_me *me)
{
	for (uint64_t match = 0; match < ROUNDS; match++) {
		mx_request_t r;

		st_at(match);
		twt_fill(buf, LEN, match);
		r = st_isend(me->ep, buf, LEN, me->addr[0], match);
		st_finish(me->ep, &r);
		st_meet(&shared->met, 2);
	}
	st_eq(counter(TW_C_RNDV_PUSH), 0);
}

static void process(struct st_me *me)
{
	if (me->rank == 0) {
		receiver(me);
	} else {
		shared->sender = getpid();
		sender(me);
	}
}

int main(int argc, char **argv)
{
	st_begin(argc, argv, "vm_reads", 1, NULL);
	shared = st_shared(sizeof(*shared));
	st_crew(2, 0, process, NULL);
	st_done("%d messages read by the device", ROUNDS);
	return 0;
}
