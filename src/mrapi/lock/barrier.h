/* SPDX-License-Identifier: BSD-2-Clause */
/* Barriers and exchanges around atomic operations. */
#ifndef TW_MRAPI_BARRIER_H
#define TW_MRAPI_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "mrapi.h"

/* The kind of access, for an exchange. */
enum tw_mrapi_access { TW_MRAPI_NEITHER, TW_MRAPI_READS, TW_MRAPI_WRITES };

bool tw_mrapi_barrier_sound(const mrapi_atomic_barrier_t *axb);
/* Pauses; false once the deadline has passed or the node has ended. */
bool tw_mrapi_barrier_wait(uint32_t node, uint64_t deadline, unsigned spins);
/* Enters the element for that node, unless it is inside. */
bool tw_mrapi_barrier_enter(mrapi_atomic_barrier_t *axb, uint32_t node,
			    enum tw_mrapi_access access, uint64_t deadline);
/*
 * Leaves the element, unless the caller keeps it or is not inside. done false: a lock
 * was not taken; the caller then stays inside only if it has read or written something
 * there.
 */
void tw_mrapi_barrier_leave(mrapi_atomic_barrier_t *axb, bool done);

#endif /* TW_MRAPI_BARRIER_H */
