/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/fds.h"
#include "base/sys.h"

#define SPARE_US 10000 /* reading what runs takes a microsecond or two */

/* The system's processors, as of the first call. */
static unsigned long count(void)
{
	static _Atomic(long) known;
	long n = atomic_load_explicit(&known, memory_order_relaxed);

	if (!n) {
		n = sysconf(_SC_NPROCESSORS_ONLN);
		atomic_store_explicit(&known, n, memory_order_relaxed);
	}
	return n > 0 ? (unsigned long)n : ~0ul;
}

static int loadavg = -1;

/* Open all the time: opened for each look, it would be left to a child forked meanwhile. */
void tw_cores_begin(void)
{
	loadavg = tw_fd_own(tw_sys_open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
}

void tw_cores_end(void)
{
	tw_fd_close(loadavg);
	loadavg = -1;
}

/* The fourth field of /proc/loadavg is "running/all" of the threads; 0: not known. */
static unsigned long running(void)
{
	char text[64], *slash;
	ssize_t n = tw_sys_read_start(loadavg, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	slash = strchr(text, '/');
	while (slash && slash > text && slash[-1] != ' ')
		slash--;
	return slash ? strtoul(slash, NULL, 10) : 0;
}

static bool room_for(unsigned long more)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1)
		return false;
	return running() + more <= count();
}

bool tw_cores_idle(void)
{
	return room_for(0);
}

bool tw_cores_spare(void)
{
	static _Atomic(uint64_t) asked; /* a tick; even if the answer was no */
	uint64_t now = tw_clock() | 1, last = atomic_load_explicit(&asked, memory_order_relaxed);

	if (now - last > tw_clock_us(SPARE_US)) {
		last = room_for(1) ? now : now - 1;
		atomic_store_explicit(&asked, last, memory_order_relaxed);
	}
	return last & 1;
}
