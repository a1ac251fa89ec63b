/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members and controls. A member is in one of these states:
 *
 *   AWAY       search, or a control to send    SEARCHING
 *   SEARCHING  connected, or a packet from it  HERE
 *   SEARCHING  refused                         LOST
 *   HERE       the connection is lost          LOST
 *   LOST       as AWAY, but nobody waits for it to begin
 *
 * A loss is noticed once what came before it has been collected.
 */
#include "group/group.h"

#include "base/report.h"

#define SELF_POLLS 4 /* until a message to oneself, or its announcement, has arrived */

void tw_group_init(struct tw_group *g, uint32_t filter)
{
	*g = (struct tw_group){.filter = filter};
	tw_list_init(&g->ready);
	tw_list_init(&g->requests);
}

void tw_member_init(struct tw_group *g, struct tw_member *m, uint64_t where)
{
	*m = (struct tw_member){.group = g, .where = where};
	tw_list_init(&m->out);
	tw_list_init(&m->link);
}

static void group_lose(struct tw_member *m)
{
	struct tw_group *g = m->group;
	struct tw_ctrl_request *r;
	struct tw_list requests;
	struct tw_req *c;

	m->state = TW_MEMBER_LOST;
	while ((c = tw_list_take(&m->out, struct tw_req, link)))
		tw_req_forgotten(g->ep, c);
	tw_list_del(&m->link);
	/* They may be made again. */
	tw_list_init(&requests);
	tw_list_walk(&g->requests, struct tw_ctrl_request, q, link) {
		if (q->to != m)
			continue;
		tw_list_del(&q->link);
		tw_list_add_tail(&requests, &q->link);
	}
	while ((r = tw_list_take(&requests, struct tw_ctrl_request, link)))
		r->on_reply(r, NULL, 0);
	g->ep->events++;
	g->lost(m);
}

void tw_member_ready(struct tw_member *m)
{
	tw_list_del(&m->link);
	tw_list_add_tail(&m->group->ready, &m->link);
	m->group->ep->attend = true;
}

/* It has begun again, and its loss was not attended to yet. */
static bool began_again(const struct tw_member *m, struct tw_addr addr)
{
	return m->state == TW_MEMBER_HERE && m->addr.session != addr.session;
}

void tw_member_met(struct tw_member *m, struct tw_addr addr)
{
	if (began_again(m, addr))
		tw_collect(m->group->ep);
	tw_member_arrived(m, addr);
}

void tw_member_arrived(struct tw_member *m, struct tw_addr addr)
{
	struct tw_peer *p = tw_peer_at(m->group->ep, addr);

	if (began_again(m, addr))
		group_lose(m);
	m->state = TW_MEMBER_HERE;
	m->why = TW_S_OK;
	m->addr = addr;
	if (p)
		p->context = m;
	m->group->ep->events++;
	tw_member_ready(m);
}

static void connected(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_member *m = tw_container(op, struct tw_member, connected);

	(void)ep;
	if (m->state != TW_MEMBER_SEARCHING)
		return;
	m->why = r->status;
	if (m->why == TW_S_OK)
		tw_member_met(m, r->other);
	else
		group_lose(m);
}

static void member_search(struct tw_member *m, unsigned ms, uint32_t extra)
{
	struct tw_ep *ep = m->group->ep;
	uint64_t deadline = tw_clock() + tw_clock_us(1000ull * ms);
	struct tw_req *r;

	if (m->state == TW_MEMBER_SEARCHING || m->state == TW_MEMBER_HERE)
		return;
	m->state = TW_MEMBER_SEARCHING;
	r = tw_connect_new(ep, m->where >> 16, m->where & 0xffff, m->group->filter, deadline);
	if (!r) {
		m->why = TW_S_NO_RESOURCES;
		group_lose(m);
		return;
	}
	r->extra = extra | (m->group->says ? TW_X_SAYS : 0);
	m->connected.done = connected;
	r->context = &m->connected;
	tw_connect(ep, r);
}

void tw_member_search(struct tw_member *m)
{
	bool later = m->group->later && m->state == TW_MEMBER_AWAY;

	member_search(m, tw_settings.connect_timeout, later ? TW_X_LATER : 0);
}

void tw_member_search_for(struct tw_member *m, unsigned ms)
{
	member_search(m, ms, TW_X_LATER);
}

/* Controls --------------------------------------------------------------------- */

bool tw_ctrl_send(struct tw_member *m, uint64_t arg, const void *ctrl, uint32_t len)
{
	struct tw_req *c = tw_am_new(m->group->ep, arg, len);

	if (!c) {
		tw_report(TW_LOG_ERROR, "a control message", "there is no memory for it", NULL);
		return false;
	}
	memcpy(c->seg.ptr, ctrl, len);
	tw_list_add_tail(&m->out, &c->link);
	tw_member_ready(m);
	return true;
}

void tw_ctrl_must_send(struct tw_member *m, uint64_t arg, const void *ctrl, uint32_t len)
{
	if (tw_ctrl_send(m, arg, ctrl, len))
		return;
	m->starved = true;
	tw_member_ready(m);
}

void tw_ctrl_request(struct tw_ctrl_request *r, struct tw_member *to)
{
	struct tw_group *g = to->group;

	r->number = ++g->requested;
	r->to = to;
	tw_list_add_tail(&g->requests, &r->link);
}

void tw_ctrl_abandon(struct tw_ctrl_request *r)
{
	tw_list_del(&r->link);
}

bool tw_ctrl_replied(struct tw_member *from, uint32_t number, const void *reply, uint32_t len)
{
	tw_list_walk(&from->group->requests, struct tw_ctrl_request, r, link) {
		if (r->number != number || r->to != from)
			continue;
		tw_list_del(&r->link);
		r->on_reply(r, reply, len);
		from->group->ep->events++;
		return true;
	}
	return false;
}

static void group_flush(struct tw_member *m)
{
	struct tw_ep *ep = m->group->ep;
	struct tw_req *c;

	while (m->state == TW_MEMBER_HERE && (c = tw_list_take(&m->out, struct tw_req, link))) {
		if (!tw_addr_same(&m->addr, &ep->self->addr)) {
			tw_am_send_new(ep, m->addr, c);
			continue;
		}
		ep->iface->am_handler(ep, ep->self, c->match, c->seg.ptr, c->len);
		tw_req_forgotten(ep, c);
	}
}

/* Attending ------------------------------------------------------------------------ */

void tw_group_down(struct tw_ep *ep, const struct tw_peer *p)
{
	(void)ep;
	if (p->context)
		tw_member_ready(p->context);
}

void tw_group_down_said(struct tw_ep *ep, const struct tw_peer *p)
{
	tw_failure_down(ep, p);
	tw_group_down(ep, p);
}

/* Requests that are made again in this, without memory, end when it is called again. */
static void member_give_up(struct tw_member *m)
{
	struct tw_ep *ep = m->group->ep;
	struct tw_peer *p = tw_peer_at(ep, m->addr);

	m->starved = false;
	if (m->state != TW_MEMBER_HERE)
		m->why = TW_S_NO_RESOURCES;
	else if (p && p != ep->self)
		tw_disconnect(p);
	tw_collect(ep);
	group_lose(m);
}

static bool is_gone(const struct tw_member *m)
{
	const struct tw_peer *p = tw_peer_at(m->group->ep, m->addr);

	return m->state == TW_MEMBER_HERE && (!p || p->state != TW_PEER_UP);
}

static void attend(struct tw_member *m)
{
	struct tw_group *g = m->group;

	if (m->starved) {
		member_give_up(m);
	} else if (is_gone(m)) {
		tw_collect(g->ep);
		group_lose(m);
	}
	if (m->state == TW_MEMBER_HERE && g->here)
		g->here(m);
	group_flush(m);
	if (!tw_list_empty(&m->out))
		tw_member_search(m);
}

void tw_group_attend(struct tw_ep *ep)
{
	struct tw_group *g = ep->owner;
	struct tw_member *m;

	/* A send may make progress and call this again: the loop below does the work. */
	if (g->attending)
		return;
	g->attending = true;
	do {
		ep->attend = false;
		tw_collect(ep);
		if (g->work)
			g->work(g);
		while ((m = tw_list_take(&g->ready, struct tw_member, link)))
			attend(m);
	} while (ep->attend || !tw_list_empty(&ep->done));
	g->attending = false;
}

void tw_group_leave(struct tw_ep *ep)
{
	if (tw_unlikely(ep->attend || !tw_list_empty(&ep->done)))
		ep->iface->attend(ep);
	tw_leave_unfinished(ep);
}

void tw_group_poll_self(struct tw_ep *ep)
{
	for (int i = 0; i < SELF_POLLS && tw_progress(ep); i++)
		;
}
