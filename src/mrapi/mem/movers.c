/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that move the bytes of requests; waiting callers help. The threads start with
 * the first request. Local copies use a processor, so there are two threads for them.
 * Requests that an owner serves mostly wait, so there are more threads for them, and few
 * per memory: an owner that does not reply delays no other. Each thread takes one part
 * at a time, so several parts of a request are moved at once.
 */
#include "base/thread.h"
#include "mrapi/mem/requests.h"

#define AT_ONCE 4096u /* an access up to this many bytes is copied in the call */
#define PIECES_AT_ONCE 64u
#define PART 262144u /* bytes of a part */
#define MOST 16	     /* threads of a kind */

enum { COPIES, SERVED, KINDS };

static struct pool {
	const unsigned most, per_client; /* threads, and the limit per memory */
	struct tw_list ready;		 /* clients with parts to start */
	pthread_cond_t work;
	unsigned threads, idle;
	pthread_t thread[MOST];
} pools[KINDS] = {{.most = 2,
		   .per_client = 2,
		   .ready = {&pools[COPIES].ready, &pools[COPIES].ready},
		   .work = PTHREAD_COND_INITIALIZER},
		  {.most = MOST,
		   .per_client = 4,
		   .ready = {&pools[SERVED].ready, &pools[SERVED].ready},
		   .work = PTHREAD_COND_INITIALIZER}};
static bool stop;

static struct pool *pool_of(const struct tw_mrapi_request *r)
{
	return &pools[r->client->queue.kind];
}

static void *mover(void *pool);

/* Wakes or starts a thread for a part. */
static void provide(struct pool *p)
{
	if (p->idle)
		pthread_cond_signal(&p->work);
	else if (p->threads < p->most && !stop)
		p->threads += !tw_thread_start(&p->thread[p->threads], mover, p, "tagwire-mover");
}

/* Puts the client on or off the ready list, as its state requires. */
static void update(struct tw_mrapi_queue *q)
{
	struct pool *p = &pools[q->kind];

	if (tw_list_empty(&q->requests) || q->busy >= p->per_client)
		tw_list_del(&q->link);
	else if (tw_list_empty(&q->link))
		tw_list_add_tail(&p->ready, &q->link);
}

void tw_mrapi_move_stop(struct tw_mrapi_request *r)
{
	if (!r->queued)
		return;
	tw_list_del(&r->link);
	r->queued = false;
	update(&r->client->queue);
}

/* Splits the next part off a request. */
static struct tw_mrapi_move mover_claim(struct tw_mrapi_request *r)
{
	struct tw_mrapi_move part;

	tw_mrapi_next_part(&r->m, &r->at, PART, UINT32_MAX, &part);
	if (r->at.piece == r->m.n)
		tw_mrapi_move_stop(r);
	return part;
}

void tw_mrapi_move_part(struct tw_mrapi_request *r)
{
	struct tw_mrapi_move m = mover_claim(r);
	mrapi_status_t status;

	r->running++;
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
	status = tw_mrapi_access(r->client, r->cached ? r->me : 0, &m);
	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	r->running--;
	if (status == MRAPI_SUCCESS) {
		r->moved += (size_t)m.bytes * m.n;
	} else {
		if (r->status == MRAPI_SUCCESS)
			r->status = status;
		tw_mrapi_move_stop(r);
	}
	if (!r->queued && !r->running)
		tw_mrapi_request_over(r);
}

/* Takes a part of the first ready client. */
static void mover_work(struct pool *p)
{
	struct tw_mrapi_queue *q = tw_list_first(&p->ready, struct tw_mrapi_queue, link);

	tw_list_del(&q->link);
	tw_list_add_tail(&p->ready, &q->link);
	q->busy++;
	update(q);
	if (!tw_list_empty(&p->ready))
		provide(p);
	tw_mrapi_move_part(tw_list_first(&q->requests, struct tw_mrapi_request, link));
	q->busy--;
	update(q);
}

static void *mover(void *pool)
{
	struct pool *p = pool;

	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	while (!stop) {
		if (!tw_list_empty(&p->ready)) {
			mover_work(p);
			continue;
		}
		p->idle++;
		pthread_cond_wait(&p->work, &tw_mrapi_requests_mutex);
		p->idle--;
	}
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
	return NULL;
}

/* Whether the call does it all: a small local copy. */
static bool small(const struct tw_mrapi_request *r, bool copied)
{
	return copied && !r->cached && r->m.n <= PIECES_AT_ONCE &&
	       (uint64_t)r->m.bytes * r->m.n <= AT_ONCE;
}

void tw_mrapi_move_begin(struct tw_mrapi_request *r)
{
	struct tw_mrapi_queue *q = &r->client->queue;
	bool copied = atomic_load(&r->client->path)->copies;

	if (r->m.n == 0) {
		tw_mrapi_request_over(r);
		return;
	}
	if (small(r, copied)) {
		tw_mrapi_move_part(r);
		return;
	}
	/* The system may have refused the old path meanwhile. */
	if (!q->busy && tw_list_empty(&q->requests))
		q->kind = copied ? COPIES : SERVED;
	tw_list_add_tail(&q->requests, &r->link);
	r->queued = true;
	update(q);
	if (!tw_list_empty(&q->link))
		provide(pool_of(r));
}

bool tw_mrapi_move_helps(const struct tw_mrapi_request *r, bool waits)
{
	const struct pool *p = pool_of(r);

	return r->queued && (p->threads == 0 || (waits && p == &pools[COPIES]));
}

void tw_mrapi_movers_end(void)
{
	tw_mrapi_lock(&tw_mrapi_requests_mutex);
	stop = true;
	for (int i = 0; i < KINDS; i++)
		pthread_cond_broadcast(&pools[i].work);
	tw_mrapi_unlock(&tw_mrapi_requests_mutex);
	for (int i = 0; i < KINDS; i++)
		while (pools[i].threads)
			pthread_join(pools[i].thread[--pools[i].threads], NULL);
	stop = false;
}

void tw_mrapi_movers_forked(void)
{
	for (int i = 0; i < KINDS; i++) {
		tw_list_init(&pools[i].ready);
		pthread_cond_init(&pools[i].work, NULL);
		pools[i].threads = pools[i].idle = 0;
	}
	stop = false;
}
