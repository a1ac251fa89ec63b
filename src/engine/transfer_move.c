/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a transfer: by which protocol, and piece by piece. Copy: packets, which both sides
 * copy at once. Get: the receiver reads the sender's memory.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/fast.h"
#include "engine/window.h"

#define GET_BYTES 8192		   /* bytes that a get moves in a microsecond */
#define AWAIT_YIELD_US 1	   /* a peer that has a processor polls within this time */
#define SEND_BUDGET 16		   /* pieces sent in one go */
#define PIECE (256 * 1024)	   /* bytes of one get or put */
#define MOVE_BUDGET 2		   /* pieces moved by get or put in one go */

/* Which protocol --------------------------------------------------------------- */

/*
 * Whether the peer polls. It may have computed before it announced, or do so from now on: only a
 * poll from now on tells. One that polls may be in a system call just now, or wait for this
 * processor, so the look lasts as long as the get that a poll would save. A thread that waits for
 * the endpoint ends it. After a look in vain the peer has to poll before there is another.
 */
static bool await_poll(struct tw_peer *p, uint32_t len)
{
	const struct tw_provider *ops = p->link->provider;
	uint64_t start = tw_clock(), now = start;
	uint64_t yield = start + tw_clock_us(AWAIT_YIELD_US);
	uint64_t end = yield + tw_clock_us(tw_min(len, TW_RMA_MAX) / GET_BYTES);

	if (!ops->polls || (p->vain_look && !ops->polls(p->link, p->vain_look)))
		return false;
	p->vain_look = 0;
	for (;;) {
		/* Else two sides that look at once would both look in vain. */
		tw_rings_show_poll(p->ep->host.rxqs.rx, p->ep->host.rxqs.nactive, tw_clock());
		if (ops->polls(p->link, start))
			return true;
		if ((int64_t)(now - end) >= 0)
			break;
		if ((int64_t)(now - yield) < 0)
			tw_cpu_relax();
		else if (tw_lock_contended(&p->ep->slot->lock))
			return false;
		else
			sched_yield();
		now = tw_clock();
	}
	p->vain_look = now;
	return false;
}

/*
 * On one host both sides copy, if both poll: then two processors work, the data stays in their
 * caches, and the kernel pins no page. A sender that does not poll has its data read; so has
 * one whose receiver computes, by the receiver's service thread.
 */
enum tw_transfer_event tw_transfer_choose(struct tw_peer *p, struct tw_req *r)
{
	enum tw_rndv way = tw_transfer_way(p->link, p->ep->rndv);
	enum tw_transfer_event e = TW_ON_COPY;

	if (!r->xfer_len)
		e = TW_ON_EMPTY;
	else if (!r->remote_address || way == TW_RNDV_COPY)
		e = TW_ON_COPY;
	else if (way == TW_RNDV_GET)
		e = TW_ON_GET;
	/* For a program that sleeps the service thread is as good as its own call. */
	else if ((p->ep->host.state == TW_SERVED && !p->ep->awaited) || !await_poll(p, r->xfer_len))
		e = TW_ON_GET;
	r->proto = e == TW_ON_COPY ? TW_PROTO_COPY : TW_PROTO_GET;
	return e;
}

/* Remote memory --------------------------------------------------------------- */

uint64_t tw_transfer_expose(struct tw_peer *p, struct tw_req *r)
{
	struct tw_mem_reg *mr;

	if (r->nsegs != 1)
		return 0;
	if (!tw_key_size(p))
		return (uintptr_t)r->seg.ptr;
	if (!p->link->can_get)
		return 0;
	mr = malloc(sizeof(*mr));
	if (!mr ||
	    p->link->provider->mem_reg(p->link, r->seg.ptr, r->seg.len, TW_MEM_READ, mr) != TW_OK) {
		free(mr);
		return 0;
	}
	r->rma = mr;
	return mr->address;
}

void tw_transfer_forget(struct tw_peer *p, struct tw_req *r)
{
	if (tw_is_access(r)) {
		tw_window_access_over(p, r);
		return;
	}
	if (!TW_USES_NET)
		return;
	/* Registrations end with the link. */
	if (r->kind == TW_SEND && r->rma && p->link)
		p->link->provider->mem_dereg(p->link, r->rma);
	free(r->rma);
	r->rma = NULL;
}

bool tw_transfer_keep(struct tw_req *r, uint64_t address, const void *key, uint32_t key_len)
{
	r->remote_address = address;
	r->gets = 0;
	r->failed = TW_OK;
	r->until = r->xfer_len;
	if (!TW_USES_NET)
		return true;
	r->rma = key_len ? malloc(key_len) : NULL;
	if (r->rma)
		memcpy(r->rma, key, key_len);
	return r->rma || !key_len;
}

/* The receiver --------------------------------------------------------------- */

void tw_transfer_continue(struct tw_peer *p, struct tw_req *r)
{
	/* After any other error the peer is dying, and its end will end the request. */
	static const uint8_t outcome[TW_NERRS] = {[TW_OK] = TW_ON_GOT,
						  [TW_EPERM] = TW_ON_REFUSED,
						  [TW_EFAULT] = TW_ON_FAULT,
						  [TW_EWINDOW] = TW_ON_DENIED};

	if (r->at < r->until && !r->failed)
		return;
	tw_transfer_step(p, r, TW_ON_ISSUED);
	if (r->gets)
		return;
	if (!r->failed && r->kind == TW_WRITE && (r->extra & TW_X_IMM))
		tw_transfer_step(p, r, TW_ON_GOT_NOTIFY);
	else
		tw_transfer_step(p, r, (enum tw_transfer_event)outcome[r->failed]);
}

bool tw_transfer_begun(struct tw_peer *p, struct tw_req *r, enum tw_err err, uint32_t bytes)
{
	if (err == TW_AGAIN)
		return false;
	if (err == TW_OK || err == TW_PENDING)
		r->at += bytes;
	else
		r->failed = (uint8_t)err;
	r->gets += err == TW_PENDING;
	tw_transfer_continue(p, r);
	return true;
}

/* One get; false when there is no room for it. */
static bool get_piece(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[TW_RMA_PIECES];
	uint32_t most = tw_is_remote(p) ? TW_RMA_MAX : PIECE;
	uint32_t want = tw_min(most, r->until - r->at), covered;
	unsigned n = tw_req_iov(r, r->at, want, iov, tw_countof(iov), &covered);
	enum tw_err err = TW_OK;

	if (want)
		err = p->link->provider->rma(p->link, false, iov, n, r->remote_address + r->at,
					     r->rma, r);
	return tw_transfer_begun(p, r, err, covered);
}

/*
 * A copy takes as long as many polls, so it counts as some: else the peer would think that this
 * side does not poll. As it counts TW_RXQ_POLLS, the polls that do more stay in step.
 */
static void copied(struct tw_ep *ep)
{
	tw_poll_count(ep, tw_polls(ep) + TW_RXQ_POLLS);
	tw_rings_show_poll(ep->host.rxqs.rx, ep->host.rxqs.nactive, tw_clock());
}

/* Gets and puts some pieces; whether anything moved. Apart, as few flushes have any. */
static tw_noinline bool move_some(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = MOVE_BUDGET; budget > 0 && !tw_list_empty(&p->moving); budget--) {
		struct tw_req *r = tw_list_first(&p->moving, struct tw_req, link);

		if (!(tw_is_access(r) ? tw_window_move : get_piece)(p, r))
			break;
		copied(p->ep);
		moved = true;
	}
	return moved;
}

void tw_transfer_ended(struct tw_link *link, void *cookie, enum tw_err err)
{
	struct tw_peer *p = link->peer;
	struct tw_req *r = cookie;

	if (err != TW_OK)
		r->failed = (uint8_t)err;
	r->gets--;
	/* Places for further ones, of whichever receive. */
	if (!tw_list_empty(&p->moving))
		tw_peer_work(p);
	tw_transfer_continue(p, r);
}

/* The sender ----------------------------------------------------------------- */

/* One DATA packet; false when there is no room. */
static bool move_send_piece(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[TW_MAX_SEGMENTS];
	uint32_t most = tw_min(tw_piece(r->xfer_len), p->link->max_payload), covered;
	uint32_t want = tw_min(most, r->xfer_len - r->at);
	struct tw_hdr hdr = tw_hdr_make(TW_DATA, 0, 0, r->at, tw_ref_pack(r->remote));
	enum tw_send_class cls = r->at + want == r->xfer_len ? TW_SEND_ENGINE : TW_SEND_PLAIN;
	unsigned n = tw_req_iov(r, r->at, want, iov, TW_MAX_SEGMENTS, &covered);

	if (tw_packet_send(p, cls, hdr, iov, n, want) != TW_OK)
		return false;
	r->at += want;
	if (r->at == r->xfer_len)
		tw_transfer_step(p, r, TW_ON_MOVED_ALL);
	return true;
}

static bool move_sends(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = SEND_BUDGET; budget > 0 && !tw_list_empty(&p->sending); budget--) {
		if (!move_send_piece(p, tw_list_first(&p->sending, struct tw_req, link)))
			break;
		moved = true;
	}
	if (moved)
		copied(p->ep);
	return moved;
}

/* Both ----------------------------------------------------------------------- */

static void return_credits(struct tw_peer *p)
{
	while (tw_credits_due(p) &&
	       tw_packet_return(p, TW_SEND_CONTROL, tw_hdr_make(TW_CREDIT, 0, 0, 0, 0), NULL, 0,
				0) == TW_OK)
		;
}

static bool send_replies(struct tw_peer *p)
{
	bool moved = false;

	while (!tw_list_empty(&p->replying) &&
	       tw_transfer_reply(p, tw_list_first(&p->replying, struct tw_req, link)))
		moved = true;
	return moved;
}

bool tw_transfer_flush(struct tw_peer *p)
{
	bool moved = send_replies(p);

	if (!tw_list_empty(&p->moving))
		moved |= move_some(p);
	if (!tw_list_empty(&p->sending))
		moved |= move_sends(p);
	/* Of what has ended in that. */
	moved |= send_replies(p);
	return_credits(p);
	return moved;
}
