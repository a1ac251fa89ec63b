/* SPDX-License-Identifier: BSD-2-Clause */
#include "stress/stress.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLACES 64

uint64_t st_seed = 1;
double st_seconds;
static const char *program = "?";
static char role[40] = "main", job[64];
static double started;

/* Where each thread is. */
static struct place {
	_Atomic(const char *) file;
	atomic_int line;
	_Atomic uint64_t step;
} places[PLACES];
static atomic_uint nplaces;
static _Thread_local struct place *here;

void st_at_line(const char *file, int line, uint64_t step)
{
	if (!here)
		here = &places[atomic_fetch_add(&nplaces, 1) % PLACES];
	atomic_store_explicit(&here->file, file, memory_order_relaxed);
	atomic_store_explicit(&here->line, line, memory_order_relaxed);
	atomic_store_explicit(&here->step, step, memory_order_relaxed);
}

static __attribute__((noreturn)) void stuck(void)
{
	unsigned n = atomic_load(&nplaces);
	char text[200];

	for (unsigned i = 0; i < n && i < PLACES; i++) {
		int len = snprintf(
			text, sizeof(text),
			"%s: %s: seed %llu: stuck; thread %u was last at %s:%d, step %llu\n",
			program, role, (unsigned long long)st_seed, i, atomic_load(&places[i].file),
			atomic_load(&places[i].line),
			(unsigned long long)atomic_load(&places[i].step));
		if (write(2, text, (size_t)len) < 0)
			break;
	}
	abort();
}

static void on_alarm(int sig)
{
	(void)sig;
	stuck();
}

static void *watchdog(void *arg)
{
	(void)arg;
	while (twt_now() < started + st_seconds + ST_LONG)
		st_sleep(0.2);
	stuck();
}

void st_role(const char *format, ...)
{
	pthread_t thread;
	va_list ap;

	va_start(ap, format);
	vsnprintf(role, sizeof(role), format, ap);
	va_end(ap);
	atomic_store(&nplaces, 0);
	here = NULL;
	st_at(0);
	/* A thread: the address of a sleeping one may be deaf to signals under a sanitizer. */
	if (pthread_create(&thread, NULL, watchdog, NULL) != 0 || pthread_detach(thread) != 0)
		st_fail("no thread to watch this process");
}

static void usage(const struct st_option *more)
{
	fprintf(stderr, "usage: %s [--seed N] [--seconds S]", program);
	for (; more && more->name; more++)
		fprintf(stderr, " [%s %ld..%ld]", more->name, more->least, more->most);
	fprintf(stderr, "\n");
	exit(2);
}

static int own_option(const char *name, const char *value, const struct st_option *more)
{
	char *end;
	long v = strtol(value, &end, 0);

	for (; more && more->name; more++)
		if (strcmp(name, more->name) == 0 && !*end && v >= more->least && v <= more->most) {
			*more->value = v;
			return 1;
		}
	return 0;
}

void st_begin(int argc, char **argv, const char *name, double seconds, const struct st_option *more)
{
	program = name;
	st_seconds = seconds;
	for (int i = 1; i < argc; i += 2) {
		char *end = "?";

		if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
			st_seed = strtoull(argv[i + 1], &end, 0);
		else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0)
			st_seconds = strtod(argv[i + 1], &end);
		else if (i + 1 < argc && own_option(argv[i], argv[i + 1], more))
			end = "";
		if (*end || !(st_seconds > 0 && st_seconds < 1e6))
			usage(more);
	}
	snprintf(job, sizeof(job), "st%d-%x", (int)getpid(),
		 (unsigned)(long long)(twt_now() * 1000) & 0xffffff);
	setenv("TAGWIRE_JOB", job, 1);
	signal(SIGALRM, on_alarm);
	started = twt_now();
	/* After those of the children, which know more. */
	alarm((unsigned)(st_seconds + ST_LONG) + 5);
	st_at(0);
}

void st_done(const char *format, ...)
{
	va_list ap;

	printf("%s: seed %llu, %.1f s: ", program, (unsigned long long)st_seed,
	       twt_now() - started);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

int st_going(void)
{
	return twt_now() < started + st_seconds;
}

void st_fail_at(const char *file, int line, const char *format, ...)
{
	char text[1500];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s: seed %llu, step %llu: %s (%s:%d)\n", program, role,
		(unsigned long long)st_seed,
		here ? (unsigned long long)atomic_load(&here->step) : 0ull, text, file, line);
	_exit(1);
}

void st_eq_at(const char *file, int line, const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		st_fail_at(file, line, "%s is %lld (%#llx), not %lld (%#llx)", what, (long long)got,
			   (unsigned long long)got, (long long)want, (unsigned long long)want);
}

void st_ok_at(const char *file, int line, const char *what, mx_return_t rc)
{
	if (rc != MX_SUCCESS)
		st_fail_at(file, line, "%s: %d (%s)", what, (int)rc, mx_strerror(rc));
}

void st_sleep(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	nanosleep(&t, NULL);
}

void st_idle(unsigned *idle)
{
	if (++*idle % 8 == 0)
		sched_yield();
	/* Whoever we wait for may need this core for longer than that. */
	if (*idle > 2000 && *idle % 8 == 0)
		st_sleep(50e-6);
}

void *st_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		st_fail("mmap: %s", strerror(errno));
	return p;
}

void st_meet(atomic_uint *count, unsigned n)
{
	unsigned all = atomic_fetch_add(count, 1) / n * n + n;

	while (atomic_load(count) < all)
		st_sleep(100e-6);
}

uint64_t st_hash(uint64_t a, uint64_t b)
{
	uint64_t state = a * 0xd1342543de82ef95ull + b;

	return twt_random(&state);
}

void st_put(int fd, const void *buf, size_t len)
{
	if (twt_put(fd, buf, len) < 0)
		st_fail("the process at the other end is gone");
}

void st_get(int fd, void *buf, size_t len)
{
	if (twt_get(fd, buf, len) < 0)
		st_fail("the process at the other end is gone");
}

void st_join(struct twt_child *child, int n)
{
	double end = twt_now() + ST_LONG + st_seconds, grace = 0;
	int left = n, code = 0, status;

	while (left) {
		for (int i = 0; i < n; i++) {
			if (child[i].pid <= 0 || waitpid(child[i].pid, &status, WNOHANG) == 0)
				continue;
			child[i].pid = 0;
			close(child[i].fd);
			left--;
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
				continue;
			fprintf(stderr, "%s: seed %llu: process %d of %d ended with %s %d\n",
				program, (unsigned long long)st_seed, i, n,
				WIFSIGNALED(status) ? "signal" : "code",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			if (!code)
				grace = twt_now() + ST_SOON;
			code = WIFEXITED(status) && WEXITSTATUS(status) == ST_SKIP ? ST_SKIP : 1;
		}
		/* The others may have something to say as well; then they are killed. */
		if (code && twt_now() > grace)
			break;
		if (!code && twt_now() > end)
			st_fail("%d of %d processes do not end", left, n);
		st_sleep(0.002);
	}
	if (code)
		_exit(code);
}

void st_cases(int n, atomic_uint *meet, int (*process)(void *arg, int fd))
{
	for (int i = 0; i < n; i++) {
		struct st_case arg[2] = {{i, 0}, {i, 1}};
		struct twt_child child[2];

		st_at(i);
		atomic_store(meet, 0);
		for (int k = 0; k < 2; k++)
			twt_spawn(&child[k], process, &arg[k]);
		st_join(child, 2);
	}
}

void st_alive(struct twt_child *child, int n)
{
	for (int i = 0; i < n; i++) {
		siginfo_t info = {.si_pid = 0};

		if (waitid(P_PID, (id_t)child[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    !info.si_pid)
			continue;
		st_join(child, n);
		st_fail("process %d ended too soon", i);
	}
}

/* The same amount from each child; a child that is gone ends it all. */
static void gather(struct twt_child *child, int n, void *each, size_t len)
{
	struct pollfd p[ST_CREW];
	int left = n;

	if (n < 1 || n > ST_CREW)
		st_fail("%d processes, not up to %d", n, ST_CREW);
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){.fd = child[i].fd, .events = POLLIN};
	while (left) {
		if (poll(p, (unsigned)n, -1) < 0 && errno != EINTR)
			st_fail("poll: %s", strerror(errno));
		for (int i = 0; i < n; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			if (twt_get(p[i].fd, (char *)each + (size_t)i * len, len) < 0) {
				st_join(child, n);
				st_fail("process %d ended too soon", i);
			}
			p[i].fd = -1;
			left--;
		}
	}
}

static void tell(struct twt_child *child, int n, const void *buf, size_t len)
{
	for (int i = 0; i < n; i++)
		if (twt_put(child[i].fd, buf, len) < 0) {
			st_join(child, n);
			st_fail("process %d ended too soon", i);
		}
}

struct member {
	int rank, n;
	uint32_t unexp;
	void (*fn)(struct st_me *me);
};

static int member(void *arg, int fd)
{
	struct member *m = arg;
	struct st_me me = {.rank = m->rank, .n = m->n, .fd = fd};
	mx_param_t param = {.key = MX_PARAM_UNEXP_QUEUE_MAX, .val.unexp_queue_max = m->unexp};
	char c = 0;

	st_role("rank %d", m->rank);
	st_up();
	me.ep = st_open(MX_ANY_ENDPOINT, m->unexp ? &param : NULL, m->unexp ? 1 : 0);
	me.name[me.rank] = st_whose(st_self(me.ep));
	st_put(fd, &me.name[me.rank], sizeof(*me.name));
	st_get(fd, me.name, (size_t)me.n * sizeof(*me.name));
	for (int i = 0; i < me.n; i++)
		me.addr[i] = st_connect(me.ep, me.name[i]);
	st_at(1);
	st_put(fd, &c, 1);
	st_get(fd, &c, 1);
	m->fn(&me);
	st_at(2);
	st_put(fd, me.count, sizeof(me.count));
	st_get(fd, &c, 1);
	st_at(3);
	st_ok(mx_close_endpoint(me.ep));
	st_ok(mx_finalize());
	return 0;
}

void st_crew(int n, uint32_t unexp, void (*fn)(struct st_me *me), uint64_t total[4])
{
	struct twt_child child[ST_CREW];
	struct st_name name[ST_CREW];
	uint64_t count[ST_CREW][4];
	char c[ST_CREW];

	st_check(n <= ST_CREW);
	for (int i = 0; i < n; i++) {
		struct member m = {i, n, unexp, fn};

		(i % 2 ? twt_spawn : twt_spawn_here)(&child[i], member, &m);
	}
	gather(child, n, name, sizeof(*name));
	tell(child, n, name, (size_t)n * sizeof(*name));
	gather(child, n, c, 1);
	tell(child, n, c, 1);
	gather(child, n, count, sizeof(*count));
	tell(child, n, c, 1);
	st_join(child, n);
	for (int i = 0; total && i < n; i++)
		for (int k = 0; k < 4; k++)
			total[k] += count[i][k];
}

int st_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -1; /* the directory's own */

	if (!dir)
		st_fail("/proc/self/fd: %s", strerror(errno));
	for (struct dirent *d; (d = readdir(dir));)
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

void st_fds_list(void)
{
	char path[64], to[200];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		if (n > 0)
			fprintf(stderr, "descriptor %d: %.*s\n", fd, (int)n, to);
	}
}

/*
 * Whether a directory holds a name with the word in it. Those of directories do not count: sockets
 * that killed processes leave there are removed by others.
 */
static int holds(const char *path, const char *word, char *found, size_t len)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (!dir)
		return 0;
	for (struct dirent *d; !n && (d = readdir(dir));)
		if (d->d_type != DT_DIR && strstr(d->d_name, word)) {
			snprintf(found, len, "%s/%s", path, d->d_name);
			n = 1;
		}
	closedir(dir);
	return n;
}

static int left_over(char *found, size_t len)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[300];
	int n = 0;

	while (f && !n && fgets(line, sizeof(line), f)) {
		const char *name = strstr(line, "@tagwire");

		if (name && strstr(name, job)) {
			snprintf(found, len, "%.*s", (int)strcspn(name, "\n"), name);
			n = 1;
		}
	}
	if (f)
		fclose(f);
	/* Others may keep files of theirs in /tmp; in /dev/shm nobody should. */
	return n || holds("/tmp", job, found, len) || holds("/dev/shm", job, found, len) ||
	       holds("/dev/shm", "tagwire", found, len);
}

void st_leftovers(void)
{
	double end = twt_now() + ST_SOON;
	char found[400];

	while (left_over(found, sizeof(found))) {
		if (twt_now() > end)
			st_fail("left behind by processes that are gone: %s", found);
		st_sleep(0.01);
	}
}
