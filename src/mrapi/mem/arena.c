/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arena: one sparse file for the job. A range of it belongs to a live shared memory
 * or is free, so a dead process leaks nothing. Pages are allocated at creation, so
 * attaching cannot run out of memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sys.h"
#include "mrapi/mem/memory.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Bytes that can be allocated without invoking the OOM killer. */
static uint64_t available(void)
{
	uint64_t kib, max, used, bytes = UINT64_MAX;

	if (tw_file_number("/proc/meminfo", "MemAvailable:", &kib))
		bytes = kib * 1024;
	if (tw_file_number("/sys/fs/cgroup/memory.max", "", &max) &&
	    tw_file_number("/sys/fs/cgroup/memory.current", "", &used))
		bytes = tw_min(bytes, max > used ? max - used : 0);
	return bytes;
}

/* The end of a live memory that overlaps the range, or 0. */
static uint64_t overlapping(uint64_t offset, uint64_t span)
{
	tw_mrapi_each_shmem(s)
		if (atomic_load(&s->obj.handle) && offset < s->offset + s->span &&
		    s->offset < offset + span)
			return s->offset + s->span;
	return 0;
}

/* Next fit, so that a freed range is reused as late as possible. */
mrapi_status_t tw_mrapi_arena_reserve(uint64_t span, uint64_t *offset)
{
	struct tw_mrapi_segment *seg = tw_mrapi.seg;
	uint64_t top = seg->arena_size - tw_min(seg->arena_size, TW_MRAPI_BOUNCES), next, at;
	bool again = false;

	if (span > available())
		return MRAPI_ERR_MEM_LIMIT;
	at = seg->arena_next;
	for (;;) {
		if (at + span > top) {
			if (again || span > top)
				return MRAPI_ERR_MEM_LIMIT;
			again = true;
			at = 0;
		}
		next = overlapping(at, span);
		if (!next)
			break;
		at = next;
	}
	seg->arena_next = at + span;
	*offset = at;
	return MRAPI_SUCCESS;
}

/* On a single-node machine a missing permission to bind memory does not matter. */
static bool only_choice(int error)
{
	return (error == EPERM || error == ENOSYS) &&
	       !tw_sys_readable("/sys/devices/system/node/node1");
}

/* Binds the pages of the range to a NUMA node. */
static bool bind_pages(uint64_t offset, uint64_t span, uint64_t numa_node)
{
	unsigned long mask[1024 / (8 * sizeof(unsigned long))] = {0};
	unsigned bits = 8 * sizeof(*mask);
	void *p;
	long rc;

	if (numa_node >= sizeof(mask) * 8)
		return false;
	mask[numa_node / bits] = 1ul << (numa_node % bits);
	p = tw_mrapi_arena_map(offset, span, 0, false);
	if (!p)
		return false;
	rc = syscall(SYS_mbind, p, (unsigned long)span, MPOL_BIND, mask, sizeof(mask) * 8, 0);
	if (rc < 0 && only_choice(errno))
		rc = 0;
	munmap(p, span);
	return rc == 0;
}

mrapi_status_t tw_mrapi_arena_fill(uint64_t offset, uint64_t span, const mrapi_resource_t *where)
{
	/* Resources that describe another machine bind no memory. */
	bool placeable = where->resource_type == MRAPI_RSRC_MEM &&
			 where->opaque[TW_MRAPI_RSRC_HERE];

	/* A dead process may have left pages there. */
	tw_mrapi_arena_discard(offset, span);
	if (placeable && !bind_pages(offset, span, where->opaque[TW_MRAPI_RSRC_INDEX]))
		return MRAPI_ERR_MEM_LIMIT;
	return tw_sys_fallocate(tw_mrapi.arenafd, 0, (off_t)offset, (off_t)span) == 0
		       ? MRAPI_SUCCESS
		       : MRAPI_ERR_MEM_LIMIT;
}

void tw_mrapi_arena_discard(uint64_t offset, uint64_t span)
{
	if (tw_sys_fallocate(tw_mrapi.arenafd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     (off_t)offset, (off_t)span) < 0)
		tw_log(TW_LOG_WARN, "mrapi: cannot free shared memory");
}

void *tw_mrapi_arena_map(uint64_t offset, uint64_t span, uint64_t address, bool fixed)
{
	void *p;

	if (span != (size_t)span || (fixed && address != (uintptr_t)address))
		return NULL;
	p = mmap((void *)(uintptr_t)address, span, PROT_READ | PROT_WRITE,
		 MAP_SHARED | (fixed ? MAP_FIXED_NOREPLACE : 0), tw_mrapi.arenafd, (off_t)offset);
	if (p == MAP_FAILED)
		return NULL;
	/* A kernel that does not know the flag takes the address as a hint. */
	if (fixed && (uintptr_t)p != address) {
		munmap(p, span);
		return NULL;
	}
	return p;
}
