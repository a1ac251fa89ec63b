/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided access: what goes over the wire, and what window*.c share. */
#ifndef TW_WINDOW_INTERNAL_H
#define TW_WINDOW_INTERNAL_H

#include "engine/engine.h"
#include "engine/window.h"

/* In the flags of a TW_WINDOW packet. */
enum tw_window_what {
	TW_WINDOW_ASK,	   /* for a window */
	TW_WINDOW_GRANT,   /* the answer */
	TW_WINDOW_PUT,	   /* served accesses, or pieces of them */
	TW_WINDOW_GET,
	TW_WINDOW_CHANGE,
	TW_WINDOW_REPLY,   /* to one of those: its request is the packet's match */
	TW_WINDOW_NOTIFY,  /* the datum is its match, the length its len */
	TW_WINDOW_REVOKE,  /* the window is to end */
	TW_WINDOW_RELEASE, /* the peer has let go of it */
};
#define TW_WINDOW_DELEGATED 0x80 /* also of PUT, GET, CHANGE: at is its turn, see ring.h */

/* The payload of all but NOTIFY begins with this; the match of PUT, GET, CHANGE is a request. */
struct tw_window_msg {
	uint64_t key;
	uint64_t number; /* of the registration; ASK: 0 */
	uint64_t offset; /* GRANT: the address */
	uint64_t len;	 /* of the piece. GRANT: of the window */
	uint32_t at;	 /* of the piece in its request, also in the REPLY */
	uint8_t status;	 /* GRANT, REPLY: enum tw_status */
	uint8_t rights;	 /* GRANT */
	uint8_t op, type; /* CHANGE; then follow operand and compare, if the op has them */
} TW_WIRE;
_Static_assert(sizeof(struct tw_window_msg) == 40, "wire format");

#define TW_WINDOW_PIECE 8192 /* bytes of a served access that one packet carries */
#define TW_WINDOW_ASKED 32   /* packets to one peer that wait for a reply */

/* Whether the op takes an operand, and compares. */
static inline uint32_t tw_atomic_operands(enum tw_atomic_op op)
{
	return op == TW_ATOMIC_READ ? 0 : op >= TW_ATOMIC_CSWAP ? 2 : 1;
}

static inline bool tw_window_within(uint64_t offset, uint64_t len, uint64_t size)
{
	return offset <= size && len <= size - offset;
}

/* TW_S_OK if a window of this size and these rights allows that access. */
enum tw_status tw_window_check(unsigned rights, uint64_t size, unsigned wanted, uint64_t offset,
			       uint64_t len);
/* The rights that an atomic needs. */
unsigned tw_atomic_rights(enum tw_atomic_op op, bool result);
/* Makes elements what hosts of any byte order exchange, or of that what they were. */
void tw_atomic_wire(void *elements, uint32_t len, enum tw_atomic_type type);
/*
 * Does it, with what came and for what goes; old receives what was there. The memory has room,
 * and the atomic exists.
 */
void tw_atomic_apply(char *memory, char *old, const struct tw_window_msg *m, const char *operand);
/* A packet for tw_am_queue(); its data follows the message. NULL when memory is short. */
struct tw_req *tw_window_new(struct tw_peer *p, enum tw_window_what what, uint64_t match,
			     const struct tw_window_msg *m, uint32_t len);
/*
 * Queues one as a reply, which counts in p->windows.due until it has left. Returns where its len
 * bytes of data belong; NULL when memory is short.
 */
char *tw_window_reply(struct tw_peer *p, enum tw_window_what what, uint64_t match,
		      const struct tw_window_msg *m, uint32_t len);
/* Handles the packets for the owner of a window. */
enum tw_err tw_window_serve(struct tw_peer *p, struct tw_hdr hdr, struct tw_window_msg *m,
			    const char *data, uint32_t len);
void tw_window_owner_lost(struct tw_peer *p);
void tw_window_owner_fini(struct tw_ep *ep);

#define TW_WINDOW_LISTS 256 /* of windows by key, a power of two */

/* Of an endpoint that has or knows windows. */
struct tw_windows {
	struct tw_list own[TW_WINDOW_LISTS], known[TW_WINDOW_LISTS];
	struct tw_list ending; /* own ones that peers still know */
	uint64_t number;       /* of the last registration */
	uint64_t last_key;     /* that was assigned */
};

static inline struct tw_list *tw_window_list(struct tw_list *lists, uint64_t key)
{
	return &lists[key * 0x9e3779b97f4a7c15u >> 56 & (TW_WINDOW_LISTS - 1)];
}

/*
 * Knowledge of a window of a peer:
 *
 *   NEW     nothing; the first access that is to move asks
 *   ASKED   accesses wait for the answer (TW_XFER_ASKING)
 *   OPEN    they go on
 *   ENDED   the owner has revoked it, or never had it: those that have begun end. After the
 *           last one it is released
 */
enum tw_import_state { TW_IMPORT_NEW, TW_IMPORT_ASKED, TW_IMPORT_OPEN, TW_IMPORT_ENDED };

struct tw_import {
	struct tw_list node;	/* by key, until it is ENDED */
	struct tw_list of_peer; /* all of them */
	struct tw_peer *peer;
	struct tw_window_msg grant; /* key and number are those of the window */
	uint32_t users;		    /* requests that name it */
	uint32_t key_len;
	uint8_t state;
	struct tw_req *release; /* revoked: what the owner waits for */
	uint8_t provider_key[TW_KEY_MAX];
};

/* window_known.c: the window of that key; NULL when memory is short. */
struct tw_import *tw_import_get(struct tw_peer *p, uint64_t key);
/* Asks for it; false when there is no room. */
bool tw_import_ask(struct tw_peer *p, struct tw_import *w);
/* A request that named it is over. */
void tw_import_put(struct tw_import *w);
/* The lists of this endpoint; NULL when memory is short. */
struct tw_windows *tw_windows_get(struct tw_ep *ep);
/* The packets that tell of windows. */
enum tw_err tw_import_granted(struct tw_peer *p, const struct tw_window_msg *m, const char *key,
			      uint32_t len);
enum tw_err tw_import_revoked(struct tw_peer *p, const struct tw_window_msg *m);

#endif /* TW_WINDOW_INTERNAL_H */
