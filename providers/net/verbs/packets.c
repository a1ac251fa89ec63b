/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets: sent and received, and the credit that keeps receive buffers from running out. */
#include <stdlib.h>
#include <string.h>

#include "providers/net/verbs/verbs.h"

/* Buffers -------------------------------------------------------------------- */

static struct tw_verbs_slab *slab_new(struct tw_verbs *v)
{
	struct tw_verbs_slab *s = calloc(1, sizeof(*s));
	size_t size = (size_t)TW_VERBS_SLAB * TW_VERBS_BUFFER;

	if (!s)
		return NULL;
	s->mem = aligned_alloc(TW_PAGE, (size + TW_PAGE - 1) & ~(size_t)(TW_PAGE - 1));
	if (s->mem)
		s->mr = ibv_reg_mr(v->pd, s->mem, size,
				   IBV_ACCESS_LOCAL_WRITE |
					   (v->limits.iwarp ? IBV_ACCESS_REMOTE_WRITE : 0));
	if (!s->mr) {
		free(s->mem);
		free(s);
		return NULL;
	}
	for (unsigned i = 0; i < TW_VERBS_SLAB; i++) {
		s->bufs[i].mem = s->mem + (size_t)i * TW_VERBS_BUFFER;
		s->bufs[i].lkey = s->mr->lkey;
	}
	tw_list_add_tail(&v->slabs, &s->node);
	return s;
}

struct tw_verbs_buf *tw_verbs_buf_get(struct tw_verbs *v)
{
	struct tw_verbs_slab *s;
	struct tw_verbs_buf *b;

	if (tw_list_empty(&v->free_bufs)) {
		s = slab_new(v);
		for (unsigned i = 0; s && i < TW_VERBS_SLAB; i++)
			tw_list_add_tail(&v->free_bufs, &s->bufs[i].node);
		if (!s)
			return NULL;
	}
	b = tw_list_first(&v->free_bufs, struct tw_verbs_buf, node);
	tw_list_del(&b->node);
	return b;
}

void tw_verbs_buf_put(struct tw_verbs *v, struct tw_verbs_buf *b)
{
	/* The front: what was used last is in the cache. */
	tw_list_add_tail(v->free_bufs.next, &b->node);
}

void tw_verbs_bufs_free(struct tw_verbs *v)
{
	struct tw_list *n, *tmp;

	tw_list_each(&v->slabs, n, tmp) {
		struct tw_verbs_slab *s = tw_container(n, struct tw_verbs_slab, node);

		ibv_dereg_mr(s->mr);
		free(s->mem);
		free(s);
	}
	free(v->rx);
}

static bool post_rx(struct tw_verbs *v, const uint32_t *numbers, unsigned n)
{
	struct ibv_recv_wr wr[TW_VERBS_SLAB], *bad;
	struct ibv_sge sge[TW_VERBS_SLAB];

	for (unsigned i = 0; i < n; i++) {
		struct tw_verbs_buf *b = v->rx[numbers[i]];

		sge[i] = (struct ibv_sge){(uintptr_t)b->mem, TW_VERBS_BUFFER, b->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = TW_VERBS_RECV | numbers[i],
					     .next = i + 1 < n ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	return n == 0 || ibv_post_srq_recv(v->srq, wr, &bad) == 0;
}

bool tw_verbs_rx_grow(struct tw_verbs *v)
{
	uint32_t numbers[TW_VERBS_SLAB];
	struct tw_verbs_buf **rx;
	struct tw_verbs_slab *s;

	if (v->nrx + TW_VERBS_SLAB > v->limits.srq)
		return false;
	rx = realloc(v->rx, (v->nrx + TW_VERBS_SLAB) * sizeof(*rx));
	if (!rx)
		return false;
	v->rx = rx;
	s = slab_new(v);
	if (!s)
		return false;
	for (unsigned i = 0; i < TW_VERBS_SLAB; i++) {
		numbers[i] = v->nrx + i;
		rx[numbers[i]] = &s->bufs[i];
	}
	if (!post_rx(v, numbers, TW_VERBS_SLAB))
		return false; /* the slab stays, unused */
	v->nrx += TW_VERBS_SLAB;
	return true;
}

/* Credit --------------------------------------------------------------------- */

static unsigned max_paths(const struct tw_verbs *v)
{
	return v->limits.srq / 2 / TW_VERBS_SHARE_MIN;
}

/* Packets that a peer may have under way: less, the more is promised already. */
static uint32_t share(const struct tw_verbs *v)
{
	unsigned taken = v->reserved + (max_paths(v) - v->npaths) * TW_VERBS_SHARE_MIN;
	unsigned left = taken < v->limits.srq ? v->limits.srq - taken : 0;

	return TW_VERBS_SHARE_MIN +
	       tw_min((unsigned)TW_VERBS_SHARE_MAX - TW_VERBS_SHARE_MIN, left / 8);
}

/* Of a peer at least the least share is counted as promised, whatever it has. */
static void renew(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;
	uint32_t out = p->granted - p->used, want = share(v);
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
	renew(p);
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

/* One packet of this path was taken in, and its buffer is free again. */
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
	if (p->advertised - p->used <= share(p->v) / 2 && tw_list_empty(&p->credit_due))
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

/* Puts one at the end of the chain; a head alone only tells of credit. */
static enum tw_err add(struct tw_verbs_path *p, const void *data, uint32_t len, void *cookie)
{
	struct tw_verbs *v = p->v;
	unsigned i = p->nchain;
	struct ibv_send_wr *wr = &p->chain[i];
	struct ibv_sge *sge = p->sge[i];
	struct tw_verbs_head *head = &p->heads[i];
	struct tw_verbs_buf *b = NULL;
	bool direct = len + sizeof(*head) <= v->limits.inline_max && v->limits.sge >= 2;

	if (!direct) {
		b = tw_verbs_buf_get(v);
		if (!b)
			return TW_AGAIN;
		b->cookie = cookie;
	}
	renew(p);
	p->advertised = p->granted;
	*head = (struct tw_verbs_head){p->granted, TW_VERBS_MAGIC};
	if (b) {
		memcpy(b->mem, head, sizeof(*head));
		memcpy(b->mem + sizeof(*head), data, len);
		sge[0] =
			(struct ibv_sge){(uintptr_t)b->mem, (uint32_t)sizeof(*head) + len, b->lkey};
	} else {
		sge[0] = (struct ibv_sge){(uintptr_t)head, sizeof(*head), 0};
		sge[1] = (struct ibv_sge){(uintptr_t)data, len, 0};
	}
	*wr = (struct ibv_send_wr){.wr_id = tw_verbs_sq_next(p, b, NULL),
				   .next = wr + 1,
				   .sg_list = sge,
				   .num_sge = direct && len ? 2 : 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = direct ? IBV_SEND_INLINE : 0};
	if (b || ++p->unsignaled == TW_VERBS_SIGNAL) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		p->unsignaled = 0;
	}
	p->nchain++;
	p->sent++;
	return b && cookie ? TW_PENDING : TW_OK;
}

enum tw_err tw_verbs_send(void *path, const void *data, uint32_t len, bool more, void *cookie)
{
	struct tw_verbs_path *p = path;
	enum tw_err err = TW_AGAIN;

	if (p->state == TW_VERBS_DOWN)
		return TW_ELOST;
	if (p->state != TW_VERBS_UP)
		return TW_AGAIN;
	/* The last of each kind is for telling of credit. */
	if ((int32_t)(p->limit - p->sent) > 1 && sq_free(p) > 1)
		err = add(p, data, len, cookie);
	if ((!more || err == TW_AGAIN || p->nchain == TW_VERBS_CHAIN) &&
	    !tw_verbs_doorbell_ring(p) && err != TW_PENDING)
		return TW_ELOST;
	return err;
}

void tw_verbs_credit_flush(struct tw_verbs *v)
{
	struct tw_list *n, *tmp;

	tw_list_each(&v->credit_due, n, tmp) {
		struct tw_verbs_path *p = tw_container(n, struct tw_verbs_path, credit_due);

		if (p->state != TW_VERBS_UP) {
			/* Once it is up it will tell by itself. */
			if (p->state == TW_VERBS_DOWN)
				tw_list_del(n);
			continue;
		}
		renew(p);
		if (p->advertised - p->used <= share(v) / 2 && p->granted != p->advertised) {
			if (p->limit == p->sent || sq_free(p) == 0 ||
			    add(p, "", 0, NULL) == TW_AGAIN)
				continue;
			tw_verbs_doorbell_ring(p);
		}
		tw_list_del(n);
	}
}

void tw_verbs_send_empty(struct tw_verbs_path *p)
{
	if (p->limit != p->sent && sq_free(p) && add(p, "", 0, NULL) != TW_AGAIN)
		tw_verbs_doorbell_ring(p);
}

/* Receiving ------------------------------------------------------------------ */

void tw_verbs_repost(struct tw_verbs *v)
{
	unsigned n = v->nrepost;

	if (!n)
		return;
	v->nrepost = 0;
	if (!post_rx(v, v->repost, n))
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
	/* Further than known, and not out of all reason. */
	if ((int32_t)(h->granted - p->limit) > 0 && h->granted - p->sent <= TW_VERBS_BUFFERS)
		p->limit = h->granted;
}

bool tw_verbs_received(struct tw_verbs *v, const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id, len = wc->byte_len, from = 0;
	struct tw_verbs_path *p = tw_verbs_path_of_qp(v, wc->qp_num);
	const char *mem = v->rx[number]->mem;
	struct tw_verbs_head h;

	if (p)
		from = p->name;
	if (wc->status == IBV_WC_SUCCESS && len >= sizeof(h)) {
		memcpy(&h, mem, sizeof(h));
		/* Sooner than by the connection manager, whose last word may be lost. */
		if (p && p->state == TW_VERBS_NEW)
			tw_verbs_path_up(p, p->limit);
		if (h.magic != TW_VERBS_MAGIC && p)
			tw_verbs_path_down(p, "a packet without a head");
		if (h.magic == TW_VERBS_MAGIC && p)
			on_credit(p, &h);
		if (h.magic == TW_VERBS_MAGIC && len > sizeof(h) &&
		    !v->host.packet(v->host.owner, mem + sizeof(h), len - (uint32_t)sizeof(h)))
			return false;
	}
	done_with(v, number, from);
	return true;
}
