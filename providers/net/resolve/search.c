/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding a NIC whose id is all that is known: that of a board with IPv6 only does not
 * contain the address. A question goes to a multicast group on every interface, and the
 * endpoint that is meant answers with its address, of which the NIC id is a hash. It
 * is called there. Nothing is believed beyond that, and nothing kept: the proof follows on the
 * connection.
 */
#include <endian.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/sys.h"
#include "providers/net/session.h"

#define SEARCH_US 1000000
#define AGAIN_US 100000
#define MANY 64 /* packets taken in one call */

/* ff15::7477:7270, of a site. */
static const struct in6_addr group = {
	{{0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x74, 0x77, 0x72, 0x70}}};

/* Question and answer have one form, so nobody is sent more than was sent in its name. */
struct search_packet {
	uint32_t magic;
	uint16_t version, type; /* TW_NET_QUERY, TW_NET_BOARDS */
	uint64_t nic_id;
	uint32_t endpoint_id, unused;
	uint8_t address[16];
} TW_WIRE;
_Static_assert(sizeof(struct search_packet) == 40, "wire format");

static struct sockaddr_in6 group_at(void)
{
	return (struct sockaddr_in6){.sin6_family = AF_INET6,
				     .sin6_port = htobe16((uint16_t)tw_net_names_port(0)),
				     .sin6_addr = group};
}

static bool search_take(int fd, uint16_t type, struct search_packet *s, struct sockaddr_in6 *from)
{
	socklen_t len = sizeof(*from);
	long n = syscall(SYS_recvfrom, fd, s, sizeof(*s), MSG_DONTWAIT, from, &len);

	return n == sizeof(*s) && s->magic == TW_NET_MAGIC && s->version == TW_NET_VERSION &&
	       s->type == type && from->sin6_family == AF_INET6;
}

static void search_give(int fd, const struct search_packet *s, const struct sockaddr_in6 *to)
{
	/* A lost question is asked again. */
	(void)!syscall(SYS_sendto, fd, s, sizeof(*s), MSG_DONTWAIT | MSG_NOSIGNAL, to, sizeof(*to));
}

/* Somebody searches, perhaps for this endpoint. */
static void sought(struct tw_watch *w, uint32_t events)
{
	struct tw_net_listener *at = tw_container(w, struct tw_net_listener, watch);
	const struct tw_ident *me = &at->ep->host->self;
	struct sockaddr_in6 from;
	struct search_packet s;

	(void)events;
	for (int i = 0; i < MANY && search_take(at->fd, TW_NET_QUERY, &s, &from); i++) {
		struct sockaddr_storage own;

		if (s.nic_id != me->nic_id || s.endpoint_id != me->endpoint_id ||
		    at->ep->host->up->locate(me->nic_id, &own) != TW_OK)
			continue;
		s.type = TW_NET_BOARDS;
		memcpy(s.address, &((struct sockaddr_in6 *)(void *)&own)->sin6_addr, 16);
		search_give(at->fd, &s, &from);
	}
}

/* Those that search for it; an answer that nobody has asked for has no use. */
static void call_found(struct tw_net_ep *ep, uint64_t nic_id, const struct sockaddr_storage *sa)
{
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		enum tw_err err;

		if (l->channel != TW_NET_SEARCHING || l->other.nic_id != nic_id ||
		    !ep->host->up->found(nic_id, sa, false))
			continue;
		l->peer_addr = *sa;
		err = tw_net_dial(l);
		if (err != TW_OK)
			tw_net_link_fail(l, err);
	}
}

/* An answer. */
static void found(struct tw_watch *w, uint32_t events)
{
	struct tw_net_listener *at = tw_container(w, struct tw_net_listener, watch);
	struct tw_net_ep *ep = at->ep;
	struct sockaddr_in6 from;
	struct search_packet s;

	(void)events;
	for (int i = 0; i < MANY && search_take(at->fd, TW_NET_BOARDS, &s, &from); i++) {
		struct sockaddr_storage sa = {.ss_family = AF_INET6};
		struct sockaddr_in6 *in6 = (void *)&sa;

		memcpy(&in6->sin6_addr, s.address, 16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			in6->sin6_scope_id = from.sin6_scope_id;
		call_found(ep, s.nic_id, &sa);
	}
}

static bool open_at(struct tw_net_ep *ep, struct tw_net_listener *at,
		    void (*ready)(struct tw_watch *, uint32_t))
{
	*at = (struct tw_net_listener){{ready}, ep, -1};
	at->fd = tw_fd_own(tw_sys_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	return at->fd >= 0 && tw_net_watch(ep, at->fd, EPOLLIN, &at->watch, EPOLL_CTL_ADD) == 0;
}

/* On every interface, asks a question or joins those who are asked; the loopback does not matter.
 */
static void search_interfaces(int fd, const struct search_packet *question)
{
	struct if_nameindex *all = if_nameindex();
	struct sockaddr_in6 to = group_at();

	for (const struct if_nameindex *i = all; i && i->if_index; i++) {
		struct ipv6_mreq m = {group, i->if_index};

		if (!question)
			tw_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof(m));
		else if (tw_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &i->if_index,
					   sizeof(i->if_index)) == 0)
			search_give(fd, question, &to);
	}
	if (all)
		if_freenameindex(all);
}

void tw_net_search_listen(struct tw_net_ep *ep)
{
	struct sockaddr_in6 at = group_at();
	int one = 1;

	if (!open_at(ep, &ep->sought, sought))
		return;
	tw_sys_setsockopt(ep->sought.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (tw_sys_bind(ep->sought.fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		search_interfaces(ep->sought.fd, NULL);
}

static void ask_again(struct tw_net_link *l)
{
	struct search_packet s = {.magic = TW_NET_MAGIC,
				  .version = TW_NET_VERSION,
				  .type = TW_NET_QUERY,
				  .nic_id = l->other.nic_id,
				  .endpoint_id = l->other.endpoint_id};

	search_interfaces(l->ep->found.fd, &s);
	l->again = tw_net_in(l->ep, AGAIN_US);
}

enum tw_err tw_net_search(struct tw_net_link *l)
{
	if (l->ep->found.fd < 0 && !open_at(l->ep, &l->ep->found, found))
		return TW_EUNREACH;
	l->channel = TW_NET_SEARCHING;
	l->deadline = tw_clock() + tw_clock_us(SEARCH_US);
	ask_again(l);
	return TW_OK;
}

uint64_t tw_net_search_expire(struct tw_net_link *l, uint64_t now)
{
	if (l->deadline <= now) {
		tw_net_link_fail(l, TW_EUNREACH);
		return 0;
	}
	if (l->again <= now)
		ask_again(l);
	return l->again;
}
