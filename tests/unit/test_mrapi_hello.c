/* SPDX-License-Identifier: BSD-2-Clause */
/* Whoever can call a member of MRAPI's job is no member yet, and its end is no member's death. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/sys.h"
#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"
#include "unit/mrapi_kit.h"

#define CALLERS 200
#define MEMBERS 100
#define KEPT 64 /* MOST_UNKNOWN of service.c */

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
		mrapi_kit_up(1);
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

	mrapi_kit_job("hello-liar");
	pid = holder(&m);
	mrapi_kit_up(2);
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

	mrapi_kit_job("hello-silent");
	mrapi_kit_up(1);
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

/* Connects as MEMBERS members to the member that the pipe names, says so, and stays. */
static void be_members(int in, int out)
{
	struct tw_mrapi_message hello = {.type = TW_MRAPI_HELLO, .incarnation = 1};
	uint32_t proc;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!tw_settings_load() || read(in, &proc, sizeof(proc)) != sizeof(proc))
		_exit(1);
	for (unsigned i = 1; i <= MEMBERS; i++) {
		hello.proc = proc + i;
		if (tw_mrapi_dial(&fd, proc) ||
		    tw_sys_send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
			_exit(1);
	}
	if (write(out, &proc, 1) == 1)
		pause();
	_exit(1);
}

/* It accepts many at once, when descriptors are free again: none of them has been heard yet. */
Test(mrapi_hello, many_members, .timeout = TWT_TIMEOUT)
{
	struct rlimit all, none;
	int in[2], out[2], next;
	mrapi_status_t st;
	unsigned before;
	char byte;

	mrapi_kit_job("hello-many");
	cr_assert(pipe(in) == 0 && pipe(out) == 0);
	if (fork() == 0)
		be_members(in[0], out[1]);
	close(out[1]); /* so that its end is seen */
	mrapi_kit_up(1);
	before = descriptors();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	next = dup(in[0]);
	close(next);
	none = (struct rlimit){(rlim_t)next, all.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_assert_eq(write(in[1], &tw_mrapi.proc, sizeof(tw_mrapi.proc)), sizeof(tw_mrapi.proc));
	cr_assert_eq(read(out[0], &byte, 1), 1);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	while (descriptors() < before + MEMBERS)
		usleep(1000);
	mrapi_finalize(&st);
}
