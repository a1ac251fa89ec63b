/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "benchlib.h"

/* A launcher, or somebody by hand, has started several of us. */
static bool launched(void)
{
	return getenv("PMIX_RANK") || getenv("TAGWIRE_RANK");
}

void bench_options(struct bench_options *o, int argc, char **argv, const struct cli_option *options,
		   const char *help)
{
	bench_cli(argc, argv, options, help);
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
