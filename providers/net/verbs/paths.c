/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths, their queue pairs, and what is under way on them. */
#include <stdlib.h>
#include <string.h>

#include "base/inet.h"
#include "base/sys.h"
#include "providers/net/verbs/verbs.h"

static bool path_enter(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;
	uint32_t i = tw_slots_add(&v->table, p);

	/* 31 bits, as one bit of a wr_id tells its kind; never 0. */
	v->serial = v->serial % 0x7fff + 1;
	p->name = v->serial << 16 | i;
	return i < TW_SLOTS_MAX;
}

struct tw_verbs_path *tw_verbs_path_find(struct tw_verbs *v, uint32_t name)
{
	struct tw_verbs_path *p = tw_slots_find(&v->table, name);

	return p && p->name == name ? p : NULL;
}

static struct tw_verbs_path **bucket(struct tw_verbs *v, uint32_t qp_num)
{
	return &v->by_qp[qp_num % tw_countof(v->by_qp)];
}

struct tw_verbs_path *tw_verbs_path_of_qp(struct tw_verbs *v, uint32_t qp_num)
{
	struct tw_verbs_path *p = *bucket(v, qp_num);

	while (p && p->qp->qp_num != qp_num)
		p = p->next_qp;
	return p;
}

enum tw_err tw_verbs_path_new(void *instance, const struct sockaddr_storage *board,
			      const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			      void **out)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;
	struct tw_verbs_path *p = board ? NULL : calloc(1, sizeof(*p));
	struct tw_verbs_address a = {.magic = TW_VERBS_MAGIC};

	(void)tokens; /* its own are shorter, and go in its address */
	/* The device is that of one board. */
	if (!p)
		return board ? TW_EUNREACH : TW_ENOMEM;
	p->v = v;
	if (!tw_sys_random(&p->token, sizeof(p->token)) || !path_enter(p)) {
		free(p);
		return TW_ENOMEM;
	}
	tw_list_init(&p->credit_due);
	tw_list_init(&p->broken);
	tw_list_init(&p->waiting);
	tw_list_add_tail(&v->paths, &p->node);
	a.name = p->name;
	a.token = p->token;
	memcpy(&a.to, &v->addr, sizeof(a.to));
	tw_inet_wire(&a.to);
	mine->len = sizeof(a);
	memcpy(mine->bytes, &a, sizeof(a));
	*out = p;
	return TW_OK;
}

enum tw_err tw_verbs_path_bind(void *path, const struct tw_driver_address *other)
{
	TW_NOT_CANCELLED;
	struct tw_verbs_path *p = path;
	struct tw_verbs_address a;

	if (other->len != sizeof(a))
		return TW_EPROTO;
	memcpy(&a, other->bytes, sizeof(a));
	tw_inet_wire(&a.to);
	if (a.magic != TW_VERBS_MAGIC || a.token == p->token ||
	    a.to.sin6_family != p->v->addr.ss_family || p->bound ||
	    (p->other_token && p->other_token != a.token))
		return TW_EPROTO;
	p->bound = true;
	p->other_name = a.name;
	p->other_token = a.token;
	p->calls = p->token > a.token;
	p->to = a.to;
	if (p->state == TW_VERBS_NEW)
		p->v->connecting++;
	tw_verbs_tick(p->v);
	if (p->calls && !tw_verbs_call(p))
		tw_verbs_path_down(p, "cannot connect");
	return TW_OK;
}

/* Completions must never overflow the queue. */
static bool cq_room(struct tw_verbs *v)
{
	unsigned need = v->limits.srq + v->nsq;
	if (need <= (unsigned)v->cq->cqe)
		return true;
	if (need > v->limits.cqe)
		return false;
	return ibv_resize_cq(v->cq, (int)tw_min(2 * need, v->limits.cqe)) == 0;
}

bool tw_verbs_qp_make(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;
	bool deep = v->npaths < TW_VERBS_DEEP;
	struct ibv_qp_init_attr attr = {.send_cq = v->cq,
					.recv_cq = v->cq,
					.srq = v->srq,
					.cap = {.max_send_sge = v->limits.sge,
						.max_inline_data = v->limits.inline_max},
					.qp_type = IBV_QPT_RC};
	if (!tw_verbs_credit_begin(p))
		return false;
	p->depth = tw_min(v->limits.sq, (unsigned)(deep ? TW_VERBS_SQ : TW_VERBS_SQ_LOW));
	attr.cap.max_send_wr = p->depth;
	v->nsq += p->depth;
	if (!cq_room(v) || !(p->qp = ibv_create_qp(v->pd, &attr))) {
		v->nsq -= p->depth;
		tw_verbs_credit_end(p);
		return false;
	}
	p->next_qp = *bucket(v, p->qp->qp_num);
	*bucket(v, p->qp->qp_num) = p;
	return tw_verbs_qp_move(p, IBV_QPS_INIT);
}

bool tw_verbs_qp_move(struct tw_verbs_path *p, enum ibv_qp_state to)
{
	struct tw_verbs_limits *l = &p->v->limits;
	struct ibv_qp_attr attr = {.qp_state = to};
	int mask;

	if (rdma_init_qp_attr(p->id, &attr, &mask) != 0)
		return false;
	if (to == IBV_QPS_INIT)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	attr.max_dest_rd_atomic = tw_min(attr.max_dest_rd_atomic, l->reads_in);
	attr.max_rd_atomic = tw_min(attr.max_rd_atomic, l->reads_out);
	return ibv_modify_qp(p->qp, &attr, mask) == 0;
}

static void verbs_path_hang_up(struct tw_verbs_path *p)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)ibv_modify_qp(p->qp, &attr, IBV_QP_STATE);
	(void)rdma_disconnect(p->id);
}

void tw_verbs_path_down(struct tw_verbs_path *p, const char *why)
{
	struct tw_verbs *v = p->v;

	if (p->state == TW_VERBS_DOWN)
		return;
	v->host.log(TW_LOG_DEBUG, "verbs: %s", why);
	v->connecting -= p->state == TW_VERBS_NEW && p->bound;
	p->state = TW_VERBS_DOWN;
	p->nchain = 0;
	/* Work requests under way end by completions. */
	if (p->qp)
		verbs_path_hang_up(p);
	tw_list_add_tail(&v->broken, &p->broken);
}

static void qp_free(struct tw_verbs_path *p)
{
	struct tw_verbs_path **at = bucket(p->v, p->qp->qp_num);

	while (*at != p)
		at = &(*at)->next_qp;
	*at = p->next_qp;
	ibv_destroy_qp(p->qp);
	p->v->nsq -= p->depth;
	p->qp = NULL;
}

void tw_verbs_path_anew(struct tw_verbs_path *p)
{
	if (p->qp)
		qp_free(p);
	if (p->id)
		rdma_destroy_id(p->id);
	p->id = NULL;
	tw_verbs_credit_end(p);
	/* Nothing was sent: both sides count from the beginning. */
	p->granted = p->advertised = p->used = p->limit = 0;
}

void tw_verbs_qp_end(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;

	if (p->qp && p->state == TW_VERBS_UP)
		verbs_path_hang_up(p);
	if (p->qp)
		qp_free(p);
	v->connecting -= p->state == TW_VERBS_NEW && p->bound;
	p->state = TW_VERBS_DOWN;
	p->nchain = 0;
	for (; p->tail != p->head; p->tail++) {
		struct tw_verbs_sqe *e = &p->sq[p->tail % TW_VERBS_SQ];

		/* Pieces of transfers end with these. */
		if (e->packet)
			tw_net_packet_put(&e->packet->packet);
	}
	tw_verbs_rma_orphan(p);
	tw_verbs_credit_end(p);
}

void tw_verbs_path_free(void *path)
{
	TW_NOT_CANCELLED;
	struct tw_verbs_path *p = path;

	tw_verbs_qp_end(p);
	if (p->id)
		rdma_destroy_id(p->id);
	tw_list_del(&p->node);
	tw_list_del(&p->credit_due);
	tw_list_del(&p->broken);
	p->v->table.of[p->name % TW_SLOTS_MAX] = NULL;
	free(p);
}

uint64_t tw_verbs_sq_next(struct tw_verbs_path *p, struct tw_verbs_packet *packet,
			  struct tw_verbs_piece *piece)
{
	p->sq[p->head % TW_VERBS_SQ] = (struct tw_verbs_sqe){packet, piece};
	p->nrma += piece != NULL;
	return (uint64_t)p->name << 32 | p->head++;
}

void tw_verbs_sq_done(struct tw_verbs_path *p, uint32_t last, enum ibv_wc_status status)
{
	struct tw_verbs *v = p->v;

	if ((int32_t)(last - p->tail) < 0)
		return;
	while (p->tail != last + 1) {
		struct tw_verbs_sqe e = p->sq[p->tail % TW_VERBS_SQ];
		/* The unsignaled ones before it succeeded. */
		enum ibv_wc_status how = p->tail++ == last ? status : IBV_WC_SUCCESS;

		if (e.piece) {
			p->nrma--;
			tw_verbs_piece_done(v, e.piece, how);
		} else if (e.packet) {
			tw_net_packet_put(&e.packet->packet);
		}
	}
}
