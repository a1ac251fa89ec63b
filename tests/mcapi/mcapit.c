/* SPDX-License-Identifier: BSD-2-Clause */
#include "mcapi/mcapit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

_Thread_local mcapi_status_t mct_status;

void mct_is_at(const char *file, int line, const char *call, mcapi_status_t want)
{
	mct_seen(call, mct_status);
	if (mct_status != want)
		twc_fail(file, line, "%s: %s, not %s", call, mct_name(mct_status), mct_name(want));
}

/* What is found only when the time is over was there before, unnoticed. */
static void in_time(const char *file, int line, double start)
{
	double took = twt_now() - start;

	if (took > MCT_LONG / 1000. - 0.2)
		twc_fail(file, line, "noticed after %.1f s only", took);
}

void mct_up(mcapi_node_t node)
{
	mcapi_version_t version = 0;

	mct_ok(mcapi_initialize(node, &version, ST));
	twc_check(version != 0);
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

/* Between two hosts, node 0 stays on this one: tests/net/mcapi. */
static void spawn(struct twt_child *child, struct mct_me *me)
{
	const char *there = getenv("TWT_NETNS");
	char *keep = there && me->rank == 0 ? strdup(there) : NULL;

	if (keep)
		unsetenv("TWT_NETNS");
	twt_spawn(child, run_child, me);
	if (keep)
		setenv("TWT_NETNS", keep, 1);
	free(keep);
}

static void crew(enum mct_how how, int n, void (*fn)(struct mct_me *me), int wild)
{
	struct mct_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct twc_thread *thread = calloc((size_t)n, sizeof(*thread));
	struct twt_child *child = calloc((size_t)n, sizeof(*child));
	struct mct_me *me = calloc((size_t)n, sizeof(*me));

	twc_check(shared != MAP_FAILED && thread && child && me);
	for (int i = 0; i < n; i++) {
		me[i] = (struct mct_me){i, n, shared, fn, wild};
		if (how == MCT_THREADS)
			twc_start(&thread[i], run_member, &me[i]);
		else
			spawn(&child[i], &me[i]);
	}
	for (int i = 0; i < n; i++) {
		if (how == MCT_THREADS)
			twc_join(&thread[i]);
		else
			twc_eq(twt_join(&child[i], MCT_CHILD), 0);
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
			twc_fail(__FILE__, __LINE__, "node %d: the others do not come", me->rank);
		twc_sleep(1);
	}
}

void mct_until(struct mct_me *me, int word, uint64_t value)
{
	double end = twt_now() + MCT_CHILD / 2;

	while (atomic_load(&me->shared->word[word]) < value) {
		if (twt_now() > end)
			twc_fail(__FILE__, __LINE__, "node %d: word %d does not change", me->rank,
				 word);
		twc_sleep(1);
	}
}

void mct_stop(const struct twt_child *c)
{
	int status;

	twc_eq(kill(c->pid, SIGSTOP), 0);
	twc_eq(waitpid(c->pid, &status, WUNTRACED), c->pid);
	twc_check(WIFSTOPPED(status));
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
	twc_eq(mct_attr(ep, number), value);
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
	twc_eq(size, sizeof(value));
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
		twc_sleep(1);
	}
	twc_eq(got, n);
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
	twc_eq_at(file, line, "what mcapi_wait() returned", done, MCAPI_TRUE);
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
	twc_eq_at(file, line, "what mcapi_wait() returned", done, MCAPI_FALSE);
	in_time(file, line, start);
}

void mct_pending_at(const char *file, int line, mcapi_request_t *req)
{
	size_t size = 0;
	mcapi_boolean_t done;

	mct_status = MCAPI_ERROR;
	done = mcapi_test(req, &size, ST);
	mct_is_at(file, line, "mcapi_test()", MCAPI_INCOMPLETE);
	twc_eq_at(file, line, "what mcapi_test() returned", done, MCAPI_FALSE);
}
