/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that the proof of identity needs of libraries, which are modules. */
#ifndef TW_NET_CRYPTO_H
#define TW_NET_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_NET_KEY 32 /* bytes of a key, of a nonce and of a proof */
#define TW_NET_TAG 16 /* bytes that sealing adds */

enum { TW_NET_KEY_JOB, TW_NET_KEY_USER, TW_NET_KEYS }; /* the launcher's, a file's */

#define TW_NET_CRYPTO_VERSION 1
struct tw_net_crypto {
	uint32_t version;
	bool (*begin)(void);
	/* HMAC-SHA256. */
	void (*mac)(uint8_t out[TW_NET_KEY], const uint8_t key[TW_NET_KEY], const void *data,
		    size_t len);
	/* Compares in constant time. */
	bool (*equal)(const uint8_t a[TW_NET_KEY], const uint8_t b[TW_NET_KEY]);
	/*
	 * ChaCha20-Poly1305. A key and a number are used once. The sealed text is
	 * TW_NET_TAG bytes longer; unsealing what was changed fails.
	 */
	void (*seal)(void *out, const void *text, size_t len, const uint8_t key[TW_NET_KEY],
		     uint64_t number);
	bool (*unseal)(void *out, const void *sealed, size_t len, const uint8_t key[TW_NET_KEY],
		       uint64_t number);
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
