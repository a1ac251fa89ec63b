/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

static pthread_once_t registered = PTHREAD_ONCE_INIT;
static _Atomic(bool) have_private, have_global;

static int membarrier(int cmd)
{
	return (int)syscall(__NR_membarrier, cmd, 0, 0);
}

static void __attribute__((noreturn)) barrier_refused(void)
{
	tw_log_refused("membarrier, which worked at first; install system call filters before "
		       "the library is initialized");
	abort();
}

/*
 * The other side has no fence of its own. Should the call be refused after it was granted,
 * by a seccomp filter that came late, nothing excludes anybody any more.
 */
static void order(int cmd)
{
	/* The kernel's own memory for it may be short for a moment. */
	while (membarrier(cmd) != 0)
		if (errno == ENOMEM)
			sched_yield();
		else
			barrier_refused();
}

static void barrier_ask(void)
{
	have_private = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
	have_global = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void tw_barrier_register(void)
{
	pthread_once(&registered, barrier_ask);
}

void tw_barrier_forked(void)
{
	registered = (pthread_once_t)PTHREAD_ONCE_INIT;
}

bool tw_barrier_private(void)
{
	return have_private;
}

bool tw_barrier_global(void)
{
	tw_barrier_register();
	return have_global;
}

void tw_barrier_threads(void)
{
	if (have_private)
		order(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	atomic_thread_fence(memory_order_seq_cst);
}

void tw_barrier_processes(void)
{
	if (have_global)
		order(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	atomic_thread_fence(memory_order_seq_cst);
}
