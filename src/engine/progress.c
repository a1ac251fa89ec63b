/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress: takes in packets that have arrived and sends what is queued. */
#include <string.h>
#include <sys/epoll.h>

#include "engine/engine.h"

#define EVENTS_EVERY_US 100 /* interval of polling descriptors without a service thread */
#define SERVICE_AFTER_US 50 /* unfinished work passes to the service thread after this */

static void wake(struct tw_host *host)
{
	/* tw_leave() sees this and wakes sleepers. */
	tw_container(host, struct tw_ep, host)->events++;
}

static void poll_provider(struct tw_host *host, void *instance, bool on)
{
	struct tw_ep *ep = tw_container(host, struct tw_ep, host);
	unsigned i = 0;

	while (i < ep->npolled && ep->polled[i].instance != instance)
		i++;
	if (on && i == ep->npolled) {
		for (unsigned k = 0; k < ep->nprovs; k++)
			if (ep->provs[k].instance == instance)
				ep->polled[ep->npolled++] = ep->provs[k];
	} else if (!on && i < ep->npolled) {
		ep->npolled--;
		memmove(&ep->polled[i], &ep->polled[i + 1],
			(ep->npolled - i) * sizeof(ep->polled[0]));
	}
}

#if TW_USES_NET
static enum tw_err locate(struct tw_host *host, uint64_t nic_id, struct sockaddr_storage *sa)
{
	(void)host;
	return tw_nic_to_address(nic_id, sa);
}
#endif

const struct tw_upcalls tw_upcalls = {
	.packet = tw_recv_packet,
	.incoming = tw_connect_incoming,
	.connected = tw_connect_done,
	.refused = tw_connect_refused,
	.down = tw_connect_down,
	.timer = tw_timer,
	.wake = wake,
	.poll = poll_provider,
#if TW_USES_NET
	.ended = tw_transfer_ended,
	.locate = locate,
#endif
};

static bool idle(const struct tw_peer *p)
{
	return tw_list_empty(&p->replying) && tw_list_empty(&p->pulling) &&
	       tw_list_empty(&p->sendq) && tw_list_empty(&p->pushing) && !tw_tells(p) &&
	       !tw_credits_due(p);
}

bool tw_flush(struct tw_ep *ep)
{
	struct tw_list *n, *tmp;
	bool moved = false;

	tw_list_each(&ep->work, n, tmp) {
		struct tw_peer *p = tw_container(n, struct tw_peer, work);

		moved |= tw_transfer_flush(p);
		if (!tw_list_empty(&p->sendq))
			moved |= tw_send_flush(p);
		if (idle(p))
			tw_list_del(&p->work);
	}
	return moved;
}

void tw_poll_events(struct tw_ep *ep)
{
	struct epoll_event ev[16];
	int n;

	do {
		n = epoll_wait(ep->epfd, ev, tw_countof(ev), 0);
		for (int i = 0; i < n; i++) {
			struct tw_watch *w = ev[i].data.ptr;
			w->ready(w, ev[i].events);
		}
	} while (n == (int)tw_countof(ev));
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

void tw_expire(struct tw_ep *ep)
{
	uint64_t now = tw_clock(), next;

	atomic_store_explicit(&ep->slot->timer, 0, memory_order_relaxed);
	atomic_store_explicit(&ep->slot->background_asked, false, memory_order_relaxed);
	next = earlier(tw_connect_expire(ep, now), tw_rest_expire(ep, now));
	if (TW_HAVE_MX)
		next = earlier(next, tw_limits_expire(ep, now));
	for (unsigned i = 0; i < ep->nprovs; i++)
		next = earlier(next, ep->provs[i].ops->expire(ep->provs[i].instance, now));
	if (tw_takes(ep) && ep->taker->expire)
		next = earlier(next, ep->taker->expire(ep, now));
	if (next)
		tw_timer(&ep->host, next);
}

void tw_timer(struct tw_host *host, uint64_t when)
{
	struct tw_ep *ep = tw_container(host, struct tw_ep, host);
	uint64_t set = atomic_load_explicit(&ep->slot->timer, memory_order_relaxed);

	if (set && set <= when)
		return;
	atomic_store_explicit(&ep->slot->timer, when, memory_order_relaxed);
	tw_barrier_compiler(); /* pairs with stop_checks() */
	/* The service thread checks a polling program anyway, which runs its own timers. */
	if (!atomic_load_explicit(&ep->slot->next_check, memory_order_relaxed))
		tw_service_timer(ep->slot, when);
}

void tw_progress_request(struct tw_ep *ep)
{
	struct tw_slot_entry *s = ep->slot;

	if (atomic_load_explicit(&s->background_asked, memory_order_relaxed))
		return;
	atomic_store_explicit(&s->background_asked, true, memory_order_relaxed);
	tw_timer(&ep->host, tw_clock() + tw_clock_us(SERVICE_AFTER_US));
}

/* The occasional work of a polling program. */
static tw_noinline void slow(struct tw_ep *ep)
{
	uint64_t now = tw_clock();
	uint64_t timer = atomic_load_explicit(&ep->slot->timer, memory_order_relaxed);
	uint32_t requests = 0;

	if (atomic_load_explicit(&ep->slot->requested, memory_order_relaxed))
		requests = atomic_exchange(&ep->slot->requested, 0);
	if ((timer && timer <= now) || (requests & TW_REQUEST_TIMER))
		tw_expire(ep);
	tw_rest_later(ep);
	/*
	 * A thread that sleeps on the descriptors handles them: a doorbell that is read
	 * here might be meant for it.
	 */
	if (ep->leader)
		return;
	if (requests & TW_REQUEST_EVENTS) {
		tw_poll_events(ep);
		tw_service_resume(ep->slot);
	} else if (now >= ep->next_events && !tw_has_service(ep->slot)) {
		ep->next_events = now + tw_clock_us(EVENTS_EVERY_US);
		tw_poll_events(ep);
	}
}

unsigned tw_progress(struct tw_ep *ep)
{
	uint64_t polls = atomic_load_explicit(&ep->slot->polls, memory_order_relaxed) + 1;
	unsigned n = 0;

	if (tw_unlikely(tw_in_handler(ep)))
		return 0;
	/* A thread that sleeps on the descriptors needs its doorbells. */
	if (tw_unlikely(ep->armed && !ep->leader))
		tw_disarm(ep);
	/* First: packets of the doorbells that it reads are found below. */
	if (tw_unlikely((polls & (TW_SLOW_EVERY - 1)) == 0 ||
			atomic_load_explicit(&ep->slot->requested, memory_order_relaxed)))
		slow(ep);
	for (unsigned i = 0; i < ep->npolled; i++)
		n += ep->polled[i].ops->progress(ep->polled[i].instance);
	if (tw_unlikely(!tw_list_empty(&ep->work)))
		n += tw_flush(ep);
	if (tw_unlikely(tw_takes(ep)) && (ep->attend || !tw_list_empty(&ep->done)))
		ep->taker->attend(ep);
	/* Only the holder of the lock writes; the service thread reads. */
	atomic_store_explicit(&ep->slot->polls, polls, memory_order_relaxed);
	return n;
}

bool tw_arm(struct tw_ep *ep)
{
	bool found = false;

	ep->armed = true;
	for (unsigned i = 0; i < ep->nprovs; i++)
		found |= ep->provs[i].ops->arm(ep->provs[i].instance);
	return found;
}

void tw_disarm(struct tw_ep *ep)
{
	ep->armed = false;
	for (unsigned i = 0; i < ep->nprovs; i++)
		ep->provs[i].ops->disarm(ep->provs[i].instance);
}
