/* SPDX-License-Identifier: BSD-2-Clause */
#include "providers/net/ofi/ofi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

/* Paths ---------------------------------------------------------------------- */

static enum tw_err path_new(void *instance, const struct sockaddr_storage *board,
			    const struct tw_driver_tokens *tokens, struct tw_driver_address *mine,
			    void **out)
{
	struct tw_ofi *o = instance;
	struct tw_ofi_path *p;

	/* libfabric has chosen its device already. */
	if (board)
		return TW_EUNREACH;
	p = calloc(1, sizeof(*p));
	if (!p)
		return TW_ENOMEM;
	p->number = tw_slots_add(&o->paths, p);
	if (p->number == TW_SLOTS_MAX) {
		free(p);
		return TW_ENOMEM;
	}
	p->o = o;
	p->tokens = *tokens;
	*mine = o->name;
	memcpy(mine->bytes + mine->len, &p->number, sizeof(p->number));
	mine->len += (uint32_t)sizeof(p->number);
	*out = p;
	return TW_OK;
}

static enum tw_err path_bind(void *path, const struct tw_driver_address *other)
{
	TW_NOT_CANCELLED;
	struct tw_ofi_path *p = path;
	struct tw_ofi *o = p->o;
	struct tw_ofi_peer *peer;

	/* libfabric reads a full address, whatever its length here. */
	if (other->len != o->name.len + sizeof(p->other))
		return TW_EPROTO;
	memcpy(&p->other, other->bytes + o->name.len, sizeof(p->other));
	tw_list_walk(&o->peers, struct tw_ofi_peer, known, node) {
		peer = known;
		if (memcmp(peer->name.bytes, other->bytes, o->name.len) == 0)
			goto found;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return TW_ENOMEM;
	peer->name = *other;
	if (fi_av_insert(o->av, other->bytes, 1, &peer->addr, 0, NULL) != 1) {
		free(peer);
		return TW_EPROTO;
	}
	tw_list_add_tail(&o->peers, &peer->node);
found:
	peer->users++;
	p->peer = peer;
	return TW_OK;
}

static void path_free(void *path)
{
	TW_NOT_CANCELLED;
	struct tw_ofi_path *p = path;
	struct tw_ofi_peer *peer = p->peer;

	if (peer && --peer->users == 0) {
		fi_av_remove(p->o->av, &peer->addr, 1, 0);
		tw_list_del(&peer->node);
		free(peer);
	}
	p->o->paths.of[p->number] = NULL;
	free(p);
}

/* Opening and closing -------------------------------------------------------- */

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

/*
 * tcp;ofi_rxm of libfabric 1.17 crashes when it is closed with reads under way. It
 * moves nothing unless it is polled: after a fault it is left open, with its memory.
 */
static bool better_left(const struct tw_ofi *o)
{
	return o->ep && !tw_list_empty(&o->rmas) &&
	       strstr(o->info->fabric_attr->prov_name, "tcp") &&
	       o->info->domain_attr->data_progress == FI_PROGRESS_MANUAL;
}

/* Keeps them reachable, so that leak checkers do not report them. */
static _Atomic(struct tw_ofi *) left_open;

static void ofi_do_close(void *instance)
{
	TW_NOT_CANCELLED;
	struct tw_ofi *o = instance;

	if (better_left(o)) {
		o->host.log(TW_LOG_INFO, "libfabric has transfers under way: not closed");
		o->state = TW_OFI_LEFT;
		o->left_before = atomic_exchange(&left_open, o);
		return;
	}
	/* The endpoint first: after that nothing is under way. */
	close_fid(o->ep ? &o->ep->fid : NULL);
	tw_ofi_rma_drop(o);
	close_fid(o->rx_mr ? &o->rx_mr->fid : NULL);
	o->host.packets_back(o->host.owner);
	if (o->timed)
		o->host.close_fd(o->fd);
	close_fid(o->cq ? &o->cq->fid : NULL);
	close_fid(o->av ? &o->av->fid : NULL);
	close_fid(o->domain ? &o->domain->fid : NULL);
	close_fid(o->fabric ? &o->fabric->fid : NULL);
	tw_list_walk(&o->peers, struct tw_ofi_peer, peer, node)
		free(peer);
	fi_freeinfo(o->info);
	free(o->paths.of);
	free(o->rx_mem);
	o->state = TW_OFI_CLOSED;
	if (!o->inside)
		free(o);
}

/* The descriptor of the queue, or a timer of our own where it has none of use. */
static int open_descriptor(struct tw_ofi *o)
{
	/* net, of libfabric 1.17: readable for ever after the first packet. */
	bool stuck = strncmp(o->info->fabric_attr->prov_name, "net", 3) == 0;

	if (!stuck && fi_control(&o->cq->fid, FI_GETWAIT, &o->fd) == 0)
		return 0;
	o->timed = true;
	o->look_ns = TW_OFI_LOOK_NS;
	o->fd = o->host.own_fd(tw_sys_timer());
	return o->fd < 0 ? -FI_EMFILE : 0;
}

static int ofi_open_queues(struct tw_ofi *o)
{
	struct fi_cq_attr cq = {.size = o->info->rx_attr->size + o->info->tx_attr->size,
				.format = FI_CQ_FORMAT_DATA,
				.wait_obj = FI_WAIT_FD};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	int rc = fi_cq_open(o->domain, &cq, &o->cq, NULL);

	if (rc != 0) {
		cq.wait_obj = FI_WAIT_NONE;
		rc = fi_cq_open(o->domain, &cq, &o->cq, NULL);
	}
	if (rc == 0)
		rc = open_descriptor(o);
	if (rc != 0)
		return rc;
	if (fi_av_open(o->domain, &av, &o->av, NULL) == 0)
		return 0;
	/* Some providers support only the other type, whatever they report. */
	av.type = FI_AV_MAP;
	return fi_av_open(o->domain, &av, &o->av, NULL);
}

static int ofi_open_endpoint(struct tw_ofi *o)
{
	size_t least = TW_OFI_PACKET;
	int rc = fi_endpoint(o->domain, o->info, &o->ep, NULL);

	if (rc == 0)
		rc = fi_ep_bind(o->ep, &o->av->fid, 0);
	if (rc == 0)
		rc = fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV);
	/* Without it a buffer is filled to the last byte, and packets are truncated. */
	if (rc == 0 && o->multi_recv)
		o->multi_recv = fi_setopt(&o->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
					  &least, sizeof(least)) == 0;
	if (rc == 0)
		rc = fi_enable(o->ep);
	return rc;
}

static int open_buffers(struct tw_ofi *o)
{
	/* More buffers if each takes one packet only. */
	o->nrx = o->multi_recv ? TW_OFI_RX_BUFFERS : tw_countof(o->rx);
	o->rx_size = o->multi_recv ? TW_OFI_RX_SIZE : TW_OFI_PACKET;
	o->rx_mem = malloc(o->nrx * o->rx_size);
	if (!o->rx_mem)
		return -FI_ENOMEM;
	if (o->local_mr) {
		o->rx_mr = tw_ofi_register(o, o->rx_mem, o->nrx * o->rx_size, FI_RECV);
		if (!o->rx_mr)
			return -FI_ENOMEM;
	}
	for (unsigned i = 0; i < o->nrx; i++) {
		o->rx[i].op.kind = TW_OFI_RECV;
		o->rx[i].buf = o->rx_mem + i * o->rx_size;
		o->rx[i].desc = o->rx_mr ? fi_mr_desc(o->rx_mr) : NULL;
	}
	tw_ofi_post_all(o);
	return o->rx[0].posted ? 0 : -FI_EOTHER;
}

static int own_name(struct tw_ofi *o)
{
	size_t len = sizeof(o->name.bytes) - sizeof(uint32_t); /* the number of a path follows */
	int rc = fi_getname(&o->ep->fid, o->name.bytes, &len);

	o->name.len = (uint32_t)len;
	return rc;
}

static enum tw_err ofi_do_open(const struct tw_driver_host *host, void **instance,
			       struct tw_driver_caps *caps)
{
	struct tw_ofi *o = calloc(1, sizeof(*o));
	int mode, rc;

	if (!o)
		return TW_ENOMEM;
	o->host = *host;
	o->fd = -1;
	tw_list_init(&o->peers);
	tw_list_init(&o->rmas);
	o->info = tw_ofi_choose(host);
	if (!o->info) {
		free(o);
		return TW_EUNREACH;
	}
	mode = o->info->domain_attr->mr_mode;
	o->local_mr = mode & FI_MR_LOCAL;
	o->virt_addr = mode & FI_MR_VIRT_ADDR;
	o->key_max = (uint32_t)o->info->domain_attr->mr_key_size * 8;
	/* rxd truncates packets that do not fit into the rest of such a buffer. */
	o->multi_recv = (o->info->caps & FI_MULTI_RECV) &&
			!strstr(o->info->fabric_attr->prov_name, "rxd");
	rc = fi_fabric(o->info->fabric_attr, &o->fabric, NULL);
	if (rc == 0)
		rc = fi_domain(o->fabric, o->info, &o->domain, NULL);
	if (rc == 0)
		rc = ofi_open_queues(o);
	if (rc == 0)
		rc = ofi_open_endpoint(o);
	if (rc == 0)
		rc = open_buffers(o);
	if (rc == 0)
		rc = own_name(o);
	if (rc != 0) {
		host->log(TW_LOG_WARN, "libfabric, %s: %s", o->info->fabric_attr->prov_name,
			  fi_strerror(-rc));
		ofi_do_close(o);
		return TW_EUNREACH;
	}
	host->log(TW_LOG_INFO, "libfabric %s on %s", o->info->fabric_attr->prov_name,
		  o->info->domain_attr->name);
	*instance = o;
	caps->max_packet = (uint32_t)(tw_min(o->info->ep_attr->max_msg_size, TW_OFI_PACKET) -
				      sizeof(struct tw_ofi_head));
	caps->has_rma = o->info->caps & FI_RMA;
	caps->fd = o->fd;
	return TW_OK;
}

static void ofi_ports(const struct tw_settings *settings, char *text, size_t size)
{
	(void)settings;
	snprintf(text, size,
		 "the ports of libfabric (FI_TCP_PORT_LOW_RANGE, FI_TCP_PORT_HIGH_RANGE)");
}

const struct tw_driver tw_driver_ofi = {
	.version = TW_DRIVER_VERSION,
	.name = "ofi",
	.packet_size = sizeof(struct tw_ofi_packet),
	.open = ofi_do_open,
	.close = ofi_do_close,
	.slab_reg = tw_ofi_slab_reg,
	.slab_dereg = tw_ofi_slab_dereg,
	.path_new = path_new,
	.path_bind = path_bind,
	.path_free = path_free,
	.ports = ofi_ports,
	.send = tw_ofi_send,
	.rma = tw_ofi_rma,
	.mem_reg = tw_ofi_mem_reg,
	.mem_dereg = tw_ofi_mem_dereg,
	.progress = tw_ofi_progress,
	.arm = tw_ofi_arm,
};
