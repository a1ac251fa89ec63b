/* SPDX-License-Identifier: BSD-2-Clause */
/* Sealed anonymous memory that two processes share. */
#include <sys/mman.h>

#include "shmem/sealed.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

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
