/* SPDX-License-Identifier: BSD-2-Clause */
/* Heads of packets between hosts, and the messages of the control channel. */
#ifndef TW_NET_WIRE_H
#define TW_NET_WIRE_H

#include "providers/net/auth/crypto.h"
#include "providers/net/driver.h"
#include "providers/provider.h"

#define TW_NET_DRIVERS 4

/* The head of a packet; control messages check the magic number. */
struct tw_net_wire {
	uint32_t conn; /* the receiver's name for the link */
	uint32_t seq;
	uint32_t ack;  /* the next one expected */
	uint32_t kind;
	struct tw_hdr hdr;
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_wire) == 32, "wire format");

enum tw_net_kind {
	TW_NET_DATA = 0x7a01, /* counts in the sequence */
	TW_NET_ACK,	      /* seq is the next that will come */
	TW_NET_PROBE,	      /* does the path work? */
	TW_NET_PROBED,	      /* the answer */
};

/* Control messages, all of one size. */
enum tw_net_ctrl_type {
	TW_NET_CONNECT = 1,
	TW_NET_ACCEPT,
	TW_NET_REFUSE, /* why */
	TW_NET_WRONG,  /* it is another endpoint's port */
	TW_NET_RESUME, /* the path is broken, or this connection was */
	TW_NET_RESUMED,
	TW_NET_STATUS, /* expected; why != 0 wants one back */
	TW_NET_BYE,    /* seq is the first that is not sent any more; why */
	TW_NET_QUERY,  /* instead of CONNECT: which boards does that host have? */
	TW_NET_BOARDS, /* the answer; of a peer: where it can be reached, its own board first */
	TW_NET_LEAVE,  /* seq is the first that will not be sent; BYE follows, if it still can */
};

struct tw_net_offer {
	char name[12];
	uint32_t max_packet;
	struct tw_driver_address address;
} TW_WIRE;

struct tw_net_ctrl {
	uint32_t magic;
	uint16_t version, type;
	uint64_t nic_id, to_nic;
	uint32_t endpoint_id, to_endpoint, session, to_session;
	uint32_t filter, presented, window, job, why;
	uint32_t conn, to_conn; /* the sender's name for the link, and the receiver's */
	uint32_t unused, expected, seq;
	uint32_t port; /* where the sender listens, 0 nowhere */
	uint32_t noffers;
	uint32_t round;		/* of a RESUME; its answer has the same */
	uint8_t path, from, to; /* its number; the boards of both sides, as BOARDS has them */
	uint8_t launched;	/* the sender has a launcher's key */
	union {
		/* The first counts, which is all that a side offers; in answers the one chosen. */
		struct tw_net_offer offers[TW_NET_DRIVERS];
		struct tw_host_boards boards;
	};
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_ctrl) == 96 + TW_NET_DRIVERS * 116, "wire format");

_Static_assert(sizeof(struct tw_host_boards) == 456, "wire format");

#define TW_NET_MAGIC 0x74777270u
#define TW_NET_VERSION 8

/* The proof that a side gives and demands. */
enum tw_net_method {
	TW_NET_NONE,
	TW_NET_BY_KEY,
	TW_NET_FULL, /* nothing: the listener has no room just now, and hangs up */
	TW_NET_BY_MUNGE,
};
#define TW_NET_ENCRYPTED 0x100 /* beside a method: TAGWIRE_ENCRYPT=1 */

/* The first message either way, of this length in every version. */
struct tw_net_hello {
	uint32_t magic;
	uint16_t version, method;
	uint8_t nonce[32]; /* without TLS: tokens of paths come of it */
	uint8_t unused[32];
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_hello) == 72, "wire format");

/*
 * In a round: the path is made by a call of the side that was called on the control channel. A side
 * that asks for a path again and again alternates, as a firewall may let only one of the calls pass.
 */
#define TW_NET_ROUND_BACK 1u

#define TW_NET_CREDENTIAL 576 /* bytes of a credential, a text and a 0, at most */

/* An end of a path, of which its token is made. */
struct tw_net_path_end {
	uint32_t path, round; /* of CONNECT or RESUME */
	uint16_t asked_by_caller, of_caller;
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_path_end) == 12, "wire format");

/* A caller's name of its key in TLS. It repeats HELLO, which nobody can change then. */
struct tw_net_key_name {
	uint32_t magic;
	uint16_t version, method;
	uint32_t key;			    /* TW_NET_KEY_JOB or TW_NET_KEY_USER */
	char credential[TW_NET_CREDENTIAL]; /* by MUNGE only */
} TW_WIRE;

#endif /* TW_NET_WIRE_H */
