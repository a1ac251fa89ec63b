/* SPDX-License-Identifier: BSD-2-Clause */
/* The job of this process: the launcher's, the environment's, or its own. */
#include "group/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "base/report.h"
#include "base/sys.h"
#include "base/thread.h"
#include "engine/engine.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#define KEY 0x70616e64 /* of jobs without a launcher, which TAGWIRE_JOB keeps apart */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* see tw_mutex_lock_once() */
static _Atomic(unsigned) users;
static struct tw_job current;
static const struct tw_launcher *launcher; /* NULL: none started this process */
static _Atomic(bool) with_launcher;	   /* it has begun, and has not ended */
static bool orphan;			   /* forked from a process of a launcher */

/* R/N, with R below N. */
static bool parse_place(const char *text, struct tw_job *job)
{
	unsigned rank, size;
	char more;

	if (sscanf(text, "%u/%u%c", &rank, &size, &more) != 2 || *text < '0' || *text > '9' ||
	    rank >= size || size > TW_JOB_MAX)
		return false;
	job->rank = rank;
	job->size = size;
	return true;
}

static enum tw_err join_environment(const char *from, const char *place)
{
	if (!parse_place(place, &current)) {
		tw_log(TW_LOG_ERROR, "%s=%s: not a rank and a size, as 0/2, of at most %u", from,
		       place, TW_JOB_MAX);
		return TW_EPROTO;
	}
	return tw_topology_parse(NULL, 0, TW_JOB_MAX, 0) ? TW_OK : TW_EPROTO;
}

/* False with the reason in why. */
static bool begin_launcher(char *why, unsigned len)
{
	if (orphan) {
		snprintf(why, len, "this process was forked from one of its own");
		return false;
	}
	if (tw_sys_privileged()) {
		snprintf(why, len,
			 "this program has more rights than its user, and PMIx runs what the "
			 "environment names");
		return false;
	}
	if (!tw_module_installed("pmix")) {
		snprintf(why, len,
			 "tagwire_pmix.so is not there: either libpmix-dev was missing when Tagwire "
			 "was built, or TAGWIRE_MODULES names another directory; TAGWIRE_RANK "
			 "serves instead, see tagwire-launch(7)");
		return false;
	}
	launcher = tw_module_load("pmix", "tw_launcher_pmix", TW_LAUNCHER_VERSION, why, len);
	if (!launcher || !launcher->begin(&current, why, len))
		return false;
	if (current.size <= TW_JOB_MAX)
		return true;
	snprintf(why, len, "%u processes are too many", current.size);
	launcher->end();
	return false;
}

/*
 * A launcher that cannot be reached is an error: going on without it would run the program
 * once per process, each alone.
 */
static enum tw_err job_join_launcher(void)
{
	char why[256];

	current.launched = begin_launcher(why, sizeof(why));
	with_launcher = current.launched;
	if (current.launched)
		return TW_OK;
	tw_log(TW_LOG_ERROR, "a PMIx launcher started this process, but cannot be reached: %s",
	       why);
	launcher = NULL;
	return TW_EUNREACH;
}

static bool is_launched(void)
{
	return getenv("PMIX_NAMESPACE") && getenv("PMIX_RANK");
}

static enum tw_err group_join(const char *place)
{
	current = (struct tw_job){.rank = 0, .size = 1, .key = KEY};
	launcher = NULL;
	if (place)
		return join_environment("--panda-rank", place);
	if (*tw_settings.rank)
		return join_environment("TAGWIRE_RANK", tw_settings.rank);
	return is_launched() ? job_join_launcher() : TW_OK;
}

static void job_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	users = 0;
	tw_stats_fence.call[0] = 0;
	with_launcher = false;
	orphan |= launcher != NULL;
	launcher = NULL;
}

/* Whether a process that has joined its job has that place there; NULL: any. */
static bool is_current(const char *place)
{
	struct tw_job wanted;

	if (!place || (parse_place(place, &wanted) && wanted.rank == current.rank &&
		       wanted.size == current.size))
		return true;
	tw_log(TW_LOG_ERROR,
	       "--panda-rank %s: this process has joined its job as rank %u of %u; call pan_init "
	       "before mx_job_*(), or set TAGWIRE_RANK",
	       place, current.rank, current.size);
	return false;
}

/* Ends the launcher if nobody is left. Under the mutex. */
static void job_quit(void)
{
	if (users == 0 && atomic_exchange(&with_launcher, false))
		launcher->end();
}

/* Under the mutex. */
static enum tw_err job_enter(const char *place)
{
	static bool registered;
	enum tw_err err;

	tw_at_fork(&registered, job_forked);
	job_quit(); /* who has left may not have the mutex yet */
	if (users == 0)
		err = group_join(place);
	else
		err = is_current(place) ? TW_OK : TW_EPROTO;
	users += err == TW_OK;
	return err;
}

/* The last to leave may be a signal handler, which has interrupted a call that has the mutex. */
static void job_unlock(void)
{
	do {
		job_quit();
		tw_mutex_unlock_once(&mutex, &inside);
	} while (users == 0 && with_launcher && tw_mutex_lock_once(&mutex, &inside));
}

enum tw_err tw_job_begin(const char *place, struct tw_job *job)
{
	TW_NOT_CANCELLED;
	enum tw_err err;

	if (!tw_mutex_lock_once(&mutex, &inside))
		return TW_AGAIN;
	err = job_enter(place);
	if (err == TW_OK)
		*job = current;
	job_unlock();
	return err;
}

void tw_job_end(void)
{
	TW_NOT_CANCELLED;
	users--;
	if (tw_mutex_lock_once(&mutex, &inside))
		job_unlock();
}

enum tw_err tw_job_board(uint32_t *board)
{
	TW_NOT_CANCELLED;
	const struct tw_board *boards;
	uint64_t *nics;
	enum tw_err err = TW_OK;

	*board = 0;
	if (current.size == 1 || !*tw_settings.nodes)
		return TW_OK;
	nics = calloc(current.size, sizeof(*nics));
	if (!nics)
		return TW_ENOMEM;
	tw_boards(&boards);
	if (!tw_topology_parse(nics, current.size, TW_JOB_MAX, boards[0].nic_id))
		err = TW_EPROTO;
	else if (!tw_board_of(nics[current.rank], board))
		err = TW_EPERM;
	if (err == TW_EPERM)
		tw_log(TW_LOG_ERROR, "TAGWIRE_NODES: rank %u is on another host", current.rank);
	free(nics);
	return err;
}

/* Without a launcher: endpoint ids differ as the ranks do. */
static enum tw_err guess(uint64_t mine, uint64_t *all)
{
	uint32_t id = (mine & 0xffff) - current.rank;

	if ((mine & 0xffff) < current.rank || id + current.size > UINT16_MAX) {
		tw_log(TW_LOG_ERROR,
		       "rank %u has opened endpoint %u: without a launcher each rank opens the id "
		       "of rank 0 plus its rank, not any free one; see tagwire-launch(7)",
		       current.rank, (unsigned)mine & 0xffff);
		return TW_EPROTO;
	}
	if (!tw_topology_parse(all, current.size, TW_JOB_MAX, mine >> 16))
		return TW_EPROTO;
	for (uint32_t i = 0; i < current.size; i++)
		all[i] = all[i] << 16 | (id + i);
	all[current.rank] = mine;
	return TW_OK;
}

/* Waiting for all ranks ----------------------------------------------------------- */

/* "rank 1" or "ranks 1, 2 and 5 more" */
static void name_ranks(char *out, size_t size, uint32_t n, const uint32_t *ranks)
{
	uint32_t named = tw_min(n, TW_FENCE_RANKS);
	size_t at = (size_t)snprintf(out, size, "rank%s %u", n == 1 ? "" : "s", ranks[0]);

	for (uint32_t i = 1; i < named && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s%u", i + 1 == n ? " and " : ", ",
				       ranks[i]);
	if (n > named && at < size)
		snprintf(out + at, size - at, " and %u more", n - named);
}

static void fence_late(uint32_t n, const uint32_t *ranks)
{
	char who[128] = "other ranks of the job", cause[128], advice[128];

	for (uint32_t i = 0; i < tw_min(n, TW_FENCE_RANKS); i++)
		tw_stats_fence.missing[i] = ranks[i];
	tw_stats_fence.nmissing = n;
	if (n)
		name_ranks(who, sizeof(who), n, ranks);
	snprintf(cause, sizeof(cause), "%s not called %s, and rank %u waits for that",
		 n == 1 ? "it has" : "they have", tw_stats_fence.call, current.rank);
	snprintf(advice, sizeof(advice), "all %u ranks must call it: mx_why says what they do",
		 current.size);
	tw_report(TW_LOG_ERROR, who, cause, advice);
}

/* Under the mutex. */
static void fence_enter(const char *call)
{
	struct tw_stats_fence *f = &tw_stats_fence;

	f->rank = current.rank;
	f->round++;
	f->begun = tw_clock();
	f->nmissing = 0;
	snprintf(f->call, sizeof(f->call), "%s", call);
}

static void fence_leave(void)
{
	tw_stats_fence.call[0] = 0;
}

/* Whether the launcher's key counts for this process. */
static bool wants_key(void)
{
	return TW_HAVE_NET && !*tw_settings.key && strcmp(tw_settings.auth, "key") == 0;
}

/* Rank 0 makes it for the others: the same one each time. */
static bool job_make_key(uint8_t key[TW_JOBKEY])
{
	return current.rank == 0 && wants_key() &&
	       (tw_jobkey_get(key) || tw_sys_random(key, TW_JOBKEY));
}

static bool group_exchange(const char *call, uint64_t mine, uint64_t *all, char *why, unsigned len)
{
	uint8_t key[TW_JOBKEY] = {0};
	bool have = job_make_key(key);
	bool good;

	fence_enter(call);
	good = launcher->exchange(mine, all, key, &have, TW_LONG_US / 1000, fence_late, why, len);
	fence_leave();
	if (good && have && wants_key())
		tw_jobkey_set(key);
	explicit_bzero(key, sizeof(key));
	return good;
}

enum tw_err tw_job_exchange(const char *call, uint64_t mine, uint64_t *all)
{
	TW_NOT_CANCELLED;
	enum tw_err err = TW_OK;
	char why[256] = "";

	if (!tw_mutex_lock_once(&mutex, &inside))
		return TW_AGAIN;
	if (launcher && !group_exchange(call, mine, all, why, sizeof(why)))
		err = TW_EUNREACH;
	else if (!launcher)
		err = guess(mine, all);
	job_unlock();
	if (err == TW_EUNREACH)
		tw_log(TW_LOG_ERROR, "the launcher has no addresses of the other processes: %s",
		       why);
	return err;
}

void tw_job_fence(const char *call)
{
	TW_NOT_CANCELLED;
	bool good = true;
	char why[256] = "";

	if (!tw_mutex_lock_once(&mutex, &inside))
		return;
	if (launcher) {
		fence_enter(call);
		good = launcher->fence(TW_LONG_US / 1000, fence_late, why, sizeof(why));
		fence_leave();
	}
	job_unlock();
	if (!good)
		tw_log(TW_LOG_ERROR, "the launcher cannot wait for the other processes: %s", why);
}

/* The hosts of nodes ------------------------------------------------------------- */

bool tw_job_has_hosts(void)
{
	return *tw_settings.nodes || (!*tw_settings.rank && is_launched());
}

static bool host_of(uint32_t rank, char name[TW_JOB_HOST])
{
	char why[256] = "";

	if (launcher->host(rank, name, why, sizeof(why)))
		return true;
	tw_log(TW_LOG_ERROR, "the launcher does not say where process %u is: %s", rank, why);
	return false;
}

static bool find_host(const char *name, uint64_t *nic)
{
	enum tw_err err = tw_name_to_nic(name, nic);

	if (err != TW_OK)
		tw_log(TW_LOG_ERROR, "launcher: host not found: %s%s", name, tw_name_advice(err));
	return err == TW_OK;
}

/* For nodes, which do not exchange anything; they do without if rank 0 is none. */
static void ask_key(void)
{
	uint8_t key[TW_JOBKEY];
	char why[256] = "";

	if (!wants_key() || (current.rank == 0 ? !job_make_key(key) : tw_jobkey_get(key)))
		return;
	if (launcher->key(key, tw_settings.connect_timeout, why, sizeof(why)))
		tw_jobkey_set(key);
	else
		tw_log(TW_LOG_WARN,
		       "the launcher has no key of process 0 (%s): the user's own "
		       "counts; see tagwire-key(7)",
		       why);
	explicit_bzero(key, sizeof(key));
}

static bool one_host(const char *own, uint32_t n, char (*name)[TW_JOB_HOST])
{
	while (n && strcmp(name[n - 1], own) == 0)
		n--;
	return n == 0;
}

/* Names are looked up once, and that of this host not at all. Not told, nodes live here. */
static bool place_ranks(uint64_t *nics, uint32_t n, char (*name)[TW_JOB_HOST])
{
	char own[TW_JOB_HOST];
	bool good = host_of(current.rank, own);

	for (uint32_t i = 0; good && i < n; i++)
		good = host_of(i, name[i]);
	if (!good)
		return true;
	/* Before the first word to another host. */
	if (!one_host(own, n, name))
		ask_key();
	for (uint32_t i = 0; good && i < n; i++) {
		uint32_t same = 0;

		while (strcmp(name[same], name[i]) != 0)
			same++;
		if (same < i)
			nics[i] = nics[same];
		else if (strcmp(name[i], own) != 0)
			good = find_host(name[i], &nics[i]);
	}
	return good;
}

static bool ask_launcher(uint64_t *nics)
{
	uint32_t n = current.size < TW_MAX_NODES ? current.size : TW_MAX_NODES;
	char(*name)[TW_JOB_HOST] = calloc(n, sizeof(*name));
	bool good = name && place_ranks(nics, n, name);

	free(name);
	return good;
}

/* A node may be one of several processes of a rank, to which the launcher tells nothing. */
static bool place_nodes(uint64_t *nics)
{
	const struct tw_board *boards;
	bool good;

	tw_boards(&boards);
	for (uint32_t i = 0; i < TW_MAX_NODES; i++)
		nics[i] = boards[tw_board_best(0)].nic_id;
	if (job_enter(NULL) != TW_OK)
		return true;
	good = !launcher || ask_launcher(nics);
	users--;
	return good;
}

/* The user says where nodes live, but has named no key. */
static void join_for_key(void)
{
	if (!wants_key() || *tw_settings.rank || !is_launched() || job_enter(NULL) != TW_OK)
		return;
	if (launcher)
		ask_key();
	users--;
}

/* Children that are forked live where their parents' launcher has said. */
bool tw_job_topology(void)
{
	TW_NOT_CANCELLED;
	static uint64_t nics[TW_MAX_NODES];
	static bool known;

	if (!tw_job_has_hosts())
		return tw_topology_init(NULL);
	if (!tw_mutex_lock_once(&mutex, &inside))
		return false;
	if (!known && *tw_settings.nodes)
		join_for_key();
	known = known || *tw_settings.nodes || place_nodes(nics);
	job_unlock();
	return known && tw_topology_init(*tw_settings.nodes ? NULL : nics);
}
