/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/counters.h"

const char *const tw_counter_labels[TW_NCOUNTERS] = {
#define TW_COUNTER_LABEL(name, label) [TW_C_##name] = label,
	TW_COUNTERS(TW_COUNTER_LABEL)
#undef TW_COUNTER_LABEL
};

_Static_assert(sizeof(tw_counter_labels) / sizeof(tw_counter_labels[0]) == TW_NCOUNTERS,
	       "a label for every counter");
