/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes need to share memory: sealed segments, and descriptors passed over a socket. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fds.h"
#include "lib/twt.h"
#include "shmem/sealed.h"
#include "shmem/sock.h"

TestSuite(shmem, .timeout = TWT_TIMEOUT);

#define SIZE (4 * TW_PAGE)

/* ---------------------------------------------------------------- segments */

Test(shmem, segment)
{
	void *p, *again;
	int fd;

	cr_assert_eq(tw_sealed_make("test", SIZE, TW_SEALS, &fd, &p), TW_OK);
	cr_assert(tw_sealed_sound(fd, SIZE));
	cr_assert_not(tw_sealed_sound(fd, SIZE - 1));
	cr_assert_not(tw_sealed_sound(fd, 2 * SIZE));
	cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	cr_assert_lt(ftruncate(fd, 0), 0, "nobody shrinks it");
	cr_assert_lt(ftruncate(fd, 2 * SIZE), 0);
	memset(p, 7, SIZE);
	again = tw_sealed_map(fd, SIZE, PROT_READ);
	cr_assert_not_null(again);
	cr_assert_eq(memcmp(p, again, SIZE), 0);
	munmap(again, SIZE);
	munmap(p, SIZE);
	close(fd);
}

Test(shmem, unsound)
{
	int pipes[2], fd;
	FILE *file = tmpfile();

	fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_eq(ftruncate(fd, SIZE), 0);
	for (int seals = 0; seals < 16; seals++) {
		int some = tw_sealed_file("some", SIZE, 0, seals);

		cr_assert_geq(some, 0);
		cr_assert_eq(tw_sealed_sound(some, SIZE), (seals & TW_SEALS) == TW_SEALS);
		close(some);
	}
	cr_assert_not(tw_sealed_sound(fd, SIZE));
	cr_assert_eq(pipe(pipes), 0);
	cr_assert_not(tw_sealed_sound(pipes[0], 0));
	cr_assert_not_null(file);
	cr_assert_not(tw_sealed_sound(fileno(file), 0));
	cr_assert_not(tw_sealed_sound(-1, SIZE));
}

Test(shmem, pages)
{
	int none = tw_sealed_file("none", 64 * SIZE, 0, TW_SEALS);
	int some = tw_sealed_file("some", 64 * SIZE, SIZE, TW_SEALS);
	off_t hole;

	cr_assert_geq(none, 0);
	cr_assert_geq(some, 0);
	hole = lseek(none, 0, SEEK_HOLE);
	cr_assert_eq(hole, 0, "no page exists before it is used");
	hole = lseek(some, 0, SEEK_HOLE);
	cr_assert(hole >= 0 && hole < 64 * SIZE);
	cr_assert(tw_sealed_sound(none, 64 * SIZE));
	cr_assert(tw_sealed_sound(some, 64 * SIZE));
}

/* A limit of file sizes is an answer, and no signal. */
Test(shmem, limited)
{
	struct rlimit limit = {SIZE, SIZE};
	void *p;
	int fd;

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	errno = 0;
	cr_assert_eq(tw_sealed_file("test", SIZE + 1, 0, TW_SEALS), -1);
	cr_assert_eq(errno, EFBIG);
	cr_assert_eq(tw_sealed_make("test", 2 * SIZE, TW_SEALS, &fd, &p), TW_ENOMEM);
	cr_assert_eq(tw_sealed_make("test", SIZE, TW_SEALS, &fd, &p), TW_OK);
}

/* ----------------------------------------------------------------- sockets */

static void a_name(struct tw_sock_name *name, const char *what)
{
	tw_sock_name(name, "tagwire-test-%d-%s", (int)getpid(), what);
}

Test(shmem, names)
{
	struct tw_sock_name name, other;
	int listener = tw_sock_new(0), second = tw_sock_new(0), fd = tw_sock_new(0), accepted;
	pid_t pid = 0;

	a_name(&name, "one");
	a_name(&other, "two");
	cr_assert_eq(tw_sock_connect(fd, &name), ECONNREFUSED);
	cr_assert_eq(tw_sock_listen(listener, &name, 1), 0);
	cr_assert_eq(tw_sock_listen(second, &name, 1), EADDRINUSE);
	cr_assert_eq(tw_sock_listen(second, &other, 1), 0);
	cr_assert_eq(tw_sock_connect(fd, &name), 0, "as it was after a refusal");
	accepted = accept(listener, NULL, NULL);
	cr_assert_geq(accepted, 0);
	cr_assert_eq(tw_sock_peer(accepted, &pid), 0);
	cr_assert_eq(pid, getpid());
	cr_assert_neq(tw_sock_peer(-1, &pid), 0);
	cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	tw_fd_close(listener);
	tw_fd_close(fd);
	fd = tw_sock_new(SOCK_NONBLOCK);
	cr_assert_eq(tw_sock_connect(fd, &name), ECONNREFUSED, "gone with its socket");
}

static int nobody_listens(void *arg, int fd)
{
	int listener = tw_sock_new(0);
	char c = 0;

	if (setresuid(65534, 65534, 65534) < 0 || tw_sock_listen(listener, arg, 1) ||
	    write(fd, &c, 1) != 1)
		return 1;
	return read(fd, &c, 1) == 1 ? 0 : 2;
}

/* Somebody else's socket is refused, whoever connects. */
Test(shmem, another_user)
{
	struct tw_sock_name name;
	struct twt_child child;
	int fd = tw_sock_new(0);
	char c;

	if (geteuid() != 0)
		cr_skip_test("only root becomes somebody else");
	a_name(&name, "nobody");
	twt_spawn_here(&child, nobody_listens, &name);
	cr_assert_eq(read(child.fd, &c, 1), 1);
	cr_assert_eq(tw_sock_connect(fd, &name), TW_SOCK_FOREIGN);
	cr_assert_eq(write(child.fd, &c, 1), 1);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
}

/* ------------------------------------------------------------- descriptors */

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static void two_ends(int pair[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

/* Sends more than tw_sock_send() would. */
static void send_many(int sock, const void *msg, size_t len, unsigned nfds)
{
	union {
		char space[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)msg, len};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = CMSG_SPACE(nfds * sizeof(int))};
	int fds[8] = {0, 1, 2, 0, 1, 2, 0, 1};

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
	cr_assert_eq(sendmsg(sock, &m, 0), (ssize_t)len);
}

Test(shmem, descriptors)
{
	int pair[2], fds[2] = {-1, -1}, mine[2];
	uint64_t word = 0x1234, got = 0;
	unsigned before;

	two_ends(pair);
	mine[0] = tw_sealed_file("one", SIZE, 0, TW_SEALS);
	mine[1] = tw_sealed_file("two", 2 * SIZE, 0, TW_SEALS);
	before = open_fds();
	cr_assert_eq(tw_sock_recv(pair[1], &got, sizeof(got), fds, 2), EAGAIN);
	for (unsigned n = 0; n <= TW_SOCK_FDS; n++) {
		cr_assert_eq(tw_sock_send(pair[0], &word, sizeof(word), mine, n), 0);
		cr_assert_eq(tw_sock_recv(pair[1], &got, sizeof(got), fds, n), 0);
		cr_assert_eq(got, word);
		cr_assert_eq(open_fds(), before + n);
		for (unsigned i = 0; i < n; i++) {
			cr_assert(tw_sealed_sound(fds[i], (i + 1) * SIZE));
			cr_assert_neq(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, 0);
			close(fds[i]);
		}
	}
	close(pair[0]);
	cr_assert_eq(tw_sock_recv(pair[1], &got, sizeof(got), fds, 0), ECONNRESET);
	cr_assert_neq(tw_sock_send(pair[1], &word, sizeof(word), NULL, 0), 0, "and no signal");
}

/* Whatever else comes leaves no descriptor behind, and writes no more than there is room. */
Test(shmem, other_messages)
{
	int pair[2], fds[TW_SOCK_FDS + 1];
	char msg[32] = "", got[16];
	unsigned before;

	two_ends(pair);
	before = open_fds();
	for (size_t len = 1; len <= sizeof(msg); len += 5)
		for (unsigned n = 1; n <= 8; n++)
			for (unsigned want = 0; want <= TW_SOCK_FDS; want++) {
				int err;

				for (unsigned i = 0; i <= TW_SOCK_FDS; i++)
					fds[i] = -7;
				send_many(pair[0], msg, len, n);
				err = tw_sock_recv(pair[1], got, sizeof(got), fds, want);
				cr_assert_eq(err, len == sizeof(got) && n == want ? 0 : EPROTO);
				cr_assert_eq(fds[want], -7);
				for (unsigned i = 0; err == 0 && i < want; i++)
					close(fds[i]);
				cr_assert_eq(open_fds(), before, "%zu bytes with %u", len, n);
			}
}

/* No place for the descriptors. */
Test(shmem, no_descriptor_left)
{
	struct rlimit limit;
	int pair[2], fds[2];
	char msg = 0;
	unsigned before;

	two_ends(pair);
	before = open_fds();
	for (rlim_t room = 0; room < 2; room++) {
		cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
		limit.rlim_cur = (rlim_t)pair[1] + 1 + room;
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		send_many(pair[0], &msg, 1, 2);
		cr_assert_eq(tw_sock_recv(pair[1], &msg, 1, fds, 2), EMFILE);
		cr_assert_eq(open_fds(), before);
	}
}
