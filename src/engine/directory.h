/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, between directory.c and peers.c. */
#ifndef TW_DIRECTORY_H
#define TW_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The NIC of a name or a numeric address, by the resolver. */
enum tw_err tw_resolve(const char *host, uint64_t *nic_id);

/* Reads the file; an empty name is none. TW_EPERM when that does not work. */
enum tw_err tw_peers_load(const char *path);
/* What the file says; false: nothing. */
bool tw_peers_nic(const char *host, unsigned long board, uint64_t *nic_id);
bool tw_peers_name(uint64_t nic_id, char *name, unsigned len);

#endif /* TW_DIRECTORY_H */
