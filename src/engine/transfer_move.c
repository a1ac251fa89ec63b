/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of a transfer: by which protocol, and piece by piece. Get: the receiver
 * reads all of it. Split, where processors do the copying: the receiver reads the
 * front while the sender writes the rest; two processors are nearly twice as fast as
 * one. Copy: packets.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "engine/quick.h"
#include "engine/window.h"

#define PULL_MIN 8192	   /* a system call costs more than copying this twice */
#define SPLIT_MIN 32768	   /* the same, and a message more */
#define STILL_MIN 262144   /* from here on it always pays to look twice whether the peer polls */
#define STILL_US 2	   /* a polling program does so at least once in this time */
#define REST_MIN (8 << 20) /* less is sooner moved: doc/decisions.md, 17 */
#define LEAD 4096	   /* the receiver of a split starts earlier, by about so many bytes */
#define PUSH_PIECE (16 * 1024)
#define PUSH_BUDGET 16		   /* pieces pushed in one go */
#define PIECE (256 * 1024)	   /* bytes of one get or put */
#define REMOTE_PIECE (1024 * 1024) /* and of one that others wait for */
#define BUDGET (512 * 1024)	   /* bytes pulled in one go */
#define NPIECES 16		   /* pieces of memory of one get or put */

/* Which protocol --------------------------------------------------------------- */

/*
 * Whether the peer polls now. Its announcement may have been the last call for a
 * while: it takes a poll after that to know.
 */
static bool still_polls(const struct tw_peer *p, uint32_t len)
{
	const struct tw_provider *ops = p->link->provider;
	uint64_t start, end;

	/* One that is writing the rest of another will look when that is done. */
	if (p->shares)
		return true;
	if (!ops->polls || !ops->polls(p->link, 0))
		return false;
	if (len < STILL_MIN && !p->put_late)
		return true;
	start = tw_clock();
	end = start + tw_clock_us(STILL_US);
	do {
		if (ops->polls(p->link, start))
			return true;
		tw_cpu_relax();
	} while ((int64_t)(tw_clock() - end) < 0);
	return false;
}

/* One that only waits may as well write, while our program computes: it is woken for it. */
static bool waits_for_us(const struct tw_peer *p, uint32_t len)
{
	const struct tw_provider *ops = p->link->provider;

	return len >= STILL_MIN && ops->waits && ops->waits(p->link);
}

static bool can_split(const struct tw_peer *p, const struct tw_req *r, uint32_t len)
{
	return p->link->by_cpu && r->nsegs == 1 && len >= SPLIT_MIN && !p->cannot_put &&
	       (p->ep->protos & TW_PROTO_BIT(TW_PROTO_SPLIT));
}

/* Where the peer's half of what is left begins. */
static uint32_t share_from(const struct tw_req *r)
{
	return r->at + (((r->xfer_len - r->at) / 2 + LEAD) & ~(uint32_t)(LEAD - 1));
}

/*
 * While our program computes: the peer writes all of it, or one get does, or nothing moves,
 * where we see when the peer begins to wait for it.
 */
static enum tw_transfer_event choose_idle(struct tw_peer *p, struct tw_req *r, bool splits)
{
	if (still_polls(p, r->xfer_len) || waits_for_us(p, r->xfer_len)) {
		if (!splits)
			return TW_ON_GET;
		r->proto = TW_PROTO_SPLIT;
		r->until = 0;
		return TW_ON_PUT_WHOLE;
	}
	return r->xfer_len >= REST_MIN && p->link->provider->waits && !tw_cores_idle() ? TW_ON_REST
										       : TW_ON_GET;
}

/*
 * The side that idles moves the data, whatever is faster; when both poll, the protocol that
 * was measured to be faster.
 */
static enum tw_transfer_event choose_polling(struct tw_peer *p, struct tw_req *r, bool splits)
{
	static const uint8_t begins[] = {[TW_PROTO_SPLIT] = TW_ON_SPLIT,
					 [TW_PROTO_GET] = TW_ON_GET,
					 [TW_PROTO_COPY] = TW_ON_COPY};
	unsigned protos = TW_PROTO_BIT(TW_PROTO_COPY) | TW_PROTO_BIT(TW_PROTO_GET);

	if (r->xfer_len < PULL_MIN)
		protos = TW_PROTO_BIT(TW_PROTO_COPY);
	else if (splits)
		protos = p->ep->protos;
	r->proto = (uint8_t)tw_choose(tw_transfer_learnt(p), r->xfer_len, protos);
	/* The others need the peer. */
	if (r->proto != TW_PROTO_GET && !still_polls(p, r->xfer_len)) {
		r->proto = TW_PROTO_GET;
		return TW_ON_GET;
	}
	/* Beside others, or behind them, its time tells nothing. */
	if (p->ep->nmoving == 1 && tw_choose_teaches(tw_transfer_learnt(p), r->xfer_len))
		r->flags |= TW_R_SAMPLE;
	r->until = r->proto == TW_PROTO_SPLIT ? share_from(r) : r->xfer_len;
	return (enum tw_transfer_event)begins[r->proto];
}

enum tw_transfer_event tw_transfer_choose(struct tw_peer *p, struct tw_req *r)
{
	r->proto = TW_PROTO_GET;
	if (!r->xfer_len)
		return TW_ON_EMPTY;
	if (!r->remote_address || !p->link->can_get ||
	    p->ep->protos == TW_PROTO_BIT(TW_PROTO_COPY)) {
		r->proto = TW_PROTO_COPY;
		return TW_ON_COPY;
	}
	if (p->link->direct || p->ep->protos == TW_PROTO_BIT(TW_PROTO_GET))
		return TW_ON_GET;
	r->started = tw_clock();
	/* For a program that sleeps the service thread is as good as its own call. */
	return (p->ep->host.state == TW_IDLE && !p->ep->awaited ? choose_idle : choose_polling)(
		p, r, can_split(p, r, r->xfer_len));
}

unsigned tw_transfer_protos(const char *name)
{
	static const uint8_t protos[] = {TW_ALL_PROTOS, TW_PROTO_BIT(TW_PROTO_COPY),
					 TW_PROTO_BIT(TW_PROTO_GET), TW_PROTO_BIT(TW_PROTO_SPLIT)};

	return protos[tw_settings_choice(name, TW_RNDV_CHOICES)];
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
	if (!mr || p->link->provider->mem_reg(p->link, r->seg.ptr, r->seg.len, mr) != TW_OK) {
		free(mr);
		return 0;
	}
	r->rma = mr;
	return mr->address;
}

void tw_transfer_forget(struct tw_peer *p, struct tw_req *r)
{
	if (tw_is_access(r)) {
		tw_window_leave(p, r);
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

void tw_transfer_settle(struct tw_peer *p, struct tw_req *r)
{
	/* After any other error the peer is dying, and its end will end the request. */
	static const uint8_t outcome[TW_NERRS] = {
		[TW_OK] = TW_ON_GOT,
		[TW_EPERM] = TW_ON_REFUSED,
		[TW_EFAULT] = TW_ON_FAULT,
		[TW_EKEY] = TW_ON_DENIED};

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
	tw_transfer_settle(p, r);
	return true;
}

/* A peer that computed when the data was asked for, and polls now, writes half of the rest. */
static bool shares_now(struct tw_peer *p, struct tw_req *r)
{
	if (!r->at || r->until != r->xfer_len || !can_split(p, r, r->until - r->at) ||
	    p->ep->host.state == TW_IDLE ||
	    tw_choose_best(tw_transfer_learnt(p), r->xfer_len) != TW_PROTO_SPLIT ||
	    !p->link->provider->polls(p->link, r->started))
		return false;
	r->proto = TW_PROTO_SPLIT;
	r->until = share_from(r);
	tw_transfer_step(p, r, TW_ON_SPLIT);
	tw_transfer_reply(p, r);
	return true;
}

/* One get; false when there is no room for it. */
static bool get_piece(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[NPIECES];
	uint32_t most = tw_is_remote(p) ? REMOTE_PIECE : PIECE;
	uint32_t want = tw_min(most, r->until - r->at), covered;
	unsigned n = tw_req_iov(r, r->at, want, iov, tw_countof(iov), &covered);
	enum tw_err err = TW_OK;

	if (shares_now(p, r))
		return true;
	if (want)
		err = p->link->provider->get(p->link, iov, n, r->remote_address + r->at, r->rma, r);
	return tw_transfer_begun(p, r, err, covered);
}

/*
 * It takes as long as many polls: nobody is to think that this side does not poll. A whole round
 * of them, so that none whose turn it is to do more is left out.
 */
static void copied(struct tw_ep *ep)
{
	tw_poll_count(ep, tw_polls(ep) + TW_SLOW_EVERY);
	tw_poll_show(&ep->host.lanes);
}

bool tw_transfer_pull(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = BUDGET; budget > 0 && !tw_list_empty(&p->pulling); budget -= PIECE) {
		struct tw_req *r = tw_list_first(&p->pulling, struct tw_req, link);

		if (!(tw_is_access(r) ? tw_window_pull : get_piece)(p, r))
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
	if (!tw_list_empty(&p->pulling))
		tw_peer_work(p);
	tw_transfer_settle(p, r);
}

/* The sender ----------------------------------------------------------------- */

/* One DATA packet; false when there is no room. */
static bool send_piece(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[TW_MAX_SEGMENTS];
	uint32_t most = tw_min((uint32_t)PUSH_PIECE, p->link->max_payload), covered;
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

static void put_piece(struct tw_peer *p, struct tw_req *r)
{
	struct iovec iov[NPIECES];
	uint32_t want = tw_min((uint32_t)PIECE, r->xfer_len - r->at), covered;
	unsigned n = tw_req_iov(r, r->at, want, iov, NPIECES, &covered);
	enum tw_err err =
		p->link->provider->put(p->link, iov, n, r->remote_address + r->at, NULL, r);

	r->at += covered;
	if (err == TW_OK && r->at < r->xfer_len)
		return;
	if (err != TW_OK)
		tw_transfer_step(p, r, TW_ON_REFUSED);
	else
		tw_transfer_step(p, r, r->until ? TW_ON_MOVED : TW_ON_MOVED_ALL);
	tw_transfer_reply(p, r);
}

static bool push(struct tw_peer *p)
{
	bool moved = false;

	for (int budget = PUSH_BUDGET; budget > 0 && !tw_list_empty(&p->pushing);) {
		struct tw_req *r = tw_list_first(&p->pushing, struct tw_req, link);

		if (r->state != TW_XFER_SENDING) {
			put_piece(p, r);
			copied(p->ep);
			budget -= PUSH_BUDGET / 2;
		} else if (send_piece(p, r)) {
			budget--;
		} else {
			break;
		}
		moved = true;
	}
	return moved;
}

/* Both ----------------------------------------------------------------------- */

static void return_credits(struct tw_peer *p)
{
	while (tw_credits_due(p)) {
		uint16_t n = tw_take_credits(p);

		if (tw_packet_send(p, TW_SEND_CONTROL, tw_hdr_make(TW_CREDIT, 0, n, 0, 0), NULL, 0,
				   0) == TW_OK)
			continue;
		tw_keep_credits(p, n);
		return;
	}
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

	if (!tw_list_empty(&p->pulling))
		moved |= tw_transfer_pull(p);
	if (!tw_list_empty(&p->pushing))
		moved |= push(p);
	/* Of what has ended in that. */
	moved |= send_replies(p);
	return_credits(p);
	return moved;
}
