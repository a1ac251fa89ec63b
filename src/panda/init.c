/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning and end of Panda. */
#include <stdlib.h>
#include <string.h>

#include "base/report.h"
#include "base/sys.h"
#include "base/thread.h"
#include "panda/panda_internal.h"

struct tw_panda tw_panda;
uint32_t tw_panda_linger_us = 2000000;

/* Held by pan_init(), pan_end(), pan_mp_init() and pan_mp_end(). */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool in_job;
static _Atomic(bool) failed; /* pan_init(), which has said why: other calls need not */

static _Atomic(int) my_pid = -1, nr_platforms;

struct tw_ep *tw_panda_enter(const char *function)
{
	struct tw_ep *ep = tw_panda_try_enter();

	if (tw_unlikely(!ep) && !atomic_load(&failed))
		tw_report(TW_LOG_ERROR, function, "not between pan_mp_init and pan_mp_end", NULL);
	return ep;
}

/* In the child, which may call pan_init() again. */
static void panda_init_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(&tw_panda, 0, sizeof(tw_panda));
	in_job = false;
	atomic_store(&failed, false);
	atomic_store(&my_pid, -1);
	atomic_store(&nr_platforms, 0);
}

/* Removes --panda-rank R/N (or =R/N) from the command line and returns R/N, or NULL. */
static const char *take_place(int *argc, char **argv)
{
	static const char option[] = "--panda-rank";
	const size_t n = sizeof(option) - 1;
	const char *place = NULL;
	int kept = 1;

	if (!argc || !argv)
		return NULL;
	for (int i = 1; i < *argc; i++) {
		if (strncmp(argv[i], option, n) == 0 && argv[i][n] == '=')
			place = argv[i] + n + 1;
		else if (strcmp(argv[i], option) == 0 && i + 1 < *argc)
			place = argv[++i];
		else
			argv[kept++] = argv[i];
	}
	if (kept < *argc)
		argv[kept] = NULL;
	*argc = tw_min(kept, *argc);
	return place;
}

static void panda_no_init(const char *function)
{
	if (!atomic_load(&failed))
		tw_report(TW_LOG_ERROR, function, "pan_init has not been called", NULL);
}

void pan_init(int *argc, char **argv)
{
	static bool registered;
	const char *place = take_place(argc, argv);

	pthread_mutex_lock(&mutex);
	if (in_job) {
		tw_log(TW_LOG_ERROR, "pan_init: called twice");
	} else if (tw_begin() == TW_OK) {
		tw_at_fork(&registered, panda_init_forked);
		in_job = tw_job_begin(place, &tw_panda.job) == TW_OK;
		if (!in_job)
			tw_end();
	}
	atomic_store(&failed, !in_job);
	if (in_job) {
		atomic_store(&my_pid, (int)tw_panda.job.rank);
		atomic_store(&nr_platforms, (int)tw_panda.job.size);
	}
	pthread_mutex_unlock(&mutex);
}

void pan_start(void)
{
	pthread_mutex_lock(&mutex);
	if (!in_job)
		panda_no_init("pan_start");
	else
		tw_job_fence(__func__);
	pthread_mutex_unlock(&mutex);
}

int pan_my_pid(void)
{
	return atomic_load(&my_pid);
}

int pan_nr_platforms(void)
{
	return atomic_load(&nr_platforms);
}

/* Message passing --------------------------------------------------------------- */

static void panda_init_prepare(void)
{
	struct tw_list *lists[] = {&tw_panda.due, &tw_panda.ready, &tw_panda.finished};

	for (unsigned i = 0; i < tw_countof(lists); i++)
		tw_list_init(lists[i]);
	tw_panda.met = false;
	tw_panda.nsending = tw_panda.nexpected = 0;
	tw_panda.dispatching = tw_panda.asleep = false;
	tw_panda.running = NULL;
	if (!tw_sys_random(&tw_panda.salt, sizeof(tw_panda.salt)))
		tw_panda.salt = (uint32_t)tw_clock();
	tw_pool_init(&tw_panda.tickets, sizeof(struct tw_panda_ticket), 1u << TW_PANDA_INDEX_BITS);
	tw_group_init(&tw_panda.group, tw_panda.job.key);
	/* With a launcher all have begun. */
	tw_panda.group.says = true;
	tw_panda.group.later = !tw_panda.job.launched;
	tw_panda.group.here = tw_panda_ready;
	tw_panda.group.lost = tw_panda_lost;
	for (uint32_t i = 0; i < tw_panda.job.size; i++)
		tw_panda_peer_init(&tw_panda.peers[i]);
}

/*
 * Opens with the id of this platform. If another job uses it, any other will do, provided
 * that a launcher distributes it or there are no other platforms.
 */
static enum tw_err init_open_endpoint(uint64_t *handle, int *holder)
{
	struct tw_open how = {.number = tw_panda.job.rank,
			      .filter = tw_panda.job.key,
			      .unexp_max = tw_settings.unexp_max,
			      .fetch_max = tw_settings.unexp_max,
			      .iface = &tw_panda_interface,
			      .owner = &tw_panda.group,
			      .ep = &tw_panda.group.ep,
			      .holder = holder};
	bool any = tw_panda.job.launched || tw_panda.job.size == 1;
	enum tw_err err = tw_job_board(&how.board);

	if (err == TW_OK)
		err = tw_ep_open(&how, handle);
	if (err != TW_EBUSY || !any)
		return err;
	how.number = TW_ANY_ID;
	return tw_ep_open(&how, handle);
}

/* Exchanges the addresses of all platforms. */
static enum tw_err init_meet(uint64_t handle)
{
	uint64_t *all = calloc(tw_panda.job.size, sizeof(*all));
	struct tw_panda_peer *me = &tw_panda.peers[tw_panda.job.rank];
	struct tw_ep *ep = tw_enter(handle);
	uint64_t mine = ep->self->addr.where;
	enum tw_err err = TW_ENOMEM;

	tw_member_met(&me->m, ep->self->addr);
	tw_leave(ep);
	if (all)
		err = tw_job_exchange("pan_mp_init", mine, all);
	if (err == TW_OK) {
		ep = tw_enter(handle);
		for (uint32_t i = 0; i < tw_panda.job.size; i++)
			tw_panda.peers[i].m.where = all[i];
		tw_panda_peers_met(ep);
		tw_leave(ep);
	}
	free(all);
	return err;
}

static void panda_init_dispose(void)
{
	tw_panda_ports_fini();
	tw_panda_tickets_fini();
	free(tw_panda.peers);
	tw_panda.peers = NULL;
}

static enum tw_err panda_init_begin(int *holder)
{
	uint64_t handle = 0;
	enum tw_err err;

	tw_panda.peers = calloc(tw_panda.job.size, sizeof(*tw_panda.peers));
	if (!tw_panda.peers)
		return TW_ENOMEM;
	panda_init_prepare();
	err = init_open_endpoint(&handle, holder);
	if (err != TW_OK)
		goto no_endpoint;
	err = init_meet(handle);
	if (err != TW_OK)
		goto no_peers;
	/* [set-up] Before the thread starts, which uses it. */
	atomic_store_explicit(&tw_panda.handle, handle, memory_order_release);
	if (tw_panda_upcalls_begin())
		return TW_OK;
	atomic_store(&tw_panda.handle, 0);
	err = TW_ENOMEM;
no_peers:
	tw_ep_close(handle);
no_endpoint:
	panda_init_dispose();
	return err;
}

void pan_mp_init(int *argc, char **argv)
{
	enum tw_err err = TW_OK;
	int holder = 0;

	(void)argc;
	(void)argv;
	pthread_mutex_lock(&mutex);
	if (!in_job)
		panda_no_init("pan_mp_init");
	else if (atomic_load(&tw_panda.handle))
		tw_log(TW_LOG_ERROR, "pan_mp_init: called twice");
	else
		err = panda_init_begin(&holder);
	if (err == TW_EBUSY)
		tw_report_in_use("platform", tw_panda.job.rank, holder);
	else if (err != TW_OK)
		tw_log(TW_LOG_ERROR, "pan_mp_init: cannot open an endpoint: %s",
		       err == TW_ENOMEM ? "a descriptor or memory is missing; raise ulimit -n"
					: "an earlier message says why");
	pthread_mutex_unlock(&mutex);
}

static bool all_have_left(struct tw_ep *ep, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < tw_panda.job.size; i++)
		if (!tw_list_empty(&tw_panda.peers[i].out))
			return false;
	return tw_panda.nsending == 0 && !tw_unfinished(ep);
}

static void init_end(void)
{
	uint64_t handle = atomic_load(&tw_panda.handle);
	struct tw_ep *ep = tw_enter(handle);

	if (!ep)
		return;
	tw_panda_attend(ep);
	tw_panda_acks_flush(ep);
	tw_wait(ep, all_have_left, NULL, tw_panda_linger_us);
	tw_panda_acks_flush(ep);
	tw_leave(ep);
	atomic_store(&tw_panda.handle, 0);
	/* Calls that wait return, also those of upcalls. */
	tw_ep_close(handle);
	tw_panda_upcalls_end();
	panda_init_dispose();
}

static bool may_end(const char *function)
{
	if (tw_panda_in_upcall())
		tw_log(TW_LOG_ERROR, "%s: not from an upcall", function);
	return !tw_panda_in_upcall();
}

void pan_mp_end(void)
{
	if (!may_end(__func__))
		return;
	pthread_mutex_lock(&mutex);
	if (atomic_load(&tw_panda.handle))
		init_end();
	else if (!atomic_load(&failed))
		tw_log(TW_LOG_ERROR, "pan_mp_end: pan_mp_init has not been called, or has failed");
	pthread_mutex_unlock(&mutex);
}

void pan_end(void)
{
	if (!may_end(__func__))
		return;
	pthread_mutex_lock(&mutex);
	if (in_job) {
		init_end();
		tw_job_end();
		tw_end();
		in_job = false;
		atomic_store(&my_pid, -1);
		atomic_store(&nr_platforms, 0);
	} else {
		panda_no_init("pan_end");
	}
	pthread_mutex_unlock(&mutex);
}
