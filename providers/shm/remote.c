/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes the memory of the peer's process. */
#include <string.h>

#include "providers/shm/shm.h"
#include "shmem/remote.h"

/* A call that is refused, or fails for lack of memory, is not repeated. */
static enum tw_err get_failed(struct tw_shm_link *l, enum tw_err err, bool here)
{
	if (err == TW_EFAULT)
		return here ? TW_EPERM : TW_EFAULT;
	if (err == TW_ELOST)
		return err;
	l->link.can_get = false;
	return TW_EPERM;
}

/*
 * Reads or writes. A read with proof also fetches the peer's cookie from its memory: the pid may
 * belong to a new process.
 */
static enum tw_err copy_remote(struct tw_shm_link *l, const struct iovec *iov, unsigned niov,
			       uint64_t address, bool write, bool prove)
{
	uint64_t began = tw_clock(), cookie = 0;
	struct iovec here[TW_RMA_PIECES + 1];
	struct iovec there[2] = {{(void *)(uintptr_t)address, 0},
				 {(void *)(uintptr_t)l->cookie_at, sizeof(cookie)}};
	struct tw_pieces local = {here, niov + prove}, remote = {there, 1 + prove};
	enum tw_err err;

	memcpy(here, iov, niov * sizeof(*iov));
	here[niov] = (struct iovec){&cookie, sizeof(cookie)};
	for (unsigned i = 0; i < niov; i++)
		there[0].iov_len += iov[i].iov_len;
	if (!there[0].iov_len)
		return TW_OK;
	err = tw_remote_copy(l->link.pid, write, &local, &remote);
	if (prove && local.n <= 1 && cookie != l->cookie)
		return TW_ELOST;
	if (err != TW_OK)
		return get_failed(l, err, tw_remote_here(&local, write));
	if (prove)
		l->alive_at = began;
	return TW_OK;
}

/* False: the pid is to be proved. */
static bool pid_is_fresh(struct tw_shm_link *l)
{
	uint64_t now = tw_clock(), age = tw_clock_us(TW_REMOTE_ALIVE_US);

	if (now - l->alive_at >= age)
		l->alive_at = tw_shm_polled_at(l);
	return now - l->alive_at < age;
}

static enum tw_err remote_get(struct tw_shm_link *l, const struct iovec *iov, unsigned niov,
			      uint64_t address)
{
	bool prove = !pid_is_fresh(l);
	enum tw_err err = copy_remote(l, iov, niov, address, false, prove);

	/* Once the peer has ended the link, its program may have written there again. */
	return tw_ring_revoked(&l->tx) ? TW_ELOST : err;
}

static enum tw_err remote_put(struct tw_shm_link *l, const struct iovec *iov, unsigned niov,
			      uint64_t address)
{
	uint64_t none;
	struct iovec to = {&none, sizeof(none)};
	enum tw_err err = TW_OK;

	/* Unlike a read, a write must check before. */
	if (!pid_is_fresh(l))
		err = copy_remote(l, &to, 1, l->cookie_at, false, true);
	if (err != TW_OK)
		return err;
	if (!tw_ring_put_begin(&l->tx))
		return TW_ELOST;
	err = copy_remote(l, iov, niov, address, true, false);
	tw_ring_put_end(&l->tx);
	return err;
}

enum tw_err tw_shm_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	(void)key;
	(void)cookie;
	return put ? remote_put(l, iov, niov, address) : remote_get(l, iov, niov, address);
}
