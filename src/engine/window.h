/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided access: an endpoint registers memory as a window under a 64-bit key, and peers put
 * to it, get from it and change it atomically, by key and offset. It works with every peer,
 * the endpoint itself included.
 *
 * The first access to a window asks its owner for address, rights and the provider's key.
 * From then on the provider's get and put move the data, and the owner takes no part. Where
 * they cannot, or are refused, the owner's engine serves the access, in pieces. Atomics are
 * always served, which makes them atomic towards each other. The service thread serves while
 * the owner's program computes.
 *
 * An access is a request as any other. Its memory is the engine's until it ends:
 *
 *   TW_S_OK            a get: the data is here. A put or an atomic: the data is in the window,
 *                      and whatever is sent to its owner from then on finds it there.
 *   TW_S_BAD_WINDOW    the owner has no window of that key (any more)
 *   TW_S_OUT_OF_WINDOW the access is not within the window
 *   TW_S_NO_RIGHT      the window does not allow it, or the atomic does not exist
 *   TW_S_ABORTED       the memory of the window is not there
 *   TW_S_NO_RESOURCES  memory is short
 *   TW_S_REJECTED      no connect of this side has presented the owner's filter
 *   TW_S_BAD_SESSION, and what sends end with, if the owner is gone
 *
 * A put or get that fails may have moved a part of its data. Accesses have no order among
 * each other, but for atomics on one window: these happen in the order of the calls.
 *
 * Everything here is called with the endpoint's lock held, from any thread. window.c is the
 * side that accesses, window_known.c what it knows of windows, window_owner.c the other side,
 * and window_atomic.c computes.
 */
#ifndef TW_WINDOW_H
#define TW_WINDOW_H

#include "engine/types.h"

/* The owner ------------------------------------------------------------------ */

enum tw_window_rights {
	TW_WINDOW_READ = TW_MEM_READ,	/* gets, and atomics that return what was there */
	TW_WINDOW_WRITE = TW_MEM_WRITE, /* puts */
	TW_WINDOW_ATOMIC = 4, /* atomics; those that return something need READ, too */
	TW_WINDOW_ASSIGN = 8, /* in tw_window_register() only: the engine chooses the key */
	TW_WINDOW_REPORT = 16   /* no right: an access that ends well has TW_X_REPORT, and the
				 interface of that side is to tell this one of it */
};

/*
 * Registers memory, which stays valid until the window is deregistered or the endpoint closed.
 * Windows may overlap, and have memory that is not there: an access to that fails. So base NULL
 * and SIZE_MAX bytes are the whole address space. TW_EBUSY: the key is in use; TW_EFAULT: the
 * memory goes beyond the address space; TW_ENOMEM.
 */
enum tw_err tw_window_register(struct tw_ep *ep, void *base, size_t len, unsigned rights,
			       uint64_t *key);
/*
 * Begins to deregister: new accesses end with TW_S_BAD_WINDOW, and the key may be used again.
 * Returns a number for tw_window_ended(); 0: there is no window of that key. The memory is
 * the program's again when that is true: each peer that knew the window has let go of it, so
 * that nothing it has begun can touch the memory any more, or its link has ended. A peer lets
 * go by itself, without a call of its program; what it has begun may end with TW_S_BAD_WINDOW.
 */
uint64_t tw_window_end(struct tw_ep *ep, uint64_t key);
/*
 * Does not wait for the peers: where a network has a key of the memory, the key ends now. An access
 * under way may break its connection's path; over libfabric it may go on, as it does over shared
 * memory, where there is no key. 0: does nothing.
 */
void tw_window_take_back(struct tw_ep *ep, uint64_t number);
/* A test for tw_wait(): the argument points to that number. */
bool tw_window_ended(struct tw_ep *ep, void *number);
/* Waits for it. TW_W_TIMEOUT: inside the handler of unexpected messages, where nothing can wait. */
enum tw_waited tw_window_wait(struct tw_ep *ep, uint64_t number);
/*
 * Both: releases the lock while it waits. TW_EWINDOW: no window has that key; TW_ECLOSED: the
 * endpoint is being closed, after which the memory is the program's; TW_AGAIN: inside the
 * handler of unexpected messages, where nothing can wait: it has begun.
 */
enum tw_err tw_window_deregister(struct tw_ep *ep, uint64_t key);

/* The other side -------------------------------------------------------------- */

/*
 * Puts r (TW_WRITE) at an offset of a peer's window, gets r (TW_READ) from there, or does r
 * (TW_ATOMIC, see tw_window_atomic()). After tw_window_notify() a put calls the
 * window_notified() of the owner's interface, once its data is there.
 */
void tw_window_access(struct tw_ep *ep, struct tw_req *r, struct tw_addr owner, uint64_t key,
		      uint64_t offset);
void tw_window_notify(struct tw_req *r, uint64_t datum);

/* Numbered like the constants of libfabric. */
enum tw_atomic_op {
	TW_ATOMIC_MIN,
	TW_ATOMIC_MAX,
	TW_ATOMIC_SUM,
	TW_ATOMIC_PROD,
	TW_ATOMIC_LOR, /* these give 0 or 1 */
	TW_ATOMIC_LAND,
	TW_ATOMIC_BOR, /* not of a float or double */
	TW_ATOMIC_BAND,
	TW_ATOMIC_LXOR,
	TW_ATOMIC_BXOR,
	TW_ATOMIC_READ,
	TW_ATOMIC_WRITE, /* with a result: swap */
	TW_ATOMIC_CSWAP, /* stores the operand if compare == what is there */
	TW_ATOMIC_CSWAP_NE,
	TW_ATOMIC_CSWAP_LE,
	TW_ATOMIC_CSWAP_LT,
	TW_ATOMIC_CSWAP_GE,
	TW_ATOMIC_CSWAP_GT,
	TW_ATOMIC_MSWAP, /* stores the bits of the operand that compare has set */
	TW_ATOMIC_OPS
};
enum tw_atomic_type {
	TW_ATOMIC_INT8,
	TW_ATOMIC_UINT8,
	TW_ATOMIC_INT16,
	TW_ATOMIC_UINT16,
	TW_ATOMIC_INT32,
	TW_ATOMIC_UINT32,
	TW_ATOMIC_INT64,
	TW_ATOMIC_UINT64,
	TW_ATOMIC_FLOAT,
	TW_ATOMIC_DOUBLE,
	TW_ATOMIC_TYPES
};
#define TW_ATOMIC_MAX_BYTES 1024 /* of the elements of one */

struct tw_atomic {
	enum tw_atomic_op op;
	enum tw_atomic_type type;
	uint32_t count;
	const void *operand; /* of all but READ; copied, as is the next */
	const void *compare; /* of CSWAP and MSWAP */
	void *result;	     /* receives what was there; or NULL, but for READ. Not copied. */
};

/* The bytes of an element; 0: there is no such type. */
uint32_t tw_atomic_size(enum tw_atomic_type type);
/* Whether there is this operation on this type. */
bool tw_atomic_exists(enum tw_atomic_op op, enum tw_atomic_type type);
/*
 * A request for tw_window_access(); NULL when memory is short or without such an atomic. The
 * elements are changed one by one, each at once, also as the owner's program sees it if it is
 * aligned.
 */
struct tw_req *tw_window_atomic(struct tw_ep *ep, const struct tw_atomic *a);
/* Frees what an atomic has that was never begun, and ends. */
void tw_window_abandon(struct tw_req *r);
/*
 * Ends r, of kind TW_FLUSH, when all puts and atomics to a peer that were begun before have
 * ended. Only the loss of the peer makes it fail.
 */
void tw_window_flush(struct tw_ep *ep, struct tw_req *r, struct tw_addr owner);

/* For the engine ---------------------------------------------------------------- */

static inline bool tw_is_access(const struct tw_req *r)
{
	return TW_USES_WINDOWS && (r->kind == TW_READ || r->kind == TW_WRITE || r->kind == TW_ATOMIC);
}

/* Moves a piece of an access; false when there is no room. */
bool tw_window_move(struct tw_peer *p, struct tw_req *r);
/* An access is refused: the key may have been lost with a path. In the state ACCESS again. */
void tw_window_again(struct tw_peer *p, struct tw_req *r);
/* An access is over. */
void tw_window_access_over(struct tw_peer *p, struct tw_req *r);
enum tw_err tw_window_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			     uint32_t len);
/* The peer is gone, and all requests to it have ended. */
void tw_windows_lost(struct tw_peer *p);
/* The endpoint ends. Frees also what a request has, whose peer may be gone. */
void tw_windows_fini(struct tw_ep *ep);

#endif /* TW_WINDOW_H */
