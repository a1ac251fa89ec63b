/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asymmetric barriers. The fast side stores, then loads, and only the compiler is kept from
 * reordering. The slow side stores, calls a barrier here, then loads. Either the slow side
 * sees the store of the fast side, or the fast side sees that of the slow side. Without
 * membarrier(2) both sides need a full fence instead.
 */
#ifndef TW_BARRIER_H
#define TW_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Registers the process, once. The kernel takes 10 to 40 ms for that if the process has threads, so
 * only a process pays that makes a lock or a link.
 */
void tw_barrier_register(void);
/* A forked child registers anew. */
void tw_barrier_forked(void);

/* True if the barrier of a thread reaches the other threads of this process, which has a lock. */
bool tw_barrier_private(void);
/* True if barriers of other processes reach this one. Registers it. */
bool tw_barrier_global(void);

/* Orders memory on every running thread of this process. */
void tw_barrier_threads(void);
/* Orders memory on every running thread of every registered process. */
void tw_barrier_processes(void);

/* Keeps the compiler from moving memory accesses across. */
#define tw_barrier_compiler() atomic_signal_fence(memory_order_seq_cst)

#endif /* TW_BARRIER_H */
