/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing table of up to 65,536 pointers. The low half of a name is the index. */
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

/* Stores p in a free slot and returns its number; TW_SLOTS_MAX if there is no slot or no memory. */
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

/* Returns the pointer whose number is the low half of the name, or NULL. */
static inline void *tw_slots_find(const struct tw_slots *s, uint32_t name)
{
	uint32_t i = name % TW_SLOTS_MAX;

	return i < s->n ? s->of[i] : NULL;
}

#endif /* TW_SLOTS_H */
