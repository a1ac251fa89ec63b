/* SPDX-License-Identifier: BSD-2-Clause */
/* Non-blocking accesses: what their answers (mr_requests.c) and their movers share. */
#ifndef TW_MR_REQUESTS_H
#define TW_MR_REQUESTS_H

#include "mrapi/memory.h"

enum tw_mr_request_state { TW_MR_ENDED, TW_MR_UNDER_WAY, TW_MR_DONE, TW_MR_CANCELED };

struct tw_mr_request {
	struct tw_list link; /* of its client's queue while queued, or of the ended ones */
	uint32_t slot, gen;
	uint32_t me;
	enum tw_mr_request_state state;
	bool queued; /* parts of it have not begun */
	bool cancel; /* once it is over, it was cancelled */
	bool cached;
	unsigned running; /* parts under way */
	mrapi_status_t status;
	size_t moved;
	uint32_t piece, into; /* where the next part begins: pieces, and bytes of one */
	struct tw_mr_client *client;
	struct tw_mr_move m;
};

/* Guards requests and movers; signalled when a request is over. */
extern pthread_mutex_t tw_mr_requests_mutex;

/* ---- mr_movers.c, all under the mutex, which is left while bytes are moved */

/* Begins a request: small ones are over at once. */
void tw_mr_move_begin(struct tw_mr_request *r);
/* Moves a part of a queued request in the calling thread. */
void tw_mr_move_part(struct tw_mr_request *r);
/* Whether no thread is there that would move it. */
bool tw_mr_move_alone(const struct tw_mr_request *r);
/* Whether a waiter moves it faster than it would wait: nobody else is asked for its bytes. */
bool tw_mr_move_helps(const struct tw_mr_request *r);
/* No further part begins. */
void tw_mr_move_stop(struct tw_mr_request *r);
/* Ends the threads; without the mutex. */
void tw_mr_movers_end(void);
void tw_mr_movers_forked(void);

/* ---- mr_requests.c */

/* Nothing of the request is left, or under way. */
void tw_mr_request_over(struct tw_mr_request *r);

#endif /* TW_MR_REQUESTS_H */
