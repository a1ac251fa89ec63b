/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency and rate of MCAPI messages, packets and scalars between two nodes, each
 * a process of this host. One leads: it gives orders in shared memory, measures
 * and reports; the other follows.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "cores.h"
#include "mcapi.h"
#include "series.h"
#include "table.h"

const char bench_tool[] = "mcapi_perf";

#define BUFFERS 512 /* that a receiving endpoint has for messages or packets */
#define POLLS 1000  /* looks at shared memory before the core is offered to others */
#define MAX_RUN (1ull << 40)

static const char help[] =
	"Usage: mcapi_perf [options]\n"
	"Measures latency (half of a round trip) and rate of what MCAPI sends between two\n"
	"nodes of this host.\n\n"
	"What to measure:\n"
	"  --kind KIND         message, packet or scalar only (default all)\n"
	"  --size BYTES        one size of messages and packets; k, m multiply by 1024\n"
	"  --min BYTES         the smallest (default 8)\n"
	"  --max BYTES         the largest (default 1m); doubled from one to the next\n"
	"  --bits N            width of scalars: 8, 16, 32 or 64 (default 64)\n"
	"  --no-bind           leave it to the system where the two nodes run\n\n"
	"How to measure and report:\n"
	"  --rounds N          rounds over everything, reported as medians (default 5)\n"
	"  --time MS           time for each figure in each round (default 20)\n"
	"  --csv, --json       comma separated values; one JSON object a line\n"
	"  --help, --version\n";

static const struct table_column columns[] = {
	{"kind", "kind", "%s"},
	{"size", "bytes", "%" PRIu64},
	{"latency_us", "latency us", "%.3f"},
	{"latency_min_us", "least us", "%.3f"},
	{"line_us", "line us", "%.3f"},
	{"ratio", "ratio", "%.2f"},
	{"rate_s", "per second", "%.0f"},
	{"mb_s", "MB/s", "%.1f"},
};

enum kind { MESSAGE, PACKET, SCALAR, KINDS };
static const char *const kinds[KINDS] = {"message", "packet", "scalar"};

enum what { END, LINE, BOUNCE, STREAM };

/* Shared by the two. Each group has one writer at a time. */
struct shared {
	_Alignas(64) _Atomic(uint64_t) order; /* counts orders */
	uint32_t what, kind, size;
	uint64_t n;
	_Alignas(64) _Atomic(uint64_t) ready;
	_Alignas(64) _Atomic(uint64_t) turn; /* the bare line */
};

struct options {
	unsigned first, last; /* kinds */
	uint32_t min, max, bits;
	unsigned rounds;
	double seconds;
	bool no_bind;
	enum table_format format;
};

struct perf {
	struct shared *shared;
	uint64_t orders;
	bool lead;
	mcapi_endpoint_t out, in, peer; /* of messages */
	uint32_t pkt_out, pkt_in, scl_out, scl_in;
	char *buffer;
};

struct row {
	enum kind kind;
	uint32_t size;
	uint64_t bounces, streams; /* in the next round */
	struct bench_series latency, line, ratio, rate;
};

static pid_t other_end;

static void end_other(void)
{
	if (other_end > 0) {
		kill(other_end, SIGKILL);
		waitpid(other_end, NULL, 0);
	}
}

static void check(const char *call, mcapi_status_t status)
{
	if (__builtin_expect(status != MCAPI_SUCCESS, 0))
		bench_fail("%s: %s", call, mcapi_strerror(status));
}

/* Waits for the other end in shared memory; it may have died. */
static void until(_Atomic(uint64_t) *word, uint64_t value)
{
	int status;

	for (unsigned polls = 0; atomic_load_explicit(word, memory_order_acquire) != value;
	     polls++) {
		if (polls % POLLS != POLLS - 1)
			continue;
		sched_yield();
		if (other_end > 0 && waitpid(other_end, &status, WNOHANG) > 0) {
			other_end = 0;
			bench_fail("the other end has ended");
		}
	}
}

/* The nodes ------------------------------------------------------------------------ */

enum { PORT_MSG = 1, PORT_PKT_OUT, PORT_PKT_IN, PORT_SCL_OUT, PORT_SCL_IN };

static mcapi_endpoint_t endpoint(mcapi_port_t port)
{
	const uint32_t buffers = BUFFERS;
	mcapi_status_t st;
	mcapi_endpoint_t e = mcapi_create_endpoint(port, &st);

	check("mcapi_create_endpoint", st);
	mcapi_set_endpoint_attribute(e, MCAPI_ATTR_NO_BUFFERS, &buffers, sizeof(buffers), &st);
	check("mcapi_set_endpoint_attribute", st);
	return e;
}

static mcapi_endpoint_t get(const struct perf *p, mcapi_port_t port)
{
	mcapi_status_t st;
	mcapi_endpoint_t e = mcapi_get_endpoint(p->lead, port, &st);

	check("mcapi_get_endpoint", st);
	return e;
}

static void finish(const char *call, mcapi_request_t r, mcapi_status_t st)
{
	size_t size;

	if (st != MCAPI_ENOT_CONNECTED)
		check(call, st);
	mcapi_wait(&r, &size, &st, MCAPI_INFINITE);
	check(call, st);
}

static void start_node(struct perf *p)
{
	mcapi_endpoint_t ends[PORT_SCL_IN + 1];
	mcapi_request_t r[4];
	mcapi_version_t version;
	mcapi_status_t st;

	mcapi_initialize(!p->lead, &version, &st);
	check("mcapi_initialize", st);
	for (int port = PORT_MSG; port <= PORT_SCL_IN; port++)
		ends[port] = endpoint(port);
	p->out = p->in = ends[PORT_MSG];
	p->peer = get(p, PORT_MSG);
	/* Each end connects the channels that it sends on. */
	mcapi_connect_pktchan_i(ends[PORT_PKT_OUT], get(p, PORT_PKT_IN), &r[0], &st);
	finish("mcapi_connect_pktchan_i", r[0], st);
	mcapi_connect_sclchan_i(ends[PORT_SCL_OUT], get(p, PORT_SCL_IN), &r[0], &st);
	finish("mcapi_connect_sclchan_i", r[0], st);
	mcapi_open_pktchan_send_i(&p->pkt_out, ends[PORT_PKT_OUT], &r[0], &st);
	mcapi_open_pktchan_recv_i(&p->pkt_in, ends[PORT_PKT_IN], &r[1], &st);
	mcapi_open_sclchan_send_i(&p->scl_out, ends[PORT_SCL_OUT], &r[2], &st);
	mcapi_open_sclchan_recv_i(&p->scl_in, ends[PORT_SCL_IN], &r[3], &st);
	for (int i = 0; i < 4; i++)
		finish("opening a channel", r[i], MCAPI_SUCCESS);
	p->buffer = mmap(NULL, MCAPI_MAX_MESSAGE_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->buffer == MAP_FAILED)
		bench_fail("no memory");
}

/* Forks the other end, before there is any MCAPI. */
static void split(struct perf *p, bool no_bind)
{
	char job[32];
	int cpus[2];
	bool bind = !no_bind && bench_cores(cpus);
	pid_t parent = getpid();

	/* Node numbers of ours shall not meet those of a program that runs. */
	snprintf(job, sizeof job, "mcapi_perf%d", (int)parent);
	setenv("TAGWIRE_JOB", job, 0);
	p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p->shared == MAP_FAILED)
		bench_fail("no memory");
	if (!no_bind && !bind)
		fprintf(stderr, "%s: both ends share one core\n", bench_tool);
	fflush(NULL);
	other_end = fork();
	if (other_end < 0)
		bench_fail("fork: %s", strerror(errno));
	p->lead = other_end > 0;
	if (bind)
		bench_bind(cpus[!p->lead]);
	if (p->lead) {
		atexit(end_other);
		return;
	}
	bench_role = " (other end)";
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		exit(1);
}

/* One of each ------------------------------------------------------------------------ */

static inline void give(struct perf *p, enum kind kind, uint32_t size)
{
	mcapi_status_t st;

	switch (kind) {
	case MESSAGE:
		do
			mcapi_msg_send(p->out, p->peer, p->buffer, size, 1, &st);
		while (__builtin_expect(st == MCAPI_ENO_BUFFER, 0));
		break;
	case PACKET:
		do
			mcapi_pktchan_send(p->pkt_out, p->buffer, size, &st);
		while (__builtin_expect(st == MCAPI_ENO_BUFFER, 0));
		break;
	default:
		if (size == 8)
			mcapi_sclchan_send_uint64(p->scl_out, 1, &st);
		else if (size == 4)
			mcapi_sclchan_send_uint32(p->scl_out, 1, &st);
		else if (size == 2)
			mcapi_sclchan_send_uint16(p->scl_out, 1, &st);
		else
			mcapi_sclchan_send_uint8(p->scl_out, 1, &st);
	}
	check("sending", st);
}

static inline void take(struct perf *p, enum kind kind, uint32_t size)
{
	mcapi_status_t st;
	size_t got = size;
	void *packet;

	switch (kind) {
	case MESSAGE:
		mcapi_msg_recv(p->in, p->buffer, size, &got, &st);
		break;
	case PACKET:
		mcapi_pktchan_recv(p->pkt_in, &packet, &got, &st);
		if (st == MCAPI_SUCCESS)
			mcapi_pktchan_free(packet, &st);
		break;
	default:
		if (size == 8)
			mcapi_sclchan_recv_uint64(p->scl_in, &st);
		else if (size == 4)
			mcapi_sclchan_recv_uint32(p->scl_in, &st);
		else if (size == 2)
			mcapi_sclchan_recv_uint16(p->scl_in, &st);
		else
			mcapi_sclchan_recv_uint8(p->scl_in, &st);
	}
	check("receiving", st);
	if (__builtin_expect(got != size, 0))
		bench_fail("%s of %u bytes came with %zu", kinds[kind], size, got);
}

/* The following end ------------------------------------------------------------------- */

static void follow(struct perf *p)
{
	struct shared *s = p->shared;

	for (;;) {
		enum kind kind;
		enum what what;
		uint32_t size;
		uint64_t n;

		until(&s->order, ++p->orders);
		/* The next order may be written as soon as this one has its answer. */
		what = (enum what)s->what;
		kind = (enum kind)s->kind;
		size = s->size;
		n = s->n;
		atomic_store_explicit(&s->ready, p->orders, memory_order_release);
		if (what == END)
			return;
		for (uint64_t i = 0; i < n; i++) {
			if (what == LINE) {
				until(&s->turn, 2 * i + 1);
				atomic_store_explicit(&s->turn, 2 * i + 2, memory_order_release);
				continue;
			}
			take(p, kind, size);
			if (what == BOUNCE)
				give(p, kind, size);
		}
		if (what == STREAM)
			give(p, kind, size);
	}
}

/* The leading end ---------------------------------------------------------------------- */

static void order(struct perf *p, enum what what, enum kind kind, uint32_t size, uint64_t n)
{
	struct shared *s = p->shared;

	s->what = what;
	s->kind = kind;
	s->size = size;
	s->n = n;
	atomic_store(&s->turn, 0);
	atomic_store_explicit(&s->order, ++p->orders, memory_order_release);
	until(&s->ready, p->orders);
}

static double run(struct perf *p, enum what what, enum kind kind, uint32_t size, uint64_t n)
{
	struct shared *s = p->shared;
	double start;

	order(p, what, kind, size, n);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		if (what == LINE) {
			atomic_store_explicit(&s->turn, 2 * i + 1, memory_order_release);
			until(&s->turn, 2 * i + 2);
			continue;
		}
		give(p, kind, size);
		if (what == BOUNCE)
			take(p, kind, size);
	}
	if (what == STREAM)
		take(p, kind, size);
	return bench_now() - start;
}

/* How often it fits into the time. */
static uint64_t calibrate(struct perf *p, enum what what, enum kind kind, uint32_t size,
			  double seconds)
{
	uint64_t n = 1;
	double took;

	while ((took = run(p, what, kind, size, n)) < seconds / 4 && n < MAX_RUN)
		n *= 4;
	n = (uint64_t)((double)n * seconds / (took + 1e-9));
	return n ? n : 1;
}

static double line(struct perf *p, double seconds)
{
	static uint64_t n;

	if (!n)
		n = calibrate(p, LINE, MESSAGE, 0, seconds / 5);
	return run(p, LINE, MESSAGE, 0, n) / (double)n / 2 * 1e6;
}

static void measure(struct perf *p, struct row *r, double seconds)
{
	double us, bare;

	if (!r->bounces) {
		r->bounces = calibrate(p, BOUNCE, r->kind, r->size, seconds);
		r->streams = calibrate(p, STREAM, r->kind, r->size, seconds);
	}
	bare = line(p, seconds);
	us = run(p, BOUNCE, r->kind, r->size, r->bounces) / (double)r->bounces / 2 * 1e6;
	bench_add(&r->latency, us);
	bench_add(&r->line, bare);
	bench_add(&r->ratio, us / bare);
	bench_add(&r->rate, (double)r->streams / run(p, STREAM, r->kind, r->size, r->streams));
}

static void report(const struct options *o, const struct row *rows, unsigned n)
{
	struct table t;

	table_open(&t, o->format, columns, sizeof columns / sizeof columns[0]);
	for (unsigned i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		table_text(&t, kinds[r->kind]);
		table_count(&t, r->size);
		table_real(&t, bench_median(&r->latency));
		table_real(&t, bench_least(&r->latency));
		table_real(&t, bench_median(&r->line));
		table_real(&t, bench_median(&r->ratio));
		table_real(&t, bench_median(&r->rate));
		table_real(&t, bench_median(&r->rate) * r->size / 1e6);
	}
	table_close(&t);
}

static unsigned make_rows(const struct options *o, struct row *rows)
{
	uint32_t sizes[BENCH_MAX_SIZES];
	unsigned n = 0, m;

	for (unsigned kind = o->first; kind <= o->last; kind++) {
		if (kind == SCALAR) {
			rows[n++] = (struct row){.kind = SCALAR, .size = o->bits / 8};
			continue;
		}
		m = bench_sizes(o->min, o->max, sizes);
		for (unsigned i = 0; i < m; i++)
			rows[n++] = (struct row){.kind = (enum kind)kind, .size = sizes[i]};
	}
	return n;
}

static void lead(struct perf *p, const struct options *o)
{
	static struct row rows[2 * BENCH_MAX_SIZES + 1];
	unsigned n = make_rows(o, rows);
	int status = 0;

	for (unsigned round = 0; round < o->rounds; round++)
		for (unsigned i = 0; i < n; i++) {
			bench_progress("round %u of %u, %s of %u bytes", round + 1, o->rounds,
				       kinds[rows[i].kind], rows[i].size);
			measure(p, &rows[i], o->seconds);
		}
	bench_progress_end();
	order(p, END, MESSAGE, 0, 0);
	if (waitpid(other_end, &status, 0) == other_end)
		other_end = 0;
	if (status)
		bench_fail("the other end failed");
	report(o, rows, n);
}

/* The command line ---------------------------------------------------------------------- */

static void set_kind(struct options *o, const char *arg)
{
	for (unsigned i = 0; i < KINDS; i++)
		if (strcmp(arg, kinds[i]) == 0) {
			o->first = o->last = i;
			return;
		}
	bench_usage("--kind is message, packet or scalar, not '%s'", arg);
}

static void set_bits(struct options *o, const char *arg)
{
	o->bits = (uint32_t)bench_number("bits", arg, 8, 64);
	if (o->bits & (o->bits - 1))
		bench_usage("--bits is 8, 16, 32 or 64");
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{"kind", 1, NULL, 'k'},	  {"size", 1, NULL, 's'}, {"min", 1, NULL, 'm'},
		{"max", 1, NULL, 'M'},	  {"bits", 1, NULL, 'b'}, {"no-bind", 0, NULL, 'n'},
		{"rounds", 1, NULL, 'r'}, {"time", 1, NULL, 't'}, {"csv", 0, NULL, 'c'},
		{"json", 0, NULL, 'j'},	  {"help", 0, NULL, 'h'}, {"version", 0, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	const uint64_t most = MCAPI_MAX_PACKET_SIZE;
	int c;

	*o = (struct options){0, SCALAR, 8, 1 << 20, 64, 5, 0.02, false, TABLE_PLAIN};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'k':
			set_kind(o, optarg);
			break;
		case 's':
		case 'm':
		case 'M':
			bench_range_option(c, optarg, most, &o->min, &o->max);
			break;
		case 'b':
			set_bits(o, optarg);
			break;
		case 'n':
			o->no_bind = true;
			break;
		case 'r':
			o->rounds = (unsigned)bench_number("rounds", optarg, 1, BENCH_MAX_ROUNDS);
			break;
		case 't':
			o->seconds = bench_real("time", optarg, 100000) / 1e3;
			break;
		case 'c':
			o->format = TABLE_CSV;
			break;
		case 'j':
			o->format = TABLE_JSON;
			break;
		case 'h':
			bench_help(help);
		case 'v':
			bench_version();
		default:
			bench_usage_hint();
		}
	}
	if (optind < argc)
		bench_usage("'%s' is one argument too many", argv[optind]);
	bench_range_end(o->min, o->max);
}

int main(int argc, char **argv)
{
	struct perf p = {.shared = NULL};
	struct options o;
	mcapi_status_t st;

	parse(&o, argc, argv);
	split(&p, o.no_bind);
	start_node(&p);
	if (p.lead)
		lead(&p, &o);
	else
		follow(&p);
	mcapi_finalize(&st);
	check("mcapi_finalize", st);
	return 0;
}
