/* SPDX-License-Identifier: BSD-2-Clause */
#include "shmem/sealed.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/log.h"
#include "base/sys.h"

int tw_sealed_file(const char *name, uint64_t size, uint64_t ready, int seals)
{
	int fd, err = EFBIG;

	/* Beyond that limit comes a signal. */
	if (size > tw_sys_limit(RLIMIT_FSIZE)) {
		errno = err;
		tw_log_refused("a segment beyond the limit of file sizes");
		return -1;
	}
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		tw_log_refused("memfd_create");
		return -1;
	}
	if (tw_sys_ftruncate(fd, (off_t)size) == 0 &&
	    (ready == 0 || tw_sys_fallocate(fd, 0, 0, (off_t)ready) == 0) &&
	    tw_sys_fcntl(fd, F_ADD_SEALS, (void *)(intptr_t)seals) == 0)
		return fd;
	err = errno;
	tw_log_refused("size and seals of a memfd");
	tw_sys_close(fd);
	errno = err;
	return -1;
}

void *tw_sealed_map(int fd, size_t size, int prot)
{
	void *p = mmap(NULL, size, prot, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* A forked child must not keep an endpoint alive. */
	madvise(p, size, MADV_DONTFORK);
	return p;
}

enum tw_err tw_sealed_make(const char *name, size_t size, int seals, int *fd_out, void **out)
{
	int fd = tw_sealed_file(name, size, 0, seals);

	if (fd < 0)
		return TW_ENOMEM;
	*out = tw_sealed_map(fd, size, PROT_READ | PROT_WRITE);
	if (*out) {
		*fd_out = fd;
		return TW_OK;
	}
	tw_sys_close(fd);
	return TW_ENOMEM;
}

bool tw_sealed_sound(int fd, uint64_t size)
{
	struct statfs fs;
	struct stat st;
	int seals = tw_sys_fcntl(fd, F_GET_SEALS, NULL);

	return seals >= 0 && (seals & TW_SEALS) == TW_SEALS && tw_sys_fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == size &&
	       tw_sys_fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}
