/* SPDX-License-Identifier: BSD-2-Clause */
/* What a victim must notice, each by itself. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "engine/window_internal.h"
#include "fault/attack.h"
#include "shmem/sealed.h"

#define WRITERS 20
#define ANSWERS 64 /* of the victim, which then has no send left for us */
#define CROWD (3 * TW_SHM_HALF_MAX)

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
	{"a packet of an unknown type", TW_WINDOW + 1, 0, 0, 0, 0, 0, 0},
	{"more than the message", TW_EAGER, 0, 10, 11, HOSTILE_TAG, 0, 0},
	{"nothing of the message", TW_EAGER, 0, 10, 0, HOSTILE_TAG, 0, 0},
	{"a message beyond all credit", TW_EAGER, 0, 0x7ffffffe, 8, HOSTILE_TAG, 0, 0},
	{"a message that is too long", TW_EAGER, 0, 0x80000000, 8, HOSTILE_TAG, 0, 0},
	{"no reference", TW_EAGER, TW_FLAG_SYNC, 4, 4, HOSTILE_TAG, 0, 0},
	{"beyond the window, and not to be told", TW_EAGER, TW_FLAG_BEYOND, 4, 4, HOSTILE_TAG, 0,
	 0},
	{"a long one beyond the window", TW_EAGER, TW_FLAG_SYNC | TW_FLAG_BEYOND, TW_SMALL_MAX + 1,
	 TW_SMALL_MAX + 9, HOSTILE_TAG, 0, 0},
	{"more than a short one beyond the window", TW_EAGER, TW_FLAG_SYNC | TW_FLAG_BEYOND, 4, 20,
	 HOSTILE_TAG, 0, 0},
	{"a fragment of nothing", TW_FRAG, 0, 0, 8, 0, 0, 0},
	{"an empty fragment", TW_FRAG, 0, 0, 0, 0, 0, 0},
	{"half an announcement", TW_RTS, 0, 100, 8, HOSTILE_TAG, 0, 0},
	{"clear to send nothing", TW_CTS, 0, 100, 8, 0x100000000, 0, 0},
	{"data for nothing", TW_DATA, 0, 0, 8, 0x100000000, 0, 0},
	{"that nothing is done", TW_DONE, 0, 0, 0, 0x100000001, 0, 0},
	{"that nothing is matched", TW_ACK, 0, 0, 0, 0x500000003, 0, 0},
	{"to cancel with something", TW_CANCEL, 0, 0, 4, 0x100000001, 0, 0},
	{"to cancel what has no reference", TW_CANCEL, 0, 0, 0, 0, 0, 0},
	{"an active message for nobody", TW_AM, 0, 8, 8, 0, 0, 0},
	{"half a question for a window", TW_WINDOW, TW_WINDOW_ASK, 8, 8, 0, 0, 0},
	{"a window that nobody asked for", TW_WINDOW, TW_WINDOW_GRANT, 40, 40, 0, 0, 0},
	{"a put of another length", TW_WINDOW, TW_WINDOW_PUT, 48, 48, 0x100000001, 0, 0},
	{"a get with data", TW_WINDOW, TW_WINDOW_GET, 48, 48, 0x100000001, 0, 0},
	{"an atomic of nothing", TW_WINDOW, TW_WINDOW_CHANGE, 40, 40, 0x100000001, 0, 0},
	{"a reply to nothing", TW_WINDOW, TW_WINDOW_REPLY, 40, 40, 0x100000001, 0, 0},
	{"a notification for nobody", TW_WINDOW, TW_WINDOW_NOTIFY, 8, 0, 1, 0, 0},
	{"a window let go of that it never had", TW_WINDOW, TW_WINDOW_RELEASE, 40, 40, 0, 0, 0},
	{"an unknown packet about windows", TW_WINDOW, TW_WINDOW_RELEASE + 1, 40, 40, 0, 0, 0},
	{"an answer to no cancel", TW_CANCELLED, 0, 0, 0, 0x100000001, 0, 0},
	{"a fragment beyond its message", TW_EAGER, 0, 2000, 1024, HOSTILE_TAG, TW_FRAG, 977},
	{"a message inside another", TW_EAGER, 0, 2000, 1024, HOSTILE_TAG, TW_EAGER, 1024},
};

/* Introductions that must be refused: each has one fault. */
static const struct bad_hello {
	const char *what;
	uint16_t version, kind;
	uint32_t nslots, nbytes, len;
	unsigned nfds;
	enum { FITS, SMALL, NONE } memory;
} hellos[] = {
#define HELLO TW_SHM_VERSION, TW_SHM_CONNECT
#define RINGS 64, 65536
#define WHOLE sizeof(struct tw_shm_hello)
	{"another version", TW_SHM_VERSION + 1, TW_SHM_CONNECT, RINGS, WHOLE, 1, FITS},
	{"an answer to nothing", TW_SHM_VERSION, TW_SHM_ACCEPT, RINGS, WHOLE, 1, FITS},
	{"few slots", HELLO, 32, 65536, WHOLE, 1, FITS},
	{"any number of slots", HELLO, 65, 65536, WHOLE, 1, FITS},
	{"any number of bytes", HELLO, 64, 65537, WHOLE, 1, FITS},
	{"larger rings than its memory", HELLO, 128, 65536, WHOLE, 1, SMALL},
	{"no descriptor", HELLO, RINGS, WHOLE, 0, FITS},
	{"two descriptors", HELLO, RINGS, WHOLE, 2, FITS},
	{"no memory", HELLO, RINGS, WHOLE, 1, NONE},
	{"half of it", HELLO, RINGS, WHOLE / 2, 1, FITS},
	{"a doorbell", HELLO, RINGS, 1, 0, FITS},
#undef HELLO
#undef RINGS
#undef WHOLE
};

/* Connects properly, as an endpoint of that number. */
static void join_as(struct attacker *a, struct raw *r, uint32_t id)
{
	struct tw_shm_hello h = own_hello(a, TW_SHM_CONNECT);

	h.endpoint_id = id;
	if (!raw_connect(r, a->victim.nic, a->victim.id, &h))
		st_fail("the victim refuses a proper connection");
}

static void join(struct attacker *a, struct raw *r)
{
	join_as(a, r, 100 + below(a, 50));
}

static void say(struct raw *r, struct tw_hdr hdr, const void *payload, uint32_t len)
{
	struct iovec iov = {(void *)(uintptr_t)payload, len};

	if (tw_ring_room(&r->tx, len, 0))
		tw_ring_write_long(&r->tx, hdr, &iov, 1, len);
	send(r->sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void must_drop(struct raw *r, const char *what)
{
	if (!raw_dropped(r, (int)(ST_SOON * 5000)))
		st_fail("the victim keeps a peer that %s", what);
	raw_close(r);
}

/* Whatever is wrong with an introduction, its caller is told so, and hung up on. */
static void introduce(struct attacker *a, const struct bad_hello *b)
{
	struct tw_shm_hello h = own_hello(a, b->kind), answer = {.kind = 0};
	int fds[2] = {-1, open("/dev/null", O_RDWR | O_CLOEXEC)};
	struct raw r = {.sock = -1, .size = tw_rings_size(b->nslots, b->nbytes)};
	struct pollfd p = {.events = POLLIN};

	if (b->memory == SMALL)
		r.size = tw_rings_size(64, 65536);
	h.version = b->version;
	h.nslots = b->nslots;
	h.nbytes = b->nbytes;
	st_check(tw_sealed_make("odd", r.size, TW_SEALS, &fds[0], &r.map) == TW_OK);
	st_check(tw_shm_dial(a->victim.nic, a->victim.id, &r.sock) == TW_OK);
	p.fd = r.sock;
	st_check(raw_send(r.sock, &h, b->len, fds + (b->memory == NONE), b->nfds));
	if (poll(&p, 1, (int)(ST_SOON * 5000)) != 1 ||
	    recv(r.sock, &answer, sizeof(answer), 0) != sizeof(answer) ||
	    answer.kind != TW_SHM_REFUSE || answer.why != TW_EPROTO)
		st_fail("the victim answers %u, %u to an introduction with %s", answer.kind,
			answer.why, b->what);
	close(fds[0]);
	close(fds[1]);
	must_drop(&r, "introduced itself wrongly");
	a->certain++;
}

/* Has the victim tell a reference, in a packet of that type if it matters. */
static struct told learn(struct attacker *a, struct raw *r, uint8_t type)
{
	double end = twt_now() + ST_LONG / 2;
	struct talk t = {.raw = r};
	uint64_t full = atomic_load(a->heard) + ANSWERS;

	/* It answers what it receives. */
	for (uint32_t i = 0; twt_now() < end; i++) {
		/* All its sends wait for us by now. They end with the connection. */
		if (atomic_load(a->heard) >= full) {
			raw_close(r);
			join(a, r);
			full = atomic_load(a->heard) + ANSWERS;
		}
		if (raw_dropped(r, 0))
			st_fail("the victim drops a proper peer after %u messages", i);
		atomic_store(&r->rx.ring->taken.polled, tw_clock() + tw_clock_us(1000000));
		say(r, tw_hdr_make(TW_EAGER, 0, 0, 0, HOSTILE_TAG | i % 16), NULL, 0);
		st_sleep(1e-3);
		t.nseen = 0;
		attack_listen(a, &t);
		for (unsigned k = 0; k < t.nseen && k < 16; k++)
			if (!type || t.seen[k].type == type)
				return t.seen[k];
	}
	st_fail("the victim does not answer with a packet of type %u", type);
	return t.seen[0];
}

/* Names a request of the victim's on a connection that it does not belong to. */
static void name_anothers(struct attacker *a, uint8_t type)
{
	struct raw r, r2;
	struct told told;

	join_as(a, &r, 200);
	join_as(a, &r2, 201);
	told = learn(a, &r, 0);
	say(&r2, tw_hdr_make(type, 0, 0, 1, tw_ref_pack(told.ref)), NULL, 0);
	must_drop(&r2, "named another's request");
	if (raw_dropped(&r, 0))
		st_fail("the victim dropped another peer as well");
	raw_close(&r);
}

/* Answers an announcement with a wish that cannot be fulfilled. */
static void ask_wrong(struct attacker *a)
{
	static const struct {
		const char *what;
		uint32_t more, len;
	} wrong[] = {
		{"asked for more than there is", 1, sizeof(struct tw_ref)},
		{"asked for it in half a packet", 0, sizeof(struct tw_ref) / 2},
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct tw_ref ref = {1, 1};
		struct told told;
		struct raw r;

		join(a, &r);
		told = learn(a, &r, TW_RTS);
		say(&r,
		    tw_hdr_make(TW_CTS, 0, 0, told.want + wrong[i].more, tw_ref_pack(told.ref)),
		    &ref, wrong[i].len);
		must_drop(&r, wrong[i].what);
		a->certain++;
	}
}

/* The victim sends what it is asked for, once. */
static void ask_twice(struct attacker *a)
{
	struct tw_ref ref = {1, 1};
	struct told told;
	struct tw_hdr ask;
	struct raw r;

	join(a, &r);
	told = learn(a, &r, TW_RTS);
	ask = tw_hdr_make(TW_CTS, 0, 0, told.want, tw_ref_pack(told.ref));
	say(&r, ask, &ref, sizeof(ref));
	say(&r, ask, &ref, sizeof(ref));
	must_drop(&r, "asked twice");
	a->certain++;
}

/* A peer that says that it writes, for ever, and then errs: nobody waits for it. */
static void write_for_ever(struct attacker *a)
{
	double end = twt_now() + WRITERS * ST_SOON / 8;

	for (unsigned i = 0; i < WRITERS; i++) {
		struct raw r;

		join(a, &r);
		atomic_store(&r.tx.ring->wants.putting, 1);
		say(&r, tw_hdr_make(0, 0, 0, 0, 0), NULL, 0);
		must_drop(&r, "sent a packet of no type while it writes");
	}
	if (twt_now() > end)
		st_fail("the victim waits for peers that it drops");
}

/* More callers that say nothing than there are places; others still get in. */
static void crowd(struct attacker *a)
{
	int sock[CROWD];
	struct raw r;

	for (unsigned i = 0; i < CROWD; i++)
		if (tw_shm_dial(a->victim.nic, a->victim.id, &sock[i]) != TW_OK)
			sock[i] = -1;
	for (unsigned i = 0; i < 2 * TW_SHM_HALF_MAX; i++) {
		join(a, &r);
		raw_close(&r);
	}
	for (unsigned i = 0; i < CROWD; i++)
		if (sock[i] >= 0)
			tw_fd_close(sock[i]);
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
		char what[80] = "sent a payload longer than may be";
		struct raw r;

		join(a, &r);
		if (i < n) {
			snprintf(what, sizeof(what), "sent %s", bad[i].what);
			send_bad(&r, &bad[i]);
		} else {
			atomic_store(&r.tx.slots[0].stamp,
				     tw_stamp(r.tx.side, 1, tw_ring_max_payload(r.tx.nbytes) + 1));
		}
		send(r.sock, "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		must_drop(&r, what);
		a->certain++;
	}
	for (unsigned i = 0; i < sizeof(hellos) / sizeof(*hellos); i++)
		introduce(a, &hellos[i]);
	name_anothers(a, TW_DONE);
	name_anothers(a, TW_ACK);
	ask_wrong(a);
	ask_twice(a);
	write_for_ever(a);
	crowd(a);
}
