/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MRAPI 4.5: accesses that go on after the call. Short ones are done at once.
 * Longer ones wait for the mover, a thread that is started with the first of
 * them; who waits for one that has not begun does it himself. A request is done
 * piece by piece, so that it can be cancelled and given up in between.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "mrapi/memory.h"

#define AT_ONCE 65536u /* bytes of an access that is not worth a thread */
#define PIECE 262144u  /* bytes between two looks around */
#define RESTING 64     /* ended requests that still know how they ended */
#define MAX_REQUESTS 65536u

enum state { ENDED, QUEUED, RUNNING, DONE, CANCELED };

struct request {
	struct tw_list link; /* of the queue, or of the ended ones */
	uint32_t slot, gen;
	uint32_t me;
	enum state state;
	bool cancel; /* stop soon */
	bool cached;
	mrapi_status_t status;
	size_t moved;
	uint32_t piece, into; /* how far: pieces, and bytes of the next one */
	struct tw_mr_client *client;
	struct tw_mr_move m;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t work;	/* for the mover */
	pthread_cond_t changed; /* for those who wait */
	struct tw_list queue, ended;
	unsigned nended;
	struct request **slots;
	uint32_t nslots;
	bool moving, stop;
	pthread_t mover;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER,
	 .work = PTHREAD_COND_INITIALIZER,
	 .queue = {&all.queue, &all.queue},
	 .ended = {&all.ended, &all.ended}};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&all.changed, &attr);
	pthread_condattr_destroy(&attr);
}

/* ----------------------------------------------------------- request objects */

static struct request *new_request(void)
{
	struct request *r, **slots;

	if (all.nended > RESTING || (all.nended > 0 && all.nslots == MAX_REQUESTS)) {
		r = tw_list_first(&all.ended, struct request, link);
		tw_list_del(&r->link);
		all.nended--;
		r->gen++;
		return r;
	}
	if (all.nslots == MAX_REQUESTS)
		return NULL;
	if ((all.nslots & (all.nslots - 1)) == 0) {
		slots = realloc(all.slots, (all.nslots ? 2 * all.nslots : 1) * sizeof(*slots));
		if (!slots)
			return NULL;
		all.slots = slots;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->slot = all.nslots;
	r->gen = 1;
	tw_list_init(&r->link);
	all.slots[all.nslots++] = r;
	return r;
}

/* The request ends; until its slot is used again it tells that it was cancelled. */
static void end_request(struct request *r, enum state how)
{
	r->state = how;
	tw_list_add_tail(&all.ended, &r->link);
	all.nended++;
}

static mrapi_request_t name_of(const struct request *r)
{
	return (uint64_t)r->gen << 32 | (r->slot + 1);
}

static struct request *find(const mrapi_request_t *request, uint32_t me)
{
	uint32_t slot = request ? (uint32_t)*request : 0;
	struct request *r;

	if (slot == 0 || slot > all.nslots)
		return NULL;
	r = all.slots[slot - 1];
	return name_of(r) == *request && r->me == me && r->state != ENDED ? r : NULL;
}

/* ----------------------------------------------------------------- the work */

/* The next bytes of a request as an access of their own. */
static struct tw_mr_move next_part(const struct request *r)
{
	struct tw_mr_move m = r->m;

	m.local += (size_t)r->piece * r->m.local_stride + r->into;
	m.remote += (uint64_t)r->piece * r->m.remote_stride + r->into;
	if (r->m.bytes > PIECE) {
		m.bytes = tw_min(PIECE, r->m.bytes - r->into);
		m.n = 1;
	} else {
		m.n = tw_min(r->m.n - r->piece, PIECE / r->m.bytes);
	}
	return m;
}

static bool finished(const struct request *r)
{
	return r->piece == r->m.n || r->status != MRAPI_SUCCESS;
}

/* One step of a running request; nobody else touches what it works with. */
static void step(struct request *r)
{
	struct tw_mr_move m = next_part(r);

	r->status = tw_mr_access(r->client, r->cached, &m);
	if (r->status != MRAPI_SUCCESS)
		return;
	r->moved += (size_t)m.bytes * m.n;
	if (r->m.bytes > PIECE) {
		r->into += m.bytes;
		if (r->into == r->m.bytes) {
			r->into = 0;
			r->piece++;
		}
	} else {
		r->piece += m.n;
	}
}

/* Does a queued request until it is finished, cancelled or late. Under the mutex. */
static void work_on(struct request *r, uint64_t deadline)
{
	tw_list_del(&r->link);
	r->state = RUNNING;
	while (!finished(r) && !r->cancel &&
	       (deadline == TW_FUTEX_FOREVER || tw_futex_now() < deadline)) {
		pthread_mutex_unlock(&all.mutex);
		step(r);
		pthread_mutex_lock(&all.mutex);
	}
	if (r->cancel) {
		end_request(r, CANCELED);
	} else if (finished(r)) {
		r->state = DONE;
	} else {
		r->state = QUEUED;
		tw_list_add_tail(&all.queue, &r->link);
		pthread_cond_signal(&all.work);
	}
	pthread_cond_broadcast(&all.changed);
}

static void *mover(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&all.mutex);
	while (!all.stop) {
		if (tw_list_empty(&all.queue))
			pthread_cond_wait(&all.work, &all.mutex);
		else
			work_on(tw_list_first(&all.queue, struct request, link), TW_FUTEX_FOREVER);
	}
	pthread_mutex_unlock(&all.mutex);
	return NULL;
}

static bool start_mover(void)
{
	sigset_t every, old;
	int failed;

	if (all.moving)
		return true;
	sigfillset(&every);
	pthread_sigmask(SIG_BLOCK, &every, &old);
	failed = pthread_create(&all.mover, NULL, mover, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	all.moving = !failed;
	return all.moving;
}

mrapi_status_t tw_mr_request_start(struct tw_mr_client *c, uint32_t me, bool cached,
				   const struct tw_mr_move *m, mrapi_request_t *request)
{
	struct request *r;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&all.mutex);
	r = new_request();
	if (!r) {
		pthread_mutex_unlock(&all.mutex);
		return MRAPI_ERR_REQUEST_LIMIT;
	}
	r->me = me;
	r->cancel = false;
	r->cached = cached;
	r->status = MRAPI_SUCCESS;
	r->moved = 0;
	r->piece = r->into = 0;
	r->client = c;
	r->m = *m;
	*request = name_of(r);
	r->state = QUEUED;
	if ((uint64_t)m->bytes * m->n > AT_ONCE && start_mover()) {
		tw_list_add_tail(&all.queue, &r->link);
		pthread_cond_signal(&all.work);
	} else {
		work_on(r, TW_FUTEX_FOREVER);
	}
	pthread_mutex_unlock(&all.mutex);
	return MRAPI_SUCCESS;
}

/* --------------------------------------------------------------- the answers */

/* What a request has come to; a completed one ends by being told of. */
static mrapi_status_t look(const mrapi_request_t *request, uint32_t me, size_t *size)
{
	struct request *r = find(request, me);
	mrapi_status_t status;

	if (!r)
		return MRAPI_ERR_REQUEST_INVALID;
	if (r->state == CANCELED || r->cancel)
		return MRAPI_ERR_REQUEST_CANCELED;
	if (r->state != DONE)
		return MRAPI_INCOMPLETE;
	status = r->status;
	if (size)
		*size = r->moved;
	end_request(r, ENDED);
	return status;
}

/* The first of the requests that has an answer, or n. */
static size_t look_any(const mrapi_request_t *requests, size_t n, uint32_t me, size_t *size,
		       mrapi_status_t *status)
{
	size_t i = 0;

	for (; i < n; i++) {
		*status = look(&requests[i], me, size);
		if (*status != MRAPI_INCOMPLETE)
			break;
	}
	return i;
}

/* Sleeps until something changes; false once the deadline is over. */
static bool sleep_until(uint64_t deadline)
{
	struct timespec t = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};

	if (deadline == TW_FUTEX_FOREVER)
		pthread_cond_wait(&all.changed, &all.mutex);
	else if (tw_futex_now() >= deadline)
		return false;
	else
		pthread_cond_timedwait(&all.changed, &all.mutex, &t);
	return true;
}

static struct request *first_queued(const mrapi_request_t *requests, size_t n, uint32_t me)
{
	for (size_t i = 0; i < n; i++) {
		struct request *r = find(&requests[i], me);

		if (r && r->state == QUEUED)
			return r;
	}
	return NULL;
}

/* Waits for one of them: its index, or n with TIMEOUT. */
static size_t wait_for(const mrapi_request_t *requests, size_t n, uint32_t me, size_t *size,
		       mrapi_timeout_t timeout, mrapi_status_t *status)
{
	uint64_t deadline = timeout == MRAPI_INFINITE ? TW_FUTEX_FOREVER
						      : tw_futex_now() + 1000000ull * timeout;
	size_t i;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&all.mutex);
	for (;;) {
		struct request *r;

		i = look_any(requests, n, me, size, status);
		if (i < n)
			break;
		if (deadline != TW_FUTEX_FOREVER && tw_futex_now() >= deadline) {
			*status = MRAPI_TIMEOUT;
			break;
		}
		r = first_queued(requests, n, me);
		if (r)
			work_on(r, deadline);
		else
			sleep_until(deadline);
	}
	pthread_mutex_unlock(&all.mutex);
	return i;
}

mrapi_boolean_t mrapi_test(const mrapi_request_t *request, size_t *size, mrapi_status_t *status)
{
	uint32_t me = tw_mr_me();
	mrapi_status_t result = MRAPI_ERR_NODE_NOTINIT;

	if (me) {
		pthread_mutex_lock(&all.mutex);
		result = look(request, me, size);
		pthread_mutex_unlock(&all.mutex);
	}
	tw_mr_tell(status, result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

mrapi_boolean_t mrapi_wait(const mrapi_request_t *request, size_t *size, mrapi_timeout_t timeout,
			   mrapi_status_t *status)
{
	uint32_t me = tw_mr_me();
	mrapi_status_t result = MRAPI_ERR_NODE_NOTINIT;

	if (me && !request)
		result = MRAPI_ERR_REQUEST_INVALID;
	else if (me)
		wait_for(request, 1, me, size, timeout, &result);
	tw_mr_tell(status, result);
	return result == MRAPI_SUCCESS ? MRAPI_TRUE : MRAPI_FALSE;
}

mrapi_uint_t mrapi_wait_any(size_t num_requests, const mrapi_request_t *requests, size_t *size,
			    mrapi_timeout_t timeout, mrapi_status_t *status)
{
	uint32_t me = tw_mr_me();
	mrapi_status_t result = MRAPI_ERR_NODE_NOTINIT;
	size_t i = num_requests;

	if (me && (num_requests == 0 || !requests))
		result = MRAPI_ERR_PARAMETER;
	else if (me)
		i = wait_for(requests, num_requests, me, size, timeout, &result);
	tw_mr_tell(status, result);
	if (result != MRAPI_SUCCESS && result != MRAPI_ERR_REQUEST_CANCELED)
		return (mrapi_uint_t)-1;
	return (mrapi_uint_t)i;
}

/* Under the mutex; returns once nothing touches the request's memory any more. */
static void cancel(struct request *r)
{
	uint32_t gen = r->gen;

	if (r->state == QUEUED)
		tw_list_del(&r->link);
	if (r->state == QUEUED || r->state == DONE)
		end_request(r, CANCELED);
	r->cancel = true;
	pthread_cond_broadcast(&all.changed);
	while (r->state == RUNNING && r->gen == gen)
		pthread_cond_wait(&all.changed, &all.mutex);
}

static mrapi_status_t cancel_named(const mrapi_request_t *request, uint32_t me)
{
	struct request *r = find(request, me);

	if (!r || r->state == CANCELED)
		return MRAPI_ERR_REQUEST_INVALID;
	cancel(r);
	return MRAPI_SUCCESS;
}

void mrapi_cancel(const mrapi_request_t *request, mrapi_status_t *status)
{
	uint32_t me = tw_mr_me();
	mrapi_status_t result = MRAPI_ERR_NODE_NOTINIT;

	if (me) {
		pthread_mutex_lock(&all.mutex);
		result = cancel_named(request, me);
		pthread_mutex_unlock(&all.mutex);
	}
	tw_mr_tell(status, result);
}

void tw_mr_requests_end(uint32_t me)
{
	pthread_mutex_lock(&all.mutex);
	for (uint32_t i = 0; i < all.nslots; i++) {
		struct request *r = all.slots[i];

		if (r->me != me || r->state == ENDED)
			continue;
		if (r->state != CANCELED)
			cancel(r);
		r->me = 0; /* nobody's */
	}
	pthread_mutex_unlock(&all.mutex);
}

void tw_mr_requests_settle(const struct tw_mr_client *c, uint32_t me)
{
	pthread_mutex_lock(&all.mutex);
	for (uint32_t i = 0; i < all.nslots; i++) {
		struct request *r = all.slots[i];

		while (r->client == c && r->me == me &&
		       (r->state == QUEUED || r->state == RUNNING)) {
			if (r->state == QUEUED)
				work_on(r, TW_FUTEX_FOREVER);
			else
				pthread_cond_wait(&all.changed, &all.mutex);
		}
	}
	pthread_mutex_unlock(&all.mutex);
}

void tw_mr_requests_stop(void)
{
	pthread_mutex_lock(&all.mutex);
	all.stop = true;
	pthread_cond_signal(&all.work);
	pthread_mutex_unlock(&all.mutex);
	if (all.moving)
		pthread_join(all.mover, NULL);
	all.moving = all.stop = false;
}

void tw_mr_requests_forked(void)
{
	pthread_mutex_init(&all.mutex, NULL);
	pthread_cond_init(&all.work, NULL);
	prepare();
	tw_list_init(&all.queue);
	tw_list_init(&all.ended);
	all.nended = 0;
	for (uint32_t i = 0; i < all.nslots; i++)
		free(all.slots[i]);
	all.nslots = 0;
	all.moving = all.stop = false;
}
