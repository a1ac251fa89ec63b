/* SPDX-License-Identifier: BSD-2-Clause */
/* Two opposite scalar channels, and the slot that both of their nodes write in tokens. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/twc.h"
#include "lib/twt.h"
#include "mcapi/scl.h"

TestSuite(words, .init = twc_job, .timeout = TWT_TIMEOUT);

struct side {
	struct tw_mcapi_scl tx, rx;
	struct tw_words_token token;
	uint64_t sent, received;
	unsigned tokens; /* scalars that it took out of the slot */
};

struct pair {
	struct tw_words *rings; /* by who reads them */
	struct side side[2];
};

static void start(struct pair *p)
{
	p->rings = aligned_alloc(TW_PAGE, 2 * TW_WORDS_BYTES);
	cr_assert_not_null(p->rings);
	memset(p->rings, 0, 2 * TW_WORDS_BYTES);
	memset(p->side, 0, sizeof(p->side));
	for (unsigned i = 0; i < 2; i++) {
		struct side *s = &p->side[i];

		s->tx.ring = &p->rings[!i];
		s->rx.ring = &p->rings[i];
		tw_words_pos_init(&s->tx.pos);
		tw_words_pos_init(&s->rx.pos);
		tw_words_token_init(&s->token, &p->rings[0].token, i);
		s->tx.token = s->rx.token = &s->token;
	}
}

static void stop(struct pair *p)
{
	free(p->rings);
}

/* A scalar follows from its sender and its number. */
static uint64_t content(const struct pair *p, const struct side *from, uint64_t number,
			unsigned *code)
{
	uint64_t state = number * 2 + (from == &p->side[1]), value = twt_random(&state);

	*code = (unsigned)(value >> 8) & 3;
	return value;
}

static bool send_one(struct pair *p, struct side *s)
{
	unsigned code;
	uint64_t value = content(p, s, s->sent, &code);

	if (tw_mcapi_scl_has_token(&s->tx))
		tw_words_token_put(&s->token, &s->tx.pos, value, code);
	else if (!tw_words_put(&s->tx.pos, s->tx.ring, value, code))
		return false;
	s->sent++;
	return true;
}

static bool take_one(struct pair *p, struct side *s, unsigned looks)
{
	struct tw_mcapi_scl *rx = &s->rx;
	uint64_t value, want;
	unsigned want_code;
	bool in_token;
	int code = tw_mcapi_scl_next_code(rx, rx->ring, looks >= rx->backoff.polls, &in_token);

	if (code < 0)
		return false;
	want = content(p, s == p->side ? &p->side[1] : p->side, s->received, &want_code);
	cr_assert_eq(code, (int)want_code);
	if (in_token)
		value = tw_mcapi_scl_take_token(rx, looks);
	else
		tw_words_take(&rx->pos, rx->ring, &value);
	cr_assert_eq(value, want, "the %" PRIu64 "th", s->received);
	s->tokens += in_token;
	s->received++;
	return true;
}

/* Question and answer go through the token, every one, and leave the rings alone. */
Test(words, question_and_answer)
{
	struct pair p;

	start(&p);
	for (unsigned n = 0; n < 1000; n++) {
		cr_assert(send_one(&p, &p.side[1]));
		cr_assert(take_one(&p, &p.side[0], UINT32_MAX));
		cr_assert(send_one(&p, &p.side[0]));
		cr_assert(take_one(&p, &p.side[1], UINT32_MAX));
	}
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(p.side[i].tokens, 1000u);
		cr_assert_eq(p.side[i].tx.pos.line | p.side[i].tx.pos.slot, 0u);
	}
	stop(&p);
}

/* Who sends on without an answer uses the ring, till it is full; the order is kept. */
Test(words, one_way)
{
	struct pair p;
	unsigned n = 0;

	start(&p);
	for (unsigned lap = 0; lap < 200; lap++) {
		while (send_one(&p, &p.side[1]))
			n++;
		while (take_one(&p, &p.side[0], UINT32_MAX))
			;
	}
	cr_assert_geq(n, 200 * (TW_WORDS_LINES - TW_WORDS_HEAD_LINES) * TW_WORDS_SLOTS);
	cr_assert_eq(p.side[0].received, n);
	cr_assert_eq(p.side[0].tokens, 1u);
	stop(&p);
}

/* What is in the token keeps its place between what is in the ring. */
Test(words, any_order)
{
	struct pair p;
	uint64_t rng = 5;

	start(&p);
	for (unsigned n = 0; n < 200000; n++) {
		uint64_t r = twt_random(&rng);
		struct side *s = &p.side[r & 1];
		uint64_t waiting = p.side[!(r & 1)].sent - s->received;

		if ((r & 6) == 0) {
			send_one(&p, s);
			continue;
		}
		cr_assert_eq(tw_words_count(s->rx.pos, s->rx.ring) + tw_words_token_full(&s->token),
			     waiting);
		cr_assert_eq(take_one(&p, s, UINT32_MAX), waiting > 0);
	}
	cr_assert_gt(p.side[0].tokens, 1000u);
	cr_assert_gt(p.side[1].tokens, 1000u);
	stop(&p);
}

/* Looks that leave the token alone end, and are no more than they need to be. */
Test(words, backoff)
{
	struct pair p;
	struct tw_mcapi_scl *rx = &p.side[0].rx;

	start(&p);
	for (unsigned late = 0; late < 200; late += 199)
		for (unsigned n = 0; n < 1000; n++) {
			unsigned looks = late;

			cr_assert(send_one(&p, &p.side[1]));
			while (!take_one(&p, &p.side[0], looks))
				cr_assert_leq(++looks, (unsigned)TW_WORDS_BACKOFF);
			cr_assert(send_one(&p, &p.side[0]));
			cr_assert(take_one(&p, &p.side[1], UINT32_MAX));
			cr_assert_leq(rx->backoff.polls, (unsigned)TW_WORDS_BACKOFF);
		}
	cr_assert_eq(rx->backoff.polls, (unsigned)TW_WORDS_BACKOFF, "late answers are learnt");
	for (unsigned n = 0; n < 1000; n++) {
		cr_assert(send_one(&p, &p.side[1]));
		while (!take_one(&p, &p.side[0], rx->backoff.polls))
			;
		cr_assert(send_one(&p, &p.side[0]));
		cr_assert(take_one(&p, &p.side[1], UINT32_MAX));
	}
	cr_assert_eq(rx->backoff.polls, 0u, "early ones, too");
	stop(&p);
}

/* Whatever the other node writes there, only what is due comes, and the ring goes on. */
Test(words, a_liar)
{
	struct pair p;
	struct side *s = &p.side[0];
	uint64_t rng = 7, due = 0;

	start(&p);
	p.side[1].token.ours = 0; /* it sends in the ring */
	for (unsigned n = 0; n < 100000; n++) {
		uint64_t r = twt_random(&rng), stamp = r >> r % 64;
		uint64_t key = tw_stamp(s->token.them, tw_words_number(&s->rx.pos), 0);
		bool in_token;
		int code;

		if (r % 3 == 0)
			stamp = key ^ 1ull << r / 3 % 64;
		atomic_store(&s->token.slot->stamp, stamp);
		cr_assert(send_one(&p, &p.side[1]));
		code = tw_mcapi_scl_next_code(&s->rx, s->rx.ring, true, &in_token);
		cr_assert(code >= 0 && code < 4);
		cr_assert_eq(in_token, (stamp & ~(3ull << TW_STAMP_LEN)) == key);
		due += in_token;
		atomic_store(&s->token.slot->stamp, 0);
		cr_assert(take_one(&p, s, UINT32_MAX));
	}
	cr_assert_gt(due, 0u);
	stop(&p);
}

#define STREAM 100000u

struct half {
	struct pair *p;
	unsigned me;
	int what; /* 1 sends, 2 takes, 3 both */
};

/* Sends and takes as it comes, now in bursts, now one for one. */
static void *run(void *arg)
{
	struct half *h = arg;
	struct side *s = &h->p->side[h->me];
	uint64_t rng = h->me * 4 + (uint64_t)h->what;
	unsigned looks = 0;

	while ((h->what & 1 && s->sent < STREAM) || (h->what & 2 && s->received < STREAM)) {
		uint64_t r = twt_random(&rng);
		unsigned burst = r % 4 ? 1 : (unsigned)(r >> 8) % 3000;
		bool moved = false;

		while (h->what & 1 && burst-- && s->sent < STREAM && send_one(h->p, s))
			moved = true;
		while (h->what & 2 && take_one(h->p, s, looks)) {
			moved = true;
			looks = 0;
		}
		looks++;
		if (!moved)
			sched_yield();
	}
	return NULL;
}

static void stream(struct half *h, unsigned n)
{
	pthread_t t[4];

	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, run, &h[i]), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(h->p->side[i].sent, STREAM);
		cr_assert_eq(h->p->side[i].received, STREAM);
	}
	/* The first, at least; the others are as it came. */
	cr_assert_gt(h->p->side[0].tokens, 0u);
}

Test(words, two_threads)
{
	struct pair p;
	struct half h[] = {{&p, 0, 3}, {&p, 1, 3}};

	start(&p);
	stream(h, 2);
	stop(&p);
}

/* As a program that sends and receives in threads of their own. */
Test(words, four_threads)
{
	struct pair p;
	struct half h[] = {{&p, 0, 1}, {&p, 0, 2}, {&p, 1, 1}, {&p, 1, 2}};

	start(&p);
	stream(h, 4);
	stop(&p);
}

/* Which channels get a token ------------------------------------------------------------ */

#define PAIRS 3
#define HOPS 700 /* far less than would fill a ring, more than one line */

struct node {
	uint32_t number;
	pthread_barrier_t *meet;
	mcapi_endpoint_t in[PAIRS], out[PAIRS];
	uint32_t rx[PAIRS], tx[PAIRS];
};

static void ok(mcapi_status_t status)
{
	cr_assert_eq(status, MCAPI_SUCCESS, "%s", mcapi_strerror(status));
}

static void finish(mcapi_request_t r)
{
	mcapi_status_t st;
	size_t size;

	cr_assert(mcapi_wait(&r, &size, &st, 20000));
	ok(st);
}

static void open_channel(struct node *me, unsigned i)
{
	mcapi_request_t r[2];
	mcapi_endpoint_t to;
	mcapi_status_t st;

	to = mcapi_get_endpoint(!me->number, 10 * i, &st);
	ok(st);
	mcapi_connect_sclchan_i(me->out[i], to, &r[0], &st);
	ok(st);
	finish(r[0]);
	pthread_barrier_wait(me->meet);
	mcapi_open_sclchan_recv_i(&me->rx[i], me->in[i], &r[0], &st);
	ok(st);
	mcapi_open_sclchan_send_i(&me->tx[i], me->out[i], &r[1], &st);
	ok(st);
	finish(r[0]);
	finish(r[1]);
}

static const struct tw_words_token *token_of(uint32_t handle, bool sender)
{
	return tw_mcapi_scl_paired(tw_mcapi_scl_at(handle, sender));
}

static void *node(void *arg)
{
	struct node *me = arg;
	mcapi_version_t version;
	mcapi_request_t r;
	mcapi_status_t st;

	mcapi_initialize(me->number, &version, &st);
	ok(st);
	for (unsigned i = 0; i < PAIRS; i++) {
		me->in[i] = mcapi_create_endpoint(10 * i, &st);
		ok(st);
		me->out[i] = mcapi_create_endpoint(10 * i + 1, &st);
		ok(st);
	}
	for (unsigned i = 0; i < PAIRS; i++)
		open_channel(me, i);
	/* They are paired by what the nodes hear: a while of question and answer. */
	for (unsigned i = 0; i < PAIRS; i++)
		for (unsigned tries = 0; !token_of(me->tx[i], true); tries++) {
			cr_assert_lt(tries, 20000u, "channel %u has no token", i);
			twc_sleep(1);
		}
	for (unsigned i = 0; i < PAIRS; i++)
		cr_assert_eq(token_of(me->tx[i], true), token_of(me->rx[i], false));
	pthread_barrier_wait(me->meet);
	for (unsigned n = 0; n < HOPS; n++)
		for (unsigned i = 0; i < PAIRS; i++) {
			if (me->number == 0)
				mcapi_sclchan_send_uint64(me->tx[i], n, &st);
			cr_assert_eq(mcapi_sclchan_recv_uint64(me->rx[i], &st), n);
			ok(st);
			if (me->number == 1)
				mcapi_sclchan_send_uint64(me->tx[i], n, &st);
		}
	/* Only the first question, by who has not the token, went through a ring. */
	for (unsigned i = 0; i < PAIRS; i++) {
		const struct tw_words_pos *at = &tw_mcapi_scl_at(me->tx[i], true)->pos;

		cr_assert_eq(at->line, 0u);
		cr_assert_eq(at->slot, me->number ? 0u : 1u);
	}
	pthread_barrier_wait(me->meet);
	/* In the token when its channels are closed, the question's first: it is received. */
	mcapi_sclchan_send_uint64(me->tx[0], 77, &st);
	ok(st);
	mcapi_sclchan_send_close_i(me->tx[0], &r, &st);
	ok(st);
	pthread_barrier_wait(me->meet);
	cr_assert_eq(mcapi_sclchan_available(me->rx[0], &st), 1u);
	cr_assert_eq(mcapi_sclchan_recv_uint64(me->rx[0], &st), 77u);
	ok(st);
	mcapi_sclchan_recv_uint64(me->rx[0], &st);
	cr_assert_eq(st, MCAPI_ENOT_HANDLE);
	mcapi_sclchan_recv_close_i(me->rx[0], &r, &st);
	ok(st);
	pthread_barrier_wait(me->meet);
	mcapi_finalize(&st);
	ok(st);
	return NULL;
}

Test(words, channels_are_paired)
{
	pthread_barrier_t meet;
	struct node nodes[2] = {{.number = 0, .meet = &meet}, {.number = 1, .meet = &meet}};
	pthread_t t[2];

	pthread_barrier_init(&meet, NULL, 2);
	for (unsigned i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, node, &nodes[i]), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&meet);
}
