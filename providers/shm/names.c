/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract socket names, one per endpoint, private to a network namespace. A name
 * disappears with its process. Any user may occupy a name, so both sides check the user of
 * the other and skip a name that another user holds, in favour of the next suffix.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

#define SUFFIXES 4
#define BACKLOG 256

static socklen_t make_name(struct sockaddr_un *sa, uint64_t nic_id, uint32_t endpoint_id,
			   int suffix)
{
	int n;

	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1, "tagwire-%s-%012llx-%u.%d",
		     tw_settings.job, (unsigned long long)nic_id, endpoint_id, suffix);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_socket(void)
{
	return tw_fd_own(tw_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

enum tw_err tw_shm_cred(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid())
		return TW_EPERM;
	*pid = cred.pid;
	return TW_OK;
}

static enum tw_err dial_name(const struct sockaddr_un *sa, socklen_t len, int *out)
{
	enum tw_err err = TW_OK;
	int fd = make_socket();
	pid_t pid;

	if (fd < 0)
		return TW_ENOMEM;
	if (tw_sys_connect(fd, (const struct sockaddr *)sa, len) < 0)
		err = errno == EAGAIN ? TW_AGAIN : TW_ECLOSED;
	else if (tw_shm_cred(fd, &pid) != TW_OK)
		err = TW_EPERM;
	if (err != TW_OK)
		tw_fd_close(fd);
	else
		*out = fd;
	return err;
}

enum tw_err tw_shm_dial(uint64_t nic_id, uint32_t endpoint_id, int *fd)
{
	struct sockaddr_un sa;

	for (int i = 0; i < SUFFIXES; i++) {
		socklen_t len = make_name(&sa, nic_id, endpoint_id, i);
		enum tw_err err = dial_name(&sa, len, fd);

		if (err != TW_ECLOSED && err != TW_EPERM)
			return err;
	}
	return TW_ECLOSED;
}

enum tw_err tw_shm_listen(uint64_t nic_id, uint32_t endpoint_id, int *out)
{
	struct sockaddr_un sa;
	int fd = make_socket();

	if (fd < 0)
		return TW_ENOMEM;
	for (int i = 0; i < SUFFIXES; i++) {
		socklen_t len = make_name(&sa, nic_id, endpoint_id, i);
		int other;
		enum tw_err err;

		if (tw_sys_bind(fd, (struct sockaddr *)&sa, len) == 0) {
			if (tw_sys_listen(fd, BACKLOG) < 0)
				break;
			*out = fd;
			return TW_OK;
		}
		if (errno != EADDRINUSE)
			break;
		err = dial_name(&sa, len, &other);
		if (err == TW_OK)
			tw_fd_close(other);
		if (err != TW_EPERM) {
			tw_fd_close(fd);
			return err == TW_ENOMEM ? err : TW_EBUSY;
		}
	}
	tw_fd_close(fd);
	return TW_ENOMEM;
}
