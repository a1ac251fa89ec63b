/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.5: non-blocking accesses, and test, wait and cancel for them. movers.c moves
 * them in parts, so that they can be cancelled in between.
 */
#include "mrapi/mem/requests.h"

#define CANCELED_KEPT 64 /* cancelled requests that are kept */
#define MAX_REQUESTS 65536u

pthread_mutex_t tw_mrapi_requests_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct {
	pthread_cond_t changed; /* a request is complete */
	struct tw_list canceled;
	unsigned ncanceled;
	struct tw_pool pool;
	uint32_t under_way;
} all = {.canceled = {&all.canceled, &all.canceled}};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void request_prepare(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&all.changed, &attr);
	pthread_condattr_destroy(&attr);
	tw_pool_init(&all.pool, sizeof(struct tw_mrapi_request), MAX_REQUESTS);
}

/* ----------------------------------------------------------- request objects */

static void free_oldest(void)
{
	tw_pool_put(&all.pool, tw_list_take(&all.canceled, struct tw_mrapi_request, link));
	all.ncanceled--;
}

static struct tw_mrapi_request *mrapi_new_request(void)
{
	struct tw_mrapi_request *r;

	if (all.ncanceled > CANCELED_KEPT)
		free_oldest();
	r = tw_pool_get(&all.pool);
	if (!r && all.ncanceled) {
		free_oldest();
		r = tw_pool_get(&all.pool);
	}
	return r;
}

/* It is freed some requests later; until then it says so. */
static void canceled(struct tw_mrapi_request *r)
{
	r->state = TW_MRAPI_CANCELED;
	tw_list_add_tail(&all.canceled, &r->link);
	all.ncanceled++;
}

static mrapi_request_t request_name_of(const struct tw_mrapi_request *r)
{
	return (uint64_t)r->obj.gen << 32 | (r->obj.index + 1);
}

static struct tw_mrapi_request *request_find(const mrapi_request_t *request, uint32_t me)
{
	mrapi_request_t name = request ? *request : 0;
	struct tw_mrapi_request *r =
		tw_pool_find(&all.pool, (uint32_t)name - 1, (uint32_t)(name >> 32));

	return r && r->me == me ? r : NULL;
}

void tw_mrapi_request_over(struct tw_mrapi_request *r)
{
	all.under_way--;
	if (r->cancel)
		canceled(r);
	else
		r->state = TW_MRAPI_DONE;
	pthread_cond_broadcast(&all.changed);
}

mrapi_status_t tw_mrapi_request_start(struct tw_mrapi_client *c, uint32_t me, bool cached,
				      const struct tw_mrapi_move *m, mrapi_request_t *request)
{
	struct tw_mrapi_request *r;

	pthread_once(&once, request_prepare);
	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	/* Not after its requests have been ended. */
	r = tw_mrapi_me() == me ? mrapi_new_request() : NULL;
	if (!r) {
		tw_mrapi_unlock(&tw_mrapi_requests_mutex);
		return tw_mrapi_me() == me ? MRAPI_ERR_REQUEST_LIMIT : MRAPI_ERR_NODE_NOTINIT;
	}
	*r = (struct tw_mrapi_request){.obj = r->obj,
				       .link = {&r->link, &r->link},
				       .me = me,
				       .state = TW_MRAPI_RUNNING,
				       .cached = cached,
				       .client = c,
				       .m = *m};
	*request = request_name_of(r);
	all.under_way++;
	tw_mrapi_move_begin(r);
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
	return MRAPI_SUCCESS;
}

/* ----------------------------------------------------------- test and wait */

/* The request's status. Reporting completion frees the request. */
static mrapi_status_t poll_one(const mrapi_request_t *request, uint32_t me, size_t *size)
{
	struct tw_mrapi_request *r = request_find(request, me);
	mrapi_status_t status;

	if (!r)
		return MRAPI_ERR_REQUEST_INVALID;
	if (r->state == TW_MRAPI_CANCELED || r->cancel)
		return MRAPI_ERR_REQUEST_CANCELED;
	if (r->state != TW_MRAPI_DONE)
		return MRAPI_INCOMPLETE;
	status = r->status;
	if (size)
		*size = r->moved;
	tw_pool_put(&all.pool, r);
	return status;
}

/* The first request that is complete or invalid, or n. */
static size_t poll_any(const mrapi_request_t *requests, size_t n, uint32_t me, size_t *size,
		       mrapi_status_t *status)
{
	size_t i = 0;

	/* The end of the node has taken them. */
	if (tw_mrapi_me() != me) {
		*status = MRAPI_ERR_NODE_NOTINIT;
		return i;
	}
	for (; i < n; i++) {
		*status = poll_one(&requests[i], me, size);
		if (*status != MRAPI_INCOMPLETE)
			break;
	}
	return i;
}

/* Sleeps until a request completes, or the deadline. */
static void sleep_until(uint64_t deadline)
{
	struct timespec t = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};

	if (deadline == TW_FUTEX_FOREVER)
		pthread_cond_wait(&all.changed, &tw_mrapi_requests_mutex);
	else
		pthread_cond_timedwait(&all.changed, &tw_mrapi_requests_mutex, &t);
}

/* A request that the caller should move itself instead of waiting. */
static struct tw_mrapi_request *first_to_help(const mrapi_request_t *requests, size_t n,
					      uint32_t me)
{
	for (size_t i = 0; i < n; i++) {
		struct tw_mrapi_request *r = request_find(&requests[i], me);

		if (r && tw_mrapi_move_helps(r, true))
			return r;
	}
	return NULL;
}

/* Waits for one of them: its index, or n with TIMEOUT; or with `none' if there is none. */
static size_t request_wait_for(const mrapi_request_t *requests, size_t n, size_t *size,
			       mrapi_timeout_t timeout, mrapi_status_t none, mrapi_status_t *status)
{
	uint64_t deadline = tw_mrapi_deadline(timeout);
	uint32_t me = tw_mrapi_me();
	size_t i;

	*status = me ? none : MRAPI_ERR_NODE_NOTINIT;
	if (!me || !requests || n == 0)
		return n;
	pthread_once(&once, request_prepare);
	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	for (;;) {
		struct tw_mrapi_request *r;

		i = poll_any(requests, n, me, size, status);
		if (i < n)
			break;
		if (deadline != TW_FUTEX_FOREVER && tw_clock_ns() >= deadline) {
			*status = MRAPI_TIMEOUT;
			break;
		}
		r = first_to_help(requests, n, me);
		if (r)
			tw_mrapi_move_part(r);
		else
			sleep_until(deadline);
	}
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
	return i;
}

static mrapi_status_t test_named(const mrapi_request_t *request, uint32_t me, size_t *size)
{
	struct tw_mrapi_request *r = request_find(request, me);

	if (r && tw_mrapi_move_helps(r, false))
		tw_mrapi_move_part(r);
	return poll_one(request, me, size);
}

mrapi_boolean_t mrapi_test(const mrapi_request_t *request, size_t *size, mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();
	mrapi_status_t result =
		me ? tw_mrapi_locked(&tw_mrapi_requests_mutex, test_named(request, me, size))
		   : MRAPI_ERR_NODE_NOTINIT;

	tw_mrapi_set_status(status, result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

mrapi_boolean_t mrapi_wait(const mrapi_request_t *request, size_t *size, mrapi_timeout_t timeout,
			   mrapi_status_t *status)
{
	mrapi_status_t result;

	request_wait_for(request, 1, size, timeout, MRAPI_ERR_REQUEST_INVALID, &result);
	tw_mrapi_set_status(status, result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

mrapi_uint_t mrapi_wait_any(size_t num_requests, const mrapi_request_t *requests, size_t *size,
			    mrapi_timeout_t timeout, mrapi_status_t *status)
{
	mrapi_status_t result;
	size_t i = request_wait_for(requests, num_requests, size, timeout, MRAPI_ERR_PARAMETER,
				    &result);

	tw_mrapi_set_status(status, result);
	if (result != MRAPI_SUCCESS && result != MRAPI_ERR_REQUEST_CANCELED)
		return MRAPI_NONE;
	return (mrapi_uint_t)i;
}

/* Under the mutex. On return no thread uses the request's memory. */
static void request_cancel(struct tw_mrapi_request *r)
{
	uint32_t gen = r->obj.gen;

	r->cancel = true;
	tw_mrapi_move_stop(r);
	if (r->state == TW_MRAPI_DONE)
		canceled(r);
	else if (r->state == TW_MRAPI_RUNNING && !r->running)
		tw_mrapi_request_over(r);
	while (r->state == TW_MRAPI_RUNNING && r->obj.gen == gen)
		pthread_cond_wait(&all.changed, &tw_mrapi_requests_mutex);
}

static mrapi_status_t cancel_named(const mrapi_request_t *request, uint32_t me)
{
	struct tw_mrapi_request *r = request_find(request, me);

	if (!r || r->state == TW_MRAPI_CANCELED)
		return MRAPI_ERR_REQUEST_INVALID;
	request_cancel(r);
	return MRAPI_SUCCESS;
}

void mrapi_cancel(const mrapi_request_t *request, mrapi_status_t *status)
{
	uint32_t me = tw_mrapi_me();

	tw_mrapi_set_status(status, me ? tw_mrapi_locked(&tw_mrapi_requests_mutex,
							 cancel_named(request, me))
				       : MRAPI_ERR_NODE_NOTINIT);
}

void tw_mrapi_requests_end(uint32_t me)
{
	struct tw_mrapi_request *r;
	uint32_t i = 0;

	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	while ((r = tw_pool_next(&all.pool, &i))) {
		uint32_t gen = r->obj.gen;

		if (r->me != me)
			continue;
		if (r->state != TW_MRAPI_CANCELED)
			request_cancel(r);
		/* Detached from the caller, unless it is another one's by now. */
		if (r->obj.gen == gen)
			r->me = 0;
	}
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
}

void tw_mrapi_requests_complete(const struct tw_mrapi_client *c, uint32_t me)
{
	struct tw_mrapi_request *r;
	uint32_t i = 0;

	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	while (all.under_way && (r = tw_pool_next(&all.pool, &i))) {
		while (r->client == c && r->me == me && r->state == TW_MRAPI_RUNNING) {
			if (r->queued)
				tw_mrapi_move_part(r);
			else
				pthread_cond_wait(&all.changed, &tw_mrapi_requests_mutex);
		}
	}
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
}

void tw_mrapi_requests_forked(void)
{
	pthread_mutex_init(&tw_mrapi_requests_mutex, NULL);
	tw_pool_fini(&all.pool);
	request_prepare();
	tw_mrapi_movers_forked();
	tw_list_init(&all.canceled);
	all.ncanceled = all.under_way = 0;
}
