/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls under other names. A program that defines a function `send' or `sendmsg'
 * replaces the C library's in the whole process, and our calls would run it. So src and
 * providers reach the kernel by system call numbers. They call no function of the C library
 * whose name is a program's to define; tests/checks/imports has the rule, and the exceptions.
 * These are no cancellation points: a thread that is cancelled amid a call of ours would
 * leave it half done.
 */
#ifndef TW_SYS_H
#define TW_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

static inline int tw_sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

/* A file of this user alone, whatever the umask, which must not exist. */
static inline int tw_sys_create(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			      0600);

	if (fd >= 0)
		syscall(SYS_fchmod, fd, 0600);
	return fd;
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

static inline ssize_t tw_sys_write(int fd, const void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}

static inline bool tw_sys_readable(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, R_OK) == 0;
}

/* The call whose time has 64 bits, and its time; a libc's struct timespec may have 32. */
#ifdef SYS_ppoll_time64
#define TW_SYS_PPOLL SYS_ppoll_time64
#else
#define TW_SYS_PPOLL SYS_ppoll
#endif
struct tw_sys_time {
	int64_t s, ns;
};

/* A negative time means no limit, as with poll(). */
static inline int tw_sys_poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct tw_sys_time t = {ms / 1000, ms % 1000 * 1000000};

	return (int)syscall(TW_SYS_PPOLL, fds, n, ms < 0 ? NULL : &t, NULL, 0);
}

static inline void tw_sys_sleep_us(unsigned us)
{
	struct tw_sys_time t = {us / 1000000, us % 1000000 * 1000};

	syscall(TW_SYS_PPOLL, NULL, 0, &t, NULL, 0);
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

static inline ssize_t tw_sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return syscall(SYS_sendmsg, fd, m, flags);
}

static inline ssize_t tw_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return syscall(SYS_recvmsg, fd, m, flags);
}

static inline int tw_sys_accept(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	return (int)syscall(SYS_accept4, fd, from, len, flags);
}

static inline int tw_sys_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

static inline int tw_sys_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

static inline int tw_sys_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	return (int)syscall(SYS_getsockname, fd, sa, len);
}

/* ----------------------------------------------------------------- descriptors */

#if TW_TSAN
/* The thread sanitizer must see them: what was written before a descriptor is added is read after. */
static inline int tw_sys_epoll_create(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

static inline int tw_sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return epoll_ctl(epfd, op, fd, ev);
}

static inline int tw_sys_epoll_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	return epoll_pwait(epfd, ev, n, ms, NULL);
}
#else
static inline int tw_sys_epoll_create(void)
{
	return (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);
}

static inline int tw_sys_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, ev);
}

static inline int tw_sys_epoll_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	return (int)syscall(SYS_epoll_pwait, epfd, ev, n, ms, NULL, 0);
}
#endif

static inline int tw_sys_eventfd(void)
{
	return (int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC);
}

static inline int tw_sys_pipe(int fd[2])
{
	return (int)syscall(SYS_pipe2, fd, O_CLOEXEC | O_NONBLOCK);
}

static inline int tw_sys_timer(void)
{
	return (int)syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

#ifdef SYS_timerfd_settime64
#define TW_SYS_TIMERFD_SETTIME SYS_timerfd_settime64
#else
#define TW_SYS_TIMERFD_SETTIME SYS_timerfd_settime
#endif

/* Expires once, after so many nanoseconds; 0: never. */
static inline void tw_sys_timer_set(int fd, uint64_t ns)
{
	struct {
		struct tw_sys_time interval, value;
	} t = {{0, 0}, {(int64_t)(ns / 1000000000), (int64_t)(ns % 1000000000)}};

	syscall(TW_SYS_TIMERFD_SETTIME, fd, 0, &t, NULL);
}

static inline int tw_sys_dup(int from, int to)
{
	return (int)syscall(SYS_dup3, from, to, O_CLOEXEC);
}

/* The call whose struct flock has 64 bits. */
static inline int tw_sys_fcntl(int fd, int cmd, void *arg)
{
#ifdef SYS_fcntl64
	return (int)syscall(SYS_fcntl64, fd, cmd, arg);
#else
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
#endif
}

static inline void tw_sys_set_blocking(int fd, bool blocks)
{
	int flags = tw_sys_fcntl(fd, F_GETFL, NULL) & ~O_NONBLOCK;

	tw_sys_fcntl(fd, F_SETFL, (void *)(intptr_t)(blocks ? flags : flags | O_NONBLOCK));
}

/* ----------------------------------------------------------------------- files */

/* Where the C library passes these arguments and structures as they are. */
#if defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) ||       \
			  defined(__s390x__) || defined(__powerpc64__))
static inline int tw_sys_fallocate(int fd, int mode, off_t at, off_t len)
{
	return (int)syscall(SYS_fallocate, fd, mode, at, len);
}

static inline int tw_sys_ftruncate(int fd, off_t len)
{
	return (int)syscall(SYS_ftruncate, fd, len);
}

static inline off_t tw_sys_lseek(int fd, off_t at, int whence)
{
	return syscall(SYS_lseek, fd, at, whence);
}

static inline int tw_sys_fstat(int fd, struct stat *st)
{
	return (int)syscall(SYS_fstat, fd, st);
}

static inline int tw_sys_fstatfs(int fd, struct statfs *fs)
{
	return (int)syscall(SYS_fstatfs, fd, fs);
}
#else
#define tw_sys_fallocate fallocate
#define tw_sys_ftruncate ftruncate
#define tw_sys_fstat fstat
#define tw_sys_lseek lseek
#define tw_sys_fstatfs fstatfs
#endif

/* Of the file that links lead to; no right to it is needed. */
static inline bool tw_sys_stat(const char *path, struct stat *st)
{
	int fd = tw_sys_open(path, O_PATH | O_CLOEXEC);
	bool found = fd >= 0 && tw_sys_fstat(fd, st) == 0;

	if (fd >= 0)
		tw_sys_close(fd);
	return found;
}

static inline int tw_sys_link(const char *from, const char *to)
{
	return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static inline void tw_sys_unlink(const char *path)
{
	syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static inline int tw_sys_flock(int fd, int how)
{
	return (int)syscall(SYS_flock, fd, how);
}

static inline ssize_t tw_sys_readlink(const char *path, char *to, size_t size)
{
	return syscall(SYS_readlinkat, AT_FDCWD, path, to, size);
}

/* Of this user alone, whatever the umask. */
static inline void tw_sys_mkdir(const char *path)
{
	if (syscall(SYS_mkdirat, AT_FDCWD, path, 0700) == 0)
		syscall(SYS_fchmodat, AT_FDCWD, path, 0700);
}

/* ------------------------------------------------------------- process and host */

static inline pid_t tw_sys_pid(void)
{
	return (pid_t)syscall(SYS_getpid);
}

static inline pid_t tw_sys_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static inline uid_t tw_sys_euid(void)
{
#ifdef SYS_geteuid32
	return (uid_t)syscall(SYS_geteuid32);
#else
	return (uid_t)syscall(SYS_geteuid);
#endif
}

/*
 * Whether it runs with more rights than whoever started it. Then the environment, which is
 * the starter's, names no code, no files, and nothing to trust.
 */
static inline bool tw_sys_privileged(void)
{
	return getauxval(AT_SECURE) != 0;
}

/* The soft limit of a resource; the highest number where there is none. */
static inline uint64_t tw_sys_limit(int resource)
{
	uint64_t limit[2];

	return syscall(SYS_prlimit64, 0, resource, NULL, limit) == 0 ? limit[0] : UINT64_MAX;
}

static inline bool tw_sys_hostname(char *name, size_t size)
{
	struct utsname host;

	if (syscall(SYS_uname, &host) < 0)
		return false;
	snprintf(name, size, "%.*s", (int)size - 1, host.nodename);
	return true;
}

static inline ssize_t tw_sys_vm_copy(pid_t pid, bool write, const struct iovec *local,
				     unsigned long nlocal, const struct iovec *remote,
				     unsigned long nremote)
{
	return syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, pid, local, nlocal,
		       remote, nremote, 0ul);
}

#endif /* TW_SYS_H */
