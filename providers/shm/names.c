/* SPDX-License-Identifier: BSD-2-Clause */
/* The name of an endpoint on its host. */
#include <errno.h>

#include "base/fds.h"
#include "providers/shm/shm.h"

#define BACKLOG 256

static void shm_make_name(struct tw_sock_name *name, uint64_t nic_id, uint32_t endpoint_id)
{
	tw_sock_name(name, "%012llx-%u", (unsigned long long)nic_id, endpoint_id);
	name->shared = true;
}

static enum tw_err shm_dialled(int err, int *fd)
{
	switch (err) {
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
	default:
		break;
	}
	/* After a refusal it is left. */
	tw_fd_close(*fd);
	return err == TW_SOCK_FOREIGN ? TW_EPERM : TW_ECLOSED;
}

enum tw_err tw_shm_dial(uint64_t nic_id, uint32_t endpoint_id, int *fd)
{
	struct tw_sock_name name;

	*fd = -1;
	shm_make_name(&name, nic_id, endpoint_id);
	return shm_dialled(tw_sock_dial(fd, &name), fd);
}

enum tw_err tw_shm_dial_shared(uint64_t nic_id, uint32_t endpoint_id, int *fd)
{
	struct tw_sock_name name;
	enum tw_err err;

	*fd = -1;
	shm_make_name(&name, nic_id, endpoint_id);
	err = shm_dialled(tw_sock_dial_shared(fd, &name), fd);
	/* It may be on another host. */
	return err == TW_ECLOSED ? TW_EUNREACH : err;
}

enum tw_err tw_shm_listen(uint64_t nic_id, uint32_t endpoint_id, struct tw_sock_listener *l)
{
	struct tw_sock_name name;
	int err;

	shm_make_name(&name, nic_id, endpoint_id);
	err = tw_sock_listen(l, &name, BACKLOG);
	if (err == 0)
		return TW_OK;
	return err == EADDRINUSE || err == TW_SOCK_FOREIGN ? TW_EBUSY : TW_ENOMEM;
}

pid_t tw_shm_holder(uint64_t nic_id, uint32_t endpoint_id)
{
	pid_t pid = 0;
	int fd;

	if (tw_shm_dial(nic_id, endpoint_id, &fd) != TW_OK)
		return 0;
	if (tw_sock_peer(fd, &pid) != 0)
		pid = 0;
	tw_fd_close(fd);
	return pid;
}
