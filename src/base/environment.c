/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the settings as a library's first call does: what is wrong with them is logged. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/thread.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* see tw_mutex_lock_once() */
static _Atomic(unsigned) users;

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
static void name_invalid(void)
{
	static _Atomic(uint64_t) said;
	uint64_t what = TW_HASH_START;
	char text[320];

	for (unsigned at = 0; tw_settings_invalid(&at, text, sizeof(text));)
		what = tw_hash_text(what, text);
	if (atomic_exchange(&said, what) == what)
		return;
	for (unsigned at = 0; tw_settings_invalid(&at, text, sizeof(text));)
		tw_log(TW_LOG_ERROR, "%s", text);
}

static bool environment_read(void)
{
	bool good = tw_settings_load();

	if (!good)
		name_invalid();
	name_strangers();
	return good;
}

static void environment_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	users = 0;
}

bool tw_settings_begin(void)
{
	static bool registered;
	bool good;

	if (!tw_mutex_lock_once(&mutex, &inside))
		return false;
	good = tw_join_users(&users);
	if (!good) {
		good = environment_read();
		users += good;
	}
	tw_at_fork(&registered, environment_forked);
	tw_mutex_unlock_once(&mutex, &inside);
	return good;
}

void tw_settings_end(void)
{
	users--;
}
