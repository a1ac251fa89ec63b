/* SPDX-License-Identifier: BSD-2-Clause */
/* The module for launchers: a client of PMIx. Calls come one at a time. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/sys.h"
#include "group/job.h"

#define KEY "tagwire.key"
#define LOOK_MS 10 /* between two looks for it */

static pmix_proc_t me;
static uint32_t size, rounds;

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

static bool wait_for_all(bool collect, char *why, unsigned len)
{
	pmix_proc_t all = process(PMIX_RANK_WILDCARD);
	pmix_info_t info;
	bool good;

	PMIX_INFO_CONSTRUCT(&info);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
	good = pmix_explain(PMIx_Fence(&all, 1, &info, 1), "PMIx_Fence", why, len);
	PMIX_INFO_DESTRUCT(&info);
	return good;
}

static bool pmix_fence(char *why, unsigned len)
{
	return wait_for_all(false, why, len);
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
			  char *why, unsigned len)
{
	pmix_value_t v;
	char name[32];

	snprintf(name, sizeof(name), "tagwire.%u", rounds++);
	PMIX_VALUE_CONSTRUCT(&v);
	v.type = PMIX_UINT64;
	v.data.uint64 = mine;
	if ((me.rank == 0 && !put_key(key, *have, why, len)) ||
	    !pmix_explain(PMIx_Put(PMIX_GLOBAL, name, &v), "PMIx_Put", why, len) ||
	    !pmix_explain(PMIx_Commit(), "PMIx_Commit", why, len) || !wait_for_all(true, why, len))
		return false;
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
