/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encrypted paths over TCP, with somebody between the two ends who reads everything, and changes,
 * repeats, drops, swaps, inserts, cuts off and sends back. Each end gets what the other has sent,
 * up to some place, and no other byte; then the path breaks. Each end encrypts by the kernel, or by
 * OpenSSL where an end's kernel has no TLS.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/inet.h"
#include "base/module.h"
#include "base/settings.h"
#include "lib/twt.h"
#include "provider/lone.h"
#include "providers/net/session.h"
#include "providers/net/tcp/tcp.h"

#define MEMORY (256u << 10)
#define RECORD_HEAD 5 /* bytes: 23, 3, 3 and the length of the rest (RFC 8446, 5.2) */
#define ROUNDS 6      /* of each attack, each way */
#define SHAKE 5	      /* records of a handshake of OpenSSL, one way, at most, and the hello */
#define SECONDS (30 * (int)twt_patience())

enum attack { NONE, FLIP, REPEAT, DROP, SWAP, INSERT, CUT, SEND_BACK, ATTACKS };

static const struct tw_driver *tcp;
static const char marker[] = "a text that nobody else may read";
static uint64_t rng = 7;
static const struct tw_net_tls *tls;
static bool encrypted;
static bool lacks[2]; /* TLS of the kernel, an end */

static struct end {
	void *instance, *path;
	struct tw_driver_caps caps;
	struct tw_driver_address address;
	unsigned sent, taken, wrong;
	bool broken;
} ends[2]; /* the first calls */

/* What is between them, one way. */
static struct way {
	int in, out;
	enum attack attack;
	unsigned pieces, when; /* that have come; the piece that is attacked */
	bool struck, ended, has_marker;
	size_t len, held_len;
	uint8_t buf[1 << 17], held[1 << 15];
} ways[2];

static uint8_t memory[2][MEMORY], here[2][MEMORY]; /* that is read, and is written */
static enum tw_err got, put;

/* Of a packet: its length, and what is in it. */
static uint32_t make_packet(char *data, unsigned number)
{
	uint64_t seed = number + 1;
	uint32_t len = (uint32_t)(sizeof(marker) +
				  twt_random(&seed) % (number % 8 ? 300 : TW_TCP_PACKET - 100));

	twt_fill(data, len, number);
	memcpy(data, marker, sizeof(marker));
	return len;
}

static bool on_packet(void *owner, const void *path, const void *data, uint32_t len)
{
	static char expected[TW_TCP_PACKET];
	struct end *e = owner;

	(void)path;
	e->wrong += len != make_packet(expected, e->taken) || memcmp(data, expected, len) != 0;
	e->taken++;
	return true;
}

static void on_ended(void *owner, void *cookie, enum tw_err err)
{
	(void)owner;
	*(enum tw_err *)cookie = err;
}

static void on_broken(void *owner, void *path)
{
	struct end *e = owner;

	e->broken |= path == e->path;
}

static void open_end(struct end *e)
{
	static const uint8_t token[2][TW_DRIVER_TOKEN] = {{0xff, 1}, {1, 2}};
	struct tw_driver_tokens t = {.calls = e == ends, .encrypted = encrypted, .tls = tls};
	struct tw_driver_host host = lone_host(tcp, e);
	bool first = e == ends;

	memcpy(t.mine, token[!first], sizeof(t.mine));
	memcpy(t.other, token[first], sizeof(t.other));
	memset(t.my_key, 1 + first, sizeof(t.my_key));
	memset(t.other_key, 2 - first, sizeof(t.other_key));
	*e = (struct end){.broken = false};
	host.packet = on_packet;
	host.ended = on_ended;
	host.broken = on_broken;
	cr_assert_eq(tcp->open(&host, &e->instance, &e->caps), TW_OK);
	((struct tw_tcp *)e->instance)->no_tls = lacks[!first];
	cr_assert_eq(tcp->path_new(e->instance, NULL, &t, &e->address, &e->path), TW_OK);
}

static struct sockaddr_in address_of(struct tw_driver_address *a)
{
	struct sockaddr_in sa;
	struct tw_tcp_address t;

	memcpy(&t, a->bytes, sizeof(t));
	tw_inet_wire(t.to);
	memcpy(&sa, t.to, sizeof(sa));
	return sa;
}

/* The first end calls the one between, who calls the second. */
static void join(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}, to;
	int listener = socket(AF_INET, SOCK_STREAM, 0), a, b;
	struct tw_driver_address own = ends[1].address;
	socklen_t len = sizeof(at);
	struct tw_tcp_address t;

	cr_assert_eq(bind(listener, (struct sockaddr *)&at, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	memcpy(&t, own.bytes, sizeof(t));
	memset(t.to, 0, sizeof(t.to));
	memcpy(t.to, &at, sizeof(at));
	tw_inet_wire(t.to);
	memcpy(own.bytes, &t, sizeof(t));
	cr_assert_eq(tcp->path_bind(ends[1].path, &ends[0].address), TW_OK);
	cr_assert_eq(tcp->path_bind(ends[0].path, &own), TW_OK);
	a = accept(listener, NULL, NULL);
	b = socket(AF_INET, SOCK_STREAM, 0);
	to = address_of(&ends[1].address);
	cr_assert_geq(a, 0);
	cr_assert_eq(connect(b, (struct sockaddr *)&to, sizeof(to)), 0);
	close(listener);
	memset(ways, 0, sizeof(ways));
	ways[0].in = ways[1].out = a;
	ways[1].in = ways[0].out = b;
}

static void open_both(bool encrypts)
{
	const struct tw_driver *list[TW_NET_DRIVERS];
	char why[256];

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert(tw_settings_load());
	cr_assert_eq(tw_driver_list("tcp", list), 1u);
	tcp = list[0];
	tls = tw_module_load("tls", "tw_net_tls", TW_NET_TLS_VERSION, why, sizeof(why));
	cr_assert(!encrypts || (tls && tls->begin()), "%s", why);
	encrypted = encrypts;
	open_end(&ends[0]);
	open_end(&ends[1]);
	join();
}

static void close_both(void)
{
	for (int i = 0; i < 2; i++) {
		tcp->close(ends[i].instance);
		close(ways[i].in);
	}
}

/* The one between ------------------------------------------------------------------- */

static void pass(struct way *w, const void *bytes, size_t len)
{
	/* An end that has hung up is none of the business of the one between. */
	if (len && twt_put(w->out, bytes, len) != 0)
		w->ended = true;
}

static void strike(struct way *w, uint8_t *piece, size_t len)
{
	static const struct tw_tcp_head clear = {.len = 0, .kind = TW_TCP_PACKET_IS};

	w->struck = true;
	switch (w->attack) {
	case FLIP:
		piece[encrypted ? twt_random(&rng) % len : len - 1] ^=
			(uint8_t)(1 << twt_random(&rng) % 8);
		break;
	case REPEAT:
		pass(w, piece, len);
		break;
	case INSERT:
		pass(w, &clear, sizeof(clear));
		break;
	case SWAP:
		memcpy(w->held, piece, w->held_len = len);
		return;
	case CUT:
		pass(w, piece, twt_random(&rng) % 2 ? len : twt_random(&rng) % len);
		shutdown(w->out, SHUT_RDWR);
		w->ended = true;
		return;
	case SEND_BACK:
		twt_put(w->in, piece, len);
		return;
	default:
		return;
	}
	pass(w, piece, len);
}

static size_t whole_piece(const struct way *w)
{
	size_t len = w->len;

	if (w == ways && !w->pieces)
		len = sizeof(struct tw_tcp_hello);
	else if (encrypted)
		len = w->len < RECORD_HEAD ? RECORD_HEAD
					   : RECORD_HEAD + (size_t)(w->buf[3] << 8 | w->buf[4]);
	return len <= w->len ? len : 0;
}

/* A piece is a record, or without encryption what has come. */
static void carry(struct way *w)
{
	ssize_t n = recv(w->in, w->buf + w->len, sizeof(w->buf) - w->len, MSG_DONTWAIT);
	size_t len;

	w->len += n > 0 ? (size_t)n : 0;
	w->has_marker |= memmem(w->buf, w->len, marker, sizeof(marker)) != NULL;
	while ((len = whole_piece(w)) && !w->ended) {
		if (++w->pieces == w->when)
			strike(w, w->buf, len);
		else
			pass(w, w->buf, len);
		if (w->held_len && w->pieces > w->when) {
			pass(w, w->held, w->held_len);
			w->held_len = 0;
		}
		w->len -= len;
		memmove(w->buf, w->buf + len, w->len);
	}
	if (n == 0 && !w->ended) {
		shutdown(w->out, SHUT_WR);
		w->ended = true;
	}
}

/* The ends -------------------------------------------------------------------------- */

static void send_one(struct end *e)
{
	struct tw_net_packet *p = lone_packet(NULL, true);

	p->len = make_packet(p->data, e->sent);
	e->sent += tcp->send(e->path, p, false) == TW_OK;
	tw_net_packet_put(p);
}

static void step(void)
{
	for (int i = 0; i < 2; i++) {
		tcp->progress(ends[i].instance);
		carry(&ways[i]);
	}
}

static bool broken(void)
{
	return ends[0].broken || ends[1].broken;
}

/* A get and a put of the first end. */
static void transfer(void)
{
	struct iovec to = {here[0], MEMORY}, from = {memory[1], MEMORY};
	struct tw_driver_mr read, written;

	twt_fill(memory[0], MEMORY, 1);
	twt_fill(memory[1], MEMORY, 2);
	memset(here, 0, sizeof(here));
	got = put = TW_PENDING;
	cr_assert_eq(tcp->mem_reg(ends[1].instance, memory[0], MEMORY, TW_MEM_READ, &read), TW_OK);
	cr_assert_eq(tcp->mem_reg(ends[1].instance, here[1], MEMORY, TW_MEM_WRITE, &written),
		     TW_OK);
	if (tcp->rma(ends[0].path, false, &to, 1, read.base, read.key, read.key_len, &got) !=
	    TW_PENDING)
		got = TW_ELOST;
	if (tcp->rma(ends[0].path, true, &from, 1, written.base, written.key, written.key_len,
		     &put) != TW_PENDING)
		put = TW_ELOST;
}

static void all_is_right(void)
{
	cr_assert_eq(ends[0].wrong + ends[1].wrong, 0u);
	cr_assert_leq(ends[0].taken, ends[1].sent);
	cr_assert_leq(ends[1].taken, ends[0].sent);
	if (got == TW_OK)
		cr_assert_eq(twt_check(here[0], MEMORY, 1), MEMORY);
	if (put == TW_OK)
		cr_assert_eq(twt_check(here[1], MEMORY, 2), MEMORY);
}

/* Traffic both ways until so many packets have come, or the path breaks. */
static void run(unsigned packets)
{
	double end = twt_now() + SECONDS;

	transfer();
	while (!broken() && (ends[0].taken < packets || ends[1].taken < packets ||
			     got == TW_PENDING || put == TW_PENDING)) {
		for (int i = 0; i < 2; i++)
			if (ends[i].sent < packets)
				send_one(&ends[i]);
		step();
		cr_assert_lt(twt_now(), end, "%u and %u packets of %u", ends[0].taken,
			     ends[1].taken, packets);
	}
	all_is_right();
}

/* Whether the kernel encrypts, or OpenSSL for the lack of one end or both; false: it cannot. */
static bool by(bool first_lacks, bool second_lacks)
{
	lacks[0] = first_lacks;
	lacks[1] = second_lacks;
	return tw_inet_has_tls() || (first_lacks && second_lacks);
}

static void needs_module(void)
{
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert(tw_settings_load());
	if (!tw_module_installed("tls"))
		cr_skip_test("built without TLS");
}

static void whole(void)
{
	open_both(true);
	run(1000);
	cr_assert_not(broken());
	cr_assert_eq(got, TW_OK);
	cr_assert_eq(put, TW_OK);
	cr_assert_not(ways[0].has_marker || ways[1].has_marker);
	close_both();
}

Test(encrypted, whole, .timeout = TWT_TIMEOUT)
{
	needs_module();
	for (unsigned i = 0; i < 4; i++)
		if (by(i & 1, i & 2))
			whole();
}

/* That the one between would see it, and that a wrong byte would be seen here. */
Test(encrypted, not, .timeout = TWT_TIMEOUT)
{
	open_both(false);
	ways[0].attack = FLIP;
	ways[0].when = 3;
	send_one(&ends[0]);
	for (double end = twt_now() + SECONDS; !ends[1].wrong && twt_now() < end;) {
		send_one(&ends[0]);
		step();
	}
	cr_assert(ways[0].has_marker);
	cr_assert_eq(ends[1].wrong, 1u);
	close_both();
}

/* The first has encrypted so much that its key is used up: the path ends. */
static void used_up(void)
{
	uint64_t sent = 0;

	open_both(true);
	((struct tw_tcp_path *)ends[0].path)->key_left = MEMORY;
	run(5000);
	cr_assert(broken());
	for (unsigned i = 0; i < ends[1].taken; i++)
		sent += make_packet((char *)memory[0], i);
	cr_assert_lt(sent, 2 * MEMORY);
	close_both();
}

Test(encrypted, used_up, .timeout = TWT_TIMEOUT)
{
	needs_module();
	for (unsigned i = 0; i < 2; i++)
		if (by(i, i))
			used_up();
}

static void attacked(enum attack attack, unsigned way)
{
	struct way *w;

	open_both(true);
	w = &ways[way];
	w->attack = attack;
	/* After the hello; who loses a part of a handshake waits for it. */
	w->when = 1 + (lacks[0] ? SHAKE : 1) + (unsigned)(twt_random(&rng) % 60);
	/* More than ever come: it must break. */
	run(5000);
	cr_assert(w->struck, "attack %d", attack);
	cr_assert(broken(), "attack %d", attack);
	close_both();
}

static void attacked_all(void)
{
	for (int round = 0; round < ROUNDS; round++)
		for (unsigned way = 0; way < 2; way++)
			for (enum attack a = FLIP; a < ATTACKS; a++)
				attacked(a, way);
}

Test(encrypted, attacked, .timeout = TWT_TIMEOUT)
{
	needs_module();
	for (unsigned i = 0; i < 2; i++)
		if (by(i, i))
			attacked_all();
}

/*
 * The kernel refuses TLS, which was expected to be there: nothing leaves but the hello, and the
 * next path goes by OpenSSL.
 */
Test(encrypted, refused, .timeout = TWT_TIMEOUT)
{
	if (tw_inet_has_tls())
		cr_skip_test("the kernel has TLS");
	needs_module();
	open_both(true);
	send_one(&ends[0]);
	send_one(&ends[1]);
	for (double end = twt_now() + SECONDS; !(ends[0].broken && ends[1].broken);) {
		step();
		cr_assert_lt(twt_now(), end);
	}
	for (int i = 0; i < 100; i++)
		step();
	cr_assert_eq(ways[0].pieces, 1u, "the hello");
	cr_assert_eq(ways[0].len + ways[1].len + ways[1].pieces, 0u);
	cr_assert_eq(ends[0].taken + ends[1].taken, 0u);
	for (int i = 0; i < 2; i++)
		cr_assert(((struct tw_tcp *)ends[i].instance)->no_tls);
	close_both();
}
