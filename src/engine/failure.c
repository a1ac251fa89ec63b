/* SPDX-License-Identifier: BSD-2-Clause */
/* The message about a peer that was not reached. */
#include <stdio.h>

#include "base/report.h"
#include "engine/engine.h"

void tw_failure_who(char *out, size_t size, uint64_t where)
{
	char host[TW_REPORT_SIZE / 2];

	tw_nic_text(where >> 16, host, sizeof(host));
	tw_report_who(out, size, where & 0xffff, host);
}

void tw_failure_report(uint64_t where, enum tw_status why)
{
	const char *advice, *cause = tw_failure_cause(why, &advice);
	char who[TW_REPORT_SIZE / 2 + 32];

	tw_failure_who(who, sizeof(who), where);
	tw_report(TW_LOG_ERROR, who, cause, advice);
}

void tw_failure_text(char *out, size_t size, const char *what, uint64_t where, enum tw_status why)
{
	const char *advice, *cause = tw_failure_cause(why, &advice);
	char who[TW_REPORT_SIZE / 2 + 32], to[TW_REPORT_SIZE];

	tw_failure_who(who, sizeof(who), where);
	snprintf(to, sizeof(to), "%s: %s", what, who);
	tw_report_text(out, size, to, cause, advice);
}
