/* SPDX-License-Identifier: BSD-2-Clause */
/* FNV-1a of names and addresses. Not against those who choose what is hashed. */
#ifndef TW_HASH_H
#define TW_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TW_HASH_START 0xcbf29ce484222325ull

/* Goes on with some bytes from TW_HASH_START, or from what came before them. */
static inline uint64_t tw_hash(uint64_t h, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return h;
}

static inline uint64_t tw_hash_text(uint64_t h, const char *text)
{
	return tw_hash(h, text, strlen(text));
}

/* In 32 bits. */
static inline uint32_t tw_hash_short(const char *text)
{
	uint32_t h = 2166136261u;

	while (*text)
		h = (h ^ (uint8_t)*text++) * 16777619u;
	return h;
}

#endif /* TW_HASH_H */
