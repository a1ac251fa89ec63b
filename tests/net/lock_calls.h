/* SPDX-License-Identifier: BSD-2-Clause */
/* A child that does one call of MRAPI's locks, ids and nodes after another, as it is told. */
#ifndef LOCK_CALLS_H
#define LOCK_CALLS_H

#include <stdbool.h>

#include "mrapi.h"

enum lock_kind { MUTEX, RECURSIVE, SEM, READER, WRITER, KINDS };
/* clang-format off */
enum lock_call {
	CREATE, GET, LOCK, TRY, UNLOCK, UNLOCK_TWICE, DELETE, NODE, SHARE, PAIRS, CROWD, MUTE, END, QUIT
};
/* clang-format on */

struct call {
	uint8_t what, kind;
	uint32_t id; /* or the node's number */
	mrapi_timeout_t timeout;
	mrapi_node_t node;
	bool ext;
};

struct answer {
	mrapi_status_t st;
	bool got;
	double seconds;
};

/* Reads calls from fd and writes answers. The argument is its name; "third": on NET_THIRD. */
int lock_calls_obey(void *arg, int fd);

#endif /* LOCK_CALLS_H */
