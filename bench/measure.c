/* SPDX-License-Identifier: BSD-2-Clause */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/counters.h"

#define MAX_RUN (1ull << 40) /* more than a run can take */

static double clamp(double v, double min, double max)
{
	return v < min ? min : v > max ? max : v;
}

uint64_t bench_calibrate(struct bench *b, bench_run *run, void *arg, double seconds)
{
	double n = 1, took;

	for (;;) {
		took = run(b, arg, (uint64_t)n);
		if (took >= seconds / 8 || n >= MAX_RUN)
			break;
		/* A short run says little: grow carefully. */
		n *= clamp(seconds / 4 / (took + 1e-9), 2, 16);
	}
	return (uint64_t)clamp((double)(uint64_t)n * seconds / (took + 1e-9), 1, MAX_RUN);
}

uint64_t bench_adjust(uint64_t n, double took, double seconds)
{
	/* One bad round must not spoil the next. */
	return (uint64_t)clamp((double)n * clamp(seconds / (took + 1e-9), 0.25, 4), 1, MAX_RUN);
}

struct sweep {
	struct bench *b;
	bench_measure *measure;
	bench_print *print;
	const void *options;
	uint32_t sizes[BENCH_MAX_SIZES];
};

static void sweep_measure(void *sweep, unsigned round, unsigned row)
{
	const struct sweep *s = sweep;

	bench_progress("round %u of %u, %u bytes", round + 1, s->b->o.rounds, s->sizes[row]);
	s->measure(s->b, row, s->sizes[row], s->options);
}

static void sweep_print(void *sweep, struct table *t, unsigned row)
{
	const struct sweep *s = sweep;

	s->print(t, row);
}

void bench_sweep(struct bench *b, const struct bench_range *sizes, bench_measure *measure,
		 bench_print *print, struct table *t, const void *options)
{
	struct sweep s = {.b = b, .measure = measure, .print = print, .options = options};
	struct bench_rows rows = {.rounds = b->o.rounds,
				  .n = bench_sizes(sizes, s.sizes),
				  .measure = sweep_measure,
				  .print = sweep_print,
				  .tool = &s};

	bench_rounds(&rows, t);
}

void bench_memory(struct bench_memory *m, size_t size)
{
	if (size <= m->size)
		return;
	if (m->base)
		munmap(m->base, m->size);
	m->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->base == MAP_FAILED)
		bench_fail("no memory for %zu bytes of messages", size);
	memset(m->base, 0x5a, size);
	m->size = size;
}

/* Waits until an unexpected message has arrived. */
static void probe(struct bench *b, const struct bench_pingpong *p)
{
	struct bench_spin spin = {.polls = 0};
	uint64_t match = p->match & p->mask;
	mx_status_t status;
	uint32_t found = 0;
	mx_return_t rc;

	for (;;) {
		if (b->blocking)
			rc = mx_probe(b->endpoint, BENCH_SLEEP_MS, match, p->mask, &status, &found);
		else
			rc = mx_iprobe(b->endpoint, match, p->mask, &status, &found);
		if (__builtin_expect(rc != MX_SUCCESS, 0))
			bench_failed(b->blocking ? "mx_probe" : "mx_iprobe", rc);
		if (found)
			return;
		if (b->blocking)
			bench_slept(b, &spin);
		else
			bench_spin(b, &spin);
	}
}

static inline void post(struct bench *b, const struct bench_pingpong *p, mx_request_t *req)
{
	bench_irecv(b, p->in, p->size, p->match, p->mask, req);
}

static inline void take(struct bench *b, const struct bench_pingpong *p, mx_request_t *req)
{
	mx_status_t status;

	if (p->unexpected) {
		probe(b, p);
		post(b, p, req);
	}
	bench_finish(b, req, &status);
	if (__builtin_expect(status.xfer_length != p->size, 0))
		bench_fail("a message of %u bytes came with %u", p->size, status.xfer_length);
}

static inline void give(struct bench *b, const struct bench_pingpong *p)
{
	mx_status_t status;
	mx_request_t req;

	bench_isend(b, p->out, p->size, p->match, &req);
	bench_finish(b, &req, &status);
}

double bench_pingpong_lead(struct bench *b, const struct bench_pingpong *p, uint64_t n)
{
	double start = bench_now();
	mx_request_t req;

	for (uint64_t i = 0; i < n; i++) {
		if (!p->unexpected)
			post(b, p, &req);
		give(b, p);
		take(b, p, &req);
	}
	return bench_now() - start;
}

void bench_pingpong_follow(struct bench *b, const struct bench_pingpong *p, uint64_t n)
{
	mx_request_t req;

	if (!p->unexpected && n)
		post(b, p, &req);
	bench_ready(b);
	for (uint64_t i = 0; i < n; i++) {
		take(b, p, &req);
		/* The next receive waits before the other end can send to it. */
		if (!p->unexpected && i + 1 < n)
			post(b, p, &req);
		give(b, p);
	}
}

/* Protocols --------------------------------------------------------------------- */

struct bench_protocols bench_protocols(const struct bench *b)
{
	uint32_t c[TW_NCOUNTERS] = {0}, board = 0;

	mx_get_info(b->endpoint, MX_COUNTERS_VALUES, &board, sizeof board, c, sizeof c);
	/* What was announced is counted by the end that receives, which chooses the protocol. */
	return (struct bench_protocols){{c[TW_C_SEND_EAGER], c[TW_C_RNDV_COPY], c[TW_C_RNDV_GET]}};
}

void bench_protocols_add(struct bench_protocols *sum, const struct bench *b,
			 const struct bench_protocols *before)
{
	struct bench_protocols now = bench_protocols(b);

	for (unsigned i = 0; i < BENCH_PROTOCOLS; i++)
		sum->n[i] += now.n[i] - before->n[i];
	/* The order to the other end was one. */
	sum->n[BENCH_EAGER] -= sum->n[BENCH_EAGER] > 0;
}

void bench_protocol_cell(struct table *t, const struct bench_protocols *p)
{
	static const char *const names[] = {"eager", "copy", "get"};
	uint64_t all = (uint64_t)p->n[BENCH_EAGER] + p->n[BENCH_COPY] + p->n[BENCH_GET];
	char text[32] = "";

	for (unsigned i = 0; i < BENCH_PROTOCOLS; i++)
		if (p->n[i] && p->n[i] >= all / 20)
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s",
				 *text ? ", " : "", names[i]);
	if (*text)
		table_text(t, text);
	else
		table_none(t);
}
