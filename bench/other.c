/* SPDX-License-Identifier: BSD-2-Clause */
#include "other.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "cores.h"

static pid_t other; /* 0 none */

bool bench_other_ended(int *status, int flags)
{
	if (other <= 0 || waitpid(other, status, flags) <= 0)
		return false;
	other = 0;
	return true;
}

/* A run that fails must end its other end. */
static void end_other(void)
{
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
}

void bench_both_here(void)
{
	const char *rank = getenv("PMIX_RANK");

	if (rank && strcmp(rank, "0") != 0)
		exit(0);
	unsetenv("PMIX_RANK");
	unsetenv("PMIX_NAMESPACE");
}

pid_t bench_fork(bool *bind)
{
	int cpus[2];
	pid_t parent = getpid();

	if (*bind && !bench_cores(cpus)) {
		fprintf(stderr,
			"%s: both ends share one core, which distorts the figures; run it on two: "
			"mpirun --bind-to none, or a wider taskset\n",
			bench_tool);
		*bind = false;
	}
	fflush(NULL);
	other = fork();
	if (other < 0)
		bench_fail("fork: %s", strerror(errno));
	if (*bind)
		bench_bind(cpus[other == 0]);
	if (other > 0) {
		atexit(end_other);
		return other;
	}
	bench_role = " (other end)";
	/* The leading end decides when to stop. */
	signal(SIGINT, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		exit(1);
	return 0;
}
