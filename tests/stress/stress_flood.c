/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floods. A sender offers far more than a small unexpected queue holds, to a
 * receiver that makes no MX calls for a while: the receiver's memory must not
 * grow with it, and then everything must come, in order. And two sides that
 * both send very many messages before either receives: no deadlock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress/stress.h"

#define UNEXP 65536
#define WINDOW 64
/* An offer this big must not make the receiver grow by that much. */
#define OFFER_BIG (40ull << 20)
#define GROW_MAX (16ull << 20)

enum load { TINY, MIDDLE, MIXED, BOTH, LOADS };
static const char *const load_name[] = {"tiny", "middle", "mixed", "both ways"};

static long both_count = 100000;

/* What the processes share. */
struct shared {
	atomic_uint round[2];	/* where each side is */
	atomic_uint offered[2]; /* rounds whose messages are all posted */
	atomic_int stop;
};
static struct shared *shared;

static enum load round_load(uint32_t round)
{
	/* Both ways first, so that even the shortest run has it. */
	return round % 8 == 0 ? BOTH : (enum load)(round % 3);
}

static uint32_t round_count(uint32_t round)
{
	static const uint32_t most[] = {20000, 12000, 4000};
	enum load load = round_load(round);

	if (load == BOTH)
		return (uint32_t)both_count / ST_SLOW;
	return (most[load] - (uint32_t)(st_hash(st_seed, round) % (most[load] / 8))) / ST_SLOW;
}

static uint64_t message(uint32_t round, uint32_t i, int from)
{
	return (uint64_t)round << 40 | (uint64_t)from << 36 | i;
}

static uint64_t pattern(uint64_t match)
{
	return st_hash(match, st_seed);
}

static uint32_t length(uint64_t match, enum load load)
{
	uint64_t rng = st_hash(match, ~st_seed);
	uint64_t r = twt_random(&rng);

	switch (load) {
	case TINY:
		return (uint32_t)(r % 129);
	case MIDDLE:
		return 2048 + (uint32_t)(r % 4097);
	case MIXED:
		return st_size(&rng, 300000);
	default:
		return r % 1000 == 0  ? 100000 + (uint32_t)(r / 1000 % 100)
		       : r % 100 == 0 ? 4000 + (uint32_t)(r / 1000 % 200)
				      : (uint32_t)(r / 1000 % 65);
	}
}

/* Messages offered and not yet complete. */
struct offer {
	uint8_t *mem;
	mx_request_t *req;
	uint32_t n;
	uint64_t bytes;
};

static void offer(struct st_me *me, uint32_t round, struct offer *o)
{
	enum load load = round_load(round);
	mx_endpoint_addr_t to = me->addr[!me->rank];
	uint8_t *at;

	o->n = round_count(round);
	o->bytes = 0;
	for (uint32_t i = 0; i < o->n; i++)
		o->bytes += length(message(round, i, me->rank), load);
	at = o->mem = malloc(o->bytes + 1);
	o->req = calloc(o->n, sizeof(*o->req));
	st_check(o->mem && o->req);
	/* All that is sent is there before the flood begins. */
	for (uint32_t i = 0; i < o->n; i++) {
		uint64_t m = message(round, i, me->rank);

		twt_fill(at, length(m, load), pattern(m));
		at += length(m, load);
	}
	at = o->mem;
	for (uint32_t i = 0; i < o->n; i++) {
		uint64_t m = message(round, i, me->rank);
		uint32_t len = length(m, load);

		st_at(i);
		if (st_hash(m, 3) % 10 == 0)
			o->req[i] = st_issend(me->ep, at, len, to, m);
		else
			o->req[i] = st_isend(me->ep, at, len, to, m);
		at += len;
	}
	atomic_store(&shared->offered[me->rank], round + 1);
	me->count[0] += o->n;
	me->count[1] += o->bytes;
}

static void finish_offer(struct st_me *me, struct offer *o)
{
	for (uint32_t i = 0; i < o->n; i++) {
		st_at(i);
		st_finish(me->ep, &o->req[i]);
	}
	free(o->mem);
	free(o->req);
}

struct slot {
	mx_request_t req;
	uint8_t *buf;
};

static void take(struct st_me *me, uint32_t round, uint32_t i, struct slot *slot)
{
	uint64_t m = message(round, i, !me->rank);
	uint32_t len = length(m, round_load(round));
	uint32_t result = 0;
	mx_status_t s;
	size_t wrong;

	st_at(i);
	st_ok(mx_wait(me->ep, &slot->req, (uint32_t)(ST_LONG * 500), &s, &result));
	if (!result)
		st_fail("round %u (%s): message %#llx of %u bytes does not come", round,
			load_name[round_load(round)], (unsigned long long)m, len);
	if (s.match_info != m)
		st_fail("round %u (%s): message %#llx came where %#llx was due", round,
			load_name[round_load(round)], (unsigned long long)s.match_info,
			(unsigned long long)m);
	if (s.code != MX_STATUS_SUCCESS || s.msg_length != len || s.xfer_length != len)
		st_fail("message %#llx has %u bytes, of which %u came, not %u; %s",
			(unsigned long long)m, s.msg_length, s.xfer_length, len,
			mx_strstatus(s.code));
	wrong = twt_check(slot->buf, len, pattern(m));
	if (wrong != len)
		st_fail("message %#llx of %u bytes: byte %zu is wrong", (unsigned long long)m, len,
			wrong);
	free(slot->buf);
}

static void probe_next(struct st_me *me, uint32_t round, uint32_t i)
{
	uint64_t m = message(round, i, !me->rank);
	uint32_t result = 0;
	mx_status_t s;

	st_ok(mx_probe(me->ep, (uint32_t)(ST_LONG * 500), message(round, 0, !me->rank),
		       ~0xffffffffull, &s, &result));
	if (!result)
		st_fail("round %u: a probe does not find message %u", round, i);
	st_eq(s.match_info, m);
	st_eq(s.msg_length, length(m, round_load(round)));
}

/* Receives that would take any message of the round take them in order. */
static void receive(struct st_me *me, uint32_t round)
{
	uint32_t n = round_count(round), posted = 0, done = 0;
	uint32_t window = 1 + (uint32_t)(st_hash(st_seed ^ 7, round) % WINDOW);
	struct slot slot[WINDOW];

	while (done < n) {
		/* With nothing posted, a probe shows the next. */
		if (posted == done && st_hash(st_seed, done) % 16 == 0)
			probe_next(me, round, done);
		while (posted < n && posted < done + window) {
			uint32_t len = length(message(round, posted, !me->rank), round_load(round));
			struct slot *s = &slot[posted % WINDOW];
			mx_segment_t seg;

			st_check((s->buf = malloc(len + 1ul)) != NULL);
			seg = (mx_segment_t){s->buf, len};
			st_ok(mx_irecv(me->ep, &seg, 1, message(round, 0, !me->rank),
				       ~0xffffffffull, NULL, &s->req));
			posted++;
		}
		take(me, round, done, &slot[done % WINDOW]);
		done++;
	}
}

static void wait_for(atomic_uint *what, uint32_t value)
{
	while (atomic_load(what) < value) {
		st_at(value);
		st_sleep(0.001);
	}
}

/* The receiver's side of a one-way round: asleep while the flood comes. */
static void endure(struct st_me *me, uint32_t round)
{
	uint64_t before = twt_memory(getpid()), bytes = 0, grown;

	atomic_store(&shared->round[me->rank], round + 1);
	wait_for(&shared->offered[!me->rank], round + 1);
	st_sleep(0.05);
	grown = twt_memory(getpid()) - before;
	for (uint32_t i = 0; i < round_count(round); i++)
		bytes += length(message(round, i, !me->rank), round_load(round));
	if (bytes > OFFER_BIG && grown > GROW_MAX && grown < 1ull << 40 && !ST_SANITIZED)
		st_fail("round %u (%s): %llu MB were offered to a queue of %d bytes, and memory "
			"grew by %llu MB",
			round, load_name[round_load(round)], (unsigned long long)bytes >> 20, UNEXP,
			(unsigned long long)grown >> 20);
	receive(me, round);
}

static void flood(struct st_me *me)
{
	struct offer o;

	st_role(me->rank ? "receiver" : "sender");
	for (uint32_t round = 0; !atomic_load(&shared->stop); round++) {
		if (round_load(round) == BOTH) {
			offer(me, round, &o);
			wait_for(&shared->offered[!me->rank], round + 1);
			receive(me, round);
			finish_offer(me, &o);
		} else if (me->rank) {
			endure(me, round);
		} else {
			wait_for(&shared->round[1], round + 1);
			offer(me, round, &o);
			finish_offer(me, &o);
		}
		me->count[2] += !me->rank;
		/* The receiver ends the round, so it may say that it was the last. */
		if (me->rank) {
			atomic_store(&shared->stop, !st_going() && round > 1);
			atomic_store(&shared->round[0], round + 1);
		}
		wait_for(&shared->round[0], round + 1);
	}
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--both", &both_count, 1, 10000000}, {0}};
	uint64_t total[4] = {0};

	st_begin(argc, argv, "stress_flood", 5, options);
	shared = st_shared(sizeof(*shared));
	st_crew(2, UNEXP, flood, total);
	st_leftovers();
	st_done("%llu rounds, %llu messages, %.1f MB", (unsigned long long)total[2],
		(unsigned long long)total[0], (double)total[1] / 1e6);
	return 0;
}
