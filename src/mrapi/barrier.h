/* SPDX-License-Identifier: BSD-2-Clause */
/* Barriers and exchanges, for the operations that they surround. */
#ifndef TW_MRAPI_BARRIER_H
#define TW_MRAPI_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "mrapi.h"

/* What an operation is to an exchange. */
enum tw_mrapi_access { TW_MRAPI_NEITHER, TW_MRAPI_READS, TW_MRAPI_WRITES };

bool tw_mrapi_barrier_sound(const mrapi_atomic_barrier_t *axb);
/* When to give up what begins now. */
uint64_t tw_mrapi_barrier_deadline(const mrapi_atomic_barrier_t *axb);
/* Whether there is time for another look, after a moment. */
bool tw_mrapi_barrier_wait(uint64_t deadline, unsigned spins);
/* Takes the element, unless the caller has it. */
bool tw_mrapi_barrier_enter(mrapi_atomic_barrier_t *axb, enum tw_mrapi_access access,
			    uint64_t deadline);
/*
 * Gives it back, unless the caller holds it, or has none. Not done: a lock was not to be
 * had; then the caller goes on holding only if it has read or written something there.
 */
void tw_mrapi_barrier_leave(mrapi_atomic_barrier_t *axb, bool done);

#endif /* TW_MRAPI_BARRIER_H */
