/* SPDX-License-Identifier: BSD-2-Clause */
#include "peek.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/list.h"

bool peek(struct peek *m, uint64_t at, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)at, len};
	ssize_t n;

	if (!at || m->denied || m->reads == PEEKS)
		return false;
	m->reads++;
	n = process_vm_readv(m->pid, &local, 1, &remote, 1, 0);
	if (n < 0 && (errno == EPERM || errno == ENOSYS))
		m->denied = true;
	return n == (ssize_t)len;
}

bool peek_list(struct peek *m, uint64_t head, unsigned max, bool (*see)(void *arg, uint64_t node),
	       void *arg)
{
	uint64_t at = head;
	struct tw_list l;

	for (unsigned i = 0; i <= max; i++) {
		if (!peek(m, at, &l, sizeof l))
			return false;
		at = (uintptr_t)l.next;
		if (at == head)
			return true;
		if (!see(arg, at))
			return true;
	}
	return true;
}
