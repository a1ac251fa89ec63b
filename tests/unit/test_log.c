/* SPDX-License-Identifier: BSD-2-Clause */
/* A line for a standard error that nobody reads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"
#include "lib/twt.h"

/* In a child: 0 if it lives, and no signal is left. */
static int outlives(bool pending)
{
	sigset_t set, before, after;
	int fds[2];

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	signal(SIGPIPE, SIG_DFL);
	if (pipe(fds) < 0 || dup2(fds[1], STDERR_FILENO) < 0 || close(fds[0]) < 0)
		return 1;
	if (pending && (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || raise(SIGPIPE) != 0))
		return 2;
	sigprocmask(SIG_BLOCK, NULL, &before);
	tw_log(TW_LOG_ERROR, "nobody reads this");
	sigprocmask(SIG_BLOCK, NULL, &after);
	if (sigismember(&before, SIGPIPE) != sigismember(&after, SIGPIPE))
		return 3;
	sigpending(&after);
	return sigismember(&after, SIGPIPE) == pending ? 0 : 4;
}

static void is_outlived(bool pending)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(outlives(pending));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "killed by signal %d", WTERMSIG(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
}

Test(log, nobody_reads, .timeout = TWT_TIMEOUT)
{
	is_outlived(false);
}

/* A signal of the program's own stays. */
Test(log, signal_of_the_program, .timeout = TWT_TIMEOUT)
{
	is_outlived(true);
}

/* A call that fails has its errno, whatever is said meanwhile. */
Test(log, errno_stays, .timeout = TWT_TIMEOUT)
{
	int err = dup(STDERR_FILENO);

	tw_settings.log = TW_LOG_DEBUG;
	close(STDERR_FILENO);
	for (int level = TW_LOG_ERROR; level <= TW_LOG_DEBUG; level++) {
		errno = EDOM;
		tw_log((enum tw_log_level)level, "%m: %d", level);
		cr_assert_eq(errno, EDOM, "level %d: %d", level, errno);
		tw_log_refused("a call");
		cr_assert_eq(errno, EDOM);
	}
	dup2(err, STDERR_FILENO);
	close(err);
}

/* Each error has words of its own, also a number that a peer made up. */
Test(log, errors_have_words)
{
	for (int i = 0; i < TW_NERRS; i++) {
		cr_assert_not_null(tw_log_err((enum tw_err)i), "error %d", i);
		for (int k = 0; k < i; k++)
			cr_assert_str_neq(tw_log_err((enum tw_err)i), tw_log_err((enum tw_err)k));
	}
	cr_assert_str_eq(tw_log_err((enum tw_err)TW_NERRS), "unknown error");
	cr_assert_str_eq(tw_log_err((enum tw_err) - 1), "unknown error");
}
