/* SPDX-License-Identifier: BSD-2-Clause */
/* Every provider alike: to connect, to carry packets, to read memory. */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/page.h"
#include "provider/pair.h"

static uint64_t rng = 11;

static uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

CONFORMANCE(reaches, ANY)
{
	struct pair *p = pair_open(t);
	const struct tw_ident *b = &p->b->host.self;

	cr_assert(p->ops->reaches(p->a.instance, b->nic_id, b->endpoint_id));
	cr_assert_not(p->ops->reaches(p->a.instance, b->nic_id + 1, b->endpoint_id));
	/* Whoever reaches only himself must say so. */
	cr_assert_eq(p->ops->reaches(p->a.instance, b->nic_id, 77), !!(p->can & OTHERS));
	pair_close(p);
}

CONFORMANCE(names, OTHERS)
{
	struct pair *p = pair_open(t);
	static struct fake second;

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(fake_open(&second, p->ops, 1), TW_EBUSY);
		cr_assert_eq(fake_open(&second, p->ops, 2), TW_EBUSY);
		pair_pump(p);
		cr_assert_eq(fake_open(&second, p->ops, 3), TW_OK);
		fake_close(&second);
	}
	fake_close(p->b);
	cr_assert_eq(fake_open(p->b, p->ops, 2), TW_OK, "its name is free again");
	pair_connect(p, &p->ab, &p->ba);
	pair_close(p);
}

CONFORMANCE(connect, ANY)
{
	struct pair *p = pair_connected(t);
	const struct tw_ident *a = &p->a.host.self, *b = &p->b->host.self;

	cr_assert_eq(p->ab->other.nic_id, b->nic_id);
	cr_assert_eq(p->ab->other.endpoint_id, b->endpoint_id);
	cr_assert_eq(p->ab->other.session, b->session);
	cr_assert_eq(p->ab->other.filter, b->filter);
	cr_assert_eq(p->ab->other.window, FAKE_WINDOW);
	cr_assert_eq(p->ba->other.nic_id, a->nic_id);
	cr_assert_eq(p->ba->other.endpoint_id, a->endpoint_id);
	cr_assert_eq(p->ba->other.session, a->session);
	cr_assert_eq(p->ba->other.filter, a->filter);
	cr_assert_eq(p->ba->other.window, FAKE_WINDOW);
	cr_assert_eq(p->ab->link->provider, p->ops);
	cr_assert_eq(p->ba->link->provider, p->ops);
	cr_assert_geq(p->ab->link->max_payload, 4096u);
	cr_assert_eq(p->ab->link->max_payload, p->ba->link->max_payload);
	pair_close(p);
}

CONFORMANCE(wrong_key, ANY)
{
	struct pair *p = pair_open(t);
	const struct tw_ident *b = &p->b->host.self;
	struct fake_peer *peer = fake_connect(&p->a, b->nic_id, b->endpoint_id, b->filter + 1);

	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_REFUSED);
	cr_assert_eq(peer->why, TW_EFILTER);
	cr_assert_eq(p->b->npeers, p->can & OTHERS ? 0u : 1u);
	pair_connect(p, &p->ab, &p->ba);
	pair_close(p);
}

CONFORMANCE(refused, OTHERS)
{
	struct pair *p = pair_open(t);
	const struct tw_ident *b = &p->b->host.self;

	for (enum tw_err why = TW_ENOMEM; why < TW_NERRS; why++) {
		struct fake_peer *peer;

		p->b->accept = why;
		peer = fake_connect(&p->a, b->nic_id, b->endpoint_id, b->filter);
		UNTIL(p, peer->state != FAKE_NEW);
		cr_assert_eq(peer->state, FAKE_REFUSED);
		cr_assert_eq(peer->why, why, "%d, not %d", peer->why, why);
	}
	cr_assert_eq(p->b->npeers, 0u);
	p->b->accept = TW_OK;
	pair_connect(p, &p->ab, &p->ba);
	pair_close(p);
}

CONFORMANCE(connect_to_nobody, OTHERS)
{
	struct pair *p = pair_open(t);
	struct fake_peer *peer = fake_connect(&p->a, FAKE_BOARD, 77, 0);

	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_REFUSED);
	cr_assert_eq(peer->why, TW_ECLOSED);
	/* The same with one that was there. */
	fake_close(p->b);
	peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);
	while (peer->state == FAKE_NEW)
		fake_pump(&p->a);
	cr_assert_eq(peer->state, FAKE_REFUSED);
	cr_assert_eq(peer->why, TW_ECLOSED);
	pair_check(p);
	fake_close(&p->a);
}

/* For this process, which has both sides of all connections. */
static void descriptors(rlim_t n)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < n)
		cr_skip_test("no more than %llu descriptors", (unsigned long long)limit.rlim_max);
	if (limit.rlim_cur < n) {
		limit.rlim_cur = n;
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
}

/* More than a listener's queue holds, all begun before the first is looked at. */
CONFORMANCE(connect_many, OTHERS)
{
	struct pair *p = pair_open(t);
	const struct tw_ident *b = &p->b->host.self;
	const unsigned n = 300;

	/* Whoever is not answered soon keeps its call, and calls the next of eight ports. */
	descriptors(10 * n);
	for (unsigned i = 0; i < n; i++)
		fake_connect(&p->a, b->nic_id, b->endpoint_id, b->filter);
	for (unsigned i = 0; i < n; i++) {
		UNTIL(p, p->a.peers[i].state != FAKE_NEW);
		cr_assert_eq(p->a.peers[i].state, FAKE_UP, "%u: %d", i, p->a.peers[i].why);
	}
	cr_assert_eq(p->b->npeers, n);
	for (unsigned i = 0; i < n; i++) {
		cr_assert_eq(fake_send(&p->a.peers[i], TW_SEND_PLAIN, 8), TW_OK);
		cr_assert_eq(fake_send(&p->b->peers[i], TW_SEND_ENGINE, 80), TW_OK);
	}
	for (unsigned i = 0; i < n; i++)
		UNTIL(p, p->a.peers[i].got == 1 && p->b->peers[i].got == 1);
	pair_close(p);
}

/* The engine settles crossings; for a provider these are two connections. */
CONFORMANCE(connect_crossing, OTHERS)
{
	struct pair *p = pair_open(t);
	const struct tw_ident *a = &p->a.host.self, *b = &p->b->host.self;
	struct fake_peer *to, *fro;

	to = fake_connect(&p->a, b->nic_id, b->endpoint_id, b->filter);
	fro = fake_connect(p->b, a->nic_id, a->endpoint_id, a->filter);
	UNTIL(p, to->state == FAKE_UP && fro->state == FAKE_UP);
	cr_assert_eq(p->a.npeers, 2u);
	cr_assert_eq(p->b->npeers, 2u);
	pair_disconnect(to);
	UNTIL(p, p->b->peers[1].state == FAKE_DOWN);
	cr_assert_eq(fake_send(fro, TW_SEND_PLAIN, 100), TW_OK);
	UNTIL(p, p->a.peers[1].got == 1);
	pair_close(p);
}

/* Every length, in random pieces, both ways. */
CONFORMANCE(lengths, ANY)
{
	struct pair *p = pair_connected(t);
	uint32_t most = p->ab->link->max_payload;

	for (uint32_t len = 0; len <= most; len++) {
		while (fake_send(p->ab, TW_SEND_PLAIN, len) == TW_AGAIN)
			pair_pump(p);
		while (fake_send(p->ba, TW_SEND_PLAIN, most - len) == TW_AGAIN)
			pair_pump(p);
	}
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_geq(p->ab->sent, most + 1);
	pair_close(p);
}

static uint32_t some_length(const struct fake_peer *p)
{
	switch (below(4)) {
	case 0:
		return below(p->link->max_payload + 1);
	case 1:
		return below(3 * TW_SHORT_MAX);
	default:
		return below(TW_SHORT_MAX + 1);
	}
}

static enum tw_send_class some_class(void)
{
	return below(4) ? (enum tw_send_class)below(3) : TW_SEND_MORE;
}

/* Long packets, short ones and urgent ones keep their order, whatever is full or held back. */
CONFORMANCE(order, ANY)
{
	struct pair *p = pair_connected(t);
	unsigned full = 0;

	while (p->ab->sent < 60000) {
		struct fake_peer *from = below(3) ? p->ab : p->ba;
		enum tw_err err = fake_send(from, some_class(), some_length(from));

		cr_assert(err == TW_OK || err == TW_AGAIN, "error %d", err);
		full += err == TW_AGAIN;
		if (below(err == TW_AGAIN ? 2 : 1000) == 0)
			pair_pump(p);
	}
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_gt(full, 10u, "it was never full");
	pair_close(p);
}

static bool sixth_time(struct fake_peer *p, enum tw_err *err)
{
	*err = p->offered % 6 ? TW_AGAIN : TW_OK;
	return *err == TW_OK;
}

/* What the engine cannot take now comes again, once per progress, and nothing before it. */
CONFORMANCE(again, PROMPT)
{
	static const uint32_t lens[] = {5, 3000, 0, 40, 41, 4096};
	struct pair *p = pair_connected(t);
	double end = twt_now() + PAIR_SECONDS;

	for (unsigned i = 0; i < tw_countof(lens); i++)
		cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, lens[i]), TW_OK);
	p->b->on_packet = sixth_time;
	while (p->ba->got < tw_countof(lens)) {
		uint64_t offered = p->ba->offered, got = p->ba->got;
		unsigned n = p->ops->progress(p->b->instance);

		pair_check(p);
		cr_assert_eq(n, p->ba->got - got);
		cr_assert_leq(p->ba->offered - offered, n + 1, "offered again at once");
		cr_assert_lt(twt_now(), end);
	}
	cr_assert_eq(p->ba->offered, 6 * tw_countof(lens));
	pair_close(p);
}

/* Full is full until the other side reads; what controls has places of its own. */
static void fill_and_empty(const struct traits *t, uint32_t len)
{
	struct pair *p = pair_connected(t);

	len = tw_min(len, p->ab->link->max_payload);
	for (int round = 0; round < 5; round++) {
		unsigned control;

		/* Room that was read free may come back in parts. */
		UNTIL(p, fake_fill(p->ab, TW_SEND_PLAIN, len) >= 2);
		cr_assert_eq(fake_send(p->ab, TW_SEND_ENGINE, len), TW_AGAIN);
		control = fake_fill(p->ab, TW_SEND_CONTROL, TW_SHORT_MAX);
		cr_assert_geq(control, 8u, "only %u for control", control);
		cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, len), TW_AGAIN);
		UNTIL(p, p->ba->got == p->ab->sent);
		UNTIL(p, fake_send(p->ab, TW_SEND_PLAIN, len) == TW_OK);
	}
	UNTIL(p, p->ba->got == p->ab->sent);
	pair_close(p);
}

/* The system takes more than a window otherwise. */
static void small_buffers(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		int family = AF_UNSPEC, size = 128 << 10;
		socklen_t len = sizeof(family);

		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
		if (family == AF_INET)
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	}
}

/* Several that take nothing: whoever looks after them comes back. */
CONFORMANCE(full_to_several, OTHERS)
{
	struct pair *p = pair_connected(t);
	struct fake_peer *ab[3] = {p->ab}, *ba[3] = {p->ba};
	uint32_t len = p->ab->link->max_payload;

	for (unsigned i = 1; i < tw_countof(ab); i++)
		pair_connect(p, &ab[i], &ba[i]);
	small_buffers();
	for (unsigned i = 0; i < tw_countof(ab); i++)
		cr_assert_geq(fake_fill(ab[i], TW_SEND_PLAIN, len), 2u);
	for (int n = 0; n < 1000; n++)
		fake_pump(&p->a);
	for (unsigned i = 0; i < tw_countof(ab); i++)
		UNTIL(p, ba[i]->got == ab[i]->sent);
	pair_close(p);
}

CONFORMANCE(full_of_empty, ANY)
{
	fill_and_empty(t, 0);
}

CONFORMANCE(full_of_short, ANY)
{
	fill_and_empty(t, TW_SHORT_MAX);
}

CONFORMANCE(full_of_long, ANY)
{
	fill_and_empty(t, 16384);
}

#define MEMORY (1u << 20)
static uint8_t from[MEMORY], to[MEMORY + 8192];

/* Memory of b that a may access. */
static void expose(struct pair *p, void *ptr, size_t len, unsigned rights, struct tw_mem_reg *mr)
{
	struct tw_link *link = p->ba->link;

	cr_assert_eq(p->ab->link->key_size, link->key_size);
	cr_assert_leq(link->key_size, (uint32_t)TW_KEY_MAX);
	mr->address = (uintptr_t)ptr;
	/* A path that an access without right has ended is made again first. */
	if (link->key_size)
		UNTIL(p, p->ops->mem_reg(link, ptr, len, rights, mr) == TW_OK);
}

static void hide(struct pair *p, struct tw_mem_reg *mr)
{
	if (p->ba->link->key_size)
		p->ops->mem_dereg(p->ba->link, mr);
}

/* Starts a transfer from a and sees it through. */
static enum tw_err move(struct pair *p, bool put, const struct iovec *iov, unsigned niov,
			const struct tw_mem_reg *mr, uint64_t offset)
{
	enum tw_err result = TW_PENDING, err;

	while ((err = p->ops->rma(p->ab->link, put, iov, niov, mr->address + offset, mr->key,
				  &result)) == TW_AGAIN)
		pair_pump(p);
	if (err != TW_PENDING)
		return err;
	UNTIL(p, result != TW_PENDING);
	return result;
}

/* Cuts len bytes of `to' into pieces with gaps between them. */
static void lay_out(struct iovec *iov, uint32_t len, unsigned pieces, bool empty_ones)
{
	uint32_t at = 0;

	for (unsigned i = 0; i < pieces; i++) {
		uint32_t left = pieces - 1 - i;
		uint32_t n = left ? 1 + below(len - at - left) : len - at;

		if (empty_ones && left && i % 3 == 1)
			n = 0;
		iov[i] = (struct iovec){to + at + 64 * i, n};
		at += n;
	}
}

static enum tw_err get_pieces(struct pair *p, uint32_t len, unsigned pieces, bool empty_ones)
{
	struct iovec iov[16];
	struct tw_mem_reg mr;
	enum tw_err err;

	lay_out(iov, len, pieces, empty_ones);
	memset(to, 0xdd, sizeof(to));
	expose(p, from, sizeof(from), TW_MEM_READ, &mr);
	err = move(p, false, iov, pieces, &mr, 3);
	hide(p, &mr);
	if (err != TW_OK)
		return err;
	for (unsigned i = 0, done = 0; i < pieces; done += (unsigned)iov[i].iov_len, i++) {
		uint8_t *base = iov[i].iov_base;

		if (memcmp(base, from + 3 + done, iov[i].iov_len) != 0 ||
		    base[iov[i].iov_len] != 0xdd)
			return TW_EFAULT;
	}
	return TW_OK;
}

static enum tw_err put_pieces(struct pair *p, uint32_t len, unsigned pieces, bool empty_ones)
{
	struct iovec iov[16];
	struct tw_mem_reg mr;
	enum tw_err err;

	lay_out(iov, len, pieces, empty_ones);
	twt_fill(to, sizeof(to), len + pieces);
	memset(from, 0xdd, sizeof(from));
	expose(p, from, sizeof(from), TW_MEM_WRITE, &mr);
	err = move(p, true, iov, pieces, &mr, 3);
	hide(p, &mr);
	if (err != TW_OK)
		return err;
	for (unsigned i = 0, done = 0; i < pieces; done += (unsigned)iov[i].iov_len, i++)
		if (memcmp(iov[i].iov_base, from + 3 + done, iov[i].iov_len) != 0)
			return TW_EFAULT;
	return from[2] == 0xdd && from[3 + len] == 0xdd ? TW_OK : TW_EFAULT;
}

/* From the own process, which no system refuses. */
static void all_lengths(const struct traits *t,
			enum tw_err (*pieces)(struct pair *, uint32_t, unsigned, bool))
{
	static const uint32_t lens[] = {1, 2, 63, 4096, 4097, 100000, MEMORY - 8};
	struct pair *p = pair_connected(t);

	twt_fill(from, sizeof(from), 4);
	cr_assert(p->ab->link->can_get);
	for (unsigned i = 0; i < tw_countof(lens); i++) {
		cr_assert_eq(pieces(p, lens[i], 1, false), TW_OK);
		for (unsigned k = 2; k <= 16 && k < lens[i]; k++)
			cr_assert_eq(pieces(p, lens[i], k, false), TW_OK);
	}
	/* Nothing at all, and nothing in between. */
	cr_assert_eq(pieces(p, 0, 0, false), TW_OK);
	cr_assert_eq(pieces(p, 0, 1, true), TW_OK);
	cr_assert_eq(pieces(p, 5000, 7, true), TW_OK, "some pieces are empty");
	cr_assert(p->ab->link->can_get);
	pair_close(p);
}

CONFORMANCE(get, ANY)
{
	all_lengths(t, get_pieces);
}

CONFORMANCE(put, ANY)
{
	all_lengths(t, put_pieces);
}

/* An access beyond the rights of a key fails, and the link is none the worse for it. */
CONFORMANCE(rights, RIGHTS)
{
	struct pair *p = pair_connected(t);
	struct iovec iov = {to, 5000};
	struct tw_mem_reg mr;

	memset(to, 0xdd, sizeof(to));
	memset(from, 0x11, sizeof(from));
	expose(p, from, sizeof(from), TW_MEM_READ, &mr);
	cr_assert_eq(move(p, true, &iov, 1, &mr, 0), TW_EPERM);
	hide(p, &mr);
	cr_assert_eq(from[0], 0x11);
	expose(p, from, sizeof(from), TW_MEM_WRITE, &mr);
	cr_assert_eq(move(p, false, &iov, 1, &mr, 0), TW_EPERM);
	hide(p, &mr);
	cr_assert_eq(to[0], 0xdd);
	cr_assert_eq(get_pieces(p, 5000, 3, false), TW_OK);
	cr_assert_eq(put_pieces(p, 5000, 3, false), TW_OK);
	pair_close(p);
}

enum { PARTS = 64, PART = MEMORY / PARTS };

/* Begins to read one part of the memory; its result follows. */
static void get_part(struct pair *p, const struct tw_mem_reg *mr, unsigned i, enum tw_err *result)
{
	struct iovec iov = {to + i * PART, PART};
	enum tw_err err;

	*result = TW_PENDING;
	while ((err = p->ops->rma(p->ab->link, false, &iov, 1, mr->address + i * PART, mr->key,
				  result)) == TW_AGAIN)
		pair_pump(p);
	cr_assert(err == TW_OK || err == TW_PENDING, "error %d", err);
	if (err == TW_OK)
		*result = TW_OK;
}

/* Packets and transfers mix, and many transfers are under way at once. */
CONFORMANCE(get_many, ANY)
{
	struct pair *p = pair_connected(t);
	enum tw_err results[PARTS];
	struct tw_mem_reg mr;

	twt_fill(from, sizeof(from), 9);
	expose(p, from, sizeof(from), TW_MEM_READ, &mr);
	for (unsigned i = 0; i < PARTS; i++) {
		get_part(p, &mr, i, &results[i]);
		while (fake_send(p->ab, TW_SEND_PLAIN, i * 60) == TW_AGAIN)
			pair_pump(p);
	}
	for (unsigned i = 0; i < PARTS; i++) {
		UNTIL(p, results[i] != TW_PENDING);
		/* Refused after four broken paths (lossy: one transfer in 10,000). */
		for (int k = 0; k < 3 && results[i] == TW_EPERM; k++) {
			get_part(p, &mr, i, &results[i]);
			UNTIL(p, results[i] != TW_PENDING);
		}
		cr_assert_eq(results[i], TW_OK, "part %u: %d", i, results[i]);
	}
	UNTIL(p, p->ba->got == p->ab->sent);
	cr_assert_eq(memcmp(from, to, MEMORY), 0);
	hide(p, &mr);
	pair_close(p);
}

/* A transfer ends before its link does, or is forgotten with it. */
CONFORMANCE(get_cut_off, OTHERS)
{
	for (int side = 0; side < 2; side++) {
		struct pair *p = pair_connected(t);
		enum tw_err result = TW_PENDING, err;
		struct iovec iov = {to, MEMORY};
		struct tw_mem_reg mr;

		expose(p, from, sizeof(from), TW_MEM_READ, &mr);
		err = p->ops->rma(p->ab->link, false, &iov, 1, mr.address, mr.key, &result);
		cr_assert(err == TW_OK || err == TW_PENDING);
		pair_disconnect(side ? p->ab : p->ba);
		if (side == 0) {
			UNTIL(p, p->ab->state == FAKE_DOWN);
			cr_assert(err == TW_OK || result != TW_PENDING, "down before the end");
		}
		for (int i = 0; i < 100; i++)
			pair_pump(p);
		pair_close(p);
	}
}

/* Memory of a peer that has ended its link may hold anything: no get of it succeeds. */
CONFORMANCE(get_after_end, OTHERS)
{
	struct pair *p = pair_connected(t);
	enum tw_err result = TW_PENDING, err;
	struct iovec iov = {to, PART};
	struct tw_mem_reg mr;

	expose(p, from, sizeof(from), TW_MEM_READ, &mr);
	pair_disconnect(p->ba);
	err = p->ops->rma(p->ab->link, false, &iov, 1, mr.address, mr.key, &result);
	cr_assert_neq(err, TW_OK);
	UNTIL(p, p->ab->state == FAKE_DOWN);
	cr_assert_neq(result, TW_OK);
	pair_close(p);
}

static enum tw_err try_at(struct pair *p, bool put, const struct iovec *iov, uint64_t address,
			  const void *key)
{
	return p->ops->rma(p->ab->link, put, iov, 1, address, key, NULL);
}

/* Of the peer's memory only the peer can tell whether it is there: the data may still be sent. */
CONFORMANCE(get_from_nowhere, FAULTS)
{
	struct pair *p = pair_connected(t);
	struct iovec iov = {to, 8192};
	size_t page = tw_page_size();
	uint8_t *pages = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *hole = pages + page - 4096; /* in the middle */
	struct iovec nowhere = {hole, 8192};
	struct tw_mem_reg mr;

	munmap(pages + page, page);
	cr_assert_eq(try_at(p, false, &iov, 16, NULL), TW_EPERM);
	cr_assert_eq(try_at(p, false, &iov, UINT64_MAX - 100, NULL), TW_EPERM);
	cr_assert_eq(try_at(p, false, &iov, (uintptr_t)hole, NULL), TW_EPERM);
	cr_assert_eq(try_at(p, true, &iov, (uintptr_t)hole, NULL), TW_EPERM);
	/* Its own memory this side knows. */
	expose(p, from, sizeof(from), TW_MEM_BOTH, &mr);
	cr_assert_eq(try_at(p, false, &nowhere, mr.address, mr.key), TW_EFAULT);
	cr_assert_eq(try_at(p, true, &nowhere, mr.address, mr.key), TW_EFAULT);
	munmap(pages, page);
	/* The link is none the worse for it. */
	cr_assert(p->ab->link->can_get);
	cr_assert_eq(get_pieces(p, 5000, 3, false), TW_OK);
	cr_assert_eq(put_pieces(p, 5000, 3, false), TW_OK);
	cr_assert_eq(fake_send(p->ab, TW_SEND_PLAIN, 5), TW_OK);
	UNTIL(p, p->ba->got == 1);
	pair_close(p);
}
