/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint of the engine, read from outside: peers, unexpected messages, requests. */
#include "engine/layout.h"

#include <string.h>

#include "../cli.h"
#include "why.h"

#define MOST_PEERS 65536u
#define MOST_UNEXP 4096u
#define MOST_CHUNKS 1024u

static const struct why_peer *peer_at(const struct why_ep *ep, const void *at)
{
	for (unsigned i = 0; i < ep->npeers; i++)
		if (ep->peers[i].at == address(at))
			return &ep->peers[i];
	return NULL;
}

static bool paths_down(const struct scan_entry *e, unsigned i)
{
	bool up = false, down = false;

	for (unsigned k = 0; i < e->stats.npeers && k < TW_STATS_PATHS; k++) {
		up |= e->stats.peers[i].paths[k].state == TW_PATH_UP;
		down |= e->stats.peers[i].paths[k].state == TW_PATH_DOWN;
	}
	return down && !up;
}

/* What the provider says of a peer, or has said of it when it was given up. */
static void read_trouble(struct peek *m, struct why_peer *to, const struct tw_ep *e,
			 const struct tw_peer *p)
{
	struct tw_trouble t = e->failure;
	bool last = p->state == TW_PEER_NONE && e->failure_of == to->where && t.why == to->why;

	if (!last && (!p->trouble || !peek(m, address(p->trouble), &t, sizeof t)))
		return;
	t.cause[sizeof t.cause - 1] = t.advice[sizeof t.advice - 1] = 0;
	table_printable(t.cause);
	table_printable(t.advice);
	to->cause = strdup(t.cause);
	to->advice = strdup(t.advice);
	if (!to->cause || !to->advice)
		bench_fail("no memory");
}

static bool read_peers(struct peek *m, struct why_ep *ep, const struct tw_ep *e)
{
	unsigned n = e->npeers < MOST_PEERS ? e->npeers : MOST_PEERS;
	struct tw_peer **at = calloc(n + 1, sizeof *at), p;

	ep->peers = calloc(n + 1, sizeof *ep->peers);
	if (!at || !ep->peers)
		bench_fail("no memory");
	if (n && !peek(m, address(e->peers), at, n * sizeof *at))
		n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct why_peer *to = &ep->peers[ep->npeers];

		if (!peek(m, address(at[i]), &p, sizeof p) || address(p.ep) != ep->e->stats.self ||
		    p.state > TW_PEER_DOWN)
			continue;
		*to = (struct why_peer){.at = address(at[i]),
					.where = p.addr.where,
					.session = p.addr.session,
					.state = p.state,
					.why = p.why,
					.credits = p.credits,
					.granted = p.granted,
					.silent = p.silent,
					.paths_down = paths_down(ep->e, i)};
		to->queued = address(p.sendq.next) !=
			     address(at[i]) + offsetof(struct tw_peer, sendq);
		read_trouble(m, to, e, &p);
		ep->npeers++;
	}
	free(at);
	return n == e->npeers;
}

struct unexp_walk {
	struct peek *m;
	struct why_ep *ep;
};

static bool see_unexp(void *arg, uint64_t node)
{
	struct unexp_walk *w = arg;
	struct why_ep *ep = w->ep;
	uint64_t at = node - offsetof(struct tw_unexp_msg, unexp) - offsetof(struct tw_unexp, all);
	const struct why_peer *from;
	struct tw_unexp_msg u;

	if (!peek(w->m, at, &u, sizeof u))
		return false;
	from = peer_at(ep, u.peer);
	if (!from || u.state > TW_U_FETCHED)
		return true;
	ep->unexp[ep->nunexp++] = (struct why_unexp){
		.id = at, .from = from->where, .match = u.unexp.match, .len = u.len};
	return ep->nunexp < MOST_UNEXP;
}

static const enum why_state states[TW_NXFERS] = {
	[TW_XFER_UNMATCHED] = WHY_IS_UNMATCHED, [TW_XFER_ANNOUNCED] = WHY_IS_ANNOUNCED,
	[TW_XFER_SENDING] = WHY_IS_SENDING,	[TW_XFER_COPYING] = WHY_IS_COPYING,
	[TW_XFER_GETTING] = WHY_IS_GETTING,	[TW_XFER_DRAINING] = WHY_IS_GETTING,
	[TW_XFER_ASKING] = WHY_IS_ASKING,
};

/* What a request waits for, if it is pending. False: it is not. */
static bool classify(const struct tw_req *r, const struct why_peer *peer, enum why_kind *kind)
{
	if (!(r->obj.gen & 1) || !r->outcome || r->flags & TW_R_DONE)
		return false;
	switch (r->kind) {
	case TW_RECV:
		*kind = r->flags & TW_R_POSTED ? WHY_RECV : WHY_MOVING;
		return r->flags & TW_R_POSTED || peer;
	case TW_CONNECT:
		*kind = WHY_CONNECT;
		return true;
	case TW_FLUSH:
	case TW_READ:
	case TW_WRITE:
	case TW_ATOMIC:
		*kind = WHY_ACCESS;
		return peer;
	case TW_SEND:
	case TW_AM_SEND:
		*kind = r->state == TW_XFER_NONE ? WHY_QUEUED
			: r->state == TW_XFER_UNMATCHED || r->state == TW_XFER_ANNOUNCED
				? WHY_SEND
				: WHY_MOVING;
		return peer;
	default:
		return false;
	}
}

static void add_request(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index,
			const struct tw_req *r)
{
	const struct why_peer *peer =
		r->flags & TW_R_POSTED || r->kind == TW_CONNECT ? NULL : peer_at(ep, r->peer);
	struct why_wait *w;
	enum why_kind kind;

	if (!classify(r, peer, &kind))
		return;
	/* What nobody asks for: the interface's own. */
	if (r->kind == TW_CONNECT && r->flags & TW_R_FORGOTTEN)
		return;
	w = why_wait_new(p, kind);
	if (!w)
		return;
	w->ep = index;
	w->id = (uint64_t)r->obj.gen << 32 | r->obj.index;
	w->moved = r->at;
	w->match = r->match;
	w->mask = UINT64_MAX;
	w->len = r->kind == TW_RECV ? r->len : r->msg_len;
	w->to = peer ? peer->where : 0;
	w->state = r->state < TW_NXFERS ? states[r->state] : WHY_IS_QUEUED;
	if (kind == WHY_CONNECT) {
		w->to = r->other.where;
		w->state = WHY_IS_CONNECTING;
	} else if (kind == WHY_RECV) {
		w->match = r->posted.key;
		w->mask = r->posted.mask;
		w->order = r->posted.seq;
		w->state = WHY_IS_POSTED;
		if (r->extra & TW_X_DIRECTED && !peek(m, address(r->from), &w->to, sizeof w->to))
			w->to = 0;
	} else if (r->kind == TW_SEND && kind != WHY_MOVING) {
		w->len = r->len;
	}
}

static void read_requests(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index,
			  const struct tw_ep *e)
{
	unsigned n = e->reqs.nchunks < MOST_CHUNKS ? e->reqs.nchunks : MOST_CHUNKS;
	struct tw_req *reqs = aligned_alloc(TW_LINE, TW_POOL_CHUNK * sizeof *reqs);
	char **chunks = calloc(n + 1, sizeof *chunks);

	if (!reqs || !chunks)
		bench_fail("no memory");
	if (n && !peek(m, address(e->reqs.chunks), chunks, n * sizeof *chunks))
		n = 0;
	for (unsigned c = 0; c < n; c++) {
		if (!peek(m, address(chunks[c]), reqs, TW_POOL_CHUNK * sizeof *reqs))
			continue;
		for (unsigned i = 0; i < TW_POOL_CHUNK; i++)
			if (reqs[i].obj.index == c * TW_POOL_CHUNK + i)
				add_request(m, p, ep, index, &reqs[i]);
	}
	free(chunks);
	free(reqs);
}

/* The endpoint is the one that its page says. */
static bool is_it(const struct why_ep *ep, const struct tw_ep *e)
{
	const struct tw_stats *s = &ep->e->stats;

	return e->host.self.nic_id == s->nic_id && e->host.self.endpoint_id == s->endpoint_id &&
	       e->host.self.session == s->session;
}

bool why_engine(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index)
{
	const uint64_t *c = ep->e->stats.counters;
	struct unexp_walk walk = {m, ep};
	struct tw_slot_entry slot;
	struct tw_ep e;

	if (!peek(m, ep->e->stats.self, &e, sizeof e) || !is_it(ep, &e) ||
	    !peek(m, address(e.slot), &slot, sizeof slot))
		return false;
	ep->polls = slot.polls;
	ep->calls = e.nwaiting;
	ep->asleep = e.host.state == TW_ASLEEP;
	ep->awaited = e.awaited;
	ep->changed_at = e.changed_at;
	ep->changed_polls = e.changed_polls;
	ep->takeovers = c[TW_C_TAKEOVER];
	ep->done = c[TW_C_SEND_EAGER] + c[TW_C_SEND_RNDV] + c[TW_C_RECV_DONE] + c[TW_C_AM_SENT];
	ep->unexp = calloc(MOST_UNEXP, sizeof *ep->unexp);
	if (!ep->unexp)
		bench_fail("no memory");
	if (!read_peers(m, ep, &e))
		return false;
	read_requests(m, p, ep, index, &e);
	if (!peek_list(m, address(e.match) + offsetof(struct tw_match_head, all), MOST_UNEXP,
		       see_unexp, &walk))
		return false;
	if (strcmp(ep->interface, "mcapi") == 0)
		why_mcapi(m, p, index, address(e.owner));
	if (strcmp(ep->interface, "panda") == 0)
		why_panda(m, p, ep, index, address(e.owner));
	if (strcmp(ep->interface, "mrapi") == 0)
		why_mrapi(m, p, index, address(e.owner));
	return true;
}
