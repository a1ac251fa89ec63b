/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/shm/shm.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/settings.h"
#include "base/sys.h"

#define DENSE_US 16 /* longest time between two calls of progress() if the program only polls */

/* Whether writers that found no space sleep until there is some. */
static void show_blocked(struct tw_shm_ep *ep, uint32_t asleep)
{
	for (unsigned i = 0; i < ep->host->rxqs.n; i++) {
		struct tw_shm_link *l = tw_shm_link_at(ep, i);

		if (!l->blocked)
			continue;
		/* [ring-room] */
		atomic_store_explicit(&l->tx.ring->wants.room, asleep, memory_order_relaxed);
		l->blocked = asleep;
	}
}

/* TW_OK: there is room meanwhile. */
static enum tw_err mark_blocked(struct tw_shm_link *l, uint32_t len, uint32_t reserve)
{
	bool armed = l->ep->armed && !l->blocked;

	/* Wake up for the smallest packet that was refused. */
	l->blocked_len = l->blocked ? tw_min(l->blocked_len, len) : len;
	l->blocked_reserve = l->blocked ? tw_min(l->blocked_reserve, reserve) : reserve;
	l->blocked = true;
	/* The sleep of another thread has begun without this one. */
	if (armed) {
		show_blocked(l->ep, 1);
		/* [ring-room] */
		tw_barrier_processes();
		if (tw_ring_room(&l->tx, len, reserve))
			return TW_OK;
	}
	/* A full ring needs its reader, whatever it holds. */
	if (!atomic_load_explicit(&l->tx.ring->reader.armed, memory_order_relaxed) ||
	    !tw_shm_doorbell_ring(l))
		tw_shm_doorbell_defer(l);
	return TW_AGAIN;
}

/* The packet is written: rings the peer if it must. */
static tw_inline void shm_written(struct tw_shm_link *l, enum tw_send_class cls)
{
	uint32_t armed;

	/* [armed] */
	if (tw_unlikely(l->rx.fence))
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	armed = atomic_load_explicit(&l->tx.ring->reader.armed, memory_order_relaxed);
	if (tw_unlikely(tw_idle_by_any(armed))) {
		/* A sleeping peer checks again before it next sleeps, but may compute first. */
		if (!tw_shm_doorbell_ring(l) && cls != TW_SEND_PLAIN)
			tw_shm_doorbell_defer(l);
	} else if (tw_unlikely(tw_send_acts(cls)) && (!armed || !tw_shm_doorbell_ring(l))) {
		tw_shm_doorbell_defer(l);
	}
}

void tw_shm_written(struct tw_shm_link *l, enum tw_send_class cls)
{
	shm_written(l, cls);
}

static tw_noinline enum tw_err shm_send_slow(struct tw_shm_link *l, enum tw_send_class cls,
					     struct tw_hdr hdr, const struct iovec *iov,
					     unsigned niov, uint32_t len)
{
	uint32_t reserve = tw_send_reserved(cls) ? 0 : TW_RING_RESERVE;
	bool room;

	if (tw_unlikely(l->state != TW_SHM_UP))
		return TW_ELOST;
	room = tw_ring_room(&l->tx, len, reserve) || mark_blocked(l, len, reserve) == TW_OK;
	/* It may have grown although there is no room. */
	if (tw_unlikely(!l->ep->shrink_at && tw_ring_grown(&l->tx)))
		tw_shm_grown(l->ep);
	if (tw_unlikely(!room))
		return TW_AGAIN;
	tw_ring_write_long(&l->tx, hdr, iov, niov, len);
	shm_written(l, cls);
	return TW_OK;
}

static enum tw_err shm_do_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			       const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	if (tw_unlikely(cls != TW_SEND_PLAIN || niov != 1 || len > TW_RING_INLINE ||
			l->state != TW_SHM_UP || !tw_ring_room_small(&l->tx)))
		return shm_send_slow(l, cls, hdr, iov, niov, len);
	tw_ring_write_small(&l->tx, hdr, iov->iov_base, len);
	shm_written(l, TW_SEND_PLAIN);
	return TW_OK;
}

static void shm_do_wake(struct tw_link *link)
{
	tw_shm_doorbell_ring(tw_container(link, struct tw_shm_link, link));
}

/*
 * Takes slots from a ring, and counts the packets among them: other slots only move the reader.
 * Returns the number of slots. After a hold the program is about to post more receives: the rest
 * stays in the ring until then.
 */
static unsigned poll_link(struct tw_shm_link *l, unsigned budget, unsigned *packets)
{
	const struct tw_upcalls *up = l->ep->host->up;
	unsigned n = 0;
	struct tw_slot *s;

	while (n < budget && !l->link.hold && (s = tw_ring_next(&l->rx))) {
		struct tw_hdr hdr = s->hdr;
		uint32_t len;
		const void *payload = tw_ring_payload(&l->rx, s, &len);
		enum tw_err err = TW_EPROTO;

		if (tw_likely(payload && !l->rx.refused))
			err = up->packet(&l->link, hdr, payload, len);
		if (tw_unlikely(!tw_shm_in_use(l)))
			return n;
		if (tw_unlikely(err == TW_AGAIN))
			break;
		if (tw_unlikely(err != TW_OK)) {
			if (tw_ring_control(&l->rx, s)) {
				n++;
				continue;
			}
			l->ep->host->counters[TW_C_BAD_PACKET]++;
			tw_shm_link_drop(l);
			up->down(&l->link, TW_EPROTO);
			return n;
		}
		tw_ring_advance(&l->rx, s, len);
		++*packets;
		n++;
	}
	l->link.hold = false;
	if (!n)
		return 0;
	if (tw_unlikely(tw_ring_publish(&l->rx)))
		tw_shm_doorbell_ring(l);
	return n;
}

/*
 * Ends the link once its ring is empty; the engine may have no memory just now. A peer that
 * has hung up left at most a full ring: if it goes on writing, the rest is not read.
 */
static unsigned drain(struct tw_shm_link *l)
{
	unsigned n = 0, got;

	while (tw_shm_in_use(l) && l->left &&
	       (got = poll_link(l, tw_min(l->left, TW_RXQ_BATCH), &n)) > 0)
		l->left -= got;
	if (!tw_shm_in_use(l) || (l->left && tw_ring_next(&l->rx)))
		return n;
	tw_shm_link_end(l);
	l->ep->host->up->down(&l->link, l->why);
	return n;
}

void tw_shm_link_down(struct tw_shm_link *l, enum tw_err why)
{
	tw_shm_link_close_fds(l);
	l->state = TW_SHM_DRAIN;
	l->link.txq = NULL;
	tw_shm_deactivate(l);
	l->why = why;
	l->left = l->rx.nslots;
	drain(l);
}

/* Takes packets from a ring that has some. */
static unsigned shm_take(struct tw_shm_link *l)
{
	unsigned n = 0;

	tw_shm_activate(l);
	poll_link(l, TW_RXQ_BATCH, &n);
	if (tw_unlikely(l->state == TW_SHM_DRAIN))
		n += drain(l);
	return n;
}

void tw_shm_doorbell_pending(struct tw_shm_link *l)
{
	if (l->state == TW_SHM_UP && tw_ring_next(&l->rx))
		shm_take(l);
}

/* Looks at one inactive ring, and shows a poll to those that the engine looks at next. */
static unsigned poll_inactive(struct tw_shm_ep *ep)
{
	struct tw_rxqs *rxqs = &ep->host->rxqs;
	struct tw_shm_link *l = tw_shm_link_at(ep, tw_rxqs_turn(rxqs));
	unsigned at = rxqs->turn;

	for (unsigned i = 0; i < TW_RXQ_POLLS; i++) {
		tw_ring_show_poll(rxqs->rx[at], ep->polled_at);
		if (++at >= rxqs->n)
			at = rxqs->nactive;
	}
	if (tw_ring_next(&l->rx))
		return shm_take(l);
	rxqs->turn++;
	return 0;
}

/* Peers know of the poll. */
static void note_poll(struct tw_shm_ep *ep)
{
	uint64_t now = tw_clock();

	ep->host->rxqs.dense = now - ep->polled_at < tw_clock_us(DENSE_US);
	ep->polled_at = now;
	tw_rings_show_poll(ep->host->rxqs.rx, ep->host->rxqs.nactive, now);
	if (tw_unlikely(!tw_list_empty(&ep->deferred)))
		tw_shm_flush_deferred(ep, now);
	if (tw_unlikely((++ep->polls & (TW_RXQ_POLLS - 1)) == 0))
		tw_shm_deactivate_idle(ep);
}

static unsigned shm_do_progress(void *instance)
{
	struct tw_shm_ep *ep = instance;
	struct tw_rxqs *rxqs = &ep->host->rxqs;
	unsigned n = 0, i = 0;

	if (tw_unlikely(!tw_list_empty(&ep->dead)))
		tw_shm_reap(ep);
	note_poll(ep);
	while (i < rxqs->nactive) {
		struct tw_ring_rx *rx = rxqs->rx[i];

		if (tw_ring_next(rx))
			n += shm_take(tw_shm_link_at(ep, i));
		/* The upcall may have ended this link, and another fills its slot. */
		i += i < rxqs->nactive && rxqs->rx[i] == rx;
	}
	if (tw_unlikely(rxqs->nactive < rxqs->n))
		n += poll_inactive(ep);
	return n;
}

/* On all links, those included that wait for an answer: packets may be here before it. */
static void show_armed(struct tw_shm_ep *ep, uint32_t armed)
{
	uint64_t now = tw_clock();

	ep->armed = armed;
	ep->polled_at = now;
	for (unsigned i = 0; i < ep->host->rxqs.n; i++)
		tw_shm_show_armed(tw_shm_link_at(ep, i), now);
	tw_list_walk(&ep->pending, struct tw_shm_link, l, node) {
		if (l->map)
			tw_shm_show_armed(l, now);
	}
}

static bool shm_do_arm(void *instance)
{
	struct tw_shm_ep *ep = instance;
	bool found = false;

	show_armed(ep, ep->host->state);
	show_blocked(ep, 1);
	/* [armed] [ring-room] */
	tw_barrier_processes();
	for (unsigned i = 0; i < ep->host->rxqs.n && !found; i++) {
		struct tw_shm_link *l = tw_shm_link_at(ep, i);

		found = tw_ring_next(&l->rx) ||
			(l->blocked && tw_ring_room(&l->tx, l->blocked_len, l->blocked_reserve));
	}
	return found;
}

static void shm_do_disarm(void *instance)
{
	struct tw_shm_ep *ep = instance;

	show_armed(ep, 0);
	show_blocked(ep, 0);
}

static bool shm_do_polls(struct tw_link *link, uint64_t since)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	tw_ring_show_poll(&l->rx, tw_clock());
	return (int64_t)(tw_shm_polled_at(l) - since) >= 0;
}

bool tw_shm_alive(const struct tw_shm_link *l)
{
	struct pollfd p = {.fd = l->sock, .events = POLLRDHUP};

	return l->state == TW_SHM_UP && tw_sys_poll(&p, 1, 0) == 0;
}

static bool shm_do_alive(struct tw_link *link)
{
	return tw_shm_alive(tw_container(link, struct tw_shm_link, link));
}

static enum tw_err shm_do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
				  uint32_t endpoint_id, void *peer, struct tw_link **link)
{
	struct tw_shm_link *l = tw_shm_link_new(instance, TW_SHM_WAITING);
	enum tw_err err;

	if (!l)
		return TW_ENOMEM;
	l->me = *me;
	l->to_nic = nic_id;
	l->to_eid = endpoint_id;
	l->link.peer = peer;
	err = tw_shm_conn_start(l);
	if (err == TW_OK)
		*link = &l->link;
	else
		tw_shm_link_end(l);
	return err;
}

static void shm_do_disconnect(struct tw_link *link)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	if (l->state == TW_SHM_UP)
		tw_shm_goodbye(l);
	tw_shm_link_end(l);
}

static uint64_t shm_do_expire(void *instance, uint64_t now)
{
	struct tw_shm_ep *ep = instance;
	uint64_t next = tw_earlier(tw_shm_conn_expire(ep, now), tw_shm_shrink(ep, now));

	tw_shm_flush_deferred(ep, now);
	return tw_earlier(next, tw_shm_deferred_due(ep));
}

static bool shm_do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	struct tw_shm_ep *ep = instance;

	(void)endpoint_id;
	/* That directory may be shared with other network namespaces. */
	return tw_host_has(ep->host, nic_id) || *tw_settings.dir;
}

static void shm_do_close(void *instance)
{
	struct tw_shm_ep *ep = instance;

	ep->close_by = tw_clock() + tw_clock_us(TW_SHM_REVOKE_US);
	while (ep->host->rxqs.n)
		shm_do_disconnect(ep->host->rxqs.rx[0]->link);
	tw_list_walk(&ep->pending, struct tw_shm_link, pending, node)
		tw_shm_link_end(pending);
	tw_shm_reap(ep);
	tw_sock_listen_end(&ep->listener);
	free(ep->host->rxqs.rx);
	ep->host->rxqs = (struct tw_rxqs){0};
	free(ep);
}

static void shm_do_hide(void *instance)
{
	struct tw_shm_ep *ep = instance;

	tw_sock_hide(&ep->listener, ep->host->epfd);
}

static enum tw_err shm_do_open(struct tw_host *host, void **instance)
{
	struct tw_shm_ep *ep = calloc(1, sizeof(*ep));
	enum tw_err err;

	if (!ep)
		return TW_ENOMEM;
	ep->host = host;
	ep->listener = (struct tw_sock_listener){.fd = {-1, -1}};
	ep->cookie = (uint64_t)host->self.session << 32 | host->self.endpoint_id;
	tw_ring_share_init(&ep->share, tw_settings.ring_bytes);
	tw_list_init(&ep->deferred);
	tw_list_init(&ep->pending);
	tw_list_init(&ep->dead);
	err = tw_shm_conn_listen(ep);
	if (err == TW_OK)
		*instance = ep;
	else
		shm_do_close(ep);
	return err;
}

static bool shm_do_describe(void *instance, const char *name, struct tw_link *like, char *text,
			    unsigned len)
{
	(void)instance;
	(void)name;
	*like = (struct tw_link){.provider = &tw_provider_shm,
				 .max_payload = tw_ring_max_payload(tw_settings.ring_bytes),
				 .can_get = true,
				 .by_cpu = true};
	snprintf(text, len, "processes of this host");
	return true;
}

const struct tw_provider tw_provider_shm = {
	.name = "shm",
	.open = shm_do_open,
	.close = shm_do_close,
	.hide = shm_do_hide,
	.reaches = shm_do_reaches,
	.connect = shm_do_connect,
	.disconnect = shm_do_disconnect,
	.send = shm_do_send,
	.wake = shm_do_wake,
	.rma = tw_shm_rma,
	.alive = shm_do_alive,
	.polls = shm_do_polls,
	.progress = shm_do_progress,
	.arm = shm_do_arm,
	.disarm = shm_do_disarm,
	.expire = shm_do_expire,
	.describe = shm_do_describe,
};
