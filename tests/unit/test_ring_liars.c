/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared ring with liars on either side. */
#include "unit/ring_kit.h"

TestSuite(ring_liars, .timeout = TWT_TIMEOUT);

static void claim(struct ring *r, uint32_t slots, uint32_t bytes)
{
	r->tx.ring->taken.slots = slots;
	r->tx.ring->taken.bytes = bytes;
}

Test(ring_liars, impossible_claims)
{
	static const uint32_t lies[] = {1,	    2,		SLOTS,		BYTES,
					0x7fffffff, 0x80000000, 0u - 99 * BYTES};
	struct ring r;

	start(&r, 0u - 20, 0u - 3 * BYTES);
	claim(&r, r.tx.head - 1, r.tx.bhead - 1);
	for (unsigned n = 0; n < 8; n++) {
		cr_assert(tw_ring_room(&r.tx, MAX_PAYLOAD, 0));
		put_len(&r, MAX_PAYLOAD);
	}
	for (unsigned i = 0; i < tw_countof(lies); i++) {
		claim(&r, r.tx.head, r.tx.bhead + lies[i]);
		cr_assert_not(tw_ring_room(&r.tx, MAX_PAYLOAD, 0));
	}
	claim(&r, r.tx.taken, r.tx.bhead);
	while (tw_ring_room(&r.tx, 0, 0))
		put_len(&r, 0);
	for (unsigned i = 0; i < tw_countof(lies); i++) {
		claim(&r, r.tx.head + lies[i], r.tx.bhead);
		cr_assert_not(tw_ring_room(&r.tx, 0, 0));
		cr_assert_leq(r.tx.head - r.tx.taken, SLOTS);
	}
	claim(&r, r.tx.head - SLOTS + 1, r.tx.bhead);
	cr_assert(tw_ring_room(&r.tx, 0, 0));
	stop(&r);
}

/* Whatever the reader claims, nothing outside the ring is written. */
Test(ring_liars, lying_reader)
{
	uint64_t written = 0;
	struct ring r;

	start(&r, 0u - 5000, 0u - 99 * BYTES);
	for (unsigned n = 0; n < 100000; n++) {
		struct packet p = packet(n);

		switch (below(4)) {
		case 0:
			claim(&r, (uint32_t)twt_random(&rng), (uint32_t)twt_random(&rng));
			break;
		case 1:
			claim(&r, r.tx.head - below(SLOTS), r.tx.bhead - below(BYTES));
			break;
		default:
			break;
		}
		if (tw_ring_room(&r.tx, p.len, 0)) {
			put(&r, &p);
			written++;
		}
		cr_assert_leq(r.tx.head - r.tx.taken, SLOTS);
		cr_assert_leq(r.tx.bhead - r.tx.btaken, BYTES);
	}
	cr_assert_gt(written, 1000u);
	stop(&r);
}

/* Who has revoked is written to no more; a write under way is waited for. */
Test(ring_liars, revoke)
{
	struct ring r;

	start(&r, 0, 0);
	cr_assert(tw_ring_put_begin(&r.tx));
	cr_assert_not(tw_ring_revoke(&r.rx), "a write is under way");
	cr_assert_not(tw_ring_revoke(&r.rx));
	tw_ring_put_end(&r.tx);
	cr_assert(tw_ring_revoke(&r.rx));
	cr_assert_not(tw_ring_put_begin(&r.tx));
	cr_assert(tw_ring_revoke(&r.rx), "the refused write is over");
	stop(&r);
}

/* Random slots: a payload is inside the ring, or there is none. */
Test(ring_liars, lying_writer)
{
	unsigned good = 0, bad = 0;
	struct ring r;

	start(&r, 0u - 5000, 0u - 99 * BYTES);
	for (unsigned n = 0; n < 200000; n++) {
		struct tw_slot *s = &r.tx.slots[r.rx.tail & (SLOTS - 1)];
		struct tw_ring_rx before = r.rx;
		const uint8_t *p, *lo;
		uint32_t len, size;
		uint32_t lie = below(2) ? below(2 * MAX_PAYLOAD) : below(1u << 30);

		s->stamp = tw_stamp(0, r.rx.tail + 1, lie);
		cr_assert_eq(tw_ring_next(&r.rx), s);
		p = tw_ring_payload(&r.rx, s, &len);
		cr_assert_eq(len, lie);
		cr_assert_eq(memcmp(&before, &r.rx, sizeof(before)), 0, "moved already");
		cr_assert_eq(p == NULL, len > MAX_PAYLOAD);
		bad += p == NULL;
		if (!p)
			continue;
		lo = len <= TW_RING_INLINE ? s->data : r.rx.bytes;
		size = len <= TW_RING_INLINE ? TW_RING_INLINE : BYTES;
		cr_assert(p >= lo && p + len <= lo + size);
		tw_ring_advance(&r.rx, s, len);
		good++;
	}
	cr_assert(good > 1000 && bad > 1000);
	stop(&r);
}
