/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of what can be waited for: wait sets sleep, poll sets look. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/sys.h"
#include "fi/fi.h"

struct tw_fi_pollset {
	struct fid_poll fid;
	struct tw_fi_domain *domain;
	struct tw_list members;
};

/* A queue or a counter, which may be closed before the set. */
struct member {
	struct tw_list in_set, in_waiter;
	struct tw_fi_waiter *w;
	struct fid *fid;
	uint64_t seen; /* value of a counter */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of who is in which set */

/* A child has sets of its own alone. */
static void sets_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
}

static __attribute__((constructor)) void sets_begin(void)
{
	pthread_atfork(NULL, NULL, sets_forked);
}

/* Wait sets ------------------------------------------------------------------- */

int tw_fi_sets_join(struct tw_fi_waiter *w)
{
	struct tw_fi_waitset *s = w->set ? tw_fi_of(struct tw_fi_waitset, w->set) : NULL;
	struct epoll_event ev = {.events = EPOLLIN};
	bool room = true;

	if (!s)
		return 0;
	tw_mutex_lock(&mutex);
	room = s->n < tw_countof(s->members) &&
	       tw_sys_epoll_ctl(s->epfd, EPOLL_CTL_ADD, w->on.fd, &ev) == 0;
	if (room) {
		s->members[s->n++] = w;
		atomic_fetch_add(&s->refs, 1);
	}
	tw_mutex_unlock(&mutex);
	return room ? 0 : -FI_ENOMEM;
}

int tw_fi_waitset_arm(struct tw_fi_waitset *s)
{
	bool idle = true;

	tw_mutex_lock(&mutex);
	for (unsigned k = 0; k < s->n && idle; k++)
		idle = tw_fi_arm(s->members[k], atomic_load(&s->members[k]->seen));
	tw_mutex_unlock(&mutex);
	return idle ? 0 : -FI_EAGAIN;
}

static int waitset_wait(struct fid_wait *fid, int timeout)
{
	struct tw_fi_waitset *s = tw_fi_of(struct tw_fi_waitset, fid);
	uint64_t end = tw_fi_end(timeout);
	int rc;

	do {
		pthread_testcancel(); /* holding nothing: nowhere else */
		if (tw_fi_waitset_arm(s))
			return 0;
		rc = tw_fi_sleep(s->epfd, tw_fi_look(end));
	} while (rc == 0);
	return rc;
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
	.control = tw_fi_wait_control,
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
	s->epfd = tw_fd_own(tw_sys_epoll_create());
	if (s->epfd < 0) {
		free(s);
		return -FI_EMFILE;
	}
	s->fid.fid = (struct fid){FI_CLASS_WAIT, NULL, &waitset_fid_ops};
	s->fid.ops = &waitset_ops;
	s->fabric = tw_fi_of(struct tw_fi_fabric, fabric);
	atomic_fetch_add(&s->fabric->refs, 1);
	*out = &s->fid;
	return 0;
}

/* Poll sets ------------------------------------------------------------------- */

static bool has_events(struct member *m)
{
	tw_fi_wait_look(m->w);
	if (!m->w->ready(m->w, m->seen))
		return false;
	if (m->fid->fclass == FI_CLASS_CNTR)
		m->seen = tw_fi_cntr_sum(tw_fi_from(struct tw_fi_cntr, m->fid));
	return true;
}

static int pollset_poll(struct fid_poll *fid, void **context, int count)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);
	int found = 0;

	tw_mutex_lock(&mutex);
	tw_list_walk(&s->members, struct member, m, in_set)
		if (found < count && has_events(m))
			context[found++] = m->fid->context;
	tw_mutex_unlock(&mutex);
	return found;
}

static int pollset_add(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);
	struct tw_fi_waiter *w = tw_fi_waiter_of(member);
	struct member *m;

	(void)flags;
	if (!w)
		return -FI_EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	m->w = w;
	m->fid = member;
	tw_mutex_lock(&mutex);
	tw_list_add_tail(&s->members, &m->in_set);
	tw_list_add_tail(&w->polled, &m->in_waiter);
	tw_mutex_unlock(&mutex);
	return 0;
}

static void set_leave(struct member *m)
{
	tw_list_del(&m->in_set);
	tw_list_del(&m->in_waiter);
	free(m);
}

void tw_fi_sets_leave(struct tw_fi_waiter *w)
{
	struct tw_fi_waitset *s = w->set ? tw_fi_of(struct tw_fi_waitset, w->set) : NULL;

	tw_mutex_lock(&mutex);
	tw_list_walk(&w->polled, struct member, m, in_waiter)
		set_leave(m);
	for (unsigned i = 0; s && i < s->n; i++)
		if (s->members[i] == w)
			s->members[i--] = s->members[--s->n];
	tw_mutex_unlock(&mutex);
	if (s)
		atomic_fetch_sub(&s->refs, 1);
}

static int pollset_del(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
	struct tw_fi_pollset *s = tw_fi_of(struct tw_fi_pollset, fid);

	int rc = -FI_EINVAL;

	(void)flags;
	tw_mutex_lock(&mutex);
	tw_list_walk(&s->members, struct member, m, in_set) {
		if (m->fid == member) {
			set_leave(m);
			rc = 0;
			break;
		}
	}
	tw_mutex_unlock(&mutex);
	return rc;
}

static int pollset_close(struct fid *fid)
{
	struct tw_fi_pollset *s = tw_fi_from(struct tw_fi_pollset, fid);

	tw_mutex_lock(&mutex);
	tw_list_walk(&s->members, struct member, m, in_set)
		set_leave(m);
	tw_mutex_unlock(&mutex);
	atomic_fetch_sub(&s->domain->refs, 1);
	free(s);
	return 0;
}

static struct fi_ops pollset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = pollset_close,
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
	tw_list_init(&s->members);
	s->fid.fid = (struct fid){FI_CLASS_POLL, NULL, &pollset_fid_ops};
	s->fid.ops = &pollset_ops;
	s->domain = tw_fi_of(struct tw_fi_domain, domain);
	atomic_fetch_add(&s->domain->refs, 1);
	*out = &s->fid;
	return 0;
}
