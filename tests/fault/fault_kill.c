/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A survivor streams with a victim, which is killed (SIGKILL) at a random
 * moment, and with a third process, which must not notice. What the survivor
 * has pending towards the victim ends within a second; receives that matched
 * nothing stay posted. The next victim opens the same endpoint id at once.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress/stress.h"

#define VICTIM_ID 7
#define THIRD_BASE (1ull << 60)
/* Beside the streams: tags that the other side does not receive or send. */
#define UNRECEIVED 100 /* short, synchronous */
#define UNRECEIVED_LONG 101
#define UNSENT 102
#define TAG_MASK (~0xffffull)

static long rounds = 30;
/* How who receives takes long messages: the survivor by the seed, victims in turn. */
static const char *const ways[] = {"auto", "get", "copy"};

/* What the processes share. */
struct shared {
	_Atomic double killed; /* when; 0 while the victim lives */
	atomic_ullong dialled; /* the round whose victim was connected and sent to */
	atomic_int over;       /* no further rounds */
	atomic_int idle;       /* processes that send no more */
};
static struct shared *shared;
static struct st_name survivor_name, third_name;

/* What a victim says once its endpoint is open. */
struct birth {
	struct st_name name;
	double opened;
};

/* What the survivor is told of a round, and what it answers. */
struct task {
	uint64_t round;
	struct st_name victim;
};
struct report {
	double slowest; /* from the death to the last completion */
	int connected, fds;
};

static uint64_t tag(uint64_t round, uint64_t low)
{
	return round << 16 | low;
}

/* The victim: it streams until it is killed. */
static int victim(void *arg, int fd)
{
	uint64_t round = *(uint64_t *)arg;
	struct st_streams streams;
	struct birth birth;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	mx_request_t r1, r2;
	static char buf[300000];
	unsigned idle = 0;

	st_role("victim %llu", (unsigned long long)round);
	st_at(round);
	setenv("TAGWIRE_RNDV", ways[round % 3], 1);
	st_up();
	/* The id was another process's until a moment ago. */
	ep = st_open(VICTIM_ID, NULL, 0);
	birth.opened = twt_now();
	birth.name = st_whose(st_self(ep));
	st_put(fd, &birth, sizeof(birth));
	to = st_connect(ep, survivor_name);
	st_streams_make(&streams, ep, to, tag(round, 0), 1, 0);
	r1 = st_issend(ep, buf, 1000, to, tag(round, UNRECEIVED));
	r2 = st_isend(ep, buf, sizeof(buf), to, tag(round, UNRECEIVED_LONG));
	(void)r1;
	(void)r2;
	while (!atomic_load(&shared->over))
		if (st_streams_step(&streams, 1))
			idle = 0;
		else
			st_idle(&idle);
	return 1;
}

static int third(void *arg, int fd)
{
	(void)arg;
	return st_bystander(fd, "third", THIRD_BASE, &shared->over, &shared->idle);
}

/* The survivor. */
struct survivor {
	mx_endpoint_t ep;
	mx_endpoint_addr_t self, to;
	struct st_streams with_third, with_victim;
	uint64_t round, rng, third_done;
	mx_request_t unreceived, unreceived_long, unsent;
	char *out, *in;
	struct report report;
};

static double killed(void)
{
	return atomic_load(&shared->killed);
}

static void third_step(struct survivor *v)
{
	v->third_done += (uint64_t)st_streams_step(&v->with_third, 1);
}

/* Connects; false when the victim was killed in the middle. */
static int connect_victim(struct survivor *v, struct st_name name)
{
	mx_return_t rc =
		mx_connect(v->ep, name.nic, name.id, ST_KEY, (uint32_t)(ST_LONG / 2), &v->to);
	double returned = twt_now();

	if (rc == MX_SUCCESS)
		return 1;
	while (!killed() && twt_now() < returned + ST_SOON)
		third_step(v);
	if (!killed())
		st_fail("the victim lives, but connecting to it failed: %s", mx_strerror(rc));
	if (returned > killed() + ST_SOON)
		st_fail("mx_connect returned %.3f s after the death of the peer",
			returned - killed());
	return 0;
}

static void stream_until_killed(struct survivor *v)
{
	uint64_t steps = twt_random(&v->rng) % 3000, n = 0;
	double returned;
	mx_status_t s;
	uint32_t result = 0;
	unsigned idle = 0;

	while (!killed()) {
		st_at(v->round);
		third_step(v);
		if (st_streams_step(&v->with_victim, 1))
			idle = 0;
		else
			st_idle(&idle);
		if (v->round % 2 == 0 || ++n < steps || !v->unreceived)
			continue;
		/* In every other round the death must wake us. */
		st_ok(mx_wait(v->ep, &v->unreceived, MX_INFINITE, &s, &result));
		st_check(result);
		if (!st_gone(s.code) || s.code == MX_STATUS_BAD_SESSION)
			st_fail("a send that nobody received ended with %s", mx_strstatus(s.code));
		v->unreceived = NULL;
		returned = twt_now();
		while (!killed())
			st_idle(&idle);
		if (returned > killed() + ST_SOON)
			st_fail("mx_wait returned %.3f s after the death of the peer",
				returned - killed());
	}
}

/* A send to the victim, which is dead. */
static void must_be_gone(struct survivor *v, mx_request_t *req, double deadline, const char *what)
{
	double left = deadline - twt_now();
	mx_status_t s;

	if (!*req)
		return;
	if (!st_poll(v->ep, req, left > 0 ? left : 0, &s))
		st_fail("%s is pending long after the death of its peer", what);
	if (!st_gone(s.code))
		st_fail("%s ended with %s", what, mx_strstatus(s.code));
	*req = NULL;
}

/* Takes what the victim sent before it died and nobody received. */
static void take_leftovers(struct survivor *v, double deadline)
{
	for (;;) {
		uint32_t result = 0;
		mx_request_t req;
		mx_status_t s;

		st_ok(mx_iprobe(v->ep, tag(v->round, 0), TAG_MASK, &s, &result));
		if (!result)
			return;
		if (s.msg_length > 1 << 20)
			st_fail("an unexpected message has %u bytes", s.msg_length);
		req = st_irecv(v->ep, v->in, 1 << 20, s.match_info);
		if (!st_poll(v->ep, &req, deadline - twt_now(), &s))
			st_fail("a receive for %#llx of the dead peer is pending",
				(unsigned long long)s.match_info);
		if (s.code != MX_STATUS_SUCCESS && !st_gone(s.code))
			st_fail("a message of the dead peer ended with %s", mx_strstatus(s.code));
	}
}

/* Nothing that the victim did may have touched this receive. */
static void check_unsent(struct survivor *v)
{
	uint64_t match = tag(v->round, UNSENT);
	uint32_t result = 77;
	mx_request_t req;
	mx_status_t s;

	if (v->round % 4 < 2) {
		st_ok(mx_cancel(v->ep, &v->unsent, &result));
		st_eq(result, 1);
		return;
	}
	st_ok(mx_test(v->ep, &v->unsent, &s, &result));
	if (result)
		st_fail("a receive that matched nothing ended with %s", mx_strstatus(s.code));
	twt_fill(v->out, 500, match);
	req = st_isend(v->ep, v->out, 500, v->self, match);
	st_finish(v->ep, &req);
	s = st_finish(v->ep, &v->unsent);
	st_eq(s.match_info, match);
	st_eq(s.xfer_length, 500);
	st_eq(twt_check(v->in, 500, match), 500);
}

static void after_death(struct survivor *v)
{
	double deadline = killed() + ST_SOON;
	uint64_t third_before;
	unsigned idle = 0;

	while (st_streams_sending(&v->with_victim)) {
		st_at(v->round);
		st_streams_step(&v->with_victim, 0);
		third_step(v);
		if (!st_streams_sending(&v->with_victim))
			break;
		if (twt_now() > deadline)
			st_fail("%d sends to the dead peer are pending after %.1f s",
				st_streams_sending(&v->with_victim), ST_SOON);
		st_idle(&idle);
	}
	must_be_gone(v, &v->unreceived, deadline, "a send that was never received");
	must_be_gone(v, &v->unreceived_long, deadline, "a long send that was never received");
	v->report.slowest = twt_now() - killed();
	st_streams_cancel(&v->with_victim, deadline + ST_SOON);
	check_unsent(v);
	take_leftovers(v, twt_now() + ST_SOON);
	v->unreceived = st_issend(v->ep, v->out, 100, v->to, tag(v->round, UNRECEIVED));
	v->unreceived_long = st_isend(v->ep, v->out, 300000, v->to, tag(v->round, 99));
	must_be_gone(v, &v->unreceived, twt_now() + ST_SOON, "a send to a dead peer");
	must_be_gone(v, &v->unreceived_long, twt_now() + ST_SOON, "a long send to a dead peer");
	third_before = v->third_done;
	deadline = twt_now() + 5 * ST_SOON;
	while (v->third_done < third_before + ST_STREAMS) {
		third_step(v);
		if (twt_now() > deadline)
			st_fail("traffic with the third process stands still");
		st_idle(&idle);
	}
}

static void survive_round(struct survivor *v, struct task *task)
{
	v->round = task->round;
	v->report = (struct report){0};
	st_at(v->round);
	if (!connect_victim(v, task->victim)) {
		atomic_store(&shared->dialled, v->round);
		take_leftovers(v, twt_now() + ST_SOON);
		v->report.fds = st_fds();
		return;
	}
	v->report.connected = 1;
	st_streams_make(&v->with_victim, v->ep, v->to, tag(v->round, 0), 0, 1);
	v->unsent = st_irecv(v->ep, v->in, 1000, tag(v->round, UNSENT));
	v->unreceived = st_issend(v->ep, v->out, 1000, v->to, tag(v->round, UNRECEIVED));
	v->unreceived_long = st_isend(v->ep, v->out, 300000, v->to, tag(v->round, UNRECEIVED_LONG));
	/* To the address of an earlier life these would end otherwise. */
	atomic_store(&shared->dialled, v->round);
	stream_until_killed(v);
	after_death(v);
	st_streams_free(&v->with_victim);
	v->report.fds = st_fds();
}

static int survivor(void *arg, int fd)
{
	struct survivor *v = calloc(1, sizeof(*v));
	struct task task;
	char c;

	(void)arg;
	st_role("survivor");
	st_check(v && (v->in = malloc(1 << 20)) && (v->out = calloc(1, 1 << 20)));
	v->rng = st_hash(st_seed, 0x5);
	setenv("TAGWIRE_RNDV", ways[st_seed % 3], 1);
	st_up();
	v->ep = st_open(1, NULL, 0);
	v->self = st_self(v->ep);
	survivor_name = st_whose(v->self);
	st_put(fd, &survivor_name, sizeof(survivor_name));
	st_streams_make(&v->with_third, v->ep, st_connect(v->ep, third_name), THIRD_BASE, 0, 0);
	for (;;) {
		st_get(fd, &task, sizeof(task));
		if (!task.round)
			break;
		survive_round(v, &task);
		st_put(fd, &v->report, sizeof(v->report));
	}
	st_streams_part(&v->with_third, &shared->idle);
	st_get(fd, &c, 1);
	st_ok(mx_close_endpoint(v->ep));
	st_ok(mx_finalize());
	free(v->in);
	free(v->out);
	free(v);
	return 0;
}

/* The first process starts the others and kills. */
static double kill_victim(struct twt_child *child)
{
	double at = twt_now();
	int status = 0;

	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		st_fail("the victim had ended by itself, status %#x", (unsigned)status);
	atomic_store(&shared->killed, at);
	close(child->fd);
	return at;
}

/* Returns how many rounds there were. */
static uint64_t run_rounds(struct twt_child *side, struct report *last, double *slowest,
			   int *connected)
{
	uint64_t rng = st_hash(st_seed, 0x9), round = 1, next;
	struct twt_child child;
	double at = 0;
	int early = 0, more = 1, above = 0;

	for (next = 1; more; round++) {
		struct task task = {.round = round};
		struct birth birth;

		st_at(round);
		if (round == 1)
			twt_spawn(&child, victim, &next);
		st_get(child.fd, &birth, sizeof(birth));
		task.victim = birth.name;
		/* A second for the endpoint, another to start the process. */
		if (round > 1 && birth.opened > at + 2 * ST_SOON)
			st_fail("the endpoint was open again only %.3f s after the death",
				birth.opened - at);
		atomic_store(&shared->killed, 0);
		st_put(side[1].fd, &task, sizeof(task));
		/* Now and then while they connect. */
		st_sleep((double)(twt_random(&rng) % 1000) * ST_SLOW *
			 (round % 3 == 0 ? 3e-6 : 80e-6));
		at = kill_victim(&child);
		next = round + 1;
		more = next <= (uint64_t)rounds && (st_going() || next <= 5);
		/*
		 * The next one at once, while the survivor still clears up; but not so
		 * soon that the survivor connects to it in place of this one.
		 */
		while (atomic_load(&shared->dialled) < round) {
			st_alive(side, 2);
			st_sleep(50e-6);
		}
		if (more)
			twt_spawn(&child, victim, &next);
		st_get(side[1].fd, last, sizeof(*last));
		*connected += last->connected;
		if (last->slowest > *slowest)
			*slowest = last->slowest;
		if (round == 4)
			early = last->fds;
		/* Now and then some are being closed just then. */
		above = round > 4 && last->fds > early + 2 ? above + 1 : 0;
		if (above == 10)
			st_fail("descriptors grow: %d after round 4, %d after round %llu", early,
				last->fds, (unsigned long long)round);
	}
	return round - 1;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--rounds", &rounds, 1, 100000}, {0}};
	struct twt_child side[2];
	struct task task = {0};
	struct report last = {0};
	double slowest = 0;
	uint64_t n;
	int connected = 0;

	st_begin(argc, argv, "fault_kill", 30, options);
	shared = st_shared(sizeof(*shared));
	twt_spawn(&side[0], third, NULL);
	st_get(side[0].fd, &third_name, sizeof(third_name));
	twt_spawn(&side[1], survivor, NULL);
	st_get(side[1].fd, &survivor_name, sizeof(survivor_name));
	st_put(side[0].fd, &survivor_name, sizeof(survivor_name));
	n = run_rounds(side, &last, &slowest, &connected);
	atomic_store(&shared->over, 1);
	st_put(side[1].fd, &task, sizeof(task));
	while (atomic_load(&shared->idle) < 2) {
		st_alive(side, 2);
		st_sleep(0.01);
	}
	st_put(side[0].fd, "", 1);
	st_put(side[1].fd, "", 1);
	st_join(side, 2);
	st_leftovers();
	st_done("%llu rounds, %d of them connected, all over %.3f s after a death, %d descriptors",
		(unsigned long long)n, connected, slowest, last.fds);
	return 0;
}
