/* SPDX-License-Identifier: BSD-2-Clause */
/* Sealed anonymous memory that two processes share. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fds.h"
#include "providers/shm/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* A peer that could shrink the memory could kill us with SIGBUS. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static void *map(int fd, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* A forked child must not hold a live endpoint. */
	madvise(p, size, MADV_DONTFORK);
	return p;
}

static enum tw_err make(const char *name, size_t size, int seals, int *fd_out, void **out)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return TW_ENOMEM;
	if (ftruncate(fd, (off_t)size) < 0)
		goto fail;
	p = map(fd, size, PROT_READ | PROT_WRITE);
	if (!p)
		goto fail;
	if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
		munmap(p, size);
		goto fail;
	}
	*fd_out = fd;
	*out = p;
	return TW_OK;
fail:
	close(fd);
	return TW_ENOMEM;
}

/* Is it ordinary memory of just that size that nobody can shrink? */
static bool sound(int fd, size_t size)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == (off_t)size && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == TMPFS_MAGIC;
}

/* The first `ready` bytes of every `stride` get their pages now. */
enum tw_err tw_shm_segment_make(size_t size, size_t ready, size_t stride, int *fd, void **out)
{
	enum tw_err err = make("tagwire-ring", size, SEALS, fd, out);

	if (err != TW_OK)
		return err;
	for (size_t at = 0; at < size; at += stride)
		if (fallocate(*fd, 0, (off_t)at, (off_t)ready) < 0) {
			munmap(*out, size);
			close(*fd);
			return TW_ENOMEM;
		}
	return TW_OK;
}

enum tw_err tw_shm_segment_take(int fd, size_t size, void **out)
{
	if (!sound(fd, size))
		return TW_EPROTO;
	*out = map(fd, size, PROT_READ | PROT_WRITE);
	return *out ? TW_OK : TW_ENOMEM;
}

enum tw_err tw_shm_mark_make(int *fd, struct tw_shm_mark **mark)
{
	void *p;
	enum tw_err err = make("tagwire-mark", TW_PAGE, SEALS & ~F_SEAL_SEAL, fd, &p);

	if (err != TW_OK)
		return err;
	*mark = p;
	tw_fd_own(*fd);
	/* Peers may look, not write; a kernel before 5.1 cannot promise that. */
	fcntl(*fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL);
	return TW_OK;
}

enum tw_err tw_shm_mark_take(int fd, const struct tw_shm_mark **mark)
{
	if (!sound(fd, TW_PAGE))
		return TW_EPROTO;
	*mark = map(fd, TW_PAGE, PROT_READ);
	return *mark ? TW_OK : TW_ENOMEM;
}
