/* SPDX-License-Identifier: BSD-2-Clause */
#include "mx/mxt.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

void mxt_rc_at(const char *file, int line, const char *what, mx_return_t want, mx_return_t got)
{
	if (got != want)
		mxt_fail(file, line, "%s: %d (%s), not %d (%s)", what, (int)got, mx_strerror(got),
			 (int)want, mx_strerror(want));
}

/* What is found only when the time is over was there before, unnoticed. */
static void in_time(const char *file, int line, double start)
{
	double took = twt_now() - start;

	if (took > MXT_LONG / 1000. - 0.2)
		mxt_fail(file, line, "noticed after %.1f s only", took);
}

void mxt_job(void)
{
	twc_job();
	unsetenv("MX_ERRORS_ARE_FATAL");
}

void mxt_same_host(void)
{
	if (getenv("TWT_NETNS"))
		cr_skip_test("the processes must be on one host");
}

/* 0, or the error of reading the parent's memory. */
static int reads_parent(void *arg, int fd)
{
	char here;
	struct iovec into = {&here, 1}, from = {arg, 1};

	(void)fd;
	return process_vm_readv(getppid(), &into, 1, &from, 1, 0) == 1 ? 0 : errno;
}

void mxt_shared_reads(void)
{
	static char byte;
	struct twt_child child;
	int error;

	mxt_same_host();
	twt_spawn(&child, reads_parent, &byte);
	error = twt_join(&child, TWT_LONG);
	if (error)
		cr_skip_test("process_vm_readv: %s", strerror(error));
}

void mxt_up(void)
{
	mx_set_error_handler(MX_ERRORS_RETURN);
	mxt_ok(mx_init());
}

void mxt_down(void)
{
	mxt_ok(mx_finalize());
}

mx_endpoint_t mxt_open(uint32_t id)
{
	mx_endpoint_t ep = NULL;

	mxt_ok(mx_open_endpoint(twt_board, id, MXT_KEY, NULL, 0, &ep));
	mxt_check(ep);
	return ep;
}

void mxt_close(mx_endpoint_t ep)
{
	double start = twt_now();

	mxt_ok(mx_close_endpoint(ep));
	in_time(__FILE__, __LINE__, start);
}

mx_endpoint_t mxt_reopen(uint32_t id)
{
	double end = twt_now() + MXT_LONG / 1000.;
	mx_endpoint_t ep = NULL;
	mx_return_t rc;

	while ((rc = mx_open_endpoint(twt_board, id, MXT_KEY, NULL, 0, &ep)) == MX_BUSY &&
	       twt_now() < end)
		mxt_sleep(5);
	mxt_rc(MX_SUCCESS, rc);
	return ep;
}

struct mxt_name mxt_whose(mx_endpoint_addr_t addr)
{
	struct mxt_name name = {0, 0};

	mxt_ok(mx_decompose_endpoint_addr(addr, &name.nic, &name.id));
	return name;
}

mx_endpoint_addr_t mxt_self(mx_endpoint_t ep)
{
	mx_endpoint_addr_t addr;

	memset(&addr, 0, sizeof(addr));
	mxt_ok(mx_get_endpoint_addr(ep, &addr));
	return addr;
}

struct mxt_name mxt_name(mx_endpoint_t ep)
{
	return mxt_whose(mxt_self(ep));
}

mx_endpoint_addr_t mxt_connect(mx_endpoint_t ep, struct mxt_name to)
{
	double start = twt_now();
	mx_endpoint_addr_t addr;

	memset(&addr, 0, sizeof(addr));
	mxt_ok(mx_connect(ep, to.nic, to.id, MXT_KEY, MXT_LONG / 1000, &addr));
	in_time(__FILE__, __LINE__, start);
	return addr;
}

int mxt_same_addr(mx_endpoint_addr_t a, mx_endpoint_addr_t b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

int mxt_same_name(struct mxt_name a, struct mxt_name b)
{
	return a.nic == b.nic && a.id == b.id;
}

void mxt_pair(struct mxt_pair *p)
{
	p->a = mxt_open(MX_ANY_ENDPOINT);
	p->b = mxt_open(MX_ANY_ENDPOINT);
	p->ab = mxt_connect(p->a, mxt_name(p->b));
	p->ba = mxt_connect(p->b, mxt_name(p->a));
}

void mxt_pair_end(struct mxt_pair *p)
{
	mxt_close(p->a);
	mxt_close(p->b);
}

static void meet(struct mxt_side *s)
{
	mxt_up();
	s->ep = mxt_open(MX_ANY_ENDPOINT);
	s->me = mxt_name(s->ep);
	mxt_eq(twt_put(s->fd, &s->me, sizeof(s->me)), 0);
	mxt_eq(twt_get(s->fd, &s->other, sizeof(s->other)), 0);
	s->peer = mxt_connect(s->ep, s->other);
	/* Neither leaves before both are connected. */
	mxt_signal(s->fd);
	mxt_await(s->fd);
}

static int far_side(void *arg, int fd)
{
	struct mxt_side *s = arg;

	s->fd = fd;
	meet(s);
	s->fn(s);
	if (s->ep)
		mxt_close(s->ep);
	mxt_down();
	return 0;
}

void mxt_two(struct mxt_side *s, void (*fn)(struct mxt_side *s), void *arg)
{
	memset(s, 0, sizeof(*s));
	s->fn = fn;
	s->arg = arg;
	twt_spawn(&s->child, far_side, s);
	s->fd = s->child.fd;
	meet(s);
}

void mxt_two_end(struct mxt_side *s)
{
	if (s->ep)
		mxt_close(s->ep);
	mxt_down();
	mxt_eq(twt_join(&s->child, MXT_CHILD), 0);
}

static int idle(void *arg, int fd)
{
	struct mxt_name name;
	mx_endpoint_t ep;

	mxt_up();
	ep = mxt_open(*(uint32_t *)arg);
	name = mxt_name(ep);
	mxt_eq(twt_put(fd, &name, sizeof(name)), 0);
	mxt_await(fd);
	mxt_close(ep);
	mxt_signal(fd);
	mxt_await(fd);
	mxt_down();
	return 0;
}

struct mxt_name mxt_idle(struct twt_child *c, uint32_t id)
{
	struct mxt_name name;

	twt_spawn(c, idle, &id);
	mxt_eq(twt_get(c->fd, &name, sizeof(name)), 0);
	return name;
}

void mxt_idle_close(struct twt_child *c)
{
	mxt_signal(c->fd);
	mxt_await(c->fd);
}

void mxt_idle_end(struct twt_child *c)
{
	mxt_signal(c->fd);
	mxt_eq(twt_join(c, MXT_CHILD), 0);
}

void mxt_stop(pid_t pid)
{
	int status;

	mxt_eq(kill(pid, SIGSTOP), 0);
	mxt_eq(waitpid(pid, &status, WUNTRACED), pid);
	mxt_check(WIFSTOPPED(status));
}

void mxt_kill(struct twt_child *c)
{
	mxt_eq(kill(c->pid, SIGKILL), 0);
	mxt_eq(twt_join(c, MXT_CHILD), 1000 + SIGKILL);
}

mx_request_t mxt_isend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
		       uint64_t match)
{
	mx_segment_t seg = {(void *)(uintptr_t)buf, (uint32_t)len};
	mx_request_t req = NULL;

	mxt_ok(mx_isend(ep, &seg, 1, to, match, NULL, &req));
	mxt_check(req);
	return req;
}

mx_request_t mxt_issend(mx_endpoint_t ep, const void *buf, size_t len, mx_endpoint_addr_t to,
			uint64_t match)
{
	mx_segment_t seg = {(void *)(uintptr_t)buf, (uint32_t)len};
	mx_request_t req = NULL;

	mxt_ok(mx_issend(ep, &seg, 1, to, match, NULL, &req));
	mxt_check(req);
	return req;
}

mx_request_t mxt_irecv(mx_endpoint_t ep, void *buf, size_t len, uint64_t match)
{
	mx_segment_t seg = {buf, (uint32_t)len};
	mx_request_t req = NULL;

	mxt_ok(mx_irecv(ep, &seg, 1, match, MXT_ALL, NULL, &req));
	mxt_check(req);
	return req;
}

mx_status_t mxt_wait_at(const char *file, int line, mx_endpoint_t ep, mx_request_t *req,
			mx_status_code_t want)
{
	double start = twt_now();
	uint32_t result = 77;
	mx_status_t status;

	memset(&status, 0xa5, sizeof(status));
	mxt_rc_at(file, line, "mx_wait", MX_SUCCESS, mx_wait(ep, req, MXT_LONG, &status, &result));
	if (!result || result == 77)
		mxt_fail(file, line, "the request is still pending (result %u)", result);
	in_time(file, line, start);
	if (status.code != want)
		mxt_fail(file, line, "status %d (%s), not %d (%s)", (int)status.code,
			 mx_strstatus(status.code), (int)want, mx_strstatus(want));
	return status;
}

void mxt_pending_at(const char *file, int line, mx_endpoint_t ep, mx_request_t *req)
{
	mx_status_t status, untouched;
	uint32_t result = 77;

	memset(&status, 0xa5, sizeof(status));
	memset(&untouched, 0xa5, sizeof(untouched));
	mxt_rc_at(file, line, "mx_test", MX_SUCCESS, mx_test(ep, req, &status, &result));
	mxt_eq_at(file, line, "the result of a pending request", result, 0);
	if (memcmp(&status, &untouched, sizeof(status)))
		mxt_fail(file, line, "mx_test changed the status of a pending request");
}

mx_status_t mxt_probe_at(const char *file, int line, mx_endpoint_t ep, uint64_t match)
{
	double start = twt_now();
	uint32_t result = 77;
	mx_status_t status;

	memset(&status, 0xa5, sizeof(status));
	mxt_rc_at(file, line, "mx_probe", MX_SUCCESS,
		  mx_probe(ep, MXT_LONG, match, MXT_ALL, &status, &result));
	if (!result || result == 77)
		mxt_fail(file, line, "no message arrived (result %u)", result);
	in_time(file, line, start);
	return status;
}

uint32_t mxt_counted(const char *label)
{
	uint32_t board = 0, n, at = 0, found, *values;
	char(*labels)[MX_MAX_STR_LEN];

	mxt_ok(mx_get_info(NULL, MX_COUNTERS_COUNT, &board, sizeof(board), &n, sizeof(n)));
	labels = malloc(n * sizeof(*labels));
	values = malloc(n * sizeof(*values));
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_LABELS, &board, sizeof(board), labels,
			   n * MX_MAX_STR_LEN));
	mxt_ok(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), values, n * 4));
	while (at < n && strcmp(labels[at], label))
		at++;
	mxt_check(at < n);
	found = values[at];
	free(labels);
	free(values);
	return found;
}
