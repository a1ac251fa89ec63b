/* SPDX-License-Identifier: BSD-2-Clause */
/* Heads of packets between hosts, and the messages of the control channel. */
#ifndef TW_NET_WIRE_H
#define TW_NET_WIRE_H

#include "providers/net/crypto.h"
#include "providers/net/driver.h"
#include "providers/provider.h"

#define TW_NET_DRIVERS 4

/* The head of a packet; control messages check the magic number. */
struct tw_net_wire {
	uint32_t conn; /* the receiver's name for the link */
	uint32_t seq;  /* of a probe and its answer the path's number */
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
	uint32_t filter, key, window, job, why;
	uint32_t conn, to_conn; /* the sender's name for the link, and the receiver's */
	uint32_t epoch, expected, seq;
	uint32_t port; /* where the sender listens, 0 nowhere */
	uint32_t noffers;
	uint32_t round;		/* of a RESUME; its answer has the same */
	uint8_t path, from, to; /* its number; the boards of both sides, as BOARDS has them */
	uint8_t unused;
	union {
		/* Best first; in answers the one chosen. */
		struct tw_net_offer offers[TW_NET_DRIVERS];
		struct tw_host_boards boards;
	};
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_ctrl) == 96 + TW_NET_DRIVERS * 116, "wire format");

_Static_assert(sizeof(struct tw_host_boards) == 456, "wire format");

#define TW_NET_MAGIC 0x74777270u
#define TW_NET_VERSION 5

/* The proof that a side gives and demands. */
enum tw_net_method {
	TW_NET_NONE,
	TW_NET_BY_KEY,
	TW_NET_FULL, /* nothing: the listener has no room just now, and hangs up */
	TW_NET_BY_MUNGE,
};

#define TW_NET_NAME 16 /* bytes of the name of a key */

struct tw_net_hello {
	uint32_t magic;
	uint16_t version, method;
	uint8_t nonce[TW_NET_KEY];
	union {
		uint8_t names[TW_NET_KEYS][TW_NET_NAME]; /* the caller's keys, 0 for none */
		uint8_t proof[TW_NET_KEY];		 /* the listener's */
	};
} TW_WIRE;
_Static_assert(sizeof(struct tw_net_hello) == 8 + 2 * TW_NET_KEY, "wire format");

/* The first words of both sides; with a key, others are derived from them. */
struct tw_net_transcript {
	char use[16];
	uint8_t caller[TW_NET_KEY]; /* its nonce, and the names of its keys */
	uint8_t names[TW_NET_KEYS][TW_NET_NAME];
	uint8_t listener[TW_NET_KEY]; /* its nonce */
};

/* A control message on its way. */
struct tw_net_sealed {
	uint8_t text[sizeof(struct tw_net_ctrl)];
	uint8_t tag[TW_NET_TAG];
};

/* A text and a 0. */
struct tw_net_credential {
	char text[sizeof(struct tw_net_sealed)];
};

/* The first message either way; only a caller's by MUNGE has a credential. */
struct tw_net_greeting {
	struct tw_net_hello hello;
	struct tw_net_credential credential;
};

#endif /* TW_NET_WIRE_H */
