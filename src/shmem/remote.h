/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies between the memories of two processes, by the kernel. */
#ifndef TW_REMOTE_H
#define TW_REMOTE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/err.h"

#define TW_REMOTE_ALIVE_US 1000 /* a process that was alive so lately still has its number */

/* A list of pieces of memory; none is empty. */
struct tw_pieces {
	struct iovec *iov;
	unsigned n;
};

/*
 * Reads what is remote, in the process of that number, or writes there. Both sides are of
 * one length. The lists are used up: what is left of them was not copied. TW_ELOST: there is
 * no such process; it may also have another owner by now, which is for the caller to see.
 * TW_EFAULT: memory that is not there, on either side. TW_EPERM: the system does not allow it.
 */
enum tw_err tw_remote_copy(pid_t pid, bool write, struct tw_pieces *local,
			   struct tw_pieces *remote);

/*
 * Of a copy that failed by TW_EFAULT, and what is left of this side: whether that is there. If so,
 * the kernel does not access the other side's memory, which its program may do all the same (memory
 * of a device, memfd_secret).
 */
bool tw_remote_here(const struct tw_pieces *left, bool write);

#endif /* TW_REMOTE_H */
