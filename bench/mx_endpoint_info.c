/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the open endpoints of running programs and their peers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "statscan.h"
#include "table.h"
#include "why/why.h"

const char bench_tool[] = "mx_endpoint_info";

static const char help[] =
	"Usage: mx_endpoint_info [options]\n"
	"Shows the open endpoints of running programs, how much waits in their queues,\n"
	"the oldest of that, and their peers.\n\n"
	"  --pid P        only of this process\n"
	"  --endpoint ID  only endpoints with this id\n"
	"  --no-peers     leave the peers out\n"
	"  --no-queues    leave out what waits in the queues\n"
	"  --csv, --json  comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

static const struct table_column endpoint_columns[] = {
	{"pid", "pid", "%" PRIu64},
	{"program", "program", "%s"},
	{"board", "board", "%" PRIu64},
	{"nic_id", "NIC id", "%s"},
	{"endpoint", "endpoint", "%" PRIu64},
	{"session", "session", "%s"},
	{"receives_posted", "posted", "%" PRIu64},
	{"messages_unexpected", "unexpected", "%" PRIu64},
	{"unexpected_bytes", "unexp bytes", "%" PRIu64},
	{"sends_pending", "sends", "%" PRIu64},
	{"peers", "peers", "%" PRIu64},
};

static const struct table_column peer_columns[] = {
	{"pid", "pid", "%" PRIu64},
	{"board", "board", "%" PRIu64},
	{"endpoint", "endpoint", "%" PRIu64},
	{"peer_nic_id", "peer NIC id", "%s"},
	{"peer_endpoint", "peer endpoint", "%" PRIu64},
	{"peer_session", "peer session", "%s"},
	{"state", "state", "%s"},
	{"provider", "provider", "%s"},
	{"paths", "paths", "%s"},
	{"sends_queued", "queued", "%" PRIu64},
	{"messages_sent", "sent", "%" PRIu64},
	{"messages_received", "received", "%" PRIu64},
};
static const struct table_column queue_columns[] = {
	{"pid", "pid", "%" PRIu64},
	{"board", "board", "%" PRIu64},
	{"endpoint", "endpoint", "%" PRIu64},
	{"queue", "queue", "%s"},
	{"match", "match", "%s"},
	{"mask", "mask", "%s"},
	{"source_nic_id", "source NIC id", "%s"},
	{"source_endpoint", "source endpoint", "%" PRIu64},
	{"bytes", "bytes", "%" PRIu64},
};
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof(a)[0]))
#define OLDEST 3 /* of a queue */

struct options {
	pid_t pid;
	uint32_t endpoint;
	bool peers, queues;
	enum table_format format;
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_PID(&o->pid),
		CLI_UINT("endpoint", &o->endpoint, 0, SCAN_ANY - 1),
		CLI_CLEAR("no-peers", &o->peers),
		CLI_CLEAR("no-queues", &o->queues),
		CLI_FORMAT(&o->format),
		{.name = NULL},
	};

	*o = (struct options){.endpoint = SCAN_ANY, .peers = true, .queues = true};
	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
}

static void put_session(struct table *t, uint32_t session)
{
	char text[16];

	snprintf(text, sizeof text, "%08" PRIx32, session);
	table_text(t, text);
}

static const char *state_text(uint32_t state)
{
	switch (state) {
	case TW_PEER_CONNECTING:
		return "connecting";
	case TW_PEER_UP:
		return "up";
	case TW_PEER_DOWN:
		return "down";
	default:
		return "unknown";
	}
}

static unsigned count_peers(const struct tw_stats *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->npeers; i++)
		n += s->peers[i].state != TW_PEER_NONE;
	return n;
}

static void show_endpoint(struct table *t, const struct scan_entry *e)
{
	const struct tw_stats *s = &e->stats;
	char nic[BENCH_NIC_TEXT];

	table_count(t, (uint64_t)e->pid);
	table_text(t, e->program);
	table_count(t, s->board);
	table_text(t, bench_nic_text(s->nic_id, nic));
	table_count(t, s->endpoint_id);
	put_session(t, s->session);
	table_count(t, s->gauges[TW_G_POSTED]);
	table_count(t, s->gauges[TW_G_UNEXPECTED]);
	table_count(t, s->gauges[TW_G_UNEXP_BYTES]);
	table_count(t, s->gauges[TW_G_SENDS]);
	table_count(t, count_peers(s));
}

/* By board: the share of what was fetched, or that it is down. */
static void put_paths(struct table *t, const struct tw_stats_peer *p)
{
	char text[TW_STATS_PATHS * 12] = "";
	size_t len = 0;

	for (unsigned i = 0; i < TW_STATS_PATHS; i++) {
		const struct tw_stats_path *path = &p->paths[i];

		if (path->state != TW_PATH_UP && path->state != TW_PATH_DOWN)
			continue;
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%u:", len ? " " : "",
					path->board);
		if (path->state == TW_PATH_DOWN)
			len += (size_t)snprintf(text + len, sizeof text - len, "down");
		else
			len += (size_t)snprintf(text + len, sizeof text - len, "%u%%", path->share);
	}
	if (len)
		table_text(t, text);
	else
		table_none(t);
}

static void show_peer(struct table *t, const struct scan_entry *e, unsigned i)
{
	const struct tw_stats_peer *p = &e->stats.peers[i];
	char nic[BENCH_NIC_TEXT];

	table_count(t, (uint64_t)e->pid);
	table_count(t, e->stats.board);
	table_count(t, e->stats.endpoint_id);
	table_text(t, bench_nic_text(p->nic_id, nic));
	table_count(t, p->endpoint_id);
	put_session(t, p->session);
	table_text(t, state_text(p->state));
	table_text(t, e->providers[i]);
	put_paths(t, p);
	table_count(t, p->queued);
	table_count(t, p->msgs_sent);
	table_count(t, p->msgs_received);
}

static void show_peers(const struct options *o, const struct scan *s)
{
	unsigned total = 0;
	struct table t;

	for (unsigned n = 0; n < s->n; n++)
		total += count_peers(&s->entries[n]->stats);
	if (!total)
		return;
	if (o->format != TABLE_JSON)
		putchar('\n');
	table_open_kind(&t, o->format, "peer", peer_columns, COUNT(peer_columns));
	for (unsigned n = 0; n < s->n; n++)
		for (unsigned i = 0; i < s->entries[n]->stats.npeers; i++)
			if (s->entries[n]->stats.peers[i].state != TW_PEER_NONE)
				show_peer(&t, s->entries[n], i);
	table_close(&t);
}

/* Queues: read from the memory of the programs, where the page of figures has none of it. */

static void put_hex(struct table *t, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%016" PRIx64, value);
	table_text(t, text);
}

/* from: NIC id << 16 | endpoint id, or 0: any. */
static void put_source(struct table *t, uint64_t from)
{
	char nic[BENCH_NIC_TEXT];

	table_text(t, from ? bench_nic_text(from >> 16, nic) : "any");
	if (from)
		table_count(t, from & 0xffff);
	else
		table_none(t);
}

static void begin_queued(struct table *t, const struct scan_entry *e, const char *queue,
			 uint64_t match)
{
	table_count(t, (uint64_t)e->pid);
	table_count(t, e->stats.board);
	table_count(t, e->stats.endpoint_id);
	table_text(t, queue);
	put_hex(t, match);
}

static int by_order(const void *a, const void *b)
{
	const struct why_wait *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

static void show_queues_of(struct table *t, const struct why_proc *p, unsigned index)
{
	const struct why_ep *ep = &p->eps[index];
	unsigned shown = 0;

	for (unsigned i = 0; i < p->nwaits && shown < OLDEST; i++) {
		const struct why_wait *w = &p->waits[i];

		if (w->kind != WHY_RECV || w->ep != index)
			continue;
		begin_queued(t, ep->e, "posted", w->match);
		put_hex(t, w->mask);
		put_source(t, w->to);
		table_count(t, w->len);
		shown++;
	}
	for (unsigned i = 0; i < ep->nunexp && i < OLDEST; i++) {
		begin_queued(t, ep->e, "unexpected", ep->unexp[i].match);
		table_none(t);
		put_source(t, ep->unexp[i].from);
		table_count(t, ep->unexp[i].len);
	}
}

static void show_queues(const struct options *o)
{
	struct why_facts f;
	struct table t;

	why_read(&f, NULL, o->pid);
	if (o->format == TABLE_CSV)
		putchar('\n'); /* CSV gets its heading now */
	table_open_kind(&t, o->format, "queued", queue_columns, COUNT(queue_columns));
	for (unsigned i = 0; i < f.n; i++) {
		struct why_proc *p = &f.procs[i];

		if (p->nwaits)
			qsort(p->waits, p->nwaits, sizeof *p->waits, by_order);
		for (unsigned k = 0; k < p->neps; k++)
			if (o->endpoint == SCAN_ANY || o->endpoint == p->eps[k].e->stats.endpoint_id)
				show_queues_of(&t, p, k);
		if (p->denied)
			fprintf(stderr, "%s: process %d: its memory may not be read, so its queues "
				"are not shown: look as its user, or as root\n",
				bench_tool, (int)p->pid);
	}
	if (t.ncells && o->format == TABLE_PLAIN)
		putchar('\n');
	if (t.ncells || o->format == TABLE_CSV)
		table_close(&t);
	why_free(&f);
}

static bool any_queued(const struct scan *s)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += s->entries[i]->stats.gauges[TW_G_POSTED] +
		     s->entries[i]->stats.gauges[TW_G_UNEXPECTED];
	return n;
}

int main(int argc, char **argv)
{
	struct options o;
	struct scan s;
	struct table t;

	parse(&o, argc, argv);
	if (scan_endpoints(&s, o.pid, o.endpoint) < 0)
		scan_failed(o.pid);
	if (!s.n)
		return scan_nothing(&s, o.pid, o.endpoint);
	table_open_kind(&t, o.format, "endpoint", endpoint_columns, COUNT(endpoint_columns));
	for (unsigned n = 0; n < s.n; n++)
		show_endpoint(&t, s.entries[n]);
	table_close(&t);
	if (o.queues && any_queued(&s))
		show_queues(&o);
	if (o.peers)
		show_peers(&o, &s);
	scan_free(&s);
	return 0;
}
