/* SPDX-License-Identifier: BSD-2-Clause */
#include "shmem/ring.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/page.h"

/*
 * Allocates pages of shared memory, those that it has only a part of among them, so that a full
 * system is an error here and no signal later. Where the system does not know or allow that, it
 * is left to their first use.
 */
static bool ring_make_pages(void *at, size_t len)
{
#ifdef MADV_POPULATE_WRITE
	uintptr_t from = tw_page_down((uintptr_t)at), to = tw_page_up((uintptr_t)at + len);

	return madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0 ||
	       (errno != ENOMEM && errno != EFAULT);
#else
	(void)at;
	(void)len;
	return true;
#endif
}

static struct tw_ring *ring_of(void *mem, unsigned which, uint32_t nslots)
{
	size_t home = TW_RING_HOME * sizeof(struct tw_slot);

	return (struct tw_ring *)((char *)mem + tw_ring_home_at(nslots) + home) + which;
}

static void *ring_slots_of(void *mem, unsigned which, uint32_t nslots)
{
	return (char *)mem + tw_ring_slots_at(which, nslots);
}

static void *ring_bytes_of(void *mem, unsigned which, uint32_t nslots, uint32_t nbytes)
{
	return (char *)mem + tw_ring_bytes_at(which, nslots, nbytes);
}

bool tw_rings_make(void *mem, uint32_t nslots)
{
	if (!ring_make_pages((char *)mem + tw_ring_home_at(nslots), TW_PAGE))
		return false;
	for (unsigned which = 0; which < TW_RINGS; which++)
		atomic_store_explicit(&ring_of(mem, which, nslots)->taken.slots,
				      tw_ring_home(0, which, nslots), memory_order_relaxed);
	return true;
}

/* Computes how far short packets may go without a check. */
static void ring_set_limit(struct tw_ring_tx *tx)
{
	tx->limit = tx->taken + tx->nslots - TW_RING_RESERVE;
	if (!tx->slots_ready && (int32_t)(tx->edge - tx->limit) < 0)
		tx->limit = tx->edge;
	if ((int32_t)(tx->open - tx->limit) > 0)
		tx->open = tx->head;
}

/* How many slots after the first at home the next packet is. */
static uint32_t ring_from_home(const struct tw_ring_tx *tx)
{
	return (tx->head - tw_ring_home(0, tx->which, tx->nslots)) & (tx->nslots - 1);
}

/* The next packets go to the home slots, and no further before they must. */
static void ring_stay_home(struct tw_ring_tx *tx)
{
	tx->home_from = tx->head;
	tx->slots_ready = false;
	tx->edge = tx->head + TW_RING_HOME - 1 - ring_from_home(tx);
	ring_set_limit(tx);
}

static void ring_share_out(struct tw_ring_share *share, uint32_t rings)
{
	uint32_t part = share->total / tw_max(rings, 1u) & ~(uint32_t)(TW_LINE - 1);

	share->rings = rings;
	share->each = tw_max(part, TW_RING_BYTES_LEAST);
}

void tw_ring_share_init(struct tw_ring_share *share, uint32_t total)
{
	share->total = total;
	ring_share_out(share, 0);
}

void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes, struct tw_ring_share *share)
{
	*tx = (struct tw_ring_tx){
		.ring = ring_of(mem, which, nslots),
		.slots = ring_slots_of(mem, which, nslots),
		.bytes = ring_bytes_of(mem, which, nslots, nbytes),
		.nslots = nslots,
		.mask = nslots - 1,
		.nbytes = nbytes,
		.part = nbytes,
		.share = share,
		.want = nbytes,
		.which = (uint8_t)which,
	};
	tx->away = (char *)mem + (which == TW_RING_FIRST ? tw_ring_home_at(nslots) + TW_PAGE : 0);
	tx->head = tx->taken = tw_ring_home(0, which, nslots);
	ring_stay_home(tx);
}

void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes)
{
	*rx = (struct tw_ring_rx){
		.ring = ring_of(mem, which, nslots),
		.slots = ring_slots_of(mem, which, nslots),
		.bytes = ring_bytes_of(mem, which, nslots, nbytes),
		.nslots = nslots,
		.mask = nslots - 1,
		.nbytes = nbytes,
		.part = nbytes,
		.max_payload = tw_ring_max_payload(nbytes),
		.which = (uint8_t)which,
	};
	rx->tail = tw_ring_home(0, which, nslots);
}

void tw_ring_pair(struct tw_ring_tx *tx, struct tw_ring_rx *rx, bool first)
{
	struct tw_slot *token = first ? &tx->ring->token : &rx->ring->token;

	tx->back = rx;
	rx->back = tx;
	tx->side = first ? 0 : TW_STAMP_SECOND;
	rx->side = first ? TW_STAMP_SECOND : 0;
	tx->token = first ? token : NULL;
	rx->token = first ? NULL : token;
}

static void ring_read_taken(struct tw_ring_tx *tx)
{
	struct tw_ring_taken *t = &tx->ring->taken;
	/* [ring-taken] */
	uint32_t slots = tw_distance_read(&tx->distance, &t->slots, tx->taken);
	uint32_t bytes = atomic_load_explicit(&t->bytes, memory_order_acquire);

	/* A reader cannot have taken what was not written: ignore such values. */
	if (tx->head - slots <= tx->head - tx->taken)
		tx->taken = slots;
	if (tx->bhead - bytes <= tx->bhead - tx->btaken)
		tx->btaken = bytes;
	ring_set_limit(tx);
}

/* True if a payload has space in the part that is wanted. */
static bool ring_bytes_fit(const struct tw_ring_tx *tx, uint32_t len)
{
	uint32_t pos = tx->bhead;

	/* The bytes up to the end of the area count as written. */
	tw_ring_place(&pos, len, tx->want, tx->nbytes);
	return pos + tw_ring_span(len) - tx->btaken <= tx->nbytes;
}

/* True if the reader must be sent a new size of the part before a payload of this length. */
static bool ring_must_say(const struct tw_ring_tx *tx, uint32_t len)
{
	return len > TW_RING_INLINE && tx->want != tx->part;
}

static bool ring_fits(const struct tw_ring_tx *tx, uint32_t len, uint32_t reserve)
{
	return tx->head - tx->taken + ring_must_say(tx, len) + reserve < tx->nslots &&
	       (len <= TW_RING_INLINE || ring_bytes_fit(tx, len));
}

/* Whole pages of the system, if it takes them back; what shares one with something else stays. */
static void ring_drop_pages(void *at, size_t len)
{
	uintptr_t from = tw_page_up((uintptr_t)at), to = tw_page_down((uintptr_t)at + len);

	if (from < to)
		madvise((void *)from, to - from, MADV_REMOVE);
}

/* Makes pages up to there, twice as many each time. The first have room for any payload. */
static bool ring_make_bytes(struct tw_ring_tx *tx, uint32_t end)
{
	uint32_t from = tx->bready, to = tw_max(2 * from, TW_RING_BYTES_LEAST);

	if (tw_likely(end <= from))
		return true;
	while (to < end)
		to *= 2;
	to = tw_min(to, tw_max(tx->want, TW_RING_BYTES_LEAST));
	if (!ring_make_pages(tx->bytes + from, to - from)) {
		ring_drop_pages(tx->bytes + from, to - from);
		return false;
	}
	tx->bready = to;
	return true;
}

/* The part of the byte area for a payload: the share of the ring. */
static uint32_t ring_part_for(struct tw_ring_tx *tx, uint32_t len)
{
	uint32_t at = tx->bhead & (tx->nbytes - 1);

	/* After a rest the pages are made from the start on. */
	if (!tx->bready && at + len > TW_RING_BYTES_LEAST)
		return TW_RING_BYTES_LEAST;
	return tw_min(tx->share->each, tx->nbytes);
}

/* Before a payload goes there. Without memory it goes where there is some; false if nowhere. */
static bool ring_prepare_bytes(struct tw_ring_tx *tx, uint32_t len)
{
	uint32_t pos = tx->bhead;

	if (tw_unlikely(!tx->bready))
		ring_share_out(tx->share, tx->share->rings + 1);
	tx->want = ring_part_for(tx, len);
	if (tw_likely(ring_make_bytes(tx, tw_ring_place(&pos, len, tx->want, tx->nbytes) + len)))
		return true;
	tx->want = tx->bready ? tw_min(tx->want, tx->bready) : tx->part;
	if (!tx->bready)
		ring_share_out(tx->share, tx->share->rings - 1);
	return tx->bready;
}

/* The byte area has no pages any more. */
static void ring_leave_share(struct tw_ring_tx *tx)
{
	if (tx->bready)
		ring_share_out(tx->share, tx->share->rings - 1);
	tx->bready = 0;
}

void tw_ring_tx_end(struct tw_ring_tx *tx)
{
	ring_leave_share(tx);
}

/*
 * The home slots are used up, and the reader will look at the next one: allocate all. It must
 * have come home, or it would not find what was written where it still is.
 */
static bool ring_make_slots(struct tw_ring_tx *tx)
{
	_Atomic(uint64_t) *last = &tx->slots[tx->nslots - 1].stamp;
	/* [ring-taken] */
	uint32_t taken = atomic_load_explicit(&tx->ring->taken.slots, memory_order_acquire);

	if ((int32_t)(taken - tx->home_from) < 0 ||
	    !ring_make_pages(tx->away, tw_ring_home_at(tx->nslots)))
		return false;
	/* When the sequence wraps, the last slot waits for stamp 0, which new pages hold. */
	if (!atomic_load_explicit(last, memory_order_relaxed))
		atomic_store_explicit(last, 1, memory_order_relaxed);
	tx->slots_ready = tx->away_ready = true;
	ring_set_limit(tx);
	return true;
}

bool tw_ring_room(struct tw_ring_tx *tx, uint32_t len, uint32_t reserve)
{
	if (len > TW_RING_INLINE && !ring_prepare_bytes(tx, len))
		return false;
	if (tw_unlikely(!tx->slots_ready) && tx->head + ring_must_say(tx, len) - tx->edge < 2 &&
	    !ring_make_slots(tx))
		return false;
	if (tw_likely(ring_fits(tx, len, reserve)))
		return true;
	ring_read_taken(tx);
	return ring_fits(tx, len, reserve);
}

/* Publishes a slot that only moves the reader, or what it knows. */
static void stamp_move(struct tw_ring_tx *tx, uint32_t where)
{
	tw_ring_stamp(tx, &tx->slots[tx->head & tx->mask], where);
}

/* The place of a payload of the byte area, which is taken. */
static inline uint8_t *ring_reserve(struct tw_ring_tx *tx, uint32_t len)
{
	uint8_t *at = tx->bytes + tw_ring_place(&tx->bhead, len, tx->part, tx->nbytes);

	tx->bhead += tw_ring_span(len);
	return at + tw_ring_lead(len);
}

void tw_ring_write_long(struct tw_ring_tx *tx, struct tw_hdr hdr, const struct iovec *iov,
			unsigned niov, uint32_t len)
{
	struct tw_slot *s;
	uint8_t *data, *to;

	if (tw_unlikely(ring_must_say(tx, len))) {
		stamp_move(tx, TW_RING_PART | tx->want / TW_LINE);
		tx->part = tx->want;
	}
	s = len > TW_RING_INLINE ? tw_ring_slot_or_token(tx, 0) : &tx->slots[tx->head & tx->mask];
	data = len > TW_RING_INLINE ? ring_reserve(tx, len) : s->data;
	to = data;
	for (unsigned i = 0; i < niov; i++) {
		tw_copy_over(tx->distance.far, to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	s->hdr = hdr;
	tw_ring_stamp(tx, s, len);
}

uint32_t tw_ring_room_mid(const struct tw_ring_tx *tx)
{
	uint32_t end = tw_min(tx->part, tx->bready), at = tx->bhead & (tx->nbytes - 1);

	return at < end ? tw_min(end - at, tx->nbytes - (tx->bhead - tx->btaken)) : 0;
}

bool tw_ring_drained(const struct tw_ring_tx *tx)
{
	/* [ring-taken] */
	return atomic_load_explicit(&tx->ring->taken.slots, memory_order_acquire) == tx->head;
}

/* True if the reader is not at home, and is sent there. */
static bool ring_go_home(struct tw_ring_tx *tx)
{
	bool away = ring_from_home(tx) >= TW_RING_HOME;

	if (away) {
		stamp_move(tx, TW_RING_JUMP);
		/* All slots but that one are free, and it is not at home. */
		tx->head = tx->taken = tw_ring_home(tx->head, tx->which, tx->nslots);
	}
	ring_stay_home(tx);
	return away;
}

/* The writer has given the size of its part. */
static bool ring_set_part(struct tw_ring_rx *rx, uint32_t what)
{
	uint32_t lines = what ^ TW_RING_PART;

	if (!lines || lines > rx->nbytes / TW_LINE)
		return false;
	rx->part = lines * TW_LINE;
	rx->tail++;
	return true;
}

bool tw_ring_control(struct tw_ring_rx *rx, const struct tw_slot *s)
{
	uint64_t stamp = atomic_load_explicit(&s->stamp, memory_order_relaxed);

	if (s == rx->token)
		return false;
	if (stamp >> TW_STAMP_LEN != TW_RING_JUMP)
		return ring_set_part(rx, (uint32_t)(stamp >> TW_STAMP_LEN));
	rx->tail = tw_ring_home(rx->tail + 1, rx->which, rx->nslots);
	return true;
}

enum tw_ring_release tw_ring_release(struct tw_ring_tx *tx)
{
	/* The reader does not look again at a packet whose reading it has published. */
	if (!tw_ring_drained(tx))
		return TW_RING_UNREAD;
	tx->open = tx->head;
	tx->bopen = tx->bhead;
	if (tx->bready)
		ring_drop_pages(tx->bytes, tx->nbytes);
	ring_leave_share(tx);
	if (tx->slots_ready && ring_go_home(tx))
		return TW_RING_WRITTEN;
	if (tx->away_ready)
		ring_drop_pages(tx->away, tw_ring_home_at(tx->nslots));
	tx->away_ready = false;
	return TW_RING_RELEASED;
}

static uint32_t delegate_word(uint32_t turn, enum tw_delegate state)
{
	return turn << TW_DELEGATE_BITS | state;
}

static bool delegate_is(uint32_t word, uint32_t turn)
{
	return word >> TW_DELEGATE_BITS ==
	       delegate_word(turn, TW_DELEGATE_BACK) >> TW_DELEGATE_BITS;
}

/* Which of two exchanges is first matters, and nothing else. */
static bool delegate_exchange(struct tw_ring *ring, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&ring->delegate.turn, &from, to,
						       memory_order_relaxed, memory_order_relaxed);
}

bool tw_ring_delegate_claim(struct tw_ring_rx *rx, uint32_t turn)
{
	uint32_t word = atomic_load_explicit(&rx->ring->delegate.turn, memory_order_relaxed);

	return delegate_is(word, turn - 1) &&
	       delegate_exchange(rx->ring, word, delegate_word(turn, TW_DELEGATE_BEGUN));
}

bool tw_ring_delegate_end(struct tw_ring_rx *rx, uint32_t turn, bool done)
{
	uint32_t begun = delegate_word(turn, TW_DELEGATE_BEGUN);
	uint32_t ended = delegate_word(turn, done ? TW_DELEGATE_DONE : TW_DELEGATE_BACK);

	/* [delegate] */
	return atomic_compare_exchange_strong_explicit(&rx->ring->delegate.turn, &begun, ended,
						       memory_order_release, memory_order_relaxed);
}

bool tw_ring_delegate_look(struct tw_ring_tx *tx, uint32_t turn, enum tw_delegate *state)
{
	/* [delegate] */
	uint32_t word = atomic_load_explicit(&tx->ring->delegate.turn, memory_order_acquire);

	*state = (enum tw_delegate)(word & ((1u << TW_DELEGATE_BITS) - 1));
	return delegate_is(word, turn);
}

enum tw_delegate tw_ring_delegate_leave(struct tw_ring_tx *tx, uint32_t turn)
{
	uint32_t word = atomic_load_explicit(&tx->ring->delegate.turn, memory_order_relaxed);
	enum tw_delegate state;

	/* Not begun, or of a peer that writes anything. */
	if (!delegate_is(word, turn) &&
	    delegate_exchange(tx->ring, word, delegate_word(turn, TW_DELEGATE_BACK)))
		return TW_DELEGATE_BACK;
	if (delegate_exchange(tx->ring, delegate_word(turn, TW_DELEGATE_BEGUN),
			      delegate_word(turn, TW_DELEGATE_LATE)))
		return TW_DELEGATE_LATE;
	tw_ring_delegate_look(tx, turn, &state);
	return state == TW_DELEGATE_DONE ? TW_DELEGATE_DONE : TW_DELEGATE_BACK;
}

bool tw_ring_put_begin(struct tw_ring_tx *tx)
{
	atomic_store_explicit(&tx->ring->wants.putting, 1, memory_order_relaxed);
	/* [put-revoke] One of the two sides sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&tx->ring->reader.revoked, memory_order_relaxed))
		return true;
	tw_ring_put_end(tx);
	return false;
}

void tw_ring_put_end(struct tw_ring_tx *tx)
{
	/* [put-end] */
	atomic_store_explicit(&tx->ring->wants.putting, 0, memory_order_release);
}

bool tw_ring_revoke(struct tw_ring_rx *rx)
{
	atomic_store_explicit(&rx->ring->reader.revoked, 1, memory_order_relaxed);
	/* [put-revoke] [get-revoke] */
	atomic_thread_fence(memory_order_seq_cst);
	/* [put-end] */
	return !atomic_load_explicit(&rx->ring->wants.putting, memory_order_acquire);
}

bool tw_ring_revoked(const struct tw_ring_tx *tx)
{
	/* [get-revoke] */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&tx->ring->reader.revoked, memory_order_relaxed);
}
