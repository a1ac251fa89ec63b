/* SPDX-License-Identifier: BSD-2-Clause */
/* A network without the session layer over it: what it is opened with. */
#ifndef LONE_H
#define LONE_H

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/fds.h"
#include "providers/net/driver.h"

static inline void lone_log(enum tw_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

static const struct tw_driver *lone_driver;

/* A packet of any length. */
static inline struct tw_net_packet *lone_packet(void *owner, bool big)
{
	static struct tw_list list;
	static struct tw_net_slab slab = {.free = &list, .ready = true};
	struct tw_net_packet *p;

	(void)owner;
	(void)big;
	if (!list.next)
		tw_list_init(&list);
	p = tw_list_empty(&list) ? malloc(lone_driver->packet_size + 65536)
				 : tw_list_first(&list, struct tw_net_packet, node);
	if (!tw_list_empty(&list))
		tw_list_del(&p->node);
	if (!p)
		return NULL;
	*p = (struct tw_net_packet){
		.slab = &slab, .data = (char *)p + lone_driver->packet_size, .users = 1};
	return p;
}

/* Of the loopback address; the caller adds the upcalls. */
/* Nobody is late. */
static inline uint64_t lone_called(void *owner)
{
	(void)owner;
	return UINT64_MAX;
}

static inline struct tw_driver_host lone_host(const struct tw_driver *driver, void *owner)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tw_driver_host host = {.owner = owner,
				      .settings = &tw_settings,
				      .log = lone_log,
				      .own_fd = tw_fd_own,
				      .close_fd = tw_fd_close,
				      .packet_get = lone_packet,
				      .called = lone_called};

	lone_driver = driver;
	memcpy(&host.board, &sa, sizeof(sa));
	return host;
}

#endif /* LONE_H */
