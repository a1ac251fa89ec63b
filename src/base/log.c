/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/settings.h"
#include "base/sys.h"

void tw_log(enum tw_log_level level, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	if ((unsigned)level > tw_settings.log)
		return;
	n = snprintf(line, sizeof(line), "tagwire[%d]: ", (int)tw_sys_pid());
	va_start(ap, fmt);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	n = tw_min(n, (int)sizeof(line) - 1);
	line[n++] = '\n';
	/* There is no place to report this failure. */
	if (tw_sys_write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

enum tw_err tw_log_refused(const char *call)
{
	bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOSPC;

	tw_log(scarce ? TW_LOG_WARN : TW_LOG_ERROR, "%s: %m", call);
	return TW_ENOMEM;
}
