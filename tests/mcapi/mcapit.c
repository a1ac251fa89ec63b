/* SPDX-License-Identifier: BSD-2-Clause */
#include "mcapi/mcapit.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Thread_local mcapi_status_t mct_status;
static pid_t test_pid;

void mct_fail(const char *file, int line, const char *format, ...)
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

void mct_eq_at(const char *file, int line, const char *what, int64_t got, int64_t want)
{
	if (got != want)
		mct_fail(file, line, "%s is %lld (%#llx), not %lld (%#llx)", what, (long long)got,
			 (unsigned long long)got, (long long)want, (unsigned long long)want);
}

void mct_is_at(const char *file, int line, const char *call, mcapi_status_t want)
{
	mct_seen(call, mct_status);
	if (mct_status != want)
		mct_fail(file, line, "%s: %s, not %s", call, mct_name(mct_status), mct_name(want));
}

/* What is found only when the time is over was there before, unnoticed. */
static void in_time(const char *file, int line, double start)
{
	double took = twt_now() - start;

	if (took > MCT_LONG / 1000. - 0.2)
		mct_fail(file, line, "noticed after %.1f s only", took);
}

void mct_job(void)
{
	char job[32];

	test_pid = getpid();
	/* The time too: numbers of processes come again. */
	snprintf(job, sizeof(job), "c%d-%x", (int)test_pid,
		 (unsigned)(long long)(twt_now() * 1000) & 0xffffff);
	setenv("TAGWIRE_JOB", job, 1);
}

void mct_up(mcapi_node_t node)
{
	mcapi_version_t version = 0;

	mct_ok(mcapi_initialize(node, &version, ST));
	mct_check(version != 0);
}

void mct_down(void)
{
	mct_ok(mcapi_finalize(ST));
}

/* ------------------------------------------------------------------- crews */

static void run_member(void *arg)
{
	struct mct_me *me = arg;

	if (!me->wild)
		mct_up((mcapi_node_t)me->rank);
	me->fn(me);
	if (!me->wild)
		mct_down();
}

static int run_child(void *arg, int fd)
{
	(void)fd;
	run_member(arg);
	return 0;
}

static void crew(enum mct_how how, int n, void (*fn)(struct mct_me *me), int wild)
{
	struct mct_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mct_thread *thread = calloc((size_t)n, sizeof(*thread));
	struct twt_child *child = calloc((size_t)n, sizeof(*child));
	struct mct_me *me = calloc((size_t)n, sizeof(*me));

	mct_check(shared != MAP_FAILED && thread && child && me);
	for (int i = 0; i < n; i++) {
		me[i] = (struct mct_me){i, n, shared, fn, wild};
		if (how == MCT_THREADS)
			mct_start(&thread[i], run_member, &me[i]);
		else
			twt_spawn(&child[i], run_child, &me[i]);
	}
	for (int i = 0; i < n; i++) {
		if (how == MCT_THREADS)
			mct_join(&thread[i]);
		else
			mct_eq(twt_join(&child[i], MCT_CHILD), 0);
	}
	free(me);
	free(child);
	free(thread);
	munmap(shared, sizeof(*shared));
}

void mct_crew(enum mct_how how, int n, void (*fn)(struct mct_me *me))
{
	crew(how, n, fn, 0);
}

void mct_wild(enum mct_how how, int n, void (*fn)(struct mct_me *me))
{
	crew(how, n, fn, 1);
}

void mct_meet(struct mct_me *me)
{
	unsigned n = (unsigned)me->n;
	unsigned all = atomic_fetch_add(&me->shared->met, 1) / n * n + n;
	double end = twt_now() + MCT_CHILD / 2;

	while (atomic_load(&me->shared->met) < all) {
		if (twt_now() > end)
			mct_fail(__FILE__, __LINE__, "node %d: the others do not come", me->rank);
		mct_sleep(1);
	}
}

void mct_until(struct mct_me *me, int word, uint64_t value)
{
	double end = twt_now() + MCT_CHILD / 2;

	while (atomic_load(&me->shared->word[word]) < value) {
		if (twt_now() > end)
			mct_fail(__FILE__, __LINE__, "node %d: word %d does not change", me->rank,
				 word);
		mct_sleep(1);
	}
}

/* --------------------------------------------------- endpoints and messages */

mcapi_endpoint_t mct_create(mcapi_port_t port)
{
	mcapi_endpoint_t ep = 0;

	mct_ok(ep = mcapi_create_endpoint(port, ST));
	return ep;
}

mcapi_endpoint_t mct_get(mcapi_node_t node, mcapi_port_t port)
{
	double start = twt_now();
	mcapi_endpoint_t ep = 0;

	mct_ok(ep = mcapi_get_endpoint(node, port, ST));
	in_time(__FILE__, __LINE__, start);
	return ep;
}

void mct_delete(mcapi_endpoint_t ep)
{
	mct_ok(mcapi_delete_endpoint(ep, ST));
}

uint32_t mct_attr(mcapi_endpoint_t ep, mcapi_uint_t number)
{
	uint32_t value = 0x5a5a5a5a;

	mct_ok(mcapi_get_endpoint_attribute(ep, number, &value, sizeof(value), ST));
	return value;
}

void mct_set_attr(mcapi_endpoint_t ep, mcapi_uint_t number, uint32_t value)
{
	mct_ok(mcapi_set_endpoint_attribute(ep, number, &value, sizeof(value), ST));
	mct_eq(mct_attr(ep, number), value);
}

void mct_send(mcapi_endpoint_t from, mcapi_endpoint_t to, uint64_t value, mcapi_priority_t prio)
{
	mct_ok(mcapi_msg_send(from, to, &value, sizeof(value), prio, ST));
}

uint64_t mct_recv(mcapi_endpoint_t ep)
{
	double start = twt_now();
	uint64_t value = 0;
	size_t size = 77;

	mct_ok(mcapi_msg_recv(ep, &value, sizeof(value), &size, ST));
	in_time(__FILE__, __LINE__, start);
	mct_eq(size, sizeof(value));
	return value;
}

void mct_available(mcapi_endpoint_t ep, unsigned n)
{
	double end = twt_now() + MCT_LONG / 1000.;
	unsigned got = 0;

	for (;;) {
		mct_ok(got = mcapi_msg_available(ep, ST));
		if (got >= n || twt_now() > end)
			break;
		mct_sleep(1);
	}
	mct_eq(got, n);
}

/* ---------------------------------------------------------------- requests */

size_t mct_done_at(const char *file, int line, mcapi_request_t *req)
{
	double start = twt_now();
	size_t size = (size_t)-77;
	mcapi_boolean_t done;

	mct_status = MCAPI_ERROR;
	done = mcapi_wait(req, &size, ST, MCT_LONG);
	mct_is_at(file, line, "mcapi_wait()", MCAPI_SUCCESS);
	mct_eq_at(file, line, "what mcapi_wait() returned", done, MCAPI_TRUE);
	in_time(file, line, start);
	return size;
}

void mct_ends_at(const char *file, int line, mcapi_request_t *req, mcapi_status_t want)
{
	double start = twt_now();
	size_t size = 0;
	mcapi_boolean_t done;

	mct_status = MCAPI_ERROR;
	done = mcapi_wait(req, &size, ST, MCT_LONG);
	mct_is_at(file, line, "mcapi_wait()", want);
	mct_eq_at(file, line, "what mcapi_wait() returned", done, MCAPI_FALSE);
	in_time(file, line, start);
}

void mct_pending_at(const char *file, int line, mcapi_request_t *req)
{
	size_t size = 0;
	mcapi_boolean_t done;

	mct_status = MCAPI_ERROR;
	done = mcapi_test(req, &size, ST);
	mct_is_at(file, line, "mcapi_test()", MCAPI_INCOMPLETE);
	mct_eq_at(file, line, "what mcapi_test() returned", done, MCAPI_FALSE);
}

/* ----------------------------------------------------------------- threads */

void mct_sleep(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) < 0)
		;
}

static void *run(void *arg)
{
	struct mct_thread *t = arg;

	atomic_store(&t->tid, (int)syscall(SYS_gettid));
	t->fn(t->arg);
	atomic_store(&t->done, 1);
	return NULL;
}

void mct_start(struct mct_thread *t, void (*fn)(void *arg), void *arg)
{
	t->fn = fn;
	t->arg = arg;
	atomic_store(&t->tid, 0);
	atomic_store(&t->done, 0);
	mct_eq(pthread_create(&t->id, NULL, run, t), 0);
}

void mct_join(struct mct_thread *t)
{
	double end = twt_now() + MCT_CHILD;

	while (!atomic_load(&t->done)) {
		if (twt_now() > end)
			mct_fail(__FILE__, __LINE__, "a thread does not end");
		mct_sleep(1);
	}
	mct_eq(pthread_join(t->id, NULL), 0);
}

static char thread_state(int tid)
{
	char path[64], text[256] = "";
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
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

void mct_asleep(struct mct_thread *t)
{
	double end = twt_now() + MCT_CHILD / 2;

	for (int seen = 0; seen < 20; mct_sleep(5)) {
		int tid = atomic_load(&t->tid);

		if (atomic_load(&t->done))
			mct_fail(__FILE__, __LINE__, "a call returned that should block");
		if (twt_now() > end)
			mct_fail(__FILE__, __LINE__, "a blocked call does not sleep");
		if (tid)
			seen = thread_state(tid) == 'S' ? seen + 1 : 0;
	}
}
