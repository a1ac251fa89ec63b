/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The boards of both hosts. Peers tell each other theirs once they are connected, if there is
 * more than one. A board here and one there reach each other if the system would take the
 * first to call the second; the two that the endpoints are named by always count.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

/* Such an address means something on one link only. */
static bool of_link(const struct sockaddr_storage *sa)
{
	const void *address = sa;

	return sa->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

void tw_net_boards_find(struct tw_net_ep *ep)
{
	const struct tw_host *host = ep->host;
	uint64_t own = host->self.nic_id;
	bool leads = false, ipv6 = false;

	ep->nboards = 1;
	for (unsigned i = 0; i < host->nboards; i++) {
		if (host->boards[i] != own)
			continue;
		ep->numbers[0] = (uint8_t)i;
		leads = i < host->nleading;
	}
	if (!leads || host->up->locate(own, &ep->boards[0]) != TW_OK)
		return;
	for (unsigned i = 0; i < host->nleading && ep->nboards < TW_NET_MAX_BOARDS; i++) {
		struct sockaddr_storage *sa = &ep->boards[ep->nboards];

		if (host->boards[i] == own || host->up->locate(host->boards[i], sa) != TW_OK ||
		    of_link(sa))
			continue;
		ep->numbers[ep->nboards++] = (uint8_t)i;
		ipv6 |= sa->ss_family == AF_INET6;
	}
	if (ep->nboards > 1 && ep->nlisteners)
		ep->boards_port =
			tw_net_listen_everywhere(ep, ipv6 || ep->boards[0].ss_family == AF_INET6);
}

void tw_net_boards_fill(struct tw_net_ep *ep, struct tw_net_ctrl *t)
{
	t->port = ep->boards_port;
	t->boards.n = ep->nboards;
	for (unsigned i = 0; i < ep->nboards; i++)
		tw_inet_pack(&ep->boards[i], t->boards.address[i]);
}

void tw_net_boards_take(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	struct tw_net_others *o = &l->others;

	o->port = t->port;
	o->n = tw_min(t->boards.n, (uint32_t)TW_NET_MAX_BOARDS);
	memcpy(o->address, t->boards.address, sizeof(o->address));
	tw_net_boards_pair(l);
}

/* The board by which the system would call an address; false: none of ours. */
static bool board_towards(const struct tw_net_ep *ep, const struct sockaddr_storage *to,
			  uint8_t *board)
{
	struct sockaddr_storage at = *to, from = {0};
	socklen_t len = sizeof(from);
	uint8_t a[16], b[16];
	int fd = tw_sys_socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool found = false;

	/* Nothing is sent. */
	tw_inet_set_port(&at, 1);
	if (fd < 0 || tw_sys_connect(fd, (struct sockaddr *)&at, tw_inet_len(&at)) < 0 ||
	    tw_sys_getsockname(fd, (struct sockaddr *)&from, &len) < 0) {
		tw_sys_close(fd);
		return false;
	}
	tw_sys_close(fd);
	tw_inet_pack(&from, a);
	for (*board = 0; !found && *board < ep->nboards; *board += !found) {
		tw_inet_pack(&ep->boards[*board], b);
		found = memcmp(a, b, sizeof(a)) == 0;
	}
	return found;
}

static bool board_paired(const struct tw_net_link *l, uint8_t mine, unsigned theirs)
{
	for (unsigned i = 0; i < l->npairs; i++)
		if (l->pairs[i].mine == mine && l->pairs[i].theirs == theirs)
			return true;
	return false;
}

/* A pair that was one stays: a board that is down just now may come back. */
void tw_net_boards_pair(struct tw_net_link *l)
{
	for (unsigned i = 0; i < l->others.n && l->npairs < TW_NET_MAX_BOARDS; i++) {
		struct sockaddr_storage to;
		uint8_t mine;

		tw_inet_unpack(l->others.address[i], &to);
		if (!board_towards(l->ep, &to, &mine) || board_paired(l, mine, i))
			continue;
		l->pairs[l->npairs].mine = mine;
		l->pairs[l->npairs++].theirs = (uint8_t)i;
	}
}
