/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A number of the structures that mx_why reads from outside. It differs where any of them does,
 * so that a tool never reads the memory of a program that was built from another version.
 */
#ifndef TW_LAYOUT_H
#define TW_LAYOUT_H

#include "base/hash.h"
#include "engine/transfer.h"
#include "engine/types.h"

/* Count it up with a change of meaning that leaves sizes and places as they are. */
#define TW_LAYOUT_VERSION 4

static inline uint32_t tw_layout(void)
{
	const size_t of[] = {
		TW_LAYOUT_VERSION,
		sizeof(void *),
		sizeof(struct tw_ep),
		offsetof(struct tw_ep, slow_path),
		offsetof(struct tw_ep, peers),
		offsetof(struct tw_ep, match),
		offsetof(struct tw_ep, reqs),
		offsetof(struct tw_ep, host),
		offsetof(struct tw_ep, changed_at),
		sizeof(struct tw_req),
		offsetof(struct tw_req, posted),
		offsetof(struct tw_req, remote),
		offsetof(struct tw_req, peeked_by),
		sizeof(struct tw_peer),
		offsetof(struct tw_peer, credits),
		offsetof(struct tw_peer, sendq),
		offsetof(struct tw_peer, trouble),
		sizeof(struct tw_trouble),
		sizeof(struct tw_unexp_msg),
		offsetof(struct tw_unexp_msg, unexp),
		sizeof(struct tw_source),
		sizeof(struct tw_slot_entry),
		sizeof(struct tw_match_head),
		sizeof(struct tw_stats_fence),
		TW_NXFERS,
		TW_NSTATUS,
	};

	return (uint32_t)tw_hash(TW_HASH_START, of, sizeof(of));
}

#endif /* TW_LAYOUT_H */
