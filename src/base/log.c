/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/settings.h"

void tw_log(enum tw_log_level level, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	if ((unsigned)level > tw_settings.log)
		return;
	n = snprintf(line, sizeof(line), "tagwire[%d]: ", (int)getpid());
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", line);
}
