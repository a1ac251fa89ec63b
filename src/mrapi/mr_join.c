/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a process becomes a member of its job. Every member listens on an abstract
 * socket named after job, user and its slot, and hands the segment and the arena
 * to whoever asks. One process joins at a time: it holds the name ".lock". If no
 * member answers there is none, and it makes a new segment. So nothing is left
 * behind when the last member goes, however it goes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
#include "base/sys.h"
#include "mrapi/mr.h"

#define LOCK_SUFFIXES 4
#define LOCK_SECONDS 30	 /* others join before us at most so long */
#define PATIENCE_MS 3000 /* a job that does not answer for so long is given up */
#define ANSWER_MS 5000	 /* a member that was asked answers within */
#define ARENA_BYTES (1ull << 42)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

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

/* A listening socket of that name; -1 with errno. */
static int listen_at(const char *suffix, uint32_t number)
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

/*
 * Connects a socket to that name if a process of this user has it; else -1 with
 * errno, and after ECONNREFUSED the socket is as it was.
 */
static int connect_to(int fd, const char *suffix, uint32_t number, pid_t *pid)
{
	struct sockaddr_un sa;
	socklen_t len = make_name(&sa, suffix, number), credlen = sizeof(struct ucred);
	struct ucred cred;

	if (tw_sys_connect(fd, (struct sockaddr *)&sa, len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &credlen) < 0)
		return -1;
	if (cred.uid != geteuid()) {
		errno = EPERM;
		return -1;
	}
	*pid = cred.pid;
	return 0;
}

static int dialling_socket(void)
{
	struct timeval limit = {ANSWER_MS / 1000, 0};
	int fd = make_socket();

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return fd;
}

static int dial_at(const char *suffix, uint32_t number, pid_t *pid)
{
	int fd = dialling_socket(), err;

	if (fd < 0 || connect_to(fd, suffix, number, pid) == 0)
		return fd;
	err = errno;
	tw_fd_close(fd);
	errno = err;
	return -1;
}

bool tw_mr_gone(uint32_t proc)
{
	pid_t pid;
	int fd = dial_at("", proc, &pid), err = errno;

	tw_fd_close(fd);
	return fd < 0 && err == ECONNREFUSED;
}

/* A connection to the first member from *i on; -1 when there is none. */
static int dial_next(uint32_t *i)
{
	int fd = dialling_socket();
	pid_t pid;

	for (; fd >= 0 && *i < TW_MR_PROCS; ++*i) {
		if (connect_to(fd, "", *i, &pid) == 0)
			return fd;
		if (errno == ECONNREFUSED)
			continue;
		tw_fd_close(fd);
		fd = dialling_socket();
	}
	tw_fd_close(fd);
	return -1;
}

/* ---------------------------------------------------------------- the lock */

/* Waits until the process at the other end has gone. */
static void wait_for_end(int fd, uint64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t now = tw_futex_now();

	if (now < deadline)
		tw_sys_poll(&p, 1, (int)((deadline - now) / 1000000 + 1));
	tw_fd_close(fd);
}

/* The right to join; -1 when it is not to be had. Closing it gives it back. */
static int take_lock(void)
{
	uint64_t deadline = tw_futex_now() + LOCK_SECONDS * 1000000000ull;
	uint32_t suffix = 0;

	while (suffix < LOCK_SUFFIXES && tw_futex_now() < deadline) {
		int fd = listen_at("lock", suffix), other;
		pid_t pid;

		if (fd >= 0)
			return fd;
		if (errno != EADDRINUSE)
			return -1;
		other = dial_at("lock", suffix, &pid);
		if (other >= 0)
			wait_for_end(other, deadline);
		else if (errno == EPERM)
			suffix++; /* another user sits there */
		else
			sched_yield();
	}
	return -1;
}

/* ------------------------------------------------------------- the segment */

static bool map_segment(int fd)
{
	size_t size = sizeof(struct tw_mr_segment);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return false;
	/* A forked child is no member. */
	madvise(p, size, MADV_DONTFORK);
	if (tw_mr.seg)
		munmap(tw_mr.seg, size);
	tw_mr.seg = p;
	return true;
}

static int make_file(const char *name, uint64_t size, size_t ready)
{
	int fd = tw_fd_own(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) == 0 &&
	    (ready == 0 || fallocate(fd, 0, 0, (off_t)ready) == 0) &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	tw_fd_close(fd);
	return -1;
}

/* The arena is sparse: its size is a limit, not a cost. */
static uint64_t arena_size(void)
{
	struct rlimit limit;
	uint64_t size = ARENA_BYTES;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
		size = limit.rlim_cur;
	return size & ~(uint64_t)(TW_PAGE - 1);
}

static bool make_segment(void)
{
	uint64_t arena = arena_size();

	tw_mr.segfd = make_file("tagwire-mrapi", sizeof(struct tw_mr_segment),
				offsetof(struct tw_mr_segment, mutex));
	tw_mr.arenafd = make_file("tagwire-mrapi-memory", arena, 0);
	if (tw_mr.segfd < 0 || tw_mr.arenafd < 0 || !map_segment(tw_mr.segfd)) {
		tw_fd_close(tw_mr.segfd);
		tw_fd_close(tw_mr.arenafd);
		return false;
	}
	tw_mr.seg->arena_size = arena;
	tw_mr_table_init(tw_mr.seg);
	tw_mr.seg->version = TW_MR_VERSION;
	tw_mr.seg->magic = TW_MR_MAGIC;
	return true;
}

/* Whether the file is one that nobody can take away under us. */
static bool sound(int fd, uint64_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
	       (size == 0 || (uint64_t)st.st_size == size);
}

/* Asks a member for the two files. */
static bool ask(int fd, int files[2])
{
	union {
		char space[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct tw_mr_message m = {.type = TW_MR_WANT};
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct cmsghdr *c;

	if (tw_sys_send(fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m) ||
	    tw_sys_poll(&p, 1, ANSWER_MS) != 1 ||
	    recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) != sizeof(m) || m.type != TW_MR_GIVE)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(2 * sizeof(int)))
		return false;
	memcpy(files, CMSG_DATA(c), 2 * sizeof(int));
	tw_fd_own(files[0]);
	tw_fd_own(files[1]);
	return true;
}

static bool take_segment(int fd)
{
	int files[2];

	if (!ask(fd, files))
		return false;
	if (sound(files[0], sizeof(struct tw_mr_segment)) && sound(files[1], 0) &&
	    map_segment(files[0]) && tw_mr.seg->magic == TW_MR_MAGIC &&
	    tw_mr.seg->version == TW_MR_VERSION) {
		tw_mr.segfd = files[0];
		tw_mr.arenafd = files[1];
		return true;
	}
	tw_log(TW_LOG_ERROR, "mrapi: the job runs with another version of the library");
	tw_fd_close(files[0]);
	tw_fd_close(files[1]);
	return false;
}

/* The segment of the job, from whichever member answers, or a new one. */
static bool find_segment(void)
{
	bool refused = false;
	int fd;

	for (uint32_t i = 0; (fd = dial_next(&i)) >= 0; i++) {
		bool got = take_segment(fd);
		pid_t pid;

		tw_fd_close(fd);
		if (got)
			return true;
		/* It may have been leaving: then its name is free by now. */
		fd = dial_at("", i, &pid);
		refused |= fd >= 0;
		tw_fd_close(fd);
	}
	return !refused && make_segment();
}

/* ------------------------------------------------------------- a slot in it */

static int claim_slot(void)
{
	for (uint32_t i = 0; i < TW_MR_PROCS; i++) {
		struct tw_mr_proc *p = &tw_mr.seg->proc[i];
		uint64_t life = atomic_load(&p->life);
		uint32_t next = (uint32_t)(life >> 8) + 1;
		int fd;

		/* JOINING: we hold the lock, so whoever joined there is dead. */
		if ((life & 0xff) != TW_MR_FREE && (life & 0xff) != TW_MR_JOINING)
			continue;
		fd = listen_at("", i);
		if (fd < 0)
			continue; /* somebody else's, or a forked child's */
		atomic_store(&p->life, (uint64_t)next << 8 | TW_MR_JOINING);
		p->pid = (uint32_t)getpid();
		tw_mr.proc = i;
		tw_mr.incarnation = next;
		return fd;
	}
	return -1;
}

/* Connects to every member, so that each learns of the other's death. */
static void announce(void)
{
	struct tw_mr_message hello = {
		.type = TW_MR_HELLO, .proc = tw_mr.proc, .incarnation = tw_mr.incarnation};

	for (uint32_t i = 0; i < TW_MR_PROCS; i++) {
		uint64_t life = atomic_load(&tw_mr.seg->proc[i].life);
		pid_t pid;
		int fd;

		if (i == tw_mr.proc || (life & 0xff) == TW_MR_FREE ||
		    (life & 0xff) == TW_MR_JOINING)
			continue;
		fd = dial_at("", i, &pid);
		if (fd >= 0 &&
		    tw_sys_send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello)) {
			tw_mr_service_watch(fd, i, (uint32_t)(life >> 8), pid);
			continue;
		}
		tw_fd_close(fd);
		tw_mr_bury(i, (uint32_t)(life >> 8));
	}
}

static mrapi_status_t join_locked(void)
{
	uint64_t end = tw_clock() + tw_clock_us(1000 * PATIENCE_MS);
	bool found = find_segment();
	int listener;

	/* A member that is dying or leaving may have taken the question with it. */
	while (!found && tw_clock() < end) {
		usleep(10000);
		found = find_segment();
	}
	if (!found) {
		tw_log(TW_LOG_ERROR, "mrapi: no member of the job hands its memory over");
		return MRAPI_ENO_INIT;
	}
	listener = claim_slot();
	if (listener < 0) {
		tw_log(TW_LOG_ERROR, "mrapi: the job has no room for another process");
		goto fail;
	}
	if (tw_mr_service_start(listener) < 0) {
		tw_log(TW_LOG_ERROR, "mrapi: cannot start a thread: error %d", errno);
		goto fail_slot;
	}
	announce();
	atomic_store(&tw_mr.seg->proc[tw_mr.proc].life,
		     (uint64_t)tw_mr.incarnation << 8 | TW_MR_LIVE);
	return MRAPI_SUCCESS;

fail_slot:
	tw_fd_close(listener);
	atomic_store(&tw_mr.seg->proc[tw_mr.proc].life,
		     (uint64_t)tw_mr.incarnation << 8 | TW_MR_FREE);
fail:
	tw_fd_close(tw_mr.segfd);
	tw_fd_close(tw_mr.arenafd);
	return MRAPI_ENO_INIT;
}

mrapi_status_t tw_mr_join(void)
{
	int lock = take_lock();
	mrapi_status_t status;

	if (lock < 0) {
		tw_log(TW_LOG_ERROR, "mrapi: cannot join the job: error %d", errno);
		return MRAPI_ENO_INIT;
	}
	status = join_locked();
	tw_fd_close(lock);
	return status;
}

void tw_mr_leave(void)
{
	_Atomic(uint64_t) *life = &tw_mr.seg->proc[tw_mr.proc].life;

	atomic_store(life, (uint64_t)tw_mr.incarnation << 8 | TW_MR_LEAVING);
	tw_mr_service_stop();
	atomic_store(life, (uint64_t)tw_mr.incarnation << 8 | TW_MR_FREE);
	tw_mr_service_close();
	tw_fd_close(tw_mr.segfd);
	tw_fd_close(tw_mr.arenafd);
}
