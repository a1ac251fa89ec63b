/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Panda puts into match information, in place of the trailer behind the data
 * that the specification allows for: from the low end, port or ticket (32 bits), how
 * many messages of the receiver it acknowledges (16), how it is to be
 * acknowledged (2). What is acknowledged without a message travels as TELL
 * (engine/wire.h).
 *
 * Acknowledgements are counted: messages of a sender arrive in order, so "so many
 * more" says which. Counted are those that were sent eagerly or pushed; one
 * that the receiver has read itself is acknowledged by DONE.
 */
#ifndef TW_PANDA_WIRE_H
#define TW_PANDA_WIRE_H

#include <stdint.h>

#define TW_PANDA_ACKED_MAX 0xffffu

static inline uint64_t tw_panda_match(uint32_t port, uint32_t acked, unsigned ack)
{
	return (uint64_t)ack << 48 | (uint64_t)acked << 32 | port;
}

static inline uint32_t tw_panda_port_of(uint64_t match)
{
	return (uint32_t)match;
}

static inline uint32_t tw_panda_acked_of(uint64_t match)
{
	return (uint32_t)(match >> 32) & TW_PANDA_ACKED_MAX;
}

static inline unsigned tw_panda_ack_of(uint64_t match)
{
	return (unsigned)(match >> 48) & 3;
}

#endif /* TW_PANDA_WIRE_H */
