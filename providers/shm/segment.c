/* SPDX-License-Identifier: BSD-2-Clause */
/* Sealed anonymous memory that two processes share. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fds.h"
#include "shmem/sealed.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum tw_err tw_shm_segment_make(uint32_t nslots, uint32_t nbytes, int *fd, void **out)
{
	size_t size = tw_rings_size(nslots, nbytes);
	enum tw_err err = tw_sealed_make("tagwire-ring", size, TW_SEALS, fd, out);

	if (err != TW_OK || tw_rings_make(*out, nslots))
		return err;
	munmap(*out, size);
	tw_sys_close(*fd);
	*out = NULL;
	return TW_ENOMEM;
}

enum tw_err tw_shm_activity_make(int *fd, struct tw_shm_activity **activity)
{
	void *p;
	enum tw_err err = tw_sealed_make("tagwire-mark", TW_PAGE, TW_SEALS & ~F_SEAL_SEAL, fd, &p);

	if (err != TW_OK)
		return err;
	*activity = p;
	tw_fd_own(*fd);
	/* Peers may read and not write. Kernels before 5.1 cannot enforce that. */
	fcntl(*fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL);
	return TW_OK;
}

enum tw_err tw_shm_activity_map(int fd, const struct tw_shm_activity **activity)
{
	if (!tw_sealed_sound(fd, TW_PAGE))
		return TW_EPROTO;
	*activity = tw_sealed_map(fd, TW_PAGE, PROT_READ);
	return *activity ? TW_OK : TW_ENOMEM;
}
