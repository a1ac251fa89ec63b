/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages of the handshake: identity, and the descriptors that come with it. */
#include <errno.h>

#include "base/barrier.h"
#include "base/report.h"
#include "base/settings.h"
#include "base/sys.h"
#include "providers/shm/shm.h"
#include "shmem/sock.h"

enum tw_err tw_shm_hello_send(int sock, const struct tw_shm_hello *h, const int *fd)
{
	return tw_sock_send(sock, h, sizeof(*h), fd, fd != NULL) ? TW_ELOST : TW_OK;
}

static void another_kind(const struct tw_shm_hello *h)
{
	bool turned = h->magic == __builtin_bswap32(TW_SHM_MAGIC);

	if (!turned && h->magic != TW_SHM_MAGIC)
		return;
	tw_report(TW_LOG_ERROR, "a process of this host",
		  turned ? "it has the other byte order" : "it has another version of Tagwire",
		  turned ? "TAGWIRE_PROVIDERS=self,tcp on both sides goes by tcp"
			 : "build both programs with the same version");
}

enum tw_err tw_shm_hello_recv(int sock, struct tw_shm_hello *h, int *fd)
{
	switch (tw_sock_recv(sock, h, sizeof(*h), fd, fd != NULL)) {
	case 0:
		break;
	case EAGAIN:
	case EINTR:
		return TW_AGAIN;
	case EPROTO:
		return TW_EPROTO;
	case EMFILE: /* none is left for what came with it */
		return TW_ENOMEM;
	default:
		return TW_ELOST;
	}
	if (h->magic == TW_SHM_MAGIC && h->version == TW_SHM_VERSION)
		return TW_OK;
	another_kind(h);
	if (fd)
		tw_sys_close(*fd);
	return TW_EPROTO;
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
		.presented = me->presented,
		.window = me->window,
		.nslots = tw_settings.ring_slots,
		.nbytes = tw_settings.ring_bytes,
		.barrier = tw_barrier_global(),
		.narrow = TW_NARROW,
		.cookie_at = (uint64_t)(uintptr_t)&ep->cookie,
	};
}
