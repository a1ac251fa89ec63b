/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The boards of hosts: QUERY in place of CONNECT, and its reply BOARDS, after the same proof
 * (doc/handshake.md). The caller has no endpoint and waits. The first answer counts.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define REACH_US 1000000 /* until its system has answered */
#define STRANGERS 8	 /* without the key, at one port, before it is given up */
#define MOST 32		 /* asked at once */

/* One that is asked. */
struct asked {
	struct tw_net_link l;
	unsigned port; /* the number of the try */
	uint64_t since;
	enum { REACHING, GREETING, PROVING, ASKING } step;
};

/* Everybody who may answer is asked at once: some may be stopped, or other programs. */
struct query {
	const struct sockaddr_storage *to;
	struct asked *of[MOST];
	unsigned n;
	unsigned tries[TW_NET_PORTS];
	enum tw_err err;    /* why nobody has answered */
	uint64_t next, end; /* when more are asked, and nobody any more */
};

static int ms_until(uint64_t end)
{
	uint64_t now = tw_clock();

	return now < end ? (int)((end - now) / tw_clock_per_us / 1000) + 1 : 0;
}

static void asked_end(struct query *q, unsigned i)
{
	struct asked *a = q->of[i];

	tw_net_proof_end(&a->l);
	tw_fd_close(a->l.sock);
	free(a);
	q->of[i] = q->of[--q->n];
}

/* One more at a port. The user's processes share it, and one of another job may answer. */
static void ask_at(struct query *q, unsigned port)
{
	struct sockaddr_storage to = *q->to;
	struct asked *a;

	if (q->n == MOST || q->tries[port] == STRANGERS * TW_NET_KEYS)
		return;
	a = calloc(1, sizeof(*a));
	if (!a) {
		q->err = TW_ENOMEM;
		return;
	}
	a->l.state = TW_NET_NEW;
	a->l.channel = TW_NET_DIALING;
	a->l.proof.key = q->tries[port]++ % TW_NET_KEYS;
	a->l.sock = tw_net_socket(to.ss_family);
	a->port = port;
	a->since = tw_clock();
	q->of[q->n++] = a;
	tw_inet_set_port(&to, tw_net_names_port(port));
	if (a->l.sock >= 0 &&
	    (tw_sys_connect(a->l.sock, (struct sockaddr *)&to, tw_inet_len(&to)) == 0 ||
	     errno == EINPROGRESS))
		return;
	if (errno != ECONNREFUSED)
		q->err = tw_net_err_of(errno);
	asked_end(q, q->n - 1);
}

static enum tw_err reached(struct tw_net_link *l)
{
	int error = tw_net_sock_error(l);

	if (error)
		return tw_net_err_of(error);
	l->channel = TW_NET_HELLO;
	return tw_net_hello_send(l);
}

static enum tw_err put_question(struct tw_net_link *l)
{
	struct tw_net_ctrl t = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_QUERY};

	l->channel = TW_NET_OPEN;
	return tw_net_sock_write(l, &t) ? TW_OK : TW_ELOST;
}

/* The next step of the conversation: TW_OK after the last one. TW_EPERM: it has not the key. */
static enum tw_err converse(struct asked *a)
{
	struct tw_net_link *l = &a->l;
	enum tw_err err;

	switch (a->step) {
	case REACHING:
		err = reached(l);
		break;
	case GREETING:
		err = tw_net_receive(l);
		if (err == TW_AGAIN)
			return err;
		if (err == TW_OK)
			err = tw_net_hello_take(l, &l->in.hello);
		/* It has no room. */
		err = err == TW_AGAIN ? TW_ELOST : err;
		break;
	case PROVING:
		err = tw_net_shake(l);
		if (err == TW_OK)
			err = put_question(l);
		break;
	default:
		err = tw_net_receive(l);
		if (err != TW_OK)
			return err;
		return l->in.ctrl.magic == TW_NET_MAGIC && l->in.ctrl.type == TW_NET_BOARDS
			       ? TW_OK
			       : TW_ELOST;
	}
	if (err != TW_OK)
		return err;
	a->step++;
	return converse(a);
}

/* Goes on with those that have answered something. */
static bool name_go_on(struct query *q, const struct pollfd *p, struct tw_host_boards *boards)
{
	/* From the last one on: others take the places of those that end. */
	for (unsigned i = q->n; i-- > 0;) {
		struct asked *a = q->of[i];
		enum tw_err err = p[i].revents ? converse(a) : TW_AGAIN;
		unsigned port = a->port;

		if (a->step == REACHING && err == TW_AGAIN &&
		    tw_clock() - a->since >= tw_clock_us(REACH_US))
			err = TW_ETIMEDOUT;
		if (err == TW_AGAIN)
			continue;
		if (err == TW_OK) {
			*boards = a->l.in.ctrl.boards;
			return true;
		}
		if (a->step == REACHING && err != TW_ECLOSED)
			q->err = err;
		asked_end(q, i);
		if (err == TW_EPERM)
			ask_at(q, port);
	}
	return false;
}

/* Where nobody has said anything for a while others may. */
static void ask_more(struct query *q)
{
	bool silent[TW_NET_PORTS] = {false};

	for (unsigned i = 0; i < q->n; i++)
		silent[q->of[i]->port] |= q->of[i]->step > REACHING;
	for (unsigned i = 0; i < TW_NET_PORTS; i++)
		if (silent[i])
			ask_at(q, i);
	q->next = tw_clock() + tw_clock_us(TW_NET_SILENT_US);
}

static bool ask_all(struct query *q, struct tw_host_boards *boards)
{
	struct pollfd p[MOST];
	uint64_t now;

	for (unsigned i = 0; i < TW_NET_PORTS; i++)
		ask_at(q, i);
	while (q->n && (now = tw_clock()) < q->end) {
		if (q->next <= now)
			ask_more(q);
		for (unsigned i = 0; i < q->n; i++)
			p[i] = (struct pollfd){.fd = q->of[i]->l.sock,
					       .events = q->of[i]->step == REACHING ? POLLOUT
										    : POLLIN};
		if (tw_sys_poll(p, q->n, ms_until(tw_min(q->next, q->end))) < 0)
			continue;
		if (name_go_on(q, p, boards))
			return true;
	}
	return false;
}

enum tw_err tw_net_query(const struct sockaddr_storage *at, struct tw_host_boards *boards)
{
	uint64_t now = tw_clock();
	struct query q = {.to = at,
			  .err = TW_ECLOSED,
			  .next = now + tw_clock_us(TW_NET_SILENT_US),
			  .end = now + tw_clock_us(1000ull * tw_settings.connect_timeout)};

	if (!tw_driver_any(tw_settings.providers) || !tw_net_auth())
		return TW_EPERM;
	if (ask_all(&q, boards))
		q.err = TW_OK;
	while (q.n)
		asked_end(&q, q.n - 1);
	return q.err;
}

void tw_net_describe(struct tw_net_link *l, const struct tw_net_ctrl *query)
{
	struct tw_net_ctrl t = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_BOARDS};

	(void)query;
	l->ep->host->up->describe(&t.boards);
	tw_net_sock_write(l, &t);
	tw_net_link_end(l);
}
