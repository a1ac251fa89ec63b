/* SPDX-License-Identifier: BSD-2-Clause */
/* The drivers of an endpoint, opened when first needed. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/counters.h"
#include "base/fds.h"
#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/session.h"

static void adapter_watch(struct tw_net_adapter *a, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events | EPOLLONESHOT, .data.ptr = &a->watch};

	if (a->caps.fd >= 0)
		tw_sys_epoll_ctl(a->ep->host->epfd, op, a->caps.fd, &ev);
}

static void adapter_unwatch(struct tw_net_adapter *a)
{
	a->unwatched = true;
	tw_net_poll(a->ep);
	tw_net_in(a->ep, TW_NET_UNWATCHED_US);
}

static void adapter_ready(struct tw_watch *w, uint32_t events)
{
	(void)events;
	/* The thread that found it readable polls now; see expire_unwatched(). */
	adapter_unwatch(tw_container(w, struct tw_net_adapter, watch));
}

bool tw_net_adapter_watch(struct tw_net_adapter *a)
{
	if (a->driver->arm(a->instance))
		return true;
	adapter_watch(a, EPOLL_CTL_MOD, EPOLLIN);
	a->unwatched = false;
	return false;
}

static uint64_t adapter_called(void *owner)
{
	const struct tw_net_adapter *a = owner;

	return tw_net_in(a->ep, 1000ull * tw_settings.connect_timeout);
}

void tw_net_adapters_load(struct tw_net_ep *ep)
{
	const struct tw_driver *list[TW_NET_DRIVERS];

	if (ep->loaded)
		return;
	ep->loaded = true;
	tw_net_boards_find(ep);
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

bool tw_net_adapter_open(struct tw_net_adapter *a)
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
				    .called = adapter_called,
				    .failed = tw_net_failed,
				    .ended = tw_net_ended,
				    .broken = tw_net_broken};
	enum tw_err err;
	uint64_t now;

	if (a->instance)
		return true;
	now = tw_clock();
	if (a->absent > now || host->up->locate(host->self.nic_id, &to.board) != TW_OK)
		return false;
	err = TW_EUNREACH;
	if (tw_driver_usable(a->driver))
		err = a->driver->open(&to, &a->instance, &a->caps);
	a->short_of = err == TW_ENOMEM;
	if (err != TW_OK) {
		a->instance = NULL;
		a->absent = now + tw_clock_us(TW_NET_ABSENT_US);
		return false;
	}
	if (!a->max_packet || a->caps.max_packet < a->max_packet)
		a->max_packet = a->caps.max_packet;
	adapter_watch(a, EPOLL_CTL_ADD, 0);
	adapter_unwatch(a);
	return true;
}

bool tw_net_adapters_short(const struct tw_net_ep *ep)
{
	for (unsigned i = 0; i < ep->nadapters; i++)
		if (!ep->adapters[i].instance && ep->adapters[i].short_of)
			return true;
	return false;
}

void tw_net_adapters_open(struct tw_net_ep *ep)
{
	unsigned i = 0;

	tw_net_adapters_load(ep);
	while (i < ep->nadapters && !tw_net_adapter_open(&ep->adapters[i]))
		i++;
}

uint64_t tw_net_adapters_expire(struct tw_net_ep *ep, uint64_t now)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < ep->nadapters; i++) {
		const struct tw_net_adapter *a = &ep->adapters[i];

		if (a->instance && a->driver->expire)
			next = tw_earlier(next, a->driver->expire(a->instance, now));
	}
	return next;
}

static void close_adapter(struct tw_net_adapter *a)
{
	if (!a->instance)
		return;
	adapter_watch(a, EPOLL_CTL_DEL, 0);
	tw_list_walk(&a->ep->links, struct tw_net_link, l, node) {
		tw_net_mrs_end(l, a);
		for (unsigned i = 0; i < l->npaths; i++)
			tw_net_path_drop(&l->paths[i], a);
	}
	a->driver->close(a->instance);
	a->instance = NULL;
	tw_net_packets_back(a);
	tw_list_walk(&a->ep->links, struct tw_net_link, l, node)
		tw_net_ops_unpost(l);
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
	close_adapter(a);
	tw_list_walk(&a->ep->links, struct tw_net_link, l, node) {
		for (uint32_t i = 0; i < l->npaths && tw_net_resumable(l); i++) {
			struct tw_net_path *p = &l->paths[i];

			if (p->way.adapter == a && !p->path)
				tw_net_path_gone(l, p);
		}
	}
}

struct tw_net_adapter *tw_net_adapter_named(struct tw_net_ep *ep, const char *name, size_t len)
{
	for (unsigned i = 0; i < ep->nadapters; i++)
		if (strncmp(ep->adapters[i].driver->name, name, len) == 0)
			return &ep->adapters[i];
	return NULL;
}

bool tw_net_adapter_describe(void *instance, const char *name, struct tw_link *like, char *text,
			     unsigned len)
{
	struct tw_net_ep *ep = instance;
	struct sockaddr_storage board;
	struct tw_net_adapter *a;
	bool alone;

	tw_net_adapters_load(ep);
	a = tw_net_adapter_named(ep, name, strlen(name) + 1);
	if (!a) {
		tw_driver_why_not(name, text, len);
		return false;
	}
	if (!tw_net_auth_installed(text, len))
		return false;
	if (!tw_net_adapter_open(a)) {
		if (a->short_of)
			snprintf(text, len, "descriptors or memory are short");
		else if (strcmp(name, "ofi") == 0 && *tw_settings.ofi)
			snprintf(text, len, "libfabric does not offer TAGWIRE_OFI=%s on this board",
				 tw_settings.ofi);
		else
			snprintf(text, len, "this board has no device that it uses");
		return false;
	}
	*like = (struct tw_link){.provider = &tw_provider_net,
				 .max_payload = tw_net_payload(a->max_packet),
				 .can_get = a->caps.has_rma,
				 .remote = a->driver->by_system};
	alone = ep->host->up->locate(ep->host->self.nic_id, &board) == TW_OK &&
		tw_inet_loopback(&board);
	snprintf(text, len, "%s%s; packets of %u bytes, long messages %s",
		 alone ? "this host" : "other hosts", tw_settings.encrypt ? ", encrypted" : "",
		 (unsigned)a->caps.max_packet,
		 !a->caps.has_rma	? "in packets"
		 : a->driver->by_system ? "by reads that the system copies"
					: "by reads of the network");
	return true;
}
