/* SPDX-License-Identifier: BSD-2-Clause */
#include "provider/fake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NOISE (8u << 20)
#define PIECES 6

static _Thread_local uint64_t rng = 3;

static uint32_t below(uint32_t n)
{
	return (uint32_t)((twt_random(&rng) >> 32) * n >> 32);
}

const uint8_t *fake_noise(void)
{
	static uint8_t noise[NOISE];
	static uint64_t state;

	if (!state)
		for (size_t i = 0; i < NOISE; i += 8) {
			uint64_t r = twt_random(&state);

			memcpy(noise + i, &r, 8);
		}
	return noise;
}

/* Which bytes a packet carries, from its number alone; at most half the noise. */
static const uint8_t *content(uint64_t number)
{
	uint64_t state = number;

	return fake_noise() + twt_random(&state) % (NOISE / 2);
}

/* The header says the number and the length, in words without any structure. */
static struct tw_hdr header(uint64_t number, uint32_t len)
{
	uint64_t a = number, b = ~(number << 32 | len);

	return (struct tw_hdr){twt_random(&a), twt_random(&b)};
}

static void wrong(struct fake *f, const char *what)
{
	if (!f->wrong)
		f->wrong = what;
}

static enum tw_err on_packet(struct tw_link *link, struct tw_hdr hdr, const void *payload,
			     uint32_t len)
{
	struct fake_peer *p = link->peer;
	struct fake *f = p->f;
	struct tw_hdr want = header(p->got, len);
	enum tw_err err = TW_OK;

	p->offered++;
	if (p->ended || p->state != FAKE_UP || link != p->link)
		wrong(f, "a packet on a link that is not up");
	if (len > link->max_payload)
		wrong(f, "a packet that is too long");
	else if (memcmp(&hdr, &want, sizeof(hdr)) != 0)
		wrong(f, "not the packet that is next");
	else if (len && memcmp(payload, content(p->got), len) != 0)
		wrong(f, "a payload that is damaged");
	if (f->again) {
		f->again--;
		return TW_AGAIN;
	}
	if (f->on_packet && !f->on_packet(p, &err))
		return err;
	p->got++;
	return err;
}

static struct fake_peer *new_peer(struct fake *f)
{
	struct fake_peer *p = &f->peers[f->npeers];

	if (f->npeers == FAKE_PEERS) {
		wrong(f, "too many connections");
		p--;
	} else {
		f->npeers++;
	}
	*p = (struct fake_peer){.f = f};
	return p;
}

static enum tw_err on_incoming(struct tw_host *host, struct tw_link *link,
			       const struct tw_ident *other, struct tw_ident *me)
{
	struct fake *f = tw_container(host, struct fake, host);
	struct fake_peer *p;

	f->incoming++;
	if (other->presented != host->self.filter)
		return TW_EFILTER;
	if (f->accept != TW_OK)
		return f->accept;
	p = new_peer(f);
	p->link = link;
	p->other = *other;
	p->state = FAKE_UP;
	link->peer = p;
	*me = host->self;
	me->window = FAKE_WINDOW;
	return TW_OK;
}

static void on_connected(struct tw_link *link, const struct tw_ident *other)
{
	struct fake_peer *p = link->peer;

	if (p->state != FAKE_NEW || p->ended)
		wrong(p->f, "connected twice, or after its end");
	p->link = link;
	p->state = FAKE_UP;
	p->other = *other;
}

static void on_refused(struct tw_link *link, enum tw_err why)
{
	struct fake_peer *p = link->peer;

	if (p->state != FAKE_NEW || p->ended)
		wrong(p->f, "refused twice, or after its end");
	p->state = FAKE_REFUSED;
	p->why = why;
}

static void on_down(struct tw_link *link, enum tw_err why)
{
	struct fake_peer *p = link->peer;

	if (p->state != FAKE_UP || p->ended)
		wrong(p->f, "down twice, or after its end");
	p->state = FAKE_DOWN;
	p->why = why;
}

static void on_ended(struct tw_link *link, void *cookie, enum tw_err err)
{
	struct fake_peer *p = link->peer;
	enum tw_err *result = cookie;

	if (p->state != FAKE_UP || p->ended)
		wrong(p->f, "the end of a transfer on a link that is not up");
	if (*result != TW_PENDING)
		wrong(p->f, "a transfer ended twice");
	*result = err;
}

static void on_poll(struct tw_host *host, void *instance, bool on)
{
	struct fake *f = tw_container(host, struct fake, host);

	if (f->instance && instance != f->instance)
		wrong(f, "whose progress()?");
	f->unpolled = !on;
}

/* TWT_BOARDS is one address or two, with a comma between; else it is the loopback. */
static bool address_of(uint64_t nic_id, struct in_addr *addr)
{
	const char *env = getenv("TWT_BOARDS"), *list = env ? env : "127.0.0.1";
	const char *comma = strchr(list, ',');
	char text[INET_ADDRSTRLEN] = "";

	if (nic_id == FAKE_BOARD)
		strncpy(text, list, tw_min(strcspn(list, ","), sizeof(text) - 1));
	else if (nic_id == FAKE_OTHER && comma)
		strncpy(text, comma + 1, sizeof(text) - 1);
	return inet_pton(AF_INET, text, addr) == 1;
}

/* Every board of the tests is this host. */
static enum tw_err on_locate(uint64_t nic_id, struct sockaddr_storage *sa)
{
	struct sockaddr_in in = {.sin_family = AF_INET};

	if (!address_of(nic_id, &in.sin_addr))
		return TW_EUNREACH;
	memset(sa, 0, sizeof(*sa));
	memcpy(sa, &in, sizeof(in));
	return TW_OK;
}

static void on_describe(struct tw_host_boards *out)
{
	memset(out, 0, sizeof(*out));
}

unsigned fake_kept;

static bool on_found(uint64_t nic_id, const struct sockaddr_storage *sa, bool proved)
{
	(void)sa;
	fake_kept += proved;
	return nic_id == FAKE_OTHER;
}

static void on_wake(struct tw_host *host)
{
	tw_container(host, struct fake, host)->woken = true;
}

static void on_paths(struct tw_link *link)
{
	(void)link;
}

static void on_trouble(struct tw_host *host, void *peer, enum tw_err why, const char *cause,
		       const char *advice)
{
	(void)host;
	(void)peer;
	(void)why;
	(void)cause;
	(void)advice;
}

static void on_timer(struct tw_host *host, uint64_t when)
{
	struct fake *f = tw_container(host, struct fake, host);

	if (!f->timer || when < f->timer)
		f->timer = when;
}

static const struct tw_upcalls upcalls = {
	.packet = on_packet,
	.incoming = on_incoming,
	.connected = on_connected,
	.refused = on_refused,
	.down = on_down,
	.wake = on_wake,
	.ended = on_ended,
	.poll = on_poll,
	.locate = on_locate,
	.found = on_found,
	.describe = on_describe,
	.paths = on_paths,
	.trouble = on_trouble,
	.timer = on_timer,
};

enum tw_err fake_open(struct fake *f, const struct tw_provider *ops, uint32_t endpoint_id)
{
	struct in_addr addr;
	enum tw_err err;

	fake_noise();
	memset(f, 0, sizeof(*f));
	f->ops = ops;
	f->board = endpoint_id == 2 && address_of(FAKE_OTHER, &addr) ? FAKE_OTHER : FAKE_BOARD;
	f->host = (struct tw_host){
		.up = &upcalls,
		.state = TW_RESTING, /* in which it is armed */
		.epfd = epoll_create1(EPOLL_CLOEXEC),
		.self = {f->board, endpoint_id, 0x1000 + endpoint_id, 0x2000 + endpoint_id, 0, 0},
		.boards = &f->board,
		.nboards = 1,
		.counters = f->counters,
	};
	err = ops->open(&f->host, &f->instance);
	if (err != TW_OK)
		close(f->host.epfd);
	return err;
}

void fake_close(struct fake *f)
{
	for (unsigned i = 0; i < f->npeers; i++)
		f->peers[i].ended = true;
	f->ops->close(f->instance);
	close(f->host.epfd);
}

struct fake_peer *fake_connect(struct fake *f, uint64_t nic_id, uint32_t endpoint_id, uint32_t key)
{
	struct fake_peer *p = new_peer(f);
	struct tw_ident me = f->host.self;
	enum tw_err err;

	me.presented = key;
	me.window = FAKE_WINDOW;
	err = f->ops->connect(f->instance, &me, nic_id, endpoint_id, p, &p->link);
	if (err != TW_OK && p->state != FAKE_NEW)
		wrong(f, "connect() failed by an upcall as well");
	if (err != TW_OK) {
		p->state = FAKE_REFUSED;
		p->why = err;
	}
	return p;
}

/* Cuts len bytes into pieces, some of them empty; how many. */
static unsigned cut(struct iovec *iov, const uint8_t *from, uint32_t len)
{
	unsigned n = below(PIECES);

	if (n == 0 && len == 0)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t piece = below(3) ? below(len + 1) : 0;

		iov[i] = (struct iovec){(void *)(uintptr_t)from, piece};
		from += piece;
		len -= piece;
	}
	iov[n] = (struct iovec){(void *)(uintptr_t)from, len};
	return n + 1;
}

enum tw_err fake_send(struct fake_peer *p, enum tw_send_class cls, uint32_t len)
{
	struct iovec iov[PIECES];
	unsigned n = cut(iov, content(p->sent), len);
	enum tw_err err = p->f->ops->send(p->link, cls, header(p->sent, len), iov, n, len);

	p->sent += err == TW_OK;
	return err;
}

unsigned fake_fill(struct fake_peer *p, enum tw_send_class cls, uint32_t len)
{
	unsigned n = 0;
	enum tw_err err;

	while ((err = fake_send(p, cls, len)) == TW_OK && n < 100000)
		n++;
	if (err != TW_AGAIN)
		wrong(p->f, "not full at any time, or another error");
	return n;
}

void fake_disarm(struct fake *f)
{
	if (f->ops->disarm)
		f->ops->disarm(f->instance);
}

void fake_expire(struct fake *f)
{
	uint64_t now = tw_clock(), next;

	if (!f->timer || f->timer > now)
		return;
	f->timer = 0;
	next = f->ops->expire(f->instance, now);
	if (next)
		on_timer(&f->host, next);
}

void fake_events(struct fake *f)
{
	struct epoll_event ev[64];
	int n = epoll_wait(f->host.epfd, ev, tw_countof(ev), 0);

	for (int i = 0; i < n; i++) {
		struct epoll_event *e = &ev[f->backwards ? n - 1 - i : i];
		struct tw_watch *w = e->data.ptr;

		w->ready(w, e->events);
	}
	fake_expire(f);
}

void fake_pump(struct fake *f)
{
	uint64_t got = 0, now = 0;
	unsigned n;

	for (unsigned i = 0; i < f->npeers; i++)
		got += f->peers[i].got;
	f->woken = false;
	n = f->unpolled ? 0 : f->ops->progress(f->instance);
	for (unsigned i = 0; i < f->npeers; i++)
		now += f->peers[i].got;
	if (!f->on_packet && n != now - got)
		wrong(f, "progress() miscounts");
	fake_events(f);
}

bool fake_woken(const struct fake *f, int ms)
{
	struct pollfd p = {.fd = f->host.epfd, .events = POLLIN};

	return f->woken || poll(&p, 1, ms) == 1;
}
