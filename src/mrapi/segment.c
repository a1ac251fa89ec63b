/* SPDX-License-Identifier: BSD-2-Clause */
/* The segment and the arena of a job: made by its first member, passed to the others. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/page.h"
#include "base/sys.h"
#include "mrapi/join.h"
#include "mrapi/mrapi_internal.h"

#define ARENA_BYTES (1ull << 42)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static bool map_segment(int fd)
{
	size_t size = sizeof(struct tw_mrapi_segment);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return false;
	/* A forked child is not a member. */
	madvise(p, size, MADV_DONTFORK);
	if (tw_mrapi.seg)
		munmap(tw_mrapi.seg, size);
	tw_mrapi.seg = p;
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
	return tw_page_down(size);
}

static bool make_segment(void)
{
	uint64_t arena = arena_size();

	tw_mrapi.segfd = make_file("tagwire-mrapi", sizeof(struct tw_mrapi_segment),
				   offsetof(struct tw_mrapi_segment, mutex));
	tw_mrapi.arenafd = make_file("tagwire-mrapi-memory", arena, 0);
	if (tw_mrapi.segfd < 0 || tw_mrapi.arenafd < 0 || !map_segment(tw_mrapi.segfd)) {
		tw_fd_close(tw_mrapi.segfd);
		tw_fd_close(tw_mrapi.arenafd);
		return false;
	}
	tw_mrapi.seg->arena_size = arena;
	tw_mrapi_table_init(tw_mrapi.seg);
	tw_mrapi.seg->version = TW_MRAPI_VERSION;
	tw_mrapi.seg->magic = TW_MRAPI_MAGIC;
	return true;
}

/* Whether the file is sealed, so that no process can truncate it. */
static bool sound(int fd, uint64_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
	       (size == 0 || (uint64_t)st.st_size == size);
}

/* Extracts the two descriptors of a message: 0 or an error. */
static int unpack(struct msghdr *msg, int files[2])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	size_t n = c && c->cmsg_type == SCM_RIGHTS ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

	if (n > 0)
		memcpy(files, CMSG_DATA(c), n * sizeof(int));
	if (n == 2) {
		tw_fd_own(files[0]);
		tw_fd_own(files[1]);
		return 0;
	}
	/* This process has too few free descriptors. */
	if (n == 1)
		tw_sys_close(files[0]);
	return msg->msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
}

/* Requests the two files from a member: 0 or an error. */
static int request_files(int fd, int files[2])
{
	union {
		char space[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct tw_mrapi_message m = {.type = TW_MRAPI_GET_SEGMENT};
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	if (tw_sys_send(fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
		return errno;
	n = tw_sys_poll(&p, 1, TW_MRAPI_REPLY_MS);
	if (n <= 0)
		return n == 0 ? ETIMEDOUT : errno;
	n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	if (n <= 0)
		return n == 0 ? ECONNRESET : errno;
	return n == sizeof(m) && m.type == TW_MRAPI_SEGMENT_REPLY ? unpack(&msg, files) : EPROTO;
}

static int take_segment(int fd)
{
	int files[2] = {-1, -1}, err = request_files(fd, files);

	if (err)
		return err;
	if (!sound(files[0], sizeof(struct tw_mrapi_segment)) || !sound(files[1], 0)) {
		err = EPROTO;
	} else if (!map_segment(files[0])) {
		err = errno;
	} else if (tw_mrapi.seg->magic == TW_MRAPI_MAGIC &&
		   tw_mrapi.seg->version == TW_MRAPI_VERSION) {
		tw_mrapi.segfd = files[0];
		tw_mrapi.arenafd = files[1];
		return 0;
	} else {
		err = EPROTO;
	}
	tw_fd_close(files[0]);
	tw_fd_close(files[1]);
	return err;
}

/* From the member with that slot. ECONNREFUSED: the slot has none. */
static int segment_of(uint32_t proc, int *fd)
{
	int err = tw_mrapi_dial(fd, "", proc), again;

	if (err)
		return tw_mrapi_nobody(err) ? ECONNREFUSED : err;
	err = take_segment(*fd);
	tw_fd_close(*fd);
	*fd = -1;
	if (!tw_mrapi_passing(err))
		return err;
	/* It may have been leaving; then the name is free by now. */
	if (tw_mrapi_nobody(tw_mrapi_dial_once(&again, "", proc)))
		return ECONNREFUSED;
	tw_fd_close(again);
	return err;
}

int tw_mrapi_find_segment(void)
{
	int found = ECONNREFUSED, fd = -1;

	for (uint32_t i = 0; i < TW_MRAPI_PROCS && found && tw_mrapi_passing(found); i++) {
		int err = segment_of(i, &fd);

		if (err != ECONNREFUSED)
			found = err;
	}
	tw_fd_close(fd);
	if (found == ECONNREFUSED)
		return make_segment() ? 0 : errno;
	return found;
}
