/* SPDX-License-Identifier: BSD-2-Clause */
#include "vm/vm.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/twt.h"

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

uint64_t vm_devices(const char *what)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		unsigned long long n;
		char path[200];
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/infiniband/rxe%d/ports/1/hw_counters/%s",
			 i, what);
		f = fopen(path, "re");
		if (!f || fscanf(f, "%llu", &n) != 1)
			fail(path);
		fclose(f);
		sum += n;
	}
	return sum;
}

char vm_state(pid_t pid)
{
	char path[64], text[300] = "";
	const char *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		fail(path);
	fclose(f);
	p = strrchr(text, ')');
	return p && isspace((unsigned char)p[1]) ? p[2] : 0;
}

void vm_stop(pid_t pid)
{
	double end = twt_now() + TWT_LONG;

	if (kill(pid, SIGSTOP) != 0)
		fail("kill");
	while (vm_state(pid) != 'T') {
		if (twt_now() > end)
			fail("a process does not stop");
		usleep(10000);
	}
}
