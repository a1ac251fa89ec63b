/* SPDX-License-Identifier: BSD-2-Clause */
/* Remote memory: the other side sends or takes what it has registered. */
#include <endian.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "providers/net/tcp/tcp.h"

static int by_key(const void *a, const void *b)
{
	uint64_t x = ((const struct tw_tcp_mr *)a)->key, y = ((const struct tw_tcp_mr *)b)->key;

	return (x > y) - (x < y);
}

struct tw_tcp_mr *tw_tcp_mr_find(struct tw_tcp *t, uint64_t key, enum tw_mem_rights right,
				 uint64_t address, uint64_t len)
{
	const struct tw_tcp_mr wanted = {.key = key};
	void *node = tfind(&wanted, &t->mrs, by_key);
	struct tw_tcp_mr *mr = node ? *(struct tw_tcp_mr **)node : NULL;

	if (!mr || !(mr->rights & right) || address < mr->base || len > mr->len ||
	    address - mr->base > mr->len - len)
		return NULL;
	return mr;
}

enum tw_err tw_tcp_mem_reg(void *instance, void *addr, size_t len, unsigned rights,
			   struct tw_driver_mr *out)
{
	struct tw_tcp *t = instance;
	struct tw_tcp_mr *mr = malloc(sizeof(*mr));
	uint64_t k;

	if (!mr)
		return TW_ENOMEM;
	*mr = (struct tw_tcp_mr){.base = (uintptr_t)addr, .len = len, .rights = rights};
	/* A peer cannot guess one key from others. */
	if (!tw_sys_random(&mr->key, sizeof(mr->key)) || !tsearch(mr, &t->mrs, by_key)) {
		free(mr);
		return TW_ENOMEM;
	}
	memset(out, 0, sizeof(*out));
	out->base = mr->base;
	out->key_len = sizeof(mr->key);
	k = htole64(mr->key);
	memcpy(out->key, &k, sizeof(k));
	out->handle = mr;
	return TW_OK;
}

void tw_tcp_job_free(struct tw_tcp_path *p, struct tw_tcp_job *job)
{
	if (!job->op)
		p->serving--;
	tw_list_del(&job->node);
	free(job);
}

/* Ends the jobs of a path that use this memory or transfer; true if one is half sent. */
static bool drop_jobs(struct tw_tcp_path *p, const struct tw_tcp_mr *mr, const struct tw_tcp_op *op)
{
	tw_list_walk(&p->jobs, struct tw_tcp_job, j, node) {
		if ((mr && j->mr == mr) || (op && j->op == op)) {
			if (mr)
				tw_tcp_send_ended(p, j->id, TW_EPERM);
			tw_tcp_job_free(p, j);
		}
	}
	return p->job && ((mr && p->job->mr == mr) || (op && p->job->op == op));
}

void tw_tcp_mem_dereg(void *instance, struct tw_driver_mr *handle)
{
	struct tw_tcp *t = instance;
	struct tw_tcp_mr *mr = handle->handle;

	tw_list_walk(&t->paths, struct tw_tcp_path, p, node) {
		if (p->in_mr == mr) {
			p->in_mr = NULL;
			tw_tcp_send_ended(p, p->in_id, TW_EPERM);
		}
		/* The stream cannot go on after half a piece. */
		if (drop_jobs(p, mr, NULL))
			tw_tcp_end(p);
		if (!tw_list_empty(&p->busy))
			tw_tcp_flush(p);
	}
	tdelete(mr, &t->mrs, by_key);
	free(mr);
}

struct tw_tcp_op *tw_tcp_op_find(struct tw_tcp_path *p, uint64_t id, bool put)
{
	tw_list_walk(&p->ops, struct tw_tcp_op, op, node) {
		if (op->id == id && op->put == put)
			return op;
	}
	return NULL;
}

/* Nothing uses its memory any more. */
static void op_leave(struct tw_tcp_path *p, struct tw_tcp_op *op)
{
	tw_list_del(&op->node);
	p->nreads -= !op->put;
	if (p->in_op == op)
		p->in_op = NULL;
	if (op->put && drop_jobs(p, NULL, op))
		tw_tcp_end(p);
}

void tw_tcp_op_over(struct tw_tcp_path *p, struct tw_tcp_op *op, enum tw_err err)
{
	op_leave(p, op);
	p->t->host.ended(p->t->host.owner, op->cookie, err);
	free(op);
}

void tw_tcp_cancel(void *instance, void *cookie)
{
	struct tw_tcp *t = instance;

	tw_list_walk(&t->paths, struct tw_tcp_path, p, node) {
		tw_list_walk(&p->ops, struct tw_tcp_op, op, node) {
			if (op->cookie != cookie)
				continue;
			op_leave(p, op);
			free(op);
			return;
		}
	}
}

void tw_tcp_send_ended(struct tw_tcp_path *p, uint64_t id, enum tw_err err)
{
	struct tw_tcp_head h = {.kind = TW_TCP_ENDED, .id = id, .address = err};

	if (!tw_tcp_queue(p, &h, sizeof(h)))
		tw_tcp_end(p);
}

void tw_tcp_serve(struct tw_tcp_path *p, const struct tw_tcp_head *h)
{
	struct tw_tcp_mr *mr = tw_tcp_mr_find(p->t, h->key, TW_MEM_READ, h->address, h->total);
	struct tw_tcp_job *j = mr && h->total ? calloc(1, sizeof(*j)) : NULL;

	if (p->tx_shutdown)
		goto out;
	if (!j) {
		tw_tcp_send_ended(p, h->id, TW_EPERM);
		return;
	}
	if (p->serving == TW_TCP_SERVED) {
		tw_tcp_end(p);
		goto out;
	}
	p->serving++;
	j->id = h->id;
	j->left = h->total;
	j->mr = mr;
	j->own = (struct iovec){(void *)(uintptr_t)h->address, h->total};
	j->from.iov = &j->own;
	tw_list_add_tail(&p->jobs, &j->node);
	tw_tcp_flush(p);
	return;
out:
	free(j);
}

static struct tw_tcp_op *tcp_rma_op_new(struct tw_tcp_path *p, const struct iovec *iov,
					unsigned niov, bool put, void *cookie)
{
	struct tw_tcp_op *op = malloc(sizeof(*op) + niov * sizeof(*iov));

	if (!op)
		return NULL;
	*op = (struct tw_tcp_op){.cookie = cookie, .id = p->t->next_id++, .put = put};
	for (unsigned i = 0; i < niov; i++) {
		op->iov[i] = iov[i];
		op->left += iov[i].iov_len;
	}
	op->to.iov = op->iov;
	tw_list_add_tail(&p->ops, &op->node);
	p->nreads += !put;
	return op;
}

/* Requests the data. */
static bool rma_begin_get(struct tw_tcp_path *p, struct tw_tcp_op *op, uint64_t address,
			  uint64_t key)
{
	struct tw_tcp_head h = {.kind = TW_TCP_READ,
				.id = op->id,
				.address = address,
				.key = key,
				.total = op->left};

	return tw_tcp_queue(p, &h, sizeof(h));
}

static bool begin_put(struct tw_tcp_path *p, struct tw_tcp_op *op, uint64_t address, uint64_t key)
{
	struct tw_tcp_job *j;

	if (p->tx_shutdown)
		return true;
	j = malloc(sizeof(*j));
	if (!j)
		return false;
	*j = (struct tw_tcp_job){.id = op->id,
				 .left = op->left,
				 .address = address,
				 .key = key,
				 .op = op,
				 .from = op->to};
	tw_list_add_tail(&p->jobs, &j->node);
	return true;
}

enum tw_err tw_tcp_rma(void *path, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, uint32_t key_len, void *cookie)
{
	struct tw_tcp_path *p = path;
	struct tw_tcp_op *op;
	uint64_t k;

	if (p->ended)
		return TW_ELOST;
	if (key_len != sizeof(k))
		return TW_EPERM;
	op = tcp_rma_op_new(p, iov, niov, put, cookie);
	if (!op)
		return TW_AGAIN;
	memcpy(&k, key, sizeof(k));
	if (!(put ? begin_put : rma_begin_get)(p, op, address, le64toh(k))) {
		op_leave(p, op);
		free(op);
		return TW_AGAIN;
	}
	tw_tcp_flush(p);
	return TW_PENDING;
}
