/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/net/session.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "base/sys.h"

#define QUIET_POLLS 64 /* polls without packets, before drivers are polled every 16th time only */
#define QUIET_US 50000 /* of polling without packets, before descriptors are watched again */

void tw_net_timer(struct tw_net_ep *ep, uint64_t when)
{
	ep->host->up->timer(ep->host, when);
}

uint64_t tw_net_in(struct tw_net_ep *ep, uint64_t us)
{
	uint64_t when = tw_clock() + tw_clock_us(us);

	tw_net_timer(ep, when);
	return when;
}

void tw_net_poll(struct tw_net_ep *ep)
{
	if (ep->polled)
		return;
	ep->polled = true;
	ep->host->up->poll(ep->host, ep, true);
}

static void session_flush(struct tw_net_ep *ep)
{
	struct tw_net_link *l;
	unsigned count = 0;

	for (struct tw_list *n = ep->work.next; n != &ep->work; n = n->next)
		count++;
	/* A link with more to post is queued again, for the next call. */
	for (; count && (l = tw_list_take(&ep->work, struct tw_net_link, work)); count--) {
		tw_net_flush(l);
		if (l->state != TW_NET_DEAD)
			tw_net_ops_flush(l);
	}
}

static tw_inline void poll_adapters(struct tw_net_ep *ep, bool all)
{
	for (unsigned i = 0; i < ep->nadapters; i++) {
		const struct tw_net_adapter *a = &ep->adapters[i];

		if (a->instance && (all || a->driver->polled_cheaply))
			a->driver->progress(a->instance);
	}
	if (tw_unlikely(!tw_list_empty(&ep->work)))
		session_flush(ep);
}

static unsigned session_do_progress(void *instance)
{
	struct tw_net_ep *ep = instance;
	uint64_t before = ep->packets;
	bool all;

	if (tw_unlikely(!tw_list_empty(&ep->dead)))
		tw_net_reap(ep);
	if (ep->nlinks == ep->nhalf) {
		/* Once more, to take in packets for links that are gone. */
		poll_adapters(ep, true);
		ep->polled = false;
		ep->host->up->poll(ep->host, ep, false);
		return 0;
	}
	/* Polling most drivers costs a system call: rarely, if nothing comes. */
	all = ++ep->quiet <= QUIET_POLLS || !(ep->quiet & 15) || !tw_list_empty(&ep->work);
	ep->taken = 0;
	poll_adapters(ep, all);
	if (ep->packets != before)
		ep->quiet = 0;
	return ep->taken;
}

static void session_send_acks(struct tw_net_ep *ep)
{
	ep->ack_at = 0;
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		if (l->unacked)
			tw_net_send_ack(l);
	}
}

static bool session_do_arm(void *instance)
{
	struct tw_net_ep *ep = instance;
	bool found = false;

	ep->quiet = 0;
	session_flush(ep);
	session_send_acks(ep);
	for (unsigned i = 0; i < ep->nadapters; i++)
		if (ep->adapters[i].instance)
			found |= tw_net_adapter_watch(&ep->adapters[i]);
	/* Arming may have made room for waiting packets. */
	if (!tw_list_empty(&ep->work))
		session_flush(ep);
	if (found)
		tw_net_poll(ep);
	return found;
}

/*
 * The descriptors of drivers are not watched while packets come and the program
 * polls: each packet would wake the service thread. They are watched again when
 * since the last check no packet came and nobody polled, or after QUIET_US without
 * packets. So the end of polling is noticed a little late.
 */
static uint64_t expire_unwatched(struct tw_net_ep *ep, uint64_t now)
{
	bool busy = ep->packets != ep->seen, unwatched = false;

	if (busy)
		ep->seen_at = now;
	else
		busy = ep->quiet != ep->quiet_seen && now - ep->seen_at < tw_clock_us(QUIET_US);
	ep->seen = ep->packets;
	ep->quiet_seen = ep->quiet;
	for (unsigned i = 0; i < ep->nadapters; i++) {
		struct tw_net_adapter *a = &ep->adapters[i];

		if (!a->instance || !a->unwatched)
			continue;
		if (!busy && tw_net_adapter_watch(a))
			poll_adapters(ep, true);
		unwatched |= a->unwatched && a->instance;
	}
	return unwatched ? now + tw_clock_us(TW_NET_UNWATCHED_US) : 0;
}

static uint64_t session_do_expire(void *instance, uint64_t now)
{
	struct tw_net_ep *ep = instance;
	uint64_t next;

	if (ep->listen_again && ep->listen_again <= now)
		tw_net_listen_again(ep);
	if (ep->ack_at && ep->ack_at <= now)
		session_send_acks(ep);
	next = tw_earlier(ep->listen_again, ep->ack_at);
	/* The end of one may end others: start again. */
again:
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		next = tw_earlier(next, tw_net_link_expire(l, now));
		if (l->state == TW_NET_DEAD)
			goto again;
	}
	next = tw_earlier(next, tw_net_adapters_expire(ep, now));
	return tw_earlier(next, expire_unwatched(ep, now));
}

static bool session_do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	struct tw_net_ep *ep = instance;
	struct sockaddr_storage sa;

	(void)endpoint_id;
	/* With shared memory in use, this host is left to it. */
	if (strstr(tw_settings.providers, "shm") && tw_host_has(ep->host, nic_id))
		return false;
	return ep->host->up->locate(nic_id, &sa) != TW_EUNREACH;
}

static enum tw_err session_do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
				      uint32_t endpoint_id, void *peer, struct tw_link **link)
{
	struct tw_net_ep *ep = instance;
	struct tw_net_link *l;
	enum tw_err err;

	tw_net_adapters_open(ep);
	if (!ep->nadapters) {
		tw_driver_report(tw_settings.providers);
		return TW_EUNREACH;
	}
	l = tw_net_link_new(ep, TW_NET_NEW);
	if (!l)
		return TW_ENOMEM;
	l->initiator = true;
	l->me = *me;
	l->other.nic_id = nic_id;
	l->other.endpoint_id = endpoint_id;
	l->link.peer = peer;
	err = ep->host->up->locate(nic_id, &l->peer_addr);
	if (err == TW_OK)
		err = tw_net_dial(l);
	else if (err == TW_AGAIN)
		err = tw_net_search(l);
	if (err == TW_OK)
		*link = &l->link;
	else
		tw_net_link_end(l);
	return err;
}

static void session_do_disconnect(struct tw_link *link)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);

	tw_net_ops_end(l, false);
	tw_net_mrs_end(l, NULL);
	if (l->state != TW_NET_UP || (l->channel != TW_NET_OPEN && tw_list_empty(&l->kept))) {
		if (l->state == TW_NET_PROBING)
			tw_net_goodbye(l);
		tw_net_link_end(l);
		return;
	}
	/* Packets already sent are still delivered, without the engine; tw_net_acked() says BYE. */
	l->state = TW_NET_LEAVING;
	l->until = (l->broken ? l->broken : tw_clock()) + tw_clock_us(1000ull * tw_settings.retry);
	tw_net_timer(l->ep, l->until);
	l->blocked = true;
	if (tw_list_empty(&l->kept)) {
		tw_net_goodbye(l);
		return;
	}
	tw_net_ctrl_send(l, TW_NET_LEAVE, TW_OK);
	tw_net_flush(l);
}

static bool undelivered(struct tw_net_ep *ep)
{
	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		if (l->state == TW_NET_LEAVING && !tw_list_empty(&l->kept))
			return true;
	}
	return false;
}

/*
 * Until all packets are acknowledged, or given up (expire_leaving). Descriptors of other
 * providers, whose upcalls the engine does not expect any more, are left alone.
 */
static void linger(struct tw_net_ep *ep)
{
	struct epoll_event ev[16];

	ep->closing = true;
	while (undelivered(ep)) {
		int n = tw_sys_epoll_wait(ep->host->epfd, ev, tw_countof(ev), 1);

		for (int i = 0; i < n; i++) {
			struct tw_watch *w = ev[i].data.ptr;

			if (w->ready == tw_net_sock_ready)
				w->ready(w, ev[i].events);
		}
		for (unsigned i = 0; i < ep->nlisteners; i++)
			ep->listeners[i].watch.ready(&ep->listeners[i].watch, EPOLLIN);
		poll_adapters(ep, true);
		session_do_expire(ep, tw_clock());
	}
}

static void session_do_close(void *instance)
{
	struct tw_net_ep *ep = instance;

	tw_list_walk(&ep->links, struct tw_net_link, l, node) {
		if (l->state != TW_NET_LEAVING)
			session_do_disconnect(&l->link);
	}
	linger(ep);
	while (!tw_list_empty(&ep->links)) {
		struct tw_net_link *l = tw_list_first(&ep->links, struct tw_net_link, node);

		if (l->state == TW_NET_LEAVING)
			tw_net_goodbye(l);
		tw_net_link_end(l);
	}
	tw_net_reap(ep);
	tw_net_adapters_close(ep);
	tw_net_listen_end(ep);
	tw_sock_listen_end(&ep->name_lock);
	free(ep->table.of);
	free(ep);
}

/*
 * Other files take the numbers of the sockets: these are closed, so their ports are free, but the
 * program does not get the numbers.
 */
static void session_do_hide(void *instance)
{
	struct tw_net_ep *ep = instance;

	tw_sock_hide(&ep->name_lock, ep->host->epfd);
	for (unsigned i = 0; i < ep->nlisteners; i++)
		tw_fd_own(tw_sys_dup(ep->host->epfd, ep->listeners[i].fd));
}

static enum tw_err session_do_open(struct tw_host *host, void **instance)
{
	struct tw_net_ep *ep = calloc(1, sizeof(*ep));
	enum tw_err err;

	if (!ep)
		return TW_ENOMEM;
	ep->host = host;
	ep->name_lock = (struct tw_sock_listener){.fd = {-1, -1}};
	ep->sought.fd = ep->found.fd = -1;
	ep->polled = true;
	tw_list_init(&ep->links);
	tw_list_init(&ep->work);
	tw_list_init(&ep->dead);
	err = tw_net_listen(ep);
	if (err == TW_OK)
		*instance = ep;
	else
		session_do_close(ep);
	return err;
}

static bool session_do_alive(struct tw_link *link)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);

	return l->state == TW_NET_UP && tw_net_sock_alive(l);
}

const struct tw_provider tw_provider_net = {
	.name = "net",
	.open = session_do_open,
	.close = session_do_close,
	.hide = session_do_hide,
	.reaches = session_do_reaches,
	.connect = session_do_connect,
	.disconnect = session_do_disconnect,
	.send = tw_net_send,
	.rma = tw_net_rma,
	.mem_reg = tw_net_mem_reg,
	.mem_dereg = tw_net_mem_dereg,
	.alive = session_do_alive,
	.progress = session_do_progress,
	.arm = session_do_arm,
	.expire = session_do_expire,
	.query = tw_net_query,
	.describe = tw_net_adapter_describe,
};
