/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the members' listening sockets: abstract, made of job, user and slot. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "mrapi/join.h"
#include "mrapi/mrapi_internal.h"
#include "shmem/sock.h"

static void make_name(struct tw_sock_name *name, const char *suffix, uint32_t number)
{
	tw_sock_name(name, "tagwire-mrapi-%s-%u.%s%u", tw_settings.job, geteuid(), suffix, number);
}

int tw_mrapi_listen(const char *suffix, uint32_t number)
{
	struct tw_sock_name name;
	int fd = tw_sock_new(0), err;

	if (fd < 0)
		return -1;
	make_name(&name, suffix, number);
	err = tw_sock_listen(fd, &name, 1024);
	if (err == 0)
		return fd;
	tw_fd_close(fd);
	return errno = err, -1;
}

bool tw_mrapi_nobody(int err)
{
	return err == ECONNREFUSED || err == TW_SOCK_FOREIGN;
}

bool tw_mrapi_passing(int err)
{
	return tw_mrapi_nobody(err) || err == ECONNRESET || err == EPIPE || err == ETIMEDOUT ||
	       err == EAGAIN || err == EINTR;
}

int tw_mrapi_dial(int *fd, const char *suffix, uint32_t number)
{
	struct timeval limit = {TW_MRAPI_REPLY_MS / 1000, 0};
	struct tw_sock_name name;
	int err;

	if (*fd < 0) {
		*fd = tw_sock_new(0);
		if (*fd < 0)
			return errno;
		setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	make_name(&name, suffix, number);
	err = tw_sock_connect(*fd, &name);
	if (err && err != ECONNREFUSED) {
		tw_fd_close(*fd);
		*fd = -1;
	}
	return err;
}

int tw_mrapi_dial_once(int *fd, const char *suffix, uint32_t number)
{
	int err;

	*fd = -1;
	err = tw_mrapi_dial(fd, suffix, number);
	if (err)
		tw_fd_close(*fd);
	return err;
}
