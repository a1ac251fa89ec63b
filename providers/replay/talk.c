/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two endpoints say to each other beside their packets.
 *
 *   CONNECT -> ACCEPT, or REFUSE or WRONG
 *                                 with the fabric offered; where that is refused
 *                                 (TW_EPROTO) the next one is, by another call;
 *                                 then probes go along the new path, and nothing
 *                                 else before they have come through both ways
 *   RESUME -> RESUMED             the same for a link that exists: each tells
 *                                 what it expects, the rest is sent again. When
 *                                 both ask at once, who connected goes on
 *   STATUS                        how far are you; or: one is missing
 *   BYE                           what comes before it still counts. Where a path is
 *                                 being looked for, only once there is one
 */
#include <string.h>
#include <sys/socket.h>

#include "providers/replay/replay.h"

#define ANSWER_US 3000000 /* for an answer, and for a probe to come through */
#define PATIENCE 3u	  /* times that it is doubled: where all is slow it must end */

static void fill(struct tw_rp_link *l, struct tw_rp_talk *t, enum tw_rp_word word)
{
	const struct tw_ident *me = &l->me;

	memset(t, 0, sizeof(*t));
	t->magic = TW_RP_MAGIC;
	t->version = TW_RP_VERSION;
	t->word = (uint16_t)word;
	t->nic_id = me->nic_id;
	t->endpoint_id = me->endpoint_id;
	t->session = me->session;
	t->filter = me->filter;
	t->key = me->key;
	t->window = me->window;
	t->to_nic = l->other.nic_id;
	t->to_endpoint = l->other.endpoint_id;
	t->to_session = l->other.session;
	t->job = tw_rp_job();
	t->conn = l->conn;
	t->to_conn = l->peer_conn;
	t->epoch = l->epoch;
	t->expected = l->expected;
	t->seq = l->next_seq;
	t->port = l->ep->port;
}

static struct tw_ident ident_of(const struct tw_rp_talk *t)
{
	return (struct tw_ident){t->nic_id, t->endpoint_id, t->session,
				 t->filter, t->key,	    t->window};
}

static void await(struct tw_rp_link *l)
{
	uint64_t wait = (uint64_t)ANSWER_US << tw_min(l->patience, PATIENCE);

	l->deadline = tw_clock() + tw_clock_us(wait);
	tw_rp_timer(l->ep, l->deadline);
}

static void put(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	if (!tw_rp_sock_write(l, t))
		tw_log(TW_LOG_DEBUG, "word %u to endpoint %u is lost", t->word,
		       l->other.endpoint_id);
}

void tw_rp_say(struct tw_rp_link *l, enum tw_rp_word word, enum tw_err why)
{
	struct tw_rp_talk t;

	if (l->sock < 0 || l->dialing)
		return;
	fill(l, &t, word);
	t.why = why;
	if (word == TW_RP_RESUME)
		t.round = ++l->round;
	if (word == TW_RP_CONNECT || word == TW_RP_RESUME)
		tw_rp_offer(l, &t);
	put(l, &t);
}

void tw_rp_begin(struct tw_rp_link *l)
{
	if (l->state == TW_RP_NEW) {
		tw_rp_say(l, TW_RP_CONNECT, TW_OK);
		return;
	}
	l->resuming = false;
	tw_rp_resume(l);
}

void tw_rp_resume(struct tw_rp_link *l)
{
	if (l->resuming || !tw_rp_stays(l))
		return;
	if (l->sock < 0 || l->dialing)
		return; /* once that has come about */
	l->resuming = true;
	await(l);
	tw_rp_say(l, TW_RP_RESUME, TW_OK);
}

void tw_rp_goodbye(struct tw_rp_link *l)
{
	if (l->hushed || l->sock < 0 || l->dialing)
		return;
	tw_rp_say(l, TW_RP_BYE, TW_OK);
	shutdown(l->sock, SHUT_WR);
	l->hushed = true;
}

static void probe(struct tw_rp_link *l)
{
	await(l);
	tw_rp_send_plain(l, TW_RP_PROBE);
	tw_rp_timer(l->ep, tw_clock() + tw_clock_us(TW_RP_PROBE_US));
}

/* To a caller who has shown no filter, or a wrong one: he learns nothing of us. */
static void deny(struct tw_rp_link *l, enum tw_rp_word word, enum tw_err why)
{
	struct tw_rp_talk t = {
		.magic = TW_RP_MAGIC, .version = TW_RP_VERSION, .word = (uint16_t)word, .why = why};

	put(l, &t);
	tw_rp_link_end(l);
}

/* Somebody wants to connect. */
static void answer(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	struct tw_rp_ep *ep = l->ep;
	const struct tw_ident *self = &ep->host->self;
	struct tw_rp_talk reply;
	enum tw_err err;

	l->me = *self;
	l->other = ident_of(t);
	l->peer_conn = t->conn;
	l->peer_port = t->port;
	if (t->job != tw_rp_job() || t->to_nic != self->nic_id ||
	    t->to_endpoint != self->endpoint_id) {
		deny(l, TW_RP_WRONG, TW_ECLOSED);
		return;
	}
	if (t->key != self->filter) {
		/* No reason to open a fabric; the engine counts, and refuses. */
		deny(l, TW_RP_REFUSE,
		     ep->host->up->incoming(ep->host, &l->link, &l->other, &l->me));
		return;
	}
	fill(l, &reply, TW_RP_ACCEPT);
	err = tw_rp_choose(l, t, &reply);
	if (err != TW_OK) {
		deny(l, TW_RP_REFUSE, err == TW_EUNREACH ? TW_EPROTO : err);
		return;
	}
	tw_rp_half_less(ep);
	l->state = TW_RP_UP;
	l->deadline = 0;
	err = ep->host->up->incoming(ep->host, &l->link, &l->other, &l->me);
	if (err == TW_OK) {
		reply.filter = l->me.filter;
		reply.window = l->me.window;
		put(l, &reply);
		return;
	}
	l->state = TW_RP_HALF;
	ep->nhalf++;
	deny(l, TW_RP_REFUSE, err);
}

static void accepted(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	struct tw_ident other = ident_of(t);

	if (other.nic_id != l->other.nic_id || other.endpoint_id != l->other.endpoint_id ||
	    tw_rp_chosen(l, t) != TW_OK) {
		tw_rp_link_fail(l, TW_EPROTO);
		return;
	}
	l->other = other;
	l->peer_conn = t->conn;
	l->peer_port = t->port;
	l->state = TW_RP_PROBING;
	probe(l);
}

static void refused(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	enum tw_err why = t->why > TW_PENDING && t->why < TW_NERRS ? (enum tw_err)t->why
								   : TW_EPROTO;
	bool other = t->word == TW_RP_REFUSE && why == TW_EPROTO && tw_rp_offers_left(l);

	if (l->state == TW_RP_NEW) {
		if (t->word == TW_RP_WRONG)
			tw_rp_dial_next(l);
		else if (other)
			tw_rp_dial_same(l);
		else
			tw_rp_link_fail(l, why);
	} else if (why == TW_ECROSS) {
		/* Its own call is on its way. */
		tw_rp_hang_up(l);
		l->resuming = false;
	} else if (other) {
		l->resuming = false;
		tw_rp_resume(l);
	} else {
		tw_rp_link_drain(l, TW_ELOST);
	}
}

/* The link that a caller wants to go on with. */
static struct tw_rp_link *known(struct tw_rp_ep *ep, const struct tw_rp_talk *t)
{
	struct tw_rp_link *l = tw_rp_link_find(ep, t->to_conn);

	if (!l || !tw_rp_stays(l) || l->me.session != t->to_session ||
	    l->other.session != t->session || l->peer_conn != t->conn)
		return NULL;
	return l;
}

static void resume(struct tw_rp_link *from, const struct tw_rp_talk *t)
{
	struct tw_rp_link *l = known(from->ep, t);
	struct tw_rp_talk reply;
	enum tw_err err = TW_ECLOSED;

	if (!l)
		goto refuse;
	/* Both ask at once: who connected goes on asking. */
	if (l->initiator && l->resuming) {
		if (from == l)
			return;
		err = TW_ECROSS;
		goto refuse;
	}
	if (from != l) {
		tw_rp_sock_adopt(l, from);
		tw_rp_link_end(from);
	}
	l->resuming = false;
	l->again = 0;
	fill(l, &reply, TW_RP_RESUMED);
	reply.round = t->round;
	if (tw_rp_choose(l, t, &reply) != TW_OK) {
		tw_rp_path_drop(l);
		tw_rp_say(l, TW_RP_REFUSE, TW_EPROTO);
		return;
	}
	tw_rp_acked(l, t->expected);
	/* Bound, and the rest sent again, when a probe comes through. */
	put(l, &reply);
	if (l->state == TW_RP_PROBING)
		await(l);
	return;
refuse:
	if (from->state == TW_RP_HALF)
		deny(from, TW_RP_REFUSE, err);
	else
		tw_rp_say(from, TW_RP_REFUSE, err);
}

static void resumed(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	/* To what was asked before: those offers are gone. */
	if (t->round != l->round)
		return;
	/* We have agreed on another path by now, which the other side has left. */
	if (!l->resuming) {
		tw_rp_path_broken(l);
		return;
	}
	/* Our offers are gone when their fabric was closed: once more. */
	if (tw_rp_chosen(l, t) != TW_OK) {
		tw_rp_path_drop(l);
		l->deadline = tw_clock() + tw_clock_us(TW_RP_PROBE_US);
		tw_rp_timer(l->ep, l->deadline);
		return;
	}
	tw_rp_acked(l, t->expected);
	probe(l);
}

static void status(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	switch (t->why) {
	case TW_AGAIN:
		if (l->bound)
			tw_rp_replay(l, t->expected);
		return;
	case TW_PENDING:
		tw_rp_say(l, TW_RP_STATUS, TW_OK);
		return;
	}
	l->nasked++;
	tw_rp_acked(l, t->expected);
	if (tw_list_empty(&l->kept) || !l->nasked || !l->bound)
		return;
	/* A slow fabric is no reason to hurry; one that stands still is. */
	if (l->nasked % 8 == 0)
		tw_rp_path_broken(l);
	else if (l->nasked % 2 == 0)
		tw_rp_replay(l, t->expected);
}

static void goodbye(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	switch (l->state) {
	case TW_RP_UP:
		l->orderly = true;
		l->final = t->seq;
		if (t->why == TW_OK)
			tw_rp_link_drain(l, TW_ECLOSED);
		else
			tw_rp_link_fail(l, TW_ELOST);
		break;
	case TW_RP_PROBING:
		tw_rp_link_fail(l, TW_ECLOSED);
		break;
	default:
		tw_rp_link_end(l);
	}
}

void tw_rp_heard(struct tw_rp_link *l, const struct tw_rp_talk *t)
{
	bool up = tw_rp_stays(l);
	bool caller = l->state == TW_RP_HALF;

	if (t->magic != TW_RP_MAGIC || t->version != TW_RP_VERSION || t->noffers > TW_RP_FABRICS ||
	    (caller && t->word != TW_RP_CONNECT && t->word != TW_RP_RESUME)) {
		tw_rp_lost(l, TW_EPROTO);
		return;
	}
	if (t->word == TW_RP_CONNECT && caller)
		answer(l, t);
	else if (t->word == TW_RP_RESUME && (caller || up))
		resume(l, t);
	else if (t->word == TW_RP_ACCEPT && l->state == TW_RP_NEW)
		accepted(l, t);
	else if ((t->word == TW_RP_REFUSE || t->word == TW_RP_WRONG) &&
		 (l->state == TW_RP_NEW || up))
		refused(l, t);
	else if (t->word == TW_RP_RESUMED && up)
		resumed(l, t);
	else if (t->word == TW_RP_STATUS && (up || l->state == TW_RP_LEAVING))
		status(l, t);
	else if (t->word == TW_RP_BYE)
		goodbye(l, t);
}
