/* SPDX-License-Identifier: BSD-2-Clause */
/* Every provider alike: to fall asleep, to be woken, to be late. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "provider/pair.h"

#define MS (PAIR_SECONDS * 1000)

/* Takes in every bell that is still on its way; networks tell of packets later. */
static void settle(struct pair *p)
{
	double end = twt_now() + (p->can & SHARED ? 0 : 0.02);
	int pumps = p->can & SHARED ? 50 : 1000; /* most of them look at nothing new */

	do {
		for (int i = 0; i < pumps; i++)
			pair_pump(p);
	} while (twt_now() < end);
}

CONFORMANCE(arm_finds_what_is_there, PROMPT)
{
	struct pair *p = pair_connected(t);

	settle(p);
	for (int i = 0; i < 100; i++) {
		cr_assert_not(p->ops->arm(p->b->instance));
		fake_disarm(p->b);
		cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, (uint32_t)i), TW_OK);
		cr_assert(p->ops->arm(p->b->instance));
		fake_disarm(p->b);
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	pair_close(p);
}

static bool stays_asleep(struct pair *p)
{
	bool woken;

	settle(p);
	if (p->ops->arm(p->b->instance)) {
		fake_disarm(p->b);
		return false;
	}
	woken = fake_woken(p->b, 20);
	fake_disarm(p->b);
	return !woken && !fake_woken(p->b, 20);
}

/* A test beside this one may call here, at a port that could be its own: then once more. */
CONFORMANCE(nothing_wakes_an_idle_endpoint, QUIET)
{
	struct pair *p = pair_connected(t);
	int tries = 20;

	while (!stays_asleep(p))
		cr_assert_gt(--tries, 0);
	pair_close(p);
}

/* Where a timer looks for packets it does so less and less often. */
CONFORMANCE(idle_endpoint_rests, ANY)
{
	struct pair *p = pair_connected(t);
	double end;
	unsigned looks = 0;

	settle(p);
	for (end = twt_now() + 1; twt_now() < end; pair_pump(p)) {
		if (p->ops->arm(p->b->instance))
			continue;
		looks += fake_woken(p->b, 100);
		fake_disarm(p->b);
	}
	cr_assert_lt(looks, 200u);
	pair_close(p);
}

CONFORMANCE(packet_wakes, PROMPT)
{
	struct pair *p = pair_connected(t);

	for (int i = 0; i < (p->can & SHARED ? 2000 : 100); i++) {
		settle(p);
		cr_assert_not(p->ops->arm(p->b->instance));
		cr_assert_eq(fake_send(p->ab, (enum tw_send_class)(i % 3), i % 100 * 40), TW_OK);
		cr_assert(fake_woken(p->b, MS), "packet %d woke nobody", i);
		fake_disarm(p->b);
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	pair_close(p);
}

/* An endpoint that computes is woken by packets on which its engine must act, and a full ring. */
CONFORMANCE(packet_wakes_computing, PROMPT)
{
	struct pair *p = pair_connected(t);

	p->b->host.state = TW_COMPUTING;
	for (int i = 0; i < 100; i++) {
		settle(p);
		cr_assert_not(p->ops->arm(p->b->instance));
		if (p->ops->wake) {
			cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 8), TW_OK);
			cr_assert_not(fake_woken(p->b, 0), "a packet that may wait woke it");
		}
		if (i % 10 == 9)
			fake_fill(p->ab, TW_SEND_PLAIN, 8);
		else
			cr_assert_eq(fake_send(p->ab, i % 2 ? TW_SEND_ENGINE : TW_SEND_CONTROL,
					       i * 40),
				     TW_OK);
		cr_assert(fake_woken(p->b, MS), "packet %d woke nobody", i);
		fake_disarm(p->b);
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	pair_close(p);
}

/* Armed all the time, and served from the descriptor alone. */
CONFORMANCE(packet_wakes_again, PROMPT)
{
	struct pair *p = pair_connected(t);

	settle(p);
	for (int i = 0; i < 2000; i++) {
		if (p->ops->arm(p->b->instance)) {
			fake_disarm(p->b);
			fake_pump(p->b);
			i--;
			continue;
		}
		cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 8), TW_OK);
		cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 8), TW_OK);
		cr_assert(fake_woken(p->b, MS), "round %d", i);
		fake_events(p->b);
		fake_disarm(p->b);
		fake_pump(p->b);
		pair_check(p);
		UNTIL(p, p->ba->got == p->ab->sent);
		fake_pump(&p->a);
	}
	pair_close(p);
}

/* A full sender sleeps too, until there is room. */
static void sleep_until_room(const struct traits *t, uint32_t len)
{
	struct pair *p = pair_connected(t);

	len = tw_min(len, p->ab->link->max_payload);
	for (int round = 0; round < 20; round++) {
		settle(p);
		fake_fill(p->ab, TW_SEND_PLAIN, len);
		/* What has come by then may keep it awake for a while, or make room. */
		for (int i = 0; i < 50; i++) {
			fake_pump(&p->a);
			fake_fill(p->ab, TW_SEND_PLAIN, len);
		}
		for (int i = 0; p->ops->arm(p->a.instance); i++) {
			cr_assert_lt(i, 100, "there is no room to wake up for");
			fake_disarm(&p->a);
			fake_pump(&p->a);
			fake_fill(p->ab, TW_SEND_PLAIN, len);
		}
		for (double end = twt_now() + PAIR_SECONDS; !fake_woken(&p->a, 0);) {
			fake_pump(p->b);
			cr_assert_lt(twt_now(), end);
		}
		fake_disarm(&p->a);
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	pair_close(p);
}

CONFORMANCE(room_for_short_wakes, OTHERS)
{
	sleep_until_room(t, 8);
}

CONFORMANCE(room_for_long_wakes, OTHERS)
{
	sleep_until_room(t, 16384);
}

CONFORMANCE(room_before_arming_is_found, OTHERS | PROMPT)
{
	struct pair *p = pair_connected(t);

	settle(p);
	fake_fill(p->ab, TW_SEND_PLAIN, 8);
	while (p->ba->got < (p->can & SHARED ? 1 : p->ab->sent))
		fake_pump(p->b);
	cr_assert(p->ops->arm(p->a.instance));
	fake_disarm(&p->a);
	if (!(p->can & SHARED))
		fake_pump(&p->a);
	cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 8), TW_OK);
	pair_close(p);
}

/* Returns a time since which the other side has not polled. */
static uint64_t await_idle(struct pair *p)
{
	double end = twt_now() + PAIR_SECONDS;
	uint64_t since;

	settle(p);
	do {
		cr_assert_lt(twt_now(), end, "it polls on");
		since = tw_clock();
		usleep(1000);
	} while (p->ops->polls(p->ab->link, since));
	return since;
}

CONFORMANCE(polls, SHARED)
{
	struct pair *p = pair_connected(t);
	uint64_t since = tw_clock();

	if (p->ops->polls) {
		UNTIL(p, p->ops->polls(p->ab->link, since) && p->ops->polls(p->ba->link, since));
		if (p->can & OTHERS)
			since = await_idle(p);
		UNTIL(p, p->ops->polls(p->ab->link, since));
	}
	pair_close(p);
}

/*
 * The engine of the other side must act, and has just polled, but never does
 * again: the sender sees to it that it is rung.
 */
CONFORMANCE(urgent_packet_rings_in_the_end, ANY)
{
	struct pair *p = pair_connected(t);

	for (int i = 0; i < (p->can & SHARED ? 300 : 30); i++) {
		double end = twt_now() + PAIR_SECONDS;

		settle(p);
		cr_assert_eq(fake_send(p->ab, i % 2 ? TW_SEND_ENGINE : TW_SEND_CONTROL, 8), TW_OK);
		/* A timer of its own may find it, too. */
		while (!fake_woken(p->b, 0) && p->ba->got < p->ab->sent) {
			fake_events(&p->a);
			fake_expire(p->b);
			cr_assert_lt(twt_now(), end, "packet %d rang nobody", i);
		}
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	pair_close(p);
}

/* Once nothing is owed there are no more timers. */
CONFORMANCE(timers_end, ANY)
{
	struct pair *p = pair_connected(t);
	double end = twt_now() + PAIR_SECONDS;

	for (int i = 0; i < 20; i++) {
		cr_assert_eq(fake_send(p->ab, TW_SEND_ENGINE, 8), TW_OK);
		UNTIL(p, p->ba->got == p->ab->sent);
	}
	while (p->a.timer) {
		fake_events(&p->a);
		if (!(p->can & SHARED))
			pair_pump(p);
		cr_assert_lt(twt_now(), end);
	}
	if (p->ops->expire)
		cr_assert_eq(p->ops->expire(p->a.instance, tw_clock()), 0u);
	pair_close(p);
}

#define STREAM 20000

/* One side of a stream; its thread alone touches the endpoint. */
struct side {
	struct pair *p;
	struct fake *f;
	struct fake_peer *peer;
	uint64_t to_send, to_get, rng;
	uint64_t slept;
	bool overslept;
	_Atomic(int) *finished; /* sides */
};

static bool done(const struct side *s)
{
	return s->peer->sent == s->to_send && s->peer->got == s->to_get;
}

/* True when there is nothing to do but to wait for the other side. */
static bool send_a_few(struct side *s)
{
	while (s->peer->sent < s->to_send) {
		uint64_t r = twt_random(&s->rng);

		if (r % 16 == 0)
			return false;
		if (fake_send(s->peer, (enum tw_send_class)(r >> 8 & 1), r >> 16 & 0xfff) != TW_OK)
			return true;
	}
	return true;
}

/* Until it is woken, or a time comes that it asked for. */
static bool sleep_well(struct fake *f)
{
	for (int i = 0; i < 1000; i++)
		if (fake_woken(f, 10) || (f->timer && f->timer <= tw_clock()))
			return true;
	return false;
}

static void nap(struct side *s)
{
	const struct tw_provider *ops = s->p->ops;

	if (!ops->arm(s->f->instance)) {
		s->slept++;
		if (!sleep_well(s->f))
			s->overslept = true;
	}
	fake_disarm(s->f);
	fake_pump(s->f);
}

/* Sleeps whenever there is nothing to do; both do, and neither may oversleep. */
static void *stream(void *arg)
{
	struct side *s = arg;
	double end = twt_now() + TWT_LONG;

	while (!done(s) && !s->overslept && !s->f->wrong && twt_now() < end) {
		uint64_t got = s->peer->got;
		bool stuck = send_a_few(s);

		fake_pump(s->f);
		if (stuck && s->peer->got == got && !done(s))
			nap(s);
		/* Long enough for the other side to fall asleep. */
		if (twt_random(&s->rng) % 64 == 0)
			usleep(1000);
	}
	/* What was owed to the other side is not forgotten. */
	atomic_fetch_add(s->finished, 1);
	while (atomic_load(s->finished) < 2 && twt_now() < end)
		fake_events(s->f);
	return NULL;
}

static void stream_both(struct pair *p, uint64_t forth, uint64_t back)
{
	_Atomic(int) finished = 0;
	struct side a = {p, &p->a, p->ab, forth, back, 1, 0, false, &finished};
	struct side b = {p, p->b, p->ba, back, forth, 2, 0, false, &finished};
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, stream, &b), 0);
	stream(&a);
	pthread_join(thread, NULL);
	pair_check(p);
	cr_assert_not(a.overslept || b.overslept, "overslept: %d %d", a.overslept, b.overslept);
	cr_assert(done(&a) && done(&b));
	cr_assert_gt(a.slept + b.slept, 0u, "nobody ever slept");
}

CONFORMANCE(sleepers_one_way, OTHERS)
{
	struct pair *p = pair_connected(t);

	stream_both(p, STREAM, 0);
	pair_close(p);
}

CONFORMANCE(sleepers_both_ways, OTHERS)
{
	struct pair *p = pair_connected(t);

	stream_both(p, STREAM, STREAM);
	pair_close(p);
}
