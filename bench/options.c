/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "benchlib.h"

/* A launcher, or somebody by hand, has started several of us. */
static bool launched(void)
{
	return getenv("PMIX_RANK") || getenv("TAGWIRE_RANK");
}

/* The sizes that a tool has, or NULL. */
static const struct bench_range *option_sizes(const struct cli_option *options)
{
	while (options->name && options->type != CLI_T_SIZE)
		options++;
	return options->to;
}

void bench_options(struct bench_options *o, int argc, char **argv, const struct cli_option *options,
		   const char *help)
{
	const struct bench_range *sizes = option_sizes(options);
	struct bench_range all = sizes ? *sizes : (struct bench_range){.min = 0};

	bench_cli(argc, argv, options, help);
	bench_cli_end(argc, argv);
	if (o->local + o->server + (o->host != NULL) > 1)
		bench_usage("--local, --server and --host exclude each other");
	if (o->server && sizes &&
	    (sizes->one || sizes->min != all.min || sizes->max != all.max))
		bench_usage("--server takes no sizes: the client chooses the sizes");
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
