/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The boards of hosts: QUERY in place of CONNECT, and its reply BOARDS, after the same proof
 * (doc/handshake.md). The caller has no endpoint and waits. The first answer counts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/inet.h"
#include "base/report.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define REACH_US 1000000 /* until its system has answered */
#define SPEAK_US 2000000 /* until a process there has said a word */
#define STRANGERS 8	 /* without the key, at one port, before it is given up */
#define MOST 32		 /* asked at once */

/* Everybody who may answer is asked at once: some may be stopped, or other programs. */
struct query {
	const struct sockaddr_storage *to;
	struct tw_net_link *of[MOST]; /* connections, without an endpoint */
	unsigned n;
	unsigned tries[TW_NET_PORTS];
	enum tw_err err;    /* why nobody has answered */
	bool replied;	    /* somebody has said a word */
	uint64_t next, end; /* when more are asked, and nobody any more */
};

static int ms_until(uint64_t end)
{
	uint64_t now = tw_clock();

	return now < end ? (int)((end - now) / tw_clock_per_us / 1000) + 1 : 0;
}

static void query_end(struct query *q, unsigned i)
{
	struct tw_net_link *l = q->of[i];

	tw_net_proof_end(l);
	tw_fd_close(l->sock);
	free(l);
	q->of[i] = q->of[--q->n];
}

/* One more at a port. The user's processes share it, and one of another job may answer. */
static void ask_at(struct query *q, unsigned port)
{
	struct sockaddr_storage to = *q->to;
	struct tw_net_link *l;

	if (q->n == MOST || q->tries[port] == STRANGERS * TW_NET_KEYS)
		return;
	l = calloc(1, sizeof(*l));
	if (!l) {
		q->err = TW_ENOMEM;
		return;
	}
	l->state = TW_NET_NEW;
	l->channel = TW_NET_DIALING;
	l->proof.key = q->tries[port]++ % TW_NET_KEYS;
	l->sock = tw_net_socket(to.ss_family);
	l->port = port;
	l->begun = tw_clock();
	q->of[q->n++] = l;
	tw_inet_set_port(&to, tw_net_names_port(port));
	if (l->sock >= 0 &&
	    (tw_sys_connect(l->sock, (struct sockaddr *)&to, tw_inet_len(&to)) == 0 ||
	     errno == EINPROGRESS))
		return;
	if (errno != ECONNREFUSED)
		q->err = tw_net_err_of(errno);
	query_end(q, q->n - 1);
}

static enum tw_err query_reached(struct tw_net_link *l)
{
	int error = tw_net_sock_error(l);
	enum tw_err err = error ? tw_net_err_of(error) : tw_net_hello_send(l);

	if (err == TW_OK)
		l->channel = TW_NET_HELLO;
	return err;
}

static enum tw_err query_greeted(struct tw_net_link *l)
{
	enum tw_err err = tw_net_receive(l);

	if (err != TW_OK)
		return err;
	err = tw_net_hello_take(l, &l->in.hello);
	if (err == TW_OK)
		l->channel = TW_NET_SHAKE;
	return err == TW_AGAIN ? TW_ELOST : err; /* it has no room */
}

static enum tw_err query_shake(struct tw_net_link *l)
{
	struct tw_net_ctrl t = {
		.magic = TW_NET_MAGIC, .version = TW_NET_VERSION, .type = TW_NET_QUERY};
	enum tw_err err = tw_net_shake(l);

	if (err != TW_OK)
		return err;
	l->channel = TW_NET_OPEN;
	return tw_net_sock_write(l, &t) ? TW_OK : TW_ELOST;
}

static enum tw_err query_answered(struct tw_net_link *l)
{
	enum tw_err err = tw_net_receive(l);

	if (err == TW_OK && (l->in.ctrl.magic != TW_NET_MAGIC || l->in.ctrl.type != TW_NET_BOARDS))
		err = TW_ELOST;
	return err;
}

/* Goes on as far as it can: TW_OK when the answer is there. TW_EPERM: it has not the key. */
static enum tw_err query_progress(struct tw_net_link *l)
{
	enum tw_err err = TW_OK;

	if (l->channel == TW_NET_DIALING)
		err = query_reached(l);
	if (err == TW_OK && l->channel == TW_NET_HELLO)
		err = query_greeted(l);
	if (err == TW_OK && l->channel == TW_NET_SHAKE)
		err = query_shake(l);
	return err == TW_OK ? query_answered(l) : err;
}

/* The rest of the proof may take longer. */
static void query_progressed(struct query *q, const struct tw_net_link *l)
{
	if (q->replied || l->channel <= TW_NET_HELLO)
		return;
	q->replied = true;
	q->end = l->begun + tw_clock_us(1000ull * tw_settings.connect_timeout);
}

/* Goes on with those that have answered something. */
static bool query_continue(struct query *q, const struct pollfd *p, struct tw_host_boards *boards)
{
	/* From the last one on: others take the places of those that end. */
	for (unsigned i = q->n; i-- > 0;) {
		struct tw_net_link *l = q->of[i];
		enum tw_err err = p[i].revents ? query_progress(l) : TW_AGAIN;
		unsigned port = l->port;

		query_progressed(q, l);
		if (l->channel == TW_NET_DIALING && err == TW_AGAIN &&
		    tw_clock() - l->begun >= tw_clock_us(REACH_US))
			err = TW_ETIMEDOUT;
		if (err == TW_AGAIN)
			continue;
		if (err == TW_OK) {
			*boards = l->in.ctrl.boards;
			return true;
		}
		if (l->channel == TW_NET_DIALING && err != TW_ECLOSED)
			q->err = err;
		query_end(q, i);
		if (err == TW_EPERM)
			ask_at(q, port);
	}
	return false;
}

/* Beside each that has said nothing for a while another: twice as many every time. */
static void ask_more(struct query *q)
{
	for (unsigned i = q->n; i-- > 0;)
		if (q->of[i]->channel > TW_NET_DIALING)
			ask_at(q, q->of[i]->port);
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
			p[i] = (struct pollfd){
				.fd = q->of[i]->sock,
				.events = q->of[i]->channel == TW_NET_DIALING ? POLLOUT : POLLIN};
		if (tw_sys_poll(p, q->n, ms_until(tw_min(q->next, q->end))) < 0)
			continue;
		if (query_continue(q, p, boards))
			return true;
	}
	return false;
}

/* Its system has taken a call, and no process has. */
static void report_silent(struct query *q)
{
	unsigned i = 0;
	char address[INET6_ADDRSTRLEN], who[INET6_ADDRSTRLEN + 8], cause[160];

	q->err = TW_ETIMEDOUT;
	while (i < q->n && q->of[i]->channel == TW_NET_DIALING)
		i++;
	if (i == q->n)
		return;
	snprintf(who, sizeof(who), "host %s", tw_inet_text(q->to, address, sizeof(address)));
	snprintf(cause, sizeof(cause),
		 "it was asked for its boards, and its process that listens at TCP port %u has not "
		 "answered",
		 tw_net_names_port(q->of[i]->port));
	tw_report(TW_LOG_ERROR, who, cause,
		  "perhaps the process is stopped: let it go on, or end it (ss -tlnp there)");
}

enum tw_err tw_net_query(const struct sockaddr_storage *at, struct tw_host_boards *boards)
{
	uint64_t now = tw_clock();
	struct query q = {.to = at,
			  .err = TW_ECLOSED,
			  .next = now + tw_clock_us(TW_NET_SILENT_US),
			  .end = now + tw_clock_us(tw_min(1000ull * tw_settings.connect_timeout,
							  (uint64_t)SPEAK_US))};

	if (!tw_driver_any(tw_settings.providers) || !tw_net_auth())
		return TW_EPERM;
	if (ask_all(&q, boards))
		q.err = TW_OK;
	else if (q.n && !q.replied)
		report_silent(&q);
	while (q.n)
		query_end(&q, q.n - 1);
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
