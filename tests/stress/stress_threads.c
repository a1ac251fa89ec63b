/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads on one endpoint and on several endpoints of one process, which
 * send to each other and to themselves. In each round the seed tells every
 * thread what it sends to which thread through which endpoints; what a thread
 * does to receive is random. A thread's receives name it and the round, so each
 * thread can verify its own part with the order model. The last endpoint is
 * served the other way: threads post there, and one more thread finds with
 * mx_peek() what is complete and hands it to its owner.
 */
#include <pthread.h>
#include <stdlib.h>

#include "stress/order.h"
#include "stress/stress.h"

#define THREADS 16
#define ENDPOINTS 8
#define SEND_MOST 40 /* messages of one thread in one round */
#define OUT 16	     /* requests of one kind at a time */
#define CALLS 400    /* of one round on one endpoint; then an end is made */
#define TAGS 4

static long threads = 4, endpoints = 3;
static mx_endpoint_t ep[ENDPOINTS];
static struct st_name name[ENDPOINTS];
static mx_endpoint_addr_t addr[ENDPOINTS][ENDPOINTS]; /* [of][to] */
static pthread_barrier_t barrier;
static atomic_int over;
static atomic_ullong messages, bytes, cancels;
static atomic_uint posted; /* receives that were begun to be posted */
/* By message of this round: what posted was for its receive, and when issend was complete. */
static unsigned taken[THREADS * SEND_MOST], complete_at[THREADS * SEND_MOST];

struct msg {
	uint64_t match, pattern;
	uint32_t len;
	int from, to, thread; /* endpoints, receiving thread */
	int sync;
};

/* What one thread receives through one endpoint in one round. */
struct inbox {
	struct order *order;
	struct msg expect[THREADS * SEND_MOST];
	int total, done, posted;
	int wild; /* from now on only receives that take anything */
	struct st_op *out[OUT];
	int n;
};

struct thread {
	pthread_t id;
	int rank;
	uint32_t round;
	uint64_t rng;
	struct inbox in[ENDPOINTS];
	struct st_op *out[OUT]; /* sends */
	int n, sent, to_send;
};

static int peeked(int e)
{
	return endpoints > 1 && e == endpoints - 1;
}

static int count_of(int sender, uint32_t round)
{
	return 1 + (int)(st_hash(st_seed ^ (uint64_t)sender << 50, round) % SEND_MOST);
}

static struct msg script(int sender, uint32_t round, int k)
{
	uint64_t rng = st_hash(st_seed ^ (uint64_t)sender << 56, round * (uint64_t)SEND_MOST + k);
	/* All threads on one endpoint, now and then. */
	uint64_t n = round % 4 == 0 ? 1 : (uint64_t)endpoints;
	struct msg m;

	m.from = (int)(twt_random(&rng) % n);
	m.to = (int)(twt_random(&rng) % n);
	m.thread = (int)(twt_random(&rng) % (uint64_t)threads);
	m.sync = twt_random(&rng) % 3 == 0;
	m.len = st_size(&rng, twt_random(&rng) % 8 ? 65537 : 1 << 20);
	m.match = (uint64_t)(sender * SEND_MOST + k) << 48 | (uint64_t)round << 16 |
		  (uint64_t)sender << 8 | (uint64_t)m.thread << 4 | twt_random(&rng) % TAGS;
	m.pattern = st_hash(m.match ^ (uint64_t)m.from << 60, st_seed);
	return m;
}

static int find_message(const struct inbox *in, const mx_status_t *s)
{
	for (int i = 0; i < in->total; i++) {
		if (in->expect[i].match != s->match_info)
			continue;
		if (!st_same(st_whose(s->source), name[in->expect[i].from]))
			st_fail("message %#llx is not from endpoint %u",
				(unsigned long long)s->match_info, st_whose(s->source).id);
		st_eq(s->msg_length, in->expect[i].len);
		return i;
	}
	st_fail("no message %#llx was to come here", (unsigned long long)s->match_info);
}

static void received(struct inbox *in, int at, const mx_status_t *s)
{
	struct st_op *op = in->out[at];
	int i = find_message(in, s);
	const struct msg *m = &in->expect[i];
	uint32_t len = m->len < op->buf.len ? m->len : op->buf.len;
	size_t wrong;

	st_check(s->context == op);
	if (order_taker(in->order, i) >= 0)
		st_fail("message %#llx was received twice", (unsigned long long)m->match);
	st_eq(s->xfer_length, len);
	st_eq(s->code, len < m->len ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS);
	wrong = st_buf_check(&op->buf, len, m->pattern);
	if (wrong != len)
		st_fail("message %#llx of %u bytes into %u: byte %zu is wrong",
			(unsigned long long)m->match, m->len, op->buf.len, wrong);
	if (!st_buf_guarded(&op->buf))
		st_fail("message %#llx of %u bytes was written beside its buffer",
			(unsigned long long)m->match, m->len);
	order_done(in->order, op->mark, i);
	in->done++;
	taken[m->match >> 48] = op->number;
	st_op_free(op);
	in->out[at] = in->out[--in->n];
}

/* Whether a request is complete, by whichever way it is served. */
static int complete(struct thread *t, struct st_op *op, int e, mx_status_t *s)
{
	uint32_t result = 0;

	if (peeked(e)) {
		result = (uint32_t)atomic_load(&op->ready);
		if (result)
			*s = op->status;
	} else if (twt_random(&t->rng) % 32 == 0) {
		st_ok(mx_wait(ep[e], &op->req, 1 + twt_random(&t->rng) % 3, s, &result));
	} else {
		st_ok(mx_test(ep[e], &op->req, s, &result));
	}
	return !!result;
}

static void any_match(struct thread *t, const struct inbox *in, uint64_t *key, uint64_t *mask)
{
	const struct msg *m = &in->expect[twt_random(&t->rng) % (uint64_t)in->total];
	uint64_t kind = twt_random(&t->rng);

	if (kind % 4 == 0)
		*mask = ST_ALL;
	else
		*mask = 0xffffffff00f0 | (kind % 4 == 1 ? 0xff00 : 0) | kind / 4 % TAGS;
	*key = m->match & *mask;
}

static void post(struct thread *t, int e, int wild)
{
	struct inbox *in = &t->in[e];
	uint32_t len = 1 << 20 | 1;
	uint64_t key, mask;
	struct st_op *op;

	any_match(t, in, &key, &mask);
	if (peeked(e)) {
		/* Nothing can be cancelled there: each receive has its message. */
		mask = in->wild ? 0xffffffff00f0 : ST_ALL;
		key = in->expect[in->posted].match & mask;
	} else if (wild) {
		mask = 0xffffffff00f0;
		key &= mask;
	}
	if (mask == ST_ALL)
		for (int i = 0; i < in->total; i++)
			len = in->expect[i].match == key ? in->expect[i].len : len;
	if (twt_random(&t->rng) % 8 == 0)
		len = (uint32_t)(twt_random(&t->rng) % 5000);
	op = in->out[in->n++] = st_op_new(len, &t->rng);
	op->mark = order_post(in->order, key, mask);
	op->number = atomic_fetch_add(&posted, 1) + 1;
	in->posted++;
	st_op_recv(op, ep[e], key, mask);
}

static void cancel(struct inbox *in, int e, int at)
{
	struct st_op *op = in->out[at];
	uint32_t result = 77;
	mx_status_t s;

	st_ok(mx_cancel(ep[e], &op->req, &result));
	atomic_fetch_add(&cancels, 1);
	if (result == 1) {
		order_cancelled(in->order, op->mark);
		st_op_free(op);
		in->out[at] = in->out[--in->n];
		return;
	}
	st_eq(result, 0);
	order_taken(in->order, op->mark);
	if (!st_poll(ep[e], &op->req, ST_LONG / 2, &s))
		st_fail("a receive could not be cancelled, and does not complete");
	received(in, at, &s);
}

static void probe(struct thread *t, int e)
{
	struct inbox *in = &t->in[e];
	uint64_t key, mask;
	uint32_t result = 0;
	mx_status_t s;
	int found = -1;

	any_match(t, in, &key, &mask);
	if (twt_random(&t->rng) % 8 == 0)
		st_ok(mx_probe(ep[e], 1, key, mask, &s, &result));
	else
		st_ok(mx_iprobe(ep[e], key, mask, &s, &result));
	if (result)
		found = find_message(in, &s);
	order_probe(in->order, key, mask, found);
}

static int receive_step(struct thread *t, int e)
{
	struct inbox *in = &t->in[e];
	int at = in->n ? (int)(twt_random(&t->rng) % (uint64_t)in->n) : 0;
	uint64_t what = twt_random(&t->rng) % 32;
	mx_status_t s;

	if (in->done == in->total)
		return 0;
	if (!peeked(e) && order_calls(in->order) > CALLS) {
		while (in->n && !in->wild)
			cancel(in, e, 0);
		in->wild = 1;
		if (!in->n && in->done < in->total)
			post(t, e, 1);
		at = 0;
	} else if (what < 8 && in->n < OUT && (!peeked(e) || in->posted < in->total)) {
		post(t, e, what == 0);
		return 0;
	} else if (what == 8 && in->n && !peeked(e)) {
		cancel(in, e, at);
		return 1;
	} else if (what == 9) {
		probe(t, e);
		return 0;
	}
	if (!in->n || !complete(t, in->out[at], e, &s)) {
		if (in->n == OUT && !peeked(e) && what == 10)
			cancel(in, e, at);
		return 0;
	}
	received(in, at, &s);
	return 1;
}

static void send_next(struct thread *t)
{
	struct msg m = script(t->rank, t->round, t->sent++);
	struct st_op *op = t->out[t->n++] = st_op_new(m.len, &t->rng);

	op->match = m.match;
	op->mark = m.from;
	op->number = (unsigned)m.sync;
	st_buf_fill(&op->buf, m.pattern);
	st_op_send(op, m.sync ? ST_ISSEND : ST_ISEND, ep[m.from], addr[m.from][m.to]);
	atomic_fetch_add(&messages, 1);
	atomic_fetch_add(&bytes, m.len);
}

static int send_step(struct thread *t)
{
	int at = t->n ? (int)(twt_random(&t->rng) % (uint64_t)t->n) : 0;
	struct st_op *op;
	mx_status_t s;

	if (t->sent < t->to_send && t->n < OUT && twt_random(&t->rng) % 2) {
		send_next(t);
		return 1;
	}
	if (!t->n || !complete(t, t->out[at], t->out[at]->mark, &s))
		return 0;
	op = t->out[at];
	if (s.code != MX_STATUS_SUCCESS && s.code != MX_STATUS_TRUNCATED)
		st_fail("send %#llx of %u bytes ended with %s", (unsigned long long)op->match,
			op->buf.len, mx_strstatus(s.code));
	st_check(s.context == op);
	st_eq(s.msg_length, op->buf.len);
	complete_at[op->match >> 48] = op->number ? atomic_load(&posted) : ~0u;
	st_op_scribble(op);
	st_op_free(op);
	t->out[at] = t->out[--t->n];
	return 1;
}

static void begin_round(struct thread *t)
{
	for (int e = 0; e < endpoints; e++) {
		struct inbox *in = &t->in[e];

		order_reset(in->order);
		in->total = in->done = in->posted = 0;
		in->wild = peeked(e) && twt_random(&t->rng) % 2;
	}
	for (int s = 0; s < threads; s++)
		for (int k = 0; k < count_of(s, t->round); k++) {
			struct msg m = script(s, t->round, k);
			struct inbox *in = &t->in[m.to];

			if (m.thread != t->rank)
				continue;
			/* Order holds between one thread on one endpoint and another endpoint. */
			order_message(in->order, s * ENDPOINTS + m.from, m.match);
			in->expect[in->total++] = m;
		}
	t->sent = 0;
	t->to_send = count_of(t->rank, t->round);
}

static void run_round(struct thread *t)
{
	double moved_at = twt_now();
	unsigned idle = 0;

	for (;;) {
		int moved = send_step(t), left = t->n + t->to_send - t->sent;

		st_at(t->round);
		for (int e = 0; e < endpoints; e++) {
			left += t->in[e].total - t->in[e].done;
			moved |= receive_step(t, e);
		}
		if (!left)
			break;
		if (twt_random(&t->rng) % 512 == 0)
			st_ok(mx_wakeup(ep[twt_random(&t->rng) % (uint64_t)endpoints]));
		if (moved) {
			idle = 0;
			moved_at = twt_now();
			continue;
		}
		st_idle(&idle);
		if (twt_now() > moved_at + ST_LONG / 2)
			st_fail("thread %d, round %u: nothing moves; %d sends are pending, %d "
				"messages "
				"are missing",
				t->rank, t->round, t->n, left - t->n - t->to_send + t->sent);
	}
}

static void end_round(struct thread *t)
{
	for (int e = 0; e < endpoints; e++) {
		struct inbox *in = &t->in[e];
		const char *bad;

		while (in->n)
			cancel(in, e, 0);
		if ((bad = order_check(in->order)))
			st_fail("thread %d, endpoint %d, round %u: %s", t->rank, e, t->round, bad);
	}
}

/* Only one thread runs here. */
static void between_rounds(struct thread *t)
{
	for (int e = 0; e < endpoints; e++) {
		uint32_t result = 0;
		mx_status_t s;

		st_ok(mx_iprobe(ep[e], 0, 0, &s, &result));
		if (result)
			st_fail("message %#llx is left over", (unsigned long long)s.match_info);
	}
	for (int s = 0; s < threads; s++)
		for (int i = s * SEND_MOST; i < s * SEND_MOST + count_of(s, t->round); i++)
			if (complete_at[i] < taken[i])
				st_fail("thread %d, message %d: the synchronous send was complete "
					"when %u receives were posted; number %u took it",
					s, i % SEND_MOST, complete_at[i], taken[i]);
	atomic_store(&over, !st_going());
}

static void *run(void *arg)
{
	struct thread *t = arg;

	while (!atomic_load(&over)) {
		begin_round(t);
		run_round(t);
		end_round(t);
		pthread_barrier_wait(&barrier);
		if (t->rank == 0)
			between_rounds(t);
		t->round++;
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void *peeker(void *arg)
{
	int e = (int)endpoints - 1;

	(void)arg;
	while (!atomic_load(&over)) {
		uint32_t result = 0;
		mx_request_t req;
		mx_status_t s;
		struct st_op *op;
		void *context;

		st_at(0);
		st_ok(mx_peek(ep[e], 100, &req, &result));
		if (!result)
			continue;
		st_ok(mx_context(&req, &context));
		result = 0;
		st_ok(mx_test(ep[e], &req, &s, &result));
		if (!result)
			st_fail("mx_peek found a request that is not complete");
		op = context;
		op->status = s;
		atomic_store(&op->ready, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--threads", &threads, 1, THREADS},
						   {"--endpoints", &endpoints, 1, ENDPOINTS},
						   {0}};
	struct thread *t;
	pthread_t peek;

	st_begin(argc, argv, "stress_threads", 5, options);
	st_role("main");
	st_up();
	st_check((t = calloc((size_t)threads, sizeof(*t))) != NULL);
	for (int e = 0; e < endpoints; e++) {
		ep[e] = st_open(MX_ANY_ENDPOINT, NULL, 0);
		name[e] = st_whose(st_self(ep[e]));
	}
	for (int i = 0; i < endpoints * endpoints; i++)
		addr[i / endpoints][i % endpoints] =
			st_connect(ep[i / endpoints], name[i % endpoints]);
	pthread_barrier_init(&barrier, NULL, (unsigned)threads);
	if (endpoints > 1)
		st_check(pthread_create(&peek, NULL, peeker, NULL) == 0);
	for (int i = 0; i < threads; i++) {
		t[i].rank = i;
		t[i].rng = st_hash(st_seed, 0x7ead + (uint64_t)i);
		for (int e = 0; e < endpoints; e++)
			t[i].in[e].order = order_new();
		st_check(pthread_create(&t[i].id, NULL, run, &t[i]) == 0);
	}
	for (int i = 0; i < threads; i++) {
		st_check(pthread_join(t[i].id, NULL) == 0);
		for (int e = 0; e < endpoints; e++)
			order_free(t[i].in[e].order);
	}
	if (endpoints > 1)
		st_check(pthread_join(peek, NULL) == 0);
	for (int e = 0; e < endpoints; e++)
		st_ok(mx_close_endpoint(ep[e]));
	st_ok(mx_finalize());
	st_done("%ld threads, %ld endpoints, %u rounds, %llu messages, %.1f MB, %llu cancels",
		threads, endpoints, t[0].round, (unsigned long long)messages, (double)bytes / 1e6,
		(unsigned long long)cancels);
	free(t);
	return 0;
}
