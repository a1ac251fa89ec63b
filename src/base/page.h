/* SPDX-License-Identifier: BSD-2-Clause */
/* The system's pages: 4, 16 or 64 KiB. TW_PAGE is what layouts of ours are made of. */
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
