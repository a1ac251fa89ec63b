/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers for many messages (FI_MULTI_RECV). Nothing is posted for them: messages wait as
 * unexpected ones until the program's next call moves them into the buffer. Receives
 * without a tag that come after a buffer are held back until it is used up.
 */
#include <stdlib.h>

#include "fi/drain.h"

struct tw_fi_multi {
	struct tw_list link; /* of the endpoint: of those with room, or of those without */
	char *base;
	size_t len, used;
	void *context;
	uint64_t where;	 /* the only source, or 0 */
	uint32_t moving; /* messages under way into it */
	bool full;
};

ssize_t tw_fi_multi_post(struct tw_fi_ep *e, struct tw_ep *ep, void *buf, size_t len, void *context,
			 uint64_t where)
{
	struct tw_fi_multi *m;

	if (e->nrx >= e->rx_size)
		return -FI_EAGAIN;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_EAGAIN;
	m->base = buf;
	m->len = len;
	m->context = context;
	m->where = where;
	tw_list_add_tail(&e->multis, &m->link);
	tw_fi_drain(e, ep);
	return 0;
}

/* It takes no more messages: those that were held back come after it. */
static void close_buffer(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_fi_multi *m)
{
	struct tw_req *r;

	m->full = true;
	tw_list_del(&m->link);
	tw_list_add_tail(&e->full_multis, &m->link);
	while (tw_list_empty(&e->multis) && (r = tw_list_take(&e->held, struct tw_req, link)))
		tw_fi_recv_post(ep, r, r->match);
}

/*
 * Closes it. The last of the messages on their way into it reports that; else a request without
 * a message does, which has ended and waits for room in the queue as any other.
 */
static bool end_buffer(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_fi_multi *m,
		       enum tw_status status)
{
	struct tw_req *r = m->moving ? NULL : tw_req_new1(ep, TW_RECV, NULL, 0);

	if (!m->moving && !r)
		return false;
	close_buffer(e, ep, m);
	if (!r)
		return true;
	r->context = m;
	r->user = TW_FI_NOTIFY | TW_FI_MULTI | TW_FI_RELEASE;
	r->xfer_len = r->msg_len = 0;
	m->moving++;
	e->nrx++;
	tw_req_complete(ep, r, status);
	return true;
}

static bool take_message(struct tw_fi_ep *e, struct tw_ep *ep, struct tw_fi_multi *m,
			 struct tw_unexp_msg *u)
{
	uint32_t len = (uint32_t)tw_min(m->len - m->used, (size_t)u->len);
	struct tw_req *r = tw_req_new1(ep, TW_RECV, m->base + m->used, len);

	if (!r)
		return false;
	/* First: a receive that was held back must not match it. */
	tw_unexp_unqueue(ep, u);
	r->context = m;
	r->user = TW_FI_NOTIFY | TW_FI_MULTI;
	m->used += len;
	m->moving++;
	e->nrx++;
	if (m->len - m->used < e->multi_min || m->used == m->len)
		close_buffer(e, ep, m);
	tw_unexp_receive(ep, u, r);
	return true;
}

void tw_fi_multi_fill(struct tw_fi_ep *e, struct tw_ep *ep)
{
	while (!tw_list_empty(&e->multis)) {
		struct tw_fi_multi *m = tw_list_first(&e->multis, struct tw_fi_multi, link);
		struct tw_unexp_msg *u =
			tw_unexp_find_from(ep, TW_FI_UNTAGGED, TW_FI_UNTAGGED, m->where);

		if (!u || (e->rx_cq && !tw_fi_cq_room(e->rx_cq)))
			return;
		/* A message that does not fit goes into the next buffer. */
		if (u->len > m->len - m->used && m->used) {
			if (!end_buffer(e, ep, m, TW_S_OK))
				return;
			continue;
		}
		if (!take_message(e, ep, m, u))
			return;
	}
	if (!tw_list_empty(&ep->work))
		tw_flush(ep);
}

void tw_fi_multi_done(struct tw_req *r, struct tw_fi_event *v)
{
	struct tw_fi_multi *m = r->context;

	v->e.op_context = m->context;
	v->e.buf = r->seg.ptr;
	if (r->user & TW_FI_RELEASE) {
		v->e.flags = 0;
		v->source = FI_ADDR_NOTAVAIL;
	}
	m->moving--;
	if (!m->full || m->moving)
		return;
	v->e.flags |= FI_MULTI_RECV;
	tw_list_del(&m->link);
	free(m);
}

int tw_fi_multi_cancel(struct tw_fi_ep *e, struct tw_ep *ep, void *context)
{
	tw_list_walk(&e->multis, struct tw_fi_multi, m, link)
		if (m->context == context)
			return end_buffer(e, ep, m, TW_S_CANCELLED) ? 0 : -FI_ENOMEM;
	return -FI_ENOENT;
}

void tw_fi_multi_free(struct tw_fi_ep *e)
{
	tw_list_walk(&e->multis, struct tw_fi_multi, m, link)
		free(m);
	tw_list_walk(&e->full_multis, struct tw_fi_multi, m, link)
		free(m);
}
