/* SPDX-License-Identifier: BSD-2-Clause */
/* MX III.1: the library's beginning and end. */
#include <stdatomic.h>

#include "base/lock.h"
#include "base/thread.h"
#include "mx/mx_internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* the mutex: a signal handler must not wait for it */
static _Atomic(bool) ready;

bool tw_mx_ready(void)
{
	/* [set-up] */
	return atomic_load_explicit(&ready, memory_order_acquire);
}

/* In the child, which may call mx_init() again. */
static void mx_init_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	atomic_store(&ready, false);
	tw_mx_job_forked();
}

static mx_return_t mx_init_begin(void)
{
	static bool registered;
	enum tw_err err = tw_begin();

	if (err != TW_OK)
		return tw_mx_code(err);
	tw_at_fork(&registered, mx_init_forked);
	return MX_SUCCESS;
}

static mx_return_t initialize(int api, const char *function)
{
	mx_return_t rc = MX_ALREADY_INITIALIZED;

	/* Minor versions are compatible. */
	if (api >> 8 != MX_API >> 8)
		return tw_mx_fail(NULL, function, MX_BAD_LIB_VERSION);
	/* mx_finalize() of another thread may hold the mutex until the handler ends. */
	if (tw_in_any_handler())
		return tw_mx_fail(NULL, function, rc);
	if (!tw_mutex_lock_once(&mutex, &inside))
		return tw_mx_fail(NULL, function, MX_BUSY);
	if (!tw_mx_ready()) {
		rc = mx_init_begin();
		/* [set-up] */
		atomic_store_explicit(&ready, rc == MX_SUCCESS, memory_order_release);
	}
	tw_mutex_unlock_once(&mutex, &inside);
	return rc == MX_SUCCESS ? rc : tw_mx_fail_said(function, rc);
}

mx_return_t mx__init_api(int api)
{
	return initialize(api, __func__);
}

mx_return_t mx_init(void)
{
	return initialize(MX_API, __func__);
}

mx_return_t mx_finalize(void)
{
	if (tw_in_any_handler())
		return tw_mx_fail(NULL, "mx_finalize", MX_CLOSE_IN_HANDLER);
	/*
	 * Once; another thread, or a signal handler, does not wait for this one. A handler that
	 * has interrupted mx_init() finds the library not initialized. [finalized]
	 */
	if (inside || !atomic_exchange(&ready, false))
		return tw_mx_fail(NULL, "mx_finalize", MX_NOT_INITIALIZED);
	tw_mutex_lock_once(&mutex, &inside);
	for (unsigned i = 0; i < tw_slots_used(); i++) {
		uint64_t handle = atomic_load(&tw_slots[i].handle);

		if (handle && tw_slots[i].iface == &tw_mx_interface)
			tw_ep_close(handle);
	}
	tw_mx_job_end();
	tw_end();
	tw_mutex_unlock_once(&mutex, &inside);
	return MX_SUCCESS;
}
