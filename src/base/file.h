/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads small text files of the system. */
#ifndef TW_FILE_H
#define TW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rest of the first line that begins with the key; false: there is none. */
bool tw_file_line(const char *path, const char *key, char *rest, size_t size);
/* The number that this begins with. */
bool tw_file_number(const char *path, const char *key, uint64_t *value);

#endif /* TW_FILE_H */
