/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports and their queues. An announced message is queued at once, to keep the order. It is
 * fetched when a receive or an upcall waits for it, and before that while less than
 * TAGWIRE_UNEXP_MAX is held.
 */
#include <stdlib.h>

#include "panda/panda_internal.h"

static inline struct tw_unexp_msg *at(struct tw_list *l)
{
	return tw_container(l, struct tw_unexp_msg, unexp.all);
}

/*
 * A message is in one of these states:
 *
 *                 rndv   sync   address
 *   eager         false  false  -
 *   announced     true   false  the sender's
 *   on its way    true   true   of its struct fetch
 *   fetched       false  true   -
 */
static inline bool whole(const struct tw_unexp_msg *u)
{
	return !u->rndv;
}

static inline bool announced(const struct tw_unexp_msg *u)
{
	return u->rndv && !u->sync;
}

/* The fetch of a message for a port's queue or a direct receive. */
struct fetch {
	struct tw_panda_op op;
	struct tw_panda_peer *peer;
	struct tw_unexp_msg *u;
	uint32_t port; /* or ticket */
	bool unwanted;
	struct tw_list link; /* on tw_panda.fetches */
};

struct tw_panda_port *tw_panda_port_find(uint32_t number)
{
	return number - 1 < tw_panda.nports ? tw_panda.ports[number - 1] : NULL;
}

void tw_panda_take(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	tw_panda.held -= u->len;
	if (!u->sync)
		tw_take_release(ep, u->source, u->len);
}

/* Drops an announced message: receives it with length 0. */
static void refuse(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);

	if (!r) {
		tw_unexp_msg_put(ep, u);
		return;
	}
	r->context = NULL;
	tw_take_pull(ep, u, r);
}

static void drop(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	if (announced(u)) {
		refuse(ep, u);
	} else if (!whole(u)) {
		((struct fetch *)(uintptr_t)u->address)->unwanted = true;
	} else {
		tw_panda_take(ep, u);
		tw_unexp_msg_put(ep, u);
	}
}

static void drop_all(struct tw_ep *ep, struct tw_list *msgs)
{
	while (!tw_list_empty(msgs)) {
		struct tw_unexp_msg *u = at(msgs->next);

		tw_list_del(&u->unexp.all);
		drop(ep, u);
	}
}

static void settle_direct(struct tw_ep *ep, const struct fetch *f, bool lost)
{
	struct tw_panda_ticket *t = tw_panda_ticket_find((int)f->port, true);

	if (!t || t->msg != f->u)
		return;
	if (lost)
		t->msg = NULL;
	t->over = !lost;
	ep->events++;
}

static void fetched(struct tw_ep *ep, struct tw_panda_op *op, const struct tw_req *r)
{
	struct fetch *f = tw_container(op, struct fetch, op);
	struct tw_unexp_msg *u = f->u;
	bool lost = r->status != TW_S_OK;

	u->rndv = false;
	/* Copied: the sender knows that it has left, not that it has arrived. */
	if (!lost && r->proto == TW_PROTO_COPY)
		tw_panda_ack(ep, f->peer, tw_panda_ack_of(u->unexp.match));
	if (f->port >= TW_PANDA_TICKET && !f->unwanted)
		settle_direct(ep, f, lost);
	if (lost)
		tw_list_del(&u->unexp.all);
	if (f->port < TW_PANDA_TICKET && !f->unwanted)
		tw_panda_serve(ep, tw_panda_port_find(f->port));
	if (lost || f->unwanted) {
		tw_panda_take(ep, u);
		tw_unexp_msg_put(ep, u);
	}
	tw_list_del(&f->link);
	free(f);
}

/*
 * Begins to fetch an announced message. Returns the message that replaces it in its queue,
 * or NULL without memory: then it is lost.
 */
static struct tw_unexp_msg *fetch(struct tw_ep *ep, struct tw_panda_peer *peer,
				  struct tw_unexp_msg *u)
{
	struct fetch *f = malloc(sizeof(*f));
	struct tw_unexp_msg *to = f ? tw_unexp_msg_get(ep, u->len) : NULL;
	struct tw_req *r = to ? tw_req_new1(ep, TW_RECV, to->data, u->len) : NULL;

	if (!r) {
		tw_log(TW_LOG_ERROR, "no memory for a message of %u bytes: it is lost", u->len);
		if (to)
			tw_unexp_msg_put(ep, to);
		free(f);
		tw_list_del(&u->unexp.all);
		refuse(ep, u);
		return NULL;
	}
	*f = (struct fetch){{fetched}, peer,	    to, tw_panda_port_of(u->unexp.match),
			    false,     {NULL, NULL}};
	tw_list_init(&f->link);
	tw_list_add_tail(&tw_panda.fetches, &f->link);
	to->unexp.match = u->unexp.match;
	to->source = u->source;
	to->len = u->len;
	to->have = 0;
	to->rndv = to->sync = true;
	to->address = (uintptr_t)f;
	tw_list_init(&to->unexp.all);
	tw_list_add_tail(u->unexp.all.next, &to->unexp.all);
	tw_list_del(&u->unexp.all);
	tw_panda.held += to->len;
	r->context = &f->op;
	tw_take_pull(ep, u, r);
	return to;
}

static struct tw_unexp_msg *fetch_queued(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_peer *p = tw_peer_at(ep, u->source);

	return fetch(ep, p->context, u);
}

void tw_panda_serve(struct tw_ep *ep, struct tw_panda_port *port)
{
	struct tw_list *l, *receive, *tmp;

	while (!tw_list_empty(&port->msgs) && !tw_list_empty(&port->receives) &&
	       whole(at(port->msgs.next))) {
		struct tw_panda_ticket *t =
			tw_list_first(&port->receives, struct tw_panda_ticket, link);

		t->msg = at(port->msgs.next);
		t->over = true;
		tw_list_del(&t->link);
		tw_list_del(&t->msg->unexp.all);
		ep->events++;
	}
	receive = port->receives.next;
	tw_list_each(&port->msgs, l, tmp) {
		bool next = l == port->msgs.next && port->upcall;

		if (!next && receive == &port->receives)
			break;
		if (announced(at(l)))
			fetch_queued(ep, at(l));
		receive = receive->next;
	}
	if (port->upcall && !tw_list_empty(&port->msgs) && whole(at(port->msgs.next)) &&
	    tw_list_empty(&port->ready)) {
		tw_list_add_tail(&tw_panda.ready, &port->ready);
		ep->attend = true;
	}
}

static void deliver_direct(struct tw_ep *ep, struct tw_panda_peer *peer, struct tw_unexp_msg *u)
{
	struct tw_panda_ticket *t =
		tw_panda_ticket_find((int)tw_panda_port_of(u->unexp.match), true);

	if (!t || !t->direct || t->msg) {
		tw_log(TW_LOG_WARN, "a message for ticket %u, which no receive waits for",
		       tw_panda_port_of(u->unexp.match));
		drop(ep, u);
		return;
	}
	if (u->rndv)
		u = fetch(ep, peer, u);
	t->msg = u;
	t->over = u && whole(u);
	ep->events++;
}

void tw_panda_deliver(struct tw_ep *ep, struct tw_panda_peer *peer, struct tw_unexp_msg *u)
{
	uint32_t number = tw_panda_port_of(u->unexp.match);
	struct tw_panda_port *port = tw_panda_port_find(number);

	tw_list_init(&u->unexp.all);
	if (!u->rndv)
		tw_panda.held += u->len;
	if (!u->rndv && peer)
		tw_panda_ack(ep, peer, tw_panda_ack_of(u->unexp.match));
	/* From a process that is no platform of the job, or malformed. */
	if (!peer || number == 0 || u->len > INT32_MAX) {
		drop(ep, u);
	} else if (number >= TW_PANDA_TICKET) {
		deliver_direct(ep, peer, u);
	} else if (number > tw_panda.nports) {
		tw_list_add_tail(&tw_panda.early, &u->unexp.all);
	} else if (!port) {
		drop(ep, u);
	} else {
		tw_list_add_tail(&port->msgs, &u->unexp.all);
		if (u->rndv && tw_panda.held < tw_settings.unexp_max)
			fetch(ep, peer, u);
		tw_panda_serve(ep, port);
	}
}

struct tw_unexp_msg *tw_panda_port_next(struct tw_ep *ep, struct tw_panda_port *port)
{
	struct tw_unexp_msg *u = at(port->msgs.next);

	tw_list_del(&u->unexp.all);
	tw_list_del(&port->ready);
	tw_panda_take(ep, u);
	tw_panda_serve(ep, port);
	return u;
}

/* Ports ----------------------------------------------------------------------- */

static struct tw_panda_port *new_port(int (*upcall)(void *, int, int))
{
	struct tw_panda_port *port;

	if (tw_panda.nports == TW_PANDA_MAX_PORTS)
		return NULL;
	if (tw_panda.nports == tw_panda.ports_room) {
		uint32_t room = tw_panda.ports_room ? 2 * tw_panda.ports_room : 16;
		struct tw_panda_port **ports = realloc(tw_panda.ports, room * sizeof(*ports));

		if (!ports)
			return NULL;
		tw_panda.ports = ports;
		tw_panda.ports_room = room;
	}
	port = calloc(1, sizeof(*port));
	if (!port)
		return NULL;
	tw_panda.ports[tw_panda.nports++] = port;
	port->number = tw_panda.nports;
	port->upcall = upcall;
	tw_list_init(&port->msgs);
	tw_list_init(&port->receives);
	tw_list_init(&port->ready);
	return port;
}

/* Messages that came before the port was registered. */
static void take_early(struct tw_ep *ep, struct tw_panda_port *port)
{
	struct tw_list *l, *tmp;

	tw_list_each(&tw_panda.early, l, tmp) {
		if (tw_panda_port_of(at(l)->unexp.match) != port->number)
			continue;
		tw_list_del(l);
		tw_list_add_tail(&port->msgs, l);
	}
	tw_panda_serve(ep, port);
}

int pan_mp_register_port(int (*upcall)(void *data, int size, int len))
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_port *port;

	if (!ep)
		return -1;
	port = new_port(upcall);
	if (port)
		take_early(ep, port);
	else
		tw_log(TW_LOG_ERROR, "%s: no memory, or too many ports", __func__);
	tw_panda_leave(ep);
	return port ? (int)port->number : -1;
}

/* Ends a receive without a message. */
static void close_receive(struct tw_panda_ticket *t)
{
	tw_list_del(&t->link);
	t->msg = NULL;
	t->over = true;
}

static bool is_not_running(struct tw_ep *ep, void *arg)
{
	(void)ep;
	return tw_panda.running != arg;
}

/* False if message passing has ended meanwhile, without the lock. */
static bool free_port(struct tw_ep *ep, struct tw_panda_port *port)
{
	tw_panda.ports[port->number - 1] = NULL;
	tw_list_del(&port->ready);
	while (!tw_list_empty(&port->receives))
		close_receive(tw_list_first(&port->receives, struct tw_panda_ticket, link));
	drop_all(ep, &port->msgs);
	ep->events++;
	/* Waits for the end of the port's upcall, unless called from an upcall. */
	if (!tw_panda_in_upcall() && !tw_panda_wait(ep, is_not_running, port)) {
		free(port);
		return false;
	}
	free(port);
	return true;
}

void pan_mp_free_port(int port)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t;

	if (!ep)
		return;
	t = tw_panda_ticket_find(port, true);
	if (port > 0 && tw_panda_port_find((uint32_t)port)) {
		if (!free_port(ep, tw_panda_port_find((uint32_t)port)))
			return;
	} else if (t && t->direct) {
		if (t->msg)
			drop(ep, t->msg);
		close_receive(t);
		ep->events++;
	} else {
		tw_log(TW_LOG_ERROR, "%s: there is no port %d", __func__, port);
	}
	tw_panda_leave(ep);
}

static void lose_announced(struct tw_ep *ep, struct tw_list *msgs, struct tw_addr from)
{
	struct tw_list *l, *tmp;

	tw_list_each(msgs, l, tmp) {
		struct tw_unexp_msg *u = at(l);

		if (!announced(u) || u->source.where != from.where)
			continue;
		tw_list_del(l);
		tw_unexp_msg_put(ep, u);
	}
}

void tw_panda_ports_lost(struct tw_ep *ep, struct tw_addr from)
{
	lose_announced(ep, &tw_panda.strangers, from);
	lose_announced(ep, &tw_panda.early, from);
	for (uint32_t i = 0; i < tw_panda.nports; i++) {
		if (!tw_panda.ports[i])
			continue;
		lose_announced(ep, &tw_panda.ports[i]->msgs, from);
		tw_panda_serve(ep, tw_panda.ports[i]);
	}
}

static void free_all(struct tw_list *msgs)
{
	while (!tw_list_empty(msgs)) {
		struct tw_unexp_msg *u = at(msgs->next);

		tw_list_del(&u->unexp.all);
		free(u);
	}
}

/* A fetch that was under way when the endpoint closed. */
static void free_fetch(struct fetch *f)
{
	struct tw_panda_ticket *t = tw_panda_ticket_find((int)f->port, true);

	if (t && t->msg == f->u)
		t->msg = NULL;
	tw_list_del(&f->u->unexp.all);
	tw_list_del(&f->link);
	free(f->u);
	free(f);
}

void tw_panda_ports_fini(void)
{
	while (!tw_list_empty(&tw_panda.fetches))
		free_fetch(tw_list_first(&tw_panda.fetches, struct fetch, link));
	free_all(&tw_panda.early);
	free_all(&tw_panda.strangers);
	for (uint32_t i = 0; i < tw_panda.nports; i++) {
		if (tw_panda.ports[i])
			free_all(&tw_panda.ports[i]->msgs);
		free(tw_panda.ports[i]);
	}
	free(tw_panda.ports);
	tw_panda.ports = NULL;
	tw_panda.nports = tw_panda.ports_room = 0;
}
