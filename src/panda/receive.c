/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving. */
#include "panda/panda_internal.h"

static void panda_received(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct tw_panda_ticket *t = tw_container(op, struct tw_panda_ticket, received);

	t->req = NULL;
	t->msg = tw_panda_claimed(ep, r);
	t->over = t->msg;
	if (t->over)
		tw_list_del(&t->link);
	else
		t->req = tw_panda_claim(ep, tw_panda_port_of(r->match), op);
	ep->events++;
}

static const char *receive_begin(struct tw_ep *ep, struct tw_panda_ticket *t, int number)
{
	struct tw_panda_port *port = number > 0 ? tw_panda_port_find((uint32_t)number) : NULL;

	t->msg = NULL;
	t->direct = number == PAN_MP_DIRECT_PORT;
	if (!t->direct && !port)
		return "there is no such port";
	if (!t->direct && port->upcall)
		return "the port has an upcall";
	if (t->direct)
		number = tw_panda_ticket_number(t);
	t->received.done = panda_received;
	t->req = tw_panda_claim(ep, (uint32_t)number, &t->received);
	if (!t->req)
		return "no memory";
	if (!t->direct)
		tw_list_add_tail(&port->receives, &t->link);
	return NULL;
}

int pan_mp_receive(int port)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	const char *wrong = "no memory";
	struct tw_panda_ticket *t;
	int ticket = -1;

	if (!ep)
		return -1;
	t = tw_panda_ticket_new(true);
	if (t)
		wrong = receive_begin(ep, t, port);
	if (!wrong)
		ticket = tw_panda_ticket_number(t);
	else if (t)
		tw_panda_ticket_free(t);
	if (wrong)
		tw_log(TW_LOG_ERROR, "pan_mp_receive on port %d: %s", port, wrong);
	tw_group_leave(ep);
	return ticket;
}

static bool receive_named(const char *function, int ticket)
{
	bool found = tw_panda_ticket_find(ticket, true) != NULL;

	if (!found)
		tw_log(TW_LOG_ERROR, "%s: %d is not the ticket of a receive", function, ticket);
	return found;
}

void *pan_mp_finish_receive(int ticket, int *size, int *len)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	struct tw_panda_ticket *t = NULL;
	struct tw_unexp_msg *u = NULL;

	tw_panda_message_data(NULL, size, len);
	if (!ep)
		return NULL;
	if (receive_named(__func__, ticket)) {
		if (!tw_panda_wait(ep, tw_panda_ticket_over, &ticket))
			return NULL;
		t = tw_panda_ticket_find(ticket, true);
	}
	if (t) {
		u = t->msg;
		tw_panda_ticket_free(t);
	}
	tw_group_leave(ep);
	return tw_panda_message_data(u, size, len);
}

int pan_mp_poll_receive(int ticket)
{
	struct tw_ep *ep = tw_panda_enter(__func__);
	int over = -1;

	if (!ep)
		return -1;
	if (receive_named(__func__, ticket)) {
		if (!tw_panda_ticket_over(ep, &ticket))
			tw_panda_poll(ep);
		over = tw_panda_ticket_over(ep, &ticket);
	}
	tw_panda_leave_poll(ep);
	return over;
}
