/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies between processes, also where the kernel stops early and where it refuses. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/twt.h"
#include "shmem/remote.h"

TestSuite(remote, .timeout = TWT_TIMEOUT);

#define PAGES 65536u /* whole pages, however large a page is */
#define SIZE (8 * PAGES)
#define HOLE (5 * PAGES) /* a page of the other process that is not there */
#define PIECES 40

static size_t most = SIZE; /* bytes that a call moves */
static int refusal;
static unsigned calls;
static uint8_t *there; /* at the same place in both processes */

/* Shortens a list to so many bytes, in a copy. */
static unsigned long shortened(struct iovec *to, const struct iovec *from, unsigned long n)
{
	size_t left = most;
	unsigned long k;

	for (k = 0; k < n && left; k++) {
		to[k] = from[k];
		to[k].iov_len = tw_min(from[k].iov_len, left);
		left -= to[k].iov_len;
	}
	return k;
}

static long (*libc_syscall)(long number, ...);

static long move(long number, const long *arg)
{
	struct iovec l[PIECES], r[PIECES];

	calls++;
	if (refusal)
		return errno = refusal, -1;
	return libc_syscall(number, arg[0], l,
			    shortened(l, (struct iovec *)arg[1], (unsigned long)arg[2]), r,
			    shortened(r, (struct iovec *)arg[3], (unsigned long)arg[4]), 0ul);
}

/* In place of the C library's. Reads six arguments, however many there are. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	long arg[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	if (!libc_syscall)
		*(void **)&libc_syscall = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_process_vm_readv || number == SYS_process_vm_writev)
		return move(number, arg);
	return libc_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* Says that it is ready, and for every byte that comes what its memory adds up to. */
static int serve(void *arg, int fd)
{
	char c = 0;

	(void)arg;
	twt_fill(there, SIZE, 5);
	munmap(there + HOLE, PAGES);
	while (write(fd, &c, 1) == 1 && read(fd, &c, 1) == 1 && c != 'q') {
		uint8_t sum = 0;

		for (size_t i = 0; i < HOLE; i++)
			sum = (uint8_t)(sum * 31 + there[i]);
		c = (char)sum;
	}
	return 0;
}

static struct twt_child child;

static void start(void)
{
	char c;

	there = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(there, MAP_FAILED);
	twt_spawn_here(&child, serve, NULL);
	cr_assert_eq(read(child.fd, &c, 1), 1);
	/* Ours has the same contents, and is not shared. */
	twt_fill(there, SIZE, 5);
}

static void stop(void)
{
	cr_assert_eq(write(child.fd, "q", 1), 1);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
}

/* The first bytes of a memory in n pieces, the sizes of which grow. */
static struct tw_pieces cut(struct iovec *iov, uint8_t *at, size_t bytes, unsigned n)
{
	size_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t end = i + 1 == n ? bytes : bytes * (i + 1) * (i + 2) / n / (n + 1);

		iov[i] = (struct iovec){at + done, end - done};
		done = end;
	}
	return (struct tw_pieces){iov, n};
}

static enum tw_err copy(bool write, uint8_t *mine, size_t bytes, unsigned nlocal, unsigned nremote)
{
	struct iovec l[PIECES], r[PIECES];
	struct tw_pieces local = cut(l, mine, bytes, nlocal),
			 remote = cut(r, there, bytes, nremote);
	enum tw_err err = tw_remote_copy(child.pid, write, &local, &remote);

	if (err == TW_OK)
		cr_assert(local.n == 0 && remote.n == 0);
	return err;
}

static const unsigned counts[] = {1, 2, 7, PIECES};
static const size_t shorts[] = {1000, TW_PAGE, 12345, SIZE};

Test(remote, read_resumed)
{
	static uint8_t got[HOLE];

	start();
	for (unsigned s = 0; s < tw_countof(shorts); s++)
		for (unsigned i = 0; i < 16; i++) {
			most = shorts[s];
			calls = 0;
			memset(got, 0, sizeof(got));
			cr_assert_eq(copy(false, got, HOLE, counts[i / 4], counts[i % 4]), TW_OK);
			cr_assert_eq(memcmp(got, there, HOLE), 0);
			cr_assert_eq(calls, (HOLE + most - 1) / most);
		}
	stop();
}

Test(remote, write_resumed)
{
	static uint8_t put[HOLE];

	start();
	for (unsigned s = 0; s < tw_countof(shorts); s++)
		for (unsigned i = 0; i < 16; i++) {
			uint8_t sum = 0;
			char c = 's';

			most = shorts[s];
			twt_fill(put, sizeof(put), 100 * s + i);
			cr_assert_eq(copy(true, put, HOLE, counts[i / 4], counts[i % 4]), TW_OK);
			for (size_t k = 0; k < HOLE; k++)
				sum = (uint8_t)(sum * 31 + put[k]);
			cr_assert_eq(write(child.fd, &c, 1), 1);
			cr_assert_eq(read(child.fd, &c, 1), 1);
			cr_assert_eq((uint8_t)c, sum);
		}
	stop();
}

/* What lies before memory that is not there is copied; the lists say how far. */
Test(remote, hole)
{
	static uint8_t got[SIZE + TW_LINE];
	struct iovec l[2] = {{got, HOLE - 100}, {got + HOLE - 100, 200}};
	struct iovec r[2] = {{there, HOLE}, {there + HOLE, 100}};
	struct tw_pieces local = {l, 2}, remote = {r, 2};

	start();
	memset(got, 0xee, sizeof(got));
	r[0].iov_base = there;
	r[1].iov_base = there + HOLE;
	cr_assert_eq(tw_remote_copy(child.pid, false, &local, &remote), TW_EFAULT);
	cr_assert_eq(memcmp(got, there, HOLE), 0);
	cr_assert_eq(got[HOLE], 0xee);
	cr_assert_eq(local.n, 1);
	cr_assert_eq(remote.n, 1);
	cr_assert_eq(remote.iov->iov_len, 100);
	cr_assert_eq(copy(true, got, SIZE, 3, 1), TW_EFAULT);
	stop();
}

Test(remote, refused)
{
	static uint8_t got[TW_PAGE];
	static const struct {
		int error;
		enum tw_err err;
	} table[] = {{EPERM, TW_EPERM},	 {ENOSYS, TW_EPERM},  {EACCES, TW_EPERM},
		     {ESRCH, TW_ELOST},	 {EFAULT, TW_EFAULT}, {EINVAL, TW_EFAULT},
		     {ENOMEM, TW_ENOMEM}};

	start();
	for (unsigned i = 0; i < tw_countof(table); i++) {
		refusal = table[i].error;
		cr_assert_eq(copy(i & 1, got, sizeof(got), 1, 1), table[i].err, "error %d",
			     refusal);
	}
	refusal = 0;
	/* A call that does nothing and calls that no error ends the copy, too. */
	most = 0;
	cr_assert_eq(copy(false, got, sizeof(got), 1, 1), TW_EPERM);
	most = SIZE;
	stop();
	cr_assert_eq(copy(false, got, sizeof(got), 1, 1), TW_ELOST, "it is dead");
}
