/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of unexpected messages. */
#include "engine/engine.h"

#define SMALL_MAX 128  /* bytes of a short unexpected message */
#define SPARE_MAX 1024 /* of them kept for the next */

_Static_assert(SMALL_MAX >= TW_KEY_MAX, "an announcement holds a key");

void tw_umsg_put(struct tw_ep *ep, struct tw_umsg *u)
{
	if (!u->small || ep->nspare == SPARE_MAX) {
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

/* Short ones are kept for the next. */
struct tw_umsg *tw_umsg_get(struct tw_ep *ep, uint32_t room)
{
	bool small = room <= SMALL_MAX;
	struct tw_umsg *u = small ? ep->spare : NULL;

	if (u) {
		ep->spare = u->spare;
		ep->nspare--;
		return u;
	}
	u = malloc(sizeof(*u) + (small ? SMALL_MAX : room));
	if (u)
		u->small = small;
	return u;
}

void tw_umsgs_fini(struct tw_ep *ep)
{
	struct tw_unexp *x;

	while (TW_HAVE_MX && ep->match && (x = tw_match_first_unexp(ep->match))) {
		tw_match_remove(ep->match, x);
		tw_umsg_free(ep, tw_container(x, struct tw_umsg, unexp));
	}
	while (ep->spare) {
		struct tw_umsg *u = ep->spare;

		ep->spare = u->spare;
		free(u);
	}
}
