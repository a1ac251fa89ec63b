/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of unexpected and of claimed messages, and of requests. Memory that has not been used for
 * a second is released.
 */
#include "engine/engine.h"

#define SPARE_MAX 1024	      /* of them kept for reuse */
#define LONG_MIN 16384	      /* bytes of a long one: allocating costs more than the copy */
#define LONG_KEPT (32u << 20) /* bytes of long ones kept */
#define LONG_TRIES 16	      /* entries of the spare list that are tried */
#define CHUNKS_KEPT 8	      /* of requests */

_Static_assert(TW_SMALL_MAX >= TW_KEY_MAX, "an announcement holds a key");

static void trim_later(struct tw_ep *ep)
{
	if (ep->trim_at)
		return;
	ep->longs.fewest = 0;
	ep->trim_at = tw_clock() + tw_clock_us(TW_UNUSED_US);
	tw_timer(&ep->host, ep->trim_at);
}

void tw_trim_later(struct tw_ep *ep)
{
	const struct tw_pool *own = ep->iface->pool;

	if (tw_pool_held(&ep->reqs) > CHUNKS_KEPT || (own && tw_pool_held(own) > CHUNKS_KEPT))
		trim_later(ep);
}

static void keep_long(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_spare_long *l = &ep->longs;

	u->next = l->first;
	l->first = u;
	l->n++;
	l->bytes += u->room;
	trim_later(ep);
}

/* Returns a spare one of a fitting size. */
static struct tw_unexp_msg *kept_long(struct tw_ep *ep, uint32_t room)
{
	struct tw_spare_long *l = &ep->longs;
	struct tw_unexp_msg **at, *u;

	at = &l->first;
	for (unsigned i = 0; i < LONG_TRIES && (u = *at); i++, at = &u->next) {
		if (u->room < room || u->room / 2 > room)
			continue;
		*at = u->next;
		l->bytes -= u->room;
		l->fewest = tw_min(l->fewest, --l->n);
		return u;
	}
	return NULL;
}

static void free_longs(struct tw_spare_long *l, uint32_t but)
{
	struct tw_unexp_msg **at = &l->first, *u;

	for (uint32_t i = 0; i < but; i++)
		at = &(*at)->next;
	while ((u = *at)) {
		*at = u->next;
		l->n--;
		l->bytes -= u->room;
		free(u);
	}
}

static void free_shorts(struct tw_ep *ep)
{
	while (ep->spare) {
		struct tw_unexp_msg *u = ep->spare;

		ep->spare = u->next;
		free(u);
	}
	ep->nspare = ep->spare_stop = 0;
}

uint64_t tw_trim_expire(struct tw_ep *ep, uint64_t now)
{
	struct tw_spare_long *l = &ep->longs;

	if (!ep->trim_at || now < ep->trim_at)
		return ep->trim_at;
	free_longs(l, l->n - l->fewest);
	l->fewest = l->n;
	free_shorts(ep);
	if (ep->match)
		tw_match_trim(ep->match);
	tw_pool_trim(&ep->reqs, CHUNKS_KEPT);
	if (ep->iface->pool)
		tw_pool_trim(ep->iface->pool, CHUNKS_KEPT);
	ep->trim_at = l->n ? now + tw_clock_us(TW_UNUSED_US) : 0;
	return ep->trim_at;
}

/* A long one, the first spare one, or one above the limit. */
void tw_unexp_msg_free(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	if (u->room >= LONG_MIN && ep->longs.bytes + u->room <= LONG_KEPT) {
		keep_long(ep, u);
		return;
	}
	if (u->room != TW_SMALL_MAX || ep->spare_stop) {
		free(u);
		return;
	}
	ep->spare_stop = SPARE_MAX;
	tw_unexp_msg_put(ep, u);
	trim_later(ep);
}

struct tw_unexp_msg *tw_unexp_msg_new(struct tw_ep *ep, uint32_t room)
{
	struct tw_unexp_msg *u;

	room = tw_max(room, (uint32_t)TW_SMALL_MAX);
	u = room >= LONG_MIN ? kept_long(ep, room) : NULL;
	if (u)
		return u;
	u = malloc(sizeof(*u) + room);
	if (u)
		u->room = room;
	return u;
}

void tw_unexp_msgs_fini(struct tw_ep *ep)
{
	struct tw_unexp *x;

	while (ep->match && (x = tw_match_find_unexp(ep->match, 0, 0))) {
		tw_match_remove(ep->match, x);
		free(tw_container(x, struct tw_unexp_msg, unexp));
	}
	free_longs(&ep->longs, 0);
	free_shorts(ep);
}
