/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing table of pointers, found by number: up to 65,536, a name's low half. */
#ifndef TW_SLOTS_H
#define TW_SLOTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TW_SLOTS_MAX 0x10000u

struct tw_slots {
	void **of;
	uint32_t n;
};

/* The number of a free one, which becomes p's; TW_SLOTS_MAX: none, or no memory. */
static inline uint32_t tw_slots_add(struct tw_slots *s, void *p)
{
	uint32_t i = 0, n;
	void **of;

	while (i < s->n && s->of[i])
		i++;
	if (i == s->n) {
		n = i ? 2 * i : 8;
		of = n > TW_SLOTS_MAX ? NULL : realloc(s->of, n * sizeof(*of));
		if (!of)
			return TW_SLOTS_MAX;
		memset(of + i, 0, (n - i) * sizeof(*of));
		*s = (struct tw_slots){of, n};
	}
	s->of[i] = p;
	return i;
}

/* What has the number in a name's low half, or NULL. */
static inline void *tw_slots_find(const struct tw_slots *s, uint32_t name)
{
	uint32_t i = name % TW_SLOTS_MAX;

	return i < s->n ? s->of[i] : NULL;
}

#endif /* TW_SLOTS_H */
