/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up: who sent how much to whom and by which protocol, and who waited for whom. */
#include <stdlib.h>

#include "trace.h"

const struct trace_size trace_sizes[TRACE_SIZES] = {
	{"64", 64},	    {"1 Ki", 1024},    {"16 Ki", 16384},
	{"192 Ki", 196608}, {"1 Mi", 1048576}, {"more", UINT32_MAX},
};

static unsigned sums_class(uint32_t len)
{
	unsigned i = 0;

	while (len > trace_sizes[i].end)
		i++;
	return i;
}

static void sums_message(struct trace_sums *s, const struct trace_side *m)
{
	struct trace_pair *p;

	if (m->other == TRACE_UNKNOWN)
		return;
	p = trace_pair(s, m->ring, m->other);
	if (m->what >= TRACE_PUT) {
		p->accesses++;
		p->access_bytes += m->len;
		return;
	}
	p->messages++;
	p->bytes += m->len;
	p->eager += !m->announced;
	p->pending += m->announced && !m->ended;
	p->copied += m->announced && m->ended && m->copied;
	p->got += m->announced && m->ended && !m->copied;
}

static void sums_side(struct trace_sums *s, const struct trace_side *m)
{
	struct trace_total *total = &s->totals[m->ring];
	unsigned class = sums_class(m->len);

	if (m->what >= TRACE_PUT) {
		if (m->what != TRACE_SERVED)
			sums_message(s, m);
		return;
	}
	if (m->out) {
		total->sent++;
		s->sent[class]++;
		s->bytes[class] += m->len;
		sums_message(s, m);
		return;
	}
	total->received++;
	total->unexpected += m->unexpected;
	if (m->unexpected && m->matched)
		total->held += m->matched - m->tick;
	s->unexpected[class] += m->unexpected;
}

static void sums_wait(struct trace_sums *s, const struct trace_wait *w)
{
	s->totals[w->ring].waited += w->until - w->from;
	if (w->other == TRACE_UNKNOWN)
		return;
	if (w->end->out)
		trace_pair(s, w->ring, w->other)->late_receiver += w->late - w->from;
	else
		trace_pair(s, w->other, w->ring)->late_sender += w->late - w->from;
}

void trace_sum(struct trace_sums *s, const struct trace *t)
{
	*s = (struct trace_sums){.t = t};
	s->pairs = trace_alloc((size_t)t->n * t->n, sizeof *s->pairs);
	s->totals = trace_alloc(t->n, sizeof *s->totals);
	for (size_t i = 0; i < t->nsides; i++)
		sums_side(s, &t->sides[i]);
	for (size_t i = 0; i < t->nwaits; i++)
		sums_wait(s, &t->waits[i]);
}

void trace_sums_free(struct trace_sums *s)
{
	free(s->pairs);
	free(s->totals);
}
