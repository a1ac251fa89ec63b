/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory: one writer, one reader, packets in order.
 *
 * A packet takes one slot, a cache line that carries header and up to 40 bytes.
 * Longer payloads lie in the byte area beside the slots, at a place that both
 * sides work out for themselves, so no offset is ever read from shared memory.
 * A slot is full when its stamp is its sequence number plus one; the stamp is
 * written last. The reader publishes how far it got in a line of its own.
 *
 * A connection has two rings in one piece of memory: a page with the words of
 * both, the slots of the first, of the second, the bytes of the first, of the
 * second. Of the slots only those of one page exist at first, and again after a
 * rest; the writer makes the others when it comes to the end of that page.
 *
 * They share one more slot, the turn, which both sides write, one after the other:
 * who has taken a packet out of it may write the next one into it, in place of the
 * slot that was due. A question and its answer then travel in a line that the
 * processor hands over together with the right to write, which takes half the time
 * of two lines that each have one writer.
 *
 * Either side may be hostile: each keeps its own indices in private memory,
 * reads a shared field once, and checks it before use.
 */
#ifndef TW_SHM_RING_H
#define TW_SHM_RING_H

#include <stdatomic.h>
#include <string.h>

#include "base/copy.h"
#include "providers/provider.h"

#define TW_RING_INLINE TW_SHORT_MAX
#define TW_RING_RESERVE 16 /* slots that only control packets may use */
/*
 * So often every slot is written, a power of two: where all goes through the turn,
 * one could come round that holds the stamp of 2^32 packets ago.
 */
#define TW_RING_RENEW (1u << 30)
#define TW_RING_PINGPONG 1024 /* longest packet that is hurried to its reader */
#define TW_RING_BACKOFF 16    /* most polls that leave the turn alone */

/*
 * The stamp: sequence number plus one, who wrote it, length. In one word, because
 * in the turn the other side's last stamp may be the number waited for.
 */
#define TW_STAMP_SECOND (1ull << 32) /* by the side that did not connect */
#define TW_STAMP_KEY (TW_STAMP_SECOND | UINT32_MAX)
#define TW_STAMP_LEN 33

struct tw_slot {
	_Atomic(uint64_t) stamp;
	struct tw_hdr hdr;
	uint8_t data[TW_RING_INLINE];
};
_Static_assert(sizeof(struct tw_slot) == TW_LINE, "a slot is a cache line");

/* Written by the reader only. */
struct tw_ring_taken {
	_Atomic(uint32_t) slots;
	_Atomic(uint32_t) bytes;   /* modulo 2^32, places skipped included */
	_Atomic(uint32_t) revoked; /* the writer may not put any more */
	uint8_t pad[TW_LINE - 12];
};
/* Written by the writer only. */
struct tw_ring_wants {
	_Atomic(uint32_t) room;	   /* it sleeps until there is room */
	_Atomic(uint32_t) putting; /* it may be writing the reader's memory just now */
	uint8_t pad[TW_LINE - 8];
};

/* The words of a ring, two of which share a page. */
struct tw_ring {
	struct tw_ring_taken taken;
	struct tw_ring_wants wants;
	uint8_t pad[TW_PAGE / 4 - 2 * TW_LINE];
	struct tw_slot token; /* of the first ring, used by both; away from its neighbours */
	uint8_t pad1[TW_PAGE / 4 - TW_LINE];
};
_Static_assert(sizeof(struct tw_ring) == TW_PAGE / 2, "two in a page");

enum { TW_RING_FIRST, TW_RING_SECOND, TW_RINGS };

#define TW_RING_AHEAD 4 /* slots that are fetched so early, to be written */
#define TW_RING_PAGE ((uint32_t)(TW_PAGE / sizeof(struct tw_slot))) /* slots of a page */

struct tw_ring_tx {
	struct tw_slot *slots;
	struct tw_slot *token;	 /* while it is ours to write, else NULL */
	struct tw_ring_rx *back; /* of the same connection */
	uint64_t side;		 /* TW_STAMP_SECOND or 0 */
	uint32_t head;		 /* next slot to write */
	uint32_t limit;		 /* a short packet below this has room, as far as is known */
	uint32_t nslots, nbytes; /* powers of two */
	uint32_t taken;		 /* last seen of the reader */
	uint32_t bhead, btaken;
	uint32_t last_read; /* what we had read when we last wrote a long packet */
	bool pingpong;	    /* and we had read since the one before */
	bool slots_ready;   /* all pages of slots exist */
	uint32_t edge;	    /* or else the one that ends with this slot */
	bool bytes_ready;   /* pages of the byte area exist */
	struct tw_ring *ring;
	uint8_t *bytes;
};

struct tw_ring_rx {
	struct tw_ring *ring;
	struct tw_slot *slots;
	const uint8_t *bytes;
	struct tw_slot *token; /* while it is the other side's, else NULL */
	struct tw_ring_tx *back;
	uint64_t side;	       /* the other one's */
	uint32_t backoff_left; /* polls that still leave it alone */
	uint32_t tries;	       /* at it, since then */
	uint32_t backoff;      /* what skip begins with, learnt */
	uint32_t first_hits;   /* of the first look, in a row or nearly */
	uint32_t nslots, nbytes;
	uint32_t tail; /* next slot to read */
	uint32_t btail;
	uint32_t published; /* tail as the writer can see it */
	uint32_t max_payload;
};

/* Where the slots and the bytes of a ring begin; those of TW_RINGS, where all end. */
static inline size_t tw_ring_slots_at(unsigned which, uint32_t nslots)
{
	return TW_PAGE + which * (size_t)nslots * sizeof(struct tw_slot);
}

static inline size_t tw_ring_bytes_at(unsigned which, uint32_t nslots, uint32_t nbytes)
{
	return tw_ring_slots_at(TW_RINGS, nslots) + which * (size_t)nbytes;
}

/* Memory that two rings of that geometry take, a multiple of a page. */
static inline size_t tw_rings_size(uint32_t nslots, uint32_t nbytes)
{
	return tw_ring_bytes_at(TW_RINGS, nslots, nbytes);
}

/* Longest payload of a packet: several must fit, for both sides to copy at once. */
static inline uint32_t tw_ring_max_payload(uint32_t nbytes)
{
	return nbytes / 8;
}

/* Makes the pages that both rings begin with; false when memory is short. */
bool tw_rings_make(void *mem, uint32_t nslots);
void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes);
void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes);
/* Makes them the two rings of a connection: first is the side that has the first turn. */
void tw_ring_pair(struct tw_ring_tx *tx, struct tw_ring_rx *rx, bool first);

/* Room for a packet without a payload in the byte area, as far as is known? */
static inline bool tw_ring_room_small(const struct tw_ring_tx *tx)
{
	return (int32_t)(tx->limit - tx->head) > 0;
}

/* Room for a packet? Looks at the reader's line, or makes pages, only when it has to. */
bool tw_ring_room(struct tw_ring_tx *tx, uint32_t len, uint32_t reserve);
/* Writes any packet; there must be room. */
void tw_ring_write_long(struct tw_ring_tx *tx, struct tw_hdr hdr, const struct iovec *iov,
			unsigned niov, uint32_t len);
/*
 * The writer of a ring may write the reader's memory in between; false once the
 * reader has revoked that, which then waits until no write is under way.
 */
bool tw_ring_put_begin(struct tw_ring_tx *tx);
void tw_ring_put_end(struct tw_ring_tx *tx);
/* False while a write may be under way: try again. */
bool tw_ring_revoke(struct tw_ring_rx *rx);
/* All that was written has been read. */
bool tw_ring_drained(const struct tw_ring_tx *tx);
/* Has more memory than a ring begins with. */
static inline bool tw_ring_grown(const struct tw_ring_tx *tx)
{
	return tx->bytes_ready || (tx->slots_ready && tx->nslots > TW_RING_PAGE);
}

/* Gives back the memory of bytes and slots, but for a page; false while it is in use. */
bool tw_ring_release(struct tw_ring_tx *tx);

/* Where a payload of that length goes from position pos; pos moves to its start. */
static inline uint32_t tw_ring_place(uint32_t *pos, uint32_t len, uint32_t nbytes)
{
	uint32_t at = *pos & (nbytes - 1);

	if (at + len > nbytes) {
		*pos += nbytes - at;
		at = 0;
	}
	return at;
}

static inline uint32_t tw_ring_span(uint32_t len)
{
	return (len + TW_LINE - 1) & ~(uint32_t)(TW_LINE - 1);
}

static inline uint64_t tw_stamp(uint64_t side, uint32_t number, uint32_t len)
{
	return (uint64_t)len << TW_STAMP_LEN | side | number;
}

/* The other side has the turn from now on. */
static inline void tw_ring_expect(struct tw_ring_rx *rx, struct tw_slot *s)
{
	rx->token = s;
	rx->backoff_left = rx->backoff;
	rx->tries = 0;
}

/* The slot of the next packet. */
static inline struct tw_slot *tw_ring_slot(struct tw_ring_tx *tx)
{
	struct tw_slot *s = tx->token;

	if (!s || tw_unlikely((~tx->head & (TW_RING_RENEW - 1)) < tx->nslots)) {
		tw_prefetch_own(&tx->slots[(tx->head + TW_RING_AHEAD) & (tx->nslots - 1)]);
		return &tx->slots[tx->head & (tx->nslots - 1)];
	}
	tx->token = NULL;
	tw_ring_expect(tx->back, s);
	return s;
}

/* Its contents are written. */
static inline void tw_ring_stamp(struct tw_ring_tx *tx, struct tw_slot *s, uint32_t len)
{
	tx->head++;
	atomic_store_explicit(&s->stamp, tw_stamp(tx->side, tx->head, len), memory_order_release);
}

/*
 * Writes a message of at most 40 bytes in one piece; there must be room. The turn is
 * for these only: who moves a long one has no time to answer at once.
 */
static inline void tw_ring_write_small(struct tw_ring_tx *tx, struct tw_hdr hdr, const void *data,
				       uint32_t len)
{
	struct tw_slot *s = tw_ring_slot(tx);

	s->hdr = hdr;
	tw_copy(s->data, data, len);
	tw_ring_stamp(tx, s, len);
}

static inline bool tw_slot_full(const struct tw_slot *s, uint64_t key)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);

	return (stamp & TW_STAMP_KEY) == key;
}

static inline uint64_t tw_ring_key(const struct tw_ring_rx *rx)
{
	return rx->side | (uint32_t)(rx->tail + 1);
}

/* The next slot, when it is full and not the turn. */
static inline struct tw_slot *tw_ring_here(struct tw_ring_rx *rx)
{
	struct tw_slot *s = &rx->slots[rx->tail & (rx->nslots - 1)];

	return tw_slot_full(s, tw_ring_key(rx)) ? s : NULL;
}

/* The next slot, when it is full. */
static inline struct tw_slot *tw_ring_next(struct tw_ring_rx *rx)
{
	struct tw_slot *s = tw_ring_here(rx);

	if (!s && rx->token && tw_slot_full(rx->token, tw_ring_key(rx)))
		s = rx->token;
	return s;
}

/*
 * The payload of a full slot, its length in len. NULL when the writer lies.
 * Nothing moves before tw_ring_advance().
 */
static inline const void *tw_ring_payload(struct tw_ring_rx *rx, struct tw_slot *s, uint32_t *len)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);
	uint32_t n = (uint32_t)(stamp >> TW_STAMP_LEN), pos = rx->btail;

	*len = n;
	if (tw_likely(n <= TW_RING_INLINE))
		return s->data;
	if (n > rx->max_payload)
		return NULL;
	return rx->bytes + tw_ring_place(&pos, n, rx->nbytes);
}

/*
 * The same for who polls. To look at the turn takes it from the other side's cache,
 * so whoever is about to answer must have it brought back first. A look too late is
 * as bad: how many polls it is left alone follows from the looks that it took. Only
 * for polls that come one upon the other (dense).
 */
static inline struct tw_slot *tw_ring_poll(struct tw_ring_rx *rx, bool dense)
{
	if (rx->backoff_left && dense) {
		rx->backoff_left--;
		return tw_ring_here(rx);
	}
	rx->tries++;
	return tw_ring_next(rx);
}

/* The turn was taken, and is ours. */
static inline void tw_ring_token_taken(struct tw_ring_rx *rx)
{
	rx->back->token = rx->token;
	rx->token = NULL;
	rx->backoff_left = 0;
	if (rx->tries > 1) {
		rx->backoff += rx->backoff < TW_RING_BACKOFF;
	} else if ((++rx->first_hits & 3) == 0) {
		rx->backoff -= rx->backoff > 0;
	}
}

static inline void tw_ring_advance(struct tw_ring_rx *rx, const struct tw_slot *s, uint32_t len)
{
	rx->tail++;
	if (s == rx->token)
		tw_ring_token_taken(rx);
	if (tw_unlikely(len > TW_RING_INLINE)) {
		tw_ring_place(&rx->btail, len, rx->nbytes);
		rx->btail += tw_ring_span(len);
	}
}

/* Lets the writer see what has been read. */
static inline void tw_ring_publish(struct tw_ring_rx *rx)
{
	atomic_store_explicit(&rx->ring->taken.bytes, rx->btail, memory_order_release);
	atomic_store_explicit(&rx->ring->taken.slots, rx->tail, memory_order_release);
	rx->published = rx->tail;
}

#endif /* TW_SHM_RING_H */
