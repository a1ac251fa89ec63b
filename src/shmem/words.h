/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of words of up to 8 bytes: that of ring.h, seven to a cache line and without
 * headers. Instead of a stamp each word has a tag of a byte: the lap of the ring, and a
 * code for its size. The reader publishes its position once in TW_WORDS_HEAD_LINES lines. Two
 * opposite rings may share a token slot (token.h).
 *
 * Contents written by the other side decide nothing but which values are received.
 */
#ifndef TW_WORDS_H
#define TW_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "shmem/token.h"

#define TW_WORDS_LINES 256u
#define TW_WORDS_SLOTS 7u
#define TW_WORDS_HEAD_LINES 8u /* lines between two updates of head */
#define TW_WORDS_AHEAD 2u      /* lines that the writer prefetches */
#define TW_WORDS_LAPS 63u      /* tags of earlier laps differ, and 0 is none */

/* A tag: lap 6 bits | size code 2. */
#define TW_WORDS_LAP 4u
#define TW_WORDS_CODE 3u

struct tw_words_line {
	_Atomic(uint64_t) value[TW_WORDS_SLOTS];
	_Atomic(uint8_t) tag[8];
};

struct tw_words_slot {
	_Atomic(uint64_t) stamp;
	_Atomic(uint64_t) value;
};

/* Each control word has its own line and one writer; a waking peer also clears the sleep flags. */
struct tw_words {
	_Atomic(uint32_t) head tw_aligned_line; /* lines read */
	_Atomic(uint32_t) reader_sleeps tw_aligned_line;
	_Atomic(uint32_t) writer_sleeps tw_aligned_line;
	uint64_t cookie tw_aligned_line; /* identifies the ring */
	/* Alone in a pair of lines, which processors fetch together. */
	struct tw_words_slot token __attribute__((aligned(2 * TW_LINE)));
	struct tw_words_line lines[TW_WORDS_LINES] __attribute__((aligned(2 * TW_LINE)));
};
tw_apart(struct tw_words, reader_sleeps, writer_sleeps);
tw_apart(struct tw_words, writer_sleeps, token);
tw_apart(struct tw_words, token, lines);
_Static_assert(sizeof(struct tw_words_line) == TW_LINE, "shared memory format");
_Static_assert(sizeof(struct tw_words) == 6 * TW_LINE + TW_WORDS_LINES * TW_LINE,
	       "shared memory format");

#define TW_WORDS_BYTES ((sizeof(struct tw_words) + TW_PAGE - 1) & ~(size_t)(TW_PAGE - 1))

/* The position of a reader or a writer, in its own memory. */
struct tw_words_pos {
	uint32_t line, slot;
	uint32_t place; /* of the line in the ring's memory, in bytes */
	uint32_t tag;	/* of the words of this lap, for the smallest size */
	uint32_t head;	/* the writer's copy */
};

static inline void tw_words_pos_init(struct tw_words_pos *p)
{
	*p = (struct tw_words_pos){.place = offsetof(struct tw_words, lines), .tag = TW_WORDS_LAP};
}

/* The slot after that one; true at the end of a line. */
static inline bool tw_words_next(struct tw_words_pos *p, uint32_t slot)
{
	if (tw_likely(slot + 1 < TW_WORDS_SLOTS)) {
		p->slot = slot + 1;
		return false;
	}
	p->slot = 0;
	p->place += TW_LINE;
	if (!(++p->line & (TW_WORDS_LINES - 1))) {
		p->place = offsetof(struct tw_words, lines);
		p->tag = p->tag % (TW_WORDS_LAPS * TW_WORDS_LAP) + TW_WORDS_LAP;
	}
	return true;
}

static inline bool tw_words_full(struct tw_words_pos *p, const struct tw_words *r)
{
	if (tw_likely(p->slot || p->line - p->head < TW_WORDS_LINES))
		return false;
	/* [words-head] */
	p->head = atomic_load_explicit(&r->head, memory_order_acquire);
	return p->line - p->head >= TW_WORDS_LINES;
}

/* The place of the next word. */
struct tw_words_here {
	struct tw_words_line *line;
	uint32_t slot;
};

static inline struct tw_words_here tw_words_here(const struct tw_words_pos *p,
						 const struct tw_words *r)
{
	return (struct tw_words_here){(void *)((char *)r + p->place), p->slot};
}

/* The size code is 0 to 3, for 1 to 8 bytes. False: there is no room. */
static inline bool tw_words_put(struct tw_words_pos *p, struct tw_words *r, uint64_t value,
				unsigned code)
{
	struct tw_words_here at = tw_words_here(p, r);
	uint32_t tag = p->tag | code;

	if (tw_unlikely(tw_words_full(p, r)))
		return false;
	atomic_store_explicit(&at.line->value[at.slot], value, memory_order_relaxed);
	/* [words-tag] */
	atomic_store_explicit(&at.line->tag[at.slot], (uint8_t)tag, memory_order_release);
	if (tw_words_next(p, at.slot))
		tw_prefetch_own(&r->lines[(p->line + TW_WORDS_AHEAD) & (TW_WORDS_LINES - 1)]);
	return true;
}

static inline uint32_t tw_words_tag(struct tw_words_here at)
{
	/* [words-tag] */
	return atomic_load_explicit(&at.line->tag[at.slot], memory_order_acquire);
}

/* The size code of the next word, or -1 if there is none. */
static inline int tw_words_look(const struct tw_words_pos *p, const struct tw_words *r)
{
	uint32_t tag = tw_words_tag(tw_words_here(p, r));

	return ((tag ^ p->tag) & ~TW_WORDS_CODE) ? -1 : (int)(tag & TW_WORDS_CODE);
}

/* Takes the next one, known to be there; true if head has moved and a writer may wait. */
static inline bool tw_words_take_at(struct tw_words_pos *p, struct tw_words *r,
				    struct tw_words_here at, uint64_t *value)
{
	*value = atomic_load_explicit(&at.line->value[at.slot], memory_order_relaxed);
	if (tw_likely(!tw_words_next(p, at.slot) || p->line % TW_WORDS_HEAD_LINES))
		return false;
	/* [words-head] */
	atomic_store_explicit(&r->head, p->line, memory_order_release);
	return true;
}

static inline bool tw_words_take(struct tw_words_pos *p, struct tw_words *r, uint64_t *value)
{
	return tw_words_take_at(p, r, tw_words_here(p, r), value);
}

/* How many words came before, modulo 2^32. */
static inline uint32_t tw_words_passed(const struct tw_words_pos *p)
{
	return p->line * TW_WORDS_SLOTS + p->slot;
}

/* The number of words not yet read. */
static inline unsigned tw_words_count(struct tw_words_pos p, const struct tw_words *r)
{
	unsigned n = 0;

	while (n < TW_WORDS_LINES * TW_WORDS_SLOTS && tw_words_look(&p, r) >= 0) {
		tw_words_next(&p, p.slot);
		n++;
	}
	return n;
}

/* The token ---------------------------------------------------------------------- */

#define TW_WORDS_BACKOFF 64 /* most polls of the ring before the first of the slot */

/* A side's view of the token slot. */
struct tw_words_token {
	struct tw_words_slot *slot;
	_Atomic(uint32_t) ours; /* cleared by the sender, set by the receiver */
	uint64_t us;		/* who writes the sender's next stamp */
	uint64_t them;		/* who writes the stamp that the receiver waits for */
	unsigned refs;		/* the user's */
};

static inline void tw_words_token_init(struct tw_words_token *t, struct tw_words_slot *slot,
				       bool second)
{
	t->slot = slot;
	t->us = second ? TW_STAMP_SECOND : 0;
	t->them = t->us ^ TW_STAMP_SECOND;
	/* The second side has it first. */
	atomic_init(&t->ours, second);
}

static inline uint32_t tw_words_number(const struct tw_words_pos *p)
{
	return p->line * 8 + p->slot + 1;
}

/* True: the sender may send in it. False: the receiver may poll it. */
static inline bool tw_words_token_ours(const struct tw_words_token *t)
{
	/* [token-ours] */
	return atomic_load_explicit(&t->ours, memory_order_acquire);
}

/* Sends in it; requires tw_words_token_ours(). */
static inline void tw_words_token_put(struct tw_words_token *t, const struct tw_words_pos *p,
				      uint64_t value, unsigned code)
{
	/* [token-ours] */
	atomic_store_explicit(&t->ours, 0, memory_order_relaxed);
	atomic_store_explicit(&t->slot->value, value, memory_order_relaxed);
	/* [token-stamp] */
	atomic_store_explicit(&t->slot->stamp, tw_stamp(t->us, tw_words_number(p), code),
			      memory_order_release);
	t->us ^= TW_STAMP_OTHER;
}

/* The size code of the word in it that is next in order, or -1; requires !ours. */
static inline int tw_words_token_look(const struct tw_words_token *t, const struct tw_words_pos *p)
{
	/* [token-stamp] */
	uint64_t stamp = atomic_load_explicit(&t->slot->stamp, memory_order_acquire) ^
			 tw_stamp(t->them, tw_words_number(p), 0);

	return stamp & ~tw_stamp(0, 0, TW_WORDS_CODE) ? -1 : (int)(stamp >> TW_STAMP_LEN);
}

/* Takes the word that tw_words_token_look() has found. */
static inline uint64_t tw_words_token_take(struct tw_words_token *t)
{
	uint64_t value = atomic_load_explicit(&t->slot->value, memory_order_relaxed);

	t->them ^= TW_STAMP_OTHER;
	/* [token-ours] */
	atomic_store_explicit(&t->ours, 1, memory_order_release);
	return value;
}

/* Whether it holds a word not yet received, next in order or later. */
static inline bool tw_words_token_full(const struct tw_words_token *t)
{
	const uint64_t by = TW_STAMP_SECOND | TW_STAMP_OTHER;
	/* [token-stamp] */
	uint64_t stamp = atomic_load_explicit(&t->slot->stamp, memory_order_acquire);

	return stamp && (stamp & by) == t->them;
}

#endif /* TW_WORDS_H */
