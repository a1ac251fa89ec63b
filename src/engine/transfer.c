/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages whose requests do not end at once: long ones, and sends that wait until
 * they are matched. The sender announces; the receiver, once it has a match, gets the
 * data from the sender's memory, or asks for it (CTS, then DATA). Nothing is sent from inside an arrival: the request
 * goes into a state in which a packet is due, which tw_transfer_flush() sends.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/recv.h"
#include "engine/trace.h"
#include "engine/window_internal.h"

/*
 * Passive: the other side does all that is left, and rings if it wants something else.
 * That does not hold where links are not by_cpu, or for an interface that acts on the
 * end of its requests.
 */
enum counted { UNCOUNTED, PASSIVE, ACTIVE };

/* clang-format off */
#define AT(list, counts) {.where = offsetof(struct tw_peer, list), .counted = counts}
#define DUE(...) {offsetof(struct tw_peer, replying), __VA_ARGS__}
/* clang-format on */
#define OWN_REF sizeof(struct tw_ref)

/* The list of its peer that a request is on in each state, and the packet that is due. */
static const struct state {
	uint16_t where; /* offset of the list; 0 none */
	uint8_t packet, flags, cls, payload, counted;
} states[TW_NXFERS] = {
	[TW_XFER_UNMATCHED] = AT(waiting, PASSIVE),
	[TW_XFER_ANNOUNCED] = AT(waiting, PASSIVE),
	[TW_XFER_SENDING] = AT(sending, ACTIVE),
	/* A packet that only ends a send waits until its program looks. */
	[TW_XFER_ACK_DUE] = DUE(TW_ACK, 0, TW_SEND_NOTICE, 0, UNCOUNTED),
	[TW_XFER_CTS_DUE] = DUE(TW_CTS, 0, TW_SEND_CONTROL, OWN_REF, ACTIVE),
	[TW_XFER_COPYING] = AT(waiting, ACTIVE),
	[TW_XFER_GETTING] = AT(moving, ACTIVE),
	[TW_XFER_DRAINING] = AT(waiting, ACTIVE),
	[TW_XFER_DONE_DUE] = DUE(TW_DONE, TW_DONE_OK, TW_SEND_NOTICE, 0, ACTIVE),
	[TW_XFER_DONE_FAILED_DUE] = DUE(TW_DONE, TW_DONE_FAILED, TW_SEND_NOTICE, 0, ACTIVE),
	[TW_XFER_CANCEL_DUE] = DUE(TW_CANCEL, 0, TW_SEND_CONTROL, 0, UNCOUNTED),
	[TW_XFER_CANCELLED_DUE] = DUE(TW_CANCELLED, TW_CANCEL_OK, TW_SEND_CONTROL, 0, UNCOUNTED),
	[TW_XFER_LATE_DUE] = DUE(TW_CANCELLED, TW_CANCEL_LATE, TW_SEND_CONTROL, 0, UNCOUNTED),
	[TW_XFER_ACCESS] = AT(moving, ACTIVE),
	[TW_XFER_ASKING] = AT(waiting, ACTIVE),
	[TW_XFER_ACCESS_DRAINING] = AT(waiting, ACTIVE),
	[TW_XFER_NOTIFY_DUE] = DUE(TW_WINDOW, TW_WINDOW_NOTIFY, TW_SEND_CONTROL, 0, ACTIVE),
};

/* The actions, which run in the next state --------------------------------------- */

static void ask_back(struct tw_peer *p, struct tw_req *r)
{
	if (tw_transfer_note(p, tw_req_ref(r), TW_ON_CANCEL))
		p->asked++;
	else
		r->flags &= (uint8_t)~TW_R_ASKED;
}

static void acknowledged(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->ep->counters[TW_C_ACK_SENT]++;
}

static void asked_for(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->ep->counters[TW_C_RNDV_COPY]++;
}

static void got(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->ep->counters[TW_C_RNDV_GET]++;
}

/* The data can still be sent. */
static void ask_instead(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[TW_C_GET_REFUSED]++;
	r->proto = TW_PROTO_COPY;
	r->at = 0;
}

/* The table ------------------------------------------------------------------ */

/*
 * ON: in that state, if that happens, go there and do this. END: do this, and the request
 * ends with that status. An event without a rule changes nothing; a packet without one is
 * a protocol error.
 */
#define AS_ASKED TW_NSTATUS /* the status that the recall, or the denial, has set */
#define ON(state, event, there, action)                                                            \
	[TW_XFER_##state][TW_ON_##event] = {action, TW_XFER_##there, 0}
#define END(state, event, action, status)                                                          \
	[TW_XFER_##state][TW_ON_##event] = {action, TW_XFER_OVER, status}

const struct tw_transfer_rule tw_transfer_rules[TW_NXFERS][TW_NONS] = {
	/* A send that ends when it is matched: all of it has left. */
	ON(NONE, LEFT, UNMATCHED, NULL),
	END(UNMATCHED, ACK, NULL, TW_S_OK),
	ON(UNMATCHED, RECALL, UNMATCHED, ask_back),
	END(UNMATCHED, CANCELLED, NULL, AS_ASKED),
	END(UNMATCHED, EXPIRED, NULL, TW_S_TIMEOUT),

	/* A long send. The peer may read its memory at any moment, so it does not expire. */
	ON(NONE, ANNOUNCE, ANNOUNCED, NULL),
	ON(ANNOUNCED, CTS, SENDING, NULL),
	END(ANNOUNCED, DONE, NULL, TW_S_OK),
	END(ANNOUNCED, DONE_FAILED, NULL, TW_S_ABORTED),
	ON(ANNOUNCED, RECALL, ANNOUNCED, ask_back),
	END(ANNOUNCED, CANCELLED, NULL, AS_ASKED),
	END(SENDING, MOVED_ALL, NULL, TW_S_OK),

	/* The receive of a message whose sender waits for the match. */
	ON(NONE, MATCHED_SYNC, ACK_DUE, NULL),
	END(ACK_DUE, SAID, acknowledged, TW_S_OK),

	/* The receive of a long one. */
	ON(NONE, EMPTY, DONE_DUE, NULL),
	ON(NONE, COPY, CTS_DUE, NULL),
	ON(CTS_DUE, SAID, COPYING, asked_for),
	ON(COPYING, DATA, COPYING, NULL),
	END(COPYING, MOVED_ALL, NULL, TW_S_OK),
	ON(NONE, GET, GETTING, NULL),
	ON(GETTING, ISSUED, DRAINING, NULL),
	ON(DRAINING, GOT, DONE_DUE, got),
	ON(DRAINING, REFUSED, CTS_DUE, ask_instead),
	ON(DRAINING, FAULT, DONE_FAILED_DUE, NULL),
	END(DONE_DUE, SAID, NULL, TW_S_OK),
	END(DONE_FAILED_DUE, SAID, NULL, TW_S_ABORTED),

	/* CANCEL, and the reply to one. */
	ON(NONE, CANCEL, CANCEL_DUE, NULL),
	END(CANCEL_DUE, SAID, NULL, TW_S_CANCELLED),
	ON(NONE, DROPPED, CANCELLED_DUE, NULL),
	END(CANCELLED_DUE, SAID, NULL, TW_S_CANCELLED),
	ON(NONE, NOT_FOUND, LATE_DUE, NULL),
	END(LATE_DUE, SAID, NULL, TW_S_CANCELLED),

	/* An access to a window. */
	ON(NONE, ACCESS, ACCESS, NULL),
	ON(ACCESS, ASK, ASKING, NULL),
	ON(ASKING, ANSWERED, ACCESS, NULL),
	ON(ACCESS, ISSUED, ACCESS_DRAINING, NULL),
	END(ACCESS_DRAINING, GOT, NULL, TW_S_OK),
	ON(ACCESS_DRAINING, GOT_NOTIFY, NOTIFY_DUE, NULL),
	END(NOTIFY_DUE, SAID, NULL, TW_S_OK),
	ON(ACCESS_DRAINING, REFUSED, ACCESS, TW_USES_WINDOWS ? tw_window_again : NULL),
	END(ACCESS_DRAINING, FAULT, NULL, TW_S_ABORTED),
	END(ACCESS_DRAINING, DENIED, NULL, AS_ASKED),
};

static void transfer_enter(struct tw_peer *p, struct tw_req *r, enum tw_transfer next)
{
	const struct state *from = &states[r->state], *to = &states[next];
	bool active = to->counted == ACTIVE ||
		      (to->counted == PASSIVE && (!p->link->by_cpu || p->ep->acts));

	p->ep->nactive += (uint32_t)active - (uint32_t)r->active;
	r->active = active;
	if (from->where != to->where) {
		tw_list_del(&r->link);
		tw_list_add_tail((struct tw_list *)((char *)p + to->where), &r->link);
	}
	if (to->where != offsetof(struct tw_peer, waiting))
		tw_peer_work(p);
	r->state = (uint8_t)next;
}

/* The request is on no list. */
static void transfer_end(struct tw_peer *p, struct tw_req *r, enum tw_status status)
{
	struct tw_ep *ep = p->ep;

	if (states[r->state].counted) {
		ep->nactive -= r->active;
		tw_transfer_forget(p, r);
	}
	r->state = TW_XFER_NONE;
	if (r->kind == TW_RECV && status == TW_S_OK) {
		tw_trace_ended(ep, r);
		tw_recv_complete(ep, r);
		return;
	}
	if (r->kind == TW_SEND)
		ep->gauges[TW_G_SENDS]--;
	r->xfer_len = status == TW_S_OK ? r->len : 0;
	tw_trace_ended(ep, r);
	tw_req_complete(ep, r, status);
}

enum tw_err tw_transfer_step(struct tw_peer *p, struct tw_req *r, enum tw_transfer_event e)
{
	const struct tw_transfer_rule *rule = &tw_transfer_rules[r->state][e];

	if (rule->next == TW_XFER_NONE)
		return TW_EPROTO;
	if (rule->next == TW_XFER_OVER)
		tw_list_del(&r->link);
	else
		transfer_enter(p, r, (enum tw_transfer)rule->next);
	if (rule->action)
		rule->action(p, r);
	if (rule->next == TW_XFER_OVER)
		transfer_end(p, r,
			     (enum tw_status)(rule->status == AS_ASKED ? r->status : rule->status));
	return TW_OK;
}

bool tw_transfer_note(struct tw_peer *p, struct tw_ref ref, enum tw_transfer_event e)
{
	struct tw_req *r = tw_req_new1(p->ep, TW_RECV, NULL, 0);

	if (!r)
		return false;
	tw_req_forget(r);
	r->peer = p;
	r->msg_len = 0;
	r->remote = ref;
	tw_transfer_step(p, r, e);
	return true;
}

void tw_transfer_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		       const void *key, uint32_t key_len)
{
	r->remote = ref;
	r->at = 0;
	if (!tw_transfer_keep(r, address, key, key_len))
		r->remote_address = 0;
	tw_transfer_step(p, r, tw_transfer_choose(p, r));
}

void tw_transfer_abandon(struct tw_req *r)
{
	if (tw_is_access(r))
		tw_window_abandon(r);
	else if (TW_USES_NET && states[r->state].counted)
		free(r->rma);
}

void tw_transfer_lost(struct tw_peer *p, struct tw_req *r, enum tw_status why)
{
	/* A receive that only has to acknowledge has all its data. */
	bool whole = r->state == TW_XFER_ACK_DUE || r->state == TW_XFER_DONE_DUE;

	transfer_end(p, r, whole ? TW_S_OK : why);
}

/* Sending what is due --------------------------------------------------------- */

bool tw_transfer_reply(struct tw_peer *p, struct tw_req *r)
{
	const struct state *s = &states[r->state];
	struct tw_ref ref = tw_req_ref(r);
	struct iovec iov = {&ref, s->payload};
	struct tw_hdr hdr = tw_hdr_make(s->packet, s->flags, 0,
					r->kind != TW_SEND ? r->xfer_len : 0,
					tw_ref_pack(r->remote));

	if (tw_packet_send(p, (enum tw_send_class)s->cls, hdr, &iov, s->payload > 0, s->payload) !=
	    TW_OK)
		return false;
	tw_transfer_step(p, r, TW_ON_SAID);
	return true;
}

/* Arrival -------------------------------------------------------------------- */

static enum tw_err clear_to_send(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr,
				 const void *data, uint32_t len)
{
	if (!tw_transfer_takes(r, TW_ON_CTS) || len != sizeof(r->remote) ||
	    tw_hdr_len(hdr) > r->len || !tw_hdr_len(hdr))
		return TW_EPROTO;
	memcpy(&r->remote, data, sizeof(r->remote));
	tw_transfer_forget(p, r);
	r->proto = TW_PROTO_COPY;
	r->xfer_len = tw_hdr_len(hdr);
	r->at = 0;
	return tw_transfer_step(p, r, TW_ON_CTS);
}

static enum tw_err take_data(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr,
			     const void *data, uint32_t len)
{
	if (!tw_transfer_takes(r, TW_ON_DATA) || tw_hdr_len(hdr) != r->at || !len ||
	    len > r->xfer_len - r->at)
		return TW_EPROTO;
	tw_req_scatter(r, r->at, data, len, NULL);
	r->at += len;
	return tw_transfer_step(p, r, r->at < r->xfer_len ? TW_ON_DATA : TW_ON_MOVED_ALL);
}

/* Packets that name a request. */
static enum tw_err for_request(struct tw_peer *p, struct tw_req *r, struct tw_hdr hdr,
			       const void *data, uint32_t len)
{
	bool ok = tw_hdr_flags(hdr) == TW_DONE_OK;

	switch (tw_hdr_type(hdr)) {
	case TW_CTS:
		return clear_to_send(p, r, hdr, data, len);
	case TW_DATA:
		return take_data(p, r, hdr, data, len);
	case TW_DONE:
		return tw_transfer_step(p, r, ok ? TW_ON_DONE : TW_ON_DONE_FAILED);
	default:
		return tw_transfer_step(p, r, TW_ON_ACK);
	}
}

enum tw_err tw_transfer_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			       uint32_t len)
{
	struct tw_req *r;

	switch (tw_hdr_type(hdr)) {
	case TW_CTS:
	case TW_DATA:
	case TW_DONE:
	case TW_ACK:
		r = tw_req_named(p, hdr.match);
		if (r)
			return for_request(p, r, hdr, payload, len);
		/* A send that was asked back need not have waited for its end. */
		return tw_hdr_type(hdr) == TW_ACK && p->asked ? TW_OK : TW_EPROTO;
	case TW_CREDIT:
		return TW_OK;
	case TW_CANCEL:
		return TW_USES_SYNC ? tw_withdraw_asked(p, hdr, len) : TW_EPROTO;
	case TW_CANCELLED:
		return TW_USES_SYNC ? tw_withdraw_answered(p, hdr) : TW_EPROTO;
	default:
		return TW_EPROTO;
	}
}
