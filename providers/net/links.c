/* SPDX-License-Identifier: BSD-2-Clause */
/* Links: their numbers, how they end, and their timers. */
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "providers/net/session.h"

#define QUIET_US 50000	 /* without packets after a hang-up: all have come */
#define DRAIN_US 2500000 /* limit for packets missing after BYE, longer than LEAVE_US */
#define LOOKS 16	 /* calls of progress(): a driver may take in one packet at a time */
#define ASK_US 50000	 /* between two requests for missing packets */
#define OLD_US 2000000	 /* limit for a transfer on a path that was given up */

static bool enter(struct tw_net_link *l)
{
	struct tw_net_ep *ep = l->ep;
	uint32_t i = tw_slots_add(&ep->table, l);

	/* Depends on the session: a packet for an earlier opening finds no link. */
	l->conn = (ep->host->self.session * 40503u + ++ep->serial) << 16 | i;
	return i < TW_SLOTS_MAX;
}

struct tw_net_link *tw_net_link_find(struct tw_net_ep *ep, uint32_t conn)
{
	struct tw_net_link *l = tw_slots_find(&ep->table, conn);

	return l && l->conn == conn ? l : NULL;
}

struct tw_net_link *tw_net_link_new(struct tw_net_ep *ep, enum tw_net_state state)
{
	struct tw_net_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->ep = ep;
	if (!enter(l)) {
		free(l);
		return NULL;
	}
	l->link.provider = &tw_provider_net;
	l->state = state;
	l->begun = tw_clock();
	l->sock = -1;
	l->watch.ready = tw_net_sock_ready;
	l->unposted = &l->kept;
	tw_list_init(&l->kept);
	tw_list_init(&l->work);
	tw_list_init(&l->ops);
	tw_list_init(&l->mrs);
	tw_list_add_tail(&ep->links, &l->node);
	tw_net_poll(ep);
	return l;
}

void tw_net_link_end(struct tw_net_link *l)
{
	struct tw_net_ep *ep = l->ep;

	if (l->state == TW_NET_DEAD)
		return;
	if (l->state == TW_NET_HALF_OPEN)
		tw_net_half_open_done(ep);
	l->state = TW_NET_DEAD;
	tw_net_sock_close(l);
	tw_net_ops_end(l, false);
	tw_net_mrs_end(l, NULL);
	tw_net_path_drop(l);
	tw_net_packets_drop(l);
	ep->table.of[l->conn % TW_SLOTS_MAX] = NULL;
	tw_list_del(&l->work);
	tw_list_del(&l->node);
	tw_list_add_tail(&ep->dead, &l->node);
	/* The next progress frees it. */
	tw_net_poll(ep);
}

void tw_net_reap(struct tw_net_ep *ep)
{
	struct tw_list *n, *tmp;

	tw_list_each(&ep->dead, n, tmp) {
		tw_list_del(n);
		free(tw_container(n, struct tw_net_link, node));
	}
}

void tw_net_link_fail(struct tw_net_link *l, enum tw_err why)
{
	const struct tw_upcalls *up = l->ep->host->up;
	enum tw_net_state state = l->state;

	tw_log(TW_LOG_DEBUG, "the connection to endpoint %u ends: error %d", l->other.endpoint_id,
	       why);
	if (state == TW_NET_UP || state == TW_NET_DRAIN)
		tw_net_ops_end(l, true);
	tw_net_link_end(l);
	if (state == TW_NET_UP || state == TW_NET_DRAIN)
		up->down(&l->link, why);
	else if (state == TW_NET_NEW || state == TW_NET_PROBING)
		up->refused(&l->link, why);
}

void tw_net_link_drain(struct tw_net_link *l, enum tw_err why)
{
	uint64_t wait = l->orderly ? DRAIN_US : QUIET_US;

	if (l->state != TW_NET_UP && l->state != TW_NET_DRAIN) {
		tw_net_link_fail(l, why);
		return;
	}
	if (l->state == TW_NET_UP)
		l->last_rx = tw_clock();
	l->state = TW_NET_DRAIN;
	l->why = why;
	if (l->orderly && l->expected == l->final) {
		tw_net_send_ack(l);
		tw_net_link_fail(l, why);
		return;
	}
	l->deadline = l->last_rx + tw_clock_us(wait);
	tw_net_timer(l->ep, l->last_rx + tw_clock_us(ASK_US));
}

static uint64_t expire_drain(struct tw_net_link *l, uint64_t now)
{
	uint64_t ask = now + tw_clock_us(ASK_US);

	/* Packets that have arrived already still count. */
	for (int i = 0; i < LOOKS && l->path && l->state == TW_NET_DRAIN; i++)
		l->adapter->driver->progress(l->adapter->instance);
	if (l->state != TW_NET_DRAIN)
		return 0;
	l->deadline = l->last_rx + tw_clock_us(l->orderly ? DRAIN_US : QUIET_US);
	if (l->deadline <= now) {
		tw_net_link_fail(l, l->why);
		return 0;
	}
	if (!l->orderly)
		return l->deadline;
	/* A peer that has sent BYE has no timer that would send them again. */
	tw_net_ctrl_send(l, TW_NET_STATUS, TW_AGAIN);
	return tw_net_earlier(ask, l->deadline);
}

/* Probes go out until one is answered or the deadline has passed. */
static uint64_t expire_probe(struct tw_net_link *l, uint64_t now)
{
	if (l->deadline <= now) {
		l->failed |= 1u << tw_net_index(l->adapter);
		l->backoff++;
		l->resuming = false;
		tw_net_path_broken(l);
		return l->state == TW_NET_DEAD ? 0 : l->deadline;
	}
	tw_net_send_plain(l, TW_NET_PROBE);
	return tw_net_earlier(l->deadline, now + tw_clock_us(TW_NET_PROBE_US));
}

/* Asks for an acknowledgement when none comes. */
static uint64_t expire_kept(struct tw_net_link *l, uint64_t now)
{
	uint64_t ask = l->progress + tw_clock_us(TW_NET_STATUS_US);

	if (ask > now)
		return ask;
	l->progress = now;
	tw_net_ctrl_send(l, TW_NET_STATUS, TW_PENDING);
	return now + tw_clock_us(TW_NET_STATUS_US);
}

/* A driver that does not end a transfer on a path that was given up is closed. */
static uint64_t expire_ops(struct tw_net_link *l, uint64_t now)
{
	struct tw_list *n, *tmp;
	uint64_t until = l->bound_at + tw_clock_us(OLD_US);

	tw_list_each(&l->ops, n, tmp) {
		struct tw_net_op *op = tw_container(n, struct tw_net_op, node);

		if (!op->posted || op->epoch == l->epoch)
			continue;
		if (until > now)
			return until;
		tw_net_adapter_reset(op->posted);
		return 0;
	}
	return 0;
}

static uint64_t expire_up(struct tw_net_link *l, uint64_t now)
{
	uint64_t limit = l->broken + tw_clock_us(1000ull * tw_settings.retry), next = 0;

	if (l->broken && limit <= now) {
		tw_net_link_fail(l, TW_ELOST);
		return 0;
	}
	if (l->broken)
		next = limit;
	if (l->again && l->again <= now) {
		enum tw_err err = tw_net_dial(l);

		if (err != TW_OK)
			l->again = now + tw_clock_us(TW_NET_PROBE_US);
	}
	if (l->again)
		next = tw_net_earlier(l->again, next);
	if (l->path && !l->bound && l->resuming)
		next = tw_net_earlier(expire_probe(l, now), next);
	else if (l->resuming && l->deadline <= now) {
		l->resuming = false;
		tw_net_resume(l);
		next = tw_net_earlier(l->deadline, next);
	} else if (l->resuming) {
		next = tw_net_earlier(l->deadline, next);
	}
	if (l->state == TW_NET_UP && l->bound && !tw_list_empty(&l->kept))
		next = tw_net_earlier(expire_kept(l, now), next);
	if (l->state == TW_NET_UP && l->bound && l->nops)
		next = tw_net_earlier(expire_ops(l, now), next);
	return l->state == TW_NET_DEAD ? 0 : next;
}

static uint64_t expire_leaving(struct tw_net_link *l, uint64_t now)
{
	if (l->until <= now) {
		tw_net_goodbye(l);
		tw_net_link_end(l);
		return 0;
	}
	return l->tx_shutdown ? l->until : tw_net_earlier(expire_up(l, now), l->until);
}

uint64_t tw_net_link_expire(struct tw_net_link *l, uint64_t now)
{
	switch (l->state) {
	case TW_NET_NEW:
		return l->channel == TW_NET_SEEKING ? tw_net_seek_expire(l, now) : 0;
	case TW_NET_HALF_OPEN:
		if (l->deadline > now)
			return l->deadline;
		tw_net_link_end(l);
		return 0;
	case TW_NET_LEAVING:
		return expire_leaving(l, now);
	case TW_NET_PROBING:
		if (l->path)
			return expire_probe(l, now);
		if (l->deadline <= now) {
			l->resuming = false;
			tw_net_resume(l);
		}
		return l->deadline;
	case TW_NET_DRAIN:
		return expire_drain(l, now);
	case TW_NET_UP:
		return expire_up(l, now);
	default:
		return 0;
	}
}

void tw_net_probed(struct tw_net_link *l, struct tw_net_adapter *a, bool question)
{
	bool was = l->bound;

	if (!l->path || l->adapter != a ||
	    (l->state != TW_NET_UP && l->state != TW_NET_PROBING && l->state != TW_NET_LEAVING))
		return;
	l->probed |= question;
	if (!was) {
		l->bound = true;
		l->resuming = false;
		l->backoff = 0;
		l->bound_at = tw_clock();
		l->broken = 0;
		if (l->state == TW_NET_UP)
			l->deadline = 0;
		l->link.can_get = a->caps.has_rma;
		/* The other side has told which packet it expects; all from there go again. */
		l->unposted = l->kept.next;
		l->progress = l->bound_at;
		if (!tw_list_empty(&l->kept) || l->nops)
			tw_net_timer(l->ep, l->bound_at + tw_clock_us(TW_NET_STATUS_US));
	}
	if (l->state == TW_NET_LEAVING)
		tw_net_goodbye(l);
	if (l->state == TW_NET_PROBING && !question) {
		l->state = TW_NET_UP;
		l->deadline = 0;
		l->ep->host->up->connected(&l->link, &l->other);
	}
	if (l->state == TW_NET_DEAD)
		return;
	tw_net_flush(l);
	if (l->nops)
		tw_net_work(l);
}
