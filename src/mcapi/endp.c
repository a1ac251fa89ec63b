/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.2: endpoints, and finding those of other nodes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/report.h"
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

#define FIRST_DYNAMIC 0xc000 /* the first port for MCAPI_PORT_ANY */

struct tw_mcapi_endp *tw_mcapi_endp_next(const struct tw_mcapi_node *n, uint32_t *port)
{
	struct tw_mcapi_endp *e = NULL;

	for (; !e && *port < 0x10000; ++*port) {
		if (!n->ports[*port >> 8])
			*port |= 255;
		e = tw_mcapi_endp_at(n, *port);
	}
	return e;
}

static struct tw_mcapi_endp *endp_make(struct tw_mcapi_node *n, uint32_t port)
{
	struct tw_mcapi_endp ***low = &n->ports[port >> 8];
	struct tw_mcapi_endp *e;

	if (!*low)
		*low = calloc(256, sizeof(**low));
	e = *low ? calloc(1, sizeof(*e)) : NULL;
	if (!e)
		return NULL;
	e->handle = n->number << 16 | port;
	e->buffers = TW_MCAPI_BUFFERS;
	e->prio = 1;
	e->timeout = MCAPI_INFINITE;
	tw_list_init(&e->msg_recvs);
	tw_list_init(&e->packet_recvs);
	tw_mcapi_chan_init(&e->chan);
	(*low)[port & 255] = e;
	n->nendps++;
	return e;
}

static void free_endp(struct tw_mcapi_node *n, struct tw_mcapi_endp *e)
{
	tw_mcapi_recvs_end(n, &e->msg_recvs, MCAPI_ENOT_ENDP, true);
	tw_unexp_drop_all(n->ep, tw_mcapi_msgs_of(e, 0), TW_MCAPI_ANY_PRIO);
	tw_mcapi_pkt_drop(n, e);
	n->ports[e->handle >> 8 & 255][e->handle & 255] = NULL;
	n->nendps--;
	/* A new endpoint of that port grants its own credits. */
	e->buffers = 0;
	tw_mcapi_credits_changed(n, e);
	free(e->sources);
	free(e);
}

/* Without an engine endpoint: frees memory only. */
void tw_mcapi_endps_fini(struct tw_mcapi_node *n)
{
	struct tw_mcapi_endp *e;

	for (uint32_t port = 0; (e = tw_mcapi_endp_next(n, &port));) {
		free(e->sources);
		free(e);
	}
	for (unsigned i = 0; i < 256; i++) {
		free(n->ports[i]);
		n->ports[i] = NULL;
	}
}

/* Creating and deleting -------------------------------------------------------- */

static bool port_taken(const struct tw_mcapi_node *n, uint32_t port)
{
	return tw_mcapi_endp_find(n, n->number << 16 | port) != NULL;
}

static mcapi_status_t endp_create(struct tw_mcapi_node *n, mcapi_port_t port,
				  mcapi_endpoint_t *endpoint)
{
	uint32_t number = (uint32_t)port;
	struct tw_mcapi_endp *e;
	char host[64];

	if (n->elsewhere) {
		tw_nic_text(tw_topology_node_nic(n->number), host, sizeof(host));
		tw_log(TW_LOG_ERROR,
		       "mcapi: node %u has no endpoints here: TAGWIRE_NODES puts it on %s",
		       (unsigned)n->number, host);
		return MCAPI_EEP_NOTALLOWED;
	}
	if (port == MCAPI_PORT_ANY)
		for (number = FIRST_DYNAMIC; number < 0x10000 && port_taken(n, number);)
			number++;
	else if (port < 0 || port > 0xffff)
		return MCAPI_EPORT_NOTVALID;
	else if (port_taken(n, number))
		return MCAPI_EENDP_ISCREATED;
	if (n->nendps >= MCAPI_MAX_ENDPOINTS || number > 0xffff)
		return MCAPI_EENDP_LIMIT;
	e = endp_make(n, number);
	if (!e)
		return MCAPI_EENDP_LIMIT;
	tw_mcapi_pending_serve(n, TW_MCAPI_CTRL_GET, e->handle, tw_mcapi_on_get);
	*endpoint = e->handle;
	return MCAPI_SUCCESS;
}

mcapi_endpoint_t mcapi_create_endpoint(mcapi_port_t port_id, mcapi_status_t *mcapi_status)
{
	mcapi_endpoint_t endpoint = MCAPI_NULL;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENODE_NOTINIT);
	if (!ep)
		return MCAPI_NULL;
	*mcapi_status = endp_create(n, port_id, &endpoint);
	tw_mcapi_leave(ep);
	return endpoint;
}

void mcapi_delete_endpoint(mcapi_endpoint_t endpoint, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_endp *e;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	e = tw_mcapi_endp_find(n, endpoint);
	if (tw_mcapi_node_of(endpoint) != n->number &&
	    tw_mcapi_node_of(endpoint) < MCAPI_MAX_NODES) {
		*mcapi_status = MCAPI_ENOT_OWNER;
	} else if (e && (e->chan.open == TW_MCAPI_CH_OPEN || e->chan.open == TW_MCAPI_CH_OPENING)) {
		*mcapi_status = MCAPI_ECHAN_OPEN;
	} else if (e) {
		tw_mcapi_chan_dissolve(n, e);
		free_endp(n, e);
		*mcapi_status = MCAPI_SUCCESS;
	}
	tw_mcapi_leave(ep);
}

/* Finding ------------------------------------------------------------------------ */

bool tw_mcapi_pending_add(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_pending *w = malloc(sizeof(*w));

	if (!w)
		return false;
	w->from = from;
	w->ctrl = *ctrl;
	tw_list_add_tail(&n->pending, &w->link);
	return true;
}

void tw_mcapi_pending_serve(struct tw_mcapi_node *n, enum tw_mcapi_ctrl_what what,
			    mcapi_endpoint_t endpoint, tw_mcapi_on_fn *serve)
{
	struct tw_mcapi_pending *w;
	struct tw_list requested;

	tw_list_init(&requested);
	tw_list_walk(&n->pending, struct tw_mcapi_pending, p, link) {
		if (p->ctrl.what == what && p->ctrl.a == endpoint) {
			tw_list_del(&p->link);
			tw_list_add_tail(&requested, &p->link);
		}
	}
	while ((w = tw_list_take(&requested, struct tw_mcapi_pending, link))) {
		serve(n, w->from, &w->ctrl);
		free(w);
	}
}

void tw_mcapi_on_get(struct tw_mcapi_node *n, uint32_t from, const struct tw_mcapi_ctrl *ctrl)
{
	if (tw_mcapi_endp_find(n, ctrl->a))
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_SUCCESS, 0);
	else if (!tw_mcapi_pending_add(n, from, ctrl))
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_ENO_MEM, 0);
}

void tw_mcapi_pending_lost(struct tw_mcapi_node *n, uint32_t node)
{
	tw_list_walk(&n->pending, struct tw_mcapi_pending, w, link) {
		if (w->from != node)
			continue;
		tw_list_del(&w->link);
		free(w);
	}
}

static void endp_on_reply(struct tw_mcapi_node *n, struct tw_mcapi_ctrl_request *ctrl_req,
			  const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_mreq *m = tw_container(ctrl_req, struct tw_mcapi_mreq, ctrl_req);

	if (!ctrl || ctrl->status != MCAPI_SUCCESS) {
		m->retry = tw_clock() + tw_clock_us(TW_MCAPI_SEARCH_US);
		tw_list_add_tail(&n->gets, &m->link);
		/* Calls that wait without a limit must now wake for the next request. */
		tw_wake_callers(n->ep);
		return;
	}
	*m->found = m->endpoint;
	tw_mcapi_mreq_done(n, m, MCAPI_SUCCESS, 0);
}

void tw_mcapi_endp_text(const struct tw_mcapi_node *n, mcapi_endpoint_t e, char *out, size_t size)
{
	char who[TW_REPORT_SIZE / 2];

	tw_failure_who(who, sizeof(who), n->ep, n->peers[tw_mcapi_node_of(e)].where);
	snprintf(out, size, "port %u of %s", (unsigned)e & 0xffff, who);
}

static void endp_say(struct tw_mcapi_node *n, const struct tw_mcapi_mreq *m)
{
	char port[TW_REPORT_SIZE];

	tw_mcapi_endp_text(n, m->endpoint, port, sizeof(port));
	tw_report(TW_LOG_ERROR, port, "the node runs, and has not created this endpoint",
		  "it must call mcapi_create_endpoint with this port");
}

uint64_t tw_mcapi_gets_say(struct tw_mcapi_node *n, uint64_t now)
{
	uint64_t next = 0;

	tw_list_walk(&n->group.requests, struct tw_mcapi_ctrl_request, q, r.link) {
		struct tw_mcapi_mreq *m = tw_container(q, struct tw_mcapi_mreq, ctrl_req);

		if (q->on_reply != endp_on_reply || !m->retry)
			continue;
		/* That a node is not there is said by the engine. */
		if (q->r.to->state != TW_MEMBER_HERE) {
			m->retry = now + tw_clock_us(TW_LONG_US);
		} else if (m->retry <= now) {
			m->retry = 0;
			endp_say(n, m);
		}
		next = tw_earlier(next, m->retry);
	}
	return next;
}

/* The node may begin later. */
static void endp_search(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m)
{
	struct tw_mcapi_ctrl get = {.what = TW_MCAPI_CTRL_GET, .a = m->endpoint};
	uint32_t node = tw_mcapi_node_of(m->endpoint);

	m->retry = tw_clock() + tw_clock_us(TW_LONG_US);
	tw_timer(&n->ep->host, m->retry);
	tw_member_search_for(&n->peers[node], tw_settings.connect_timeout);
	if (!tw_mcapi_ctrl_request(n, &m->ctrl_req, node, &get))
		endp_on_reply(n, &m->ctrl_req, NULL);
}

void tw_mcapi_gets_search(struct tw_mcapi_node *n)
{
	uint64_t now = tw_clock();

	tw_list_walk(&n->gets, struct tw_mcapi_mreq, m, link) {
		if (m->retry > now)
			continue;
		tw_list_del(&m->link);
		endp_search(n, m);
	}
}

/* At the beginning of a call; NULL with a status. */
static struct tw_ep *endp_begin_get(struct tw_mcapi_node **n, mcapi_node_t node, mcapi_port_t port,
				    mcapi_status_t *status)
{
	*status = node >= MCAPI_MAX_NODES ? MCAPI_ENODE_NOTVALID : MCAPI_EPORT_NOTVALID;
	if (node >= MCAPI_MAX_NODES || port < 0)
		return NULL;
	return tw_mcapi_begin(n, status, MCAPI_ENODE_NOTINIT);
}

static void start_get(struct tw_mcapi_node *n, struct tw_mcapi_mreq *m, mcapi_node_t node,
		      mcapi_port_t port, mcapi_endpoint_t *endpoint)
{
	m->endpoint = node << 16 | (port & 0xffff);
	m->found = endpoint;
	m->ctrl_req.on_reply = endp_on_reply;
	endp_search(n, m);
	tw_group_attend(n->ep);
}

void mcapi_get_endpoint_i(mcapi_node_t node_id, mcapi_port_t port_id, mcapi_endpoint_t *endpoint,
			  mcapi_request_t *request, mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_mreq *m;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	if (!mcapi_status)
		return;
	*mcapi_status = MCAPI_EPARAM;
	ep = endpoint && request ? endp_begin_get(&n, node_id, port_id, mcapi_status) : NULL;
	if (!ep)
		return;
	m = tw_mcapi_mreq_new(n, TW_MCAPI_Q_GET);
	*mcapi_status = m ? MCAPI_INCOMPLETE : MCAPI_ENO_REQUEST;
	if (m)
		start_get(n, m, node_id, port_id, endpoint);
	tw_mcapi_mreq_started(n, m, 0, request, mcapi_status);
	tw_mcapi_leave(ep);
}

mcapi_endpoint_t mcapi_get_endpoint(mcapi_node_t node_id, mcapi_port_t port_id,
				    mcapi_status_t *mcapi_status)
{
	mcapi_endpoint_t endpoint = MCAPI_NULL;
	struct tw_mcapi_mreq m = {0};
	struct tw_mcapi_node *n;
	struct tw_ep *ep;

	ep = mcapi_status ? endp_begin_get(&n, node_id, port_id, mcapi_status) : NULL;
	if (!ep)
		return MCAPI_NULL;
	tw_mcapi_mreq_init(&m, TW_MCAPI_Q_GET);
	start_get(n, &m, node_id, port_id, &endpoint);
	*mcapi_status = tw_mcapi_mreq_wait(n, &m, -1, MCAPI_ENODE_NOTINIT);
	tw_mcapi_leave(ep);
	return *mcapi_status == MCAPI_SUCCESS ? endpoint : MCAPI_NULL;
}
