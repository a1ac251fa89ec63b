/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile process of the same user connects properly to a victim and then
 * writes what it should not: wrong packets, wild indices, random words over the
 * rings, nonsense into the socket, odd descriptors. The victim drops it and
 * lives; nothing is written beside its buffers; its traffic with a friend, whose
 * name the attacker also tries to take, goes on unharmed.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/settings.h"
#include "fault/attack.h"
#include "mx_extensions.h"

#define RECVS 12
#define SENDS 8
#define MOST 300000

/* What the processes share. */
struct shared {
	atomic_uint dial; /* see struct attacker */
	atomic_int over, idle;
	atomic_ullong done; /* messages with the friend */
	atomic_ullong heard, told, refused, dialled;
};
static struct shared *shared;
static struct st_name victim_name, friend_name;

static int friend(void *arg, int fd)
{
	(void)arg;
	return st_bystander(fd, "friend", 1ull << 40, &shared->over, &shared->idle);
}

/* The victim talks back to whoever sends it something. */
struct victim {
	mx_endpoint_t ep;
	uint64_t rng;
	struct st_streams streams;
	struct st_op *recv[RECVS], *send[SENDS];
	mx_request_t connect;
};

static int as_documented(mx_status_code_t code)
{
	return code == MX_STATUS_SUCCESS || code == MX_STATUS_TRUNCATED ||
	       code == MX_STATUS_ABORTED || st_gone(code);
}

static int finished(struct victim *v, mx_request_t *req, mx_status_t *s)
{
	uint32_t result = 0;

	st_ok(mx_test(v->ep, req, s, &result));
	return result != 0;
}

static void post(struct victim *v, unsigned i)
{
	v->recv[i] = st_op_new(st_size(&v->rng, MOST), &v->rng);
	/* Half of them for one tag only, so that there are unexpected messages. */
	if (i % 2)
		st_op_recv(v->recv[i], v->ep, HOSTILE_TAG, HOSTILE_MASK);
	else
		st_op_recv(v->recv[i], v->ep, HOSTILE_TAG | i, ST_ALL);
}

static void answer(struct victim *v, mx_endpoint_addr_t to)
{
	for (unsigned i = 0; i < SENDS; i++) {
		if (v->send[i])
			continue;
		v->send[i] = st_op_new(st_size(&v->rng, MOST), &v->rng);
		st_op_send(v->send[i], twt_random(&v->rng) % 2 ? ST_ISEND : ST_ISSEND, v->ep, to);
		atomic_fetch_add(&shared->told, 1);
		return;
	}
}

static void step_recv(struct victim *v, unsigned i)
{
	struct st_op *op = v->recv[i];
	mx_status_t s;

	if (!finished(v, &op->req, &s))
		return;
	if (!as_documented(s.code))
		st_fail("a receive ended with %s", mx_strstatus(s.code));
	if (s.xfer_length > op->buf.len)
		st_fail("%u bytes in a buffer of %u", s.xfer_length, op->buf.len);
	if (!st_buf_guarded(&op->buf))
		st_fail("something was written beside a buffer");
	atomic_fetch_add(&shared->heard, 1);
	if (s.code == MX_STATUS_SUCCESS)
		answer(v, s.source);
	st_op_free(op);
	post(v, i);
}

static void step_send(struct victim *v, unsigned i)
{
	struct st_op *op = v->send[i];
	mx_status_t s;

	if (!op || !finished(v, &op->req, &s))
		return;
	if (!as_documented(s.code))
		st_fail("a send ended with %s", mx_strstatus(s.code));
	st_op_free(op);
	v->send[i] = NULL;
}

/* Connects to the attacker when it wants that. */
static void step_connect(struct victim *v)
{
	unsigned id = atomic_load(&shared->dial);
	mx_status_t s;

	if (!v->connect && id) {
		st_ok(mx_iconnect(v->ep, victim_name.nic, id - 1, ST_KEY, 1, NULL, &v->connect));
		atomic_fetch_add(&shared->dialled, 1);
	}
	if (!v->connect || !finished(v, &v->connect, &s))
		return;
	v->connect = NULL;
	switch (s.code) {
	case MX_STATUS_SUCCESS:
		answer(v, s.source);
		break;
	case MX_STATUS_ABORTED: /* it spoke, but not our language */
	case MX_STATUS_REJECTED:
		atomic_fetch_add(&shared->refused, 1);
		break;
	case MX_STATUS_TIMEOUT:
	case MX_STATUS_BAD_KEY:
	case MX_STATUS_NO_RESOURCES:
	case MX_STATUS_ENDPOINT_UNKNOWN:
	case MX_STATUS_ENDPOINT_CLOSED:
	case MX_STATUS_ENDPOINT_UNREACHABLE:
		break;
	default:
		st_fail("a connect ended with %s", mx_strstatus(s.code));
	}
	atomic_store(&shared->dial, 0);
}

static void step(struct victim *v, unsigned *idle)
{
	uint64_t done = (uint64_t)st_streams_step(&v->streams, 1);

	st_at(atomic_load(&shared->done));
	atomic_fetch_add(&shared->done, done);
	for (unsigned i = 0; i < RECVS; i++)
		step_recv(v, i);
	for (unsigned i = 0; i < SENDS; i++)
		step_send(v, i);
	step_connect(v);
	if (done)
		*idle = 0;
	else
		st_idle(idle);
}

/* The window, and what nobody may write. */
static struct {
	uint8_t before[8192], window[HOSTILE_WINDOW_SIZE], after[8192];
} guarded;

static void make_window(struct victim *v)
{
	uint64_t key = HOSTILE_WINDOW;

	memset(&guarded, 0x5a, sizeof(guarded));
	st_ok(mx_window_register(v->ep, guarded.window, sizeof(guarded.window),
				 MX_WINDOW_READ | MX_WINDOW_WRITE, &key));
}

static void end_window(struct victim *v)
{
	st_ok(mx_window_deregister(v->ep, HOSTILE_WINDOW));
	for (size_t i = 0; i < sizeof(guarded.before); i++) {
		st_eq(guarded.before[i], 0x5a);
		st_eq(guarded.after[i], 0x5a);
	}
}

static int victim(void *arg, int fd)
{
	struct victim *v = calloc(1, sizeof(*v));
	unsigned idle = 0;
	char c;

	(void)arg;
	st_role("victim");
	st_check(v != NULL);
	v->rng = st_hash(st_seed, 1);
	/* A connect that the attacker does not answer must not take long. */
	setenv("TAGWIRE_CONNECT_TIMEOUT", "300", 1);
	st_up();
	v->ep = st_open(1, NULL, 0);
	make_window(v);
	victim_name = st_whose(st_self(v->ep));
	st_put(fd, &victim_name, sizeof(victim_name));
	st_get(fd, &friend_name, sizeof(friend_name));
	st_streams_make(&v->streams, v->ep, st_connect(v->ep, friend_name), 1ull << 40, 0, 0);
	for (unsigned i = 0; i < RECVS; i++)
		post(v, i);
	while (!atomic_load(&shared->over))
		step(v, &idle);
	st_streams_part(&v->streams, &shared->idle);
	st_get(fd, &c, 1);
	end_window(v);
	st_ok(mx_close_endpoint(v->ep));
	st_ok(mx_finalize());
	return 0;
}

/* It was talked to. */
static int got_through(const struct attacker *a)
{
	return a->certain && a->connections && a->packets && a->asked;
}

static int hostile(void *arg, int fd)
{
	struct attacker a = {.rng = st_hash(st_seed, 2),
			     .victim = victim_name,
			     .friend = friend_name,
			     .dial = &shared->dial,
			     .heard = &shared->heard};
	uint64_t n = 0;
	double limit = twt_now() + 60 * ST_SOON;

	(void)arg;
	st_role("hostile");
	st_check(tw_settings_load());
	tw_clock_init();
	attack_certain(&a);
	/* What is rare may take longer on a busy machine. */
	while (st_going() || (!got_through(&a) && twt_now() < limit)) {
		uint64_t before = atomic_load(&shared->done);
		double end = twt_now() + 15 * ST_SOON;

		st_at(++n);
		for (int i = 0; i < 20; i++)
			attack(&a);
		while (atomic_load(&shared->done) < before + ST_STREAMS) {
			if (twt_now() > end)
				st_fail("the victim's traffic with its friend stands still");
			st_sleep(1e-3);
		}
	}
	attack_certain(&a);
	st_put(fd, &a, sizeof(a));
	return 0;
}

int main(int argc, char **argv)
{
	struct twt_child child[3];
	struct attacker a;

	st_begin(argc, argv, "fault_hostile", 8, NULL);
	shared = st_shared(sizeof(*shared));
	twt_spawn(&child[0], friend, NULL);
	st_get(child[0].fd, &friend_name, sizeof(friend_name));
	twt_spawn(&child[1], victim, NULL);
	st_get(child[1].fd, &victim_name, sizeof(victim_name));
	st_put(child[1].fd, &friend_name, sizeof(friend_name));
	st_put(child[0].fd, &victim_name, sizeof(victim_name));
	twt_spawn(&child[2], hostile, NULL);
	st_get(child[2].fd, &a, sizeof(a));
	st_join(&child[2], 1);
	atomic_store(&shared->over, 1);
	while (atomic_load(&shared->idle) < 2) {
		st_alive(child, 2);
		st_sleep(0.01);
	}
	st_put(child[0].fd, "", 1);
	st_put(child[1].fd, "", 1);
	st_join(child, 2);
	st_leftovers();
	st_check(got_through(&a));
	st_check(atomic_load(&shared->heard) && atomic_load(&shared->told));
	st_done("%llu introductions, %llu connections and %llu accepted, %llu packets, "
		"%llu words; %llu messages between friends; the victim received %llu, "
		"sent %llu, saw %llu rejected, asked for %llu",
		(unsigned long long)a.hellos, (unsigned long long)a.connections,
		(unsigned long long)a.accepts, (unsigned long long)a.packets,
		(unsigned long long)a.scribbles, (unsigned long long)atomic_load(&shared->done),
		(unsigned long long)atomic_load(&shared->heard),
		(unsigned long long)atomic_load(&shared->told),
		(unsigned long long)atomic_load(&shared->refused), (unsigned long long)a.asked);
	return 0;
}
