/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoint to members on other hosts: members and requests. */
#include <stdio.h>
#include <stdlib.h>

#include "base/sys.h"
#include "group/job.h"
#include "mrapi/remote/remote.h"

#define FILTER 0x4d524150 /* keeps programs of other interfaces out */
#define OPEN_MS 2000	  /* the former process with this slot may be dying */

static struct {
	_Atomic(uint64_t) handle; /* 0: no other hosts */
	bool begun;
	unsigned nhosts;
	struct tw_group group;
	struct tw_list known, inbox;
} net;

struct tw_ep *tw_mrapi_net_enter(void)
{
	/* [set-up] */
	return tw_enter(atomic_load_explicit(&net.handle, memory_order_acquire));
}

/* ------------------------------------------------------------------- members */

/* A process of another host that this one has looked for, or that has asked it. */
struct known {
	struct tw_list link;
	struct tw_member m;
};

struct tw_member *tw_mrapi_net_member(uint64_t where)
{
	struct known *k;

	tw_list_walk(&net.known, struct known, known, link)
		if (known->m.where == where)
			return &known->m;
	k = malloc(sizeof(*k));
	if (!k)
		return NULL;
	tw_member_init(&net.group, &k->m, where);
	tw_list_add_tail(&net.known, &k->link);
	return &k->m;
}

static bool net_search_is_over(struct tw_ep *ep, void *member)
{
	(void)ep;
	return ((struct tw_member *)member)->state != TW_MEMBER_SEARCHING;
}

struct tw_member *tw_mrapi_net_reach(struct tw_ep *ep, uint64_t where)
{
	struct tw_member *m = tw_mrapi_net_member(where);

	if (!m)
		return NULL;
	tw_member_search(m);
	if (tw_wait(ep, net_search_is_over, m, TW_FOREVER) != TW_W_TRUE)
		return NULL;
	return m->state == TW_MEMBER_HERE ? m : NULL;
}

static void net_lost(struct tw_member *m)
{
	if (m->why == TW_S_OK) { /* else it was not there */
		tw_mrapi_clients_lost(m);
		tw_mrapi_export_lost(m);
		tw_mrapi_proxies_lost(m);
	}
	tw_mrapi_hosts_lost(m);
}

void tw_mrapi_net_changed(void)
{
	net.group.ep->events++;
}

void tw_mrapi_net_attend(void)
{
	net.group.ep->attend = true;
}

/* There are no messages. */
static enum tw_verdict net_unexpected(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	(void)ep;
	(void)u;
	return TW_DROP;
}

/* ------------------------------------------------------------------ requests */

/* On the stack of the thread that waits for the reply. */
struct request {
	struct tw_ctrl_request r;
	struct tw_mrapi_ctrl *ctrl;
	mrapi_status_t status;
	bool over;
};

static void net_replied(struct tw_ctrl_request *r, const void *reply, uint32_t len)
{
	struct request *q = tw_container(r, struct request, r);

	if (reply)
		memcpy(q->ctrl, reply, len);
	q->status = reply ? (mrapi_status_t)q->ctrl->status : MRAPI_ERR_RMEM_INVALID;
	q->over = true;
}

static bool net_request_over(struct tw_ep *ep, void *arg)
{
	(void)ep;
	return ((struct request *)arg)->over;
}

void tw_mrapi_net_give_up(struct tw_member *m)
{
	struct tw_ep *ep = net.group.ep;
	struct tw_peer *p = tw_peer_at(ep, m->addr);

	if (p)
		tw_disconnect(p);
	tw_group_attend(ep);
}

void tw_mrapi_net_begin_request(struct tw_ctrl_request *r, struct tw_member *to,
				struct tw_mrapi_ctrl *ctrl)
{
	static uint64_t sent;

	tw_ctrl_request(r, to);
	ctrl->number = r->number;
	ctrl->sent = ++sent;
}

mrapi_status_t tw_mrapi_net_request(struct tw_ep *ep, struct tw_member *to,
				    struct tw_mrapi_ctrl *ctrl)
{
	struct request q = {.r.on_reply = net_replied, .ctrl = ctrl};

	if (to->state != TW_MEMBER_HERE)
		return MRAPI_ERR_RMEM_INVALID;
	tw_mrapi_net_begin_request(&q.r, to, ctrl);
	if (!tw_ctrl_send(to, 0, ctrl, sizeof(*ctrl))) {
		tw_ctrl_abandon(&q.r);
		return MRAPI_ERR_MEM_LIMIT;
	}
	tw_group_attend(ep);
	/* The connection's end or this endpoint's ends the wait. */
	if (tw_wait(ep, net_request_over, &q, TW_FOREVER) == TW_W_TRUE)
		return q.status;
	tw_ctrl_abandon(&q.r);
	return MRAPI_ERR_NODE_NOTINIT;
}

void tw_mrapi_net_reply(struct tw_member *to, struct tw_mrapi_ctrl *ctrl, mrapi_status_t status)
{
	ctrl->what = TW_MRAPI_CTRL_REPLY;
	ctrl->status = (int32_t)status;
	if (ctrl->number && !ctrl->quiet)
		tw_ctrl_must_send(to, 0, ctrl, sizeof(*ctrl));
}

/* ------------------------------------------------------------------ arrivals */

struct arrival {
	struct tw_list link;
	struct tw_member *from;
	uint32_t session;
	struct tw_mrapi_ctrl ctrl;
};

static void am_handler(struct tw_ep *ep, struct tw_peer *p, uint64_t arg, const void *data,
		       uint32_t len)
{
	struct tw_member *from = p->context ? p->context : tw_mrapi_net_member(p->addr.where);
	struct arrival *a = len == sizeof(a->ctrl) ? malloc(sizeof(*a)) : NULL;

	(void)arg;
	if (!a || !from) {
		free(a);
		return;
	}
	if (!p->context)
		tw_member_met(from, p->addr);
	a->from = from;
	a->session = p->addr.session;
	memcpy(&a->ctrl, data, len);
	tw_list_add_tail(&net.inbox, &a->link);
	ep->attend = true;
}

static void handle_ctrl(struct tw_ep *ep, struct tw_member *from, struct tw_mrapi_ctrl *ctrl)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	switch (ctrl->what) {
	case TW_MRAPI_CTRL_REPLY:
		tw_mrapi_hosts_replied(from, ctrl->number);
		tw_ctrl_replied(from, ctrl->number, ctrl, sizeof(*ctrl));
		return;
	case TW_MRAPI_CTRL_OPERATE:
		tw_mrapi_proxy_serve(from, ctrl);
		return;
	case TW_MRAPI_CTRL_LIFE:
		tw_mrapi_hosts_life(from, ctrl->key);
		return;
	case TW_MRAPI_CTRL_HELLO:
		tw_mrapi_hosts_hello(from);
		break;
	case TW_MRAPI_CTRL_CLAIM:
	case TW_MRAPI_CTRL_GONE:
		status = tw_mrapi_remote_serve(from, ctrl);
		break;
	default:
		status = tw_mrapi_export_serve(ep, from, ctrl);
	}
	tw_mrapi_net_reply(from, ctrl, status);
}

static void net_work(struct tw_group *g)
{
	/* Another host may call before this one is set up. */
	if (!tw_mrapi.nic)
		return;
	tw_list_walk(&net.inbox, struct arrival, a, link) {
		tw_list_del(&a->link);
		if (a->from->state == TW_MEMBER_HERE && a->from->addr.session == a->session)
			handle_ctrl(g->ep, a->from, &a->ctrl);
		free(a);
	}
	tw_mrapi_hosts_work();
}

/* Its nodes are not known before it answers. */
static bool net_called(const struct tw_ep *ep, uint64_t where, char *out, size_t size)
{
	(void)ep, (void)where;
	snprintf(out, size, "an MRAPI process");
	return true;
}

static const struct tw_interface interface = {.name = "mrapi",
					      .first_id = TW_MRAPI_FIRST_ID,
					      .unexpected = net_unexpected,
					      .am_handler = am_handler,
					      .attend = tw_group_attend,
					      .down = tw_group_down,
					      .called = net_called,
					      .serves = true,
					      .max_len = 1};

/* ------------------------------------------------------------ start and stop */

/* The board that the topology names, or the first. */
static uint32_t own_board(void)
{
	uint32_t board = 0;

	for (uint32_t i = 0; i < TW_MAX_NODES; i++)
		if (tw_topology_node_board(i, &board) && board)
			return board;
	return 0;
}

static mrapi_status_t net_open_endpoint(const uint64_t *hosts)
{
	struct tw_open how = {.number = tw_mrapi.proc,
			      .filter = FILTER,
			      .board = own_board(),
			      .unexp_max = tw_settings.unexp_max,
			      .iface = &interface,
			      .owner = &net.group,
			      .ep = &net.group.ep};
	uint64_t end = tw_clock() + tw_clock_us(1000ull * OPEN_MS), handle;
	enum tw_err err;
	struct tw_ep *ep;

	tw_mrapi_hosts_begin();
	err = tw_ep_open(&how, &handle);
	while (err == TW_EBUSY && tw_clock() < end) {
		tw_sys_sleep_us(10000);
		err = tw_ep_open(&how, &handle);
	}
	if (err != TW_OK) {
		tw_log(TW_LOG_ERROR, "mrapi: cannot open an endpoint for other hosts: %s",
		       err == TW_EBUSY ? "its TCP port is in use (TAGWIRE_PORT)" : "no resources");
		return MRAPI_ENO_INIT;
	}
	if (!strcmp(tw_settings.rmem, "served")) {
		ep = tw_enter(handle);
		ep->rndv = TW_RNDV_COPY;
		tw_leave(ep);
	}
	/* [set-up] */
	atomic_store(&net.handle, handle);
	ep = tw_enter(handle);
	tw_mrapi.nic = ep->self->addr.where >> 16;
	tw_mrapi_hosts_start(ep, hosts, net.nhosts);
	tw_group_leave(ep);
	/* A process may have died before there was an endpoint. */
	tw_mrapi_remote_inherit(0);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_net_begin(void)
{
	net.begun = tw_job_has_hosts() && tw_begin() == TW_OK;
	return net.begun || !tw_job_has_hosts() ? MRAPI_SUCCESS : MRAPI_ENO_INIT;
}

void tw_mrapi_net_end(void)
{
	if (net.begun)
		tw_end();
	net.begun = false;
}

mrapi_status_t tw_mrapi_net_start(void)
{
	mrapi_status_t status = MRAPI_SUCCESS;
	uint64_t hosts[TW_MRAPI_HOSTS];

	if (!net.begun)
		return MRAPI_SUCCESS;
	tw_group_init(&net.group, FILTER);
	net.group.work = net_work;
	net.group.here = tw_mrapi_hosts_here;
	net.group.lost = net_lost;
	tw_list_init(&net.known);
	tw_list_init(&net.inbox);
	if (!tw_job_topology())
		return MRAPI_ENO_INIT;
	net.nhosts = tw_topology_other_hosts(hosts, TW_MRAPI_HOSTS);
	if (net.nhosts)
		status = net_open_endpoint(hosts);
	if (status != MRAPI_SUCCESS)
		net.nhosts = 0;
	return status;
}

static void forget_members(void)
{
	tw_list_walk(&net.inbox, struct arrival, a, link)
		free(a);
	tw_list_walk(&net.known, struct known, k, link) {
		tw_list_del(&k->m.link);
		free(k);
	}
	tw_mrapi_hosts_stop();
}

void tw_mrapi_net_stop(void)
{
	uint64_t handle = atomic_exchange(&net.handle, 0);

	if (handle)
		tw_ep_close(handle);
	tw_mrapi_proxies_stop();
	tw_mrapi_export_forget();
	if (net.nhosts)
		forget_members();
	net.nhosts = 0;
	tw_mrapi_net_end();
}

void tw_mrapi_net_forked(void)
{
	atomic_store(&net.handle, 0);
	tw_mrapi_proxies_forked();
	net.nhosts = 0;
	net.begun = false;
	tw_mrapi_export_forget();
}
