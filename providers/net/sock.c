/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets of the control channel. An endpoint listens on its board's address, on
 * port TAGWIRE_PORT + endpoint id. If that port is taken or TAGWIRE_JOB is set, a
 * multiple of 1024 is added; a caller tries these ports in turn and is told when it
 * has reached another endpoint than it wanted.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define BACKLOG 256
#define PORT_STEP 1024 /* more than there are endpoint ids */
#define LISTEN_AGAIN_US 100000
#define AGAIN_US 200000 /* between two attempts to reach it again */
#define CALL_US 1000000 /* limit for one: the system would retry less and less often */
#define HALF_US 200000	/* a caller is kept so long for its first message, however many there are  \
			 */
#define HANG_UPS 8	/* without an answer, before the next port is tried */
#define READS 16	/* in one call, so that one peer cannot keep others waiting */

/* FNV-1a; 0 for the job without name. */
uint32_t tw_net_job(void)
{
	uint32_t h = 2166136261u;

	if (!*tw_settings.job)
		return 0;
	for (const char *c = tw_settings.job; *c; c++)
		h = (h ^ (uint8_t)*c) * 16777619u;
	return h;
}

static uint32_t port_of(uint32_t endpoint_id, unsigned try)
{
	return tw_settings.port + (tw_net_job() + try) % TW_NET_PORTS * PORT_STEP + endpoint_id;
}

static int watch(struct tw_net_ep *ep, int fd, uint32_t events, struct tw_watch *w, int op)
{
	struct epoll_event ev = {.events = events, .data.ptr = w};

	return epoll_ctl(ep->host->epfd, op, fd, &ev);
}

static int tcp_socket(int family)
{
	return tw_fd_own(tw_sys_socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Seconds of silence after which the system asks a peer whether it is there, once a second. */
static int idle_seconds(void)
{
	return (int)tw_max(tw_settings.retry / 4000, 1u);
}

/* Milliseconds without an answer that end a connection; then it is made again. */
static int silence_ms(void)
{
	return (int)(tw_settings.retry / 2);
}

static void set_options(int fd, int limit)
{
	int one = 1, idle = idle_seconds();

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
}

/* Claims the name of the endpoint on this host, whoever has its port. */
static enum tw_err claim(struct tw_net_ep *ep)
{
	const struct tw_ident *me = &ep->host->self;
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "tagwire-net-%u-%s-%012llx-%u",
			 (unsigned)geteuid(), tw_settings.job, (unsigned long long)me->nic_id,
			 me->endpoint_id);

	ep->claim = tw_fd_own(tw_sys_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (ep->claim < 0)
		return TW_ENOMEM;
	if (tw_sys_bind(ep->claim, (struct sockaddr *)&sa,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
		return TW_OK;
	return errno == EADDRINUSE ? TW_EBUSY : TW_ENOMEM;
}

static void accept_one(struct tw_net_ep *ep, int sock, const struct sockaddr_storage *from)
{
	struct tw_net_link *l = tw_net_link_new(ep, TW_NET_HALF_OPEN);

	if (!l) {
		tw_fd_close(sock);
		return;
	}
	ep->nhalf++;
	l->sock = sock;
	l->channel = TW_NET_HELLO;
	l->peer_addr = *from;
	set_options(sock, silence_ms());
	l->deadline = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	tw_net_timer(ep, l->deadline);
	if (watch(ep, sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_ADD) < 0)
		tw_net_link_end(l);
}

/* When there are too many, the oldest is dropped: real peers have sent CONNECT by then. */
static bool room_for_caller(struct tw_net_ep *ep)
{
	uint64_t latest = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	struct tw_list *n, *tmp;

	if (ep->nhalf < TW_NET_HALF_OPEN_MAX)
		return true;
	tw_list_each(&ep->links, n, tmp) {
		struct tw_net_link *l = tw_container(n, struct tw_net_link, node);

		if (l->state != TW_NET_HALF_OPEN)
			continue;
		/* Its message may have come and not been read yet. */
		tw_net_sock_ready(&l->watch, EPOLLIN);
		if (l->state != TW_NET_HALF_OPEN)
			return true;
		if (latest - l->deadline < tw_clock_us(HALF_US))
			return false;
		tw_net_link_end(l);
		return true;
	}
	return false;
}

static void listener_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_net_ep *ep = tw_container(w, struct tw_net_ep, listen_watch);

	(void)events;
	while (room_for_caller(ep)) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int sock = accept4(ep->listener, (struct sockaddr *)&from, &len,
				   SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock >= 0)
			accept_one(ep, tw_fd_own(sock), &from);
		else if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		else
			break;
	}
	/* Out of descriptors, maybe: the listener stays readable, so ignore it for a while. */
	watch(ep, ep->listener, 0, w, EPOLL_CTL_MOD);
	ep->listen_again = tw_clock() + tw_clock_us(LISTEN_AGAIN_US);
	tw_net_timer(ep, ep->listen_again);
}

void tw_net_listen_again(struct tw_net_ep *ep)
{
	ep->listen_again = 0;
	watch(ep, ep->listener, EPOLLIN, &ep->listen_watch, EPOLL_CTL_MOD);
}

void tw_net_half_open_done(struct tw_net_ep *ep)
{
	if (ep->nhalf-- == TW_NET_HALF_OPEN_MAX)
		tw_net_listen_again(ep);
}

static bool listen_at(struct tw_net_ep *ep, struct sockaddr_storage *sa, uint32_t port)
{
	int fd = tcp_socket(sa->ss_family), one = 1;

	if (fd < 0)
		return false;
	tw_inet_set_port(sa, port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (tw_sys_bind(fd, (struct sockaddr *)sa, tw_inet_len(sa)) < 0 ||
	    tw_sys_listen(fd, BACKLOG) < 0 ||
	    watch(ep, fd, EPOLLIN, &ep->listen_watch, EPOLL_CTL_ADD) < 0) {
		tw_fd_close(fd);
		return false;
	}
	ep->listener = fd;
	ep->port = port;
	return true;
}

enum tw_err tw_net_listen(struct tw_net_ep *ep)
{
	const struct tw_ident *me = &ep->host->self;
	struct sockaddr_storage sa;
	enum tw_err err = claim(ep);

	if (err != TW_OK)
		return err;
	ep->listen_watch.ready = listener_ready;
	/* Without drivers no port is opened. */
	if (!tw_driver_any(tw_settings.providers) ||
	    ep->host->up->locate(ep->host, me->nic_id, &sa) != TW_OK)
		return TW_OK;
	for (unsigned i = 0; i < TW_NET_PORTS; i++)
		if (listen_at(ep, &sa, port_of(me->endpoint_id, i)))
			return TW_OK;
	/* The endpoint can still connect to others, and be reached on this host. */
	tw_log(TW_LOG_INFO, "endpoint %u: port %u is taken, other hosts cannot connect",
	       me->endpoint_id, port_of(me->endpoint_id, 0));
	return TW_OK;
}

void tw_net_sock_close(struct tw_net_link *l)
{
	tw_fd_close(l->sock);
	l->sock = -1;
	l->channel = TW_NET_NO_CHANNEL;
	l->tx_shutdown = false;
	l->in_len = 0;
}

bool tw_net_sock_alive(const struct tw_net_link *l)
{
	struct pollfd p = {.fd = l->sock, .events = POLLRDHUP};

	return l->channel != TW_NET_OPEN || tw_sys_poll(&p, 1, 0) == 0;
}

bool tw_net_sock_write(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_net_sealed out;
	ssize_t n;

	if (l->channel != TW_NET_OPEN || l->tx_shutdown)
		return false;
	tw_net_seal(l, t, &out);
	n = tw_sys_send(l->sock, &out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		l->proof.sent--; /* nothing has left: the number is the next one's */
	return n == (ssize_t)sizeof(out);
}

void tw_net_sock_adopt(struct tw_net_link *l, struct tw_net_link *from)
{
	tw_net_sock_close(l);
	l->sock = from->sock;
	l->channel = from->channel;
	l->proof = from->proof;
	l->peer_addr = from->peer_addr;
	from->sock = -1;
	from->channel = TW_NET_NO_CHANNEL;
	watch(l->ep, l->sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_MOD);
}

static enum tw_err err_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return TW_ECLOSED;
	case ETIMEDOUT:
		return TW_ETIMEDOUT;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		return TW_ENOMEM;
	default:
		return TW_EUNREACH;
	}
}

/* One attempt; TW_OK when it is under way. */
static enum tw_err dial(struct tw_net_link *l, uint32_t port)
{
	struct tw_net_ep *ep = l->ep;
	struct sockaddr_storage to = l->peer_addr, from;
	int fd = tcp_socket(to.ss_family);
	int error;

	if (fd < 0)
		return TW_ENOMEM;
	/* From the board that the endpoint was opened on. */
	if (ep->host->up->locate(ep->host, ep->host->self.nic_id, &from) == TW_OK &&
	    from.ss_family == to.ss_family) {
		tw_inet_set_port(&from, 0);
		if (tw_sys_bind(fd, (struct sockaddr *)&from, tw_inet_len(&from)) < 0)
			tw_log(TW_LOG_DEBUG, "cannot call from the board's address");
	}
	tw_inet_set_port(&to, port);
	set_options(fd, (int)tw_settings.retry);
	if (tw_sys_connect(fd, (struct sockaddr *)&to, tw_inet_len(&to)) < 0 &&
	    errno != EINPROGRESS) {
		error = errno;
		tw_fd_close(fd);
		return err_of(error);
	}
	if (watch(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, &l->watch, EPOLL_CTL_ADD) < 0) {
		tw_fd_close(fd);
		return TW_ENOMEM;
	}
	l->sock = fd;
	l->channel = TW_NET_DIALING;
	return TW_OK;
}

static void call_again(struct tw_net_link *l, uint64_t us)
{
	l->again = tw_clock() + tw_clock_us(us);
	tw_net_timer(l->ep, l->again);
}

/* No port has the endpoint, and one of them was somebody else's. */
static enum tw_err strange(const struct tw_net_link *l)
{
	if (l->stranger == TW_EPROTO)
		tw_log(TW_LOG_ERROR, "endpoint %u: the other host speaks another version",
		       l->other.endpoint_id);
	else
		tw_log(TW_LOG_ERROR,
		       "endpoint %u: the other host does not have the key of this one, %s; see "
		       "tagwire-key(7)",
		       l->other.endpoint_id, tw_net_key_file());
	return l->stranger;
}

enum tw_err tw_net_dial(struct tw_net_link *l)
{
	enum tw_err err = TW_ECLOSED;

	tw_net_sock_close(l);
	l->again = 0;
	if (!tw_net_auth())
		return TW_EPERM;
	if (l->peer_port) {
		err = dial(l, l->peer_port);
		if (err == TW_OK && l->state == TW_NET_UP)
			call_again(l, CALL_US);
		return err;
	}
	for (; l->port_try < TW_NET_PORTS && err == TW_ECLOSED; l->port_try++)
		err = dial(l, port_of(l->other.endpoint_id, l->port_try));
	if (err == TW_ECLOSED && l->stranger != TW_OK)
		err = strange(l);
	return err;
}

static void refused(struct tw_net_link *l, enum tw_err why)
{
	enum tw_err err;

	tw_net_sock_close(l);
	if (l->state == TW_NET_NEW) {
		err = why == TW_ECLOSED ? tw_net_dial(l) : why;
		if (err != TW_OK)
			tw_net_link_fail(l, err);
	} else if (why == TW_ECLOSED) {
		/* Refused: the process is gone. */
		tw_net_link_drain(l, TW_ELOST);
	} else {
		call_again(l, AGAIN_US);
	}
}

void tw_net_dial_next(struct tw_net_link *l)
{
	refused(l, TW_ECLOSED);
}

void tw_net_dial_same(struct tw_net_link *l)
{
	l->port_try--;
	tw_net_dial_next(l);
}

/*
 * How long a connection that the system gave up was certainly without an answer: since
 * the first keep-alive probe, the only one that may have been lost.
 */
static uint64_t unanswered_us(void)
{
	int ms = silence_ms() - 1000 * idle_seconds();

	return ms > 0 ? 1000ull * (unsigned)ms : 0;
}

void tw_net_sock_lost(struct tw_net_link *l, enum tw_err why)
{
	uint64_t since;

	tw_log(TW_LOG_DEBUG, "endpoint %u: the connection is gone (%d)", l->other.endpoint_id, why);
	tw_net_sock_close(l);
	switch (l->state) {
	case TW_NET_NEW:
		/* The peer may have dropped the connection for lack of room. */
		if (why != TW_EPROTO && l->hung_up++ < HANG_UPS)
			tw_net_dial_same(l);
		else
			tw_net_dial_next(l);
		return;
	case TW_NET_PROBING:
		tw_net_link_fail(l, TW_ELOST);
		return;
	case TW_NET_UP:
		break;
	case TW_NET_DRAIN:
		return;
	default:
		tw_net_link_end(l);
		return;
	}
	l->resuming = false;
	since = tw_clock();
	if (why == TW_ETIMEDOUT)
		since -= tw_clock_us(unanswered_us());
	if (!l->broken || since < l->broken)
		l->broken = since;
	tw_net_timer(l->ep, l->broken + tw_clock_us(1000ull * tw_settings.retry));
	if (l->peer_port) {
		why = tw_net_dial(l);
		if (why != TW_OK)
			refused(l, why);
	}
}

static void dialed(struct tw_net_link *l)
{
	int error = 0;
	socklen_t len = sizeof(error);

	getsockopt(l->sock, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		/* A listener that closed meanwhile was not the endpoint that is wanted. */
		bool other = error == ECONNRESET && l->state == TW_NET_NEW;

		refused(l, other ? TW_ECLOSED : err_of(error));
		return;
	}
	set_options(l->sock, silence_ms());
	watch(l->ep, l->sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_MOD);
	l->channel = TW_NET_HELLO;
	if (!tw_net_hello_send(l))
		tw_net_sock_lost(l, TW_ELOST);
}

void tw_net_sock_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_net_link *l = tw_container(w, struct tw_net_link, watch);

	if (l->channel == TW_NET_DIALING && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
		dialed(l);
	for (int i = 0; i < READS && l->channel >= TW_NET_HELLO; i++) {
		size_t whole = l->channel == TW_NET_HELLO ? sizeof(l->in.hello) : sizeof(l->in);
		ssize_t n = tw_sys_recv(l->sock, (char *)&l->in + l->in_len, whole - l->in_len,
					MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == 0 && l->state == TW_NET_DRAIN && !(events & (EPOLLHUP | EPOLLERR))) {
			/* The peer sends no more, and still reads. */
			watch(l->ep, l->sock, 0, &l->watch, EPOLL_CTL_MOD);
			return;
		}
		if (n <= 0) {
			tw_net_sock_lost(l, n < 0 ? err_of(errno) : TW_ECLOSED);
			return;
		}
		l->in_len += (uint32_t)n;
		if (l->in_len == whole)
			tw_net_take(l);
	}
}
