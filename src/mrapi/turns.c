/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The turns of requests to locks of other hosts, which keep the last answer in each lane of a
 * node. A request has its lane until it is over, so a node has at most so many under way: the
 * next one waits here, while some lanes are left for those that do not wait there. Else what ends
 * a wait might wait for it.
 */
#include "mrapi/far.h"

#define SPARE 8u

static struct lanes {
	uint32_t born;
	uint64_t used;
} lanes[MRAPI_MAX_NODES];
_Static_assert(TW_MRAPI_LANES <= 64, "a word has them");

struct wanted {
	struct lanes *of;
	unsigned spare;
};

static bool has_lane(struct tw_ep *ep, void *wanted)
{
	const struct wanted *w = wanted;

	(void)ep;
	return (unsigned)__builtin_popcountll(w->of->used) + w->spare < TW_MRAPI_LANES;
}

bool tw_mrapi_turn_begin(struct tw_ep *ep, uint32_t me, struct tw_mrapi_ctrl *c)
{
	static uint64_t turns;
	struct lanes *of = &lanes[me - 1];
	bool waits = c->op == TW_MRAPI_FAR_LOCK && c->timeout;
	struct wanted w = {of, waits ? SPARE : 0};

	if (of->born != c->node)
		*of = (struct lanes){.born = c->node};
	if (!has_lane(ep, &w) && tw_wait(ep, has_lane, &w, TW_FOREVER) != TW_W_TRUE)
		return false;
	if (of->born != c->node)
		return false;
	c->lane = (uint16_t)__builtin_ctzll(~of->used);
	c->turn = ++turns;
	of->used |= 1ull << c->lane;
	return true;
}

void tw_mrapi_turn_end(uint32_t me, const struct tw_mrapi_ctrl *c)
{
	struct lanes *of = &lanes[me - 1];

	if (of->born == c->node)
		of->used &= ~(1ull << c->lane);
	tw_mrapi_net_changed();
}
