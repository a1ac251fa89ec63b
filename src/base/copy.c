/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/copy.h"

#include <stdbool.h>

#if TW_AMD64 && !TW_ASAN && !TW_TSAN /* these look at memcpy() */
#include <cpuid.h>

#define ERMS (1u << 9) /* in ebx of leaf 7: enhanced REP MOVSB */
#define OVER_MIN 2048  /* from here on it was measured to gain */

static bool has_erms;

__attribute__((constructor)) static void copy_begin(void)
{
	unsigned a, b = 0, c, d;

	has_erms = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & ERMS);
}

void tw_copy_over(void *to, const void *from, size_t n)
{
	if (n < OVER_MIN || !has_erms)
		tw_copy(to, from, n);
	else
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
#else
void tw_copy_over(void *to, const void *from, size_t n)
{
	tw_copy(to, from, n);
}
#endif
