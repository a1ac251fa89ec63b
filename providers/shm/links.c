/* SPDX-License-Identifier: BSD-2-Clause */
/* The links of an endpoint: their memory and their entries in the poll set. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "providers/shm/shm.h"

#define SHRINK_MAX_US 8000000 /* the longest time between two looks at rings that are not read */

struct tw_shm_link *tw_shm_link_new(struct tw_shm_ep *ep, enum tw_shm_state state)
{
	struct tw_shm_link *l =
		aligned_alloc(TW_LINE, (sizeof(*l) + TW_LINE - 1) & ~(size_t)(TW_LINE - 1));

	if (!l)
		return NULL;
	memset(l, 0, sizeof(*l));
	l->link.provider = &tw_provider_shm;
	l->ep = ep;
	l->state = state;
	l->sock = l->pidfd = -1;
	tw_list_init(&l->deferred);
	tw_list_add_tail(&ep->pending, &l->node);
	return l;
}

enum tw_err tw_shm_link_up(struct tw_shm_link *l)
{
	struct tw_shm_ep *ep = l->ep;
	struct tw_rxqs *rxqs = &ep->host->rxqs;

	if (rxqs->n == ep->max_up) {
		unsigned n = ep->max_up ? 2 * ep->max_up : 8;
		struct tw_ring_rx **rx = realloc(rxqs->rx, n * sizeof(*rx));

		if (!rx)
			return TW_ENOMEM;
		rxqs->rx = rx;
		ep->max_up = n;
	}
	l->at = rxqs->n++;
	l->rx.link = &l->link;
	rxqs->rx[l->at] = &l->rx;
	tw_list_del(&l->node);
	l->state = TW_SHM_UP;
	tw_shm_activate(l);
	/* Where a fence is needed, a send is more than a store. */
	l->link.txq = l->rx.fence ? NULL : &l->tx;
	return TW_OK;
}

/* Moves a link to this place, and the one there to its place. */
static void move_to(struct tw_shm_link *l, unsigned at)
{
	struct tw_ring_rx **rx = l->ep->host->rxqs.rx;
	struct tw_shm_link *other = tw_shm_link_at(l->ep, at);

	rx[l->at] = &other->rx;
	rx[at] = &l->rx;
	other->at = l->at;
	l->at = at;
}

void tw_shm_activate(struct tw_shm_link *l)
{
	struct tw_rxqs *rxqs = &l->ep->host->rxqs;

	l->seen_tail = l->rx.tail - 1;
	if (l->at >= rxqs->nactive && l->state == TW_SHM_UP)
		move_to(l, rxqs->nactive++);
}

void tw_shm_deactivate(struct tw_shm_link *l)
{
	struct tw_rxqs *rxqs = &l->ep->host->rxqs;

	if (l->at < rxqs->nactive)
		move_to(l, --rxqs->nactive);
}

void tw_shm_deactivate_idle(struct tw_shm_ep *ep)
{
	for (unsigned i = ep->host->rxqs.nactive; i-- > 0;) {
		struct tw_shm_link *l = tw_shm_link_at(ep, i);

		if (l->seen_tail == l->rx.tail)
			tw_shm_deactivate(l);
		l->seen_tail = l->rx.tail;
	}
}

static void leave_poll_set(struct tw_shm_link *l)
{
	tw_shm_deactivate(l);
	move_to(l, --l->ep->host->rxqs.n);
}

/* A child that holds a copy would keep the events coming. */
static void link_close_watched(struct tw_shm_link *l, int fd)
{
	if (fd < 0)
		return;
	tw_sys_epoll_ctl(l->ep->host->epfd, EPOLL_CTL_DEL, fd, NULL);
	tw_fd_close(fd);
}

void tw_shm_link_close_fds(struct tw_shm_link *l)
{
	link_close_watched(l, l->sock);
	link_close_watched(l, l->pidfd);
	l->sock = l->pidfd = -1;
}

/* From here on no peer writes our memory. A write in progress takes microseconds. */
static void await_writes(struct tw_shm_link *l)
{
	uint64_t end = l->ep->close_by, since = 0;

	if (!end)
		end = tw_clock() + tw_clock_us(TW_SHM_REVOKE_US);
	while (!tw_ring_revoke(&l->rx) && tw_shm_alive(l)) {
		if (tw_clock() > end) {
			tw_log(TW_LOG_ERROR, "process %d stands still while it writes here",
			       (int)l->link.pid);
			return;
		}
		tw_back_off(&since);
	}
}

void tw_shm_link_end(struct tw_shm_link *l)
{
	if (l->state == TW_SHM_DEAD)
		return;
	if (l->state == TW_SHM_UP)
		await_writes(l);
	if (tw_shm_in_use(l))
		leave_poll_set(l);
	tw_list_del(&l->deferred);
	tw_ring_tx_end(&l->tx);
	l->state = TW_SHM_DEAD;
	tw_shm_link_close_fds(l);
	tw_list_del(&l->node);
	tw_list_add_tail(&l->ep->dead, &l->node);
}

void tw_shm_link_drop(struct tw_shm_link *l)
{
	tw_ring_revoke(&l->rx);
	l->state = TW_SHM_DRAIN;
	tw_shm_link_end(l);
}

void tw_shm_grown(struct tw_shm_ep *ep)
{
	ep->shrink_us = TW_UNUSED_US;
	ep->shrink_at = tw_clock() + tw_clock_us(TW_UNUSED_US);
	ep->host->up->timer(ep->host, ep->shrink_at);
}

/*
 * Releases the memory of a ring that had no packet since the last check. Its reader may have to
 * take a packet first; one that computes is rung for it.
 */
static enum tw_ring_release link_shrink(struct tw_shm_link *l)
{
	enum tw_ring_release released = TW_RING_WRITTEN;

	if (l->tx.head == l->shrink_head) {
		released = tw_ring_release(&l->tx);
		if (released == TW_RING_WRITTEN)
			tw_shm_written(l, TW_SEND_ENGINE);
		else if (released == TW_RING_UNREAD)
			tw_shm_doorbell_ring(l);
	}
	l->shrink_head = l->tx.head;
	return released;
}

/*
 * Readers that take nothing, as their process is stopped, are looked at more and more seldom. In
 * the end they are left until the next check of any: looking for ever would keep this process
 * awake. A reader may take its packets at any moment, so what was seen of a ring is not asked a
 * second time.
 */
uint64_t tw_shm_shrink(struct tw_shm_ep *ep, uint64_t now)
{
	bool seen[TW_RING_UNREAD + 1] = {false}, left;

	if (!ep->shrink_at || now < ep->shrink_at)
		return ep->shrink_at;
	for (unsigned i = 0; i < ep->host->rxqs.n; i++) {
		struct tw_shm_link *l = tw_shm_link_at(ep, i);

		if (tw_ring_grown(&l->tx))
			seen[link_shrink(l)] = true;
	}
	ep->shrink_us *= 2;
	if (seen[TW_RING_WRITTEN] || seen[TW_RING_RELEASED])
		ep->shrink_us = TW_UNUSED_US;
	left = seen[TW_RING_WRITTEN] || seen[TW_RING_UNREAD];
	ep->shrink_at = left && ep->shrink_us <= SHRINK_MAX_US ? now + tw_clock_us(ep->shrink_us)
							       : 0;
	return ep->shrink_at;
}

void tw_shm_reap(struct tw_shm_ep *ep)
{
	tw_list_walk(&ep->dead, struct tw_shm_link, l, node) {
		tw_list_del(&l->node);
		if (l->map)
			munmap(l->map, l->map_size);
		free(l);
	}
}
