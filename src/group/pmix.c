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

/* A value of that process, which the caller releases; NULL: why says why not. */
static pmix_value_t *get(uint32_t rank, const char *name, pmix_data_type_t type, char *why,
			 unsigned len)
{
	pmix_proc_t p = process(rank);
	pmix_value_t *v = NULL;

	if (!explain(PMIx_Get(&p, name, NULL, 0, &v), name, why, len))
		return NULL;
	if (v->type == type)
		return v;
	snprintf(why, len, "%s of process %u is of another type", name, rank);
	PMIX_VALUE_RELEASE(v);
	return NULL;
}

static bool begin(struct tw_job *job, char *why, unsigned len)
{
	pmix_value_t *v;

	if (!explain(PMIx_Init(&me, NULL, 0), "PMIx_Init", why, len))
		return false;
	v = get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32, why, len);
	if (!v) {
		PMIx_Finalize(NULL, 0);
		return false;
	}
	job->rank = me.rank;
	job->size = size = v->data.uint32;
	job->key = hash(me.nspace);
	PMIX_VALUE_RELEASE(v);
	return true;
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
	pmix_value_t *v = get(rank, name, PMIX_UINT64, why, len);

	if (!v)
		return false;
	*word = v->data.uint64;
	PMIX_VALUE_RELEASE(v);
	return true;
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
	pmix_value_t *v = get(rank, PMIX_HOSTNAME, PMIX_STRING, why, len);
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
	.begin = begin,
	.end = end,
	.exchange = exchange,
	.fence = fence,
	.host = host,
};
