/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress: takes in packets that have arrived and sends what is queued. */
#include <sched.h>
#include <sys/epoll.h>

#include "base/sys.h"
#include "engine/fast.h"
#include "shmem/spin.h"

#define EVENTS_EVERY_US 100 /* interval of polling descriptors without a service thread */

static void progress_wake(struct tw_host *host)
{
	/* tw_leave() sees this and wakes sleepers. */
	tw_container(host, struct tw_ep, host)->events++;
}

static void poll_provider(struct tw_host *host, void *instance, bool on)
{
	struct tw_ep *ep = tw_container(host, struct tw_ep, host);

	for (unsigned i = 0; i < ep->nprovs; i++)
		if (ep->provs[i].instance == instance)
			ep->polled = (ep->polled & ~(1u << i)) | (uint32_t)on << i;
}

const struct tw_upcalls tw_upcalls = {
	.packet = tw_recv_packet,
	.incoming = tw_connect_incoming,
	.connected = tw_connect_done,
	.refused = tw_connect_refused,
	.down = tw_connect_down,
	.trouble = tw_failure_trouble,
	.timer = tw_timer,
	.wake = progress_wake,
	.poll = poll_provider,
#if TW_USES_NET
	.ended = tw_transfer_ended,
	.paths = tw_stats_paths,
	.locate = tw_nic_to_address,
	.found = tw_naming_found,
	.describe = tw_naming_describe,
#endif
};

static bool progress_idle(const struct tw_peer *p)
{
	return tw_list_empty(&p->replying) && tw_list_empty(&p->moving) &&
	       tw_list_empty(&p->sendq) && tw_list_empty(&p->sending) && !tw_credits_due(p) &&
	       !p->unanswered;
}

bool tw_flush(struct tw_ep *ep)
{
	bool moved = false;

	tw_list_walk(&ep->work, struct tw_peer, p, work) {
		moved |= tw_transfer_flush(p);
		if (!tw_list_empty(&p->sendq))
			moved |= tw_send_flush(p);
		if (progress_idle(p))
			tw_peer_no_work(p);
	}
	return moved;
}

/* In a poll only: other callers of tw_flush() go on with what would end here. */
static bool progress_end_unanswered(struct tw_ep *ep)
{
	tw_list_walk(&ep->work, struct tw_peer, p, work) {
		if (tw_likely(!p->unanswered))
			continue;
		tw_disconnect(p);
		return true; /* which may have changed the list */
	}
	ep->unanswered = false;
	return false;
}

/* Once, as peers may make descriptors ready faster than they are read here. */
void tw_poll_events(struct tw_ep *ep)
{
	struct epoll_event ev[64];
	int n = tw_sys_epoll_wait(ep->host.epfd, ev, tw_countof(ev), 0);

	for (int i = 0; i < n; i++) {
		struct tw_watch *w = ev[i].data.ptr;
		w->ready(w, ev[i].events);
	}
	if (n == (int)tw_countof(ev))
		tw_progress_request(ep);
}

/*
 * A program that polls without ever calling the system keeps its processor from the process
 * that it waits for, if they share it. So one that has sent, received and completed nothing since
 * the last look yields, as a blocking call does between its own polls. Nobody else may enter
 * meanwhile: callers of a poll rely on that.
 */
static void yield_idle(struct tw_ep *ep)
{
	const uint64_t *c = ep->counters;
	uint64_t done = ep->events + c[TW_C_SEND_EAGER] + c[TW_C_SEND_RNDV] + c[TW_C_RECV_DONE] +
			c[TW_C_WINDOW_SERVED];

	if (done != ep->done_seen)
		ep->done_seen = done;
	else if (!ep->nwaiting && ep->host.state == TW_POLLING &&
		 !tw_lock_contended(&ep->slot->lock))
		sched_yield();
}

/* The occasional work of a polling program. */
static tw_noinline void progress_slow(struct tw_ep *ep)
{
	struct tw_slot_entry *s = ep->slot;
	uint64_t now = tw_clock();
	bool requested = atomic_load_explicit(&s->requested, memory_order_relaxed) &&
			 atomic_exchange(&s->requested, false);

	tw_expire_due(ep, now);
	tw_trim_later(ep);
	tw_txqs_count(ep);
	yield_idle(ep);
	/*
	 * A thread that sleeps on the descriptors handles them: a doorbell that is read
	 * here might be meant for it.
	 */
	if (ep->host.state == TW_ASLEEP)
		return;
	if (requested || (now >= ep->next_events && !tw_has_service(s))) {
		ep->next_events = now + tw_clock_us(EVENTS_EVERY_US);
		tw_poll_events(ep);
		if (requested)
			tw_service_resume(s);
	}
}

/* Looks at the active rings, and at one of the others. */
static unsigned poll_rxqs(struct tw_ep *ep, bool *left)
{
	struct tw_rxqs *rxqs = &ep->host.rxqs;
	unsigned n = 0, i = 0;

	while (i < rxqs->nactive) {
		struct tw_ring_rx *rx = rxqs->rx[i];

		if (!tw_ring_poll_empty(rx, &rxqs->dense))
			n += tw_recv_ring(rx, TW_RXQ_BATCH, left);
		/* The link may have ended, and another fills its slot. */
		i += i < rxqs->nactive && rxqs->rx[i] == rx;
	}
	if (tw_likely(rxqs->nactive == rxqs->n))
		return n;
	if (tw_ring_next(rxqs->rx[tw_rxqs_turn(rxqs)]))
		*left = true; /* the provider takes from that one */
	else
		rxqs->turn++;
	return n;
}

/* A poll after its look at the rings. left: their provider must look, too. */
static unsigned progress_finish(struct tw_ep *ep, bool left)
{
	unsigned n = 0;

	if (tw_unlikely(left) && ep->lender.ops)
		n += ep->lender.ops->progress(ep->lender.instance);
	for (unsigned i = 0; ep->polled >> i; i++)
		if (ep->polled >> i & 1)
			n += ep->provs[i].ops->progress(ep->provs[i].instance);
	if (tw_unlikely(ep->has_work))
		n += tw_flush(ep);
	if (tw_unlikely(ep->unanswered))
		n += progress_end_unanswered(ep);
	if (tw_unlikely(ep->acts) && (ep->attend || !tw_list_empty(&ep->done))) {
		ep->iface->attend(ep);
		n++;
	}
	tw_poll_count(ep, tw_polls(ep) + 1); /* attend() may have polled */
	return n;
}

unsigned tw_progress_usual(struct tw_ep *ep)
{
	const struct tw_rxqs *rxqs = &ep->host.rxqs;
	uint64_t polls = tw_polls(ep) + 1;
	bool left = false;
	unsigned n;

	if (tw_poll_full(polls) || tw_unlikely(tw_in_handler(ep)))
		return tw_progress(ep);
	n = rxqs->nactive == 1 ? tw_recv_ring(rxqs->rx[0], TW_RXQ_BATCH, &left)
			       : poll_rxqs(ep, &left);
	if (tw_unlikely(left | ep->has_work | ep->acts))
		return n + progress_finish(ep, left);
	tw_poll_count(ep, polls);
	return n;
}

unsigned tw_progress(struct tw_ep *ep)
{
	uint64_t polls = tw_polls(ep) + 1;
	bool left = tw_poll_full(polls);
	unsigned n;

	if (tw_unlikely(tw_in_handler(ep)))
		return 0;
	if (tw_unlikely(ep->host.state))
		tw_idle_event(ep, TW_IDLE_POLL);
	/* First: packets of the doorbells that it reads are found below. */
	if (tw_unlikely(left || atomic_load_explicit(&ep->slot->requested, memory_order_relaxed)))
		progress_slow(ep);
	if (tw_unlikely(tw_poll_shows(polls)))
		tw_rings_show_poll(ep->host.rxqs.rx, ep->host.rxqs.nactive, tw_clock());
	n = poll_rxqs(ep, &left);
	n += progress_finish(ep, left);
	if (tw_unlikely(ep->traced) && !n && ep->host.state == TW_POLLING)
		tw_trace_idle(ep, tw_clock());
	return n;
}
