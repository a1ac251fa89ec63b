/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows what the endpoints of running programs do now: rates, queues and providers, refreshed.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli.h"
#include "series.h"
#include "statscan.h"
#include "table.h"

const char bench_tool[] = "mx_top";

static const char help[] =
	"Usage: mx_top [options]\n"
	"Shows what the open endpoints of running programs do: messages and bytes a\n"
	"second, queues, peers and providers. In a terminal it refreshes the screen;\n"
	"keys: m, b, u, s, p sort by messages, bytes, unexpected, sends, process; q ends.\n\n"
	"  --pid P         only endpoints of this process\n"
	"  --interval S    seconds between two readings; default 1\n"
	"  --count N       stop after N times\n"
	"  --sort KEY      messages (default), bytes, unexpected, sends or process\n"
	"  --openmetrics   all counters once, as Prometheus reads them\n"
	"  --csv, --json   comma separated values; one JSON object a line\n"
	"  -h, --help; -V, --version\n";

static const struct table_column columns[] = {
	{"time_s", "time s", "%.1f"},
	{"pid", "pid", "%" PRIu64},
	{"program", "program", "%s"},
	{"interface", "interface", "%s"},
	{"board", "board", "%" PRIu64},
	{"endpoint", "endpoint", "%" PRIu64},
	{"sent_per_s", "sent/s", "%.0f"},
	{"received_per_s", "received/s", "%.0f"},
	{"sent_mb_s", "MB/s out", "%.1f"},
	{"received_mb_s", "MB/s in", "%.1f"},
	{"sleeps_per_s", "sleeps/s", "%.0f"},
	{"receives_posted", "posted", "%" PRIu64},
	{"messages_unexpected", "unexpected", "%" PRIu64},
	{"sends_pending", "sends", "%" PRIu64},
	{"peers", "peers", "%" PRIu64},
	{"providers", "by", "%s"},
};
#define NCOLUMNS (sizeof columns / sizeof columns[0])
_Static_assert(NCOLUMNS <= TABLE_COLUMNS, "room");

enum order { MESSAGES, BYTES, UNEXPECTED, SENDS, PROCESS, ORDERS };
static const char *const order_names[ORDERS] = {"messages", "bytes", "unexpected", "sends",
						"process"};
static const char order_keys[] = "mbusp";

struct options {
	pid_t pid;
	double interval;
	uint64_t count;
	enum order order;
	bool openmetrics;
	enum table_format format;
};

/* An endpoint between two readings; rates are per second. */
struct row {
	const struct scan_entry *e;
	double sent, received, bytes_sent, bytes_received, sleeps;
	enum order order; /* by which rows are sorted */
};

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		CLI_PID(&o->pid),
		CLI_REAL("interval", &o->interval, 86400),
		CLI_COUNT("count", &o->count),
		CLI_WORD("sort", &o->order, order_names, ORDERS),
		CLI_SET("openmetrics", &o->openmetrics),
		CLI_FORMAT(&o->format),
		{.name = NULL},
	};

	*o = (struct options){.interval = 1, .count = UINT64_MAX};
	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (o->openmetrics && o->format != TABLE_PLAIN)
		bench_usage("--openmetrics is a format of its own");
}

/* Rows ------------------------------------------------------------------------ */

static double per_second(const struct scan_entry *now, const struct scan_entry *before,
			 enum tw_counter counter, double seconds)
{
	if (!before || counter >= now->stats.ncounters || counter >= before->stats.ncounters)
		return NAN;
	return (double)(now->stats.counters[counter] - before->stats.counters[counter]) / seconds;
}

static double key_of(const struct row *r)
{
	switch (r->order) {
	case MESSAGES:
		return r->sent + r->received;
	case BYTES:
		return r->bytes_sent + r->bytes_received;
	case UNEXPECTED:
		return (double)r->e->stats.gauges[TW_G_UNEXPECTED];
	case SENDS:
		return (double)r->e->stats.gauges[TW_G_SENDS];
	default:
		return 0;
	}
}

/* The most first; what is equal, or new, by process. */
static int by_key(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double left = key_of(x), right = key_of(y);

	if (left > right || (!isnan(left) && isnan(right)))
		return -1;
	if (left < right || (isnan(left) && !isnan(right)))
		return 1;
	return x->e->pid != y->e->pid ? (x->e->pid > y->e->pid) - (x->e->pid < y->e->pid)
				      : (x->e->ino > y->e->ino) - (x->e->ino < y->e->ino);
}

static struct row *make_rows(const struct scan *now, const struct scan *before, enum order order)
{
	struct row *rows = calloc(now->n + 1, sizeof *rows);
	double seconds = now->when - before->when;

	if (!rows)
		bench_fail("no memory");
	for (unsigned i = 0; i < now->n; i++) {
		const struct scan_entry *e = now->entries[i], *was = scan_find(before, e);

		rows[i] = (struct row){
			.e = e,
			.order = order,
			.sent = per_second(e, was, TW_C_SEND_EAGER, seconds) +
				per_second(e, was, TW_C_SEND_RNDV, seconds),
			.received = per_second(e, was, TW_C_RECV_DONE, seconds),
			.bytes_sent = per_second(e, was, TW_C_SEND_BYTES, seconds),
			.bytes_received = per_second(e, was, TW_C_RECV_BYTES, seconds),
			.sleeps = per_second(e, was, TW_C_SLEEP, seconds),
		};
	}
	qsort(rows, now->n, sizeof *rows, by_key);
	return rows;
}

/* The providers of the peers that are connected, without the endpoint itself. */
static void providers_of(const struct scan_entry *e, char *text, size_t size, uint64_t *peers)
{
	const struct tw_stats *s = &e->stats;
	size_t n = 0;

	*text = 0;
	*peers = 0;
	for (unsigned i = 0; i < s->npeers; i++) {
		bool itself = s->peers[i].nic_id == s->nic_id &&
			      s->peers[i].endpoint_id == s->endpoint_id;

		if (s->peers[i].state != TW_PEER_UP || itself)
			continue;
		++*peers;
		if (!strstr(text, e->providers[i]) && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s%s", n ? "," : "",
					      e->providers[i]);
	}
}

static void show_row(struct table *t, const struct row *r)
{
	const struct tw_stats *s = &r->e->stats;
	char providers[64];
	uint64_t peers;

	providers_of(r->e, providers, sizeof providers, &peers);
	table_count(t, (uint64_t)r->e->pid);
	table_text(t, r->e->program);
	table_text(t, r->e->interface);
	table_count(t, s->board);
	table_count(t, s->endpoint_id);
	table_real(t, r->sent);
	table_real(t, r->received);
	table_real(t, r->bytes_sent / 1e6);
	table_real(t, r->bytes_received / 1e6);
	table_real(t, r->sleeps);
	table_count(t, s->gauges[TW_G_POSTED]);
	table_count(t, s->gauges[TW_G_UNEXPECTED]);
	table_count(t, s->gauges[TW_G_SENDS]);
	table_count(t, peers);
	table_text(t, providers);
}

static void show(struct table *t, const struct row *rows, unsigned n, double time)
{
	for (unsigned i = 0; i < n; i++) {
		if (t->format != TABLE_PLAIN)
			table_real(t, time);
		show_row(t, &rows[i]);
	}
	if (t->ncells || t->format != TABLE_PLAIN)
		table_close(t);
}

/* The terminal ---------------------------------------------------------------- */

/* Until SCREEN_WRAP, what is wider than the screen is cut. */
#define SCREEN_CLEAR "\033[?7l\033[H\033[J"
#define SCREEN_WRAP "\033[?7h"

static struct termios shell; /* as it was */
static bool raw;
static volatile sig_atomic_t ended;

static void screen_leave(void)
{
	if (raw)
		tcsetattr(STDIN_FILENO, TCSANOW, &shell);
	raw = false;
}

static void on_signal(int sig)
{
	(void)sig;
	ended = true;
}

/* Keys are read one by one. */
static void screen_enter(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct termios keys;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &shell) != 0)
		return;
	keys = shell;
	keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
	atexit(screen_leave);
}

/* Rows that fit beside two lines of headings and the last, empty one. */
static unsigned screen_rows(unsigned n)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row < 4)
		return n;
	return n < w.ws_row - 3u ? n : w.ws_row - 3u;
}

/*
 * True: it is that moment, or a later one. False: a key has changed the order, or it ends. The
 * keyboard is looked at even if the last reading took longer than the interval.
 */
static bool screen_wait(double until, enum order *order)
{
	struct pollfd keyboard = {.fd = raw ? STDIN_FILENO : -1, .events = POLLIN};

	while (!ended) {
		double left = until - bench_now();
		const char *key;
		char c;

		if (poll(&keyboard, 1, left > 0 ? (int)(left * 1000) + 1 : 0) <= 0) {
			if (left <= 0)
				return true;
			continue;
		}
		if (read(STDIN_FILENO, &c, 1) != 1 || c == 'q')
			break;
		key = c ? strchr(order_keys, c) : NULL;
		if (!key)
			continue;
		*order = (enum order)(key - order_keys);
		return false;
	}
	ended = true;
	return false;
}

/* Readings -------------------------------------------------------------------- */

/* False: the process that was asked for has ended. */
static bool read_all(struct scan *s, const struct options *o, bool first)
{
	if (scan_endpoints(s, o->pid, SCAN_ANY) == 0)
		return true;
	if (first || errno != ENOENT)
		scan_failed(o->pid);
	return false;
}

static void refresh(struct table *t, struct options *o, const struct scan *now,
		    const struct scan *before, double start, bool screen)
{
	struct row *rows = make_rows(now, before, o->order);
	unsigned n = screen ? screen_rows(now->n) : now->n;

	if (screen)
		printf(SCREEN_CLEAR "mx_top: %u endpoint%s%s, by %s; keys m b u s p, q ends\n",
		       now->n, now->n == 1 ? "" : "s", now->denied ? " (more of other users)" : "",
		       order_names[o->order]);
	show(t, rows, n, now->when - start);
	if (screen)
		fputs(SCREEN_WRAP, stdout);
	else if (t->format == TABLE_PLAIN && n)
		putchar('\n');
	bench_output_end();
	free(rows);
}

static int watch(struct options *o)
{
	bool screen = o->format == TABLE_PLAIN && isatty(STDOUT_FILENO);
	unsigned skip = o->format == TABLE_PLAIN; /* the column of time */
	struct scan before = {.n = 0}, now;
	double start, next;
	uint64_t n = 0;
	struct table t;

	read_all(&now, o, true);
	if (!now.n && !screen) {
		int rc = scan_nothing(&now, o->pid, SCAN_ANY);

		if (o->count != UINT64_MAX)
			return rc;
		fprintf(stderr, "mx_top: waits for one; ctrl-C ends it\n");
	}
	start = next = now.when;
	screen_enter();
	table_open(&t, o->format, columns + skip, NCOLUMNS - skip);
	while (n < o->count && !ended) {
		if (!screen_wait(next + o->interval, &o->order)) {
			if (n && !ended)
				refresh(&t, o, &now, &before, start, screen);
			continue;
		}
		next = bench_now() - next < 2 * o->interval ? next + o->interval : bench_now();
		scan_free(&before);
		before = now;
		if (!read_all(&now, o, false))
			break;
		refresh(&t, o, &now, &before, start, screen);
		n++;
	}
	scan_free(&before);
	scan_free(&now);
	return 0;
}

/* OpenMetrics ----------------------------------------------------------------- */

/* "sends eager" as part of a metric's name. */
static void metric_name(const char *label, char *name, size_t size)
{
	size_t n = 0;

	for (; *label && n + 1 < size; label++)
		if (*label != ',')
			name[n++] = *label == ' ' || *label == '-' ? '_' : *label;
	name[n] = 0;
}

/* A text that another user may have chosen, as a part of a line. */
static const char *metric_text(const char *from, char *text, size_t size)
{
	snprintf(text, size, "%s", from);
	table_printable(text);
	for (char *c = text; *c; c++)
		if (*c == '"' || *c == '\\')
			*c = '?';
	return text;
}

static void metric_value(const struct scan_entry *e, const char *name, const char *suffix,
			 uint64_t value)
{
	char program[sizeof e->program], interface[sizeof e->interface];

	printf("tagwire_%s%s{pid=\"%d\",program=\"%s\",interface=\"%s\",board=\"%u\","
	       "endpoint=\"%u\"} %" PRIu64 "\n",
	       name, suffix, (int)e->pid, metric_text(e->program, program, sizeof program),
	       metric_text(e->interface, interface, sizeof interface), e->stats.board,
	       e->stats.endpoint_id, value);
}

static int openmetrics(const struct options *o)
{
	static const char *const gauges[TW_NGAUGES] = {
		[TW_G_POSTED] = "receives_waiting",
		[TW_G_UNEXPECTED] = "unexpected_waiting",
		[TW_G_UNEXP_BYTES] = "unexpected_bytes_stored",
		[TW_G_SENDS] = "sends_pending",
	};
	struct scan now;
	char name[64];

	read_all(&now, o, true);
	for (unsigned c = 0; c < TW_NCOUNTERS; c++) {
		metric_name(tw_counter_labels[c], name, sizeof name);
		printf("# TYPE tagwire_%s counter\n", name);
		for (unsigned i = 0; i < now.n; i++)
			if (c < now.entries[i]->stats.ncounters)
				metric_value(now.entries[i], name, "_total",
					     now.entries[i]->stats.counters[c]);
	}
	for (unsigned g = 0; g < TW_NGAUGES; g++) {
		printf("# TYPE tagwire_%s gauge\n", gauges[g]);
		for (unsigned i = 0; i < now.n; i++)
			metric_value(now.entries[i], gauges[g], "",
				     now.entries[i]->stats.gauges[g]);
	}
	puts("# EOF");
	bench_output_end();
	scan_free(&now);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;

	parse(&o, argc, argv);
	return o.openmetrics ? openmetrics(&o) : watch(&o);
}
