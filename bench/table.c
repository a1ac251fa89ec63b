/* SPDX-License-Identifier: BSD-2-Clause */
#include "table.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define CELL_MAX 1024

void table_open(struct table *t, enum table_format format, const struct table_column *columns,
		unsigned ncolumns)
{
	memset(t, 0, sizeof *t);
	t->format = format;
	assert(ncolumns <= TABLE_COLUMNS);
	t->columns = columns;
	t->ncolumns = ncolumns;
	if (format != TABLE_CSV)
		return;
	for (unsigned i = 0; i < ncolumns; i++)
		printf("%s%s", i ? "," : "", columns[i].key);
	putchar('\n');
	fflush(stdout);
}

void table_open_kind(struct table *t, enum table_format format, const char *kind,
		     const struct table_column *columns, unsigned ncolumns)
{
	table_open(t, format, columns, ncolumns);
	t->kind = kind;
}

void table_open_flow(struct table *t, enum table_format format, const struct table_column *columns,
		     unsigned ncolumns)
{
	table_open(t, format, columns, ncolumns);
	t->flows = true;
	for (unsigned i = 0; i < ncolumns; i++)
		if (strchr(columns[i].format, 's'))
			t->left |= 1u << i;
}

static void keep(struct table *t, const char *text)
{
	if (t->ncells == t->room) {
		t->room = t->room ? t->room * 2 : 256;
		t->cells = realloc(t->cells, t->room * sizeof *t->cells);
		if (!t->cells)
			bench_fail("no memory for the table");
	}
	t->cells[t->ncells] = strdup(text);
	if (!t->cells[t->ncells++])
		bench_fail("no memory for the table");
}

static void put_csv(const char *text)
{
	if (!strpbrk(text, ",\"")) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void put_json(const char *text, bool quoted)
{
	if (!quoted) {
		fputs(*text ? text : "null", stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void print_row(const struct table *t, const char *const *row, const unsigned *widths)
{
	for (unsigned i = 0; i < t->ncolumns; i++) {
		bool last = i + 1 == t->ncolumns;

		if (!(t->left & 1u << i))
			printf("%*s", (int)widths[i], row[i]);
		else if (last)
			fputs(row[i], stdout); /* no blanks at the end of a line */
		else
			printf("%-*s", (int)widths[i], row[i]);
		fputs(last ? "\n" : "  ", stdout);
	}
}

#define TEXT_WIDTH 14  /* of a column that flows */
#define NUMBER_WIDTH 9 /* the same */

/* Prints and forgets the rows that wait; the headings come first. */
static void print_kept(struct table *t)
{
	const char *headings[TABLE_COLUMNS] = {0};
	unsigned widths[TABLE_COLUMNS] = {0};

	for (unsigned i = 0; i < t->ncolumns; i++) {
		headings[i] = t->columns[i].heading;
		widths[i] = t->flows ? (t->left & 1u << i ? TEXT_WIDTH : NUMBER_WIDTH) : 0;
		if (widths[i] < strlen(headings[i]))
			widths[i] = (unsigned)strlen(headings[i]);
	}
	for (size_t c = 0; c < t->ncells; c++) {
		unsigned len = (unsigned)strlen(t->cells[c]);

		if (len > widths[c % t->ncolumns])
			widths[c % t->ncolumns] = len;
	}
	if (!t->begun)
		print_row(t, headings, widths);
	t->begun = true;
	for (size_t c = 0; c < t->ncells; c += t->ncolumns)
		print_row(t, (const char *const *)t->cells + c, widths);
	for (size_t c = 0; c < t->ncells; c++)
		free(t->cells[c]);
	t->ncells = 0;
}

/* An empty cell that is not text has no value. */
static void put(struct table *t, const char *text, bool is_text)
{
	unsigned at = t->at;
	bool last = at + 1 == t->ncolumns;

	t->at = last ? 0 : at + 1;
	switch (t->format) {
	case TABLE_PLAIN:
		if (is_text)
			t->left |= 1u << at;
		keep(t, *text ? text : "-");
		if (last && t->flows)
			print_kept(t);
		break;
	case TABLE_CSV:
		put_csv(text);
		putchar(last ? '\n' : ',');
		break;
	case TABLE_JSON:
		if (at)
			putchar(',');
		else if (t->kind)
			printf("{\"kind\":\"%s\",", t->kind);
		else
			putchar('{');
		printf("\"%s\":", t->columns[at].key);
		put_json(text, is_text);
		if (last)
			puts("}");
		break;
	}
	if (last && t->flows)
		bench_output_end(); /* also into a pipe */
}

void table_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void table_text(struct table *t, const char *text)
{
	char cell[CELL_MAX];

	snprintf(cell, sizeof cell, t->columns[t->at].format, text);
	table_printable(cell);
	put(t, cell, true);
}

void table_count(struct table *t, uint64_t value)
{
	char cell[CELL_MAX];

	snprintf(cell, sizeof cell, t->columns[t->at].format, value);
	put(t, cell, false);
}

void table_real(struct table *t, double value)
{
	char cell[CELL_MAX];

	if (!isfinite(value)) {
		table_none(t);
		return;
	}
	snprintf(cell, sizeof cell, t->columns[t->at].format, value);
	put(t, cell, false);
}

void table_none(struct table *t)
{
	put(t, "", false);
}

void table_close(struct table *t)
{
	if (t->format == TABLE_PLAIN && (t->ncells || !t->begun))
		print_kept(t);
	free(t->cells);
	t->cells = NULL;
	t->ncells = t->room = 0;
	t->begun = false;
	bench_output_end();
}
