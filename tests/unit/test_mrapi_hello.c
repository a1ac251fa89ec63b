/* SPDX-License-Identifier: BSD-2-Clause */
/* Whoever can call a member of MRAPI's job is no member yet, and its end is no member's death. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "lib/twt.h"
#include "mrapi/mrapi_internal.h"

#define CALLERS 200

static void come(mrapi_node_t number)
{
	mrapi_status_t st;
	mrapi_info_t info;

	mrapi_initialize(1, number, NULL, &info, &st);
	cr_assert_eq(st, MRAPI_SUCCESS);
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
	pid_t pid = holder(&m);

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

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

Test(mrapi_hello, silent_callers, .timeout = TWT_TIMEOUT)
{
	unsigned before;
	mrapi_status_t st;
	int fd;

	come(3);
	before = descriptors();
	for (int i = 0; i < CALLERS; i++)
		cr_assert_eq(tw_mrapi_dial(&fd, tw_mrapi.proc), 0);
	/* One of each caller, and few of the other ends. */
	while (descriptors() > before + CALLERS + CALLERS / 2)
		usleep(1000);
	mrapi_finalize(&st);
}
