/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests and the memory that they describe. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

bool tw_reqs_grow(struct tw_ep *ep)
{
	uintptr_t slot = (uintptr_t)(ep->slot - tw_slots);
	struct tw_pool_obj *o;

	if (tw_pool_grow(&ep->reqs) < 0)
		return false;
	for (o = ep->reqs.free; o; o = o->next_free) {
		struct tw_req *r = tw_container(o, struct tw_req, obj);

		r->name = (uintptr_t)o->index << TW_REQ_NUMBER | slot;
	}
	return true;
}

/* The claimed message of a receive, and one that is being fetched. */
static void free_claimed(struct tw_ep *ep, const struct tw_req *r)
{
	struct tw_unexp_msg *u = tw_req_claimed(r);

	if (u && !tw_list_empty(&u->unexp.all))
		tw_match_remove(ep->match, &u->unexp);
	free(u);
}

void tw_reqs_fini(struct tw_ep *ep)
{
	struct tw_req *r;

	for (uint32_t i = 0; (r = tw_pool_next(&ep->reqs, &i));) {
		if (r->flags & TW_R_CLAIM)
			free_claimed(ep, r);
		if (r->kind == TW_AM_SEND && (r->flags & TW_R_FORGOTTEN))
			free(r->seg.ptr);
		if (r->nsegs > 1)
			free(r->segs);
		tw_transfer_abandon(r);
	}
	tw_pool_fini(&ep->reqs);
}

struct tw_req *tw_req_new(struct tw_ep *ep, enum tw_kind kind, const struct tw_seg *segs,
			  uint32_t nsegs, uint32_t len)
{
	struct tw_req *r;

	if (nsegs <= 1)
		return tw_req_new1(ep, kind, nsegs ? segs->ptr : NULL, len);
	r = tw_req_new1(ep, kind, NULL, len);
	if (!r)
		return NULL;
	r->segs = malloc(nsegs * sizeof(*segs));
	if (!r->segs) {
		tw_req_put(ep, r);
		return NULL;
	}
	r->nsegs = (uint16_t)nsegs;
	memcpy(r->segs, segs, nsegs * sizeof(*segs));
	return r;
}

void tw_req_forgotten(struct tw_ep *ep, struct tw_req *r)
{
	if (r->flags & TW_R_CLAIM)
		tw_unexp_fetched(ep, r);
	if (r->kind == TW_AM_SEND)
		free(r->seg.ptr);
	tw_req_free(ep, r);
}

void tw_collect(struct tw_ep *ep)
{
	struct tw_req *r;

	while ((r = tw_list_take(&ep->done, struct tw_req, link))) {
		struct tw_op *op = r->context;

		if (op)
			op->done(ep, op, r);
		else if (r->flags & TW_R_CLAIM && tw_req_claimed(r))
			tw_unexp_msg_put(ep, tw_req_claimed(r));
		tw_req_free(ep, r);
	}
}

unsigned tw_req_iov(const struct tw_req *r, uint32_t at, uint32_t len, struct iovec *iov,
		    unsigned max, uint32_t *covered)
{
	const struct tw_seg *s = r->nsegs > 1 ? r->segs : &r->seg, *end = s + r->nsegs;
	unsigned n = 0;
	uint32_t sum = 0;

	while (s < end && at >= s->len)
		at -= s++->len;
	for (; s < end && n < max && sum < len; s++) {
		uint32_t part = tw_min(s->len - at, len - sum);

		if (part)
			iov[n++] = (struct iovec){s->ptr + at, part};
		sum += part;
		at = 0;
	}
	*covered = sum;
	return n;
}

void tw_req_scatter_many(struct tw_req *r, uint32_t at, const void *from, uint32_t len,
			 const struct tw_ring_tx *back)
{
	const char *p = from;

	while (len) {
		struct iovec iov[8];
		uint32_t covered;
		unsigned n = tw_req_iov(r, at, len, iov, tw_countof(iov), &covered);

		for (unsigned i = 0; i < n; i++) {
			tw_ring_copy(back, iov[i].iov_base, p, iov[i].iov_len);
			p += iov[i].iov_len;
		}
		at += covered;
		len -= covered;
	}
}

struct tw_req *tw_req_named(struct tw_peer *p, uint64_t packed)
{
	struct tw_ref ref = tw_ref_unpack(packed);
	struct tw_req *r = tw_pool_find(&p->ep->reqs, ref.index, ref.gen);

	if (!r || r->peer != p || (r->flags & (TW_R_DONE | TW_R_POSTED)))
		return NULL;
	return r;
}
