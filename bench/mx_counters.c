/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the counters of open endpoints of running programs.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "cli.h"
#include "series.h"
#include "statscan.h"
#include "table.h"

const char bench_tool[] = "mx_counters";

static const char help[] =
	"Usage: mx_counters [options]\n"
	"Shows the counters of open endpoints of running programs; those that are zero\n"
	"are left out.\n\n"
	"  --pid P          only of this process\n"
	"  --endpoint ID    only of endpoints with this id\n"
	"  --all            those that are zero too\n"
	"  --watch SECONDS  repeat, with the rate per second\n"
	"  --count N        stop after N times\n"
	"  --csv, --json    comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

/* Without --watch there is neither the first column nor the last. */
static const struct table_column columns[] = {
	{"time_s", "time s", "%.1f"},	      {"pid", "pid", "%" PRIu64},
	{"program", "program", "%s"},	      {"board", "board", "%" PRIu64},
	{"endpoint", "endpoint", "%" PRIu64}, {"counter", "counter", "%s"},
	{"value", "value", "%" PRIu64},	      {"per_s", "per s", "%.0f"},
};
#define NCOLUMNS (sizeof columns / sizeof columns[0])

struct options {
	pid_t pid;
	uint32_t endpoint;
	bool all;
	double watch; /* 0: once */
	uint64_t count;
	enum table_format format;
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_PID(&o->pid),
		CLI_UINT("endpoint", &o->endpoint, 0, SCAN_ANY - 1),
		CLI_SET("all", &o->all),
		CLI_REAL("watch", &o->watch, 86400),
		CLI_COUNT("count", &o->count),
		CLI_FORMAT(&o->format),
		{.name = NULL},
	};

	*o = (struct options){.endpoint = SCAN_ANY, .count = UINT64_MAX};
	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (o->count != UINT64_MAX && o->watch == 0)
		bench_usage("--count needs --watch");
}

static void show_counter(struct table *t, const struct scan_entry *e, unsigned i)
{
	char unknown[32];

	table_count(t, (uint64_t)e->pid);
	table_text(t, e->program);
	table_count(t, e->stats.board);
	table_count(t, e->stats.endpoint_id);
	snprintf(unknown, sizeof unknown, "counter %u", i);
	table_text(t, i < TW_NCOUNTERS ? tw_counter_labels[i] : unknown);
	table_count(t, e->stats.counters[i]);
}

static void show(struct table *t, const struct options *o, const struct scan *this,
		 const struct scan *last, double start)
{
	for (unsigned n = 0; n < this->n; n++) {
		const struct scan_entry *e = this->entries[n];
		const struct scan_entry *before = scan_find(last, e);

		for (unsigned i = 0; i < e->stats.ncounters; i++) {
			if (!e->stats.counters[i] && !o->all)
				continue;
			if (o->watch > 0)
				table_real(t, this->when - start);
			show_counter(t, e, i);
			if (o->watch > 0 && before)
				table_real(t, (double)(int64_t)(e->stats.counters[i] -
								before->stats.counters[i]) /
						      (this->when - last->when));
			else if (o->watch > 0)
				table_none(t);
		}
	}
}

static int once(const struct options *o)
{
	struct scan this, none = {.n = 0};
	struct table t;

	if (scan_endpoints(&this, o->pid, o->endpoint) < 0)
		scan_failed(o->pid);
	if (!this.n)
		return scan_nothing(&this, o->pid, o->endpoint);
	table_open(&t, o->format, columns + 1, NCOLUMNS - 2);
	show(&t, o, &this, &none, 0);
	table_close(&t);
	scan_free(&this);
	return 0;
}

static void pause_until(double when)
{
	struct timespec t = {.tv_sec = (time_t)when};

	t.tv_nsec = (long)((when - (double)t.tv_sec) * 1e9);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int watch(const struct options *o)
{
	struct scan this, last = {.n = 0};
	double start = bench_now();
	struct table t;

	table_open(&t, o->format, columns, NCOLUMNS);
	for (uint64_t i = 0; i < o->count; i++) {
		if (i)
			pause_until(start + (double)i * o->watch);
		if (scan_endpoints(&this, o->pid, o->endpoint) < 0) {
			if (i && errno == ENOENT)
				return 0; /* the program has ended */
			scan_failed(o->pid);
		}
		if (!i && !this.n)
			scan_nothing(&this, o->pid, o->endpoint); /* and one may open yet */
		show(&t, o, &this, &last, start);
		if (t.ncells || t.format != TABLE_PLAIN)
			table_close(&t); /* what is shown next starts a new table */
		if (t.format == TABLE_PLAIN && this.n)
			putchar('\n');
		bench_output_end();
		scan_free(&last);
		last = this;
	}
	scan_free(&last);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;

	parse(&o, argc, argv);
	return o.watch > 0 ? watch(&o) : once(&o);
}
