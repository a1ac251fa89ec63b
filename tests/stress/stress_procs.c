/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several sender processes, one receiver. What is sent follows from the seed;
 * what the receiver does is random. Match information holds, from the top, a
 * number that only exact receives look at (so every message is known again),
 * the epoch, the sender and a small tag. Every receive names an epoch, so
 * epochs can be verified one by one while senders run ahead: order.h tells
 * whether what the receiver saw can have happened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress/order.h"
#include "stress/stress.h"

#define TAGS 8
#define EPOCH_MOST 24 /* messages of one sender in one epoch */
#define EPOCHS 60000
#define NUMBERS (EPOCHS * EPOCH_MOST)
#define SENDERS 8
#define OUT 24	   /* requests at a time */
#define CALLS 1500 /* of one epoch; then the receiver makes an end */

/* What the processes share. */
struct shared {
	atomic_uint allowed; /* epochs that senders may begin */
	atomic_uint last;    /* the number of epochs, once known */
	atomic_uint posted;  /* receives that the receiver began to post */
	atomic_int drained;  /* senders that have nothing outstanding */
	/* What posted was when a synchronous send was complete. */
	atomic_uint complete[SENDERS + 1][NUMBERS];
};
static struct shared *shared;
static long senders = 3;
static long largest = 16 << 20;

struct msg {
	uint64_t match, pattern;
	uint32_t len, number;
	int sync;
};

static int epoch_is_large(uint32_t epoch)
{
	return st_hash(st_seed ^ 0x1a, epoch) % 12 == 0;
}

static uint32_t epoch_count(int sender, uint32_t epoch)
{
	uint32_t most = epoch_is_large(epoch) ? 6 : EPOCH_MOST;

	return 1 + (uint32_t)(st_hash(st_seed ^ (uint64_t)sender << 50, epoch) % most);
}

static struct msg script(int sender, uint32_t epoch, uint32_t k)
{
	uint32_t number = epoch * EPOCH_MOST + k;
	uint64_t rng = st_hash(st_seed ^ (uint64_t)sender << 56, number);
	struct msg m = {.number = number};

	m.len = st_size(&rng, epoch_is_large(epoch) ? (uint32_t)largest : 65537);
	m.sync = twt_random(&rng) % 3 == 0;
	m.match = (uint64_t)number << 32 | (uint64_t)(epoch & 0xffff) << 16 |
		  (uint64_t)sender << 8 | twt_random(&rng) % TAGS;
	m.pattern = st_hash(m.match, st_seed);
	return m;
}

/* The sender. */

static void send_reap(struct st_me *me, struct st_op **out, int *n, uint64_t *rng)
{
	static unsigned idle;
	int i = (int)(twt_random(rng) % (unsigned)*n);
	struct st_op *op = out[i];
	mx_status_t s;
	uint32_t result = 0;

	st_at(op->number);
	if (twt_random(rng) % 4 == 0 && !op->scribbled) {
		st_ok(mx_ibuffered(me->ep, &op->req, &result));
		if (result)
			st_op_scribble(op);
	}
	if (twt_random(rng) % 64 == 0)
		st_ok(mx_wait(me->ep, &op->req, 1 + twt_random(rng) % 4, &s, &result));
	else
		st_ok(mx_test(me->ep, &op->req, &s, &result));
	if (!result) {
		st_idle(&idle);
		return;
	}
	idle = 0;
	if (s.code != MX_STATUS_SUCCESS && s.code != MX_STATUS_TRUNCATED)
		st_fail("send %#llx of %u bytes ended with %s", (unsigned long long)op->match,
			op->buf.len, mx_strstatus(s.code));
	st_check(s.context == op);
	st_eq(s.match_info, op->match);
	st_eq(s.msg_length, op->buf.len);
	if (op->mark)
		atomic_store(&shared->complete[me->rank][op->number], atomic_load(&shared->posted));
	st_op_scribble(op);
	st_op_free(op);
	out[i] = out[--*n];
}

static void send_epoch(struct st_me *me, uint32_t epoch, struct st_op **out, int *n, uint64_t *rng)
{
	uint32_t count = epoch_count(me->rank, epoch);

	for (uint32_t k = 0; k < count;) {
		struct msg m = script(me->rank, epoch, k);
		struct st_op *op;

		/* Now and then let what is out become little. */
		if (*n == OUT || (*n && twt_random(rng) % 3 == 0)) {
			send_reap(me, out, n, rng);
			continue;
		}
		op = out[(*n)++] = st_op_new(m.len, rng);
		op->match = m.match;
		op->number = m.number;
		op->mark = m.sync;
		st_buf_fill(&op->buf, m.pattern);
		st_at(m.number);
		st_op_send(op, m.sync ? ST_ISSEND : ST_ISEND, me->ep, me->addr[0]);
		me->count[0]++;
		me->count[1] += m.len;
		k++;
	}
}

static void sender(struct st_me *me)
{
	uint64_t rng = st_hash(st_seed, 0x5e4d + (uint64_t)me->rank);
	struct st_op *out[OUT];
	unsigned idle = 0, last;
	int n = 0;

	for (uint32_t epoch = 0; !(last = atomic_load(&shared->last)) || epoch < last;) {
		if (epoch < atomic_load(&shared->allowed))
			send_epoch(me, epoch++, out, &n, &rng);
		else if (n)
			send_reap(me, out, &n, &rng);
		else
			st_idle(&idle);
	}
	while (n)
		send_reap(me, out, &n, &rng);
	atomic_fetch_add(&shared->drained, 1);
}

/* The receiver. */
struct receiver {
	struct st_me *me;
	struct order *order;
	struct st_op *out[OUT];
	int n, limit;
	uint32_t epoch, largest;
	int total, done, ending;
	struct {
		struct msg msg;
		int sender;
	} expect[SENDERS * EPOCH_MOST];
	unsigned *taken[SENDERS + 1]; /* by number: when its receive was posted */
	uint64_t rng;
};

/* Which message this is; checks what is known of it. */
static int find_message(struct receiver *r, const mx_status_t *s)
{
	struct st_name from = st_whose(s->source);

	for (int i = 0; i < r->total; i++) {
		if (r->expect[i].msg.match != s->match_info)
			continue;
		if (!st_same(from, r->me->name[r->expect[i].sender]))
			st_fail("message %#llx is not from endpoint %u",
				(unsigned long long)s->match_info, from.id);
		st_eq(s->msg_length, r->expect[i].msg.len);
		return i;
	}
	st_fail("epoch %u has no message %#llx", r->epoch, (unsigned long long)s->match_info);
}

static void complete(struct receiver *r, int at, const mx_status_t *s)
{
	struct st_op *op = r->out[at];
	int i = find_message(r, s);
	const struct msg *m = &r->expect[i].msg;
	uint32_t len = m->len < op->buf.len ? m->len : op->buf.len;
	size_t wrong;

	st_check(s->context == op);
	if (order_taker(r->order, i) >= 0)
		st_fail("message %#llx was received twice", (unsigned long long)m->match);
	if (s->code != (len < m->len ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS))
		st_fail("message %#llx of %u bytes into %u ended with %s",
			(unsigned long long)m->match, m->len, op->buf.len, mx_strstatus(s->code));
	st_eq(s->xfer_length, len);
	wrong = st_buf_check(&op->buf, len, m->pattern);
	if (wrong != len)
		st_fail("message %#llx of %u bytes into %u: byte %zu is wrong",
			(unsigned long long)m->match, m->len, op->buf.len, wrong);
	if (!st_buf_guarded(&op->buf))
		st_fail("message %#llx of %u bytes was written beside its %u pieces of %u bytes",
			(unsigned long long)m->match, m->len, op->buf.nseg, op->buf.len);
	order_done(r->order, op->mark, i);
	r->taken[r->expect[i].sender][m->number] = op->number;
	r->done++;
	r->me->count[2] += len < m->len;
	st_op_free(op);
	r->out[at] = r->out[--r->n];
}

/* Match information that something in this epoch has, under some mask. */
static int any_match(struct receiver *r, uint64_t *key, uint64_t *mask)
{
	int i = (int)(twt_random(&r->rng) % (unsigned)r->total);
	uint64_t kind = twt_random(&r->rng);

	if (kind % 8 < 2)
		*mask = ST_ALL;
	else
		*mask = 0xffff0000 | (kind % 8 < 5 ? 0xff00 : 0) | kind / 8 % (2 * TAGS) % TAGS;
	*key = r->expect[i].msg.match & *mask;
	return i;
}

static void post(struct receiver *r, int wild)
{
	uint64_t key, mask, kind = twt_random(&r->rng);
	int i = any_match(r, &key, &mask);
	uint32_t len = r->largest;
	struct st_op *op;

	if (wild) {
		mask = 0xffff0000;
		key &= mask;
	} else if (kind % 8 == 0) {
		len = (uint32_t)(kind / 8 % (r->expect[i].msg.len + 1ull));
	} else if (mask == ST_ALL) {
		len = r->expect[i].msg.len + (uint32_t)(kind / 8 % 3);
	}
	op = r->out[r->n++] = st_op_new(len, &r->rng);
	op->number = atomic_fetch_add(&shared->posted, 1) + 1;
	op->mark = order_post(r->order, key, mask);
	st_op_recv(op, r->me->ep, key, mask);
}

static int reap(struct receiver *r, int at)
{
	struct st_op *op = r->out[at];
	mx_status_t s;
	uint32_t result = 0;

	if (twt_random(&r->rng) % 256 == 0)
		st_ok(mx_wait(r->me->ep, &op->req, 1 + twt_random(&r->rng) % 4, &s, &result));
	else
		st_ok(mx_test(r->me->ep, &op->req, &s, &result));
	if (result)
		complete(r, at, &s);
	return !!result;
}

static int peek(struct receiver *r)
{
	mx_request_t req = NULL;
	mx_status_t s;
	uint32_t result = 0;
	void *context;
	int at;

	if (twt_random(&r->rng) % 32 == 0)
		st_ok(mx_peek(r->me->ep, 1 + twt_random(&r->rng) % 4, &req, &result));
	else
		st_ok(mx_ipeek(r->me->ep, &req, &result));
	if (!result)
		return 0;
	st_ok(mx_context(&req, &context));
	for (at = 0; at < r->n && r->out[at] != context; at++)
		;
	if (at == r->n)
		st_fail("mx_peek found a request that is not ours");
	result = 0;
	st_ok(mx_test(r->me->ep, &req, &s, &result));
	if (!result)
		st_fail("mx_peek found a request that is not complete");
	complete(r, at, &s);
	return 1;
}

static void probe(struct receiver *r)
{
	uint64_t key, mask;
	mx_status_t s;
	uint32_t result = 0;
	int found = -1;

	any_match(r, &key, &mask);
	if (twt_random(&r->rng) % 32 == 0)
		st_ok(mx_probe(r->me->ep, 1 + twt_random(&r->rng) % 3, key, mask, &s, &result));
	else
		st_ok(mx_iprobe(r->me->ep, key, mask, &s, &result));
	if (result)
		found = find_message(r, &s);
	order_probe(r->order, key, mask, found);
	r->me->count[3]++;
}

static void cancel(struct receiver *r, int at)
{
	struct st_op *op = r->out[at];
	uint32_t result = 77;
	mx_status_t s;

	st_ok(mx_cancel(r->me->ep, &op->req, &result));
	r->me->count[3]++;
	if (result == 1) {
		order_cancelled(r->order, op->mark);
		if (!st_buf_guarded(&op->buf))
			st_fail("a receive was cancelled, yet its buffer was overrun");
		st_op_free(op);
		r->out[at] = r->out[--r->n];
		return;
	}
	st_eq(result, 0);
	order_taken(r->order, op->mark);
	if (!st_poll(r->me->ep, &op->req, ST_LONG / 2, &s))
		st_fail("a receive could not be cancelled, and does not complete");
	complete(r, at, &s);
}

static void begin_epoch(struct receiver *r, uint32_t epoch)
{
	uint32_t ahead = epoch + 1 + (uint32_t)(twt_random(&r->rng) % 3);

	order_reset(r->order);
	r->epoch = epoch;
	r->total = r->done = r->ending = 0;
	r->largest = 0;
	for (int s = 1; s <= senders; s++)
		for (uint32_t k = 0; k < epoch_count(s, epoch); k++) {
			struct msg m = script(s, epoch, k);

			r->expect[r->total].msg = m;
			r->expect[r->total++].sender = s;
			order_message(r->order, s, m.match);
			if (m.len > r->largest)
				r->largest = m.len;
		}
	r->limit = r->largest > 1 << 20 ? 6 : OUT;
	/* Early: before the senders may send. */
	if (atomic_load(&shared->allowed) <= epoch) {
		for (int n = (int)(twt_random(&r->rng) % (unsigned)r->limit); n > 0; n--)
			post(r, 0);
		atomic_store(&shared->allowed, ahead);
	}
}

static void lost(struct receiver *r)
{
	int i = 0;

	while (order_taker(r->order, i) >= 0)
		i++;
	st_fail("epoch %u: received %d of %d messages; %#llx of %u bytes does not come", r->epoch,
		r->done, r->total, (unsigned long long)r->expect[i].msg.match,
		r->expect[i].msg.len);
}

static void receive_epoch(struct receiver *r, uint32_t epoch)
{
	double moved_at = twt_now();
	unsigned idle = 0;
	const char *bad;

	begin_epoch(r, epoch);
	while (r->done < r->total) {
		int at = r->n ? (int)(twt_random(&r->rng) % (unsigned)r->n) : 0, moved = 0;
		uint64_t what = twt_random(&r->rng) % 64;

		st_at(epoch);
		if (order_calls(r->order) > CALLS) {
			while (r->n && !r->ending)
				cancel(r, 0);
			r->ending = 1;
			if (!r->n && r->done < r->total)
				post(r, 1);
			if (r->n)
				moved = reap(r, 0);
		} else if (what < 16 && r->n < r->limit) {
			post(r, what == 0);
		} else if (what < 17 && r->n) {
			cancel(r, at);
		} else if (what < 22) {
			probe(r);
		} else if (what < 28) {
			moved = peek(r);
		} else if (r->n) {
			moved = reap(r, at);
			if (!moved && r->n == r->limit && idle > 500)
				cancel(r, at);
		}
		if (moved) {
			idle = 0;
			moved_at = twt_now();
		} else {
			st_idle(&idle);
			if (twt_now() > moved_at + ST_LONG / 2)
				lost(r);
		}
	}
	while (r->n)
		cancel(r, 0);
	if ((bad = order_check(r->order)))
		st_fail("epoch %u: %s", epoch, bad);
}

/* A synchronous send is complete only after its receive was posted. */
static void check_sync(struct receiver *r)
{
	for (int s = 1; s <= senders; s++)
		for (uint32_t i = 0; i < NUMBERS; i++) {
			unsigned seen = atomic_load(&shared->complete[s][i]);

			if (seen && seen < r->taken[s][i])
				st_fail("sender %d, message %u: the synchronous send was complete "
					"when %u receives were posted; number %u took it",
					s, i, seen, r->taken[s][i]);
		}
}

static void receiver(struct st_me *me)
{
	struct receiver *r = calloc(1, sizeof(*r));
	uint32_t epoch = 0;

	st_role("receiver");
	st_check(r != NULL);
	r->me = me;
	r->order = order_new();
	r->rng = st_hash(st_seed, 0x4ec);
	for (int s = 1; s <= senders; s++)
		st_check((r->taken[s] = calloc(NUMBERS, sizeof(**r->taken))) != NULL);
	/* At least one, also where connecting took all the time. */
	do
		receive_epoch(r, epoch++);
	while (epoch < EPOCHS - 4 && (st_going() || epoch < atomic_load(&shared->allowed)));
	atomic_store(&shared->last, epoch);
	while (atomic_load(&shared->drained) < senders) {
		st_at(epoch);
		st_sleep(0.001);
	}
	check_sync(r);
	for (int s = 1; s <= senders; s++)
		free(r->taken[s]);
	order_free(r->order);
	free(r);
}

static void process(struct st_me *me)
{
	if (me->rank == 0)
		receiver(me);
	else
		sender(me);
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {
		{"--senders", &senders, 1, SENDERS}, {"--largest", &largest, 65537, 16 << 20}, {0}};
	uint64_t total[4] = {0};

	st_begin(argc, argv, "stress_procs", 5, options);
	shared = st_shared(sizeof(*shared));
	st_crew((int)senders + 1, 0, process, total);
	st_leftovers();
	st_done("%ld senders, %llu messages, %.1f MB, %llu truncated, %llu probes and cancels",
		senders, (unsigned long long)total[0], (double)total[1] / 1e6,
		(unsigned long long)total[2], (unsigned long long)total[3]);
	return 0;
}
