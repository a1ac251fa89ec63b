/* SPDX-License-Identifier: BSD-2-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include "base/copy.h"
#include "base/distance.h"

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

static bool around;

static void copy_over(void *to, const void *from, size_t n)
{
	tw_copy_over(around, to, from, n);
}

/* Through the cache and around it. */
Test(copy, over_what_another_has_read)
{
	copies_all(copy_over);
	for (unsigned i = 0; i < 1000; i++) {
		around = i % 2;
		copies(copy_over, TW_OVER_LONG + i, i % 64, i % 61);
		copies(copy_over, TW_COPY_SHORT + i, i % 61, i % 64);
	}
	around = true;
	copies_all(copy_over);
}

/* From the end to the start. */
Test(copy, out_of_what_another_writes)
{
	copies_all(tw_copy_back);
	for (unsigned i = 0; i < 1000; i++)
		copies(tw_copy_back, TW_COPY_SHORT + i, i % 64, i % 61);
}

/* Single answers, as of a thread that was interrupted, change nothing. */
Test(copy, distance_changes_by_several_votes)
{
	struct tw_distance d = {0};

	for (unsigned i = 0; i < 12; i++) {
		tw_distance_vote(&d, i % 2 == 0);
		cr_assert_not(d.far);
	}
	for (unsigned i = 0; i < TW_FAR_VOTES; i++) {
		cr_assert_not(d.far);
		tw_distance_vote(&d, true);
	}
	for (unsigned i = 0; i < 12; i++) {
		cr_assert(d.far);
		tw_distance_vote(&d, i % 2);
	}
	for (unsigned i = 0; i < TW_FAR_VOTES; i++)
		tw_distance_vote(&d, false);
	cr_assert_not(d.far);
}

/* Whatever is timed, the word is read; one that is not new does not count. */
Test(copy, distance_reads_the_word)
{
	struct tw_distance d = {0};
	_Atomic(uint32_t) word = 7;

	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(tw_distance_read(&d, &word, 7), 7);
		cr_assert_eq(d.votes, 0);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		word = i;
		cr_assert_eq(tw_distance_read(&d, &word, i + 1), i);
	}
	/* Of this thread's own. */
	cr_assert_not(d.far);
}
