/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/twc.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Bytes that a process may have more than before: some requests and tables are kept. */
#define LEFT (512 << 10)

/* Sanitizers have a malloc of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURED false
#else
#define MEASURED true
#endif

static pid_t test_pid;

void twc_fail(const char *file, int line, const char *format, ...)
{
	char text[600];
	int n = snprintf(text, sizeof(text), "%s:%d: ", file, line);
	va_list ap;

	va_start(ap, format);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, ap);
	va_end(ap);
	/* Criterion leaves the test by a jump, which only its thread can make. */
	if (getpid() == test_pid && syscall(SYS_gettid) == test_pid)
		cr_assert_fail("%s", text);
	fprintf(stderr, "%s\n", text);
	abort();
}

void twc_eq_at(const char *file, int line, const char *what, int64_t got, int64_t want)
{
	if (got != want)
		twc_fail(file, line, "%s is %lld (%#llx), not %lld (%#llx)", what, (long long)got,
			 (unsigned long long)got, (long long)want, (unsigned long long)want);
}

void twc_job(void)
{
	char job[32];

	test_pid = getpid();
	/* The time too: numbers of processes come again. */
	snprintf(job, sizeof(job), "t%d-%x", (int)test_pid,
		 (unsigned)(long long)(twt_now() * 1000) & 0xffffff);
	setenv("TAGWIRE_JOB", job, 1);
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
}

void twc_tell(int fd)
{
	twc_eq(twt_put(fd, "!", 1), 0);
}

void twc_hear(int fd)
{
	char c;

	twc_eq(twt_get(fd, &c, 1), 0);
}

size_t twc_allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

void twc_given_back(size_t before, void (*progress)(void *arg), void *arg)
{
	double end = twt_now() + TWC_LONG;
	size_t now;

	do {
		twc_sleep(100);
		progress(arg);
		now = twc_allocated();
	} while (MEASURED && now > before + LEFT && twt_now() < end);
	if (MEASURED && now > before + LEFT)
		twc_fail(__FILE__, __LINE__, "%zu KiB were allocated, and %zu are", before >> 10,
			 now >> 10);
}

void twc_sleep(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) < 0)
		;
}

/* Criterion's own limits are longer on a slow machine, too. */
ReportHook(PRE_ALL)(struct criterion_test_set *all)
{
	FOREACH_SET(struct criterion_suite_set * s, all->suites)
	{
		if (s->suite.data)
			s->suite.data->timeout *= twt_slow();
		if (!s->tests)
			continue;
		FOREACH_SET(struct criterion_test * t, s->tests)
		{
			t->data->timeout *= twt_slow();
		}
	}
}

static void *run(void *arg)
{
	struct twc_thread *t = arg;

	atomic_store(&t->tid, (int)syscall(SYS_gettid));
	t->fn(t->arg);
	atomic_store(&t->done, 1);
	return NULL;
}

void twc_start(struct twc_thread *t, void (*fn)(void *arg), void *arg)
{
	t->fn = fn;
	t->arg = arg;
	atomic_store(&t->tid, 0);
	atomic_store(&t->done, 0);
	twc_eq(pthread_create(&t->id, NULL, run, t), 0);
}

void twc_join(struct twc_thread *t)
{
	double end = twt_now() + TWC_LONG;

	while (!atomic_load(&t->done)) {
		if (twt_now() > end)
			twc_fail(__FILE__, __LINE__, "a thread does not end");
		twc_sleep(1);
	}
	twc_eq(pthread_join(t->id, NULL), 0);
}

static char thread_state(int tid)
{
	char path[64], text[256] = "";
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	/* The state follows the name, which stands in brackets. */
	p = strrchr(text, ')');
	return p && p[1] ? p[2] : 0;
}

void twc_asleep_tid(atomic_int *id, atomic_int *done)
{
	double end = twt_now() + TWC_LONG;

	for (int seen = 0; seen < 20; twc_sleep(5)) {
		int tid = atomic_load(id);

		if (atomic_load(done))
			twc_fail(__FILE__, __LINE__, "a call returned that should block");
		if (twt_now() > end)
			twc_fail(__FILE__, __LINE__, "a blocked call does not sleep");
		if (tid)
			seen = thread_state(tid) == 'S' ? seen + 1 : 0;
	}
}

void twc_asleep(struct twc_thread *t)
{
	twc_asleep_tid(&t->tid, &t->done);
}
