/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets out and in. */
#include "providers/net/ofi/ofi.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

#define LOOK_MAX_NS 20000000 /* the longest period of the timer */

bool tw_ofi_slab_reg(void *instance, struct tw_net_slab *slab)
{
	TW_NOT_CANCELLED;
	struct tw_ofi *o = instance;

	slab->handle = NULL;
	if (o->local_mr)
		slab->handle = tw_ofi_register(o, slab->mem, slab->len, FI_SEND);
	return slab->handle || !o->local_mr;
}

void tw_ofi_slab_dereg(struct tw_net_slab *slab)
{
	TW_NOT_CANCELLED;
	if (slab->handle)
		fi_close(&((struct fid_mr *)slab->handle)->fid);
}

enum tw_err tw_ofi_send(void *path, struct tw_net_packet *packet, bool more)
{
	TW_NOT_CANCELLED;
	struct tw_ofi_packet *k = (struct tw_ofi_packet *)packet;
	struct tw_ofi_path *p = path;
	struct tw_ofi *o = p->o;
	struct fid_mr *mr = packet->slab->handle;
	size_t len = sizeof(k->head) + packet->len;
	ssize_t rc;

	(void)more;
	if (!p->peer)
		return TW_AGAIN;
	k->head = (struct tw_ofi_head){.path = p->other};
	memcpy(k->head.token, p->tokens.other, sizeof(k->head.token));
	if (len <= o->info->tx_attr->inject_size) {
		rc = fi_inject(o->ep, &k->head, len, p->peer->addr);
	} else {
		k->op.kind = TW_OFI_SEND;
		rc = fi_send(o->ep, &k->head, len, mr ? fi_mr_desc(mr) : NULL, p->peer->addr,
			     &k->op);
		packet->users += rc == 0;
	}
	return rc == 0 ? TW_OK : rc == -FI_EAGAIN ? TW_AGAIN : TW_ELOST;
}

static void ofi_packet_post_rx(struct tw_ofi *o, struct tw_ofi_rx *rx)
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
			ofi_packet_post_rx(o, &o->rx[i]);
}

/* Passes on a packet of the other end of a path; false: not now. Drops all other packets. */
static bool packet_arrived(struct tw_ofi *o, const uint8_t *data, size_t len)
{
	const struct tw_ofi_path *p;
	struct tw_ofi_head h;

	if (len <= sizeof(h))
		return true;
	memcpy(&h, data, sizeof(h)); /* it may lie at any address */
	p = tw_slots_find(&o->paths, h.path);
	return !p || !tw_driver_token_is(p->tokens.mine, h.token) ||
	       o->host.packet(o->host.owner, p, data + sizeof(h), (uint32_t)(len - sizeof(h)));
}

/* Handles the end of one operation, with data or an error; false: not now. */
static bool packet_complete(struct tw_ofi *o, struct tw_ofi_op *op,
			    const struct fi_cq_data_entry *e, int error)
{
	struct tw_net_packet *packet;
	struct tw_ofi_rx *rx;

	if (!op)
		return true;
	switch (op->kind) {
	case TW_OFI_SEND:
		packet = &tw_container(op, struct tw_ofi_packet, op)->packet;
		if (error)
			o->host.failed(o->host.owner, packet);
		if (o->state == TW_OFI_OPEN)
			tw_net_packet_put(packet);
		return true;
	case TW_OFI_RMA:
		tw_ofi_rma_done(o, op, error);
		return true;
	case TW_OFI_RECV:
		break;
	}
	rx = tw_container(op, struct tw_ofi_rx, op);
	if (error) {
		rx->posted = false;
		return true;
	}
	if ((e->flags & FI_RECV) &&
	    !packet_arrived(o, o->multi_recv ? e->buf : (void *)rx->buf, e->len))
		return false;
	if (o->state == TW_OFI_OPEN && (!o->multi_recv || (e->flags & FI_MULTI_RECV)))
		ofi_packet_post_rx(o, rx);
	return true;
}

static void read_errors(struct tw_ofi *o)
{
	struct fi_cq_err_entry e = {0};

	while (o->state == TW_OFI_OPEN && fi_cq_readerr(o->cq, &e, 0) == 1) {
		o->host.log(TW_LOG_DEBUG, "libfabric: %s (%d)", fi_strerror(e.err), e.prov_errno);
		packet_complete(o, e.op_context, NULL, e.err);
		memset(&e, 0, sizeof(e));
	}
	if (o->state == TW_OFI_OPEN)
		tw_ofi_post_all(o);
}

/* Handles the completions read; false if some must wait. */
static bool packet_work_off(struct tw_ofi *o)
{
	while (o->state == TW_OFI_OPEN && o->next_cqe < o->ncqe) {
		const struct fi_cq_data_entry *e = &o->cqe[o->next_cqe];

		if (!packet_complete(o, e->op_context, e, 0))
			return false;
		o->next_cqe++;
	}
	return true;
}

/* Reads the queue once; whether there may be more. */
static bool read_queue(struct tw_ofi *o)
{
	ssize_t rc;

	if (o->state != TW_OFI_OPEN)
		return false;
	rc = fi_cq_read(o->cq, o->cqe, TW_OFI_CQ_BATCH);
	o->next_cqe = 0;
	o->ncqe = rc > 0 ? (unsigned)rc : 0;
	if (rc == -FI_EAVAIL)
		read_errors(o);
	if (rc != -FI_EAGAIN)
		o->look_ns = TW_OFI_LOOK_NS;
	return rc == TW_OFI_CQ_BATCH || rc == -FI_EAVAIL;
}

/* After calls that may have made upcalls. */
static void end_upcalls(struct tw_ofi *o)
{
	o->inside = false;
	if (o->state == TW_OFI_CLOSED)
		free(o);
}

void tw_ofi_progress(void *instance)
{
	TW_NOT_CANCELLED;
	struct tw_ofi *o = instance;
	bool more = true;

	o->inside = true;
	while (packet_work_off(o) && more)
		more = read_queue(o);
	end_upcalls(o);
}

/* Polls now, and again when the timer expires: later each time without packets. */
static bool arm_timer(struct tw_ofi *o)
{
	uint64_t fired;

	if (tw_sys_read(o->fd, &fired, sizeof(fired)) == sizeof(fired) && o->look_ns < LOOK_MAX_NS)
		o->look_ns += o->look_ns / 8;
	/* Always set: an earlier caller may rely on it. */
	tw_sys_timer_set(o->fd, (uint64_t)o->look_ns);
	return read_queue(o) || o->ncqe;
}

bool tw_ofi_arm(void *instance)
{
	TW_NOT_CANCELLED;
	struct tw_ofi *o = instance;
	struct fid *fid = &o->cq->fid;
	struct pollfd p = {.fd = o->fd, .events = POLLIN};

	if (o->next_cqe < o->ncqe)
		return true;
	if (o->timed) {
		bool found;

		o->inside = true;
		found = arm_timer(o) || o->state != TW_OFI_OPEN;
		end_upcalls(o);
		return found;
	}
	return fi_trywait(o->fabric, &fid, 1) != 0 || tw_sys_poll(&p, 1, 0) > 0;
}
