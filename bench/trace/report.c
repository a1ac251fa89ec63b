/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary: who sent how much to whom and by which protocol, and who waited for whom. */
#include <inttypes.h>

#include "../cli.h"
#include "trace.h"

#define MATRIX 12 /* endpoints for which there is one */
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
	{"accesses", "accesses", "%" PRIu64},
	{"access_bytes", "their bytes", "%" PRIu64},
};
static const struct table_column size_columns[] = {
	{"up_to", "up to bytes", "%s"},
	{"messages", "messages", "%" PRIu64},
	{"bytes", "bytes", "%" PRIu64},
	{"unexpected", "unexpected", "%" PRIu64},
};

static void show_rings(const struct trace_sums *s)
{
	const struct trace *t = s->t;
	struct table table;

	table_open(&table, TABLE_PLAIN, ring_columns, COUNT(ring_columns));
	for (unsigned i = 0; i < t->n; i++) {
		const struct trace_total *total = &s->totals[i];

		table_count(&table, i);
		table_text(&table, t->rings[i].name);
		table_text(&table, t->rings[i].head.interface);
		table_count(&table, t->rings[i].head.endpoint_id);
		table_count(&table, total->sent);
		table_count(&table, total->received);
		table_count(&table, total->unexpected);
		table_real(&table, trace_ms(t, total->held));
		table_real(&table, trace_ms(t, total->waited));
		table_count(&table, t->rings[i].lost);
	}
	table_close(&table);
}

static void show_matrix(const struct trace_sums *s)
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
			table_count(&table, trace_pair(s, from, to)->bytes);
	}
	table_close(&table);
}

static void show_pairs(const struct trace_sums *s)
{
	struct table table;

	putchar('\n');
	table_open(&table, TABLE_PLAIN, pair_columns, COUNT(pair_columns));
	for (unsigned i = 0; i < s->t->n * s->t->n; i++) {
		const struct trace_pair *p = &s->pairs[i];

		if (!p->messages && !p->accesses && !p->late_sender && !p->late_receiver)
			continue;
		table_count(&table, i / s->t->n);
		table_count(&table, i % s->t->n);
		table_count(&table, p->messages);
		table_count(&table, p->bytes);
		table_count(&table, p->eager);
		table_count(&table, p->got);
		table_count(&table, p->copied);
		table_count(&table, p->pending);
		table_real(&table, trace_ms(s->t, p->late_sender));
		table_real(&table, trace_ms(s->t, p->late_receiver));
		table_count(&table, p->accesses);
		table_count(&table, p->access_bytes);
	}
	table_close(&table);
}

static void show_sizes(const struct trace_sums *s)
{
	struct table table;

	putchar('\n');
	table_open(&table, TABLE_PLAIN, size_columns, COUNT(size_columns));
	for (unsigned i = 0; i < TRACE_SIZES; i++) {
		if (!s->sent[i] && !s->unexpected[i])
			continue;
		table_text(&table, trace_sizes[i].name);
		table_count(&table, s->sent[i]);
		table_count(&table, s->bytes[i]);
		table_count(&table, s->unexpected[i]);
	}
	table_close(&table);
}

void trace_report(const struct trace_sums *s)
{
	show_rings(s);
	show_matrix(s);
	show_pairs(s);
	show_sizes(s);
}
