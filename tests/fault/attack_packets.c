/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Most packets are nearly right: they follow the protocol as far as it takes to
 * get deep, and then one field is wrong.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/window_internal.h"
#include "fault/attack.h"

/* What the victim reads and writes. */
static uint8_t memory[1 << 17];

static bool put(struct attacker *a, struct talk *t, struct tw_hdr hdr, uint32_t len)
{
	struct iovec iov = {t->data, len};

	if (!tw_ring_room(&t->raw->tx, len, 0))
		return false;
	a->packets++;
	if (chance(a, 2))
		spoil(a, &hdr, sizeof(hdr), 1);
	if (chance(a, 1))
		len = (uint32_t)below(a, ATTACK_LONGEST);
	iov.iov_len = len;
	if (!tw_ring_room(&t->raw->tx, len, 0))
		return false;
	tw_ring_write_long(&t->raw->tx, hdr, &iov, 1, len);
	if (atomic_load(&t->raw->tx.ring->reader.armed) || chance(a, 2))
		send(t->raw->sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

static uint64_t a_tag(struct attacker *a)
{
	return HOSTILE_TAG | below(a, 16);
}

static uint64_t a_ref(struct attacker *a, const struct talk *t)
{
	struct tw_ref r = {below(a, 64), 1 + 2 * below(a, 100)};

	if (t->nseen && chance(a, 90))
		r = t->seen[below(a, t->nseen < 16 ? t->nseen : 16)].ref;
	if (chance(a, 5))
		spoil(a, &r, sizeof(r), 1);
	return tw_ref_pack(r);
}

/* One-sided access: mostly to the window that the victim has, beyond its end too. */
static void about_window(struct attacker *a, struct talk *t)
{
	struct tw_window_msg m = {.key = HOSTILE_WINDOW,
				  .number = chance(a, 90) ? 1 : below(a, 4),
				  .offset = below(a, HOSTILE_WINDOW_SIZE + 8),
				  .len = below(a, 64),
				  .at = below(a, 64),
				  .status = (uint8_t)below(a, 2),
				  .rights = (uint8_t)below(a, 8),
				  .op = (uint8_t)below(a, TW_ATOMIC_OPS + 1),
				  .type = (uint8_t)below(a, TW_ATOMIC_TYPES + 1)};
	uint8_t what = (uint8_t)below(a, TW_WINDOW_RELEASE + 1);
	uint32_t len = sizeof(m);

	if (chance(a, 10))
		spoil(a, &m, sizeof(m), 1);
	if (what == TW_WINDOW_PUT || what == TW_WINDOW_CHANGE)
		len += (uint32_t)(m.len < 1024 ? m.len : 1024);
	memcpy(t->data, &m, sizeof(m));
	put(a, t, tw_hdr_make(TW_WINDOW, what, 0, len, a_ref(a, t)), len);
}

/* Announces a message; the length is odd, or such as the victim may want to share. */
static void announce(struct attacker *a, struct talk *t)
{
	struct tw_rts rts = {{below(a, 1000), 1 + 2 * below(a, 1000)}, 0};
	uint32_t len = (uint32_t)odd(a);

	if (chance(a, 70))
		rts.address = (uintptr_t)memory;
	else if (chance(a, 30))
		rts.address = odd(a);
	if (chance(a, 70))
		len = below(a, sizeof(memory));
	/* It may look as if we polled, for a while. */
	if (chance(a, 90))
		atomic_store(&t->raw->rx.ring->taken.polled, tw_clock() + tw_clock_us(1000));
	memcpy(t->data, &rts, sizeof(rts));
	put(a, t, tw_hdr_make(TW_RTS, 0, 0, len, a_tag(a)), sizeof(rts));
}

/* A message, whole or in fragments, now and then with something missing. */
static void eager(struct attacker *a, struct talk *t)
{
	uint32_t len = chance(a, 70) ? below(a, 64) : below(a, 8193), at,
		 cost = tw_credit_cost(len);
	bool sync = chance(a, 20), beyond = sync && chance(a, 50);
	uint32_t extra = sync ? sizeof(struct tw_ref) : 0;
	uint8_t flags = (sync ? TW_FLAG_SYNC : 0) | (beyond ? TW_FLAG_BEYOND : 0);

	if (beyond)
		len %= TW_SMALL_MAX + !chance(a, 90);
	else if (cost > t->credits && !chance(a, 2))
		return;
	if (!beyond)
		t->credits -= cost < t->credits ? cost : t->credits;
	at = len > 1024 ? 1024 : len;
	if (!put(a, t, tw_hdr_make(TW_EAGER, flags, 0, len, a_tag(a)), at + extra))
		return;
	while (at < len && !chance(a, 2)) {
		uint32_t part = len - at < 2048 ? len - at : 2048;

		if (chance(a, 1))
			part += below(a, ATTACK_LONGEST - part);

		if (put(a, t, tw_hdr_make(TW_FRAG, 0, 0, 0, 0), part))
			at += part;
		else if (raw_dropped(t->raw, 0))
			return;
		/* Others may come between. */
		if (chance(a, 10))
			put(a, t, tw_hdr_make(TW_CREDIT, 0, (uint16_t)odd(a), 0, 0), 0);
	}
}

/* DATA for what the victim asked for. */
static void data(struct attacker *a, struct talk *t)
{
	unsigned i = t->nseen ? below(a, t->nseen < 16 ? t->nseen : 16) : 0;
	uint32_t at = 0, want = t->seen[i].type == TW_CTS ? t->seen[i].want : 0;

	while (at < want && !chance(a, 1)) {
		uint32_t part = want - at < 4096 ? want - at : 4096;

		if (chance(a, 1))
			part += below(a, ATTACK_LONGEST - part);

		if (put(a, t, tw_hdr_make(TW_DATA, 0, 0, at, tw_ref_pack(t->seen[i].ref)), part))
			at += part;
		else if (raw_dropped(t->raw, 0))
			return;
	}
	t->seen[i].want = 0;
}

static void one_packet(struct attacker *a, struct talk *t)
{
	uint32_t r = below(a, 100);

	if (r < 35) {
		eager(a, t);
	} else if (r < 55) {
		announce(a, t);
	} else if (r < 70) {
		memset(t->data, (int)below(a, 99), 8);
		put(a, t, tw_hdr_make(TW_CTS, 0, 0, (uint32_t)odd(a), a_ref(a, t)), 8);
	} else if (r < 80) {
		data(a, t);
	} else if (r < 86) {
		put(a, t, tw_hdr_make(TW_DONE, (uint8_t)below(a, 3), 0, 0, a_ref(a, t)), 0);
	} else if (r < 88) {
		put(a, t, tw_hdr_make(TW_ACK, 0, 0, 0, a_ref(a, t)), 0);
	} else if (r < 90) {
		put(a, t, tw_hdr_make(TW_CANCEL, 0, 0, 0, a_ref(a, t)), 0);
	} else if (r < 91) {
		put(a, t, tw_hdr_make(TW_CANCELLED, (uint8_t)below(a, 3), 0, 0, a_ref(a, t)), 0);
	} else if (r < 92) {
		about_window(a, t);
	} else if (r < 93) {
		put(a, t, tw_hdr_make(TW_AM, 0, 0, below(a, 60), any(a)), below(a, 60));
	} else if (r < 99) {
		put(a, t, tw_hdr_make(TW_CREDIT, 0, (uint16_t)odd(a), 0, 0), 0);
	} else {
		put(a, t, (struct tw_hdr){any(a), any(a)}, below(a, 200));
	}
}

/* What a packet of the victim tells; true when that is something. */
static bool tells(struct told *told, struct tw_hdr hdr, const void *p, uint32_t len)
{
	uint8_t type = tw_hdr_type(hdr);

	if (!p || len < sizeof(told->ref))
		return false;
	if (type != TW_RTS && type != TW_CTS &&
	    !(type == TW_EAGER && tw_hdr_flags(hdr) & TW_FLAG_SYNC))
		return false;
	*told = (struct told){.type = type};
	memcpy(&told->ref, p, sizeof(told->ref));
	if (tw_hdr_len(hdr) <= 1 << 20)
		told->want = tw_hdr_len(hdr);
	return true;
}

void attack_listen(struct attacker *a, struct talk *t)
{
	struct tw_slot *s;

	while ((s = tw_ring_next(&t->raw->rx))) {
		uint32_t len;
		const void *p = tw_ring_payload(&t->raw->rx, s, &len);
		struct told *told = &t->seen[t->nseen % 16];

		if (!p && tw_ring_control(&t->raw->rx, s))
			continue;
		t->credits += tw_hdr_credits(s->hdr);
		a->asked += tw_hdr_type(s->hdr) == TW_CTS;
		t->nseen += tells(told, s->hdr, p, len);
		tw_ring_advance(&t->raw->rx, s, p ? len : 0);
	}
	tw_ring_publish(&t->raw->rx);
}

/* Random words over everything that both can write. */
static void scribble(struct attacker *a, struct raw *r)
{
	uint64_t *words = r->map;
	uint32_t head = (uint32_t)tw_ring_bytes_at(0, 64, 0) / 8, all = (uint32_t)(r->size / 8);

	for (unsigned i = 20 + below(a, 2000); i; i--) {
		uint32_t at = chance(a, 80) ? below(a, head) : below(a, all);
		struct tw_slot *s = &r->tx.slots[(r->tx.head + below(a, 4)) & 63];

		if (chance(a, 20))
			s = r->tx.token ? r->tx.token : r->rx.token;
		a->scribbles++;
		words[at] = odd(a);
		/* A slot that looks full. */
		if (chance(a, 20)) {
			s->hdr = tw_hdr_make((uint8_t)below(a, 12), (uint8_t)below(a, 3),
					     (uint16_t)odd(a), (uint32_t)odd(a), a_tag(a));
			atomic_store(&s->stamp, tw_stamp(r->tx.side, r->tx.head + 1 + below(a, 2),
							 (uint32_t)odd(a)));
		}
		r->rx.ring->reader.armed = (uint32_t)odd(a);
		r->rx.ring->taken.polled = odd(a);
		if (chance(a, 5))
			send(r->sock, words, below(a, 300), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (chance(a, 1))
			st_sleep(100e-6);
	}
}

void attack_talk(struct attacker *a, struct raw *r)
{
	struct talk t = {.raw = r, .credits = r->other.window};
	unsigned long n = below(a, chance(a, 20) ? 3000 : 200);
	int fd = raw_odd_fd(any(a));

	a->connections++;
	while (n-- && !raw_dropped(r, 0)) {
		one_packet(a, &t);
		attack_listen(a, &t);
		if (chance(a, 30))
			atomic_store(&r->rx.ring->taken.polled, tw_clock());
		if (chance(a, 5))
			st_sleep(20e-6);
	}
	if (chance(a, 10))
		for (n = 0; n < 3000; n++)
			raw_send(r->sock, "b", 1, &fd, fd >= 0 && n % 16 == 0);
	if (chance(a, 40))
		scribble(a, r);
	if (chance(a, 30))
		send(r->sock, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
	raw_close(r);
}
