/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Barriers that one side pays for. The fast side stores, then loads, with only
 * the compiler held in order; the slow side stores, calls a barrier here, then
 * loads. Either the slow side sees the store or the fast side sees the slow
 * side's. Without membarrier(2) both sides need a full fence instead.
 */
#ifndef TW_BARRIER_H
#define TW_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* Registers the process; call once before anything below. */
void tw_barrier_init(void);

/* Whether threads of this process can be reached by each other's barrier. */
bool tw_barrier_private(void);
/* Whether this process can be reached by other processes' barriers. */
bool tw_barrier_global(void);

/* Orders memory on every running thread of this process. */
void tw_barrier_threads(void);
/* Orders memory on every running thread of every registered process. */
void tw_barrier_hosts(void);

/* Keeps the compiler from moving memory accesses across. */
#define tw_barrier_compiler() atomic_signal_fence(memory_order_seq_cst)

#endif /* TW_BARRIER_H */
