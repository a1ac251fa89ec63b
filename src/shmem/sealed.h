/* SPDX-License-Identifier: BSD-2-Clause */
/* Anonymous memory shared between processes, which no process can shrink. */
#ifndef TW_SEALED_H
#define TW_SEALED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A process that could shrink the memory could kill another with SIGBUS. */
#define TW_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Only mappings that exist already can write; since Linux 5.1. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

/* A file of that size, the first `ready' bytes of which have pages. Returns -1 with errno set. */
int tw_sealed_file(const char *name, uint64_t size, uint64_t ready, int seals);
/* Maps it shared; children do not inherit it. Returns NULL on failure. */
void *tw_sealed_map(int fd, size_t size, int prot);
/* Makes the file and maps it. */
enum tw_err tw_sealed_make(const char *name, size_t size, int seals, int *fd, void **out);
/* True if it is ordinary memory of exactly this size that cannot be shrunk. */
bool tw_sealed_sound(int fd, uint64_t size);

#endif /* TW_SEALED_H */
