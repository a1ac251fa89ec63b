/* SPDX-License-Identifier: BSD-2-Clause */
/* The libfabric driver alone: packets of those who do not know the token of a path. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/settings.h"
#include "lib/twt.h"
#include "provider/lone.h"
#include "providers/net/session.h"

#define SECONDS (10 * (int)twt_patience()) /* against a hang */
#define WRONG 20

static const struct tw_driver *ofi;
/* The owner of a path, its peer, and somebody else. */
static struct end {
	void *instance;
	struct tw_driver_caps caps;
	unsigned packets;
	char last[32];
} owner, peer, stranger;

static bool on_packet(void *to, const void *path, const void *data, uint32_t len)
{
	struct end *e = to;

	(void)path;
	memcpy(e->last, data, tw_min(len, sizeof(e->last)));
	e->packets++;
	return true;
}

static void on_nothing(void *of)
{
	(void)of;
}

static void on_broken(void *of, void *path)
{
	(void)of;
	cr_assert_fail("path %p is broken", path);
}

static void opens(struct end *e)
{
	struct tw_driver_host host = lone_host(ofi, e);

	host.packet = on_packet;
	host.packets_back = on_nothing;
	host.broken = on_broken;
	cr_assert_eq(ofi->open(&host, &e->instance, &e->caps), TW_OK);
}

static void *path(struct end *e, const struct tw_driver_tokens *tokens, struct tw_driver_address *a)
{
	void *p;

	cr_assert_eq(ofi->path_new(e->instance, NULL, tokens, a, &p), TW_OK);
	return p;
}

static void pump(void)
{
	ofi->progress(owner.instance);
	ofi->progress(peer.instance);
	ofi->progress(stranger.instance);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		double end = twt_now() + SECONDS;                                                  \
		while (!(condition)) {                                                             \
			pump();                                                                    \
			cr_assert_lt(twt_now(), end, "never: %s", #condition);                     \
		}                                                                                  \
	} while (0)

/* Sends a text, padded with zeros to len bytes. */
static void say(void *from, const char *text, uint32_t len)
{
	struct tw_net_packet *p = lone_packet(NULL, true);
	enum tw_err err;

	cr_assert(p);
	memset(p->data, 0, len);
	strcpy(p->data, text);
	p->len = len;
	UNTIL((err = ofi->send(from, p, false)) != TW_AGAIN);
	cr_assert_eq(err, TW_OK);
	UNTIL(p->users == 1);
	tw_net_packet_put(p);
}

/*
 * The stranger's packets to the owner arrive in order: once one with the right token has come, all
 * wrong ones before it have been seen.
 */
static void among_strangers(uint32_t len)
{
	static const struct tw_driver_tokens mine = {{1, 2, 3}, {4, 5, 6}},
					     its = {{4, 5, 6}, {1, 2, 3}};
	struct tw_driver_tokens guess = {{7}, {1, 2, 3}};
	struct tw_driver_address at, from;
	void *paths[WRONG], *own, *right, *known;
	uint32_t number;

	own = path(&owner, &mine, &at);
	right = path(&peer, &its, &from);
	cr_assert_eq(ofi->path_bind(own, &from), TW_OK);
	cr_assert_eq(ofi->path_bind(right, &at), TW_OK);
	say(right, "first", len);
	UNTIL(owner.packets == 1);
	cr_assert_str_eq(owner.last, "first");

	for (unsigned i = 0; i < WRONG; i++) {
		struct tw_driver_address to = at;

		/* Of the right path a wrong token, and of other paths the right one. */
		guess.other[15] = i % 2 ? 0 : (uint8_t)(1 + i);
		memcpy(&number, to.bytes + to.len - sizeof(number), sizeof(number));
		number += i % 2 ? i : 0;
		memcpy(to.bytes + to.len - sizeof(number), &number, sizeof(number));
		paths[i] = path(&stranger, &guess, &from);
		cr_assert_eq(ofi->path_bind(paths[i], &to), TW_OK);
		say(paths[i], "wrong", len);
	}
	guess.other[15] = 0;
	known = path(&stranger, &guess, &from);
	cr_assert_eq(ofi->path_bind(known, &at), TW_OK);
	say(known, "known", len);
	UNTIL(owner.packets > 1);
	cr_assert_str_eq(owner.last, "known");
	say(right, "second", len);
	UNTIL(owner.packets > 2);
	cr_assert_str_eq(owner.last, "second");
	cr_assert_eq(owner.packets, 3u);
	for (unsigned i = 0; i < WRONG; i++)
		ofi->path_free(paths[i]);
	ofi->path_free(known);
	ofi->path_free(right);
	ofi->path_free(own);
}

static void all_open(const char *name)
{
	const struct tw_driver *list[TW_NET_DRIVERS];

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_OFI", name, 1);
	cr_assert(tw_settings_load());
	cr_assert_eq(tw_driver_list("ofi", list), 1u);
	ofi = list[0];
	opens(&owner);
	opens(&peer);
	opens(&stranger);
	cr_assert_eq(owner.caps.max_packet, TW_DRIVER_PACKET, "a link cannot change to this one");
}

static void all_close(void)
{
	ofi->close(stranger.instance);
	ofi->close(peer.instance);
	ofi->close(owner.instance);
}

Test(ofi, short_of_strangers, .timeout = TWT_TIMEOUT)
{
	all_open("tcp;ofi_rxm");
	among_strangers(8);
	all_close();
}

Test(ofi, long_of_strangers, .timeout = TWT_TIMEOUT)
{
	all_open("tcp;ofi_rxm");
	among_strangers(owner.caps.max_packet);
	all_close();
}

/* An address that is too short names no path. */
Test(ofi, malformed_address, .timeout = TWT_TIMEOUT)
{
	static const struct tw_driver_tokens mine = {{1}, {2}};
	struct tw_driver_address at;
	void *p;

	all_open("tcp;ofi_rxm");
	p = path(&owner, &mine, &at);
	at.len -= (uint32_t)sizeof(uint32_t);
	cr_assert_eq(ofi->path_bind(p, &at), TW_EPROTO);
	ofi->path_free(p);
	all_close();
}
