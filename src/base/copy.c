/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/copy.h"

#if TW_AMD64 && !TW_ASAN && !TW_TSAN /* these look at memcpy() */
#include <cpuid.h>
#include <immintrin.h>

#define ERMS (1u << 9) /* in ebx of leaf 7: enhanced REP MOVSB */

static bool has_erms, has_avx;

__attribute__((constructor)) static void copy_begin(void)
{
	unsigned a, b = 0, c, d;

	has_erms = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & ERMS);
	__builtin_cpu_init();
	has_avx = __builtin_cpu_supports("avx");
}

static void over_through(void *to, const void *from, size_t n)
{
	if (has_erms && n >= TW_OVER_LONG)
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	else
		memcpy(to, from, n);
}

/* By stores that leave out the cache, and so take no line from the cache that has it. */
static void over_around(uint8_t *to, const uint8_t *from, size_t n)
{
	size_t head = -(uintptr_t)to % TW_LINE, i;

	memcpy(to, from, head);
	for (i = head; i + TW_LINE <= n; i += TW_LINE)
		for (size_t k = i; k < i + TW_LINE; k += sizeof(__m128i))
			_mm_stream_si128(
				(__m128i *)(void *)(to + k),
				_mm_loadu_si128((const __m128i *)(const void *)(from + k)));
	memcpy(to + i, from + i, n - i);
	/* These stores keep no order with the later one of the stamp (tw_ring_stamp). */
	_mm_sfence();
}

void tw_copy_over(bool around, void *to, const void *from, size_t n)
{
	if (n <= TW_COPY_SHORT)
		tw_copy(to, from, n);
	else if (around)
		over_around(to, from, n);
	else
		over_through(to, from, n);
}

__attribute__((target("avx"))) static void back_by_lines(uint8_t *to, const uint8_t *from, size_t n)
{
	size_t i = n - n % TW_LINE;

	memcpy(to + i, from + i, n - i);
	while (i) {
		__m256i high, low;

		i -= TW_LINE;
		high = _mm256_loadu_si256((const __m256i *)(const void *)(from + i + TW_LINE / 2));
		low = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
		_mm256_storeu_si256((__m256i *)(void *)(to + i + TW_LINE / 2), high);
		_mm256_storeu_si256((__m256i *)(void *)(to + i), low);
	}
}

void tw_copy_back(void *to, const void *from, size_t n)
{
	if (has_avx)
		back_by_lines(to, from, n);
	else
		memcpy(to, from, n);
}
#else
void tw_copy_back(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

void tw_copy_over(bool around, void *to, const void *from, size_t n)
{
	(void)around;
	tw_copy(to, from, n);
}
#endif
