/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of a scalar channel, in memory that both ends share. A cache line carries seven
 * scalars and a tag for each: present, lap of the ring, size. The reader stores its
 * position once in TW_MCAPI_SCL_HEAD_LINES lines.
 *
 * Contents written by the other end decide nothing but which values are received.
 */
#ifndef TW_MCAPI_SCL_RING_H
#define TW_MCAPI_SCL_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

#define TW_MCAPI_SCL_LINES 256u
#define TW_MCAPI_SCL_SLOTS 7u
#define TW_MCAPI_SCL_HEAD_LINES 8u /* lines between two updates of head */
#define TW_MCAPI_SCL_AHEAD 2u	   /* lines that the writer prefetches */
#define TW_MCAPI_SCL_LAPS 31	   /* tags of earlier laps differ, and 0 is none */

/* A tag: how the scalar came 1 bit | lap 5 | size code 2. */
#define TW_MCAPI_SCL_MESSAGE 0x80u /* its receiver's node put it there */
#define TW_MCAPI_SCL_LAP 4u
#define TW_MCAPI_SCL_CODE 3u

struct tw_mcapi_scl_line {
	_Atomic(uint64_t) value[TW_MCAPI_SCL_SLOTS];
	_Atomic(uint8_t) tag[8];
};

/* The token slot of two opposite channels: token.h. */
struct tw_mcapi_scl_slot {
	_Atomic(uint64_t) stamp;
	_Atomic(uint64_t) value;
};

/* Each word has its own line and one writer; a waking peer also clears the sleep flags. */
struct tw_mcapi_scl_ring {
	_Atomic(uint32_t) head tw_aligned_line; /* lines read */
	_Atomic(uint32_t) reader_sleeps tw_aligned_line;
	_Atomic(uint32_t) writer_sleeps tw_aligned_line;
	uint64_t cookie tw_aligned_line; /* identifies the ring */
	/* Alone in a pair of lines, which processors fetch together. */
	struct tw_mcapi_scl_slot token __attribute__((aligned(2 * TW_LINE)));
	struct tw_mcapi_scl_line lines[TW_MCAPI_SCL_LINES] __attribute__((aligned(2 * TW_LINE)));
};
_Static_assert(sizeof(struct tw_mcapi_scl_line) == TW_LINE, "shared memory format");
_Static_assert(sizeof(struct tw_mcapi_scl_ring) == 6 * TW_LINE + TW_MCAPI_SCL_LINES * TW_LINE,
	       "shared memory format");

#define TW_MCAPI_SCL_BYTES                                                                         \
	((sizeof(struct tw_mcapi_scl_ring) + TW_PAGE - 1) & ~(size_t)(TW_PAGE - 1))

/* The position of a reader or a writer, in its own memory. */
struct tw_mcapi_scl_pos {
	uint32_t line, slot;
	uint32_t place; /* of the line in the ring's memory, in bytes */
	uint32_t tag;	/* of the scalars of this lap, for the smallest size */
	uint32_t head;	/* the writer's copy */
};

static inline void tw_mcapi_scl_pos_init(struct tw_mcapi_scl_pos *p, bool message)
{
	*p = (struct tw_mcapi_scl_pos){.place = offsetof(struct tw_mcapi_scl_ring, lines),
				       .tag = TW_MCAPI_SCL_LAP |
					      (message ? TW_MCAPI_SCL_MESSAGE : 0)};
}

static inline void tw_mcapi_scl_next_lap(struct tw_mcapi_scl_pos *p)
{
	uint32_t lap = p->tag & ~TW_MCAPI_SCL_MESSAGE;

	p->tag += lap == TW_MCAPI_SCL_LAPS * TW_MCAPI_SCL_LAP ? TW_MCAPI_SCL_LAP - lap
							      : TW_MCAPI_SCL_LAP;
}

/* The slot after that one; true at the end of a line. */
static inline bool tw_mcapi_scl_next(struct tw_mcapi_scl_pos *p, uint32_t slot)
{
	if (tw_likely(slot + 1 < TW_MCAPI_SCL_SLOTS)) {
		p->slot = slot + 1;
		return false;
	}
	p->slot = 0;
	p->place += TW_LINE;
	if (!(++p->line & (TW_MCAPI_SCL_LINES - 1))) {
		p->place = offsetof(struct tw_mcapi_scl_ring, lines);
		tw_mcapi_scl_next_lap(p);
	}
	return true;
}

static inline bool tw_mcapi_scl_full(struct tw_mcapi_scl_pos *p, const struct tw_mcapi_scl_ring *r)
{
	if (tw_likely(p->slot || p->line - p->head < TW_MCAPI_SCL_LINES))
		return false;
	p->head = atomic_load_explicit(&r->head, memory_order_acquire);
	return p->line - p->head >= TW_MCAPI_SCL_LINES;
}

/* The place of the next scalar. */
struct tw_mcapi_scl_here {
	struct tw_mcapi_scl_line *line;
	uint32_t slot;
};

static inline struct tw_mcapi_scl_here tw_mcapi_scl_here(const struct tw_mcapi_scl_pos *p,
							 const struct tw_mcapi_scl_ring *r)
{
	return (struct tw_mcapi_scl_here){(void *)((char *)r + p->place), p->slot};
}

/* The size code is 0 to 3, for 1 to 8 bytes. False: there is no room. */
static inline bool tw_mcapi_scl_put(struct tw_mcapi_scl_pos *p, struct tw_mcapi_scl_ring *r,
				    uint64_t value, unsigned code)
{
	struct tw_mcapi_scl_here at = tw_mcapi_scl_here(p, r);
	uint32_t tag = p->tag | code;

	if (tw_unlikely(tw_mcapi_scl_full(p, r)))
		return false;
	atomic_store_explicit(&at.line->value[at.slot], value, memory_order_relaxed);
	atomic_store_explicit(&at.line->tag[at.slot], (uint8_t)tag, memory_order_release);
	if (tw_mcapi_scl_next(p, at.slot))
		tw_prefetch_own(
			&r->lines[(p->line + TW_MCAPI_SCL_AHEAD) & (TW_MCAPI_SCL_LINES - 1)]);
	return true;
}

static inline uint32_t tw_mcapi_scl_tag(struct tw_mcapi_scl_here at)
{
	return atomic_load_explicit(&at.line->tag[at.slot], memory_order_acquire);
}

/* The size code of the next scalar, or -1 if there is none. */
static inline int tw_mcapi_scl_look(const struct tw_mcapi_scl_pos *p,
				    const struct tw_mcapi_scl_ring *r)
{
	uint32_t tag = tw_mcapi_scl_tag(tw_mcapi_scl_here(p, r));

	return ((tag ^ p->tag) & ~(TW_MCAPI_SCL_MESSAGE | TW_MCAPI_SCL_CODE))
		       ? -1
		       : (int)(tag & TW_MCAPI_SCL_CODE);
}

/* Takes the next one, known to be there; true if head has moved and a writer may wait. */
static inline bool tw_mcapi_scl_take_at(struct tw_mcapi_scl_pos *p, struct tw_mcapi_scl_ring *r,
					struct tw_mcapi_scl_here at, uint64_t *value)
{
	*value = atomic_load_explicit(&at.line->value[at.slot], memory_order_relaxed);
	if (tw_likely(!tw_mcapi_scl_next(p, at.slot) || p->line % TW_MCAPI_SCL_HEAD_LINES))
		return false;
	atomic_store_explicit(&r->head, p->line, memory_order_release);
	return true;
}

static inline bool tw_mcapi_scl_take(struct tw_mcapi_scl_pos *p, struct tw_mcapi_scl_ring *r,
				     uint64_t *value)
{
	return tw_mcapi_scl_take_at(p, r, tw_mcapi_scl_here(p, r), value);
}

/* The number of scalars not yet read. */
static inline unsigned tw_mcapi_scl_count(struct tw_mcapi_scl_pos p,
					  const struct tw_mcapi_scl_ring *r)
{
	unsigned n = 0;

	while (n < TW_MCAPI_SCL_LINES * TW_MCAPI_SCL_SLOTS && tw_mcapi_scl_look(&p, r) >= 0) {
		tw_mcapi_scl_next(&p, p.slot);
		n++;
	}
	return n;
}

#endif /* TW_MCAPI_SCL_RING_H */
