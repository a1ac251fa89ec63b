/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes, processors and addresses, for libraries without a launcher of their own. */
#ifndef COMPARE_LAUNCH_H
#define COMPARE_LAUNCH_H

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCH_RANKS 64
#define ADDRESS_MAX 4000

/* Binds the caller to the n-th of a list like "0,2,4", counted round and round. */
static inline void launch_bind(int n, const char *list)
{
	int cpus[CPU_SETSIZE], count = 0;
	cpu_set_t set;

	for (const char *c = list; *c && count < CPU_SETSIZE; c += *c == ',')
		cpus[count++] = (int)strtol(c, (char **)&c, 10);
	CPU_ZERO(&set);
	if (count)
		CPU_SET(cpus[n % count], &set);
	if (!count || sched_setaffinity(0, sizeof set, &set) < 0) {
		perror(list);
		exit(1);
	}
}

/* Between the processes of one launch. */
struct launch {
	struct {
		_Alignas(64) _Atomic(size_t) len; /* 0: not known yet */
		char bytes[ADDRESS_MAX];
	} address[LAUNCH_RANKS];
};

static struct launch *launch;
static int launch_children;

/* Memory of all processes that are forked later. */
static inline void *launch_share(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

/* In a wait for another process: gives way, and ends with it. */
static inline void launch_yield(void)
{
	if (launch_children && waitpid(-1, NULL, WNOHANG) > 0)
		exit(1); /* it has said why */
	sched_yield();
}

/* Forks: each process returns its rank, the first one 0. */
static inline int launch_fork(int n)
{
	pid_t parent = getpid();

	launch = launch_share(sizeof *launch);
	fflush(NULL);
	for (int i = 1; i < n; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			exit(1);
		}
		if (pid == 0) {
			launch_children = 0;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				exit(1);
			return i;
		}
		launch_children++;
	}
	return 0;
}

/* Rank 0, at the end: fails if any of the others did. */
static inline void launch_join(void)
{
	int status;

	for (; launch_children > 0; launch_children--)
		if (wait(&status) < 0 || status != 0) {
			fprintf(stderr, "one of the processes failed\n");
			exit(1);
		}
}

static inline void launch_tell(int rank, const void *address, size_t len)
{
	if (len == 0 || len > ADDRESS_MAX) {
		fprintf(stderr, "an address of %zu bytes\n", len);
		exit(1);
	}
	memcpy(launch->address[rank].bytes, address, len);
	atomic_store(&launch->address[rank].len, len);
}

/* Waits until that rank has told. */
static inline const void *launch_ask(int rank, size_t *len)
{
	while ((*len = atomic_load(&launch->address[rank].len)) == 0)
		launch_yield();
	return launch->address[rank].bytes;
}

#endif /* COMPARE_LAUNCH_H */
