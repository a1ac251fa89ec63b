/* SPDX-License-Identifier: BSD-2-Clause */
/* The module for launchers: a client of PMIx. Calls come one at a time. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "base/hash.h"
#include "base/settings.h"
#include "base/stats.h"
#include "base/sys.h"
#include "group/job.h"

#define KEY "tagwire.key"
#define LOOK_MS 10 /* between two looks for it */
#define ASKED 64   /* ranks that are asked for at once */
#define ASK_S 1	   /* until a rank without an answer is missing */

static pmix_proc_t me;
static uint32_t size;
static _Atomic(uint32_t) rounds; /* exchanges and fences that have begun */

/* Of the present round. Written by the library's thread, which counts up `events'. */
static _Atomic(uint32_t) events, asked, answered;
static _Atomic(bool) fenced, unable, here[TW_JOB_MAX];
static pmix_status_t fence_status;

static bool pmix_explain(pmix_status_t rc, const char *call, char *why, unsigned len)
{
	if (rc == PMIX_SUCCESS)
		return true;
	snprintf(why, len, "%s: %s", call, PMIx_Error_string(rc));
	return false;
}

/* The process of that rank in this job. */
static pmix_proc_t process(uint32_t rank)
{
	pmix_proc_t p;

	PMIX_PROC_LOAD(&p, me.nspace, rank);
	return p;
}

/* A value of that process, which the caller releases; NULL: why says why not. */
static pmix_value_t *pmix_get(uint32_t rank, const char *name, pmix_data_type_t type, char *why,
			      unsigned len)
{
	pmix_proc_t p = process(rank);
	pmix_value_t *v = NULL;

	if (!pmix_explain(PMIx_Get(&p, name, NULL, 0, &v), name, why, len))
		return NULL;
	if (v->type == type)
		return v;
	snprintf(why, len, "%s of process %u is of another type", name, rank);
	PMIX_VALUE_RELEASE(v);
	return NULL;
}

static bool pmix_begin(struct tw_job *job, char *why, unsigned len)
{
	pmix_value_t *v;

	if (!pmix_explain(PMIx_Init(&me, NULL, 0), "PMIx_Init", why, len))
		return false;
	v = pmix_get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32, why, len);
	if (!v) {
		PMIx_Finalize(NULL, 0);
		return false;
	}
	job->rank = me.rank;
	job->size = size = v->data.uint32;
	job->key = tw_hash_short(me.nspace);
	PMIX_VALUE_RELEASE(v);
	return true;
}

static void pmix_end(void)
{
	PMIx_Finalize(NULL, 0);
}

/* Fences ------------------------------------------------------------------------- */

static void count_event(void)
{
	atomic_fetch_add(&events, 1);
	tw_futex_wake(&events, 1);
}

static void await_events(bool (*over)(void), uint64_t deadline)
{
	for (;;) {
		uint32_t seen = atomic_load(&events);

		if (over() || tw_clock_ns() >= deadline)
			return;
		tw_futex_wait(&events, seen, deadline);
	}
}

static bool is_fenced(void)
{
	return atomic_load(&fenced);
}

static bool is_answered(void)
{
	return is_fenced() || atomic_load(&answered) == atomic_load(&asked);
}

/* Each rank publishes the word of a round before it enters the fence. */
static void name_word(uint32_t round, char name[32])
{
	snprintf(name, 32, "tagwire.%u", round);
}

/* Whether a rank has published its word. It lives until the answer, which may be after the round.
 */
struct question {
	uint32_t rank, round;
	char name[32];
	pmix_info_t limit; /* the answer for a rank of another host may take longer */
};

static void on_answer(pmix_status_t rc, pmix_value_t *v, void *arg)
{
	struct question *q = arg;

	(void)v; /* stays the library's */
	if (q->round == atomic_load(&rounds)) {
		if (rc == PMIX_SUCCESS)
			atomic_store(&here[q->rank], true);
		else if (rc != PMIX_ERR_TIMEOUT && rc != PMIX_ERR_NOT_FOUND)
			atomic_store(&unable, true);
		atomic_fetch_add(&answered, 1);
		count_event();
	}
	PMIX_INFO_DESTRUCT(&q->limit);
	free(q);
}

static void ask_for(uint32_t rank)
{
	struct question *q = calloc(1, sizeof(*q));
	pmix_proc_t p = process(rank);
	int limit = ASK_S;

	if (!q) {
		atomic_store(&unable, true);
		return;
	}
	q->rank = rank;
	q->round = atomic_load(&rounds);
	name_word(q->round, q->name);
	PMIX_INFO_LOAD(&q->limit, PMIX_TIMEOUT, &limit, PMIX_INT);
	atomic_store(&here[rank], false);
	atomic_fetch_add(&asked, 1);
	if (PMIx_Get_nb(&p, q->name, &q->limit, 1, on_answer, q) != PMIX_SUCCESS)
		on_answer(PMIX_ERROR, NULL, q);
}

/* For the ranks from first on, and waits for the answers. */
static void ask(uint32_t first)
{
	for (uint32_t i = first; i < size && i < first + ASKED; i++)
		if (i != me.rank)
			ask_for(i);
	await_events(is_answered, tw_clock_ns() + ASK_S * 1000000000ull);
}

/*
 * A fence does not say who is missing, so the words of the ranks are asked for. Only the lowest
 * rank that waits says it: all others stop at the first rank below them that is here.
 */
static void find_missing(tw_job_late *late)
{
	uint32_t ranks[TW_FENCE_RANKS], n = 0;

	for (uint32_t i = 0; i < size && !is_fenced(); i++) {
		if (i % ASKED == 0)
			ask(i);
		if (i < me.rank && atomic_load(&here[i]))
			return;
		if (i != me.rank && !atomic_load(&here[i]) && n++ < TW_FENCE_RANKS)
			ranks[n - 1] = i;
	}
	if (!is_fenced() && (n || atomic_load(&unable)))
		late(atomic_load(&unable) ? 0 : n, ranks);
}

static void on_fenced(pmix_status_t rc, void *arg)
{
	(void)arg;
	fence_status = rc;
	atomic_store(&fenced, true);
	count_event();
}

static bool publish_word(uint64_t word, char *why, unsigned len)
{
	pmix_value_t v;
	char name[32];

	name_word(atomic_load(&rounds), name);
	PMIX_VALUE_CONSTRUCT(&v);
	v.type = PMIX_UINT64;
	v.data.uint64 = word;
	return pmix_explain(PMIx_Put(PMIX_GLOBAL, name, &v), "PMIx_Put", why, len) &&
	       pmix_explain(PMIx_Commit(), "PMIx_Commit", why, len);
}

static bool wait_for_all(bool collect, unsigned late_ms, tw_job_late *late, char *why, unsigned len)
{
	pmix_proc_t all = process(PMIX_RANK_WILDCARD);
	pmix_info_t info;

	atomic_store(&fenced, false);
	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	fence_status = PMIx_Fence_nb(&all, 1, &info, 1, on_fenced, NULL);
	if (fence_status == PMIX_SUCCESS) {
		await_events(is_fenced, tw_clock_ns() + late_ms * 1000000ull);
		if (!is_fenced())
			find_missing(late);
		await_events(is_fenced, TW_FUTEX_FOREVER);
	} else if (fence_status == PMIX_OPERATION_SUCCEEDED) {
		fence_status = PMIX_SUCCESS;
	}
	PMIX_INFO_DESTRUCT(&info);
	return pmix_explain(fence_status, "PMIx_Fence", why, len);
}

static void begin_round(void)
{
	atomic_fetch_add(&rounds, 1);
	atomic_store(&asked, 0);
	atomic_store(&answered, 0);
	atomic_store(&unable, false);
}

static bool pmix_fence(unsigned late_ms, tw_job_late *late, char *why, unsigned len)
{
	begin_round();
	return publish_word(0, why, len) && wait_for_all(false, late_ms, late, why, len);
}

static bool pmix_look_up(const char *name, uint32_t rank, uint64_t *word, char *why, unsigned len)
{
	pmix_value_t *v = pmix_get(rank, name, PMIX_UINT64, why, len);

	if (!v)
		return false;
	*word = v->data.uint64;
	PMIX_VALUE_RELEASE(v);
	return true;
}

static bool is_key(const pmix_value_t *v)
{
	return v->type == PMIX_BYTE_OBJECT && v->data.bo.size == TW_JOBKEY;
}

/* Without one, something else, so that nobody waits for it. */
static bool put_key(uint8_t key[TW_JOBKEY], bool have, char *why, unsigned len)
{
	pmix_value_t v;

	PMIX_VALUE_CONSTRUCT(&v);
	v.type = PMIX_BYTE_OBJECT;
	v.data.bo.bytes = (char *)key;
	v.data.bo.size = have ? TW_JOBKEY : 1;
	return pmix_explain(PMIx_Put(PMIX_GLOBAL, KEY, &v), "PMIx_Put", why, len);
}

/* After the exchange. */
static bool get_key(uint8_t key[TW_JOBKEY])
{
	char why[256];
	pmix_value_t *v = pmix_get(0, KEY, PMIX_BYTE_OBJECT, why, sizeof(why));
	bool good = v && is_key(v);

	if (good)
		memcpy(key, v->data.bo.bytes, TW_JOBKEY);
	if (v)
		PMIX_VALUE_RELEASE(v);
	return good;
}

static bool pmix_exchange(uint64_t mine, uint64_t *all, uint8_t key[TW_JOBKEY], bool *have,
			  unsigned late_ms, tw_job_late *late, char *why, unsigned len)
{
	char name[32];

	begin_round();
	if ((me.rank == 0 && !put_key(key, *have, why, len)) || !publish_word(mine, why, len) ||
	    !wait_for_all(true, late_ms, late, why, len))
		return false;
	name_word(atomic_load(&rounds), name);
	for (uint32_t i = 0; i < size; i++)
		if (i != me.rank && !pmix_look_up(name, i, &all[i], why, len))
			return false;
	all[me.rank] = mine;
	if (me.rank != 0)
		*have = get_key(key);
	return true;
}

/* To the processes of this job. */
static pmix_status_t publish(const uint8_t key[TW_JOBKEY])
{
	pmix_data_range_t range = PMIX_RANGE_NAMESPACE;
	pmix_byte_object_t bytes = {(char *)key, TW_JOBKEY};
	pmix_info_t info[2];
	pmix_status_t rc;

	PMIX_INFO_LOAD(&info[0], KEY, &bytes, PMIX_BYTE_OBJECT);
	PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
	rc = PMIx_Publish(info, 2);
	PMIX_INFO_DESTRUCT(&info[0]);
	PMIX_INFO_DESTRUCT(&info[1]);
	return rc;
}

/* Does not wait: Open MPI 4.1's daemon crashes when a process leaves amid a wait. */
static pmix_status_t published(uint8_t key[TW_JOBKEY])
{
	pmix_data_range_t range = PMIX_RANGE_NAMESPACE;
	pmix_info_t info;
	pmix_pdata_t data;
	pmix_status_t rc;

	PMIX_PDATA_CONSTRUCT(&data);
	snprintf(data.key, sizeof(data.key), "%s", KEY);
	PMIX_INFO_LOAD(&info, PMIX_RANGE, &range, PMIX_DATA_RANGE);
	rc = PMIx_Lookup(&data, 1, &info, 1);
	if (rc == PMIX_SUCCESS && is_key(&data.value))
		memcpy(key, data.value.data.bo.bytes, TW_JOBKEY);
	else if (rc == PMIX_SUCCESS)
		rc = PMIX_ERR_NOT_FOUND;
	PMIX_PDATA_DESTRUCT(&data);
	PMIX_INFO_DESTRUCT(&info);
	return rc;
}

static bool spread_key(uint8_t key[TW_JOBKEY], unsigned limit_ms, char *why, unsigned len)
{
	pmix_status_t rc = published(key);

	if (me.rank == 0 && rc == PMIX_ERR_NOT_FOUND)
		return pmix_explain(publish(key), "PMIx_Publish", why, len);
	for (; rc == PMIX_ERR_NOT_FOUND && limit_ms > LOOK_MS; limit_ms -= LOOK_MS) {
		tw_sys_sleep_us(1000 * LOOK_MS);
		rc = published(key);
	}
	return pmix_explain(rc, "PMIx_Lookup", why, len);
}

static bool host(uint32_t rank, char name[TW_JOB_HOST], char *why, unsigned len)
{
	pmix_value_t *v = pmix_get(rank, PMIX_HOSTNAME, PMIX_STRING, why, len);
	bool fits;

	if (!v)
		return false;
	fits = strlen(v->data.string) < TW_JOB_HOST;
	if (fits)
		strcpy(name, v->data.string);
	else
		snprintf(why, len, "the name of its host is too long");
	PMIX_VALUE_RELEASE(v);
	return fits;
}

const struct tw_launcher tw_launcher_pmix = {
	.version = TW_LAUNCHER_VERSION,
	.begin = pmix_begin,
	.end = pmix_end,
	.exchange = pmix_exchange,
	.fence = pmix_fence,
	.key = spread_key,
	.host = host,
};
