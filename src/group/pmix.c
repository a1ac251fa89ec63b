/* SPDX-License-Identifier: BSD-2-Clause */
/* The module for launchers: a client of PMIx. Calls come one at a time. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#include "group/job.h"

static pmix_proc_t me;
static uint32_t size, rounds;

static bool explain(pmix_status_t rc, const char *call, char *why, unsigned len)
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

static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;

	while (*text)
		h = (h ^ (uint8_t)*text++) * 16777619u;
	return h;
}

static bool begin(struct tw_job *job, char *why, unsigned len)
{
	pmix_proc_t all;
	pmix_value_t *v = NULL;
	bool good;

	if (!explain(PMIx_Init(&me, NULL, 0), "PMIx_Init", why, len))
		return false;
	all = process(PMIX_RANK_WILDCARD);
	good = explain(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v), "PMIx_Get(PMIX_JOB_SIZE)", why,
		       len) &&
	       v->type == PMIX_UINT32;
	if (good) {
		job->rank = me.rank;
		job->size = size = v->data.uint32;
		job->key = hash(me.nspace);
	} else {
		PMIx_Finalize(NULL, 0);
	}
	if (v)
		PMIX_VALUE_RELEASE(v);
	return good;
}

static void end(void)
{
	PMIx_Finalize(NULL, 0);
}

static bool wait_for_all(bool collect, char *why, unsigned len)
{
	pmix_proc_t all = process(PMIX_RANK_WILDCARD);
	pmix_info_t info;
	bool good;

	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	good = explain(PMIx_Fence(&all, 1, &info, 1), "PMIx_Fence", why, len);
	PMIX_INFO_DESTRUCT(&info);
	return good;
}

static bool fence(char *why, unsigned len)
{
	return wait_for_all(false, why, len);
}

static bool look_up(const char *name, uint32_t rank, uint64_t *word, char *why, unsigned len)
{
	pmix_proc_t p = process(rank);
	pmix_value_t *v = NULL;
	bool good = explain(PMIx_Get(&p, name, NULL, 0, &v), "PMIx_Get", why, len);

	if (good && v->type == PMIX_UINT64) {
		*word = v->data.uint64;
	} else if (good) {
		snprintf(why, len, "process %u is of another version of Tagwire", rank);
		good = false;
	}
	if (v)
		PMIX_VALUE_RELEASE(v);
	return good;
}

static bool exchange(uint64_t mine, uint64_t *all, char *why, unsigned len)
{
	pmix_value_t v;
	char name[32];

	snprintf(name, sizeof(name), "tagwire.%u", rounds++);
	PMIX_VALUE_CONSTRUCT(&v);
	v.type = PMIX_UINT64;
	v.data.uint64 = mine;
	if (!explain(PMIx_Put(PMIX_GLOBAL, name, &v), "PMIx_Put", why, len) ||
	    !explain(PMIx_Commit(), "PMIx_Commit", why, len) || !wait_for_all(true, why, len))
		return false;
	for (uint32_t i = 0; i < size; i++)
		if (i != me.rank && !look_up(name, i, &all[i], why, len))
			return false;
	all[me.rank] = mine;
	return true;
}

static bool host(uint32_t rank, char name[TW_JOB_HOST], char *why, unsigned len)
{
	pmix_proc_t p = process(rank);
	pmix_value_t *v = NULL;
	bool good = explain(PMIx_Get(&p, PMIX_HOSTNAME, NULL, 0, &v), "PMIx_Get(PMIX_HOSTNAME)",
			    why, len);

	if (good && v->type == PMIX_STRING && strlen(v->data.string) < TW_JOB_HOST) {
		strcpy(name, v->data.string);
	} else if (good) {
		snprintf(why, len, "the host of process %u has no usable name", rank);
		good = false;
	}
	if (v)
		PMIX_VALUE_RELEASE(v);
	return good;
}

const struct tw_launcher tw_launcher_pmix = {
	.version = TW_LAUNCHER_VERSION,
	.begin = begin,
	.end = end,
	.exchange = exchange,
	.fence = fence,
	.host = host,
};
