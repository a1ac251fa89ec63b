/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The side that accesses windows of its peers. If an access is refused (TW_EPERM), the window is
 * requested once more, since its key may have been lost with a path. If it is refused again, the
 * owner serves the access.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/trace.h"
#include "engine/window_internal.h"
#include "shmem/spin.h"
#include "shmem/words.h"

#define DELEGATE_MAX 4096u /* bytes that the owner moves sooner than the kernel, if it polls */

/* The arguments of an atomic, kept until it ends. */
struct change {
	struct tw_window_msg m;
	void *result;
	uint32_t len; /* of operand and compare */
	char operand[];
};

static void window_fail(struct tw_peer *p, struct tw_req *r, enum tw_status status)
{
	r->status = (uint8_t)status;
	r->failed = TW_EWINDOW;
	tw_transfer_continue(p, r);
}

static unsigned window_wanted(const struct tw_req *r)
{
	const struct change *c = (const void *)r->seg.ptr;

	if (r->kind == TW_ATOMIC)
		return tw_atomic_rights((enum tw_atomic_op)c->m.op, c->result != NULL);
	return r->kind == TW_READ ? TW_WINDOW_READ : TW_WINDOW_WRITE;
}

static bool served(const struct tw_peer *p, const struct tw_req *r)
{
	return r->kind == TW_ATOMIC || r->tries > 1 || !p->link->can_get ||
	       r->import->key_len != tw_key_size(p) || p->ep->rndv == TW_RNDV_COPY;
}

/* Data that has come from the owner, for this place in the request. */
static void window_result(struct tw_req *r, uint32_t at, const void *data, uint32_t len)
{
	const struct change *c = (const void *)r->seg.ptr;

	if (r->kind == TW_READ)
		tw_req_scatter(r, at, data, len, NULL);
	else if (r->kind == TW_ATOMIC && len && c->result)
		tw_atomic_wire(memcpy(c->result, data, len), len, (enum tw_atomic_type)c->m.type);
}

/* A piece that the owner's engine moves. It ends with a REPLY. */
static enum tw_err ask_piece(struct tw_peer *p, struct tw_req *r, struct iovec *iov, unsigned n,
			     uint32_t len, uint8_t flag)
{
	const struct change *c = (const void *)r->seg.ptr;
	struct tw_window_msg m = r->import->grant;
	enum tw_window_what what = TW_WINDOW_GET;
	uint32_t size = sizeof(m);

	if (p->windows.asked >= TW_WINDOW_ASKED)
		return TW_AGAIN;
	m.status = m.rights = 0;
	if (r->kind == TW_ATOMIC) {
		what = TW_WINDOW_CHANGE;
		m.rights = c->result ? TW_WINDOW_READ : 0;
		m.op = c->m.op;
		m.type = c->m.type;
		iov[1] = (struct iovec){(void *)(uintptr_t)c->operand, c->len};
		n = c->len > 0;
		size += c->len;
	} else if (r->kind == TW_WRITE) {
		what = TW_WINDOW_PUT;
		size += len;
	} else {
		n = 0;
	}
	m.offset = r->remote_address + r->at;
	m.len = len;
	m.at = flag ? p->windows.turn : r->at;
	iov[0] = (struct iovec){&m, sizeof(m)};
	if (tw_packet_send(p, TW_SEND_ENGINE,
			   tw_hdr_make(TW_WINDOW, (uint8_t)what | flag, 0, size,
				       tw_ref_pack(tw_req_ref(r))),
			   iov, n + 1, size) != TW_OK)
		return TW_AGAIN;
	p->windows.asked++;
	r->asked++;
	return TW_PENDING;
}

/* Delegated accesses ---------------------------------------------------------- */

/*
 * On this host an owner that polls is asked to do a short access: that takes less than a call of
 * the kernel. This side waits until the owner has done it, or has begun a longer get, and takes it
 * back if the owner does not begin. So the program need not poll for it (doc/decisions.md, 188).
 */

/* Whether somebody needs this side: not one who replies to it. */
static bool delegate_arrived(const struct tw_ep *ep)
{
	for (unsigned i = 0; i < ep->host.rxqs.nactive; i++) {
		const struct tw_slot *s = tw_ring_next(ep->host.rxqs.rx[i]);

		if (s &&
		    (tw_hdr_type(s->hdr) != TW_WINDOW || tw_hdr_flags(s->hdr) != TW_WINDOW_REPLY))
			return true;
	}
	return false;
}

static bool delegate_polls(const struct tw_ring_tx *txq, uint64_t since)
{
	uint64_t at = atomic_load_explicit(&txq->ring->taken.polled, memory_order_relaxed);

	return (int64_t)(at - since) >= 0;
}

/*
 * Whether the owner polls just now; what it does for this side shows that as well. An access is no
 * poll, so this side shows none, unlike where it looks for one of its peer (await_poll()).
 */
static bool window_delegates(struct tw_peer *p, const struct tw_req *r)
{
	uint64_t now = tw_clock(), since = now - tw_clock_us(TW_SPIN_YIELD_US);
	uint32_t most =
		tw_min(DELEGATE_MAX, p->link->max_payload - (uint32_t)sizeof(struct tw_window_msg));

	if (!p->link->txq || r->len > most || delegate_arrived(p->ep))
		return false;
	/* Many of these may be under way. */
	if (r->kind == TW_ATOMIC && !((const struct change *)(void *)r->seg.ptr)->result)
		return false;
	if (p->windows.skip) {
		p->windows.skip--;
		return false;
	}
	if ((int64_t)(p->windows.polled - since) < 0 && !delegate_polls(p->link->txq, since))
		return false;
	p->windows.polled = now;
	return true;
}

/* Whether the owner replies to it, as its result is too long for the ring's word. */
static bool delegate_replied(const struct tw_ring_tx *txq, const struct tw_req *r)
{
	return r->kind != TW_WRITE && r->len > sizeof(txq->ring->delegate.result);
}

/* Until the owner has done it. Or this side is needed by somebody, who may be that owner. */
static enum tw_delegate delegate_await(struct tw_peer *p, const struct tw_req *r)
{
	uint64_t end = tw_clock() + tw_clock_us(TW_SPIN_YIELD_US);
	struct tw_ring_tx *txq = p->link->txq;
	bool replied = delegate_replied(txq, r);
	enum tw_delegate state;

	for (;;) {
		if (tw_ring_delegate_look(txq, p->windows.turn, &state) &&
		    (state != TW_DELEGATE_BEGUN || replied))
			return replied ? TW_DELEGATE_LATE : state;
		if ((int64_t)(tw_clock() - end) >= 0 || delegate_arrived(p->ep))
			break;
		tw_cpu_relax();
	}
	state = tw_ring_delegate_leave(txq, p->windows.turn);
	/* Whatever the owner has written there. */
	return replied && state == TW_DELEGATE_DONE ? TW_DELEGATE_LATE : state;
}

/* TW_AGAIN: it is to be done as if it had not been delegated. */
static enum tw_err window_delegate(struct tw_peer *p, struct tw_req *r, struct iovec *iov,
				   unsigned n)
{
	enum tw_delegate state;

	p->windows.turn++;
	if (ask_piece(p, r, iov, n, r->len, TW_WINDOW_DELEGATED) != TW_PENDING) {
		p->windows.turn--;
		return TW_AGAIN;
	}
	state = delegate_await(p, r);
	if (state == TW_DELEGATE_LATE)
		return TW_PENDING;
	p->windows.asked--;
	r->asked--;
	tw_backoff_learn(&p->windows.backoff, state != TW_DELEGATE_DONE, TW_WORDS_BACKOFF);
	if (state == TW_DELEGATE_DONE) {
		window_result(r, 0, p->link->txq->ring->delegate.result, r->len);
		return TW_OK;
	}
	p->windows.skip = p->windows.backoff.polls;
	p->windows.polled -= tw_clock_us(2 * TW_SPIN_YIELD_US);
	return TW_AGAIN;
}

static bool move_piece(struct tw_peer *p, struct tw_req *r)
{
	const struct tw_import *w = r->import;
	bool by_owner = served(p, r);
	struct iovec iov[TW_RMA_PIECES + 1];
	uint32_t room = p->link->max_payload - (uint32_t)sizeof(struct tw_window_msg), covered;
	uint32_t most = by_owner ? tw_min(room, (uint32_t)TW_WINDOW_PIECE) : TW_RMA_MAX;
	unsigned n = tw_req_iov(r, r->at, tw_min(most, r->until - r->at), iov + 1, TW_RMA_PIECES,
				&covered);
	enum tw_err err = TW_AGAIN;

	if (covered && covered == r->len && window_delegates(p, r))
		err = window_delegate(p, r, iov, n);
	if (err != TW_AGAIN)
		return tw_transfer_begun(p, r, err, covered);
	err = TW_OK;
	if (covered && by_owner)
		err = ask_piece(p, r, iov, n, covered, 0);
	else if (covered)
		err = p->link->provider->rma(p->link, r->kind == TW_WRITE, iov + 1, n,
					     w->grant.offset + r->remote_address + r->at,
					     w->provider_key, r);
	return tw_transfer_begun(p, r, err, covered);
}

bool tw_window_move(struct tw_peer *p, struct tw_req *r)
{
	struct tw_import *w = r->import;
	enum tw_status status;

	if (r->failed) { /* while it waited */
		tw_transfer_continue(p, r);
		return true;
	}
	if (w->state == TW_IMPORT_NEW && !tw_import_ask(p, w))
		return false;
	if (w->state == TW_IMPORT_ASKED) {
		tw_transfer_step(p, r, TW_ON_ASK);
		return true;
	}
	status = w->state == TW_IMPORT_ENDED
			 ? TW_S_BAD_WINDOW
			 : tw_window_check(w->grant.rights, w->grant.len, window_wanted(r),
					   r->remote_address, r->len);
	if (status == TW_S_OK)
		return move_piece(p, r);
	window_fail(p, r, status);
	return true;
}

void tw_window_again(struct tw_peer *p, struct tw_req *r)
{
	p->ep->counters[TW_C_GET_REFUSED]++;
	r->at = 0;
	r->failed = TW_OK;
	if (++r->tries == 1 && r->import->state == TW_IMPORT_OPEN && tw_key_size(p) &&
	    p->link->can_get)
		r->import->state = TW_IMPORT_NEW;
}

/* Fills in to whom a request goes; whether it can. */
static enum tw_status window_address(struct tw_ep *ep, struct tw_req *r, struct tw_addr owner)
{
	struct tw_peer *p = tw_peer_at(ep, owner);

	r->other = owner;
	r->msg_len = r->len;
	r->peer = p;
	if (!p)
		return TW_S_BAD_SESSION;
	if (p->state != TW_PEER_UP)
		return (enum tw_status)p->why;
	return p->barred ? TW_S_REJECTED : TW_S_OK;
}

void tw_window_access(struct tw_ep *ep, struct tw_req *r, struct tw_addr owner, uint64_t key,
		      uint64_t offset)
{
	enum tw_status status = window_address(ep, r, owner);
	struct tw_peer *p = r->peer;
	bool alone;

	if (status == TW_S_OK && !(r->import = tw_import_get(p, key)))
		status = TW_S_NO_RESOURCES;
	if (status != TW_S_OK) {
		tw_window_abandon(r);
		tw_req_complete(ep, r, status);
		return;
	}
	r->import->users++;
	r->xfer_len = r->until = r->len;
	r->remote_address = offset;
	r->gets = 0;
	r->failed = TW_OK;
	r->tries = 0;
	r->asked = 0;
	r->started = p->windows.flush;
	p->windows.puts += r->kind != TW_READ;
	tw_trace_access(ep, r, key);
	alone = tw_list_empty(&p->moving);
	tw_transfer_step(p, r, TW_ON_ACCESS);
	if (alone)
		tw_window_move(p, r);
}

void tw_window_notify(struct tw_req *r, uint64_t datum)
{
	r->extra |= TW_X_IMM;
	r->remote = tw_ref_unpack(datum);
}

struct tw_req *tw_window_atomic(struct tw_ep *ep, const struct tw_atomic *a)
{
	uint32_t size = tw_atomic_size(a->type), operands = tw_atomic_operands(a->op), len;
	struct tw_req *r;
	struct change *c;

	if (!tw_atomic_exists(a->op, a->type) || !a->count ||
	    a->count > TW_ATOMIC_MAX_BYTES / size || (operands > 0 && !a->operand) ||
	    (operands > 1 && !a->compare) || (!operands && !a->result))
		return NULL;
	len = a->count * size;
	c = malloc(sizeof(*c) + operands * len);
	r = c ? tw_req_new1(ep, TW_ATOMIC, c, len) : NULL;
	if (!r) {
		free(c);
		return NULL;
	}
	c->m = (struct tw_window_msg){.op = (uint8_t)a->op, .type = (uint8_t)a->type};
	c->result = a->result;
	c->len = operands * len;
	if (operands > 0)
		memcpy(c->operand, a->operand, len);
	if (operands > 1)
		memcpy(c->operand + len, a->compare, len);
	tw_atomic_wire(c->operand, c->len, a->type);
	return r;
}

/* A put has ended: flushes that were waiting for it may be over. */
static void put_over(struct tw_peer *p, uint64_t before)
{
	p->windows.puts--;
	tw_list_walk(&p->windows.flushes, struct tw_req, f, link) {
		if (f->flush.number < before || --f->flush.puts)
			continue;
		tw_list_del(&f->link);
		tw_req_complete(p->ep, f, TW_S_OK);
	}
}

void tw_window_access_over(struct tw_peer *p, struct tw_req *r)
{
	tw_window_abandon(r);
	if (r->kind != TW_READ)
		put_over(p, r->started);
	if (r->import->grant.rights & TW_WINDOW_REPORT)
		r->extra |= TW_X_REPORT;
	tw_import_put(r->import);
}

void tw_window_abandon(struct tw_req *r)
{
	if (r->kind != TW_ATOMIC)
		return;
	free(r->seg.ptr);
	r->seg.ptr = NULL;
}

void tw_window_flush(struct tw_ep *ep, struct tw_req *r, struct tw_addr owner)
{
	enum tw_status status = window_address(ep, r, owner);
	struct tw_peer *p = r->peer;

	if (status != TW_S_OK || !p->windows.puts) {
		tw_req_complete(ep, r, status);
		return;
	}
	r->flush.puts = p->windows.puts;
	r->flush.number = p->windows.flush++;
	tw_list_add_tail(&p->windows.flushes, &r->link);
}

/* Arrival -------------------------------------------------------------------- */

/* The end of a served piece. Of pieces that the driver moves the peer ends none. */
static enum tw_err window_replied(struct tw_peer *p, struct tw_hdr hdr,
				  const struct tw_window_msg *m, const char *data, uint32_t len)
{
	struct tw_req *r = tw_req_named(p, hdr.match);

	if (!p->windows.asked || !r || !tw_is_access(r) || !r->asked || m->status >= TW_NSTATUS ||
	    !tw_window_within(m->at, len, r->at) || (len && r->kind == TW_WRITE))
		return TW_EPROTO;
	p->windows.asked--;
	r->asked--;
	window_result(r, m->at, data, len);
	if (m->status != TW_S_OK)
		r->status = m->status;
	tw_transfer_ended(p->link, r, m->status == TW_S_OK ? TW_OK : TW_EWINDOW);
	return TW_OK;
}

static enum tw_err notified(struct tw_peer *p, struct tw_hdr hdr)
{
	const struct tw_interface *iface = p->ep->iface;

	return iface->window_notified ? iface->window_notified(p->ep, p, hdr.match, tw_hdr_len(hdr))
				      : TW_EPROTO;
}

enum tw_err tw_window_packet(struct tw_peer *p, struct tw_hdr hdr, const void *payload,
			     uint32_t len)
{
	const char *data = (const char *)payload + sizeof(struct tw_window_msg);
	struct tw_window_msg m;

	if (tw_hdr_flags(hdr) == TW_WINDOW_NOTIFY)
		return len ? TW_EPROTO : notified(p, hdr);
	if (len != tw_hdr_len(hdr) || len < sizeof(m))
		return TW_EPROTO;
	memcpy(&m, payload, sizeof(m));
	len -= (uint32_t)sizeof(m);
	switch (tw_hdr_flags(hdr)) {
	case TW_WINDOW_GRANT:
		return tw_import_granted(p, &m, data, len);
	case TW_WINDOW_REPLY:
		return window_replied(p, hdr, &m, data, len);
	case TW_WINDOW_REVOKE:
		return tw_import_revoked(p, &m);
	default:
		return tw_window_serve(p, hdr, &m, data, len);
	}
}
