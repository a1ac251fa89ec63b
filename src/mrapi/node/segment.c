/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment and the arena of a job: made by its first member, passed to the others. And the
 * names of the members' listening sockets, made of user and slot.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/fds.h"
#include "base/page.h"
#include "base/settings.h"
#include "base/stats.h"
#include "base/sys.h"
#include "mrapi/mrapi_internal.h"
#include "shmem/sealed.h"
#include "shmem/sock.h"

#define ARENA_BYTES (1ull << 42)
#define REPLY_MS 1000 /* after which the next member is asked */

/* ------------------------------------------------------------------- names */

static void segment_make_name(struct tw_sock_name *name, uint32_t proc)
{
	if (proc == TW_MRAPI_JOIN_LOCK)
		tw_sock_name(name, "mrapi-%u-lock", (unsigned)tw_sys_euid());
	else
		tw_sock_name(name, "mrapi-%u-%u", (unsigned)tw_sys_euid(), proc);
}

int tw_mrapi_listen(struct tw_sock_listener *l, uint32_t proc)
{
	struct tw_sock_name name;

	segment_make_name(&name, proc);
	return tw_sock_listen(l, &name, 1024);
}

/*
 * Whether the error means that no member of the job has the name. The queue of one has room for
 * all others.
 */
static bool nobody(int err)
{
	return err == ECONNREFUSED || err == TW_SOCK_FOREIGN || err == TW_SOCK_FULL;
}

bool tw_mrapi_passing(int err)
{
	return nobody(err) || err == ECONNRESET || err == EPIPE || err == ETIMEDOUT ||
	       err == EAGAIN || err == EINTR;
}

void tw_mrapi_limit_sends(int fd)
{
	struct timeval limit = {REPLY_MS / 1000, 0};

	tw_sys_setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

int tw_mrapi_dial(int *fd, uint32_t proc)
{
	struct tw_sock_name name;
	int err;

	*fd = -1;
	segment_make_name(&name, proc);
	err = tw_sock_dial(fd, &name);
	if (err) {
		tw_fd_close(*fd);
		return err;
	}
	tw_sys_set_blocking(*fd, true);
	tw_mrapi_limit_sends(*fd);
	return 0;
}

/* ----------------------------------------------------------------- segment */

/*
 * Always at the same address, without a gap: a call of a thread whose node has ended may still
 * use it. Such a call sees a new segment as one that began later would.
 */
static bool segment_place(void *p)
{
	size_t size = sizeof(struct tw_mrapi_segment);

	if (!p)
		return false;
	if (!tw_mrapi.seg)
		tw_mrapi.seg = p;
	if (tw_mrapi.seg == p ||
	    mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, tw_mrapi.seg) != MAP_FAILED)
		return true;
	munmap(p, size);
	return false;
}

static bool map_segment(int fd)
{
	return segment_place(
		tw_sealed_map(fd, sizeof(struct tw_mrapi_segment), PROT_READ | PROT_WRITE));
}

void tw_mrapi_leave_segment(void)
{
	size_t size = sizeof(struct tw_mrapi_segment);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
		       tw_mrapi.segfd, 0);

	if (p != MAP_FAILED) {
		madvise(p, size, MADV_DONTFORK);
		/* Nobody gives it back in a copy. */
		atomic_store(&((struct tw_mrapi_segment *)p)->admin, 0);
		segment_place(p);
	}
	tw_fd_close(tw_mrapi.segfd);
	tw_fd_close(tw_mrapi.arenafd);
	tw_mrapi.segfd = tw_mrapi.arenafd = -1;
}

bool tw_mrapi_allocate(const void *part, size_t size)
{
	off_t at = (off_t)((const char *)part - (const char *)tw_mrapi.seg);

	return tw_sys_fallocate(tw_mrapi.segfd, 0, at, (off_t)size) == 0;
}

/* The arena is sparse: its size is a limit, not a cost. */
static uint64_t arena_size(void)
{
	return tw_page_down(tw_min((uint64_t)ARENA_BYTES, tw_sys_limit(RLIMIT_FSIZE)));
}

static bool make_segment(void)
{
	uint64_t arena = arena_size();

	tw_mrapi.segfd =
		tw_fd_own(tw_sealed_file("tagwire-mrapi", sizeof(struct tw_mrapi_segment),
					 offsetof(struct tw_mrapi_segment, mutex), TW_SEALS));
	tw_mrapi.arenafd = tw_fd_own(tw_sealed_file("tagwire-mrapi-memory", arena, 0, TW_SEALS));
	if (tw_mrapi.segfd < 0 || tw_mrapi.arenafd < 0 || !map_segment(tw_mrapi.segfd)) {
		tw_fd_close(tw_mrapi.segfd);
		tw_fd_close(tw_mrapi.arenafd);
		return false;
	}
	tw_sys_random(&tw_mrapi.seg->life, sizeof(tw_mrapi.seg->life));
	tw_mrapi.seg->births = (uint32_t)tw_mrapi.seg->life % MRAPI_MAX_NODES;
	tw_mrapi.seg->arena_size = arena;
	tw_mrapi.seg->job = tw_stats_job(tw_settings.job);
	tw_mrapi.seg->version = TW_MRAPI_VERSION;
	tw_mrapi.seg->magic = TW_MRAPI_MAGIC;
	return true;
}

/* Requests the two files from a member: 0 or an error. */
static int request_files(int fd, int files[2])
{
	struct tw_mrapi_message m = {.type = TW_MRAPI_GET_SEGMENT};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n, err;

	if (tw_sys_send(fd, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
		return errno;
	n = tw_sys_poll(&p, 1, REPLY_MS);
	if (n <= 0)
		return n == 0 ? ETIMEDOUT : errno;
	err = tw_sock_recv(fd, &m, sizeof(m), files, 2);
	if (err)
		return err;
	tw_fd_own(files[0]);
	tw_fd_own(files[1]);
	return m.type == TW_MRAPI_SEGMENT_REPLY ? 0 : EPROTO;
}

static int take_segment(int fd)
{
	int files[2] = {-1, -1}, err = request_files(fd, files);

	if (!err && !tw_sealed_sound(files[0], sizeof(struct tw_mrapi_segment)))
		err = EPROTO;
	if (!err && !map_segment(files[0]))
		err = errno;
	if (!err &&
	    (tw_mrapi.seg->magic != TW_MRAPI_MAGIC || tw_mrapi.seg->version != TW_MRAPI_VERSION ||
	     !tw_sealed_sound(files[1], tw_mrapi.seg->arena_size)))
		err = EPROTO;
	if (!err) {
		tw_mrapi.segfd = files[0];
		tw_mrapi.arenafd = files[1];
		return 0;
	}
	tw_fd_close(files[0]);
	tw_fd_close(files[1]);
	return err;
}

/* From the member with that slot. ECONNREFUSED: the slot has none. */
static int segment_of(uint32_t proc)
{
	int fd, err = tw_mrapi_dial(&fd, proc);

	if (err)
		return nobody(err) ? ECONNREFUSED : err;
	err = take_segment(fd);
	tw_fd_close(fd);
	if (!tw_mrapi_passing(err))
		return err;
	/* It may have been leaving; then the name is free by now. */
	if (nobody(tw_mrapi_dial(&fd, proc)))
		return ECONNREFUSED;
	tw_fd_close(fd);
	return err;
}

static void note_slot(const char *rest, void *named)
{
	unsigned long proc = strtoul(rest, NULL, 10);

	if (proc < TW_MRAPI_PROCS)
		((bool *)named)[proc] = true;
}

/* The slots that may have a member. Calling each of all slots takes 50 ms. */
static void find_slots(bool named[TW_MRAPI_PROCS])
{
	struct tw_sock_name start;

	memset(named, 0, TW_MRAPI_PROCS * sizeof(*named));
	tw_sock_name(&start, "mrapi-%u-", (unsigned)tw_sys_euid());
	if (!tw_sock_list(&start, note_slot, named))
		memset(named, true, TW_MRAPI_PROCS * sizeof(*named));
}

int tw_mrapi_find_segment(void)
{
	int found = ECONNREFUSED;
	bool named[TW_MRAPI_PROCS];

	find_slots(named);
	for (uint32_t i = 0; i < TW_MRAPI_PROCS && found && tw_mrapi_passing(found); i++) {
		int err = named[i] ? segment_of(i) : ECONNREFUSED;

		if (err != ECONNREFUSED)
			found = err;
	}
	if (found == ECONNREFUSED)
		return make_segment() ? 0 : errno;
	return found;
}
