/* SPDX-License-Identifier: BSD-2-Clause */
/* Boards, their names and NIC ids, and the hosts of numbered nodes. No lock is needed. */
#ifndef TW_NAMING_H
#define TW_NAMING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "providers/provider.h"

#define TW_MAX_NODES 256
#define TW_NIC_IPV4 0x0274ull /* the upper half of a NIC id whose lower half is an address */

struct sockaddr_storage;

struct tw_board {
	uint64_t nic_id;
	char ifname[16];
	uint32_t speed; /* MB/s, 0 unknown */
	int numa_node;	/* -1 none */
	int merit;	/* see boards.c */
};

enum tw_err tw_naming_init(void);
unsigned tw_boards(const struct tw_board **boards);
/* The number of the best board (0), the next best, and so on, when the library was started. */
uint32_t tw_board_best(uint32_t rank);
/*
 * Whether it reaches other hosts, as far as can be known. Where none does, the best counts:
 * who asks for other hosts there has none.
 */
bool tw_board_reaches(uint32_t board);
/* How many of the best are not the loopback; 1 where there is no other. */
unsigned tw_boards_beyond_lo(void);
/*
 * May ask the other host, and so take seconds. TW_EUNREACH: no such host; TW_EPROTO: it is neither
 * HOST nor HOST:BOARD; TW_ECLOSED: the host does not have that board; TW_ETIMEDOUT: no process
 * there said which boards it has; TW_ENOMEM: no descriptor is left, and that was logged.
 */
enum tw_err tw_name_to_nic(const char *name, uint64_t *nic_id);
/* The end of a message that this error has befallen a name: why, or what to do. */
const char *tw_name_advice(enum tw_err err);
enum tw_err tw_nic_to_name(uint64_t nic_id, char *name, unsigned len);
/* For messages, without a question to anybody: NAME:BOARD, else an address, else the NIC id. */
void tw_nic_text(uint64_t nic_id, char *out, unsigned len);
/* The IP address of a NIC, with port 0. TW_EUNREACH: none. TW_AGAIN: it can be found. */
enum tw_err tw_nic_to_address(uint64_t nic_id, struct sockaddr_storage *sa);
/* Whether it is known as a board of another host that only that host reaches, as its loopback. */
bool tw_nic_leads_nowhere(uint64_t nic_id);
/* The board of a NIC id; false if it is not on this host. */
bool tw_board_of(uint64_t nic_id, uint32_t *board);
/* NIC ids of this host, for providers. */
const uint64_t *tw_local_nics(unsigned *n);
/* How many of them, the first ones, lead to other hosts. */
unsigned tw_boards_leading(void);
/* Name and boards of this host, for others. */
void tw_naming_describe(struct tw_host_boards *out);
/* Whether a NIC id is of an address. It is kept if that is sure to be another host's. */
bool tw_naming_found(uint64_t nic_id, const struct sockaddr_storage *sa, bool sure);

/* topology.c */

/*
 * The NIC ids of n numbered nodes, or ranks, by TAGWIRE_NODES, which live here if it does not
 * name them. False if that is invalid or names a node from limit on.
 */
bool tw_topology_parse(uint64_t *nics, unsigned n, unsigned limit, uint64_t here);
/*
 * The same for all nodes, board 0 being here; or nodes live on these hosts, TW_MAX_NODES NIC
 * ids. The calls below need it.
 */
bool tw_topology_init(const uint64_t *hosts);
uint64_t tw_topology_node_nic(uint32_t node);
/* The board of a node; false if it lives on another host. */
bool tw_topology_node_board(uint32_t node, uint32_t *board);
/* The other hosts that nodes live on. Returns their number. */
unsigned tw_topology_other_hosts(uint64_t *others, unsigned max);

#endif /* TW_NAMING_H */
