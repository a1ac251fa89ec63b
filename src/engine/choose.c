/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/choose.h"
#include "base/compiler.h"

/* A run of tries, since the first of a kind finds the caches of another. */
#define RUN 4
#define TRY_EVERY (64 * RUN)
#define CALM_MAX 4   /* doublings of that while the same way wins */
#define LARGE 4	     /* the first class that outlasts any cache: one try says it all */
#define FIRST (RUN * TW_NPROTOS + 1) /* the tries of the first transfers are over by then */
#define TELL_EVERY 8 /* transfers of the winner, so that it does not pay for clocks */

static struct tw_choose_class *class_of(struct tw_choose *c, uint32_t len)
{
	unsigned i = 0;

	for (len >>= 16; len && i < TW_CHOOSE_CLASSES - 1; len >>= 2)
		i++;
	return &c->classes[i];
}

/* Tries in a row, and those of the first way besides: large memory may be new. */
static unsigned run_of(const struct tw_choose *c, const struct tw_choose_class *k)
{
	return k - c->classes < LARGE ? RUN : 1;
}

static unsigned warm_up(unsigned run)
{
	return run == 1;
}

/* The least of the recent costs: what the way can do when nothing disturbs it. */
static uint32_t least(const struct tw_choose_class *k, enum tw_proto proto)
{
	uint32_t min = 0;

	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++) {
		uint32_t cost = k->cost[proto][i];
		if (cost && (!min || cost < min))
			min = cost;
	}
	return min;
}

/* The best of some ways that were tried, or else the first. */
static enum tw_proto best_of(const struct tw_choose_class *k, unsigned protos)
{
	enum tw_proto found = TW_NPROTOS;

	if (protos & TW_PROTO_BIT(k->best))
		return (enum tw_proto)k->best;
	for (unsigned proto = 0; proto < TW_NPROTOS; proto++) {
		uint32_t cost = least(k, (enum tw_proto)proto);

		if (!(protos & TW_PROTO_BIT(proto)))
			continue;
		if (found == TW_NPROTOS || (cost && cost < least(k, found)))
			found = (enum tw_proto)proto;
	}
	return found;
}

static bool trying_first(uint32_t n, unsigned run)
{
	return n < warm_up(run) + run * TW_NPROTOS;
}

/* The tries of losers begin with transfer k->again. */
static bool trying(const struct tw_choose_class *k, uint32_t n, unsigned run)
{
	return trying_first(n, run) || n - k->again < run;
}

/* They are over: the less they changed, the longer it is until the next ones. */
static void tried(struct tw_choose_class *k, uint32_t n, unsigned run)
{
	k->calm = k->best == k->was ? (uint8_t)tw_min(k->calm + 1, CALM_MAX) : 0;
	k->was = k->best;
	k->turn++;
	k->again = n + (TRY_EVERY << k->calm) - run;
}

enum tw_proto tw_choose(struct tw_choose *c, uint32_t len, unsigned protos)
{
	struct tw_choose_class *k = class_of(c, len);
	uint32_t n = k->count++;
	unsigned proto = k->best, run;

	if (tw_likely(n >= FIRST && (int32_t)(n - k->again) < 0 && protos & TW_PROTO_BIT(proto)))
		return (enum tw_proto)proto;
	run = run_of(c, k);
	if (trying_first(n, run)) {
		proto = n < run ? 0 : (n - warm_up(run)) / run;
		k->again = TRY_EVERY - run;
	} else if (trying(k, n, run)) {
		proto = (proto + 1 + k->turn % (TW_NPROTOS - 1)) % TW_NPROTOS;
	} else if (n - k->again == run) {
		tried(k, n, run);
	}
	return protos & TW_PROTO_BIT(proto) ? (enum tw_proto)proto : best_of(k, protos);
}

enum tw_proto tw_choose_best(struct tw_choose *c, uint32_t len)
{
	return (enum tw_proto)class_of(c, len)->best;
}

bool tw_choose_teaches(struct tw_choose *c, uint32_t len)
{
	const struct tw_choose_class *k = class_of(c, len);
	uint32_t n = k->count - 1;

	return trying(k, n, run_of(c, k)) || n % TELL_EVERY == 0;
}

void tw_choose_sample(struct tw_choose *c, enum tw_proto proto, uint32_t len, uint64_t ticks)
{
	struct tw_choose_class *k = class_of(c, len);
	uint64_t cost = ticks * 1024 / (len ? len : 1);
	uint32_t mine, least_other = 0;

	if (cost == 0 || cost > UINT32_MAX)
		cost = cost ? UINT32_MAX : 1;
	k->cost[proto][k->next[proto]++ % TW_CHOOSE_RECENT] = (uint32_t)cost;
	/* A way that has not been possible so far is not waited for. */
	if (k->count >= FIRST && !least(k, (enum tw_proto)k->best))
		k->best = (uint8_t)proto;
	mine = least(k, (enum tw_proto)k->best);
	for (unsigned w = 0; mine && w < TW_NPROTOS; w++) {
		uint32_t other = least(k, (enum tw_proto)w);

		/* An eighth better, or it would flip back and forth. */
		if (!other || (uint64_t)other * 8 >= (uint64_t)mine * 7)
			continue;
		if (least_other && other >= least_other)
			continue;
		least_other = other;
		k->best = (uint8_t)w;
	}
}
