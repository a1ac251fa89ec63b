/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoint to members on other hosts: connections, control messages, requests. */
#include <stdlib.h>

#include "mrapi/net.h"

#define FILTER 0x4d524150    /* keeps programs of other interfaces out */
#define OPEN_MS 2000	     /* the former process with this slot may be dying */
#define MAX_HOSTS 64	     /* except this one */
#define IS_DATA (1ull << 63) /* in match information */

static struct {
	_Atomic(uint64_t) handle; /* 0: no other hosts */
	bool begun;
	uint64_t hosts[MAX_HOSTS];
	unsigned nhosts;
	uint32_t tokens;
	struct tw_list requests, inbox;
} net;

unsigned tw_mrapi_net_hosts(const uint64_t **nics)
{
	*nics = net.hosts;
	return net.nhosts;
}

struct tw_ep *tw_mrapi_net_enter(void)
{
	return tw_enter(atomic_load_explicit(&net.handle, memory_order_acquire));
}

static void attend(struct tw_ep *ep);

void tw_mrapi_net_leave(struct tw_ep *ep)
{
	if (ep->attend || !tw_list_empty(&ep->done))
		attend(ep);
	if (tw_unfinished(ep))
		tw_progress_request(ep);
	tw_leave(ep);
}

/* ---------------------------------------------------------- control messages */

static void sent(struct tw_ep *ep, struct tw_mrapi_op *op, const struct tw_req *r)
{
	(void)ep;
	(void)r; /* lost peers are reported by down() */
	free(tw_container(op, struct tw_mrapi_net_msg, op));
}

struct tw_mrapi_net_msg *tw_mrapi_net_msg_new(const struct tw_mrapi_ctrl *ctrl, uint32_t len)
{
	struct tw_mrapi_net_msg *l = malloc(sizeof(*l) + len);

	if (l) {
		l->op.done = sent;
		l->ctrl = *ctrl;
	}
	return l;
}

static bool post(struct tw_ep *ep, struct tw_addr to, struct tw_mrapi_net_msg *l, void *from,
		 uint32_t len, uint64_t match)
{
	struct tw_req *r = tw_req_new1(ep, TW_SEND, from, len);

	if (!r) {
		tw_log(TW_LOG_ERROR, "mrapi: no memory for a message to another host");
		free(l);
		return false;
	}
	r->context = &l->op;
	r->match = match;
	r->flags = TW_R_URGENT;
	tw_send(ep, r, to);
	return true;
}

static bool post_ctrl(struct tw_ep *ep, struct tw_addr to, struct tw_mrapi_net_msg *l, uint32_t len)
{
	/* The data must follow the control message without padding. */
	_Static_assert(offsetof(struct tw_mrapi_net_msg, data) ==
			       offsetof(struct tw_mrapi_net_msg, ctrl) +
				       sizeof(struct tw_mrapi_ctrl),
		       "wire format");
	return post(ep, to, l, &l->ctrl, (uint32_t)sizeof(l->ctrl) + len, 0);
}

void tw_mrapi_net_post_data(struct tw_ep *ep, struct tw_addr to, struct tw_mrapi_net_msg *l,
			    uint32_t len)
{
	post(ep, to, l, l->data, len, IS_DATA | l->ctrl.token);
}

void tw_mrapi_net_ctrl_send(struct tw_ep *ep, struct tw_addr to, const struct tw_mrapi_ctrl *ctrl)
{
	struct tw_mrapi_net_msg *l = tw_mrapi_net_msg_new(ctrl, 0);

	if (l)
		post_ctrl(ep, to, l, 0);
	else
		tw_log(TW_LOG_ERROR, "mrapi: no memory for a message to another host");
}

/* ----------------------------------------------------------------- requests */

static struct tw_mrapi_ctrl_request *find_request(uint32_t token, struct tw_addr from)
{
	tw_list_walk(&net.requests, struct tw_mrapi_ctrl_request, a, link) {
		if (a->reply.token == token && tw_mrapi_same(a->to, from))
			return a;
	}
	return NULL;
}

static void complete(struct tw_ep *ep, struct tw_mrapi_ctrl_request *a, mrapi_status_t status)
{
	tw_list_del(&a->link);
	a->reply.status = (int32_t)status;
	a->over = true;
	ep->events++;
}

static bool request_over(struct tw_ep *ep, void *arg)
{
	(void)ep;
	return ((struct tw_mrapi_ctrl_request *)arg)->over;
}

mrapi_status_t tw_mrapi_net_request(struct tw_ep *ep, struct tw_mrapi_ctrl_request *a,
				    struct tw_mrapi_net_msg *l, uint32_t len)
{
	if (!l)
		return MRAPI_ERR_MEM_LIMIT;
	do
		l->ctrl.token = ++net.tokens;
	while (!l->ctrl.token);
	a->reply = l->ctrl;
	a->over = false;
	/* Listed before it is sent: sending may make progress and receive the reply. */
	tw_list_add_tail(&net.requests, &a->link);
	if (!post_ctrl(ep, a->to, l, len)) {
		tw_list_del(&a->link);
		return MRAPI_ERR_MEM_LIMIT;
	}
	/* The connection's end or this endpoint's ends the wait. */
	if (tw_wait(ep, request_over, a, TW_FOREVER) != TW_W_TRUE) {
		while (!a->over)
			tw_mrapi_net_give_up(ep, a->to);
		return MRAPI_ERR_NODE_NOTINIT;
	}
	return (mrapi_status_t)a->reply.status;
}

/* ------------------------------------------------------------------ connecting */

struct attempt {
	struct tw_mrapi_op op;
	struct tw_req *r; /* NULL once complete */
	struct tw_addr addr;
	enum tw_status status;
};

static void connected(struct tw_ep *ep, struct tw_mrapi_op *op, const struct tw_req *r)
{
	struct attempt *a = tw_container(op, struct attempt, op);

	a->status = (enum tw_status)r->status;
	a->addr = r->source;
	a->r = NULL;
	ep->events++;
}

static bool attempt_over(struct tw_ep *ep, void *arg)
{
	(void)ep;
	return !((struct attempt *)arg)->r;
}

enum tw_status tw_mrapi_net_reach(struct tw_ep *ep, uint64_t nic, uint32_t proc,
				  struct tw_addr *addr)
{
	struct attempt a = {.op.done = connected, .status = TW_S_TIMEOUT};
	uint64_t deadline = tw_clock() + tw_clock_us(1000ull * tw_settings.connect_timeout);

	a.r = tw_connect_new(ep, nic, TW_EID_MEMBERS + proc, FILTER, deadline);
	if (!a.r)
		return TW_S_NO_RESOURCES;
	a.r->context = &a.op;
	tw_connect(ep, a.r);
	if (tw_wait(ep, attempt_over, &a, TW_FOREVER) != TW_W_TRUE)
		tw_connect_abandon(ep, a.r);
	*addr = a.addr;
	return a.status;
}

/* ------------------------------------------------------------------ arrivals */

/* A control message by rendezvous, while it is received. */
struct fetching {
	struct tw_mrapi_op op;
	struct tw_unexp_msg *u;
};

static void fetched(struct tw_ep *ep, struct tw_mrapi_op *op, const struct tw_req *r)
{
	struct fetching *l = tw_container(op, struct fetching, op);

	if (r->status == TW_S_OK)
		tw_list_add_tail(&net.inbox, &l->u->unexp.all);
	else
		tw_unexp_msg_put(ep, l->u);
	free(l);
}

/* Receives a rendezvous message with length 0, so that its send completes. */
static void refuse(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_req *r = u->rndv ? tw_req_new1(ep, TW_RECV, NULL, 0) : NULL;

	if (!r) {
		tw_unexp_msg_put(ep, u);
		return;
	}
	r->context = NULL;
	tw_take_pull(ep, u, r);
}

static void fetch(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct fetching *l = malloc(sizeof(*l));
	bool fits = u->len <= sizeof(struct tw_mrapi_ctrl) + TW_MRAPI_CHUNK;
	struct tw_unexp_msg *to = fits ? tw_unexp_msg_get(ep, u->len) : NULL;
	struct tw_req *r = to ? tw_req_new1(ep, TW_RECV, to->data, u->len) : NULL;

	if (!l || !r) {
		free(l);
		if (to)
			tw_unexp_msg_put(ep, to);
		refuse(ep, u);
		return;
	}
	*l = (struct fetching){{fetched}, to};
	to->source = u->source;
	to->len = to->have = u->len;
	r->context = &l->op;
	tw_take_pull(ep, u, r);
}

static void data_done(struct tw_ep *ep, struct tw_mrapi_op *op, const struct tw_req *r)
{
	struct tw_mrapi_ctrl_request *a = tw_container(op, struct tw_mrapi_ctrl_request, op);

	complete(ep, a, r->status == TW_S_OK ? MRAPI_SUCCESS : MRAPI_ERR_RMEM_INVALID);
}

/* The data of a READ. */
static void data_arrived(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	struct tw_mrapi_ctrl_request *a = find_request((uint32_t)u->unexp.match, u->source);
	struct tw_req *r;

	if (!a || u->len != a->len) {
		refuse(ep, u);
		return;
	}
	if (!u->rndv) {
		tw_copy(a->data, u->data, u->len);
		tw_unexp_msg_put(ep, u);
		complete(ep, a, MRAPI_SUCCESS);
		return;
	}
	r = tw_req_new1(ep, TW_RECV, a->data, a->len);
	if (!r) {
		refuse(ep, u);
		complete(ep, a, MRAPI_ERR_MEM_LIMIT);
		return;
	}
	/* From here on the receive completes the request, even if the peer is lost. */
	a->reply.token = 0;
	a->op.done = data_done;
	r->context = &a->op;
	tw_take_pull(ep, u, r);
}

static void arrived(struct tw_ep *ep, struct tw_unexp_msg *u)
{
	if (u->unexp.match & IS_DATA) {
		data_arrived(ep, u);
	} else if (u->rndv) {
		fetch(ep, u);
	} else {
		tw_list_add_tail(&net.inbox, &u->unexp.all);
		ep->attend = true;
	}
}

static void handle_ctrl(struct tw_ep *ep, const struct tw_unexp_msg *u)
{
	const struct tw_peer *p = tw_peer_at(ep, u->source);
	struct tw_mrapi_ctrl ctrl;
	struct tw_mrapi_ctrl_request *a;

	if (u->len < sizeof(ctrl) || !p || p->state != TW_PEER_UP)
		return;
	memcpy(&ctrl, u->data, sizeof(ctrl));
	if (ctrl.what == TW_MRAPI_CTRL_REPLY) {
		a = find_request(ctrl.token, u->source);
		if (a) {
			a->reply = ctrl;
			complete(ep, a, (mrapi_status_t)ctrl.status);
		}
	} else if (ctrl.what == TW_MRAPI_CTRL_DELETED) {
		tw_mrapi_remote_deleted(u->source, ctrl.handle);
	} else {
		tw_mrapi_export_serve(ep, u->source, &ctrl, u->data + sizeof(ctrl),
				      u->len - (uint32_t)sizeof(ctrl));
	}
}

static void collect(struct tw_ep *ep)
{
	while (!tw_list_empty(&ep->done)) {
		struct tw_req *r = tw_list_first(&ep->done, struct tw_req, link);
		struct tw_mrapi_op *op = r->context;

		tw_list_del(&r->link);
		if (op)
			op->done(ep, op, r);
		tw_req_free(ep, r);
	}
}

static void attend(struct tw_ep *ep)
{
	static bool inside; /* a send may make progress and call this */

	if (inside)
		return;
	inside = true;
	do {
		ep->attend = false;
		collect(ep);
		while (!tw_list_empty(&net.inbox)) {
			struct tw_unexp_msg *u =
				tw_list_first(&net.inbox, struct tw_unexp_msg, unexp.all);

			tw_list_del(&u->unexp.all);
			handle_ctrl(ep, u);
			tw_unexp_msg_put(ep, u);
		}
	} while (ep->attend || !tw_list_empty(&ep->done));
	inside = false;
}

static void down(struct tw_ep *ep, const struct tw_peer *p)
{
	tw_list_walk(&net.requests, struct tw_mrapi_ctrl_request, a, link) {
		if (a->reply.token && tw_mrapi_same(a->to, p->addr))
			complete(ep, a, MRAPI_ERR_RMEM_INVALID);
	}
	tw_mrapi_remote_down(p->addr);
	tw_mrapi_export_down(p);
	ep->attend = true;
}

void tw_mrapi_net_give_up(struct tw_ep *ep, struct tw_addr to)
{
	tw_disconnect(ep, tw_peer_at(ep, to));
	collect(ep);
}

static const struct tw_interface interface = {.arrived = arrived, .attend = attend, .down = down};

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

static mrapi_status_t open_endpoint(void)
{
	struct tw_open how = {.endpoint_id = TW_EID_MEMBERS + tw_mrapi.proc,
			      .filter = FILTER,
			      .board = own_board(),
			      .unexp_max = tw_settings.unexp_max,
			      .iface = &interface};
	uint64_t end = tw_clock() + tw_clock_us(1000ull * OPEN_MS), handle;
	enum tw_err err = tw_ep_open(&how, &handle);

	while (err == TW_EBUSY && tw_clock() < end) {
		usleep(10000);
		err = tw_ep_open(&how, &handle);
	}
	if (err != TW_OK) {
		tw_log(TW_LOG_ERROR, "mrapi: cannot open an endpoint for other hosts: %s",
		       err == TW_EBUSY ? "its TCP port is in use (TAGWIRE_PORT)" : "no resources");
		return MRAPI_ENO_INIT;
	}
	atomic_store(&net.handle, handle);
	return MRAPI_SUCCESS;
}

mrapi_status_t tw_mrapi_net_start(void)
{
	mrapi_status_t status = MRAPI_SUCCESS;

	if (!tw_settings.nodes[0])
		return MRAPI_SUCCESS;
	if (tw_begin() != TW_OK)
		return MRAPI_ENO_INIT;
	tw_list_init(&net.requests);
	tw_list_init(&net.inbox);
	if (!tw_topology_init())
		status = MRAPI_ENO_INIT;
	else
		net.nhosts = tw_topology_other_hosts(net.hosts, MAX_HOSTS);
	if (net.nhosts)
		status = open_endpoint();
	if (status == MRAPI_SUCCESS) {
		net.begun = true;
	} else {
		net.nhosts = 0;
		tw_end();
	}
	return status;
}

void tw_mrapi_net_stop(void)
{
	uint64_t handle = atomic_exchange(&net.handle, 0);

	if (handle)
		tw_ep_close(handle);
	tw_mrapi_remote_forget();
	tw_mrapi_export_forget();
	net.nhosts = 0;
	if (net.begun)
		tw_end();
	net.begun = false;
}

void tw_mrapi_net_forked(void)
{
	atomic_store(&net.handle, 0);
	net.nhosts = 0;
	net.begun = false;
	tw_mrapi_remote_forget();
	tw_mrapi_export_forget();
}
