/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes need to share memory: sealed segments, and descriptors passed over a socket. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/settings.h"
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
	tw_sock_name(name, "test-%d-%s", (int)getpid(), what);
}

static int accept_at(const struct tw_sock_listener *l, int which)
{
	return accept4(l->fd[which], NULL, NULL, SOCK_CLOEXEC);
}

static int dial(const struct tw_sock_name *name)
{
	int fd = -1, err = tw_sock_dial(&fd, name);

	tw_fd_close(fd);
	return err;
}

Test(shmem, names)
{
	struct tw_sock_listener listener, second;
	struct tw_sock_name name, other;
	int fd = -1, accepted, again;
	pid_t pid = 0;

	a_name(&name, "one");
	a_name(&other, "two");
	cr_assert_eq(tw_sock_dial(&fd, &name), ECONNREFUSED);
	cr_assert_geq(fd, 0);
	cr_assert_eq(tw_sock_listen(&listener, &name, 1), 0);
	cr_assert_eq(tw_sock_listen(&second, &name, 1), EADDRINUSE);
	cr_assert_eq(tw_sock_listen(&second, &other, 1), 0);
	again = fd;
	cr_assert_eq(tw_sock_dial(&fd, &name), 0);
	cr_assert_eq(fd, again, "as it was after a refusal");
	accepted = accept_at(&listener, TW_SOCK_OWN);
	cr_assert_geq(accepted, 0);
	cr_assert_eq(tw_sock_peer(accepted, &pid), 0);
	cr_assert_eq(pid, getpid());
	cr_assert_neq(tw_sock_peer(-1, &pid), 0);
	cr_assert_neq(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	tw_sock_listen_end(&listener);
	tw_sock_listen_end(&second);
	tw_fd_close(fd);
	cr_assert_eq(dial(&name), ECONNREFUSED, "gone with its socket");
}

/* The numbers stay, the name does not. */
Test(shmem, hidden)
{
	struct tw_sock_listener l, next;
	struct tw_sock_name name;
	int other = open("/dev/null", O_RDONLY | O_CLOEXEC);

	a_name(&name, "hidden");
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	tw_sock_hide(&l, other);
	cr_assert_eq(dial(&name), ECONNREFUSED);
	cr_assert_eq(tw_sock_listen(&next, &name, 1), 0);
	tw_sock_listen_end(&l);
	cr_assert_eq(dial(&name), 0, "it is the next one's");
	tw_sock_listen_end(&next);
}

/* A directory that ends with the test, in which names are. */
static char place[] = "/tmp/tagwire-test-XXXXXX";

static void use_place(const char *what)
{
	cr_assert_not_null(mkdtemp(place));
	snprintf(tw_settings.dir, sizeof(tw_settings.dir), "%s%s", place, what);
}

static unsigned files_in_place(void)
{
	DIR *d = opendir(tw_settings.dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n ? n - 2 : 0;
}

static void end_place(void)
{
	rmdir(tw_settings.dir);
	rmdir(place);
}

static int is_killed(void *arg, int fd)
{
	struct tw_sock_listener l;
	char c;
	int err = tw_sock_listen(&l, arg, 1);

	if (twt_put(fd, &err, sizeof(err)))
		return 1;
	return twt_get(fd, &c, 1);
}

/* What a killed process leaves is removed: the name that is wanted, and others as well. */
Test(shmem, left_over)
{
	struct tw_sock_name name, other;
	struct tw_sock_listener l;
	struct twt_child child[2];
	int err;

	use_place("/names");
	a_name(&name, "killed");
	a_name(&other, "killed too");
	for (int i = 0; i < 2; i++) {
		twt_spawn_here(&child[i], is_killed, i ? &other : &name);
		cr_assert_eq(twt_get(child[i].fd, &err, sizeof(err)), 0);
		cr_assert_eq(err, 0);
	}
	cr_assert_eq(files_in_place(), 2);
	cr_assert_eq(dial(&name), 0);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), EADDRINUSE);
	for (int i = 0; i < 2; i++) {
		kill(child[i].pid, SIGKILL);
		twt_join(&child[i], TWT_LONG);
	}
	cr_assert_eq(dial(&name), ECONNREFUSED);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	cr_assert_eq(files_in_place(), 1);
	cr_assert_eq(dial(&name), 0);
	tw_sock_listen_end(&l);
	cr_assert_eq(files_in_place(), 0);
	end_place();
}

/* Processes that see other files, or whose directory somebody else could write to. */
Test(shmem, no_place)
{
	struct tw_sock_listener l, next;
	struct tw_sock_name name;

	use_place("");
	a_name(&name, "abstract");
	cr_assert_eq(chmod(place, 0701), 0);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	cr_assert_eq(l.fd[TW_SOCK_OWN], -1);
	cr_assert_eq(files_in_place(), 0);
	cr_assert_eq(dial(&name), 0);
	cr_assert_eq(chmod(place, 0700), 0);
	close(accept_at(&l, TW_SOCK_OPEN));
	cr_assert_eq(dial(&name), 0);
	cr_assert_eq(dial(&name), 0);
	cr_assert_eq(dial(&name), TW_SOCK_FULL, "it may be another user's");
	close(accept_at(&l, TW_SOCK_OPEN));
	close(accept_at(&l, TW_SOCK_OPEN));
	cr_assert_eq(tw_sock_listen(&next, &name, 1), EADDRINUSE, "by its abstract name");
	cr_assert_eq(files_in_place(), 0);
	tw_sock_listen_end(&l);
	end_place();
}

static void to_nobody(void)
{
	if (setresuid(65534, 65534, 65534) < 0)
		_exit(9);
}

static int nobody_listens(void *arg, int fd)
{
	struct tw_sock_listener l;
	int err;
	char c;

	to_nobody();
	err = tw_sock_listen(&l, arg, 1);
	if (twt_put(fd, &err, sizeof(err)))
		return 1;
	twt_get(fd, &c, 1);
	tw_sock_listen_end(&l);
	return 0;
}

/* Somebody else's socket is refused, and is not in the way. */
Test(shmem, another_user)
{
	struct tw_sock_listener l;
	struct tw_sock_name name;
	struct twt_child child;
	int err;

	if (geteuid() != 0)
		cr_skip_test("only root becomes somebody else");
	a_name(&name, "nobody");
	twt_spawn_here(&child, nobody_listens, &name);
	cr_assert_eq(twt_get(child.fd, &err, sizeof(err)), 0);
	cr_assert_eq(err, 0);
	cr_assert_eq(dial(&name), TW_SOCK_FOREIGN);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	cr_assert_eq(dial(&name), 0);
	tw_sock_listen_end(&l);
	shutdown(child.fd, SHUT_RDWR);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
}

/* A directory of that name that is another user's is not used, nor is a link to one. */
Test(shmem, anothers_place)
{
	char path[sizeof(tw_settings.dir)];
	struct tw_sock_listener l;
	struct tw_sock_name name;

	if (geteuid() != 0)
		cr_skip_test("only root gives directories away");
	use_place("/names");
	a_name(&name, "one");
	cr_assert_eq(mkdir(tw_settings.dir, 0700), 0);
	cr_assert_eq(chown(tw_settings.dir, 65534, 65534), 0);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	cr_assert_eq(l.fd[TW_SOCK_OWN], -1);
	tw_sock_listen_end(&l);
	cr_assert_eq(chown(tw_settings.dir, 0, 0), 0);
	snprintf(path, sizeof(path), "%s", tw_settings.dir);
	snprintf(tw_settings.dir, sizeof(tw_settings.dir), "%s/link", place);
	cr_assert_eq(symlink(path, tw_settings.dir), 0);
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	cr_assert_eq(l.fd[TW_SOCK_OWN], -1);
	tw_sock_listen_end(&l);
	unlink(tw_settings.dir);
	rmdir(path);
	end_place();
}

/* Hosts that are network namespaces share directories, and no names. */
Test(shmem, another_host)
{
	struct tw_sock_listener l, there;
	struct tw_sock_name name;

	a_name(&name, "host");
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	if (unshare(CLONE_NEWNET) < 0) {
		tw_sock_listen_end(&l);
		cr_skip_test("no network namespaces: %s", strerror(errno));
	}
	cr_assert_eq(dial(&name), ECONNREFUSED);
	cr_assert_eq(tw_sock_listen(&there, &name, 1), 0);
	tw_sock_listen_end(&there);
	tw_sock_listen_end(&l);
}

/* Where they share TAGWIRE_DIR, they share names that no two of them use. */
Test(shmem, shared_name)
{
	struct tw_sock_listener l, there;
	struct tw_sock_name name;
	int fd = -1;

	a_name(&name, "pod");
	name.shared = true;
	cr_assert_eq(tw_sock_dial_shared(&fd, &name), ECONNREFUSED, "no directory is given");
	tw_fd_close(fd);
	use_place("");
	cr_assert_eq(tw_sock_listen(&l, &name, 1), 0);
	if (unshare(CLONE_NEWNET) < 0) {
		tw_sock_listen_end(&l);
		end_place();
		cr_skip_test("no network namespaces: %s", strerror(errno));
	}
	fd = -1;
	cr_assert_eq(tw_sock_dial_shared(&fd, &name), 0);
	tw_fd_close(fd);
	cr_assert_eq(dial(&name), 0);
	cr_assert_eq(tw_sock_listen(&there, &name, 1), EADDRINUSE);
	name.shared = false;
	cr_assert_eq(dial(&name), ECONNREFUSED);
	tw_sock_listen_end(&l);
	end_place();
}

enum { TO_DIAL, TO_ACCEPT };

struct unnamed {
	struct tw_sock_name name;
	int what;
};

/* In a user namespace without ids, where all users look alike. The result, -1: there is none. */
static int is_unnamed(void *arg, int fd)
{
	const struct unnamed *u = arg;
	struct tw_sock_listener l;
	int err = unshare(CLONE_NEWUSER) < 0 ? -1 : 0;
	pid_t pid;
	char c;

	if (!err)
		err = u->what == TO_DIAL ? dial(&u->name) : tw_sock_listen(&l, &u->name, 1);
	if (twt_put(fd, &err, sizeof(err)))
		return 1;
	if (err || u->what == TO_DIAL)
		return 0;
	if (twt_get(fd, &c, 1))
		return 1;
	err = tw_sock_peer(accept_at(&l, TW_SOCK_OWN), &pid);
	if (err == TW_SOCK_UNNAMED && l.alone)
		err = 0;
	tw_sock_listen_end(&l);
	return twt_put(fd, &err, sizeof(err));
}

static void ask_unnamed(struct unnamed *u, int what, struct twt_child *child, int *err)
{
	u->what = what;
	twt_spawn_here(child, is_unnamed, u);
	cr_assert_eq(twt_get(child->fd, err, sizeof(*err)), 0);
}

/* Users without ids here are this one if they reach its directory, and strangers elsewhere. */
Test(shmem, unnamed_users)
{
	struct tw_sock_listener l;
	struct twt_child child;
	struct unnamed u;
	int err;

	use_place("");
	a_name(&u.name, "unnamed");
	cr_assert_eq(tw_sock_listen(&l, &u.name, 4), 0);
	ask_unnamed(&u, TO_DIAL, &child, &err);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	if (err == -1) {
		tw_sock_listen_end(&l);
		end_place();
		cr_skip_test("no user namespaces");
	}
	cr_assert_eq(err, 0);
	cr_assert_eq(chmod(place, 0701), 0);
	ask_unnamed(&u, TO_DIAL, &child, &err);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	cr_assert_eq(err, TW_SOCK_FOREIGN, "by an abstract name");
	cr_assert_eq(chmod(place, 0700), 0);
	tw_sock_listen_end(&l);
	ask_unnamed(&u, TO_ACCEPT, &child, &err);
	cr_assert_eq(err, 0);
	cr_assert_eq(dial(&u.name), 0);
	cr_assert_eq(twt_put(child.fd, "!", 1), 0);
	cr_assert_eq(twt_get(child.fd, &err, sizeof(err)), 0);
	cr_assert_eq(err, 0);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
	end_place();
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
