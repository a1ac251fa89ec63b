/* SPDX-License-Identifier: BSD-2-Clause */
/* A place in pieces of memory, empty ones among them. */
#ifndef TW_CURSOR_H
#define TW_CURSOR_H

#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct tw_cursor {
	const struct iovec *iov;
	size_t at; /* in the first */
};

/* The pieces from there on, without empty ones, at most so many bytes; how many pieces. */
static inline unsigned tw_cursor_pieces(const struct tw_cursor *c, uint64_t len, struct iovec *out,
					unsigned max)
{
	const struct iovec *from = c->iov;
	size_t at = c->at;
	unsigned n = 0;

	for (; len && n < max; from++, at = 0) {
		size_t piece = (size_t)tw_min((uint64_t)(from->iov_len - at), len);

		if (!piece)
			continue;
		out[n++] = (struct iovec){(char *)from->iov_base + at, piece};
		len -= piece;
	}
	return n;
}

static inline void tw_cursor_advance(struct tw_cursor *c, uint64_t len)
{
	while (len) {
		size_t piece = (size_t)tw_min((uint64_t)(c->iov->iov_len - c->at), len);

		len -= piece;
		c->at += piece;
		if (c->at == c->iov->iov_len) {
			c->iov++;
			c->at = 0;
		}
	}
}

#endif /* TW_CURSOR_H */
