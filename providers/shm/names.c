/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Abstract socket names, one per endpoint, private to a network namespace. A name
 * disappears with its process. Any user may occupy a name, so both sides check the user of
 * the other and skip a name that another user holds, in favour of the next suffix.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/log.h"
#include "base/settings.h"
#include "providers/shm/shm.h"
#include "shmem/sock.h"

#define SUFFIXES 4
#define BACKLOG 256

static void make_name(struct tw_sock_name *name, uint64_t nic_id, uint32_t endpoint_id, int suffix)
{
	tw_sock_name(name, "tagwire-%s-%012llx-%u.%d", tw_settings.job, (unsigned long long)nic_id,
		     endpoint_id, suffix);
}

static enum tw_err dial_name(const struct tw_sock_name *name, int *out)
{
	int fd = tw_sock_new(SOCK_NONBLOCK), err;

	if (fd < 0)
		return TW_ENOMEM;
	err = tw_sock_connect(fd, name);
	if (err == 0) {
		*out = fd;
		return TW_OK;
	}
	tw_fd_close(fd);
	if (err == TW_SOCK_FOREIGN)
		return TW_EPERM;
	return err == EAGAIN ? TW_AGAIN : TW_ECLOSED;
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
	bool foreign = false;

	for (int i = 0; i < SUFFIXES; i++) {
		enum tw_err err;

		make_name(&name, nic_id, endpoint_id, i);
		err = dial_name(&name, fd);
		if (err != TW_ECLOSED && err != TW_EPERM)
			return err;
		foreign |= err == TW_EPERM;
	}
	if (foreign)
		another_user(endpoint_id);
	return TW_ECLOSED;
}

enum tw_err tw_shm_listen(uint64_t nic_id, uint32_t endpoint_id, int *out)
{
	struct tw_sock_name name;
	int fd = tw_sock_new(SOCK_NONBLOCK);

	if (fd < 0)
		return TW_ENOMEM;
	for (int i = 0; i < SUFFIXES; i++) {
		enum tw_err err;
		int other, why;

		make_name(&name, nic_id, endpoint_id, i);
		why = tw_sock_listen(fd, &name, BACKLOG);
		if (why == 0) {
			*out = fd;
			return TW_OK;
		}
		if (why != EADDRINUSE)
			break;
		err = dial_name(&name, &other);
		if (err == TW_OK)
			tw_fd_close(other);
		if (err != TW_EPERM) {
			tw_fd_close(fd);
			return err == TW_ENOMEM ? err : TW_EBUSY;
		}
	}
	tw_fd_close(fd);
	return TW_ENOMEM;
}
