/* SPDX-License-Identifier: BSD-2-Clause */
#include "shmem/ring.h"

#include <errno.h>
#include <sys/mman.h>

/*
 * Allocates pages of shared memory, so that a full system is an error here and no signal
 * later. Where the system does not know or allow that, it is left to their first use.
 */
static bool make_pages(void *at, size_t len)
{
#ifdef MADV_POPULATE_WRITE
	return madvise(at, len, MADV_POPULATE_WRITE) == 0 || (errno != ENOMEM && errno != EFAULT);
#else
	(void)at;
	(void)len;
	return true;
#endif
}

bool tw_rings_make(void *mem, uint32_t nslots)
{
	char *first = mem;

	/* The control words and the first slots beside them. */
	return make_pages(first, 2 * TW_PAGE) &&
	       make_pages(first + tw_ring_slots_at(TW_RING_SECOND, nslots), TW_PAGE);
}

/* Computes how far short packets may go without a check. */
static void set_limit(struct tw_ring_tx *tx)
{
	tx->limit = tx->taken + tx->nslots - TW_RING_RESERVE;
	if (!tx->slots_ready && (int32_t)(tx->edge - tx->limit) < 0)
		tx->limit = tx->edge;
}

/* Only the page of slots with the next packet exists. */
static void one_page(struct tw_ring_tx *tx)
{
	tx->slots_ready = tx->nslots == TW_RING_PAGE;
	tx->edge = tx->head | (TW_RING_PAGE - 1);
	set_limit(tx);
}

void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes)
{
	char *base = mem;

	memset(tx, 0, sizeof(*tx));
	tx->ring = (struct tw_ring *)mem + which;
	tx->slots = (void *)(base + tw_ring_slots_at(which, nslots));
	tx->bytes = (void *)(base + tw_ring_bytes_at(which, nslots, nbytes));
	tx->nslots = nslots;
	tx->nbytes = nbytes;
	one_page(tx);
}

void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, unsigned which, uint32_t nslots,
		     uint32_t nbytes)
{
	char *base = mem;

	memset(rx, 0, sizeof(*rx));
	rx->ring = (struct tw_ring *)mem + which;
	rx->slots = (void *)(base + tw_ring_slots_at(which, nslots));
	rx->bytes = (void *)(base + tw_ring_bytes_at(which, nslots, nbytes));
	rx->nslots = nslots;
	rx->nbytes = nbytes;
	rx->max_payload = tw_ring_max_payload(nbytes);
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

static void look(struct tw_ring_tx *tx)
{
	struct tw_ring_taken *t = &tx->ring->taken;
	uint32_t slots = atomic_load_explicit(&t->slots, memory_order_acquire);
	uint32_t bytes = atomic_load_explicit(&t->bytes, memory_order_acquire);

	/* A reader cannot have taken what was not written: ignore such values. */
	if (tx->head - slots <= tx->head - tx->taken)
		tx->taken = slots;
	if (tx->bhead - bytes <= tx->bhead - tx->btaken)
		tx->btaken = bytes;
	set_limit(tx);
}

static bool fits(const struct tw_ring_tx *tx, uint32_t len, uint32_t reserve)
{
	uint32_t pos = tx->bhead;

	if (tx->head - tx->taken + reserve >= tx->nslots)
		return false;
	if (len <= TW_RING_INLINE)
		return true;
	tw_ring_place(&pos, len, tx->nbytes);
	return pos + tw_ring_span(len) - tx->btaken <= tx->nbytes;
}

/* The byte area is allocated at its first use. */
static bool make_bytes(struct tw_ring_tx *tx)
{
	tx->bytes_ready = make_pages(tx->bytes, tx->nbytes);
	return tx->bytes_ready;
}

/* The page in use is full, and its reader will look at the next one: allocate all. */
static bool make_slots(struct tw_ring_tx *tx)
{
	if (!make_pages(tx->slots, tx->nslots * sizeof(struct tw_slot)))
		return false;
	/* When the sequence wraps, the last slot waits for stamp 0, which new pages hold. */
	atomic_store_explicit(&tx->slots[tx->nslots - 1].stamp, 1, memory_order_relaxed);
	tx->slots_ready = true;
	set_limit(tx);
	return true;
}

bool tw_ring_room(struct tw_ring_tx *tx, uint32_t len, uint32_t reserve)
{
	if (tw_unlikely(len > TW_RING_INLINE && !tx->bytes_ready) && !make_bytes(tx))
		return false;
	if (tw_unlikely(tx->head == tx->edge && !tx->slots_ready) && !make_slots(tx))
		return false;
	if (tw_likely(fits(tx, len, reserve)))
		return true;
	look(tx);
	return fits(tx, len, reserve);
}

/*
 * Moves a line to the shared cache, where the other processor finds it sooner. A no-op on
 * processors without the instruction. doc/decisions.md, 21.
 */
static inline void demote(const void *line)
{
#ifdef __x86_64__
	__asm__ volatile("cldemote %0" : : "m"(*(const char *)line));
#else
	(void)line;
#endif
}

/* Fetches the lines of the next packet of this length for writing. */
static void own_next(const struct tw_ring_tx *tx, uint32_t len)
{
	uint32_t pos = tx->bhead;
	uint8_t *at = tx->bytes + tw_ring_place(&pos, len, tx->nbytes);

	for (uint32_t i = 0; i < len; i += TW_LINE)
		tw_prefetch_own(at + i);
}

/*
 * True if this side has read between this packet and the last one, and between that one and
 * the one before.
 */
static bool pingpong_detected(struct tw_ring_tx *tx)
{
	bool read = tx->last_read != tx->back->tail, before = tx->pingpong;

	tx->last_read = tx->back->tail;
	tx->pingpong = read;
	return read && before;
}

/* Writes a packet of a ping-pong pattern. It would slow down a stream (doc/decisions.md, 21). */
static void stamp_pingpong(struct tw_ring_tx *tx, struct tw_slot *s, const uint8_t *data,
			   uint32_t len)
{
	for (uint32_t i = 0; i < len; i += TW_LINE)
		demote(data + i);
	tw_ring_stamp(tx, s, len);
	demote(s);
	own_next(tx, len);
}

void tw_ring_write_long(struct tw_ring_tx *tx, struct tw_hdr hdr, const struct iovec *iov,
			unsigned niov, uint32_t len)
{
	struct tw_slot *s = &tx->slots[tx->head & (tx->nslots - 1)];
	uint8_t *to = s->data, *data;

	if (len > TW_RING_INLINE) {
		to = tx->bytes + tw_ring_place(&tx->bhead, len, tx->nbytes);
		tx->bhead += tw_ring_span(len);
	}
	data = to;
	for (unsigned i = 0; i < niov; i++) {
		tw_copy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	s->hdr = hdr;
	if (pingpong_detected(tx) && len > TW_RING_INLINE && len <= TW_RING_PINGPONG)
		stamp_pingpong(tx, s, data, len);
	else
		tw_ring_stamp(tx, s, len);
}

bool tw_ring_drained(const struct tw_ring_tx *tx)
{
	return atomic_load_explicit(&tx->ring->taken.slots, memory_order_acquire) == tx->head;
}

static bool drop_pages(void *from, void *to)
{
	return from == to || madvise(from, (size_t)((char *)to - (char *)from), MADV_REMOVE) == 0;
}

/* The reader has read everything, so it looks at that page only. */
static bool drop_slots(struct tw_ring_tx *tx)
{
	struct tw_slot *kept = &tx->slots[tx->head & (tx->nslots - TW_RING_PAGE)];
	bool dropped = drop_pages(tx->slots, kept) &&
		       drop_pages(kept + TW_RING_PAGE, tx->slots + tx->nslots);

	one_page(tx);
	return dropped;
}

bool tw_ring_release(struct tw_ring_tx *tx)
{
	/* The reader does not look again at a packet whose reading it has published. */
	if (!tw_ring_drained(tx))
		return false;
	if (tx->bytes_ready && !drop_pages(tx->bytes, tx->bytes + tx->nbytes))
		return false;
	tx->bytes_ready = false;
	return !tx->slots_ready || drop_slots(tx);
}

bool tw_ring_put_begin(struct tw_ring_tx *tx)
{
	atomic_store_explicit(&tx->ring->wants.putting, 1, memory_order_relaxed);
	/* Pairs with the fence in tw_ring_revoke(): one of the two sides sees the other. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&tx->ring->taken.revoked, memory_order_relaxed))
		return true;
	tw_ring_put_end(tx);
	return false;
}

void tw_ring_put_end(struct tw_ring_tx *tx)
{
	atomic_store_explicit(&tx->ring->wants.putting, 0, memory_order_release);
}

bool tw_ring_revoke(struct tw_ring_rx *rx)
{
	atomic_store_explicit(&rx->ring->taken.revoked, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !atomic_load_explicit(&rx->ring->wants.putting, memory_order_acquire);
}
