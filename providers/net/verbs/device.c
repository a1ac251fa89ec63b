/* SPDX-License-Identifier: BSD-2-Clause */
/* The RDMA device of a board, or the first that there is, and what it can do. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>

#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/verbs/verbs.h"

#define BACKLOG 1024

/* The limits of the device; false if they are too low. */
static bool device_ask(struct tw_verbs *v)
{
	struct tw_verbs_limits *l = &v->limits;
	struct ibv_device_attr d;
	struct ibv_port_attr port;

	if (ibv_query_device(v->ctx, &d) != 0 ||
	    ibv_query_port(v->ctx, v->listener->port_num, &port) != 0 ||
	    port.state != IBV_PORT_ACTIVE)
		return false;
	*l = (struct tw_verbs_limits){
		.sq = tw_min((unsigned)TW_VERBS_SQ, (unsigned)d.max_qp_wr),
		.sge = tw_min((unsigned)TW_VERBS_SGE, (unsigned)d.max_sge),
		.srq = tw_min((unsigned)TW_VERBS_BUFFERS, (unsigned)d.max_srq_wr),
		.cqe = (unsigned)d.max_cqe,
		.reads_in = (uint8_t)tw_min(d.max_qp_rd_atom, 255),
		.reads_out = (uint8_t)tw_min(d.max_qp_init_rd_atom, 255),
		.message = tw_min(TW_VERBS_PIECE, port.max_msg_sz),
		.iwarp = v->ctx->device->transport_type == IBV_TRANSPORT_IWARP,
	};
	l->sge_read = l->iwarp ? 1 : l->sge;
	if (d.max_sge_rd > 0)
		l->sge_read = tw_min(l->sge_read, (unsigned)d.max_sge_rd);
	return d.max_srq > 0 && l->srq >= 2 * TW_VERBS_GROW && l->sq >= 2 * TW_VERBS_SQ_RMA &&
	       l->sge >= 1 && l->message >= sizeof(struct tw_verbs_head) + TW_VERBS_PACKET &&
	       l->cqe >= l->srq + l->sq;
}

/* Listens there, on that port. False: errno is EADDRINUSE if another program has it. */
static bool device_listen_on(struct tw_verbs *v, struct sockaddr_storage *at, uint32_t port)
{
	bool taken;

	tw_inet_set_port(at, port);
	errno = 0;
	if (rdma_create_id(v->events, &v->listener, NULL, RDMA_PS_TCP) != 0) {
		v->listener = NULL;
		return false;
	}
	if (rdma_bind_addr(v->listener, (struct sockaddr *)at) == 0 && v->listener->verbs) {
		v->ctx = ibv_open_device(v->listener->verbs->device);
		if (v->ctx && device_ask(v) && rdma_listen(v->listener, BACKLOG) == 0) {
			memcpy(&v->addr, rdma_get_local_addr(v->listener), tw_inet_len(at));
			return true;
		}
	}
	taken = errno == EADDRINUSE;
	if (v->ctx)
		ibv_close_device(v->ctx);
	v->ctx = NULL;
	rdma_destroy_id(v->listener);
	v->listener = NULL;
	errno = taken ? EADDRINUSE : ENODEV;
	return false;
}

/* Listens at an address, if it is one of an RDMA device whose port is up. */
static bool device_listen_at(struct tw_verbs *v, const struct sockaddr *sa)
{
	struct sockaddr_storage at = {.ss_family = sa->sa_family};
	struct tw_ports ports;

	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return false;
	memcpy(&at, sa, tw_inet_len(&at));
	tw_ports_parse(v->host.settings->data_ports, &ports);
	for (uint32_t port = ports.first; port <= ports.last; port++) {
		if (device_listen_on(v, &at, port))
			return true;
		if (errno != EADDRINUSE)
			return false;
	}
	if (ports.first)
		v->host.log(TW_LOG_ERROR, "verbs: all ports of TAGWIRE_DATA_PORTS=%s are in use",
			    v->host.settings->data_ports);
	return false;
}

/* Packets need not take the board that names the endpoint: any other will do. */
static bool listen_anywhere(struct tw_verbs *v)
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list) != 0)
		return false;
	for (i = list; i && !found; i = i->ifa_next)
		found = i->ifa_addr && (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK) &&
			i->ifa_addr->sa_family == v->host.board.ss_family &&
			device_listen_at(v, i->ifa_addr);
	freeifaddrs(list);
	return found;
}

enum tw_err tw_verbs_device_open(struct tw_verbs *v)
{
	const struct sockaddr *board = (const struct sockaddr *)&v->host.board;
	char name[NI_MAXHOST] = "?";

	v->events = rdma_create_event_channel();
	if (!v->events) {
		v->host.log(TW_LOG_WARN, "verbs: no connection manager: %s", strerror(errno));
		return TW_EUNREACH;
	}
	tw_sys_set_blocking(v->events->fd, false);
	if (!device_listen_at(v, board) && !listen_anywhere(v)) {
		v->host.log(TW_LOG_INFO, "verbs: no RDMA device that is up has an address here");
		return TW_EUNREACH;
	}
	getnameinfo((struct sockaddr *)&v->addr, tw_inet_len(&v->addr), name, sizeof(name), NULL, 0,
		    NI_NUMERICHOST);
	v->host.log(TW_LOG_INFO, "verbs: %s, %s", ibv_get_device_name(v->ctx->device), name);
	return TW_OK;
}
