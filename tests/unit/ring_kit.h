/* SPDX-License-Identifier: BSD-2-Clause */
/* A shared ring to test: its memory with guards, and packets that follow from a number. */
#ifndef RING_KIT_H
#define RING_KIT_H

#include <criterion/criterion.h>
#include <sys/mman.h>

#include "lib/twt.h"
#include "shmem/ring.h"

#define SLOTS 64u
#define BYTES 65536u
#define MAX_PAYLOAD (BYTES / 8)
#define NOISE (4 * MAX_PAYLOAD)
#define GUARD TW_PAGE /* bytes on both sides that nobody may touch */

static uint64_t rng = 1;
static uint8_t noise[NOISE];

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

struct ring {
	uint8_t *mem;
	size_t size;
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
};

/*
 * An empty ring that has carried `at' packets and `bat' bytes before. It is the
 * second of its memory; of the first, nobody may touch anything.
 */
static inline void start_of(struct ring *r, uint32_t slots, uint32_t at, uint32_t bat)
{
	uint8_t *p;

	r->size = tw_rings_size(slots, BYTES);
	p = mmap(NULL, r->size + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		 0);
	cr_assert_neq(p, MAP_FAILED);
	memset(p, 0xee, GUARD);
	memset(p + GUARD + r->size, 0xee, GUARD);
	twt_fill(noise, sizeof(noise), 99);
	r->mem = p + GUARD;
	tw_ring_tx_init(&r->tx, r->mem, TW_RING_SECOND, slots, BYTES);
	tw_ring_rx_init(&r->rx, r->mem, TW_RING_SECOND, slots, BYTES);
	r->tx.back = &r->rx; /* what was read counts as a question */
	if (at)
		for (uint32_t n = at - slots; n != at; n++)
			r->tx.slots[n & (slots - 1)].stamp = n + 1;
	r->tx.head = r->tx.taken = r->rx.tail = at;
	r->tx.bhead = r->tx.btaken = r->rx.btail = bat;
	r->tx.edge = at | (TW_RING_PAGE - 1);
	r->tx.limit = slots == TW_RING_PAGE ? at + slots - TW_RING_RESERVE : r->tx.edge;
	tw_ring_publish(&r->rx);
}

static inline void start(struct ring *r, uint32_t at, uint32_t bat)
{
	start_of(r, SLOTS, at, bat);
}

static inline void stop(struct ring *r)
{
	const uint8_t *first = r->mem + tw_ring_slots_at(TW_RING_FIRST, r->tx.nslots);

	for (size_t i = 0; i < GUARD; i++) {
		cr_assert_eq(r->mem[-1 - (ptrdiff_t)i], 0xee);
		cr_assert_eq(r->mem[r->size + i], 0xee);
		cr_assert_eq(first[i], 0, "the other ring");
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

/* 1: the packet is as it should be, 0: none is there, -1: it is not. */
static inline int take(struct ring *r, const struct packet *want)
{
	struct tw_slot *s = tw_ring_next(&r->rx);
	const void *data;
	uint32_t len;

	if (!s)
		return 0;
	data = tw_ring_payload(&r->rx, s, &len);
	if (!data || len != want->len || memcmp(&s->hdr, &want->hdr, sizeof(s->hdr)) != 0 ||
	    memcmp(data, want->data, len) != 0)
		return -1;
	tw_ring_advance(&r->rx, s, len);
	return 1;
}

static inline void put_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	put(r, &p);
}

static inline void take_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	cr_assert_eq(take(r, &p), 1);
}

#endif /* RING_KIT_H */
