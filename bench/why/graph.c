/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who waits for whom. A process may have many requests pending; the one that counts is the one
 * whose other side explains most: stopped or silent before blocked, one process before any of
 * several. So each process waits for at most one other, and following these arrows ends at a
 * process that waits for none, or in a cycle.
 */
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "base/stats.h"
#include "engine/types.h"
#include "why.h"

#define FAR 1000000u /* from any process that does not wait */

int why_owner(const struct why_facts *f, uint64_t job, uint64_t where)
{
	for (unsigned i = 0; i < f->n; i++)
		for (unsigned k = 0; k < f->procs[i].neps; k++)
			if (f->procs[i].eps[k].job == job && f->procs[i].eps[k].where == where)
				return (int)i;
	return WHY_NONE;
}

int why_by_pid(const struct why_facts *f, unsigned host, pid_t pid)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->procs[i].pid == pid && f->procs[i].host == host)
			return (int)i;
	return WHY_NONE;
}

static bool has_node(const struct why_proc *p, uint32_t node)
{
	for (unsigned i = 0; i < p->nnodes; i++)
		if (p->node[i] == node)
			return true;
	return false;
}

int why_holder(const struct why_facts *f, const struct why_proc *p, const struct why_holder *h)
{
	int found = WHY_NONE;

	if (h->pid)
		return why_by_pid(f, h->host, h->pid);
	for (unsigned k = 0; found < 0 && k < p->neps; k++)
		found = why_owner(f, p->eps[k].job, h->where);
	return found < 0 || has_node(&f->procs[found], h->node) ? found : WHY_NONE;
}

/* Locks of other hosts ------------------------------------------------------- */

/* Of the nodes of other hosts that wait on a host, one of this process. */
static const struct why_wait *foreign_of(const struct why_facts *f, unsigned host,
					 const struct why_proc *p, uint64_t where)
{
	for (unsigned i = 0; i < f->n; i++)
		for (unsigned k = 0; f->procs[i].host == host && k < f->procs[i].nforeign; k++) {
			const struct why_wait *w = &f->procs[i].foreign[k];

			if (w->to == where && has_node(p, w->other))
				return w;
		}
	return NULL;
}

/* A wait for the answer of another host is one for a lock there, if that host says so. */
static void join_lock(const struct why_graph *g, const struct why_proc *p, struct why_wait *w)
{
	const struct why_ep *ep = &p->eps[w->ep];
	int asked = why_owner(g->now, ep->job, w->to);
	const struct why_wait *there;

	if (asked < 0 || g->now->procs[asked].host == p->host)
		return;
	there = foreign_of(g->now, g->now->procs[asked].host, p, ep->where);
	if (!there)
		return;
	*w = *there;
	w->ep = 0;
	w->to = 0;
}

static void join_locks(const struct why_graph *g)
{
	for (unsigned i = 0; i < g->now->n; i++)
		for (unsigned k = 0; k < g->now->procs[i].nwaits; k++)
			if (g->now->procs[i].waits[k].kind == WHY_ASKED)
				join_lock(g, &g->now->procs[i], &g->now->procs[i].waits[k]);
}

/* Messages that do not match --------------------------------------------------- */

static unsigned bits(uint64_t x)
{
	return (unsigned)__builtin_popcountll(x);
}

/* Whether a message is of the peer that is waited for. */
static bool is_awaited(const struct why_actor *a, const struct why_graph *g, uint64_t from)
{
	uint64_t job = a->now->eps[a->wait->ep].job;

	return a->next < 0 ? from == a->ended : why_owner(g->now, job, from) == a->next;
}

/* The unexpected message of a process that comes nearest to what a receive waits for. */
static void nearest_message(struct why_actor *a, const struct why_graph *g,
			    const struct why_wait *w)
{
	const struct why_ep *ep = &a->now->eps[w->ep];
	unsigned best = 65;

	for (unsigned i = 0; i < ep->nunexp; i++) {
		const struct why_unexp *u = &ep->unexp[i];
		unsigned n = bits(why_differ(u->match, w->match, w->mask));

		/* Of another source only what this would match. */
		if ((!is_awaited(a, g, u->from) && (n || !w->to)) || n >= best)
			continue;
		best = n;
		a->miss = u;
		a->miss_at = (int)(a - g->actors);
		a->miss_ep = w->ep;
		a->miss_recv = w;
	}
}

/* A send that is not matched: what the other side waits for instead. */
static void nearest_receive(struct why_actor *a, const struct why_graph *g,
			    const struct why_wait *w, int to)
{
	const struct why_proc *p = g->actors[to].now;
	uint64_t mine = a->now->eps[w->ep].where;
	unsigned best = 65;

	for (unsigned k = 0; k < p->neps; k++)
		for (unsigned i = 0; i < p->eps[k].nunexp; i++) {
			const struct why_unexp *u = &p->eps[k].unexp[i];

			if (u->from == mine && (!a->miss || u->match == w->match)) {
				a->miss = u;
				a->miss_at = to;
				a->miss_ep = k;
			}
		}
	for (unsigned i = 0; a->miss && i < p->nwaits; i++) {
		const struct why_wait *r = &p->waits[i];
		unsigned n = bits(why_differ(a->miss->match, r->match, r->mask));

		if (r->kind != WHY_RECV || r->ep != a->miss_ep || n >= best)
			continue;
		best = n;
		a->miss_recv = r;
	}
}

/* Arrows --------------------------------------------------------------------- */

static unsigned worth(const struct why_graph *g, int proc)
{
	static const unsigned of[] = {[WHY_GOES_ON] = 20, [WHY_BLOCKED] = 60, [WHY_SILENT] = 70,
				      [WHY_IDLE] = 50,	  [WHY_STOPPED] = 75, [WHY_UNREAD] = 40};

	return proc < 0 ? 30 : of[g->actors[proc].now->mood];
}

static bool has_alike(const struct why_proc *p, const struct why_ep *ep)
{
	for (unsigned i = 0; i < p->neps; i++)
		if (p->eps[i].job == ep->job && strcmp(p->eps[i].interface, ep->interface) == 0)
			return true;
	return false;
}

/* Whether a process may send to an endpoint: it is connected, or nobody is and it may yet be. */
static bool may_send(const struct why_graph *g, const struct why_actor *a, const struct why_ep *ep,
		     int from, bool connected)
{
	const struct why_proc *p = g->actors[from].now;

	if (!connected)
		return p != a->now && has_alike(p, ep);
	for (unsigned i = 0; i < ep->npeers; i++)
		if (ep->peers[i].state == TW_PEER_UP && ep->peers[i].where != ep->where &&
		    why_owner(g->now, ep->job, ep->peers[i].where) == from)
			return true;
	return false;
}

static bool is_connected(const struct why_graph *g, const struct why_ep *ep)
{
	for (unsigned i = 0; i < ep->npeers; i++)
		if (ep->peers[i].state == TW_PEER_UP && ep->peers[i].where != ep->where &&
		    why_owner(g->now, ep->job, ep->peers[i].where) >= 0)
			return true;
	return false;
}

/* What is known of an endpoint: its connection, the attempt at one, or how the last one ended. */
static const struct why_peer *peer_of(const struct why_ep *ep, uint64_t where)
{
	static const uint8_t counts[] = {
		[TW_PEER_NONE] = 1, [TW_PEER_DOWN] = 2, [TW_PEER_CONNECTING] = 3, [TW_PEER_UP] = 4};
	const struct why_peer *best = NULL;

	for (unsigned i = 0; i < ep->npeers; i++)
		if (ep->peers[i].where == where &&
		    (!best || counts[ep->peers[i].state] > counts[best->state]))
			best = &ep->peers[i];
	return best;
}

/* Whether a peer is not reached, and why is known. */
static bool is_unreached(const struct why_peer *p)
{
	if (p->state == TW_PEER_NONE || p->state == TW_PEER_CONNECTING)
		return p->cause || p->why != TW_S_OK;
	return p->state == TW_PEER_UP && p->cause;
}

/* A peer that is gone, was not reached, or is on another host. */
static const struct why_peer *gone(const struct why_graph *g, const struct why_ep *ep)
{
	const struct why_peer *found = NULL;

	for (unsigned i = 0; i < ep->npeers; i++) {
		const struct why_peer *p = &ep->peers[i];

		if (p->where == ep->where)
			continue;
		if (p->state == TW_PEER_DOWN)
			return p;
		if (found)
			continue;
		/* One that was given up may have begun since; it need not connect by itself. */
		if (p->state == TW_PEER_NONE ? is_unreached(p) && peer_of(ep, p->where) == p
					     : why_owner(g->now, ep->job, p->where) < 0)
			found = p;
	}
	return found;
}

static bool has_message_from(const struct why_graph *g, const struct why_ep *ep, int from)
{
	for (unsigned i = 0; i < ep->nunexp; i++)
		if (why_owner(g->now, ep->job, ep->unexp[i].from) == from)
			return true;
	return false;
}

struct choice {
	int next;
	unsigned score, candidates;
	uint64_t ended;
	const struct why_peer *unreached;
};

/* The peer that alone is connected, if it is not reached. */
static const struct why_peer *lone_trouble(const struct why_ep *ep)
{
	const struct why_peer *lone = NULL;

	for (unsigned i = 0; i < ep->npeers; i++) {
		if (ep->peers[i].state != TW_PEER_UP || ep->peers[i].where == ep->where)
			continue;
		if (lone)
			return NULL;
		lone = &ep->peers[i];
	}
	return lone && is_unreached(lone) ? lone : NULL;
}

static struct choice from_any(const struct why_graph *g, const struct why_actor *a,
			      const struct why_ep *ep)
{
	struct choice c = {.next = WHY_NONE, .unreached = lone_trouble(ep)};
	bool connected = is_connected(g, ep);
	const struct why_peer *p = c.unreached;

	if (p) {
		/* Whatever the other side does. */
		c.ended = p->where;
		c.candidates = 1;
		return c.score = 80, c;
	}
	if (!connected && (p = gone(g, ep)) != NULL) {
		c.ended = p->where;
		c.unreached = is_unreached(p) ? p : NULL;
		return c.score = 65, c;
	}
	for (unsigned i = 0; i < g->now->n; i++) {
		unsigned score;

		if (!may_send(g, a, ep, (int)i, connected))
			continue;
		c.candidates++;
		/* One that goes on may still send. */
		score = g->actors[i].now->mood == WHY_GOES_ON
				? 90
				: worth(g, (int)i) + (has_message_from(g, ep, (int)i) ? 8 : 0);
		if (score > c.score)
			c.score = score, c.next = (int)i;
	}
	c.score = c.next < 0 ? 10 : c.score == 90 ? 15 : c.score - (c.candidates > 1 ? 5 : 1);
	return c;
}

static struct choice from_holders(const struct why_graph *g, const struct why_actor *a,
				  const struct why_wait *w)
{
	struct choice c = {.next = WHY_NONE, .candidates = w->nholders};

	for (unsigned i = 0; i < w->nholders; i++) {
		int proc = why_holder(g->now, a->now, &w->holders[i]);
		unsigned score = worth(g, proc) + 20;

		if (score > c.score)
			c.score = score, c.next = proc;
	}
	return c;
}

static bool is_missing(const struct why_wait *w, const struct why_proc *p)
{
	uint32_t rank = (uint32_t)strtoul(p->rank, NULL, 10);
	unsigned n = w->nranks < 8 ? w->nranks : 8;

	if (!p->rank[0] || p->fence)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (w->ranks[i] == rank)
			return true;
	/* Of more than eight, the others are above these. */
	return w->nranks == 0 || (w->nranks > n && rank > w->ranks[n - 1]);
}

/* Before all else: a process in such a call does nothing else. */
static struct choice from_ranks(const struct why_graph *g, const struct why_actor *a,
				const struct why_wait *w)
{
	struct choice c = {.next = WHY_NONE, .score = 100, .candidates = 1};

	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_proc *p = &g->now->procs[i];

		/* Of a script and its child, the child is the later one. */
		if (!why_in_job(p, a->now->eps[w->ep].job) || !is_missing(w, p) ||
		    c.score > 100 + worth(g, (int)i))
			continue;
		c.score = 100 + worth(g, (int)i);
		c.next = (int)i;
	}
	return c;
}

/* Only the lowest rank that waits asks the launcher which are missing. */
static void share_ranks(struct why_graph *g, struct why_actor *a)
{
	for (unsigned i = 0; i < a->now->nwaits; i++) {
		struct why_wait *w = &a->now->waits[i];

		for (unsigned k = 0; w->kind == WHY_RANKS && !w->nranks && k < g->now->n; k++) {
			const struct why_proc *p = &g->now->procs[k];

			if (!why_in_job(p, a->now->eps[w->ep].job))
				continue;
			for (unsigned j = 0; j < p->nwaits; j++)
				if (p->waits[j].kind == WHY_RANKS && p->waits[j].id == w->id) {
					memcpy(w->ranks, p->waits[j].ranks, sizeof w->ranks);
					w->nranks = p->waits[j].nranks;
				}
		}
	}
}

/* The last choice of a receive from any: all receives of an endpoint have one. */
struct any {
	const struct why_ep *of;
	struct choice c;
};

static struct choice choose(const struct why_graph *g, const struct why_actor *a,
			    const struct why_wait *w, struct any *any)
{
	struct choice c = {.next = WHY_NONE, .candidates = 1};
	const struct why_ep *ep;
	const struct why_peer *p;
	bool unreached;

	if (w->kind >= WHY_MUTEX)
		return from_holders(g, a, w);
	if (w->kind == WHY_RANKS)
		return from_ranks(g, a, w);
	/* Any node may connect it, and none that is seen waits to. */
	if (w->kind == WHY_BIND)
		return c.score = 65, c;
	ep = &a->now->eps[w->ep];
	if (!w->to && any->of != ep)
		*any = (struct any){ep, from_any(g, a, ep)};
	if (!w->to)
		return any->c;
	p = peer_of(ep, w->to);
	unreached = p && is_unreached(p);
	/* One that was given up may still connect by itself; else it matters not what it does. */
	if (!unreached || p->state == TW_PEER_NONE)
		c.next = why_owner(g->now, ep->job, w->to);
	c.score = worth(g, c.next);
	if (c.next < 0) {
		c.score = unreached && p->state != TW_PEER_NONE ? 80 : 65;
		c.ended = w->to;
		c.unreached = unreached ? p : NULL;
	}
	return c;
}

static void decide(const struct why_graph *g, struct why_actor *a)
{
	struct any any = {.of = NULL};
	unsigned best = 0;

	for (unsigned i = 0; i < a->now->nwaits; i++) {
		struct why_wait *w = &a->now->waits[i];
		struct choice c = choose(g, a, w, &any);

		w->age = a->now->since;
		if (c.score < best || (c.score == best && a->wait && w->order >= a->wait->order))
			continue;
		best = c.score;
		a->wait = w;
		a->next = c.next;
		a->candidates = c.candidates;
		a->ended = c.ended;
		a->unreached = c.unreached;
	}
}

/*
 * A receive from any of several ends if one of them goes on. So its arrow points towards the
 * nearest process that does not wait; in a cycle there is none. True: an arrow has moved.
 */
static bool nearer(struct why_graph *g)
{
	bool moved = false;

	for (unsigned i = 0; i < g->now->n; i++) {
		struct why_actor *a = &g->actors[i];
		bool connected;

		if (a->now->mood != WHY_BLOCKED || a->next < 0)
			continue;
		if (a->candidates < 2 || a->wait->kind != WHY_RECV) {
			unsigned far = g->actors[a->next].far + 1;

			moved |= far < a->far;
			a->far = far < a->far ? far : a->far;
			continue;
		}
		connected = is_connected(g, &a->now->eps[a->wait->ep]);
		for (unsigned k = 0; k < g->now->n; k++) {
			if (g->actors[k].far + 1 >= a->far ||
			    !may_send(g, a, &a->now->eps[a->wait->ep], (int)k, connected))
				continue;
			a->far = g->actors[k].far + 1;
			a->next = (int)k;
			moved = true;
		}
	}
	return moved;
}

static void find_miss(struct why_graph *g, struct why_actor *a)
{
	if (a->wait && a->wait->kind == WHY_RECV && (a->next >= 0 || a->ended))
		nearest_message(a, g, a->wait);
	if (a->wait && (a->wait->kind == WHY_SEND || a->wait->kind == WHY_ACK) && a->next >= 0)
		nearest_receive(a, g, a->wait, a->next);
}

void why_graph(struct why_graph *g, struct why_facts *now)
{
	*g = (struct why_graph){.now = now};
	g->actors = calloc(now->n + 1, sizeof *g->actors);
	if (!g->actors)
		bench_fail("no memory");
	for (unsigned i = 0; i < now->n; i++) {
		bool blocked = now->procs[i].mood == WHY_BLOCKED;

		g->actors[i] = (struct why_actor){.now = &now->procs[i],
						  .next = WHY_NONE,
						  .miss_at = WHY_NONE,
						  .far = blocked ? FAR : 0};
	}
	join_locks(g);
	for (unsigned i = 0; i < now->n; i++)
		share_ranks(g, &g->actors[i]);
	for (unsigned i = 0; i < now->n; i++)
		decide(g, &g->actors[i]);
	while (nearer(g))
		;
	for (unsigned i = 0; i < now->n; i++)
		find_miss(g, &g->actors[i]);
}
