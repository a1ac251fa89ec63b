/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where other hosts call. An endpoint listens on its board's address, on port TAGWIRE_PORT +
 * endpoint id. If that port is taken or TAGWIRE_JOB is set, a multiple of 1024 is added; a
 * caller tries these ports in turn and is told when it has reached another endpoint than it
 * wanted. A call without an answer goes on while it tries the next (ports.c). On each board
 * there is one more port, which all processes of a user share, for those that ask for the
 * boards of this host (names.c). Peers whose way by the endpoint's board is broken call at a
 * port of all boards, which they were told (boards.c).
 */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fds.h"
#include "base/hash.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define BACKLOG 1024
#define NAMES_PORT 8191
_Static_assert(51968 + (TW_NET_PORTS - 1) * TW_NET_PORT_STEP + TW_ID_MAX == 65535,
	       "with the limit in settings.def each endpoint has its ports");
#define ACCEPTS 64 /* in one call, so that callers cannot keep peers waiting */
#define LISTEN_AGAIN_US 100000
#define HALF_US 200000	 /* at least so long a caller that has the key is kept */
#define STRANGER_US 5000 /* the same of others: HELLO and TLS follow the connection at once */

/* 0 for the job without name. */
uint32_t tw_net_job(void)
{
	return *tw_settings.job ? tw_hash_short(tw_settings.job) : 0;
}

uint32_t tw_net_port(uint32_t endpoint_id, unsigned try)
{
	return tw_settings.port + (tw_net_job() + try) % TW_NET_PORTS * TW_NET_PORT_STEP +
	       endpoint_id;
}

/* Another user's processes may have it. */
uint32_t tw_net_names_port(unsigned try)
{
	return tw_settings.port + NAMES_PORT - try * TW_NET_PORT_STEP;
}

/* Claims the name of the endpoint on this host, whoever has its port. Nobody calls there. */
static enum tw_err listen_claim(struct tw_net_ep *ep)
{
	const struct tw_ident *me = &ep->host->self;
	struct tw_sock_name name;
	int err;

	tw_sock_name(&name, "net-%u-%012llx-%u", (unsigned)tw_sys_euid(),
		     (unsigned long long)me->nic_id, me->endpoint_id);
	err = tw_sock_listen(&ep->name_lock, &name, 1);
	if (err == 0)
		return TW_OK;
	return err == EADDRINUSE || err == TW_SOCK_FOREIGN ? TW_EBUSY : TW_ENOMEM;
}

static void listen_accept_one(const struct tw_net_listener *at, int sock,
			      const struct sockaddr_storage *from)
{
	struct tw_net_ep *ep = at->ep;
	struct tw_net_link *l;
	int one = 1;
	char byte;

	/* Nothing is done for one that has hung up, having said nothing. */
	if (tw_sys_recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 ||
	    !(l = tw_net_link_new(ep, TW_NET_HALF_OPEN))) {
		tw_fd_close(sock);
		return;
	}
	ep->nhalf++;
	l->own_port = at == ep->listeners;
	l->sock = sock;
	l->channel = TW_NET_HELLO;
	l->peer_addr = *from;
	l->deadline = tw_net_in(ep, 1000ull * tw_settings.connect_timeout);
	if (tw_net_watch(ep, sock, EPOLLIN | EPOLLRDHUP, &l->watch, EPOLL_CTL_ADD) < 0) {
		tw_net_link_end(l);
		return;
	}
	/*
	 * The key is read while its first words are under way. Once it is there, callers are let in
	 * when their first words have come, or after a second without.
	 */
	tw_net_auth();
	tw_sys_setsockopt(at->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &one, sizeof(one));
	tw_net_sock_ready(&l->watch, EPOLLIN);
}

/* Of the callers that have the key, or of the others; NULL: there is none. */
static struct tw_net_link *oldest(struct tw_net_ep *ep, bool proved)
{
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		if (l->state == TW_NET_HALF_OPEN && l->proof.proved == proved)
			return l;
	}
	return NULL;
}

static bool listen_drop(struct tw_net_link *l, uint64_t after_us)
{
	/* Its message may have come and not been read yet. */
	tw_net_sock_ready(&l->watch, EPOLLIN);
	if (l->state != TW_NET_HALF_OPEN)
		return true;
	if (tw_clock() - l->begun < tw_clock_us(after_us))
		return false;
	if (l->channel == TW_NET_HELLO)
		tw_net_hello_full(l);
	tw_net_link_end(l);
	return true;
}

/*
 * When there are too many, the oldest is dropped, and told: a real peer comes again. Strangers
 * go first, so that they do not fill the system's queue.
 */
static bool room_for_caller(struct tw_net_ep *ep)
{
	struct tw_net_link *stranger = oldest(ep, false);

	return stranger ? listen_drop(stranger, STRANGER_US)
			: listen_drop(oldest(ep, true), HALF_US);
}

/* Somebody waits and cannot be let in: the listener stays readable, so ignore it for a while. */
static void pause_listening(struct tw_net_listener *at, uint64_t us)
{
	struct tw_net_ep *ep = at->ep;

	tw_net_watch(ep, at->fd, 0, &at->watch, EPOLL_CTL_MOD);
	ep->listen_again = tw_net_in(ep, us);
}

static void net_listener_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_net_listener *at = tw_container(w, struct tw_net_listener, watch);
	struct tw_net_ep *ep = at->ep;

	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int sock;

		if (ep->nhalf >= TW_NET_HALF_OPEN_MAX) {
			/* Nobody is dropped for nobody. */
			if (!tw_net_fd_is(at->fd, POLLIN))
				return;
			if (!room_for_caller(ep)) {
				pause_listening(at, STRANGER_US);
				return;
			}
		}
		sock = tw_fd_own(tw_sys_accept(at->fd, (struct sockaddr *)&from, &len,
					       SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (sock < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				pause_listening(at, LISTEN_AGAIN_US);
			return;
		}
		listen_accept_one(at, sock, &from);
	}
}

void tw_net_listen_again(struct tw_net_ep *ep)
{
	ep->listen_again = 0;
	for (unsigned i = 0; i < ep->nlisteners; i++)
		tw_net_watch(ep, ep->listeners[i].fd, EPOLLIN, &ep->listeners[i].watch,
			     EPOLL_CTL_MOD);
}

void tw_net_half_open_done(struct tw_net_ep *ep)
{
	tw_net_poll(ep);
	if (ep->nhalf-- == TW_NET_HALF_OPEN_MAX && ep->listen_again)
		tw_net_listen_again(ep);
}

/* One option says that an address may be used again soon, the other that it is shared. */
static bool net_listen_at(struct tw_net_ep *ep, struct sockaddr_storage *sa, uint32_t port,
			  int option)
{
	struct tw_net_listener *at = &ep->listeners[ep->nlisteners];
	int fd = tw_net_socket(sa->ss_family), one = 1;

	if (fd < 0)
		return false;
	*at = (struct tw_net_listener){{net_listener_ready}, ep, fd};
	tw_inet_set_port(sa, port);
	tw_sys_setsockopt(fd, SOL_SOCKET, option, &one, sizeof(one));
	tw_net_sock_options(fd, tw_net_silence_ms()); /* callers' sockets have them from here */
	if (tw_sys_bind(fd, (struct sockaddr *)sa, tw_inet_len(sa)) < 0 ||
	    tw_sys_listen(fd, BACKLOG) < 0 ||
	    tw_net_watch(ep, fd, EPOLLIN, &at->watch, EPOLL_CTL_ADD) < 0) {
		tw_fd_close(fd);
		return false;
	}
	ep->nlisteners++;
	return true;
}

static bool listen_for_peers(struct tw_net_ep *ep, struct sockaddr_storage *sa)
{
	uint32_t id = ep->host->self.endpoint_id;

	for (unsigned i = 0; i < TW_NET_PORTS; i++)
		if (net_listen_at(ep, sa, tw_net_port(id, i), SO_REUSEADDR)) {
			ep->port = tw_net_port(id, i);
			return true;
		}
	return false;
}

/* Where shared memory is in use the endpoint can still be reached on this host. */
static enum tw_err no_port(uint32_t id)
{
	int why = errno;

	tw_log(TW_LOG_ERROR,
	       "endpoint %u: no other host can connect to it: %s: TCP ports %u, %u and so on to "
	       "%u; "
	       "use another id, or another TAGWIRE_PORT on all hosts",
	       id, strerror(why), tw_settings.port + id, tw_settings.port + id + TW_NET_PORT_STEP,
	       tw_settings.port + id + (TW_NET_PORTS - 1) * TW_NET_PORT_STEP);
	return why != EADDRINUSE || tw_names_have(tw_settings.providers, "shm") ? TW_OK : TW_EBUSY;
}

/* On every board, as other hosts may know any of them. */
static void listen_for_names(struct tw_net_ep *ep)
{
	const struct tw_host *host = ep->host;
	struct sockaddr_storage sa;

	for (unsigned i = 0; i < host->nboards; i++) {
		if (host->up->locate(host->boards[i], &sa) != TW_OK || tw_inet_loopback(&sa))
			continue;
		for (unsigned k = 0; k < TW_NET_PORTS; k++)
			if (net_listen_at(ep, &sa, tw_net_names_port(k), SO_REUSEPORT))
				break;
	}
}

uint32_t tw_net_listen_everywhere(struct tw_net_ep *ep, bool ipv6)
{
	struct sockaddr_storage sa = {.ss_family = ipv6 ? AF_INET6 : AF_INET};
	socklen_t len = sizeof(sa);
	struct tw_ports ports;
	bool listens = false;

	tw_ports_parse(tw_settings.data_ports, &ports);
	/* From the end on, and never at the first: that is for data, without which nothing goes. */
	for (uint32_t port = ports.last; port > ports.first && !listens; port--)
		listens = net_listen_at(ep, &sa, port, SO_REUSEADDR);
	if (!ports.first)
		listens = net_listen_at(ep, &sa, 0, SO_REUSEADDR);
	else if (!listens)
		tw_log(TW_LOG_WARN,
		       "no port of TAGWIRE_DATA_PORTS=%s can be had: if this board fails, peers "
		       "do not connect by another one",
		       tw_settings.data_ports);
	if (!listens || tw_sys_getsockname(ep->listeners[ep->nlisteners - 1].fd,
					   (struct sockaddr *)&sa, &len) < 0)
		return 0;
	/* Both kinds of address have it in one place. */
	return be16toh(((struct sockaddr_in *)(void *)&sa)->sin_port);
}

enum tw_err tw_net_listen(struct tw_net_ep *ep)
{
	const struct tw_ident *me = &ep->host->self;
	struct sockaddr_storage sa;
	enum tw_err err = listen_claim(ep);

	if (err != TW_OK)
		return err;
	/* Without drivers no port is opened. If encryption is the reason, the user learns it. */
	if (!tw_driver_any(tw_settings.providers)) {
		if (tw_settings.encrypt)
			tw_driver_report(tw_settings.providers);
		return TW_OK;
	}
	if (ep->host->up->locate(me->nic_id, &sa) != TW_OK)
		return TW_OK;
	if (!listen_for_peers(ep, &sa))
		return no_port(me->endpoint_id);
	if (!tw_inet_loopback(&sa))
		listen_for_names(ep);
	if (sa.ss_family == AF_INET6 && ep->nlisteners)
		tw_net_search_listen(ep);
	return TW_OK;
}

void tw_net_listen_end(struct tw_net_ep *ep)
{
	while (ep->nlisteners)
		tw_fd_close(ep->listeners[--ep->nlisteners].fd);
	tw_fd_close(ep->sought.fd);
	tw_fd_close(ep->found.fd);
}
