/* SPDX-License-Identifier: BSD-2-Clause */
/* A network without the session layer over it: what it is opened with. */
#ifndef LONE_H
#define LONE_H

#include <netinet/in.h>
#include <string.h>

#include "base/fds.h"
#include "providers/net/driver.h"

static inline void lone_log(enum tw_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

/* Of the loopback address; the caller adds the upcalls. */
static inline struct tw_driver_host lone_host(void *owner)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tw_driver_host host = {.owner = owner,
				      .settings = &tw_settings,
				      .log = lone_log,
				      .own_fd = tw_fd_own,
				      .close_fd = tw_fd_close};

	memcpy(&host.board, &sa, sizeof(sa));
	return host;
}

#endif /* LONE_H */
