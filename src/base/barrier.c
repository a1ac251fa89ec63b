/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic(bool) have_private, have_global;

static int membarrier(int cmd)
{
	return (int)syscall(__NR_membarrier, cmd, 0, 0);
}

void tw_barrier_init(void)
{
	have_private = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
	have_global = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

bool tw_barrier_private(void)
{
	return have_private;
}

bool tw_barrier_global(void)
{
	return have_global;
}

void tw_barrier_threads(void)
{
	if (have_private)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	atomic_thread_fence(memory_order_seq_cst);
}

void tw_barrier_hosts(void)
{
	if (have_global)
		membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	atomic_thread_fence(memory_order_seq_cst);
}
