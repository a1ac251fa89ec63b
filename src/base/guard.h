/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the program's that a peer's command names. It may be read-only or gone by now, which is
 * no reason to end the program: the kernel copies, and says so. It is the kernel's local side,
 * which may also be memory that the kernel reads for nobody else, as that of a device. TW_EFAULT:
 * it is not there; TW_ENOMEM.
 */
#ifndef TW_GUARD_H
#define TW_GUARD_H

#include <errno.h>
#include <linux/futex.h>

#include "base/compiler.h"
#include "base/err.h"
#include "base/page.h"
#include "base/sys.h"

#define TW_GUARD_PIECE 4096u /* what a pipe takes at least */

/* Where the system refuses the other way. */
static inline enum tw_err tw_guard_by_pipe(char *to, const char *from, size_t len)
{
	enum tw_err err = TW_OK;
	int fd[2];

	if (tw_sys_pipe(fd) < 0)
		return TW_ENOMEM;
	while (len && err == TW_OK) {
		size_t n = tw_min(len, (size_t)TW_GUARD_PIECE);

		if (tw_sys_write(fd[1], from, n) != (ssize_t)n ||
		    tw_sys_read(fd[0], to, n) != (ssize_t)n)
			err = TW_EFAULT;
		to += n;
		from += n;
		len -= n;
	}
	tw_sys_close(fd[0]);
	tw_sys_close(fd[1]);
	return err;
}

/* get: from the program's memory; else to it. */
static inline enum tw_err tw_guard_copy(bool get, void *to, const void *from, size_t len)
{
	struct iovec there = {to, len}, here = {(void *)(uintptr_t)from, len};
	ssize_t n = 0;

	while (len && n >= 0) {
		n = tw_sys_vm_copy(tw_sys_pid(), get, get ? &here : &there, 1, get ? &there : &here,
				   1);
		if (n == (ssize_t)there.iov_len)
			return TW_OK;
		if (n == 0)
			return TW_EFAULT;
		if (n < 0)
			return errno == EFAULT ? TW_EFAULT
					       : tw_guard_by_pipe(there.iov_base, here.iov_base,
								  there.iov_len);
		there = (struct iovec){(char *)there.iov_base + n, there.iov_len - (size_t)n};
		here = (struct iovec){(char *)here.iov_base + n, here.iov_len - (size_t)n};
	}
	return TW_OK;
}

/* Whether all of it can be written, as an atomic must: adds 0 to a word of each page. */
static inline bool tw_guard_writable(void *at, size_t len)
{
	uintptr_t word = (uintptr_t)at & ~(uintptr_t)3, end = (uintptr_t)at + len;
	uint32_t none = 0;

	for (; word < end; word = tw_page_down(word) + tw_page_size())
		if (syscall(SYS_futex, &none, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0l,
			    (void *)word, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) < 0 &&
		    errno == EFAULT)
			return false;
	return true;
}

#endif /* TW_GUARD_H */
