/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared ring against a queue, at the ends of its numbers, and with liars on either side. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lib/twt.h"
#include "providers/shm/ring.h"

TestSuite(ring, .timeout = 120);

#define SLOTS 64u
#define BYTES 65536u
#define MAX_PAYLOAD (BYTES / 8)
#define NOISE (4 * MAX_PAYLOAD)
#define GUARD TW_PAGE /* bytes on both sides that nobody may touch */

static uint64_t rng = 1;
static uint8_t noise[NOISE];

static uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

struct ring {
	uint8_t *mem;
	struct tw_ring_tx tx;
	struct tw_ring_rx rx;
};

static size_t ring_size(void)
{
	return tw_ring_size(SLOTS, BYTES);
}

/* An empty ring that has carried `at' packets and `bat' bytes before. */
static void start(struct ring *r, uint32_t at, uint32_t bat)
{
	uint8_t *p = mmap(NULL, ring_size() + 2 * GUARD, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	memset(p, 0xee, GUARD);
	memset(p + GUARD + ring_size(), 0xee, GUARD);
	twt_fill(noise, sizeof(noise), 99);
	r->mem = p + GUARD;
	tw_ring_tx_init(&r->tx, r->mem, SLOTS, BYTES);
	tw_ring_rx_init(&r->rx, r->mem, SLOTS, BYTES);
	if (at)
		for (uint32_t n = at - SLOTS; n != at; n++)
			r->tx.ring->slots[n & (SLOTS - 1)].stamp = n + 1;
	r->tx.head = r->tx.taken = r->rx.tail = at;
	r->tx.bhead = r->tx.btaken = r->rx.btail = bat;
	tw_ring_publish(&r->rx);
}

static void stop(struct ring *r)
{
	for (size_t i = 0; i < GUARD; i++) {
		cr_assert_eq(r->mem[-1 - (ptrdiff_t)i], 0xee);
		cr_assert_eq(r->mem[ring_size() + i], 0xee);
	}
	munmap(r->mem - GUARD, ring_size() + 2 * GUARD);
}

/* Everything about a packet follows from its number. */
struct packet {
	struct tw_hdr hdr;
	uint32_t len;
	const uint8_t *data;
};

static struct packet packet(uint64_t number)
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
static void put(struct ring *r, const struct packet *p)
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
static int take(struct ring *r, const struct packet *want)
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

static void put_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	put(r, &p);
}

static void take_len(struct ring *r, uint32_t len)
{
	struct packet p = {.len = len, .data = noise};

	cr_assert_eq(take(r, &p), 1);
}

struct beginning {
	uint32_t at, bat;
};

static struct beginning beginnings[] = {
	{0, 0},
	{3, 5 * TW_LINE},
	{0x7fffff00u, 0x80000000u - 3 * BYTES},
	{0u - 1, 0u - TW_LINE},
	{0u - 1000, 0u - 10 * BYTES},
};

ParameterizedTestParameters(ring, history)
{
	return cr_make_param_array(struct beginning, beginnings, tw_countof(beginnings));
}

/* A random history; the packets between `done' and `sent' are the model. */
ParameterizedTest(struct beginning *b, ring, history)
{
	uint64_t sent = 0, done = 0, shown = 0;
	bool filling = true;
	struct ring r;

	start(&r, b->at, b->bat);
	while (done < 60000) {
		struct packet p = packet(sent), first = packet(done);
		bool slot = sent - shown < SLOTS;
		bool room = tw_ring_room(&r.tx, p.len, 0);

		cr_assert(slot || !room);
		cr_assert(room || !slot || p.len > TW_RING_INLINE);
		cr_assert(room || sent > shown, "empty, yet no room");
		if (room && below(8) < (filling ? 7u : 1u)) {
			put(&r, &p);
			sent++;
		} else {
			int got = take(&r, &first);

			cr_assert_eq(got, sent > done);
			done += (uint64_t)got;
		}
		if (done == sent || below(8) == 0) {
			tw_ring_publish(&r.rx);
			shown = done;
		}
		cr_assert_eq(tw_ring_drained(&r.tx), sent == shown);
		filling = !room ? false : sent == done ? true : filling;
	}
	cr_assert_eq(r.rx.tail, b->at + (uint32_t)done);
	stop(&r);
}

Test(ring, reserve)
{
	struct ring r;
	unsigned n = 0;

	start(&r, 0u - 20, 0);
	for (; tw_ring_room(&r.tx, 8, TW_RING_RESERVE); n++)
		put_len(&r, 8);
	cr_assert_eq(n, SLOTS - TW_RING_RESERVE);
	for (; tw_ring_room(&r.tx, 8, 0); n++)
		put_len(&r, 8);
	cr_assert_eq(n, SLOTS);
	for (n = 0; n < SLOTS; n++) {
		take_len(&r, 8);
		cr_assert_not(tw_ring_room(&r.tx, 8, n < TW_RING_RESERVE ? TW_RING_RESERVE : n));
		tw_ring_publish(&r.rx);
		cr_assert(tw_ring_room(&r.tx, 8, 0));
		cr_assert_eq(tw_ring_room(&r.tx, 8, TW_RING_RESERVE), n >= TW_RING_RESERVE);
	}
	cr_assert_null(tw_ring_next(&r.rx));
	stop(&r);
}

/* No room for bytes is no reason to keep short packets waiting. */
Test(ring, bytes_full)
{
	struct ring r;
	unsigned n;

	start(&r, 0, 0);
	for (n = 0; tw_ring_room(&r.tx, MAX_PAYLOAD, 0); n++)
		put_len(&r, MAX_PAYLOAD);
	cr_assert_eq(n, 8u);
	cr_assert_not(tw_ring_room(&r.tx, TW_RING_INLINE + 1, 0));
	cr_assert(tw_ring_room(&r.tx, TW_RING_INLINE, 0));
	put_len(&r, TW_RING_INLINE);
	take_len(&r, MAX_PAYLOAD);
	cr_assert_not(tw_ring_room(&r.tx, MAX_PAYLOAD, 0));
	tw_ring_publish(&r.rx);
	cr_assert(tw_ring_room(&r.tx, MAX_PAYLOAD, 0));
	put_len(&r, MAX_PAYLOAD);
	cr_assert_not(tw_ring_room(&r.tx, TW_RING_INLINE + 1, 0));
	for (n = 1; n < 8; n++)
		take_len(&r, MAX_PAYLOAD);
	take_len(&r, TW_RING_INLINE);
	take_len(&r, MAX_PAYLOAD);
	stop(&r);
}

/* A payload lies in one piece: what does not fit at the end goes to the start. */
Test(ring, end_of_bytes)
{
	for (uint32_t left = TW_LINE; left < MAX_PAYLOAD; left += TW_LINE) {
		struct ring r;

		start(&r, 7, 0u - left);
		put_len(&r, left);
		cr_assert_eq(r.tx.bhead, 0u);
		take_len(&r, left);
		stop(&r);
		start(&r, 7, 0u - left);
		put_len(&r, left + 1);
		cr_assert_eq(r.tx.bhead, left + TW_LINE);
		take_len(&r, left + 1);
		cr_assert_eq(r.rx.btail, r.tx.bhead);
		stop(&r);
	}
}

/* The payloads are made of the stamps that the reader waits for next. */
Test(ring, stale_stamps)
{
	uint64_t words[32];
	struct ring r;

	start(&r, 0u - 10 * SLOTS, 0u - BYTES);
	for (unsigned n = 0; n < 20 * SLOTS; n++) {
		struct packet p = {{0, n}, n % 3 ? 40 : 256, (const uint8_t *)words};

		for (unsigned i = 0; i < 32; i++)
			words[i] = tw_stamp(0, r.tx.head + 1 + i % 2 * SLOTS, p.len);
		p.hdr.what = words[0];
		cr_assert_null(tw_ring_next(&r.rx), "packet %u is not there yet", n);
		put(&r, &p);
		cr_assert_eq(take(&r, &p), 1);
		tw_ring_publish(&r.rx);
	}
	cr_assert_null(tw_ring_next(&r.rx));
	stop(&r);
}

static void claim(struct ring *r, uint32_t slots, uint32_t bytes)
{
	r->tx.ring->taken.slots = slots;
	r->tx.ring->taken.bytes = bytes;
}

Test(ring, impossible_claims)
{
	static const uint32_t lies[] = {1, 2, SLOTS, BYTES, 0x7fffffff, 0x80000000, 0u - 99 * BYTES};
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
Test(ring, lying_reader)
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
Test(ring, revoke)
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

static size_t in_memory(const void *at, size_t len)
{
	unsigned char vec[2 * BYTES / TW_PAGE];
	size_t n = 0;

	cr_assert_eq(mincore((void *)(uintptr_t)at, len, vec), 0);
	for (size_t i = 0; i < len / TW_PAGE; i++)
		n += vec[i] & 1;
	return n * TW_PAGE;
}

/* The byte area goes once all was read, and comes back when it is wanted. */
Test(ring, release)
{
	static uint8_t data[MAX_PAYLOAD];
	struct iovec iov = {data, sizeof(data)};
	struct ring r;

	start(&r, 0, 0);
	cr_assert_not(tw_ring_release(&r.tx), "it was never there");
	for (int i = 0; i < 20; i++) {
		struct tw_slot *s;
		const uint8_t *p;
		uint32_t len;

		memset(data, 0x41 + i, sizeof(data));
		cr_assert(tw_ring_room(&r.tx, sizeof(data), 0));
		tw_ring_write_long(&r.tx, (struct tw_hdr){1, 2}, &iov, 1, sizeof(data));
		cr_assert_not(tw_ring_release(&r.tx), "it is not read");
		s = tw_ring_next(&r.rx);
		p = tw_ring_payload(&r.rx, s, &len);
		cr_assert_eq(len, sizeof(data));
		cr_assert_eq(memcmp(p, data, len), 0);
		tw_ring_advance(&r.rx, s, len);
		cr_assert_not(tw_ring_release(&r.tx), "nobody has said that it is read");
		tw_ring_publish(&r.rx);
		cr_assert_eq(in_memory(r.tx.bytes, BYTES), BYTES);
		cr_assert(tw_ring_release(&r.tx));
		cr_assert_eq(in_memory(r.tx.bytes, BYTES), 0u);
	}
	stop(&r);
}

/* Random slots: a payload is inside the ring, or there is none. */
Test(ring, lying_writer)
{
	unsigned good = 0, bad = 0;
	struct ring r;

	start(&r, 0u - 5000, 0u - 99 * BYTES);
	for (unsigned n = 0; n < 200000; n++) {
		struct tw_slot *s = &r.tx.ring->slots[r.rx.tail & (SLOTS - 1)];
		struct tw_ring_rx before = r.rx;
		const uint8_t *p, *lo;
		uint32_t len, size;
		uint32_t lie = below(2) ? below(2 * MAX_PAYLOAD) : below(1u << 31);

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

#define STREAM 150000u

static void *write_stream(void *arg)
{
	struct ring *r = arg;

	for (uint64_t n = 0; n < STREAM; n++) {
		struct packet p = packet(n);

		while (!tw_ring_room(&r->tx, p.len, 0))
			sched_yield();
		put(r, &p);
	}
	return NULL;
}

/* The number of the first packet that is wrong. */
static uint64_t read_stream(struct ring *r)
{
	uint64_t n = 0;

	while (n < STREAM) {
		struct packet p = packet(n);
		int got = take(r, &p);

		if (got < 0)
			break;
		n += (uint64_t)got;
		if (!got || n % 7 == 0)
			tw_ring_publish(&r->rx);
		if (!got)
			sched_yield();
	}
	tw_ring_publish(&r->rx);
	return n;
}

Test(ring, two_threads)
{
	struct ring r;
	pthread_t t;

	start(&r, 0u - STREAM / 2, 0u - 99 * BYTES);
	cr_assert_eq(pthread_create(&t, NULL, write_stream, &r), 0);
	cr_assert_eq(read_stream(&r), STREAM);
	pthread_join(t, NULL);
	cr_assert(tw_ring_drained(&r.tx));
	stop(&r);
}

static int child_reads(void *arg, int fd)
{
	(void)fd;
	return read_stream(arg) == STREAM ? 0 : 1;
}

Test(ring, two_processes)
{
	struct twt_child child;
	struct ring r;
	pthread_t t;

	start(&r, 0u - STREAM / 2, 0u - 99 * BYTES);
	twt_spawn(&child, child_reads, &r);
	/* In a thread: with a reader that gave up it would never end. */
	cr_assert_eq(pthread_create(&t, NULL, write_stream, &r), 0);
	cr_assert_eq(twt_join(&child, 100), 0);
	pthread_join(t, NULL);
	cr_assert(tw_ring_drained(&r.tx));
	stop(&r);
}
