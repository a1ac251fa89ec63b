/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the settings as a library's first call does: what is wrong with them is logged. */
#include <stdatomic.h>

#include "base/hash.h"
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

/* A program that tries again, as libfabric does for each list of providers, hears it once. */
static void name_invalid(const char *why)
{
	static _Atomic(uint64_t) said;
	uint64_t what = tw_hash_text(TW_HASH_START, why);

	if (atomic_exchange(&said, what) != what)
		tw_log(TW_LOG_ERROR, "%s", why);
}

bool tw_settings_begin(void)
{
	char why[320];
	bool good = tw_settings_load(why, sizeof(why)) == 0;

	if (!good)
		name_invalid(why);
	name_strangers();
	return good;
}
