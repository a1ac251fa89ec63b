/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many more processes than cores, all to all, in rounds: some processes block in
 * mx_wait(), some poll with mx_test(), changing places from round to round.
 */
#include <stdlib.h>

#include "stress/stress.h"

static long procs = ST_CREW;

/* What the processes share: the number of rounds, once known. */
static atomic_uint *last;

static uint64_t message(uint32_t round, int from, int to)
{
	return (uint64_t)round << 16 | (uint64_t)from << 8 | (uint64_t)to;
}

static uint32_t length(uint64_t match)
{
	uint64_t r = st_hash(match, st_seed);

	if (r % 64 == 0)
		return 30000 + (uint32_t)(r / 64 % 100000);
	return (uint32_t)(r / 64 % (r % 8 ? 256 : 8193));
}

/* Completes a request by one way or the other. */
static mx_status_t finish(struct st_me *me, mx_request_t *req, int block)
{
	mx_status_t s;

	if (block)
		return st_finish(me->ep, req);
	if (!st_poll(me->ep, req, ST_LONG / 2, &s))
		st_fail("a request is not complete after %.0f s of polling", ST_LONG / 2);
	st_eq(s.code, MX_STATUS_SUCCESS);
	return s;
}

static void check(struct st_me *me, uint32_t round, const mx_status_t *s, const void *buf,
		  int *seen)
{
	int from = (int)(s->match_info >> 8 & 0xff);
	uint32_t len = length(s->match_info);
	size_t wrong;

	if (from >= me->n || s->match_info != message(round, from, me->rank))
		st_fail("round %u: message %#llx is not for here", round,
			(unsigned long long)s->match_info);
	if (seen[from]++)
		st_fail("round %u: a second message from %d", round, from);
	if (!st_same(st_whose(s->source), me->name[from]))
		st_fail("round %u: the source of the message from %d is wrong", round, from);
	if (s->msg_length != len || s->xfer_length != len)
		st_fail("round %u: the message from %d has %u bytes, of which %u came, not %u",
			round, from, s->msg_length, s->xfer_length, len);
	wrong = twt_check(buf, len, st_hash(s->match_info, 9));
	if (wrong != len)
		st_fail("round %u: byte %zu of %u from %d is wrong", round, wrong, len, from);
}

static void run_round(struct st_me *me, uint32_t round)
{
	mx_request_t send[ST_CREW], recv[ST_CREW];
	uint8_t *out[ST_CREW], *in[ST_CREW];
	int block = (round / 4 + (uint32_t)me->rank) % 2, any = round % 3 == 0;
	int seen[ST_CREW] = {0};

	for (int i = 0; i < me->n; i++) {
		mx_segment_t seg = {NULL, 130000};

		st_check((seg.segment_ptr = in[i] = malloc(130000)) != NULL);
		if (any)
			st_ok(mx_irecv(me->ep, &seg, 1, message(round, 0, me->rank), ~0xff00ull,
				       NULL, &recv[i]));
		else
			recv[i] = st_irecv(me->ep, in[i], 130000, message(round, i, me->rank));
	}
	for (int k = 0; k < me->n; k++) {
		int i = (me->rank + k) % me->n;
		uint64_t m = message(round, me->rank, i);
		uint32_t len = length(m);

		st_check((out[i] = malloc(len + 1ul)) != NULL);
		twt_fill(out[i], len, st_hash(m, 9));
		if (st_hash(m, 5) % 4 == 0)
			send[i] = st_issend(me->ep, out[i], len, me->addr[i], m);
		else
			send[i] = st_isend(me->ep, out[i], len, me->addr[i], m);
		me->count[0]++;
	}
	for (int i = 0; i < me->n; i++) {
		mx_status_t s;

		st_at(round);
		s = finish(me, &recv[i], block);
		check(me, round, &s, in[i], seen);
		free(in[i]);
	}
	for (int i = 0; i < me->n; i++) {
		st_at(round);
		finish(me, &send[i], block);
		free(out[i]);
	}
}

static void process(struct st_me *me)
{
	uint32_t round = 0, end;

	do {
		/*
		 * Nobody begins a round before the first process has begun the one
		 * before it, so this reaches everybody in time.
		 */
		if (me->rank == 0 && !atomic_load(last) && !st_going())
			atomic_store(last, round + 2);
		run_round(me, round++);
		end = atomic_load(last);
	} while (!end || round < end);
	me->count[1] = me->rank == 0 ? round : 0;
	st_eq(round, end);
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--procs", &procs, 1, ST_CREW}, {0}};
	uint64_t total[4] = {0};

	st_begin(argc, argv, "stress_oversub", 5, options);
	last = st_shared(sizeof(*last));
	st_crew((int)procs, 0, process, total);
	st_leftovers();
	st_done("%ld processes, %llu rounds, %llu messages", procs, (unsigned long long)total[1],
		(unsigned long long)total[0]);
	return 0;
}
