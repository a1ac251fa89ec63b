/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The paths of links. A way is a driver, a board here and one there; a path that breaks is
 * sought again by another way. Both sides know a path by its number. Packets take the first
 * of a link that works: if it breaks, another one that does becomes the first, and what is
 * not acknowledged is sent again along it, without a word to the other side, which drops what
 * it has and asks for what it lacks.
 */
#include <string.h>

#include "base/counters.h"
#include "providers/net/session.h"

#define SOON_US 3000000 /* a path that breaks so soon counts against its way */

struct tw_net_path *tw_net_path_at(struct tw_net_link *l, uint32_t number)
{
	return number < l->npaths ? &l->paths[number] : NULL;
}

struct tw_net_path *tw_net_path_since(struct tw_net_link *l, uint32_t epoch)
{
	for (unsigned i = 0; i < l->npaths; i++)
		if (l->paths[i].path && l->paths[i].epoch == epoch)
			return &l->paths[i];
	return NULL;
}

static void drop_offer(struct tw_net_path *p)
{
	if (p->offered)
		p->offer.adapter->driver->path_free(p->offered);
	p->offered = NULL;
}

void tw_net_path_drop(struct tw_net_path *p, const struct tw_net_adapter *of)
{
	if (!of || p->offer.adapter == of)
		drop_offer(p);
	if (!p->path || (of && p->way.adapter != of))
		return;
	p->way.adapter->driver->path_free(p->path);
	p->path = NULL;
	p->bound = false;
}

/* The first path as the engine sees it. */
static void show_first(struct tw_net_link *l)
{
	const struct tw_net_way *w = &l->first->way;

	l->link.remote = w->adapter->driver->by_system;
	l->link.driver = w->adapter->driver->name;
	l->link.board = l->ep->numbers[w->mine];
}

/* Packets take the first path from now on. */
static void lead(struct tw_net_link *l)
{
	l->link.can_get = l->first->way.adapter->caps.has_rma;
	show_first(l);
	l->unposted = l->kept.next;
	tw_net_work(l);
}

/* If the first path does not work, one that does takes its place. */
static void go_round(struct tw_net_link *l)
{
	for (unsigned i = 0; i < l->npaths && !l->first->bound; i++) {
		if (!l->paths[i].bound)
			continue;
		l->first = &l->paths[i];
		lead(l);
	}
}

void tw_net_path_show(struct tw_net_link *l)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < l->npaths; i++)
		all += l->paths[i].carried;
	for (unsigned i = 0; i < l->npaths; i++) {
		const struct tw_net_path *p = &l->paths[i];

		l->link.paths[p->number] =
			(struct tw_stats_path){.state = p->bound ? TW_PATH_UP : TW_PATH_DOWN,
					       .board = l->ep->numbers[p->way.mine],
					       .share = !tw_net_many_ways(l) ? 100
							: all ? (uint8_t)(100 * p->carried / all)
							      : 0};
	}
	/* Earlier and later the engine has no use for them. */
	if (l->state == TW_NET_UP)
		l->ep->host->up->paths(&l->link);
}

void tw_net_path_left(struct tw_net_link *l, struct tw_net_path *p)
{
	tw_net_path_drop(p, NULL);
	l->left_at = tw_clock();
	go_round(l);
	tw_net_path_show(l);
}

static uint64_t pair_bit(const struct tw_net_way *w)
{
	return 1ull << (w->mine * TW_NET_MAX_BOARDS + w->theirs);
}

void tw_net_way_failed(struct tw_net_link *l, const struct tw_net_way *w)
{
	l->failed[tw_net_index(w->adapter)] |= pair_bit(w);
}

static bool path_meet(const struct tw_net_way *a, const struct tw_net_way *b)
{
	return a->mine == b->mine || a->theirs == b->theirs;
}

/* Whether another path has one of its boards, or may soon. */
static bool path_taken(const struct tw_net_link *l, const struct tw_net_path *p,
		       const struct tw_net_way *w)
{
	for (unsigned i = 0; i < l->npaths; i++) {
		const struct tw_net_path *q = &l->paths[i];

		if (q != p &&
		    ((q->path && path_meet(&q->way, w)) || (q->offered && path_meet(&q->offer, w))))
			return true;
	}
	return false;
}

/* Whether the packet size agreed on for the link fits. */
static bool path_fits(const struct tw_net_link *l, uint32_t max_packet)
{
	uint32_t least = l->link.max_payload ? l->link.max_payload : 4096;

	return max_packet >= least + sizeof(struct tw_net_wire);
}

/* The next way from *at on that may be tried. */
static bool next_way(struct tw_net_link *l, const struct tw_net_path *p, unsigned *at,
		     struct tw_net_way *w)
{
	while (*at < l->ep->nadapters * l->npairs) {
		unsigned i = *at / l->npairs, k = (*at)++ % l->npairs;

		*w = (struct tw_net_way){&l->ep->adapters[i], l->pairs[k].mine, l->pairs[k].theirs};
		if (!(l->failed[i] & pair_bit(w)) && !path_taken(l, p, w) &&
		    tw_net_adapter_open(w->adapter) && path_fits(l, w->adapter->max_packet))
			return true;
	}
	return false;
}

static bool way_left(struct tw_net_link *l, const struct tw_net_path *p)
{
	struct tw_net_way w;
	unsigned at = 0;

	return next_way(l, p, &at, &w);
}

static enum tw_err make_path(const struct tw_net_way *w, const struct tw_driver_tokens *tokens,
			     struct tw_driver_address *mine, void **path)
{
	const struct sockaddr_storage *board = &w->adapter->ep->boards[w->mine];

	return w->adapter->driver->path_new(w->adapter->instance, w->mine ? board : NULL, tokens,
					    mine, path);
}

static void make_offer(const struct tw_net_adapter *a, struct tw_net_offer *o)
{
	strncpy(o->name, a->driver->name, sizeof(o->name) - 1);
	o->max_packet = a->max_packet;
}

static void agree(struct tw_net_link *l, uint32_t max_packet)
{
	if (!l->link.max_payload)
		l->link.max_payload = tw_net_payload(max_packet);
}

void tw_net_offer(struct tw_net_link *l, struct tw_net_path *p, struct tw_net_ctrl *t)
{
	struct tw_driver_tokens tokens;

	tw_net_adapters_load(l->ep);
	drop_offer(p);
	if (!tw_net_tokens(l, p, t->round, true, &tokens))
		return;
	/* When all have failed, all are tried again. */
	for (int again = 0; again < 2 && !t->noffers; again++) {
		struct tw_net_offer *o = &t->offers[0];
		unsigned at = 0;

		if (again) {
			memset(l->failed, 0, sizeof(l->failed));
			tw_net_boards_pair(l);
		}
		/* One offer only: opening the next driver may take a second. */
		while (!t->noffers && next_way(l, p, &at, &p->offer)) {
			if (make_path(&p->offer, &tokens, &o->address, &p->offered) != TW_OK)
				continue;
			make_offer(p->offer.adapter, o);
			t->from = p->offer.mine;
			t->to = p->offer.theirs;
			t->noffers++;
		}
	}
}

bool tw_net_offers_left(struct tw_net_link *l, struct tw_net_path *p)
{
	if (p->offered)
		tw_net_way_failed(l, &p->offer);
	return way_left(l, p);
}

static void net_path_use(struct tw_net_link *l, struct tw_net_path *p, struct tw_net_way w,
			 void *path)
{
	tw_net_path_left(l, p);
	p->way = w;
	p->path = path;
	p->epoch = ++l->epoch;
	p->flying = p->moved = p->rate = 0;
	l->link.key_size = TW_KEY_MAX;
	if (p == l->first)
		show_first(l);
}

enum tw_err tw_net_choose(struct tw_net_link *l, const struct tw_net_ctrl *offers,
			  struct tw_net_ctrl *t)
{
	const struct tw_net_offer *o = &offers->offers[0];
	struct tw_net_path *p = tw_net_path_at(l, offers->path);
	struct tw_net_way w = {NULL, offers->to, offers->from};
	struct tw_net_offer *mine = &t->offers[0];
	struct tw_net_ep *ep = l->ep;
	struct tw_driver_tokens tokens;
	enum tw_err err;
	void *path;

	tw_net_adapters_load(ep);
	if (!p || offers->from >= TW_NET_MAX_BOARDS || offers->to >= ep->nboards)
		return TW_EUNREACH;
	if (!tw_net_tokens(l, p, offers->round, false, &tokens))
		return TW_ENOMEM;
	if (offers->noffers)
		w.adapter = tw_net_adapter_named(ep, o->name, sizeof(o->name));
	if (!w.adapter || !tw_net_adapter_open(w.adapter) || !path_fits(l, o->max_packet) ||
	    !path_fits(l, w.adapter->max_packet) || o->address.len > TW_DRIVER_ADDRESS ||
	    make_path(&w, &tokens, &mine->address, &path) != TW_OK)
		return tw_net_adapters_short(ep) ? TW_ENOMEM : TW_EUNREACH;
	err = w.adapter->driver->path_bind(path, &o->address);
	if (err != TW_OK) {
		w.adapter->driver->path_free(path);
		return err == TW_ENOMEM || tw_net_adapters_short(ep) ? TW_ENOMEM : TW_EUNREACH;
	}
	l->failed[tw_net_index(w.adapter)] &= ~pair_bit(&w);
	make_offer(w.adapter, mine);
	mine->max_packet = tw_min(mine->max_packet, o->max_packet);
	agree(l, mine->max_packet);
	t->noffers = 1;
	net_path_use(l, p, w, path);
	return TW_OK;
}

enum tw_err tw_net_chosen(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_net_path *p = tw_net_path_at(l, t->path);
	const struct tw_net_offer *o = &t->offers[0];
	void *path = p ? p->offered : NULL;
	enum tw_err err;

	/* The other side chooses at most what was offered. */
	if (!path || !t->noffers ||
	    strncmp(o->name, p->offer.adapter->driver->name, sizeof(o->name)) != 0 ||
	    !path_fits(l, o->max_packet) || o->max_packet > p->offer.adapter->max_packet ||
	    o->address.len > TW_DRIVER_ADDRESS)
		return TW_EPROTO;
	err = p->offer.adapter->driver->path_bind(path, &o->address);
	if (err != TW_OK)
		return err == TW_ENOMEM ? err : TW_EPROTO;
	p->offered = NULL;
	agree(l, o->max_packet);
	net_path_use(l, p, p->offer, path);
	return TW_OK;
}

void tw_net_path_more(struct tw_net_link *l)
{
	for (uint32_t i = 0; i < TW_NET_PATHS; i++) {
		struct tw_net_path *p = &l->paths[i];

		if (p->bound || p->resuming)
			continue;
		if (i >= l->npaths && !way_left(l, p))
			return;
		l->npaths = tw_max(l->npaths, i + 1);
		if (!p->path)
			tw_net_resume(l, p);
		else if (p->deadline <= tw_clock()) /* the other side does not probe it */
			tw_net_path_gone(l, p);
	}
}

void tw_net_path_bound(struct tw_net_link *l, struct tw_net_path *p)
{
	tw_log(TW_LOG_DEBUG, "endpoint %u: path %u goes by %s, board %u to %u",
	       l->other.endpoint_id, p->number, p->way.adapter->driver->name, p->way.mine,
	       p->way.theirs);
	p->bound = true;
	p->resuming = false;
	p->backoff = 0;
	p->bound_at = l->progress = tw_clock();
	if (l->channel == TW_NET_OPEN)
		tw_net_link_mended(l);
	if (p == l->first)
		lead(l);
	go_round(l);
	tw_net_path_show(l);
	if (!tw_list_empty(&l->kept) || l->nops)
		tw_net_timer(l->ep, p->bound_at + tw_clock_us(TW_NET_STATUS_US));
}

void tw_net_path_gone(struct tw_net_link *l, struct tw_net_path *p)
{
	tw_net_path_left(l, p);
	if (!l->first->bound)
		tw_net_link_broken(l, tw_clock());
	tw_net_resume(l, p);
}

void tw_net_path_broken(struct tw_net_link *l, struct tw_net_path *p)
{
	bool resuming = p->resuming;

	l->ep->host->counters[TW_C_PATH_BROKEN]++;
	if (p->path && (!p->bound || tw_clock() - p->bound_at < tw_clock_us(SOON_US)))
		tw_net_way_failed(l, &p->way);
	tw_net_path_gone(l, p);
	/* The new path does not work either: try the next way, if any is left. */
	if (resuming && way_left(l, p))
		p->deadline = tw_net_in(l->ep, TW_NET_PROBE_US);
}

void tw_net_broken(void *owner, void *path)
{
	struct tw_net_adapter *a = owner;

	if (!path) {
		a->absent = tw_clock() + tw_clock_us(TW_NET_ABSENT_US);
		/* Not used again while another path is being agreed on. */
		tw_list_walk(&a->ep->links, struct tw_net_link, l, node)
			l->failed[tw_net_index(a)] = ~0ull;
		tw_net_adapter_reset(a);
		return;
	}
	tw_list_walk(&a->ep->links, struct tw_net_link, l, node) {
		struct tw_net_path *p = tw_net_path_of(l, a, path);

		if (!p)
			continue;
		/* A link that ends needs no other path. */
		if (tw_net_resumable(l)) {
			tw_net_path_broken(l, p);
		} else if (l->state == TW_NET_DRAIN) {
			/* All that came has been taken in. */
			tw_net_path_left(l, p);
			tw_net_timer(l->ep, tw_clock());
		}
		return;
	}
}
