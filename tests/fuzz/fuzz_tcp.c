/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP network under a peer that says anything: hellos and frames with any
 * fields, in any pieces, between gets, puts and registrations of ours. Memory
 * that is not lent to the peer keeps its bytes, and none of them leaves.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "fuzz/fuzz.h"
#include "providers/tcp/tcp.h"

#define SLOTS 6
#define SLOT 2048
#define BIG (400u << 10) /* the last: more than a chunk, and than the system takes */
#define GAP 64
#define WIRE 65536
#define SECRET 0xee /* what is in memory that is not lent */

extern const struct tw_fabric tw_fabric_tcp;

enum use { FREE, LENT, GETS, PUTS };

static struct slot {
	enum use use;
	uint8_t *mem; /* with a gap on both sides */
	size_t len;
	struct tw_fabric_mr mr;
	void *path; /* of a transfer */
} slots[SLOTS];
static uint8_t arena[SLOTS * (SLOT + 2 * GAP) + BIG], was[sizeof(arena)];

static struct {
	void *instance, *path;
	struct tw_tcp_address address;
	bool inside, broken, big;
	bool adrift; /* some body that the peer said is made of heads: any bytes */
	int fd, listener;
	struct input *in;
	uint8_t wire[WIRE]; /* what the peer is about to say */
	size_t left;
	/* What the peer is told: the rest of the hello, a head or a body. */
	struct tw_tcp_head head;
	size_t hello_left, head_got, body_left;
} f;

/* Memory ------------------------------------------------------------------ */

static void set_use(struct slot *s, enum use use)
{
	static const uint8_t what[] = {SECRET, 1, 2, 3};

	s->use = use;
	memset(s->mem, what[use], s->len);
	memcpy(was + (s->mem - arena), s->mem, s->len);
}

static void lay_out(void)
{
	uint8_t *at = arena;

	memset(arena, SECRET, sizeof(arena));
	memset(was, SECRET, sizeof(was));
	for (unsigned i = 0; i < SLOTS; i++) {
		slots[i].mem = at + GAP;
		slots[i].len = i == SLOTS - 1 ? BIG : SLOT;
		at += slots[i].len + 2 * GAP;
	}
}

/* Only what is lent or to be read into may have changed. */
static void check_memory(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct slot *s = &slots[i];
		size_t at = (size_t)(s->mem - arena);

		FUZZ_MUST(memcmp(s->mem - GAP, was + at - GAP, GAP) == 0);
		FUZZ_MUST(memcmp(s->mem + s->len, was + at + s->len, GAP) == 0);
		if (s->len == BIG && !f.big)
			continue;
		if (s->use == FREE || s->use == PUTS)
			FUZZ_MUST(memcmp(s->mem, was + at, s->len) == 0);
	}
}

/* The program ------------------------------------------------------------- */

static struct slot *some_slot(enum use use)
{
	unsigned first = in_byte(f.in);

	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[(first + i) % SLOTS];

		if (s->use == use) {
			f.big |= s->len == BIG;
			return s;
		}
	}
	return NULL;
}

static void lend(void)
{
	struct slot *s = some_slot(FREE);

	if (!s)
		return;
	set_use(s, LENT);
	FUZZ_MUST(tw_fabric_tcp.mem_reg(f.instance, s->mem, s->len, &s->mr) == TW_OK);
}

static void take_back(void)
{
	struct slot *s = some_slot(LENT);

	if (!s)
		return;
	tw_fabric_tcp.mem_dereg(f.instance, &s->mr);
	set_use(s, FREE);
}

static void transfer(bool put)
{
	static const uint64_t key = 0x5aa5;
	struct slot *s = some_slot(FREE);
	uint8_t how = in_byte(f.in);
	struct iovec iov[3];
	enum tw_err err;

	if (!s || !f.path)
		return;
	iov[0] = (struct iovec){s->mem, how & 1 ? 100 : s->len};
	iov[1] = (struct iovec){s->mem + 100, 0};
	iov[2] = (struct iovec){s->mem + 100, s->len - 100};
	set_use(s, put ? PUTS : GETS);
	s->path = f.path;
	err = (put ? tw_fabric_tcp.put : tw_fabric_tcp.get)(f.path, iov, how & 1 ? 3 : 1, 0x1000,
							    &key, sizeof(key), s);
	FUZZ_MUST(err == TW_PENDING || err == TW_AGAIN || err == TW_ELOST);
	FUZZ_MUST(!f.broken || err == TW_ELOST);
	if (err != TW_PENDING)
		set_use(s, FREE);
}

static void cancel(enum use use)
{
	struct slot *s = some_slot(use);

	if (!s)
		return;
	tw_fabric_tcp.cancel(f.instance, s);
	set_use(s, FREE);
}

static void send_packet(void)
{
	static const uint8_t text[TW_TCP_PACKET];
	uint8_t how = in_byte(f.in);
	enum tw_err err;

	if (!f.path)
		return;
	err = tw_fabric_tcp.send(f.path, text, how & 1 ? TW_TCP_PACKET : how, how & 2, NULL);
	FUZZ_MUST(err == TW_OK || err == TW_AGAIN || err == TW_ELOST);
}

static void free_path(void)
{
	if (f.path)
		tw_fabric_tcp.path_free(f.path);
	f.path = NULL;
}

static void program(uint8_t what)
{
	switch (what % 8) {
	case 0:
	case 1:
		transfer(what & 1);
		break;
	case 2:
		cancel(GETS);
		break;
	case 3:
		cancel(PUTS);
		break;
	case 4:
		take_back();
		break;
	case 5:
		lend();
		break;
	case 6:
		if (what == 254)
			free_path();
		break;
	default:
		send_packet();
	}
}

/* Upcalls ----------------------------------------------------------------- */

static void on_log(enum tw_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

static bool on_packet(void *owner, const void *data, uint32_t len)
{
	uint8_t what = in_byte(f.in);
	uint32_t sum = 0;

	FUZZ_MUST(owner == &f && f.inside && f.path && !f.broken && len <= TW_TCP_PACKET);
	for (uint32_t i = 0; i < len; i++)
		sum += ((const uint8_t *)data)[i];
	FUZZ_MUST(sum <= 255 * len);
	if (what >= 128)
		program(what);
	return what % 4 != 1;
}

static void on_sent(void *owner, void *cookie, bool ok)
{
	(void)owner;
	(void)cookie;
	(void)ok;
	FUZZ_MUST(!"every send is over when it returns");
}

static void on_ended(void *owner, void *cookie, enum tw_err err)
{
	uint8_t unread[16];
	struct slot *s = cookie;
	uint8_t what = in_byte(f.in);

	FUZZ_MUST(owner == &f && f.inside && err < TW_NERRS);
	FUZZ_MUST(err != TW_AGAIN && err != TW_PENDING);
	FUZZ_MUST(s->use == GETS || s->use == PUTS);
	memset(unread, 2, sizeof(unread));
	/* All of what was read has come: no peer says so many 2 in a row. */
	if (s->use == GETS && err == TW_OK)
		FUZZ_MUST(!memmem(s->mem, s->len, unread, sizeof(unread)));
	set_use(s, FREE);
	if (what >= 128)
		program(what);
}

static void on_broken(void *owner, void *which)
{
	FUZZ_MUST(owner == &f && f.inside && which && which == f.path && !f.broken);
	for (unsigned i = 0; i < SLOTS; i++)
		FUZZ_MUST((slots[i].use != GETS && slots[i].use != PUTS) || slots[i].path != which);
	f.broken = true;
	if (in_byte(f.in) & 1)
		free_path();
}

static void progress(unsigned times)
{
	for (; times; times--) {
		f.inside = true;
		tw_fabric_tcp.progress(f.instance);
		f.inside = false;
		check_memory();
	}
}

/* The peer ---------------------------------------------------------------- */

static void say(const void *bytes, size_t len)
{
	f.adrift |= len > sizeof(f.wire) - f.left;
	len = tw_min(len, sizeof(f.wire) - f.left);
	memcpy(f.wire + f.left, bytes, len);
	f.left += len;
}

static void deliver(size_t most)
{
	ssize_t done = 0;

	if (f.fd >= 0)
		done = send(f.fd, f.wire, tw_min(most, f.left), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done > 0) {
		f.left -= (size_t)done;
		memmove(f.wire, f.wire + done, f.left);
	}
	progress(1);
}

/* What is between heads comes from lent memory and from that of puts. */
static void understand(const uint8_t *at, size_t len)
{
	uint8_t secret[16];

	memset(secret, SECRET, sizeof(secret));
	while (len) {
		size_t n;

		if (f.hello_left) {
			n = tw_min(f.hello_left, len);
			f.hello_left -= n;
		} else if (f.body_left) {
			n = tw_min(f.body_left, len);
			FUZZ_MUST(f.adrift || !memchr(at, SECRET, n));
			FUZZ_MUST(!memmem(at, n, secret, sizeof(secret)));
			f.body_left -= n;
		} else {
			n = tw_min(sizeof(f.head) - f.head_got, len);
			memcpy((char *)&f.head + f.head_got, at, n);
			f.head_got += n;
			if (f.head_got == sizeof(f.head)) {
				f.head_got = 0;
				FUZZ_MUST(f.head.kind >= TW_TCP_PACKET_IS &&
					  f.head.kind <= TW_TCP_ENDED);
				FUZZ_MUST(f.head.len <= TW_TCP_CHUNK);
				f.body_left = f.head.len;
			}
		}
		at += n;
		len -= n;
	}
}

static void listen_to_it(void)
{
	uint8_t bytes[16384];
	ssize_t got;

	for (int i = 0; i < 8 && f.fd >= 0; i++) {
		got = recv(f.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (got <= 0)
			return;
		understand(bytes, (size_t)got);
	}
}

static void frame(void)
{
	static const uint32_t kinds[] = {TW_TCP_PACKET_IS, TW_TCP_READ,	      TW_TCP_DATA,
					 TW_TCP_WRITE,	   TW_TCP_WRITE_LAST, TW_TCP_ENDED};
	uint8_t what = in_byte(f.in), how = in_byte(f.in);
	const struct slot *s = &slots[in_byte(f.in) % SLOTS];
	struct tw_tcp_head h = {.kind = kinds[what % tw_countof(kinds)], .id = in_byte(f.in)};
	uint8_t body[512];
	uint64_t len = how & 1 ? in_byte(f.in) : s->len;

	f.big |= s->len == BIG;
	memcpy(&h.key, s->mr.key, sizeof(h.key));
	h.address = (uint64_t)(uintptr_t)s->mem;
	if (how & 2)
		h.address += (uint64_t)(int8_t)in_byte(f.in);
	if (how & 4)
		len = how & 8 ? (uint64_t)in_word(f.in) << 32 | in_word(f.in) : in_word(f.in);
	if (how & 16)
		h.address = (uint64_t)in_word(f.in) << 32 | in_word(f.in);
	if (how & 32)
		h.key ^= in_byte(f.in);
	if (h.kind == TW_TCP_ENDED)
		h.address = how & 64 ? h.address : in_byte(f.in) % (TW_NERRS + 1u);
	if (what >= 250)
		h.kind = in_word(f.in);
	if (h.kind == TW_TCP_READ || h.kind == TW_TCP_ENDED)
		h.total = len;
	else
		h.len = (uint32_t)len;
	say(&h, sizeof(h));
	memset(body, 7, sizeof(body));
	f.adrift |= h.len > WIRE || how & 128;
	if (!(how & 128))
		for (size_t left = tw_min(h.len, (uint32_t)WIRE), n; left; left -= n) {
			n = tw_min(left, sizeof(body));
			say(body, n);
		}
}

/* Calls, or takes the call; the hello may be wrong. */
static void meet(void)
{
	uint8_t how = in_byte(f.in);
	struct tw_tcp_hello h;
	struct tw_fabric_address a = {.len = sizeof(f.address)};
	struct tw_tcp_address me = f.address;
	socklen_t len = sizeof(struct sockaddr_in);

	memset(me.token, how & 1 ? 0 : 0xff, sizeof(me.token));
	memcpy(h.to, f.address.token, sizeof(h.to));
	memcpy(h.from, me.token, sizeof(h.from));
	if (how & 1)
		getsockname(f.listener, (struct sockaddr *)(void *)me.to, &len);
	memcpy(a.bytes, &me, sizeof(me));
	if (how & 2)
		a.bytes[in_byte(f.in) % 20] ^= 1;
	if (how & 4)
		a.len = in_byte(f.in);
	if (!(how & 8))
		tw_fabric_tcp.path_bind(f.path, &a);
	if (how & 1) {
		f.fd = accept4(f.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		f.hello_left = sizeof(h);
		progress(1);
		return;
	}
	f.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(f.fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	FUZZ_MUST(connect(f.fd, (struct sockaddr *)(void *)f.address.to, len) == 0);
	if (how & 16)
		((uint8_t *)&h)[in_byte(f.in) % sizeof(h)] ^= in_byte(f.in);
	say(&h, sizeof(h));
	deliver(how & 32 ? in_byte(f.in) : sizeof(h));
	deliver(sizeof(h));
	if (how & 8)
		tw_fabric_tcp.path_bind(f.path, &a);
	progress(2);
}

/* One run ----------------------------------------------------------------- */

static void set_up(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	lay_out();
	f.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setsockopt(f.listener, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	FUZZ_MUST(bind(f.listener, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	FUZZ_MUST(listen(f.listener, 16) == 0);
}

static void open_it(void)
{
	struct tw_fabric_host host = {.owner = &f,
				      .log = on_log,
				      .own_fd = tw_fd_own,
				      .close_fd = tw_fd_close,
				      .packet = on_packet,
				      .sent = on_sent,
				      .ended = on_ended,
				      .broken = on_broken};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tw_fabric_address a;

	f.broken = f.big = f.adrift = false;
	f.fd = -1;
	f.left = f.hello_left = f.head_got = f.body_left = 0;
	memcpy(&host.board, &sa, sizeof(sa));
	FUZZ_MUST(tw_fabric_tcp.open(&host, &f.instance) == TW_OK);
	FUZZ_MUST(tw_fabric_tcp.path_new(f.instance, &a, &f.path) == TW_OK);
	memcpy(&f.address, a.bytes, sizeof(f.address));
}

static void hang_up(void)
{
	const struct linger at_once = {.l_onoff = 1};

	if (f.fd < 0)
		return;
	/* Else ports run out. */
	setsockopt(f.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(f.fd);
	f.fd = -1;
}

static void step(void)
{
	uint8_t what = in_byte(f.in);

	switch (what % 8) {
	case 0:
		program(in_byte(f.in));
		break;
	case 1:
		deliver(in_byte(f.in));
		break;
	case 2:
		listen_to_it();
		progress(1);
		break;
	case 3:
		tw_fabric_tcp.arm(f.instance);
		deliver(sizeof(f.wire));
		break;
	default:
		frame();
		if (what & 64)
			deliver(sizeof(f.wire));
	}
}

/* The peer goes: everything that was under way ends, where they were connected. */
static void part(void)
{
	const struct tw_tcp_path *p = f.path;
	bool was_there = f.fd >= 0 && p && p->fd >= 0;

	f.in->left = 0;
	listen_to_it();
	deliver(sizeof(f.wire));
	listen_to_it();
	hang_up();
	/* In small bites, where memory was expected. */
	progress(100);
	FUZZ_MUST(!was_there || !f.path || f.broken);
	if (f.path && f.broken)
		transfer(false);
	free_path();
	progress(2);
	for (unsigned i = 0; i < SLOTS; i++) {
		FUZZ_MUST(slots[i].use == FREE || slots[i].use == LENT);
		if (slots[i].use == LENT)
			tw_fabric_tcp.mem_dereg(f.instance, &slots[i].mr);
		if (slots[i].use != FREE)
			set_use(&slots[i], FREE);
		slots[i].mr = (struct tw_fabric_mr){0};
	}
	tw_fabric_tcp.close(f.instance);
	check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (!f.listener)
		set_up();
	f.in = &in;
	open_it();
	meet();
	while (in.left)
		step();
	part();
	return 0;
}
