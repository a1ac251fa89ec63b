/* SPDX-License-Identifier: BSD-2-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

const char *bench_role = "";

/* A process of a tool needs fewer. */
#define DESCRIPTORS 32

static bool progress_shown;
static time_t started;

static void complain(const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	bench_progress_end();
	/* One write: two processes may complain at once. */
	fprintf(stderr, "%s%s: %s\n", bench_tool, bench_role, text);
}

void bench_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	exit(1);
}

static bench_noreturn void cli_hint(void)
{
	fprintf(stderr, "Try '%s --help'.\n", bench_tool);
	exit(2);
}

void bench_descriptors(void)
{
	struct rlimit limit = {0, 0};

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < DESCRIPTORS)
		bench_fail("needs %d descriptors; raise ulimit -n, which is %llu", DESCRIPTORS,
			   (unsigned long long)limit.rlim_cur);
}

void bench_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	cli_hint();
}

static void take_format(enum table_format *format, enum table_format wanted)
{
	if (*format != TABLE_PLAIN && *format != wanted)
		bench_usage("--csv and --json exclude each other");
	*format = wanted;
}

static unsigned cli_word(const struct cli_option *o, const char *arg)
{
	char all[256] = "";

	for (unsigned i = 0; i < o->max; i++) {
		if (strcmp(arg, o->words[i]) == 0)
			return i;
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "",
			 o->words[i]);
	}
	bench_usage("--%s: '%s' is none of %s", o->name, arg, all);
}

static uint32_t cli_uint(const struct cli_option *o, const char *arg)
{
	return (uint32_t)bench_number(o->name, arg, o->min, o->max);
}

static void cli_take(const struct cli_option *o, const char *arg)
{
	struct bench_range *range = o->to;

	switch (o->type) {
	case CLI_T_BOOL:
		*(bool *)o->to = o->max;
		break;
	case CLI_T_FORMAT:
		take_format(o->to, (enum table_format)o->max);
		break;
	case CLI_T_UINT:
		*(uint32_t *)o->to = cli_uint(o, arg);
		break;
	case CLI_T_COUNT:
		*(uint64_t *)o->to = bench_number(o->name, arg, o->min, o->max);
		break;
	case CLI_T_SIZE:
		range->min = range->max = cli_uint(o, arg);
		range->one = true;
		break;
	case CLI_T_REAL:
		*(double *)o->to = bench_real(o->name, arg, (double)o->max);
		break;
	case CLI_T_MS:
		*(double *)o->to = bench_real(o->name, arg, (double)o->max) / 1e3;
		break;
	case CLI_T_TEXT:
		*(const char **)o->to = arg;
		break;
	case CLI_T_WORD:
		*(unsigned *)o->to = cli_word(o, arg);
		break;
	}
}

#define MOST 32
#define FIRST 1000 /* beyond all characters */

static void cli_parse(int argc, char **argv, const struct cli_option *options, const char *help,
		      const char *order)
{
	struct option all[MOST + 3] = {{"help", 0, NULL, 'h'}, {"version", 0, NULL, 'V'}};
	char letters[2 * MOST + 4];
	int c, n = snprintf(letters, sizeof letters, "%shV", order);

	for (int i = 0; options[i].name && i < MOST; i++) {
		bool value = options[i].type >= CLI_T_UINT;

		all[i + 2] = (struct option){options[i].name, value, NULL, FIRST + i};
		if (options[i].letter)
			n += snprintf(letters + n, sizeof letters - (size_t)n, "%c%s",
				      options[i].letter, value ? ":" : "");
	}
	while ((c = getopt_long(argc, argv, letters, all, NULL)) != -1) {
		for (int i = 0; c < FIRST && options[i].name; i++)
			if (options[i].letter == c)
				c = FIRST + i;
		if (c >= FIRST) {
			cli_take(&options[c - FIRST], optarg);
			continue;
		}
		if (c == 'h')
			fputs(help, stdout);
		else if (c == 'V')
			printf("%s (Tagwire) %s\n", bench_tool, PACKAGE_VERSION);
		else
			cli_hint(); /* getopt_long() has complained */
		bench_output_end();
		exit(0);
	}
}

void bench_cli(int argc, char **argv, const struct cli_option *options, const char *help)
{
	cli_parse(argc, argv, options, help, "");
}

void bench_cli_command(int argc, char **argv, const struct cli_option *options, const char *help)
{
	cli_parse(argc, argv, options, help, "+");
}

void bench_range_end(const struct bench_range *r)
{
	if (r->one && r->min != r->max)
		bench_usage("--size excludes --min and --max");
	if (r->min > r->max)
		bench_usage("the smallest size (--min), %" PRIu32
			    ", is above the largest (--max), %" PRIu32,
			    r->min, r->max);
}

void bench_cli_end(int argc, char **argv)
{
	if (optind < argc)
		bench_usage("'%s' is one argument too many", argv[optind]);
}

uint64_t bench_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	static const char units[] = "kmg";
	const char *unit = NULL;
	unsigned long long v;
	unsigned shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		bench_usage("--%s: '%s' is not a number", option, text);
	errno = 0;
	v = strtoull(text, &end, 0);
	if (*end)
		unit = strchr(units, *end | 0x20);
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (*end)
		bench_usage("--%s: '%s' is not a number", option, text);
	if (errno || v > max >> shift || v << shift < min)
		bench_usage("--%s: %s is not within %llu and %llu", option, text,
			    (unsigned long long)min, (unsigned long long)max);
	return v << shift;
}

double bench_real(const char *option, const char *text, double max)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end)
		bench_usage("--%s: '%s' is not a number", option, text);
	if (!(v > 0 && v <= max))
		bench_usage("--%s: %s is not above 0 and at most %g", option, text, max);
	return v;
}

#define LINE_S 30 /* seconds from one line to the next, where standard error is no terminal */

void bench_progress(const char *fmt, ...)
{
	bool terminal = isatty(STDERR_FILENO);
	va_list ap;

	if (!started)
		started = time(NULL);
	/* Not worth the flicker, or the lines. */
	if (time(NULL) - started < (terminal ? 2 : LINE_S))
		return;
	if (terminal)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "%s: ", bench_tool);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (!terminal) {
		fputc('\n', stderr);
		started = time(NULL); /* of the next line */
	}
	fflush(stderr);
	progress_shown = terminal;
}

void bench_progress_end(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

/* Whether nobody reads it any more: a tool that finds nothing to print learns that here. */
static bool is_output_closed(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO};

	return poll(&out, 1, 0) > 0 && out.revents & POLLERR;
}

void bench_output_end(void)
{
	bool failed = fflush(stdout) || ferror(stdout);

	/* In silence, as by the signal, which the caller may have switched off. */
	if (is_output_closed())
		exit(128 + SIGPIPE);
	if (failed)
		bench_fail("standard output: %s", strerror(errno));
}

const char *bench_nic_text(uint64_t nic_id, char text[BENCH_NIC_TEXT])
{
	snprintf(text, BENCH_NIC_TEXT, "%02x:%02x:%02x:%02x:%02x:%02x",
		 (unsigned)(nic_id >> 40) & 255, (unsigned)(nic_id >> 32) & 255,
		 (unsigned)(nic_id >> 24) & 255, (unsigned)(nic_id >> 16) & 255,
		 (unsigned)(nic_id >> 8) & 255, (unsigned)nic_id & 255);
	return text;
}
