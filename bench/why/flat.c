/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settled facts of a host as bytes that cross a network, and back. Numbers are little-endian, texts
 * have their length before them, arrays their count. Whatever comes is checked: a count by the
 * bytes that are left, an index by its array, an enumeration by its last member.
 */
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "../table.h"
#include "engine/types.h"
#include "why.h"

#define FLAT_MAGIC 0x79687774u /* "twhy" */
#define FLAT_VERSION 1u	       /* of this format, and of the enumerations in it */
#define TEXT_MOST 255

/* Writing --------------------------------------------------------------------- */

struct out {
	uint8_t *bytes;
	size_t n, room;
};

static void put(struct out *o, uint64_t value, unsigned size)
{
	if (o->room - o->n < size) {
		o->room = o->room ? 2 * o->room : 4096;
		o->bytes = realloc(o->bytes, o->room);
		if (!o->bytes)
			bench_fail("no memory");
	}
	for (; size; size--, value >>= 8)
		o->bytes[o->n++] = (uint8_t)value;
}

static void put_text(struct out *o, const char *text)
{
	size_t n = text ? strnlen(text, TEXT_MOST) : 0;

	put(o, n, 1);
	for (size_t i = 0; i < n; i++)
		put(o, (uint8_t)text[i], 1);
}

static void put_wait(struct out *o, const struct why_wait *w)
{
	unsigned nranks = w->nranks < 8 ? w->nranks : 8;

	put(o, w->kind, 1);
	put(o, w->state, 1);
	put(o, w->ep, 4);
	put(o, w->id, 8);
	put(o, w->moved, 8);
	put(o, w->to, 8);
	put(o, w->match, 8);
	put(o, w->mask, 8);
	put(o, w->len, 8);
	put(o, w->order, 8);
	put(o, w->own, 4);
	put(o, w->other, 4);
	put_text(o, w->call);
	put(o, w->nranks, 4);
	for (unsigned i = 0; i < nranks; i++)
		put(o, w->ranks[i], 4);
	put(o, w->nholders, 1);
	for (unsigned i = 0; i < w->nholders; i++) {
		put(o, (uint64_t)w->holders[i].pid, 4);
		put(o, w->holders[i].node, 4);
		put(o, w->holders[i].where, 8);
	}
}

static void put_waits(struct out *o, const struct why_wait *waits, unsigned n)
{
	put(o, n, 4);
	for (unsigned i = 0; i < n; i++)
		put_wait(o, &waits[i]);
}

static void put_peer(struct out *o, const struct why_peer *p)
{
	put(o, p->where, 8);
	put(o, p->state, 1);
	put(o, p->why, 1);
	put(o, p->queued, 1);
	put(o, p->silent, 1);
	put(o, p->paths_down, 1);
	put(o, p->credits, 4);
	put(o, p->granted, 4);
	put_text(o, p->cause);
	put_text(o, p->advice);
}

static void put_endpoint(struct out *o, const struct why_ep *ep)
{
	put_text(o, ep->interface);
	put(o, ep->job, 8);
	put(o, ep->where, 8);
	put(o, ep->access, 1);
	put(o, ep->nunexp, 4);
	for (unsigned i = 0; i < ep->nunexp; i++) {
		put(o, ep->unexp[i].from, 8);
		put(o, ep->unexp[i].match, 8);
		put(o, ep->unexp[i].len, 8);
	}
	put(o, ep->npeers, 4);
	for (unsigned i = 0; i < ep->npeers; i++)
		put_peer(o, &ep->peers[i]);
	put(o, ep->nplatforms, 4);
	for (unsigned i = 0; i < ep->nplatforms; i++)
		put(o, ep->platforms[i], 8);
}

static void put_process(struct out *o, const struct why_proc *p)
{
	put(o, (uint64_t)p->pid, 4);
	put_text(o, p->program);
	put_text(o, p->rank);
	put(o, p->mood, 1);
	put(o, p->computes, 1);
	put(o, p->polls, 1);
	put(o, p->denied, 1);
	put(o, p->fence != 0, 1);
	put(o, (uint64_t)(p->since * 1e6 + 0.5), 8);
	put(o, p->job, 8);
	put(o, p->nnodes, 1);
	for (unsigned i = 0; i < p->nnodes; i++)
		put(o, p->node[i], 4);
	put(o, p->neps, 4);
	for (unsigned i = 0; i < p->neps; i++)
		put_endpoint(o, &p->eps[i]);
	put_waits(o, p->waits, p->nwaits);
	put_waits(o, p->foreign, p->nforeign);
}

static void put_host(struct out *o, const struct why_host *h)
{
	put_text(o, h->name);
	put(o, h->view, 8);
	put(o, h->denied, 1);
	put(o, h->nnics, 1);
	for (unsigned i = 0; i < h->nnics; i++)
		put(o, h->nics[i], 8);
}

uint8_t *why_flatten(const struct why_facts *f, size_t *len)
{
	struct out o = {.bytes = NULL};

	put(&o, FLAT_MAGIC, 4);
	put(&o, FLAT_VERSION, 4);
	put_host(&o, &f->hosts[0]);
	put(&o, f->nopens, 4);
	for (unsigned i = 0; i < f->nopens; i++) {
		put(&o, (uint64_t)f->opens[i].pid, 4);
		put(&o, f->opens[i].where, 8);
		put(&o, f->opens[i].job, 8);
		put_text(&o, f->opens[i].program);
	}
	put(&o, f->n, 4);
	for (unsigned i = 0; i < f->n; i++)
		put_process(&o, &f->procs[i]);
	*len = o.n;
	return o.bytes;
}

/* Reading --------------------------------------------------------------------- */

struct in {
	const uint8_t *at;
	size_t left;
	bool bad; /* from then on everything is 0 */
};

static bool is_bad(struct in *in)
{
	in->bad = true;
	in->left = 0;
	return true;
}

static uint64_t get(struct in *in, unsigned size)
{
	uint64_t value = 0;

	if (in->left < size)
		return is_bad(in), 0;
	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)in->at[i] << 8 * i;
	in->at += size;
	in->left -= size;
	return value;
}

/* At most a value. */
static uint64_t get_most(struct in *in, unsigned size, uint64_t most)
{
	uint64_t value = get(in, size);

	return value > most ? is_bad(in), 0 : value;
}

static bool get_bool(struct in *in)
{
	return get_most(in, 1, 1);
}

/* A count of members of that many bytes at least. */
static uint32_t get_count(struct in *in, size_t least)
{
	uint32_t n = (uint32_t)get(in, 4);

	if (n > in->left / least)
		return is_bad(in), 0;
	return n;
}

static void get_text(struct in *in, char *text, size_t room)
{
	size_t n = get_most(in, 1, room - 1);

	if (n > in->left)
		n = is_bad(in) ? 0 : n;
	memcpy(text, in->at, n);
	text[n] = 0;
	in->at += n;
	in->left -= n;
	table_printable(text);
}

/* NULL: it is empty. */
static char *get_string(struct in *in)
{
	char text[TEXT_MOST + 1], *copy;

	get_text(in, text, sizeof text);
	if (!text[0])
		return NULL;
	copy = strdup(text);
	if (!copy)
		bench_fail("no memory");
	return copy;
}

static void *get_array(uint32_t n, size_t size)
{
	void *array = calloc(n + 1, size);

	if (!array)
		bench_fail("no memory");
	return array;
}

static pid_t get_pid(struct in *in)
{
	return (pid_t)get_most(in, 4, INT32_MAX);
}

/* What a wait must be for those that use it. */
static bool fits(const struct why_wait *w, unsigned neps, bool foreign)
{
	if (w->kind >= WHY_MUTEX)
		return w->ep == 0 && (foreign || w->to == 0);
	return !foreign && w->ep < neps;
}

static void get_wait(struct in *in, struct why_wait *w)
{
	w->kind = get_most(in, 1, WHY_NKINDS - 1);
	w->state = get_most(in, 1, WHY_NSTATES - 1);
	w->ep = (unsigned)get(in, 4);
	w->id = get(in, 8);
	w->moved = get(in, 8);
	w->to = get(in, 8);
	w->match = get(in, 8);
	w->mask = get(in, 8);
	w->len = get(in, 8);
	w->order = get(in, 8);
	w->own = (uint32_t)get(in, 4);
	w->other = (uint32_t)get(in, 4);
	get_text(in, w->call, sizeof w->call);
	w->nranks = (uint32_t)get(in, 4);
	for (unsigned i = 0; i < w->nranks && i < 8; i++)
		w->ranks[i] = (uint32_t)get(in, 4);
	w->nholders = get_most(in, 1, WHY_HOLDERS);
	for (unsigned i = 0; i < w->nholders; i++) {
		w->holders[i].pid = get_pid(in);
		w->holders[i].node = (uint32_t)get(in, 4);
		w->holders[i].where = get(in, 8);
	}
}

#define WAIT_LEAST 76 /* bytes */

static unsigned get_waits(struct in *in, struct why_wait **waits, unsigned neps, bool foreign)
{
	uint32_t n = get_count(in, WAIT_LEAST);

	*waits = get_array(n, sizeof **waits);
	for (uint32_t i = 0; i < n && !in->bad; i++) {
		get_wait(in, &(*waits)[i]);
		if (!fits(&(*waits)[i], neps, foreign))
			is_bad(in);
	}
	return n;
}

#define PEER_LEAST 23

static void get_peer(struct in *in, struct why_peer *p)
{
	p->where = get(in, 8);
	p->state = (uint8_t)get_most(in, 1, TW_PEER_DOWN);
	p->why = (uint8_t)get(in, 1);
	p->queued = get_bool(in);
	p->silent = get_bool(in);
	p->paths_down = get_bool(in);
	p->credits = (uint32_t)get(in, 4);
	p->granted = (uint32_t)get(in, 4);
	p->cause = get_string(in);
	p->advice = get_string(in);
}

#define UNEXP_SIZE 24
#define ENDPOINT_LEAST 30

static void get_endpoint(struct in *in, struct why_ep *ep)
{
	uint32_t n;

	get_text(in, ep->interface, sizeof ep->interface);
	ep->job = get(in, 8);
	ep->where = get(in, 8);
	ep->access = get_most(in, 1, WHY_CHANGED);
	n = get_count(in, UNEXP_SIZE);
	ep->unexp = get_array(n, sizeof *ep->unexp);
	for (; ep->nunexp < n; ep->nunexp++) {
		struct why_unexp *u = &ep->unexp[ep->nunexp];

		u->from = get(in, 8);
		u->match = get(in, 8);
		u->len = get(in, 8);
	}
	n = get_count(in, PEER_LEAST);
	ep->peers = get_array(n, sizeof *ep->peers);
	for (; ep->npeers < n && !in->bad; ep->npeers++)
		get_peer(in, &ep->peers[ep->npeers]);
	n = get_count(in, 8);
	ep->platforms = get_array(n, sizeof *ep->platforms);
	for (; ep->nplatforms < n; ep->nplatforms++)
		ep->platforms[ep->nplatforms] = get(in, 8);
}

#define PROCESS_LEAST 40
#define SINCE_MOST (1ull << 50) /* microseconds: a double has each of these numbers */

static void get_process(struct in *in, struct why_proc *p)
{
	p->pid = get_pid(in);
	get_text(in, p->program, sizeof p->program);
	get_text(in, p->rank, sizeof p->rank);
	p->mood = get_most(in, 1, WHY_NMOODS - 1);
	p->computes = get_bool(in);
	p->polls = get_bool(in);
	p->denied = get_bool(in);
	p->fence = get_bool(in);
	p->since = (double)get_most(in, 8, SINCE_MOST) / 1e6;
	p->job = get(in, 8);
	p->nnodes = get_most(in, 1, sizeof p->node / sizeof p->node[0]);
	for (unsigned i = 0; i < p->nnodes; i++)
		p->node[i] = (uint32_t)get(in, 4);
	p->neps = get_count(in, ENDPOINT_LEAST);
	p->eps = get_array(p->neps, sizeof *p->eps);
	for (unsigned i = 0; i < p->neps && !in->bad; i++)
		get_endpoint(in, &p->eps[i]);
	p->nwaits = get_waits(in, &p->waits, p->neps, false);
	p->nforeign = get_waits(in, &p->foreign, 0, true);
	/* It would wait for nothing. */
	if (p->mood == WHY_BLOCKED && !p->nwaits)
		is_bad(in);
}

static void get_host(struct in *in, struct why_host *h)
{
	get_text(in, h->name, sizeof h->name);
	h->view = get(in, 8);
	h->denied = get_bool(in);
	h->nnics = get_most(in, 1, WHY_NICS);
	for (unsigned i = 0; i < h->nnics; i++)
		h->nics[i] = get(in, 8);
}

#define OPEN_LEAST 21

static void get_opens(struct in *in, struct why_facts *f)
{
	f->nopens = get_count(in, OPEN_LEAST);
	f->opens = get_array(f->nopens, sizeof *f->opens);
	for (unsigned i = 0; i < f->nopens; i++) {
		f->opens[i].pid = get_pid(in);
		f->opens[i].where = get(in, 8);
		f->opens[i].job = get(in, 8);
		get_text(in, f->opens[i].program, sizeof f->opens[i].program);
	}
}

bool why_unflatten(struct why_facts *f, const uint8_t *bytes, size_t len)
{
	struct in in = {.at = bytes, .left = len};
	uint32_t n;

	*f = (struct why_facts){.n = 0};
	if (get(&in, 4) != FLAT_MAGIC || get(&in, 4) != FLAT_VERSION)
		return false;
	f->hosts = get_array(1, sizeof *f->hosts);
	f->nhosts = 1;
	get_host(&in, &f->hosts[0]);
	get_opens(&in, f);
	n = get_count(&in, PROCESS_LEAST);
	f->procs = get_array(n, sizeof *f->procs);
	for (; f->n < n && !in.bad; f->n++)
		get_process(&in, &f->procs[f->n]);
	if (!in.bad && !in.left)
		return true;
	why_free(f);
	return false;
}
