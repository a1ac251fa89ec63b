/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory: one writer, one reader, packets in order.
 *
 * A packet takes one slot, a cache line with the header and up to 40 bytes of payload.
 * Longer payloads lie in the byte area, at a position that both sides compute, so that no
 * offset is ever read from shared memory. A slot is full when its stamp is its sequence
 * number plus one; the stamp is written last. The reader publishes its position in a line
 * of its own.
 *
 * A connection has two rings in one segment: a page with the control words of both, the
 * slots of the first and of the second, the bytes of the first and of the second. At first,
 * and again when it is idle, a ring has only one page of slots; the writer allocates the
 * others when it reaches the end of that page.
 *
 * Both rings share one more slot, the token slot (token.h).
 *
 * Either side may be hostile: each keeps its own indices in private memory, reads a shared
 * field once, and checks it before use.
 */
#ifndef TW_RING_H
#define TW_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "base/copy.h"
#include "shmem/packet.h"
#include "shmem/token.h"

#define TW_RING_INLINE TW_SHORT_MAX
#define TW_RING_RESERVE 16 /* slots that only control packets may use */
/*
 * Every slot is written at least this often, a power of two. If all packets used the token
 * slot, a slot could still hold the stamp of 2^32 packets ago.
 */
#define TW_RING_RENEW (1u << 30)
#define TW_RING_PINGPONG 1024 /* longest packet of a ping-pong that is demoted */
#define TW_RING_BACKOFF 16    /* most polls that leave the token slot alone */

struct tw_slot {
	_Atomic(uint64_t) stamp;
	struct tw_hdr hdr;
	uint8_t data[TW_RING_INLINE];
};
_Static_assert(sizeof(struct tw_slot) == TW_LINE, "a slot is a cache line");

/* Written by the reader only. */
struct tw_ring_taken {
	_Atomic(uint32_t) slots;
	_Atomic(uint32_t) bytes;   /* modulo 2^32, skipped positions included */
	_Atomic(uint32_t) revoked; /* the writer may not put any more */
	uint8_t pad[TW_LINE - 12];
};
/* Written by the writer only. */
struct tw_ring_wants {
	_Atomic(uint32_t) room;	   /* the writer sleeps until there is space */
	_Atomic(uint32_t) putting; /* the writer may be writing the reader's memory */
	uint8_t pad[TW_LINE - 8];
};

/* The control words of a ring. Two rings share a page. */
struct tw_ring {
	struct tw_ring_taken taken;
	struct tw_ring_wants wants;
	uint8_t pad[TW_PAGE / 4 - 2 * TW_LINE];
	struct tw_slot token; /* in the first ring, for both sides */
	uint8_t pad1[TW_PAGE / 4 - TW_LINE];
};
_Static_assert(sizeof(struct tw_ring) == TW_PAGE / 2, "two in a page");

enum { TW_RING_FIRST, TW_RING_SECOND, TW_RINGS };

#define TW_RING_AHEAD 4 /* slots ahead that are fetched for writing */
#define TW_RING_PAGE ((uint32_t)(TW_PAGE / sizeof(struct tw_slot))) /* slots of a page */

struct tw_ring_tx {
	struct tw_slot *slots;
	struct tw_slot *token;	 /* while this side may write it, else NULL */
	struct tw_ring_rx *back; /* of the same connection */
	uint64_t side;		 /* TW_STAMP_SECOND or 0 */
	uint32_t head;		 /* next slot to write */
	uint32_t limit;		 /* a short packet below this has space, as far as is known */
	uint32_t nslots, nbytes; /* powers of two */
	uint32_t taken;		 /* the reader's position when last read */
	uint32_t bhead, btaken;
	uint32_t last_read; /* position of this side's reads at its last long packet */
	bool pingpong;	    /* it had also read before that packet */
	bool slots_ready;   /* all pages of slots exist */
	uint32_t edge;	    /* else the one that ends with this slot */
	bool bytes_ready;   /* pages of the byte area exist */
	struct tw_ring *ring;
	uint8_t *bytes;
};

struct tw_ring_rx {
	struct tw_ring *ring;
	struct tw_slot *slots;
	const uint8_t *bytes;
	struct tw_slot *token; /* while the other side may write it, else NULL */
	struct tw_ring_tx *back;
	uint64_t side;	       /* of the other side */
	uint32_t backoff_left; /* polls that still leave the token slot alone */
	uint32_t tries;	       /* looks at it since then */
	struct tw_backoff backoff;
	uint32_t nslots, nbytes;
	uint32_t tail; /* next slot to read */
	uint32_t btail;
	uint32_t published; /* tail as the writer can see it */
	uint32_t max_payload;
};

/* Offset of the slots and the bytes of a ring. For TW_RINGS: the end of all. */
static inline size_t tw_ring_slots_at(unsigned which, uint32_t nslots)
{
	return TW_PAGE + which * (size_t)nslots * sizeof(struct tw_slot);
}

static inline size_t tw_ring_bytes_at(unsigned which, uint32_t nslots, uint32_t nbytes)
{
	return tw_ring_slots_at(TW_RINGS, nslots) + which * (size_t)nbytes;
}

/* Size of the segment of two rings, a multiple of a page. */
static inline size_t tw_rings_size(uint32_t nslots, uint32_t nbytes)
{
	return tw_ring_bytes_at(TW_RINGS, nslots, nbytes);
}

/* Longest payload of a packet: several fit, so that both sides can copy at once. */
static inline uint32_t tw_ring_max_payload(uint32_t nbytes)
{
	return nbytes / 8;
}

/* Allocates the first pages of both rings. False when memory is short. */
bool tw_rings_make(void *mem, uint32_t nslots);
void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes);
void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes);
/* Joins the two rings of a connection. first: this side may write the token slot first. */
void tw_ring_pair(struct tw_ring_tx *tx, struct tw_ring_rx *rx, bool first);

/* True if there is space for a packet without bytes in the byte area, as far as is known. */
static inline bool tw_ring_room_small(const struct tw_ring_tx *tx)
{
	return (int32_t)(tx->limit - tx->head) > 0;
}

/*
 * True if there is space for a packet. Reads the reader's line, or allocates pages, only
 * when it must.
 */
bool tw_ring_room(struct tw_ring_tx *tx, uint32_t len, uint32_t reserve);
/* Writes any packet; there must be space. */
void tw_ring_write_long(struct tw_ring_tx *tx, struct tw_hdr hdr, const struct iovec *iov,
			unsigned niov, uint32_t len);
/*
 * Brackets a write of the ring's writer to the reader's memory. False once the reader has
 * revoked this; revoking waits until no write is in progress.
 */
bool tw_ring_put_begin(struct tw_ring_tx *tx);
void tw_ring_put_end(struct tw_ring_tx *tx);
/* False while a write may be in progress: try again. */
bool tw_ring_revoke(struct tw_ring_rx *rx);
/* True if everything that was written has been read. */
bool tw_ring_drained(const struct tw_ring_tx *tx);
/* True if the ring has more than its first pages. */
static inline bool tw_ring_grown(const struct tw_ring_tx *tx)
{
	return tx->bytes_ready || (tx->slots_ready && tx->nslots > TW_RING_PAGE);
}

/* Releases the memory of the bytes and slots, except one page. False while it is in use. */
bool tw_ring_release(struct tw_ring_tx *tx);

/*
 * Returns the position of a payload of this length from position pos on, and moves pos to
 * its start.
 */
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

/* From now on the other side may write the token slot. */
static inline void tw_ring_expect(struct tw_ring_rx *rx, struct tw_slot *s)
{
	rx->token = s;
	rx->backoff_left = rx->backoff.polls;
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

/* Publishes a slot whose contents are written. */
static inline void tw_ring_stamp(struct tw_ring_tx *tx, struct tw_slot *s, uint32_t len)
{
	tx->head++;
	atomic_store_explicit(&s->stamp, tw_stamp(tx->side, tx->head, len), memory_order_release);
}

/*
 * Writes a message of at most 40 bytes in one piece; there must be space. Only such packets
 * use the token slot: the reader of a long one does not reply at once.
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

/* The next slot if it is full, the token slot excepted. */
static inline struct tw_slot *tw_ring_here(struct tw_ring_rx *rx)
{
	struct tw_slot *s = &rx->slots[rx->tail & (rx->nslots - 1)];

	return tw_slot_full(s, tw_ring_key(rx)) ? s : NULL;
}

/* The next slot if it is full. */
static inline struct tw_slot *tw_ring_next(struct tw_ring_rx *rx)
{
	struct tw_slot *s = tw_ring_here(rx);

	if (!s && rx->token && tw_slot_full(rx->token, tw_ring_key(rx)))
		s = rx->token;
	return s;
}

/*
 * The payload of a full slot, its length in len. NULL when the writer violates the
 * protocol. Nothing moves before tw_ring_advance().
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

/* The same for a polling reader, which leaves the token slot alone while its polls are dense. */
static inline struct tw_slot *tw_ring_poll(struct tw_ring_rx *rx, bool dense)
{
	if (rx->backoff_left && dense) {
		rx->backoff_left--;
		return tw_ring_here(rx);
	}
	rx->tries++;
	return tw_ring_next(rx);
}

/* The packet in the token slot was taken, so this side may write it. */
static inline void tw_ring_token_taken(struct tw_ring_rx *rx)
{
	rx->back->token = rx->token;
	rx->token = NULL;
	rx->backoff_left = 0;
	tw_backoff_learn(&rx->backoff, rx->tries > 1, TW_RING_BACKOFF);
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

/* Publishes the reader's position to the writer. */
static inline void tw_ring_publish(struct tw_ring_rx *rx)
{
	atomic_store_explicit(&rx->ring->taken.bytes, rx->btail, memory_order_release);
	atomic_store_explicit(&rx->ring->taken.slots, rx->tail, memory_order_release);
	rx->published = rx->tail;
}

#endif /* TW_RING_H */
