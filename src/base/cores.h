/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TW_CORES_H
#define TW_CORES_H

#include <stdbool.h>

void tw_cores_begin(void);
void tw_cores_end(void);

/*
 * Whether this thread takes no processor from any other: the machine has as many as threads
 * that run, and this one is not bound to one processor. True where the system does not tell.
 */
bool tw_cores_idle(void);
/* The same of a thread that would join this one, as of some time in the last 10 ms. */
bool tw_cores_spare(void);

#endif /* TW_CORES_H */
