/* SPDX-License-Identifier: BSD-2-Clause */
/* The libfabric driver alone: packets of those who do not know the token of a path; its loading. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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
	static const struct tw_driver_tokens mine = {.mine = {1, 2, 3}, .other = {4, 5, 6}},
					     its = {.mine = {4, 5, 6}, .other = {1, 2, 3}};
	struct tw_driver_tokens guess = {.mine = {7}, .other = {1, 2, 3}};
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

/* The endpoint of libfabric's provider net keeps a copy that nobody frees. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:fi_dupinfo\n";
}

static int owned;

static int own(int fd)
{
	owned = fd;
	return tw_fd_own(fd);
}

/* The timer of a provider whose own descriptor is of no use: a forked child closes it. */
Test(ofi, timer_is_owned, .timeout = TWT_TIMEOUT)
{
	const struct tw_driver *list[TW_NET_DRIVERS];
	struct tw_driver_host host;
	struct tw_driver_caps caps;
	void *instance;

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_OFI", "net", 1);
	cr_assert(tw_settings_load());
	cr_assert_eq(tw_driver_list("ofi", list), 1u);
	host = lone_host(list[0], NULL);
	host.packets_back = on_nothing;
	host.own_fd = own;
	if (list[0]->open(&host, &instance, &caps) != TW_OK)
		cr_skip_test("this libfabric has no provider net");
	cr_assert_geq(caps.fd, 0);
	cr_assert_eq(owned, caps.fd);
	list[0]->close(instance);
	cr_assert_eq(fcntl(caps.fd, F_GETFD), -1, "it is closed");
}

static bool has_devices(void)
{
	static const char *const folders[] = {"/sys/class/infiniband", "/sys/class/cxi",
					      "/dev/cxi", "/dev/hfi1"};
	bool any = false;

	for (unsigned i = 0; i < tw_countof(folders); i++)
		any |= access(folders[i], F_OK) == 0;
	return any;
}

/* Beside tcp, before it or after it, libfabric is loaded only for a device that needs it. */
Test(ofi, not_loaded_beside_tcp, .timeout = TWT_TIMEOUT)
{
	static const char *const names[] = {"ofi,tcp", "tcp,ofi", "self,shm,tcp,ofi"};
	const struct tw_driver *list[TW_NET_DRIVERS];

	if (has_devices())
		cr_skip_test("a device here may need libfabric");
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	setenv("TAGWIRE_OFI", "", 1);
	cr_assert(tw_settings_load());
	if (!tw_driver_any("tcp"))
		cr_skip_test("built without tcp");
	for (unsigned i = 0; i < tw_countof(names); i++) {
		cr_assert_eq(tw_driver_list(names[i], list), 1u, "%s", names[i]);
		cr_assert_str_eq(list[0]->name, "tcp");
	}
}

/* An address that is too short names no path. */
Test(ofi, malformed_address, .timeout = TWT_TIMEOUT)
{
	static const struct tw_driver_tokens mine = {.mine = {1}, .other = {2}};
	struct tw_driver_address at;
	void *p;

	all_open("tcp;ofi_rxm");
	p = path(&owner, &mine, &at);
	at.len -= (uint32_t)sizeof(uint32_t);
	cr_assert_eq(ofi->path_bind(p, &at), TW_EPROTO);
	ofi->path_free(p);
	all_close();
}
