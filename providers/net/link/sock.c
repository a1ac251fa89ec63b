/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets of the control channel: calling, and what goes over them; listen.c answers. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/inet.h"
#include "base/report.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define AGAIN_US 200000 /* between two attempts to reach it again */
#define CALL_US 1000000 /* limit for one: the system would retry less and less often */
#define HANG_UPS 8	/* without an answer, before the next port is tried */
#define FULL_US 5000ull /* until a listener without room is called again, the first time */
#define READS 16	/* messages in one call, so that one peer cannot keep others waiting */

int tw_net_watch(struct tw_net_ep *ep, int fd, uint32_t events, struct tw_watch *w, int op)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	return tw_sys_epoll_ctl(ep->host->epfd, op, fd, &ev);
}

int tw_net_socket(int family)
{
	return tw_fd_own(tw_sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Seconds of silence after which the system asks a peer whether it is there, once a second. */
static int idle_seconds(void)
{
	return (int)tw_max(tw_settings.retry / 4000, 1u);
}

/* Milliseconds without an answer that end a connection; then it is made again. */
int tw_net_silence_ms(void)
{
	return (int)(tw_settings.retry / 2);
}

void tw_net_sock_options(int fd, int limit)
{
	int one = 1, idle = idle_seconds();

	tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	tw_sys_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
	tw_sys_setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
}

void tw_net_sock_close(struct tw_net_link *l)
{
	tw_net_proof_end(l);
	/* A child may hold a copy: closing would not end the watch. */
	if (l->sock >= 0)
		tw_net_watch(l->ep, l->sock, 0, NULL, EPOLL_CTL_DEL);
	tw_fd_close(l->sock);
	l->sock = -1;
	l->channel = TW_NET_NO_CHANNEL;
	l->tx_shutdown = l->asked = false;
	l->in_len = 0;
}

bool tw_net_fd_is(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return tw_sys_poll(&p, 1, 0) == 1;
}

bool tw_net_sock_alive(const struct tw_net_link *l)
{
	return l->channel != TW_NET_OPEN || !tw_net_fd_is(l->sock, POLLRDHUP);
}

bool tw_net_sock_stalled(const struct tw_net_link *l)
{
	return l->channel == TW_NET_OPEN && tw_inet_stalled(l->sock);
}

bool tw_net_sock_write(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	return l->channel == TW_NET_OPEN && !l->tx_shutdown && tw_net_transmit(l, t);
}

void tw_net_sock_adopt(struct tw_net_link *l, struct tw_net_link *from)
{
	tw_net_sock_close(l);
	l->sock = from->sock;
	l->channel = from->channel;
	l->proof = from->proof;
	from->proof.tls = NULL;
	/* With several boards it may have called from another than the one to be called. */
	if (!l->others.n)
		l->peer_addr = from->peer_addr;
	from->sock = -1;
	from->channel = TW_NET_NO_CHANNEL;
	tw_net_watch(l->ep, l->sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_MOD);
}

enum tw_err tw_net_err_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return TW_ECLOSED;
	case ETIMEDOUT:
		return TW_ETIMEDOUT;
	case EBADMSG:
		return TW_EPROTO;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		return TW_ENOMEM;
	default:
		return TW_EUNREACH;
	}
}

/* Calls at the port that is called were ended before. */
static bool has_hung_up(const struct tw_net_link *l)
{
	return l->hung_port && l->hung_port == tw_net_port(l->other.endpoint_id, l->port);
}

/* The system has refused to call there. */
static void sock_unreached(struct tw_net_link *l, int error)
{
	const char *cause = strerror(error), *advice = "a firewall of this host may forbid it";
	enum tw_err err = tw_net_err_of(error);

	/* Nobody listens any more: what ended the calls there was the end of its process. */
	if (err == TW_ECLOSED && has_hung_up(l))
		l->hung_port = 0;
	/* Of a limit in time unanswered() has said why. */
	if (l->state != TW_NET_NEW || err == TW_ECLOSED || err == TW_ENOMEM || err == TW_ETIMEDOUT)
		return;
	if (error == ENETUNREACH) {
		cause = "this host has no route to it";
		advice = "see ip route; the call leaves by the board of this endpoint "
			 "(TAGWIRE_BOARDS)";
	} else if (error == EHOSTUNREACH) {
		cause = "no host answers at its address";
		advice = "its host must be up, be reached from the board of this endpoint "
			 "(TAGWIRE_BOARDS), and no firewall refuse the call (TAGWIRE_PORT)";
	} else if (error == EINVAL) {
		cause = "the board of this endpoint leads to no other host";
		advice = "see TAGWIRE_BOARDS in tagwire-settings(7)";
	}
	l->ep->host->up->trouble(l->ep->host, l->link.peer, err, cause, advice);
}

/* The board of the peer whose turn it is to be called; 0 is its own. */
static unsigned whose_turn(const struct tw_net_link *l)
{
	return l->others.n && l->others.port ? l->turn % l->others.n : 0;
}

/* One attempt, at a port of its own board; TW_OK when it is under way. */
static enum tw_err sock_dial(struct tw_net_link *l, uint32_t port)
{
	struct sockaddr_storage to = l->peer_addr, from;
	struct tw_net_ep *ep = l->ep;
	unsigned board = whose_turn(l);
	int fd, error;

	if (board) {
		tw_inet_unpack(l->others.address[board], &to);
		port = l->others.port;
	}
	fd = tw_net_socket(to.ss_family);
	if (fd < 0)
		return TW_ENOMEM;
	/* From the board that the endpoint was opened on. */
	if (!board && ep->host->up->locate(ep->host->self.nic_id, &from) == TW_OK &&
	    from.ss_family == to.ss_family) {
		tw_inet_set_port(&from, 0);
		if (tw_sys_bind(fd, (struct sockaddr *)&from, tw_inet_len(&from)) < 0)
			tw_log(TW_LOG_DEBUG, "cannot call from the board's address");
	}
	tw_inet_set_port(&to, port);
	tw_net_sock_options(fd, (int)tw_settings.retry);
	if (tw_sys_connect(fd, (struct sockaddr *)&to, tw_inet_len(&to)) < 0 &&
	    errno != EINPROGRESS) {
		error = errno;
		tw_fd_close(fd);
		sock_unreached(l, error);
		return tw_net_err_of(error);
	}
	if (tw_net_watch(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, &l->watch, EPOLL_CTL_ADD) < 0) {
		tw_fd_close(fd);
		return TW_ENOMEM;
	}
	l->sock = fd;
	l->channel = TW_NET_DIALING;
	return TW_OK;
}

static void call_again(struct tw_net_link *l, uint64_t us)
{
	l->again = tw_net_in(l->ep, us);
}

static const char *method_name(uint16_t method)
{
	method &= (uint16_t)~TW_NET_ENCRYPTED;
	return method == TW_NET_NONE ? "none" : method == TW_NET_BY_MUNGE ? "munge" : "key";
}

/* No port has the endpoint, and one of them was somebody else's. */
static enum tw_err strange(const struct tw_net_link *l)
{
	const struct tw_net_auth *auth = tw_net_auth();
	const struct tw_net_stranger *s = &l->stranger;
	const char *advice =
		"copy one file to both hosts, unless its side says that it cannot read "
		"its own; see tagwire-key(7)";
	uint16_t differs = s->method ^ tw_net_method();
	char cause[TW_REPORT_SIZE];

	if (s->why == TW_EPROTO) {
		snprintf(cause, sizeof(cause),
			 "it speaks version %u of the handshake, and this host %u", s->version,
			 TW_NET_VERSION);
		advice = "install the same Tagwire on both hosts";
	} else if (differs == TW_NET_ENCRYPTED) {
		snprintf(cause, sizeof(cause), "TAGWIRE_ENCRYPT=%d there, and %d here",
			 !tw_settings.encrypt, tw_settings.encrypt);
		advice = "set the same on both hosts";
	} else if (differs) {
		snprintf(cause, sizeof(cause), "TAGWIRE_AUTH=%s there, and %s here",
			 method_name(s->method), method_name(tw_net_method()));
		advice = "set the same on both hosts";
	} else if (s->other_job) {
		snprintf(cause, sizeof(cause), "it belongs to another job of a launcher");
		advice = "set TAGWIRE_KEY to one file for both jobs, see tagwire-key(7)";
	} else if (auth->munge) {
		snprintf(cause, sizeof(cause), "it did not open this host's credential");
		advice = "the same user, munge.key and time are needed there, see tagwire-key(7)";
	} else {
		snprintf(cause, sizeof(cause), "it does not have the key of this one, %s",
			 tw_net_key_text());
	}
	l->ep->host->up->trouble(l->ep->host, l->link.peer, s->why, cause, advice);
	return s->why;
}

/* No port has the endpoint, as far as is known: at one, somebody ends every call. */
static void sock_hung_up(const struct tw_net_link *l)
{
	char cause[80];

	snprintf(cause, sizeof(cause), "its host ends every call at TCP port %u", l->hung_port);
	l->ep->host->up->trouble(
		l->ep->host, l->link.peer, TW_ECLOSED, cause,
		"its program may say why (a key or a descriptor is missing), or is "
		"not open, and the port another program's");
}

/* This is said if nothing more is heard. */
static void unanswered(const struct tw_net_link *l)
{
	unsigned kept = tw_net_ports_kept(l);
	uint32_t id = l->other.endpoint_id;
	char advice[160];

	if (l->state != TW_NET_NEW)
		return;
	if (l->reached)
		snprintf(advice, sizeof(advice),
			 "its host answers at TCP port %u: its program must run, call the library, "
			 "and have a descriptor left",
			 tw_net_port(id, kept < TW_NET_PORTS ? kept : l->port));
	else
		snprintf(advice, sizeof(advice),
			 "its host must be up, be reached from this board (TAGWIRE_BOARDS), and "
			 "let TCP ports %u to %u pass (TAGWIRE_PORT)",
			 tw_settings.port,
			 tw_settings.port + (TW_NET_PORTS - 1) * TW_NET_PORT_STEP +
				 tw_max(id, TW_NET_PORT_STEP - 1u));
	l->ep->host->up->trouble(l->ep->host, l->link.peer, TW_ETIMEDOUT, "it has not answered",
				 advice);
}

static enum tw_err dial_port(struct tw_net_link *l, unsigned port)
{
	l->port = port;
	return sock_dial(l, tw_net_port(l->other.endpoint_id, port));
}

/* The next port, or one that has answered meanwhile. */
static enum tw_err dial_any(struct tw_net_link *l)
{
	enum tw_err err = TW_ECLOSED;
	unsigned port = l->port_again;

	if (tw_net_ports_spoke(l))
		return TW_OK;
	l->port_again = 0;
	if (port)
		err = dial_port(l, port - 1);
	for (; l->port_try < TW_NET_PORTS && err == TW_ECLOSED; l->port_try++)
		err = dial_port(l, l->port_try);
	return err;
}

enum tw_err tw_net_dial(struct tw_net_link *l)
{
	enum tw_err err;

	if (l->state != TW_NET_NEW || l->sock < 0 || !tw_net_ports_keep(l))
		tw_net_sock_close(l);
	l->again = 0;
	if (l->peer_port) {
		l->turn++;
		err = sock_dial(l, l->peer_port);
		if (err == TW_OK)
			call_again(l, CALL_US);
		return err;
	}
	err = dial_any(l);
	if (err == TW_OK && (l->port_again || l->port_try < TW_NET_PORTS))
		call_again(l, TW_NET_SILENT_US);
	else if (err != TW_OK && tw_net_ports_kept(l) < TW_NET_PORTS)
		return TW_OK;
	if (err == TW_ECLOSED && l->stranger.why != TW_OK)
		return strange(l);
	if (err == TW_ECLOSED && l->hung_port)
		sock_hung_up(l);
	if (err == TW_OK)
		unanswered(l);
	/* Read while the other host answers. A resource like others: the reason was logged. */
	if (err == TW_OK && !tw_net_auth()) {
		tw_net_sock_close(l);
		return TW_ENOMEM;
	}
	return err;
}

static void sock_refused(struct tw_net_link *l, enum tw_err why)
{
	enum tw_err err;

	tw_net_sock_close(l);
	if (l->state == TW_NET_NEW) {
		err = why == TW_ECLOSED ? tw_net_dial(l) : why;
		if (err != TW_OK)
			tw_net_link_fail(l, err);
	} else if (why == TW_ECLOSED && whose_turn(l) == 0) {
		/* Refused: the process is gone. */
		tw_net_link_drain(l, TW_ELOST);
	} else {
		call_again(l, AGAIN_US);
	}
}

void tw_net_dial_next(struct tw_net_link *l)
{
	if (l->state == TW_NET_NEW)
		l->proof.key = 0;
	sock_refused(l, TW_ECLOSED);
}

void tw_net_dial_same(struct tw_net_link *l)
{
	l->port_again = l->port + 1;
	sock_refused(l, TW_ECLOSED);
}

/*
 * How long a connection that the system gave up was certainly without an answer: since
 * the first keep-alive probe, the only one that may have been lost.
 */
static uint64_t unanswered_us(void)
{
	int ms = tw_net_silence_ms() - 1000 * idle_seconds();

	return ms > 0 ? 1000ull * (unsigned)ms : 0;
}

/*
 * The endpoint has no room for more callers. Each time they wait longer, so that in the end
 * there is room for all of them.
 */
static void room_later(struct tw_net_link *l)
{
	if (tw_clock() - l->begun > tw_clock_us(1000ull * tw_settings.connect_timeout)) {
		tw_net_link_fail(l, TW_ETIMEDOUT);
		return;
	}
	l->port_again = l->port + 1;
	call_again(l, FULL_US << l->full++);
}

void tw_net_sock_lost(struct tw_net_link *l, enum tw_err why)
{
	bool known = why == TW_AGAIN || (l->channel >= TW_NET_SHAKE && why != TW_EPROTO);
	uint64_t since;

	tw_log(TW_LOG_DEBUG, "endpoint %u: the connection is gone: %s", l->other.endpoint_id,
	       tw_log_err(why));
	tw_net_sock_close(l);
	switch (l->state) {
	case TW_NET_NEW:
		l->hung_port = why != TW_EPROTO ? tw_net_port(l->other.endpoint_id, l->port) : 0;
		if (known)
			room_later(l);
		else if (why != TW_EPROTO && l->hung_up++ < HANG_UPS)
			tw_net_dial_same(l);
		else
			tw_net_dial_next(l);
		return;
	case TW_NET_PROBING:
		tw_net_link_fail(l, TW_ELOST);
		return;
	case TW_NET_UP:
		if (l->orderly && l->expected == l->final) {
			tw_net_link_drain(l, TW_ECLOSED);
			return;
		}
		break;
	case TW_NET_DRAIN:
		return;
	case TW_NET_LEAVING:
		if (!tw_list_empty(&l->kept))
			break;
		/* fall through */
	default:
		tw_net_link_end(l);
		return;
	}
	for (unsigned i = 0; i < l->npaths; i++)
		l->paths[i].resuming = false;
	since = tw_clock();
	if (why == TW_ETIMEDOUT)
		since -= tw_clock_us(unanswered_us());
	tw_net_link_broken(l, since);
	if (l->peer_port) {
		why = tw_net_dial(l);
		if (why != TW_OK)
			sock_refused(l, why);
	}
}

int tw_net_sock_error(const struct tw_net_link *l)
{
	int error = 0;
	socklen_t len = sizeof(error);

	tw_sys_getsockopt(l->sock, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static void dialed(struct tw_net_link *l)
{
	int error = tw_net_sock_error(l);
	enum tw_err err;

	if (error) {
		/* A listener that closed meanwhile was not the endpoint that is wanted. */
		bool other = error == ECONNRESET && l->state == TW_NET_NEW;

		if (!other)
			sock_unreached(l, error);
		if (other && has_hung_up(l) && l->hung_up++ < HANG_UPS)
			tw_net_dial_same(l);
		else if (other || error == ECONNREFUSED)
			tw_net_dial_next(l);
		else
			sock_refused(l, tw_net_err_of(error));
		return;
	}
	tw_net_sock_options(l->sock, tw_net_silence_ms());
	tw_net_watch(l->ep, l->sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_MOD);
	l->channel = TW_NET_HELLO;
	l->reached = true;
	unanswered(l);
	err = tw_net_hello_send(l);
	if (err == TW_ENOMEM)
		sock_refused(l, err);
	else if (err != TW_OK)
		tw_net_sock_lost(l, err);
}

enum tw_err tw_net_receive(struct tw_net_link *l)
{
	size_t len = tw_net_awaited(l);

	while (l->in_len < len) {
		ssize_t n = tw_net_recv(l, (char *)&l->in + l->in_len, len - l->in_len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return TW_AGAIN;
		if (n <= 0)
			return n < 0 ? tw_net_err_of(errno) : TW_ECLOSED;
		l->in_len += (uint32_t)n;
	}
	l->in_len = 0;
	return TW_OK;
}

void tw_net_sock_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_net_link *l = tw_container(w, struct tw_net_link, watch);
	enum tw_err err;

	/* Events may be of another port. */
	if (l->channel == TW_NET_DIALING && tw_net_fd_is(l->sock, POLLOUT))
		dialed(l);
	for (int i = 0; i < READS && l->channel >= TW_NET_HELLO; i++) {
		if (l->channel == TW_NET_SHAKE) {
			if (!tw_net_shake_on(l))
				return;
			continue;
		}
		err = tw_net_receive(l);
		if (err == TW_AGAIN)
			return;
		if (err == TW_ECLOSED && l->state == TW_NET_DRAIN &&
		    !(events & (EPOLLHUP | EPOLLERR))) {
			/* The peer sends no more, and still reads. */
			tw_net_watch(l->ep, l->sock, 0, &l->watch, EPOLL_CTL_MOD);
			return;
		}
		if (err != TW_OK) {
			tw_net_sock_lost(l, err);
			return;
		}
		tw_net_take(l);
	}
}
