/* SPDX-License-Identifier: BSD-2-Clause */
/* Non-blocking accesses: what their answers (requests.c) and their movers share. */
#ifndef TW_MRAPI_REQUESTS_H
#define TW_MRAPI_REQUESTS_H

#include "mrapi/memory.h"

enum tw_mrapi_request_state {
	TW_MRAPI_ENDED,
	TW_MRAPI_UNDER_WAY,
	TW_MRAPI_DONE,
	TW_MRAPI_CANCELED
};

struct tw_mrapi_request {
	struct tw_list link; /* of its client's queue while queued, or of the ended ones */
	uint32_t slot, gen;
	uint32_t me;
	enum tw_mrapi_request_state state;
	bool queued; /* parts of it have not begun */
	bool cancel; /* once it is over, it was cancelled */
	bool cached;
	unsigned running; /* parts under way */
	mrapi_status_t status;
	size_t moved;
	uint32_t piece, into; /* where the next part begins: pieces, and bytes of one */
	struct tw_mrapi_client *client;
	struct tw_mrapi_move m;
};

/* Guards requests and movers; signalled when a request is over. */
extern pthread_mutex_t tw_mrapi_requests_mutex;

/* ---- movers.c, all under the mutex, which is left while bytes are moved */

/* Begins a request: small ones are over at once. */
void tw_mrapi_move_begin(struct tw_mrapi_request *r);
/* Moves a part of a queued request in the calling thread. */
void tw_mrapi_move_part(struct tw_mrapi_request *r);
/* Whether no thread is there that would move it. */
bool tw_mrapi_move_alone(const struct tw_mrapi_request *r);
/* Whether a waiter moves it faster than it would wait: nobody else is asked for its bytes. */
bool tw_mrapi_move_helps(const struct tw_mrapi_request *r);
/* No further part begins. */
void tw_mrapi_move_stop(struct tw_mrapi_request *r);
/* Ends the threads; without the mutex. */
void tw_mrapi_movers_end(void);
void tw_mrapi_movers_forked(void);

/* ---- requests.c */

/* Nothing of the request is left, or under way. */
void tw_mrapi_request_over(struct tw_mrapi_request *r);

#endif /* TW_MRAPI_REQUESTS_H */
