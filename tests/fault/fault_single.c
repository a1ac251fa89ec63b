/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Without the service thread (TAGWIRE_SERVICE=0), and without thread and locks
 * (TAGWIRE_SINGLE_THREADED=1): connections and messages get along as long as
 * both sides make MX calls.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "stress/stress.h"

#define BIG 300000
#define PINGS 200

static const char *const modes[] = {"TAGWIRE_SERVICE", "TAGWIRE_SINGLE_THREADED"};
static const char *const values[] = {"0", "1"};

/* What the two processes of one mode share. */
struct shared {
	struct st_name name[2];
	atomic_int step[2]; /* how far each has come */
	atomic_int parted;
	atomic_ullong messages;
};
static struct shared *shared;

struct arg {
	int rank, mode;
};

struct side {
	int rank, step;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
	uint8_t *out, *in;
};

/* An MX call that finds nothing, but moves things. */
static void progress(mx_endpoint_t ep, unsigned *idle)
{
	uint32_t result = 0;
	mx_status_t s;

	st_ok(mx_iprobe(ep, ~0ull, ST_ALL, &s, &result));
	st_check(!result);
	st_idle(idle);
}

/* Waits for the other side to come as far, making MX calls. */
static void meet(struct side *s)
{
	unsigned idle = 0;

	atomic_store(&shared->step[s->rank], ++s->step);
	while (atomic_load(&shared->step[!s->rank]) < s->step) {
		st_at(s->step);
		progress(s->ep, &idle);
	}
}

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	st_check(dir != NULL);
	for (struct dirent *d; (d = readdir(dir));)
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void connects(struct side *s)
{
	struct st_name other = shared->name[!s->rank];
	mx_endpoint_addr_t addr;
	mx_return_t rc;
	double at;

	/* One after the other, while the other only makes calls. */
	for (int turn = 0; turn < 2; turn++) {
		if (turn == s->rank)
			s->to = st_connect(s->ep, other);
		meet(s);
	}
	if (s->rank == 0) {
		rc = mx_connect(s->ep, other.nic, other.id, ST_KEY + 1, 10, &addr);
		if (rc != MX_BAD_CONNECTION_KEY)
			st_fail("connecting with the wrong key: %s", mx_strerror(rc));
		at = twt_now();
		rc = mx_connect(s->ep, other.nic, other.id + 10, ST_KEY, 10, &addr);
		if (rc != MX_CONNECTION_FAILED)
			st_fail("connecting to an endpoint that is not open: %s", mx_strerror(rc));
		if (twt_now() > at + ST_SOON)
			st_fail("a refused connection took %.1f s", twt_now() - at);
	}
	meet(s);
}

/* Both at once, from fresh endpoints, several times. */
static void crossing_connects(struct side *s, int mode)
{
	mx_endpoint_t first = s->ep;

	for (int i = 0; i < 10; i++) {
		mx_request_t send, recv;
		mx_endpoint_addr_t to;

		s->ep = st_open(5 + (uint32_t)(mode * 2 + s->rank), NULL, 0);
		shared->name[s->rank] = st_whose(st_self(s->ep));
		meet(s);
		to = st_connect(s->ep, shared->name[!s->rank]);
		recv = st_irecv(s->ep, s->in, 8, 1);
		twt_fill(s->out, 8, (uint64_t)i);
		send = st_issend(s->ep, s->out, 8, to, 1);
		st_finish(s->ep, &send);
		st_finish(s->ep, &recv);
		st_eq(twt_check(s->in, 8, (uint64_t)i), 8);
		meet(s);
		/* Whoever is late still calls; the other waits for that on its first endpoint. */
		st_ok(mx_close_endpoint(s->ep));
		s->ep = first;
		meet(s);
	}
}

/* Both sides block. */
static void pings(struct side *s)
{
	for (uint64_t i = 0; i < PINGS / ST_SLOW; i++) {
		uint32_t len = i % 4 == 0 ? BIG : (uint32_t)(st_hash(i, st_seed) % 6000);
		mx_request_t send, recv = st_irecv(s->ep, s->in, BIG, 1000 + i);

		st_at(i);
		twt_fill(s->out, len, i * 2 + (uint64_t)s->rank);
		if (s->rank == 0) {
			send = st_isend(s->ep, s->out, len, s->to, 1000 + i);
			st_finish(s->ep, &send);
		}
		st_eq(st_finish(s->ep, &recv).xfer_length, len);
		st_eq(twt_check(s->in, len, i * 2 + (uint64_t)!s->rank), len);
		if (s->rank == 1) {
			send = st_issend(s->ep, s->out, len, s->to, 1000 + i);
			st_finish(s->ep, &send);
		}
	}
	meet(s);
}

/* A wait that nothing ends takes its time, and little of the processor's. */
static void waits(struct side *s)
{
	mx_request_t req = st_irecv(s->ep, s->in, 8, 5000);
	double at = twt_now(), cpu = twt_cpu(), took;
	uint32_t result = 0;
	mx_status_t st;

	st_ok(mx_wait(s->ep, &req, 300, &st, &result));
	took = twt_now() - at;
	st_check(!result);
	if (took < 0.29 || took > 0.3 + 2 * ST_SOON)
		st_fail("mx_wait for 0.3 s took %.3f s", took);
	if (twt_cpu() - cpu > 0.2 * ST_SLOW)
		st_fail("mx_wait for 0.3 s used %.3f s of processor", twt_cpu() - cpu);
	st_ok(mx_cancel(s->ep, &req, &result));
	st_eq(result, 1);
	/* To ourselves. */
	req = st_irecv(s->ep, s->in, BIG, 5001);
	twt_fill(s->out, BIG, 7);
	{
		mx_request_t send = st_issend(s->ep, s->out, BIG, st_self(s->ep), 5001);

		st_finish(s->ep, &send);
	}
	st_finish(s->ep, &req);
	st_eq(twt_check(s->in, BIG, 7), BIG);
	meet(s);
}

static void streams(struct side *s, double seconds)
{
	double end = twt_now() + seconds, moved;
	struct st_streams streams;
	unsigned idle = 0;

	st_streams_make(&streams, s->ep, s->to, 1 << 16, s->rank, 0);
	moved = twt_now();
	while (twt_now() < end) {
		st_at(s->step);
		if (st_streams_step(&streams, 1)) {
			idle = 0;
			moved = twt_now();
		} else {
			st_idle(&idle);
			/* Not if it is the machine that stood still. */
			if (idle > 20000 && twt_now() > moved + 3 * ST_SOON)
				st_fail("both sides poll, and nothing moved for %.1f s",
					twt_now() - moved);
		}
	}
	for (int i = 0; i < ST_STREAMS; i++)
		if (streams.lane[i].kind != ST_IRECV)
			atomic_fetch_add(&shared->messages, streams.lane[i].seq);
	st_streams_part(&streams, &shared->parted);
	meet(s);
}

/* The first closes; the second is told by its next calls. */
static void closes(struct side *s)
{
	mx_request_t req;
	mx_status_t st;

	if (s->rank == 0) {
		meet(s);
		st_ok(mx_close_endpoint(s->ep));
		return;
	}
	req = st_issend(s->ep, s->out, 100, s->to, 6000);
	meet(s);
	if (!st_poll(s->ep, &req, 2 * ST_SOON, &st))
		st_fail("a send to an endpoint that was closed is pending");
	if (!st_gone(st.code))
		st_fail("a send to an endpoint that was closed ended with %s",
			mx_strstatus(st.code));
	st_ok(mx_close_endpoint(s->ep));
}

static int process(void *arg, int fd)
{
	struct arg *a = arg;
	struct side s = {.rank = a->rank};
	int before;

	(void)fd;
	setenv(modes[a->mode], values[a->mode], 1);
	st_role("%s=%s, %d", modes[a->mode], values[a->mode], a->rank);
	st_check((s.in = calloc(1, BIG * 2)) && (s.out = calloc(1, BIG)));
	before = threads();
	st_up();
	s.ep = st_open((uint32_t)(1 + a->mode * 2 + a->rank), NULL, 0);
	if (!ST_SANITIZED && threads() != before)
		st_fail("the library runs %d threads", threads() - before);
	shared->name[s.rank] = st_whose(st_self(s.ep));
	meet(&s);
	connects(&s);
	pings(&s);
	waits(&s);
	streams(&s, st_seconds / 3);
	crossing_connects(&s, a->mode);
	closes(&s);
	st_ok(mx_finalize());
	free(s.in);
	free(s.out);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long long messages = 0;

	st_begin(argc, argv, "fault_single", 5, NULL);
	for (int mode = 0; mode < 2; mode++) {
		struct twt_child child[2];

		shared = st_shared(sizeof(*shared));
		for (int rank = 0; rank < 2; rank++) {
			struct arg a = {rank, mode};

			twt_spawn(&child[rank], process, &a);
		}
		st_join(child, 2);
		messages += shared->messages;
	}
	st_leftovers();
	st_done("%llu messages in streams, with no service thread and with no locks", messages);
	return 0;
}
