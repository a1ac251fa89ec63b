/* SPDX-License-Identifier: BSD-2-Clause */
/* Panda's sends that wait for their acknowledgement, or for a connection. */
#include "panda/panda_internal.h"

#include <stdlib.h>

#include "../cli.h"
#include "why.h"

#define MOST_TICKETS 1024u

struct walk {
	struct peek *m;
	struct why_proc *p;
	unsigned index;
	uint64_t to;
};

static bool see_ticket(void *arg, uint64_t node)
{
	struct walk *w = arg;
	uint64_t at = node - offsetof(struct tw_panda_ticket, link);
	struct tw_panda_ticket t;
	struct why_wait *to;

	if (!peek(w->m, at, &t, sizeof t))
		return false;
	if (t.receive || t.over)
		return true;
	to = why_wait_new(w->p, WHY_ACK);
	if (!to)
		return false;
	to->ep = w->index;
	to->id = (uint64_t)t.obj.gen << 32 | t.obj.index;
	to->to = w->to;
	to->match = tw_panda_match(t.port, 0, 0);
	to->mask = UINT32_MAX;
	to->len = t.len;
	to->state = WHY_IS_UNACKED;
	return true;
}

void why_panda(struct peek *m, struct why_proc *p, struct why_ep *ep, unsigned index,
	       uint64_t group)
{
	struct walk w = {.m = m, .p = p, .index = index};
	struct tw_panda_peer peer;
	struct tw_panda panda;
	uint32_t n;

	if (!peek(m, group - offsetof(struct tw_panda, group), &panda, sizeof panda))
		return;
	snprintf(p->rank, sizeof p->rank, "%u", panda.job.rank);
	n = panda.job.size < TW_JOB_MAX ? panda.job.size : TW_JOB_MAX;
	ep->platforms = calloc(n + 1, sizeof *ep->platforms);
	if (!ep->platforms)
		bench_fail("no memory");
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (uintptr_t)panda.peers + i * sizeof peer;

		if (!peek(m, at, &peer, sizeof peer))
			return;
		w.to = ep->platforms[ep->nplatforms++] = peer.m.where;
		peek_list(m, at + offsetof(struct tw_panda_peer, out), MOST_TICKETS, see_ticket,
			  &w);
		peek_list(m, at + offsetof(struct tw_panda_peer, unacked), MOST_TICKETS, see_ticket,
			  &w);
	}
}
