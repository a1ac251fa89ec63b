/* SPDX-License-Identifier: BSD-2-Clause */
/* The hosts file. */
#ifndef TW_HOSTS_H
#define TW_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define TW_USES_NAMES (TW_HAVE_MX || TW_HAVE_NET) /* names of other hosts */

/* The NIC of a name or a numeric address, from the resolver. */
enum tw_err tw_resolve(const char *host, uint64_t *nic_id);

/* Reads the hosts file; an empty path means none. TW_EPERM on failure. */
enum tw_err tw_hosts_load(const char *path);
/* Looks a name up in the file; false if it is not there. */
bool tw_hosts_nic(const char *host, unsigned long board, uint64_t *nic_id);
bool tw_hosts_name(uint64_t nic_id, char *name, unsigned len);

#endif /* TW_HOSTS_H */
