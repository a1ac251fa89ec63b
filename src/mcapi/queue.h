/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages and packets that have arrived, and the credits of their senders. */
#ifndef TW_MCAPI_QUEUE_H
#define TW_MCAPI_QUEUE_H

#include "mcapi/node.h"

/* Match information: all messages for an endpoint, those of one priority; its packets. */
#define TW_MCAPI_ANY_PRIO 0xf0000000ffff0000
#define TW_MCAPI_ONE_PRIO 0xff000000ffff0000
#define TW_MCAPI_TO_PORT TW_MCAPI_ANY_PRIO

static inline uint64_t tw_mcapi_msgs_of(const struct tw_mcapi_endp *e, unsigned prio)
{
	return tw_mcapi_match(TW_MCAPI_K_MSG, prio, 0, e->handle, 0);
}

static inline uint64_t tw_mcapi_packets_of(const struct tw_mcapi_endp *e)
{
	return tw_mcapi_match(TW_MCAPI_K_PKT, 0, 0, e->handle, 0);
}

/* queue.c ------------------------------------------------------------------ */

/* Receives a message that is there, or waits for the next; false if there is no memory. */
bool tw_mcapi_msg_receive(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			  struct tw_mcapi_mreq *m);
bool tw_mcapi_pkt_receive(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			  struct tw_mcapi_mreq *m);
/* The channel begins, or ends: receives that wait take only its packets, or none. */
void tw_mcapi_pkt_repost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* Ends receives that wait; all: those too whose packet is on its way. */
void tw_mcapi_recvs_end(struct tw_mcapi_node *n, struct tw_list *recvs, mcapi_status_t status,
			bool all);
/* No packet is there, and none can come. */
bool tw_mcapi_pkt_drained(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e);
/* The end is closed: drops its packets, and ends the receives. */
void tw_mcapi_pkt_drop(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* Messages and packets that wait. */
uint32_t tw_mcapi_queued(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e);
enum tw_verdict tw_mcapi_unexpected(struct tw_ep *ep, struct tw_unexp_msg *u);
/* A packet becomes the program's. */
void tw_mcapi_outstanding_add(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/* The packet that the program holds at `buffer', now the caller's; NULL if there is none. */
struct tw_unexp_msg *tw_mcapi_outstanding_take(struct tw_mcapi_node *n, const void *buffer);
void tw_mcapi_outstanding_fini(struct tw_mcapi_node *n);

/* msg.c: the receiver grants the sender more credits. */
void tw_mcapi_on_more_credits(struct tw_mcapi_node *n, mcapi_endpoint_t to, uint32_t count);

/* credits.c ------------------------------------------------------------------- */

/* At the sender. */
void tw_mcapi_on_recall(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* At the receiver. */
void tw_mcapi_on_credit_request(struct tw_mcapi_node *n, uint32_t from,
				const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_on_return(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* A credit for a message of the node's own; false if there is none. */
bool tw_mcapi_credits_own(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* A message was received. */
void tw_mcapi_credits_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t from);
/* A node is gone; the number of buffers has changed. */
void tw_mcapi_credits_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node);
void tw_mcapi_credits_changed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* All buffers of this endpoint of the node are in use. */
bool tw_mcapi_credits_full(struct tw_mcapi_node *n, mcapi_endpoint_t to);

/* msg.c -------------------------------------------------------------------- */

/* NULL if nothing was sent there before. */
struct tw_mcapi_dest *tw_mcapi_dest_find(const struct tw_mcapi_node *n, mcapi_endpoint_t to);
/* The engine has not delivered it: says so of a message. */
void tw_mcapi_msg_lost(struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m);
/* Sends what waits, as far as there is credit. */
void tw_mcapi_msg_push(struct tw_mcapi_node *n, struct tw_mcapi_dest *d);

#endif /* TW_MCAPI_QUEUE_H */
