/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of the handshake: identity, and the descriptors that come with it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/settings.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

enum tw_err tw_shm_hello_send(int sock, const struct tw_shm_hello *h, const int *fds, unsigned nfds)
{
	union {
		char buf[CMSG_SPACE(TW_SHM_NFDS * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {(void *)(uintptr_t)h, sizeof(*h)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds) {
		struct cmsghdr *c = &ctl.align;

		memset(&ctl, 0, sizeof(ctl));
		m.msg_control = &ctl;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*h) ? TW_OK
										     : TW_ELOST;
}

enum tw_err tw_shm_hello_recv(int sock, struct tw_shm_hello *h, int *fds, unsigned nfds)
{
	union {
		char buf[CMSG_SPACE(TW_SHM_NFDS * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = {h, sizeof(*h)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &ctl,
			   .msg_controllen = sizeof(ctl)};
	ssize_t n = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	unsigned got = 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? TW_AGAIN : TW_ELOST;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		got = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), got * sizeof(int));
	}
	if (n == sizeof(*h) && got == nfds && !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) &&
	    h->magic == TW_SHM_MAGIC && h->version == TW_SHM_VERSION)
		return TW_OK;
	while (got)
		tw_sys_close(fds[--got]);
	return n == 0 ? TW_ELOST : TW_EPROTO;
}

void tw_shm_hello_fill(const struct tw_shm_ep *ep, struct tw_shm_hello *h, enum tw_shm_kind kind,
		       const struct tw_ident *me)
{
	*h = (struct tw_shm_hello){
		.magic = TW_SHM_MAGIC,
		.version = TW_SHM_VERSION,
		.kind = (uint16_t)kind,
		.nic_id = me->nic_id,
		.endpoint_id = me->endpoint_id,
		.session = me->session,
		.filter = me->filter,
		.key = me->key,
		.window = me->window,
		.nslots = tw_settings.ring_slots,
		.nbytes = tw_settings.ring_bytes,
		.barrier = tw_barrier_global(),
		.cookie_at = (uint64_t)(uintptr_t)&ep->activity->cookie,
	};
}
