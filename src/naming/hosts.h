/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this folder. */
#ifndef TW_HOSTS_H
#define TW_HOSTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define TW_USES_NAMES (TW_HAVE_MX || TW_HAVE_NET) /* names of other hosts */

/* boards.c */

/* TW_EPROTO, with a message, if TAGWIRE_BOARDS leaves none. */
enum tw_err tw_boards_find(void);
/* The NIC id of an address that reaches other hosts, and of any, this host's among them. */
uint64_t tw_nic_of(const struct sockaddr_storage *sa);
uint64_t tw_nic_at(const struct sockaddr_storage *sa);
/* Whether it is a hash of an address. */
bool tw_nic_hashed(uint64_t nic_id);
const struct sockaddr_storage *tw_board_address(uint32_t board);
/* The board that has an address. */
bool tw_board_at(const struct sockaddr_storage *sa, uint32_t *board);

/* hosts.c: other hosts, as far as they are known. */

#define TW_BEST_BOARD UINT32_MAX /* in place of a number: a name without one */

struct tw_known {
	char name[256]; /* "": only the address is known */
	uint32_t board;
	bool best;  /* of its host's */
	bool fixed; /* by the hosts file */
	uint64_t nic_id;
	struct sockaddr_storage address; /* AF_UNSPEC: it reaches nobody here */
};

/* Forgets everything and reads the hosts file; an empty path means none. */
enum tw_err tw_hosts_load(const char *path);
/* In place of what was told before: of that name and number, or NIC id where there is no name. */
enum tw_err tw_hosts_add(const struct tw_known *k);
bool tw_hosts_find(const char *name, uint32_t board, struct tw_known *out);
/* Prefers an entry with a name. */
bool tw_hosts_find_nic(uint64_t nic_id, struct tw_known *out);

/* naming.c */

/* NAME or NAME:BOARD; false if it is invalid. The name has room for 256 bytes. */
bool tw_name_parse(const char *text, char *name, uint32_t *board);
/* A numeric address, or a name's first one from the resolver: IPv4 if it has one. */
enum tw_err tw_resolve(const char *host, bool numeric, struct sockaddr_storage *sa);

#endif /* TW_HOSTS_H */
