/* SPDX-License-Identifier: BSD-2-Clause */
/* Links: their numbers, how they end, and their timers. */
#include <stdio.h>
#include <stdlib.h>

#include "providers/net/session.h"

#define QUIET_US 50000	 /* without packets after a hang-up: all have come */
#define DRAIN_US 2500000 /* the same after BYE, while packets before it are missing */
#define LOOKS 16	 /* calls of progress(): a driver may take in one packet at a time */
#define OLD_US 2000000	 /* limit for a transfer on a path that was given up */

struct tw_net_link *tw_net_link_find(struct tw_net_ep *ep, uint32_t conn)
{
	struct tw_net_link *l = tw_slots_find(&ep->table, conn);

	return l && l->conn == conn ? l : NULL;
}

struct tw_net_link *tw_net_link_new(struct tw_net_ep *ep, enum tw_net_state state)
{
	struct tw_net_link *l = calloc(1, sizeof(*l));
	uint32_t i = l ? tw_slots_add(&ep->table, l) : TW_SLOTS_MAX;

	if (i == TW_SLOTS_MAX) {
		free(l);
		return NULL;
	}
	l->ep = ep;
	/* Depends on the session: a packet for an earlier opening finds no link. */
	l->conn = (ep->host->self.session * 40503u + ++ep->serial) << 16 | i;
	l->link.provider = &tw_provider_net;
	l->state = state;
	l->begun = tw_clock();
	l->sock = -1;
	l->watch.ready = tw_net_sock_ready;
	l->npaths = l->npairs = 1;
	for (uint32_t i = 0; i < TW_NET_PATHS; i++)
		l->paths[i].number = i;
	l->first = l->paths;
	l->unposted = &l->kept;
	tw_list_init(&l->kept);
	tw_list_init(&l->work);
	tw_list_init(&l->ops);
	tw_list_init(&l->mrs);
	tw_list_add_tail(&ep->links, &l->node);
	ep->nlinks++;
	if (state != TW_NET_HALF_OPEN)
		tw_net_poll(ep);
	return l;
}

/* Reports to the engine why a peer without a path or a channel is not reached. */
static void link_trouble(const struct tw_net_link *l)
{
	char ports[128], cause[64], advice[160];
	const struct tw_driver *driver;

	if (l->state != TW_NET_PROBING && l->state != TW_NET_UP)
		return;
	if (l->channel != TW_NET_OPEN) {
		l->ep->host->up->trouble(l->ep->host, l->link.peer, TW_ELOST,
					 "the connection to it is broken",
					 "the network between the hosts must work again within "
					 "TAGWIRE_RETRY");
		return;
	}
	if (l->first->bound)
		return;
	driver = l->first->way.adapter->driver;
	driver->ports(&tw_settings, ports, sizeof(ports));
	snprintf(cause, sizeof(cause), "it answers, but no packet by %s comes through",
		 driver->name);
	snprintf(advice, sizeof(advice), "let %s pass on both hosts", ports);
	l->ep->host->up->trouble(l->ep->host, l->link.peer, TW_ELOST, cause, advice);
}

void tw_net_link_mended(struct tw_net_link *l)
{
	l->broken = 0;
	if (l->state == TW_NET_PROBING || l->state == TW_NET_UP)
		l->ep->host->up->trouble(l->ep->host, l->link.peer, TW_OK, NULL, NULL);
}

void tw_net_link_broken(struct tw_net_link *l, uint64_t since)
{
	link_trouble(l);
	if (!l->broken || since < l->broken)
		l->broken = since;
	tw_net_timer(l->ep, l->broken + tw_clock_us(1000ull * tw_settings.retry));
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
	tw_net_ports_end(l);
	tw_net_ops_end(l, false);
	tw_net_mrs_end(l, NULL);
	for (unsigned i = 0; i < l->npaths; i++)
		tw_net_path_drop(&l->paths[i], NULL);
	tw_net_packets_drop(l);
	ep->table.of[l->conn % TW_SLOTS_MAX] = NULL;
	tw_list_del(&l->work);
	tw_list_del(&l->node);
	ep->nlinks--;
	tw_list_add_tail(&ep->dead, &l->node);
	/* The next progress frees it. */
	tw_net_poll(ep);
}

void tw_net_reap(struct tw_net_ep *ep)
{
	struct tw_net_link *l;

	while ((l = tw_list_take(&ep->dead, struct tw_net_link, node))) {
		free(l->silent);
		free(l);
	}
}

void tw_net_link_fail(struct tw_net_link *l, enum tw_err why)
{
	const struct tw_upcalls *up = l->ep->host->up;
	enum tw_net_state state = l->state;

	tw_log(TW_LOG_DEBUG, "the connection to endpoint %u ends: %s", l->other.endpoint_id,
	       tw_log_err(why));
	if (state == TW_NET_UP || state == TW_NET_DRAIN)
		tw_net_ops_end(l, true);
	tw_net_link_end(l);
	if (state == TW_NET_UP || state == TW_NET_DRAIN)
		up->down(&l->link, why);
	else if (state == TW_NET_NEW || state == TW_NET_PROBING)
		up->refused(&l->link, why);
}

/* Its drivers have passed on what came along the paths of a process that has ended. */
static bool link_drained(const struct tw_net_link *l)
{
	for (unsigned i = 0; i < l->npaths; i++)
		if (l->paths[i].path)
			return false;
	return !l->orderly;
}

void tw_net_link_drain(struct tw_net_link *l, enum tw_err why)
{
	if (l->state != TW_NET_UP && l->state != TW_NET_DRAIN) {
		tw_net_link_fail(l, why);
		return;
	}
	if (l->state == TW_NET_UP)
		l->last_rx = tw_clock();
	l->state = TW_NET_DRAIN;
	l->why = why;
	/* All that was ever sent has come: it has left, and is not lost. */
	if (l->orderly && l->expected == l->final) {
		tw_net_link_fail(l, TW_ECLOSED);
		return;
	}
	tw_net_timer(l->ep, link_drained(l) ? tw_clock() : l->last_rx + tw_clock_us(QUIET_US));
}

/* Takes in what its drivers have. */
static void link_look(struct tw_net_link *l)
{
	for (unsigned i = 0; i < l->npaths && l->state == TW_NET_DRAIN; i++)
		if (l->paths[i].path)
			l->paths[i].way.adapter->driver->progress(
				l->paths[i].way.adapter->instance);
}

static uint64_t expire_drain(struct tw_net_link *l, uint64_t now)
{
	/* Packets that have arrived already still count. */
	for (int i = 0; i < LOOKS && l->state == TW_NET_DRAIN; i++)
		link_look(l);
	if (l->state != TW_NET_DRAIN)
		return 0;
	l->deadline = l->last_rx + tw_clock_us(l->orderly ? DRAIN_US : QUIET_US);
	if (l->deadline <= now || link_drained(l)) {
		tw_net_link_fail(l, l->why);
		return 0;
	}
	return tw_earlier(now + tw_clock_us(QUIET_US), l->deadline);
}

/* Probes go out until one is answered or the deadline has passed. */
static uint64_t expire_probe(struct tw_net_link *l, struct tw_net_path *p, uint64_t now)
{
	if (p->deadline <= now) {
		tw_net_way_failed(l, &p->way);
		p->backoff++;
		p->resuming = false;
		tw_net_path_broken(l, p);
		return l->state == TW_NET_DEAD ? 0 : p->deadline;
	}
	link_trouble(l);
	tw_net_send_plain(l, p, TW_NET_PROBE);
	return tw_earlier(p->deadline, now + tw_clock_us(TW_NET_PROBE_US));
}

/* The search for a path. */
static uint64_t expire_search(struct tw_net_link *l, struct tw_net_path *p, uint64_t now)
{
	if (!p->resuming)
		return 0;
	if (p->path && !p->bound)
		return expire_probe(l, p, now);
	if (p->deadline <= now) {
		p->resuming = false;
		p->backoff++;
		/* Sought again when it is needed: see tw_net_path_more(). */
		if (l->first->bound && !l->nops)
			return 0;
		/* The question may have been lost with the board that the channel takes. */
		if (tw_net_many_ways(l) && tw_net_sock_stalled(l))
			tw_net_sock_lost(l, TW_ELOST);
		else
			tw_net_resume(l, p);
	}
	return p->resuming ? p->deadline : 0;
}

/* Gives up a path or channel along which the other system does not answer. */
static void link_check(struct tw_net_link *l, struct tw_net_path *p)
{
	const struct tw_driver *d = p->way.adapter->driver;

	if (!tw_net_many_ways(l))
		return;
	if (d->stalled && d->stalled(p->path)) {
		tw_net_way_failed(l, &p->way);
		tw_net_path_broken(l, p);
	} else {
		/* To have something unanswered, if it is dead. */
		tw_net_send_plain(l, p, TW_NET_PROBE);
	}
	if (tw_net_sock_stalled(l))
		tw_net_sock_lost(l, TW_ELOST);
}

/* No acknowledgement has come, or no transfer ended, for a while: asks for the former. */
static uint64_t expire_progress(struct tw_net_link *l, struct tw_net_path *p, uint64_t *progress,
				uint64_t now)
{
	uint64_t wait = tw_clock_us(TW_NET_STATUS_US);

	if (*progress + wait <= now) {
		*progress = now;
		/* A peer that does not read now is asked once: more would fill its socket. */
		if (!l->asked)
			tw_net_ctrl_send(l, TW_NET_STATUS, TW_PENDING);
		l->asked = l->channel == TW_NET_OPEN;
		link_check(l, p);
	}
	return *progress + wait;
}

/* A driver that does not end a transfer on a path that was given up is closed. */
static uint64_t expire_ops(struct tw_net_link *l, uint64_t now)
{
	uint64_t until = tw_max(l->first->bound_at, l->left_at) + tw_clock_us(OLD_US);

	tw_list_walk(&l->ops, struct tw_net_op, op, node) {
		if (!op->posted || op->over || tw_net_path_since(l, op->epoch))
			continue;
		if (until > now)
			return until;
		tw_net_adapter_reset(op->posted);
		return 0;
	}
	return 0;
}

/* Dials again. */
static uint64_t expire_call(struct tw_net_link *l, uint64_t now)
{
	enum tw_err err;

	if (!l->again || l->again > now)
		return l->again;
	err = tw_net_dial(l);
	if (err != TW_OK && l->state == TW_NET_NEW) {
		tw_net_link_fail(l, err);
		return 0;
	}
	if (err != TW_OK)
		l->again = now + tw_clock_us(TW_NET_PROBE_US);
	return l->again;
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
	next = tw_earlier(expire_call(l, now), next);
	for (uint32_t i = 0; i < l->npaths && l->state != TW_NET_DEAD; i++)
		next = tw_earlier(expire_search(l, &l->paths[i], now), next);
	if (tw_net_resumable(l) && l->first->bound && !tw_list_empty(&l->kept))
		next = tw_earlier(expire_progress(l, l->first, &l->progress, now), next);
	for (uint32_t i = 0; i < l->npaths && l->state == TW_NET_UP; i++) {
		struct tw_net_path *p = &l->paths[i];

		if (p->bound && p->flying && tw_net_many_ways(l))
			next = tw_earlier(expire_progress(l, p, &p->progress, now), next);
	}
	if (l->state == TW_NET_UP && l->first->bound && l->nops)
		next = tw_earlier(expire_ops(l, now), next);
	return l->state == TW_NET_DEAD ? 0 : next;
}

static uint64_t expire_leaving(struct tw_net_link *l, uint64_t now)
{
	bool acked = tw_list_empty(&l->kept);

	if (acked || l->until <= now)
		tw_net_goodbye(l);
	/* Nothing waits for a channel to say it by. */
	if (l->until <= now || (acked && !l->tx_shutdown)) {
		tw_net_link_end(l);
		return 0;
	}
	return l->tx_shutdown ? l->until : tw_earlier(expire_up(l, now), l->until);
}

uint64_t tw_net_link_expire(struct tw_net_link *l, uint64_t now)
{
	switch (l->state) {
	case TW_NET_NEW:
		return l->channel == TW_NET_SEARCHING ? tw_net_search_expire(l, now)
						      : expire_call(l, now);
	case TW_NET_HALF_OPEN:
		if (l->deadline > now)
			return l->deadline;
		tw_net_link_end(l);
		return 0;
	case TW_NET_LEAVING:
		return expire_leaving(l, now);
	case TW_NET_PROBING:
		l->first->resuming = true;
		return expire_search(l, l->first, now);
	case TW_NET_DRAIN:
		return expire_drain(l, now);
	case TW_NET_UP:
		return expire_up(l, now);
	default:
		return 0;
	}
}

void tw_net_probed(struct tw_net_link *l, struct tw_net_path *p, bool question)
{
	if (l->state != TW_NET_UP && l->state != TW_NET_PROBING && l->state != TW_NET_LEAVING)
		return;
	p->probed |= question;
	l->probed |= question;
	/* The other side has told which packet it expects; all from there go again. */
	if (!p->bound)
		tw_net_path_bound(l, p);
	if (l->state == TW_NET_PROBING) {
		l->state = TW_NET_UP;
		l->ep->host->up->found(l->other.nic_id, &l->peer_addr, true);
		l->ep->host->up->connected(&l->link, &l->other);
	}
	if (l->state == TW_NET_DEAD)
		return;
	tw_net_flush(l);
	if (l->nops)
		tw_net_work(l);
}
