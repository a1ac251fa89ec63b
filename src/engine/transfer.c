/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages whose requests do not end at once: long ones, and sends that wait until
 * they are matched. The sender announces; the receiver, once it has a match, gets the
 * data from the sender's memory, or asks for it (CTS, then DATA), or for a part of it
 * to be written (SHARE, then PUT). Nothing is sent from inside an arrival: the request
 * goes into a state in which a packet is due, which tw_transfer_flush() sends.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define LEAD 4096 /* the receiver of a split starts earlier, by about so many bytes */

/* Where a request is in each state, what it counts as, and which packet is due. */
enum where { NOWHERE, WAITING, REPLYING, PULLING, PUSHING };

/*
 * Passive: the other side does all that is left, and rings if it wants something else.
 * That does not hold where links are not by_cpu, or for an interface that acts on what
 * ends.
 */
enum counted { UNCOUNTED, PASSIVE, ACTIVE, AS_BEFORE };
enum payload { NOTHING, OWN_REF, SHARE, MATCH };

#define DUE(packet, flags, cls, payload, counted)                                                  \
	{                                                                                          \
		REPLYING, counted, packet, flags, cls, payload                                     \
	}

static const struct state {
	uint8_t where, counted, packet, flags, cls, payload;
} states[TW_NXFERS] = {
	[TW_XFER_UNMATCHED] = {.where = WAITING, .counted = PASSIVE},
	[TW_XFER_UNMATCHED_CANCEL_DUE] = DUE(TW_CANCEL, 0, TW_SEND_CONTROL, MATCH, AS_BEFORE),
	[TW_XFER_ANNOUNCED] = {.where = WAITING, .counted = PASSIVE},
	[TW_XFER_ANNOUNCED_CANCEL_DUE] = DUE(TW_CANCEL, 0, TW_SEND_CONTROL, MATCH, AS_BEFORE),
	[TW_XFER_SENDING] = {.where = PUSHING, .counted = ACTIVE},
	[TW_XFER_PUTTING] = {.where = PUSHING, .counted = ACTIVE},
	[TW_XFER_PUTTING_ALL] = {.where = PUSHING, .counted = ACTIVE},
	[TW_XFER_PUT_DUE] = DUE(TW_PUT, TW_DONE_OK, TW_SEND_CONTROL, NOTHING, ACTIVE),
	/* A receiver that has nothing left to do need not be rung. */
	[TW_XFER_PUT_ALL_DUE] = DUE(TW_PUT, TW_DONE_OK, TW_SEND_NOTICE, NOTHING, ACTIVE),
	[TW_XFER_PUT_FAILED_DUE] = DUE(TW_PUT, TW_DONE_FAILED, TW_SEND_CONTROL, NOTHING, ACTIVE),
	/* A packet that only ends a send waits until its program looks. */
	[TW_XFER_ACK_DUE] = DUE(TW_ACK, 0, TW_SEND_NOTICE, NOTHING, UNCOUNTED),
	[TW_XFER_CTS_DUE] = DUE(TW_CTS, 0, TW_SEND_CONTROL, OWN_REF, ACTIVE),
	[TW_XFER_COPYING] = {.where = WAITING, .counted = ACTIVE},
	[TW_XFER_GETTING] = {.where = PULLING, .counted = ACTIVE},
	[TW_XFER_DRAINING] = {.where = WAITING, .counted = ACTIVE},
	[TW_XFER_SHARE_DUE] = DUE(TW_SHARE, 0, TW_SEND_CONTROL, SHARE, ACTIVE),
	[TW_XFER_SHARE_ALL_DUE] = DUE(TW_SHARE, 0, TW_SEND_CONTROL, SHARE, ACTIVE),
	[TW_XFER_SPLIT] = {.where = PULLING, .counted = ACTIVE},
	[TW_XFER_SPLIT_WAIT] = {.where = WAITING, .counted = ACTIVE},
	[TW_XFER_WRITTEN] = {.where = WAITING, .counted = PASSIVE},
	[TW_XFER_DONE_DUE] = DUE(TW_DONE, TW_DONE_OK, TW_SEND_NOTICE, NOTHING, ACTIVE),
	[TW_XFER_DONE_FAILED_DUE] = DUE(TW_DONE, TW_DONE_FAILED, TW_SEND_NOTICE, NOTHING, ACTIVE),
	[TW_XFER_DYING] = {.where = WAITING, .counted = AS_BEFORE},
	[TW_XFER_CANCELLED_DUE] =
		DUE(TW_CANCELLED, TW_CANCEL_OK, TW_SEND_CONTROL, NOTHING, UNCOUNTED),
	[TW_XFER_LATE_DUE] = DUE(TW_CANCELLED, TW_CANCEL_LATE, TW_SEND_CONTROL, NOTHING, UNCOUNTED),
	[TW_XFER_ACCESS] = {.where = PULLING, .counted = AS_BEFORE},
	[TW_XFER_ACCESS_DRAINING] = {.where = WAITING, .counted = AS_BEFORE},
};

/* The actions ---------------------------------------------------------------- */

/* The request is on no list and counts no longer. */
static void stop(struct tw_peer *p, struct tw_req *r)
{
	if (states[r->state].counted != UNCOUNTED) {
		p->ep->nmoving--;
		p->ep->nactive -= r->active;
		tw_transfer_forget(p, r);
	}
	r->state = TW_XFER_NONE;
}

static void end_send(struct tw_peer *p, struct tw_req *r, enum tw_status status)
{
	stop(p, r);
	p->ep->gauges[TW_G_SENDS]--;
	r->xfer_len = status == TW_S_OK ? r->len : 0;
	tw_req_complete(p->ep, r, status);
}

static void sent(struct tw_peer *p, struct tw_req *r)
{
	end_send(p, r, TW_S_OK);
}

static void not_read(struct tw_peer *p, struct tw_req *r)
{
	end_send(p, r, TW_S_ABORTED);
}

static void recalled(struct tw_peer *p, struct tw_req *r)
{
	end_send(p, r, (enum tw_status)r->status);
}

static void expired(struct tw_peer *p, struct tw_req *r)
{
	end_send(p, r, TW_S_TIMEOUT);
}

static void asked(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->asked++;
}

static void received(struct tw_peer *p, struct tw_req *r)
{
	stop(p, r);
	tw_recv_finish(p->ep, r);
}

static void acknowledged(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[TW_C_ACK_SENT]++;
	received(p, r);
}

static void aborted(struct tw_peer *p, struct tw_req *r)
{
	stop(p, r);
	r->xfer_len = 0;
	tw_req_complete(p->ep, r, TW_S_ABORTED);
}

static void answered(struct tw_peer *p, struct tw_req *r)
{
	tw_req_free(p->ep, r);
}

static void learn(struct tw_peer *p, const struct tw_req *r)
{
	if ((r->flags & TW_R_SAMPLE) && p->ep->nmoving == 1)
		tw_choose_sample(&p->choose, (enum tw_proto)r->proto, r->xfer_len,
				 tw_clock() - r->started);
}

static void asked_for(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->ep->counters[TW_C_RNDV_PUSH]++;
}

static void copied(struct tw_peer *p, struct tw_req *r)
{
	learn(p, r);
	received(p, r);
}

static void got(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[r->proto == TW_PROTO_SPLIT ? TW_C_RNDV_SPLIT : TW_C_RNDV_PULL]++;
	learn(p, r);
}

/* The data can still be sent. */
static void ask_instead(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[TW_C_PULL_REFUSED]++;
	r->proto = TW_PROTO_COPY;
	r->at = 0;
	r->flags &= (uint8_t)~TW_R_SAMPLE;
}

static void shared(struct tw_peer *p, struct tw_req *r)
{
	(void)r;
	p->shares++;
}

static void put_over(struct tw_peer *p, struct tw_req *r)
{
	p->shares--;
	tw_transfer_settle(p, r);
}

/* The receiver also reads what the sender could not write. */
static void get_rest(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[TW_C_PUT_FAILED]++;
	p->cannot_put = true;
	r->flags &= (uint8_t)~TW_R_SAMPLE;
	r->proto = TW_PROTO_GET;
	r->until = r->xfer_len;
	put_over(p, r);
}

static void written(struct tw_peer *p, struct tw_req *r)
{
	p->shares--;
	got(p, r);
	received(p, r);
}

static void accessed(struct tw_peer *p, struct tw_req *r)
{
	static const uint8_t status_of[TW_NERRS] = {
		[TW_EPERM] = TW_S_REJECTED, [TW_EFAULT] = TW_S_ABORTED};

	stop(p, r);
	tw_req_complete(p->ep, r, (enum tw_status)status_of[r->failed]);
}

/* The table ------------------------------------------------------------------ */

/*
 * In that state, if that happens: go there and do this. An event without a rule cannot
 * happen, or is a packet that the peer may not send: TW_EPROTO, and nothing changes.
 */
#define ON(state, event, there, action) [TW_XFER_##state][TW_ON_##event] = {action, TW_XFER_##there}

const struct tw_transfer_rule tw_transfer_rules[TW_NXFERS][TW_NONS] = {
	/* A send that ends when it is matched: all of it has left. */
	ON(NONE, LEFT, UNMATCHED, NULL),
	ON(UNMATCHED, ACK, OVER, sent),
	ON(UNMATCHED, RECALL, UNMATCHED_CANCEL_DUE, NULL),
	ON(UNMATCHED, CANCELLED, OVER, recalled),
	ON(UNMATCHED, EXPIRED, OVER, expired),
	ON(UNMATCHED_CANCEL_DUE, SAID, UNMATCHED, asked),
	ON(UNMATCHED_CANCEL_DUE, ACK, OVER, sent),
	ON(UNMATCHED_CANCEL_DUE, CANCELLED, OVER, recalled),

	/* A long send. The receiver's wish comes before the recall. */
	ON(NONE, ANNOUNCE, ANNOUNCED, NULL),
	ON(ANNOUNCED, CTS, SENDING, NULL),
	ON(ANNOUNCED, SHARE, PUTTING, NULL),
	ON(ANNOUNCED, SHARE_ALL, PUTTING_ALL, NULL),
	ON(ANNOUNCED, DONE, OVER, sent),
	ON(ANNOUNCED, DONE_FAILED, OVER, not_read),
	ON(ANNOUNCED, RECALL, ANNOUNCED_CANCEL_DUE, NULL),
	ON(ANNOUNCED, CANCELLED, OVER, recalled),
	/* Memory that the peer may read any moment stays the request's. */
	ON(ANNOUNCED, EXPIRED, ANNOUNCED, NULL),
	ON(ANNOUNCED_CANCEL_DUE, SAID, ANNOUNCED, asked),
	ON(ANNOUNCED_CANCEL_DUE, CTS, SENDING, NULL),
	ON(ANNOUNCED_CANCEL_DUE, SHARE, PUTTING, NULL),
	ON(ANNOUNCED_CANCEL_DUE, SHARE_ALL, PUTTING_ALL, NULL),
	ON(ANNOUNCED_CANCEL_DUE, DONE, OVER, sent),
	ON(ANNOUNCED_CANCEL_DUE, DONE_FAILED, OVER, not_read),
	ON(ANNOUNCED_CANCEL_DUE, CANCELLED, OVER, recalled),
	ON(SENDING, MOVED, OVER, sent),
	ON(PUTTING, MOVED, PUT_DUE, NULL),
	ON(PUTTING, PUT_REFUSED, PUT_FAILED_DUE, NULL),
	ON(PUTTING_ALL, MOVED, PUT_ALL_DUE, NULL),
	ON(PUTTING_ALL, PUT_REFUSED, PUT_FAILED_DUE, NULL),
	ON(PUT_DUE, SAID, ANNOUNCED, NULL),
	ON(PUT_FAILED_DUE, SAID, ANNOUNCED, NULL),
	ON(PUT_ALL_DUE, SAID, OVER, sent),

	/* The receive of a message whose sender waits for the match. */
	ON(NONE, MATCHED_SYNC, ACK_DUE, NULL),
	ON(ACK_DUE, SAID, OVER, acknowledged),

	/* The receive of a long one. */
	ON(NONE, MATCHED_EMPTY, DONE_DUE, NULL),
	ON(NONE, MATCHED_COPY, CTS_DUE, NULL),
	ON(CTS_DUE, SAID, COPYING, asked_for),
	ON(COPYING, DATA, COPYING, NULL),
	ON(COPYING, MOVED, OVER, copied),
	ON(NONE, MATCHED_GET, GETTING, NULL),
	ON(GETTING, ISSUED, DRAINING, NULL),
	ON(DRAINING, ISSUED, DRAINING, NULL),
	ON(DRAINING, GOT, DONE_DUE, got),
	ON(DRAINING, REFUSED, CTS_DUE, ask_instead),
	ON(DRAINING, FAULT, DONE_FAILED_DUE, NULL),
	ON(DRAINING, DYING, DYING, NULL),
	ON(NONE, MATCHED_SPLIT, SHARE_DUE, NULL),
	ON(SHARE_DUE, SAID, SPLIT, shared),
	ON(SPLIT, ISSUED, SPLIT_WAIT, NULL),
	ON(SPLIT, PUT, GETTING, put_over),
	ON(SPLIT, PUT_FAILED, GETTING, get_rest),
	ON(SPLIT_WAIT, ISSUED, SPLIT_WAIT, NULL),
	ON(SPLIT_WAIT, PUT, GETTING, put_over),
	ON(SPLIT_WAIT, PUT_FAILED, GETTING, get_rest),
	ON(NONE, MATCHED_WRITTEN, SHARE_ALL_DUE, NULL),
	ON(SHARE_ALL_DUE, SAID, WRITTEN, shared),
	ON(WRITTEN, PUT, OVER, written),
	ON(WRITTEN, PUT_FAILED, GETTING, get_rest),
	ON(DONE_DUE, SAID, OVER, received),
	ON(DONE_FAILED_DUE, SAID, OVER, aborted),

	/* A CANCEL has come, for a message that no receive has met, or for another. */
	ON(NONE, CANCEL, CANCELLED_DUE, NULL),
	ON(CANCELLED_DUE, SAID, OVER, answered),
	ON(NONE, CANCEL_LATE, LATE_DUE, NULL),
	ON(LATE_DUE, SAID, OVER, answered),

	/* An interface's access to remote memory. */
	ON(NONE, ACCESS, ACCESS, NULL),
	ON(ACCESS, ISSUED, ACCESS_DRAINING, NULL),
	ON(ACCESS_DRAINING, ISSUED, ACCESS_DRAINING, NULL),
	ON(ACCESS_DRAINING, GOT, OVER, accessed),
	ON(ACCESS_DRAINING, REFUSED, OVER, accessed),
	ON(ACCESS_DRAINING, FAULT, OVER, accessed),
	ON(ACCESS_DRAINING, DYING, DYING, NULL),
};

static void enter(struct tw_peer *p, struct tw_req *r, enum tw_transfer next)
{
	struct tw_list *const lists[] = {[WAITING] = &p->waiting,
					 [REPLYING] = &p->replying,
					 [PULLING] = &p->pulling,
					 [PUSHING] = &p->pushing};
	const struct state *from = &states[r->state], *to = &states[next];
	bool active = to->counted == ACTIVE || !p->link->by_cpu || tw_takes(p->ep);

	p->ep->nmoving += from->counted == UNCOUNTED && to->counted != UNCOUNTED;
	if (to->counted == PASSIVE || to->counted == ACTIVE) {
		p->ep->nactive += (uint32_t)active - (uint32_t)r->active;
		r->active = active;
	}
	if (from->where != to->where) {
		tw_list_del(&r->link);
		tw_list_add_tail(lists[to->where], &r->link);
	}
	if (to->where != WAITING)
		tw_peer_work(p);
	r->state = (uint8_t)next;
}

enum tw_err tw_transfer_step(struct tw_peer *p, struct tw_req *r, enum tw_transfer_event e)
{
	const struct tw_transfer_rule *rule = &tw_transfer_rules[r->state][e];

	if (rule->next == TW_XFER_NONE)
		return TW_EPROTO;
	if (rule->next == TW_XFER_OVER)
		tw_list_del(&r->link);
	else
		enter(p, r, (enum tw_transfer)rule->next);
	if (rule->action)
		rule->action(p, r);
	return TW_OK;
}

void tw_transfer_start(struct tw_peer *p, struct tw_req *r, struct tw_ref ref, uint64_t address,
		       const void *key, uint32_t key_len)
{
	static const uint8_t ways[] = {[TW_PROTO_SPLIT] = TW_ON_MATCHED_SPLIT,
				       [TW_PROTO_GET] = TW_ON_MATCHED_GET,
				       [TW_PROTO_COPY] = TW_ON_MATCHED_COPY};
	enum tw_transfer_event way = TW_ON_MATCHED_EMPTY;

	r->remote = ref;
	r->at = 0;
	r->proto = TW_PROTO_GET;
	if (!tw_transfer_keep(r, address, key, key_len))
		address = 0;
	if (r->xfer_len) {
		r->proto = (uint8_t)tw_transfer_proto(p, r, address);
		r->started = (r->flags & TW_R_SAMPLE) ? tw_clock() : 0;
		way = (enum tw_transfer_event)ways[r->proto];
	}
	if (r->proto == TW_PROTO_SPLIT && p->ep->host.state == TW_IDLE) {
		r->until = 0;
		way = TW_ON_MATCHED_WRITTEN;
	} else if (r->proto == TW_PROTO_SPLIT) {
		r->until = (r->xfer_len / 2 + LEAD) & ~(uint32_t)(LEAD - 1);
	}
	tw_transfer_step(p, r, way);
}

void tw_transfer_abandon(struct tw_req *r)
{
	if (TW_USES_NET && states[r->state].counted != UNCOUNTED)
		free(r->rma);
}

void tw_transfer_lost(struct tw_peer *p, struct tw_req *r, enum tw_status why)
{
	/* A receive that only has to acknowledge has all its data. */
	bool whole = r->state == TW_XFER_ACK_DUE || r->state == TW_XFER_DONE_DUE;

	if (r->kind == TW_SEND)
		p->ep->gauges[TW_G_SENDS]--;
	stop(p, r);
	if (whole) {
		tw_recv_finish(p->ep, r);
		return;
	}
	r->xfer_len = 0;
	tw_req_complete(p->ep, r, why);
}

/* Sending what is due --------------------------------------------------------- */

bool tw_transfer_reply(struct tw_peer *p, struct tw_req *r)
{
	const struct state *s = &states[r->state];
	struct tw_share share = {{r->obj.index, r->obj.gen}, 0, 0, 0};
	struct iovec iov = {&share, 0};
	struct tw_ref ref = s->packet == TW_CANCEL ? share.ref : r->remote;
	struct tw_hdr hdr = tw_hdr_make(s->packet, s->flags, 0,
					r->kind == TW_RECV ? r->xfer_len : 0, tw_ref_pack(ref));

	if (s->payload == OWN_REF) {
		iov.iov_len = sizeof(share.ref);
	} else if (s->payload == SHARE) {
		share.from = r->until;
		share.address = (uintptr_t)r->seg.ptr + r->until;
		iov.iov_len = sizeof(share);
	} else if (s->payload == MATCH) {
		iov = (struct iovec){&r->match, sizeof(r->match)};
	}
	if (p->link->provider->send(p->link, (enum tw_send_class)s->cls, hdr, &iov, iov.iov_len > 0,
				    (uint32_t)iov.iov_len) != TW_OK)
		return false;
	tw_transfer_step(p, r, TW_ON_SAID);
	return true;
}
