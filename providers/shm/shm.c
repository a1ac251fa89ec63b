/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/shm/shm.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/fds.h"
#include "base/sys.h"

#define FULL_US 200	  /* a peer with a full ring is idle after this long without a poll */
#define BATCH 64u	  /* most packets taken from one ring at once */
#define ACTIVITY_EVERY 8  /* polls between two times that the peers are shown one, a power of two */
#define DENSE_US 2	  /* longest time between them if the program only polls */
#define ACTIVE_POLLS 4096 /* a ring stays active for so many polls without a packet, at least */
#define ACTIVITY_BATCH 8  /* packets after which it is updated at once */

static enum tw_err no_room(struct tw_shm_link *l, uint32_t len, uint32_t reserve)
{
	/* Wake up for the smallest packet that was refused. */
	l->blocked_len = l->blocked ? tw_min(l->blocked_len, len) : len;
	l->blocked_reserve = l->blocked ? tw_min(l->blocked_reserve, reserve) : reserve;
	l->blocked = true;
	/*
	 * A full ring needs its reader, whatever it holds. A reader that is working through
	 * messages is not disturbed at once.
	 */
	if (tw_shm_polled_within(l, FULL_US))
		tw_shm_doorbell_defer(l, TW_SEND_ENGINE);
	else
		tw_shm_must_act(l, TW_SEND_ENGINE);
	return TW_AGAIN;
}

/* The packet is written: rings the peer if it must. */
static tw_inline enum tw_err written(struct tw_shm_link *l, enum tw_send_class cls)
{
	/* Pairs with the barrier in do_arm(). */
	if (tw_unlikely(l->fence))
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	if (tw_unlikely(atomic_load_explicit(&l->tx.ring->reader.armed, memory_order_acquire))) {
		/* A sleeping peer checks again before it next sleeps, but may compute first. */
		if (!tw_shm_doorbell_ring(l) && cls != TW_SEND_PLAIN)
			tw_shm_doorbell_defer(l, cls);
	} else if (tw_unlikely(cls == TW_SEND_ENGINE || cls == TW_SEND_CONTROL)) {
		tw_shm_must_act(l, cls);
	}
	return TW_OK;
}

void tw_shm_written(struct tw_shm_link *l, enum tw_send_class cls)
{
	written(l, cls);
}

static tw_noinline enum tw_err send_any(struct tw_shm_link *l, enum tw_send_class cls,
					struct tw_hdr hdr, const struct iovec *iov, unsigned niov,
					uint32_t len)
{
	uint32_t reserve = tw_send_reserved(cls) ? 0 : TW_RING_RESERVE;

	if (tw_unlikely(l->state != TW_SHM_UP))
		return TW_ELOST;
	if (tw_unlikely(!tw_ring_room(&l->tx, len, reserve)))
		return no_room(l, len, reserve);
	tw_ring_write_long(&l->tx, hdr, iov, niov, len);
	if (tw_unlikely(!l->ep->rest_at && tw_ring_grown(&l->tx)))
		tw_shm_grown(l->ep);
	return written(l, cls);
}

static enum tw_err do_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
			   const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	if (tw_unlikely(cls != TW_SEND_PLAIN || niov != 1 || len > TW_RING_INLINE ||
			l->state != TW_SHM_UP || !tw_ring_room_small(&l->tx)))
		return send_any(l, cls, hdr, iov, niov, len);
	tw_ring_write_small(&l->tx, hdr, iov->iov_base, len);
	return written(l, TW_SEND_PLAIN);
}

static void do_wake(struct tw_link *link)
{
	written(tw_container(link, struct tw_shm_link, link), TW_SEND_PLAIN);
}

/* Publishes the reader's position, and wakes a writer that sleeps for space. */
static void publish(struct tw_shm_link *l)
{
	tw_ring_publish(&l->rx);
	if (tw_unlikely(l->fence))
		atomic_thread_fence(memory_order_seq_cst);
	tw_barrier_compiler();
	if (tw_unlikely(atomic_load_explicit(&l->rx.ring->wants.room, memory_order_relaxed)))
		tw_shm_doorbell_ring(l);
}

/*
 * Takes packets from a ring. Returns their number. With rxq_empty the program is about to
 * post more receives: the rest stays in the ring until then.
 */
static unsigned poll_link(struct tw_shm_link *l, unsigned budget)
{
	const struct tw_upcalls *up = l->ep->host->up;
	unsigned n = 0;
	struct tw_slot *s;

	l->ep->host->rxq_empty = false;
	if (tw_likely(up->run != NULL))
		n = up->run(&l->link, &l->rx, budget);
	while (n < budget && !l->ep->host->rxq_empty && (s = tw_ring_next(&l->rx))) {
		struct tw_hdr hdr = s->hdr;
		uint32_t len;
		const void *payload = tw_ring_payload(&l->rx, s, &len);
		enum tw_err err = TW_EPROTO;

		if (tw_likely(payload != NULL))
			err = up->packet(&l->link, hdr, payload, len);
		if (tw_unlikely(!tw_shm_in_use(l)))
			return n;
		if (tw_unlikely(err == TW_AGAIN))
			break;
		if (tw_unlikely(err != TW_OK)) {
			if (tw_ring_jump(&l->rx, s)) {
				n++;
				continue;
			}
			l->ep->host->counters[TW_C_BAD_PACKET]++;
			tw_shm_link_drop(l);
			up->down(&l->link, TW_EPROTO);
			return n;
		}
		tw_ring_advance(&l->rx, s, len);
		n++;
	}
	if (n)
		publish(l);
	return n;
}

/*
 * Ends the link once its ring is empty; the engine may have no memory just now. A peer that
 * has hung up left at most a full ring: if it goes on writing, the rest is not read.
 */
static unsigned drain(struct tw_shm_link *l)
{
	unsigned n = 0, got;

	while (tw_shm_in_use(l) && l->left && (got = poll_link(l, tw_min(l->left, BATCH))) > 0) {
		n += got;
		l->left -= got;
	}
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
	l->why = why;
	l->left = l->rx.nslots;
	drain(l);
}

/* Takes packets from a ring that is in the active set, now at the latest. */
static inline unsigned take(struct tw_shm_link *l)
{
	unsigned n = poll_link(l, BATCH);

	l->recent = true;
	if (tw_unlikely(l->state == TW_SHM_DRAIN))
		n += drain(l);
	return n;
}

void tw_shm_doorbell_pending(struct tw_shm_link *l)
{
	if (l->state != TW_SHM_UP || !tw_ring_next(&l->rx))
		return;
	tw_shm_activate(l);
	take(l);
}

static unsigned poll_idle_set(struct tw_shm_ep *ep)
{
	struct tw_shm_link *l;

	if (++ep->idle_at >= ep->nup)
		ep->idle_at = ep->nactive;
	l = ep->up[ep->idle_at];
	tw_shm_show_poll(l, ep->polled_at);
	if (!tw_ring_next(&l->rx))
		return 0;
	tw_shm_activate(l);
	return take(l);
}

static void note_poll(struct tw_shm_ep *ep)
{
	uint64_t now = tw_clock();

	ep->dense = now - ep->polled_at < tw_clock_us(DENSE_US);
	tw_shm_polled(ep, now);
	if (tw_unlikely(!tw_list_empty(&ep->deferred)))
		tw_shm_flush_deferred(ep);
	if (tw_unlikely((ep->polls & (ACTIVE_POLLS - 1)) == 0))
		tw_shm_settle(ep);
}

static unsigned do_progress(void *instance)
{
	struct tw_shm_ep *ep = instance;
	unsigned n = 0, i = 0;

	if (tw_unlikely(!tw_list_empty(&ep->dead)))
		tw_shm_reap(ep);
	if ((++ep->polls & (ACTIVITY_EVERY - 1)) == 0)
		note_poll(ep);
	while (i < ep->nactive) {
		struct tw_shm_link *l = ep->up[i];

		if (tw_ring_poll(&l->rx, ep->dense))
			n += take(l);
		/* The upcall may have ended this link, and another fills its slot. */
		i += i < ep->nactive && ep->up[i] == l;
	}
	if (tw_unlikely(ep->nactive < ep->nup))
		n += poll_idle_set(ep);
	/* The program may take long to process them, and its next poll is far. */
	if (tw_unlikely(n >= ACTIVITY_BATCH))
		tw_shm_polled(ep, tw_clock());
	return n;
}

/* On all links, those included that wait for an answer: packets may be here before it. */
static void show_armed(struct tw_shm_ep *ep, uint32_t armed)
{
	uint64_t now = tw_clock();
	struct tw_list *n, *tmp;

	ep->armed = armed;
	ep->polled_at = now;
	for (unsigned i = 0; i < ep->nup; i++)
		tw_shm_show_armed(ep->up[i], now);
	tw_list_each(&ep->pending, n, tmp) {
		struct tw_shm_link *l = tw_container(n, struct tw_shm_link, node);

		if (l->map)
			tw_shm_show_armed(l, now);
	}
}

static bool do_arm(void *instance)
{
	struct tw_shm_ep *ep = instance;
	bool found = false;

	show_armed(ep, ep->host->state == TW_ASLEEP ? TW_ASLEEP : TW_RESTING);
	for (unsigned i = 0; i < ep->nup; i++)
		if (ep->up[i]->blocked)
			atomic_store_explicit(&ep->up[i]->tx.ring->wants.room, 1,
					      memory_order_relaxed);
	tw_barrier_hosts();
	for (unsigned i = 0; i < ep->nup && !found; i++) {
		struct tw_shm_link *l = ep->up[i];

		found = tw_ring_next(&l->rx) ||
			(l->blocked && tw_ring_room(&l->tx, l->blocked_len, l->blocked_reserve));
	}
	return found;
}

static void do_disarm(void *instance)
{
	struct tw_shm_ep *ep = instance;

	show_armed(ep, 0);
	for (unsigned i = 0; i < ep->nup; i++)
		if (ep->up[i]->blocked) {
			atomic_store_explicit(&ep->up[i]->tx.ring->wants.room, 0,
					      memory_order_relaxed);
			ep->up[i]->blocked = false;
		}
}

static bool do_polls(struct tw_link *link, uint64_t since)
{
	const struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	return tw_shm_polled_since(l, since - 1) && tw_shm_polled_within(l, TW_SHM_STALE_US);
}

static bool do_waits(struct tw_link *link)
{
	const struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	return atomic_load_explicit(&l->tx.ring->reader.armed, memory_order_relaxed) == TW_ASLEEP;
}

bool tw_shm_alive(const struct tw_shm_link *l)
{
	struct pollfd p = {.fd = l->sock, .events = POLLRDHUP};

	return l->state == TW_SHM_UP && tw_sys_poll(&p, 1, 0) == 0;
}

static bool do_alive(struct tw_link *link)
{
	return tw_shm_alive(tw_container(link, struct tw_shm_link, link));
}

static enum tw_err do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
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

static void do_disconnect(struct tw_link *link)
{
	struct tw_shm_link *l = tw_container(link, struct tw_shm_link, link);

	if (l->state == TW_SHM_UP)
		tw_shm_goodbye(l);
	tw_shm_link_end(l);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static uint64_t do_expire(void *instance, uint64_t now)
{
	struct tw_shm_ep *ep = instance;
	uint64_t next = earlier(tw_shm_conn_expire(ep, now), tw_shm_shrink(ep, now));

	tw_shm_flush_deferred(ep);
	return tw_list_empty(&ep->deferred) ? next
					    : earlier(next, now + tw_clock_us(TW_SHM_DEFER_US));
}

static bool do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	struct tw_shm_ep *ep = instance;

	(void)endpoint_id;
	for (unsigned i = 0; i < ep->host->nboards; i++)
		if (ep->host->boards[i] == nic_id)
			return true;
	return false;
}

static void do_close(void *instance)
{
	struct tw_shm_ep *ep = instance;
	struct tw_list *n, *tmp;

	ep->close_by = tw_clock() + tw_clock_us(TW_SHM_REVOKE_US);
	while (ep->nup)
		do_disconnect(&ep->up[0]->link);
	tw_list_each(&ep->pending, n, tmp)
		tw_shm_link_end(tw_container(n, struct tw_shm_link, node));
	tw_shm_reap(ep);
	tw_fd_close(ep->listener);
	free(ep->up);
	free(ep);
}

/*
 * The descriptor number stays reserved, but refers to another object: the socket and its
 * name are gone.
 */
static void do_hide(void *instance)
{
	struct tw_shm_ep *ep = instance;

	dup3(ep->host->epfd, ep->listener, O_CLOEXEC);
}

static enum tw_err do_open(struct tw_host *host, void **instance)
{
	struct tw_shm_ep *ep = calloc(1, sizeof(*ep));
	enum tw_err err;

	if (!ep)
		return TW_ENOMEM;
	ep->host = host;
	ep->listener = -1;
	ep->cookie = (uint64_t)host->self.session << 32 | host->self.endpoint_id;
	tw_list_init(&ep->deferred);
	tw_list_init(&ep->pending);
	tw_list_init(&ep->dead);
	err = tw_shm_conn_listen(ep);
	if (err == TW_OK)
		*instance = ep;
	else
		do_close(ep);
	return err;
}

const struct tw_provider tw_provider_shm = {
	.name = "shm",
	.open = do_open,
	.close = do_close,
	.hide = do_hide,
	.reaches = do_reaches,
	.connect = do_connect,
	.disconnect = do_disconnect,
	.send = do_send,
	.wake = do_wake,
	.get = tw_shm_get,
	.put = tw_shm_put,
	.alive = do_alive,
	.polls = do_polls,
	.waits = do_waits,
	.progress = do_progress,
	.arm = do_arm,
	.disarm = do_disarm,
	.expire = do_expire,
};
