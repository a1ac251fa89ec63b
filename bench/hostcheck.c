/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/inet.h"
#include "hostcheck.h"
#include "shmem/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct table_column columns[] = {
	{"what", "what", "%s"},
	{"here", "here", "%s"},
	{"without_it", "without it", "%s"},
};

/* Each returns 0 or an error number. */

static int opened(int fd)
{
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_memfd(void)
{
	int fd = memfd_create("mx_info", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;

	if (fd < 0)
		return errno;
	if (ftruncate(fd, 4096) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		err = errno;
	close(fd);
	return err;
}

static int try_epoll(void)
{
	return opened(epoll_create1(EPOLL_CLOEXEC));
}

static int try_eventfd(void)
{
	return opened(eventfd(0, EFD_CLOEXEC));
}

static int try_timerfd(void)
{
	return opened(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

/* A descriptor goes from one socket to another. */
static int try_descriptors(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int pair[2], err = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	memcpy(CMSG_DATA(&control.head), &pair[0], sizeof(int));
	if (sendmsg(pair[0], &m, MSG_DONTWAIT) < 0)
		err = errno;
	close(pair[0]);
	close(pair[1]);
	return err;
}

/* A child reads its parent: that needs what one process needs to read any other. */
int hostcheck_copy(void)
{
	char theirs = 1, mine = 0;
	struct iovec local = {&mine, 1}, remote = {&theirs, 1};
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0)
		return errno;
	if (child == 0)
		_exit(syscall(SYS_process_vm_readv, parent, &local, 1l, &remote, 1l, 0l) == 1
			      ? 0
			      : errno);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return EINTR;
	return WEXITSTATUS(status);
}

static int try_membarrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0 ? errno
											    : 0;
}

static int try_pidfd(void)
{
#ifdef SYS_pidfd_open
	return opened((int)syscall(SYS_pidfd_open, getpid(), 0));
#else
	return ENOSYS;
#endif
}

/* Of a process that need not have a number here. */
static int try_peer_pidfd(void)
{
	int pair[2], pidfd = -1, err;
	socklen_t len = sizeof(pidfd);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return errno;
	err = getsockopt(pair[0], SOL_SOCKET, TW_PEERPIDFD, &pidfd, &len) < 0 ? errno
									      : opened(pidfd);
	close(pair[0]);
	close(pair[1]);
	return err;
}

static int try_tls(void)
{
	return tw_inet_has_tls() ? 0 : errno;
}

static int try_proc(void)
{
	return access("/proc/self/fd", R_OK) < 0 || access("/proc/net/unix", R_OK) < 0 ? errno : 0;
}

static const struct {
	const char *name;
	int (*try)(void);
	const char *without;
	bool needed;
} calls[] = {
	{"memfd_create", try_memfd, "no endpoint opens", true},
	{"epoll_create1", try_epoll, "no endpoint opens", true},
	{"eventfd", try_eventfd, "no endpoint opens", true},
	{"timerfd_create", try_timerfd, "no endpoint opens", true},
	{"descriptors over sockets", try_descriptors, "no shared memory between processes", true},
	{"process_vm_readv", hostcheck_copy,
	 "long messages are copied twice, through the ring; see tagwire(7)", false},
	{"membarrier", try_membarrier, "each call takes a locked instruction more", false},
	{"pidfd_open", try_pidfd, "a dead process with living children is noticed late", false},
	{"SO_PEERPIDFD", try_peer_pidfd,
	 "the same, if it is in another PID namespace; Linux 6.5 has it", false},
	{"TLS of TCP sockets", try_tls, "TAGWIRE_ENCRYPT=1 is slower, by OpenSSL; modprobe tls",
	 false},
	{"/proc", try_proc, "scalar channels use packets, and mrapi_initialize takes longer", false},
};

static void put(struct table *t, const char *name, const char *here, const char *without)
{
	table_text(t, name);
	table_text(t, here);
	if (without)
		table_text(t, without);
	else
		table_none(t);
}

static void put_limit(struct table *t, const char *name, int which, rlim_t enough,
		      const char *without)
{
	struct rlimit limit = {0, 0};
	char text[32] = "unlimited";

	getrlimit(which, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		snprintf(text, sizeof(text), "%ju", (uintmax_t)limit.rlim_cur);
	put(t, name, text, limit.rlim_cur < enough ? without : NULL);
}

static void put_processors(struct table *t)
{
	cpu_set_t allowed;
	char text[32];
	int n = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;

	snprintf(text, sizeof(text), "%d", n);
	put(t, "processors", text, n == 1 ? "a polling thread yields after each poll" : NULL);
}

/* "max 100000", or the microseconds of every period that this group may run. */
static void put_quota(struct table *t)
{
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
	double quota, period;
	char text[32] = "none";
	bool limited = f && fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0;

	if (f)
		fclose(f);
	if (limited)
		snprintf(text, sizeof(text), "%.0f%%", 100 * quota / period);
	put(t, "processor quota", text,
	    limited ? "polling uses it up: let calls wait instead" : NULL);
}

/* As far as it is given: the others are the library's choice. */
static void put_directory(struct table *t)
{
	const char *dir = getenv("TAGWIRE_DIR");
	struct stat st;
	int err = 0;

	if (!dir || !*dir)
		return;
	if (stat(dir, &st) < 0)
		err = errno == ENOENT ? 0 : errno; /* the library makes it */
	else if (st.st_uid != geteuid() || st.st_mode & 077)
		err = EPERM;
	put(t, "TAGWIRE_DIR", err ? strerror(err) : "yes",
	    err ? "containers with other networks are reached over tcp" : NULL);
}

bool hostcheck(enum table_format format)
{
	bool complete = true;
	struct table t;

	table_open_kind(&t, format, "check", columns, sizeof(columns) / sizeof(*columns));
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		int err = calls[i].try();

		put(&t, calls[i].name, err ? strerror(err) : "yes", err ? calls[i].without : NULL);
		complete &= !err || !calls[i].needed;
	}
	put_limit(&t, "open descriptors", RLIMIT_NOFILE, 256,
		  "an endpoint takes 5, each of its peers 2");
	put_limit(&t, "locked memory, bytes", RLIMIT_MEMLOCK, 64 << 20,
		  "RDMA registers no more than that");
	put_limit(&t, "address space, bytes", RLIMIT_AS, 1 << 30, "rings and segments may not fit");
	put_processors(&t);
	put_quota(&t);
	put_directory(&t);
	table_close(&t);
	return complete;
}
