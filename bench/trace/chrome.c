/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trace event format, which ui.perfetto.dev and chrome://tracing open: a row for each endpoint
 * and thread with its calls and waits, an arrow for each message, and rows of what takes longer
 * than a call.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../cli.h"
#include "trace.h"

#define POINT_US 0.05 /* what has no length is shown so long, or to the next event */

struct out {
	const struct trace *t;
	FILE *f;
	uint64_t id; /* of what is more than one event */
};

static unsigned row_of(uint32_t ring, uint8_t thread)
{
	return ring * (TW_TRACE_THREADS + 1u) + thread;
}

/* An event up to its arguments. */
static void begin(const struct out *o, const char *ph, const char *cat, uint32_t ring,
		  uint8_t thread, uint64_t tick)
{
	fprintf(o->f, ",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%u,\"ts\":%.3f",
		ph, cat, trace_process(o->t, ring), row_of(ring, thread), trace_us(o->t, tick));
}

static const char *name_of(const struct trace *t, uint32_t ring)
{
	return ring == TRACE_UNKNOWN ? "a process without a trace" : t->rings[ring].name;
}

static void put_rows(const struct out *o)
{
	for (uint32_t i = 0; i < o->t->n; i++) {
		const struct trace_ring *r = &o->t->rings[i];

		fprintf(o->f,
			"%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRIu32
			",\"args\":{\"name\":\"%s\"}}",
			i ? ",\n" : "", trace_process(o->t, i), r->name);
		for (uint32_t k = 0; k < r->head.nthreads && k < TW_TRACE_THREADS; k++)
			fprintf(o->f,
				",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu32
				",\"tid\":%u,\"args\":{\"name\":\"%.7s endpoint %" PRIu32
				", thread %" PRIu32 "\"}}",
				trace_process(o->t, i), row_of(i, (uint8_t)k), r->head.interface,
				r->head.endpoint_id, r->head.threads[k]);
	}
}

static const char *point_name(const struct trace_side *s)
{
	switch (s->what) {
	case TRACE_PUT:
		return "put";
	case TRACE_GET:
		return "get";
	case TRACE_ATOMIC:
		return "atomic";
	case TRACE_SERVED:
		return "serve";
	default:
		if (!s->out)
			return s->unexpected ? "unexpected" : "receive";
		return s->announced ? "announce" : "send";
	}
}

/* The moment of a side, as long as it can be. */
static void put_point(const struct out *o, const struct trace_side *s, uint64_t next)
{
	double room = next ? trace_us(o->t, next) - trace_us(o->t, s->tick) : POINT_US;

	begin(o, "X",
	      s->what >= TRACE_PUT ? "access"
	      : s->out		   ? "send"
				   : "receive",
	      s->ring, s->thread, s->tick);
	fprintf(o->f,
		",\"dur\":%.3f,\"name\":\"%s %" PRIu32
		" B\",\"args\":{\"%s\":\"%s\",\"match\":\"0x%" PRIx64 "\",\"number\":%" PRIu32 "}}",
		room < 0	  ? 0
		: room < POINT_US ? room
				  : POINT_US,
		point_name(s), s->len, s->out || s->what >= TRACE_PUT ? "to" : "from",
		name_of(o->t, s->other), s->match, s->number);
}

static void put_arrow(struct out *o, const struct trace_side *s)
{
	if (!s->out || !s->pair)
		return;
	o->id++;
	begin(o, "s", "message", s->ring, s->thread, s->tick);
	fprintf(o->f, ",\"name\":\"message\",\"id\":%" PRIu64 "}", o->id);
	begin(o, "f", "message", s->pair->ring, s->pair->thread, s->pair->tick);
	fprintf(o->f, ",\"bp\":\"e\",\"name\":\"message\",\"id\":%" PRIu64 "}", o->id);
}

/* What takes longer than a call, in rows of its own. */
static void put_span(struct out *o, const struct trace_side *s, const char *what, uint64_t from,
		     uint64_t until)
{
	if (!from || until <= from)
		return;
	o->id++;
	for (unsigned end = 0; end < 2; end++) {
		begin(o, end ? "e" : "b", "message", s->ring, s->thread, end ? until : from);
		fprintf(o->f, ",\"id\":%" PRIu64 ",\"name\":\"%s %" PRIu32 " B\"", o->id, what,
			s->len);
		fprintf(o->f, ",\"args\":{\"%s\":\"%s\"}}", s->out ? "to" : "from",
			name_of(o->t, s->other));
	}
}

static void put_side(struct out *o, const struct trace_side *s, uint64_t next)
{
	put_point(o, s, next);
	put_arrow(o, s);
	if (s->what >= TRACE_PUT) {
		put_span(o, s, s->what == TRACE_GET ? "getting" : "putting", s->tick, s->ended);
		return;
	}
	if (s->out) {
		put_span(o, s, "waits to leave", s->asked, s->tick);
		put_span(o, s, s->announced ? "announced" : "sending", s->tick, s->ended);
		return;
	}
	if (s->unexpected)
		put_span(o, s, "waits for a receive", s->tick, s->matched);
	put_span(o, s, s->copied ? "copy" : "get", s->matched, s->ended);
}

static void put_part(const struct out *o, const struct trace_wait *w, uint64_t from, uint64_t until,
		     const char *what, const char *of, const char *colour)
{
	if (until <= from)
		return;
	begin(o, "X", "wait", w->ring, w->thread, from);
	fprintf(o->f, ",\"dur\":%.3f,\"name\":\"%s%s\",\"cname\":\"%s\"}",
		(double)(until - from) / o->t->per_us, what, of, colour);
}

static void put_wait(const struct out *o, const struct trace_wait *w)
{
	if (w->other != TRACE_UNKNOWN)
		put_part(o, w, w->from, w->late, w->end->out ? "late receiver: " : "late sender: ",
			 o->t->rings[w->other].name, "terrible");
	put_part(o, w, w->late, w->until, w->end && w->end->pair ? "under way" : "wait", "",
		 w->end && w->end->pair ? "good" : "grey");
}

void trace_chrome(const struct trace *t, FILE *f, const char *path)
{
	struct out o = {.t = t, .f = f};
	bool good;

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", o.f);
	put_rows(&o);
	for (uint32_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->rings[i].n; k++) {
			const struct trace_ring *r = &t->rings[i];
			const struct trace_side *s = r->sides[k];

			/* The end of a message speaks of the same side. */
			if (s && s->tick == r->events[k].tick)
				put_side(&o, s, k + 1 < r->n ? r->events[k + 1].tick : 0);
		}
	for (size_t i = 0; i < t->nwaits; i++)
		put_wait(&o, &t->waits[i]);
	fputs("\n]}\n", o.f);
	good = !ferror(o.f);
	if (fclose(o.f) != 0 || !good)
		bench_fail("%s: %s", path, strerror(errno));
}
