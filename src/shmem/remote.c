/* SPDX-License-Identifier: BSD-2-Clause */
#include "shmem/remote.h"

#include <errno.h>

#include "base/guard.h"
#include "base/sys.h"

static void skip(struct tw_pieces *p, size_t bytes)
{
	while (p->n && bytes >= p->iov->iov_len) {
		bytes -= p->iov->iov_len;
		p->iov++;
		p->n--;
	}
	if (bytes) {
		p->iov->iov_base = (char *)p->iov->iov_base + bytes;
		p->iov->iov_len -= bytes;
	}
}

static enum tw_err remote_failed(int error)
{
	switch (error) {
	case EFAULT:
	case EINVAL:
		return TW_EFAULT;
	case ESRCH:
		return TW_ELOST;
	case ENOMEM:
		return TW_ENOMEM;
	default:
		return TW_EPERM;
	}
}

enum tw_err tw_remote_copy(pid_t pid, bool write, struct tw_pieces *local, struct tw_pieces *remote)
{
	/* The kernel may stop between two pages, or before what is not there. */
	while (local->n && remote->n) {
		ssize_t n =
			tw_sys_vm_copy(pid, write, local->iov, local->n, remote->iov, remote->n);

		if (n <= 0)
			return n < 0 ? remote_failed(errno) : TW_EPERM;
		skip(local, (size_t)n);
		skip(remote, (size_t)n);
	}
	return TW_OK;
}

bool tw_remote_here(const struct tw_pieces *left, bool write)
{
	char byte = 0, *at = left->n ? left->iov->iov_base : &byte;

	/* The byte keeps its value. */
	return tw_guard_copy(true, &byte, at, 1) == TW_OK &&
	       (write || tw_guard_copy(false, at, &byte, 1) == TW_OK);
}
