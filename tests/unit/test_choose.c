/* SPDX-License-Identifier: BSD-2-Clause */
/* Push, pull or split: who wins, how much better it must be, how often a loser is tried. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/choose.h"
#include "lib/twt.h"

TestSuite(choose, .timeout = TWT_TIMEOUT);

#define MIB (1u << 20)
#define RUN 4 /* tries in a row */
#define FIRST (RUN * TW_NPROTOS)
#define PERIOD 256u

/* One length of each class. */
static const uint32_t lens[TW_CHOOSE_CLASSES] = {
	16u << 10, 64u << 10, 256u << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB,
};

/* A transfer of that length at so many ticks per KiB. */
static void sample(struct tw_choose *c, enum tw_proto proto, uint32_t len, uint64_t cost)
{
	tw_choose_sample(c, proto, len, cost * (len / 1024));
}

/* What is preferred: asked where nothing is tried out. */
static enum tw_proto best(const struct tw_choose *c, uint32_t len)
{
	struct tw_choose copy = *c;

	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++) {
		copy.classes[i].count = PERIOD;
		copy.classes[i].again = 2 * PERIOD;
	}
	return tw_choose(&copy, len, TW_ALL_PROTOS);
}

Test(choose, first_tries_try_all)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < FIRST; i++)
		cr_assert_eq(tw_choose(&c, MIB, TW_ALL_PROTOS), i / RUN);
	for (unsigned i = FIRST; i < PERIOD - RUN; i++)
		cr_assert_eq(tw_choose(&c, MIB, TW_ALL_PROTOS), TW_PROTO_SPLIT);
}

/* From 4 MiB on one try of each, after one more of the first: that may find new memory. */
Test(choose, large_ones_are_tried_once)
{
	static const enum tw_proto first[] = {TW_PROTO_SPLIT, TW_PROTO_SPLIT, TW_PROTO_GET,
					      TW_PROTO_COPY};

	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++) {
		struct tw_choose c = {0};
		unsigned tried = 0;

		if (lens[i] < 4 * MIB)
			continue;
		for (unsigned n = 0; n < tw_countof(first); n++) {
			cr_assert_eq(tw_choose(&c, lens[i], TW_ALL_PROTOS), first[n]);
			cr_assert(tw_choose_teaches(&c, lens[i]));
			sample(&c, first[n], lens[i], first[n] == TW_PROTO_GET ? 100 : 1000);
		}
		for (unsigned n = tw_countof(first); n < PERIOD; n++)
			tried += tw_choose(&c, lens[i], TW_ALL_PROTOS) != TW_PROTO_GET;
		cr_assert_eq(tried, 1u);
	}
}

/* The less often, the longer nothing has changed: after the first change, and from then on. */
static unsigned period_after(unsigned tries, bool changed)
{
	unsigned n = tries + !changed;

	return PERIOD << (n < 4 ? n : 4);
}

Test(choose, losers_are_tried_in_turn)
{
	for (unsigned proto = 0; proto < TW_NPROTOS; proto++) {
		struct tw_choose c = {0};
		unsigned tried[TW_NPROTOS] = {0};

		for (unsigned w = 0; w < TW_NPROTOS; w++)
			sample(&c, (enum tw_proto)w, MIB, w == proto ? 100 : 1000);
		for (unsigned i = 0; i < PERIOD; i++)
			tw_choose(&c, MIB, TW_ALL_PROTOS);
		for (unsigned i = 0; i < 100; i++) {
			enum tw_proto loser;

			for (unsigned k = 0; k < period_after(i, proto != TW_PROTO_SPLIT) - RUN;
			     k++)
				cr_assert_eq(tw_choose(&c, MIB, TW_ALL_PROTOS), proto);
			loser = tw_choose(&c, MIB, TW_ALL_PROTOS);
			cr_assert_neq(loser, proto);
			tried[loser]++;
			for (unsigned k = 1; k < RUN; k++)
				cr_assert_eq(tw_choose(&c, MIB, TW_ALL_PROTOS), loser);
		}
		for (unsigned w = 0; w < TW_NPROTOS; w++)
			cr_assert_eq(tried[w], w == proto ? 0u : 50u);
	}
}

Test(choose, a_change_is_watched)
{
	struct tw_choose c = {0};
	unsigned n = 0;

	sample(&c, TW_PROTO_SPLIT, MIB, 100);
	sample(&c, TW_PROTO_GET, MIB, 1000);
	for (unsigned i = 0; i < 100 * PERIOD; i++)
		tw_choose(&c, MIB, TW_ALL_PROTOS);
	/* From here on the loser is better. */
	while (best(&c, MIB) != TW_PROTO_GET) {
		enum tw_proto proto = tw_choose(&c, MIB, TW_ALL_PROTOS);

		if (tw_choose_teaches(&c, MIB))
			sample(&c, proto, MIB, proto == TW_PROTO_GET ? 10 : 100);
		cr_assert_lt(n++, 3u * (PERIOD << 4));
	}
	for (unsigned i = 0; i < RUN; i++)
		tw_choose(&c, MIB, TW_ALL_PROTOS);
	for (n = 0; tw_choose(&c, MIB, TW_ALL_PROTOS) == TW_PROTO_GET; n++)
		;
	cr_assert_leq(n, PERIOD);
}

/* Every try is timed, and now and then the winner. */
Test(choose, teaches)
{
	struct tw_choose c = {0};
	unsigned told = 0;

	for (unsigned i = 0; i < PERIOD; i++) {
		bool first = i < FIRST, try;

		try = tw_choose(&c, MIB, TW_ALL_PROTOS) != TW_PROTO_SPLIT || first;
		told += tw_choose_teaches(&c, MIB);
		cr_assert(!try || tw_choose_teaches(&c, MIB), "transfer %u", i);
	}
	cr_assert(told >= FIRST + RUN + 20 && told <= FIRST + RUN + PERIOD / 4, "%u", told);
}

/* Only what the transfer allows is chosen, and the best of that. */
Test(choose, only_what_is_possible)
{
	struct tw_choose c = {0};

	sample(&c, TW_PROTO_SPLIT, MIB, 300);
	sample(&c, TW_PROTO_GET, MIB, 200);
	sample(&c, TW_PROTO_COPY, MIB, 100);
	for (unsigned ways = 1; ways <= TW_ALL_PROTOS; ways++)
		for (unsigned i = 0; i < 2 * PERIOD; i++)
			cr_assert(ways & TW_PROTO_BIT(tw_choose(&c, MIB, ways)));
	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++) {
		c.classes[i].count = PERIOD;
		c.classes[i].again = 2 * PERIOD;
	}
	cr_assert_eq(tw_choose(&c, MIB, TW_ALL_PROTOS), TW_PROTO_COPY);
	cr_assert_eq(tw_choose(&c, MIB, TW_PROTO_BIT(TW_PROTO_SPLIT) | TW_PROTO_BIT(TW_PROTO_GET)),
		     TW_PROTO_GET);
	cr_assert_eq(tw_choose(&c, MIB, TW_PROTO_BIT(TW_PROTO_SPLIT)), TW_PROTO_SPLIT);
}

/* One side must be an eighth better to take over, in either direction. */
Test(choose, hysteresis)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PROTO_SPLIT, MIB, 1000);
	for (unsigned cost = 2000; cost >= 876; cost -= 2) {
		sample(&c, TW_PROTO_GET, MIB, cost);
		cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT, "changed at %u", cost);
	}
	sample(&c, TW_PROTO_GET, MIB, 874);
	cr_assert_eq(best(&c, MIB), TW_PROTO_GET);
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PROTO_GET, MIB, 874);
	for (unsigned cost = 2000; cost >= 766; cost -= 2) {
		sample(&c, TW_PROTO_SPLIT, MIB, cost);
		cr_assert_eq(best(&c, MIB), TW_PROTO_GET, "changed back at %u", cost);
	}
	sample(&c, TW_PROTO_SPLIT, MIB, 764);
	cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT);
}

Test(choose, unknown_way_does_not_win)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < 10; i++)
		sample(&c, TW_PROTO_SPLIT, MIB, 1000000);
	cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT);
	memset(&c, 0, sizeof(c));
	for (unsigned i = 0; i < 10; i++)
		sample(&c, TW_PROTO_GET, MIB, 1);
	cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT);
	sample(&c, TW_PROTO_SPLIT, MIB, 100);
	cr_assert_eq(best(&c, MIB), TW_PROTO_GET);
}

Test(choose, impossible_way_does_not_stay)
{
	struct tw_choose c = {0};
	unsigned protos = TW_PROTO_BIT(TW_PROTO_GET) | TW_PROTO_BIT(TW_PROTO_COPY);

	for (unsigned i = 0; i < 2 * FIRST; i++)
		sample(&c, tw_choose(&c, MIB, protos), MIB, 100);
	cr_assert_neq(tw_choose_best(&c, MIB), TW_PROTO_SPLIT);
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PROTO_SPLIT, MIB, 50);
	cr_assert_eq(tw_choose_best(&c, MIB), TW_PROTO_SPLIT);
}

/* The least of the last four counts: a disturbed transfer says nothing. */
Test(choose, least_of_recent)
{
	struct tw_choose c = {0};

	sample(&c, TW_PROTO_SPLIT, MIB, 100);
	for (unsigned i = 1; i < TW_CHOOSE_RECENT; i++) {
		sample(&c, TW_PROTO_SPLIT, MIB, 100000);
		sample(&c, TW_PROTO_GET, MIB, 90);
		cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT, "after %u", i);
	}
	/* Now the good one is forgotten. */
	sample(&c, TW_PROTO_SPLIT, MIB, 100000);
	cr_assert_eq(best(&c, MIB), TW_PROTO_GET);
	/* And so is the good time of the winner. */
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PROTO_GET, MIB, 200000);
	cr_assert_eq(best(&c, MIB), TW_PROTO_SPLIT);
}

/* More samples than a byte counts. */
Test(choose, many_samples)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < 1001; i++)
		sample(&c, TW_PROTO_SPLIT, MIB, 100);
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PROTO_SPLIT, MIB, 300);
	sample(&c, TW_PROTO_GET, MIB, 200);
	cr_assert_eq(best(&c, MIB), TW_PROTO_GET);
}

static void prefer_pull(struct tw_choose *c, uint32_t len)
{
	tw_choose_sample(c, TW_PROTO_SPLIT, len, 1000000000);
	tw_choose_sample(c, TW_PROTO_GET, len, 1);
}

Test(choose, classes)
{
	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++) {
		struct tw_choose c = {0};

		prefer_pull(&c, lens[i]);
		for (unsigned k = 0; k < TW_CHOOSE_CLASSES; k++)
			cr_assert_eq(best(&c, lens[k]), k == i ? TW_PROTO_GET : TW_PROTO_SPLIT);
		/* From a power of four up to the next, and no further. */
		cr_assert_eq(best(&c, i < 7 ? 4 * lens[i] - 1 : UINT32_MAX), TW_PROTO_GET);
		cr_assert_eq(best(&c, lens[i] - 1), i ? TW_PROTO_SPLIT : TW_PROTO_GET);
		cr_assert_eq(best(&c, 0), i ? TW_PROTO_SPLIT : TW_PROTO_GET);
	}
}

Test(choose, classes_count_apart)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < PERIOD - RUN; i++)
		tw_choose(&c, MIB, TW_ALL_PROTOS);
	cr_assert_eq(tw_choose(&c, 4 * MIB, TW_ALL_PROTOS), TW_PROTO_SPLIT);
	cr_assert_neq(tw_choose(&c, MIB, TW_ALL_PROTOS), TW_PROTO_SPLIT, "its time to try");
}

Test(choose, extremes)
{
	struct tw_choose c = {0};

	tw_choose_sample(&c, TW_PROTO_SPLIT, 0, 0);
	tw_choose_sample(&c, TW_PROTO_GET, 0, 0);
	cr_assert_eq(best(&c, 0), TW_PROTO_SPLIT, "equally fast");
	memset(&c, 0, sizeof(c));
	tw_choose_sample(&c, TW_PROTO_SPLIT, 16384, UINT64_MAX >> 10);
	tw_choose_sample(&c, TW_PROTO_GET, 16384, UINT64_MAX >> 11);
	cr_assert_eq(best(&c, 16384), TW_PROTO_SPLIT, "both are beyond measure");
	tw_choose_sample(&c, TW_PROTO_GET, UINT16_MAX, 1);
	cr_assert_eq(best(&c, 16384), TW_PROTO_GET);
	memset(&c, 0, sizeof(c));
	/* Faster than a tick per KiB is a cost, not an unknown one. */
	tw_choose_sample(&c, TW_PROTO_SPLIT, 16384, 1600);
	tw_choose_sample(&c, TW_PROTO_GET, 16384, 0);
	cr_assert_eq(best(&c, 16384), TW_PROTO_GET);
}
