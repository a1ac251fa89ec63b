/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that the proof of identity needs of libraries, which are modules. */
#ifndef TW_NET_CRYPTO_H
#define TW_NET_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define TW_NET_KEY 32 /* bytes of a key */

enum { TW_NET_KEY_JOB, TW_NET_KEY_USER, TW_NET_KEYS }; /* the launcher's, a file's */

/* The key of which a caller has said the name; false: there is none. */
typedef bool tw_net_find_key(void *owner, const void *name, size_t len, uint8_t key[TW_NET_KEY]);

/*
 * TLS 1.3 (RFC 8446) with a pre-shared key and Diffie-Hellman, over a socket that is not waited
 * for. A session belongs to one thread at a time. It does not close the socket.
 */
#define TW_NET_TLS_VERSION 4
#define TW_NET_TLS_WRITE                                                                           \
	(64u << 10) /* most bytes of one write(): what one call of the system takes */
struct tw_net_tls {
	uint32_t version;
	/* Before the others, by one thread at a time; false: the library does not start. */
	bool (*begin)(void);
	/* SHA-256. */
	bool (*digest)(uint8_t out[TW_NET_KEY], const void *data, size_t len);
	/* A caller's session; the name is copied. NULL: no memory. */
	void *(*call)(int fd, const void *name, size_t len, const uint8_t key[TW_NET_KEY]);
	/* A listener's. It calls find() with the owner, in shake() only. */
	void *(*answer)(int fd, tw_net_find_key *find, void *owner);
	/*
	 * Goes on with the handshake; a caller's first time it only sends. TW_OK: the other side
	 * has the key. TW_AGAIN: more must come. TW_EPERM: it does not have the key. TW_ECLOSED,
	 * TW_ELOST: it hung up.
	 */
	enum tw_err (*shake)(void *session);
	/* As recv(2) with MSG_DONTWAIT; EBADMSG: it was changed on its way. */
	ssize_t (*recv)(void *session, void *data, size_t len);
	/* All of it or nothing; every message of a session has the same length. */
	bool (*send)(void *session, const void *data, size_t len);
	/* Bytes that recv() has without the socket, which does not wake anybody for them. */
	size_t (*pending)(void *session);
	/*
	 * All of it, up to TW_NET_TLS_WRITE bytes, or false with errno. After EAGAIN the next call
	 * has the same bytes, and perhaps more behind them.
	 */
	bool (*write)(void *session, const void *data, size_t len);
	/* Bytes that only the two sides know (RFC 8446, 7.5), others for each label and context. */
	bool (*secret)(void *session, const char *label, const void *context, size_t context_len,
		       uint8_t *out, size_t len);
	void (*end)(void *session);
};

/* MUNGE: credentials that only processes of one user can open. */
#define TW_NET_MUNGE_VERSION 1
struct tw_net_munge {
	uint32_t version;
	/* A credential that carries the key; false with the reason in why. */
	bool (*encode)(char *text, size_t room, const uint8_t key[TW_NET_KEY], char *why,
		       unsigned len);
	/* The key of one that a process of this user has made. */
	bool (*decode)(const char *text, uint8_t key[TW_NET_KEY], char *why, unsigned len);
};

#endif /* TW_NET_CRYPTO_H */
