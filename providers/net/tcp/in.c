/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving along a path. Bytes for memory are received straight into it. */
#include <errno.h>
#include <string.h>

#include "base/guard.h"
#include "base/sys.h"
#include "providers/net/tcp/tcp.h"

#define READS 8	    /* in one call, as other paths wait */
#define GLANCE 2048 /* bytes, enough for the head that follows */

/* Where the rest of a piece for memory goes; how many pieces, 0 nowhere. */
static unsigned target(const struct tw_tcp_path *p, struct iovec *iov)
{
	if (p->in_op)
		return tw_cursor_pieces(&p->in_op->to, p->in_left, iov, TW_TCP_IOV);
	if (!p->in_mr || !p->in_left)
		return 0;
	iov[0] = (struct iovec){p->in_to, p->in_left};
	return 1;
}

static void moved(struct tw_tcp_path *p, uint64_t len)
{
	p->in_left -= len;
	if (p->in_op) {
		tw_cursor_advance(&p->in_op->to, len);
		p->in_op->left -= len;
	} else if (p->in_mr) {
		p->in_to += len;
	}
	if (p->in_left)
		return;
	if (p->in_op && !p->in_op->left)
		tw_tcp_op_over(p, p->in_op, TW_OK);
	if (p->in_mr && p->in_kind == TW_TCP_WRITE_LAST)
		tw_tcp_send_ended(p, p->in_id, TW_OK);
	p->in_op = NULL;
	p->in_mr = NULL;
}

/* The memory of a peer's write is not there: the rest of it is dropped. */
static void in_refuse(struct tw_tcp_path *p)
{
	p->in_mr = NULL;
	tw_tcp_send_ended(p, p->in_id, TW_EFAULT);
}

/* Copies the part of a piece that was received into the buffer. */
static void tcp_take_in(struct tw_tcp_path *p)
{
	while (p->in_left && p->in_at < p->in_len) {
		struct iovec iov[TW_TCP_IOV];
		uint64_t len = tw_min(p->in_left, (uint64_t)(p->in_len - p->in_at));

		if (target(p, iov)) {
			len = tw_min(len, (uint64_t)iov[0].iov_len);
			if (!p->in_mr)
				memcpy(iov[0].iov_base, p->in + p->in_at, len);
			else if (tw_guard_copy(false, iov[0].iov_base, p->in + p->in_at, len) !=
				 TW_OK)
				in_refuse(p);
		}
		p->in_at += len;
		moved(p, len);
	}
}

static void broken(struct tw_tcp_path *p)
{
	p->in_at = p->in_len = 0;
	tw_tcp_end(p);
}

/* The head of something that is for memory. */
static void in_begin(struct tw_tcp_path *p, const struct tw_tcp_head *h)
{
	if (!h->len) {
		broken(p);
		return;
	}
	p->in_left = h->len;
	p->in_kind = h->kind;
	p->expected = h->kind == TW_TCP_WRITE;
	p->in_id = h->id;
	p->in_op = NULL;
	p->in_mr = NULL;
	if (h->kind == TW_TCP_DATA) {
		p->in_op = tw_tcp_op_find(p, h->id, false);
		if (p->in_op && p->in_op->left < h->len)
			broken(p);
		return;
	}
	p->in_mr = tw_tcp_mr_find(p->t, h->key, TW_MEM_WRITE, h->address, h->len);
	p->in_to = (char *)(uintptr_t)h->address;
	if (!p->in_mr)
		tw_tcp_send_ended(p, h->id, TW_EPERM);
}

static void in_ended(struct tw_tcp_path *p, const struct tw_tcp_head *h)
{
	struct tw_tcp_op *op = tw_tcp_op_find(p, h->id, true);
	enum tw_err err = h->address == TW_OK ? TW_OK : TW_EPERM;

	if (!op)
		op = tw_tcp_op_find(p, h->id, false);
	/* A get is complete only when all of its data have come. */
	if (op && (op->put || err != TW_OK))
		tw_tcp_op_over(p, op, err);
}

/* Handles one item; false if it is incomplete or cannot be taken now. */
static bool in_take(struct tw_tcp_path *p)
{
	struct tw_tcp_head h;

	if (p->in_left)
		tcp_take_in(p);
	if (p->in_left || p->in_len - p->in_at < sizeof(h))
		return false;
	memcpy(&h, p->in + p->in_at, sizeof(h));
	switch (h.kind) {
	case TW_TCP_PACKET_IS:
		if (h.len > TW_TCP_PACKET) {
			broken(p);
			return false;
		}
		if (p->in_len - p->in_at < sizeof(h) + h.len)
			return false;
		if (!p->t->host.packet(p->t->host.owner, p, p->in + p->in_at + sizeof(h), h.len)) {
			if (!p->freed)
				tw_list_add_tail(&p->t->stuck, &p->stuck);
			return false;
		}
		p->in_at += sizeof(h) + h.len;
		return !p->freed;
	case TW_TCP_DATA:
	case TW_TCP_WRITE:
	case TW_TCP_WRITE_LAST:
		p->in_at += sizeof(h);
		in_begin(p, &h);
		return true;
	case TW_TCP_READ:
		p->in_at += sizeof(h);
		tw_tcp_serve(p, &h);
		return true;
	case TW_TCP_ENDED:
		p->in_at += sizeof(h);
		in_ended(p, &h);
		return true;
	default:
		broken(p);
		return false;
	}
}

void tw_tcp_parse(struct tw_tcp_path *p)
{
	tw_list_del(&p->stuck);
	while (in_take(p))
		;
	if (p->freed)
		return;
	if (p->in_at == p->in_len) {
		p->in_at = p->in_len = 0;
	} else if (p->in_at > TW_TCP_IN / 2) {
		memmove(p->in, p->in + p->in_at, p->in_len - p->in_at);
		p->in_len -= p->in_at;
		p->in_at = 0;
	}
}

/*
 * How much to read into the buffer: all that fits, or, if memory is likely to follow,
 * a head and small packets only, as the rest would be copied once more.
 */
static size_t in_room(const struct tw_tcp_path *p)
{
	size_t here = p->in_len - p->in_at, all = TW_TCP_IN - p->in_len, want = GLANCE;
	struct tw_tcp_head h;

	if (p->session || (!p->expected && !p->nreads))
		return all;
	if (!p->in_left && here >= sizeof(h)) {
		memcpy(&h, p->in + p->in_at, sizeof(h));
		want = sizeof(h) + h.len - here;
	}
	return tw_min(want, all);
}

/* One call to the system; whether there may be more. */
static bool in_fetch(struct tw_tcp_path *p)
{
	struct iovec iov[TW_TCP_IOV + 1];
	/* OpenSSL copies: it must be memory that is there. */
	unsigned n = p->in_at == p->in_len && (!p->session || p->in_op) ? target(p, iov) : 0;
	struct msghdr m = {.msg_iov = iov};
	uint64_t direct = 0, want;
	ssize_t got;

	for (unsigned i = 0; i < n; i++)
		direct += iov[i].iov_len;
	want = direct;
	/* And the bytes that follow, if all of the piece fits. */
	if (direct == p->in_left || !n) {
		iov[n] = (struct iovec){p->in + p->in_len, in_room(p)};
		want += iov[n++].iov_len;
	}
	m.msg_iovlen = n;
	got = p->session ? tw_tcp_session_recv(p, iov[0].iov_base, iov[0].iov_len)
			 : tw_sys_recvmsg(p->fd, &m, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got < 0 && errno == EFAULT && p->in_mr) {
		in_refuse(p);
		return true;
	}
	if (got <= 0) {
		p->ended = p->t->ending = true;
		return false;
	}
	direct = tw_min(direct, (uint64_t)got);
	if (direct)
		moved(p, direct);
	p->in_len += (size_t)got - direct;
	return (uint64_t)got == want || p->session;
}

void tw_tcp_read(struct tw_tcp_path *p)
{
	bool more = !tw_tcp_stuck(p);

	for (int i = 0; i < READS && more && p->fd >= 0 && !p->ended; i++) {
		more = in_fetch(p);
		if (p->in_at < p->in_len)
			tw_tcp_parse(p);
		if (p->freed || tw_tcp_stuck(p))
			break;
	}
	if (p->session && !p->freed && !tw_tcp_stuck(p) && tw_tcp_session_pending(p))
		tw_list_add_tail(&p->t->stuck, &p->stuck);
}
