/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary as a picture. Each rectangle has its exact figures in a title, which browsers show.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "trace.h"

#define WIDTH 800
#define LEFT 110 /* of the rectangles */
#define LINE 18
#define CELL 56	     /* of a matrix, if there is space */
#define CELL_TEXT 40 /* smaller cells have no figures */
#define BAR 500	     /* the longest one */

struct svg {
	FILE *f;
	const struct trace_sums *s;
	double y;
};

/* What a matrix shows: from one endpoint (row) to another (column). */
struct matrix {
	const char *title, *words, *unit; /* words: between the numbers of both */
	double (*value)(const struct trace_sums *s, uint32_t row, uint32_t column);
	int digits; /* after the point */
};

static double matrix_bytes(const struct trace_sums *s, uint32_t row, uint32_t column)
{
	return (double)trace_pair(s, row, column)->bytes;
}

/* The row waited: as a receiver for a late sender, or as a sender for a late receiver. */
static double matrix_waited(const struct trace_sums *s, uint32_t row, uint32_t column)
{
	return trace_ms(s->t, trace_pair(s, column, row)->late_sender +
				      trace_pair(s, row, column)->late_receiver);
}

static const struct matrix matrices[] = {
	{"Bytes from endpoint (row) to endpoint (column)", "to", "bytes", matrix_bytes, 0},
	{"Time that an endpoint (row) waited for one that was late (column)", "waited for", "ms",
	 matrix_waited, 3},
};

static void svg_text(const struct svg *o, double x, double y, const char *class, const char *text)
{
	fprintf(o->f, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class, text);
}

static void svg_title(struct svg *o, const char *text)
{
	o->y += 2 * LINE;
	svg_text(o, 10, o->y, "title", text);
	o->y += LINE / 2.0;
}

static void svg_endpoints(struct svg *o)
{
	char text[256];

	svg_title(o, "Endpoints");
	for (uint32_t i = 0; i < o->s->t->n; i++) {
		const struct trace_ring *r = &o->s->t->rings[i];
		const struct trace_total *total = &o->s->totals[i];

		snprintf(text, sizeof text,
			 "%" PRIu32 ": %s, %.7s endpoint %" PRIu32 ": sent %" PRIu64
			 ", received %" PRIu64 ", unexpected %" PRIu64 ", waited %.3f ms",
			 i, r->name, r->head.interface, r->head.endpoint_id, total->sent,
			 total->received, total->unexpected, trace_ms(o->s->t, total->waited));
		o->y += LINE;
		svg_text(o, 10, o->y, "row", text);
	}
}

/* At most four digits: the title has them all. */
static const char *svg_short(double value, char text[16])
{
	static const char units[] = " kMGTPE";
	unsigned i = 0;

	for (; value >= 1000 && units[i + 1]; i++)
		value /= 1000;
	snprintf(text, 16, i ? "%.3g%c" : "%.3g", value, units[i]);
	return text;
}

static void matrix_row(const struct svg *o, const struct matrix *m, uint32_t row, double size,
		       double most)
{
	char text[16];

	for (uint32_t column = 0; column < o->s->t->n; column++) {
		double value = m->value(o->s, row, column), x = LEFT + size * column;

		if (value <= 0)
			continue;
		fprintf(o->f,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"cell\" "
			"fill-opacity=\"%.3f\"><title>%" PRIu32 " %s %" PRIu32
			": %.*f %s</title></rect>\n",
			x, o->y, size, size, 0.15 + 0.6 * value / most, row, m->words, column,
			m->digits, value, m->unit);
		if (size >= CELL_TEXT)
			svg_text(o, x + size / 2, o->y + size / 2 + 4, "figure",
				 svg_short(value, text));
	}
}

static void svg_matrix(struct svg *o, const struct matrix *m)
{
	uint32_t n = o->s->t->n, step;
	double size = (WIDTH - LEFT - 10.0) / n, most = 0;
	char text[16];

	size = size > CELL ? CELL : size;
	step = 1 + (uint32_t)(LINE / size); /* of numbers that are not too close */
	for (uint32_t i = 0; i < n * n; i++) {
		double value = m->value(o->s, i / n, i % n);

		most = value > most ? value : most;
	}
	svg_title(o, m->title);
	o->y += LINE;
	for (uint32_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%" PRIu32, i);
		if (i % step == 0) {
			svg_text(o, LEFT + size * (i + 0.5), o->y - 4, "figure", text);
			svg_text(o, LEFT - 14, o->y + size * (i + 0.5) + 4, "figure", text);
		}
	}
	fprintf(o->f,
		"<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n",
		LEFT, o->y, size * n, size * n);
	for (uint32_t i = 0; i < n; i++, o->y += size)
		matrix_row(o, m, i, size, most);
}

/* A bar with a label, a figure, and both in its title. */
static void svg_bar(struct svg *o, const char *label, const char *series, uint64_t value,
		    uint64_t most)
{
	double width = most ? BAR * (double)value / (double)most : 0;
	char text[32];

	snprintf(text, sizeof text, "%" PRIu64, value);
	o->y += LINE;
	svg_text(o, 10, o->y, "row", label);
	fprintf(o->f,
		"<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" class=\"%s\"><title>%s: "
		"%s %s</title></rect>\n",
		LEFT, o->y - LINE + 5, width, LINE - 4, series, label, text, series);
	svg_text(o, LEFT + width + 6, o->y, "row", text);
}

static uint64_t most_of(const uint64_t *values, unsigned n)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < n; i++)
		most = values[i] > most ? values[i] : most;
	return most;
}

static void svg_sizes(struct svg *o)
{
	uint64_t sent = most_of(o->s->sent, TRACE_SIZES);
	uint64_t unexpected = most_of(o->s->unexpected, TRACE_SIZES);
	uint64_t most = sent > unexpected ? sent : unexpected;
	char label[32];

	svg_title(o, "Messages by size (up to so many bytes), and unexpected ones");
	for (unsigned i = 0; i < TRACE_SIZES; i++) {
		if (!o->s->sent[i] && !o->s->unexpected[i])
			continue;
		snprintf(label, sizeof label, "%s B", trace_sizes[i].name);
		svg_bar(o, label, "messages", o->s->sent[i], most);
		if (o->s->unexpected[i])
			svg_bar(o, label, "unexpected", o->s->unexpected[i], most);
	}
}

static void svg_protocols(struct svg *o)
{
	static const char *const names[] = {"eager", "get", "copy", "pending"};
	uint64_t sums[4] = {0};

	for (uint32_t i = 0; i < o->s->t->n * o->s->t->n; i++) {
		const struct trace_pair *p = &o->s->pairs[i];
		const uint64_t add[4] = {p->eager, p->got, p->copied, p->pending};

		for (unsigned k = 0; k < 4; k++)
			sums[k] += add[k];
	}
	svg_title(o, "Messages by protocol");
	for (unsigned k = 0; k < 4; k++)
		svg_bar(o, names[k], "messages", sums[k], most_of(sums, 4));
}

static void svg_close(FILE *f, const char *path)
{
	bool good = !ferror(f);

	if (fclose(f) != 0 || !good)
		bench_fail("%s: %s", path, strerror(errno));
}

/* The height stands before the body. */
void trace_svg(const struct trace_sums *s, FILE *f, const char *path, double from_ms, double ms)
{
	size_t len = 0;
	char *body = NULL;
	struct svg o = {.f = open_memstream(&body, &len), .s = s};

	if (!o.f)
		bench_fail("no memory");
	svg_endpoints(&o);
	for (unsigned i = 0; i < sizeof matrices / sizeof *matrices; i++)
		svg_matrix(&o, &matrices[i]);
	o.y = trace_timeline(s->t, o.f, o.y + 2 * LINE, from_ms, ms);
	svg_sizes(&o);
	svg_protocols(&o);
	svg_close(o.f, path);
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\">\n",
		WIDTH, o.y + LINE);
	fputs("<style>text{font:12px sans-serif}.title{font-weight:bold}"
	      ".figure{text-anchor:middle;font-size:11px}.cell,.messages{fill:#1f77b4}"
	      ".unexpected{fill:#ff7f0e}.frame{fill:none;stroke:#999}.late{fill:#d62728}"
	      ".underway{fill:#2ca02c}.waits{fill:#bbb}"
	      ".message{stroke:#1f77b4;stroke-opacity:.6}</style>\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
	      f);
	fputs(body, f);
	fputs("</svg>\n", f);
	free(body);
	svg_close(f, path);
}
