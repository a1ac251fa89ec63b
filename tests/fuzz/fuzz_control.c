/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer that has proved itself can say: control messages and packets, right and wrong,
 * in every order and state of its links, to a listener and to a caller. Meanwhile the engine of
 * this side disconnects, sends, refuses and waits, paths break, and lost connections are made
 * again. Whatever the peer says, a link that the engine has a pointer to ends by an upcall, and by
 * one only.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/inet.h"
#include "fuzz/fuzz_net.h"
#include "provider/fake.h"
#include "providers/net/session.h"
#include "providers/net/tcp/tcp.h"

const unsigned fuzz_inputs = 2000;

#define CHANNELS 3
#define PACKET 8192

static struct fake engine;
static struct tw_net_ep *ep;
static struct input *in;

/* A connection of the peer's, and the link that it began with, which may have ended. */
static struct channel {
	struct tw_net_link peer; /* speaks as the peer does, by the same keys */
	uint32_t conn;		 /* of this side's link */
	bool open;
} channels[CHANNELS];

static void set_up(void)
{
	ep = fuzz_net_open(&engine);
	/* As if the driver carried less than others. */
	tw_net_adapters_open(ep);
	FUZZ_MUST(ep->adapters[0].instance);
	ep->adapters[0].max_packet = PACKET;
}

/* The links that the engine knows are there, and those that ended have told it. */
static void check(void)
{
	/* What packets hold is the input's. */
	FUZZ_MUST(!engine.wrong || strstr(engine.wrong, "next"));
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		FUZZ_MUST(l->link.max_payload <= PACKET);
	}
	for (unsigned i = 0; i < engine.npeers; i++) {
		const struct fake_peer *p = &engine.peers[i];
		bool there = false;

		tw_list_walk(&ep->links, struct tw_net_link, l, node) {
			there |= &l->link == p->link;
		}
		FUZZ_MUST(there || p->ended || p->state == FAKE_REFUSED || p->state == FAKE_DOWN);
	}
}

static struct tw_net_link *link_of(const struct channel *c)
{
	return tw_net_link_find(ep, c->conn);
}

static void look(const struct channel *c)
{
	struct tw_net_link *l = link_of(c);

	if (l && l->sock >= 0)
		tw_net_sock_ready(&l->watch, EPOLLIN);
}

/* The link may have another channel by now, or none. */
static void hear_all(void)
{
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		if (l->sock < 0)
			continue;
		tw_net_sock_ready(&l->watch, EPOLLIN);
		break;
	}
}

/* Until both sides have proved themselves; every message is in its socket at once. */
static void prove(struct channel *c, bool caller)
{
	struct tw_net_hello h;

	FUZZ_MUST(tw_net_hello_send(caller ? link_of(c) : &c->peer) == TW_OK);
	if (!caller)
		look(c);
	FUZZ_MUST(recv(c->peer.sock, &h, sizeof(h), MSG_DONTWAIT) == sizeof(h));
	FUZZ_MUST(tw_net_hello_take(&c->peer, &h) == TW_OK);
	c->peer.channel = TW_NET_SHAKE;
	for (int i = 0; i < 4 && c->peer.channel == TW_NET_SHAKE; i++) {
		enum tw_err err = tw_net_shake(&c->peer);

		FUZZ_MUST(err == TW_OK || err == TW_AGAIN);
		if (err == TW_OK)
			c->peer.channel = TW_NET_OPEN;
		look(c);
	}
	FUZZ_MUST(c->peer.channel == TW_NET_OPEN && link_of(c));
}

/* A stranger's connection, or a call of this side's that is answered by the peer. */
static void open_channel(struct channel *c, bool caller)
{
	struct tw_net_link *l = tw_net_link_new(ep, caller ? TW_NET_NEW : TW_NET_HALF_OPEN);
	int fds[2];

	FUZZ_MUST(l && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	l->sock = tw_fd_own(fds[0]);
	l->channel = TW_NET_HELLO;
	l->initiator = caller;
	c->conn = l->conn;
	c->open = true;
	c->peer = (struct tw_net_link){.state = caller ? TW_NET_HALF_OPEN : TW_NET_NEW,
				       .channel = TW_NET_HELLO,
				       .sock = fds[1]};
	if (caller) {
		struct fake_peer *p = &engine.peers[engine.npeers++];

		*p = (struct fake_peer){.f = &engine, .link = &l->link};
		l->link.peer = p;
		l->me = engine.host.self;
		l->other = (struct tw_ident){.nic_id = FAKE_OTHER, .endpoint_id = 2};
	} else {
		ep->nhalf++;
	}
	prove(c, caller);
}

/* A link whose connection was lost calls again, and is answered. */
static void call_again(struct channel *c)
{
	struct tw_net_link *l = link_of(c);
	int fds[2];

	if (!l || l->sock >= 0 || !tw_net_resumable(l))
		return;
	FUZZ_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	tw_net_proof_end(&c->peer);
	close(c->peer.sock);
	l->sock = tw_fd_own(fds[0]);
	l->channel = TW_NET_HELLO;
	c->peer = (struct tw_net_link){
		.state = TW_NET_HALF_OPEN, .channel = TW_NET_HELLO, .sock = fds[1]};
	prove(c, true);
}

/* A path whose other end is nowhere. */
static void offer(struct tw_net_ctrl *t)
{
	struct tw_tcp_address a = {.magic = TW_TCP_MAGIC};
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = 0x0900, .sin_addr = {0x0100007f}};
	struct tw_net_offer *o = &t->offers[0];

	t->noffers = 1;
	strcpy(o->name, "tcp");
	o->max_packet = in_byte(in) % 8 ? PACKET : in_word(in);
	memcpy(a.to, &to, sizeof(to));
	tw_inet_wire(a.to);
	o->address.len = sizeof(a);
	memcpy(o->address.bytes, &a, sizeof(a));
}

/* Right but for what the input says. */
static void say(struct channel *c)
{
	const struct channel *of = &channels[in_byte(in) % CHANNELS];
	const struct tw_net_link *l = link_of(of);
	struct tw_net_ctrl t = {.magic = TW_NET_MAGIC,
				.version = TW_NET_VERSION,
				.type = in_byte(in) % (TW_NET_LEAVE + 2),
				.nic_id = FAKE_OTHER,
				.to_nic = FAKE_BOARD,
				.endpoint_id = 2,
				.to_endpoint = 1,
				.session = 77,
				.to_session = engine.host.self.session,
				.job = tw_net_job(),
				.presented = engine.host.self.filter,
				.conn = 1000 + (uint32_t)(of - channels),
				.to_conn = of->conn};

	t.why = in_byte(in) % TW_NERRS;
	t.seq = in_byte(in) % 4;
	t.expected = in_byte(in) % 4;
	t.path = in_byte(in) % (TW_NET_PATHS + 1);
	if (t.path < TW_NET_PATHS && l)
		t.round = l->paths[t.path].round;
	if (t.type != TW_NET_BOARDS && in_byte(in) % 4)
		offer(&t);
	for (unsigned n = in_byte(in) % 8; n > 4; n--) {
		size_t at = (size_t)in_byte(in) << 8 | in_byte(in);

		((uint8_t *)&t)[at % sizeof(t)] = in_byte(in);
	}
	if (tw_net_transmit(&c->peer, &t))
		hear_all();
	look(c);
}

static void packet(const struct channel *c)
{
	static const uint32_t kinds[] = {TW_NET_DATA, TW_NET_ACK, TW_NET_PROBE, TW_NET_PROBED};
	struct tw_net_wire w = {.conn = c->conn,
				.seq = in_byte(in) % 4,
				.ack = in_byte(in) % 4,
				.kind = kinds[in_byte(in) % 4]};

	struct tw_net_link *l = tw_net_link_find(ep, c->conn);
	const void *path = l ? l->paths[in_byte(in) % TW_NET_PATHS].path : NULL;

	/* A driver has a path for each packet that it passes on. */
	if (path)
		tw_net_packet(&ep->adapters[0], path, &w, sizeof(w));
}

/* The driver reports that a path has broken. */
static void break_path(struct fake_peer *p)
{
	struct tw_net_link *l = tw_container(p->link, struct tw_net_link, link);
	void *path = l->paths[in_byte(in) % TW_NET_PATHS].path;

	if (path)
		tw_net_broken(&ep->adapters[0], path);
}

/* What the engine and the driver of this side may do meanwhile. */
static void act(void)
{
	struct fake_peer *p = engine.npeers ? &engine.peers[in_byte(in) % engine.npeers] : NULL;
	unsigned what = in_byte(in) % 8;

	if (what == 7)
		engine.accept = in_byte(in) % TW_NERRS;
	if (!p || p->ended || p->state > FAKE_UP)
		return;
	if (what == 0) {
		p->ended = true;
		tw_provider_net.disconnect(p->link);
	} else if (what < 3) {
		break_path(p);
	} else if (p->state == FAKE_UP) {
		fake_send(p, TW_SEND_CONTROL, 8);
	}
}

static void step(void)
{
	struct channel *c = &channels[in_byte(in) % CHANNELS];

	switch (in_byte(in) % 8) {
	case 0:
		if (!c->open)
			open_channel(c, in_byte(in) % 2);
		else
			call_again(c);
		break;
	case 1:
		act();
		break;
	case 2:
		packet(c);
		break;
	case 3:
		/* All timers are due. */
		tw_provider_net.expire(ep, tw_clock() + tw_clock_us(in_word(in) % 20000000));
		break;
	case 4:
		tw_provider_net.progress(ep);
		break;
	case 5:
		if (c->open)
			shutdown(c->peer.sock, SHUT_WR);
		look(c);
		break;
	default:
		if (c->open)
			say(c);
	}
}

static void end(void)
{
	while (!tw_list_empty(&ep->links))
		tw_net_link_end(tw_list_first(&ep->links, struct tw_net_link, node));
	FUZZ_MUST(ep->nhalf == 0);
	tw_provider_net.progress(ep);
	for (struct channel *c = channels; c < channels + CHANNELS; c++) {
		if (!c->open)
			continue;
		tw_net_proof_end(&c->peer);
		close(c->peer.sock);
		c->open = false;
		c->conn = 0;
	}
	engine.npeers = 0;
	engine.accept = TW_OK;
	engine.wrong = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};

	if (!ep)
		set_up();
	in = &input;
	open_channel(&channels[0], in_byte(in) % 2);
	open_channel(&channels[1], false);
	for (unsigned n = 0; n < 200 && in->left; n++) {
		step();
		check();
	}
	end();
	return 0;
}
