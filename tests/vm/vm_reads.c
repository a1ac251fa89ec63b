/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages over verbs are read from the sender's memory by the receiver's
 * device: the devices count no more sends than a few packets need, neither
 * processor copies anything, and the reads complete while the sender's process is
 * stopped.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "stress/stress.h"
#include "vm/vm.h"

#define LEN (1u << 20)
#define ROUNDS 8
#define ANNOUNCEMENT 128 /* bytes at most */
#define FEW 16		 /* sends; as packets, the message would be 64 of 16 KiB */

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
	uint64_t sends, packets, gets;
	uint32_t copied;

	for (uint64_t match = 0; match < ROUNDS; match++) {
		st_at(match);
		await_announcement(me, match);
		if (match % 2 == STOPPED)
			vm_stop(shared->sender);
		sends = vm_devices("rdma_sends");
		packets = vm_devices("rcvd_pkts");
		gets = counter(TW_C_RNDV_GET);
		copied = counter(TW_C_COPIED);
		receive(me, match);
		sends = vm_devices("rdma_sends") - sends;
		packets = vm_devices("rcvd_pkts") - packets;
		gets = counter(TW_C_RNDV_GET) - gets;
		copied = counter(TW_C_COPIED) - copied;
		printf("%u bytes%s: %llu sends, %llu packets on the wire\n", LEN,
		       match % 2 == STOPPED ? ", the sender stopped" : "",
		       (unsigned long long)sends, (unsigned long long)packets);
		fflush(stdout);
		if (match % 2 == STOPPED) {
			st_eq(vm_state(shared->sender), 'T');
			st_check(kill(shared->sender, SIGCONT) == 0);
		}
		st_eq(gets, 1);
		st_eq(copied, 0);
		if (sends > FEW || packets < LEN / 4096)
			st_fail("message %llu was not read by the device",
				(unsigned long long)match);
		st_meet(&shared->met, 2);
	}
}

static void sender(struct st_me *me)
{
	for (uint64_t match = 0; match < ROUNDS; match++) {
		uint32_t copied = counter(TW_C_COPIED);
		mx_request_t r;

		st_at(match);
		twt_fill(buf, LEN, match);
		r = st_isend(me->ep, buf, LEN, me->addr[0], match);
		st_finish(me->ep, &r);
		copied = counter(TW_C_COPIED) - copied;
		if (copied > ANNOUNCEMENT)
			st_fail("%u bytes of message %llu were copied", copied,
				(unsigned long long)match);
		st_meet(&shared->met, 2);
	}
	st_eq(counter(TW_C_RNDV_COPY), 0);
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
