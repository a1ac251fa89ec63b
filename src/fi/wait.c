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

#include "base/sys.h"
#include "fi/drain.h"

#define CANCEL_US 1000000 /* a thread that sleeps looks so often whether it is cancelled */
#define LOOK_MS 1 /* where nobody writes an eventfd: without a service thread, or without one */

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

int tw_fi_wait_init(struct tw_fi_waiter *w, struct tw_fi_domain *domain, enum fi_wait_obj obj,
		    struct fid_wait *set, bool (*ready)(struct tw_fi_waiter *w, uint64_t seen))
{
	w->on.fd = w->on.event = -1;
	tw_list_init(&w->polled);
	tw_lock_init(&w->lock, domain && domain->single);
	w->obj = obj;
	w->ready = ready;
	if (obj != FI_WAIT_NONE && obj != FI_WAIT_UNSPEC && obj != FI_WAIT_FD &&
	    obj != FI_WAIT_SET && obj != FI_WAIT_YIELD) {
		tw_fi_explain("%s: only FI_WAIT_FD, FI_WAIT_SET and FI_WAIT_YIELD",
			      obj == FI_WAIT_MUTEX_COND ? "FI_WAIT_MUTEX_COND"
			      : obj == FI_WAIT_POLLFD	? "FI_WAIT_POLLFD"
							: "that wait object");
		return -FI_ENOSYS;
	}
	if (obj == FI_WAIT_SET && !set)
		return -FI_EINVAL;
	if (obj != FI_WAIT_NONE && tw_pollable_open(&w->on) != TW_OK)
		return -FI_EMFILE;
	w->set = obj == FI_WAIT_SET ? set : NULL;
	if (tw_fi_sets_join(w)) {
		tw_pollable_close(&w->on);
		return -FI_ENOMEM;
	}
	w->domain = domain;
	if (domain)
		atomic_fetch_add(&domain->refs, 1);
	return 0;
}

int tw_fi_wait_fini(struct tw_fi_waiter *w)
{
	if (atomic_load(&w->refs))
		return -FI_EBUSY;
	tw_fi_sets_leave(w);
	tw_pollable_close(&w->on);
	free(w->eps);
	if (w->domain)
		atomic_fetch_sub(&w->domain->refs, 1);
	return 0;
}

static int wait_watch(struct tw_fi_waiter *w, struct tw_fi_ep *e, int op)
{
	struct tw_ep *ep = w->on.fd >= 0 ? tw_fi_enter(e) : NULL;
	int rc;

	if (!ep)
		return 0;
	rc = tw_pollable_control(&w->on, op, ep) < 0 ? -FI_ENOMEM : 0;
	tw_leave(ep);
	return rc;
}

static int wait_add(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	struct tw_fi_ep **eps;
	int rc;

	for (unsigned i = 0; i < w->neps; i++)
		if (w->eps[i] == e)
			return 0;
	eps = realloc(w->eps, (w->neps + 1) * sizeof(struct tw_fi_ep *));
	if (!eps)
		return -FI_ENOMEM;
	w->eps = eps;
	rc = wait_watch(w, e, EPOLL_CTL_ADD);
	if (!rc)
		w->eps[w->neps++] = e;
	return rc;
}

int tw_fi_wait_add(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	int rc;

	tw_lock(&w->lock);
	rc = wait_add(w, e);
	tw_unlock(&w->lock);
	/* A thread that sleeps knows the others only. */
	tw_fi_wake_all(w);
	return rc;
}

void tw_fi_wait_remove(struct tw_fi_waiter *w, struct tw_fi_ep *e)
{
	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++)
		if (w->eps[i] == e) {
			wait_watch(w, e, EPOLL_CTL_DEL);
			w->eps[i--] = w->eps[--w->neps];
		}
	tw_unlock(&w->lock);
}

void tw_fi_wait_poll(struct tw_fi_waiter *w)
{
	for (unsigned i = 0; i < w->neps; i++)
		tw_fi_progress(w->eps[i]);
}

void tw_fi_wait_look(struct tw_fi_waiter *w)
{
	tw_lock(&w->lock);
	tw_fi_wait_poll(w);
	tw_unlock(&w->lock);
}

void tw_fi_wake(struct tw_fi_waiter *w)
{
	tw_pollable_ring(&w->on);
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

/* Arms each endpoint. False if one of them has something already. */
static bool arm_all(struct tw_fi_waiter *w, uint64_t seen)
{
	bool idle = true;

	tw_lock(&w->lock);
	for (unsigned i = 0; i < w->neps; i++) {
		struct tw_ep *ep = tw_fi_enter(w->eps[i]);

		if (!ep)
			continue;
		tw_poll_events(ep);
		tw_progress(ep);
		tw_fi_drain(w->eps[i], ep);
		ep->awaited = true;
		idle &= !w->ready(w, seen) && tw_idle_arm(ep);
		tw_leave_unfinished(ep);
	}
	tw_unlock(&w->lock);
	return idle && !w->ready(w, seen);
}

bool tw_fi_arm(struct tw_fi_waiter *w, uint64_t seen)
{
	if (w->ready(w, seen) || !tw_pollable_clear(&w->on))
		return false;
	atomic_store(&w->armed, true);
	if (arm_all(w, seen) && tw_pollable_look(&w->on))
		return true;
	/* That event may have been for another thread, which sleeps on the same descriptor. */
	tw_fi_wake(w);
	return false;
}

/* Of a thread in the engine. */
struct sleeper {
	struct tw_fi_waiter *w;
	struct tw_fi_ep *e;
	uint64_t seen;
	uint32_t signals;
};

static bool has_come(struct tw_ep *ep, void *arg)
{
	struct sleeper *s = arg;

	if (!tw_list_empty(&ep->done) || !tw_list_empty(&s->e->multis))
		tw_fi_drain(s->e, ep);
	return s->w->ready(s->w, s->seen) || atomic_load(&s->w->signals) != s->signals ||
	       s->w->neps != 1;
}

/* Microseconds until that tick. */
static uint64_t left_until(uint64_t end)
{
	uint64_t now = tw_clock();

	if (end == TW_FOREVER)
		return TW_FOREVER;
	return now < end ? (end - now) / tw_clock_per_us + 1 : 0;
}

static int sleep_in_engine(struct tw_fi_waiter *w, uint64_t seen, uint32_t signals, uint64_t end)
{
	struct sleeper s = {.w = w, .seen = seen, .signals = signals};
	struct tw_ep *ep = NULL;
	enum tw_waited waited;

	tw_lock(&w->lock);
	if (w->neps == 1)
		ep = tw_fi_enter(s.e = w->eps[0]);
	tw_unlock(&w->lock);
	if (!ep)
		return w->neps == 1 ? -FI_EOPBADSTATE : 0;
	waited = tw_wait(ep, has_come, &s, left_until(end));
	tw_leave_unfinished(ep);
	if (waited == TW_W_TIMEOUT)
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
	uint64_t left = left_until(end);
	int ms = LOOK_MS;

	if (!left)
		return -FI_ETIMEDOUT;
	if (served && fd >= 0)
		ms = left == TW_FOREVER ? -1 : (int)(left / 1000) + 1;
	return tw_sys_poll(&p, 1, ms) < 0 && errno == EINTR ? -FI_EINTR : 0;
}

static int sleep_on_fd(struct tw_fi_waiter *w, uint64_t seen, uint32_t signals, uint64_t end)
{
	int rc;

	do {
		if (!tw_fi_arm(w, seen))
			return 0;
		if (atomic_load(&w->signals) != signals)
			return -FI_EAGAIN;
		rc = tw_fi_sleep(w->on.fd, end);
	} while (rc == 0);
	return rc == -FI_ETIMEDOUT ? -FI_EAGAIN : rc;
}

uint64_t tw_fi_look(uint64_t end)
{
	return tw_min(end, tw_clock() + tw_clock_us(CANCEL_US));
}

int tw_fi_wait(struct tw_fi_waiter *w, uint64_t seen, uint64_t end)
{
	uint64_t look = tw_fi_look(end);
	uint32_t signals = atomic_load(&w->answered);
	int rc;

	if (w->neps == 1)
		rc = sleep_in_engine(w, seen, signals, look);
	else
		rc = sleep_on_fd(w, seen, signals, look);
	if (rc == -FI_EAGAIN && look < end && atomic_load(&w->signals) == signals)
		return 0;
	if (rc == -FI_EAGAIN)
		atomic_store(&w->answered, atomic_load(&w->signals));
	return rc;
}

int tw_fi_wait_control(struct fid *fid, int command, void *arg)
{
	struct tw_fi_waiter *w = tw_fi_waiter_of(fid);
	int fd = w ? w->on.fd : tw_fi_from(struct tw_fi_waitset, fid)->epfd;
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

	if (!w || w->on.fd < 0)
		return -FI_EINVAL;
	return tw_fi_arm(w, atomic_load(&w->seen)) ? 0 : -FI_EAGAIN;
}

int tw_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	for (int i = 0; i < count; i++) {
		struct tw_fi_waitset *s = fids[i]->fclass == FI_CLASS_WAIT
						  ? tw_fi_from(struct tw_fi_waitset, fids[i])
						  : NULL;
		int rc = s ? tw_fi_waitset_arm(s) : try_one(fids[i]);

		if (rc)
			return rc;
	}
	return 0;
}
