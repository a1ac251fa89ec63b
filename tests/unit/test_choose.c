/* SPDX-License-Identifier: BSD-2-Clause */
/* Push or pull: who wins, how much better it must be, how often the loser is tried. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/choose.h"

TestSuite(choose, .timeout = 20);

#define MIB (1u << 20)

/* One length of each class. */
static const uint32_t lens[TW_CHOOSE_CLASSES] = {
	16u << 10, 64u << 10, 256u << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB,
};

/* A transfer of that length at so many ticks per KiB. */
static void sample(struct tw_choose *c, enum tw_way way, uint32_t len, uint64_t cost)
{
	tw_choose_sample(c, way, len, cost * (len / 1024));
}

/* What is preferred: asked where nothing is tried out. */
static enum tw_way best(const struct tw_choose *c, uint32_t len)
{
	struct tw_choose copy = *c;

	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++)
		copy.classes[i].count = 64;
	return tw_choose(&copy, len);
}

static enum tw_way other(enum tw_way way)
{
	return way == TW_PUSH ? TW_PULL : TW_PUSH;
}

Test(choose, first_tries_try_both)
{
	struct tw_choose c = {0};
	unsigned n[TW_WAYS] = {0};

	for (unsigned i = 0; i < 6; i++)
		n[tw_choose(&c, MIB)]++;
	cr_assert_eq(n[TW_PUSH], 3u);
	cr_assert_eq(n[TW_PULL], 3u);
	for (unsigned i = 6; i < 63; i++)
		cr_assert_eq(tw_choose(&c, MIB), TW_PUSH);
}

Test(choose, loser_is_tried_once_in_64)
{
	for (unsigned way = 0; way < TW_WAYS; way++) {
		struct tw_choose c = {0};
		unsigned run = 0;

		for (unsigned i = 0; i < 6; i++) {
			sample(&c, (enum tw_way)way, MIB, 100);
			sample(&c, other((enum tw_way)way), MIB, 1000);
			tw_choose(&c, MIB);
		}
		while (tw_choose(&c, MIB) == way)
			run++;
		cr_assert_lt(run, 64u);
		for (unsigned i = 0; i < 1000; i++) {
			for (run = 0; run < 63; run++)
				cr_assert_eq(tw_choose(&c, MIB), way);
			cr_assert_neq(tw_choose(&c, MIB), way);
		}
	}
}

/* One side must be 20% better to take over, in either direction. */
Test(choose, hysteresis)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PUSH, MIB, 1000);
	for (unsigned cost = 2000; cost >= 834; cost -= 2) {
		sample(&c, TW_PULL, MIB, cost);
		cr_assert_eq(best(&c, MIB), TW_PUSH, "changed at %u", cost);
	}
	sample(&c, TW_PULL, MIB, 833);
	cr_assert_eq(best(&c, MIB), TW_PULL);
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PULL, MIB, 833);
	for (unsigned cost = 2000; cost >= 696; cost -= 2) {
		sample(&c, TW_PUSH, MIB, cost);
		cr_assert_eq(best(&c, MIB), TW_PULL, "changed back at %u", cost);
	}
	sample(&c, TW_PUSH, MIB, 694);
	cr_assert_eq(best(&c, MIB), TW_PUSH);
}

Test(choose, unknown_way_does_not_win)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < 10; i++)
		sample(&c, TW_PUSH, MIB, 1000000);
	cr_assert_eq(best(&c, MIB), TW_PUSH);
	memset(&c, 0, sizeof(c));
	for (unsigned i = 0; i < 10; i++)
		sample(&c, TW_PULL, MIB, 1);
	cr_assert_eq(best(&c, MIB), TW_PUSH);
	sample(&c, TW_PUSH, MIB, 100);
	cr_assert_eq(best(&c, MIB), TW_PULL);
}

/* The least of the last four counts: a disturbed transfer says nothing. */
Test(choose, least_of_recent)
{
	struct tw_choose c = {0};

	sample(&c, TW_PUSH, MIB, 100);
	for (unsigned i = 1; i < TW_CHOOSE_RECENT; i++) {
		sample(&c, TW_PUSH, MIB, 100000);
		sample(&c, TW_PULL, MIB, 90);
		cr_assert_eq(best(&c, MIB), TW_PUSH, "after %u", i);
	}
	/* Now the good one is forgotten. */
	sample(&c, TW_PUSH, MIB, 100000);
	cr_assert_eq(best(&c, MIB), TW_PULL);
	/* And so is the good time of the winner. */
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PULL, MIB, 200000);
	cr_assert_eq(best(&c, MIB), TW_PUSH);
}

/* More samples than a byte counts. */
Test(choose, many_samples)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < 1001; i++)
		sample(&c, TW_PUSH, MIB, 100);
	for (unsigned i = 0; i < TW_CHOOSE_RECENT; i++)
		sample(&c, TW_PUSH, MIB, 300);
	sample(&c, TW_PULL, MIB, 200);
	cr_assert_eq(best(&c, MIB), TW_PULL);
}

static void prefer_pull(struct tw_choose *c, uint32_t len)
{
	tw_choose_sample(c, TW_PUSH, len, 1000000000);
	tw_choose_sample(c, TW_PULL, len, 1);
}

Test(choose, classes)
{
	for (unsigned i = 0; i < TW_CHOOSE_CLASSES; i++) {
		struct tw_choose c = {0};

		prefer_pull(&c, lens[i]);
		for (unsigned k = 0; k < TW_CHOOSE_CLASSES; k++)
			cr_assert_eq(best(&c, lens[k]), k == i ? TW_PULL : TW_PUSH);
		/* From a power of four up to the next, and no further. */
		cr_assert_eq(best(&c, i < 7 ? 4 * lens[i] - 1 : UINT32_MAX), TW_PULL);
		cr_assert_eq(best(&c, lens[i] - 1), i ? TW_PUSH : TW_PULL);
		cr_assert_eq(best(&c, 0), i ? TW_PUSH : TW_PULL);
	}
}

Test(choose, classes_count_apart)
{
	struct tw_choose c = {0};

	for (unsigned i = 0; i < 63; i++)
		tw_choose(&c, MIB);
	cr_assert_eq(tw_choose(&c, 4 * MIB), TW_PUSH);
	cr_assert_eq(tw_choose(&c, MIB), TW_PULL, "its 64th");
}

Test(choose, extremes)
{
	struct tw_choose c = {0};

	tw_choose_sample(&c, TW_PUSH, 0, 0);
	tw_choose_sample(&c, TW_PULL, 0, 0);
	cr_assert_eq(best(&c, 0), TW_PUSH, "equally fast");
	memset(&c, 0, sizeof(c));
	tw_choose_sample(&c, TW_PUSH, 16384, UINT64_MAX >> 10);
	tw_choose_sample(&c, TW_PULL, 16384, UINT64_MAX >> 11);
	cr_assert_eq(best(&c, 16384), TW_PUSH, "both are beyond measure");
	tw_choose_sample(&c, TW_PULL, UINT16_MAX, 1);
	cr_assert_eq(best(&c, 16384), TW_PULL);
	memset(&c, 0, sizeof(c));
	/* Faster than a tick per KiB is a cost, not an unknown one. */
	tw_choose_sample(&c, TW_PUSH, 16384, 1600);
	tw_choose_sample(&c, TW_PULL, 16384, 0);
	cr_assert_eq(best(&c, 16384), TW_PULL);
}
