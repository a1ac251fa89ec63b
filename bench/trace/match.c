/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds both sides of each message, and for each wait the side that was late. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* Of a request or an unexpected message: its side, and when it was posted or queued. */
struct open {
	uint64_t key; /* 0: none */
	uint64_t since;
	struct trace_side *side;
};

/* By key, without removing: there is room for as many as there are events. */
struct opens {
	struct open *at;
	size_t mask;
	uint32_t others[TW_TRACE_PEERS]; /* the rings of the peers */
};

#define REQUEST(id) ((uint64_t)(id) << 1 | 1)
#define MESSAGE(id) (((uint64_t)(id) + 1) << 1)

static struct open *open_of(const struct opens *o, uint64_t key)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & o->mask;

	while (o->at[i].key && o->at[i].key != key)
		i = (i + 1) & o->mask;
	o->at[i].key = key;
	return &o->at[i];
}

static uint32_t ring_of(const struct trace *t, const struct tw_trace_peer *p)
{
	for (uint32_t i = 0; p->where && i < t->n; i++) {
		const struct tw_trace_file *f = &t->rings[i].head;

		if ((f->nic_id << 16 | f->endpoint_id) == p->where && f->session == p->session)
			return i;
	}
	return TRACE_UNKNOWN;
}

static enum trace_what what_of(uint8_t kind)
{
	switch (kind) {
	case TW_TRACE_PUT:
		return TRACE_PUT;
	case TW_TRACE_GET:
		return TRACE_GET;
	case TW_TRACE_ATOMIC:
		return TRACE_ATOMIC;
	case TW_TRACE_SERVED:
		return TRACE_SERVED;
	case TW_TRACE_SCALAR:
	case TW_TRACE_SCALAR_CAME:
		return TRACE_SCALAR;
	default:
		return TRACE_MESSAGE;
	}
}

static struct trace_side *new_side(struct trace *t, uint32_t ring, const struct opens *o,
				   const struct tw_trace_event *e)
{
	struct trace_side *s = &t->sides[t->nsides++];
	uint8_t kind = e->kind;

	*s = (struct trace_side){
		.tick = e->tick,
		.match = e->match,
		.ring = ring,
		.other = e->peer < TW_TRACE_PEERS ? o->others[e->peer] : TRACE_UNKNOWN,
		.number = e->number,
		.len = e->len,
		.what = what_of(kind),
		.out = kind == TW_TRACE_EAGER || kind == TW_TRACE_ANNOUNCED ||
		       kind == TW_TRACE_SCALAR,
		.announced = kind == TW_TRACE_ANNOUNCED,
		.unexpected = kind == TW_TRACE_UNEXPECTED,
		.thread = e->thread,
	};
	if (kind == TW_TRACE_RECEIVED || s->what == TRACE_SCALAR ||
	    (kind == TW_TRACE_EAGER && !e->id))
		s->ended = e->tick;
	if (kind == TW_TRACE_RECEIVED || kind == TW_TRACE_MET || kind == TW_TRACE_SCALAR_CAME)
		s->matched = e->tick;
	return s;
}

/* What an event means for the requests; returns the side of which it speaks, or NULL. */
static struct trace_side *take_event(struct trace *t, uint32_t ring, const struct opens *o,
				     const struct tw_trace_event *e)
{
	struct open *r = open_of(o, REQUEST(e->id)), *m;
	struct trace_side *s = NULL;

	switch (e->kind) {
	case TW_TRACE_QUEUED:
	case TW_TRACE_POSTED:
		*r = (struct open){r->key, e->tick, NULL};
		return NULL;
	case TW_TRACE_EAGER:
	case TW_TRACE_ANNOUNCED:
	case TW_TRACE_RECEIVED:
	case TW_TRACE_MET:
		s = new_side(t, ring, o, e);
		s->asked = e->id ? r->since : 0;
		*r = (struct open){r->key, 0, s->ended ? NULL : s};
		return s;
	case TW_TRACE_PUT:
	case TW_TRACE_GET:
	case TW_TRACE_ATOMIC:
		s = new_side(t, ring, o, e);
		*r = (struct open){r->key, 0, s};
		return s;
	case TW_TRACE_SERVED:
	case TW_TRACE_SCALAR:
	case TW_TRACE_SCALAR_CAME:
		return new_side(t, ring, o, e);
	case TW_TRACE_UNEXPECTED:
		return open_of(o, MESSAGE(e->id))->side = new_side(t, ring, o, e);
	case TW_TRACE_FETCHED:
		m = open_of(o, MESSAGE(e->link));
		s = m->side;
		m->side = NULL;
		open_of(o, MESSAGE(e->id))->side = s;
		return NULL;
	case TW_TRACE_TAKEN:
		m = open_of(o, MESSAGE(e->link));
		s = m->side;
		m->side = NULL;
		if (e->id)
			*r = (struct open){r->key, 0, s};
		if (s) {
			s->matched = e->tick;
			s->ended = e->id ? 0 : e->tick;
		}
		return NULL;
	case TW_TRACE_ENDED:
		s = r->side;
		*r = (struct open){r->key, 0, NULL};
		if (s) {
			s->ended = e->tick;
			s->copied = e->link == 0; /* TW_PROTO_COPY */
		}
		return s;
	default:
		return NULL;
	}
}

static void take_ring(struct trace *t, uint32_t ring)
{
	struct trace_ring *r = &t->rings[ring];
	struct opens o = {NULL, 1, {0}};

	for (unsigned i = 0; i < TW_TRACE_PEERS; i++)
		o.others[i] = ring_of(t, &r->head.peers[i]);
	while (o.mask < 4 * r->n + 4)
		o.mask *= 2;
	o.at = trace_alloc(o.mask--, sizeof *o.at);
	free(r->sides);
	r->sides = trace_alloc(r->n, sizeof *r->sides);
	for (size_t i = 0; i < r->n; i++)
		r->sides[i] = take_event(t, ring, &o, &r->events[i]);
	free(o.at);
}

/* Both sides of one message compare as equal, but for the order of the two. */
static int by_message(const void *a, const void *b)
{
	const struct trace_side *x = *(struct trace_side *const *)a;
	const struct trace_side *y = *(struct trace_side *const *)b;
	uint64_t keys[][2] = {{x->what, y->what},
			      {x->out ? x->ring : x->other, y->out ? y->ring : y->other},
			      {x->out ? x->other : x->ring, y->out ? y->other : y->ring},
			      {x->what == TRACE_SCALAR ? x->match : 0,
			       y->what == TRACE_SCALAR ? y->match : 0},
			      {x->number, y->number}};

	for (unsigned i = 0; i < 5; i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return x->out != y->out ? (x->out ? -1 : 1) : 0;
}

static void pair_sides(struct trace *t)
{
	struct trace_side **all = trace_alloc(t->nsides, sizeof *all);

	for (size_t i = 0; i < t->nsides; i++)
		all[i] = &t->sides[i];
	qsort(all, t->nsides, sizeof *all, by_message);
	for (size_t i = 0; i + 1 < t->nsides; i++) {
		struct trace_side *x = all[i], *y = all[i + 1];

		if (!x->out || y->out || x->what != y->what || x->number != y->number ||
		    x->other != y->ring || y->other != x->ring)
			continue;
		/* Clocks of two hosts never agree exactly. */
		if (y->tick < x->tick && t->rings[x->ring].host == t->rings[y->ring].host)
			continue;
		if (x->what == TRACE_SCALAR && x->match != y->match)
			continue;
		x->pair = y;
		y->pair = x;
	}
	free(all);
}

static uint64_t clamp(uint64_t tick, uint64_t least, uint64_t most)
{
	return tick < least ? least : tick > most ? most : tick;
}

/* The sender is late if it sends, the receiver if it has a receive, after the wait began. */
static void explain(struct trace_wait *w, const struct trace_side *end)
{
	const struct trace_side *pair = end ? end->pair : NULL;
	uint64_t late = 0;

	w->late = w->from;
	w->other = TRACE_UNKNOWN;
	w->end = end;
	if (!pair)
		return;
	if (!end->out)
		late = pair->asked ? pair->asked : pair->tick;
	else
		late = pair->matched;
	w->late = clamp(late, w->from, w->until);
	if (w->late > w->from)
		w->other = pair->ring;
}

static void take_waits(struct trace *t, uint32_t ring)
{
	const struct trace_ring *r = &t->rings[ring];

	for (size_t i = 0; i < r->n; i++) {
		const struct tw_trace_event *e = &r->events[i];
		struct trace_wait *w = &t->waits[t->nwaits];
		size_t end;

		if (e->kind != TW_TRACE_IDLE || e->match <= e->tick)
			continue;
		t->nwaits++;
		*w = (struct trace_wait){
			.from = e->tick, .until = e->match, .ring = ring, .thread = e->thread};
		for (end = i + 1; end < r->n && r->events[end].kind == TW_TRACE_IDLE;)
			end++;
		explain(w, end < r->n ? r->sides[end] : NULL);
	}
}

void trace_pair_up(struct trace *t)
{
	size_t sides = 0;

	for (unsigned i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->rings[i].n; k++) {
			const struct tw_trace_event *e = &t->rings[i].events[k];

			sides += e->kind == TW_TRACE_EAGER || e->kind == TW_TRACE_ANNOUNCED ||
				 e->kind == TW_TRACE_RECEIVED || e->kind == TW_TRACE_MET ||
				 e->kind == TW_TRACE_UNEXPECTED || e->kind > TW_TRACE_IDLE;
		}
	free(t->sides);
	t->sides = trace_alloc(sides, sizeof *t->sides);
	t->nsides = 0;
	for (unsigned i = 0; i < t->n; i++)
		take_ring(t, i);
	pair_sides(t);
}

void trace_match(struct trace *t)
{
	size_t waits = 0;

	if (t->nhosts > 1)
		trace_align(t);
	t->start = UINT64_MAX;
	for (unsigned i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->rings[i].n; k++) {
			const struct tw_trace_event *e = &t->rings[i].events[k];

			waits += e->kind == TW_TRACE_IDLE;
			if (e->tick < t->start)
				t->start = e->tick;
		}
	t->per_us = t->rings[0].head.per_us;
	trace_pair_up(t);
	t->waits = trace_alloc(waits, sizeof *t->waits);
	for (unsigned i = 0; i < t->n; i++)
		take_waits(t, i);
}
