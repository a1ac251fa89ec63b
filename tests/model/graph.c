/* SPDX-License-Identifier: BSD-2-Clause */
/* Which graphs were visited, and which are consistent. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

const struct program *prog;

/* Graphs that were visited, by a hash of 128 bits ---------------------------- */

static struct key {
	uint64_t a, b;
} * seen;
static size_t nseen, room;

static void mix(struct key *k, uint64_t v)
{
	k->a = (k->a ^ v) * 0x9e3779b97f4a7c15u;
	k->a ^= k->a >> 29;
	k->b = (k->b + v) * 0xc2b2ae3d27d4eb4fu;
	k->b ^= k->b >> 31;
}

/* False if it is there already. */
static bool put(struct key k)
{
	size_t i = k.a & (room - 1);

	while (seen[i].a | seen[i].b) {
		if (seen[i].a == k.a && seen[i].b == k.b)
			return false;
		i = (i + 1) & (room - 1);
	}
	seen[i] = k;
	return true;
}

static void make_room(void)
{
	struct key *old = seen;
	size_t n = room;

	room = room ? 2 * room : 1 << 16;
	seen = calloc(room, sizeof(*seen));
	if (!seen)
		abort();
	for (size_t i = 0; i < n; i++)
		if (old[i].a | old[i].b)
			put(old[i]);
	free(old);
}

/* An event by its place, whatever the order in which the graph was built. */
static unsigned place(const struct graph *g, int e)
{
	return e < 0 ? 0xffff : (unsigned)g->ev[e].thread << 8 | g->ev[e].at;
}

bool graph_is_new(const struct graph *g)
{
	uint16_t by_place[MAX_THREADS][MAX_EVENTS];
	struct key k = {1, 1};
	bool new;

	if (!g) {
		nseen = 0;
		memset(seen, 0, room * sizeof(*seen));
		return true;
	}
	for (int e = prog->nlocs; e < g->n; e++)
		by_place[g->ev[e].thread][g->ev[e].at] = (uint16_t)e;
	for (int t = 0; t < prog->nthreads; t++) {
		mix(&k, 0x100000u + g->cpu[t].asked);
		for (int i = 0; i < g->cpu[t].events; i++) {
			const struct event *e = &g->ev[by_place[t][i]];

			mix(&k, (uint64_t)e->injected << 20 |
					(e->injected ? (unsigned)e->rf : place(g, e->rf)));
		}
	}
	for (int l = 0; l < prog->nlocs; l++) {
		mix(&k, 0x200000);
		for (int i = 1; i < g->nmo[l]; i++)
			mix(&k, place(g, g->mo[l][i]));
	}
	if (2 * nseen >= room)
		make_room();
	new = put(k);
	nseen += new;
	return new;
}

/* Consistency ------------------------------------------------------------------ */

int mo_place(const struct graph *g, int write)
{
	const uint8_t *mo = g->mo[g->ev[write].loc];
	int i = 0;

	while (mo[i] != write)
		i++;
	return i;
}

int mo_least(const struct graph *g, int loc, set before)
{
	int most = 0;

	for (int e = 0; e < g->n; e++) {
		const struct event *v = &g->ev[e];

		if (v->loc != loc || !(before & BIT(e)))
			continue;
		int at = mo_place(g, v->writes ? e : v->rf);

		most = at > most ? at : most;
	}
	return most;
}

bool mo_open(const struct graph *g, int loc, int at)
{
	const struct event *next = &g->ev[g->mo[loc][at]];

	return at == g->nmo[loc] || next->rf < 0;
}

bool same_place(const struct event *a, const struct event *b)
{
	return a->loc >= 0 && a->loc == b->loc;
}

/* Steps of scb: what follows an event in program order, happens-before, mo or rb. */
static void make_scb(const struct graph *g, set *scb)
{
	set sb[MAX_EVENTS] = {0}, hb[MAX_EVENTS] = {0}, other[MAX_EVENTS] = {0};

	for (int a = 0; a < g->n; a++)
		for (int b = prog->nlocs; b < g->n; b++) {
			const struct event *x = &g->ev[a], *y = &g->ev[b];
			bool in_order = x->thread == INIT ||
					(x->thread == y->thread && x->at < y->at);

			if (y->before & BIT(a))
				hb[a] |= BIT(b);
			if (in_order)
				sb[a] |= BIT(b);
			if (in_order && !same_place(x, y))
				other[a] |= BIT(b);
		}
	for (int a = 0; a < g->n; a++) {
		const struct event *x = &g->ev[a];
		set twice = 0;

		scb[a] = sb[a];
		for (int b = 0; b < g->n; b++) {
			const struct event *y = &g->ev[b];

			if (other[a] & BIT(b))
				for (set s = hb[b]; s; s &= s - 1)
					twice |= other[__builtin_ctzll(s)];
			if (a == b || !same_place(x, y))
				continue;
			scb[a] |= hb[a] & BIT(b);
			/* mo, and rb: after what is read. */
			if (y->writes && mo_place(g, b) > mo_place(g, x->writes ? a : x->rf))
				scb[a] |= BIT(b);
		}
		scb[a] |= twice;
	}
}

static set all_of(set from, const set *next)
{
	set s = 0;

	for (; from; from &= from - 1)
		s |= next[__builtin_ctzll(from)];
	return s;
}

/* eco: rf, mo, rb, and mo or rb with a last rf. */
static set eco_of(const struct graph *g, int a)
{
	const struct event *x = &g->ev[a];
	set s = 0;

	if (x->loc < 0)
		return 0;
	for (int b = 0; b < g->n; b++) {
		const struct event *y = &g->ev[b];

		if (b != a && same_place(x, y) &&
		    mo_place(g, y->writes ? b : y->rf) >
			    mo_place(g, x->writes ? a : x->rf) - (y->rf == a))
			s |= BIT(b);
	}
	return s;
}

bool graph_sc(const struct graph *g)
{
	set scb[MAX_EVENTS], hb[MAX_EVENTS] = {0}, eco[MAX_EVENTS], psc[MAX_EVENTS] = {0}, sc = 0;
	int n = 0;

	for (int e = 0; e < g->n; e++)
		if (g->ev[e].order == SC) {
			sc |= BIT(e);
			n++;
		}
	if (n < 2)
		return true;
	make_scb(g, scb);
	for (int e = 0; e < g->n; e++) {
		for (set s = g->ev[e].before; s; s &= s - 1)
			hb[__builtin_ctzll(s)] |= BIT(e);
		eco[e] = eco_of(g, e);
	}
	for (set s = sc; s; s &= s - 1) {
		int a = __builtin_ctzll(s);
		bool fence = g->ev[a].loc < 0;
		set from = BIT(a) | (fence ? hb[a] : 0), to = all_of(from, scb), far = 0;

		if (fence)
			far = hb[a] | all_of(all_of(hb[a], eco), hb);
		for (set t = sc; t; t &= t - 1) {
			int b = __builtin_ctzll(t);
			bool too = g->ev[b].loc < 0;

			if (to & (BIT(b) | (too ? g->ev[b].before : 0)) || (too && far & BIT(b)))
				psc[a] |= BIT(b);
		}
	}
	for (int k = 0; k < g->n; k++)
		for (int a = 0; a < g->n; a++)
			if (psc[a] & BIT(k))
				psc[a] |= psc[k];
	for (int a = 0; a < g->n; a++)
		if (psc[a] & BIT(a))
			return false;
	return true;
}
