/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract between the engine and what carries its packets.
 *
 * A provider moves packets to a peer in order and without loss, says when
 * peers come and go, and reads and writes remote memory if it can. It knows nothing of
 * matching, requests or protocols: a packet is a header of 16 bytes, which it
 * must not look into, and a payload.
 *
 * Every operation is called with the endpoint's lock held and must not block.
 * Every upcall is made from inside one of these operations, never from a
 * thread of the provider's own, except where an upcall says more.
 */
#ifndef TW_PROVIDER_H
#define TW_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"

struct sockaddr_storage;

/* A provider should carry a payload this short in one cache line with its header. */
#define TW_SHORT_MAX 40

/*
 * A packet header as it travels; its content is the engine's affair. Two words,
 * passed by value, so that it stays in registers: built field by field in
 * memory and then copied whole, it would stall every send.
 */
struct tw_hdr {
	uint64_t what; /* type, flags, credits, length: see src/engine/wire.h */
	uint64_t match;
};
_Static_assert(sizeof(struct tw_hdr) == 16, "wire format");

/* Who an endpoint is; exchanged when two connect. */
struct tw_ident {
	uint64_t nic_id;
	uint32_t endpoint_id;
	uint32_t session; /* random, of this opening */
	uint32_t filter;  /* the endpoint's own */
	uint32_t key;	  /* the filter it presents to the other */
	uint32_t window;  /* eager credits it grants to the other */
};

/* One connection; the provider embeds it at the start of its own. */
struct tw_link {
	const struct tw_provider *provider;
	void *peer;	      /* the engine's, set by it */
	uint32_t max_payload; /* longest payload of one packet */
	uint32_t key_size;    /* bytes of a remote key; 0: nothing needs to be registered */
	bool can_get;	      /* get() and put() work as far as is known */
	bool direct;	      /* a get is a plain copy: nothing can be faster */
	bool by_cpu;	      /* get and put are done by the caller's processor */
	bool far;	      /* a packet costs more than copying it, and so does an answer */
};

#define TW_KEY_MAX 48

/*
 * Memory that the peer of a link may read and write. Address and key are what
 * the peer passes to get() and put(); where key_size is 0 a pointer will do.
 */
struct tw_mem_reg {
	uint64_t address;
	uint8_t key[TW_KEY_MAX];
	void *handle; /* the provider's */
};

/* How urgent a packet is for the other side's engine. */
enum tw_send_class {
	TW_SEND_PLAIN,	 /* may wait until the peer looks */
	TW_SEND_ENGINE,	 /* the peer's engine must act: wake it if it idles */
	TW_SEND_CONTROL, /* as ENGINE, and may use the space kept for control */
	TW_SEND_NOTICE,	 /* as PLAIN, and may use that space */
	TW_SEND_MORE,	 /* as PLAIN, and may wait for the next one, which is sent at once */
};

static inline bool tw_send_reserved(enum tw_send_class cls)
{
	return cls == TW_SEND_CONTROL || cls == TW_SEND_NOTICE;
}

/*
 * What the engine offers. A file descriptor that the provider watches belongs
 * to a tw_watch that it adds to the endpoint's epoll set (host->epfd) with
 * data.ptr; its ready() is called under the lock, from whichever thread found
 * the descriptor readable.
 */
struct tw_watch {
	void (*ready)(struct tw_watch *w, uint32_t events);
};

struct tw_host {
	const struct tw_upcalls *up;
	int epfd;
	struct tw_ident self;
	const uint64_t *boards; /* NIC ids of this host */
	unsigned nboards;
	uint64_t *counters; /* enum tw_counter */
	bool waiting;	    /* who arms is a call that sleeps until something comes */
	bool rxq_empty;	    /* the last receive has got its message: more would be unexpected */
};

struct tw_upcalls {
	/*
	 * A packet arrived. The payload is valid only during the call and may
	 * lie in memory that the peer can still write. TW_AGAIN: not now, offer
	 * it again at the next progress(), and nothing behind it before.
	 */
	enum tw_err (*packet)(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			      uint32_t len);
	/*
	 * Another endpoint wants to connect. TW_OK: the engine has set
	 * link->peer and the link is up. Otherwise the reason to refuse with.
	 * Fills in me, which is what the other side is told.
	 */
	enum tw_err (*incoming)(struct tw_host *host, struct tw_link *link,
				const struct tw_ident *other, struct tw_ident *me);
	/* An own connect succeeded, or failed; after a failure the link is gone. */
	void (*connected)(struct tw_link *link, const struct tw_ident *other);
	void (*refused)(struct tw_link *link, enum tw_err why);
	/* The peer is gone: TW_ECLOSED or TW_ELOST. The link is gone after it. */
	void (*down)(struct tw_link *link, enum tw_err why);
	/* A get or put that was TW_PENDING is over; its memory is the caller's again. */
	void (*ended)(struct tw_link *link, void *cookie, enum tw_err err);
	/* There is something for progress() that no descriptor tells of. */
	void (*wake)(struct tw_host *host);
	/* Have expire() called at that tick of tw_clock() or soon after. */
	void (*timer)(struct tw_host *host, uint64_t when);
	/*
	 * Whether progress() is worth its call. It is called until the provider
	 * says no, so that one without connections costs nothing.
	 */
	void (*poll)(struct tw_host *host, void *instance, bool on);
	/* Where a NIC is on the network, without asking anybody; TW_EUNREACH. */
	enum tw_err (*locate)(struct tw_host *host, uint64_t nic_id, struct sockaddr_storage *sa);
};

struct tw_provider {
	const char *name;
	/* Makes the endpoint reachable. TW_EBUSY if its id is taken. */
	enum tw_err (*open)(struct tw_host *host, void **instance);
	/* Ends all links, silently, after what was sent has been handed over. */
	void (*close)(void *instance);
	/*
	 * Gives the endpoint's name free, ahead of close(). Without the lock: a signal
	 * handler calls it, amid any other operation. NULL where there is no name.
	 */
	void (*hide)(void *instance);
	/* Whether an endpoint of that name could be reached this way. */
	bool (*reaches)(void *instance, uint64_t nic_id, uint32_t endpoint_id);
	/*
	 * Begins to connect. TW_OK with the link: it ends by connected() or
	 * refused(), perhaps before this returns; peer is put into the link.
	 */
	enum tw_err (*connect)(void *instance, const struct tw_ident *me, uint64_t nic_id,
			       uint32_t endpoint_id, void *peer, struct tw_link **link);
	/* Ends a link, up or not, in order; no upcall is made for it. */
	void (*disconnect)(struct tw_link *link);
	/*
	 * Sends one packet: TW_OK when everything was copied or handed over, the
	 * buffers are free again; TW_AGAIN when there is no room.
	 */
	enum tw_err (*send)(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			    const struct iovec *iov, unsigned niov, uint32_t len);
	/*
	 * Reads the peer's memory at an address into iov, or writes it from iov.
	 * TW_OK when done. TW_PENDING when started: ended() follows, before any
	 * down(), and iov's memory (not iov) is in use until then; after a
	 * disconnect() or close() it is not touched any more. TW_AGAIN when too
	 * many are under way: one of them ends. TW_EPERM when it cannot be done
	 * (the data may still be sent; the system refuses, then can_get is false
	 * from now on, or the key is of a path that is gone), TW_EFAULT, TW_ELOST.
	 * A get may be done twice, and so may a put before it has ended. Once a
	 * link has ended on this side, no put of the peer touches memory here.
	 */
	enum tw_err (*get)(struct tw_link *link, const struct iovec *iov, unsigned niov,
			   uint64_t address, const void *key, void *cookie);
	enum tw_err (*put)(struct tw_link *link, const struct iovec *iov, unsigned niov,
			   uint64_t address, const void *key, void *cookie);
	/*
	 * Lets the peer of a link read and write memory, until mem_dereg() or the
	 * end of the link. Both NULL where key_size is always 0. TW_ENOMEM, TW_EPERM.
	 */
	enum tw_err (*mem_reg)(struct tw_link *link, void *addr, size_t len, struct tw_mem_reg *mr);
	void (*mem_dereg)(struct tw_link *link, struct tw_mem_reg *mr);
	/* Whether the other side still holds its end. */
	bool (*alive)(struct tw_link *link);
	/*
	 * Whether the peer has looked for packets in the last microseconds, and
	 * since that tick. Where it does so all the time, it has soon after any.
	 */
	bool (*polls)(struct tw_link *link, uint64_t since);
	/* Whether a call of the peer's program sleeps. May be NULL: not known here. */
	bool (*waits)(struct tw_link *link);
	/* Takes in what has arrived; the number of packets. */
	unsigned (*progress)(void *instance);
	/*
	 * About to sleep: from now on any packet wakes us through epfd. True if
	 * something is already there: do not sleep. Ended by disarm().
	 */
	bool (*arm)(void *instance);
	void (*disarm)(void *instance);
	/* A timer asked for has come; the next tick wanted, or 0. */
	uint64_t (*expire)(void *instance, uint64_t now);
};

#endif /* TW_PROVIDER_H */
