/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bells: bytes in the socket of a link, for who sleeps or has not polled. A packet
 * that its taker may have missed is owed: it is looked at again, and rung for.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/counters.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

#define OWED_LATE_US 250 /* when to look again at a reply: its taker was waiting for it */
#define BELLS 1024	 /* read in one go, more than a socket holds */

static const char bell = 'b', goodbye = 'x';

static void send_bell(struct tw_shm_link *l)
{
	/* A full socket holds a bell already. */
	tw_sys_send(l->sock, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	l->ep->host->counters[TW_C_BELL_RUNG]++;
}

void tw_shm_goodbye(struct tw_shm_link *l)
{
	tw_sys_send(l->sock, &goodbye, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void tw_shm_listen_bells(struct tw_shm_link *l, uint32_t events)
{
	char c[64];
	ssize_t n;
	unsigned budget = BELLS;
	bool rang = false, over;

	/*
	 * A reset is told before what was sent ahead of it: read on. Not for ever,
	 * should the peer ring without pause: what is left will be told of again.
	 */
	while (budget-- && ((n = tw_sys_recv(l->sock, c, sizeof(c), MSG_DONTWAIT)) > 0 ||
			    (n < 0 && errno == ECONNRESET))) {
		if (n == 1 && c[0] == goodbye)
			l->closing = true;
		else if (n > 0)
			l->ep->host->counters[TW_C_BELL_HEARD]++;
		rang |= n > 0;
	}
	/* Before anything else is called that sets errno. */
	over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
	       (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP));
	/* After the last bell was taken: who rang before now may ring again. */
	tw_shm_mark_now(l->ep);
	if (rang)
		tw_shm_rung(l);
	if (l->state == TW_SHM_UP && over)
		tw_shm_link_down(l, l->closing ? TW_ECLOSED : TW_ELOST);
}

static bool polled_since(const struct tw_shm_link *l, uint64_t since)
{
	uint64_t polled = atomic_load_explicit(&l->mark->polled, memory_order_relaxed);

	return (int64_t)(polled - since) > 0;
}

bool tw_shm_polled_within(const struct tw_shm_link *l, uint64_t us)
{
	return polled_since(l, tw_clock() - tw_clock_us(us));
}

/*
 * Rings, unless a bell since the peer's last poll is still on its way. Without
 * a fence that bell may just have been heard and our packet not seen with it:
 * false means look again later.
 */
bool tw_shm_ring(struct tw_shm_link *l)
{
	uint64_t polled = atomic_load_explicit(&l->mark->polled, memory_order_acquire);

	if (l->rang == polled)
		return false;
	l->rang = polled;
	send_bell(l);
	return true;
}

static void owe_for(struct tw_shm_link *l, uint64_t now, uint64_t us)
{
	l->owed_head = l->tx.head;
	l->owed_at = now;
	if (!l->owed) {
		l->owed = true;
		l->ep->nowed++;
	}
	l->ep->host->up->timer(l->ep->host, l->owed_at + tw_clock_us(us));
}

/* Settles the debt of a link: its packet was seen, or the peer is rung. */
static void settle(struct tw_shm_link *l)
{
	uint32_t taken = atomic_load_explicit(&l->tx.ring->taken.slots, memory_order_relaxed);
	bool seen = (int32_t)(taken - l->owed_head) >= 0;

	if (!seen && (tw_shm_polled_within(l, TW_SHM_STALE_US) ||
		      tw_clock() - l->owed_at < tw_clock_us(TW_SHM_STALE_US)))
		return;
	/* By now a bell that was not heard yet will be heard after our packet. */
	if (!seen)
		tw_shm_ring(l);
	l->owed = false;
	l->ep->nowed--;
}

void tw_shm_settle(struct tw_shm_ep *ep)
{
	for (unsigned i = 0; i < ep->nup; i++)
		if (ep->up[i]->owed)
			settle(ep->up[i]);
}

static uint64_t owed_us(enum tw_send_class cls)
{
	return tw_send_reserved(cls) ? OWED_LATE_US : TW_SHM_OWED_US;
}

void tw_shm_owe(struct tw_shm_link *l, enum tw_send_class cls)
{
	owe_for(l, tw_clock(), owed_us(cls));
}

void tw_shm_must_act(struct tw_shm_link *l, enum tw_send_class cls)
{
	uint64_t now = tw_clock();

	if (polled_since(l, now - tw_clock_us(TW_SHM_STALE_US)) || !tw_shm_ring(l))
		owe_for(l, now, owed_us(cls));
}
