/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol of MCAPI nodes. Match information of every message:
 *
 *   kind 4 bits | priority or scalar size 4 | epoch 24 | to port 16 | from port 16
 *
 * Messages and packets carry the user's bytes; the epoch of a message is its sender's node.
 * Control messages, each a struct tw_mcapi_ctrl, and scalars that cannot go through a ring are
 * active messages with such an argument. The receiver's node chooses the epoch of a channel,
 * which tells it from earlier ones, whichever node sent there.
 *
 * Connecting (T any node, a and b the nodes of sender A and receiver B):
 *   T -> a BIND, a -> b BIND2, b -> a REPLY, a -> T REPLY.
 * a reserves A before it sends BIND2, so that a second BIND is refused.
 */
#ifndef TW_MCAPI_WIRE_H
#define TW_MCAPI_WIRE_H

#include <stdint.h>

enum tw_mcapi_kind { TW_MCAPI_K_MSG = 1, TW_MCAPI_K_PKT, TW_MCAPI_K_SCL, TW_MCAPI_K_CTRL };

enum tw_mcapi_ctrl_what {
	TW_MCAPI_CTRL_GET = 1,	/* request: reply when endpoint a exists */
	TW_MCAPI_CTRL_CREDITS,	/* request: credits for messages to a */
	TW_MCAPI_CTRL_ATTR,	/* request: attribute `value' of a */
	TW_MCAPI_CTRL_BIND,	/* request: connect a to b */
	TW_MCAPI_CTRL_BIND2,	/* request: that of the sender's node */
	TW_MCAPI_CTRL_REPLY,	/* to any of these */
	TW_MCAPI_CTRL_CREDIT,	/* `value' more credits for messages to a */
	TW_MCAPI_CTRL_RECALL,	/* return unused credits for a */
	TW_MCAPI_CTRL_RETURN,	/* `value' unused credits */
	TW_MCAPI_CTRL_UNBIND,	/* the binding is over */
	TW_MCAPI_CTRL_OPENED,	/* the source's end is open */
	TW_MCAPI_CTRL_UNOPENED, /* its open was cancelled */
	TW_MCAPI_CTRL_CLOSED,	/* it is closed */
	TW_MCAPI_CTRL_TAKEN,	/* `value' packets or scalars were received */
	TW_MCAPI_CTRL_STARVED,	/* the sender is credit-starved */
	TW_MCAPI_CTRL_MAPPED,	/* the sender has mapped the ring */
	TW_MCAPI_CTRL_PAIRED,	/* the channel shares a token with the opposite one; yours first */
	TW_MCAPI_CTRL_WAKE	/* the ring has changed while you slept */
};

struct tw_mcapi_ctrl {
	uint8_t what;
	uint8_t type;	   /* of a channel: enum tw_mcapi_kind */
	uint8_t to_sender; /* of a channel: which end it is for */
	uint8_t flags;
	int32_t status;	    /* mcapi_status_t */
	uint32_t a, b;	    /* endpoints: of a channel, the sender and the receiver */
	uint32_t token;	    /* of the request */
	uint32_t requester; /* its node */
	uint32_t epoch;
	uint32_t value;
	/* OPENED of a scalar receiver: its ring, a descriptor of its process. */
	uint32_t has_fd, fd;
	uint64_t cookie;
} TW_WIRE;
_Static_assert(sizeof(struct tw_mcapi_ctrl) == 48, "wire format");

#define TW_MCAPI_CTRL_FENCE 1 /* of OPENED: global barriers do not reach this process */

static inline uint64_t tw_mcapi_match(enum tw_mcapi_kind kind, unsigned prio, uint32_t epoch,
				      uint32_t to, uint32_t from)
{
	return (uint64_t)kind << 60 | (uint64_t)prio << 56 | (uint64_t)epoch << 32 |
	       (uint64_t)(to & 0xffff) << 16 | (from & 0xffff);
}

static inline enum tw_mcapi_kind tw_mcapi_kind_of(uint64_t match)
{
	return (enum tw_mcapi_kind)(match >> 60);
}

static inline unsigned tw_mcapi_prio_of(uint64_t match)
{
	return (unsigned)(match >> 56) & 15;
}

static inline uint32_t tw_mcapi_epoch_of(uint64_t match)
{
	return (uint32_t)(match >> 32) & 0xffffff;
}

static inline uint32_t tw_mcapi_port_of(uint64_t match)
{
	return (uint32_t)(match >> 16) & 0xffff;
}

#endif /* TW_MCAPI_WIRE_H */
