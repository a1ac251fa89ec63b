/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory. A transfer that a fault interrupts is started again on the next
 * path. A key is valid for the driver that made it: if the next path is another
 * driver's, transfers end with TW_EPERM and the engine sends the data.
 */
#include <stdlib.h>
#include <string.h>

#include "providers/net/session.h"

#define TRIES 4 /* of one transfer */

/* A key as it is sent. */
struct key {
	char name[7];	/* of the driver */
	uint8_t len;	/* of its key */
	uint64_t delta; /* from the program's addresses to the driver's */
	uint8_t key[TW_KEY_MAX - 16];
};
_Static_assert(sizeof(struct key) == TW_KEY_MAX, "wire format");
_Static_assert(sizeof(((struct key *)0)->key) >= TW_DRIVER_KEY, "it fits");

struct mr {
	struct tw_list node;
	struct tw_net_adapter *a;
	struct tw_driver_mr mr;
};

static struct tw_net_adapter *adapter_named(struct tw_net_ep *ep, const char *name)
{
	for (unsigned i = 0; i < ep->nadapters; i++)
		if (strncmp(ep->adapters[i].driver->name, name, sizeof(((struct key *)0)->name)) ==
		    0)
			return &ep->adapters[i];
	return NULL;
}

static void op_free(struct tw_net_op *op)
{
	tw_list_del(&op->node);
	op->link->nops--;
	free(op);
}

/* Tells the engine and frees it. */
static void op_end(struct tw_net_op *op, enum tw_err err)
{
	struct tw_net_link *l = op->link;
	void *cookie = op->cookie;

	op_free(op);
	l->ep->host->up->ended(&l->link, cookie, err);
}

static void op_post(struct tw_net_op *op)
{
	struct tw_net_link *l = op->link;
	const struct tw_net_path *p = &l->paths[0];
	struct tw_net_adapter *a = p->way.adapter;
	enum tw_err err = TW_EPERM;

	if (op->of == a && op->tries < TRIES)
		err = a->driver->rma(p->path, op->put, op->iov, op->niov, op->address, op->key,
				     op->key_len, op);
	if (err == TW_AGAIN) {
		tw_net_work(l);
	} else if (err == TW_PENDING) {
		op->tries++;
		op->posted = a;
		op->epoch = p->epoch;
	} else {
		op_end(op, err == TW_ELOST ? TW_EPERM : err);
	}
}

void tw_net_ops_flush(struct tw_net_link *l)
{
	struct tw_list *n, *tmp;

	tw_list_each(&l->ops, n, tmp) {
		struct tw_net_op *op = tw_container(n, struct tw_net_op, node);

		if (!l->paths[0].bound || l->state != TW_NET_UP)
			return;
		if (!op->posted)
			op_post(op);
	}
}

static enum tw_err start(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
			 uint64_t address, const void *key, void *cookie)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);
	struct tw_net_op *op;
	struct key k;
	size_t len = 0;

	for (unsigned i = 0; i < niov; i++)
		len += iov[i].iov_len;
	if (len == 0)
		return TW_OK;
	if (l->state != TW_NET_UP)
		return TW_ELOST;
	if (l->nops >= TW_NET_OPS)
		return TW_AGAIN;
	memcpy(&k, key, sizeof(k));
	op = malloc(sizeof(*op) + niov * sizeof(*iov));
	if (!op)
		return TW_AGAIN;
	*op = (struct tw_net_op){.link = l,
				 .cookie = cookie,
				 .address = address + k.delta,
				 .iov = (struct iovec *)(op + 1),
				 .put = put,
				 .of = adapter_named(l->ep, k.name),
				 .key_len = k.len};
	/* Drivers see no empty pieces. */
	for (unsigned i = 0; i < niov; i++)
		if (iov[i].iov_len)
			op->iov[op->niov++] = iov[i];
	memcpy(op->key, k.key, sizeof(op->key));
	if (!op->of || k.len > sizeof(k.key)) {
		free(op);
		return TW_EPERM;
	}
	if (!l->nops++ && tw_net_many_ways(l)) {
		l->progress = tw_clock();
		tw_net_timer(l->ep, l->progress + tw_clock_us(TW_NET_STATUS_US));
	}
	tw_list_add_tail(&l->ops, &op->node);
	/* Posted later: it may fail, and upcalls are not allowed here. */
	tw_net_work(l);
	return TW_PENDING;
}

enum tw_err tw_net_get(struct tw_link *link, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie)
{
	return start(link, false, iov, niov, address, key, cookie);
}

enum tw_err tw_net_put(struct tw_link *link, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie)
{
	return start(link, true, iov, niov, address, key, cookie);
}

void tw_net_ended(void *owner, void *cookie, enum tw_err err)
{
	struct tw_net_op *op = cookie;
	struct tw_net_link *l = op->link;
	struct tw_net_path *p = tw_net_path_since(l, op->epoch);

	(void)owner;
	op->posted = NULL;
	l->progress = tw_clock();
	if (err != TW_ELOST || l->state != TW_NET_UP) {
		op_end(op, err);
		return;
	}
	if (p && p->bound)
		tw_net_path_broken(l, p);
	if (l->paths[0].bound)
		tw_net_work(l);
}

void tw_net_ops_unpost(struct tw_net_link *l)
{
	struct tw_list *n, *tmp;

	tw_list_each(&l->ops, n, tmp) {
		struct tw_net_op *op = tw_container(n, struct tw_net_op, node);

		if (op->posted && !op->posted->instance)
			op->posted = NULL;
	}
}

bool tw_net_ops_posted(const struct tw_net_link *l)
{
	struct tw_list *n, *tmp;

	tw_list_each(&l->ops, n, tmp)
		if (tw_container(n, struct tw_net_op, node)->posted)
			return true;
	return false;
}

void tw_net_ops_end(struct tw_net_link *l, bool tell)
{
	while (!tw_list_empty(&l->ops)) {
		struct tw_net_op *op = tw_list_first(&l->ops, struct tw_net_op, node);

		/* Stops the driver from writing to memory that the program gets back. */
		if (op->posted && op->posted->driver->cancel)
			op->posted->driver->cancel(op->posted->instance, op);
		else if (op->posted)
			tw_net_adapter_reset(op->posted);
		if (tell)
			op_end(op, TW_ELOST);
		else
			op_free(op);
	}
}

enum tw_err tw_net_mem_reg(struct tw_link *link, void *addr, size_t len, struct tw_mem_reg *mr)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);
	struct tw_net_adapter *a = l->paths[0].way.adapter;
	struct key k = {.delta = 0};
	enum tw_err err;
	struct mr *m;

	if (!l->paths[0].bound || !a->caps.has_rma)
		return TW_EPERM;
	m = malloc(sizeof(*m));
	if (!m)
		return TW_ENOMEM;
	err = a->driver->mem_reg(a->instance, addr, len, &m->mr);
	if (err != TW_OK) {
		free(m);
		return err;
	}
	m->a = a;
	tw_list_add_tail(&l->mrs, &m->node);
	memcpy(k.name, a->driver->name, strnlen(a->driver->name, sizeof(k.name)));
	k.delta = m->mr.base - (uintptr_t)addr;
	k.len = (uint8_t)m->mr.key_len;
	memcpy(k.key, m->mr.key, m->mr.key_len);
	mr->address = (uintptr_t)addr;
	memcpy(mr->key, &k, sizeof(k));
	mr->handle = m;
	return TW_OK;
}

static void mr_end(struct mr *m)
{
	/* A driver that was closed has forgotten it. */
	if (m->a)
		m->a->driver->mem_dereg(m->a->instance, &m->mr);
	tw_list_del(&m->node);
	free(m);
}

void tw_net_mem_dereg(struct tw_link *link, struct tw_mem_reg *mr)
{
	(void)link;
	mr_end(mr->handle);
}

/* All of a link that ends; with an adapter, those that end with it. */
void tw_net_mrs_end(struct tw_net_link *l, const struct tw_net_adapter *of)
{
	struct tw_list *n, *tmp;

	tw_list_each(&l->mrs, n, tmp) {
		struct mr *m = tw_container(n, struct mr, node);

		if (!of) {
			mr_end(m);
		} else if (m->a == of) {
			of->driver->mem_dereg(of->instance, &m->mr);
			m->a = NULL;
		}
	}
}
