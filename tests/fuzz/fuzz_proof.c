/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first words between hosts and all that follows them on a control channel, for a listener
 * and for a caller: first words and a handshake that are right, changed or any, credentials,
 * sealed messages of any content. A peer that has not proved itself hears no control message, and
 * is no peer.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "fuzz/fuzz_net.h"
#include "provider/fake.h"
#include "providers/net/session.h"

const unsigned fuzz_inputs = 10000;

static struct fake engine;
static struct tw_net_ep *ep;
static struct tw_net_auth *auth;
static const struct tw_net_tls *tls;

static struct {
	struct input *in;
	struct tw_net_link *link; /* the one that is tried; NULL: it has ended */
	struct tw_net_link peer;  /* speaks to it, with the same keys */
	int wire, words;	  /* the other ends of their sockets */
	bool caller, changed;
} f;

/* In place of MUNGE: a credential is M, the key, and zeros. */
static bool encode(char *text, size_t room, const uint8_t key[TW_NET_KEY], char *why, unsigned len)
{
	(void)why;
	(void)len;
	memset(text, 0, room);
	text[0] = 'M';
	memcpy(text + 1, key, TW_NET_KEY);
	return true;
}

static bool decode(const char *text, uint8_t key[TW_NET_KEY], char *why, unsigned len)
{
	bool good = text[0] == 'M';

	for (size_t i = 1 + TW_NET_KEY; i < TW_NET_CREDENTIAL; i++)
		good &= !text[i];
	snprintf(why, len, "no credential");
	memcpy(key, text + 1, TW_NET_KEY);
	return good;
}

static const struct tw_net_munge munge = {TW_NET_MUNGE_VERSION, encode, decode};

static void set_up(void)
{
	ep = fuzz_net_open(&engine);
	/* It is one object, of which others read. */
	auth = (struct tw_net_auth *)tw_net_auth();
	tls = auth->tls;
}

static void choose_method(unsigned which)
{
	static const enum tw_net_method methods[] = {TW_NET_BY_KEY, TW_NET_BY_MUNGE, TW_NET_NONE};

	auth->method = methods[which % 3];
	auth->munge = auth->method == TW_NET_BY_MUNGE ? &munge : NULL;
	auth->tls = auth->method == TW_NET_NONE ? NULL : tls;
	auth->has[TW_NET_KEY_USER] = auth->method == TW_NET_BY_KEY;
}

static void change(void *data, size_t len)
{
	for (unsigned n = in_byte(f.in) % 4; n && len; n--) {
		size_t at = (size_t)in_byte(f.in) << 8 | in_byte(f.in);
		uint8_t by = in_byte(f.in);

		((uint8_t *)data)[at % len] ^= by;
		f.changed |= by != 0;
	}
}

/* What has been sent is in its socket. */
static void look(void)
{
	tw_net_sock_ready(&f.link->watch, EPOLLIN);
	if (f.link->state == TW_NET_DEAD)
		f.link = NULL;
	else if (f.changed && auth->tls && f.link->channel != TW_NET_OPEN)
		FUZZ_MUST(f.link->state == (f.caller ? TW_NET_NEW : TW_NET_HALF_OPEN));
}

static void say(const void *data, size_t len)
{
	send(f.wire, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	look();
}

/* The peer goes on with its first words. */
static void peer_goes_on(void)
{
	struct tw_net_hello h;

	if (f.peer.channel == TW_NET_NO_CHANNEL) {
		f.peer.channel = TW_NET_HELLO;
		if (!f.caller)
			tw_net_hello_send(&f.peer);
	}
	if (f.peer.channel == TW_NET_HELLO &&
	    recv(f.peer.sock, &h, sizeof(h), MSG_DONTWAIT) == sizeof(h) &&
	    tw_net_hello_take(&f.peer, &h) == TW_OK)
		f.peer.channel = TW_NET_SHAKE;
	if (f.peer.channel == TW_NET_SHAKE && tw_net_shake(&f.peer) == TW_OK)
		f.peer.channel = TW_NET_OPEN;
}

/* One says what the other has not heard; what the peer says is changed. */
static void relay(void)
{
	uint8_t data[4096];
	ssize_t n = recv(f.wire, data, sizeof(data), MSG_DONTWAIT);

	if (n > 0)
		send(f.words, data, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	peer_goes_on();
	n = recv(f.words, data, sizeof(data), MSG_DONTWAIT);
	if (n <= 0)
		return;
	change(data, (size_t)n);
	say(data, (size_t)n);
}

static void message(void)
{
	static const uint8_t types[] = {TW_NET_CONNECT, TW_NET_RESUME, TW_NET_QUERY, TW_NET_ACCEPT};
	uint8_t type = in_byte(f.in);
	struct tw_net_ctrl t = {.magic = TW_NET_MAGIC,
				.version = TW_NET_VERSION,
				.type = type < 4 ? types[type] : type,
				.nic_id = FAKE_OTHER,
				.to_nic = FAKE_BOARD,
				.endpoint_id = 2,
				.to_endpoint = 1,
				.job = tw_net_job(),
				.presented = engine.host.self.filter};

	for (unsigned n = in_byte(f.in) % 16; n; n--) {
		size_t at = (size_t)in_byte(f.in) << 8 | in_byte(f.in);

		((uint8_t *)&t)[at % sizeof(t)] = in_byte(f.in);
	}
	if (f.peer.channel != TW_NET_OPEN || in_byte(f.in) % 4 == 1) {
		f.changed |= auth->tls != NULL;
		say(&t, sizeof(t));
	} else if (tw_net_transmit(&f.peer, &t)) {
		relay();
	}
}

static void anything(void)
{
	uint8_t data[3 * 255];
	size_t n = 0;

	for (size_t want = in_byte(f.in) * 3u; n < want && f.in->left; n++)
		data[n] = in_byte(f.in);
	f.changed |= n > 0;
	say(data, n);
}

static void begin(uint8_t how)
{
	struct fake_peer *p = &engine.peers[engine.npeers++];
	int fds[2], words[2];

	choose_method(how >> 1);
	memset(&f.peer, 0, sizeof(f.peer));
	f.caller = how & 1;
	f.changed = false;
	FUZZ_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	FUZZ_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, words) == 0);
	f.link = tw_net_link_new(ep, f.caller ? TW_NET_NEW : TW_NET_HALF_OPEN);
	FUZZ_MUST(f.link != NULL);
	f.link->sock = tw_fd_own(fds[0]);
	f.link->channel = TW_NET_HELLO;
	f.link->initiator = f.caller;
	f.wire = fds[1];
	f.peer.state = f.caller ? TW_NET_HALF_OPEN : TW_NET_NEW;
	f.peer.sock = words[0];
	f.words = words[1];
	if (!f.caller) {
		ep->nhalf++;
		return;
	}
	*p = (struct fake_peer){.f = &engine, .link = &f.link->link};
	f.link->link.peer = p;
	FUZZ_MUST(tw_net_hello_send(f.link) == TW_OK);
}

static void end(void)
{
	if (f.link)
		shutdown(f.wire, SHUT_RDWR);
	if (f.link)
		look();
	if (f.link)
		tw_net_link_end(f.link);
	while (!tw_list_empty(&ep->links))
		tw_net_link_end(tw_list_first(&ep->links, struct tw_net_link, node));
	FUZZ_MUST(ep->nhalf == 0);
	/* Its driver, too, frees what has ended. */
	tw_provider_net.progress(ep);
	tw_net_proof_end(&f.peer);
	close(f.wire);
	close(f.peer.sock);
	close(f.words);
	engine.npeers = 0;
	engine.wrong = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (!ep)
		set_up();
	f.in = &in;
	begin(in_byte(&in));
	while (in.left && f.link) {
		uint8_t what = in_byte(&in) % 4;

		if (what == 0)
			anything();
		else if (what == 1)
			message();
		else
			relay();
	}
	end();
	return 0;
}
