/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attacks. Most packets are nearly right: they follow the protocol as far as
 * it takes to get deep, and then one field is wrong.
 */
#include "fault/attack.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "engine/wire.h"
#include "fault/raw.h"

#define LISTEN_ID 900
#define LONGEST 8192 /* the longest payload in a ring of raw.c */

static uint64_t any(struct attacker *a)
{
	return twt_random(&a->rng);
}

static uint32_t below(struct attacker *a, uint32_t n)
{
	return (uint32_t)((any(a) >> 32) * n >> 32);
}

static bool chance(struct attacker *a, uint32_t percent)
{
	return below(a, 100) < percent;
}

/* A number where numbers are interesting. */
static uint64_t odd(struct attacker *a)
{
	static const uint64_t edges[] = {0,	      1,	   2,	       39,
					 40,	      41,	   255,	       1024,
					 8192,	      8193,	   65535,      65536,
					 0x7fffffff,  0x80000000,  0xfffffffe, 0xffffffff,
					 0x100000000, ~0ull - 100, ~0ull};

	switch (below(a, 3)) {
	case 0:
		return edges[below(a, sizeof(edges) / sizeof(*edges))];
	case 1:
		return below(a, 300);
	default:
		return any(a);
	}
}

static struct tw_shm_hello own_hello(struct attacker *a, uint16_t kind)
{
	return raw_hello(kind, a->victim.nic, 100 + below(a, 50), ST_KEY);
}

static void spoil(struct attacker *a, void *mem, size_t len, unsigned times)
{
	while (times--) {
		size_t at = below(a, (uint32_t)len);

		((uint8_t *)mem)[at] = (uint8_t)(chance(a, 50) ? any(a) : odd(a));
	}
}

/* An introduction that is wrong in some way. */
static void bad_hello(struct attacker *a)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_CONNECT);
	uint8_t bytes[256];
	struct raw r;
	unsigned nfds = below(a, 5), n = 0;
	int fds[4], sock, mark_fd;
	struct tw_shm_mark *mark;
	size_t len = sizeof(h);

	a->hellos++;
	/* Good descriptors, one wrong field. */
	if (chance(a, 40)) {
		switch (below(a, 4)) {
		case 0:
			h.nslots = (uint32_t)odd(a);
			break;
		case 1:
			h.nbytes = (uint32_t)odd(a);
			break;
		case 2:
			h.nic_id = chance(a, 50) ? a->friend.nic : odd(a);
			h.endpoint_id = chance(a, 50)	? a->friend.id
					: chance(a, 50) ? a->victim.id
							: (uint32_t)odd(a);
			h.session = (uint32_t)odd(a);
			break;
		default:
			spoil(a, &h, sizeof(h), 1 + below(a, 4));
		}
		if (raw_connect(&r, a->victim.nic, a->victim.id, &h))
			raw_close(&r);
		return;
	}
	if (tw_shm_dial(a->victim.nic, a->victim.id, &sock) != TW_OK)
		return;
	memset(bytes, (int)any(a), sizeof(bytes));
	memcpy(bytes, &h, sizeof(h));
	if (chance(a, 50))
		len = below(a, sizeof(bytes));
	if (chance(a, 30))
		spoil(a, bytes, sizeof(h), 8);
	while (n < nfds && (fds[n] = raw_odd_fd(any(a))) >= 0)
		n++;
	/* Odd memory for the rings, and a mark that is good. */
	if (n == 2 && chance(a, 70) && tw_shm_mark_make(&mark_fd, &mark) == TW_OK) {
		munmap(mark, TW_PAGE);
		close(fds[1]);
		fds[1] = dup(mark_fd);
		tw_fd_close(mark_fd);
		len = sizeof(h);
		memcpy(bytes, &h, sizeof(h));
	}
	raw_send(sock, bytes, len, fds, n);
	/* Some say more, or leave without waiting, or with the answer unread. */
	if (chance(a, 30))
		raw_send(sock, bytes, len, fds, n);
	if (chance(a, 50))
		st_sleep(200e-6);
	while (n)
		close(fds[--n]);
	tw_fd_close(sock);
}

/* Packets ----------------------------------------------------------------- */

/* What is known of the victim's requests. */
struct talk {
	struct raw *raw;
	uint32_t credits;
	struct tw_ref seen[16]; /* references it has told */
	uint32_t wanted[16];	/* with a CTS: bytes */
	unsigned nseen;
	uint8_t data[LONGEST];
};

static bool put(struct attacker *a, struct talk *t, struct tw_hdr hdr, uint32_t len)
{
	struct iovec iov = {t->data, len};

	if (!tw_ring_room(&t->raw->tx, len, 0))
		return false;
	a->packets++;
	if (chance(a, 2))
		spoil(a, &hdr, sizeof(hdr), 1);
	if (chance(a, 1))
		len = (uint32_t)below(a, LONGEST);
	iov.iov_len = len;
	if (!tw_ring_room(&t->raw->tx, len, 0))
		return false;
	tw_ring_write_long(&t->raw->tx, hdr, &iov, 1, len);
	if (atomic_load(&t->raw->their->armed) || chance(a, 2))
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
		r = t->seen[below(a, t->nseen < 16 ? t->nseen : 16)];
	if (chance(a, 5))
		spoil(a, &r, sizeof(r), 1);
	return tw_ref_pack(r);
}

static void set_rts(struct attacker *a, struct talk *t)
{
	struct tw_rts rts = {{below(a, 1000), 1 + 2 * below(a, 1000)}, 0};

	if (chance(a, 40))
		rts.address = (uintptr_t)t->data;
	else if (chance(a, 30))
		rts.address = odd(a);
	memcpy(t->data, &rts, sizeof(rts));
}

/* A message, whole or in fragments, now and then with something missing. */
static void eager(struct attacker *a, struct talk *t)
{
	uint32_t len = chance(a, 70) ? below(a, 64) : below(a, 8193), at,
		 cost = tw_credit_cost(len);
	bool sync = chance(a, 20);
	uint32_t extra = sync ? sizeof(struct tw_ref) : 0;

	if (cost > t->credits && !chance(a, 2))
		return;
	t->credits -= cost < t->credits ? cost : t->credits;
	at = len > 1024 ? 1024 : len;
	if (!put(a, t, tw_hdr_make(TW_EAGER, sync ? TW_FLAG_SYNC : 0, 0, len, a_tag(a)),
		 at + extra))
		return;
	while (at < len && !chance(a, 2)) {
		uint32_t part = len - at < 2048 ? len - at : 2048;

		if (chance(a, 1))
			part += below(a, LONGEST - part);

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
	uint32_t at = 0, want = t->wanted[i];

	while (at < want && !chance(a, 1)) {
		uint32_t part = want - at < 4096 ? want - at : 4096;

		if (chance(a, 1))
			part += below(a, LONGEST - part);

		if (put(a, t, tw_hdr_make(TW_DATA, 0, 0, at, tw_ref_pack(t->seen[i])), part))
			at += part;
		else if (raw_dropped(t->raw, 0))
			return;
	}
	t->wanted[i] = 0;
}

static void one_packet(struct attacker *a, struct talk *t)
{
	uint32_t r = below(a, 100);

	if (r < 45) {
		eager(a, t);
	} else if (r < 60) {
		set_rts(a, t);
		put(a, t, tw_hdr_make(TW_RTS, 0, 0, (uint32_t)odd(a), a_tag(a)), 16);
	} else if (r < 70) {
		memset(t->data, (int)below(a, 99), 8);
		put(a, t, tw_hdr_make(TW_CTS, 0, 0, (uint32_t)odd(a), a_ref(a, t)), 8);
	} else if (r < 80) {
		data(a, t);
	} else if (r < 86) {
		put(a, t, tw_hdr_make(TW_DONE, (uint8_t)below(a, 3), 0, 0, a_ref(a, t)), 0);
	} else if (r < 91) {
		put(a, t, tw_hdr_make(TW_ACK, 0, 0, 0, a_ref(a, t)), 0);
	} else if (r < 92) {
		put(a, t, tw_hdr_make(TW_TELL, 0, 0, (uint32_t)odd(a), 0), 0);
	} else if (r < 99) {
		put(a, t, tw_hdr_make(TW_CREDIT, 0, (uint16_t)odd(a), 0, 0), 0);
	} else {
		put(a, t, (struct tw_hdr){any(a), any(a)}, below(a, 200));
	}
}

/* Reads what the victim sends, for its references. */
static void listen_to(struct talk *t)
{
	struct tw_slot *s;
	struct tw_ref ref;
	unsigned i = t->nseen % 16;

	while ((s = tw_ring_next(&t->raw->rx))) {
		uint32_t len;
		const void *p = tw_ring_payload(&t->raw->rx, s, &len);
		uint8_t type = tw_hdr_type(s->hdr);

		t->credits += tw_hdr_credits(s->hdr);
		if (p && len >= sizeof(ref) &&
		    (type == TW_RTS || type == TW_CTS ||
		     (type == TW_EAGER && tw_hdr_flags(s->hdr) & TW_FLAG_SYNC))) {
			memcpy(&ref, p, sizeof(ref));
			t->seen[i] = ref;
			t->wanted[i] = type == TW_CTS ? tw_hdr_len(s->hdr) : 0;
			if (t->wanted[i] > 1 << 20)
				t->wanted[i] = 0;
			t->nseen++;
			i = t->nseen % 16;
		}
		tw_ring_advance(&t->raw->rx, p ? len : 0);
	}
	tw_ring_publish(&t->raw->rx);
}

/* Random words over everything that both can write. */
static void scribble(struct attacker *a, struct raw *r)
{
	uint64_t *words = r->map;
	uint32_t head = tw_ring_size(64, 0) / 8, all = (uint32_t)(r->size / 8);

	for (unsigned i = 20 + below(a, 2000); i; i--) {
		uint32_t at = chance(a, 80) ? below(a, head) : below(a, all);
		struct tw_slot *s = &r->tx.ring->slots[(r->tx.head + below(a, 4)) & 63];

		a->scribbles++;
		words[at] = odd(a);
		/* A slot that looks full. */
		if (chance(a, 20)) {
			s->len = (uint32_t)odd(a);
			s->hdr = tw_hdr_make((uint8_t)below(a, 10), (uint8_t)below(a, 3),
					     (uint16_t)odd(a), (uint32_t)odd(a), a_tag(a));
			atomic_store(&s->stamp, r->tx.head + 1 + below(a, 2));
		}
		r->mark->armed = (uint32_t)odd(a);
		r->mark->polled = odd(a);
		if (chance(a, 5))
			send(r->sock, words, below(a, 300), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (chance(a, 1))
			st_sleep(100e-6);
	}
}

static void talk(struct attacker *a, struct raw *r)
{
	struct talk t = {.raw = r, .credits = r->other.window};
	unsigned long n = below(a, chance(a, 20) ? 3000 : 200);
	int fd = raw_odd_fd(any(a));

	a->connections++;
	while (n-- && !raw_dropped(r, 0)) {
		one_packet(a, &t);
		listen_to(&t);
		if (chance(a, 30))
			atomic_store(&r->mark->polled, tw_clock());
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

/* Has the victim connect to us, and answers in some way. */
static void accept_it(struct attacker *a)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_ACCEPT);
	double end = twt_now() + ST_LONG;
	struct raw r;
	int listener;

	if (tw_shm_listen(a->victim.nic, LISTEN_ID, &listener) != TW_OK)
		st_fail("the id %d is taken", LISTEN_ID);
	h.endpoint_id = LISTEN_ID;
	if (chance(a, 30))
		h.kind = TW_SHM_REFUSE, h.why = (uint32_t)(chance(a, 80) ? below(a, 16) : odd(a));
	else if (chance(a, 40))
		spoil(a, &h, sizeof(h), 1 + below(a, 3));
	atomic_store(a->dial, LISTEN_ID + 1);
	if (raw_accept(&r, listener, chance(a, 90) ? &h : NULL, 2000)) {
		a->accepts++;
		if (h.kind == TW_SHM_ACCEPT)
			talk(a, &r);
		else
			raw_close(&r);
	}
	tw_fd_close(listener);
	while (atomic_load(a->dial)) {
		if (twt_now() > end)
			st_fail("the victim's connect does not end");
		st_sleep(1e-3);
	}
}

void attack(struct attacker *a)
{
	struct tw_shm_hello h;
	struct raw r;

	switch (below(a, 10)) {
	case 0:
	case 1:
	case 2:
		bad_hello(a);
		break;
	case 3:
		accept_it(a);
		break;
	default:
		h = own_hello(a, TW_SHM_CONNECT);
		if (raw_connect(&r, a->victim.nic, a->victim.id, &h))
			talk(a, &r);
	}
}

/* What must end the connection: a packet, or a good one and then another. */
struct bad {
	const char *what;
	uint8_t type, flags;
	uint32_t msg_len, len; /* len: of the payload */
	uint64_t match;
	uint8_t then; /* type of the second */
	uint32_t then_len;
};

static const struct bad bad[] = {
	{"a packet of no type", 0, 0, 0, 0, 0, 0, 0},
	{"a packet of an unknown type", 9, 0, 0, 0, 0, 0, 0},
	{"more than the message", TW_EAGER, 0, 10, 11, HOSTILE_TAG, 0, 0},
	{"nothing of the message", TW_EAGER, 0, 10, 0, HOSTILE_TAG, 0, 0},
	{"a message beyond all credit", TW_EAGER, 0, 0x7ffffffe, 8, HOSTILE_TAG, 0, 0},
	{"a message that is too long", TW_EAGER, 0, 0x80000000, 8, HOSTILE_TAG, 0, 0},
	{"no reference", TW_EAGER, TW_FLAG_SYNC, 4, 4, HOSTILE_TAG, 0, 0},
	{"a fragment of nothing", TW_FRAG, 0, 0, 8, 0, 0, 0},
	{"an empty fragment", TW_FRAG, 0, 0, 0, 0, 0, 0},
	{"half an announcement", TW_RTS, 0, 100, 8, HOSTILE_TAG, 0, 0},
	{"clear to send nothing", TW_CTS, 0, 100, 8, 0x100000000, 0, 0},
	{"data for nothing", TW_DATA, 0, 0, 8, 0x100000000, 0, 0},
	{"that nothing is done", TW_DONE, 0, 0, 0, 0x100000001, 0, 0},
	{"that nothing is matched", TW_ACK, 0, 0, 0, 0x500000003, 0, 0},
	{"a fragment beyond its message", TW_EAGER, 0, 2000, 1024, HOSTILE_TAG, TW_FRAG, 977},
	{"a message inside another", TW_EAGER, 0, 2000, 1024, HOSTILE_TAG, TW_EAGER, 1024},
};

/* Names a request of the victim's on a connection that it does not belong to. */
static void name_anothers(struct attacker *a, uint8_t type)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_CONNECT), h2 = h;
	double end = twt_now() + ST_LONG / 2;
	struct raw r, r2;
	struct talk t = {.raw = &r};

	h2.endpoint_id += 100;
	if (!raw_connect(&r, a->victim.nic, a->victim.id, &h) ||
	    !raw_connect(&r2, a->victim.nic, a->victim.id, &h2))
		st_fail("the victim refuses a proper connection");
	/* It answers what it receives, half of it in a way that tells a reference. */
	for (uint32_t i = 0; !t.nseen; i++) {
		if (twt_now() > end)
			st_fail("the victim does not answer");
		if (tw_ring_room(&r.tx, 0, 0))
			tw_ring_write_small(&r.tx,
					    tw_hdr_make(TW_EAGER, 0, 0, 0, HOSTILE_TAG | i % 16),
					    NULL, 0);
		send(r.sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		st_sleep(1e-3);
		listen_to(&t);
	}
	tw_ring_write_small(&r2.tx, tw_hdr_make(type, 0, 0, 0, tw_ref_pack(t.seen[0])), NULL, 0);
	send(r2.sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!raw_dropped(&r2, (int)(ST_SOON * 5000)))
		st_fail("the victim keeps a peer that named another's request");
	if (raw_dropped(&r, 0))
		st_fail("the victim dropped another peer as well");
	raw_close(&r);
	raw_close(&r2);
}

static void send_bad(struct raw *r, const struct bad *b)
{
	static uint8_t bytes[1024];
	struct iovec iov = {bytes, b->len};

	tw_ring_write_long(&r->tx, tw_hdr_make(b->type, b->flags, 0, b->msg_len, b->match), &iov, 1,
			   b->len);
	iov.iov_len = b->then_len;
	if (b->then)
		tw_ring_write_long(&r->tx, tw_hdr_make(b->then, 0, 0, b->msg_len, b->match), &iov,
				   1, b->then_len);
}

void attack_certain(struct attacker *a)
{
	const unsigned n = sizeof(bad) / sizeof(*bad);

	for (unsigned i = 0; i <= n; i++) {
		struct tw_shm_hello h = own_hello(a, TW_SHM_CONNECT);
		struct raw r;

		if (!raw_connect(&r, a->victim.nic, a->victim.id, &h))
			st_fail("the victim refuses a proper connection");
		if (i < n) {
			send_bad(&r, &bad[i]);
		} else {
			r.tx.ring->slots[0].len = tw_ring_max_payload(r.tx.nbytes) + 1;
			atomic_store(&r.tx.ring->slots[0].stamp, 1);
		}
		send(r.sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (!raw_dropped(&r, (int)(ST_SOON * 5000)))
			st_fail("the victim keeps a peer that sent %s",
				i < n ? bad[i].what : "a payload longer than may be");
		raw_close(&r);
		a->certain++;
	}
	name_anothers(a, TW_DONE);
	name_anothers(a, TW_ACK);
}
