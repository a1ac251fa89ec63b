/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a message goes whose request does not end at once. transfer.c has the table of
 * states, transfer_move.c moves the bytes.
 */
#ifndef TW_TRANSFER_H
#define TW_TRANSFER_H

#include "engine/types.h"

/* A state whose name ends in DUE sends that packet as soon as there is room. */
enum tw_transfer {
	TW_XFER_NONE, /* not begun, or over; in the table: an event that must not be */
	TW_XFER_OVER, /* in the table only: the action ends the request */
	/* Of a send. */
	TW_XFER_UNMATCHED, /* all data has left; it ends when it is matched */
	TW_XFER_ANNOUNCED, /* the receiver decides what comes next */
	TW_XFER_SENDING,   /* DATA packets */
	/* Of a receive. */
	TW_XFER_ACK_DUE,
	TW_XFER_CTS_DUE,
	TW_XFER_COPYING,  /* DATA packets come */
	TW_XFER_GETTING,  /* pieces are still to be asked for */
	TW_XFER_DRAINING, /* all are; some are under way */
	TW_XFER_DONE_DUE,
	TW_XFER_DONE_FAILED_DUE,
	/* Of a request made for one packet. */
	TW_XFER_CANCEL_DUE,
	TW_XFER_CANCELLED_DUE,
	TW_XFER_LATE_DUE,
	/* Of an access to a window of the peer; ASKING waits for what window.c has asked. */
	TW_XFER_ACCESS,
	TW_XFER_ASKING,
	TW_XFER_ACCESS_DRAINING,
	TW_XFER_NOTIFY_DUE,
	TW_NXFERS
};

enum tw_transfer_event {
	/* A send has left, or its announcement. */
	TW_ON_LEFT,
	TW_ON_ANNOUNCE,
	/* A receive is matched with a message that is here. */
	TW_ON_MATCHED_SYNC,
	/* With an announced one, and a protocol is chosen, or none is needed. */
	TW_ON_EMPTY,
	TW_ON_COPY,
	TW_ON_GET,
	/* A CANCEL is to be sent; one has come, and its message was dropped, or matched before. */
	TW_ON_CANCEL,
	TW_ON_DROPPED,
	TW_ON_NOT_FOUND,
	TW_ON_ACCESS,
	/* The packet that is due has been sent. */
	TW_ON_SAID,
	/* All bytes of this side have moved, or all of the message. */
	TW_ON_MOVED_ALL,
	/* All gets have begun; then, how gets ended, and puts. */
	TW_ON_ISSUED,
	TW_ON_GOT,
	TW_ON_GOT_NOTIFY, /* a put, of which the peer is to be told */
	TW_ON_REFUSED,
	TW_ON_FAULT,
	TW_ON_DENIED,
	/* A window must be asked for; the answer is there. */
	TW_ON_ASK,
	TW_ON_ANSWERED,
	/* The send is to be asked back; its time is up without an answer. */
	TW_ON_RECALL,
	TW_ON_EXPIRED,
	/* Packets. */
	TW_ON_CTS,
	TW_ON_DONE,
	TW_ON_DONE_FAILED,
	TW_ON_ACK,
	TW_ON_DATA,
	TW_ON_CANCELLED,
	TW_NONS
};

struct tw_transfer_rule {
	void (*action)(struct tw_peer *p, struct tw_req *r); /* in the next state; or NULL */
	uint8_t next;	/* enum tw_transfer; NONE: there is no rule */
	uint8_t status; /* enum tw_status that the request ends with */
};
extern const struct tw_transfer_rule tw_transfer_rules[TW_NXFERS][TW_NONS];

/* Whether the table has a rule for an event in the state of a request. */
static inline bool tw_transfer_takes(const struct tw_req *r, enum tw_transfer_event e)
{
	return tw_transfer_rules[r->state][e].next != TW_XFER_NONE;
}

/* Applies the rule, which may end the request. TW_EPROTO: there is none. */
enum tw_err tw_transfer_step(struct tw_peer *p, struct tw_req *r, enum tw_transfer_event e);
/* Makes a request for one packet, which begins with that. False without memory. */
bool tw_transfer_note(struct tw_peer *p, struct tw_ref ref, enum tw_transfer_event e);
/* A receive has met an announcement; key_len bytes of remote key. */
void tw_transfer_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		       const void *key, uint32_t key_len);
/* Sends what is due; false when there is no room. */
bool tw_transfer_reply(struct tw_peer *p, struct tw_req *r);
/* The peer is gone, and the request on no list. */
void tw_transfer_lost(struct tw_peer *p, struct tw_req *r, enum tw_status why);
/* The endpoint is gone: frees what a request owns. */
void tw_transfer_abandon(struct tw_req *r);

enum tw_err tw_transfer_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			       uint32_t len);

/* transfer_move.c ----------------------------------------------------------- */

/* How announced messages go over a link; AUTO: for each the next function decides. */
static inline enum tw_rndv tw_transfer_way(const struct tw_link *l, uint8_t rndv)
{
	if (!l->can_get || rndv == TW_RNDV_COPY)
		return TW_RNDV_COPY;
	return l->by_cpu ? (enum tw_rndv)rndv : TW_RNDV_GET;
}

/* Chooses the protocol for a receive that has met an announcement. */
enum tw_transfer_event tw_transfer_choose(struct tw_peer *p, struct tw_req *r);
/* Lets the other side read the data of a send; 0 if it cannot. */
uint64_t tw_transfer_expose(struct tw_peer *p, struct tw_req *r);
/* Keeps what a receive needs to know of the sender's memory; false without memory. */
bool tw_transfer_keep(struct tw_req *r, uint64_t address, const void *key, uint32_t key_len);
/* Frees what a request has of remote memory. */
void tw_transfer_forget(struct tw_peer *p, struct tw_req *r);
/* Sends and moves what there is room for; whether anything moved. */
bool tw_transfer_flush(struct tw_peer *p);
/* Goes on where gets have begun, ended or become necessary. */
void tw_transfer_continue(struct tw_peer *p, struct tw_req *r);
/* A get or put has begun, or failed with err; false when there is no room for it. */
bool tw_transfer_begun(struct tw_peer *p, struct tw_req *r, enum tw_err err, uint32_t bytes);
void tw_transfer_ended(struct tw_link *link, void *cookie, enum tw_err err);

#endif /* TW_TRANSFER_H */
