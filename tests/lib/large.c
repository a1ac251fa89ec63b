/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/large.h"

#include <sys/mman.h>
#include <unistd.h>

#define OWN (4ull << 20)     /* bytes of its own around each boundary */
#define SHARED (16ull << 20) /* of the file */

/* Where bytes of its own begin. */
static const uint64_t own[] = {0, LARGE_2G - OWN / 2, LARGE_4G - OWN / 2};

#define NOWN (sizeof(own) / sizeof(*own))

char *large_map(void)
{
	int fd = memfd_create("large", MFD_CLOEXEC);
	char *m = mmap(NULL, LARGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || m == MAP_FAILED || ftruncate(fd, (off_t)SHARED) < 0)
		return NULL;
	for (size_t i = 0; i < NOWN; i++) {
		uint64_t end = i + 1 < NOWN ? own[i + 1] : LARGE_SIZE, n;

		for (uint64_t at = own[i] + OWN; at < end; at += n) {
			n = end - at < SHARED ? end - at : SHARED;
			if (mmap(m + at, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
				 0) == MAP_FAILED)
				return NULL;
		}
	}
	close(fd);
	return m;
}

void large_unmap(char *memory)
{
	munmap(memory, LARGE_SIZE);
}

/* The byte at that place. */
static char pattern(uint64_t at, uint64_t seed)
{
	return (char)(((at + 1) * 0x9e3779b97f4a7c15u + seed * 0xc2b2ae3d27d4eb4fu) >> 56);
}

void large_fill(char *memory, uint64_t seed)
{
	for (size_t i = 0; i < NOWN; i++)
		for (uint64_t at = own[i]; at < own[i] + OWN; at++)
			memory[at] = pattern(at, seed);
}

static bool is_own(uint64_t at)
{
	for (size_t i = 0; i < NOWN; i++)
		if (at >= own[i] && at < own[i] + OWN)
			return true;
	return false;
}

bool large_same(const char *memory, uint64_t at, uint64_t from, uint64_t len, uint64_t seed,
		uint64_t around)
{
	for (size_t i = 0; i < NOWN; i++)
		for (uint64_t here = own[i]; here < own[i] + OWN; here++) {
			bool within = here >= at && here < at + len;
			uint64_t there = within ? here - at + from : here;

			if (is_own(there) && memory[here] != pattern(there, within ? seed : around))
				return false;
		}
	return true;
}
