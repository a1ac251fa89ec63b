/* SPDX-License-Identifier: BSD-2-Clause */
#include <sodium.h>

#include "providers/net/crypto.h"

_Static_assert(crypto_auth_hmacsha256_BYTES == TW_NET_KEY &&
		       crypto_auth_hmacsha256_KEYBYTES == TW_NET_KEY &&
		       crypto_aead_chacha20poly1305_ietf_KEYBYTES == TW_NET_KEY &&
		       crypto_aead_chacha20poly1305_ietf_ABYTES == TW_NET_TAG,
	       "wire format");

static bool begin(void)
{
	return sodium_init() >= 0;
}

static void mac(uint8_t out[TW_NET_KEY], const uint8_t key[TW_NET_KEY], const void *data,
		size_t len)
{
	crypto_auth_hmacsha256(out, data, len, key);
}

static bool equal(const uint8_t a[TW_NET_KEY], const uint8_t b[TW_NET_KEY])
{
	return sodium_memcmp(a, b, TW_NET_KEY) == 0;
}

struct nonce {
	uint8_t bytes[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
};

/* The number, the same on hosts of any byte order. */
static struct nonce nonce_of(uint64_t number)
{
	struct nonce n = {{0}};

	for (int i = 0; i < 8; i++)
		n.bytes[i] = (uint8_t)(number >> 8 * i);
	return n;
}

static void seal(void *out, const void *text, size_t len, const uint8_t key[TW_NET_KEY],
		 uint64_t number)
{
	struct nonce n = nonce_of(number);

	crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, text, len, NULL, 0, NULL, n.bytes,
						  key);
}

static bool unseal(void *out, const void *sealed, size_t len, const uint8_t key[TW_NET_KEY],
		   uint64_t number)
{
	struct nonce n = nonce_of(number);

	return crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, len, NULL, 0,
							 n.bytes, key) == 0;
}

extern const struct tw_net_crypto tw_net_crypto_sodium;
const struct tw_net_crypto tw_net_crypto_sodium = {
	.version = TW_NET_CRYPTO_VERSION,
	.begin = begin,
	.mac = mac,
	.equal = equal,
	.seal = seal,
	.unseal = unseal,
};
