/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The message about a peer that cannot be reached: who it is, the cause, and what to do. All
 * interfaces and providers say it by these, so that it reads alike everywhere.
 */
#ifndef TW_REPORT_H
#define TW_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define TW_REPORT_SIZE 384 /* bytes of a composed text */

/* "who: cause; advice". Without advice (NULL) the part behind the semicolon is left out. */
void tw_report_text(char *out, size_t size, const char *who, const char *cause, const char *advice);

/*
 * Logs that text: once for each `who' and `cause', then at most once a minute, with the number
 * of times that it was not said.
 */
void tw_report(enum tw_log_level level, const char *who, const char *cause, const char *advice);

/* Whether that was logged, and is remembered. */
bool tw_report_said(const char *who, const char *cause);

/* In a forked child. */
void tw_report_forked(void);

#define TW_REPORT_OTHER_HOST (-1)
/*
 * That a node or platform of this number is there already. holder: its process id, 0: unknown, or
 * TW_REPORT_OTHER_HOST.
 */
void tw_report_in_use(const char *what, uint32_t number, int holder);
/* That there are no such numbers, which end with most. Also before the settings are read. */
void tw_report_range(const char *what, uint32_t number, uint32_t most);

#endif /* TW_REPORT_H */
