/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sealed.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/sys.h"

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
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0)
		return TW_ENOMEM;
	if (ftruncate(fd, (off_t)size) < 0)
		goto fail;
	p = tw_sealed_map(fd, size, PROT_READ | PROT_WRITE);
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
	tw_sys_close(fd);
	return TW_ENOMEM;
}

bool tw_sealed_sound(int fd, size_t size)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & TW_SEALS) == TW_SEALS && fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && st.st_size == (off_t)size && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == TMPFS_MAGIC;
}
