/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fds.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/log.h"
#include "base/sys.h"

#define MAX_FDS 65536

/* The file of each number when it became ours; 0: it is not. */
static _Atomic(uint32_t) owned[MAX_FDS];
static _Atomic(int) highest;

/* Of the file that a number has now. Sockets differ; event and poll descriptors do not. */
static uint32_t file_of(int fd)
{
	struct stat st;
	uint64_t n;

	if (tw_sys_fstat(fd, &st) < 0)
		return 1;
	n = ((uint64_t)st.st_dev << 32 ^ (uint64_t)st.st_ino) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(n >> 32) | 1;
}

int tw_fd_own(int fd)
{
	int top = atomic_load(&highest);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		tw_log_no_descriptor(); /* which keeps errno */
	if (fd < 0 || fd >= MAX_FDS)
		return fd;
	atomic_store(&owned[fd], file_of(fd));
	while (fd > top && !atomic_compare_exchange_weak(&highest, &top, fd))
		;
	return fd;
}

bool tw_fd_ours(int fd)
{
	return fd >= MAX_FDS || (fd >= 0 && atomic_load(&owned[fd]) == file_of(fd));
}

/* Forgets it. False: the program has closed ours, and the number is of another file now. */
static bool disown(int fd)
{
	uint32_t file = fd < MAX_FDS ? atomic_exchange(&owned[fd], 0) : 0;

	return !file || file == file_of(fd);
}

void tw_fd_close(int fd)
{
	if (fd >= 0 && disown(fd))
		tw_sys_close(fd);
}

void tw_fds_forked(void)
{
	int top = atomic_load(&highest);

	for (int fd = 0; fd <= top; fd++)
		if (atomic_load(&owned[fd]))
			tw_fd_close(fd);
}
