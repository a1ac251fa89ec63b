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
/* For an option that getopt_long() has already complained about. */
void bench_usage_hint(void) bench_noreturn;
/* Prints the text and ends with 0. */
void bench_help(const char *text) bench_noreturn;
void bench_version(void) bench_noreturn;

#define BENCH_SHORT "hV" /* of --help and --version, in all tools */

/* Ends with 2 where the other was asked for, too. */
void bench_set_format(enum table_format *format, enum table_format wanted);
/* --csv, --json, --help and --version by their letters c, j, h and V; ends with 2 for others. */
void bench_cli_option(int c, enum table_format *format, const char *help);
/* Ends with 2 where more than options was given. */
void bench_cli_end(int argc, char **argv);

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
