/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the picture that shows what happened when: a row for each endpoint, coloured where it
 * waited, and a line for each message. A column shows the state that lasts longest there, so that
 * the picture stays small whatever was recorded.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "trace.h"

#define LEFT 110
#define COLUMNS 680
#define ROW 26
#define BAR 14
#define LINES 1500 /* messages that are drawn; more would hide the rows */

enum state { LATE, UNDER_WAY, WAITS, STATES };
static const char *const classes[STATES] = {"late", "underway", "waits"};

struct timeline {
	const struct trace *t;
	FILE *f;
	double y, from, until;	 /* us */
	double (*spent)[STATES]; /* by ring and column, us */
};

static double timeline_x(const struct timeline *l, double us)
{
	return LEFT + COLUMNS * (us - l->from) / (l->until - l->from);
}

static double timeline_y(const struct timeline *l, uint32_t ring)
{
	return l->y + ROW * ring;
}

/* Adds a state to the columns that it touches. */
static void timeline_add(struct timeline *l, uint32_t ring, uint64_t from, uint64_t until,
			 enum state state)
{
	double width = (l->until - l->from) / COLUMNS;
	double begin = trace_us(l->t, from) - l->from, end = trace_us(l->t, until) - l->from;

	begin = begin < 0 ? 0 : begin;
	end = end > width * COLUMNS ? width * COLUMNS : end;
	for (unsigned i = (unsigned)(begin / width); i < COLUMNS && begin < end; i++) {
		double edge = end < width * (i + 1) ? end : width * (i + 1);

		l->spent[(size_t)ring * COLUMNS + i][state] += edge - begin;
		begin = edge;
	}
}

static void timeline_waits(struct timeline *l)
{
	for (size_t i = 0; i < l->t->nwaits; i++) {
		const struct trace_wait *w = &l->t->waits[i];
		uint64_t late = w->other != TRACE_UNKNOWN ? w->late : w->from;

		if (trace_us(l->t, w->until) <= l->from || trace_us(l->t, w->from) >= l->until)
			continue;
		timeline_add(l, w->ring, w->from, late, LATE);
		timeline_add(l, w->ring, late, w->until,
			     w->end && w->end->pair ? UNDER_WAY : WAITS);
	}
}

/* What a column shows; STATES: the program's own work. */
static enum state timeline_state(const struct timeline *l, uint32_t ring, unsigned column)
{
	const double *spent = l->spent[(size_t)ring * COLUMNS + column];
	double own = (l->until - l->from) / COLUMNS, most;
	enum state state = STATES;

	for (unsigned s = 0; s < STATES; s++)
		own -= spent[s];
	most = own;
	for (unsigned s = 0; s < STATES; s++)
		if (spent[s] > most) {
			most = spent[s];
			state = (enum state)s;
		}
	return state;
}

static void timeline_row(const struct timeline *l, uint32_t ring)
{
	double y = timeline_y(l, ring);
	unsigned begin = 0;

	fprintf(l->f, "<text x=\"%d\" y=\"%.1f\" class=\"row\">%" PRIu32 "</text>\n", LEFT - 20,
		y + BAR - 2, ring);
	for (unsigned i = 1; i <= COLUMNS; i++) {
		enum state state = timeline_state(l, ring, begin);

		if (i < COLUMNS && timeline_state(l, ring, i) == state)
			continue;
		if (state != STATES)
			fprintf(l->f,
				"<rect x=\"%u\" y=\"%.1f\" width=\"%u\" height=\"%d\" "
				"class=\"%s\"/>\n",
				LEFT + begin, y, i - begin, BAR, classes[state]);
		begin = i;
	}
	fprintf(l->f, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" class=\"frame\"/>\n",
		LEFT, y, COLUMNS, BAR);
}

static bool timeline_has(const struct timeline *l, const struct trace_side *s)
{
	return s->out && s->pair && trace_us(l->t, s->tick) >= l->from &&
	       trace_us(l->t, s->pair->tick) <= l->until;
}

/* From the moment of the send to that of the arrival. */
static void timeline_messages(const struct timeline *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->t->nsides; i++)
		n += timeline_has(l, &l->t->sides[i]);
	if (n > LINES) {
		fprintf(l->f,
			"<text x=\"%d\" y=\"%.1f\" class=\"row\">%zu messages: too many to "
			"draw</text>\n",
			LEFT, timeline_y(l, l->t->n) + ROW, n);
		return;
	}
	for (size_t i = 0; i < l->t->nsides; i++) {
		const struct trace_side *s = &l->t->sides[i];
		bool down = s->pair && s->pair->ring > s->ring;

		if (timeline_has(l, s))
			fprintf(l->f,
				"<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" "
				"class=\"message\"/>\n",
				timeline_x(l, trace_us(l->t, s->tick)),
				timeline_y(l, s->ring) + (down ? BAR : 0),
				timeline_x(l, trace_us(l->t, s->pair->tick)),
				timeline_y(l, s->pair->ring) + (down ? 0 : BAR));
	}
}

static double timeline_end(const struct trace *t)
{
	uint64_t last = t->start;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct trace_ring *r = &t->rings[i];

		if (r->n && (int64_t)(r->events[r->n - 1].tick - last) > 0)
			last = r->events[r->n - 1].tick;
	}
	return trace_us(t, last);
}

double trace_timeline(const struct trace *t, FILE *f, double y, double from_ms, double ms)
{
	struct timeline l = {.t = t, .f = f, .y = y, .from = from_ms * 1e3};

	l.until = ms > 0 ? l.from + ms * 1e3 : timeline_end(t);
	if (l.until <= l.from) {
		fprintf(f,
			"<text x=\"10\" y=\"%.1f\" class=\"title\">The trace ends after %.3f "
			"ms</text>\n",
			y, timeline_end(t) / 1e3);
		return y;
	}
	l.spent = trace_alloc((size_t)t->n * COLUMNS, sizeof *l.spent);
	fprintf(f,
		"<text x=\"10\" y=\"%.1f\" class=\"title\">From %.3f to %.3f ms: where each "
		"endpoint waited, and messages</text>\n",
		l.y, l.from / 1e3, l.until / 1e3);
	fprintf(f,
		"<text x=\"10\" y=\"%.1f\" class=\"row\">Red: the other side was late. Green: the "
		"message was under way. Grey: for something else. White: it did not wait.</text>\n",
		l.y + 18);
	l.y += 34;
	timeline_waits(&l);
	for (uint32_t i = 0; i < t->n; i++)
		timeline_row(&l, i);
	timeline_messages(&l);
	free(l.spent);
	return timeline_y(&l, t->n) + ROW;
}
