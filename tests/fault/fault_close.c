/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint is closed, in good order, at a random moment while it and a
 * partner stream to each other and threads block on it. Blocked threads return;
 * nothing writes to the closer's buffers afterwards; what the partner has
 * pending ends. The id can be opened again, and what is sent to the address of
 * the earlier life never arrives. The two processes take turns in closing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stress/stress.h"

#define CLOSER_ID 8
#define UNRECEIVED 100
#define UNRECEIVED_LONG 101
#define UNSENT 102
#define MARKER 103
#define STALE 104
#define STILL 0x5a
#define BUF 300000

/* What the processes share. */
struct shared {
	atomic_uint meet;
	struct st_name name;   /* of the endpoint that will be closed */
	_Atomic double closed; /* when closing began; 0 before */
	atomic_int stop;
};
static struct shared *shared;
static long rounds = 40;

struct side {
	struct st_me *me;
	uint64_t round, rng;
	struct st_streams streams;
	uint8_t *out, *in;
	int fds[2];
};

static uint64_t tag(const struct side *s, uint64_t low)
{
	return s->round << 16 | low;
}

static void meet(void)
{
	st_meet(&shared->meet, 2);
}

/* Threads that block in a call. */
struct blocked {
	pthread_t thread;
	mx_endpoint_t ep;
	mx_request_t req; /* mx_wait for it, or mx_probe when NULL */
	uint64_t match;
	atomic_int begun, done;
	mx_return_t rc;
	mx_status_t status;
	uint32_t result;
};

static void *block(void *arg)
{
	struct blocked *b = arg;

	st_at(b->match >> 16);
	atomic_store(&b->begun, 1);
	if (b->req)
		b->rc = mx_wait(b->ep, &b->req, MX_INFINITE, &b->status, &b->result);
	else
		b->rc = mx_probe(b->ep, MX_INFINITE, b->match, ST_ALL, &b->status, &b->result);
	st_at(b->match >> 16);
	atomic_store(&b->done, 1);
	return NULL;
}

static void block_start(struct blocked *b, mx_endpoint_t ep, mx_request_t req, uint64_t match)
{
	memset(b, 0, sizeof(*b));
	b->ep = ep;
	b->req = req;
	b->match = match;
	st_check(pthread_create(&b->thread, NULL, block, b) == 0);
	while (!atomic_load(&b->begun))
		st_sleep(50e-6);
}

static void block_end(struct blocked *b, double deadline, const char *what)
{
	while (!atomic_load(&b->done)) {
		if (twt_now() > deadline)
			st_fail("a thread blocked in %s does not return after the close", what);
		st_sleep(50e-6);
	}
	st_check(pthread_join(b->thread, NULL) == 0);
}

/* The closer. */

/* Nothing may write here once mx_close_endpoint() has returned. */
static void hold_still(struct side *s)
{
	for (int i = 0; i < ST_STREAMS; i++)
		memset(s->streams.lane[i].buf, STILL, s->streams.lane[i].max);
	memset(s->in, STILL, BUF);
}

static void check_still(struct side *s)
{
	const uint8_t *p;

	for (int i = 0; i < ST_STREAMS; i++) {
		p = s->streams.lane[i].buf;
		for (uint32_t k = 0; k < s->streams.lane[i].max; k++)
			if (p[k] != STILL)
				st_fail("byte %u of lane %d was written after the close", k, i);
	}
	for (uint32_t k = 0; k < BUF; k++)
		if (s->in[k] != STILL)
			st_fail("byte %u of a receive was written after the close", k);
}

static void stream_and_close(struct side *s, mx_endpoint_t ep, mx_endpoint_addr_t to)
{
	/* Now and then while the partner still connects. */
	double end = twt_now() + (double)(twt_random(&s->rng) % 1000) * ST_SLOW *
					 (s->round % 4 < 2 ? 3e-7 : 3e-5);
	struct blocked wait, probe;
	unsigned idle = 0;

	st_streams_make(&s->streams, ep, to, tag(s, 0), 0, 0);
	st_issend(ep, s->out, 1000, to, tag(s, UNRECEIVED));
	st_isend(ep, s->out, BUF, to, tag(s, UNRECEIVED_LONG));
	block_start(&wait, ep, st_irecv(ep, s->in, BUF, tag(s, UNSENT)), tag(s, UNSENT));
	block_start(&probe, ep, NULL, tag(s, UNSENT + 1));
	while (twt_now() < end) {
		if (st_streams_step(&s->streams, 1))
			idle = 0;
		else
			st_idle(&idle);
	}
	st_at(s->round);
	atomic_store(&shared->closed, twt_now());
	st_ok(mx_close_endpoint(ep));
	hold_still(s);
	if (twt_now() > atomic_load(&shared->closed) + ST_SOON)
		st_fail("mx_close_endpoint took %.3f s", twt_now() - atomic_load(&shared->closed));
	block_end(&wait, twt_now() + ST_SOON, "mx_wait");
	block_end(&probe, twt_now() + ST_SOON, "mx_probe");
	if (wait.rc == MX_SUCCESS && wait.result && wait.status.code == MX_STATUS_SUCCESS)
		st_fail("a receive that matched nothing succeeded as its endpoint was closed");
	if (probe.rc == MX_SUCCESS && probe.result)
		st_fail("a probe found a message that nobody sent");
}

static void closer(struct side *s)
{
	struct st_name partner = s->me->name[!s->me->rank];
	uint32_t id = CLOSER_ID + (uint32_t)s->me->rank, result;
	int crossing = s->round % 2;
	mx_segment_t seg = {s->in, BUF};
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	mx_request_t req;
	mx_status_t st;

	ep = st_open(id, NULL, 0);
	shared->name = st_whose(st_self(ep));
	atomic_store(&shared->closed, 0);
	if (!crossing)
		to = st_connect(ep, partner);
	meet();
	if (crossing)
		to = st_connect(ep, partner);
	stream_and_close(s, ep, to);
	meet(); /* the partner has seen the end */
	check_still(s);
	st_streams_free(&s->streams);

	/* The next life, which takes whatever comes. */
	ep = st_open(id, NULL, 0);
	st_ok(mx_irecv(ep, &seg, 1, 0, 0, NULL, &req));
	shared->name = st_whose(st_self(ep));
	meet();
	st = st_finish(ep, &req);
	st_eq(st.match_info, tag(s, MARKER));
	st_eq(st.msg_length, 2000);
	st_eq(twt_check(s->in, 2000, tag(s, MARKER)), 2000);
	twt_fill(s->out, 2000, tag(s, MARKER) + 1);
	req = st_issend(ep, s->out, 2000, st_connect(ep, partner), tag(s, MARKER));
	st_finish(ep, &req);
	meet();
	st_ok(mx_iprobe(ep, 0, 0, &st, &result));
	if (result)
		st_fail("message %#llx for the earlier life came through",
			(unsigned long long)st.match_info);
	st_ok(mx_close_endpoint(ep));
}

/* The partner. */

static void must_be_gone(struct side *s, mx_request_t req, double deadline, const char *what)
{
	mx_status_t st;
	double left = deadline - twt_now();

	if (!st_poll(s->me->ep, &req, left > 0 ? left : 0, &st))
		st_fail("%s does not end", what);
	if (!st_gone(st.code))
		st_fail("%s ended with %s", what, mx_strstatus(st.code));
}

static void stale_sends(struct side *s, mx_endpoint_addr_t to)
{
	mx_request_t a = st_issend(s->me->ep, s->out, 100, to, tag(s, STALE));
	mx_request_t b = st_isend(s->me->ep, s->out, BUF, to, tag(s, STALE));

	must_be_gone(s, a, twt_now() + ST_SOON, "a send to the address of an earlier life");
	must_be_gone(s, b, twt_now() + ST_SOON, "a long send to the address of an earlier life");
}

/* Takes what the closer sent before and nobody received. */
static void take_leftovers(struct side *s)
{
	for (;;) {
		uint32_t result = 0;
		mx_request_t req;
		mx_status_t st;

		st_ok(mx_iprobe(s->me->ep, tag(s, 0), ~0xffffull, &st, &result));
		if (!result)
			return;
		req = st_irecv(s->me->ep, s->in, BUF, st.match_info);
		if (!st_poll(s->me->ep, &req, ST_SOON, &st))
			st_fail("a receive from the closed endpoint is pending");
		if (st.code != MX_STATUS_SUCCESS && st.code != MX_STATUS_TRUNCATED &&
		    !st_gone(st.code))
			st_fail("a message of the closed endpoint ended with %s",
				mx_strstatus(st.code));
	}
}

static void stream_until_closed(struct side *s, mx_endpoint_addr_t to)
{
	mx_endpoint_t ep = s->me->ep;
	mx_request_t unsent = st_irecv(ep, s->in, BUF, tag(s, UNSENT));
	mx_request_t pending = st_isend(ep, s->out, BUF, to, tag(s, UNRECEIVED_LONG));
	uint32_t result = 77;
	struct blocked wait;
	unsigned idle = 0;
	double deadline;

	st_streams_make(&s->streams, ep, to, tag(s, 0), 1, 1);
	block_start(&wait, ep, st_issend(ep, s->out, 1000, to, tag(s, UNRECEIVED)),
		    tag(s, UNRECEIVED));
	while (!atomic_load(&shared->closed)) {
		st_at(s->round);
		if (st_streams_step(&s->streams, 1))
			idle = 0;
		else
			st_idle(&idle);
	}
	deadline = atomic_load(&shared->closed) + ST_SOON;
	while (st_streams_step(&s->streams, 0) || st_streams_sending(&s->streams)) {
		st_at(s->round);
		if (st_streams_sending(&s->streams) && twt_now() > deadline)
			st_fail("%d sends to the closed endpoint are pending after %.1f s",
				st_streams_sending(&s->streams), ST_SOON);
		st_idle(&idle);
	}
	must_be_gone(s, pending, deadline, "a long send that nobody received");
	block_end(&wait, deadline, "mx_wait for a send");
	st_ok(wait.rc);
	st_check(wait.result);
	if (!st_gone(wait.status.code))
		st_fail("a send that nobody received ended with %s",
			mx_strstatus(wait.status.code));
	st_streams_cancel(&s->streams, deadline + ST_SOON);
	st_ok(mx_cancel(ep, &unsent, &result));
	if (result != 1)
		st_fail("a receive that matched nothing did not stay posted");
	st_streams_free(&s->streams);
}

static void partner(struct side *s)
{
	mx_endpoint_addr_t to, again;
	mx_return_t rc;
	mx_request_t req, back;
	double returned;
	int connected;

	meet();
	rc = mx_connect(s->me->ep, shared->name.nic, shared->name.id, ST_KEY,
			(uint32_t)(ST_LONG / 2), &to);
	returned = twt_now();
	connected = rc == MX_SUCCESS;
	if (!connected && !atomic_load(&shared->closed))
		st_fail("connecting to an open endpoint failed: %s", mx_strerror(rc));
	if (atomic_load(&shared->closed) && returned > atomic_load(&shared->closed) + ST_SOON)
		st_fail("mx_connect returned %.3f s after its target was closed: %s",
			returned - atomic_load(&shared->closed), mx_strerror(rc));
	if (connected)
		stream_until_closed(s, to);
	take_leftovers(s);
	if (connected)
		stale_sends(s, to);
	/* Before it is open again; then after; then after connecting again. */
	meet();
	if (connected)
		stale_sends(s, to);
	meet();
	if (connected)
		stale_sends(s, to);
	again = st_connect(s->me->ep, shared->name);
	if (connected)
		stale_sends(s, to);
	back = st_irecv(s->me->ep, s->in, BUF, tag(s, MARKER));
	twt_fill(s->out, 2000, tag(s, MARKER));
	req = st_issend(s->me->ep, s->out, 2000, again, tag(s, MARKER));
	st_finish(s->me->ep, &req);
	st_finish(s->me->ep, &back);
	st_eq(twt_check(s->in, 2000, tag(s, MARKER) + 1), 2000);
	s->me->count[1] += (uint64_t)connected;
	meet();
}

static void process(struct st_me *me)
{
	struct side s = {.me = me, .rng = st_hash(st_seed, (uint64_t)me->rank)};

	s.in = calloc(1, BUF);
	s.out = calloc(1, BUF);
	st_check(s.in && s.out);
	for (s.round = 1; !atomic_load(&shared->stop); s.round++) {
		int turn = (int)(s.round + (uint64_t)me->rank) % 2, fds;

		st_at(s.round);
		if (turn)
			closer(&s);
		else
			partner(&s);
		meet();
		fds = st_fds();
		if (s.round == 3 || s.round == 4)
			s.fds[turn] = fds;
		if (s.round > 4 && fds > s.fds[turn] + 2)
			st_fail("descriptors grow: %d at first, %d now", s.fds[turn], fds);
		if (me->rank == 0)
			atomic_store(&shared->stop,
				     s.round >= (uint64_t)rounds || (!st_going() && s.round > 4));
		meet();
	}
	me->count[0] = me->rank ? 0 : s.round - 1;
	free(s.in);
	free(s.out);
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--rounds", &rounds, 5, 100000}, {0}};
	uint64_t total[4] = {0};

	st_begin(argc, argv, "fault_close", 30, options);
	shared = st_shared(sizeof(*shared));
	st_crew(2, 0, process, total);
	st_leftovers();
	st_done("%llu rounds, %llu of them connected", (unsigned long long)total[0],
		(unsigned long long)total[1]);
	return 0;
}
