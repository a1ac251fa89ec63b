/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receives that take messages of one peer only (directed receives). Each source has a matcher of
 * its own for them. An arriving message goes to the receive that was posted earlier: the one found
 * there, or the one found among the receives for any source. Without directed receives this costs
 * one test.
 */
#include <stdlib.h>

#include "engine/match_internal.h"
#include "engine/recv.h"

struct tw_source *tw_source_find(struct tw_ep *ep, uint64_t where)
{
	struct tw_source *s = ep->sources;

	while (s && s->where != where)
		s = s->next;
	return s;
}

struct tw_source *tw_source_get(struct tw_ep *ep, uint64_t where)
{
	struct tw_source *s = tw_source_find(ep, where);

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->where = where;
	s->match = tw_match_new();
	if (!s->match) {
		free(s);
		return NULL;
	}
	s->next = ep->sources;
	ep->sources = s;
	for (uint32_t i = 0; i < ep->npeers; i++)
		if (ep->peers[i]->state == TW_PEER_UP && ep->peers[i]->addr.where == where) {
			ep->peers[i]->source = s;
			ep->peers[i]->directed = true;
		}
	return s;
}

struct tw_match *tw_source_matcher(const struct tw_peer *p)
{
	struct tw_match *any = p->ep->match, *own = p->source ? p->source->match : NULL;

	if (p->rx_len || p->ep->traced)
		return NULL;
	if (!own || !tw_match_has_posted(own))
		return any;
	return tw_match_has_posted(any) ? NULL : own;
}

struct tw_posted *tw_source_take(struct tw_peer *p, uint64_t match)
{
	struct tw_match *any = p->ep->match, *own = p->source ? p->source->match : NULL;
	struct tw_posted *q, *mine;

	if (!own)
		return tw_match_take_posted(any, match);
	q = tw_match_find_posted(any, match);
	mine = tw_match_find_posted(own, match);
	if (mine && (!q || mine->seq < q->seq)) {
		tw_match_unpost(own, mine);
		return mine;
	}
	if (q)
		tw_match_unpost(any, q);
	return q;
}

void tw_source_lost(struct tw_peer *p, enum tw_status why)
{
	struct tw_ep *ep = p->ep;
	struct tw_req *r;

	if (!tw_match_has_posted(p->source->match))
		return;
	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));) {
		if (r->kind != TW_RECV || !(r->flags & TW_R_POSTED) ||
		    !(r->extra & TW_X_DIRECTED) || r->from != p->source)
			continue;
		tw_match_unpost(r->from->match, &r->posted);
		ep->gauges[TW_G_POSTED]--;
		r->flags &= (uint8_t)~TW_R_POSTED;
		r->other = p->addr;
		r->msg_len = r->xfer_len = 0;
		tw_req_complete(ep, r, why);
	}
}

void tw_sources_free(struct tw_ep *ep)
{
	while (ep->sources) {
		struct tw_source *s = ep->sources;

		ep->sources = s->next;
		tw_match_free(s->match);
		free(s);
	}
}

struct tw_unexp_msg *tw_unexp_find_from(struct tw_ep *ep, uint64_t key, uint64_t mask,
					uint64_t where)
{
	struct tw_unexp_msg *u = tw_unexp_find(ep, key, mask);

	while (u && where && u->peer->addr.where != where)
		u = tw_unexp_next(ep, u, key, mask);
	return u;
}

void tw_source_post(struct tw_ep *ep, struct tw_req *r, struct tw_source *from)
{
	r->extra |= TW_X_DIRECTED;
	r->from = from;
	tw_match_post_among(from->match, &r->posted, ep->match);
}
