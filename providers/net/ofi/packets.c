/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out and in, and the operations that libfabric gives back when they are over. */
#include "providers/net/ofi/ofi.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/sys.h"

#define CHUNK 64	     /* operations allocated at a time */
#define LOOK_MAX_NS 20000000 /* between two looks, where no descriptor tells of packets */

struct chunk {
	struct tw_list node;
	struct fid_mr *mr;
	char *bounce;
	struct tw_ofi_op ops[CHUNK];
};

static bool grow(struct tw_ofi *o)
{
	struct chunk *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	if (o->local_mr) {
		c->bounce = malloc((size_t)CHUNK * TW_OFI_PACKET);
		if (c->bounce)
			c->mr = tw_ofi_register(o, c->bounce, (size_t)CHUNK * TW_OFI_PACKET,
						FI_SEND);
		if (!c->mr) {
			free(c->bounce);
			free(c);
			return false;
		}
	}
	tw_list_add_tail(&o->chunks, &c->node);
	for (unsigned i = 0; i < CHUNK; i++) {
		struct tw_ofi_op *op = &c->ops[i];

		if (c->mr) {
			op->bounce = c->bounce + (size_t)i * TW_OFI_PACKET;
			op->desc = fi_mr_desc(c->mr);
		}
		tw_list_add_tail(&o->free_ops, &op->node);
	}
	return true;
}

struct tw_ofi_op *tw_ofi_op_get(struct tw_ofi *o, enum tw_ofi_kind kind)
{
	struct tw_ofi_op *op;

	if (tw_list_empty(&o->free_ops) && !grow(o))
		return NULL;
	op = tw_list_first(&o->free_ops, struct tw_ofi_op, node);
	tw_list_del(&op->node);
	op->kind = kind;
	return op;
}

void tw_ofi_op_put(struct tw_ofi *o, struct tw_ofi_op *op)
{
	tw_list_add_tail(o->free_ops.next, &op->node);
}

void tw_ofi_ops_free(struct tw_ofi *o)
{
	struct tw_list *n, *tmp;

	tw_list_each(&o->chunks, n, tmp) {
		struct chunk *c = tw_container(n, struct chunk, node);

		if (c->mr)
			fi_close(&c->mr->fid);
		free(c->bounce);
		free(c);
	}
}

/* Out and in ------------------------------------------------------------------ */

enum tw_err tw_ofi_send(void *path, const void *data, uint32_t len, bool more, void *cookie)
{
	struct tw_ofi_path *p = path;
	struct tw_ofi *o = p->o;
	struct tw_ofi_op *op;
	ssize_t rc;

	(void)more;
	if (!p->peer)
		return TW_AGAIN;
	if (len <= o->info->tx_attr->inject_size) {
		rc = fi_inject(o->ep, data, len, p->peer->addr);
		return rc == 0 ? TW_OK : rc == -FI_EAGAIN ? TW_AGAIN : TW_ELOST;
	}
	op = tw_ofi_op_get(o, TW_OFI_SEND);
	if (!op)
		return TW_AGAIN;
	op->cookie = cookie;
	if (op->bounce)
		data = memcpy(op->bounce, data, len);
	rc = fi_send(o->ep, data, len, op->desc, p->peer->addr, op);
	if (rc == 0)
		return TW_PENDING;
	tw_ofi_op_put(o, op);
	return rc == -FI_EAGAIN ? TW_AGAIN : TW_ELOST;
}

static void post_rx(struct tw_ofi *o, struct tw_ofi_rx *rx)
{
	struct iovec iov = {rx->buf, o->rx_size};
	struct fi_msg m = {.msg_iov = &iov,
			   .desc = &rx->desc,
			   .iov_count = 1,
			   .addr = FI_ADDR_UNSPEC,
			   .context = &rx->op};

	rx->posted = fi_recvmsg(o->ep, &m, o->multi_recv ? FI_MULTI_RECV : 0) == 0;
}

void tw_ofi_post_all(struct tw_ofi *o)
{
	for (unsigned i = 0; i < o->nrx; i++)
		if (!o->rx[i].posted)
			post_rx(o, &o->rx[i]);
}

/* Deals with one completion; false when it is to be offered again. */
static bool complete(struct tw_ofi *o, const struct fi_cq_data_entry *e)
{
	struct tw_ofi_op *op = e->op_context;
	struct tw_ofi_rx *rx;

	if (!op)
		return true;
	switch (op->kind) {
	case TW_OFI_SEND:
		tw_ofi_op_put(o, op);
		o->host.sent(o->host.owner, op->cookie, true);
		return true;
	case TW_OFI_RMA:
		tw_ofi_rma_done(o, op, 0);
		return true;
	case TW_OFI_RECV:
		break;
	}
	rx = tw_container(op, struct tw_ofi_rx, op);
	if ((e->flags & FI_RECV) && e->len &&
	    !o->host.packet(o->host.owner, o->multi_recv ? e->buf : rx->buf, (uint32_t)e->len))
		return false;
	if (!o->multi_recv || (e->flags & FI_MULTI_RECV))
		post_rx(o, rx);
	return true;
}

static void failed(struct tw_ofi *o, const struct fi_cq_err_entry *e)
{
	struct tw_ofi_op *op = e->op_context;

	o->host.log(TW_LOG_DEBUG, "libfabric: %s (%d)", fi_strerror(e->err), e->prov_errno);
	if (!op)
		return;
	switch (op->kind) {
	case TW_OFI_SEND:
		tw_ofi_op_put(o, op);
		o->host.sent(o->host.owner, op->cookie, false);
		break;
	case TW_OFI_RMA:
		tw_ofi_rma_done(o, op, e->err);
		break;
	case TW_OFI_RECV:
		tw_container(op, struct tw_ofi_rx, op)->posted = false;
		break;
	}
}

static void read_errors(struct tw_ofi *o)
{
	struct fi_cq_err_entry e = {0};

	while (fi_cq_readerr(o->cq, &e, 0) == 1) {
		failed(o, &e);
		memset(&e, 0, sizeof(e));
	}
	tw_ofi_post_all(o);
}

/* What was read; false when something must wait for the next time. */
static bool work_off(struct tw_ofi *o, unsigned *n)
{
	while (o->next_cqe < o->ncqe) {
		if (!complete(o, &o->cqe[o->next_cqe]))
			return false;
		o->next_cqe++;
		++*n;
	}
	return true;
}

/* One reading of the queue; whether there may be more behind it. */
static bool read_queue(struct tw_ofi *o)
{
	ssize_t rc = fi_cq_read(o->cq, o->cqe, TW_OFI_CQ_BATCH);

	o->next_cqe = 0;
	o->ncqe = rc > 0 ? (unsigned)rc : 0;
	if (rc == -FI_EAVAIL)
		read_errors(o);
	if (rc != -FI_EAGAIN)
		o->look_ns = TW_OFI_LOOK_NS;
	return rc == TW_OFI_CQ_BATCH || rc == -FI_EAVAIL;
}

unsigned tw_ofi_progress(void *instance)
{
	struct tw_ofi *o = instance;
	unsigned n = 0;
	bool more;

	if (!work_off(o, &n))
		return n;
	do
		more = read_queue(o);
	while (work_off(o, &n) && more);
	return n;
}

/* Looks now, and again when the timer comes: later each time in vain. */
static bool arm_timer(struct tw_ofi *o)
{
	struct itimerspec when = {.it_value = {0}};
	uint64_t fired;

	if (tw_sys_read(o->fd, &fired, sizeof(fired)) == sizeof(fired) && o->look_ns < LOOK_MAX_NS)
		o->look_ns += o->look_ns / 8;
	/* In any case: who looked before us may rely on it. */
	when.it_value.tv_nsec = o->look_ns;
	timerfd_settime(o->fd, 0, &when, NULL);
	return read_queue(o) || o->ncqe;
}

bool tw_ofi_arm(void *instance)
{
	struct tw_ofi *o = instance;
	struct fid *fid = &o->cq->fid;
	struct pollfd p = {.fd = o->fd, .events = POLLIN};

	if (o->next_cqe < o->ncqe)
		return true;
	if (o->timed)
		return arm_timer(o);
	return fi_trywait(o->fabric, &fid, 1) != 0 || tw_sys_poll(&p, 1, 0) > 0;
}
