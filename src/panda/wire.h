/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Match information of Panda, which makes the trailer of the specification unnecessary: from
 * the low end, port or ticket (32 bits), the number of the receiver's messages that it
 * acknowledges (16), the kind of acknowledgement that it needs (2). Acknowledgements
 * without a message are an active message.
 *
 * Acknowledgements are a number: messages of a sender arrive in order, so it identifies
 * them. Messages sent eagerly or put are counted; one that the receiver has read itself is
 * acknowledged by DONE.
 */
#ifndef TW_PANDA_WIRE_H
#define TW_PANDA_WIRE_H

#include <stdint.h>

#include "pan_mp.h"

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

/* The match information of the message, which then asks for no acknowledgement. */
static inline uint64_t tw_panda_without_ack(uint64_t match)
{
	return (match & ~(3ull << 48)) | (uint64_t)PAN_MP_EXTERNAL << 48;
}

/* The match information of the message, which then acknowledges nothing. */
static inline uint64_t tw_panda_without_acked(uint64_t match)
{
	return match & ~((uint64_t)TW_PANDA_ACKED_MAX << 32);
}

#endif /* TW_PANDA_WIRE_H */
