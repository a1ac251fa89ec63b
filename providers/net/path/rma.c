/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory. A transfer that a fault interrupts is started again on the next
 * path. A key is valid for the driver that made it: if the next path is another
 * driver's, transfers end with TW_EPERM and the engine sends the data.
 *
 * Long gets go in parts by all paths of that driver: each part by the path that will have it
 * first, by what it has under way and what it has carried lately. So each has its share.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cursor.h"
#include "providers/net/session.h"

#define TRIES 4			 /* of one transfer */
#define SPREAD_MIN (1u << 20)	 /* bytes, in parts by several paths */
#define SPREAD_PART (256u << 10) /* bytes of a part */
#define MEASURE_US 100		 /* the least time that tells what a path carries */
#define RATE_SHIFT 20		 /* rates are in 2^-20 bytes a tick */

/* A key as it is sent. */
struct key {
	char name[7];	/* of the driver */
	uint8_t len;	/* of its key */
	uint64_t delta; /* from the program's addresses to the driver's */
	uint8_t key[TW_KEY_MAX - 16];
} TW_WIRE;
_Static_assert(sizeof(struct key) == TW_KEY_MAX, "wire format");
_Static_assert(sizeof(((struct key *)0)->key) >= TW_DRIVER_KEY, "it fits");

struct mr {
	struct tw_list node;
	struct tw_net_adapter *a;
	struct tw_driver_mr mr;
};

/* Frees it. True: its transfer has ended with it, so. */
static bool op_free(struct tw_net_op *op, void **cookie, enum tw_err *err)
{
	struct tw_net_whole *w = op->whole;

	*cookie = op->cookie;
	tw_list_del(&op->node);
	op->link->nops--;
	free(op);
	if (!w)
		return true;
	if (*err != TW_OK)
		w->err = *err;
	if (--w->left)
		return false;
	*cookie = w->cookie;
	*err = w->err;
	free(w);
	return true;
}

/* Tells the engine and frees it. */
static void op_end(struct tw_net_op *op, enum tw_err err)
{
	struct tw_net_link *l = op->link;
	void *cookie;

	if (op_free(op, &cookie, &err))
		l->ep->host->up->ended(&l->link, cookie, err);
}

/*
 * Whether a path would be done with it earlier than another. One whose rate is not known yet
 * counts as like the other.
 */
static bool sooner(const struct tw_net_op *op, const struct tw_net_path *a,
		   const struct tw_net_path *b)
{
	uint64_t of_a = a->rate ? a->rate : b->rate, of_b = b->rate ? b->rate : a->rate;

	if (!of_a)
		of_a = of_b = 1;
	return (double)(a->flying + op->len) / (double)of_a <
	       (double)(b->flying + op->len) / (double)of_b;
}

/*
 * The path for it, NULL if its key is of none. A put that was under way may still change the
 * other side's memory until that side has left the path.
 */
static struct tw_net_path *path_for(struct tw_net_link *l, const struct tw_net_op *op)
{
	struct tw_net_path *best = l->first;

	for (unsigned i = 0; i < l->npaths && !op->put; i++)
		if (l->paths[i].bound && l->paths[i].way.adapter == op->of &&
		    (best->way.adapter != op->of || sooner(op, &l->paths[i], best)))
			best = &l->paths[i];
	return best->way.adapter == op->of ? best : NULL;
}

static bool may_be_posted(const struct tw_net_op *op)
{
	return !op->put || !op->tries || op->path->bound || op->path->left;
}

static void posted(struct tw_net_op *op, struct tw_net_path *p)
{
	struct tw_net_link *l = op->link;

	op->tries++;
	op->posted = p->way.adapter;
	op->epoch = p->epoch;
	op->path = p;
	if (!p->flying && tw_net_many_ways(l)) {
		p->progress = p->since = tw_clock();
		p->moved = 0;
		tw_net_timer(l->ep, p->progress + tw_clock_us(TW_NET_STATUS_US));
	}
	p->flying += op->len;
}

static void op_post(struct tw_net_op *op)
{
	struct tw_net_link *l = op->link;
	struct tw_net_path *p = path_for(l, op);
	enum tw_err err = TW_EPERM;

	if (!may_be_posted(op))
		return;
	if (p && op->tries < TRIES)
		err = op->of->driver->rma(p->path, op->put, op->iov, op->niov, op->address, op->key,
					  op->key_len, op);
	if (err == TW_AGAIN)
		tw_net_work(l);
	else if (err == TW_PENDING)
		posted(op, p);
	else
		op_end(op, err == TW_ELOST ? TW_EPERM : err);
}

/* It has ended: what its path carries. */
static void measure(struct tw_net_link *l, const struct tw_net_op *op, struct tw_net_path *p)
{
	uint64_t rate;

	p->flying -= op->len;
	p->carried += op->len;
	if (!tw_net_many_ways(l))
		return;
	p->moved += op->len;
	p->progress = tw_clock();
	/* The time of the last one is that of a round trip, which says less. */
	if (p->flying && p->progress - p->since >= tw_clock_us(MEASURE_US)) {
		rate = (p->moved << RATE_SHIFT) / (p->progress - p->since);
		p->rate = tw_max(p->rate ? (7 * p->rate + rate) / 8 : rate, (uint64_t)1);
		p->since = p->progress;
		p->moved = 0;
	}
	tw_net_path_show(l);
}

/* It has ended at its driver; one whose path was lost is posted again. */
static void op_over(struct tw_net_op *op)
{
	struct tw_net_link *l = op->link;
	struct tw_net_path *p = tw_net_path_since(l, op->epoch);

	op->over = false;
	op->posted = NULL;
	if (p)
		measure(l, op, p);
	if (op->err != TW_ELOST || l->state != TW_NET_UP)
		op_end(op, op->err);
	else if (p && p->bound)
		tw_net_path_broken(l, p);
}

static struct tw_net_op *first_over(const struct tw_net_link *l)
{
	tw_list_walk(&l->ops, struct tw_net_op, op, node) {
		if (op->over)
			return op;
	}
	return NULL;
}

void tw_net_ops_flush(struct tw_net_link *l)
{
	struct tw_net_op *over;

	/* The end of one may end a path, and with that others, also before it. */
	while ((over = first_over(l)))
		op_over(over);
	tw_list_walk(&l->ops, struct tw_net_op, op, node) {
		if (!l->first->bound || l->state != TW_NET_UP)
			return;
		if (!op->posted)
			op_post(op);
	}
}

/* A transfer, or a part of one; NULL without memory. */
static struct tw_net_op *net_rma_op_new(const struct tw_net_op *like, const struct iovec *iov,
					unsigned niov, uint64_t from, uint64_t len)
{
	struct tw_net_op *op = malloc(sizeof(*op) + niov * sizeof(*iov));
	struct tw_cursor place = {iov, 0};
	struct tw_net_link *l = like->link;

	if (!op)
		return NULL;
	*op = *like;
	op->address += from;
	op->len = len;
	op->iov = (struct iovec *)(op + 1);
	tw_cursor_advance(&place, from);
	op->niov = tw_cursor_pieces(&place, len, op->iov, niov);
	tw_list_add_tail(&l->ops, &op->node);
	l->nops++;
	return op;
}

/* How many paths can carry it at once. */
static unsigned usable(const struct tw_net_link *l, const struct tw_net_adapter *a)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->npaths; i++)
		n += l->paths[i].bound && l->paths[i].way.adapter == a;
	return n;
}

/* In parts, so that all paths carry some; false: it goes as a whole. */
static bool spread(struct tw_net_op *like, const struct iovec *iov, unsigned niov)
{
	struct tw_net_link *l = like->link;

	if (like->put || like->len < SPREAD_MIN)
		return false;
	tw_net_path_more(l);
	if (usable(l, like->of) < 2)
		return false;
	like->whole = malloc(sizeof(*like->whole));
	if (!like->whole)
		return false;
	*like->whole = (struct tw_net_whole){.cookie = like->cookie};
	for (uint64_t at = 0; at < like->len && like->whole->err == TW_OK; at += SPREAD_PART) {
		uint64_t len = tw_min(like->len - at, (uint64_t)SPREAD_PART);

		/* Without memory the engine has the rest sent in another way. */
		if (net_rma_op_new(like, iov, niov, at, len))
			like->whole->left++;
		else
			like->whole->err = TW_EPERM;
	}
	if (like->whole->left)
		return true;
	free(like->whole);
	like->whole = NULL;
	return false;
}

enum tw_err tw_net_rma(struct tw_link *link, bool put, const struct iovec *iov, unsigned niov,
		       uint64_t address, const void *key, void *cookie)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);
	struct tw_net_op like;
	struct key k;

	memcpy(&k, key, sizeof(k));
	like = (struct tw_net_op){
		.link = l, .cookie = cookie, .address = address + k.delta, .put = put};
	for (unsigned i = 0; i < niov; i++)
		like.len += iov[i].iov_len;
	if (like.len == 0)
		return TW_OK;
	if (l->state != TW_NET_UP)
		return TW_ELOST;
	if (l->nops >= TW_NET_OPS)
		return TW_AGAIN;
	like.of = tw_net_adapter_named(l->ep, k.name, sizeof(k.name));
	like.key_len = k.len;
	if (!like.of || k.len > sizeof(k.key))
		return TW_EPERM;
	memcpy(like.key, k.key, sizeof(like.key));
	if (!(tw_net_many_ways(l) && spread(&like, iov, niov)) &&
	    !net_rma_op_new(&like, iov, niov, 0, like.len))
		return TW_AGAIN;
	/* Posted later: it may fail, and upcalls are not allowed here. */
	tw_net_work(l);
	return TW_PENDING;
}

void tw_net_ended(void *owner, void *cookie, enum tw_err err)
{
	struct tw_net_op *op = cookie;

	(void)owner;
	op->over = true;
	op->err = err;
	tw_net_work(op->link);
}

void tw_net_ops_unpost(struct tw_net_link *l)
{
	tw_list_walk(&l->ops, struct tw_net_op, op, node) {
		if (op->posted && !op->posted->instance)
			op->posted = NULL;
	}
}

void tw_net_ops_end(struct tw_net_link *l, bool tell)
{
	while (!tw_list_empty(&l->ops)) {
		struct tw_net_op *op = tw_list_first(&l->ops, struct tw_net_op, node);
		enum tw_err err = op->over ? op->err : TW_ELOST;
		void *cookie;

		/* Stops the driver from writing to memory that the program gets back. */
		if (op->posted && !op->over && op->posted->driver->cancel)
			op->posted->driver->cancel(op->posted->instance, op);
		else if (op->posted && !op->over)
			tw_net_adapter_reset(op->posted);
		if (tell)
			op_end(op, err);
		else
			op_free(op, &cookie, &err);
	}
}

enum tw_err tw_net_mem_reg(struct tw_link *link, void *addr, size_t len, unsigned rights,
			   struct tw_mem_reg *mr)
{
	struct tw_net_link *l = tw_container(link, struct tw_net_link, link);
	struct tw_net_adapter *a = l->first->way.adapter;
	struct key k = {.delta = 0};
	enum tw_err err;
	struct mr *m;

	if (!l->first->bound || !a->caps.has_rma)
		return TW_EPERM;
	m = malloc(sizeof(*m));
	if (!m)
		return TW_ENOMEM;
	err = a->driver->mem_reg(a->instance, addr, len, rights, &m->mr);
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
	tw_list_walk(&l->mrs, struct mr, m, node) {
		if (!of) {
			mr_end(m);
		} else if (m->a == of) {
			of->driver->mem_dereg(of->instance, &m->mr);
			m->a = NULL;
		}
	}
}
