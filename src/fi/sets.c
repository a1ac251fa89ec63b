/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of what can be waited for: wait sets sleep, poll sets look. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/sys.h"
#include "fi/fi.h"

struct tw_fi_pollset {
	struct fid_poll fid;
	struct tw_fi_domain *domain;
	struct fid *members[64];
	uint64_t seen[64]; /* values of counters */
	unsigned n;
};

/* Wait sets ------------------------------------------------------------------- */

static int waitset_wait(struct fid_wait *fid, int timeout)
{
	struct tw_fi_waitset *s = tw_fi_of(struct tw_fi_waitset, fid);
	bool served = tw_settings.service && !tw_settings.single_threaded;
	uint64_t end = tw_clock() + tw_clock_us(1000ull * (unsigned)tw_max(timeout, 0));
	struct pollfd p = {.fd = s->epfd, .events = POLLIN};

	for (;;) {
		uint64_t now = tw_clock();
		int n, ms = timeout < 0
				    ? -1
				    : (int)((now < end ? end - now : 0) / tw_clock_per_us / 1000);

		for (unsigned k = 0; k < s->n; k++)
			if (!tw_fi_arm(s->members[k]))
				return 0;
		n = tw_sys_poll(&p, 1, served ? (ms < 0 ? -1 : ms + 1) : TW_FI_LOOK_MS);
		if (n < 0 && errno == EINTR)
			return -FI_EINTR;
		if (n == 0 && timeout >= 0 && tw_clock() >= end)
			return -FI_ETIMEDOUT;
	}
}

static int waitset_control(struct fid *fid, int command, void *arg)
{
	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = FI_WAIT_FD;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	*(int *)arg = tw_fi_from(struct tw_fi_waitset, fid)->epfd;
	return 0;
}

static int waitset_close(struct fid *fid)
{
	struct tw_fi_waitset *s = tw_fi_from(struct tw_fi_waitset, fid);

	if (atomic_load(&s->refs))
		return -FI_EBUSY;
	tw_fd_close(s->epfd);
	atomic_fetch_sub(&s->fabric->refs, 1);
	free(s);
	return 0;
}

static struct fi_ops waitset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = waitset_close,
	.bind = tw_fi_no_bind,
	.control = waitset_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_wait waitset_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = waitset_wait,
};

int tw_fi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
	struct tw_fi_waitset *s;

	if (attr && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	s->epfd = tw_fd_own(epoll_create1(EPOLL_CLOEXEC));
	if (s->epfd < 0) {
		free(s);
		return -FI_EMFILE;
	}
	s->fid.fid.fclass = FI_CLASS_WAIT;
	s->fid.fid.ops = &waitset_fid_ops;
	s->fid.ops = &waitset_ops;
	s->fabric = tw_fi_of(struct tw_fi_fabric, fabric);
	atomic_fetch_add(&s->fabric->refs, 1);
	*out = &s->fid;
	return 0;
}

/* Poll sets ------------------------------------------------------------------- */

static bool has_events(struct tw_fi_pollset *s, unsigned i)
{
	struct fid *fid = s->members[i];
	struct tw_fi_waiter *w = tw_fi_waiter_of(fid);
	struct tw_fi_cntr *c;
	uint64_t now;

	for (unsigned k = 0; k < w->neps; k++)
		tw_fi_progress(w->eps[k]);
	if (fid->fclass != FI_CLASS_CNTR)
		return w->ready(w);
	c = tw_fi_from(struct tw_fi_cntr, fid);
	now = atomic_load(&c->value) + atomic_load(&c->errors);
	if (now == s->seen[i])
		return false;
	s->seen[i] = now;
	return true;
}

static int pollset_poll(struct fid_poll *fid, void **context, int count)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);
	int n = 0;

	for (unsigned i = 0; i < s->n && n < count; i++)
		if (has_events(s, i))
			context[n++] = s->members[i]->context;
	return n;
}

static int pollset_add(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);

	(void)flags;
	if (!tw_fi_waiter_of(member))
		return -FI_EINVAL;
	if (s->n == tw_countof(s->members))
		return -FI_ENOMEM;
	s->seen[s->n] = 0;
	s->members[s->n++] = member;
	return 0;
}

static int pollset_del(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);

	(void)flags;
	for (unsigned i = 0; i < s->n; i++) {
		if (s->members[i] != member)
			continue;
		s->n--;
		s->members[i] = s->members[s->n];
		s->seen[i] = s->seen[s->n];
		return 0;
	}
	return -FI_EINVAL;
}

static int pollset_close(struct fid *fid)
{
	struct tw_fi_pollset *s = tw_fi_from(struct tw_fi_pollset, fid);

	atomic_fetch_sub(&s->domain->refs, 1);
	free(s);
	return 0;
}

static struct fi_ops pollset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = pollset_close,
	.bind = tw_fi_no_bind,
	.control = tw_fi_no_control,
	.ops_open = tw_fi_no_ops,
};

static struct fi_ops_poll pollset_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = pollset_poll,
	.poll_add = pollset_add,
	.poll_del = pollset_del,
};

int tw_fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct tw_fi_pollset *s;

	if (attr && attr->flags)
		return -FI_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FI_ENOMEM;
	s->fid.fid.fclass = FI_CLASS_POLL;
	s->fid.fid.ops = &pollset_fid_ops;
	s->fid.ops = &pollset_ops;
	s->domain = tw_fi_of(struct tw_fi_domain, domain);
	atomic_fetch_add(&s->domain->refs, 1);
	*out = &s->fid;
	return 0;
}
