/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control plane of an interface over an engine endpoint: members, which are connected
 * to when they are first needed, and controls between them, in order, some of them requests
 * with a reply. Controls are active messages. The interface knows their meaning, and where
 * in them a request has its number.
 *
 * Called with the endpoint's lock. The endpoint's owner begins with the group. The hooks of
 * the interface are tw_group_down() and tw_group_attend(), or call them, and its am_handler()
 * calls tw_member_met().
 */
#ifndef TW_GROUP_H
#define TW_GROUP_H

#include "engine/engine.h"

enum tw_member_state { TW_MEMBER_AWAY, TW_MEMBER_SEARCHING, TW_MEMBER_HERE, TW_MEMBER_LOST };

struct tw_member {
	struct tw_group *group;
	uint64_t where;	     /* NIC id << 16 | endpoint id */
	uint8_t state;	     /* enum tw_member_state */
	uint8_t why;	     /* enum tw_status of the last connect; TW_S_OK: it was here */
	bool starved;	     /* there was no memory for a control that had to be sent */
	struct tw_addr addr; /* while HERE */
	struct tw_op connected;
	struct tw_list out;  /* controls that have not left: active messages */
	struct tw_list link; /* on the group's list ready */
};

struct tw_group {
	struct tw_ep *ep;
	uint32_t filter;
	bool later; /* members may begin later: the first search tries again until the deadline */
	bool says;  /* lost() says why a member was not reached */
	bool attending;
	/* The interface's own deferred work, or NULL. */
	void (*work)(struct tw_group *g);
	/* It is connected: what waits for that may be sent. May be NULL. */
	void (*here)(struct tw_member *m);
	/* It cannot be reached, or is gone; its controls and requests have been ended. */
	void (*lost)(struct tw_member *m);
	struct tw_list ready, requests;
	uint32_t requested;
};

/* A request, in memory of the caller's until on_reply() is called or it is abandoned. */
struct tw_ctrl_request {
	struct tw_list link;
	struct tw_member *to;
	uint32_t number;
	/* NULL: the member is lost. */
	void (*on_reply)(struct tw_ctrl_request *r, const void *reply, uint32_t len);
};

/* Before the endpoint opens, which sets g->ep (struct tw_open). */
void tw_group_init(struct tw_group *g, uint32_t filter);
void tw_member_init(struct tw_group *g, struct tw_member *m, uint64_t where);

/* Connects to a member that is AWAY or LOST; of one that is LOST it does not try again. */
void tw_member_search(struct tw_member *m);
/* As tw_member_search(), and tries again for so long if that fails. */
void tw_member_search_for(struct tw_member *m, unsigned ms);
/* Has here() called by tw_group_attend(). */
void tw_member_ready(struct tw_member *m);
/* A packet has come from that peer, or it is connected: it is this member. */
void tw_member_met(struct tw_member *m, struct tw_addr addr);
/*
 * As tw_member_met(), where requests may not be collected: amid an arrival. If it has begun again,
 * lost() is called before all that concerns its former process has been collected.
 */
void tw_member_arrived(struct tw_member *m, struct tw_addr addr);
/*
 * Sends a control behind those before it; connects first. One to the own endpoint goes to
 * am_handler() from tw_group_attend(). False: no memory.
 */
bool tw_ctrl_send(struct tw_member *m, uint64_t arg, const void *ctrl, uint32_t len);
/* As tw_ctrl_send(). Without memory the member is lost: it would wait for the control for ever. */
void tw_ctrl_must_send(struct tw_member *m, uint64_t arg, const void *ctrl, uint32_t len);
/* Chooses the request's number; then the interface sends the control with it. */
void tw_ctrl_request(struct tw_ctrl_request *r, struct tw_member *to);
void tw_ctrl_abandon(struct tw_ctrl_request *r);
/* A reply has come: false if its sender has no request of that number. */
bool tw_ctrl_replied(struct tw_member *from, uint32_t number, const void *reply, uint32_t len);

/* Collects requests that have ended, and does all that is deferred. */
void tw_group_attend(struct tw_ep *ep);
/* As tw_group_attend(), at the end of a call, and leaves the endpoint. */
void tw_group_leave(struct tw_ep *ep);
void tw_group_down(struct tw_ep *ep, const struct tw_peer *p);
/* The same, of an interface whose receives do not end with a peer: standard error names it. */
void tw_group_down_said(struct tw_ep *ep, const struct tw_peer *p);
/* After a send to oneself: no doorbell announces it, nor what answers it. */
void tw_group_poll_self(struct tw_ep *ep);

#endif /* TW_GROUP_H */
