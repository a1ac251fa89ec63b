/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fds.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/sys.h"

#define MAX_FDS 65536

static _Atomic(uint64_t) owned[MAX_FDS / 64];
static _Atomic(int) highest;

int tw_fd_own(int fd)
{
	int top = atomic_load(&highest);

	if (fd < 0 || fd >= MAX_FDS)
		return fd;
	atomic_fetch_or(&owned[fd / 64], 1ull << (fd % 64));
	while (fd > top && !atomic_compare_exchange_weak(&highest, &top, fd))
		;
	return fd;
}

void tw_fd_close(int fd)
{
	if (fd < 0)
		return;
	if (fd < MAX_FDS)
		atomic_fetch_and(&owned[fd / 64], ~(1ull << (fd % 64)));
	tw_sys_close(fd);
}

void tw_fds_forked(void)
{
	int top = atomic_load(&highest);

	for (int fd = 0; fd <= top; fd++)
		if (atomic_load(&owned[fd / 64]) >> (fd % 64) & 1)
			tw_sys_close(fd);
	for (int i = 0; i <= top / 64; i++)
		atomic_store(&owned[i], 0);
}
