/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Latency and bandwidth of Panda messages by kind of acknowledgement, and of a
 * remote procedure call, beside MX messages between the same two processes.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "pan_mp.h"

const char bench_tool[] = "panda_perf";

#define WINDOW 16 /* messages under way in a stream */
#define PORT 1

static const char help[] =
	"Usage: panda_perf [options]\n"
	"Measures latency (half of a round trip) and bandwidth of Panda messages, by kind\n"
	"of acknowledgement and by size, and a null remote procedure call (a request to a\n"
	"port, the reply to a direct ticket), beside MX messages of the same run.\n\n"
	"What to measure:\n"
	"  --kind KIND         normal, delayed, external or rpc only (default all)\n"
	"  --size BYTES        one size only; k and m multiply by 1024\n"
	"  --min BYTES         the smallest (default 8)\n"
	"  --max BYTES         the largest (default 1m); doubled from one to the "
	"next\n\n" BENCH_HELP_HERE BENCH_HELP_HOW;

static const struct table_column columns[] = {
	{"kind", "kind", "%s"},
	{"size", "bytes", "%" PRIu64},
	{"latency_us", "latency us", "%.3f"},
	{"latency_min_us", "least us", "%.3f"},
	{"mx_us", "MX us", "%.3f"},
	{"mx_ratio", "to MX", "%.2f"},
	BENCH_LINE_COLUMNS,
	{"mb_s", "MB/s", "%.1f"},
};

enum kind { NORMAL, DELAYED, EXTERNAL, RPC, KINDS };
static const char *const kinds[KINDS] = {"normal", "delayed", "external", "rpc"};

enum what { BOUNCE, STREAM, MX };

struct options {
	struct bench_options b;
	enum kind kind; /* KINDS: all */
	struct bench_range sizes;
};

struct row {
	enum kind kind;
	uint32_t size;
	uint64_t bounces, streams, mx; /* in the next round */
	struct bench_series latency, beside, ratio, rate;
	struct bench_lines lines;
};

/* One measurement, known to both ends. */
struct run {
	enum what what;
	enum kind kind;
	uint32_t size;
};

static struct bench_memory memory, memory_in;

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		BENCH_OPTIONS(&o->b),
		CLI_WORD("kind", &o->kind, kinds, KINDS),
		CLI_RANGE(&o->sizes, BENCH_MAX_SIZE),
		{.name = NULL},
	};

	*o = (struct options){.b = BENCH_DEFAULTS, .kind = KINDS, .sizes = {.min = 8, .max = 1 << 20}};
	bench_options(&o->b, argc, argv, options, help);
	if (o->b.mode == BENCH_SERVER || o->b.mode == BENCH_CLIENT)
		bench_usage(
			"between hosts a launcher starts both ends, or TAGWIRE_RANK tells them");
	bench_range_end(&o->sizes);
}

/* Panda ------------------------------------------------------------------------- */

static void start_panda(const char *place)
{
	char option[] = "--panda-rank", text[8];
	char *argv[] = {(char *)(uintptr_t)bench_tool, option, text, NULL};
	int argc = place ? 3 : 1;

	snprintf(text, sizeof text, "%s", place ? place : "");
	if (!place)
		argv[1] = NULL;
	pan_init(&argc, argv);
	pan_mp_init(NULL, NULL);
	if (pan_mp_register_port(NULL) != PORT)
		bench_fail("Panda could not begin");
}

static void end_panda(void)
{
	if (pan_nr_platforms())
		pan_end();
}

/* A message of Panda may be lost without a sign: a receive waits for ever. */
static struct {
	volatile sig_atomic_t taken; /* a message, since the last look */
	unsigned seconds;
	char message[160];
} watch;

static void watch_look(int sig)
{
	(void)sig;
	if (!watch.taken) {
		ssize_t n = write(STDERR_FILENO, watch.message, strlen(watch.message));

		(void)n;
		_exit(1);
	}
	watch.taken = 0;
	alarm(watch.seconds);
}

static void watch_set(double seconds)
{
	struct sigaction look = {.sa_handler = watch_look, .sa_flags = SA_RESTART};

	watch.seconds = (unsigned)ceil(seconds);
	snprintf(watch.message, sizeof watch.message,
		 "%s%s: no message of Panda has come for %u seconds; --timeout waits longer\n",
		 bench_tool, bench_role, watch.seconds);
	sigaction(SIGALRM, &look, NULL);
}

static inline void sent(int ticket, pan_mp_ack_t ack)
{
	if (ack == PAN_MP_EXTERNAL)
		pan_mp_ack_send(ticket);
	else
		pan_mp_finish_send(ticket);
}

static inline int give(int to, int port, uint32_t size, pan_mp_ack_t ack)
{
	int ticket = pan_mp_send(to, port, memory.base, (int)size, ack);

	if (__builtin_expect(ticket < 0, 0))
		bench_fail("pan_mp_send failed");
	return ticket;
}

static inline void *take(int ticket, uint32_t size)
{
	int capacity, len;
	void *data = pan_mp_finish_receive(ticket, &capacity, &len);

	if (__builtin_expect(!data || (uint32_t)len != size, 0))
		bench_fail("a message of %u bytes came with %d", size, len);
	watch.taken = 1;
	return data;
}

static void bounce_lead(const struct run *r, uint64_t n)
{
	pan_mp_ack_t ack = (pan_mp_ack_t)r->kind;

	for (uint64_t i = 0; i < n; i++) {
		int receive = pan_mp_receive(PORT), send = give(1, PORT, r->size, ack);

		pan_free(take(receive, r->size));
		sent(send, ack);
	}
}

static void bounce_follow(const struct run *r, uint64_t n)
{
	pan_mp_ack_t ack = (pan_mp_ack_t)r->kind;
	int send = -1;

	for (uint64_t i = 0; i < n; i++) {
		pan_free(take(pan_mp_receive(PORT), r->size));
		/* The message is the reply to the last one sent. */
		if (send >= 0)
			sent(send, ack);
		send = give(0, PORT, r->size, ack);
	}
	if (send >= 0)
		sent(send, ack);
}

/* A request has the destination of its reply. */
static void call(const struct run *r, uint64_t n)
{
	(void)r;
	for (uint64_t i = 0; i < n; i++) {
		int answer = pan_mp_receive(PAN_MP_DIRECT_PORT), send;

		memcpy(memory.base, &answer, sizeof answer);
		send = give(1, PORT, sizeof answer, PAN_MP_EXTERNAL);
		pan_free(take(answer, 0));
		pan_mp_ack_send(send);
	}
}

static void serve(const struct run *r, uint64_t n)
{
	int send = -1, answer;
	void *request;

	(void)r;
	for (uint64_t i = 0; i < n; i++) {
		request = take(pan_mp_receive(PORT), sizeof answer);
		memcpy(&answer, request, sizeof answer);
		pan_free(request);
		if (send >= 0)
			pan_mp_finish_send(send);
		send = give(0, answer, 0, PAN_MP_DELAYED);
	}
	if (send >= 0)
		pan_mp_finish_send(send);
}

static void stream_lead(const struct run *r, uint64_t n)
{
	pan_mp_ack_t ack = (pan_mp_ack_t)r->kind;
	int tickets[WINDOW], last = pan_mp_receive(PORT);

	for (uint64_t i = 0; i < n; i++) {
		if (i >= WINDOW)
			sent(tickets[i % WINDOW], ack);
		tickets[i % WINDOW] = give(1, PORT, r->size, ack);
	}
	pan_free(take(last, 0));
	for (uint64_t i = n > WINDOW ? n - WINDOW : 0; i < n; i++)
		sent(tickets[i % WINDOW], ack);
}

static void stream_follow(const struct run *r, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		pan_free(take(pan_mp_receive(PORT), r->size));
	pan_mp_finish_send(give(0, PORT, 0, PAN_MP_NORMAL));
}

/* Both ends ---------------------------------------------------------------------- */

static struct bench_pingpong pingpong(uint32_t size)
{
	return (struct bench_pingpong){
		.out = memory.base,
		.in = memory_in.base,
		.size = size,
		.match = BENCH_MATCH(BENCH_KIND_TOOL, 0),
		.mask = MX_MATCH_MASK_NONE,
	};
}

static void prepare(uint64_t size)
{
	if (size > BENCH_MAX_SIZE)
		bench_fail("the other end asks for %" PRIu64 " bytes", size);
	bench_memory(&memory, size + sizeof(int));
	bench_memory(&memory_in, size + 1);
}

static void follow(struct bench *b)
{
	struct bench_order order;

	while (bench_follow(b, &order)) {
		struct run r = {(enum what)order.arg[0], (enum kind)order.arg[1],
				(uint32_t)order.arg[2]};
		struct bench_pingpong p;

		prepare(order.arg[2]);
		if (r.what == MX) {
			p = pingpong(r.size);
			bench_pingpong_follow(b, &p, order.arg[3]);
			continue;
		}
		bench_ready(b);
		alarm(watch.seconds);
		if (r.what == STREAM)
			stream_follow(&r, order.arg[3]);
		else if (r.kind == RPC)
			serve(&r, order.arg[3]);
		else
			bounce_follow(&r, order.arg[3]);
		alarm(0);
	}
}

static double run(struct bench *b, void *arg, uint64_t n)
{
	const struct run *r = arg;
	struct bench_order order = {.op = BENCH_OP_TOOL, .arg = {r->what, r->kind, r->size, n}};
	struct bench_pingpong p = pingpong(r->size);
	double start;

	bench_lead(b, &order);
	if (r->what == MX)
		return bench_pingpong_lead(b, &p, n);
	alarm(watch.seconds);
	start = bench_now();
	if (r->what == STREAM)
		stream_lead(r, n);
	else if (r->kind == RPC)
		call(r, n);
	else
		bounce_lead(r, n);
	alarm(0);
	return bench_now() - start;
}

/* Microseconds for one of it; n is how often, for this round and the next. */
static double one(struct bench *b, const struct row *row, enum what what, uint64_t *n)
{
	struct run r = {what, row->kind, row->size};
	double took;
	uint64_t now;

	if (!*n)
		*n = bench_calibrate(b, run, &r, b->o.seconds);
	now = *n;
	run(b, &r, now / 20 + 1);
	took = run(b, &r, now);
	*n = bench_adjust(now, took, b->o.seconds);
	return took / (double)now * 1e6;
}

/* A call is compared with a message each way. */
static void measure(struct bench *b, struct row *r)
{
	double us, mx, rate, before;

	prepare(r->size);
	before = bench_line(b);
	mx = one(b, r, MX, &r->mx) / 2;
	us = one(b, r, BOUNCE, &r->bounces);
	if (r->kind != RPC)
		us /= 2;
	rate = r->kind == RPC ? (double)NAN : r->size / one(b, r, STREAM, &r->streams);
	bench_line_after(b, &r->lines, before);
	bench_add(&r->beside, mx);
	bench_add(&r->latency, us);
	bench_add(&r->ratio, us / (r->kind == RPC ? 2 * mx : mx));
	bench_add(&r->rate, rate);
}

struct tool {
	struct bench *b;
	struct row rows[3 * BENCH_MAX_SIZES + 1];
};

static void measure_row(void *tool, unsigned round, unsigned i)
{
	struct tool *all = tool;

	bench_progress("round %u of %u, %s of %u bytes", round + 1, all->b->o.rounds,
		       kinds[all->rows[i].kind], all->rows[i].size);
	measure(all->b, &all->rows[i]);
}

static void print(void *tool, struct table *t, unsigned i)
{
	const struct row *r = &((const struct tool *)tool)->rows[i];
	struct bench_series latency = bench_counting(&r->lines, &r->latency);
	struct bench_series beside = bench_counting(&r->lines, &r->beside);
	struct bench_series ratio = bench_counting(&r->lines, &r->ratio);
	struct bench_series rate = bench_counting(&r->lines, &r->rate);

	table_text(t, kinds[r->kind]);
	table_count(t, r->size);
	table_real(t, bench_median(&latency));
	table_real(t, bench_least(&latency));
	table_real(t, bench_median(&beside));
	table_real(t, bench_median(&ratio));
	bench_line_cells(t, &r->lines);
	table_real(t, bench_median(&rate));
}

static unsigned make_rows(const struct options *o, struct row *rows)
{
	uint32_t sizes[BENCH_MAX_SIZES];
	unsigned n = 0, m = bench_sizes(&o->sizes, sizes);

	for (enum kind kind = NORMAL; kind < KINDS; kind++) {
		if (o->kind != KINDS && o->kind != kind)
			continue;
		if (kind == RPC)
			rows[n++] = (struct row){.kind = kind};
		for (unsigned i = 0; i < m && kind != RPC; i++)
			rows[n++] = (struct row){.kind = kind, .size = sizes[i]};
	}
	return n;
}

static void lead(struct bench *b, const struct options *o)
{
	static struct tool tool;
	struct bench_rows rows = {
		.rounds = o->b.rounds, .measure = measure_row, .print = print, .tool = &tool};
	struct table t;

	tool.b = b;
	rows.n = make_rows(o, tool.rows);
	table_open_flow(&t, o->b.format, columns, sizeof columns / sizeof columns[0]);
	bench_rounds(&rows, &t);
	bench_stop(b);
	end_panda();
	table_close(&t);
	bench_say_busy();
}

int main(int argc, char **argv)
{
	struct options o;
	struct bench b;
	char job[32];

	parse(&o, argc, argv);
	if (o.b.mode == BENCH_JOB) {
		/* First, as ranks without a part in it end in bench_start(). */
		start_panda(NULL);
		atexit(end_panda);
		bench_start(&b, &o.b);
	} else {
		/* Platforms must not collide with those of a running program. */
		snprintf(job, sizeof job, "panda_perf%d", (int)getpid());
		setenv("TAGWIRE_JOB", job, 0);
		bench_start(&b, &o.b);
		start_panda(b.lead ? "0/2" : "1/2");
	}
	watch_set(o.b.timeout);
	if (b.lead) {
		lead(&b, &o);
	} else {
		follow(&b);
		end_panda();
	}
	return bench_exit_code();
}
