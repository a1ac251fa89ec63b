/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/twt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void twt_go(const char *netns)
{
	int fd = netns ? open(netns, O_RDONLY | O_CLOEXEC) : -1;

	if (!netns)
		return;
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0) {
		perror(netns);
		_exit(2);
	}
	close(fd);
}

bool twt_unshare(int what)
{
	char map[64];
	int fd, n = snprintf(map, sizeof(map), "%u %u 1", geteuid(), geteuid());

	if (unshare(what) == 0)
		return true;
	if (unshare(CLONE_NEWUSER | what) < 0)
		return false;
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)n) != n) {
		perror("/proc/self/uid_map");
		_exit(2);
	}
	close(fd);
	return true;
}

uint32_t twt_board;

unsigned twt_slow(void)
{
	const char *env = getenv("TWT_SLOW");
	int factor = env ? atoi(env) : 1;

	return factor > 0 ? (unsigned)factor : 1;
}

unsigned twt_patience(void)
{
	return TWT_PATIENCE * twt_slow();
}

static void far_side(void)
{
	const char *board = getenv("TWT_FAR_BOARD");

	twt_go(getenv("TWT_NETNS"));
	if (board)
		twt_board = (uint32_t)atoi(board);
}

static void spawn(struct twt_child *child, int (*fn)(void *arg, int fd), void *arg, int far)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0) {
		perror("socketpair");
		exit(2);
	}
	fflush(NULL);
	child->pid = fork();
	if (child->pid < 0) {
		perror("fork");
		exit(2);
	}
	if (child->pid == 0) {
		/* A test that dies must not leave children behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sv[0]);
		if (far)
			far_side();
		int code = fn(arg, sv[1]);
		fflush(NULL);
		_exit(code);
	}
	close(sv[1]);
	child->fd = sv[0];
}

void twt_spawn(struct twt_child *child, int (*fn)(void *arg, int fd), void *arg)
{
	spawn(child, fn, arg, 1);
}

void twt_spawn_here(struct twt_child *child, int (*fn)(void *arg, int fd), void *arg)
{
	spawn(child, fn, arg, 0);
}

int twt_join(struct twt_child *child, int seconds)
{
	double end = twt_now() + seconds;
	int status, late = 0;

	while (waitpid(child->pid, &status, WNOHANG) == 0) {
		if (!late && twt_now() > end) {
			kill(child->pid, SIGKILL);
			late = 1;
		}
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	close(child->fd);
	if (late)
		return -1;
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

int twt_put(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int twt_get(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

uint64_t twt_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint8_t pattern(uint64_t seed, size_t i)
{
	uint64_t word = seed + i / 8;

	return (uint8_t)(twt_random(&word) >> (i % 8 * 8));
}

void twt_fill(void *buf, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = pattern(seed, i);
}

size_t twt_check(const void *buf, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)buf)[i] != pattern(seed, i))
			return i;
	return len;
}

static double seconds(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double twt_now(void)
{
	return seconds(CLOCK_MONOTONIC);
}

double twt_cpu(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

static uint64_t status_bytes(pid_t pid, const char *name)
{
	unsigned long long kb = 0;
	size_t n = strlen(name);
	char line[256];
	bool found = false;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = fopen(line, "r");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, name, n) && sscanf(line + n, ": %llu kB", &kb) == 1;
	if (f)
		fclose(f);
	if (!found) {
		fprintf(stderr, "process %d: no %s in its status\n", (int)pid, name);
		exit(2);
	}
	return 1024 * kb;
}

uint64_t twt_memory(pid_t pid)
{
	return status_bytes(pid, "RssAnon") + status_bytes(pid, "RssShmem");
}

uint64_t twt_shared_memory(pid_t pid)
{
	return status_bytes(pid, "RssShmem");
}

static atomic_uint naps;

static void *nap(void *arg)
{
	for (;; atomic_fetch_add(&naps, 1))
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	return arg;
}

static void begin_naps(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, nap, NULL) || pthread_detach(thread)) {
		fputs("twt_awake: no thread\n", stderr);
		exit(2);
	}
}

double twt_awake(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_naps);
	return atomic_load(&naps) / 100.;
}

/* The letter of its state, as proc(5) has it; 0 if there is no such thread. */
static char state_of(pid_t tid)
{
	char path[64], line[256] = "";
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	end = strrchr(line, ')');
	return end && end[1] ? end[2] : 0;
}

void twt_await_asleep(const _Atomic(pid_t) *tid)
{
	/* Not only for a lock that somebody holds for a moment. */
	for (int rows = 0; rows < 5;) {
		pid_t who = atomic_load(tid);

		rows = who && state_of(who) == 'S' ? rows + 1 : 0;
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
}
