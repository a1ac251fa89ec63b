/* SPDX-License-Identifier: BSD-2-Clause */
/* The name of an endpoint on its host. */
#include <errno.h>
#include <stdatomic.h>

#include "base/fds.h"
#include "base/log.h"
#include "providers/shm/shm.h"

#define BACKLOG 256

static void make_name(struct tw_sock_name *name, uint64_t nic_id, uint32_t endpoint_id)
{
	tw_sock_name(name, "%012llx-%u", (unsigned long long)nic_id, endpoint_id);
}

/* Once: callers try again and again. */
static void another_user(uint32_t endpoint_id)
{
	static atomic_bool told;

	if (!atomic_exchange(&told, true))
		tw_log(TW_LOG_ERROR,
		       "endpoint %u of this host is another user's, who shares no memory with this "
		       "one; TAGWIRE_PROVIDERS=self,tcp on both sides, with one key, goes by tcp",
		       endpoint_id);
}

enum tw_err tw_shm_dial(uint64_t nic_id, uint32_t endpoint_id, int *fd)
{
	struct tw_sock_name name;

	*fd = -1;
	make_name(&name, nic_id, endpoint_id);
	switch (tw_sock_dial(fd, &name)) {
	case 0:
		return TW_OK;
	case EAGAIN:
	case TW_SOCK_FULL:
		return TW_AGAIN;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		return TW_ENOMEM;
	case TW_SOCK_FOREIGN:
		another_user(endpoint_id);
		break;
	default:
		break;
	}
	/* After a refusal it is left. */
	tw_fd_close(*fd);
	return TW_ECLOSED;
}

enum tw_err tw_shm_listen(uint64_t nic_id, uint32_t endpoint_id, struct tw_sock_listener *l)
{
	struct tw_sock_name name;
	int err;

	make_name(&name, nic_id, endpoint_id);
	err = tw_sock_listen(l, &name, BACKLOG);
	if (err == 0)
		return TW_OK;
	return err == EADDRINUSE || err == TW_SOCK_FOREIGN ? TW_EBUSY : TW_ENOMEM;
}
