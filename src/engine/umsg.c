/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of messages that came before their receives, or that the interface takes. */
#include "engine/engine.h"

#define SMALL_MAX 128	      /* bytes of a short unexpected message */
#define SPARE_MAX 1024	      /* of them kept for the next */
#define LONG_MIN 16384	      /* bytes of a long one: new memory costs more than its copy */
#define LONG_KEPT (32u << 20) /* bytes of those kept */
#define LONG_LOOKS 16	      /* at those last used, for one that fits */
#define LONG_REST_US 1000000  /* what was not needed so long is given back */

_Static_assert(SMALL_MAX >= TW_KEY_MAX, "an announcement holds a key");

static void keep_long(struct tw_ep *ep, struct tw_umsg *u)
{
	struct tw_spare_long *l = &ep->longs;

	u->spare = l->first;
	l->first = u;
	l->n++;
	l->bytes += u->room;
	if (l->look_at)
		return;
	l->fewest = 0;
	l->look_at = tw_clock() + tw_clock_us(LONG_REST_US);
	tw_timer(&ep->host, l->look_at);
}

/* One that is not much too large. */
static struct tw_umsg *kept_long(struct tw_ep *ep, uint32_t room)
{
	struct tw_spare_long *l = &ep->longs;
	struct tw_umsg **at, *u;

	at = &l->first;
	for (unsigned i = 0; i < LONG_LOOKS && (u = *at); i++, at = &u->spare) {
		if (u->room < room || u->room / 2 > room)
			continue;
		*at = u->spare;
		l->bytes -= u->room;
		l->fewest = tw_min(l->fewest, --l->n);
		return u;
	}
	return NULL;
}

static void free_longs(struct tw_spare_long *l, uint32_t but)
{
	struct tw_umsg **at = &l->first, *u;

	for (uint32_t i = 0; i < but; i++)
		at = &(*at)->spare;
	while ((u = *at)) {
		*at = u->spare;
		l->n--;
		l->bytes -= u->room;
		free(u);
	}
}

uint64_t tw_umsg_expire(struct tw_ep *ep, uint64_t now)
{
	struct tw_spare_long *l = &ep->longs;

	if (!l->look_at || now < l->look_at)
		return l->look_at;
	free_longs(l, l->n - l->fewest);
	l->fewest = l->n;
	l->look_at = l->n ? now + tw_clock_us(LONG_REST_US) : 0;
	return l->look_at;
}

void tw_umsg_put(struct tw_ep *ep, struct tw_umsg *u)
{
	if (u->room >= LONG_MIN && ep->longs.bytes + u->room <= LONG_KEPT) {
		keep_long(ep, u);
		return;
	}
	if (u->room != SMALL_MAX || ep->nspare == SPARE_MAX) {
		free(u);
		return;
	}
	u->spare = ep->spare;
	ep->spare = u;
	ep->nspare++;
}

void tw_umsg_free(struct tw_ep *ep, struct tw_umsg *u)
{
	ep->gauges[TW_G_UNEXPECTED]--;
	ep->gauges[TW_G_UNEXP_BYTES] -= u->rndv ? 0 : u->len;
	u->peer->numsgs--;
	tw_umsg_put(ep, u);
}

struct tw_umsg *tw_umsg_get(struct tw_ep *ep, uint32_t room)
{
	struct tw_umsg *u;

	room = tw_max(room, (uint32_t)SMALL_MAX);
	u = room == SMALL_MAX ? ep->spare : NULL;
	if (u) {
		ep->spare = u->spare;
		ep->nspare--;
		return u;
	}
	u = room >= LONG_MIN ? kept_long(ep, room) : NULL;
	if (u)
		return u;
	u = malloc(sizeof(*u) + room);
	if (u)
		u->room = room;
	return u;
}

void tw_umsgs_fini(struct tw_ep *ep)
{
	struct tw_unexp *x;

	while (TW_HAVE_MX && ep->match && (x = tw_match_first_unexp(ep->match))) {
		tw_match_remove(ep->match, x);
		tw_umsg_free(ep, tw_container(x, struct tw_umsg, unexp));
	}
	free_longs(&ep->longs, 0);
	while (ep->spare) {
		struct tw_umsg *u = ep->spare;

		ep->spare = u->spare;
		free(u);
	}
}
