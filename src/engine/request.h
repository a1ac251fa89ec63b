/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests: making, ending and finding them, and the memory that they describe. */
#ifndef TW_REQUEST_H
#define TW_REQUEST_H

#include "engine/transfer.h"
#include "engine/types.h"

/* Adds requests to the pool; false when memory is short. */
bool tw_reqs_grow(struct tw_ep *ep);
/* Frees all, and what they have: messages, their copies, segment lists, keys. */
void tw_reqs_fini(struct tw_ep *ep);

/* Takes a request out of the pool, which has one. */
static inline struct tw_req *tw_req_take(struct tw_ep *ep)
{
	struct tw_req *r = tw_pool_take(&ep->reqs);

	r->handle = (uintptr_t)r->obj.gen << TW_REQ_GEN | r->name;
	r->peeked_by = 0;
	return r;
}

/* Fills in a request of one piece. */
static inline struct tw_req *tw_req_init(struct tw_req *r, enum tw_kind kind, void *ptr,
					 uint32_t len)
{
	r->flags = 0;
	r->status = TW_S_OK;
	r->nsegs = 1;
	r->kind = (uint8_t)kind;
	r->extra = 0;
	r->state = TW_XFER_NONE;
	r->proto = TW_PROTO_COPY;
	r->active = false;
	r->what = 0;
	r->len = len;
	r->xfer_len = 0;
	r->at = 0;
	r->seg.ptr = ptr;
	r->seg.len = len;
	tw_list_init(&r->link);
	return r;
}

/* Makes a request of one piece; NULL when memory is short. */
tw_shared struct tw_req *tw_req_new1(struct tw_ep *ep, enum tw_kind kind, void *ptr, uint32_t len)
{
	if (tw_unlikely(!ep->reqs.free) && !tw_reqs_grow(ep))
		return NULL;
	return tw_req_init(tw_req_take(ep), kind, ptr, len);
}

/*
 * Fills in the request of a message that has left or arrived, with what is asked of one that
 * has succeeded.
 */
static inline void tw_req_succeeded(struct tw_req *r, const struct tw_addr *other, uint64_t match,
				    uint32_t len)
{
	tw_addr_copy(&r->other, other);
	r->outcome = tw_req_ok.outcome;
	r->match = match;
	r->msg_len = len;
}

/* The request that has ended first of those on the list, or NULL. */
static inline struct tw_req *tw_req_first_done(const struct tw_ep *ep)
{
	return tw_list_empty(&ep->done) ? NULL : tw_list_first(&ep->done, struct tw_req, link);
}

/* Makes a request of several pieces. */
struct tw_req *tw_req_new(struct tw_ep *ep, enum tw_kind kind, const struct tw_seg *segs,
			  uint32_t nsegs, uint32_t len);

/* Frees a request that has no memory of its own. */
static inline void tw_req_put(struct tw_ep *ep, struct tw_req *r)
{
	r->outcome = 0; /* tells a handle that is used again from one in use */
	r->link.prev->next = r->link.next;
	r->link.next->prev = r->link.prev;
	tw_pool_put(&ep->reqs, r);
}

tw_shared void tw_req_free(struct tw_ep *ep, struct tw_req *r)
{
	if (TW_USES_PIECES && tw_unlikely(r->nsegs > 1))
		free(r->segs);
	tw_req_put(ep, r);
}

/* A request that nobody waits for has its status: frees it. */
void tw_req_forgotten(struct tw_ep *ep, struct tw_req *r);
/* A request that is on no list is complete. */
static inline void tw_req_ended(struct tw_ep *ep, struct tw_req *r)
{
	tw_list_add_tail(&ep->done, &r->link);
	ep->events++;
}

/* Completes a request, which must be on no list. */
tw_shared void tw_req_complete(struct tw_ep *ep, struct tw_req *r, enum tw_status status)
{
	r->status = (uint8_t)status;
	if (tw_unlikely(r->flags & TW_R_FORGOTTEN)) {
		tw_req_forgotten(ep, r);
		return;
	}
	r->flags |= TW_R_DONE;
	tw_req_ended(ep, r);
}

/* The context of a request whose end an interface handles itself. */
struct tw_op {
	void (*done)(struct tw_ep *ep, struct tw_op *op, const struct tw_req *r);
};

/* Handles the requests that are complete, and frees them; without a tw_op what they have. */
void tw_collect(struct tw_ep *ep);

/* Collects the pieces of a request's data in a range, at most max. Returns their number. */
unsigned tw_req_iov(const struct tw_req *r, uint32_t at, uint32_t len, struct iovec *iov,
		    unsigned max, uint32_t *covered);
void tw_req_scatter_many(struct tw_req *r, uint32_t at, const void *from, uint32_t len,
			 const struct tw_ring_tx *back);

/* Copies received bytes into the request's pieces. back: see tw_ring_copy(). */
static inline void tw_req_scatter(struct tw_req *r, uint32_t at, const void *from, uint32_t len,
				  const struct tw_ring_tx *back)
{
	if (tw_unlikely(!len))
		return;
	if (!TW_USES_PIECES || tw_likely(r->nsegs == 1))
		tw_ring_copy(back, r->seg.ptr + at, from, len);
	else
		tw_req_scatter_many(r, at, from, len, back);
}

/* The reference by which a peer names it. */
static inline struct tw_ref tw_req_ref(const struct tw_req *r)
{
	return (struct tw_ref){r->obj.index, r->obj.gen};
}

/* The request that a peer named, if it belongs to this peer, or NULL. */
struct tw_req *tw_req_named(struct tw_peer *p, uint64_t ref);

/* The request that had this handle last, in use or not; NULL if none had. */
static inline struct tw_req *tw_req_last(const struct tw_ep *ep, uint64_t handle)
{
	uint64_t index = handle >> TW_REQ_NUMBER & (TW_MAX_REQS - 1), chunk = index >> TW_POOL_CHUNK_BITS;
	struct tw_req *r;

	if (tw_unlikely(chunk >= ep->reqs.nchunks))
		return NULL;
	r = (struct tw_req *)(void *)ep->reqs.chunks[chunk] + (index & (TW_POOL_CHUNK - 1));
	return tw_likely(r->handle == handle) ? r : NULL;
}

/* True if its handle is a user's. */
static inline bool tw_req_in_use(const struct tw_req *r)
{
	return r->outcome && r->handle;
}

/* The request of a handle; NULL when it has ended or was forgotten. */
static inline struct tw_req *tw_req_find(const struct tw_ep *ep, uint64_t handle)
{
	struct tw_req *r = tw_req_last(ep, handle);

	return r && tw_req_in_use(r) ? r : NULL;
}

/* The user needs no result: the request frees itself when it ends. */
static inline void tw_req_forget(struct tw_req *r)
{
	r->flags |= TW_R_FORGOTTEN;
	r->handle = 0;
}

static inline bool tw_is_sync(const struct tw_req *r)
{
	return TW_USES_SYNC && (r->flags & TW_R_SYNC);
}

#endif /* TW_REQUEST_H */
