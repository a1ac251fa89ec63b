/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: the calls. */
#include "panda/pan.h"

static const char *begin(struct tw_ep *ep, struct tw_pn_ticket *t, int number)
{
	struct tw_pn_port *port = number > 0 ? tw_pn_port_find((uint32_t)number) : NULL;

	t->msg = NULL;
	t->direct = number == PAN_MP_DIRECT_PORT;
	if (t->direct)
		return NULL;
	if (!port)
		return "there is no such port";
	if (port->upcall)
		return "the port has an upcall";
	tw_list_add_tail(&port->receives, &t->link);
	if (!tw_list_empty(&port->msgs))
		tw_pn_serve(ep, port);
	return NULL;
}

int pan_mp_receive(int port)
{
	struct tw_ep *ep = tw_pn_enter(__func__);
	const char *wrong = "no memory";
	struct tw_pn_ticket *t;
	int ticket = -1;

	if (!ep)
		return -1;
	t = tw_pn_ticket_new(true);
	if (t)
		wrong = begin(ep, t, port);
	if (!wrong)
		ticket = tw_pn_ticket_number(t);
	else if (t)
		tw_pn_ticket_free(t);
	if (wrong)
		tw_log(TW_LOG_ERROR, "pan_mp_receive on port %d: %s", port, wrong);
	tw_pn_leave(ep);
	return ticket;
}

static bool receive_is_over(struct tw_ep *ep, void *arg)
{
	struct tw_pn_ticket *t = tw_pn_ticket_find(*(int *)arg, true);

	(void)ep;
	return !t || t->over;
}

static bool named(const char *function, int ticket)
{
	bool found = tw_pn_ticket_find(ticket, true) != NULL;

	if (!found)
		tw_log(TW_LOG_ERROR, "%s: %d is not the ticket of a receive", function, ticket);
	return found;
}

void *pan_mp_finish_receive(int ticket, int *size, int *len)
{
	struct tw_ep *ep = tw_pn_enter(__func__);
	struct tw_pn_ticket *t = NULL;
	struct tw_umsg *u = NULL;

	tw_pn_hand_out(NULL, size, len);
	if (!ep)
		return NULL;
	if (named(__func__, ticket)) {
		if (!tw_pn_wait(ep, receive_is_over, &ticket))
			return NULL;
		t = tw_pn_ticket_find(ticket, true);
	}
	if (t) {
		u = t->msg;
		if (u)
			tw_pn_take(ep, u);
		tw_pn_ticket_free(t);
	}
	tw_pn_leave(ep);
	return tw_pn_hand_out(u, size, len);
}

int pan_mp_poll_receive(int ticket)
{
	struct tw_ep *ep = tw_pn_enter(__func__);
	int over = -1;

	if (!ep)
		return -1;
	if (named(__func__, ticket)) {
		if (!receive_is_over(ep, &ticket))
			tw_pn_poll(ep);
		over = receive_is_over(ep, &ticket);
	}
	tw_pn_leave_poll(ep);
	return over;
}
