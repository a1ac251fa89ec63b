/* SPDX-License-Identifier: BSD-2-Clause */
/* The key that a launcher has given to the processes of a job; forked children have it, too. */
#ifndef TW_JOBKEY_H
#define TW_JOBKEY_H

#include <stdbool.h>
#include <stdint.h>

#define TW_JOBKEY 32 /* bytes */

void tw_jobkey_set(const uint8_t key[TW_JOBKEY]);
/* In a forked child. */
void tw_jobkey_forked(void);
bool tw_jobkey_get(uint8_t key[TW_JOBKEY]);

#endif /* TW_JOBKEY_H */
