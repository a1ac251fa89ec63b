/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the settings as a library's first call does: what is wrong with them is logged. */
#include <stdatomic.h>

#include "base/log.h"
#include "base/settings.h"

/* Variables that nobody reads are said to be so once in a process. */
static void name_strangers(void)
{
	static atomic_bool said;
	char text[256];

	if (atomic_exchange(&said, true))
		return;
	for (unsigned at = 0; tw_settings_stranger(&at, text, sizeof(text));)
		tw_log(TW_LOG_ERROR, "%s", text);
}

bool tw_settings_begin(void)
{
	char why[320];
	bool good = tw_settings_load(why, sizeof(why)) == 0;

	if (!good)
		tw_log(TW_LOG_ERROR, "%s", why);
	name_strangers();
	return good;
}
