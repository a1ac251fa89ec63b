/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: the side with the greater token calls, the other one waits. The
 * connection manager sends lost messages again only after four seconds, which cannot
 * be changed: a caller without an answer hangs up and calls again much sooner.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "base/inet.h"
#include "providers/net/verbs/verbs.h"

#define RESOLVE_MS 1000 /* to resolve an address, and its route */
#define RETRIES 6	/* 7 would mean no limit for a receiver without buffers */
#define ACK_TIMEOUT 15	/* 4.096 us << this before a retry: a second in all */
#define TICK_MS 100
#define CALL_TICKS 6  /* before the second call, twice as many before the third, */
#define CALL_SLOWER 4 /* and so on, so often */

/* An event, copied so that it can be acknowledged before it is handled. */
struct event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	bool greeted;
	struct tw_verbs_hello hello;
};

static struct rdma_conn_param params(struct tw_verbs_path *p, struct tw_verbs_hello *h)
{
	*h = (struct tw_verbs_hello){.magic = TW_VERBS_MAGIC,
				     .name = p->other_name,
				     .token = p->other_token,
				     .from = p->token,
				     .granted = p->granted,
				     .call = p->call};
	return (struct rdma_conn_param){.private_data = h,
					.private_data_len = sizeof(*h),
					.responder_resources = RDMA_MAX_RESP_RES,
					.initiator_depth = RDMA_MAX_INIT_DEPTH,
					.retry_count = RETRIES,
					.rnr_retry_count = RETRIES,
					.srq = 1,
					.qp_num = p->qp->qp_num};
}

/* The default takes many seconds to notice a dead link. */
static void be_quick(struct rdma_cm_id *id)
{
	uint8_t timeout = ACK_TIMEOUT;

	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			      sizeof(timeout));
}

bool tw_verbs_call(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;
	struct sockaddr_storage from = v->addr;
	struct sockaddr_in6 dst = p->to;

	p->call++;
	p->ticks = 0;
	tw_inet_set_port(&from, 0);
	if (from.ss_family == AF_INET6)
		dst.sin6_scope_id = ((struct sockaddr_in6 *)(void *)&from)->sin6_scope_id;
	if (rdma_create_id(v->events, &p->id, p, RDMA_PS_TCP) != 0) {
		p->id = NULL;
		return false;
	}
	return rdma_resolve_addr(p->id, (struct sockaddr *)&from, (struct sockaddr *)&dst,
				 RESOLVE_MS) == 0;
}

/* The route is resolved. */
static bool cm_ask(struct tw_verbs_path *p)
{
	struct tw_verbs_hello h;
	struct rdma_conn_param param;

	be_quick(p->id);
	if (!tw_verbs_qp_make(p))
		return false;
	param = params(p, &h);
	return rdma_connect(p->id, &param) == 0;
}

void tw_verbs_path_up(struct tw_verbs_path *p, uint32_t granted)
{
	/* A packet may have granted more already. */
	if ((int32_t)(granted - p->limit) > 0)
		p->limit = granted;
	p->state = TW_VERBS_UP;
	p->v->connecting -= p->bound;
}

/* The path that a caller names, if it knows the token and may call. */
static struct tw_verbs_path *cm_wanted(struct tw_verbs *v, const struct event *e)
{
	struct tw_verbs_path *p = e->greeted ? tw_verbs_path_find(v, e->hello.name) : NULL;

	if (!p || p->token != e->hello.token || p->state != TW_VERBS_NEW ||
	    (p->id && e->hello.call <= p->call) || e->hello.from <= p->token ||
	    (p->bound && p->other_token != e->hello.from) || e->id->verbs != v->listener->verbs)
		return NULL;
	return p;
}

static void cm_called(struct tw_verbs *v, const struct event *e)
{
	struct tw_verbs_path *p = cm_wanted(v, e);
	struct rdma_conn_param param;
	struct tw_verbs_hello h;

	if (!p) {
		v->host.log(TW_LOG_DEBUG, "verbs: a connection that nobody expects");
		rdma_reject(e->id, NULL, 0);
		rdma_destroy_id(e->id);
		return;
	}
	/* The answer to an earlier call was lost. */
	tw_verbs_path_anew(p);
	p->id = e->id;
	p->id->context = p;
	p->call = e->hello.call;
	p->other_token = e->hello.from;
	/* Set now: packets may come before the ESTABLISHED event. */
	p->limit = e->hello.granted;
	be_quick(p->id);
	if (tw_verbs_qp_make(p) && tw_verbs_qp_move(p, IBV_QPS_RTR) &&
	    tw_verbs_qp_move(p, IBV_QPS_RTS)) {
		param = params(p, &h);
		if (rdma_accept(p->id, &param) == 0)
			return;
	}
	/* The caller may have hung up already, and calls again; if not, it is told. */
	v->host.log(TW_LOG_DEBUG, "verbs: cannot accept: %s", strerror(errno));
	rdma_reject(p->id, NULL, 0);
	tw_verbs_path_anew(p);
}

static bool cm_greeted(const struct tw_verbs_path *p, const struct event *e)
{
	return e->greeted && e->hello.token == p->token && e->hello.from == p->other_token &&
	       e->hello.call == p->call;
}

/* The called side accepts. */
static bool cm_answered(struct tw_verbs_path *p, const struct event *e)
{
	if (p->state != TW_VERBS_NEW || !cm_greeted(p, e) || !tw_verbs_qp_move(p, IBV_QPS_RTR) ||
	    !tw_verbs_qp_move(p, IBV_QPS_RTS) || rdma_establish(p->id) != 0)
		return false;
	tw_verbs_path_up(p, e->hello.granted);
	tw_verbs_send_empty(p);
	return true;
}

static void path_event(struct tw_verbs_path *p, const struct event *e)
{
	bool done = true, waits = !p->calls && p->state == TW_VERBS_NEW;

	if (e->id != p->id)
		return;
	switch (e->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		done = e->id->verbs == p->v->listener->verbs &&
		       rdma_resolve_route(e->id, RESOLVE_MS) == 0;
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		done = cm_ask(p);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		done = cm_answered(p, e);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		/* The caller gets it only on iWARP. */
		done = !p->calls || cm_greeted(p, e);
		if (done && p->state == TW_VERBS_NEW)
			tw_verbs_path_up(p, p->calls ? e->hello.granted : p->limit);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		/* The caller has hung up, and calls again. */
		if (waits)
			tw_verbs_path_anew(p);
		done = waits;
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
		done = false;
		break;
	default:
		break;
	}
	if (!done)
		tw_verbs_path_down(p, rdma_event_str(e->type));
}

static void deal_with(struct tw_verbs *v, const struct event *e)
{
	if (e->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		v->gone = true;
	else if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST)
		cm_called(v, e);
	else if (e->id != v->listener && e->id->context)
		path_event(e->id->context, e);
}

void tw_verbs_tick(struct tw_verbs *v)
{
	if (v->ticking == (v->connecting > 0))
		return;
	tw_sys_timer_set(v->timer, v->connecting ? TICK_MS * 1000000 : 0);
	v->ticking = v->connecting > 0;
}

/* Calls again where it is time to. Missed ticks are not made up for. */
static void ticked(struct tw_verbs *v)
{
	uint64_t times;

	if (!v->ticking || tw_sys_read(v->timer, &times, sizeof(times)) != sizeof(times))
		return;
	v->ticking = false;
	/* While some calls are answered the peer is only slow: more calls do not help. */
	if (v->cm_activity) {
		v->cm_activity = false;
		tw_verbs_tick(v);
		return;
	}
	tw_list_walk(&v->paths, struct tw_verbs_path, p, node) {
		unsigned slower = tw_min(p->call, (uint32_t)CALL_SLOWER + 1) - 1;

		if (p->state != TW_VERBS_NEW || !p->bound || !p->calls ||
		    ++p->ticks < (unsigned)CALL_TICKS << slower)
			continue;
		tw_verbs_path_anew(p);
		if (!tw_verbs_call(p))
			tw_verbs_path_down(p, "cannot connect");
	}
	tw_verbs_tick(v);
}

void tw_verbs_cm_events(struct tw_verbs *v)
{
	struct rdma_cm_event *from;

	while (rdma_get_cm_event(v->events, &from) == 0) {
		struct event e = {.type = from->event, .id = from->id};
		const struct rdma_conn_param *c = &from->param.conn;

		bool answer = e.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
			      e.type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
			      e.type == RDMA_CM_EVENT_ESTABLISHED;

		v->cm_activity |= answer;
		if (answer && c->private_data && c->private_data_len >= sizeof(e.hello)) {
			memcpy(&e.hello, c->private_data, sizeof(e.hello));
			e.greeted = e.hello.magic == TW_VERBS_MAGIC;
		}
		rdma_ack_cm_event(from);
		deal_with(v, &e);
	}
	ticked(v);
}
