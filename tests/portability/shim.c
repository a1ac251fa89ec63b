/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded: a system whose pages have PAGES bytes, more than this one's. Calls about memory take
 * the C library's place, refuse what such a system refuses, and round lengths as it does. With
 * PAGES_TOLD the program is told another size, as if a constant stood in it: it must come to
 * grief. The memory of the C library and of Criterion, which do not call from here, is theirs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t page, told;

static void init(void)
{
	const char *size = getenv("PAGES"), *other = getenv("PAGES_TOLD");

	told = size ? strtoul(size, NULL, 0) : 4096;
	if (other)
		told = strtoul(other, NULL, 0);
	page = size ? strtoul(size, NULL, 0) : 4096;
}

static size_t up(size_t n)
{
	if (!page)
		init();
	return (n + page - 1) & ~(page - 1);
}

static int odd(const void *at)
{
	return up((uintptr_t)at) != (uintptr_t)at;
}

/* Whether it is Criterion that calls, which has pages of its own. */
static int from_criterion(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "criterion");
}

#define OURS (!from_criterion(__builtin_return_address(0)))

static int refused(void)
{
	errno = EINVAL;
	return -1;
}

int getpagesize(void)
{
	up(0);
	return OURS ? (int)told : 4096;
}

long sysconf(int name)
{
	static long (*own)(int);

	up(0);
	if (name == _SC_PAGESIZE && OURS)
		return (long)told;
	if (!own)
		own = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
	return own(name);
}

static void *map(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

/* Addresses of that alignment which nobody has, reserved. */
static char *reserve(size_t len)
{
	char *p = map(NULL, len + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		      0);
	char *at = (char *)up((uintptr_t)p);

	if (p == MAP_FAILED)
		return NULL;
	if (at > p)
		syscall(SYS_munmap, p, at - p);
	syscall(SYS_munmap, at + len, p + page - at);
	return at;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	int fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
	char *into;
	void *p;

	if (!OURS)
		return map(at, len, prot, flags, fd, offset);
	len = up(len);
	if (up((size_t)offset) != (size_t)offset || (fixed && odd(at))) {
		refused();
		return MAP_FAILED;
	}
	if (at && !odd(at)) {
		p = map(at, len, prot, flags | (fixed ? 0 : MAP_FIXED_NOREPLACE), fd, offset);
		if (fixed || p != MAP_FAILED)
			return p;
	}
	into = reserve(len);
	if (!into) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = map(into, len, prot, flags | MAP_FIXED, fd, offset);
	if (p == MAP_FAILED) {
		int err = errno;

		syscall(SYS_munmap, into, len);
		errno = err;
	}
	return p;
}

void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

int munmap(void *at, size_t len)
{
	if (!OURS)
		return (int)syscall(SYS_munmap, at, len);
	return odd(at) ? refused() : (int)syscall(SYS_munmap, at, up(len));
}

int mprotect(void *at, size_t len, int prot)
{
	if (!OURS)
		return (int)syscall(SYS_mprotect, at, len, prot);
	return odd(at) ? refused() : (int)syscall(SYS_mprotect, at, up(len), prot);
}

/* A file ends within its last page, where this system has none any more. */
static int populate(void *at, size_t len, int advice)
{
	int err = (int)syscall(SYS_madvise, at, len, advice);

	for (size_t less = 4096; err && errno == EFAULT && less < page && less < len; less += 4096)
		err = (int)syscall(SYS_madvise, at, len - less, advice);
	return err;
}

int madvise(void *at, size_t len, int advice)
{
	if (!OURS)
		return (int)syscall(SYS_madvise, at, len, advice);
	if (odd(at))
		return refused();
	if (advice == MADV_POPULATE_WRITE || advice == MADV_POPULATE_READ)
		return populate(at, up(len), advice);
	return (int)syscall(SYS_madvise, at, up(len), advice);
}

/* A page is there if a part of it is. */
int mincore(void *at, size_t len, unsigned char *vec)
{
	size_t own = 4096;

	if (!OURS)
		return (int)syscall(SYS_mincore, at, len, vec);
	if (odd(at))
		return refused();
	len = up(len);
	for (size_t i = 0; i < len; i += own) {
		unsigned char there;

		if (syscall(SYS_mincore, (char *)at + i, own, &there) != 0)
			return -1;
		vec[i / page] = (unsigned char)((i % page ? vec[i / page] : 0) | there);
	}
	return 0;
}

void *mremap(void *at, size_t old, size_t len, int flags, ...)
{
	char *into;
	va_list args;

	if (odd(at)) {
		refused();
		return MAP_FAILED;
	}
	if (flags & MREMAP_FIXED) {
		va_start(args, flags);
		into = va_arg(args, void *);
		va_end(args);
	} else if (!(flags & MREMAP_MAYMOVE) || (old && up(len) <= up(old))) {
		return (void *)syscall(SYS_mremap, at, up(old), up(len), flags);
	} else {
		into = reserve(up(len));
	}
	return (void *)syscall(SYS_mremap, at, up(old), up(len), flags | MREMAP_FIXED, into);
}
