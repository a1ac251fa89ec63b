/* SPDX-License-Identifier: BSD-2-Clause */
#include "cores.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

#define CPUS 4096

/* A number of the processor's place; -1 when the system does not tell. */
static int topology(int cpu, const char *what)
{
	char path[96];
	int v = -1;
	FILE *f;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
	f = fopen(path, "r");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

/* How good cpu is beside first; the higher the better. */
static int fitness(int first, int cpu)
{
	bool package = topology(first, "physical_package_id") ==
		       topology(cpu, "physical_package_id");
	int core = topology(cpu, "core_id");

	if (core >= 0 && package && topology(first, "core_id") == core)
		return 0; /* two threads of one core */
	return package ? 2 : 1;
}

bool bench_cores(int cpus[2])
{
	size_t size = CPU_ALLOC_SIZE(CPUS);
	cpu_set_t *set = CPU_ALLOC(CPUS);
	int best = -1;

	cpus[0] = cpus[1] = -1;
	if (!set)
		return false;
	if (sched_getaffinity(0, size, set) < 0)
		CPU_ZERO_S(size, set);
	for (int cpu = 0; cpu < CPUS && best < 2; cpu++) {
		if (!CPU_ISSET_S((size_t)cpu, size, set))
			continue;
		if (cpus[0] < 0) {
			cpus[0] = cpu;
			continue;
		}
		int f = fitness(cpus[0], cpu);

		if (f > best) {
			best = f;
			cpus[1] = cpu;
		}
	}
	CPU_FREE(set);
	return cpus[1] >= 0;
}

void bench_bind(int cpu)
{
	size_t size = CPU_ALLOC_SIZE(CPUS);
	cpu_set_t *set = CPU_ALLOC(CPUS);

	if (!set)
		bench_fail("no memory");
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)cpu, size, set);
	if (sched_setaffinity(0, size, set) < 0)
		bench_fail("core %d: %s", cpu, strerror(errno));
	CPU_FREE(set);
}
