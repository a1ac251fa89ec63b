/* SPDX-License-Identifier: BSD-2-Clause */
/* The drivers of an endpoint, opened when first needed, and the paths of links. */
#include <string.h>
#include <sys/epoll.h>

#include "base/counters.h"
#include "base/fds.h"
#include "providers/net/session.h"

#define SOON_US 3000000	   /* a path that breaks so soon counts against its driver */
#define ABSENT_US 10000000 /* until a driver that could not be opened is tried again */

static void adapter_ready(struct tw_watch *w, uint32_t events)
{
	(void)events;
	/* The thread that found it readable polls now; see expire_unwatched(). */
	tw_net_adapter_unwatch(tw_container(w, struct tw_net_adapter, watch));
}

static void watch(struct tw_net_adapter *a, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT, .data.ptr = &a->watch};

	if (a->caps.fd >= 0)
		epoll_ctl(a->ep->host->epfd, op, a->caps.fd, &ev);
}

void tw_net_adapter_unwatch(struct tw_net_adapter *a)
{
	a->unwatched = true;
	tw_net_poll(a->ep);
	tw_net_timer(a->ep, tw_clock() + tw_clock_us(TW_NET_UNWATCHED_US));
}

bool tw_net_adapter_watch(struct tw_net_adapter *a)
{
	if (a->driver->arm(a->instance))
		return true;
	watch(a, EPOLL_CTL_MOD, EPOLLIN);
	a->unwatched = false;
	return false;
}

void tw_net_adapters_load(struct tw_net_ep *ep)
{
	const struct tw_driver *list[TW_NET_DRIVERS];

	if (ep->loaded)
		return;
	ep->loaded = true;
	ep->nadapters = tw_driver_list(tw_settings.providers, list);
	for (unsigned i = 0; i < ep->nadapters; i++) {
		struct tw_net_adapter *a = &ep->adapters[i];

		*a = (struct tw_net_adapter){.driver = list[i], .ep = ep};
		tw_list_init(&a->free[false]);
		tw_list_init(&a->free[true]);
		tw_list_init(&a->slabs);
		a->watch.ready = adapter_ready;
	}
}

static bool open_adapter(struct tw_net_adapter *a)
{
	struct tw_host *host = a->ep->host;
	struct tw_driver_host to = {.owner = a,
				    .settings = &tw_settings,
				    .log = tw_log,
				    .copied = &host->counters[TW_C_COPIED],
				    .own_fd = tw_fd_own,
				    .close_fd = tw_fd_close,
				    .packet_get = tw_net_packet_ready,
				    .packets_back = tw_net_packets_back,
				    .packet = tw_net_packet,
				    .failed = tw_net_failed,
				    .ended = tw_net_ended,
				    .broken = tw_net_broken};
	uint64_t now;

	if (a->instance)
		return true;
	now = tw_clock();
	if (a->absent > now || host->up->locate(host, host->self.nic_id, &to.board) != TW_OK)
		return false;
	if (!tw_driver_usable(a->driver) || a->driver->open(&to, &a->instance, &a->caps) != TW_OK) {
		a->instance = NULL;
		a->absent = now + tw_clock_us(ABSENT_US);
		return false;
	}
	if (!a->max_packet || a->caps.max_packet < a->max_packet)
		a->max_packet = a->caps.max_packet;
	watch(a, EPOLL_CTL_ADD, 0);
	tw_net_adapter_unwatch(a);
	return true;
}

void tw_net_adapters_open(struct tw_net_ep *ep)
{
	unsigned i = 0;

	tw_net_adapters_load(ep);
	while (i < ep->nadapters && !open_adapter(&ep->adapters[i]))
		i++;
}

static void close_adapter(struct tw_net_adapter *a)
{
	struct tw_list *n, *tmp;

	if (!a->instance)
		return;
	watch(a, EPOLL_CTL_DEL, 0);
	tw_list_each(&a->ep->links, n, tmp) {
		struct tw_net_link *l = tw_container(n, struct tw_net_link, node);
		unsigned i = tw_net_index(a);

		tw_net_mrs_end(l, a);
		if (l->offered[i])
			a->driver->path_free(l->offered[i]);
		l->offered[i] = NULL;
		if (l->path && l->adapter == a) {
			a->driver->path_free(l->path);
			l->path = NULL;
			l->bound = false;
		}
	}
	a->driver->close(a->instance);
	a->instance = NULL;
	tw_net_packets_back(a);
	tw_list_each(&a->ep->links, n, tmp)
		tw_net_ops_unpost(tw_container(n, struct tw_net_link, node));
}

void tw_net_adapters_close(struct tw_net_ep *ep)
{
	for (unsigned i = 0; i < ep->nadapters; i++) {
		close_adapter(&ep->adapters[i]);
		tw_net_pool_free(&ep->adapters[i]);
	}
}

void tw_net_adapter_reset(struct tw_net_adapter *a)
{
	struct tw_list *n, *tmp;

	close_adapter(a);
	tw_list_each(&a->ep->links, n, tmp) {
		struct tw_net_link *l = tw_container(n, struct tw_net_link, node);

		if (l->adapter == a && !l->path && tw_net_resumable(l)) {
			if (!l->broken)
				l->broken = tw_clock();
			tw_net_resume(l);
		}
	}
}

static void drop_offers(struct tw_net_link *l)
{
	for (unsigned i = 0; i < l->ep->nadapters; i++) {
		if (l->offered[i])
			l->ep->adapters[i].driver->path_free(l->offered[i]);
		l->offered[i] = NULL;
	}
}

void tw_net_path_drop(struct tw_net_link *l)
{
	drop_offers(l);
	if (l->path)
		l->adapter->driver->path_free(l->path);
	l->path = NULL;
	l->bound = false;
}

static void make_offer(struct tw_net_adapter *a, struct tw_net_offer *o)
{
	strncpy(o->name, a->driver->name, sizeof(o->name) - 1);
	o->max_packet = a->max_packet;
}

/* Whether the packet size agreed on for the link fits. */
static bool fits(const struct tw_net_link *l, uint32_t max_packet)
{
	uint32_t least = l->link.max_payload ? l->link.max_payload : 4096;

	return max_packet >= least + sizeof(struct tw_net_wire);
}

static void agree(struct tw_net_link *l, uint32_t max_packet)
{
	uint32_t room = max_packet - (uint32_t)sizeof(struct tw_net_wire);

	if (!l->link.max_payload)
		l->link.max_payload = room < TW_NET_PAYLOAD ? room : TW_NET_PAYLOAD;
}

void tw_net_offer(struct tw_net_link *l, struct tw_net_ctrl *t)
{
	struct tw_net_ep *ep = l->ep;

	tw_net_adapters_load(ep);
	drop_offers(l);
	/* When all have failed, all are tried again. */
	for (int again = 0; again < 2 && !t->noffers; again++) {
		if (again)
			l->failed = 0;
		/* One offer only: opening the next driver may take a second. */
		for (unsigned i = 0; i < ep->nadapters && !t->noffers; i++) {
			struct tw_net_adapter *a = &ep->adapters[i];
			struct tw_net_offer *o = &t->offers[0];

			if ((l->failed >> i & 1) || !open_adapter(a) || !fits(l, a->max_packet) ||
			    a->driver->path_new(a->instance, &o->address, &l->offered[i]) != TW_OK)
				continue;
			make_offer(a, o);
			t->noffers++;
		}
	}
}

bool tw_net_offers_left(struct tw_net_link *l)
{
	struct tw_net_ep *ep = l->ep;

	for (unsigned i = 0; i < ep->nadapters; i++)
		if (l->offered[i])
			l->failed |= 1u << i;
	for (unsigned i = 0; i < ep->nadapters; i++)
		if (!(l->failed >> i & 1) && open_adapter(&ep->adapters[i]))
			return true;
	return false;
}

static const struct tw_net_offer *offer_of(const struct tw_net_ctrl *t, const char *name)
{
	for (unsigned i = 0; i < t->noffers && i < TW_NET_DRIVERS; i++)
		if (strncmp(t->offers[i].name, name, sizeof(t->offers[i].name)) == 0)
			return &t->offers[i];
	return NULL;
}

static void use(struct tw_net_link *l, struct tw_net_adapter *a, void *path)
{
	tw_net_path_drop(l);
	l->adapter = a;
	l->path = path;
	l->epoch++;
	l->link.key_size = TW_KEY_MAX;
	l->link.remote = a->driver->by_system;
}

static enum tw_err choose(struct tw_net_link *l, const struct tw_net_ctrl *offers,
			  struct tw_net_ctrl *t, uint32_t failed)
{
	struct tw_net_ep *ep = l->ep;

	for (unsigned i = 0; i < ep->nadapters; i++) {
		struct tw_net_adapter *a = &ep->adapters[i];
		const struct tw_net_offer *o = offer_of(offers, a->driver->name);
		struct tw_net_offer *mine = &t->offers[0];
		void *path;

		if ((failed >> i & 1) || !o || !open_adapter(a) || !fits(l, o->max_packet) ||
		    !fits(l, a->max_packet) || o->address.len > TW_DRIVER_ADDRESS ||
		    a->driver->path_new(a->instance, &mine->address, &path) != TW_OK)
			continue;
		if (a->driver->path_bind(path, &o->address) != TW_OK) {
			a->driver->path_free(path);
			continue;
		}
		make_offer(a, mine);
		if (o->max_packet < mine->max_packet)
			mine->max_packet = o->max_packet;
		agree(l, mine->max_packet);
		t->noffers = 1;
		use(l, a, path);
		return TW_OK;
	}
	return TW_EUNREACH;
}

enum tw_err tw_net_choose(struct tw_net_link *l, const struct tw_net_ctrl *offers,
			  struct tw_net_ctrl *t)
{
	enum tw_err err;

	tw_net_adapters_load(l->ep);
	err = choose(l, offers, t, l->failed);
	/* If nothing else is offered, take a driver that failed before. */
	if (err == TW_EUNREACH && l->failed) {
		l->failed = 0;
		err = choose(l, offers, t, 0);
	}
	return err;
}

enum tw_err tw_net_chosen(struct tw_net_link *l, const struct tw_net_ctrl *t)
{
	for (unsigned i = 0; i < l->ep->nadapters; i++) {
		struct tw_net_adapter *a = &l->ep->adapters[i];
		const struct tw_net_offer *o = offer_of(t, a->driver->name);
		void *path = l->offered[i];

		if (!o || !path || !fits(l, o->max_packet) || o->address.len > TW_DRIVER_ADDRESS ||
		    a->driver->path_bind(path, &o->address) != TW_OK)
			continue;
		l->offered[i] = NULL;
		agree(l, o->max_packet);
		use(l, a, path);
		return TW_OK;
	}
	return TW_EPROTO;
}

void tw_net_path_broken(struct tw_net_link *l)
{
	uint64_t now = tw_clock();

	l->ep->host->counters[TW_C_PATH_BROKEN]++;
	/* After BYE no other path can be agreed on: go on with this one. */
	if (l->tx_shutdown) {
		l->unposted = l->kept.next;
		tw_net_work(l);
		return;
	}
	if (l->path && (!l->bound || now - l->bound_at < tw_clock_us(SOON_US)))
		l->failed |= 1u << tw_net_index(l->adapter);
	if (!l->broken)
		l->broken = now;
	tw_net_path_drop(l);
	tw_net_timer(l->ep, l->broken + tw_clock_us(1000ull * tw_settings.retry));
	if (!l->resuming) {
		tw_net_resume(l);
		return;
	}
	/* The new path does not work either: try the next driver, if any is left. */
	if (l->failed + 1 == 1u << l->ep->nadapters)
		return;
	l->deadline = now + tw_clock_us(TW_NET_PROBE_US);
	tw_net_timer(l->ep, l->deadline);
}

void tw_net_broken(void *owner, void *path)
{
	struct tw_net_adapter *a = owner;
	struct tw_list *n, *tmp;

	if (!path) {
		a->absent = tw_clock() + tw_clock_us(ABSENT_US);
		/* Not used again while another path is being agreed on. */
		tw_list_each(&a->ep->links, n, tmp)
			tw_container(n, struct tw_net_link, node)->failed |= 1u << tw_net_index(a);
		tw_net_adapter_reset(a);
		return;
	}
	tw_list_each(&a->ep->links, n, tmp) {
		struct tw_net_link *l = tw_container(n, struct tw_net_link, node);

		if (l->adapter != a || l->path != path)
			continue;
		/* A link that ends needs no other path. */
		if (tw_net_resumable(l))
			tw_net_path_broken(l);
		return;
	}
}
