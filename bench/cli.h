/* SPDX-License-Identifier: BSD-2-Clause */
/* What every tool does alike at its command line. Makes no MX calls. */
#ifndef BENCH_CLI_H
#define BENCH_CLI_H

#include <stdint.h>
#include <stdio.h>

#include "table.h"

#define BENCH_NIC_TEXT 18 /* "02:74:0a:00:00:01" and its zero */

#define bench_printf(fmt, args) __attribute__((format(printf, fmt, args)))
#define bench_noreturn __attribute__((noreturn))

/* Each tool defines its own name. */
extern const char bench_tool[];
/* Appended to the name in messages; tells the two ends apart. */
extern const char *bench_role;

/* A failure of the run: the message and exit code 1. */
void bench_fail(const char *fmt, ...) bench_printf(1, 2) bench_noreturn;
/* A bad argument: the message, a hint and exit code 2. */
void bench_usage(const char *fmt, ...) bench_printf(1, 2) bench_noreturn;

/* Fails where a process may not have the descriptors of a tool whose peers would wait for it. */
void bench_descriptors(void);

/* Sizes of messages. */
struct bench_range {
	uint32_t min, max;
	bool one; /* by --size */
};

/* An option, and where its value goes. */
struct cli_option {
	const char *name; /* NULL: no more */
	char letter;	  /* its short form, or 0 */
	enum {
		CLI_T_BOOL,
		CLI_T_FORMAT,
		CLI_T_UINT, /* from here on with a value */
		CLI_T_COUNT,
		CLI_T_SIZE,
		CLI_T_REAL,
		CLI_T_MS,
		CLI_T_TEXT,
		CLI_T_WORD
	} type;
	void *to;
	uint64_t min, max;
	const char *const *words;
};
#define CLI_OPTION(n, kind, at, ...)                                                               \
	{                                                                                          \
		.name = n, .type = CLI_T_##kind, .to = at, __VA_ARGS__                             \
	}
#define CLI_SET(n, at) CLI_OPTION(n, BOOL, at, .max = true)
#define CLI_CLEAR(n, at) CLI_OPTION(n, BOOL, at, .max = false)
/* A uint32_t within limits, and a uint64_t: see bench_number(). */
#define CLI_UINT(n, at, least, most) CLI_OPTION(n, UINT, at, .min = least, .max = most)
#define CLI_COUNT(n, at) CLI_OPTION(n, COUNT, at, .min = 1, .max = UINT32_MAX)
#define CLI_PID(at) CLI_UINT("pid", at, 1, INT32_MAX)
/* A double: see bench_real(). In milliseconds, where it is in seconds. */
#define CLI_REAL(n, at, most) CLI_OPTION(n, REAL, at, .max = most)
#define CLI_MS(n, at, most) CLI_OPTION(n, MS, at, .max = most)
#define CLI_TEXT(n, at) CLI_OPTION(n, TEXT, at, .max = 0)
/* One of so many words, by its number: an enumeration. */
#define CLI_WORD(n, at, all, count) CLI_OPTION(n, WORD, at, .max = count, .words = all)
/* --size, --min and --max of a struct bench_range, for bench_range_end(). */
#define CLI_RANGE(at, most)                                                                        \
	CLI_OPTION("size", SIZE, at, .max = most), CLI_UINT("min", &(at)->min, 0, most),           \
		CLI_UINT("max", &(at)->max, 0, most)
/* --json of an enum table_format; and with --csv. */
#define CLI_JSON(at) CLI_OPTION("json", FORMAT, at, .max = TABLE_JSON)
#define CLI_FORMAT(at) CLI_OPTION("csv", FORMAT, at, .max = TABLE_CSV), CLI_JSON(at)

/* Takes these, --help and --version. Ends with 2 where another one was given, or a bad value. */
void bench_cli(int argc, char **argv, const struct cli_option *options, const char *help);
/* The same before a command, whose own options are left alone. */
void bench_cli_command(int argc, char **argv, const struct cli_option *options, const char *help);
/* Ends with 2 where more than options was given. */
void bench_cli_end(int argc, char **argv);
/* Ends with 2 for a range without sizes, or two ranges. */
void bench_range_end(const struct bench_range *r);

/* A whole number within limits; k, m and g multiply by 1024. Ends with 2 if it is not one. */
uint64_t bench_number(const char *option, const char *text, uint64_t min, uint64_t max);
/* Likewise for a number with a fraction; above zero, at most max. */
double bench_real(const char *option, const char *text, double max);

/* Overwrites one line on standard error if that is a terminal and the run is long. */
void bench_progress(const char *fmt, ...) bench_printf(1, 2);
/* Wipes it. */
void bench_progress_end(void);

/* Ends with 1 if standard output could not take everything. */
void bench_output_end(void);

/* A NIC id as people read it. */
const char *bench_nic_text(uint64_t nic_id, char text[BENCH_NIC_TEXT]);

#endif /* BENCH_CLI_H */
