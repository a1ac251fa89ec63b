/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A child that is forked while other threads hold the library's mutexes finds them free. So does
 * one that a signal handler forks amid a call that has one.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/jobkey.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "lib/twt.h"
#include "naming/hosts.h"
#include "providers/net/session.h"

#define FORKS 50

static void look_up_host(void)
{
	struct tw_known k;

	tw_hosts_find_nic(1, &k);
}

static void look_up_driver(void)
{
	tw_driver_any("tcp");
}

static void look_up_key(void)
{
	uint8_t key[TW_JOBKEY];

	tw_jobkey_get(key);
}

static void look_up_auth(void)
{
	tw_net_auth();
}

static void (*const calls[])(void) = {look_up_host, look_up_driver, look_up_key, look_up_auth};

static atomic_bool over;

static void *calls_on(void *call)
{
	while (!atomic_load(&over))
		(*(void (*const *)(void))call)();
	return NULL;
}

/* The status of the child. */
static int fork_and_call(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(TWT_LONG);
		for (unsigned c = 0; c < tw_countof(calls); c++)
			calls[c]();
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

Test(forked, finds_mutexes_free, .timeout = TWT_TIMEOUT)
{
	pthread_t threads[tw_countof(calls)];

	/* That of GCC 12: the child waits in realloc() for a lock that another thread held. */
	if (TW_ASAN)
		cr_skip_test("the sanitizer's allocator is not held over fork()");
	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert_eq(tw_begin(), TW_OK);
	for (unsigned i = 0; i < tw_countof(calls); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, calls_on,
					    (void *)(uintptr_t)&calls[i]),
			     0);
	for (unsigned i = 0; i < FORKS; i++)
		cr_assert_eq(fork_and_call(), 0, "child %u hangs", i);
	atomic_store(&over, true);
	for (unsigned i = 0; i < tw_countof(calls); i++)
		pthread_join(threads[i], NULL);
	tw_end();
}

static volatile sig_atomic_t forks, failed;

static void fork_in_handler(int signal)
{
	(void)signal;
	forks++;
	failed |= fork_and_call();
}

Test(forked, in_a_handler_amid_a_call, .timeout = TWT_TIMEOUT)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};

	setenv("TAGWIRE_MODULES", TWT_MODULES, 0);
	cr_assert_eq(tw_begin(), TW_OK);
	signal(SIGVTALRM, fork_in_handler);
	for (unsigned c = 0; c < tw_countof(calls); c++) {
		/* The first call allocates memory, and fork() waits for malloc(). */
		calls[c]();
		forks = 0;
		setitimer(ITIMER_VIRTUAL, &often, NULL);
		while (forks < FORKS)
			calls[c]();
		setitimer(ITIMER_VIRTUAL, &never, NULL);
		cr_assert_eq(failed, 0, "a child hangs");
	}
	tw_end();
}
