/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports. The queue of a port is the engine's unexpected messages with its number. A receive
 * is a posted one that claims its message, and a port with an upcall has one posted for the
 * next.
 */
#include <stdlib.h>

#include "panda/panda_internal.h"

#define NUMBER 0xffffffffull /* the part of match information that selects a port */

struct tw_panda_port *tw_panda_port_find(uint32_t number)
{
	return number - 1 < tw_panda.nports ? tw_panda.ports[number - 1] : NULL;
}

/* Receiving for ports and tickets ------------------------------------------------- */

struct tw_req *tw_panda_claim(struct tw_ep *ep, uint32_t number, struct tw_op *op)
{
	struct tw_req *r = tw_req_new1(ep, TW_RECV, NULL, 0);

	if (!r)
		return NULL;
	r->flags |= TW_R_CLAIM;
	r->context = op;
	tw_recv_post(ep, r, number, NUMBER);
	return r;
}

struct tw_unexp_msg *tw_panda_claimed(struct tw_ep *ep, const struct tw_req *r)
{
	struct tw_unexp_msg *u = tw_req_claimed(r);
	uint64_t match = r->match;
	uint32_t number = tw_panda_port_of(r->match);

	if (r->status == TW_S_NO_RESOURCES) {
		tw_log(TW_LOG_ERROR, "no memory for a message of port %u: it is lost", number);
		u = tw_unexp_find(ep, number, NUMBER);
		if (u)
			tw_unexp_unqueue(ep, u);
		if (u)
			tw_unexp_drop(ep, u);
		return NULL;
	}
	if (r->status == TW_S_OK && tw_panda_seen(ep, r->other, &match)) {
		tw_panda_here(ep, r->other, &match, r);
		return u;
	}
	if (u)
		tw_unexp_msg_put(ep, u);
	return NULL;
}

static void unwanted(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_unexp_msg *u = tw_panda_claimed(ep, r);

	(void)op;
	if (u)
		tw_unexp_msg_put(ep, u);
}

/* Gives such a receive up, complete or not. */
static void unclaim(struct tw_ep *ep, struct tw_req **r)
{
	static struct tw_op op = {unwanted};

	if (*r && tw_recv_cancel(ep, *r))
		tw_req_free(ep, *r);
	else if (*r)
		(*r)->context = &op;
	*r = NULL;
}

bool tw_panda_wanted(uint32_t number)
{
	if (number >= TW_PANDA_TICKET) {
		tw_log(TW_LOG_WARN, "a message for ticket %u, which no receive waits for", number);
		return false;
	}
	return number > tw_panda.nports || tw_panda_port_find(number);
}

/* Drops the messages of a port; those that are still arriving are dropped when they are here. */
static void drop_all(struct tw_ep *ep, uint32_t number)
{
	struct tw_unexp_msg *u = tw_unexp_find(ep, number, NUMBER), *next;

	for (; u; u = next) {
		next = tw_unexp_next(ep, u, number, NUMBER);
		if (!tw_unexp_is_whole(u) && u->state != TW_U_ANNOUNCED)
			continue;
		tw_unexp_unqueue(ep, u);
		tw_unexp_drop(ep, u);
	}
}

/* Upcalls ------------------------------------------------------------------------- */

static void arrived(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_panda_port *port = tw_container(op, struct tw_panda_port, arrived);

	port->next = NULL;
	port->msg = tw_panda_claimed(ep, r);
	if (!port->msg) {
		tw_panda_port_listen(ep, port);
		return;
	}
	tw_list_add_tail(&tw_panda.ready, &port->ready);
	ep->attend = true;
}

bool tw_panda_port_listen(struct tw_ep *ep, struct tw_panda_port *port)
{
	port->arrived.done = arrived;
	port->next = tw_panda_claim(ep, port->number, &port->arrived);
	if (!port->next)
		tw_log(TW_LOG_ERROR, "no memory for the messages of port %u", port->number);
	return port->next;
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
	tw_list_init(&port->receives);
	tw_list_init(&port->ready);
	return port;
}

int pan_mp_register_port(int (*upcall)(void *data, int size, int len))
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_port *port;

	if (!ep)
		return -1;
	port = new_port(upcall);
	if (port && upcall && !tw_panda_port_listen(ep, port)) {
		tw_panda.nports--;
		free(port);
		port = NULL;
	} else if (!port) {
		tw_log(TW_LOG_ERROR, "%s: no memory, or too many ports", __func__);
	}
	tw_group_leave(ep);
	return port ? (int)port->number : -1;
}

/* Ends a receive without a message. */
static void close_receive(struct tw_ep *ep, struct tw_panda_ticket *t)
{
	tw_list_del(&t->link);
	unclaim(ep, &t->req);
	if (t->msg)
		tw_unexp_msg_put(ep, t->msg);
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
	bool going_on = true;

	tw_panda.ports[port->number - 1] = NULL;
	tw_list_del(&port->ready);
	unclaim(ep, &port->next);
	if (port->msg)
		tw_unexp_msg_put(ep, port->msg);
	tw_list_walk(&port->receives, struct tw_panda_ticket, t, link)
		close_receive(ep, t);
	drop_all(ep, port->number);
	ep->events++;
	/* Waits for the end of the port's upcall, unless called from an upcall. */
	if (!tw_panda_in_upcall())
		going_on = tw_panda_wait(ep, is_not_running, port);
	free(port);
	return going_on;
}

void pan_mp_free_port(int port)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t;

	if (!ep)
		return;
	tw_collect(ep);
	t = tw_panda_ticket_find(port, true);
	if (port > 0 && tw_panda_port_find((uint32_t)port)) {
		if (!free_port(ep, tw_panda_port_find((uint32_t)port)))
			return;
	} else if (t && t->direct) {
		close_receive(ep, t);
		ep->events++;
	} else {
		tw_log(TW_LOG_ERROR, "%s: there is no port %d", __func__, port);
	}
	tw_group_leave(ep);
}

void tw_panda_ports_fini(void)
{
	for (uint32_t i = 0; i < tw_panda.nports; i++) {
		if (tw_panda.ports[i])
			free(tw_panda.ports[i]->msg);
		free(tw_panda.ports[i]);
	}
	free(tw_panda.ports);
	tw_panda.ports = NULL;
	tw_panda.nports = tw_panda.ports_room = 0;
}
