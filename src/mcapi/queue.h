/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages and packets that have arrived, and the credits of their senders. */
#ifndef TW_MCAPI_QUEUE_H
#define TW_MCAPI_QUEUE_H

#include "mcapi/node.h"

/* queue.c ------------------------------------------------------------------ */

/* A message or packet has arrived: queues, delivers or drops u. */
void tw_mcapi_queue_msg(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
void tw_mcapi_queue_packet(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/* The same from an endpoint of this node; false if there is no memory. */
bool tw_mcapi_queue_local(struct tw_mcapi_node *n, uint64_t match, const void *data, size_t len);
static inline struct tw_unexp_msg *tw_mcapi_queue_at(struct tw_list *l)
{
	return tw_container(l, struct tw_unexp_msg, unexp.all);
}

/* All its data is here. */
static inline bool tw_mcapi_queue_whole(const struct tw_unexp_msg *u)
{
	return u->have == u->len;
}

/* The next one to be received, or NULL. */
struct tw_unexp_msg *tw_mcapi_queue_next_msg(struct tw_mcapi_endp *e);
tw_shared struct tw_unexp_msg *tw_mcapi_queue_next_packet(struct tw_mcapi_endp *e)
{
	struct tw_unexp_msg *u = tw_mcapi_queue_at(e->packets.next);

	return !tw_list_empty(&e->packets) && tw_mcapi_queue_whole(u) ? u : NULL;
}

/* The number of messages at the head of a queue that are whole. */
unsigned tw_mcapi_queue_ready(const struct tw_list *l);
/* Makes a queued packet the program's; false if there is no memory. */
bool tw_mcapi_queue_claim(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u);
/* Takes it off the queue; its sender may get credit. */
void tw_mcapi_queue_take(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_unexp_msg *u);
/* Copies the message into the buffer of a receive and ends both. */
void tw_mcapi_queue_deliver(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m,
			    struct tw_unexp_msg *u);
/* Matches packets or messages with waiting receives. */
void tw_mcapi_queue_serve_packets(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_queue_serve_msgs(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_queue_drop(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, struct tw_list *l);
/* Drops a message; an announced one is received with length 0. */
void tw_mcapi_queue_refuse(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/*
 * Begins to fetch an announced message. Returns the message to queue in its place, or NULL.
 * then() is called when it is whole; or with it as `lost', to take it out of the queue.
 */
struct tw_unexp_msg *tw_mcapi_queue_fetch(struct tw_mcapi_node *n, struct tw_unexp_msg *u,
					  void (*then)(struct tw_mcapi_node *, void *whose,
						       struct tw_unexp_msg *lost),
					  void *whose);
/* Takes it out of its queue and drops it, when all its data is here. */
void tw_mcapi_queue_forget(struct tw_mcapi_node *n, struct tw_unexp_msg *u);
/* The same for a whole queue, without an engine endpoint. */
void tw_mcapi_queue_scrap(struct tw_list *l);
/* The packet that the program holds at `buffer', now the caller's; NULL if there is none. */
struct tw_unexp_msg *tw_mcapi_outstanding_take(struct tw_mcapi_node *n, const void *buffer);
void tw_mcapi_outstanding_fini(struct tw_mcapi_node *n);

/* credits.c ------------------------------------------------------------------- */

/* At the sender. */
void tw_mcapi_on_credit(struct tw_mcapi_node *n, mcapi_endpoint_t to, uint32_t count);
void tw_mcapi_on_recall(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* At the receiver. */
void tw_mcapi_on_credits(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_on_return(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl);
/* A message has arrived; one was received. */
void tw_mcapi_credits_arrived(struct tw_mcapi_endp *e, uint32_t from);
void tw_mcapi_credits_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t from);
/* A node is gone; there are fewer buffers; the endpoint is gone. */
void tw_mcapi_credits_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node);
void tw_mcapi_credits_changed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_credits_closed(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* Buffers that are neither in use nor granted. */
uint32_t tw_mcapi_credits_left(const struct tw_mcapi_endp *e);
/* All buffers of this endpoint of the node are in use. */
bool tw_mcapi_credits_full(const struct tw_mcapi_node *n, mcapi_endpoint_t to);

/* msg.c -------------------------------------------------------------------- */

/* NULL if nothing was sent there before. */
struct tw_mcapi_dest *tw_mcapi_dest_find(const struct tw_mcapi_node *n, mcapi_endpoint_t to);
/* Sends what waits, as far as there is credit. */
void tw_mcapi_msg_push(struct tw_mcapi_node *n, struct tw_mcapi_dest *d);

#endif /* TW_MCAPI_QUEUE_H */
