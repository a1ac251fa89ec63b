/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending. The ticket outlives the engine's request: when the request of a message that was
 * sent eagerly or put ends, the message has left, and the ticket waits on its peer's list
 * for the acknowledgement.
 */
#include <stdlib.h>

#include "panda/panda_internal.h"

/* Tickets --------------------------------------------------------------------- */

struct tw_panda_ticket *tw_panda_ticket_new(bool receive)
{
	struct tw_panda_ticket *t = tw_pool_get(&tw_panda.tickets);

	if (!t)
		return NULL;
	t->receive = receive;
	t->over = t->sending = t->called = false;
	tw_list_init(&t->link);
	return t;
}

void tw_panda_ticket_free(struct tw_panda_ticket *t)
{
	tw_list_del(&t->link);
	/* The number of a ticket comes back as late as can be. */
	tw_pool_put_last(&tw_panda.tickets, t);
}

/*
 * TW_PANDA_TICKET, and generation (10 bits) and index (20) under the salt: a message for a ticket
 * of a former process of this platform is for none of this one.
 */
int tw_panda_ticket_number(const struct tw_panda_ticket *t)
{
	uint32_t n = t->obj.gen >> 1 << TW_PANDA_INDEX_BITS | t->obj.index;

	return (int)(TW_PANDA_TICKET | ((n ^ tw_panda.salt) & TW_PANDA_TICKET_MASK));
}

static struct tw_panda_ticket *ticket_at(int ticket)
{
	uint32_t index = ((uint32_t)ticket ^ tw_panda.salt) & ((1u << TW_PANDA_INDEX_BITS) - 1);
	struct tw_panda_ticket *t;

	if (ticket < (int)TW_PANDA_TICKET ||
	    index >> TW_POOL_CHUNK_BITS >= tw_panda.tickets.nchunks)
		return NULL;
	t = tw_pool_at(&tw_panda.tickets, index);
	return t->obj.gen & 1 && tw_panda_ticket_number(t) == ticket ? t : NULL;
}

struct tw_panda_ticket *tw_panda_ticket_find(int ticket, bool receive)
{
	struct tw_panda_ticket *t = ticket_at(ticket);

	return t && t->receive == receive ? t : NULL;
}

bool tw_panda_ticket_over(struct tw_ep *ep, void *ticket)
{
	const struct tw_panda_ticket *t = ticket_at(*(int *)ticket);

	(void)ep;
	return !t || t->over;
}

void tw_panda_tickets_fini(void)
{
	struct tw_panda_ticket *t;

	for (uint32_t i = 0; (t = tw_pool_next(&tw_panda.tickets, &i));)
		if (t->receive)
			free(t->msg);
	tw_pool_fini(&tw_panda.tickets);
}

/* The send of a ticket that the program still holds; logs if there is none. */
static struct tw_panda_ticket *send_named(const char *function, int ticket)
{
	struct tw_panda_ticket *t = tw_panda_ticket_find(ticket, false);

	if (t && !t->called)
		return t;
	tw_log(TW_LOG_ERROR, "%s: %d is not the ticket of a send", function, ticket);
	return NULL;
}

/* Whether it is one that the receiver acknowledges. */
static bool named_acked(const char *function, int ticket)
{
	struct tw_panda_ticket *t = send_named(function, ticket);

	if (t && t->ack == PAN_MP_EXTERNAL)
		tw_log(TW_LOG_ERROR, "%s: the message was sent with PAN_MP_EXTERNAL", function);
	return t && t->ack != PAN_MP_EXTERNAL;
}

/* The life of a send ------------------------------------------------------------- */

void tw_panda_send_over(struct tw_ep *ep, struct tw_panda_ticket *t, bool lost)
{
	t->over = true;
	t->lost = lost;
	ep->events++;
	if (!t->called)
		return;
	/* The upcall means delivered, so a lost message has none. */
	if (lost || !t->upcall) {
		tw_panda_ticket_free(t);
		return;
	}
	tw_list_add_tail(&tw_panda.finished, &t->link);
	ep->attend = true;
}

static void panda_send_sent(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_panda_ticket *t = tw_container(op, struct tw_panda_ticket, sent);
	bool read_there = r->proto != TW_PROTO_COPY;

	t->sending = false;
	tw_panda.nsending--;
	ep->events++;
	if (r->status != TW_S_OK)
		tw_panda_send_over(ep, t, true);
	else if (t->ack == PAN_MP_EXTERNAL)
		return;
	else if (read_there)
		tw_panda_send_over(ep, t, false);
	else if (!tw_panda_is_current(t->peer, r->other))
		tw_panda_send_over(ep, t, true);
	else {
		tw_list_add_tail(&t->peer->unacked, &t->link);
		tw_panda_acknowledged(ep, t->peer, 0);
	}
}

bool tw_panda_launch(struct tw_ep *ep, struct tw_panda_ticket *t)
{
	struct tw_req *r = tw_req_new1(ep, TW_SEND, t->data, t->len);

	if (!r)
		return false;
	t->sending = true;
	tw_panda.nsending++;
	t->sent.done = panda_send_sent;
	r->context = &t->sent;
	r->match = tw_panda_match(t->port, tw_panda_acks_take(t->peer), t->ack);
	/* Upcalls and acknowledgements need progress there, even if no thread waits. */
	if (t->ack != PAN_MP_EXTERNAL || t->port < TW_PANDA_TICKET)
		r->flags = TW_R_URGENT;
	tw_send(ep, r, t->peer->m.addr);
	return true;
}

/* The calls ----------------------------------------------------------------------- */

int pan_mp_trailer(void)
{
	return 0; /* match information has it all: wire.h */
}

static const char *wrong_send(int cpu, int port, const void *data, int len, pan_mp_ack_t ack)
{
	if (cpu < 0 || (uint32_t)cpu >= tw_panda.job.size)
		return "there is no such platform";
	if (port <= 0)
		return "there is no such port";
	if (len < 0 || (len && !data))
		return "the data is a null pointer, or its length is negative";
	if ((unsigned)ack > PAN_MP_EXTERNAL)
		return "there is no such kind of acknowledgement";
	return NULL;
}

static struct tw_panda_ticket *panda_send(struct tw_ep *ep, struct tw_panda_peer *peer, int port,
					  void *data, int len, pan_mp_ack_t ack)
{
	struct tw_panda_ticket *t = tw_panda_ticket_new(false);

	if (!t)
		return NULL;
	t->peer = peer;
	t->port = (uint32_t)port;
	t->data = data;
	t->len = (uint32_t)len;
	t->ack = (uint8_t)ack;
	if (tw_unlikely(peer->m.state != TW_MEMBER_HERE || !tw_list_empty(&peer->out))) {
		tw_list_add_tail(&peer->out, &t->link);
		tw_member_search(&peer->m);
	} else if (tw_unlikely(!tw_panda_launch(ep, t))) {
		tw_panda_ticket_free(t);
		return NULL;
	}
	if (tw_unlikely(peer == &tw_panda.peers[tw_panda.job.rank]))
		tw_group_poll_self(ep);
	return t;
}

int pan_mp_send(int cpu, int port, void *data, int len, pan_mp_ack_t ack)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t = NULL;
	const char *wrong;
	int ticket = -1;

	if (!ep)
		return -1;
	wrong = wrong_send(cpu, port, data, len, ack);
	if (tw_likely(!wrong)) {
		t = panda_send(ep, &tw_panda.peers[cpu], port, data, len, ack);
		wrong = "no memory";
	}
	if (tw_likely(t != NULL))
		ticket = tw_panda_ticket_number(t);
	else
		tw_log(TW_LOG_ERROR, "pan_mp_send to platform %d, port %d: %s", cpu, port, wrong);
	tw_group_leave(ep);
	return ticket;
}

void pan_mp_async_send(int ticket, void (*upcall)(void *arg), void *arg)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t;

	if (!ep)
		return;
	t = send_named(__func__, ticket);
	if (t) {
		t->called = true;
		t->upcall = upcall;
		t->arg = arg;
		if (t->over)
			tw_panda_send_over(ep, t, t->lost);
	}
	tw_group_leave(ep);
}

/* Ends the ticket of a send that is over: 1 if the message has arrived, -1 if it is lost. */
static int end_send(int ticket)
{
	struct tw_panda_ticket *t = tw_panda_ticket_find(ticket, false);
	int outcome;

	if (!t)
		return -1;
	outcome = t->lost ? -1 : 1;
	tw_panda_ticket_free(t);
	return outcome;
}

static int finish_send(const char *function, int ticket)
{
	struct tw_ep *ep = tw_panda_enter(function);
	int outcome = -1;

	if (!ep)
		return -1;
	if (named_acked(function, ticket)) {
		if (!tw_panda_wait(ep, tw_panda_ticket_over, &ticket))
			return -1;
		outcome = end_send(ticket);
	}
	tw_group_leave(ep);
	return outcome;
}

void pan_mp_finish_send(int ticket)
{
	finish_send(__func__, ticket);
}

int pan_mp_confirm_send(int ticket)
{
	return finish_send(__func__, ticket);
}

int pan_mp_poll_send(int ticket)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	int outcome = -1;

	if (!ep)
		return -1;
	if (named_acked(__func__, ticket)) {
		tw_panda_poll(ep);
		outcome = tw_panda_ticket_over(ep, &ticket) ? end_send(ticket) : 0;
	}
	tw_panda_leave_poll(ep);
	return outcome;
}

/* The message has arrived, but its request may not have ended. */
static bool data_is_free(struct tw_ep *ep, void *arg)
{
	struct tw_panda_ticket *t = tw_panda_ticket_find(*(int *)arg, false);

	(void)ep;
	return !t || t->over || (!t->sending && tw_list_empty(&t->link));
}

void pan_mp_ack_send(int ticket)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t;

	if (!ep)
		return;
	t = tw_panda_ticket_find(ticket, false);
	if (t && t->ack == PAN_MP_EXTERNAL && !(t->called && t->over)) {
		if (!tw_panda_wait(ep, data_is_free, &ticket))
			return;
		t = tw_panda_ticket_find(ticket, false);
		if (t && t->called)
			tw_panda_send_over(ep, t, t->lost);
		else if (t)
			tw_panda_ticket_free(t);
	} else {
		tw_log(TW_LOG_ERROR, "%s: %d is not the ticket of a send with PAN_MP_EXTERNAL",
		       __func__, ticket);
	}
	tw_group_leave(ep);
}
