/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to the user on standard error, by TAGWIRE_LOG. */
#ifndef TW_LOG_H
#define TW_LOG_H

#include "base/compiler.h"
#include "base/err.h"

enum tw_log_level { TW_LOG_ERROR = 1, TW_LOG_WARN = 2, TW_LOG_INFO = 3, TW_LOG_DEBUG = 4 };

void tw_log(enum tw_log_level level, const char *fmt, ...) tw_printf(2, 3);

/* An error in words, for a line that says why. */
const char *tw_log_err(enum tw_err err);

/* Says once that the process or the host, errno, has no descriptor left. */
void tw_log_no_descriptor(void);

/* Says which call failed with errno, as a warning where a resource is short. */
void tw_log_refused(const char *call);

#endif /* TW_LOG_H */
