/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the members' listening sockets: abstract, made of job, user and slot. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "base/sys.h"
#include "mrapi/join.h"
#include "mrapi/mrapi_internal.h"

static socklen_t make_name(struct sockaddr_un *sa, const char *suffix, uint32_t number)
{
	int n;

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "tagwire-mrapi-%s-%u.%s%u",
		     tw_settings.job, geteuid(), suffix, number);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_socket(void)
{
	return tw_fd_own(tw_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

int tw_mrapi_listen(const char *suffix, uint32_t number)
{
	struct sockaddr_un sa;
	socklen_t len = make_name(&sa, suffix, number);
	int fd = make_socket(), err;

	if (fd < 0)
		return -1;
	if (tw_sys_bind(fd, (struct sockaddr *)&sa, len) == 0 && tw_sys_listen(fd, 1024) == 0)
		return fd;
	err = errno;
	tw_fd_close(fd);
	errno = err;
	return -1;
}

bool tw_mrapi_nobody(int err)
{
	return err == ECONNREFUSED || err == TW_MRAPI_FOREIGN;
}

bool tw_mrapi_passing(int err)
{
	return tw_mrapi_nobody(err) || err == ECONNRESET || err == EPIPE || err == ETIMEDOUT ||
	       err == EAGAIN || err == EINTR;
}

/* 0 or an error; after ECONNREFUSED the socket can be used again. */
static int connect_to(int fd, const char *suffix, uint32_t number)
{
	struct sockaddr_un sa;
	socklen_t len = make_name(&sa, suffix, number), credlen = sizeof(struct ucred);
	struct ucred cred;

	if (tw_sys_connect(fd, (struct sockaddr *)&sa, len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &credlen) < 0)
		return errno;
	return cred.uid == geteuid() ? 0 : TW_MRAPI_FOREIGN;
}

int tw_mrapi_dial(int *fd, const char *suffix, uint32_t number)
{
	struct timeval limit = {TW_MRAPI_REPLY_MS / 1000, 0};
	int err;

	if (*fd < 0) {
		*fd = make_socket();
		if (*fd < 0)
			return errno;
		setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
	err = connect_to(*fd, suffix, number);
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
