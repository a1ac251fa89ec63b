/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's page size: 4, 16 or 64 KiB. TW_PAGE is the unit of our own layouts. */
#ifndef TW_PAGE_H
#define TW_PAGE_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t tw_page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static inline uint64_t tw_page_down(uint64_t n)
{
	return n & ~(tw_page_size() - 1);
}

static inline uint64_t tw_page_up(uint64_t n)
{
	return tw_page_down(n + tw_page_size() - 1);
}

#endif /* TW_PAGE_H */
