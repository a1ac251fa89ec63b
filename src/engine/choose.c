/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/choose.h"

#define TRY_EVERY 64
#define FIRST_TRIES 3 /* early transfers that try the other way */

static struct tw_choose_class *class_of(struct tw_choose *c, uint32_t len)
{
	unsigned i = 0;

	for (len >>= 16; len && i < TW_CHOOSE_CLASSES - 1; len >>= 2)
		i++;
	return &c->classes[i];
}

/* The least of the recent costs: what the way can do when nothing disturbs it. */
static uint32_t least(const struct tw_choose_class *k, enum tw_way way)
{
	uint32_t min = 0;

	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++) {
		uint32_t cost = k->cost[way][i];
		if (cost && (!min || cost < min))
			min = cost;
	}
	return min;
}

enum tw_way tw_choose(struct tw_choose *c, uint32_t len)
{
	struct tw_choose_class *k = class_of(c, len);
	uint32_t n = k->count++;

	if ((n < 2 * FIRST_TRIES && (n & 1)) || n % TRY_EVERY == TRY_EVERY - 1)
		return (enum tw_way)!k->best;
	return (enum tw_way)k->best;
}

void tw_choose_sample(struct tw_choose *c, enum tw_way way, uint32_t len, uint64_t ticks)
{
	struct tw_choose_class *k = class_of(c, len);
	uint64_t cost = ticks * 1024 / (len ? len : 1);
	uint32_t mine, other;

	if (cost == 0 || cost > UINT32_MAX)
		cost = cost ? UINT32_MAX : 1;
	k->cost[way][k->next[way]++ % TW_CHOOSE_RECENT] = (uint32_t)cost;
	mine = least(k, (enum tw_way)k->best);
	other = least(k, (enum tw_way)!k->best);
	/* 20% better, or it would flip back and forth. */
	if (other && mine && (uint64_t)other * 6 < (uint64_t)mine * 5)
		k->best = !k->best;
}
