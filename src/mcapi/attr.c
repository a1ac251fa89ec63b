/* SPDX-License-Identifier: BSD-2-Clause */
/* MCAPI 4.2.5, 4.2.6: attributes of endpoints. */
#include "mcapi/chan.h"
#include "mcapi/queue.h"
#include "mcapi/req.h"

#define NATTRS (MCAPI_ATTR_RECV_BUFFERS_AVAILABLE + 1)
#define MAX_BUFFERS 1000000

static uint32_t status_bits(const struct tw_mcapi_endp *e)
{
	const struct tw_mcapi_chan *c = &e->chan;
	uint32_t bits = MCAPI_CREATED;

	if (c->bound) {
		bits |= MCAPI_CONNECTED;
		bits |= c->type == TW_MCAPI_K_PKT ? MCAPI_PKT : MCAPI_SCL;
		bits |= c->sender ? MCAPI_SEND : MCAPI_RECEIVE;
	}
	if (c->open == TW_MCAPI_CH_OPEN)
		bits |= MCAPI_OPEN;
	return bits;
}

/* The receiving end of a scalar channel has room for scalars instead of buffers. */
static bool has_scalars(const struct tw_mcapi_endp *e)
{
	return e->chan.bound && e->chan.type == TW_MCAPI_K_SCL && !e->chan.sender;
}

static uint32_t buffers(const struct tw_mcapi_endp *e)
{
	return has_scalars(e) ? TW_MCAPI_SCALARS : e->buffers;
}

static uint32_t queued(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e)
{
	return has_scalars(e) ? tw_mcapi_scl_queued(e) : tw_mcapi_queued(n, e);
}

static uint32_t attr_get(struct tw_mcapi_node *n, const struct tw_mcapi_endp *e, uint32_t number)
{
	switch (number) {
	case MCAPI_ATTR_NO_PRIORITIES:
		return TW_MCAPI_PRIOS;
	case MCAPI_ATTR_NO_BUFFERS:
		return buffers(e);
	case MCAPI_ATTR_BUFFER_SIZE:
		return MCAPI_MAX_MESSAGE_SIZE;
	case MCAPI_ATTR_BUFFER_TYPE:
		return MCAPI_FIFO_BUFFER;
	case MCAPI_ATTR_MEMORY_TYPE:
		return MCAPI_SHARED_MEMORY;
	case MCAPI_ATTR_TIMEOUT:
		return (uint32_t)e->timeout;
	case MCAPI_ATTR_ENDP_PRIO:
		return e->prio;
	case MCAPI_ATTR_ENDP_STATUS:
		return status_bits(e);
	default: /* MCAPI_ATTR_RECV_BUFFERS_AVAILABLE */
		return buffers(e) > queued(n, e) ? buffers(e) - queued(n, e) : 0;
	}
}

static mcapi_status_t set(struct tw_mcapi_node *n, struct tw_mcapi_endp *e, uint32_t number,
			  uint32_t value)
{
	switch (number) {
	case MCAPI_ATTR_NO_BUFFERS:
		if (value < 1 || value > MAX_BUFFERS)
			return MCAPI_EPARAM;
		e->buffers = value;
		tw_mcapi_credits_changed(n, e);
		return MCAPI_SUCCESS;
	case MCAPI_ATTR_TIMEOUT:
		e->timeout = (int32_t)value;
		return MCAPI_SUCCESS;
	case MCAPI_ATTR_ENDP_PRIO:
		if (value >= TW_MCAPI_PRIOS)
			return MCAPI_EPARAM;
		e->prio = value;
		return MCAPI_SUCCESS;
	default:
		return MCAPI_EREAD_ONLY;
	}
}

void tw_mcapi_on_attr(struct tw_mcapi_node *n, const struct tw_mcapi_ctrl *ctrl)
{
	struct tw_mcapi_endp *e = tw_mcapi_endp_find(n, ctrl->a);

	if (e && ctrl->value < NATTRS)
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_SUCCESS, attr_get(n, e, ctrl->value));
	else
		tw_mcapi_ctrl_reply(n, ctrl, MCAPI_ENOT_ENDP, 0);
}

/* An attribute of an endpoint of another node. */
static mcapi_status_t get_remote(struct tw_mcapi_node *n, mcapi_endpoint_t endpoint,
				 uint32_t number, uint32_t *value)
{
	struct tw_mcapi_mreq m;
	mcapi_status_t status;
	uint32_t board;

	tw_mcapi_mreq_init(&m, TW_MCAPI_Q_GET);
	tw_mcapi_mreq_ask(n, &m, tw_mcapi_node_of(endpoint),
			  &(struct tw_mcapi_ctrl){
				  .what = TW_MCAPI_CTRL_ATTR, .a = endpoint, .value = number});
	status = tw_mcapi_mreq_wait(n, &m, TW_MCAPI_SYNC_MS, MCAPI_ENOT_ENDP);
	*value = (uint32_t)m.size;
	if (number == MCAPI_ATTR_MEMORY_TYPE &&
	    !tw_topology_node_board(tw_mcapi_node_of(endpoint), &board))
		*value = MCAPI_REMOTE_MEMORY;
	return status == MCAPI_SUCCESS ? MCAPI_SUCCESS : MCAPI_ENOT_ENDP;
}

static mcapi_status_t attr_check(mcapi_uint_t number, const void *attribute, size_t size)
{
	if (!attribute)
		return MCAPI_EPARAM;
	if (number >= NATTRS)
		return MCAPI_EATTR_NUM;
	return size == sizeof(uint32_t) ? MCAPI_SUCCESS : MCAPI_EATTR_SIZE;
}

void mcapi_get_endpoint_attribute(mcapi_endpoint_t endpoint, mcapi_uint_t attribute_num,
				  void *attribute, size_t attribute_size,
				  mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_endp *e;
	struct tw_mcapi_node *n;
	struct tw_ep *ep;
	uint32_t value = 0;

	ep = tw_mcapi_begin(&n, mcapi_status, MCAPI_ENOT_ENDP);
	if (!ep)
		return;
	e = tw_mcapi_endp_find(n, endpoint);
	if (e || (tw_mcapi_node_of(endpoint) != n->number &&
		  tw_mcapi_node_of(endpoint) < MCAPI_MAX_NODES))
		*mcapi_status = attr_check(attribute_num, attribute, attribute_size);
	if (*mcapi_status == MCAPI_SUCCESS && e)
		value = attr_get(n, e, attribute_num);
	else if (*mcapi_status == MCAPI_SUCCESS)
		*mcapi_status = get_remote(n, endpoint, attribute_num, &value);
	if (*mcapi_status == MCAPI_SUCCESS)
		memcpy(attribute, &value, sizeof(value));
	tw_mcapi_leave(ep);
}

void mcapi_set_endpoint_attribute(mcapi_endpoint_t endpoint, mcapi_uint_t attribute_num,
				  const void *attribute, size_t attribute_size,
				  mcapi_status_t *mcapi_status)
{
	struct tw_mcapi_node *n;
	struct tw_mcapi_endp *e = tw_mcapi_endp_begin(&n, endpoint, mcapi_status);
	uint32_t value;

	if (!e)
		return;
	*mcapi_status = attr_check(attribute_num, attribute, attribute_size);
	if (*mcapi_status == MCAPI_SUCCESS && tw_mcapi_chan_in_use(e)) {
		*mcapi_status = MCAPI_ECONNECTED;
	} else if (*mcapi_status == MCAPI_SUCCESS) {
		memcpy(&value, attribute, sizeof(value));
		*mcapi_status = set(n, e, attribute_num, value);
	}
	tw_mcapi_leave(n->ep);
}
