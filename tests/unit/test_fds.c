/* SPDX-License-Identifier: BSD-2-Clause */
/* Our descriptors: a forked child closes these and no others. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/fds.h"
#include "lib/twt.h"

TestSuite(fds, .timeout = TWT_TIMEOUT);

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

/* A new descriptor, at that number or above. */
static int another(int least)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, least);

	cr_assert_geq(fd, least);
	return fd;
}

Test(fds, own_passes_through)
{
	int fd = another(0);

	cr_assert_eq(tw_fd_own(fd), fd);
	cr_assert(is_open(fd));
	cr_assert_eq(tw_fd_own(-1), -1);
	cr_assert_eq(tw_fd_own(65536), 65536);
	cr_assert_eq(tw_fd_own(1 << 30), 1 << 30);
	tw_fd_close(fd);
}

/* The caller says why there is none. */
Test(fds, own_keeps_errno)
{
	static const int errors[] = {EMFILE, ENFILE, EMFILE, ENOMEM};
	int err = dup(STDERR_FILENO);

	/* The line is refused, with an error of its own. */
	close(STDERR_FILENO);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		errno = errors[i];
		tw_fd_own(-1);
		cr_assert_eq(errno, errors[i]);
	}
	dup2(err, STDERR_FILENO);
	close(err);
}

Test(fds, close_closes)
{
	int fd = tw_fd_own(another(0)), plain = another(0);

	tw_fd_close(fd);
	cr_assert_not(is_open(fd));
	tw_fd_close(plain);
	cr_assert_not(is_open(plain), "never owned, closed all the same");
	errno = 0;
	tw_fd_close(-1);
	cr_assert_eq(errno, 0, "there is nothing to close");
}

struct set {
	int ours[3], theirs[3];
};

static int in_child(void *arg, int fd)
{
	struct set *s = arg;
	int again;

	tw_fds_forked();
	for (int i = 0; i < 3; i++)
		if (is_open(s->ours[i]) || !is_open(s->theirs[i]))
			return 1 + i;
	if (!is_open(fd) || !is_open(STDERR_FILENO))
		return 4;
	/* They are forgotten: a number may come again with another meaning. */
	again = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, s->ours[1]);
	if (again != s->ours[1])
		return 5;
	tw_fds_forked();
	return is_open(again) ? 0 : 6;
}

static int closed_in_child(struct set *s)
{
	struct twt_child child;

	twt_spawn(&child, in_child, s);
	return twt_join(&child, TWT_LONG);
}

Test(fds, forked)
{
	/* Neighbours at both ends of a word, and far away. */
	struct set s = {.theirs = {another(63), another(130), another(900)}};

	s.ours[0] = tw_fd_own(another(64));
	s.ours[1] = tw_fd_own(another(127));
	s.ours[2] = tw_fd_own(another(800));
	cr_assert_eq(closed_in_child(&s), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert(is_open(s.ours[i]), "the parent keeps its own");
		tw_fd_close(s.ours[i]);
	}
}

/* Closed in time: whoever has the number now keeps it. */
Test(fds, forked_after_close)
{
	struct set s = {.ours = {tw_fd_own(another(100)), tw_fd_own(another(300)),
				 tw_fd_own(another(500))}};

	for (int i = 0; i < 3; i++) {
		int old = tw_fd_own(another(200 + 200 * i));

		tw_fd_close(old);
		s.theirs[i] = another(old);
		cr_assert_eq(s.theirs[i], old);
	}
	cr_assert_eq(closed_in_child(&s), 0);
}

#define THREADS 4
#define EACH 16 /* all in one word */
#define ROUNDS 20000

static int many[THREADS * EACH];

/* Takes all of its own, again and again; every other one stays. */
static void *juggle(void *arg)
{
	int *own = arg;

	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < EACH; i++) {
			tw_fd_own(own[i]);
			if (i % 2 && round == ROUNDS - 1)
				tw_fd_close(own[i]);
		}
	return NULL;
}

static int rest_in_child(void *arg, int fd)
{
	int left = 0;

	(void)arg;
	(void)fd;
	tw_fds_forked();
	for (int i = 0; i < THREADS * EACH; i++)
		left += is_open(many[i]);
	return left;
}

Test(fds, threads)
{
	struct twt_child child;
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS * EACH; i++)
		many[i] = another(i ? many[i - 1] + 1 : 128);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, juggle, &many[i * EACH]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < THREADS * EACH; i++)
		cr_assert_eq(is_open(many[i]), i % 2 == 0);
	twt_spawn(&child, rest_in_child, NULL);
	cr_assert_eq(twt_join(&child, TWT_LONG), 0);
}

/* A program that closes all descriptors, as one that becomes a daemon, and opens its own. */
Test(fds, closed_by_the_program)
{
	int pair[2], ours, theirs;

	cr_assert_eq(pipe(pair), 0);
	ours = tw_fd_own(another(100));
	close(ours);
	cr_assert_eq(dup2(pair[0], ours), ours);
	theirs = ours;
	tw_fd_close(ours);
	cr_assert(is_open(theirs), "the number is the program's now");
	tw_fd_close(theirs);
	cr_assert_not(is_open(theirs), "it was forgotten");
}
