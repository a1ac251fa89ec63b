/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of packets, for each adapter: made by the slab, laid out and registered
 * as its driver needs it. It lives as long as the endpoint. A packet that is kept when
 * its driver is closed stays where it is, and is copied before it is sent again.
 */
#include <stdlib.h>

#include "base/page.h"
#include "providers/net/session.h"

#define SLAB_SMALL 64
#define SLAB_BIG 8

static size_t packet_size(const struct tw_net_adapter *a, bool big)
{
	size_t room = big ? a->max_packet : sizeof(struct tw_net_wire) + TW_NET_SMALL;

	return (a->driver->packet_size + room + TW_LINE - 1) & ~(size_t)(TW_LINE - 1);
}

static bool add_slab(struct tw_net_adapter *a, bool big)
{
	struct tw_net_slab *s = calloc(1, sizeof(*s));
	size_t size, n = big ? SLAB_BIG : SLAB_SMALL;

	if (!s)
		return false;
	/* The first is asked for by a driver that is being opened. */
	if (!a->max_packet)
		a->max_packet = a->caps.max_packet;
	size = packet_size(a, big);
	/* In pages of its own: a device's memory may be withheld from forked children. */
	s->len = tw_page_up(n * size);
	s->mem = aligned_alloc(tw_page_size(), s->len);
	if (!s->mem) {
		free(s);
		return false;
	}
	s->owner = a;
	s->free = &a->free[big];
	s->size = size;
	s->big = big;
	tw_list_add_tail(&a->slabs, &s->node);
	for (char *at = s->mem; at + size <= s->mem + s->len; at += size) {
		struct tw_net_packet *p = (void *)at;

		*p = (struct tw_net_packet){.slab = s, .data = at + a->driver->packet_size};
		tw_list_add_tail(s->free, &p->node);
	}
	return true;
}

struct tw_net_packet *tw_net_packet_get(struct tw_net_adapter *a, bool big)
{
	struct tw_net_packet *p;

	if (tw_list_empty(&a->free[big]) && !add_slab(a, big))
		return NULL;
	p = tw_list_first(&a->free[big], struct tw_net_packet, node);
	/* A slab that was made while the driver was closed waits until it is open. */
	if (tw_unlikely(!p->slab->ready) && a->instance)
		p->slab->ready = !a->driver->slab_reg || a->driver->slab_reg(a->instance, p->slab);
	tw_list_del(&p->node);
	p->users = 1;
	return p;
}

struct tw_net_packet *tw_net_packet_ready(void *owner, bool big)
{
	struct tw_net_packet *p = tw_net_packet_get(owner, big);

	if (!p || p->slab->ready)
		return p;
	tw_net_packet_put(p);
	return NULL;
}

void tw_net_packets_back(void *owner)
{
	struct tw_net_adapter *a = owner;

	tw_list_walk(&a->slabs, struct tw_net_slab, s, node) {
		if (s->ready && a->driver->slab_reg)
			a->driver->slab_dereg(s);
		s->ready = false;
		for (char *at = s->mem; at + s->size <= s->mem + s->len; at += s->size) {
			struct tw_net_packet *p = (void *)at;

			while (p->users > (p->link != NULL))
				tw_net_packet_put(p);
		}
	}
}

void tw_net_pool_free(struct tw_net_adapter *a)
{
	tw_list_walk(&a->slabs, struct tw_net_slab, s, node) {
		free(s->mem);
		free(s);
	}
}
