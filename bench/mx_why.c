/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Says why a job hangs: who waits for whom.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/stats.h"
#include "cli.h"
#include "table.h"
#include "why/together.h"
#include "why/why.h"

const char bench_tool[] = "mx_why";

static const char help[] =
	"Usage: mx_why [options] [JOB]\n"
	"Says in at most three sentences who waits for whom, why, and what to do; then\n"
	"lists what is pending. Looks at all programs that use Tagwire on this host, or\n"
	"at those of a job (TAGWIRE_JOB, or the name that a launcher gave it). They run\n"
	"on and do not notice. Exit code: 3 if something waits without end, 0 if not.\n\n"
	"  --together     one mx_why on each host, as ranks of a job: rank 0 explains all\n"
	"                 hosts; see tagwire-launch(7)\n"
	"  --timeout S    seconds for which it waits for another rank; default 30\n"
	"  --pid P        what this process waits for\n"
	"  --interval S   seconds between the two readings; default 0.2\n"
	"  --all          list everything, not only the oldest three of each process\n"
	"  --json         one JSON object a line\n"
	"  -h, --help; -V, --version\n";

#define EXIT_WAITS 3
#define OLDEST 3 /* waits of a process that are listed */
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof(a)[0]))

/* Those of several hosts begin with the host. */
#define PROCESS                                                                                    \
	{"host", "host", "%s"},                                                                    \
	{                                                                                          \
		"pid", "pid", "%" PRIu64                                                           \
	}

static const struct table_column process_columns[] = {
	PROCESS,
	{"program", "program", "%s"},
	{"name", "name", "%s"},
	{"state", "state", "%s"},
	{"seconds", "for at least s", "%.1f"},
	{"waits_for", "waits for", "%s"},
};
static const struct table_column wait_columns[] = {
	PROCESS,
	{"request", "request", "%s"},
	{"other", "other side", "%s"},
	{"match", "match", "%s"},
	{"mask", "mask", "%s"},
	{"bytes", "bytes", "%" PRIu64},
	{"moved", "moved", "%" PRIu64},
	{"state", "state", "%s"},
	{"seconds", "at least s", "%.1f"},
};
static const struct table_column message_columns[] = {
	PROCESS,
	{"from", "from", "%s"},
	{"match", "match", "%s"},
	{"bytes", "bytes", "%" PRIu64},
	{"why", "why unmatched", "%s"},
};
static const struct table_column peer_columns[] = {
	PROCESS,
	{"peer", "peer", "%s"},
	{"trouble", "trouble", "%s"},
	{"credits", "credits", "%" PRIu64},
	{"granted", "of", "%" PRIu64},
};
static const struct table_column host_columns[] = {
	{"rank", "rank", "%" PRIu64},
	{"host", "host", "%s"},
	{"processes", "processes", "%" PRIu64},
	{"state", "state", "%s"},
};

struct options {
	const char *job;
	pid_t pid;
	double interval, timeout;
	bool all, together;
	enum table_format format;
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_PID(&o->pid),
		CLI_REAL("interval", &o->interval, 3600),
		CLI_SET("all", &o->all),
		CLI_JSON(&o->format),
		CLI_SET("together", &o->together),
		CLI_REAL("timeout", &o->timeout, 86400),
		{.name = NULL},
	};

	*o = (struct options){.interval = 0.2, .timeout = 30};
	bench_cli(argc, argv, options, help);
	if (optind < argc)
		o->job = argv[optind++];
	if (optind < argc)
		bench_usage("only one job at a time");
	if (o->pid && o->together)
		bench_usage("--pid and --together exclude each other");
}

/* Without rows there is no heading. */
static void close_table(struct table *t)
{
	if (t->ncells || t->format != TABLE_PLAIN)
		table_close(t);
}

static void begin_lines(const struct table *t)
{
	if (t->ncells == 0 && t->at == 0 && t->format == TABLE_PLAIN)
		putchar('\n');
}

/* A table whose rows begin with a process. */
static void open_table(struct table *t, const struct options *o, const char *kind,
		       const struct table_column *columns, unsigned n)
{
	unsigned skip = !o->together;

	table_open_kind(t, o->format, kind, columns + skip, n - skip);
}

static void begin_row(const struct options *o, struct table *t, const struct why_graph *g,
		      const struct why_proc *p)
{
	begin_lines(t);
	if (o->together)
		table_text(t, g->now->hosts[p->host].name);
	table_count(t, (uint64_t)p->pid);
}

static void put_hex(struct table *t, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, value);
	table_text(t, text);
}

/* Processes --------------------------------------------------------------- */

static const char *mood_text(const struct why_proc *p)
{
	switch (p->mood) {
	case WHY_GOES_ON:
		return "goes on";
	case WHY_BLOCKED:
		return p->polls ? "waits, polling" : "waits";
	case WHY_SILENT:
		return p->computes ? "computes" : "sleeps elsewhere";
	case WHY_IDLE:
		return "polls";
	case WHY_STOPPED:
		return "stopped";
	default:
		return p->denied ? "no right to read it" : "another version";
	}
}

static void show_processes(const struct options *o, const struct why_graph *g)
{
	char text[WHY_TEXT];
	struct table t;

	open_table(&t, o, "process", process_columns, COUNT(process_columns));
	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_actor *a = &g->actors[i];

		if (!why_is_shown(g, i))
			continue;
		begin_row(o, &t, g, a->now);
		table_text(&t, a->now->program);
		why_name(g->now, (int)i, text);
		table_text(&t, text);
		table_text(&t, mood_text(a->now));
		if (a->now->mood == WHY_GOES_ON)
			table_none(&t);
		else
			table_real(&t, a->now->since);
		if (a->now->mood == WHY_BLOCKED && a->next >= 0)
			why_name(g->now, a->next, text);
		if (a->now->mood == WHY_BLOCKED && a->next >= 0)
			table_text(&t, text);
		else
			table_none(&t);
	}
	close_table(&t);
}

/* Requests ------------------------------------------------------------------ */

static void put_other(struct table *t, const struct why_graph *g, const struct why_actor *a,
		      const struct why_wait *w)
{
	char text[WHY_TEXT] = "any";

	if (w->kind == WHY_RANKS)
		why_ranks(w, text);
	else if (w == a->wait && a->next >= 0 && (w->to || w->kind >= WHY_MUTEX))
		why_name(g->now, a->next, text);
	else if (w->to)
		why_where_text(g->now, &a->now->eps[w->ep], w->to, text);
	table_text(t, text);
}

static void show_wait(const struct options *o, struct table *t, const struct why_graph *g,
		      const struct why_actor *a, const struct why_wait *w)
{
	begin_row(o, t, g, a->now);
	table_text(t, why_kind_text(w->kind));
	put_other(t, g, a, w);
	if (w->kind >= WHY_MUTEX) {
		char id[16];

		snprintf(id, sizeof id, "%" PRIu32, w->own);
		table_text(t, id);
		table_none(t);
	} else if (w->kind == WHY_RANKS) {
		table_text(t, w->call);
		table_none(t);
	} else {
		put_hex(t, w->match);
		put_hex(t, w->mask);
	}
	table_count(t, w->len);
	table_count(t, w->moved);
	table_text(t, why_state_text(w->state));
	table_real(t, w->age);
}

static int by_order(const void *a, const void *b)
{
	const struct why_wait *x = *(const struct why_wait *const *)a;
	const struct why_wait *y = *(const struct why_wait *const *)b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void show_waits(const struct options *o, const struct why_graph *g)
{
	struct table t;

	open_table(&t, o, "request", wait_columns, COUNT(wait_columns));
	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_proc *p = g->actors[i].now;
		const struct why_wait **waits;

		if (!why_is_shown(g, i))
			continue;
		waits = calloc(p->nwaits + 1, sizeof *waits);
		if (!waits)
			bench_fail("no memory");
		for (unsigned k = 0; k < p->nwaits; k++)
			waits[k] = &p->waits[k];
		qsort(waits, p->nwaits, sizeof *waits, by_order);
		for (unsigned k = 0; k < p->nwaits && (o->all || k < OLDEST); k++)
			show_wait(o, &t, g, &g->actors[i], waits[k]);
		free(waits);
	}
	close_table(&t);
}

/* Messages ------------------------------------------------------------------ */

/* Why no receive of the endpoint takes a message. */
static void why_unmatched(const struct why_proc *p, unsigned ep, const struct why_unexp *u,
			  char *text)
{
	const struct why_wait *near = NULL;
	uint64_t differ = UINT64_MAX;

	for (unsigned i = 0; i < p->nwaits; i++) {
		const struct why_wait *w = &p->waits[i];
		uint64_t d = why_differ(u->match, w->match, w->mask);

		if (w->kind != WHY_RECV || w->ep != ep ||
		    (near && __builtin_popcountll(d) >= __builtin_popcountll(differ)))
			continue;
		near = w;
		differ = d;
	}
	if (!near)
		snprintf(text, WHY_TEXT, "no receive is posted");
	else if (!differ)
		snprintf(text, WHY_TEXT, "the receive takes another source only%s",
			 u->len > near->len ? ", and is shorter" : "");
	else
		snprintf(text, WHY_TEXT, "bits 0x%" PRIx64 " differ from 0x%" PRIx64 "%s", differ,
			 near->match, u->len > near->len ? "; the receive is shorter" : "");
}

static void show_messages(const struct options *o, const struct why_graph *g)
{
	char text[WHY_TEXT];
	struct table t;

	open_table(&t, o, "message", message_columns, COUNT(message_columns));
	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_proc *p = g->actors[i].now;

		for (unsigned e = 0; why_is_shown(g, i) && e < p->neps; e++)
			for (unsigned k = 0; k < p->eps[e].nunexp && (o->all || k < OLDEST); k++) {
				const struct why_unexp *u = &p->eps[e].unexp[k];

				begin_row(o, &t, g, p);
				why_where_text(g->now, &p->eps[e], u->from, text);
				table_text(&t, text);
				put_hex(&t, u->match);
				table_count(&t, u->len);
				why_unmatched(p, e, u, text);
				table_text(&t, text);
			}
	}
	close_table(&t);
}

static const char *trouble(const struct why_peer *p)
{
	if (p->state == TW_PEER_DOWN)
		return "gone";
	if (p->paths_down)
		return "all paths are broken";
	if (p->silent)
		return "does not answer";
	if (p->state == TW_PEER_UP && p->granted && !p->credits && p->queued)
		return "no credit";
	return p->queued ? "sends are queued" : NULL;
}

static void show_peers(const struct options *o, const struct why_graph *g)
{
	char text[WHY_TEXT];
	struct table t;

	open_table(&t, o, "peer", peer_columns, COUNT(peer_columns));
	for (unsigned i = 0; i < g->now->n; i++) {
		const struct why_proc *p = g->actors[i].now;

		for (unsigned e = 0; why_is_shown(g, i) && e < p->neps; e++)
			for (unsigned k = 0; k < p->eps[e].npeers; k++) {
				const struct why_peer *peer = &p->eps[e].peers[k];

				if (!trouble(peer))
					continue;
				begin_row(o, &t, g, p);
				why_where_text(g->now, &p->eps[e], peer->where, text);
				table_text(&t, text);
				table_text(&t, trouble(peer));
				table_count(&t, peer->credits);
				table_count(&t, peer->granted);
			}
	}
	close_table(&t);
}

static void show_verdict(const struct options *o, char sentences[3][WHY_TEXT], bool waits)
{
	static const struct table_column columns[] = {
		{"hangs", "", "%s"},
		{"who", "", "%s"},
		{"why", "", "%s"},
		{"advice", "", "%s"},
	};
	struct table t;

	if (o->format == TABLE_PLAIN) {
		for (unsigned i = 0; i < 3; i++)
			if (sentences[i][0])
				puts(sentences[i]);
		return;
	}
	table_open_kind(&t, o->format, "verdict", columns, COUNT(columns));
	table_text(&t, waits ? "yes" : "no");
	for (unsigned i = 0; i < 3; i++)
		table_text(&t, sentences[i]);
	table_close(&t);
}

/* Hosts -------------------------------------------------------------------- */

static const char *state_text(enum together_state state)
{
	switch (state) {
	case TOGETHER_SEEN:
		return "looked at";
	case TOGETHER_TWICE:
		return "sees the processes of another rank";
	case TOGETHER_GARBLED:
		return "another version";
	default:
		return "did not come";
	}
}

/* The rest is explained without them. */
static void warn(const struct together *t)
{
	for (uint32_t i = 1; i < t->size; i++) {
		const struct together_rank *r = &t->ranks[i];

		if (r->state == TOGETHER_MISSING)
			fprintf(stderr,
				"%s: rank %" PRIu32 ", %s, did not come within %g seconds: its "
				"host is left out\n",
				bench_tool, i, r->host, t->timeout);
		else if (r->state == TOGETHER_GARBLED)
			fprintf(stderr,
				"%s: rank %" PRIu32 ", %s, is another version of %s: its host is "
				"left out\n",
				bench_tool, i, r->host, bench_tool);
	}
}

static unsigned count_processes(const struct why_graph *g, int host)
{
	unsigned n = 0;

	for (unsigned i = 0; i < g->now->n; i++)
		n += (int)g->now->procs[i].host == host;
	return n;
}

static void show_hosts(const struct options *o, const struct why_graph *g,
		       const struct together *together)
{
	struct table t;

	table_open_kind(&t, o->format, "host", host_columns, COUNT(host_columns));
	for (uint32_t i = 0; i < together->size; i++) {
		const struct together_rank *r = &together->ranks[i];

		begin_lines(&t);
		table_count(&t, i);
		table_text(&t, r->host);
		table_count(&t, count_processes(g, r->seen));
		table_text(&t, state_text(r->state));
	}
	close_table(&t);
}

static void pause_for(double seconds)
{
	struct timespec t = {.tv_sec = (time_t)seconds};

	t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
	nanosleep(&t, NULL);
}

static void must_be_there(const struct options *o)
{
	struct why_facts f;

	why_read(&f, o->job, o->pid);
	if (!f.n)
		bench_fail("process %d does not use Tagwire%s", (int)o->pid,
			   f.scan.denied ? ", or may not be looked into" : "");
	why_free(&f);
}

static void fail_empty(const struct options *o, const struct why_facts *f)
{
	bool denied = false;

	for (unsigned i = 0; i < f->nhosts; i++)
		denied |= f->hosts[i].denied;
	bench_fail("no program of %s%s uses Tagwire on %s%s", o->job ? "job " : "this user",
		   o->job ? o->job : "", f->nhosts > 1 ? "these hosts" : "this host",
		   denied ? ", of those that may be looked into" : "");
}

static void read_once(const struct options *o, const struct together *t, struct why_facts *f)
{
	why_read(f, o->job, 0);
	if (!o->together)
		return;
	why_add_ranks(f);
	together_leave_out(t, f);
}

/* Two readings, and what they say alike. */
static void read_host(const struct options *o, const struct together *t, struct why_facts *now)
{
	struct why_facts before;

	/* Of the others it may wait for one. */
	read_once(o, t, &before);
	if (!before.n && !o->together)
		fail_empty(o, &before);
	pause_for(o->interval);
	read_once(o, t, now);
	why_settle(&before, now);
	why_free(&before);
}

int main(int argc, char **argv)
{
	static char sentences[3][WHY_TEXT];
	struct together together = {.rank = 0};
	struct why_facts now;
	struct why_graph g;
	struct options o;
	bool waits;

	parse(&o, argc, argv);
	if (o.pid)
		must_be_there(&o);
	if (o.together)
		together_begin(&together, o.timeout);
	read_host(&o, &together, &now);
	if (o.together && !together_end(&together, &now))
		return 0;
	if (o.together)
		warn(&together);
	if (!now.n && o.together)
		fail_empty(&o, &now);
	why_graph(&g, &now);
	g.only = o.pid;
	waits = why_verdict(&g, sentences);
	show_verdict(&o, sentences, waits);
	show_processes(&o, &g);
	show_waits(&o, &g);
	show_messages(&o, &g);
	show_peers(&o, &g);
	if (o.together)
		show_hosts(&o, &g, &together);
	free(g.actors);
	why_free(&now);
	bench_output_end();
	return waits ? EXIT_WAITS : 0;
}
