/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests, and waiting. */
#ifndef TW_MCAPI_REQ_H
#define TW_MCAPI_REQ_H

#include "mcapi/node.h"

/* The engine has a message for it, or of it: too late to cancel. */
static inline bool tw_mcapi_mreq_bound(const struct tw_mcapi_mreq *m)
{
	return m->carrier && !(m->carrier->flags & TW_R_POSTED);
}

/* NULL if there are no more. */
struct tw_mcapi_mreq *tw_mcapi_mreq_new(struct tw_mcapi_node *n, enum tw_mcapi_mreq_kind kind);
void tw_mcapi_mreq_init(struct tw_mcapi_mreq *m, enum tw_mcapi_mreq_kind kind);
void tw_mcapi_mreq_free(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m);
void tw_mcapi_mreq_done(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_status_t status,
			size_t size);
mcapi_request_t tw_mcapi_mreq_handle(const struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m);
/* A send that waited has returned that status. */
void tw_mcapi_mreq_sent(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_status_t status);
/* Asks another node; m ends with the status of the reply, and its value as the size. */
void tw_mcapi_mreq_ask(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, uint32_t to,
		       const struct tw_mcapi_ctrl *ctrl);
/* Ends sends that wait. */
void tw_mcapi_sends_end(struct tw_mcapi_node *n, struct tw_list *sends, mcapi_status_t status);
/* Pushes from tw_group_attend(), for callers that may not send. */
static inline void tw_mcapi_push_soon(struct tw_mcapi_node *n, struct tw_list *pushes,
				      struct tw_list *push)
{
	if (tw_list_empty(push))
		tw_list_add_tail(pushes, push);
	n->ep->attend = true;
}

/*
 * The operation has returned *status, MCAPI_INCOMPLETE if m ends later: the program gets the
 * request, or it is freed. NULL: *status is an error.
 */
void tw_mcapi_mreq_started(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, size_t size,
			   mcapi_request_t *request, mcapi_status_t *status);
/*
 * Sends to a node. MCAPI_INCOMPLETE: m ends when the send ends, with `lost' if the node is
 * gone. MCAPI_ENO_MEM: nothing was done.
 */
mcapi_status_t tw_mcapi_mreq_carry(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
				   const void *data, size_t size, uint64_t match, uint32_t to,
				   mcapi_status_t lost);
/* The timeout is in milliseconds; negative: none. */
enum tw_waited tw_mcapi_wait(struct tw_mcapi_node *n, bool (*test)(struct tw_ep *, void *),
			     void *arg, int timeout);
/* Waits for the end of an operation on the caller's stack and returns its status. */
mcapi_status_t tw_mcapi_mreq_wait(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, int timeout,
				  mcapi_status_t closed);

#endif /* TW_MCAPI_REQ_H */
