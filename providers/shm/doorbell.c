/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Doorbells: bytes in the socket of a link. One that rests or sleeps is rung at once. Where a peer
 * that polls must act on a packet, the doorbell is deferred: it is rung if the packet stays unread
 * for so long that the peer's program must be computing (doc/decisions.md, 8).
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/counters.h"
#include "base/fds.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

#define DOORBELLS 1024 /* read in one call, more than a socket holds */

static const char doorbell = 'b', goodbye = 'x';

/*
 * False where the system is short of memory. The number may be that of a socket of the program,
 * which has closed ours.
 */
static bool doorbell_write(struct tw_shm_link *l, char what)
{
	/* A full socket holds a doorbell already, and that of an ended process needs none. */
	return !tw_fd_ours(l->sock) ||
	       tw_sys_send(l->sock, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ||
	       (errno != ENOBUFS && errno != ENOMEM);
}

void tw_shm_goodbye(struct tw_shm_link *l)
{
	doorbell_write(l, goodbye);
}

void tw_shm_doorbells_read(struct tw_shm_link *l, uint32_t events)
{
	char c[64];
	ssize_t n;
	unsigned budget = DOORBELLS;
	bool rang = false, over;

	/*
	 * The socket reports a reset before the data sent ahead of it, so read on. Bounded,
	 * should the peer ring without pause: what is left is reported again.
	 */
	while (budget-- && ((n = tw_sys_recv(l->sock, c, sizeof(c), MSG_DONTWAIT)) > 0 ||
			    (n < 0 && errno == ECONNRESET))) {
		if (n == 1 && c[0] == goodbye)
			l->closing = true;
		else if (n > 0)
			l->ep->host->counters[TW_C_DOORBELL_RECEIVED]++;
		rang |= n > 0;
	}
	/* Before any call that sets errno. */
	over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
	       (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP));
	/* After the last doorbell was read: a peer that has rung before may now ring again. */
	tw_ring_show_poll(&l->rx, tw_clock());
	/* [doorbell] */
	atomic_thread_fence(memory_order_seq_cst);
	if (rang)
		tw_shm_doorbell_pending(l);
	if (l->state == TW_SHM_UP && over)
		tw_shm_link_down(l, l->closing ? TW_ECLOSED : TW_ELOST);
}

uint64_t tw_shm_polled_at(const struct tw_shm_link *l)
{
	return atomic_load_explicit(&l->tx.ring->taken.polled, memory_order_relaxed);
}

/*
 * Rings, unless a doorbell since the peer's last poll is still in flight, whose reader sees our
 * packet. It may be about to look at something else first, so after false the caller may want to
 * check again later.
 */
bool tw_shm_doorbell_ring(struct tw_shm_link *l)
{
	uint64_t polled = tw_shm_polled_at(l);

	if (l->rang == polled) {
		/* [doorbell] */
		atomic_thread_fence(memory_order_seq_cst);
		polled = tw_shm_polled_at(l);
	}
	if (l->rang == polled)
		return false;
	if (!doorbell_write(l, doorbell)) {
		l->unrung = true;
		tw_shm_doorbell_defer(l);
		return false;
	}
	l->rang = polled;
	l->ep->host->counters[TW_C_DOORBELL_SENT]++;
	return true;
}

/*
 * From the first unread packet on, so that a stream of them does not put off the doorbell. Until it
 * is due the path costs one look.
 */
void tw_shm_doorbell_defer(struct tw_shm_link *l)
{
	if (tw_likely(!tw_list_empty(&l->deferred)))
		return;
	l->due = tw_clock() + tw_clock_us(TW_COMPUTES_US);
	l->deferred_head = l->tx.head;
	tw_list_add_tail(&l->ep->deferred, &l->deferred);
	l->ep->host->up->timer(l->ep->host, l->due);
}

/*
 * Rings if the packet was not read, or the system was short of memory when it was rung for. If it
 * was read, the packets written since then begin anew.
 */
static void flush_deferred(struct tw_shm_link *l, uint64_t now)
{
	uint32_t taken;

	/* Asked no sooner than it matters: the peer writes that line. */
	if ((int64_t)(now - l->due) < 0)
		return;
	taken = atomic_load_explicit(&l->tx.ring->taken.slots, memory_order_relaxed);
	tw_list_del(&l->deferred);
	if (l->unrung || (int32_t)(taken - l->deferred_head) < 0) {
		l->unrung = false;
		tw_shm_doorbell_ring(l);
	} else if ((int32_t)(taken - l->tx.head) < 0) {
		tw_shm_doorbell_defer(l);
	}
}

void tw_shm_flush_deferred(struct tw_shm_ep *ep, uint64_t now)
{
	tw_list_walk(&ep->deferred, struct tw_shm_link, l, deferred)
		flush_deferred(l, now);
}

uint64_t tw_shm_deferred_due(const struct tw_shm_ep *ep)
{
	/* They are in the order in which they are due. */
	return tw_list_empty(&ep->deferred)
		       ? 0
		       : tw_list_first(&ep->deferred, struct tw_shm_link, deferred)->due;
}
