/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring in shared memory: one writer, one reader, packets in order.
 *
 * A packet takes one slot, two cache lines with the header and up to 104 bytes of payload.
 * Longer payloads lie in the byte area, at a position that both sides compute, so that no
 * offset is ever read from shared memory. A slot is full when its stamp is its sequence
 * number plus one; the stamp is written last. The reader publishes its position in a line
 * of its own.
 *
 * A connection has two rings in one segment. One page of it, the home page, has the control
 * words of both, the last slots of the second ring and the first slots of the first: there the
 * packets begin, so that a connection that is idle needs one page. A writer that comes to the end
 * of its home slots allocates the others. After a rest it says in a slot that the next packet is
 * the first of the home slots (TW_RING_JUMP), and once that is read it releases the others.
 * Its payloads lie in a part of the byte area, the first bytes of it. The writer chooses how many,
 * and says so in a slot (TW_RING_PART). Pages exist as far as the part was used.
 *
 *	slots of the second | home page: slots, control words, slots | slots of the first | bytes
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

#include "base/barrier.h"
#include "base/compiler.h"
#include "base/copy.h"
#include "base/distance.h"
#include "shmem/packet.h"
#include "shmem/token.h"

#define TW_RING_INLINE (2 * TW_LINE - 24) /* bytes of a slot */
#define TW_RING_FIRST_LINE 40		  /* of them in the line of the header */
#define TW_RING_RESERVE 16 /* slots that only control packets may use */
/*
 * Every slot is written at least this often, a power of two. If all packets used the token
 * slot, a slot could still hold the stamp of 2^32 packets ago.
 */
#define TW_RING_RENEW (1u << 30)
#define TW_RING_EARLY 256     /* longest packet whose lines its reader fetches before it is there */
#define TW_RING_EARLY_FAR 16448u /* the same if the writer is far: 16 KiB and a line */
#define TW_RING_EMPTY_POLLS 4 /* looks in vain, after which this side waits */
#define TW_RING_BACKOFF 16    /* most polls that leave the token slot alone */

struct tw_slot {
	_Atomic(uint64_t) stamp;
	struct tw_hdr hdr;
	uint8_t data[TW_RING_INLINE];
};
_Static_assert(sizeof(struct tw_slot) == 2 * TW_LINE &&
		       offsetof(struct tw_slot, data) + TW_RING_FIRST_LINE == TW_LINE,
	       "a slot is a pair of cache lines");

/* Written by the reader only. */
struct tw_ring_taken {
	_Atomic(uint32_t) slots;
	_Atomic(uint32_t) bytes;  /* modulo 2^32, skipped positions included */
	_Atomic(uint64_t) polled; /* tw_clock() of a recent poll of the reader */
	uint8_t pad[TW_LINE - 16];
};
/* Also written by the reader only, but seldom: every send and get reads it. */
struct tw_ring_reader {
	_Atomic(uint32_t) armed;   /* enum tw_idle_state that needs a doorbell, or 0 */
	_Atomic(uint32_t) revoked; /* the writer may not put or get any more */
	uint8_t pad[TW_LINE - 8];
};
/* Written by the writer only. */
struct tw_ring_wants {
	_Atomic(uint32_t) room;	   /* the writer sleeps until there is space */
	_Atomic(uint32_t) putting; /* the writer may be writing the reader's memory */
	uint8_t pad[TW_LINE - 8];
};

/*
 * Work that the writer delegates to the reader, one turn at a time. Either side may do it: the
 * reader claims it, or the writer takes it back. Both write the word, by exchanges only.
 */
enum tw_delegate {
	TW_DELEGATE_BACK,  /* the writer's again */
	TW_DELEGATE_BEGUN, /* the reader is doing it */
	TW_DELEGATE_DONE,
	TW_DELEGATE_LATE,  /* it is, and the writer no longer looks here */
};
#define TW_DELEGATE_BITS 2

struct tw_ring_delegate {
	_Atomic(uint32_t) turn; /* its number, then enum tw_delegate */
	uint32_t pad;
	uint8_t result[TW_LINE - 8]; /* of one that is DONE; written by the reader only */
};

/* The control words of a ring. Processors fetch lines in pairs. */
struct tw_ring {
	struct tw_ring_taken taken;
	struct tw_ring_delegate delegate;
	struct tw_ring_wants wants;
	struct tw_ring_reader reader;
	struct tw_slot token; /* in the first ring, for both sides */
	uint8_t pad1[2 * TW_LINE];
};
tw_apart(struct tw_ring, taken, wants);
tw_apart(struct tw_ring, taken, token);
tw_apart(struct tw_ring, reader, token);
_Static_assert(sizeof(struct tw_ring) % (2 * TW_LINE) == 0, "shares no line of 128 bytes");

enum { TW_RING_FIRST, TW_RING_SECOND, TW_RINGS };

#define TW_RING_HOME 12u /* slots of a ring in the home page */
_Static_assert(TW_RINGS *(sizeof(struct tw_ring) + TW_RING_HOME * sizeof(struct tw_slot)) ==
		       TW_PAGE,
	       "all of the home page");

#define TW_RING_AHEAD 4 /* slots ahead that are fetched for writing */
/* As a length: the next packet is the first at home. */
#define TW_RING_JUMP ((uint32_t)(UINT64_MAX >> TW_STAMP_LEN))
/* As a length, with a number of lines: the part of the byte area that is used from now on. */
#define TW_RING_PART (1u << 29)

#define TW_RING_BYTES_LEAST 65536u /* of the byte area, and of a share of it */
#define TW_RING_PAYLOAD_MOST 32768u
_Static_assert(2 * TW_RING_PAYLOAD_MOST <= TW_RING_BYTES_LEAST,
	       "a drained ring has room for a payload at its start, wherever the last one ended");

/*
 * The byte areas of all rings that an endpoint writes. The parts in use are together as large as
 * one area, unless they are the least (doc/decisions.md, 169).
 */
struct tw_ring_share {
	uint32_t total;
	uint32_t rings; /* that use their byte area */
	uint32_t each;	/* bytes that one of them may use */
};

/*
 * A provider may lend the engine its writing side as a txq: while that is open, the engine
 * writes short packets itself, and nobody else writes. The engine opens and closes it
 * (src/engine/send.c); the ring closes it where its space shrinks.
 */
struct tw_ring_tx {
	struct tw_slot *slots;
	struct tw_slot *token; /* while this side may write it, else NULL */
	uint64_t side;		 /* TW_STAMP_SECOND or 0 */
	uint32_t head;		 /* next slot to write */
	uint32_t open;		 /* the txq is open for the slots from head up to this */
	uint32_t bopen;		 /* and for the bytes from bhead up to this */
	uint64_t payload;	 /* the engine's: bytes of the packets since it was opened */
	uint32_t lines;		 /* the same: lines to pay for besides those of its slots */
	uint32_t mask;		 /* nslots - 1 */
	uint32_t limit;		 /* a short packet below this has space, as far as is known */
	struct tw_ring_rx *back; /* of the same connection */
	uint32_t nslots, nbytes; /* powers of two */
	uint8_t which;		 /* of the two rings */
	uint32_t taken;		 /* the reader's position when last read */
	uint32_t bhead, btaken;
	uint32_t last_read; /* position of this side's reads at its last packet of several lines */
	bool slots_ready;   /* all slots may be used */
	uint32_t edge;	    /* else those at home, which end with this one */
	uint32_t home_from; /* number of the first packet there */
	bool away_ready;    /* the pages of the other slots exist */
	uint32_t bready;    /* bytes of its start that have pages; 0: it has no part in the share */
	struct tw_ring_share *share;
	void *away;	    /* pages of the other slots */
	struct tw_ring *ring;
	uint8_t *bytes;
	struct tw_distance distance; /* of the reader */
	uint32_t part; /* bytes of the byte area in use, from its start, as the reader knows */
	uint32_t want; /* that are to be used from the next payload on */
	uint64_t peer; /* the engine's: name of the other side, for its probes */
};

struct tw_link;

/* And its reading side, which the engine looks at in every poll (struct tw_rxqs). */
struct tw_ring_rx {
	struct tw_ring *ring;
	struct tw_slot *slots;
	const uint8_t *bytes;
	struct tw_slot *token; /* while the other side may write it, else NULL */
	struct tw_ring_tx *back;
	uint64_t side;	       /* of the other side */
	uint32_t backoff_left; /* polls that still leave the token slot alone */
	uint32_t tries;	       /* looks at it in vain since then */
	uint32_t empty_polls;  /* looks in vain since the last packet */
	uint32_t expected; /* length of the last packet; 0: it was too long to be fetched early */
	uint32_t sent;	   /* head of this side's writes then, if that lay in the byte area */
	const uint8_t *early; /* where the next one like that lies */
	struct tw_backoff backoff;
	uint32_t nslots, nbytes;
	uint8_t which; /* of the two rings */
	uint32_t mask; /* nslots - 1 */
	uint32_t tail; /* next slot to read */
	uint32_t btail;
	uint32_t bpublished; /* btail as the writer can see it */
	uint32_t max_payload;
	uint32_t part;	    /* bytes of the byte area in use */
	bool refused;	    /* the engine does not accept the next packet */
	bool fence; /* one side's barrier does not reach the other */
	struct tw_link *link; /* of its provider */
};

/* Offset of the home page. */
static inline size_t tw_ring_home_at(uint32_t nslots)
{
	return nslots * sizeof(struct tw_slot);
}

/* Offset of the slots and the bytes of a ring. For TW_RINGS: the end of all. */
static inline size_t tw_ring_slots_at(unsigned which, uint32_t nslots)
{
	size_t home = TW_RING_HOME * sizeof(struct tw_slot);

	return which == TW_RING_FIRST ? tw_ring_home_at(nslots) + TW_PAGE - home : home;
}

static inline size_t tw_ring_bytes_at(unsigned which, uint32_t nslots, uint32_t nbytes)
{
	return TW_RINGS * tw_ring_home_at(nslots) + TW_PAGE + which * (size_t)nbytes;
}

/* The number from n on whose slot is the first at home. */
static inline uint32_t tw_ring_home(uint32_t n, unsigned which, uint32_t nslots)
{
	uint32_t first = which == TW_RING_FIRST ? 0 : nslots - TW_RING_HOME;

	return n + ((first - n) & (nslots - 1));
}

/* Size of the segment of two rings, a multiple of a page. */
static inline size_t tw_rings_size(uint32_t nslots, uint32_t nbytes)
{
	return tw_ring_bytes_at(TW_RINGS, nslots, nbytes);
}

/* Longest payload of a packet: two or more fit, so that both sides can copy at once. */
static inline uint32_t tw_ring_max_payload(uint32_t nbytes)
{
	return tw_min(nbytes / 8, TW_RING_PAYLOAD_MOST);
}

void tw_ring_share_init(struct tw_ring_share *share, uint32_t total);

/* Allocates the home page of both rings. False when memory is short. */
bool tw_rings_make(void *mem, uint32_t nslots);
void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes, struct tw_ring_share *share);
/* The ring is written no more. */
void tw_ring_tx_end(struct tw_ring_tx *tx);
void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes);
/* Joins the two rings of a connection. first: this side may write the token slot first. */
void tw_ring_pair(struct tw_ring_tx *tx, struct tw_ring_rx *rx, bool first);

/* True if a txq that was opened is open for one more packet. */
static inline bool tw_ring_open(const struct tw_ring_tx *tx)
{
	return tx->open != tx->head;
}

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
/* The bytes of the byte area that may be written in one piece, as far as is known. */
uint32_t tw_ring_room_mid(const struct tw_ring_tx *tx);
/*
 * Brackets a write of the ring's writer to the reader's memory. False once the reader has
 * revoked this; revoking waits until no write is in progress.
 */
bool tw_ring_put_begin(struct tw_ring_tx *tx);
void tw_ring_put_end(struct tw_ring_tx *tx);
/* False while a write may be in progress: try again. */
bool tw_ring_revoke(struct tw_ring_rx *rx);
/* After a read of the reader's memory: true if that may have been used again since. */
bool tw_ring_revoked(const struct tw_ring_tx *tx);
/* The reader: whether this turn is its own. Turns follow each other by one. */
bool tw_ring_delegate_claim(struct tw_ring_rx *rx, uint32_t turn);
/* The reader has done its turn, or not. False: the writer needs a reply. */
bool tw_ring_delegate_end(struct tw_ring_rx *rx, uint32_t turn, bool done);
/* The writer looks at its turn. False: the reader has not claimed it. */
bool tw_ring_delegate_look(struct tw_ring_tx *tx, uint32_t turn, enum tw_delegate *state);
/* The writer waits no longer. Returns BACK, DONE, or LATE. */
enum tw_delegate tw_ring_delegate_leave(struct tw_ring_tx *tx, uint32_t turn);
/* True if everything that was written has been read. */
bool tw_ring_drained(const struct tw_ring_tx *tx);
/* True if the ring has more than the home page. */
static inline bool tw_ring_grown(const struct tw_ring_tx *tx)
{
	return tx->bready || tx->away_ready;
}

enum tw_ring_release {
	TW_RING_RELEASED,
	TW_RING_WRITTEN, /* a packet was written, which the reader must take first */
	TW_RING_UNREAD,	 /* the reader has not taken all packets */
};
/* Releases what lies beyond the home page. Memory that the system does not take back stays. */
enum tw_ring_release tw_ring_release(struct tw_ring_tx *tx);
/* True if a slot that tw_ring_payload() refused is no packet, but moves the reader, or its part. */
bool tw_ring_control(struct tw_ring_rx *rx, const struct tw_slot *s);

/*
 * Returns the position of a payload of this length from position pos on, and moves pos to
 * its start. It lies in the part in use; positions count the whole byte area.
 */
static inline uint32_t tw_ring_place(uint32_t *pos, uint32_t len, uint32_t part, uint32_t nbytes)
{
	uint32_t at = *pos & (nbytes - 1);

	if (at + len > part) {
		*pos += nbytes - at;
		at = 0;
	}
	return at;
}

/*
 * Where a payload begins in its first line. One of whole lines after a word of immediate data ends
 * with a line, so that its data begins with one (doc/decisions.md, 172).
 */
static inline uint32_t tw_ring_lead(uint32_t len)
{
	return len % TW_LINE == sizeof(uint64_t) ? TW_LINE - sizeof(uint64_t) : 0;
}

static inline uint32_t tw_ring_span(uint32_t len)
{
	return (len + TW_LINE - 1) & ~(uint32_t)(TW_LINE - 1);
}

/* True if an open txq is open for a payload of this length in the byte area. */
static inline bool tw_ring_open_mid(const struct tw_ring_tx *tx, uint32_t len)
{
	return tw_ring_span(len) <= tx->bopen - tx->bhead;
}

/* From now on the other side may write the token slot. */
static inline void tw_ring_expect(struct tw_ring_rx *rx, struct tw_slot *s)
{
	rx->token = s;
	rx->backoff_left = rx->backoff.polls;
	rx->tries = 0;
}

/*
 * The next slot of the ring, for a payload of this length. A later slot is fetched for writing; its
 * second line in a stream only: in an exchange the other side fetches that line with the first.
 */
static inline struct tw_slot *tw_ring_slot(struct tw_ring_tx *tx, uint32_t len)
{
	struct tw_slot *s = &tx->slots[tx->head & tx->mask];

	/* Beyond the last slot too, once a round: that costs less than to ask. */
	if (len <= TW_RING_FIRST_LINE) {
		tw_prefetch_own(s + TW_RING_AHEAD);
		return s;
	}
	if (tx->last_read == tx->back->tail) {
		tw_prefetch_own(s + TW_RING_AHEAD);
		tw_prefetch_own(s[TW_RING_AHEAD].data + TW_RING_FIRST_LINE);
	}
	tx->last_read = tx->back->tail;
	return s;
}

/* The slot of the next packet, which may be the token slot. */
static inline struct tw_slot *tw_ring_slot_or_token(struct tw_ring_tx *tx, uint32_t len)
{
	struct tw_slot *s = tx->token;

	if (!s || tw_unlikely((~tx->head & (TW_RING_RENEW - 1)) < tx->nslots))
		return tw_ring_slot(tx, len);
	tx->token = NULL;
	tw_ring_expect(tx->back, s);
	return s;
}

/* Publishes a slot whose contents are written. */
static inline void tw_ring_stamp(struct tw_ring_tx *tx, struct tw_slot *s, uint32_t len)
{
	tx->head++;
	/* [ring-stamp] */
	atomic_store_explicit(&s->stamp, tw_stamp(tx->side, tx->head, len), memory_order_release);
}

/* Writes a packet of one slot in one piece; there must be space. */
static inline void tw_ring_write_small(struct tw_ring_tx *tx, struct tw_hdr hdr, const void *data,
				       uint32_t len)
{
	struct tw_slot *s = tw_ring_slot_or_token(tx, len);

	s->hdr = hdr;
	tw_copy(s->data, data, len);
	tw_ring_stamp(tx, s, len);
}

/* The place of a payload for which tw_ring_open_mid() is true, and which is taken. */
static inline uint8_t *tw_ring_take_bytes(struct tw_ring_tx *tx, uint32_t len)
{
	uint8_t *to = tx->bytes + (tx->bhead & (tx->nbytes - 1));

	tx->bhead += tw_ring_span(len);
	return to + tw_ring_lead(len);
}

static inline bool tw_slot_full(const struct tw_slot *s, uint64_t key)
{
	/* [ring-stamp] */
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_acquire);

	return !((stamp ^ key) << (64 - TW_STAMP_LEN));
}

static inline uint64_t tw_ring_key(const struct tw_ring_rx *rx)
{
	return rx->side | (uint32_t)(rx->tail + 1);
}

/*
 * Fetches what the next packet probably consists of besides its first line, for which its reader
 * would wait once more after it was found. In a stream that takes lines from the writer, so the
 * byte area is left alone until this side has written, too (doc/decisions.md, 157, 163 and 178).
 * Inlined always: gcc 12 drops calls of a function that only prefetches.
 */
static tw_inline void tw_ring_fetch(const struct tw_ring_rx *rx, const struct tw_slot *s)
{
	__builtin_prefetch(s->data + TW_RING_FIRST_LINE);
	if (tw_likely(rx->expected <= TW_RING_INLINE) || rx->back->head == rx->sent)
		return;
	/* Most often without a loop. */
	__builtin_prefetch(rx->early);
	__builtin_prefetch(rx->early + TW_LINE);
	if (rx->expected <= TW_RING_EARLY / 2)
		return;
	__builtin_prefetch(rx->early + 2 * TW_LINE);
	__builtin_prefetch(rx->early + 3 * TW_LINE);
	for (uint32_t at = TW_RING_EARLY; tw_unlikely(at < rx->expected); at += TW_LINE)
		__builtin_prefetch(rx->early + at);
}
_Static_assert(TW_RING_EARLY == 4 * TW_LINE, "all lines are fetched");

/*
 * Whether there is a packet. A side that waits fetches more than its first line early, and so does
 * one whose last packet had more, unless that was too long.
 */
static inline bool tw_ring_look(struct tw_ring_rx *rx, const struct tw_slot *s, uint64_t key)
{
	if (rx->expected > TW_RING_FIRST_LINE || rx->empty_polls >= TW_RING_EMPTY_POLLS)
		tw_ring_fetch(rx, s);
	if (tw_slot_full(s, key))
		return true;
	rx->empty_polls++;
	return false;
}

/* The next slot if it is full. */
static inline struct tw_slot *tw_ring_next(struct tw_ring_rx *rx)
{
	struct tw_slot *s = &rx->slots[rx->tail & rx->mask];

	if (tw_ring_look(rx, s, tw_ring_key(rx)))
		return s;
	return rx->token && tw_ring_look(rx, rx->token, tw_ring_key(rx)) ? rx->token : NULL;
}

/* True if another packet follows the next one. */
static inline bool tw_ring_has_more(const struct tw_ring_rx *rx)
{
	return tw_slot_full(&rx->slots[(rx->tail + 1) & rx->mask],
			    rx->side | (uint32_t)(rx->tail + 2));
}

/* The payload of a packet of this length, at most max_payload. */
static inline const void *tw_ring_data(const struct tw_ring_rx *rx, const struct tw_slot *s,
				       uint32_t len)
{
	uint32_t pos = rx->btail;

	if (tw_likely(len <= TW_RING_INLINE))
		return s->data;
	return rx->bytes + tw_ring_place(&pos, len, rx->part, rx->nbytes) + tw_ring_lead(len);
}

/*
 * The payload of a full slot, its length in len. NULL when the writer violates the
 * protocol. Nothing moves before tw_ring_advance().
 */
static inline const void *tw_ring_payload(struct tw_ring_rx *rx, struct tw_slot *s, uint32_t *len)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);

	*len = (uint32_t)(stamp >> TW_STAMP_LEN);
	return tw_likely(*len <= rx->max_payload) ? tw_ring_data(rx, s, *len) : NULL;
}

/*
 * Copies out of a ring. back: that of the same connection that this side writes, which has measured
 * how far the other side is. NULL: the data is in no ring.
 */
static inline void tw_ring_copy(const struct tw_ring_tx *back, void *to, const void *from, size_t n)
{
	if (tw_unlikely(n > TW_COPY_SHORT) && back && !back->distance.far)
		tw_copy_back(to, from, n);
	else
		tw_copy(to, from, n);
}

/* The writer may know that this side polls. */
static inline void tw_ring_show_poll(struct tw_ring_rx *rx, uint64_t now)
{
	atomic_store_explicit(&rx->ring->taken.polled, now, memory_order_relaxed);
}

static inline void tw_rings_show_poll(struct tw_ring_rx *const *rx, unsigned n, uint64_t now)
{
	for (unsigned i = 0; i < n; i++)
		tw_ring_show_poll(rx[i], now);
}

/* A poll: true if it finds nothing. It leaves the token slot alone while polls are dense. */
static inline bool tw_ring_poll_empty(struct tw_ring_rx *rx, const bool *dense)
{
	uint64_t key = tw_ring_key(rx);

	if (tw_unlikely(tw_ring_look(rx, &rx->slots[rx->tail & rx->mask], key)))
		return false;
	if (tw_likely(!rx->token))
		return true;
	if (rx->backoff_left && *dense) {
		rx->backoff_left--;
		return true;
	}
	if (tw_ring_look(rx, rx->token, key))
		return false;
	rx->tries++;
	return true;
}

/* The packet in the token slot was taken, so this side may write it. */
static inline void tw_ring_token_taken(struct tw_ring_rx *rx)
{
	rx->back->token = rx->token;
	rx->token = NULL;
	rx->backoff_left = 0;
	tw_backoff_learn(&rx->backoff, rx->tries > 0, TW_RING_BACKOFF);
}

/* Another packet of this length, of the byte area, is to be fetched early if it is not too long. */
static inline void tw_ring_expect_bytes(struct tw_ring_rx *rx, uint32_t len)
{
	uint32_t pos = rx->btail;

	if (len > (rx->back->distance.far ? TW_RING_EARLY_FAR : TW_RING_EARLY)) {
		rx->expected = 0;
		return;
	}
	rx->early = rx->bytes + tw_ring_place(&pos, len, rx->part, rx->nbytes);
	rx->sent = rx->back->head;
}

static inline void tw_ring_advance(struct tw_ring_rx *rx, const struct tw_slot *s, uint32_t len)
{
	rx->tail++;
	rx->empty_polls = 0;
	rx->expected = len;
	if (s == rx->token)
		tw_ring_token_taken(rx);
	if (tw_unlikely(len > TW_RING_INLINE)) {
		tw_ring_place(&rx->btail, len, rx->part, rx->nbytes);
		rx->btail += tw_ring_span(len);
		tw_ring_expect_bytes(rx, len);
	}
}

/* Publishes the reader's position. True if the writer sleeps until there is space. */
static inline bool tw_ring_publish(struct tw_ring_rx *rx)
{
	/* [ring-taken] */
	atomic_store_explicit(&rx->ring->taken.bytes, rx->btail, memory_order_release);
	atomic_store_explicit(&rx->ring->taken.slots, rx->tail, memory_order_release);
	rx->bpublished = rx->btail;
	/* [ring-room] */
	if (tw_unlikely(rx->fence))
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	return atomic_load_explicit(&rx->ring->wants.room, memory_order_relaxed);
}

#endif /* TW_RING_H */
