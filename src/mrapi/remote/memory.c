/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory whose owner is on another host. Its name is here, as that of a lock is; while a
 * process is attached, the owner cannot delete it. The death of an owner ends the connection. The
 * path to it is a window of the owner's endpoint.
 */
#include <stdlib.h>

#include "engine/window.h"
#include "mrapi/remote/net.h"

#define WINDOW 64		/* accesses in flight */
#define SPAN_MAX 0x40000u	/* span that one access moves, and reads to pick pieces from */
#define GAP_MAX 4096		/* largest gap to read */

/* The process that has it, and its handle there; NULL: it is gone, or cannot be reached. */
static struct tw_member *owner_of(struct tw_ep *ep, struct tw_mrapi_rmem *r, uint32_t handle,
				  uint32_t *there)
{
	uint64_t where = 0;

	tw_mrapi_admin_lock();
	if (tw_mrapi_is(&r->obj, handle) && r->obj.host)
		where = tw_mrapi_node(r->owner)->where;
	*there = r->obj.there;
	tw_mrapi_admin_unlock();
	return where ? tw_mrapi_net_reach(ep, where) : NULL;
}

bool tw_mrapi_memory_reach(struct tw_mrapi_rmem *r, uint32_t handle)
{
	bool reached = false;
	uint32_t there;

	tw_mrapi_with_ep(ep)
		reached = owner_of(ep, r, handle, &there) != NULL;
	return reached;
}

mrapi_status_t tw_mrapi_memory_attach(struct tw_mrapi_client *c, uint32_t handle)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_ATTACH};
	mrapi_status_t status = MRAPI_ERR_RMEM_INVALID;
	uint32_t there;

	tw_mrapi_with_ep(ep)
	{
		c->owner = owner_of(ep, c->r, handle, &there);
		c->there = ctrl.handle = there;
		if (c->owner)
			status = tw_mrapi_net_request(ep, c->owner, &ctrl);
		if (status != MRAPI_SUCCESS)
			c->owner = NULL;
	}
	return status;
}

void tw_mrapi_memory_detach(struct tw_mrapi_client *c)
{
	struct tw_mrapi_ctrl ctrl = {.what = TW_MRAPI_CTRL_DETACH, .handle = c->there};

	tw_mrapi_with_ep(ep)
		if (c->there)
			tw_mrapi_net_request(ep, c->owner, &ctrl);
	c->owner = NULL;
}

/* ----------------------------------------------------------------- the path */

/* Accesses in flight, on the stack of the thread that waits for them. */
struct work {
	struct tw_op op;
	struct tw_mrapi_client *c;
	unsigned n;
	enum tw_status status; /* the first failure */
};

static void memory_ended(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r)
{
	struct work *w = tw_container(op, struct work, op);

	w->n--;
	if (w->status == TW_S_OK)
		w->status = (enum tw_status)r->status;
	ep->events++;
}

static bool has_room(struct tw_ep *ep, void *work)
{
	(void)ep;
	return ((struct work *)work)->n < WINDOW;
}

static bool all_ended(struct tw_ep *ep, void *work)
{
	(void)ep;
	return ((struct work *)work)->n == 0;
}

static void memory_await(struct tw_ep *ep, struct work *w, bool (*test)(struct tw_ep *, void *))
{
	if (tw_wait(ep, test, w, TW_FOREVER) == TW_W_TRUE)
		return;
	w->status = TW_S_CLOSED;
	while (w->n > 0)
		tw_mrapi_net_give_up(w->c->owner);
}

/* Starts one access, unless one has failed. */
static void memory_start(struct tw_ep *ep, struct work *w, bool write, const struct tw_seg *segs,
			 uint32_t nsegs, uint32_t len, uint64_t at)
{
	struct tw_req *r;

	if (!has_room(ep, w))
		memory_await(ep, w, has_room);
	if (w->status != TW_S_OK)
		return;
	r = tw_req_new(ep, write ? TW_WRITE : TW_READ, segs, nsegs, len);
	if (!r) {
		w->status = TW_S_NO_RESOURCES;
		return;
	}
	r->context = &w->op;
	w->n++;
	tw_window_access(ep, r, w->c->owner->addr, w->c->there, at);
}

/* Pieces that the remote side has in one go in one access. */
static void move_pieces(struct tw_ep *ep, struct work *w, const struct tw_mrapi_move *m)
{
	struct tw_seg segs[TW_MAX_SEGMENTS];
	uint32_t most = 1;

	if (m->n > 1 && m->remote_stride == m->bytes)
		most = tw_max(tw_min(SPAN_MAX / m->bytes, (uint32_t)TW_MAX_SEGMENTS), 1u);
	for (uint32_t i = 0, n; i < m->n && w->status == TW_S_OK; i += n) {
		n = tw_min(m->n - i, most);
		for (uint32_t k = 0; k < n; k++)
			segs[k] = (struct tw_seg){m->local + (size_t)(i + k) * m->local_stride,
						  m->bytes};
		memory_start(ep, w, m->write, segs, n, n * m->bytes,
			     m->remote + (uint64_t)i * m->remote_stride);
	}
}

/* Reads pieces with small gaps in one access, gaps included. */
static void read_spans(struct tw_ep *ep, struct work *w, const struct tw_mrapi_move *m)
{
	uint32_t fit = SPAN_MAX / m->remote_stride;
	char *span = malloc(SPAN_MAX);

	if (!span)
		w->status = TW_S_NO_RESOURCES;
	for (uint32_t i = 0, n; i < m->n && w->status == TW_S_OK; i += n) {
		struct tw_seg seg = {span, 0};

		n = tw_min(fit, m->n - i);
		seg.len = (n - 1) * m->remote_stride + m->bytes;
		memory_start(ep, w, false, &seg, 1, seg.len,
			     m->remote + (uint64_t)i * m->remote_stride);
		memory_await(ep, w, all_ended);
		for (uint32_t k = 0; k < n && w->status == TW_S_OK; k++)
			tw_copy(m->local + (size_t)(i + k) * m->local_stride,
				span + (size_t)k * m->remote_stride, m->bytes);
	}
	free(span);
}

static bool close_together(const struct tw_mrapi_move *m)
{
	return !m->write && m->n > 1 && m->remote_stride > m->bytes &&
	       m->remote_stride <= SPAN_MAX / 2 &&
	       m->remote_stride - m->bytes <= tw_max(m->bytes, (uint32_t)GAP_MAX);
}

static mrapi_status_t network_move(struct tw_mrapi_client *c, const struct tw_mrapi_move *m)
{
	struct work w = {.op.done = memory_ended, .c = c, .status = TW_S_OK};
	struct tw_ep *ep = tw_mrapi_net_enter();

	if (!ep)
		return MRAPI_ERR_RMEM_INVALID;
	if (!c->there)
		w.status = TW_S_CLOSED;
	else if (close_together(m))
		read_spans(ep, &w, m);
	else
		move_pieces(ep, &w, m);
	memory_await(ep, &w, all_ended);
	tw_group_leave(ep);
	if (w.status == TW_S_OK)
		return MRAPI_SUCCESS;
	return w.status == TW_S_NO_RESOURCES ? MRAPI_ERR_MEM_LIMIT : MRAPI_ERR_RMEM_INVALID;
}

/* Reads nothing, so that the window is known: its owner may stand still later. */
static bool network_open(struct tw_mrapi_client *c)
{
	struct tw_mrapi_move nothing = {.n = 1};

	if (c->owner)
		network_move(c, &nothing);
	return c->owner != NULL;
}

const struct tw_mrapi_path tw_mrapi_path_network = {"network", false, network_open, network_move};
