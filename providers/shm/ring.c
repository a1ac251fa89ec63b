/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/shm/ring.h"

#include <errno.h>
#include <sys/mman.h>

void tw_ring_tx_init(struct tw_ring_tx *tx, void *mem, uint32_t nslots, uint32_t nbytes)
{
	memset(tx, 0, sizeof(*tx));
	tx->ring = mem;
	tx->bytes = (uint8_t *)(tx->ring->slots + nslots);
	tx->nslots = nslots;
	tx->nbytes = nbytes;
}

void tw_ring_rx_init(struct tw_ring_rx *rx, void *mem, uint32_t nslots, uint32_t nbytes)
{
	memset(rx, 0, sizeof(*rx));
	rx->ring = mem;
	rx->bytes = (const uint8_t *)(rx->ring->slots + nslots);
	rx->nslots = nslots;
	rx->nbytes = nbytes;
	rx->max_payload = tw_ring_max_payload(nbytes);
}

void tw_ring_pair(struct tw_ring_tx *tx, struct tw_ring_rx *rx, bool first)
{
	struct tw_slot *turn = first ? &tx->ring->turn : &rx->ring->turn;

	tx->back = rx;
	rx->back = tx;
	tx->side = first ? 0 : TW_STAMP_SECOND;
	rx->side = first ? TW_STAMP_SECOND : 0;
	tx->turn = first ? turn : NULL;
	rx->turn = first ? NULL : turn;
}

static void look(struct tw_ring_tx *tx)
{
	struct tw_ring_taken *t = &tx->ring->taken;
	uint32_t slots = atomic_load_explicit(&t->slots, memory_order_acquire);
	uint32_t bytes = atomic_load_explicit(&t->bytes, memory_order_acquire);

	/* A reader cannot have taken what was not written: ignore such claims. */
	if (tx->head - slots <= tx->head - tx->taken)
		tx->taken = slots;
	if (tx->bhead - bytes <= tx->bhead - tx->btaken)
		tx->btaken = bytes;
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

/*
 * The byte area costs memory only once it is used. The writer makes its pages,
 * so that a full system is an answer here and not a signal later.
 */
static bool make_bytes(struct tw_ring_tx *tx)
{
#ifdef MADV_POPULATE_WRITE
	if (madvise(tx->bytes, tx->nbytes, MADV_POPULATE_WRITE) < 0 && errno != EINVAL)
		return false;
#endif
	tx->bytes_ready = true;
	return true;
}

bool tw_ring_room(struct tw_ring_tx *tx, uint32_t len, uint32_t reserve)
{
	if (tw_unlikely(len > TW_RING_INLINE && !tx->bytes_ready) && !make_bytes(tx))
		return false;
	if (tw_likely(fits(tx, len, reserve)))
		return true;
	look(tx);
	return fits(tx, len, reserve);
}

void tw_ring_write_long(struct tw_ring_tx *tx, struct tw_hdr hdr, const struct iovec *iov,
			unsigned niov, uint32_t len)
{
	struct tw_slot *s = tw_ring_slot(tx);
	uint8_t *to = s->data;

	if (len > TW_RING_INLINE) {
		to = tx->bytes + tw_ring_place(&tx->bhead, len, tx->nbytes);
		tx->bhead += tw_ring_span(len);
	}
	for (unsigned i = 0; i < niov; i++) {
		tw_copy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	s->hdr = hdr;
	tw_ring_stamp(tx, s, len);
}

bool tw_ring_drained(const struct tw_ring_tx *tx)
{
	return atomic_load_explicit(&tx->ring->taken.slots, memory_order_acquire) == tx->head;
}

bool tw_ring_release(struct tw_ring_tx *tx)
{
	/* Who has published that it took a payload does not look at it again. */
	if (!tx->bytes_ready || !tw_ring_drained(tx))
		return false;
	if (madvise(tx->bytes, tx->nbytes, MADV_REMOVE) < 0)
		return false;
	tx->bytes_ready = false;
	return true;
}

bool tw_ring_put_begin(struct tw_ring_tx *tx)
{
	atomic_store_explicit(&tx->ring->wants.putting, 1, memory_order_relaxed);
	/* Pairs with the fence in tw_ring_revoke(): one of us sees the other. */
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
