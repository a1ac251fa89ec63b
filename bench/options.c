/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "benchlib.h"

/* A launcher, or somebody by hand, has started several of us. */
static bool launched(void)
{
	return getenv("PMIX_RANK") || getenv("TAGWIRE_RANK");
}

bool bench_option(struct bench_options *o, int c, const char *arg)
{
	switch (c) {
	case BENCH_O_LOCAL:
		o->local = true;
		return true;
	case BENCH_O_SERVER:
		o->server = true;
		return true;
	case BENCH_O_HOST:
		o->host = (char *)arg;
		return true;
	case BENCH_O_ENDPOINT:
		o->endpoint = (uint32_t)bench_number("endpoint", arg, 0, MX_ANY_ENDPOINT - 1);
		return true;
	case BENCH_O_BOARD:
		o->board = (uint32_t)bench_number("board", arg, 0, MX_ANY_NIC - 1);
		return true;
	case BENCH_O_NO_BIND:
		o->no_bind = true;
		return true;
	case BENCH_O_FRESH:
		o->fresh = true;
		return true;
	case BENCH_O_ROUNDS:
		o->rounds = (unsigned)bench_number("rounds", arg, 1, BENCH_MAX_ROUNDS);
		return true;
	case BENCH_O_TIME:
		o->seconds = bench_real("time", arg, 100000) / 1e3;
		return true;
	case BENCH_O_TIMEOUT:
		o->timeout = bench_real("timeout", arg, 1e6);
		return true;
	case BENCH_O_CSV:
		bench_set_format(&o->format, TABLE_CSV);
		return true;
	case BENCH_O_JSON:
		bench_set_format(&o->format, TABLE_JSON);
		return true;
	case BENCH_O_HELP:
	case 'h':
		o->help = true;
		return true;
	case BENCH_O_VERSION:
	case 'V':
		o->version = true;
		return true;
	default:
		return false;
	}
}

void bench_options_end(struct bench_options *o, int argc, char **argv, const char *help)
{
	if (o->help)
		bench_help(help);
	if (o->version)
		bench_version();
	bench_cli_end(argc, argv);
	if (o->local + o->server + (o->host != NULL) > 1)
		bench_usage("--local, --server and --host exclude each other");
	o->mode = o->server		    ? BENCH_SERVER
		  : o->host		    ? BENCH_CLIENT
		  : !o->local && launched() ? BENCH_JOB
					    : BENCH_LOCAL;
	if (o->host && !*o->host)
		bench_usage("--host needs a name");
	if (o->mode == BENCH_CLIENT && o->endpoint == MX_ANY_ENDPOINT)
		bench_usage("--host needs the server's --endpoint");
	if (o->mode != BENCH_SERVER && o->mode != BENCH_CLIENT && o->endpoint != MX_ANY_ENDPOINT)
		bench_usage("--endpoint goes with --server or --host");
}
