/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with an open, connected endpoint forks, in every way that programs
 * do. The child disturbs nothing, holds none of the library's descriptors, and
 * its MX calls fail until it has called mx_init() itself. When the parent is killed while such a
 * child lives on, the peer learns of the death within a second and the endpoint id is free.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "stress/stress.h"

#define FORKER_ID 8
#define UNRECEIVED 100
#define CHILDREN 6

extern char **environ;

/* What the processes share. */
struct shared {
	_Atomic double killed; /* when; 0 while the forker lives */
	atomic_int heir;       /* the child that lives on; 0 when not yet */
	atomic_int over;       /* the first part is */
	atomic_int parted;
	atomic_ullong forks;
};
static struct shared *shared;
static struct st_name peer_name;
static long rounds = 12;
static int fds_before; /* of the forker, before mx_init() */

struct forker {
	uint64_t round;
	mx_endpoint_t ep;
	mx_endpoint_addr_t to;
	mx_request_t pending; /* a receive */
	struct st_streams streams;
};

/* What children do. */

#define MUST_FAIL(call)                                                                            \
	do {                                                                                       \
		if ((call) == MX_SUCCESS)                                                          \
			st_fail("in a forked child this succeeded: %s", #call);                    \
	} while (0)

static void call_everything(struct forker *f)
{
	mx_segment_t seg = {NULL, 0};
	mx_endpoint_t ep = NULL;
	mx_endpoint_addr_t addr;
	mx_request_t req = NULL, pending = f->pending;
	mx_status_t s;
	uint32_t result;

	MUST_FAIL(mx_isend(f->ep, &seg, 1, f->to, 1, NULL, &req));
	MUST_FAIL(mx_issend(f->ep, &seg, 1, f->to, 1, NULL, &req));
	MUST_FAIL(mx_irecv(f->ep, &seg, 1, 1, ST_ALL, NULL, &req));
	MUST_FAIL(mx_test(f->ep, &pending, &s, &result));
	MUST_FAIL(mx_wait(f->ep, &pending, 10, &s, &result));
	MUST_FAIL(mx_cancel(f->ep, &pending, &result));
	MUST_FAIL(mx_ibuffered(f->ep, &pending, &result));
	MUST_FAIL(mx_ipeek(f->ep, &req, &result));
	MUST_FAIL(mx_peek(f->ep, 10, &req, &result));
	MUST_FAIL(mx_iprobe(f->ep, 0, 0, &s, &result));
	MUST_FAIL(mx_probe(f->ep, 10, 0, 0, &s, &result));
	MUST_FAIL(mx_connect(f->ep, peer_name.nic, peer_name.id, ST_KEY, 1, &addr));
	MUST_FAIL(mx_wakeup(f->ep));
	MUST_FAIL(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, &ep));
	MUST_FAIL(mx_close_endpoint(f->ep));
	mx_finalize();
}

/* As a program that has just started. */
static void begin_anew(void)
{
	uint64_t sent = 7, got = 0;
	mx_segment_t from = {&sent, sizeof(sent)}, to = {&got, sizeof(got)};
	mx_endpoint_addr_t self;
	mx_request_t send, receive;
	mx_endpoint_t ep;

	st_ok(mx_init());
	st_ok(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, ST_KEY, NULL, 0, &ep));
	self = st_connect(ep, st_whose(st_self(ep)));
	st_connect(ep, peer_name);
	st_ok(mx_irecv(ep, &to, 1, 1, ST_ALL, NULL, &receive));
	st_ok(mx_isend(ep, &from, 1, self, 1, NULL, &send));
	st_finish(ep, &send);
	st_finish(ep, &receive);
	st_check(got == sent);
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
}

enum what { EXIT, EXEC, LINGER, EXIT_LOUD, CALL, AGAIN, ANEW, SPAWN, WAYS };

static __attribute__((noreturn)) void be_child(struct forker *f, enum what what)
{
	static char *const argv[] = {"true", NULL};

	signal(SIGALRM, SIG_DFL);
	alarm((unsigned)ST_LONG);
	switch (what) {
	case EXEC:
		execv("/bin/true", argv);
		_exit(9);
	case LINGER:
		if (st_fds() > fds_before) {
			st_fds_list();
			st_fail("a forked child holds %d descriptors; there were %d before mx_init",
				st_fds(), fds_before);
		}
		st_sleep(0.1);
		_exit(0);
	case EXIT_LOUD:
		/* With destructors; but a sanitizer would look for leaks here. */
		if (!ST_SANITIZED)
			exit(0);
		_exit(0);
	case CALL:
		call_everything(f);
		_exit(0);
	case AGAIN:
		_exit(fork() < 0);
	case ANEW:
		/* The thread sanitizer allows no threads after fork(). */
		if (!TW_TSAN)
			begin_anew();
		_exit(0);
	default:
		_exit(0);
	}
}

static pid_t start_child(struct forker *f, enum what what)
{
	static char *const argv[] = {"true", NULL};
	pid_t pid;

	if (what == SPAWN) {
		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) != 0)
			st_fail("posix_spawn: %s", strerror(errno));
		return pid;
	}
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		st_fail("fork: %s", strerror(errno));
	if (pid == 0)
		be_child(f, what);
	return pid;
}

/* The process that forks. */

/* No program that we start may get the library's descriptors. */
static void check_cloexec(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int inherited = 0;

	st_check(dir != NULL);
	for (struct dirent *d; (d = readdir(dir));) {
		int fd = atoi(d->d_name);

		if (d->d_name[0] != '.' && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			inherited++;
	}
	closedir(dir);
	if (inherited > fds_before)
		st_fail("%d descriptors survive exec; before mx_init there were %d at all",
			inherited, fds_before);
}

static void stream_and_fork(struct forker *f)
{
	struct {
		pid_t pid;
		enum what what;
	} child[CHILDREN] = {{0}};
	uint64_t rng = st_hash(st_seed, 0xf), n = 0;
	double next = 0;
	int live = 0, status;
	unsigned idle = 0;

	while (live || n < 2 * WAYS || !atomic_load(&shared->over)) {
		int more = n < 2 * WAYS || !atomic_load(&shared->over);

		st_at(n);
		if (!st_streams_step(&f->streams, 1))
			st_idle(&idle);
		for (int i = 0; i < CHILDREN; i++) {
			if (!child[i].pid && more && twt_now() > next) {
				child[i].what = (enum what)(n++ % WAYS);
				child[i].pid = start_child(f, child[i].what);
				atomic_fetch_add(&shared->forks, 1);
				live++;
				next = twt_now() + (double)(twt_random(&rng) % 1000) * 20e-6;
			}
			if (!child[i].pid || waitpid(child[i].pid, &status, WNOHANG) == 0)
				continue;
			if (status)
				st_fail("child of kind %d ended with status %#x", child[i].what,
					(unsigned)status);
			child[i].pid = 0;
			live--;
		}
	}
}

/* Leaves a child behind that outlives us. */
static void leave_heir(struct forker *f)
{
	static char *const argv[] = {"sleep", "20", NULL};
	pid_t pid;

	if (f->round % 3 == 0) {
		if (posix_spawn(&pid, "/bin/sleep", NULL, NULL, argv, environ) != 0)
			st_fail("posix_spawn: %s", strerror(errno));
		atomic_store(&shared->heir, pid);
		return;
	}
	pid = fork();
	if (pid < 0)
		st_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		if (f->round % 3 == 1)
			execv("/bin/sleep", argv);
		st_sleep(20);
		_exit(0);
	}
	atomic_store(&shared->heir, pid);
}

static int forker(void *arg, int fd)
{
	struct forker *f = calloc(1, sizeof(*f));
	struct st_name name;
	static char buf[100];

	st_role("forker");
	st_check(f != NULL);
	f->round = *(uint64_t *)arg;
	fds_before = st_fds();
	st_up();
	f->ep = st_open(FORKER_ID, NULL, 0);
	name = st_whose(st_self(f->ep));
	st_put(fd, &name, sizeof(name));
	f->to = st_connect(f->ep, peer_name);
	f->pending = st_irecv(f->ep, buf, sizeof(buf), ~0ull);
	st_streams_make(&f->streams, f->ep, f->to, f->round << 16, 0, 0);
	check_cloexec();
	if (f->round) {
		unsigned idle = 0;

		leave_heir(f);
		while (!atomic_load(&shared->killed))
			if (!st_streams_step(&f->streams, 1))
				st_idle(&idle);
		return 1;
	}
	stream_and_fork(f);
	st_streams_part(&f->streams, &shared->parted);
	st_ok(mx_close_endpoint(f->ep));
	st_ok(mx_finalize());
	free(f);
	return 0;
}

/* The peer. */

static mx_endpoint_addr_t greet(mx_endpoint_t ep, int fd)
{
	struct st_name name;

	st_get(fd, &name, sizeof(name));
	return st_connect(ep, name);
}

/* Streams with a forker until it dies; then all that is pending must end soon. */
static double outlive(mx_endpoint_t ep, mx_endpoint_addr_t to, uint64_t round)
{
	static char buf[1000];
	struct st_streams streams;
	mx_request_t unreceived = st_issend(ep, buf, sizeof(buf), to, round << 16 | UNRECEIVED);
	unsigned idle = 0;
	mx_status_t s;
	double left, learnt;

	st_streams_make(&streams, ep, to, round << 16, 1, 1);
	while (!atomic_load(&shared->killed)) {
		st_at(round);
		if (!st_streams_step(&streams, 1))
			st_idle(&idle);
	}
	left = atomic_load(&shared->killed) + ST_SOON - twt_now();
	if (!st_poll(ep, &unreceived, left > 0 ? left : 0, &s))
		st_fail("round %llu: a forked child lives, and the death of its parent goes "
			"unnoticed",
			(unsigned long long)round);
	if (!st_gone(s.code))
		st_fail("a send that nobody received ended with %s", mx_strstatus(s.code));
	learnt = twt_now() - atomic_load(&shared->killed);
	while (st_streams_step(&streams, 0) || st_streams_sending(&streams)) {
		if (st_streams_sending(&streams) &&
		    twt_now() > atomic_load(&shared->killed) + ST_SOON)
			st_fail("%d sends to a dead peer are pending",
				st_streams_sending(&streams));
		st_idle(&idle);
	}
	st_streams_cancel(&streams, twt_now() + ST_SOON);
	st_streams_free(&streams);
	return learnt;
}

static int peer(void *arg, int fd)
{
	struct st_streams streams;
	mx_endpoint_addr_t to;
	mx_endpoint_t ep;
	uint64_t round;
	unsigned idle = 0;

	(void)arg;
	st_role("peer");
	st_up();
	ep = st_open(1, NULL, 0);
	peer_name = st_whose(st_self(ep));
	st_put(fd, &peer_name, sizeof(peer_name));
	st_streams_make(&streams, ep, greet(ep, fd), 0, 1, 0);
	/* The forker parts last: it must find us there. */
	while (!atomic_load(&shared->parted)) {
		st_at(0);
		if (!st_streams_step(&streams, 1))
			st_idle(&idle);
	}
	st_streams_part(&streams, &shared->parted);
	for (;;) {
		double learnt;

		st_get(fd, &round, sizeof(round));
		if (!round)
			break;
		to = greet(ep, fd);
		st_put(fd, "", 1);
		learnt = outlive(ep, to, round);
		st_put(fd, &learnt, sizeof(learnt));
	}
	st_ok(mx_close_endpoint(ep));
	st_ok(mx_finalize());
	return 0;
}

/* The first process starts the others and kills. */
static double kill_round(struct twt_child *side, uint64_t round, pid_t *heir)
{
	struct twt_child child;
	struct st_name name;
	double learnt;
	pid_t before = *heir;
	char c;

	atomic_store(&shared->killed, 0);
	atomic_store(&shared->heir, 0);
	twt_spawn(&child, forker, &round);
	/* While the heir of the last round lives. */
	st_get(child.fd, &name, sizeof(name));
	if (before)
		kill(before, SIGKILL);
	st_put(side->fd, &round, sizeof(round));
	st_put(side->fd, &name, sizeof(name));
	st_get(side->fd, &c, 1);
	while (!(*heir = atomic_load(&shared->heir))) {
		st_alive(&child, 1);
		st_sleep(0.001);
	}
	st_sleep((double)(st_hash(st_seed, round) % 100) * 3e-4 * ST_SLOW);
	/* What the kernel does at once must not count for us. */
	learnt = twt_now();
	kill(child.pid, SIGKILL);
	while (waitpid(child.pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(child.fd);
	if (kill(*heir, 0) < 0)
		st_fail("the child that was to live on is gone");
	atomic_store(&shared->killed, learnt);
	st_get(side->fd, &learnt, sizeof(learnt));
	return learnt;
}

int main(int argc, char **argv)
{
	static const struct st_option options[] = {{"--rounds", &rounds, 1, 100000}, {0}};
	struct twt_child side[2];
	struct st_name name;
	uint64_t round = 0;
	double slowest = 0, part = 0;
	pid_t heir = 0;

	st_begin(argc, argv, "fault_fork", 6, options);
	shared = st_shared(sizeof(*shared));
	twt_spawn(&side[0], peer, NULL);
	st_get(side[0].fd, &peer_name, sizeof(peer_name));
	twt_spawn(&side[1], forker, &round);
	st_get(side[1].fd, &name, sizeof(name));
	st_put(side[0].fd, &name, sizeof(name));
	for (part = twt_now() + st_seconds / 2; twt_now() < part; st_sleep(0.01))
		st_alive(side, 2);
	atomic_store(&shared->over, 1);
	st_join(&side[1], 1);
	for (round = 1; round <= (uint64_t)rounds && (st_going() || round < 4); round++) {
		double learnt = kill_round(side, round, &heir);

		if (learnt > slowest)
			slowest = learnt;
	}
	kill(heir, SIGKILL);
	round--;
	st_put(side[0].fd, &(uint64_t){0}, sizeof(uint64_t));
	st_join(side, 1);
	st_leftovers();
	st_done("%llu forks, %llu deaths, known after %.3f s at most",
		(unsigned long long)shared->forks, (unsigned long long)round, slowest);
	return 0;
}
