/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One clock for the traces of several hosts. Among the messages from one host to another, the one
 * with the smallest difference of ticks was on its way for the shortest time. If that is alike in
 * both directions, half of the two differences' difference is the offset of the clocks. Clocks
 * also drift: if the offsets in both halves of the time differ by more than a message takes, they
 * give a line.
 */
#include <stdlib.h>

#include "../cli.h"
#include "trace.h"

#define SPANS 3 /* all of the time, and its halves */

/* Messages of a host to and from hosts that have the common clock. */
struct span {
	double from, until;	     /* ticks of the host */
	double to_least, back_least; /* differences; to: towards the host */
	bool to, back;
};

static void clocks_shift(struct trace_ring *r, double offset, double slope, double at)
{
	for (size_t i = 0; i < r->n; i++) {
		struct tw_trace_event *e = &r->events[i];

		if (e->kind == TW_TRACE_IDLE)
			e->match -= (uint64_t)(int64_t)(offset + slope * ((double)e->match - at));
		e->tick -= (uint64_t)(int64_t)(offset + slope * ((double)e->tick - at));
	}
}

/* From now on a microsecond has as many ticks everywhere. */
static void clocks_scale(struct trace *t)
{
	for (unsigned i = 0; i < t->n; i++) {
		struct trace_ring *r = &t->rings[i];

		if (r->head.per_us != t->rings[0].head.per_us)
			clocks_shift(r, 0, 1 - (double)t->rings[0].head.per_us / r->head.per_us, 0);
	}
}

static void span_message(struct span *s, const struct trace_side *m, bool to)
{
	const struct trace_side *mine = to ? m->pair : m;
	double took = (double)(int64_t)(m->pair->tick - m->tick);
	double *least = to ? &s->to_least : &s->back_least;
	bool *any = to ? &s->to : &s->back;

	if ((double)mine->tick < s->from || (double)mine->tick > s->until)
		return;
	*least = *any && *least < took ? *least : took;
	*any = true;
}

static bool span_full(const struct span *s)
{
	return s->to && s->back;
}

static double span_offset(const struct span *s)
{
	return span_full(s) ? (s->to_least - s->back_least) / 2
	       : s->to	    ? s->to_least
			    : -s->back_least;
}

/* The shortest time of a message: the offset may be wrong by that. */
static double span_doubt(const struct span *s)
{
	return (s->to_least + s->back_least) / 2;
}

static double span_middle(const struct span *s)
{
	return (s->from + s->until) / 2;
}

static void clocks_span(const struct trace *t, const bool *common, unsigned host, struct span *s)
{
	for (size_t i = 0; i < t->nsides; i++) {
		const struct trace_side *m = &t->sides[i];
		unsigned from, to;

		if (!m->out || !m->pair)
			continue;
		from = t->rings[m->ring].host;
		to = t->rings[m->pair->ring].host;
		if (to == host && common[from])
			span_message(s, m, true);
		if (from == host && common[to])
			span_message(s, m, false);
	}
}

static void clocks_time(const struct trace *t, unsigned host, struct span s[SPANS])
{
	double first = -1, last = 0;

	for (unsigned i = 0; i < t->n; i++) {
		const struct trace_ring *r = &t->rings[i];

		if (r->host != host || !r->n)
			continue;
		if (first < 0 || (double)r->events[0].tick < first)
			first = (double)r->events[0].tick;
		if ((double)r->events[r->n - 1].tick > last)
			last = (double)r->events[r->n - 1].tick;
	}
	s[0] = (struct span){.from = first, .until = last};
	s[1] = (struct span){.from = first, .until = span_middle(&s[0])};
	s[2] = (struct span){.from = span_middle(&s[0]), .until = last};
}

/* True if the host has the common clock now. */
static bool clocks_host(struct trace *t, const bool *common, unsigned host)
{
	double offset, slope = 0, at = 0;
	struct span s[SPANS];

	clocks_time(t, host, s);
	for (unsigned i = 0; i < SPANS; i++)
		clocks_span(t, common, host, &s[i]);
	if (!s[0].to && !s[0].back)
		return false;
	offset = span_offset(&s[0]);
	if (span_full(&s[1]) && span_full(&s[2])) {
		double drift = span_offset(&s[2]) - span_offset(&s[1]);

		if ((drift < 0 ? -drift : drift) > span_doubt(&s[1]) + span_doubt(&s[2])) {
			at = span_middle(&s[1]);
			offset = span_offset(&s[1]);
			slope = drift / (span_middle(&s[2]) - at);
		}
	}
	for (unsigned i = 0; i < t->n; i++)
		if (t->rings[i].host == host)
			clocks_shift(&t->rings[i], offset, slope, at);
	return true;
}

/* Without a message to or from it a host begins when the first one does. */
static void clocks_alone(struct trace *t, unsigned host)
{
	struct span mine[SPANS], first[SPANS];

	fprintf(stderr,
		"%s: no message between host %s and the others is in the traces: its clock is not "
		"aligned\n",
		bench_tool, trace_host(t, host));
	clocks_time(t, host, mine);
	clocks_time(t, 0, first);
	for (unsigned i = 0; i < t->n; i++)
		if (t->rings[i].host == host)
			clocks_shift(&t->rings[i], mine[0].from - first[0].from, 0, 0);
}

void trace_align(struct trace *t)
{
	bool *common = trace_alloc(t->nhosts, sizeof *common), more = true;

	clocks_scale(t);
	trace_pair_up(t);
	common[0] = true;
	while (more) {
		more = false;
		for (unsigned h = 1; h < t->nhosts; h++)
			if (!common[h] && clocks_host(t, common, h)) {
				common[h] = more = true;
				trace_pair_up(t); /* with its new ticks */
			}
	}
	for (unsigned h = 1; h < t->nhosts; h++)
		if (!common[h])
			clocks_alone(t, h);
	free(common);
}
