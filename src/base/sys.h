/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls under other names. A program that defines a function `send' replaces the C
 * library's in the whole process, and our calls of send() would run it. So src and
 * providers call no C library function whose name is a plain word
 * (tests/lib/plain_words.def), except through these wrappers, which use longer names or
 * system call numbers. These are no cancellation points: a thread that is cancelled amid a
 * call of ours would leave it half done.
 */
#ifndef TW_SYS_H
#define TW_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

static inline int tw_sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

/* A file of this user alone, which must not exist. */
static inline int tw_sys_create(const char *path)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static inline bool tw_sys_random(void *buf, size_t len)
{
	return syscall(SYS_getrandom, buf, len, 0) == (long)len;
}

#if TW_TSAN
/* The thread sanitizer must see it: the next descriptor of that number is another one. */
int __close(int fd);
#endif

static inline int tw_sys_close(int fd)
{
#if TW_TSAN
	return __close(fd);
#else
	return (int)syscall(SYS_close, fd);
#endif
}

static inline ssize_t tw_sys_read(int fd, void *buf, size_t len)
{
	return syscall(SYS_read, fd, buf, len);
}

/* From the start of the file. The zeros are the offset, however a processor passes 64 bits. */
static inline ssize_t tw_sys_read_start(int fd, void *buf, size_t len)
{
	return syscall(SYS_pread64, fd, buf, len, 0l, 0l, 0l);
}

static inline ssize_t tw_sys_write(int fd, const void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}

static inline bool tw_sys_readable(const char *path)
{
	return faccessat(AT_FDCWD, path, R_OK, 0) == 0;
}

/* A negative time means no limit, as with poll(). */
static inline int tw_sys_poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	return (int)syscall(SYS_ppoll, fds, n, ms < 0 ? NULL : &t, NULL, 0);
}

static inline int tw_sys_socket(int family, int type, int protocol)
{
	return (int)syscall(SYS_socket, family, type, protocol);
}

static inline int tw_sys_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	return (int)syscall(SYS_bind, fd, sa, len);
}

static inline int tw_sys_listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog);
}

static inline int tw_sys_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	return (int)syscall(SYS_connect, fd, sa, len);
}

static inline int tw_sys_shutdown(int fd, int how)
{
	return (int)syscall(SYS_shutdown, fd, how);
}

static inline ssize_t tw_sys_send(int fd, const void *buf, size_t len, int flags)
{
	return syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
}

static inline ssize_t tw_sys_recv(int fd, void *buf, size_t len, int flags)
{
	return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

#endif /* TW_SYS_H */
