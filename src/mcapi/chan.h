/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels, their packets, and the ends of scalar channels. */
#ifndef TW_MCAPI_CHAN_H
#define TW_MCAPI_CHAN_H

#include "mcapi/node.h"

/* chan.c ------------------------------------------------------------------- */

void tw_mcapi_chan_init(struct tw_mcapi_chan *c);
/* True also if the open of that handle was cancelled. */
static inline bool tw_mcapi_chan_is(const struct tw_mcapi_chan *c, uint32_t handle,
				    enum tw_mcapi_kind type, bool sender)
{
	return c->handle == handle && c->open_type == type && c->open_sender == sender &&
	       c->open != TW_MCAPI_CH_SHUT;
}

/* True if both ends of the packet channel are open. */
static inline bool tw_mcapi_pkt_open(const struct tw_mcapi_chan *c, bool sender)
{
	const uint8_t open[] = {TW_MCAPI_CH_OPEN, sender, TW_MCAPI_K_PKT, false};

	return memcmp(c->state, open, sizeof(open)) == 0;
}

void tw_mcapi_chan_connect(enum tw_mcapi_kind type, mcapi_endpoint_t a, mcapi_endpoint_t b,
			   mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_open(enum tw_mcapi_kind type, bool sender, mcapi_endpoint_t endpoint,
			uint32_t *handle, mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_close(enum tw_mcapi_kind type, bool sender, uint32_t handle,
			 mcapi_request_t *request, mcapi_status_t *status);
void tw_mcapi_chan_cancel_open(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m);
/* Ends a binding whose end was not opened here. */
void tw_mcapi_chan_dissolve(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* Connected, or being connected. */
static inline bool tw_mcapi_chan_in_use(const struct tw_mcapi_endp *e)
{
	return e->chan.bound || e->chan.reserved;
}

/* The binding begins, and ends; an end that is being opened waits for the next binding. */
void tw_mcapi_chan_bound(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
void tw_mcapi_chan_unbind(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* At the nodes of the sender and of the receiver; and a control message of the other end. */
void tw_mcapi_chan_on_bind(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_chan_on_bind2(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_chan_on_peer(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl);
/* Sends a control message to the other end. */
void tw_mcapi_chan_ctrl_send(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			     enum tw_mcapi_ctrl_what what, uint32_t value);
/* A node is gone. */
void tw_mcapi_chan_lost(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t node);

/* pkt.c -------------------------------------------------------------------- */

/* Sends what has credit. */
void tw_mcapi_pkt_push(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* The receiver is gone: ends the sends that wait. */
void tw_mcapi_pkt_fail(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* A packet or scalar was received: the sender may get credit. */
void tw_mcapi_chan_return_credits(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
tw_shared void tw_mcapi_chan_took(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t count,
				  uint32_t window)
{
	struct tw_mcapi_chan *c = &e->chan;

	c->taken += count;
	if (tw_unlikely(c->taken > window / 4 || c->starved))
		tw_mcapi_chan_return_credits(n, e);
}

/* Sends STARVED for the channels that are credit-starved. */
void tw_mcapi_report_starved(struct tw_mcapi_node *n);

/* scl_end.c ---------------------------------------------------------------- */

/* Makes the end of a scalar channel; returns its handle, or 0. */
uint32_t tw_mcapi_scl_open(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, bool sender);
/* Adds to OPENED where the receiver's ring is. */
void tw_mcapi_scl_describe(struct tw_mcapi_endp *e, struct tw_mcapi_ctrl *ctrl);
/* The endpoint of an end, also of one that is closed; 0 if there never was one. */
mcapi_endpoint_t tw_mcapi_scl_endpoint(uint32_t handle);
/* Both ends are open. */
void tw_mcapi_scl_ready(struct tw_mcapi_node *n, struct tw_mcapi_endp *e);
/* The other end is closed. */
void tw_mcapi_scl_peer_closed(struct tw_mcapi_endp *e);
/* False: a call is inside, and this does not wait for it. */
bool tw_mcapi_scl_close(struct tw_mcapi_endp *e, bool wait);
/* The scalars at a receiving end; approximate while another thread receives. */
uint32_t tw_mcapi_scl_queued(const struct tw_mcapi_endp *e);
/* Whether this thread, interrupted by a signal, is inside an end of the node. */
bool tw_mcapi_scl_inside(const struct tw_mcapi_node *n);
void tw_mcapi_scl_on_ctrl(struct tw_mcapi_node *n, struct tw_mcapi_endp *e,
			  const struct tw_mcapi_ctrl *ctrl);
void tw_mcapi_scl_arrived(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, unsigned size,
			  uint64_t value);
void tw_mcapi_scl_forked(void);
void tw_mcapi_scl_forget(void); /* empties this thread's cache of known ends */

#endif /* TW_MCAPI_CHAN_H */
