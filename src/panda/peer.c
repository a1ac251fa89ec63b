/* SPDX-License-Identifier: BSD-2-Clause */
/* Other platforms: connections, arrivals, acknowledgements. */
#include <stdio.h>

#include "base/report.h"
#include "panda/panda_internal.h"

#define ACKS_MAX 8 /* delayed acknowledgements that are sent without waiting */

uint32_t tw_panda_delay_us = 1000;

void tw_panda_peer_init(struct tw_panda_peer *peer)
{
	tw_member_init(&tw_panda.group, &peer->m, 0);
	tw_list_init(&peer->out);
	tw_list_init(&peer->unacked);
	tw_list_init(&peer->due);
}

static unsigned pid_of(const struct tw_panda_peer *peer)
{
	return (unsigned)(peer - tw_panda.peers);
}

static void lose_all(struct tw_ep *ep, struct tw_list *sends)
{
	struct tw_panda_ticket *t;

	while ((t = tw_list_take(sends, struct tw_panda_ticket, link)))
		tw_panda_send_over(ep, t, true);
}

static struct tw_panda_peer *peer_at(struct tw_member *m)
{
	return tw_container(m, struct tw_panda_peer, m);
}

/* It was never reached, or it has ended. Receives name no platform, so none of them ends. */
static void lost_text(const struct tw_panda_peer *peer, bool waited)
{
	if (peer->m.why == TW_S_OK) {
		tw_log(waited ? TW_LOG_ERROR : TW_LOG_INFO, "platform %u is gone%s", pid_of(peer),
		       waited ? ", with messages that it has not acknowledged" : "");
		return;
	}
	tw_failure_report("sends are lost, and receives do not end", peer->m.group->ep,
			  peer->m.where, (enum tw_status)peer->m.why);
}

void tw_panda_lost(struct tw_member *m)
{
	struct tw_panda_peer *peer = peer_at(m);
	struct tw_ep *ep = m->group->ep;
	bool waited = !tw_list_empty(&peer->out) || !tw_list_empty(&peer->unacked);

	lost_text(peer, waited);
	peer->acks = peer->acked = 0;
	peer->ack_now = false;
	tw_list_del(&peer->due);
	lose_all(ep, &peer->out);
	lose_all(ep, &peer->unacked);
}

/* Acknowledging --------------------------------------------------------------- */

uint32_t tw_panda_acks_take(struct tw_panda_peer *peer)
{
	uint32_t n = tw_min(peer->acks, TW_PANDA_ACKED_MAX);

	if (n == 0)
		return 0;
	peer->acks -= n;
	if (peer->acks == 0) {
		tw_list_del(&peer->due);
		peer->ack_now = false;
	}
	return n;
}

static void due_later(struct tw_ep *ep, struct tw_panda_peer *peer)
{
	peer->due_at = tw_clock() + tw_clock_us(tw_panda_delay_us);
	tw_list_add_tail(&tw_panda.due, &peer->due);
	tw_timer(&ep->host, peer->due_at);
}

static void peer_send_acks(struct tw_ep *ep, struct tw_panda_peer *peer)
{
	tw_list_del(&peer->due);
	peer->ack_now = false;
	if (tw_am_send(ep, peer->m.addr, peer->acks, NULL, 0) == TW_ENOMEM) {
		due_later(ep, peer);
		return;
	}
	ep->counters[TW_C_ACK_SENT]++;
	peer->acks = 0;
}

void tw_panda_acks_flush(struct tw_ep *ep)
{
	tw_list_walk(&tw_panda.due, struct tw_panda_peer, peer, due)
		peer_send_acks(ep, peer);
}

/* Acknowledges a counted message of a platform, at once or later, as `ack' says. */
static void peer_acknowledge(struct tw_ep *ep, struct tw_panda_peer *peer, unsigned ack)
{
	if (ack == PAN_MP_EXTERNAL)
		return;
	if (peer->acks++ == 0)
		due_later(ep, peer);
	if (ack == PAN_MP_NORMAL || peer->acks == ACKS_MAX) {
		peer->ack_now = true;
		tw_member_ready(&peer->m);
	}
}

/* Its sends leave from tw_panda_attend(), as it may have been met inside an arrival. */
void tw_panda_ready(struct tw_member *m)
{
	struct tw_panda_peer *peer = peer_at(m);
	struct tw_ep *ep = m->group->ep;
	struct tw_panda_ticket *t;

	while (m->state == TW_MEMBER_HERE &&
	       (t = tw_list_take(&peer->out, struct tw_panda_ticket, link)))
		if (!tw_panda_launch(ep, t))
			tw_panda_send_over(ep, t, true);
	if (peer->ack_now && peer->acks)
		peer_send_acks(ep, peer);
}

/* It has received n more messages, perhaps some whose sends have not been collected yet. */
void tw_panda_acknowledged(struct tw_ep *ep, struct tw_panda_peer *peer, uint32_t n)
{
	struct tw_panda_ticket *t;

	peer->acked += n;
	while (peer->acked && (t = tw_list_take(&peer->unacked, struct tw_panda_ticket, link))) {
		peer->acked--;
		tw_panda_send_over(ep, t, false);
	}
}

/* Called by the engine ------------------------------------------------------- */

/* A packet of that peer is the first: it is this platform, which may have begun again. */
static void peer_first(struct tw_member *m, struct tw_peer *p)
{
	if (p->state == TW_PEER_UP || m->state == TW_MEMBER_AWAY)
		tw_member_arrived(m, p->addr);
	else
		p->context = m; /* it is gone already */
}

/* The platform at an address, or NULL for a stranger. */
static struct tw_panda_peer *peer_of(struct tw_ep *ep, struct tw_addr source)
{
	struct tw_peer *p = tw_peer_at(ep, source);

	if (!p)
		return NULL;
	for (uint32_t i = 0; !p->context && i < tw_panda.job.size; i++)
		if (tw_panda.peers[i].m.where == source.where)
			peer_first(&tw_panda.peers[i].m, p);
	return p->context ? peer_at(p->context) : NULL;
}

bool tw_panda_is_current(const struct tw_panda_peer *peer, struct tw_addr at)
{
	return peer->m.state == TW_MEMBER_HERE && peer->m.addr.session == at.session;
}

bool tw_panda_seen(struct tw_ep *ep, struct tw_addr source, uint64_t *match)
{
	struct tw_panda_peer *peer = peer_of(ep, source);

	if (!peer)
		return false;
	if (tw_panda_acked_of(*match)) {
		if (tw_panda_is_current(peer, source))
			tw_panda_acknowledged(ep, peer, tw_panda_acked_of(*match));
		*match = tw_panda_without_acked(*match);
	}
	if (peer->expected) {
		peer->expected = false;
		if (--tw_panda.nexpected == 0)
			ep->expects = 0;
	}
	return true;
}

void tw_panda_here(struct tw_ep *ep, struct tw_addr source, uint64_t *match, const struct tw_req *r)
{
	struct tw_panda_peer *peer = peer_of(ep, source);

	/* Copied, or eager: the sender knows that it has left, not that it has arrived. */
	if (peer && tw_panda_is_current(peer, source) && (!r || r->proto == TW_PROTO_COPY))
		peer_acknowledge(ep, peer, tw_panda_ack_of(*match));
	*match = tw_panda_without_ack(*match);
}

/* One of which a part is here is dropped when all of it is, as it is acknowledged then. */
static enum tw_verdict peer_unexpected(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	uint32_t number = tw_panda_port_of(u->unexp.match);

	if (tw_unlikely(!tw_panda.met))
		return TW_KEEP;
	if (!tw_panda_seen(ep, u->peer->addr, &u->unexp.match) || number == 0)
		return TW_DROP;
	if (tw_unexp_is_whole(u))
		tw_panda_here(ep, u->peer->addr, &u->unexp.match, NULL);
	return u->state == TW_U_PART || tw_panda_wanted(number) ? TW_KEEP : TW_DROP;
}

static void whole(struct tw_ep *ep, struct tw_unexp_msg *u, const struct tw_req *fetched)
{
	if (!tw_panda.met) {
		/* DONE has acknowledged it; another is acknowledged when the platforms have met. */
		if (fetched && fetched->proto != TW_PROTO_COPY)
			u->unexp.match = tw_panda_without_ack(u->unexp.match);
		return;
	}
	tw_panda_here(ep, u->peer->addr, &u->unexp.match, fetched);
	if (tw_panda_wanted(tw_panda_port_of(u->unexp.match)))
		return;
	tw_unexp_unqueue(ep, u);
	tw_unexp_drop(ep, u);
}

void tw_panda_peers_met(struct tw_ep *ep)
{
	struct tw_unexp_msg *u = tw_unexp_find(ep, 0, 0), *next;

	tw_panda.met = true;
	for (; u; u = next) {
		next = tw_unexp_next(ep, u, 0, 0);
		if (peer_unexpected(ep, u) == TW_KEEP)
			continue;
		tw_unexp_unqueue(ep, u);
		tw_unexp_drop(ep, u);
	}
}

static void on_acks(struct tw_ep *ep, struct tw_peer *p, uint64_t n, const void *data, uint32_t len)
{
	(void)data;
	(void)len;
	if (p->context && tw_panda_is_current(peer_at(p->context), p->addr))
		tw_panda_acknowledged(ep, peer_at(p->context), (uint32_t)n);
}

static bool peer_called(const struct tw_ep *ep, uint64_t where, char *out, size_t size)
{
	(void)ep;
	for (uint32_t i = 0; i < tw_panda.job.size; i++)
		if (tw_panda.peers[i].m.where == where) {
			snprintf(out, size, "platform %u", i);
			return true;
		}
	return false;
}

static uint64_t peer_expire(struct tw_ep *ep, uint64_t now)
{
	(void)ep;
	while (!tw_list_empty(&tw_panda.due)) {
		struct tw_panda_peer *peer =
			tw_list_first(&tw_panda.due, struct tw_panda_peer, due);

		if (peer->due_at > now)
			return peer->due_at;
		tw_list_del(&peer->due);
		peer->ack_now = true;
		tw_member_ready(&peer->m);
	}
	return 0;
}

#define FIRST_ID 2304 /* behind those of MX, MCAPI and MRAPI */
_Static_assert(FIRST_ID + TW_JOB_MAX - 1 == TW_ID_MAX, "the highest of all");

const struct tw_interface tw_panda_interface = {
	.unexpected = peer_unexpected,
	.whole = whole,
	.am_handler = on_acks,
	.attend = tw_panda_attend,
	.down = tw_group_down_said,
	.called = peer_called,
	.expire = peer_expire,
	.name = "panda",
	.first_id = FIRST_ID,
	.ids = TW_JOB_MAX,
	.max_len = INT32_MAX,
	.pool = &tw_panda.tickets,
};

void pan_mp_expect(int pid)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_peer *peer;

	if (!ep)
		return;
	if (pid < 0 || (uint32_t)pid >= tw_panda.job.size) {
		tw_log(TW_LOG_ERROR, "pan_mp_expect: there is no platform %d", pid);
		tw_group_leave(ep);
		return;
	}
	peer = &tw_panda.peers[pid];
	tw_member_search(&peer->m);
	if (!peer->expected) {
		peer->expected = true;
		tw_panda.nexpected++;
	}
	ep->expects = tw_clock() + tw_clock_us(TW_PANDA_EXPECT_US);
	tw_group_leave(ep);
}
