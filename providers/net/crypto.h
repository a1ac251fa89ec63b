/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations that the proof of identity needs of a library, which is a module. */
#ifndef TW_NET_CRYPTO_H
#define TW_NET_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_NET_KEY 32 /* bytes of a key, of a nonce and of a proof */
#define TW_NET_TAG 16 /* bytes that sealing adds */

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

#endif /* TW_NET_CRYPTO_H */
