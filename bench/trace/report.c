/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary: who sent how much to whom and by which protocol, and who waited for whom. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "trace.h"

#define MATRIX 12 /* endpoints for which there is one */
#define SIZES 6
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof(a)[0]))

static const struct table_column ring_columns[] = {
	{"number", "no.", "%" PRIu64},
	{"process", "process", "%s"},
	{"interface", "interface", "%s"},
	{"endpoint", "endpoint", "%" PRIu64},
	{"sent", "sent", "%" PRIu64},
	{"received", "received", "%" PRIu64},
	{"unexpected", "unexpected", "%" PRIu64},
	{"held_ms", "held ms", "%.3f"},
	{"waited_ms", "waited ms", "%.3f"},
	{"lost", "events lost", "%" PRIu64},
};
static const struct table_column pair_columns[] = {
	{"from", "from", "%" PRIu64},
	{"to", "to", "%" PRIu64},
	{"messages", "messages", "%" PRIu64},
	{"bytes", "bytes", "%" PRIu64},
	{"eager", "eager", "%" PRIu64},
	{"get", "get", "%" PRIu64},
	{"copy", "copy", "%" PRIu64},
	{"pending", "pending", "%" PRIu64},
	{"late_sender_ms", "late sender ms", "%.3f"},
	{"late_receiver_ms", "late receiver ms", "%.3f"},
};
static const struct table_column size_columns[] = {
	{"up_to", "up to bytes", "%s"},
	{"messages", "messages", "%" PRIu64},
	{"bytes", "bytes", "%" PRIu64},
	{"unexpected", "unexpected", "%" PRIu64},
};
static const char *const size_names[SIZES] = {"64", "1 Ki", "16 Ki", "192 Ki", "1 Mi", "more"};
static const uint32_t size_ends[SIZES] = {64, 1024, 16384, 196608, 1048576, UINT32_MAX};

/* From one endpoint to another. */
struct pair {
	uint64_t messages, bytes, eager, got, copied, pending;
	uint64_t late_sender, late_receiver; /* ticks that the other side waited */
};

struct sums {
	const struct trace *t;
	struct pair *pairs; /* n * n */
	uint64_t sent[SIZES], bytes[SIZES], unexpected[SIZES];
};

static struct pair *pair_at(const struct sums *s, uint32_t from, uint32_t to)
{
	return &s->pairs[(size_t)from * s->t->n + to];
}

static unsigned class_of(uint32_t len)
{
	unsigned i = 0;

	while (len > size_ends[i])
		i++;
	return i;
}

static void add_side(struct sums *s, const struct trace_side *m)
{
	unsigned class = class_of(m->len);
	struct pair *p;

	if (!m->out) {
		s->unexpected[class] += m->unexpected;
		return;
	}
	s->sent[class]++;
	s->bytes[class] += m->len;
	if (m->other == TRACE_UNKNOWN)
		return;
	p = pair_at(s, m->ring, m->other);
	p->messages++;
	p->bytes += m->len;
	p->eager += !m->announced;
	p->pending += m->announced && !m->ended;
	p->copied += m->announced && m->ended && m->copied;
	p->got += m->announced && m->ended && !m->copied;
}

static void add_up(struct sums *s, const struct trace *t)
{
	*s = (struct sums){.t = t, .pairs = trace_alloc((size_t)t->n * t->n, sizeof *s->pairs)};
	for (size_t i = 0; i < t->nsides; i++)
		add_side(s, &t->sides[i]);
	for (size_t i = 0; i < t->nwaits; i++) {
		const struct trace_wait *w = &t->waits[i];

		if (w->other == TRACE_UNKNOWN)
			continue;
		if (w->end->out)
			pair_at(s, w->ring, w->other)->late_receiver += w->late - w->from;
		else
			pair_at(s, w->other, w->ring)->late_sender += w->late - w->from;
	}
}

static double ms(const struct trace *t, uint64_t ticks)
{
	return (double)ticks / t->per_us / 1e3;
}

static void show_rings(const struct trace *t)
{
	uint64_t(*sums)[5] = trace_alloc(t->n, sizeof *sums);
	struct table table;

	for (size_t i = 0; i < t->nsides; i++) {
		const struct trace_side *s = &t->sides[i];

		sums[s->ring][s->out ? 0 : 1]++;
		sums[s->ring][2] += s->unexpected;
		if (s->unexpected && s->matched)
			sums[s->ring][3] += s->matched - s->tick;
	}
	for (size_t i = 0; i < t->nwaits; i++)
		sums[t->waits[i].ring][4] += t->waits[i].until - t->waits[i].from;
	table_open(&table, TABLE_PLAIN, ring_columns, COUNT(ring_columns));
	for (unsigned i = 0; i < t->n; i++) {
		table_count(&table, i);
		table_text(&table, t->rings[i].name);
		table_text(&table, t->rings[i].head.interface);
		table_count(&table, t->rings[i].head.endpoint_id);
		for (unsigned k = 0; k < 3; k++)
			table_count(&table, sums[i][k]);
		table_real(&table, ms(t, sums[i][3]));
		table_real(&table, ms(t, sums[i][4]));
		table_count(&table, t->rings[i].lost);
	}
	table_close(&table);
	free(sums);
}

static void show_matrix(const struct sums *s)
{
	struct table_column columns[MATRIX + 1] = {{"from", "bytes from \\ to", "%" PRIu64}};
	char names[MATRIX][16];
	struct table table;
	unsigned n = s->t->n;

	if (n > MATRIX)
		return;
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof names[i], "%u", i);
		columns[i + 1] = (struct table_column){names[i], names[i], "%" PRIu64};
	}
	putchar('\n');
	table_open(&table, TABLE_PLAIN, columns, n + 1);
	for (unsigned from = 0; from < n; from++) {
		table_count(&table, from);
		for (unsigned to = 0; to < n; to++)
			table_count(&table, pair_at(s, from, to)->bytes);
	}
	table_close(&table);
}

static void show_pairs(const struct sums *s)
{
	struct table table;

	putchar('\n');
	table_open(&table, TABLE_PLAIN, pair_columns, COUNT(pair_columns));
	for (unsigned i = 0; i < s->t->n * s->t->n; i++) {
		const struct pair *p = &s->pairs[i];

		if (!p->messages && !p->late_sender && !p->late_receiver)
			continue;
		table_count(&table, i / s->t->n);
		table_count(&table, i % s->t->n);
		table_count(&table, p->messages);
		table_count(&table, p->bytes);
		table_count(&table, p->eager);
		table_count(&table, p->got);
		table_count(&table, p->copied);
		table_count(&table, p->pending);
		table_real(&table, ms(s->t, p->late_sender));
		table_real(&table, ms(s->t, p->late_receiver));
	}
	table_close(&table);
}

static void show_sizes(const struct sums *s)
{
	struct table table;

	putchar('\n');
	table_open(&table, TABLE_PLAIN, size_columns, COUNT(size_columns));
	for (unsigned i = 0; i < SIZES; i++) {
		if (!s->sent[i] && !s->unexpected[i])
			continue;
		table_text(&table, size_names[i]);
		table_count(&table, s->sent[i]);
		table_count(&table, s->bytes[i]);
		table_count(&table, s->unexpected[i]);
	}
	table_close(&table);
}

void trace_report(const struct trace *t)
{
	struct sums s;

	add_up(&s, t);
	show_rings(t);
	show_matrix(&s);
	show_pairs(&s);
	show_sizes(&s);
	free(s.pairs);
}
