/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping. Where one endpoint feeds a queue a thread sleeps in the engine. Else, and for
 * programs that poll a descriptor themselves, the endpoints rest, and their descriptors are
 * in an epoll set. If the service thread is faster it writes the eventfd there.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/fds.h"
#include "base/sys.h"
#include "fi/fi.h"

#define LOOK_MS 1 /* without a service thread nobody writes the eventfd */

struct tw_fi_waiter *tw_fi_waiter_of(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return &tw_fi_from(struct tw_fi_cq, fid)->w;
	case FI_CLASS_CNTR:
		return &tw_fi_from(struct tw_fi_cntr, fid)->w;
	case FI_CLASS_EQ:
		return &tw_fi_from(struct tw_fi_eq, fid)->w;
	default:
		return NULL;
	}
}

static int join_set(struct tw_fi_waiter *w)
{
	struct tw_fi_waitset *s = tw_fi_of(struct tw_fi_waitset, w->set);
	struct epoll_event ev = {.events = EPOLLIN};

	if (s->n == tw_countof(s->members) || epoll_ctl(s->epfd, EPOLL_CTL_ADD, w->fd, &ev) < 0)
		return -FI_ENOMEM;
	s->members[s->n++] = w;
	atomic_fetch_add(&s->refs, 1);
	return 0;
}

static void close_fds(struct tw_fi_waiter *w)
{
	if (w->fd >= 0)
		tw_fd_close(w->fd);
	if (w->event >= 0)
		tw_fd_close(w->event);
}

int tw_fi_wait_init(struct tw_fi_waiter *w, struct tw_fi_domain *domain, enum fi_wait_obj obj,
		    struct fid_wait *set, bool (*ready)(struct tw_fi_waiter *w))
{
	w->fd = w->event = -1;
	tw_list_init(&w->polled);
	tw_lock_init(&w->lock, domain && domain->single);
	w->obj = obj;
	w->ready = ready;
	if (obj != FI_WAIT_NONE && obj != FI_WAIT_UNSPEC && obj != FI_WAIT_FD &&
	    obj != FI_WAIT_SET && obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	if (obj == FI_WAIT_SET && !set)
		return -FI_EINVAL;
	if (obj != FI_WAIT_NONE) {
		struct epoll_event ev = {.events = EPOLLIN};

		w->fd = tw_fd_own(epoll_create1(EPOLL_CLOEXEC));
		w->event = tw_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		if (w->fd < 0 || w->event < 0 ||
		    epoll_ctl(w->fd, EPOLL_CTL_ADD, w->event, &ev) < 0) {
			close_fds(w);
			return -FI_EMFILE;
		}
	}
	if (obj == FI_WAIT_SET) {
		w->set = set;
		if (join_set(w)) {
			close_fds(w);
			return -FI_ENOMEM;
		}
	}
	w->domain = domain;
	if (domain)
		atomic_fetch_add(&domain->refs, 1);
	return 0;
}

void tw_fi_wait_fini(struct tw_fi_waiter *w)
{
	if (w->set) {
		struct tw_fi_waitset *s = tw_fi_of(struct tw_fi_waitset, w->set);

		for (unsigned i = 0; i < s->n; i++)
			if (s->members[i] == w)
				s->members[i--] = s->members[--s->n];
		atomic_fetch_sub(&s->refs, 1);
	}
	tw_fi_poll_leave(w);
	close_fds(w);
	free(w->eps);
	if (w->domain)
		atomic_fetch_sub(&w->domain->refs, 1);
}

static int watch(struct tw_fi_waiter *w, struct tw_fi_ep *e, int op)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct tw_ep *ep = w->fd >= 0 ? tw_fi_enter(e) : NULL;
	int rc;

	if (!ep)
		return 0;
	rc = epoll_ctl(w->fd, op, ep->epfd, &ev) < 0 ? -FI_ENOMEM : 0;
	tw_leave(ep);
	return rc;
}

static int add(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	struct tw_fi_ep **eps;

	for (unsigned i = 0; i < w->neps; i++)
		if (w->eps[i] == e)
			return 0;
	eps = realloc(w->eps, (w->neps + 1) * sizeof(struct tw_fi_ep *));
	if (!eps)
		return -FI_ENOMEM;
	w->eps = eps;
	w->eps[w->neps++] = e;
	return watch(w, e, EPOLL_CTL_ADD);
}

int tw_fi_wait_add(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	int rc;

	tw_lock(&w->lock);
	rc = add(w, e);
	tw_unlock(&w->lock);
	return rc;
}

void tw_fi_wait_remove(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++)
		if (w->eps[i] == e) {
			watch(w, e, EPOLL_CTL_DEL);
			w->eps[i--] = w->eps[--w->neps];
		}
	tw_unlock(&w->lock);
}

void tw_fi_wait_look(struct tw_fi_waiter *w)
{
	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++)
		tw_fi_progress(w->eps[i]);
	tw_unlock(&w->lock);
}

void tw_fi_wake(struct tw_fi_waiter *w)
{
	uint64_t one = 1;

	if (w->event >= 0 && tw_sys_write(w->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
		tw_log(TW_LOG_ERROR, "cannot wake a waiter: error %d", errno);
}

void tw_fi_wake_all(struct tw_fi_waiter *w)
{
	tw_fi_wake(w);
	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++) {
		struct tw_ep *ep = tw_fi_enter(w->eps[i]);

		if (!ep)
			continue;
		ep->events++;
		tw_leave(ep);
	}
	tw_unlock(&w->lock);
}

bool tw_fi_arm(struct tw_fi_waiter *w)
{
	bool idle = true;
	uint64_t count;

	if (w->event >= 0 && tw_sys_read(w->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return false;
	atomic_store(&w->armed, true);
	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++) {
		struct tw_ep *ep = tw_fi_enter(w->eps[i]);

		if (!ep)
			continue;
		tw_poll_events(ep);
		tw_progress(ep);
		tw_fi_drain(w->eps[i], ep);
		ep->awaited = true;
		idle &= !w->ready(w) && tw_rest(ep);
		tw_fi_leave(ep);
	}
	tw_unlock(&w->lock);
	return idle && !w->ready(w);
}

/* Of a thread in the engine. */
struct sleeper {
	struct tw_fi_waiter *w;
	struct tw_fi_ep *e;
	uint32_t signals;
};

static bool has_come(struct tw_ep *ep, void *arg)
{
	struct sleeper *s = arg;

	if (!tw_list_empty(&ep->done) || !tw_list_empty(&s->e->multis))
		tw_fi_drain(s->e, ep);
	return s->w->ready(s->w) || atomic_load(&s->w->signals) != s->signals;
}

static int sleep_in_engine(struct tw_fi_waiter *w, uint32_t signals, int timeout)
{
	struct sleeper s = {.w = w, .signals = signals};
	struct tw_ep *ep = NULL;
	enum tw_waited waited;

	tw_lock(&w->lock);
	if (w->neps == 1)
		ep = tw_fi_enter(s.e = w->eps[0]);
	tw_unlock(&w->lock);
	if (!ep)
		return -FI_EOPBADSTATE;
	waited = tw_wait(ep, has_come, &s, timeout < 0 ? TW_FOREVER : 1000ull * (unsigned)timeout);
	tw_fi_leave(ep);
	if (waited != TW_W_TRUE)
		return -FI_EAGAIN;
	return atomic_load(&w->signals) == signals ? 0 : -FI_EAGAIN;
}

uint64_t tw_fi_end(int timeout)
{
	return timeout < 0 ? TW_FOREVER : tw_clock() + tw_clock_us(1000ull * (unsigned)timeout);
}

int tw_fi_sleep(int fd, uint64_t end)
{
	bool served = tw_settings.service && !tw_settings.single_threaded;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now = tw_clock();
	int ms = LOOK_MS;

	if (now >= end)
		return -FI_ETIMEDOUT;
	if (served)
		ms = end == TW_FOREVER ? -1 : (int)((end - now) / tw_clock_per_us / 1000) + 1;
	return tw_sys_poll(&p, 1, ms) < 0 && errno == EINTR ? -FI_EINTR : 0;
}

static int sleep_on_fd(struct tw_fi_waiter *w, uint32_t signals, int timeout)
{
	uint64_t end = tw_fi_end(timeout);
	int rc;

	do {
		if (!tw_fi_arm(w))
			return 0;
		if (atomic_load(&w->signals) != signals)
			return -FI_EAGAIN;
		rc = tw_fi_sleep(w->fd, end);
	} while (rc == 0);
	return rc == -FI_ETIMEDOUT ? -FI_EAGAIN : rc;
}

int tw_fi_wait(struct tw_fi_waiter *w, int timeout)
{
	uint32_t signals = atomic_load(&w->answered);
	int rc;

	if (w->neps == 1) {
		rc = sleep_in_engine(w, signals, timeout);
	} else {
		rc = sleep_on_fd(w, signals, timeout);
		atomic_store(&w->armed, false);
	}
	atomic_store(&w->answered, atomic_load(&w->signals));
	return rc;
}

int tw_fi_wait_control(struct fid *fid, int command, void *arg)
{
	struct tw_fi_waiter *w = tw_fi_waiter_of(fid);
	int fd = w ? w->fd : tw_fi_from(struct tw_fi_waitset, fid)->epfd;
	enum fi_wait_obj obj = w ? w->obj : FI_WAIT_FD;

	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *)arg = obj;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	if (fd < 0 || obj == FI_WAIT_YIELD)
		return -FI_ENODATA;
	*(int *)arg = fd;
	return 0;
}

static int try_one(struct fid *fid)
{
	struct tw_fi_waiter *w = tw_fi_waiter_of(fid);

	if (!w || w->fd < 0)
		return -FI_EINVAL;
	return tw_fi_arm(w) ? 0 : -FI_EAGAIN;
}

int tw_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		struct tw_fi_waitset *s = fids[i]->fclass == FI_CLASS_WAIT
						  ? tw_fi_from(struct tw_fi_waitset, fids[i])
						  : NULL;
		int rc = s ? 0 : try_one(fids[i]);

		for (unsigned k = 0; s && k < s->n && rc == 0; k++)
			rc = tw_fi_arm(s->members[k]) ? 0 : -FI_EAGAIN;
		if (rc)
			return rc;
	}
	return 0;
}
