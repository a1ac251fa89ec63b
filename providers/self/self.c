/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection of an endpoint to itself. A packet is queued and the next progress
 * delivers it, never the send. rma() copies long messages.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/copy.h"
#include "base/list.h"
#include "providers/provider.h"

#define MAX_PAYLOAD 16384
#define MAX_QUEUED 1024
#define RESERVE 64 /* slots that only control packets may use */

struct self_ep {
	struct tw_link link;
	struct tw_host *host;
	struct tw_list packets;
	unsigned queued;
	bool up;
};

struct self_packet {
	struct tw_list node;
	struct tw_hdr hdr;
	uint32_t len;
	char data[];
};

static enum tw_err self_do_send(struct tw_link *link, enum tw_send_class cls, struct tw_hdr hdr,
				const struct iovec *iov, unsigned niov, uint32_t len)
{
	struct self_ep *ep = tw_container(link, struct self_ep, link);
	unsigned limit = tw_send_reserved(cls) ? MAX_QUEUED : MAX_QUEUED - RESERVE;
	struct self_packet *p;
	char *to;

	if (ep->queued >= limit)
		return TW_AGAIN;
	p = malloc(sizeof(*p) + len);
	if (!p)
		return TW_AGAIN;
	p->hdr = hdr;
	p->len = len;
	to = p->data;
	for (unsigned i = 0; i < niov; i++) {
		tw_copy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	tw_list_add_tail(&ep->packets, &p->node);
	ep->queued++;
	ep->host->up->poll(ep->host, ep, true);
	ep->host->up->wake(ep->host);
	return TW_OK;
}

static struct self_packet *self_take(struct self_ep *ep)
{
	struct self_packet *p = tw_list_take(&ep->packets, struct self_packet, node);

	ep->queued--;
	return p;
}

static unsigned self_do_progress(void *instance)
{
	struct self_ep *ep = instance;
	unsigned n = 0, most = ep->queued;

	/* Until the endpoint sends to itself: others need no polls. */
	if (!most)
		ep->host->up->poll(ep->host, ep, false);
	while (n < most && ep->queued) {
		/* Off the list first: the upcall may end the link. */
		struct self_packet *p = self_take(ep);

		if (ep->host->up->packet(&ep->link, p->hdr, p->data, p->len) == TW_AGAIN &&
		    ep->up) {
			tw_list_add_tail(ep->packets.next, &p->node);
			ep->queued++;
			break;
		}
		free(p);
		n++;
	}
	return n;
}

static enum tw_err self_do_rma(struct tw_link *link, bool put, const struct iovec *iov,
			       unsigned niov, uint64_t address, const void *key, void *cookie)
{
	char *there = (char *)(uintptr_t)address;

	(void)link;
	(void)key;
	(void)cookie;
	for (unsigned i = 0; i < niov; i++) {
		char *here = iov[i].iov_base;

		memmove(put ? there : here, put ? here : there, iov[i].iov_len);
		there += iov[i].iov_len;
	}
	return TW_OK;
}

static bool self_do_reaches(void *instance, uint64_t nic_id, uint32_t endpoint_id)
{
	struct self_ep *ep = instance;

	return nic_id == ep->host->self.nic_id && endpoint_id == ep->host->self.endpoint_id;
}

static enum tw_err self_do_connect(void *instance, const struct tw_ident *me, uint64_t nic_id,
				   uint32_t endpoint_id, void *peer, struct tw_link **link)
{
	struct self_ep *ep = instance;

	(void)nic_id;
	(void)endpoint_id;
	if (me->presented != ep->host->self.filter)
		return TW_EFILTER;
	ep->link.peer = peer;
	ep->up = true;
	*link = &ep->link;
	ep->host->up->connected(&ep->link, me);
	return TW_OK;
}

static void self_do_disconnect(struct tw_link *link)
{
	struct self_ep *ep = tw_container(link, struct self_ep, link);

	ep->up = false;
	while (ep->queued)
		free(self_take(ep));
}

static bool self_do_alive(struct tw_link *link)
{
	(void)link;
	return true;
}

static bool self_do_arm(void *instance)
{
	return ((struct self_ep *)instance)->queued != 0;
}

static void self_do_close(void *instance)
{
	struct self_ep *ep = instance;

	self_do_disconnect(&ep->link);
	free(ep);
}

static enum tw_err self_do_open(struct tw_host *host, void **instance)
{
	extern const struct tw_provider tw_provider_self;
	struct self_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return TW_ENOMEM;
	ep->host = host;
	ep->link.provider = &tw_provider_self;
	ep->link.max_payload = MAX_PAYLOAD;
	ep->link.can_get = true;
	tw_list_init(&ep->packets);
	*instance = ep;
	return TW_OK;
}

static bool self_do_describe(void *instance, const char *name, struct tw_link *like, char *text,
			     unsigned len)
{
	(void)name;
	*like = ((struct self_ep *)instance)->link;
	snprintf(text, len, "an endpoint to itself");
	return true;
}

const struct tw_provider tw_provider_self = {
	.name = "self",
	.open = self_do_open,
	.close = self_do_close,
	.reaches = self_do_reaches,
	.connect = self_do_connect,
	.disconnect = self_do_disconnect,
	.send = self_do_send,
	.rma = self_do_rma,
	.alive = self_do_alive,
	.progress = self_do_progress,
	.arm = self_do_arm,
	.describe = self_do_describe,
};
