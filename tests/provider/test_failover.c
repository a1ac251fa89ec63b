/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two networks at once, and the one in use fails: nothing is lost, nothing
 * comes twice, all in order. The networks are providers of libfabric, tcp, or lossy;
 * each is wrapped so that it can be cut.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/module.h"
#include "provider/lossy.h"
#include "provider/pair.h"
#include "providers/net/session.h"
#include "providers/net/tcp/tcp.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define ROUND 3000 /* packets each way before and after a cut */
#define MEMORY (1u << 18)

enum cut {
	WHOLE,
	REFUSES,  /* every operation fails */
	SWALLOWS, /* packets are taken and never arrive */
};

static struct net {
	struct tw_driver driver;
	const struct tw_driver *of;
	const char *provider; /* of libfabric */
	struct tw_settings settings;
	enum cut cut;
	bool single;	  /* only the first who asks has it */
	bool no_ways;	  /* nobody can be reached by it */
	unsigned refused; /* times */
	unsigned opened;  /* times */
	uint64_t carried; /* packets */
} nets[2];

struct combination {
	char first[16], second[16];
	enum cut cut;
};

static uint8_t from[MEMORY], to[MEMORY];
static uint64_t rng = 3;

static enum tw_err net_open(struct net *n, const struct tw_driver_host *host, void **instance,
			    struct tw_driver_caps *caps)
{
	struct tw_driver_host h = *host;

	if (n->opened++ && n->single)
		return TW_EUNREACH;
	n->settings = *host->settings;
	snprintf(n->settings.ofi, sizeof(n->settings.ofi), "%s", n->provider);
	h.settings = &n->settings;
	return n->of->open(&h, instance, caps);
}

static enum tw_err net_send(struct net *n, void *path, struct tw_net_packet *packet, bool more)
{
	if (n->cut == REFUSES)
		return TW_ELOST;
	if (n->cut == SWALLOWS)
		return TW_OK;
	n->carried++;
	return n->of->send(path, packet, more);
}

static enum tw_err net_bind(struct net *n, void *path, const struct tw_driver_address *other)
{
	if (!n->no_ways)
		return n->of->path_bind(path, other);
	n->refused++;
	return TW_EUNREACH;
}

/* The operations do not say whose they are. */
#define NET(n)                                                                                     \
	static enum tw_err open##n(const struct tw_driver_host *host, void **instance,             \
				   struct tw_driver_caps *caps)                                    \
	{                                                                                          \
		return net_open(&nets[n], host, instance, caps);                                   \
	}                                                                                          \
	static enum tw_err bind##n(void *path, const struct tw_driver_address *other)              \
	{                                                                                          \
		return net_bind(&nets[n], path, other);                                            \
	}                                                                                          \
	static enum tw_err send##n(void *path, struct tw_net_packet *packet, bool more)            \
	{                                                                                          \
		return net_send(&nets[n], path, packet, more);                                     \
	}                                                                                          \
	static enum tw_err rma##n(void *path, bool put, const struct iovec *iov, unsigned niov,    \
				  uint64_t address, const void *key, uint32_t len, void *cookie)   \
	{                                                                                          \
		return nets[n].cut == WHOLE || put                                                 \
			       ? nets[n].of->rma(path, put, iov, niov, address, key, len, cookie)  \
			       : TW_ELOST;                                                         \
	}

NET(0)
NET(1)

static void add(unsigned i, const char *name, const char *provider)
{
	const struct tw_driver *found[TW_NET_DRIVERS];
	const char *module = strcmp(provider, "tcp") == 0 ? "tcp" : "ofi";
	struct net *n = &nets[i];

	n->provider = provider;
	n->of = &lossy;
	if (strcmp(provider, "lossy") != 0) {
		cr_assert_eq(tw_driver_list(module, found), 1u, "no %s module", module);
		n->of = found[0];
	}
	n->driver = *n->of;
	n->driver.name = name;
	n->driver.open = i ? open1 : open0;
	n->driver.path_bind = i ? bind1 : bind0;
	n->driver.send = i ? send1 : send0;
	n->driver.rma = i ? rma1 : rma0;
	tw_driver_add(&n->driver);
}

/* Reads what b lets it read. The key may be of a network that is gone: then not. */
static void one_get(struct pair *p)
{
	struct iovec iov = {to, MEMORY};
	enum tw_err result = TW_PENDING, err;
	struct tw_mem_reg mr;

	if (p->ops->mem_reg(p->ba->link, from, MEMORY, TW_MEM_READ, &mr) != TW_OK)
		return;
	memset(to, 0, MEMORY);
	while ((err = p->ops->rma(p->ab->link, false, &iov, 1, mr.address, mr.key, &result)) ==
	       TW_AGAIN)
		pair_pump(p);
	if (err == TW_PENDING)
		UNTIL(p, result != TW_PENDING);
	else
		result = err;
	cr_assert(result == TW_OK || result == TW_EPERM, "error %d", result);
	if (result == TW_OK)
		cr_assert_eq(memcmp(from, to, MEMORY), 0);
	p->ops->mem_dereg(p->ba->link, &mr);
}

/* Traffic of all sizes both ways; fake.c looks at order and content. */
static void traffic(struct pair *p, unsigned packets)
{
	uint64_t forth = p->ab->sent + packets, back = p->ba->sent + packets;
	double end = twt_now() + TWT_LONG;

	while (p->ab->sent < forth || p->ba->sent < back) {
		uint64_t r = twt_random(&rng);
		struct fake_peer *peer = r & 1 ? p->ab : p->ba;
		uint32_t most = r & 2 ? p->ab->link->max_payload : 200;

		if (peer->sent == (peer == p->ab ? forth : back) ||
		    fake_send(peer, (enum tw_send_class)(r >> 8 & 1), (uint32_t)(r >> 16) % most) ||
		    r >> 60 == 0)
			pair_pump(p);
		if (r >> 54 == 0)
			one_get(p);
		cr_assert_eq(peer->state, FAKE_UP, "lost: error %d", peer->why);
		cr_assert_lt(twt_now(), end, "%d of %d", (int)p->ab->sent, (int)forth);
	}
}

static struct combination all[] = {
#if TW_HAVE_OFI
	{"tcp;ofi_rxm", "udp;ofi_rxd", REFUSES},
	{"udp;ofi_rxd", "tcp;ofi_rxm", REFUSES},
	{"tcp;ofi_rxm", "udp;ofi_rxd", SWALLOWS},
	{"tcp;ofi_rxm", "lossy", REFUSES},
	{"lossy", "tcp;ofi_rxm", SWALLOWS},
#endif
#if TW_HAVE_TCP
	{"tcp", "lossy", REFUSES},
	{"lossy", "tcp", SWALLOWS},
#endif
	{"lossy", "lossy", REFUSES},
};

ParameterizedTestParameters(failover, broken_on_purpose)
{
	return cr_make_param_array(struct combination, all, tw_countof(all), NULL);
}

static struct pair *connected(const char *first, const char *second)
{
	static const struct traits both = {"first,second", OTHERS | BREAKS};

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert(tw_settings_load());
	add(0, "first", first);
	add(1, "second", second);
	return pair_connected(&both);
}

ParameterizedTest(struct combination *c, failover, broken_on_purpose, .timeout = TWT_TIMEOUT)
{
	struct pair *p = connected(c->first, c->second);
	uint64_t before;

	tw_settings.retry *= twt_patience(); /* one process pumps both ends, on a busy machine */
	twt_fill(from, MEMORY, 1);
	traffic(p, ROUND);
	/* lossy breaks by itself, too. */
	cr_assert(nets[1].carried == 0 || nets[0].of == &lossy, "the first is taken first");
	before = nets[1].carried;
	/* Whatever is under way now. */
	nets[0].cut = c->cut;
	traffic(p, ROUND);
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_gt(nets[1].carried, before + ROUND);
	/* And back. */
	nets[0].cut = WHOLE;
	nets[1].cut = c->cut;
	before = nets[0].carried;
	traffic(p, ROUND);
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_gt(nets[0].carried, before + ROUND);
	cr_assert_eq(p->ba->got, 3u * ROUND);
	cr_assert_eq(p->ab->got, 3u * ROUND);
	pair_close(p);
}

/* The other side cannot use any way just now, as when its board is down: it is asked again. */
static void refused_for_a_while(bool caller)
{
	static const struct traits one = {"first", OTHERS | BREAKS};
	struct pair *p = pair_connected(&one);
	struct fake_peer *mine = caller ? p->ab : p->ba;
	struct tw_net_link *l = tw_container(mine->link, struct tw_net_link, link);

	tw_settings.retry = (unsigned)(2000 * PAIR_SECONDS);
	nets[0].refused = 0;
	nets[0].no_ways = true;
	tw_net_path_broken(l, l->first);
	UNTIL(p, nets[0].refused > 1 || mine->state != FAKE_UP);
	cr_assert_eq(mine->state, FAKE_UP, "error %d", mine->why);
	nets[0].no_ways = false;
	traffic(p, ROUND);
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	pair_close(p);
}

Test(failover, refused_for_a_while, .timeout = TWT_TIMEOUT)
{
	twt_fill(from, MEMORY, 1);
	cr_assert(tw_settings_load());
	add(0, "first", "lossy");
	refused_for_a_while(true);
	refused_for_a_while(false);
}

/* One side leaves amid packets, and the path breaks first, or later. All comes, then the end. */
static void leave(enum cut before, bool caller)
{
	struct pair *p = connected("lossy", "lossy");
	struct fake_peer *mine = caller ? p->ab : p->ba, *other = caller ? p->ba : p->ab;

	tw_settings.retry = (unsigned)(2000 * PAIR_SECONDS);
	UNTIL(p, fake_send(mine, TW_SEND_PLAIN, 8) == TW_OK && other->got > 0);
	nets[0].cut = before;
	fake_fill(mine, TW_SEND_PLAIN, 8);
	pair_disconnect(mine);
	nets[0].cut = REFUSES;
	UNTIL(p, other->state == FAKE_DOWN);
	cr_assert_eq(other->why, TW_ECLOSED, "error %d", other->why);
	cr_assert_eq(other->got, mine->sent, "%d of %d", (int)other->got, (int)mine->sent);
	nets[0].cut = WHOLE;
	pair_close(p);
}

/* It is not replaced yet. */
Test(failover, leaves_without_path, .timeout = TWT_TIMEOUT)
{
	leave(REFUSES, true);
	leave(REFUSES, false);
}

Test(failover, leaves_before_it_breaks, .timeout = TWT_TIMEOUT)
{
	leave(SWALLOWS, true);
	leave(SWALLOWS, false);
}

/* It has been without a path for a while, and the other side does not look: it still says why. */
Test(failover, leaves_when_it_has_waited, .timeout = TWT_TIMEOUT)
{
	struct pair *p = connected("lossy", "lossy");

	tw_settings.retry = 200;
	UNTIL(p, fake_send(p->ab, TW_SEND_PLAIN, 8) == TW_OK && p->ba->got > 0);
	nets[0].cut = nets[1].cut = REFUSES;
	fake_fill(p->ab, TW_SEND_PLAIN, 8);
	usleep(1000 * tw_settings.retry / 2);
	fake_close(&p->a);
	while (p->ba->state == FAKE_UP)
		fake_pump(p->b);
	cr_assert_eq(p->ba->why, TW_ECLOSED, "error %d", p->ba->why);
	fake_close(p->b);
	pair_check(p);
}

/* A process that is gone sends no more once its paths have ended, as all that came was taken in. */
Test(failover, ended_with_its_paths, .timeout = TWT_TIMEOUT)
{
	struct pair *p = connected("lossy", "lossy");
	struct tw_net_link *l = tw_container(p->ba->link, struct tw_net_link, link);

	tw_settings.retry = 200;
	UNTIL(p, fake_send(p->ab, TW_SEND_PLAIN, 8) == TW_OK && p->ba->got > 0);
	tw_net_link_drain(l, TW_ELOST);
	cr_assert_eq(p->ba->state, FAKE_UP);
	for (unsigned i = 0; i < l->npaths; i++)
		if (l->paths[i].path)
			tw_net_broken(l->paths[i].way.adapter, l->paths[i].path);
	/* At the same moment as before. */
	tw_net_link_expire(l, l->last_rx);
	cr_assert_eq(p->ba->state, FAKE_DOWN);
	cr_assert_eq(p->ba->why, TW_ELOST);
	fake_close(&p->a);
	fake_close(p->b);
	pair_check(p);
}

/* A network that only who calls has; the other one is opened for want of it, not before. */
Test(failover, first_is_not_on_both_sides, .timeout = TWT_TIMEOUT)
{
	struct pair *p;

	twt_fill(from, MEMORY, 1);
	nets[0].single = true;
	p = connected("lossy", "lossy");
	cr_assert_geq(nets[0].opened, 2u, "the other side was asked");
	cr_assert_eq(nets[1].opened, 2u);
	traffic(p, ROUND);
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_eq(nets[0].carried, 0u);
	pair_close(p);
}

Test(failover, second_is_not_opened_in_vain, .timeout = TWT_TIMEOUT)
{
	struct pair *p = connected("lossy", "lossy");

	cr_assert_eq(nets[0].opened, 2u);
	cr_assert(nets[1].opened == 0 || p->a.counters[TW_C_PATH_BROKEN] ||
		  p->b->counters[TW_C_PATH_BROKEN]);
	pair_close(p);
}

/* The listener's path breaks before the caller has had an answer to its probe. */
Test(failover, breaks_while_connecting, .timeout = TWT_TIMEOUT)
{
	static const struct traits one = {"lossy", OTHERS | BREAKS};
	struct pair *p = pair_open(&one);
	struct fake_peer *peer = fake_connect(&p->a, FAKE_BOARD, 2, 0x2002);
	struct tw_net_link *accepted;

	UNTIL(p, p->b->npeers);
	accepted = tw_container(p->b->peers[0].link, struct tw_net_link, link);
	tw_net_path_broken(accepted, accepted->first);
	UNTIL(p, peer->state != FAKE_NEW);
	cr_assert_eq(peer->state, FAKE_UP, "%d", peer->why);
	pair_close(p);
}

/* A packet counts only for the link whose path it came along, whatever number it has. */
Test(failover, names_another_link, .timeout = TWT_TIMEOUT)
{
	struct pair *p = connected("lossy", "lossy");
	struct fake_peer *ab, *ba;
	struct tw_net_link *l, *other;
	struct tw_net_wire w = {.kind = TW_NET_ACK};

	pair_connect(p, &ab, &ba);
	l = tw_container(p->ba->link, struct tw_net_link, link);
	other = tw_container(ba->link, struct tw_net_link, link);
	cr_assert_eq(fake_send(p->ba, TW_SEND_PLAIN, 100), TW_OK);
	cr_assert_eq(l->nkept, 1u);
	w.conn = l->conn;
	w.ack = l->next_seq;
	tw_net_packet(other->first->way.adapter, other->first->path, &w, sizeof(w));
	cr_assert_eq(l->nkept, 1u, "another peer acknowledged it");
	tw_net_packet(l->first->way.adapter, l->first->path, &w, sizeof(w));
	cr_assert_eq(l->nkept, 0u);
	/* It may have been lost, and is not sent again. */
	pair_close(p);
}

#if TW_HAVE_TCP
/* Keys that are used up soon, on both sides: each path ends and another is made. Nothing is lost.
 */
Test(failover, keys_used_up, .timeout = TWT_TIMEOUT)
{
	static const struct traits tcp = {"tcp", OTHERS | BREAKS};
	struct tw_net_link *links[2];
	struct pair *p;

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_ENCRYPT", "1", 1);
	cr_assert(tw_settings_load());
	if (!tw_module_installed("tls"))
		cr_skip_test("built without TLS");
	p = pair_connected(&tcp);
	tw_settings.retry = (unsigned)(2000 * PAIR_SECONDS);
	twt_fill(from, MEMORY, 1);
	links[0] = tw_container(p->ab->link, struct tw_net_link, link);
	links[1] = tw_container(p->ba->link, struct tw_net_link, link);
	for (int i = 0; i < 2; i++) {
		struct tw_tcp_path *path = links[i]->first->path;

		path->key_left = path->t->key_bytes = 1 << 20;
	}
	traffic(p, ROUND);
	UNTIL(p, p->ba->got == p->ab->sent && p->ab->got == p->ba->sent);
	cr_assert_gt(p->a.host.counters[TW_C_PATH_BROKEN], 4u);
	pair_close(p);
}
#endif
