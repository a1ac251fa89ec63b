/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a peer was not reached, in words. */
#include <stdio.h>

#include "base/report.h"
#include "engine/engine.h"

static const struct {
	const char *cause, *advice;
} failures[] = {
	[TW_S_CLOSED] = {"it is not open", "start its program first, with the same TAGWIRE_JOB"},
	[TW_S_LOST] = {"its process has ended, or the network to it is broken", NULL},
	[TW_S_BAD_KEY] = {"it has another filter",
			  "connect with the filter that it was opened with"},
	[TW_S_TIMEOUT] = {"it has not answered in time",
			  "its program must run and call the library, and its host be up"},
	[TW_S_UNKNOWN] = {"no provider reaches its host",
			  "its host must be up; see TAGWIRE_PROVIDERS and TAGWIRE_BOARDS in "
			  "tagwire-settings(7)"},
	[TW_S_REJECTED] = {"its host and this one do not authenticate each other",
			   "the message before this one says why, see tagwire-key(7)"},
	[TW_S_ABORTED] = {"it has another version of Tagwire", "install the same on both hosts"},
	[TW_S_NO_RESOURCES] = {"a key, a descriptor or memory is missing, here or there",
			       "see the message before this one, ulimit -n, and tagwire-key(7)"},
};

void tw_failure_who(char *out, size_t size, uint64_t where)
{
	char host[TW_REPORT_SIZE / 2];

	tw_nic_text(where >> 16, host, sizeof(host));
	tw_report_who(out, size, where & 0xffff, host);
}

void tw_failure_text(char *out, size_t size, const char *what, uint64_t where, enum tw_status why)
{
	bool known = (unsigned)why < tw_countof(failures) && failures[why].cause;
	char who[TW_REPORT_SIZE / 2 + 32], to[TW_REPORT_SIZE];

	tw_failure_who(who, sizeof(who), where);
	snprintf(to, sizeof(to), "%s: %s", what, who);
	tw_report_text(out, size, to, known ? failures[why].cause : "it cannot be reached",
		       known ? failures[why].advice : NULL);
}
