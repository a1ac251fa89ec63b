/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables on standard output in three shapes: aligned for people, CSV, or JSON
 * with one object a line. Columns are described once; cells are then given from
 * left to right, and the last cell of a row ends it.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_COLUMNS 20 /* at most */

enum table_format { TABLE_PLAIN, TABLE_CSV, TABLE_JSON };

struct table_column {
	const char *key;     /* in CSV and JSON, with its unit */
	const char *heading; /* in a plain table */
	const char *format;  /* of printf, for what table_real() and the like take */
};

struct table {
	enum table_format format;
	const struct table_column *columns;
	unsigned ncolumns;
	const char *kind; /* or NULL */
	unsigned at; /* the column of the next cell */
	/*
	 * A plain table waits here until its widths are known. One that flows prints each row when
	 * it has it, in widths that fit what the tools measure.
	 */
	bool flows, begun;
	char **cells;
	size_t ncells, room;
	unsigned left; /* bit set of columns with text, which are aligned to the left */
};

/* The same for figures that take long: each row leaves as soon as it is complete. */
void table_open_flow(struct table *t, enum table_format format, const struct table_column *columns,
		     unsigned ncolumns);

/* Starts a table; CSV gets its heading now. */
void table_open(struct table *t, enum table_format format, const struct table_column *columns,
		unsigned ncolumns);

/*
 * The same of a tool that has several tables, whose JSON objects are told apart by a first member
 * "kind" with this text.
 */
void table_open_kind(struct table *t, enum table_format format, const char *kind,
		     const struct table_column *columns, unsigned ncolumns);

/* Unprintable characters become '?': another user may have chosen the text. */
void table_printable(char *text);
/* Likewise. The format takes a char *. */
void table_text(struct table *t, const char *text);
/* The format is made with PRIu64. */
void table_count(struct table *t, uint64_t value);
/* The format takes a double; not a number means that there is none. */
void table_real(struct table *t, double value);
/* No value: "-", an empty field, or null. */
void table_none(struct table *t);

/* Prints what waits and flushes. The table may be opened again. */
void table_close(struct table *t);

#endif /* BENCH_TABLE_H */
