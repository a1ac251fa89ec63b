/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of an endpoint that is called. The program that listens at one may say nothing. It
 * keeps its connection while the next port is called. The first that proves itself is asked for
 * the endpoint.
 */
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "providers/net/session.h"

/* A connection, less what the link has of all. */
struct call {
	int sock; /* -1: none */
	enum tw_net_channel channel;
	unsigned port; /* its number */
	struct tw_net_hello hello;
	uint32_t in_len;
	struct tw_net_proof proof;
};

struct tw_net_silent {
	struct tw_watch watch;
	struct tw_net_link *link;
	struct call call;
	bool spoke; /* while another was heard */
};

/* The link has none any more. */
static struct call take_call(struct tw_net_link *l)
{
	struct call c = {l->sock, l->channel, l->port, l->in.hello, l->in_len, l->proof};

	l->sock = -1;
	l->channel = TW_NET_NO_CHANNEL;
	l->in_len = 0;
	l->proof = (struct tw_net_proof){.tls = NULL};
	return c;
}

static void watch_call(struct tw_net_link *l, const struct call *c, struct tw_watch *w, int op)
{
	uint32_t out = c->channel == TW_NET_DIALING ? EPOLLOUT : 0;

	tw_net_watch(l->ep, c->sock, EPOLLIN | EPOLLRDHUP | out, w, op);
}

static void give_call(struct tw_net_link *l, const struct call *c, int op)
{
	l->sock = c->sock;
	l->channel = c->channel;
	l->port = c->port;
	l->in.hello = c->hello;
	l->in_len = c->in_len;
	l->proof = c->proof;
	watch_call(l, c, &l->watch, op);
}

/* It has spoken, or failed: the link hears it, and keeps the call that it had instead. */
static void silent_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_net_silent *s = tw_container(w, struct tw_net_silent, watch);
	struct tw_net_link *l = s->link;
	struct call c = s->call;

	if (c.sock < 0)
		return;
	if (l->channel == TW_NET_OPEN) {
		tw_net_watch(l->ep, c.sock, 0, NULL, EPOLL_CTL_DEL);
		s->spoke = true;
		return;
	}
	s->call = take_call(l);
	if (s->call.sock >= 0)
		watch_call(l, &s->call, &s->watch, EPOLL_CTL_MOD);
	give_call(l, &c, EPOLL_CTL_MOD);
	tw_net_sock_ready(&l->watch, events);
}

static struct tw_net_silent *silent_new(struct tw_net_link *l)
{
	if (!l->silent) {
		l->silent = calloc(TW_NET_PORTS, sizeof(*l->silent));
		for (unsigned i = 0; l->silent && i < TW_NET_PORTS; i++) {
			l->silent[i].watch.ready = silent_ready;
			l->silent[i].link = l;
			l->silent[i].call.sock = -1;
		}
	}
	for (unsigned i = 0; l->silent && i < TW_NET_PORTS; i++)
		if (l->silent[i].call.sock < 0)
			return &l->silent[i];
	return NULL;
}

bool tw_net_ports_keep(struct tw_net_link *l)
{
	struct tw_net_silent *s = silent_new(l);

	if (!s)
		return false;
	s->call = take_call(l);
	s->spoke = false;
	watch_call(l, &s->call, &s->watch, EPOLL_CTL_MOD);
	return true;
}

bool tw_net_ports_spoke(struct tw_net_link *l)
{
	for (unsigned i = 0; l->silent && i < TW_NET_PORTS; i++) {
		struct tw_net_silent *s = &l->silent[i];

		if (s->call.sock < 0 || !s->spoke)
			continue;
		give_call(l, &s->call, EPOLL_CTL_ADD);
		s->call.sock = -1;
		return true;
	}
	return false;
}

unsigned tw_net_ports_kept(const struct tw_net_link *l)
{
	unsigned first = TW_NET_PORTS;

	for (unsigned i = 0; l->silent && i < TW_NET_PORTS; i++)
		if (l->silent[i].call.sock >= 0)
			first = tw_min(first, l->silent[i].call.port);
	return first;
}

void tw_net_ports_end(struct tw_net_link *l)
{
	for (unsigned i = 0; l->silent && i < TW_NET_PORTS; i++) {
		struct call *c = &l->silent[i].call;

		if (c->sock < 0)
			continue;
		if (c->proof.tls)
			tw_net_auth()->tls->end(c->proof.tls);
		/* A child may hold a copy: closing would not end the watch. */
		tw_net_watch(l->ep, c->sock, 0, NULL, EPOLL_CTL_DEL);
		tw_fd_close(c->sock);
		c->sock = -1;
	}
}
