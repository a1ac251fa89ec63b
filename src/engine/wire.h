/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of the engine. The first word of struct tw_hdr holds, from
 * the low end, type (8 bits), flags (8), credits (16) and len (32). By type:
 *
 *   type    match              len             payload
 *   EAGER   match information  message length  [sender's ref if SYNC] [data if IMM] first bytes
 *   FRAG    -                  -               the next bytes of that message
 *   RTS     match information  message length  struct tw_rts [data if IMM] [remote key]
 *   CTS     sender's ref       bytes to send    receiver's ref
 *   DATA    receiver's ref     offset          bytes
 *   DONE    sender's ref       bytes taken     -  (flags: enum tw_done)
 *   ACK     sender's ref       -               -
 *   CREDIT  -                  -               -
 *   AM      interface's         payload length   bytes  (for its am_handler)
 *   CANCEL  sender's ref       -               -
 *   CANCELLED sender's ref     -               -  (flags: enum tw_cancel)
 *   WINDOW  window_internal.h  payload length   struct tw_window_msg [data]  (flags: its kind)
 *
 * EAGER, FRAG, RTS and AM arrive in the order of the sends. The rest names its
 * request and may overtake. EAGER, FRAG, RTS and CREDIT return credits; those of any other
 * packet count too, but are 0.
 */
#ifndef TW_WIRE_H
#define TW_WIRE_H

#include "providers/provider.h"

enum tw_packet {
	TW_EAGER = 1,
	TW_FRAG,
	TW_RTS,
	TW_CTS,
	TW_DATA,
	TW_DONE,
	TW_ACK,
	TW_CREDIT,
	TW_CANCEL,
	TW_CANCELLED,
	TW_AM,
	TW_WINDOW,
};

/* Flags of EAGER. */
#define TW_FLAG_SYNC 1	 /* acknowledge the match */
#define TW_FLAG_BEYOND 2 /* also: it is short, and takes no credit */
#define TW_FLAG_IMM 4	 /* also of RTS: eight bytes of immediate data come with the message */

/* Bytes that fit any unexpected message: the longest BEYOND. */
#define TW_SMALL_MAX 128
/* Bytes of an active message at most, which is one packet. */
#define TW_AM_MAX 1024

enum tw_done { TW_DONE_OK, TW_DONE_FAILED };

enum tw_cancel { TW_CANCEL_OK, TW_CANCEL_LATE }; /* late: it was matched before */

/* A request of the other side: checked before use, never trusted. */
struct tw_ref {
	uint32_t index, gen;
} TW_WIRE;

struct tw_rts {
	struct tw_ref ref;
	uint64_t address; /* of the data if it is one piece that can be read, or 0 */
			  /* If so, the key follows where the link has keys. */
} TW_WIRE;
_Static_assert(sizeof(struct tw_rts) == 16, "wire format");

static inline struct tw_hdr tw_hdr_make(uint8_t type, uint8_t flags, uint16_t credits, uint32_t len,
					uint64_t match)
{
	return (struct tw_hdr){
		(uint64_t)len << 32 | (uint64_t)credits << 16 | (uint64_t)flags << 8 | type, match};
}

static inline uint8_t tw_hdr_type(struct tw_hdr h)
{
	return (uint8_t)h.what;
}

static inline uint8_t tw_hdr_flags(struct tw_hdr h)
{
	return (uint8_t)(h.what >> 8);
}

static inline uint16_t tw_hdr_credits(struct tw_hdr h)
{
	return (uint16_t)(h.what >> 16);
}

static inline uint32_t tw_hdr_len(struct tw_hdr h)
{
	return (uint32_t)(h.what >> 32);
}

static inline uint64_t tw_ref_pack(struct tw_ref r)
{
	return (uint64_t)r.gen << 32 | r.index;
}

static inline struct tw_ref tw_ref_unpack(uint64_t w)
{
	return (struct tw_ref){(uint32_t)w, (uint32_t)(w >> 32)};
}

/* Credits are counted in lines. Returns the credits of a message of this length. */
static inline uint32_t tw_credit_cost(uint32_t len)
{
	return 1 + (len >> 6) + ((len & 63) != 0);
}

/* The credits of a message of the fast path that is not empty, see fast.h. */
#define TW_FAST_COST 2u

#endif /* TW_WIRE_H */
