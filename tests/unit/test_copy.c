/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "base/copy.h"

TestSuite(copy);

#define MOST 40000
#define AROUND 64 /* bytes before and after that stay as they are */

static unsigned char source[MOST + AROUND], target[MOST + 3 * AROUND];

static void copies(void (*copy)(void *, const void *, size_t), size_t n, size_t from, size_t to)
{
	unsigned char *d = target + AROUND + to;

	memset(target, 0xa5, sizeof(target));
	copy(d, source + from, n);
	cr_assert(memcmp(d, source + from, n) == 0, "%zu bytes from %zu to %zu", n, from, to);
	for (size_t i = 1; i <= AROUND; i++)
		cr_assert(d[-(ptrdiff_t)i] == 0xa5 && d[n + i - 1] == 0xa5,
			  "%zu bytes: %zu beyond is changed", n, i);
}

static void copies_all(void (*copy)(void *, const void *, size_t))
{
	static const size_t sizes[] = {0,   1,	 2,    3,    4,	   7,	 8,    9,    15,   16,
				       17,  31,	 32,   33,   48,   49,	 63,   64,   65,   100,
				       128, 129, 1000, 2047, 2048, 2049, 4095, 4096, 4097, MOST};
	static const size_t at[] = {0, 1, 8, 63};

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (unsigned char)(i * 7 + i / 256);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (size_t f = 0; f < 4; f++)
			for (size_t t = 0; t < 4; t++)
				copies(copy, sizes[s], at[f], at[t]);
}

static void plain(void *to, const void *from, size_t n)
{
	tw_copy(to, from, n);
}

Test(copy, every_length_and_place)
{
	copies_all(plain);
}

static struct tw_over over;

static void copy_over(void *to, const void *from, size_t n)
{
	tw_copy_over(&over, to, from, n);
}

/* Through the cache, around it, and in the trials of both, of which there are two in a period. */
Test(copy, over_what_another_has_read)
{
	copies_all(copy_over);
	for (unsigned i = 0; i < 1000; i++) {
		over.shorter.around = over.longer.around = i % 2;
		copies(copy_over, TW_OVER_LONG + i, i % 64, i % 61);
		copies(copy_over, TW_OVER_MIN + i, i % 61, i % 64);
	}
	over.shorter.around = over.longer.around = true;
	copies_all(copy_over);
}

static bool chosen(size_t through_len, size_t around_len, uint64_t around)
{
	struct tw_over_class o = {.ticks = 1000, .len = through_len};

	cr_assert(tw_over_pairs(&o, around_len));
	tw_over_choose(&o, around, around_len);
	cr_assert_not(tw_over_pairs(&o, around_len), "the next one is of no pair");
	return o.around;
}

/* By byte, where the lengths are alike. */
Test(copy, a_fifth_decides)
{
	static const struct tw_over_class o = {.len = 4096};

	cr_assert(chosen(4096, 4096, 799));
	cr_assert_not(chosen(4096, 4096, 800));
	cr_assert(chosen(4096, 8192, 1599));
	cr_assert_not(chosen(4096, 8192, 1600));
	cr_assert_not(tw_over_pairs(&o, 8193));
	cr_assert_not(tw_over_pairs(&o, 2047));
}

/* Of two lengths in turn each trial through the cache finds its pair two copies later. */
Test(copy, trials)
{
	static unsigned char from[1900], to[1900];
	struct tw_over o = {0};

	for (unsigned n = 1; n <= 2 * TW_OVER_PERIOD; n++) {
		unsigned at = n % TW_OVER_PERIOD;
		bool timed = at >= TW_OVER_TRIAL && at <= TW_OVER_TRIAL + 2;

		cr_assert_eq(tw_over_fetch(&o, 1900), !timed, "copy %u", n);
		tw_copy_over(&o, to, from, n % 2 ? 1900 : 600);
		if (!o.shorter.copies) /* this build has one way */
			return;
		cr_assert_eq(o.shorter.len != 0, timed && at < TW_OVER_TRIAL + 2, "copy %u", n);
		o.shorter.around = false;
	}
	o.shorter.around = true;
	cr_assert_not(tw_over_fetch(&o, TW_OVER_MIN));
	cr_assert(tw_over_fetch(&o, TW_OVER_MIN - 1));
}
