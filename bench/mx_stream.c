/* SPDX-License-Identifier: BSD-2-Clause */
/* Bandwidth and message rate in one direction, by message size. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "measure.h"

const char bench_tool[] = "mx_stream";

static const char help[] =
	"Usage: mx_stream [options]\n"
	"Measures how much one end can send to the other, by message size.\n\n"
	"What to measure:\n"
	"  --size BYTES        one size only; k, m and g multiply by 1024\n"
	"  --min BYTES         the smallest (default 1)\n"
	"  --max BYTES         the largest (default 4m); doubled from one to the next\n"
	"  --window N          messages in flight (default 64)\n"
	"  --buffers N         buffers to use in turn at each end (default 1)\n\n" BENCH_HELP;

static const struct table_column columns[] = {
	{"size", "bytes", "%" PRIu64},	      {"mb_s", "MB/s", "%.1f"},
	{"msg_s", "messages/s", "%.0f"},      {"memcpy_mb_s", "memcpy MB/s", "%.1f"},
	{"ratio", "ratio", "%.3f"},	      BENCH_LINE_COLUMNS,
	{"messages", "messages", "%" PRIu64},
};

#define MAX_WINDOW 65536
#define ACKS 4 /* more than a window can have outstanding, see half() */
#define MATCH_DATA BENCH_MATCH(BENCH_KIND_TOOL, 0)
#define MATCH_ACK BENCH_MATCH(BENCH_KIND_TOOL + 1, 0)

/* One stream, as both ends see it. */
struct stream {
	uint32_t size, window, nbufs;
	size_t stride;
	char *base;
	mx_request_t *reqs; /* one for each message of the window */
};

struct options {
	struct bench_options b;
	struct bench_range sizes;
	uint32_t window, nbufs;
};

struct row {
	uint32_t size;
	uint64_t n;	/* half windows in the next round */
	uint64_t total; /* messages in all */
	struct bench_series rate, copy, ratio;
	struct bench_lines lines;
};

static struct row rows[BENCH_MAX_SIZES];

static struct bench_memory memory, copies;
static mx_request_t reqs[MAX_WINDOW];

/* The receiver acknowledges so many at a time, so that the window stays full. */
static uint32_t half(const struct stream *s)
{
	return (s->window + 1) / 2;
}

static void parse(struct options *o, int argc, char **argv)
{
	const struct cli_option options[] = {
		BENCH_OPTIONS(&o->b),
		CLI_RANGE(&o->sizes, BENCH_MAX_SIZE),
		CLI_UINT("window", &o->window, 1, MAX_WINDOW),
		CLI_UINT("buffers", &o->nbufs, 1, MAX_WINDOW),
		{.name = NULL},
	};

	*o = (struct options){.b = BENCH_DEFAULTS, {.min = 1, .max = 4 << 20}, 64, 1};
	bench_options(&o->b, argc, argv, options, help);
	bench_range_end(&o->sizes);
}

static struct stream prepare(uint64_t size, uint64_t window, uint64_t nbufs)
{
	struct stream s;

	if (size > BENCH_MAX_SIZE || window - 1 >= MAX_WINDOW || nbufs - 1 >= MAX_WINDOW)
		bench_fail("the other end asks for too much");
	s.size = (uint32_t)size;
	s.window = (uint32_t)window;
	s.nbufs = (uint32_t)nbufs;
	s.stride = (size + 63) & ~(size_t)63;
	bench_memory(&memory, (s.stride ? s.stride : 64) * s.nbufs);
	s.base = memory.base;
	s.reqs = reqs;
	return s;
}

static void post_receive(struct bench *b, const struct stream *s, uint64_t i)
{
	bench_irecv(b, s->base + i % s->nbufs * s->stride, s->size, MATCH_DATA, MX_MATCH_MASK_NONE,
		    &s->reqs[i % s->window]);
}

static void receive(struct bench *b, const struct stream *s, uint64_t n)
{
	mx_status_t status;
	mx_request_t ack;

	for (uint64_t i = 0; i < n && i < s->window; i++)
		post_receive(b, s, i);
	bench_ready(b);
	for (uint64_t i = 0; i < n; i++) {
		bench_finish(b, &s->reqs[i % s->window], &status);
		if (__builtin_expect(status.xfer_length != s->size, 0))
			bench_fail("a message of %u bytes came with %u", s->size,
				   status.xfer_length);
		if (i + s->window < n)
			post_receive(b, s, i + s->window);
		if ((i + 1) % half(s) == 0) {
			bench_isend(b, NULL, 0, MATCH_ACK, &ack);
			bench_finish(b, &ack, &status);
		}
	}
}

static void post_ack(struct bench *b, mx_request_t *req)
{
	bench_irecv(b, NULL, 0, MATCH_ACK, MX_MATCH_MASK_NONE, req);
}

/* The sender's progress, in messages. */
struct sender {
	uint64_t sent, done, acked;
	uint64_t acks; /* acknowledgements received */
	mx_request_t ack[ACKS];
};

/* One pass over everything that can be done now; false if there was nothing. */
static bool advance(struct bench *b, const struct stream *s, struct sender *x, uint64_t n)
{
	uint64_t before = x->sent + x->done + x->acked;
	mx_status_t status;

	/* Never more than a window ahead of what the receiver has completed. */
	while (x->sent < n && x->sent - x->acked < s->window && x->sent - x->done < s->window) {
		bench_isend(b, s->base + x->sent % s->nbufs * s->stride, s->size, MATCH_DATA,
			    &s->reqs[x->sent % s->window]);
		x->sent++;
	}
	while (x->done < x->sent && bench_test(b, &s->reqs[x->done % s->window], &status))
		x->done++;
	if (x->acked < x->sent && bench_test(b, &x->ack[x->acks % ACKS], &status)) {
		x->acked += half(s);
		if (x->acked + (ACKS - 1) * half(s) < n)
			post_ack(b, &x->ack[x->acks % ACKS]);
		x->acks++;
	}
	return x->sent + x->done + x->acked != before;
}

/* Sends n messages and returns when the receiver has completed all of them. */
static void send_all(struct bench *b, const struct stream *s, uint64_t n)
{
	struct bench_spin spin = {.polls = 0};
	struct sender x = {.sent = 0};

	for (uint64_t i = 0; i < ACKS && i * half(s) < n; i++)
		post_ack(b, &x.ack[i]);
	while (x.acked < n || x.done < n) {
		if (!advance(b, s, &x, n))
			bench_spin(b, &spin);
		else if (spin.polls)
			spin = (struct bench_spin){.polls = 0};
	}
}

static void follow(struct bench *b)
{
	struct bench_order order;
	struct stream s;

	while (bench_follow(b, &order)) {
		s = prepare(order.arg[0], order.arg[2], order.arg[3]);
		receive(b, &s, order.arg[1] * half(&s));
	}
}

static double run(struct bench *b, void *arg, uint64_t n)
{
	const struct stream *s = arg;
	struct bench_order order = {.op = BENCH_OP_TOOL, .arg = {s->size, n, s->window, s->nbufs}};
	double start;

	bench_lead(b, &order);
	start = bench_now();
	send_all(b, s, n * half(s));
	return bench_now() - start;
}

/* Copying within one process, in bytes per second. */
static double copy_rate(const struct stream *s, double seconds)
{
	void *(*volatile copy)(void *, const void *, size_t) = memcpy; /* must be called */
	double start, took;
	uint64_t n = 1;

	if (!s->size)
		return NAN;
	bench_memory(&copies, s->stride * s->nbufs);
	for (;;) {
		start = bench_now();
		for (uint64_t i = 0; i < n; i++) {
			size_t at = i % s->nbufs * s->stride;

			copy(copies.base + at, s->base + at, s->size);
		}
		took = bench_now() - start;
		if (took >= seconds)
			return (double)n * s->size / took;
		n *= 2;
	}
}

static void measure(struct bench *b, unsigned i, uint32_t size, const void *options)
{
	const struct options *o = options;
	struct stream s = prepare(size, o->window, o->nbufs);
	struct row *r = &rows[i];
	double took, rate, copy, before;

	r->size = size;
	if (!r->n)
		r->n = bench_calibrate(b, run, &s, b->o.seconds);
	if (r->n < 4)
		r->n = 4; /* the window must get full */
	run(b, &s, r->n / 20 + 1);
	copy = copy_rate(&s, b->o.seconds / 8);
	before = bench_line(b);
	took = run(b, &s, r->n);
	bench_line_after(b, &r->lines, before);
	rate = (double)(r->n * half(&s)) / took;
	r->total += r->n * half(&s);
	r->n = bench_adjust(r->n, took, b->o.seconds);
	bench_add(&r->rate, rate);
	bench_add(&r->copy, copy / 1e6);
	bench_add(&r->ratio, rate * s.size / copy);
}

static void print(struct table *t, unsigned i)
{
	const struct row *r = &rows[i];
	struct bench_series rates = bench_counting(&r->lines, &r->rate);
	struct bench_series copy = bench_counting(&r->lines, &r->copy);
	struct bench_series ratio = bench_counting(&r->lines, &r->ratio);
	double rate = bench_median(&rates);

	table_count(t, r->size);
	table_real(t, rate * r->size / 1e6);
	table_real(t, rate);
	table_real(t, bench_median(&copy));
	bench_unless_busy(t, &r->lines, bench_median(&ratio));
	bench_line_cells(t, &r->lines);
	table_count(t, r->total);
}

int main(int argc, char **argv)
{
	struct options o;
	struct table t;
	struct bench b;

	parse(&o, argc, argv);
	bench_start(&b, &o.b);
	if (!b.lead) {
		follow(&b);
		return 0;
	}
	table_open_flow(&t, o.b.format, columns, sizeof columns / sizeof columns[0]);
	bench_sweep(&b, &o.sizes, measure, print, &t, &o);
	bench_stop(&b);
	table_close(&t);
	bench_say_busy();
	return bench_exit_code();
}
