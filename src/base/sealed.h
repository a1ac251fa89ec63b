/* SPDX-License-Identifier: BSD-2-Clause */
/* Anonymous memory shared between processes, which no process can shrink. */
#ifndef TW_SEALED_H
#define TW_SEALED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A process that could shrink the memory could kill another with SIGBUS. */
#define TW_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Maps it shared; children do not inherit it. Returns NULL on failure. */
void *tw_sealed_map(int fd, size_t size, int prot);
enum tw_err tw_sealed_make(const char *name, size_t size, int seals, int *fd, void **out);
/* True if it is ordinary memory of exactly this size that cannot be shrunk. */
bool tw_sealed_sound(int fd, size_t size);

#endif /* TW_SEALED_H */
