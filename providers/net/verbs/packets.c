/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets, and the credits that keep receive buffers from running out. */
#include <stdlib.h>

#include "providers/net/verbs/verbs.h"

/* Buffers -------------------------------------------------------------------- */

bool tw_verbs_slab_reg(void *instance, struct tw_net_slab *slab)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;

	slab->handle = ibv_reg_mr(v->pd, slab->mem, slab->len,
				  IBV_ACCESS_LOCAL_WRITE |
					  (v->limits.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0));
	return slab->handle;
}

void tw_verbs_slab_dereg(struct tw_net_slab *slab)
{
	TW_NOT_CANCELLED;
	ibv_dereg_mr(slab->handle);
}

struct tw_verbs_packet *tw_verbs_packet_get(struct tw_verbs *v, bool big)
{
	return (struct tw_verbs_packet *)v->host.packet_get(v->host.owner, big);
}

static bool verbs_packet_post_rx(struct tw_verbs *v, const uint32_t *numbers, unsigned n)
{
	struct ibv_recv_wr wr[TW_VERBS_GROW], *bad;
	struct ibv_sge sge[TW_VERBS_GROW];

	for (unsigned i = 0; i < n; i++) {
		struct tw_verbs_packet *k = v->rx[numbers[i]];

		sge[i] = (struct ibv_sge){(uintptr_t)&k->head, sizeof(k->head) + TW_VERBS_PACKET,
					  tw_verbs_lkey(k)};
		wr[i] = (struct ibv_recv_wr){.wr_id = TW_VERBS_RECV | numbers[i],
					     .next = i + 1 < n ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	return n == 0 || ibv_post_srq_recv(v->srq, wr, &bad) == 0;
}

bool tw_verbs_rx_grow(struct tw_verbs *v)
{
	uint32_t numbers[TW_VERBS_GROW];
	struct tw_verbs_packet **rx;
	unsigned n = 0;

	if (v->nrx + TW_VERBS_GROW > v->limits.srq)
		return false;
	rx = realloc(v->rx, (v->nrx + TW_VERBS_GROW) * sizeof(*rx));
	if (!rx)
		return false;
	v->rx = rx;
	for (rx += v->nrx; n < TW_VERBS_GROW && (rx[n] = tw_verbs_packet_get(v, true)); n++)
		numbers[n] = v->nrx + n;
	if (n == TW_VERBS_GROW && verbs_packet_post_rx(v, numbers, n)) {
		v->nrx += n;
		return true;
	}
	while (n)
		tw_net_packet_put(&rx[--n]->packet);
	return false;
}

/* Credits -------------------------------------------------------------------- */

static unsigned max_paths(const struct tw_verbs *v)
{
	return v->limits.srq / 2 / TW_VERBS_SHARE_MIN;
}

/* Credits for a peer: fewer, the more are granted already. */
static uint32_t packet_share(const struct tw_verbs *v)
{
	unsigned taken = v->reserved + (max_paths(v) - v->npaths) * TW_VERBS_SHARE_MIN;
	unsigned left = taken < v->limits.srq ? v->limits.srq - taken : 0;

	return TW_VERBS_SHARE_MIN +
	       tw_min((unsigned)TW_VERBS_SHARE_MAX - TW_VERBS_SHARE_MIN, left / 8);
}

/* At least the smallest share is reserved for each peer, whatever it has. */
static void packet_renew(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;
	uint32_t out = p->granted - p->used, want = packet_share(v);
	uint32_t counted = tw_max(out, (uint32_t)TW_VERBS_SHARE_MIN);

	if (out >= want)
		return;
	while (v->reserved + want - counted > v->nrx && tw_verbs_rx_grow(v))
		;
	if (v->reserved + want - counted > v->nrx)
		want = counted + (v->nrx > v->reserved ? v->nrx - v->reserved : 0);
	if (want <= out)
		return;
	v->reserved += want - counted;
	p->granted += want - out;
}

bool tw_verbs_credit_begin(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;

	if (v->npaths == max_paths(v))
		return false;
	while (v->reserved + TW_VERBS_SHARE_MIN > v->nrx)
		if (!tw_verbs_rx_grow(v))
			return false;
	v->npaths++;
	v->reserved += TW_VERBS_SHARE_MIN;
	p->accounted = true;
	packet_renew(p);
	p->advertised = p->granted;
	return true;
}

void tw_verbs_credit_end(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;

	if (!p->accounted)
		return;
	p->accounted = false;
	v->npaths--;
	v->reserved -= tw_max(p->granted - p->used, (uint32_t)TW_VERBS_SHARE_MIN);
}

/* A packet of this path was received and its buffer is free again. */
static void used(struct tw_verbs_path *p)
{
	if (!p->accounted)
		return;
	if (p->used == p->granted) {
		tw_verbs_path_down(p, "more packets than were granted");
		return;
	}
	if (p->granted - p->used > TW_VERBS_SHARE_MIN)
		p->v->reserved--;
	p->used++;
	if (p->advertised - p->used <= packet_share(p->v) / 2 && tw_list_empty(&p->credit_due))
		tw_list_add_tail(&p->v->credit_due, &p->credit_due);
}

/* Sending -------------------------------------------------------------------- */

static unsigned sq_free(const struct tw_verbs_path *p)
{
	return p->depth - TW_VERBS_SQ_RMA - (p->head - p->tail - p->nrma);
}

bool tw_verbs_doorbell_ring(struct tw_verbs_path *p)
{
	struct ibv_send_wr *bad;

	if (!p->nchain)
		return true;
	p->chain[p->nchain - 1].next = NULL;
	p->nchain = 0;
	if (ibv_post_send(p->qp, p->chain, &bad) == 0)
		return true;
	tw_verbs_path_down(p, "a packet was not taken");
	return false;
}

/* Puts one at the end of the chain. */
static void packet_add(struct tw_verbs_path *p, struct tw_verbs_packet *k)
{
	struct tw_verbs *v = p->v;
	struct ibv_send_wr *wr = &p->chain[p->nchain];
	struct ibv_sge *sge = &p->sge[p->nchain++];
	uint32_t len = (uint32_t)sizeof(k->head) + k->packet.len;
	bool direct = len <= v->limits.inline_max;

	packet_renew(p);
	p->advertised = p->granted;
	k->head = (struct tw_verbs_head){p->granted, TW_VERBS_MAGIC};
	*sge = (struct ibv_sge){(uintptr_t)&k->head, len, tw_verbs_lkey(k)};
	*wr = (struct ibv_send_wr){.wr_id = tw_verbs_sq_next(p, direct ? NULL : k, NULL),
				   .next = wr + 1,
				   .sg_list = sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = direct ? IBV_SEND_INLINE : 0};
	k->packet.users += !direct;
	if (!direct || ++p->unsignaled == TW_VERBS_SIGNAL) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		p->unsignaled = 0;
	}
	p->sent++;
}

enum tw_err tw_verbs_send(void *path, struct tw_net_packet *packet, bool more)
{
	TW_NOT_CANCELLED;
	struct tw_verbs_path *p = path;
	/* The last slot and credit are kept for granting credits. */
	bool room = (int32_t)(p->limit - p->sent) > 1 && sq_free(p) > 1;

	if (p->state == TW_VERBS_DOWN)
		return TW_ELOST;
	if (p->state != TW_VERBS_UP)
		return TW_AGAIN;
	if (room)
		packet_add(p, (struct tw_verbs_packet *)packet);
	if ((!room || !more || p->nchain == TW_VERBS_CHAIN) && !tw_verbs_doorbell_ring(p))
		return TW_ELOST;
	return room ? TW_OK : TW_AGAIN;
}

bool tw_verbs_send_empty(struct tw_verbs_path *p)
{
	struct tw_verbs_packet *k;

	if (p->limit == p->sent || sq_free(p) == 0)
		return false;
	k = tw_verbs_packet_get(p->v, false);
	if (!k)
		return false;
	k->packet.len = 0;
	packet_add(p, k);
	tw_verbs_doorbell_ring(p);
	tw_net_packet_put(&k->packet);
	return true;
}

void tw_verbs_credit_flush(struct tw_verbs *v)
{
	TW_NOT_CANCELLED;
	tw_list_walk(&v->credit_due, struct tw_verbs_path, p, credit_due) {
		if (p->state != TW_VERBS_UP) {
			/* The first packet of a new path tells. */
			if (p->state == TW_VERBS_DOWN)
				tw_list_del(&p->credit_due);
			continue;
		}
		packet_renew(p);
		if (p->advertised - p->used <= packet_share(v) / 2 && p->granted != p->advertised) {
			if (!tw_verbs_send_empty(p))
				continue;
		}
		tw_list_del(&p->credit_due);
	}
}

/* Receiving ------------------------------------------------------------------ */

void tw_verbs_repost(struct tw_verbs *v)
{
	TW_NOT_CANCELLED;
	unsigned n = v->nrepost;

	if (!n)
		return;
	v->nrepost = 0;
	if (!verbs_packet_post_rx(v, v->repost, n))
		v->host.log(TW_LOG_ERROR, "verbs: receive buffers are lost");
	for (unsigned i = 0; i < n; i++) {
		struct tw_verbs_path *p = tw_verbs_path_find(v, v->from[i]);

		if (p)
			used(p);
	}
}

static void done_with(struct tw_verbs *v, uint32_t number, uint32_t from)
{
	v->repost[v->nrepost] = number;
	v->from[v->nrepost++] = from;
	if (v->nrepost == tw_countof(v->repost))
		tw_verbs_repost(v);
}

static void on_credit(struct tw_verbs_path *p, const struct tw_verbs_head *h)
{
	/* An increase, and not beyond reason. */
	if ((int32_t)(h->granted - p->limit) > 0 && h->granted - p->sent <= TW_VERBS_BUFFERS)
		p->limit = h->granted;
}

bool tw_verbs_received(struct tw_verbs *v, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id, len = wc->byte_len, from = 0;
	struct tw_verbs_path *p = tw_verbs_path_of_qp(v, wc->qp_num);
	const struct tw_verbs_packet *k = v->rx[number];
	struct tw_verbs_head h;

	/* Without a path it is of one that was given up. */
	if (p)
		from = p->name;
	if (p && wc->status == IBV_WC_SUCCESS && len >= sizeof(h)) {
		h = k->head;
		/* Earlier than the connection manager, whose last message may be lost. */
		if (p->state == TW_VERBS_NEW)
			tw_verbs_path_up(p, p->limit);
		if (h.magic != TW_VERBS_MAGIC)
			tw_verbs_path_down(p, "a packet without a head");
		else
			on_credit(p, &h);
		if (h.magic == TW_VERBS_MAGIC && len > sizeof(h) &&
		    !v->host.packet(v->host.owner, p, k->packet.data, len - (uint32_t)sizeof(h)))
			return false;
	}
	done_with(v, number, from);
	return true;
}
