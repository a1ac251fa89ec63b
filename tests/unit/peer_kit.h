/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint with one peer, without providers and threads. */
#ifndef PEER_KIT_H
#define PEER_KIT_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

static struct tw_slot_entry slot;
static struct tw_ep *ep;
static struct tw_peer *peer, *peers[1];
static uint64_t counters[TW_NCOUNTERS], gauges[TW_NGAUGES];
static struct tw_stats_peer show;
static const struct tw_interface none;

static inline void peer_kit_begin(struct tw_link *link)
{
	tw_clock_init();
	ep = aligned_alloc(TW_LINE, (sizeof(*ep) + TW_LINE - 1) & ~(size_t)(TW_LINE - 1));
	peer = calloc(1, sizeof(*peer));
	cr_assert(ep && peer);
	memset(ep, 0, sizeof(*ep));
	ep->slot = &slot;
	ep->counters = counters;
	ep->gauges = gauges;
	tw_list_init(&ep->done);
	tw_list_init(&ep->work);
	tw_list_init(&ep->open);
	ep->iface = &none;
	ep->next_events = UINT64_MAX;
	tw_pool_init(&ep->reqs, sizeof(struct tw_req), TW_MAX_REQS);
	peers[0] = peer;
	ep->peers = peers;
	ep->npeers = 1;
	peer->ep = ep;
	peer->link = link;
	link->peer = peer;
	peer->state = TW_PEER_UP;
	peer->txq = &tw_no_txq;
	peer->show = &show;
	tw_list_init(&peer->sendq);
	tw_list_init(&peer->work);
	tw_list_init(&peer->open);
	tw_list_init(&peer->sending);
	tw_list_init(&peer->waiting);
	tw_list_init(&peer->replying);
	tw_list_init(&peer->moving);
	tw_list_init(&peer->windows.flushes);
	tw_list_init(&peer->windows.known);
	tw_list_init(&peer->windows.grants);
}

static inline void peer_kit_end(void)
{
	tw_pool_fini(&ep->reqs);
	free(peer);
	free(ep);
}

#endif /* PEER_KIT_H */
