/* SPDX-License-Identifier: BSD-2-Clause */
/* Whoever can call a member of MRAPI's job is no member yet, and its end is no member's death. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"

#define CALLERS 200
#define KEPT 64 /* MOST_UNKNOWN of service.c */

static void come(mrapi_node_t number)
{
	mrapi_status_t st;
	mrapi_info_t info;

	mrapi_initialize(1, number, NULL, &info, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
}

/* The tests run at once, so each has a job. */
static void job(const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "hello-%s-%d", name, (int)getpid());
	setenv("TAGWIRE_JOB", text, 1);
}

/* A process that holds mutex 1, and says which member it is. */
static pid_t holder(struct tw_mrapi_message *says)
{
	mrapi_status_t st;
	mrapi_key_t key;
	int fds[2];
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		come(1);
		mrapi_mutex_lock(mrapi_mutex_create(1, NULL, &st), &key, MRAPI_TIMEOUT_INFINITE,
				 &st);
		*says = (struct tw_mrapi_message){.type = TW_MRAPI_HELLO,
						  .proc = tw_mrapi.proc,
						  .incarnation = tw_mrapi.incarnation};
		if (st == MRAPI_SUCCESS && write(fds[1], says, sizeof(*says)) == sizeof(*says))
			pause();
		_exit(1);
	}
	cr_assert_eq(read(fds[0], says, sizeof(*says)), sizeof(*says));
	return pid;
}

static void lie(const struct tw_mrapi_message *m)
{
	int fd;

	cr_assert_eq(tw_mrapi_dial(&fd, tw_mrapi.proc), 0);
	cr_assert_eq(tw_sys_send(fd, m, sizeof(*m), MSG_NOSIGNAL), sizeof(*m));
	close(fd);
}

Test(mrapi_hello, end_of_a_liar, .timeout = TWT_TIMEOUT)
{
	struct tw_mrapi_message m, own;
	mrapi_mutex_hndl_t mutex;
	mrapi_status_t st;
	mrapi_key_t key;
	pid_t pid;

	job("liar");
	pid = holder(&m);
	come(2);
	mutex = mrapi_mutex_get(1, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	own = m;
	own.proc = tw_mrapi.proc;
	own.incarnation = tw_mrapi.incarnation;
	for (int i = 0; i < 20; i++) {
		lie(&m);
		lie(&own);
		cr_assert_not(mrapi_mutex_trylock(mutex, &key, &st), "a living member lost it");
		usleep(2000);
	}
	cr_assert_eq(mrapi_mutex_get(1, &st), mutex);
	/* Its true death is noticed as before. */
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	mrapi_mutex_lock(mutex, &key, MRAPI_TIMEOUT_INFINITE, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
	mrapi_finalize(&st);
}

/* Those of the callers that were hung up on. */
static unsigned hung_up(struct pollfd *callers)
{
	unsigned n = 0;

	cr_assert(poll(callers, CALLERS, 0) >= 0);
	for (unsigned i = 0; i < CALLERS; i++)
		n += (callers[i].revents & POLLHUP) != 0;
	return n;
}

Test(mrapi_hello, silent_callers, .timeout = TWT_TIMEOUT)
{
	struct pollfd callers[CALLERS];
	mrapi_status_t st;

	job("silent");
	come(1);
	for (unsigned i = 0; i < CALLERS; i++) {
		callers[i].events = POLLIN;
		cr_assert_eq(tw_mrapi_dial(&callers[i].fd, tw_mrapi.proc), 0);
	}
	while (hung_up(callers) < CALLERS - KEPT)
		usleep(1000);
	usleep(20000);
	cr_assert_eq(hung_up(callers), CALLERS - KEPT);
	cr_assert_not(callers[CALLERS - 1].revents & POLLHUP, "the oldest make room");
	mrapi_finalize(&st);
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Those that have said what they are stay. */
Test(mrapi_hello, many_members, .timeout = TWT_TIMEOUT)
{
	struct pollfd callers[CALLERS];
	unsigned before;
	mrapi_status_t st;

	job("many");
	come(1);
	before = descriptors();
	for (unsigned i = 0; i < CALLERS; i++) {
		struct tw_mrapi_message hello = {
			.type = TW_MRAPI_HELLO, .proc = tw_mrapi.proc + 1 + i, .incarnation = 1};

		callers[i].events = POLLIN;
		cr_assert_eq(tw_mrapi_dial(&callers[i].fd, tw_mrapi.proc), 0);
		cr_assert_eq(tw_sys_send(callers[i].fd, &hello, sizeof(hello), MSG_NOSIGNAL),
			     sizeof(hello));
	}
	while (descriptors() < before + 2 * CALLERS) /* one of each end */
		usleep(1000);
	cr_assert_eq(hung_up(callers), 0);
	mrapi_finalize(&st);
}
