/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contract of networks that may lose packets: libfabric, verbs. The replay
 * provider makes a provider of them. It alone knows of connections, sequences
 * and the engine; a driver moves packets along paths that it is told of, reads
 * and writes remote memory, and says when something did not work.
 *
 * A driver is a loadable module, tagwire_NAME.so, with one struct tw_driver of
 * that name: tw_driver_NAME. It uses no symbols of the library. Every operation
 * is called with the endpoint's lock held and must not block; upcalls are made
 * from inside progress() only.
 */
#ifndef TW_NET_DRIVER_H
#define TW_NET_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/err.h"
#include "base/log.h"
#include "base/settings.h"

#define TW_DRIVER_VERSION 5 /* of this contract: another is not loaded */
#define TW_DRIVER_ADDRESS 96
#define TW_DRIVER_KEY 32

/* Where a path leads, in the words of the driver; sent to the other side. */
struct tw_driver_address {
	uint32_t len;
	uint8_t bytes[TW_DRIVER_ADDRESS];
};

/* Registered memory: base is what the other side counts from. */
struct tw_driver_mr {
	uint64_t base;
	uint32_t key_len;
	uint8_t key[TW_DRIVER_KEY];
	void *handle;
};

struct tw_driver_host {
	void *owner; /* for the upcalls */
	const struct tw_settings *settings;
	void (*log)(enum tw_log_level level, const char *fmt, ...);
	uint64_t *copied;	       /* counts bytes of transfers that the processor copies */
	struct sockaddr_storage board; /* the interface to use */
	/* Descriptors that a forked child is to close, see base/fds.h. */
	int (*own_fd)(int fd);
	void (*close_fd)(int fd);
	/*
	 * A packet came along some path; valid during the call. False: not now,
	 * offer it again at the next progress(), and no other packet before it.
	 */
	bool (*packet)(void *owner, const void *data, uint32_t len);
	/* A send() that was TW_PENDING is over, well or not. */
	void (*sent)(void *owner, void *cookie, bool ok);
	/* A get() or put() is over; TW_ELOST when it may be tried again. */
	void (*ended)(void *owner, void *cookie, enum tw_err err);
	/*
	 * A path does not work any more; what had come along it was told before.
	 * The path may be freed in this call. NULL: nothing works, the instance
	 * may be closed in this call, and the driver opened anew.
	 */
	void (*broken)(void *owner, void *path);
};

struct tw_driver {
	uint32_t version;
	const char *name;
	/* The system carries and copies every byte: asking for few of them costs more. */
	bool by_system;
	/* TW_EUNREACH: not here. May take a while, once. */
	enum tw_err (*open)(const struct tw_driver_host *host, void **instance);
	/* Forgets all that is under way, without upcalls; uses no memory after it. */
	void (*close)(void *instance);
	uint32_t (*max_packet)(void *instance);
	bool (*has_rma)(void *instance); /* get, put, mem_reg, mem_dereg */
	/* Readable when progress() has something to do, see arm(); -1: there is none. */
	int (*fd)(void *instance);

	/* A path begins with the own address of it, and leads nowhere yet. */
	enum tw_err (*path_new)(void *instance, struct tw_driver_address *mine, void **path);
	/* Now it leads to the other's address. TW_EPROTO if that is none. */
	enum tw_err (*path_bind)(void *path, const struct tw_driver_address *other);
	/* What is under way on it still ends by upcalls. */
	void (*path_free)(void *path);

	/*
	 * Sends one packet, in order with those before as far as nothing is lost.
	 * TW_OK: the buffer is free again; TW_PENDING: sent() will tell; TW_AGAIN:
	 * not now; else the path is broken. More: the next one follows at once,
	 * so this one may wait for it, and its buffer is free only then.
	 */
	enum tw_err (*send)(void *path, const void *data, uint32_t len, bool more, void *cookie);
	/* TW_PENDING, TW_AGAIN, or why not. The key is as registered. */
	enum tw_err (*get)(void *path, const struct iovec *iov, unsigned niov, uint64_t address,
			   const void *key, uint32_t key_len, void *cookie);
	enum tw_err (*put)(void *path, const struct iovec *iov, unsigned niov, uint64_t address,
			   const void *key, uint32_t key_len, void *cookie);
	/*
	 * Gives up a transfer: no upcall for it, and its memory is not used any
	 * more. Its path may be broken by that. NULL: only close() can.
	 */
	void (*cancel)(void *instance, void *cookie);
	enum tw_err (*mem_reg)(void *instance, void *addr, size_t len, struct tw_driver_mr *mr);
	void (*mem_dereg)(void *instance, struct tw_driver_mr *mr);

	/* Makes the upcalls that are due; how many. */
	unsigned (*progress)(void *instance);
	bool polled_cheaply; /* mostly without a system call: as often as anybody likes */
	/* From now on fd() tells. True: something is there already. */
	bool (*arm)(void *instance);
};

#endif /* TW_NET_DRIVER_H */
