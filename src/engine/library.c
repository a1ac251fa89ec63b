/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the interfaces of a process: start, end and fork. */
#include "base/barrier.h"
#include "base/jobkey.h"
#include "base/report.h"
#include "base/thread.h"
#include "engine/engine.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of beginnings */
static _Thread_local bool inside;			  /* see tw_mutex_lock_once() */
static _Atomic(unsigned) users;

/* A child owns none of its parent's endpoints; it may start anew. */
static void library_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	users = 0;
	tw_report_forked();
	tw_jobkey_forked();
	tw_barrier_forked();
	tw_ep_forked();
}

static enum tw_err library_begin(void)
{
	static bool registered;
	enum tw_err err;

	if (!tw_settings_begin())
		return TW_EPROTO;
	tw_clock_init();
	tw_at_fork(&registered, library_forked);
	err = tw_naming_init();
	if (err != TW_OK)
		tw_settings_end();
	return err;
}

enum tw_err tw_begin(void)
{
	TW_NOT_CANCELLED;
	enum tw_err err = TW_OK;

	if (!tw_mutex_lock_once(&mutex, &inside))
		return TW_AGAIN;
	if (!tw_join_users(&users)) {
		err = library_begin();
		users += err == TW_OK;
	}
	tw_mutex_unlock_once(&mutex, &inside);
	return err;
}

void tw_end(void)
{
	if (--users == 0)
		tw_settings_end();
}
