/* SPDX-License-Identifier: BSD-2-Clause */
/* An extension: the other processes of a job. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/lock.h"
#include "group/job.h"
#include "mx/mx_internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside; /* the mutex: a signal handler must not wait for it */
static struct tw_job job; /* size 0: not joined */
static uint64_t *all;	  /* of the last exchange, or NULL */

/* Joins at the first call. */
static mx_return_t join_job(void)
{
	if (!tw_mx_ready())
		return MX_NOT_INITIALIZED;
	if (job.size)
		return MX_SUCCESS;
	if (tw_job_begin(NULL, &job) == TW_OK)
		return MX_SUCCESS;
	job.size = 0;
	return MX_FAILURE;
}

/* In a signal handler that has interrupted a call for the job, the job goes on. */
void tw_mx_job_end(void)
{
	if (!tw_mutex_lock_once(&mutex, &inside))
		return;
	if (job.size)
		tw_job_end();
	job.size = 0;
	free(all);
	all = NULL;
	tw_mutex_unlock_once(&mutex, &inside);
}

void tw_mx_job_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	inside = false;
	job.size = 0;
	all = NULL;
}

mx_return_t mx_job_info(uint32_t *rank, uint32_t *size)
{
	mx_return_t rc;

	if (!tw_mutex_lock_once(&mutex, &inside))
		return tw_mx_fail(NULL, __func__, MX_BUSY);
	rc = join_job();
	if (rc == MX_SUCCESS && rank)
		*rank = job.rank;
	if (rc == MX_SUCCESS && size)
		*size = job.size;
	tw_mutex_unlock_once(&mutex, &inside);
	return rc == MX_SUCCESS ? rc : tw_mx_fail_said(__func__, rc);
}

static mx_return_t exchange_job(const char *call, uint64_t mine)
{
	uint64_t *words = calloc(job.size, sizeof(*words));

	if (!words)
		return MX_NO_RESOURCES;
	if (tw_job_exchange(call, mine, words) != TW_OK) {
		free(words);
		return MX_FAILURE;
	}
	free(all);
	all = words;
	return MX_SUCCESS;
}

mx_return_t mx_job_exchange(mx_endpoint_t endpoint)
{
	struct tw_ep *ep = tw_mx_enter(endpoint);
	uint64_t mine;
	mx_return_t rc;

	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	mine = ep->self->addr.where;
	tw_leave(ep);
	if (!tw_mutex_lock_once(&mutex, &inside))
		return tw_mx_fail(NULL, __func__, MX_BUSY);
	rc = join_job();
	if (rc == MX_SUCCESS)
		rc = exchange_job(__func__, mine);
	tw_mutex_unlock_once(&mutex, &inside);
	return rc == MX_SUCCESS ? rc : tw_mx_fail_said(__func__, rc);
}

/* Not while another thread exchanges: it may wait for long, and the endpoint is locked here. */
bool tw_mx_job_called(const struct tw_ep *ep, uint64_t where, char *out, size_t size)
{
	uint32_t rank = 0;
	bool found;

	(void)ep;
	if (!tw_mutex_try_once(&mutex, &inside))
		return false;
	while (all && rank < job.size && all[rank] != where)
		rank++;
	found = all && rank < job.size;
	tw_mutex_unlock_once(&mutex, &inside);
	if (found)
		snprintf(out, size, "rank %u", rank);
	return found;
}

/* why: its message, NULL: that of the code. */
static mx_return_t job_find(uint32_t rank, uint64_t *where, bool *launched, const char **why)
{
	mx_return_t rc;

	*why = NULL;
	if (!tw_mutex_lock_once(&mutex, &inside))
		return MX_BUSY;
	rc = join_job();
	if (rc == MX_FAILURE)
		*why = tw_mx_said;
	if (rc == MX_SUCCESS && !all) {
		*why = "mx_job_exchange has not been called";
		rc = MX_FAILURE;
	}
	if (rc == MX_SUCCESS && rank >= job.size)
		rc = MX_NIC_NOT_FOUND;
	if (rc == MX_SUCCESS) {
		*where = all[rank];
		*launched = job.launched;
	}
	tw_mutex_unlock_once(&mutex, &inside);
	return rc;
}

static mx_return_t job_fail(const char *function, uint32_t rank, mx_return_t rc, const char *why)
{
	char text[128];

	if (why)
		snprintf(text, sizeof(text), "%s: %s", function, why);
	else if (rc != MX_NIC_NOT_FOUND)
		return tw_mx_fail(NULL, function, rc);
	else
		snprintf(text, sizeof(text),
			 "%s: there is no rank %u: this job has ranks 0 to %u; see "
			 "tagwire-launch(7)",
			 function, rank, job.size - 1);
	return tw_mx_handle(NULL, text, rc);
}

mx_return_t mx_job_peer(uint32_t rank, uint64_t *nic_id, uint32_t *endpoint_id)
{
	mx_return_t rc = MX_FAILURE;
	const char *why = NULL;
	bool launched;
	uint64_t where;

	if (nic_id && endpoint_id)
		rc = job_find(rank, &where, &launched, &why);
	if (rc != MX_SUCCESS)
		return job_fail(__func__, rank, rc, why);
	*nic_id = where >> 16;
	*endpoint_id = where & 0xffff;
	return MX_SUCCESS;
}

mx_return_t mx_job_connect(mx_endpoint_t endpoint, uint32_t rank, uint32_t filter, uint32_t timeout,
			   mx_endpoint_addr_t *endpoint_addr)
{
	uint64_t where;
	bool launched;
	const char *why;
	mx_return_t rc = job_find(rank, &where, &launched, &why);
	struct tw_ep *ep;

	if (rc != MX_SUCCESS)
		return job_fail(__func__, rank, rc, why);
	ep = tw_mx_enter(endpoint);
	if (!ep)
		return tw_mx_fail(NULL, __func__, MX_BAD_ENDPOINT);
	/* Without a launcher the other process may not have begun. */
	return tw_mx_connect(ep, __func__, where >> 16, where & 0xffff, filter, timeout, !launched,
			     endpoint_addr);
}
