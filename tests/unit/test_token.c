/* SPDX-License-Identifier: BSD-2-Clause */
/* The two rings of a connection, and the slot that both sides write in turns. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/twt.h"
#include "shmem/ring.h"

TestSuite(token, .timeout = TWT_TIMEOUT);

#define SLOTS 64u
#define BYTES 65536u

struct side {
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
	uint64_t sent, received;
	unsigned turns; /* packets that it took out of the turn */
	uint64_t rng;
	bool mixed; /* it sends long packets, too, which never take the turn */
};

struct pair {
	uint8_t *mem;
	struct tw_ring_share share[2];
	struct side side[2];
};

/* Both have sent `at' packets before. */
static void start(struct pair *p, uint32_t at)
{
	p->mem = mmap(NULL, tw_rings_size(SLOTS, BYTES), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(p->mem, MAP_FAILED);
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &p->side[i];

		tw_ring_share_init(&p->share[i], BYTES);
		tw_ring_tx_init(&s->tx, p->mem, i, SLOTS, BYTES, &p->share[i]);
		tw_ring_rx_init(&s->rx, p->mem, !i, SLOTS, BYTES);
		tw_ring_pair(&s->tx, &s->rx, i == 0);
		s->tx.head = s->tx.taken = s->tx.limit = s->rx.tail = at;
		s->tx.slots_ready = true;
		s->sent = s->received = 0;
		s->turns = 0;
		s->mixed = false;
		s->rng = i + 1;
		/* What the slots held one lap ago. */
		for (uint32_t n = at - SLOTS; n != at; n++)
			atomic_store(&s->tx.slots[n & (SLOTS - 1)].stamp,
				     tw_stamp(s->tx.side, n + 1, 0));
	}
	for (unsigned i = 0; i < 2; i++)
		tw_ring_publish(&p->side[i].rx);
}

static void stop(struct pair *p)
{
	munmap(p->mem, tw_rings_size(SLOTS, BYTES));
}

/* A packet follows from its sender and its number. */
static uint32_t content(const struct side *from, uint64_t number, uint8_t *data)
{
	uint64_t state = number * 2 + (from->tx.side != 0), r = twt_random(&state);
	bool is_long = from->mixed && r % 5 == 0;
	uint32_t len = (uint32_t)(r >> 8) % (is_long ? 300 : TW_RING_INLINE + 1);

	for (uint32_t i = 0; i < len; i++)
		data[i] = (uint8_t)((r >> 3) + i);
	return len;
}

static bool send_one(struct side *s)
{
	uint8_t data[300];
	uint32_t len = content(s, s->sent, data);
	struct iovec iov = {data, len};

	if (!tw_ring_room(&s->tx, len, 0))
		return false;
	if (len <= TW_RING_INLINE)
		tw_ring_write_small(&s->tx, (struct tw_hdr){1, s->sent}, data, len);
	else
		tw_ring_write_long(&s->tx, (struct tw_hdr){1, s->sent}, &iov, 1, len);
	s->sent++;
	return true;
}

/* Takes the next packet of the other side, if there is one. */
static bool take_one(struct side *s, const struct side *other, bool dense)
{
	bool vain = tw_ring_poll_empty(&s->rx, &dense);
	struct tw_slot *slot = vain ? NULL : tw_ring_next(&s->rx);
	const uint8_t *p;
	uint8_t want[300];
	uint32_t len;

	if (!slot)
		return false;
	p = tw_ring_payload(&s->rx, slot, &len);
	if (!p) { /* it gives the size of the part */
		cr_assert(tw_ring_control(&s->rx, slot));
		return take_one(s, other, dense);
	}
	cr_assert_eq(slot->hdr.match, s->received);
	cr_assert_eq(len, content(other, s->received, want));
	cr_assert_eq(memcmp(p, want, len), 0);
	s->turns += slot == s->rx.token;
	tw_ring_advance(&s->rx, slot, len);
	tw_ring_publish(&s->rx);
	s->received++;
	return true;
}

/* Question and answer go through the turn, every one. */
Test(token, question_and_answer)
{
	struct pair p;
	struct side *a = &p.side[0], *b = &p.side[1];

	start(&p, 0);
	for (unsigned n = 0; n < 1000; n++) {
		cr_assert(send_one(a));
		cr_assert(take_one(b, a, false));
		cr_assert(send_one(b));
		cr_assert(take_one(a, b, false));
	}
	cr_assert_eq(a->turns, 1000u);
	cr_assert_eq(b->turns, 1000u);
	stop(&p);
}

/* Who sends on without an answer uses the ring; the order is kept. */
Test(token, one_way)
{
	struct pair p;

	start(&p, 0);
	for (unsigned n = 0; n < 10 * SLOTS; n++) {
		cr_assert(send_one(&p.side[0]));
		if (n % 3 == 0)
			while (take_one(&p.side[1], &p.side[0], false))
				;
	}
	while (take_one(&p.side[1], &p.side[0], false))
		;
	cr_assert_eq(p.side[1].received, 10 * SLOTS);
	cr_assert_eq(p.side[1].turns, 1u);
	stop(&p);
}

/* The second side has no turn before it has taken a packet. */
Test(token, the_first_is_the_callers)
{
	struct pair p;

	start(&p, 0);
	cr_assert(send_one(&p.side[1]));
	cr_assert(take_one(&p.side[0], &p.side[1], false));
	cr_assert_eq(p.side[0].turns, 0u);
	cr_assert(send_one(&p.side[0]));
	cr_assert(take_one(&p.side[1], &p.side[0], false));
	cr_assert_eq(p.side[1].turns, 1u);
	stop(&p);
}

/* Polls that leave the turn alone see it in the end; tw_ring_next() always does. */
Test(token, patience_is_limited)
{
	struct pair p;
	struct side *a = &p.side[0], *b = &p.side[1];

	start(&p, 0);
	a->rx.backoff.polls = TW_RING_BACKOFF;
	for (unsigned n = 0; n < 100; n++) {
		unsigned polls = 1;

		cr_assert(send_one(a));
		cr_assert(take_one(b, a, false));
		cr_assert(send_one(b));
		cr_assert_not_null(tw_ring_next(&a->rx));
		while (!take_one(a, b, true))
			cr_assert_leq(++polls, TW_RING_BACKOFF + 1u);
	}
	cr_assert_lt(a->rx.backoff.polls, (unsigned)TW_RING_BACKOFF, "an early answer is learnt");
	stop(&p);
}

/*
 * Slots are written again before their numbers come round: after 2^32 packets
 * through the turn no slot may look as if it held the next one.
 */
Test(token, numbers_that_come_round)
{
	struct pair p;
	struct side *a = &p.side[0], *b = &p.side[1];
	unsigned ring = 0;

	start(&p, TW_RING_RENEW - 2 * SLOTS);
	for (unsigned n = 0; n < 3 * SLOTS; n++) {
		unsigned turns = b->turns;

		cr_assert(send_one(a));
		cr_assert(take_one(b, a, false));
		ring += b->turns == turns;
		cr_assert(send_one(b));
		cr_assert(take_one(a, b, false));
	}
	cr_assert_eq(ring, SLOTS);
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t stamp = atomic_load(&a->tx.slots[i].stamp);

		cr_assert_geq((uint32_t)stamp, TW_RING_RENEW - SLOTS, "slot %u was left out", i);
	}
	stop(&p);
}

#define STREAM 60000u

struct half {
	struct pair *p;
	unsigned me;
};

/* Sends and takes as it comes, now in bursts, now one for one. */
static void *run(void *arg)
{
	struct half *h = arg;
	struct side *s = &h->p->side[h->me], *other = &h->p->side[!h->me];

	while (s->sent < STREAM || s->received < STREAM) {
		uint64_t r = twt_random(&s->rng);
		unsigned burst = r % 4 ? 1 : (unsigned)(r >> 8) % 100;
		bool moved = false;

		while (burst-- && s->sent < STREAM && send_one(s))
			moved = true;
		while (take_one(s, other, r & 16))
			moved = true;
		if (!moved)
			sched_yield();
	}
	return NULL;
}

Test(token, two_threads)
{
	struct pair p;
	struct half h[2] = {{&p, 0}, {&p, 1}};
	pthread_t t;

	start(&p, 0u - STREAM / 2);
	p.side[0].mixed = p.side[1].mixed = true;
	cr_assert_eq(pthread_create(&t, NULL, run, &h[1]), 0);
	run(&h[0]);
	pthread_join(t, NULL);
	cr_assert(tw_ring_drained(&p.side[0].tx));
	cr_assert(tw_ring_drained(&p.side[1].tx));
	/* The first, at least; the others are as it came. */
	cr_assert_gt(p.side[1].turns, 0u);
	stop(&p);
}
