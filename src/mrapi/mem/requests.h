/* SPDX-License-Identifier: BSD-2-Clause */
/* Non-blocking accesses: shared by requests.c and movers.c. */
#ifndef TW_MRAPI_REQUESTS_H
#define TW_MRAPI_REQUESTS_H

#include "base/pool.h"
#include "mrapi/mem/memory.h"

enum tw_mrapi_request_state { TW_MRAPI_RUNNING, TW_MRAPI_DONE, TW_MRAPI_CANCELED };

struct tw_mrapi_request {
	struct tw_pool_obj obj;
	struct tw_list link; /* in its client's queue while queued, or in the list of cancelled ones */
	uint32_t me;
	enum tw_mrapi_request_state state;
	bool queued; /* it has parts to start */
	bool cancel; /* cancelled once complete */
	bool cached;
	unsigned running; /* parts being moved */
	mrapi_status_t status;
	size_t moved;
	struct tw_mrapi_place at; /* start of the next part */
	struct tw_mrapi_client *client;
	struct tw_mrapi_move m;
};

/* Guards requests and movers; the condition is signalled on completion. */
extern pthread_mutex_t tw_mrapi_requests_mutex;

/* ---- movers.c: under the mutex, which is released while bytes are moved */

/* Small requests complete at once. */
void tw_mrapi_move_begin(struct tw_mrapi_request *r);
/* Moves a part of a queued request in the calling thread. */
void tw_mrapi_move_part(struct tw_mrapi_request *r);
/*
 * Whether the caller should move it: no thread is available, or the caller waits and a local copy
 * is faster than that.
 */
bool tw_mrapi_move_helps(const struct tw_mrapi_request *r, bool waits);
/* Starts no further part. */
void tw_mrapi_move_stop(struct tw_mrapi_request *r);
void tw_mrapi_movers_forked(void);

/* ---- requests.c */

/* No part of the request is left to start or being moved. */
void tw_mrapi_request_over(struct tw_mrapi_request *r);

#endif /* TW_MRAPI_REQUESTS_H */
