/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a peer was not reached, in words. mx_why has these, too. */
#include "engine/types.h"

static const struct {
	const char *cause, *advice;
} failures[] = {
	[TW_S_CLOSED] = {"it is not open", "start its program, with the same TAGWIRE_JOB, "
					   "TAGWIRE_PORT and TAGWIRE_PROVIDERS"},
	[TW_S_LOST] = {"its process has ended, or the network to it is broken", NULL},
	[TW_S_BAD_KEY] = {"it has another filter",
			  "connect with the filter that it was opened with"},
	[TW_S_TIMEOUT] = {"it has not answered in time",
			  "its program must run and call the library, and its host be up"},
	[TW_S_UNKNOWN] = {"no provider reaches its host",
			  "its host and the interface to it must be up; see TAGWIRE_PROVIDERS and "
			  "TAGWIRE_BOARDS in "
			  "tagwire-settings(7)"},
	[TW_S_REJECTED] = {"its side and this one do not accept each other",
			   "a message of one of them says why: another key, see tagwire-key(7), or "
			   "another TAGWIRE_NODES"},
	[TW_S_ABORTED] = {"it has another version of Tagwire", "install the same on both hosts"},
	[TW_S_NO_RESOURCES] =
		{"a key, a descriptor or memory is missing, here or there",
		 "a message of that side says which; see ulimit -n and tagwire-key(7)"},
};

const char *tw_failure_cause(enum tw_status why, const char **advice)
{
	bool known = (unsigned)why < tw_countof(failures) && failures[why].cause;

	*advice = known ? failures[why].advice : NULL;
	return known ? failures[why].cause : "it cannot be reached";
}
