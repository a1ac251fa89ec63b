/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of peers, and their states. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/window.h"

#define DEAD_KEPT 64 /* dead peers before the oldest slot is used again */

static void peer_set_state(struct tw_peer *p, enum tw_peer_state state)
{
	p->ep->nconnecting += (state == TW_PEER_CONNECTING) - (p->state == TW_PEER_CONNECTING);
	p->state = (uint8_t)state;
}

static void clear_peer(struct tw_peer *p)
{
	tw_list_init(&p->sendq);
	tw_list_init(&p->work);
	tw_list_init(&p->open);
	tw_list_init(&p->connects);
	tw_list_init(&p->sending);
	tw_list_init(&p->waiting);
	tw_list_init(&p->replying);
	tw_list_init(&p->moving);
	tw_list_init(&p->windows.grants);
	tw_list_init(&p->windows.known);
	tw_list_init(&p->windows.flushes);
}

/* One that is free, or has long been dead, so that restarts of peers use no memory. */
static struct tw_peer *peer_reuse(struct tw_ep *ep)
{
	struct tw_peer *first = NULL;
	uint32_t dead = 0;

	for (uint32_t i = 0; i < ep->npeers; i++) {
		struct tw_peer *p = ep->peers[i];

		if (p->state == TW_PEER_NONE)
			return p;
		dead += p->state == TW_PEER_DOWN;
		if (!first && p->state == TW_PEER_DOWN && !p->numsgs)
			first = p;
	}
	return dead > DEAD_KEPT ? first : NULL;
}

static struct tw_peer *peer_add(struct tw_ep *ep)
{
	struct tw_peer *p;

	if (ep->npeers == ep->max_peers) {
		uint32_t n = ep->max_peers ? 2 * ep->max_peers : 8;
		struct tw_peer **peers;

		if (n > 1u << 20)
			return NULL;
		peers = realloc(ep->peers, n * sizeof(*peers));
		if (!peers)
			return NULL;
		ep->peers = peers;
		ep->max_peers = n;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->index = ep->npeers;
	ep->peers[ep->npeers++] = p;
	return p;
}

struct tw_peer *tw_peer_new(struct tw_ep *ep, uint64_t where)
{
	struct tw_peer *p = peer_reuse(ep);
	uint32_t index;

	if (!p)
		p = peer_add(ep);
	if (!p)
		return NULL;
	index = p->index;
	tw_failure_forget(p);
	memset(p, 0, sizeof(*p));
	clear_peer(p);
	p->ep = ep;
	p->txq = &tw_no_txq;
	p->index = index;
	p->begun = tw_clock();
	peer_set_state(p, TW_PEER_CONNECTING);
	p->addr = (struct tw_addr){where, 0, (uint32_t)(ep->slot - tw_slots) << 20 | index};
	tw_stats_peer(p);
	return p;
}

void tw_peer_free(struct tw_peer *p)
{
	tw_peer_no_work(p);
	tw_failure_forget(p);
	peer_set_state(p, TW_PEER_NONE);
	tw_stats_peer(p);
}

struct tw_peer *tw_peer_find(struct tw_ep *ep, uint64_t where)
{
	for (uint32_t i = 0; i < ep->npeers; i++) {
		struct tw_peer *p = ep->peers[i];

		if (p->addr.where == where &&
		    (p->state == TW_PEER_UP || p->state == TW_PEER_CONNECTING))
			return p;
	}
	return NULL;
}

/* Half of the memory for the first peer, an equal share for each when there are more. */
uint32_t tw_peer_window(struct tw_ep *ep)
{
	uint32_t lines = ep->unexp_max / TW_LINE, up = 0;

	for (uint32_t i = 0; i < ep->npeers; i++)
		up += ep->peers[i]->state == TW_PEER_UP && ep->peers[i] != ep->self;
	return lines / tw_max(up, 2u);
}

/* Gives each peer its share. Windows that are too large shrink as lines are returned. */
static void share_out(struct tw_ep *ep)
{
	uint32_t fair = tw_peer_window(ep);

	for (uint32_t i = 0; i < ep->npeers; i++)
		ep->peers[i]->fair = fair;
}

/* The name has a new owner: addresses of the old one have an old session. */
static void peer_outdate(const struct tw_peer *now)
{
	struct tw_ep *ep = now->ep;

	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->state == TW_PEER_DOWN &&
		    ep->peers[i]->addr.where == now->addr.where)
			ep->peers[i]->why = TW_S_BAD_SESSION;
}

void tw_peer_up(struct tw_peer *p, struct tw_link *link, const struct tw_ident *other)
{
	struct tw_ep *ep = p->ep;

	p->link = link;
	if (link->txq)
		link->txq->peer = p->addr.where;
	tw_failure_forget(p);
	peer_set_state(p, TW_PEER_UP);
	p->source = tw_source_find(ep, p->addr.where);
	p->directed = p->source || ep->traced;
	p->addr.session = other->session;
	p->filter = other->filter;
	p->credits = p->granted = other->window;
	peer_outdate(p);
	share_out(ep);
	tw_stats_peer(p);
}

void tw_peer_bar(struct tw_peer *p)
{
	tw_txq_close(p);
	p->barred = true;
	p->credits = 0;
}

void tw_peer_admit(struct tw_peer *p)
{
	if (p->barred)
		p->credits = p->granted;
	p->barred = false;
}

static void fail_all(struct tw_peer *p, struct tw_list *list, enum tw_status why)
{
	struct tw_req *r;

	while ((r = tw_list_take(list, struct tw_req, link)))
		tw_transfer_lost(p, r, why);
}

void tw_peer_down(struct tw_peer *p, enum tw_status why)
{
	struct tw_ep *ep = p->ep;
	struct tw_req *half = p->rx_req;

	if (p->state != TW_PEER_UP)
		return;
	tw_txq_close(p);
	peer_set_state(p, TW_PEER_DOWN);
	p->why = (uint8_t)why;
	p->link = NULL;
	p->unanswered = false;
	fail_all(p, &p->windows.flushes, why);
	fail_all(p, &p->sendq, why);
	p->show->queued = 0;
	fail_all(p, &p->sending, why);
	fail_all(p, &p->waiting, why);
	fail_all(p, &p->moving, why);
	fail_all(p, &p->replying, why);
	tw_recv_lost(p);
	if (half)
		tw_transfer_lost(p, half, why);
	if (TW_USES_WINDOWS)
		tw_windows_lost(p);
	tw_peer_no_work(p);
	if (p->source)
		tw_source_lost(p, why);
	ep->events++;
	if (ep->iface->down)
		ep->iface->down(ep, p);
	share_out(ep);
	tw_stats_peer(p);
}
