/* SPDX-License-Identifier: BSD-2-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

const char *bench_role = "";

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

void bench_usage_hint(void)
{
	fprintf(stderr, "Try '%s --help'.\n", bench_tool);
	exit(2);
}

void bench_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(fmt, ap);
	va_end(ap);
	bench_usage_hint();
}

void bench_help(const char *text)
{
	fputs(text, stdout);
	bench_output_end();
	exit(0);
}

void bench_version(void)
{
	printf("%s (Tagwire) %s\n", bench_tool, PACKAGE_VERSION);
	bench_output_end();
	exit(0);
}

void bench_set_format(enum table_format *format, enum table_format wanted)
{
	if (*format != TABLE_PLAIN && *format != wanted)
		bench_usage("--csv and --json exclude each other");
	*format = wanted;
}

void bench_cli_option(int c, enum table_format *format, const char *help)
{
	switch (c) {
	case 'c':
		bench_set_format(format, TABLE_CSV);
		break;
	case 'j':
		bench_set_format(format, TABLE_JSON);
		break;
	case 'h':
		bench_help(help);
	case 'V':
		bench_version();
	default:
		bench_usage_hint();
	}
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

void bench_progress(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	if (!started)
		started = time(NULL);
	if (time(NULL) - started < 2)
		return; /* not worth the flicker */
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	progress_shown = true;
}

void bench_progress_end(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

void bench_output_end(void)
{
	if (fflush(stdout) || ferror(stdout))
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
