/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that a program polls: an epoll set of endpoints' descriptors, which packets make
 * ready, and of one that is raised where the library has received the packet itself.
 *
 * An endpoint with an armed descriptor counts as one with a blocking call that sleeps, so every
 * call that ends something looks at it (tw_leave), and no call takes the fast path.
 */
#include "base/fds.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/wakefd.h"
#include "engine/engine.h"

static const epoll_data_t nothing = {0};

enum tw_err tw_pollable_open(struct tw_pollable *p)
{
	p->fd = tw_fd_own(tw_sys_epoll_create());
	p->event = tw_wakefd_open(p->fd, nothing);
	if (p->event >= 0)
		return TW_OK;
	tw_pollable_close(p);
	return TW_ENOMEM;
}

void tw_pollable_close(struct tw_pollable *p)
{
	tw_fd_close(p->fd);
	tw_fd_close(p->event);
	p->fd = p->event = -1;
}

int tw_pollable_control(const struct tw_pollable *p, int op, const struct tw_ep *ep)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return tw_sys_epoll_ctl(p->fd, op, ep->host.epfd, &ev);
}

void tw_pollable_ring(const struct tw_pollable *p)
{
	if (p->event >= 0 && !tw_wakefd_raise(p->fd, p->event, nothing))
		tw_log(TW_LOG_ERROR, "cannot wake a waiter: %m");
}

bool tw_pollable_clear(const struct tw_pollable *p)
{
	return p->event < 0 || tw_wakefd_clear(p->fd, p->event, nothing);
}

/*
 * The kernel keeps a member in its list of ready ones until somebody looks, and while it is there,
 * raising it wakes nobody. Level-triggered waiters look, edge-triggered ones do not. A look passes
 * over members that are not ready any more, so the number of members does not matter: those that
 * fill it have become ready since they were armed, which has woken the waiter.
 */
bool tw_pollable_look(const struct tw_pollable *p)
{
	struct epoll_event ev[16];
	int n = p->event < 0 ? 0 : tw_sys_epoll_wait(p->fd, ev, tw_countof(ev), 0);

	/* Raised since: that was no edge. */
	while (n > 0 && !(ev[n - 1].events & EPOLLOUT))
		n--;
	return n <= 0;
}

/* Of one endpoint -------------------------------------------------------------- */

enum tw_err tw_ep_fd(struct tw_ep *ep, int *fd)
{
	struct tw_pollable *p = &ep->pollable;

	if (p->fd < 0 && tw_pollable_open(p) == TW_OK) {
		if (tw_pollable_control(p, EPOLL_CTL_ADD, ep) < 0)
			tw_pollable_close(p);
		/* Something may have ended since the endpoint was armed. */
		tw_pollable_ring(p);
	}
	*fd = p->fd;
	return p->fd < 0 ? TW_ENOMEM : TW_OK;
}

static void pollable_disarm(struct tw_ep *ep)
{
	if (!ep->armed)
		return;
	ep->armed = ep->awaited = false;
	ep->nwaiting--;
	ep->nsleeping--;
}

void tw_ep_ring(struct tw_ep *ep)
{
	pollable_disarm(ep);
	tw_pollable_ring(&ep->pollable);
}

bool tw_ep_fd_arm(struct tw_ep *ep, bool (*ended)(struct tw_ep *ep))
{
	uint64_t seen = ep->armed_at;

	if (tw_in_handler(ep) || !tw_pollable_clear(&ep->pollable) ||
	    !tw_pollable_look(&ep->pollable))
		return false;
	pollable_disarm(ep);
	/* A doorbell may be meant for a thread that sleeps in a call (progress_slow()). */
	if (ep->host.state != TW_ASLEEP)
		tw_poll_events(ep);
	tw_progress(ep);
	ep->armed_at = ep->events;
	if (ep->events != seen || (ended && ended(ep)) ||
	    (tw_unfinished(ep) && !tw_has_service(ep->slot)))
		return false;
	ep->armed = tw_idle_arm(ep);
	ep->awaited = ep->armed;
	if (!ep->armed)
		return false;
	ep->nwaiting++;
	ep->nsleeping++;
	ep->woken = ep->armed_at;
	return true;
}
