/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP network under a peer that says anything: hellos and frames with any
 * fields, in any pieces, between gets, puts and registrations of ours. Memory
 * that is not lent to the peer keeps its bytes, and none of them leaves.
 */
#include "base/settings.h"
#include "fuzz/fuzz_tcp.h"
#include "provider/lone.h"

const unsigned fuzz_inputs = 3000;

#define SLOT 2048
#define GAP 64

struct slot slots[SLOTS];
static uint8_t arena[SLOTS * (SLOT + 2 * GAP) + BIG], was[sizeof(arena)];
struct program f;

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
	FUZZ_MUST(tw_driver_tcp.mem_reg(f.instance, s->mem, s->len, TW_MEM_BOTH, &s->mr) == TW_OK);
}

static void take_back(void)
{
	struct slot *s = some_slot(LENT);

	if (!s)
		return;
	tw_driver_tcp.mem_dereg(f.instance, &s->mr);
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
	err = tw_driver_tcp.rma(f.path, put, iov, how & 1 ? 3 : 1, 0x1000, &key, sizeof(key), s);
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
	tw_driver_tcp.cancel(f.instance, s);
	set_use(s, FREE);
}

static void send_packet(void)
{
	uint8_t how = in_byte(f.in);
	struct tw_net_packet *p;
	enum tw_err err;

	if (!f.path)
		return;
	p = lone_packet(NULL, true);
	p->len = how & 1 ? TW_TCP_PACKET : how;
	memset(p->data, 0, p->len);
	err = tw_driver_tcp.send(f.path, p, how & 2);
	FUZZ_MUST(err == TW_OK || err == TW_AGAIN || err == TW_ELOST);
	FUZZ_MUST(p->users == 1 || (err == TW_OK && p->users == 2));
	tw_net_packet_put(p);
}

static void free_path(void)
{
	if (f.path)
		tw_driver_tcp.path_free(f.path);
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

static bool on_packet(void *owner, const void *path, const void *data, uint32_t len)
{
	uint8_t what = in_byte(f.in);
	uint32_t sum = 0;

	FUZZ_MUST(owner == &f && f.inside && f.path && path == f.path && !f.broken &&
		  len <= TW_TCP_PACKET);
	for (uint32_t i = 0; i < len; i++)
		sum += ((const uint8_t *)data)[i];
	FUZZ_MUST(sum <= 255 * len);
	if (what >= 128)
		program(what);
	return what % 4 != 1;
}

static void on_ended(void *owner, void *cookie, enum tw_err err)
{
	uint8_t unread[16];
	struct slot *s = cookie;

	FUZZ_MUST(owner == &f && err < TW_NERRS);
	FUZZ_MUST(err != TW_AGAIN && err != TW_PENDING);
	FUZZ_MUST(s->use == GETS || s->use == PUTS);
	memset(unread, 2, sizeof(unread));
	/* All of what was read has come: no peer says so many 2 in a row. */
	if (s->use == GETS && err == TW_OK)
		FUZZ_MUST(!memmem(s->mem, s->len, unread, sizeof(unread)));
	set_use(s, FREE);
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

void progress(unsigned times)
{
	for (; times; times--) {
		f.inside = true;
		tw_driver_tcp.progress(f.instance);
		f.inside = false;
		check_memory();
	}
}

/* One run ----------------------------------------------------------------- */

static void open_it(void)
{
	struct tw_driver_host host = lone_host(&tw_driver_tcp, &f);
	struct tw_driver_address a;
	struct tw_driver_caps caps;

	host.packet = on_packet;
	host.ended = on_ended;
	host.broken = on_broken;
	f.broken = f.big = false;
	peer_begin();
	f.tokens = (struct tw_driver_tokens){
		.mine = {0x7f}, .other = {0xff}, .calls = in_byte(f.in) & 1};
	FUZZ_MUST(tw_driver_tcp.open(&host, &f.instance, &caps) == TW_OK);
	FUZZ_MUST(tw_driver_tcp.path_new(f.instance, NULL, &f.tokens, &a, &f.path) == TW_OK);
	memcpy(&f.address, a.bytes, sizeof(f.address));
}

static void step(void)
{
	uint8_t what = in_byte(f.in);

	switch (what % 8) {
	case 0:
		program(in_byte(f.in));
		break;
	case 1:
		peer_deliver(in_byte(f.in));
		break;
	case 2:
		peer_listen();
		progress(1);
		break;
	case 3:
		tw_driver_tcp.arm(f.instance);
		peer_deliver(SIZE_MAX);
		break;
	default:
		peer_frame();
		if (what & 64)
			peer_deliver(SIZE_MAX);
	}
}

/* The peer goes: everything that was under way ends, where they were connected. */
static void part(void)
{
	const struct tw_tcp_path *p = f.path;
	bool was_there = peer_is_there() && p && p->fd >= 0;

	f.in->left = 0;
	peer_listen();
	peer_deliver(SIZE_MAX);
	peer_listen();
	peer_hang_up();
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
			tw_driver_tcp.mem_dereg(f.instance, &slots[i].mr);
		if (slots[i].use != FREE)
			set_use(&slots[i], FREE);
		slots[i].mr = (struct tw_driver_mr){0};
	}
	tw_driver_tcp.close(f.instance);
	check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (!slots[0].mem)
		lay_out();
	f.in = &in;
	open_it();
	peer_meet();
	while (in.left)
		step();
	part();
	return 0;
}
