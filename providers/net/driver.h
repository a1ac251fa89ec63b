/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract between the session layer of the net provider and its drivers.
 * The session layer knows connections, sequence numbers and the engine. A driver
 * moves packets along paths, may lose them, reads and writes remote memory, and
 * reports what failed.
 *
 * A driver is a loadable object, tagwire_NAME.so, with one struct tw_driver,
 * tw_driver_NAME. It uses no symbols of the library. Every operation is called
 * with the endpoint's lock held, must not block, and is no cancellation point
 * (TW_NOT_CANCELLED where it calls another library). Upcalls are made from inside
 * progress() only, but for ended(), which a driver calls wherever a transfer ends.
 */
#ifndef TW_NET_DRIVER_H
#define TW_NET_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rights.h"
#include "base/settings.h"
#include "base/thread.h"

struct tw_net_tls;

#define TW_DRIVER_VERSION 16 /* of this contract: another is not loaded */
#define TW_DRIVER_ADDRESS 96
#define TW_DRIVER_KEY 32
#define TW_DRIVER_TOKEN 16
#define TW_DRIVER_CIPHER 44 /* bytes: a key of AES-256-GCM, and 12 for its nonces */
/* A link keeps its packet size when another driver takes over, so tcp and ofi have the same. */
#define TW_DRIVER_PACKET 16360

/* The address of one end of a path, in the driver's own format; sent to the other side. */
struct tw_driver_address {
	uint32_t len;
	uint8_t bytes[TW_DRIVER_ADDRESS];
} TW_WIRE;

/* A secret of each end of a path. Only the two sides know them, for this path alone. */
struct tw_driver_tokens {
	uint8_t mine[TW_DRIVER_TOKEN], other[TW_DRIVER_TOKEN];
	bool calls; /* this end makes the connection, if the driver's has two kinds of ends */
	/* Each end encrypts what it sends, by its key; else there are no keys. */
	bool encrypted;
	const struct tw_net_tls *tls; /* that can, too: its sessions */
	uint8_t my_key[TW_DRIVER_CIPHER], other_key[TW_DRIVER_CIPHER];
};

/* In as much time, however many bytes are right. */
static inline bool tw_driver_token_is(const uint8_t *token, const uint8_t *sent)
{
	uint8_t different = 0;

	for (unsigned i = 0; i < TW_DRIVER_TOKEN; i++)
		different |= token[i] ^ sent[i];
	return !different;
}

/* Registered memory. */
struct tw_driver_mr {
	uint64_t base; /* the other side's addresses count from here */
	uint32_t key_len;
	uint8_t key[TW_DRIVER_KEY];
	void *handle;
};

/* Memory of many packets. The session layer allocates it, the driver registers it. */
struct tw_net_slab {
	struct tw_list node;
	struct tw_list *free; /* where its packets go when their last user lets go */
	void *owner;
	char *mem;
	size_t len, size; /* in bytes; of one packet */
	void *handle;	  /* the driver's, from slab_reg() */
	bool big;	  /* its packets hold max_packet bytes, else short ones */
	bool ready;	  /* the driver can send from it and receive into it */
};

/*
 * A packet, written once and sent from where it lies. The driver's own struct
 * begins with this one and ends where data begins, so that a header of the driver
 * precedes the packet in memory. The session layer fills in data and keeps the
 * packet until the other side has acknowledged it; a driver that reads the memory
 * after send() has returned counts as a second user until it is done.
 */
struct tw_net_packet {
	struct tw_list node; /* the session layer's; of the free list without users */
	struct tw_net_slab *slab;
	void *link; /* the session layer's: the sender; NULL if it needs the packet no more */
	char *data;
	uint32_t len;
	uint32_t epoch; /* the session layer's: of the path that it was sent along last */
	unsigned users;
};

static inline void tw_net_packet_put(struct tw_net_packet *p)
{
	/* At the front: what was used last is in the cache. */
	if (!--p->users)
		tw_list_add_tail(p->slab->free->next, &p->node);
}

struct tw_driver_host {
	void *owner; /* for the upcalls */
	const struct tw_settings *settings;
	void (*log)(enum tw_log_level level, const char *fmt, ...);
	uint64_t *copied;	       /* counts bytes of transfers that the processor copies */
	struct sockaddr_storage board; /* the interface to use */
	/* Descriptors that a forked child is to close, see base/fds.h. */
	int (*own_fd)(int fd);
	void (*close_fd)(int fd);
	/* A packet with one user, for the driver's own use; NULL: no memory. */
	struct tw_net_packet *(*packet_get)(void *owner, bool big);
	/* From close(): the driver uses no packets any more, and all are to be unregistered. */
	void (*packets_back)(void *owner);
	/*
	 * A packet arrived along a path; valid during the call. False: not now,
	 * offer it again at the next progress(), and no other of that path before it.
	 */
	bool (*packet)(void *owner, const void *path, const void *data, uint32_t len);
	/*
	 * Somebody has called and does not know the tokens yet: until when this may be so, for
	 * expire(), which is called then.
	 */
	uint64_t (*called)(void *owner);
	/* A packet that send() took did not get through. */
	void (*failed)(void *owner, struct tw_net_packet *p);
	/* A transfer of rma() is over; TW_ELOST when it may be tried again. Calls nothing back. */
	void (*ended)(void *owner, void *cookie, enum tw_err err);
	/*
	 * A path does not work any more; everything that arrived along it was passed
	 * on before. The path may be freed in this call. NULL: nothing works, and the
	 * instance may be closed in this call.
	 */
	void (*broken)(void *owner, void *path);
};

/* Capabilities of an open driver. */
struct tw_driver_caps {
	uint32_t max_packet; /* bytes */
	bool has_rma;	     /* rma, mem_reg, mem_dereg */
	int fd;		     /* readable when progress() has something to do, see arm(); -1: none */
};

struct tw_driver {
	uint32_t version;
	const char *name;
	/* The system carries and copies every byte: asking for few of them costs more. */
	bool by_system;
	/* Of the driver's struct for a packet; a multiple of 8. */
	size_t packet_size;
	/*
	 * TW_EUNREACH: not available here; TW_ENOMEM: no descriptor or memory, which was told.
	 * May take a while, once. Sets *instance and max_packet before it asks for packets.
	 */
	enum tw_err (*open)(const struct tw_driver_host *host, void **instance,
			    struct tw_driver_caps *caps);
	/*
	 * Drops everything under way; uses no memory after it. May be called in an upcall of
	 * progress().
	 */
	void (*close)(void *instance);
	/* Make memory fit for packets, set its handle, and undo that. NULL: any memory is fit. */
	bool (*slab_reg)(void *instance, struct tw_net_slab *slab);
	void (*slab_dereg)(struct tw_net_slab *slab);
	/*
	 * A new path has an address of its own and leads nowhere yet. It uses another board
	 * than the interface of open(), or that one with NULL; TW_EUNREACH if it cannot.
	 */
	enum tw_err (*path_new)(void *instance, const struct sockaddr_storage *board,
				const struct tw_driver_tokens *tokens,
				struct tw_driver_address *mine, void **path);
	/*
	 * Connects it to the other's address. TW_EPROTO if that is malformed; TW_ENOMEM: as
	 * open(), also for a connection that the other side is to make.
	 */
	enum tw_err (*path_bind)(void *path, const struct tw_driver_address *other);
	/*
	 * Whether the other host has not answered what was sent along the path again and
	 * again. NULL: the driver reports such a path as broken by itself.
	 */
	bool (*stalled)(void *path);
	/* Transfers under way on it end, now or later. */
	void (*path_free)(void *path);
	/* Names the ports that a firewall must let pass for its paths. */
	void (*ports)(const struct tw_settings *settings, char *text, size_t size);

	/*
	 * Sends one packet, in order with those before as far as nothing is lost.
	 * TW_OK: taken; TW_AGAIN: not now; else the path is broken. More: the next
	 * packet follows at once, so this one may wait for it.
	 */
	enum tw_err (*send)(void *path, struct tw_net_packet *p, bool more);
	/*
	 * Reads remote memory, or writes it (put). TW_PENDING, TW_AGAIN, or why not.
	 * The key is as registered.
	 */
	enum tw_err (*rma)(void *path, bool put, const struct iovec *iov, unsigned niov,
			   uint64_t address, const void *key, uint32_t key_len, void *cookie);
	/*
	 * Gives up a transfer: its memory is not used any more.
	 * Its path may be broken by that. NULL: only close() can.
	 */
	void (*cancel)(void *instance, void *cookie);
	/* An access beyond the rights (enum tw_mem_rights) fails here, whatever the peer sends. */
	enum tw_err (*mem_reg)(void *instance, void *addr, size_t len, unsigned rights,
			       struct tw_driver_mr *mr);
	void (*mem_dereg)(void *instance, struct tw_driver_mr *mr);

	/* Makes the upcalls that are due. */
	void (*progress)(void *instance);
	/* Hangs up on callers that are late; when to call it next, or 0. NULL: it has none. */
	uint64_t (*expire)(void *instance, uint64_t now);
	bool polled_cheaply; /* mostly without a system call: called at every poll */
	/* From now on fd() becomes readable. True: something is there already. */
	bool (*arm)(void *instance);
};

#endif /* TW_NET_DRIVER_H */
