/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract between the engine and a provider, which carries its packets.
 *
 * A provider moves packets to a peer in order and without loss, reports when peers appear
 * and disappear, and reads and writes remote memory if it can. It knows nothing of
 * matching, requests or protocols. A packet is a header of 16 bytes, which the provider
 * does not interpret, and a payload.
 *
 * The engine calls every operation with the endpoint's lock held. No operation blocks, except
 * close() (until what was sent is acknowledged), disconnect() (while a put of the peer is under
 * way), query() and describe(). A provider makes every upcall from inside an operation, never from
 * a thread of its own, except where the upcall says otherwise.
 */
#ifndef TW_PROVIDER_H
#define TW_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/rights.h"
#include "base/stats.h"
#include "shmem/packet.h"

struct sockaddr_storage;
struct tw_ring_tx;
struct tw_ring_rx;

#define TW_ID_MAX 6399 /* the highest endpoint id of any interface */

/* The identity of an endpoint, exchanged when two connect. */
struct tw_ident {
	uint64_t nic_id;
	uint32_t endpoint_id;
	uint32_t session; /* random, new at every open */
	uint32_t filter;  /* the endpoint's own */
	uint32_t presented; /* the filter that it presents to the other */
	uint32_t window;  /* eager credits that it grants to the other */
};

/* One connection. The provider embeds it at the start of its own structure. */
struct tw_link {
	const struct tw_provider *provider;
	void *peer;	      /* set and used by the engine */
	uint32_t max_payload; /* longest payload of one packet */
	uint32_t key_size;    /* bytes of a remote key; 0: nothing needs to be registered */
	pid_t pid;	      /* of the other end, 0 if it cannot be named here */
	bool can_get;	      /* rma() works, as far as is known */
	bool by_cpu;	      /* a get takes one processor, where both sides that copy take two */
	bool remote;	      /* a packet, and so a reply, costs more than a copy */
	/*
	 * Set by the provider while the link is up, or NULL: the engine writes short packets
	 * there itself, each as a send() of class PLAIN. It calls wake() after a packet that
	 * finds the reader armed, and no send() or expire() while it has the txq open.
	 */
	struct tw_ring_tx *txq;
	struct tw_stats_path paths[TW_STATS_PATHS]; /* for tools; see the upcall */
	const char *driver; /* for tools: the network that carries it; NULL: none does */
	uint8_t board;	    /* of this host; of a driver */
	bool hold;	    /* set in an upcall: the rest stays for the next poll, see tw_rxqs */
};

#define TW_KEY_MAX 48
#define TW_RMA_PIECES 16 /* pieces of memory of one get or put, at most */

/*
 * Memory that the peer of a link may read or write. The peer passes address and key to
 * rma(). Where key_size is 0 a plain pointer is enough.
 */
struct tw_mem_reg {
	uint64_t address;
	uint8_t key[TW_KEY_MAX];
	void *handle; /* used by the provider */
};

/*
 * A program without a poll for so long computes, and is served by its service thread. Sooner it may
 * as well be waiting for a processor, which that thread would take from it (doc/decisions.md, 8).
 */
#define TW_COMPUTES_US 4000

/* The urgency of a packet for the engine of the peer. */
enum tw_send_class {
	TW_SEND_PLAIN,	 /* may wait until the peer polls */
	TW_SEND_ENGINE,	 /* the peer's engine must act: wake it if its program computes */
	TW_SEND_CONTROL, /* as ENGINE, and may use the reserved space */
	TW_SEND_NOTICE,	 /* as PLAIN, and may use the reserved space */
	TW_SEND_MORE,	 /* as PLAIN, and may wait for the next packet, which follows at once */
};

static inline bool tw_send_acts(enum tw_send_class cls)
{
	return cls == TW_SEND_ENGINE || cls == TW_SEND_CONTROL;
}

static inline bool tw_send_reserved(enum tw_send_class cls)
{
	return cls == TW_SEND_CONTROL || cls == TW_SEND_NOTICE;
}

/*
 * Provided by the engine. A tw_watch stands for a descriptor that the provider watches. The
 * provider adds it to the endpoint's epoll set (host->epfd) with data.ptr. The thread that
 * finds the descriptor readable calls ready() under the lock.
 */
struct tw_watch {
	void (*ready)(struct tw_watch *w, uint32_t events);
};

/* The states of an endpoint: who polls it, or must be woken to poll it; see src/engine/idle.c. */
enum tw_idle_state {
	TW_POLLING,   /* calls of the program */
	TW_SERVED,    /* the service thread, as the program computes */
	TW_RESTING,   /* nobody, before a packet comes; the program computes */
	TW_ASLEEP,    /* nobody, before a packet comes; a call of the program waits for it */
	TW_COMPUTING, /* nobody, before a packet comes on which the engine must act */
	TW_IDLE_STATES
};

/* True if any packet must wake an endpoint in this state. */
static inline bool tw_idle_by_any(uint32_t state)
{
	return state & TW_RESTING;
}
_Static_assert((TW_ASLEEP & TW_RESTING) && !((TW_POLLING | TW_SERVED | TW_COMPUTING) & TW_RESTING),
	       "two states have that bit");

#define TW_MAX_BOARDS 16

/* The boards of a host, by number; sent as it is. */
struct tw_host_boards {
	uint64_t nic_id[TW_MAX_BOARDS];
	uint8_t address[TW_MAX_BOARDS][16]; /* IPv6; of IPv4 as ::ffff:a.b.c.d */
	char host[64];			    /* its name */
	uint32_t n, best;
} TW_WIRE;

/*
 * Shared memory is built into the engine: the rings that a provider (one, which has wake())
 * reads are tw_ring of src/shmem. The engine looks at them itself with every poll, takes their
 * packets, publishes that and shows every TW_RXQ_SHOWS-th poll to the writers. progress() is then
 * called only where a ring holds a packet that the engine does not accept (tw_ring_rx.refused),
 * where one of the inactive rings has a packet, and at every TW_RXQ_POLLS-th poll. It gives packets
 * to the upcall, too.
 */
#define TW_RXQ_POLLS 64 /* both powers of two */
#define TW_RXQ_SHOWS 8
#define TW_RXQ_BATCH 64u /* most packets of one ring before the others are looked at */
/* Memory that has not been needed for so long is given back. */
#define TW_UNUSED_US 1000000
struct tw_rxqs {
	struct tw_ring_rx **rx; /* the active ones, which every poll reads, first */
	unsigned nactive, n;
	unsigned turn; /* one of the others, for the next poll */
	bool dense;    /* polls are in close succession */
};

/* The place of the one whose turn it is; there is one. */
static inline unsigned tw_rxqs_turn(struct tw_rxqs *l)
{
	if (l->turn < l->nactive || l->turn >= l->n)
		l->turn = l->nactive;
	return l->turn;
}

struct tw_host {
	const struct tw_upcalls *up;
	int epfd;
	struct tw_ident self;
	const uint64_t *boards;	    /* NIC ids of this host */
	unsigned nboards, nleading; /* of them, the first ones, lead to other hosts */
	uint64_t *counters;	    /* enum tw_counter */
	enum tw_idle_state state;
	struct tw_rxqs rxqs;
	int holder; /* of the id, where open() has returned TW_EBUSY: a process, or 0 */
};

/* Whether a NIC is one of this host's. */
static inline bool tw_host_has(const struct tw_host *host, uint64_t nic_id)
{
	for (unsigned i = 0; i < host->nboards; i++)
		if (host->boards[i] == nic_id)
			return true;
	return false;
}

struct tw_upcalls {
	/*
	 * A packet has arrived. The payload is valid only during the call and may lie in
	 * memory that the peer can still write. On TW_AGAIN the provider offers the packet
	 * again at the next progress(), and no later packet before it.
	 */
	enum tw_err (*packet)(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			      uint32_t len);
	/*
	 * Another endpoint asks to connect. On TW_OK the engine has set link->peer and
	 * filled in me, the identity to send back, and the link is up. Otherwise the result
	 * is the reason of the refusal.
	 */
	enum tw_err (*incoming)(struct tw_host *host, struct tw_link *link,
				const struct tw_ident *other, struct tw_ident *me);
	/* The result of a connect of this side. After refused() the link is gone. */
	void (*connected)(struct tw_link *link, const struct tw_ident *other);
	void (*refused)(struct tw_link *link, enum tw_err why);
	/* The peer is gone: TW_ECLOSED or TW_ELOST. The link ends with this call. */
	void (*down)(struct tw_link *link, enum tw_err why);
	/* A get or put that returned TW_PENDING has ended. Its memory is the caller's again. */
	void (*ended)(struct tw_link *link, void *cookie, enum tw_err err);
	/*
	 * Why the peer of a link is not reached just now, in words, with what to do: for messages,
	 * which have it if the link then fails for that reason, and for tools. TW_OK: it is.
	 */
	void (*trouble)(struct tw_host *host, void *peer, enum tw_err why, const char *cause,
			const char *advice);
	/* link->paths has changed. */
	void (*paths)(struct tw_link *link);
	/* progress() has work that no descriptor reports. */
	void (*wake)(struct tw_host *host);
	/* Asks for a call of expire() at this tick of tw_clock() or soon after. */
	void (*timer)(struct tw_host *host, uint64_t when);
	/*
	 * Switches the calls of progress() on or off, so that a provider without
	 * connections costs nothing.
	 */
	void (*poll)(struct tw_host *host, void *instance, bool on);
	/*
	 * The network address of a NIC, without a query to any host. TW_EUNREACH: it has none.
	 * TW_AGAIN: it is not known; found() tells it.
	 */
	enum tw_err (*locate)(uint64_t nic_id, struct sockaddr_storage *sa);
	/* Whether a NIC id is of that address. It is kept if the host there has proved itself. */
	bool (*found)(uint64_t nic_id, const struct sockaddr_storage *sa, bool proved);
	/* The boards of this host. */
	void (*describe)(struct tw_host_boards *out);
};

struct tw_provider {
	const char *name;
	/* Makes the endpoint reachable. TW_EBUSY if its id is in use. */
	enum tw_err (*open)(struct tw_host *host, void **instance);
	/* Ends all links without upcalls, after the packets sent were handed over. */
	void (*close)(void *instance);
	/*
	 * Releases the endpoint's name ahead of close(). Called without the lock: a signal
	 * handler may call it during any other operation. NULL where there is no name.
	 */
	void (*hide)(void *instance);
	/* True if this provider may reach an endpoint of this name. */
	bool (*reaches)(void *instance, uint64_t nic_id, uint32_t endpoint_id);
	/*
	 * Starts a connect. On TW_OK the link is set, and connected() or refused() follows,
	 * perhaps before this returns. Stores peer in the link.
	 */
	enum tw_err (*connect)(void *instance, const struct tw_ident *me, uint64_t nic_id,
			       uint32_t endpoint_id, void *peer, struct tw_link **link);
	/* Closes a link, up or not. No upcall follows. */
	void (*disconnect)(struct tw_link *link);
	/*
	 * Sends one packet. TW_OK: everything was copied or handed over, and the buffers
	 * are free again. TW_AGAIN: there is no space.
	 */
	enum tw_err (*send)(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			    const struct iovec *iov, unsigned niov, uint32_t len);
	/*
	 * The reader of a txq was armed when a packet was written there, or its writer sleeps
	 * until there is space. Of the provider whose rings are host->rxqs; NULL of all others.
	 */
	void (*wake)(struct tw_link *link);
	/*
	 * A get reads the peer's memory at an address into iov, a put writes it from iov. TW_OK:
	 * done. TW_PENDING: started; ended() follows, before any down(), and uses iov's
	 * memory (not iov itself) until then. After disconnect() or close() the memory is
	 * no longer touched. TW_AGAIN: too many are in progress, and one of them will end.
	 * TW_EPERM: it cannot be done, but the data may still be sent. The system refuses,
	 * and can_get is false from now on; or it does not access that memory of the peer;
	 * or the key belongs to a path that is gone. TW_EFAULT: memory of this side is not
	 * mapped, or, where the network tells, the peer's. TW_ELOST.
	 *
	 * A get may be done twice, and so may a put before it has ended. Once a link has
	 * ended on this side, no put of the peer touches memory here, and no get that began
	 * to read it later is TW_OK.
	 */
	enum tw_err (*rma)(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
			   uint64_t address, const void *key, void *cookie);
	/*
	 * Lets the peer of a link access memory with these rights (enum tw_mem_rights), which
	 * this side enforces, until mem_dereg() or the end of the link. Both NULL where key_size
	 * is always 0. TW_ENOMEM. TW_EPERM: it cannot be done, or not now, while a network makes
	 * the path again; an access beyond the rights may end it.
	 */
	enum tw_err (*mem_reg)(struct tw_link *link, void *addr, size_t len, unsigned rights,
			       struct tw_mem_reg *mr);
	void (*mem_dereg)(struct tw_link *link, struct tw_mem_reg *mr);
	/* True if the other side still has the link. */
	bool (*alive)(struct tw_link *link);
	/*
	 * True if the peer has polled for packets since this tick. A peer that polls all the
	 * time will have done so soon after any tick. The call counts as a poll of this side, so
	 * that two that look at once see each other. NULL where that is not known, as a get needs
	 * no poll of the peer.
	 */
	bool (*polls)(struct tw_link *link, uint64_t since);
	/* Takes in the packets that have arrived. Returns their number. */
	unsigned (*progress)(void *instance);
	/*
	 * Called before sleeping: from now on any packet wakes this side through epfd; if
	 * host->state is TW_COMPUTING, any on which the engine must act. True if something has
	 * arrived already, and the caller must not sleep. disarm() ends it; NULL: nothing to do.
	 */
	bool (*arm)(void *instance);
	void (*disarm)(void *instance);
	/* A timer has expired. Returns the next tick to be called at, or 0. NULL: it sets none. */
	uint64_t (*expire)(void *instance, uint64_t now);
	/*
	 * Asks the host at an address which boards it has, without an endpoint and without a
	 * lock; may block for seconds. NULL: it is never asked.
	 */
	enum tw_err (*query)(const struct sockaddr_storage *at, struct tw_host_boards *boards);
	/*
	 * For tools: whether the provider, or its driver of that name, works at this endpoint's
	 * board. text says what it does, or why not; *like is what its links are like: provider,
	 * max_payload, can_get, by_cpu and remote. May take a while.
	 */
	bool (*describe)(void *instance, const char *name, struct tw_link *like, char *text,
			 unsigned len);
};

/* The provider as users know it: a network by its driver. */
static inline const char *tw_link_name(const struct tw_link *l)
{
	return l->driver ? l->driver : l->provider->name;
}

#endif /* TW_PROVIDER_H */
