/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a ring whose other end writes anything anywhere. Packets are
 * read within the ring, and the writer stays within it.
 */
#include "fuzz/fuzz.h"
#include "shmem/ring.h"

const unsigned fuzz_inputs = 2000000;

#define SLOTS 64
#define BYTES 262144

static void take(struct tw_ring_rx *rx)
{
	struct tw_slot *s;
	unsigned budget = 200;

	while (budget-- && (s = tw_ring_next(rx))) {
		uint32_t len;
		const uint8_t *p = tw_ring_payload(rx, s, &len);

		if (!p && tw_ring_control(rx, s))
			continue;
		if (!p)
			return;
		FUZZ_MUST(len <= tw_ring_max_payload(BYTES) || len <= TW_RING_INLINE);
		/* Of this ring alone, not anywhere in the segment of both. */
		if (len <= TW_RING_INLINE)
			FUZZ_MUST(p == s->data);
		else
			FUZZ_MUST(p >= rx->bytes && p + len <= rx->bytes + BYTES);
		tw_ring_advance(rx, s, len);
	}
	tw_ring_publish(rx);
}

static void give(struct tw_ring_tx *tx, struct input *in)
{
	static uint8_t data[BYTES / 8];
	uint32_t len = in_word(in) % (sizeof(data) + 1), head = tx->head, bhead = tx->bhead;
	struct iovec iov = {data, len};

	if (!tw_ring_room(tx, len, in_byte(in) % 2 ? TW_RING_RESERVE : 0))
		return;
	if (len <= TW_RING_INLINE && in_byte(in) % 2)
		tw_ring_write_small(tx, (struct tw_hdr){1, 2}, data, len);
	else
		tw_ring_write_long(tx, (struct tw_hdr){1, 2}, &iov, 1, len);
	FUZZ_MUST(tx->head - head - 1 <= 1 && tx->bhead - bhead <= BYTES);
	FUZZ_MUST(tx->head - tx->taken <= SLOTS && tx->bhead - tx->btaken <= BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static uint8_t *mem;
	size_t size = tw_rings_size(SLOTS, BYTES);
	struct input in = {bytes, len};
	struct tw_ring_rx rx;
	struct tw_ring_share share;
	struct tw_ring_tx tx;

	if (!mem)
		/* Exactly as large, so that a sanitizer sees what is outside. */
		FUZZ_MUST((mem = aligned_alloc(TW_PAGE, size)) != NULL);
	memset(mem, 0, tw_ring_bytes_at(0, SLOTS, BYTES));
	tw_ring_rx_init(&rx, mem, TW_RING_SECOND, SLOTS, BYTES);
	tw_ring_share_init(&share, BYTES);
	tw_ring_tx_init(&tx, mem, TW_RING_SECOND, SLOTS, BYTES, &share);
	share.each = BYTES >> in_byte(&in) % 3;
	tx.part = rx.part = BYTES >> in_byte(&in) % 6;
	tx.bready = in_byte(&in) % 2 ? tx.part : 0;
	tx.back = &rx;
	rx.back = &tx;
	if (in_byte(&in) % 2)
		tw_ring_pair(&tx, &rx, in_byte(&in) % 2);
	/* Near the place where counting starts again. */
	if (in_byte(&in) % 4 == 0) {
		rx.tail = tx.head = tx.taken = UINT32_MAX - 31;
		rx.btail = tx.bhead = tx.btaken = UINT32_MAX - 0xfff;
	}
	tx.slots_ready = in_byte(&in) % 2;
	while (in.left) {
		uint32_t at, value;
		struct tw_slot *s = &rx.slots[(rx.tail + in_byte(&in) % 4) & (SLOTS - 1)];

		switch (in_byte(&in) % 6) {
		case 0: /* any word */
			at = in_word(&in) % (uint32_t)(size - 4);
			value = in_word(&in);
			memcpy(mem + at, &value, 4);
			break;
		case 1: /* a slot that looks full */
			value = in_word(&in);
			if (in_byte(&in) % 4 == 0)
				value = in_byte(&in) % 2
						? TW_RING_JUMP
						: TW_RING_PART |
							  in_word(&in) % (2 * BYTES / TW_LINE);
			if (rx.token && in_byte(&in) % 2)
				s = rx.token;
			atomic_store(&s->stamp,
				     tw_stamp(rx.side, rx.tail + 1 + in_byte(&in) % 2, value));
			break;
		case 2: /* what the reader says */
			atomic_store(&tx.ring->taken.slots, tx.head + (int8_t)in_byte(&in));
			break;
		case 3:
			atomic_store(&tx.ring->taken.bytes,
				     tx.bhead + (uint32_t)(int32_t)in_word(&in));
			break;
		case 4:
			give(&tx, &in);
			break;
		default:
			take(&rx);
		}
	}
	return 0;
}
