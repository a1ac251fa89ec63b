/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/settings.h"
#include "base/sys.h"

/* Both take no time in the form that they want it in. */
#ifdef SYS_rt_sigtimedwait
#define TW_SYS_SIGTIMEDWAIT SYS_rt_sigtimedwait
#else
#define TW_SYS_SIGTIMEDWAIT SYS_rt_sigtimedwait_time64
#endif

/*
 * A write to a standard error that nobody reads any more must not end the program: the signal
 * for it is held back from this thread, and taken.
 */
static void log_put(const char *line, size_t len)
{
	static const uint64_t no_time[2];
	unsigned long sigpipe[8 / sizeof(long)] = {1ul << (SIGPIPE - 1)};
	unsigned long before[8 / sizeof(long)], pending[8 / sizeof(long)] = {0};

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, sigpipe, before, sizeof(sigpipe));
	syscall(SYS_rt_sigpending, pending, sizeof(pending));
	/* There is no place to report another failure. */
	if (tw_sys_write(STDERR_FILENO, line, len) < 0 && errno == EPIPE &&
	    !(pending[0] & sigpipe[0]))
		syscall(TW_SYS_SIGTIMEDWAIT, sigpipe, NULL, no_time, sizeof(sigpipe));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof(before));
}

void tw_log(enum tw_log_level level, const char *fmt, ...)
{
	struct utsname host = {.nodename = "?"};
	char line[600];
	int n, error = errno; /* the caller's still */
	va_list ap;

	if ((unsigned)level > tw_settings.log)
		return;
	syscall(SYS_uname, &host);
	n = snprintf(line, sizeof(line), "tagwire[%.*s:%d]: ", (int)strcspn(host.nodename, "."),
		     host.nodename, (int)tw_sys_pid());
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	n = tw_min(n, (int)sizeof(line) - 1);
	line[n++] = '\n';
	log_put(line, (size_t)n);
	errno = error;
}

const char *tw_log_err(enum tw_err err)
{
	static const char *const words[TW_NERRS] = {
		[TW_OK] = "no error",
		[TW_AGAIN] = "there is no room just now",
		[TW_PENDING] = "it is under way",
		[TW_ENOMEM] = "memory or another resource is short",
		[TW_EBUSY] = "the endpoint id is in use",
		[TW_EPERM] = "the system does not allow it",
		[TW_EFAULT] = "the memory is not mapped",
		[TW_EFILTER] = "the filter is wrong",
		[TW_ECLOSED] = "the endpoint is not open",
		[TW_ELOST] = "the connection is lost",
		[TW_ETIMEDOUT] = "the time is over",
		[TW_EUNREACH] = "no provider reaches it",
		[TW_ECROSS] = "the other side connects, too",
		[TW_EPROTO] = "the other side violates the protocol",
		[TW_EWINDOW] = "there is no such window, or it denies the access",
	};

	/* A peer may send any number. */
	return (unsigned)err < TW_NERRS ? words[err] : "unknown error";
}

void tw_log_no_descriptor(void)
{
	static atomic_bool said;

	if (!atomic_exchange(&said, true))
		tw_log(TW_LOG_ERROR, "no descriptor is left: %m; raise ulimit -n");
}

void tw_log_refused(const char *call)
{
	bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOSPC;

	if (errno == EMFILE || errno == ENFILE)
		tw_log_no_descriptor();
	tw_log(scarce ? TW_LOG_WARN : TW_LOG_ERROR, "%s: %m", call);
}
