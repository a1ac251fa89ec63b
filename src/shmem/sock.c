/* SPDX-License-Identifier: BSD-2-Clause */
#include "shmem/sock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/thread.h"

#define NOBODY 65534u /* kernel.overflowuid; if it is another, unnamed users are refused */

int tw_sock_new(void)
{
	return tw_fd_own(tw_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int tw_sock_connect(int *fd, const struct sockaddr_un *sa, socklen_t len)
{
	pid_t pid;
	int err = 0;

	if (*fd < 0)
		*fd = tw_sock_new();
	if (*fd < 0)
		return errno;
	if (tw_sys_connect(*fd, (const struct sockaddr *)sa, len) < 0)
		err = errno == ENOENT ? ECONNREFUSED : errno;
	if (!err)
		err = tw_sock_peer(*fd, &pid);
	if (!err || err == ECONNREFUSED || err == TW_SOCK_UNNAMED)
		return err;
	tw_fd_close(*fd);
	*fd = -1;
	return err;
}

/* Whether a user namespace has the id that users without one there seem to have. */
static bool sock_has_nobody(void)
{
	TW_NOT_CANCELLED;
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long first, outside, n;
	bool has = !f;

	while (f && !has && fscanf(f, "%lu %lu %lu", &first, &outside, &n) == 3)
		has = NOBODY - first < n;
	if (f)
		fclose(f);
	return has;
}

int tw_sock_peer(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (tw_sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return errno;
	*pid = cred.pid;
	if (cred.uid == NOBODY && !sock_has_nobody())
		return TW_SOCK_UNNAMED;
	return cred.uid == tw_sys_euid() ? 0 : TW_SOCK_FOREIGN;
}

int tw_sock_pidfd(int fd)
{
	int pidfd = -1;
	socklen_t len = sizeof(pidfd);

	if (tw_sys_getsockopt(fd, SOL_SOCKET, TW_PEERPIDFD, &pidfd, &len) < 0)
		return -1;
	return tw_fd_own(pidfd);
}

/* Room for one descriptor more than anybody should send: it would go unnoticed. */
union control {
	char space[CMSG_SPACE((TW_SOCK_FDS + 1) * sizeof(int))];
	struct cmsghdr align;
};

int tw_sock_send(int fd, const void *msg, size_t len, const int *fds, unsigned nfds)
{
	union control control;
	struct iovec iov = {(void *)(uintptr_t)msg, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (nfds) {
		memset(&control, 0, sizeof(control));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	}
	n = tw_sys_sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return errno;
	return (size_t)n == len ? 0 : EPROTO;
}

/* The descriptors that came with a message. */
static unsigned unpack(struct msghdr *m, int *fds)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	unsigned n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	return n;
}

int tw_sock_recv(int fd, void *msg, size_t len, int *fds, unsigned nfds)
{
	union control control;
	struct iovec iov = {msg, len};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = tw_sys_recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int got[sizeof(control) / sizeof(int)];
	unsigned ngot;

	if (n < 0)
		return errno;
	ngot = unpack(&m, got);
	if ((size_t)n == len && ngot == nfds && !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC))) {
		for (unsigned i = 0; i < nfds; i++)
			fds[i] = got[i];
		return 0;
	}
	for (unsigned i = 0; i < ngot; i++)
		tw_sys_close(got[i]);
	if (n == 0)
		return ECONNRESET;
	if (!(m.msg_flags & MSG_CTRUNC) || ngot >= nfds)
		return EPROTO;
	errno = EMFILE;
	tw_log_no_descriptor();
	return EMFILE;
}
