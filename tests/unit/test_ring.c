/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared ring against a queue, at the ends of its numbers. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "unit/ring_kit.h"

TestSuite(ring, .timeout = TWT_TIMEOUT);

struct beginning {
	uint32_t slots, at, bat;
};

static struct beginning beginnings[] = {
	{64, 0, 0},
	{64, 3, 5 * TW_LINE},
	{64, 0x7fffff00u, 0x80000000u - 3 * BYTES},
	{64, 0u - 1, 0u - TW_LINE},
	{64, 0u - 1000, 0u - 10 * BYTES},
	{512, 0, 0},
	{512, 700, 5 * TW_LINE},
	{128, 5, 0},
	{256, 0u - 1, 0u - TW_LINE},
	{256, 0u - 300, 0u - 10 * BYTES},
};

ParameterizedTestParameters(ring, history)
{
	return cr_make_param_array(struct beginning, beginnings, tw_countof(beginnings));
}

/* A random history, with rests; the packets between `done' and `sent' are the model. */
ParameterizedTest(struct beginning *b, ring, history)
{
	uint64_t sent = 0, done = 0, shown = 0;
	bool filling = true;
	struct ring r;

	start_of(&r, b->slots, b->at, b->bat);
	while (done < 60000 / twt_slow()) {
		struct packet p = packet(sent), first = packet(done);
		bool slot = r.tx.head - atomic_load(&r.rx.ring->taken.slots) < b->slots;
		bool room = tw_ring_room(&r.tx, p.len, 0);

		cr_assert(slot || !room);
		cr_assert(room || !slot || p.len > TW_RING_INLINE);
		cr_assert(room || sent > shown, "empty, yet no room");
		if (room && below(8) < (filling ? 7u : 1u)) {
			put(&r, &p);
			sent++;
		} else {
			int got = take_either(&r, &first);

			cr_assert_eq(got, sent > done);
			done += (uint64_t)got;
		}
		if (done == sent || below(8) == 0) {
			tw_ring_publish(&r.rx);
			shown = done;
		}
		cr_assert_eq(tw_ring_drained(&r.tx), sent == shown);
		if (sent == shown && below(16) == 0)
			rest(&r);
		else if (sent != shown && below(16) == 0)
			cr_assert_eq(tw_ring_release(&r.tx), TW_RING_UNREAD);
		filling = !room ? false : sent == done ? true : filling;
	}
	cr_assert_geq(r.tx.head - r.rx.tail, sent - done);
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
	/* Shorter payloads lie in slots. */
	for (uint32_t left = 2 * TW_LINE; left < MAX_PAYLOAD; left += TW_LINE) {
		struct ring r;

		start(&r, 7, 0u - left);
		cr_assert(tw_ring_room(&r.tx, left, 0));
		put_len(&r, left);
		cr_assert_eq(r.tx.bhead, 0u);
		take_len(&r, left);
		stop(&r);
		start(&r, 7, 0u - left);
		cr_assert(tw_ring_room(&r.tx, left + 1, 0));
		put_len(&r, left + 1);
		cr_assert_eq(r.tx.bhead, left + TW_LINE);
		take_len(&r, left + 1);
		cr_assert_eq(r.rx.btail, r.tx.bhead);
		stop(&r);
	}
}

/* The bytes of pages from one address to another that are in memory. */
static size_t resident(uintptr_t from, uintptr_t to)
{
	unsigned char vec[16 * BYTES / TW_PAGE];
	size_t n = 0;

	if (from >= to)
		return 0;
	cr_assert_leq((to - from) / TW_PAGE, sizeof(vec));
	cr_assert_eq(mincore((void *)from, to - from, vec), 0);
	for (size_t i = 0; i < (to - from) / tw_page_size(); i++)
		n += vec[i] & 1;
	return n * tw_page_size();
}

/* The bytes of pages that have nothing but what is meant: those can be given back. */
static size_t own_pages(const void *at, size_t len)
{
	uintptr_t from = tw_page_up((uintptr_t)at), to = tw_page_down((uintptr_t)at + len);

	return from < to ? to - from : 0;
}

/* How many of these are in memory. */
static size_t in_memory(const void *at, size_t len)
{
	uintptr_t from = tw_page_up((uintptr_t)at);

	return resident(from, from + own_pages(at, len));
}

enum { AREA = 16 * BYTES, LARGE = AREA / 32 };

/*
 * Sends and takes payloads until so many bytes have gone, with at most that many packets under way.
 * Returns how often the writer gave the size of its part.
 */
static unsigned carry(struct ring *r, uint32_t bytes, uint32_t longest, unsigned most)
{
	unsigned changes = 0, queued = 0;
	uint32_t lens[SLOTS];

	for (uint32_t gone = 0; gone < bytes || queued;) {
		uint32_t len = below(8) ? below(longest + 1) : below(TW_RING_INLINE + 1);
		uint32_t head = r->tx.head;

		if (gone < bytes && queued < most && below(3) && tw_ring_room(&r->tx, len, 0)) {
			put_len(r, len);
			changes += r->tx.head - head - 1;
			lens[queued++] = len;
			gone += len;
			continue;
		}
		while (queued && below(4)) {
			struct packet p = {.len = lens[0], .data = noise};
			int got;

			while (!(got = take(r, &p)))
				;
			cr_assert_eq(got, 1);
			memmove(lens, lens + 1, --queued * sizeof(lens[0]));
		}
		tw_ring_publish(&r->rx);
	}
	cr_assert_eq(r->rx.part, r->tx.part);
	return changes;
}

/* How many of the longest payloads an empty ring takes. */
static unsigned fill(struct ring *r)
{
	unsigned n = 0;

	for (; tw_ring_room(&r->tx, LARGE, 0); n++)
		put_len(r, LARGE);
	for (unsigned i = 0; i < n;)
		i += (unsigned)take(r, &(struct packet){.len = LARGE, .data = noise});
	tw_ring_publish(&r->rx);
	return n;
}

/* Two rings that are in use have half of the bytes each, and a ring at rest has none. */
Test(ring, share)
{
	struct tw_ring_share share;
	struct ring a, b;

	tw_ring_share_init(&share, AREA);
	fresh_of(&a, SLOTS, TW_RING_SECOND, AREA, &share);
	fresh_of(&b, SLOTS, TW_RING_SECOND, AREA, &share);
	carry(&a, 4 * AREA, LARGE, SLOTS);
	cr_assert_eq(a.tx.bready, AREA);
	cr_assert_geq(fill(&a), AREA / LARGE - 1);
	carry(&b, 4096, 4096, 1);
	cr_assert_eq(b.tx.bready, BYTES, "not more than it needs");
	cr_assert_leq(fill(&a), AREA / 2 / LARGE);
	cr_assert_geq(fill(&a), AREA / 2 / LARGE - 2);
	carry(&b, 8 * AREA, LARGE, SLOTS);
	cr_assert_eq(b.tx.bready, AREA / 2);
	rest(&b);
	cr_assert_eq(share.rings, 1u);
	cr_assert_eq(in_memory(b.tx.bytes, AREA), 0u, "not a page of what it ever used");
	carry(&b, 4096, 4096, 1);
	cr_assert_eq(b.tx.bready, BYTES, "nor any that it does not need again");
	tw_ring_tx_end(&b.tx);
	cr_assert_geq(fill(&a), AREA / LARGE - 1);
	tw_ring_tx_end(&a.tx);
	cr_assert_eq(share.rings, 0u);
	stop(&a);
	stop(&b);
}

/* Without memory for more, payloads go on where there is some. */
Test(ring, no_memory_for_bytes)
{
	struct tw_ring_share share;
	struct ring r;
	uint8_t *hole;
	size_t size;

	tw_ring_share_init(&share, AREA);
	fresh_of(&r, SLOTS, TW_RING_SECOND, AREA, &share);
	hole = (uint8_t *)(uintptr_t)tw_page_up((uintptr_t)r.tx.bytes + BYTES);
	size = tw_page_down((uintptr_t)r.tx.bytes + AREA) - (uintptr_t)hole;
	cr_assert_eq(munmap(hole, size), 0);
	carry(&r, AREA, LARGE, SLOTS);
	carry(&r, AREA, 1000, 1);
	cr_assert_eq(r.tx.bready, BYTES);
	cr_assert_eq(mmap(hole, size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		     hole);
	carry(&r, 4 * AREA, LARGE, SLOTS);
	cr_assert_eq(r.tx.bready, AREA);
	stop(&r);
}

/* With many rings each has the least, wherever its position was and however it grew. */
Test(ring, share_least)
{
	for (unsigned turn = 0; turn < 200; turn++) {
		struct tw_ring_share share;
		struct ring r;

		tw_ring_share_init(&share, AREA);
		fresh_of(&r, SLOTS, TW_RING_SECOND, AREA, &share);
		r.tx.bhead = r.tx.btaken = r.rx.btail = below(UINT32_MAX / TW_LINE) * TW_LINE;
		tw_ring_publish(&r.rx);
		share.rings = 1000;
		carry(&r, below(4 * AREA), LARGE, SLOTS);
		cr_assert_leq(r.tx.bready, BYTES);
		if (r.tx.bready)
			cr_assert_leq(r.tx.bhead & (AREA - 1), BYTES, "not beyond its part");
		if (tw_ring_grown(&r.tx))
			rest(&r);
		carry(&r, BYTES, LARGE, SLOTS);
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
		cr_assert(tw_ring_room(&r.tx, p.len, 0));
		put(&r, &p);
		cr_assert_eq(take_either(&r, &p), 1);
		tw_ring_publish(&r.rx);
	}
	cr_assert_null(tw_ring_next(&r.rx));
	stop(&r);
}

/* The byte area goes once all was read, and comes back when it is wanted. */
Test(ring, release)
{
	static uint8_t data[MAX_PAYLOAD];
	struct iovec iov = {data, sizeof(data)};
	struct ring r;

	start(&r, 0, 0);
	cr_assert_not(tw_ring_grown(&r.tx));
	for (int i = 0; i < 20; i++) {
		struct tw_slot *s;
		const uint8_t *p;
		uint32_t len;

		memset(data, 0x41 + i, sizeof(data));
		cr_assert(tw_ring_room(&r.tx, sizeof(data), 0));
		cr_assert(tw_ring_grown(&r.tx));
		tw_ring_write_long(&r.tx, (struct tw_hdr){1, 2}, &iov, 1, sizeof(data));
		cr_assert_eq(tw_ring_release(&r.tx), TW_RING_UNREAD, "it is not read");
		s = tw_ring_next(&r.rx);
		p = tw_ring_payload(&r.rx, s, &len);
		cr_assert_eq(len, sizeof(data));
		cr_assert_eq(memcmp(p, data, len), 0);
		tw_ring_advance(&r.rx, s, len);
		cr_assert_eq(tw_ring_release(&r.tx), TW_RING_UNREAD,
			     "nobody has said that it is read");
		tw_ring_publish(&r.rx);
		cr_assert_eq(in_memory(r.tx.bytes, BYTES), own_pages(r.tx.bytes, r.tx.bready));
		rest(&r);
		cr_assert_eq(in_memory(r.tx.bytes, BYTES), 0u);
		cr_assert_not(tw_ring_grown(&r.tx));
	}
	stop(&r);
}

static size_t all_in_memory(const struct ring *r)
{
	return resident((uintptr_t)r->mem, (uintptr_t)r->mem + tw_page_down(r->size));
}

/* The bytes of the pages that a part of the segment is in. */
static size_t its_pages(const struct ring *r, size_t from, size_t to)
{
	uintptr_t mem = (uintptr_t)r->mem;

	return tw_page_up(mem + to) - tw_page_down(mem + from);
}

/* Sends and takes n short packets, as room_small() lets them; how often it had to ask. */
static unsigned pass(struct ring *r, unsigned n)
{
	unsigned asked = 0;

	while (n--) {
		if (!tw_ring_room_small(&r->tx)) {
			cr_assert(tw_ring_room(&r->tx, 0, TW_RING_RESERVE));
			asked++;
		}
		put_len(r, 0);
		take_len(r, 0);
		cr_assert_null(tw_ring_next(&r->rx), "a packet that nobody sent");
		tw_ring_publish(&r->rx);
	}
	return asked;
}

/* A ring begins at home, gets the other slots at the end of that, and gives them back. */
Test(ring, slots_grow)
{
	for (unsigned which = 0; which < TW_RINGS; which++) {
		size_t slots = tw_ring_home_at(512), small, large;
		struct ring r;

		fresh(&r, 512, which);
		cr_assert(tw_rings_make(r.mem, 512));
		small = its_pages(&r, slots, slots + TW_PAGE);
		large = which == TW_RING_FIRST ? its_pages(&r, slots, 2 * slots + TW_PAGE)
					       : its_pages(&r, 0, slots + TW_PAGE);
		for (int i = 0; i < 3; i++) {
			cr_assert_eq(all_in_memory(&r), small);
			cr_assert_eq(pass(&r, TW_RING_HOME - 1), 0u);
			cr_assert_eq(all_in_memory(&r), small);
			cr_assert_not(tw_ring_grown(&r.tx));
			cr_assert_eq(pass(&r, 1), 1u);
			cr_assert_eq(all_in_memory(&r), large);
			cr_assert(tw_ring_grown(&r.tx));
			cr_assert_leq(pass(&r, 10000), 22u, "it asks no more than it must");
			rest(&r);
			cr_assert_not(tw_ring_grown(&r.tx));
			small = large - own_pages(r.tx.away, slots);
		}
		stop(&r);
	}
}

/* What one of the two gives back holds nothing of the other, whose packets are not read yet. */
Test(ring, rest_beside_other)
{
	for (uint32_t slots = 64; slots <= 1024; slots *= 2) {
		struct ring r, other;
		unsigned n = 0;

		fresh(&r, slots, TW_RING_FIRST);
		other = r;
		tw_ring_tx_init(&other.tx, r.mem, TW_RING_SECOND, slots, BYTES, &r.share);
		tw_ring_rx_init(&other.rx, r.mem, TW_RING_SECOND, slots, BYTES);
		other.tx.back = &other.rx;
		other.rx.back = &other.tx;
		tw_ring_publish(&other.rx);
		for (; tw_ring_room(&other.tx, 100, 0); n++)
			put_len(&other, n % 2 ? 100 : 8);
		cr_assert_eq(n, slots);
		cr_assert(tw_ring_room(&r.tx, MAX_PAYLOAD, 0));
		put_len(&r, MAX_PAYLOAD);
		take_len(&r, MAX_PAYLOAD);
		tw_ring_publish(&r.rx);
		pass(&r, slots + 9);
		rest(&r);
		for (unsigned i = 0; i < n; i++)
			take_len(&other, i % 2 ? 100 : 8);
		cr_assert_null(tw_ring_next(&other.rx));
		munmap(r.mem - GUARD, r.size + 2 * GUARD);
	}
}

/* Rests at every place of a ring, the ends of its numbers among them. */
Test(ring, rests)
{
	for (uint32_t at = 0u - 300; at != 300; at++) {
		struct ring r;

		start_of(&r, 256, at, 0);
		r.tx.away_ready = true;
		pass(&r, 300);
		rest(&r);
		cr_assert_eq(in_memory(r.tx.away, tw_ring_home_at(256)), 0u);
		pass(&r, at % 256);
		rest(&r);
		pass(&r, 600);
		stop(&r);
	}
}

/* Memory that is not shared is not taken back, and can be used on. */
Test(ring, memory_is_kept)
{
	struct ring r;
	size_t all;

	fresh(&r, SLOTS, TW_RING_SECOND);
	all = r.size + 2 * GUARD;
	cr_assert_eq(mmap(r.mem - GUARD, all, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		     r.mem - GUARD);
	memset(r.mem - GUARD, 0xee, GUARD);
	memset(r.mem + r.size, 0xee, GUARD);
	for (int i = 0; i < 20; i++) {
		cr_assert(tw_ring_room(&r.tx, 1000, 0));
		put_len(&r, 1000);
		take_len(&r, 1000);
		cr_assert_eq(tw_ring_release(&r.tx), TW_RING_UNREAD);
		tw_ring_publish(&r.rx);
		rest(&r);
		cr_assert_not(tw_ring_grown(&r.tx));
	}
	stop(&r);
}

/* A reader that has not come home yet has the home slots, and no others. */
Test(ring, not_home)
{
	struct ring r;
	unsigned n = 0;

	start_of(&r, 256, 100, 0);
	cr_assert_eq(tw_ring_release(&r.tx), TW_RING_WRITTEN);
	for (; tw_ring_room(&r.tx, 8, 0); n++)
		put_len(&r, 8);
	cr_assert_eq(n, TW_RING_HOME - 1);
	cr_assert_eq(take(&r, NULL), 0);
	take_len(&r, 8);
	cr_assert_not(tw_ring_room(&r.tx, 8, 0));
	tw_ring_publish(&r.rx);
	for (; tw_ring_room(&r.tx, 8, 0); n++)
		put_len(&r, 8);
	cr_assert_eq(n, 257u);
	while (--n)
		take_len(&r, 8);
	cr_assert_null(tw_ring_next(&r.rx));
	stop(&r);
}

/* Short of memory there is no room, and nothing is written where no page is. */
Test(ring, no_memory)
{
	size_t page = tw_page_size();
	struct ring r;
	char *hole;

	fresh(&r, (uint32_t)(4 * page / TW_LINE), TW_RING_SECOND);
	hole = r.tx.away;
	cr_assert_eq(munmap(hole, page), 0);
	pass(&r, TW_RING_HOME - 1);
	cr_assert_not(tw_ring_room_small(&r.tx));
	cr_assert_not(tw_ring_room(&r.tx, 0, 0));
	cr_assert_eq(mmap(hole, page, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		     hole);
	pass(&r, 5000);
	stop(&r);
}

#define STREAM (150000u / twt_slow())

static void *write_stream(void *arg)
{
	struct ring *r = arg;

	for (uint64_t n = 0; n < STREAM; n++) {
		struct packet p = packet(n);

		while (!tw_ring_room(&r->tx, p.len, 0))
			sched_yield();
		put(r, &p);
		/* Others take their share, or return it. */
		if (n % 100 == 0 && r->tx.nbytes > BYTES)
			r->tx.share->each = BYTES << below(5);
		/* Rests, where the reader is quick enough. */
		if (n % 50 == 0) {
			sched_yield();
			tw_ring_release(&r->tx);
		}
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

	start_of(&r, 256, 0u - STREAM / 2, 0u - 99 * BYTES);
	cr_assert_eq(pthread_create(&t, NULL, write_stream, &r), 0);
	cr_assert_eq(read_stream(&r), STREAM);
	pthread_join(t, NULL);
	cr_assert(tw_ring_drained(&r.tx));
	stop(&r);
}

/* The part of the byte area that is used changes, and so where it ends. */
Test(ring, two_threads_share)
{
	struct tw_ring_share share;
	struct ring r;
	pthread_t t;

	tw_ring_share_init(&share, AREA);
	fresh_of(&r, 256, TW_RING_FIRST, AREA, &share);
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
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	pthread_join(t, NULL);
	cr_assert(tw_ring_drained(&r.tx));
	stop(&r);
}

/* Delegated turns ------------------------------------------------------------- */

/* Each is the reader's or the writer's. */
Test(ring, delegated)
{
	enum tw_delegate state;
	struct ring r;

	start(&r, 0, 0);
	cr_assert_not(tw_ring_delegate_look(&r.tx, 1, &state));
	cr_assert(tw_ring_delegate_claim(&r.rx, 1));
	cr_assert_not(tw_ring_delegate_claim(&r.rx, 1));
	cr_assert(tw_ring_delegate_look(&r.tx, 1, &state));
	cr_assert_eq(state, TW_DELEGATE_BEGUN);
	cr_assert(tw_ring_delegate_end(&r.rx, 1, true));
	cr_assert(tw_ring_delegate_look(&r.tx, 1, &state));
	cr_assert_eq(state, TW_DELEGATE_DONE);
	cr_assert_eq(tw_ring_delegate_leave(&r.tx, 1), TW_DELEGATE_DONE);
	/* Taken back. */
	cr_assert_eq(tw_ring_delegate_leave(&r.tx, 2), TW_DELEGATE_BACK);
	cr_assert_not(tw_ring_delegate_claim(&r.rx, 2));
	/* Begun, and left: the reader has to say so when it is done. */
	cr_assert(tw_ring_delegate_claim(&r.rx, 3));
	cr_assert_eq(tw_ring_delegate_leave(&r.tx, 3), TW_DELEGATE_LATE);
	cr_assert_not(tw_ring_delegate_end(&r.rx, 3, true));
	/* Not done by the reader. */
	cr_assert(tw_ring_delegate_claim(&r.rx, 4));
	cr_assert(tw_ring_delegate_end(&r.rx, 4, false));
	cr_assert_eq(tw_ring_delegate_leave(&r.tx, 4), TW_DELEGATE_BACK);
	cr_assert_not(tw_ring_delegate_claim(&r.rx, 4));
	stop(&r);
}

/* A reader that writes anything there. */
Test(ring, delegated_to_a_liar)
{
	enum tw_delegate state;
	struct ring r;

	start(&r, 0, 0);
	for (unsigned i = 0; i < 32; i++) {
		r.tx.ring->delegate.turn = 1u << i | 5;
		tw_ring_delegate_look(&r.tx, 9, &state);
		state = tw_ring_delegate_leave(&r.tx, 9);
		cr_assert(state == TW_DELEGATE_BACK || state == TW_DELEGATE_DONE ||
			  state == TW_DELEGATE_LATE);
	}
	stop(&r);
}

enum { TURNS = 300000 };

static struct {
	struct ring r;
	_Atomic(uint32_t) last; /* that was delegated */
	atomic_uchar done[TURNS + 1];
	atomic_uint told; /* ends that the reader had to tell of */
} turns;

static void *claim_turns(void *arg)
{
	(void)arg;
	for (uint32_t turn = 1; turn <= TURNS; turn++) {
		while (atomic_load(&turns.last) < turn)
			sched_yield();
		if (!tw_ring_delegate_claim(&turns.r.rx, turn))
			continue;
		atomic_fetch_add(&turns.done[turn], 1);
		if (!tw_ring_delegate_end(&turns.r.rx, turn, turn % 7))
			atomic_fetch_add(&turns.told, 1);
	}
	return NULL;
}

/* Whoever is first, each turn is done once. */
Test(ring, delegated_in_two_threads)
{
	unsigned back = 0, late = 0;
	enum tw_delegate state;
	pthread_t t;

	start(&turns.r, 0, 0);
	cr_assert_eq(pthread_create(&t, NULL, claim_turns, NULL), 0);
	for (uint32_t turn = 1; turn <= TURNS; turn++) {
		atomic_store(&turns.last, turn);
		for (uint32_t looks = below(4); looks > 0; looks--)
			if (tw_ring_delegate_look(&turns.r.tx, turn, &state) &&
			    state == TW_DELEGATE_DONE)
				break;
		if (below(64) == 0)
			sched_yield();
		state = tw_ring_delegate_leave(&turns.r.tx, turn);
		late += state == TW_DELEGATE_LATE;
		if (state == TW_DELEGATE_BACK) {
			back++;
			atomic_fetch_add(&turns.done[turn], turn % 7 || !turns.done[turn]);
		}
	}
	pthread_join(t, NULL);
	for (uint32_t turn = 1; turn <= TURNS; turn++)
		cr_assert_eq(turns.done[turn], 1, "turn %u: %u times", turn, turns.done[turn]);
	cr_assert_gt(back, 0u, "the writer had none");
	cr_assert_lt(back, (unsigned)TURNS, "the reader had none");
	cr_assert_eq(turns.told, late);
	stop(&turns.r);
}
