/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections. The initiator makes the memory and sends a hello to the socket of the other
 * side, which accepts or refuses. Afterwards the socket carries doorbells and goodbyes, and
 * its hang-up reports that the peer has died.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/sys.h"
#include "providers/shm/shm.h"
#include "shmem/sealed.h"
#include "shmem/sock.h"

#define RETRY_US 1000
#define LISTEN_AGAIN_US 100000
#define ACCEPTS 64 /* connections accepted in one call */

static int conn_watch(struct tw_shm_ep *ep, int fd, struct tw_watch *w)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = w};

	return tw_sys_epoll_ctl(ep->host->epfd, EPOLL_CTL_ADD, fd, &ev);
}

static struct tw_ident hello_ident(const struct tw_shm_hello *h)
{
	return (struct tw_ident){h->nic_id, h->endpoint_id, h->session,
				 h->filter, h->presented,   h->window};
}

/* The initiator writes the first ring. */
static void lay_out(struct tw_shm_link *l, bool initiator, uint32_t nslots, uint32_t nbytes)
{
	unsigned mine = initiator ? TW_RING_FIRST : TW_RING_SECOND;

	l->map_size = tw_rings_size(nslots, nbytes);
	tw_ring_tx_init(&l->tx, l->map, mine, nslots, nbytes, &l->ep->share);
	tw_ring_rx_init(&l->rx, l->map, !mine, nslots, nbytes);
	tw_ring_pair(&l->tx, &l->rx, initiator);
	l->link.max_payload = tw_ring_max_payload(nbytes);
	/* Not 0: l->rang == 0 means that the peer was never rung. */
	tw_shm_show_armed(l, tw_clock());
}

/* A forked child may keep the socket open, so the process is watched as well. */
static void pid_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_shm_link *l = tw_container(w, struct tw_shm_link, pid_watch);

	(void)events;
	/* Reads a goodbye that came before the end of the process. */
	if (l->state == TW_SHM_UP)
		tw_shm_doorbells_read(l, 0);
	if (l->state == TW_SHM_UP)
		tw_shm_link_down(l, l->closing ? TW_ECLOSED : TW_ELOST);
}

static void watch_process(struct tw_shm_link *l)
{
	bool other = l->link.pid != tw_sys_pid();

	/* Before Linux 6.5 by its number. */
	if (other)
		l->pidfd = tw_sock_pidfd(l->sock);
#ifdef SYS_pidfd_open
	if (other && l->pidfd < 0 && l->link.pid > 0)
		l->pidfd = tw_fd_own((int)syscall(SYS_pidfd_open, l->link.pid, 0));
#endif
	l->pid_watch.ready = pid_ready;
	if (l->pidfd >= 0)
		conn_watch(l->ep, l->pidfd, &l->pid_watch);
}

/* Takes over what the other side says of itself. After lay_out(). */
static void take_terms(struct tw_shm_link *l, const struct tw_shm_hello *h)
{
	l->rx.fence = !h->barrier || !tw_barrier_global();
	l->cookie = (uint64_t)h->session << 32 | h->endpoint_id;
	l->cookie_at = h->cookie_at;
	/* Addresses of 64 bits do not fit a process of 32. */
	if (h->narrow != TW_NARROW)
		l->link.can_get = false;
}

static void conn_replied(struct tw_shm_link *l, const struct tw_shm_hello *h)
{
	struct tw_ident other = hello_ident(h);
	const struct tw_upcalls *up = l->ep->host->up;
	enum tw_err err = TW_EPROTO;

	take_terms(l, h);
	if (h->kind == TW_SHM_ACCEPT)
		err = tw_shm_link_up(l);
	else if (h->kind == TW_SHM_REFUSE && h->why > TW_PENDING && h->why < TW_NERRS)
		err = (enum tw_err)h->why;
	if (err == TW_OK) {
		watch_process(l);
		up->connected(&l->link, &other);
		return;
	}
	tw_shm_link_end(l);
	up->refused(&l->link, err);
}

static void await_answer(struct tw_shm_link *l)
{
	struct tw_shm_hello h;
	enum tw_err err = tw_shm_hello_recv(l->sock, &h, NULL);

	if (err == TW_AGAIN)
		return;
	if (err == TW_OK) {
		conn_replied(l, &h);
		return;
	}
	tw_shm_link_end(l);
	l->ep->host->up->refused(&l->link, err == TW_EPROTO ? err : TW_ECLOSED);
}

/* Checks a hello and its descriptor before any use. */
static enum tw_err conn_vet(const struct tw_shm_hello *h, int fd)
{
	uint32_t s = h->nslots, b = h->nbytes;

	if (h->kind != TW_SHM_CONNECT || s < 64 || s > 65536 || (s & (s - 1)) ||
	    b < TW_RING_BYTES_LEAST || b > 16777216 || (b & (b - 1)))
		return TW_EPROTO;
	return tw_sealed_sound(fd, tw_rings_size(s, b)) ? TW_OK : TW_EPROTO;
}

/* Takes a link that the engine accepts into use: its memory and its entry in the poll set. */
static enum tw_err conn_enter(struct tw_shm_link *l, const struct tw_shm_hello *h, int fd)
{
	l->map = tw_sealed_map(fd, tw_rings_size(h->nslots, h->nbytes), PROT_READ | PROT_WRITE);
	if (!l->map)
		return TW_ENOMEM;
	lay_out(l, false, h->nslots, h->nbytes);
	take_terms(l, h);
	return tw_shm_link_up(l);
}

static void conn_answer(struct tw_shm_link *l, const struct tw_shm_hello *h, int fd)
{
	struct tw_shm_ep *ep = l->ep;
	struct tw_ident other = hello_ident(h), me = ep->host->self;
	struct tw_shm_hello reply;
	enum tw_err err = conn_vet(h, fd);
	bool accepted = false;

	/*
	 * The engine decides first: of two connects that cross one is refused, and needs no
	 * memory.
	 */
	if (err == TW_OK)
		err = ep->host->up->incoming(ep->host, &l->link, &other, &me);
	if (err == TW_OK) {
		accepted = true;
		err = conn_enter(l, h, fd);
	}
	tw_shm_hello_fill(ep, &reply, err == TW_OK ? TW_SHM_ACCEPT : TW_SHM_REFUSE, &me);
	reply.why = err;
	if (tw_shm_hello_send(l->sock, &reply, NULL) != TW_OK && err == TW_OK)
		err = TW_ELOST;
	if (err == TW_OK) {
		watch_process(l);
		return;
	}
	/* Else the connection stands that this side makes. */
	if (err != TW_ECROSS)
		tw_log(TW_LOG_INFO, "refused endpoint %u of %012llx: %s", other.endpoint_id,
		       (unsigned long long)other.nic_id, tw_log_err(err));
	tw_shm_link_end(l);
	if (accepted)
		ep->host->up->down(&l->link, TW_ELOST);
}

static void await_hello(struct tw_shm_link *l)
{
	struct tw_shm_hello h;
	int fd;
	enum tw_err err = tw_shm_hello_recv(l->sock, &h, &fd);

	if (err == TW_AGAIN)
		return;
	if (err == TW_OK) {
		conn_answer(l, &h, fd);
		tw_sys_close(fd);
		return;
	}
	/* A process of another byte order or version cannot read the answer, and knows by that. */
	if (err == TW_EPROTO || err == TW_ENOMEM) {
		tw_shm_hello_fill(l->ep, &h, TW_SHM_REFUSE, &l->ep->host->self);
		h.why = err;
		tw_shm_hello_send(l->sock, &h, NULL);
	}
	tw_shm_link_end(l);
}

static void conn_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_shm_link *l = tw_container(w, struct tw_shm_link, sock_watch);

	switch (l->state) {
	case TW_SHM_WAITING:
		await_answer(l);
		break;
	case TW_SHM_HALF:
		await_hello(l);
		break;
	case TW_SHM_UP:
		tw_shm_doorbells_read(l, events);
		break;
	default:
		break;
	}
}

/* Takes a socket into use, on either side. alone: only this user reaches the listener. */
static enum tw_err conn_adopt(struct tw_shm_link *l, int sock, bool alone)
{
	int err = tw_sock_peer(sock, &l->link.pid);

	if (err && !(err == TW_SOCK_UNNAMED && alone)) {
		tw_fd_close(sock);
		return TW_EPERM;
	}
	l->sock = sock;
	l->link.can_get = l->link.pid > 0;
	l->link.by_cpu = true;
	l->sock_watch.ready = conn_ready;
	return conn_watch(l->ep, sock, &l->sock_watch) < 0 ? TW_ENOMEM : TW_OK;
}

enum tw_err tw_shm_segment_make(uint32_t nslots, uint32_t nbytes, int *fd, void **map)
{
	size_t size = tw_rings_size(nslots, nbytes);
	enum tw_err err = tw_sealed_make("tagwire-ring", size, TW_SEALS, fd, map);

	if (err != TW_OK || tw_rings_make(*map, nslots))
		return err;
	munmap(*map, size);
	tw_sys_close(*fd);
	*map = NULL;
	return TW_ENOMEM;
}

static enum tw_err conn_introduce(struct tw_shm_link *l)
{
	struct tw_shm_hello h;
	uint32_t nslots = tw_settings.ring_slots, nbytes = tw_settings.ring_bytes;
	enum tw_err err;
	int fd;

	err = tw_shm_segment_make(nslots, nbytes, &fd, &l->map);
	if (err != TW_OK)
		return err;
	lay_out(l, true, nslots, nbytes);
	tw_shm_hello_fill(l->ep, &h, TW_SHM_CONNECT, &l->me);
	err = tw_shm_hello_send(l->sock, &h, &fd);
	tw_sys_close(fd);
	l->state = TW_SHM_WAITING;
	return err;
}

enum tw_err tw_shm_conn_start(struct tw_shm_link *l)
{
	int sock;
	enum tw_err err = tw_host_has(l->ep->host, l->to_nic)
				  ? tw_shm_dial(l->to_nic, l->to_eid, &sock)
				  : tw_shm_dial_shared(l->to_nic, l->to_eid, &sock);

	if (err == TW_AGAIN) {
		l->state = TW_SHM_RETRY;
		l->deadline = tw_clock() + tw_clock_us(RETRY_US);
		l->ep->host->up->timer(l->ep->host, l->deadline);
		return TW_OK;
	}
	if (err == TW_EPERM)
		l->ep->host->up->trouble(
			l->ep->host, l->link.peer, err,
			"it is another user's, who shares no memory with this one",
			"TAGWIRE_PROVIDERS=self,tcp on both sides, with one key, goes by tcp");
	if (err == TW_OK)
		err = conn_adopt(l, sock, true);
	return err == TW_OK ? conn_introduce(l) : err;
}

/* Connections without a hello, of a process or of all. */
static unsigned half_of(const struct tw_shm_ep *ep, pid_t pid, bool all)
{
	unsigned held = 0;

	tw_list_walk(&ep->pending, struct tw_shm_link, l, node) {
		held += l->state == TW_SHM_HALF && (all || l->link.pid == pid);
	}
	return held;
}

/* Drops the oldest connection of the process that has the most. */
static void make_space(struct tw_shm_ep *ep)
{
	struct tw_shm_link *out = NULL;
	unsigned most = 0;

	tw_list_walk(&ep->pending, struct tw_shm_link, l, node) {
		unsigned held = l->state == TW_SHM_HALF ? half_of(ep, l->link.pid, false) : 0;

		if (held > most) {
			most = held;
			out = l;
		}
	}
	tw_log(TW_LOG_INFO, "process %d connects and does not say who it is", (int)out->link.pid);
	tw_shm_link_end(out);
}

static void conn_accept_one(struct tw_shm_ep *ep, int sock, bool alone)
{
	struct tw_shm_link *l;

	if (half_of(ep, 0, true) >= TW_SHM_HALF_MAX)
		make_space(ep);
	l = tw_shm_link_new(ep, TW_SHM_HALF);
	if (!l) {
		tw_fd_close(sock);
		return;
	}
	l->deadline = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);
	if (conn_adopt(l, sock, alone) != TW_OK) {
		tw_shm_link_end(l);
		return;
	}
	await_hello(l);
	if (l->state == TW_SHM_HALF)
		ep->host->up->timer(ep->host, l->deadline);
}

static void watch_listener(struct tw_shm_ep *ep, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = &ep->listen_watch};

	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		tw_sys_epoll_ctl(ep->host->epfd, EPOLL_CTL_MOD, ep->listener.fd[i], &ev);
}

/* Whether there are descriptors for those that wait. */
static bool conn_accept_at(struct tw_shm_ep *ep, unsigned which)
{
	bool alone = which == TW_SOCK_OWN && ep->listener.alone;
	int listener = ep->listener.fd[which];

	/* Bounded: connections that still wait are reported again. */
	for (unsigned i = 0; i < ACCEPTS; i++) {
		int sock = tw_fd_own(
			tw_sys_accept(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (sock < 0)
			return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
		conn_accept_one(ep, sock, alone);
	}
	return true;
}

static void conn_listener_ready(struct tw_watch *w, uint32_t events)
{
	struct tw_shm_ep *ep = tw_container(w, struct tw_shm_ep, listen_watch);
	bool all = true;

	(void)events;
	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		if (ep->listener.fd[i] >= 0)
			all &= conn_accept_at(ep, i);
	if (all)
		return;
	/* Out of descriptors: the listener would stay readable, so stop watching it for a while. */
	watch_listener(ep, 0);
	ep->listen_again = tw_clock() + tw_clock_us(LISTEN_AGAIN_US);
	ep->host->up->timer(ep->host, ep->listen_again);
}

enum tw_err tw_shm_conn_listen(struct tw_shm_ep *ep)
{
	const struct tw_ident *me = &ep->host->self;
	enum tw_err err = tw_shm_listen(me->nic_id, me->endpoint_id, &ep->listener);

	if (err == TW_EBUSY)
		ep->host->holder = tw_shm_holder(me->nic_id, me->endpoint_id);
	if (err != TW_OK)
		return err;
	ep->listen_watch.ready = conn_listener_ready;
	for (unsigned i = 0; i < TW_SOCK_LISTENERS; i++)
		if (ep->listener.fd[i] >= 0 &&
		    conn_watch(ep, ep->listener.fd[i], &ep->listen_watch) < 0)
			return TW_ENOMEM;
	return TW_OK;
}

/*
 * Retries connects and gives up those that are late. Returns the next tick to be called at,
 * or 0.
 */
uint64_t tw_shm_conn_expire(struct tw_shm_ep *ep, uint64_t now)
{
	uint64_t next = 0;

	if (ep->listen_again && ep->listen_again <= now) {
		ep->listen_again = 0;
		watch_listener(ep, EPOLLIN);
	}
	next = ep->listen_again;
	tw_list_walk(&ep->pending, struct tw_shm_link, l, node) {
		bool late = l->deadline <= now;
		enum tw_err err = TW_OK;

		if (late && l->state == TW_SHM_RETRY)
			err = tw_shm_conn_start(l);
		if (err != TW_OK || (late && l->state == TW_SHM_HALF))
			tw_shm_link_end(l);
		if (err != TW_OK)
			ep->host->up->refused(&l->link, err);
		else if (l->state == TW_SHM_RETRY || l->state == TW_SHM_HALF)
			next = tw_earlier(next, l->deadline);
	}
	return next;
}
