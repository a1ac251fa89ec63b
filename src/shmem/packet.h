/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of a packet, in a ring and elsewhere. */
#ifndef TW_PACKET_H
#define TW_PACKET_H

#include <stdint.h>

#include "base/compiler.h"

/* A provider should carry a payload this short next to its header. */
#define TW_SHORT_MAX 64

/*
 * A packet header. Only the engine interprets it. Two words, passed by value so that it
 * stays in registers (doc/decisions.md, 11).
 */
struct tw_hdr {
	uint64_t what; /* type, flags, credits, length: see src/engine/wire.h */
	uint64_t match;
} TW_WIRE;
_Static_assert(sizeof(struct tw_hdr) == 16, "wire format");

#endif /* TW_PACKET_H */
