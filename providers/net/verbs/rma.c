/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory. The side that is read or written registers a transfer as a
 * whole; the side that reads or writes does so piece by piece, registering one
 * while others are under way. Small pieces are copied through a buffer instead:
 * registering costs more. Nothing stays registered after a transfer.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "providers/net/verbs/verbs.h"

static enum tw_err verbs_rma_err_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
		return TW_EPERM;
	default:
		return TW_ELOST;
	}
}

/* Between the program's memory, from a piece's place on, and its buffer. */
static void copy(const struct tw_verbs_piece *piece, bool to_program)
{
	struct tw_cursor at = piece->from;
	struct iovec part;

	*piece->rma->path->v->host.copied += piece->len;
	for (size_t done = 0; done < piece->len; done += part.iov_len) {
		char *here = piece->buf->packet.data + done;

		tw_cursor_pieces(&at, piece->len - done, &part, 1);
		tw_cursor_advance(&at, part.iov_len);
		if (to_program)
			memcpy(part.iov_base, here, part.iov_len);
		else
			memcpy(here, part.iov_base, part.iov_len);
	}
}

static void verbs_rma_release(struct tw_verbs_piece *piece)
{
	if (piece->buf)
		tw_net_packet_put(&piece->buf->packet);
	for (unsigned i = 0; i < piece->nmr; i++)
		ibv_dereg_mr(piece->mr[i]);
	piece->buf = NULL;
	piece->nmr = 0;
	piece->open = false;
	piece->rma->open--;
}

/* Nothing of it is under way any more. */
static void rma_finish(struct tw_verbs *v, struct tw_verbs_rma *r)
{
	tw_list_del(&r->more);
	tw_list_del(&r->node);
	v->host.ended(v->host.owner, r->cookie, r->err);
	free(r);
}

static void rma_fail(struct tw_verbs_rma *r, enum tw_err err)
{
	if (r->err == TW_OK)
		r->err = err;
	r->left = 0;
	tw_list_del(&r->more);
}

void tw_verbs_piece_done(struct tw_verbs *v, struct tw_verbs_piece *piece,
			 enum ibv_wc_status status)
{
	struct tw_verbs_rma *r = piece->rma;

	if (status != IBV_WC_SUCCESS)
		rma_fail(r, verbs_rma_err_of(status));
	else if (!r->put && piece->buf)
		copy(piece, true);
	verbs_rma_release(piece);
	if (!r->open && !r->left)
		rma_finish(v, r);
}

/* As many bytes as fit into one work request, without being registered yet. */
static unsigned gather(const struct tw_verbs *v, const struct tw_verbs_rma *r, struct ibv_sge *sge,
		       size_t *len)
{
	unsigned most = r->put ? v->limits.sge : v->limits.sge_read, n;
	struct iovec iov[TW_VERBS_SGE];

	n = tw_cursor_pieces(&r->next, tw_min(r->left, (size_t)v->limits.message), iov, most);
	*len = 0;
	for (unsigned i = 0; i < n; i++) {
		sge[i].addr = (uintptr_t)iov[i].iov_base;
		sge[i].length = (uint32_t)iov[i].iov_len;
		*len += iov[i].iov_len;
	}
	return n;
}

static bool register_piece(struct tw_verbs *v, struct tw_verbs_piece *piece, struct ibv_sge *sge,
			   unsigned n)
{
	int access = piece->rma->put ? 0 : IBV_ACCESS_LOCAL_WRITE;

	if (!piece->rma->put && v->limits.iwarp)
		access |= IBV_ACCESS_REMOTE_WRITE;
	for (; piece->nmr < n; piece->nmr++) {
		struct ibv_sge *s = &sge[piece->nmr];
		struct ibv_mr *mr =
			ibv_reg_mr(v->pd, (void *)(uintptr_t)s->addr, s->length, access);

		if (!mr)
			return false;
		piece->mr[piece->nmr] = mr;
		s->lkey = mr->lkey;
	}
	return true;
}

/* The next piece of a transfer as a work request; false if that cannot be. */
static bool rma_prepare(struct tw_verbs_path *p, struct tw_verbs_rma *r, struct ibv_send_wr *wr,
			struct ibv_sge *sge)
{
	struct tw_verbs *v = p->v;
	struct tw_verbs_piece *piece = r->pieces;
	unsigned n;

	while (piece->open)
		piece++;
	*piece = (struct tw_verbs_piece){.rma = r, .open = true, .from = r->next};
	r->open++;
	n = gather(v, r, sge, &piece->len);
	if (piece->len <= TW_VERBS_PACKET)
		piece->buf = tw_verbs_packet_get(v, true);
	if (piece->buf) {
		piece->len = tw_min(r->left, (size_t)TW_VERBS_PACKET);
		sge[0] = (struct ibv_sge){(uintptr_t)piece->buf->packet.data, (uint32_t)piece->len,
					  tw_verbs_lkey(piece->buf)};
		n = 1;
		if (r->put)
			copy(piece, false);
	} else if (!register_piece(v, piece, sge, n)) {
		verbs_rma_release(piece);
		return false;
	}
	*wr = (struct ibv_send_wr){.wr_id = tw_verbs_sq_next(p, NULL, piece),
				   .sg_list = sge,
				   .num_sge = (int)n,
				   .opcode = r->put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				   .send_flags = IBV_SEND_SIGNALED,
				   .wr.rdma = {r->address, r->rkey}};
	tw_cursor_advance(&r->next, piece->len);
	r->address += piece->len;
	r->left -= piece->len;
	return true;
}

/* Posts what may be under way of one transfer, with one ring of the doorbell. */
static void verbs_rma_post(struct tw_verbs_path *p, struct tw_verbs_rma *r)
{
	struct ibv_send_wr wr[TW_VERBS_PIECES], *bad;
	struct ibv_sge sge[TW_VERBS_PIECES][TW_VERBS_SGE];
	unsigned n = 0;

	while (r->left && r->open < TW_VERBS_PIECES && p->nrma < TW_VERBS_SQ_RMA) {
		if (!rma_prepare(p, r, &wr[n], sge[n])) {
			rma_fail(r, TW_EPERM);
			break;
		}
		if (n)
			wr[n - 1].next = &wr[n];
		n++;
	}
	if (!r->left)
		tw_list_del(&r->more);
	if (n && ibv_post_send(p->qp, wr, &bad) != 0)
		tw_verbs_path_down(p, "a transfer was not taken");
	if (!r->open && !r->left)
		rma_finish(p->v, r);
}

void tw_verbs_rma_pump(struct tw_verbs_path *p)
{
	if (tw_list_empty(&p->waiting) || p->state != TW_VERBS_UP || !tw_verbs_doorbell_ring(p))
		return;
	tw_list_walk(&p->waiting, struct tw_verbs_rma, r, more) {
		if (p->state != TW_VERBS_UP || p->nrma == TW_VERBS_SQ_RMA)
			return;
		verbs_rma_post(p, r);
	}
}

enum tw_err tw_verbs_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
			 uint64_t address, const void *key, uint32_t key_len, void *cookie)
{
	TW_NOT_CANCELLED;
	struct tw_verbs_path *p = path;
	struct tw_verbs_rma *r;

	if (key_len != sizeof(r->rkey))
		return TW_EPERM;
	if (p->state == TW_VERBS_DOWN)
		return TW_ELOST;
	if (p->state != TW_VERBS_UP)
		return TW_AGAIN;
	r = malloc(sizeof(*r) + niov * sizeof(*iov));
	if (!r)
		return TW_AGAIN;
	*r = (struct tw_verbs_rma){
		.path = p, .cookie = cookie, .put = put, .address = address, .next = {r->iov, 0}};
	memcpy(&r->rkey, key, sizeof(r->rkey));
	r->rkey = le32toh(r->rkey);
	memcpy(r->iov, iov, niov * sizeof(*iov));
	for (unsigned i = 0; i < niov; i++)
		r->left += iov[i].iov_len;
	tw_list_add_tail(&p->v->rmas, &r->node);
	tw_list_add_tail(&p->waiting, &r->more);
	tw_verbs_rma_pump(p);
	return TW_PENDING;
}

void tw_verbs_rma_orphan(struct tw_verbs_path *p)
{
	struct tw_verbs *v = p->v;

	tw_list_walk(&v->rmas, struct tw_verbs_rma, r, node) {
		if (r->path != p)
			continue;
		for (unsigned i = 0; i < TW_VERBS_PIECES; i++)
			if (r->pieces[i].open)
				verbs_rma_release(&r->pieces[i]);
		rma_fail(r, TW_ELOST);
		rma_finish(v, r);
	}
}

void tw_verbs_cancel(void *instance, void *cookie)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;

	tw_list_walk(&v->rmas, struct tw_verbs_rma, r, node) {
		if (r->cookie != cookie)
			continue;
		/* Only the end of the queue pair stops a work request. */
		tw_verbs_qp_end(r->path);
		return;
	}
}

enum tw_err tw_verbs_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			     struct tw_driver_mr *mr)
{
	TW_NOT_CANCELLED;
	struct tw_verbs *v = instance;
	int read = rights & TW_MEM_READ ? IBV_ACCESS_REMOTE_READ : 0, access = read;
	struct ibv_mr *it;
	uint32_t rkey;

	if (rights & TW_MEM_WRITE)
		access |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	it = ibv_reg_mr(v->pd, addr, len, access);
	/* Read-only memory can still be read remotely. */
	if (!it && errno != ENOMEM && read)
		it = ibv_reg_mr(v->pd, addr, len, read);
	if (!it)
		return errno == ENOMEM ? TW_ENOMEM : TW_EPERM;
	*mr = (struct tw_driver_mr){.base = (uintptr_t)addr, .key_len = sizeof(rkey), .handle = it};
	rkey = htole32(it->rkey);
	memcpy(mr->key, &rkey, sizeof(rkey));
	return TW_OK;
}

void tw_verbs_mem_dereg(void *instance, struct tw_driver_mr *mr)
{
	TW_NOT_CANCELLED;
	(void)instance;
	ibv_dereg_mr(mr->handle);
}
