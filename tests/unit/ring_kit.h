/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared ring to test: its memory with guards, and packets that follow from a number. */
#ifndef RING_KIT_H
#define RING_KIT_H

#include <criterion/criterion.h>
#include <sys/mman.h>

#include "lib/twt.h"
#include "base/page.h"
#include "shmem/ring.h"

#define SLOTS 64u
#define BYTES 65536u
#define MAX_PAYLOAD (BYTES / 8)
#define NOISE (4 * MAX_PAYLOAD)
#define GUARD tw_page_size() /* bytes on both sides that nobody may touch */

static uint64_t rng = 1;
static uint8_t noise[NOISE];

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

struct ring {
	uint8_t *mem;
	size_t size;
	struct tw_ring_share share;
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
};

/* A new ring, one of the two of its memory; of the other, nobody may touch anything. */
static inline void fresh_of(struct ring *r, uint32_t slots, unsigned which, uint32_t bytes,
			    struct tw_ring_share *share)
{
	uint8_t *p;

	r->size = tw_rings_size(slots, bytes);
	p = mmap(NULL, r->size + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		 0);
	cr_assert_neq(p, MAP_FAILED);
	memset(p, 0xee, GUARD);
	memset(p + GUARD + r->size, 0xee, GUARD);
	twt_fill(noise, sizeof(noise), 99);
	r->mem = p + GUARD;
	tw_ring_tx_init(&r->tx, r->mem, which, slots, bytes, share);
	tw_ring_rx_init(&r->rx, r->mem, which, slots, bytes);
	r->tx.back = &r->rx; /* what was read counts as a question */
	r->rx.back = &r->tx;
	tw_ring_publish(&r->rx);
}

static inline void fresh(struct ring *r, uint32_t slots, unsigned which)
{
	tw_ring_share_init(&r->share, BYTES);
	fresh_of(r, slots, which, BYTES, &r->share);
}

/* The second, empty, which has grown and carried `at' packets and `bat' bytes before. */
static inline void start_of(struct ring *r, uint32_t slots, uint32_t at, uint32_t bat)
{
	fresh(r, slots, TW_RING_SECOND);
	if (at)
		for (uint32_t n = at - slots; n != at; n++)
			r->tx.slots[n & (slots - 1)].stamp = n + 1;
	r->tx.head = r->tx.taken = r->rx.tail = at;
	r->tx.bhead = r->tx.btaken = r->rx.btail = bat;
	r->tx.slots_ready = true;
	r->tx.limit = at + slots - TW_RING_RESERVE;
	tw_ring_publish(&r->rx);
}

static inline void start(struct ring *r, uint32_t at, uint32_t bat)
{
	start_of(r, SLOTS, at, bat);
}

static inline void stop(struct ring *r)
{
	const uint8_t *other = r->mem + tw_ring_slots_at(!r->tx.which, r->tx.nslots);

	for (size_t i = 0; i < GUARD; i++) {
		cr_assert_eq(r->mem[-1 - (ptrdiff_t)i], 0xee);
		cr_assert_eq(r->mem[r->size + i], 0xee);
		cr_assert_eq(i < r->tx.nslots * TW_LINE ? other[i] : 0, 0, "the other ring");
	}
	munmap(r->mem - GUARD, r->size + 2 * GUARD);
}

/* Everything about a packet follows from its number. */
struct packet {
	struct tw_hdr hdr;
	uint32_t len;
	const uint8_t *data;
};

static inline struct packet packet(uint64_t number)
{
	static const uint32_t most[4] = {TW_RING_INLINE, 2 * TW_RING_INLINE, 1000, MAX_PAYLOAD};
	uint64_t state = number, r = twt_random(&state);
	struct packet p;

	p.hdr = (struct tw_hdr){twt_random(&state), number};
	p.len = (uint32_t)(r >> 8) % (most[r & 3] + 1);
	p.data = noise + (r >> 40) % (NOISE - MAX_PAYLOAD);
	return p;
}

/* Writes as the provider does: short ones in one piece. */
static inline void put(struct ring *r, const struct packet *p)
{
	struct iovec iov[3];
	uint32_t a = p->len / 3, b = p->len / 2;

	if (p->len <= TW_RING_INLINE && (p->hdr.match & 1)) {
		tw_ring_write_small(&r->tx, p->hdr, p->data, p->len);
		return;
	}
	iov[0] = (struct iovec){(void *)(uintptr_t)p->data, a};
	iov[1] = (struct iovec){(void *)(uintptr_t)(p->data + a), b - a};
	iov[2] = (struct iovec){(void *)(uintptr_t)(p->data + b), p->len - b};
	tw_ring_write_long(&r->tx, p->hdr, iov, 3, p->len);
}

/* 1: the packet is as it should be, -1: it is not, 0: there is none, or a slot that is none. */
static inline int take(struct ring *r, const struct packet *want)
{
	struct tw_slot *s = tw_ring_next(&r->rx);
	const void *data;
	uint32_t len;

	if (!s)
		return 0;
	data = tw_ring_payload(&r->rx, s, &len);
	if (!data && tw_ring_control(&r->rx, s))
		return 0;
	if (!data || len != want->len || memcmp(&s->hdr, &want->hdr, sizeof(s->hdr)) != 0 ||
	    memcmp(data, want->data, len) != 0)
		return -1;
	tw_ring_advance(&r->rx, s, len);
	return 1;
}

/* Releases what there is of an idle ring, whose reader is sent home. */
static inline void rest(struct ring *r)
{
	uint32_t head = r->tx.head;
	enum tw_ring_release released = tw_ring_release(&r->tx);

	if (released == TW_RING_RELEASED)
		return;
	cr_assert_eq(released, TW_RING_WRITTEN);
	cr_assert_neq(r->tx.head, head);
	cr_assert_eq(tw_ring_release(&r->tx), TW_RING_UNREAD, "the reader is not at home");
	cr_assert_eq(take(r, NULL), 0);
	cr_assert_null(tw_ring_next(&r->rx));
	cr_assert_eq(r->rx.tail, r->tx.head);
	cr_assert_eq(tw_ring_release(&r->tx), TW_RING_UNREAD, "nobody has said that it is home");
	tw_ring_publish(&r->rx);
	cr_assert_eq(tw_ring_release(&r->tx), TW_RING_RELEASED);
	cr_assert_eq(r->tx.head, r->rx.tail, "once is enough");
}

static inline void put_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	put(r, &p);
}

/* The same of a packet before which the writer may have given the size of its part. */
static inline int take_either(struct ring *r, const struct packet *want)
{
	int got = take(r, want);

	return got ? got : take(r, want);
}

static inline void take_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	cr_assert_eq(take_either(r, &p), 1);
}

#endif /* RING_KIT_H */
